"""casrewind export: checkpoints as one stream."""

import sys
from collections.abc import Mapping

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history import lookup
from ...messages import age_in_words, plural
from ...remote import archive, outgoing
from ...remote import remote_config as configs
from ..grammar.options import REF, Command, Option, flag
from ..show.remote import saved_first_line
from ..show.text import human_size
from ..terminal.lines import remark
from . import OK, REMARKS, Done
from .push import remark_on_save

if TYPE_CHECKING:
    from ...context import Context
    from ...remote.remote_config import RemoteConfig
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind export @1 > turn.export", "casrewind export > all.export"),
    options=(
        REF._replace(help="the checkpoint to export (default: all checkpoints)", nargs="?"),
        flag("--plain", "do not encrypt, so that anyone who has the output can read it"),
        Option(("--key-file",), "read the key from FILE (default: the key of the remote)", "FILE"),
    ),
    more=(
        "Encrypts with the key in --key-file, or by default with the key of the remote. Without REF, or with last as REF, export saves "
        "the current files first, as push does. To send a checkpoint to another machine: casrewind export @1 | ssh HOST casrewind -C "
        "shop import -"
    ),
    saves=True, stays=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind export."""
    if sys.stdout.isatty():
        raise errors.UsageError("the export would go to the terminal", "casrewind export > FILE, or | ssh HOST casrewind import -")
    found = configs.find(context.store)
    master = None if options.plain else key_for_stream({}, options, found)
    if not options.plain and master is None:
        raise errors.RemoteError(
            "an export needs a key: this project has no remote",
            "give --key-file FILE, or --plain for no encryption",
        )
    first = outgoing.save_first(context) if options.ref in (None, "last") else outgoing.SavedFirst()
    is_incomplete = remark_on_save(first)
    points = None if options.ref is None else [lookup.checkpoint(context, options.ref)]
    made = archive.export(context, sys.stdout.buffer, master, points, None if found is None else found[1])
    done()
    how = "PLAIN: anyone who has it can read it" if master is None else "encrypted; import needs the same key"
    if line := saved_first_line(first):
        remark(line)
    which = "" if points is None else f" {points[0].id}, {age_in_words(points[0].created_ns)}"
    remark(f"exported {plural(made.checkpoints, 'checkpoint')}{which} ({human_size(made.size)}), {how}")
    return REMARKS if is_incomplete else OK


def key_for_stream(environ: Mapping[str, str], options: "ParsedOptions", found: "tuple[str, RemoteConfig] | None") -> bytes | None:
    """The key that is given for a stream, else that of the project's remote, else None."""
    given = configs.key_from(environ, file=options.key_file or "")
    return given if given is not None or found is None else configs.key(*found)
