"""casrewind import: what export wrote."""

import os
import sys
from typing import BinaryIO

from ... import errors
from ..._typing import TYPE_CHECKING
from ...messages import printable
from ...remote import archive
from ...remote import remote_config as configs
from ..grammar.options import JSON, Command, Option
from . import Done
from .export import key_for_stream
from .pull import print_pulled

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind import shop.export",),
    options=(
        Option(("file",), "the file, or - for standard input", "FILE"),
        Option(("--key-file",), "read the key from FILE (default: CASREWIND_REMOTE_KEY, or the key of the remote)", "FILE"),
        JSON,
    ),
    more="Changes no file of the project. casrewind list --remote shows the imported checkpoints.",
    creates=True, stays=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind import."""
    found = configs.find(context.store)
    master, config = key_for_stream(context.environ, options, found), None if found is None else found[1]
    if options.file == "-":
        taken = archive.import_stream(context, sys.stdin.buffer, master, config)
    else:
        with _open_export_file(options) as stream:
            taken = archive.import_stream(context, stream, master, config)
    done()
    return print_pulled(taken, options, "the export")


def _open_export_file(options: "ParsedOptions") -> BinaryIO:
    assert options.file is not None
    try:
        return open(os.path.join(options.directory, options.file), "rb")
    except OSError as error:
        raise errors.UsageError(f"cannot read {printable(options.file)}: {error.strerror}") from error
