"""casrewind purge: permanently removes content that should not be stored."""

import getpass
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from ... import errors
from ..._typing import TYPE_CHECKING, TypeVar
from ...errors import Declined
from ...gitignore.rules import RULE_FILES
from ...messages import plural, printable, shell_quoted_path
from ...model import domain as domains
from ...upkeep import purge as purging
from ...upkeep.purge import Gone, Purged
from ...upkeep.purge_text import MOST_TEXT, TextPurged, purge_text
from ...worktree import root as roots
from ..grammar.options import ASSUME_YES, DRY_RUN, JSON, Command, Option, flag
from ..plan.facts import find_unsent
from ..show import shapes
from ..show.text import SHOWN, human_size
from ..terminal.lines import note, print_json, print_line
from ..terminal.questions import agreed_for_good, must_ask_or_raise
from . import OK, REMARKS, Done
from .words import paths_of

if TYPE_CHECKING:
    from ...context import Context
    from ...remote.pushed import Unsent
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=(
        "casrewind purge .env --dry-run",
        "casrewind purge --glob '*.pem' --dry-run",
        "casrewind purge --text - < secret.txt",
    ),
    options=(
        Option(("path",), "a file, link or directory; purge removes identical content elsewhere, too", "PATH", nargs="?"),
        flag("--glob", "use PATH as a pattern (a git pathspec); purge lists every match before it asks"),
        Option(("--text",), "remove conversations, prompts, labels and git branches that contain the text on standard input", "-"),
        DRY_RUN._replace(help="show what purge would remove"),
        ASSUME_YES, JSON,
    ),
    usage=("[--glob] [-n] [-y] [--json] (PATH | --text -)",),
    more="You cannot undo a purge.",
    stays=True,
)

_Found = TypeVar("_Found")


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind purge."""
    if (options.path is None) == (options.text is None):
        raise errors.UsageError("purge needs a PATH, or a text on standard input with --text -")
    if options.glob and options.text is not None:
        raise errors.UsageError("purge --glob is for a PATH: a text is not a pattern")
    if options.text not in (None, "-"):
        raise errors.UsageError("purge --text accepts only -: the text is read from standard input, so that no other place holds it")
    try:
        if options.text is None:
            return _purge_path(context, options, done)
        return _purge_text(context, options, done)
    except Declined:
        print_line("nothing was purged")
        return OK


def _purge_path(context: "Context", options: "ParsedOptions", done: Done) -> int:
    confirm = _confirmation_if_needed(options, done, partial(_agreed_on_paths, whole=options.glob))
    given = os.fsencode(options.path)
    if given in domains.OUTSIDE_NAMES:  # stored names of external rule files
        places: tuple[bytes, ...] = (given,)
    elif options.glob:  # never guess a pattern: removal is permanent
        points = [point for point, _ in context.store.checkpoints()]
        places = paths_of(context, [options.path], points, options)
    else:
        places = roots.paths_below_root(context.root.path, [options.path], options.directory)
    found = purging.purge(context, places, confirm=confirm, dry_run=options.dry_run)
    remote = None if found.dry_run else find_unsent(context)
    done()
    if options.json:
        print_json({**_shape_of_paths(found), "remote": _shape_of_remote(remote)})
    else:
        _print_purged_paths(found)
    _warn_of_remote_copies(remote)
    return OK


def _warn_of_remote_copies(remote: "Unsent | None") -> None:
    """Name each machine that may have pushed what was purged."""
    if remote is None:
        return
    if remote.has_pushed:
        own = printable(remote.config.machine)
        note(f"{remote.config.url} may still hold it, in what {own} pushed: casrewind push sends everything again and empties that")
    for machine in remote.machines:
        note(f"{remote.config.url} may still hold it, in what {printable(machine)} pushed: purge and push there, too")


def _shape_of_remote(remote: "Unsent | None") -> shapes.Shape | None:
    """The remote, and the machines that may have pushed what was purged. None without a remote."""
    if remote is None:
        return None
    own = (remote.config.machine,) if remote.has_pushed else ()
    return {"url": remote.config.url, "machines": [*own, *remote.machines]}


def _purge_text(context: "Context", options: "ParsedOptions", done: Done) -> int:
    confirm = _confirmation_if_needed(options, done, _agreed_on_text)
    found = purge_text(context, _read_text_without_echo(done), confirm=confirm, dry_run=options.dry_run)
    remote = None if found.dry_run else find_unsent(context)
    done()
    if options.json:
        print_json({**_shape_of_text(found), "remote": _shape_of_remote(remote)})
    else:
        _print_purged_text(found)
    _warn_of_remote_copies(remote)
    return REMARKS if found.files or found.records else OK


def _read_text_without_echo(done: Done) -> bytes:
    """The text, from standard input. On a terminal there is a prompt, and the text is not echoed."""
    if not sys.stdin.isatty():
        return sys.stdin.buffer.read(MOST_TEXT + 3)
    done()
    return getpass.getpass("Text to purge (it is not shown): ").encode("utf-8", "surrogateescape")


def _confirmation_if_needed(options: "ParsedOptions", done: Done, ask: Callable[[_Found], bool]) -> Callable[[_Found], bool] | None:
    """The function that asks, or None if no question is required. Raises UsageError if a question is impossible."""
    if options.dry_run or not must_ask_or_raise(options, "removes anything for good"):
        return None

    def confirm(found: _Found) -> bool:
        done()
        return ask(found)

    return confirm

# -- a path


def _print_purged_paths(found: Purged) -> None:
    if not found.purged and not found.blobs:
        print_line("nothing to do: it was already purged")
    else:
        print_line(f"{'would purge' if found.dry_run else 'purged'} {_totals_in_words(found)}")
        _print_paths(found)
    for name in found.still_there[:SHOWN]:
        remedy = f"casrewind exclude {shell_quoted_path(name)} first, if it should not"
        if name == domains.PRIVATE_NAME:
            remedy = "casrewind exclude takes rules out of it"
        elif _is_rule_file(name):  # rule files are stored even if ignored
            remedy = "take out of it what should not be stored"
        note(f"{printable(name)} still exists, and the next save stores it again: {remedy}")
    if len(found.still_there) > SHOWN:
        note(f"and so are {len(found.still_there) - SHOWN} more of these paths")
    if not found.dry_run:
        note("conversations may contain what an agent read from it: casrewind purge --text -")


def _agreed_on_paths(found: Purged, *, whole: bool) -> bool:
    """Show the paths to remove (all of them with `whole`) and ask. Any answer but yes is no."""
    print_line(f"purging {_totals_in_words(found)}:")
    _print_paths(found, whole=whole)
    return agreed_for_good()


def _totals_in_words(found: Purged) -> str:
    conversations = f", {plural(found.transcripts, 'stored conversation')}" if found.transcripts else ""
    return (
        f"{plural(len(found.purged) + len(found.equal), 'path')}{conversations}: {plural(found.blobs, 'blob')}, {human_size(found.size)}"
    )


def _print_paths(found: Purged, *, whole: bool = False) -> None:
    _print_items(found.purged, "", whole=whole)
    _print_items(found.equal, ", which has equal bytes", whole=whole)


def _print_items(items: Sequence[Gone], why: str, *, whole: bool) -> None:
    shown = len(items) if whole else SHOWN
    for item in items[:shown]:
        safety = f" ({item.safety} of them made for safety, listed by --all alone)" if item.safety else ""
        print_line(f"  {printable(item.path)} in {plural(item.checkpoints, 'checkpoint')}{safety}{why}")
    if len(items) > shown:
        print_line(f"  ... and {len(items) - shown} more{why.replace('has', 'have')}; --json lists all of them")


def _shape_of_paths(found: Purged) -> shapes.Shape:
    return {
        "purged": [{**shapes.path(item.path), "checkpoints": item.checkpoints, "safety": item.safety} for item in found.purged],
        "equal": [{**shapes.path(item.path), "checkpoints": item.checkpoints, "safety": item.safety} for item in found.equal],
        "transcripts": found.transcripts,
        "blobs": found.blobs,
        "bytes": found.size,
        "still_there": [shapes.path(item) for item in found.still_there],
        "dry_run": found.dry_run,
    }

# -- a text


def _print_purged_text(found: TextPurged) -> None:
    print_line(f"{'would drop' if found.dry_run else 'dropped'} {_places_in_words(found)}")
    if found.places.transcripts:
        print_line("  for those checkpoints, casrewind can take conversations only from the client's own files")
    for item in found.files[:SHOWN]:
        shown = printable(item.path)
        where, rest = "PATH", ""
        if _is_rule_file(item.path):
            where, rest = shell_quoted_path(item.path), ", and restores of those checkpoints delete nothing below it then"
        print_line(f"  {shown} still holds it, in {item.checkpoint}: casrewind purge {where} removes the file's bytes{rest}")
    if len(found.files) > SHOWN:
        print_line(f"  ... and {len(found.files) - SHOWN} more files hold it; --json lists all of them")
    if found.records:
        print_line(
            f"  {plural(found.records, 'record')} of checkpoints and sessions still hold it, in a session's id or a path: these are not "
            f"edited; gc forgets a record with its checkpoint"
        )
    print_line("purge does not search file names and link targets; a text in them stays")
    for name in found.still_there:
        note(f"{printable(name)}, which is not casrewind's, still holds it; the next checkpoint stores that again")


def _agreed_on_text(found: TextPurged) -> bool:
    """Show where the text occurs, and ask. Any answer but yes is no."""
    print_line(f"dropping {_places_in_words(found)}")
    return agreed_for_good()


def _is_rule_file(path: bytes) -> bool:
    return path in domains.OUTSIDE_NAMES or path.rpartition(b"/")[2] in RULE_FILES


def _places_in_words(found: TextPurged) -> str:
    where = found.places
    return (
        f"{plural(where.transcripts, 'stored conversation')}, {plural(where.prompts, 'prompt')}, {plural(where.labels, 'label')}, "
        f"{plural(where.details, 'detail')} (git branch, event, reason, meta) and {plural(where.log, 'line')} of the log that hold the text"
    )


def _shape_of_text(found: TextPurged) -> shapes.Shape:
    return {
        "places": dict(found.places._asdict()),
        "files": [{**shapes.path(item.path), "checkpoint": item.checkpoint} for item in found.files],
        "records": found.records,
        "still_there": [shapes.path(item) for item in found.still_there],
        "dry_run": found.dry_run,
    }
