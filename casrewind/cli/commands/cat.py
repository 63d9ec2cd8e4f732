"""casrewind cat."""


from ..._typing import TYPE_CHECKING
from ...history import lookup
from ...worktree import root as roots
from ..grammar.options import Command, Option
from ..terminal.lines import write_bytes
from . import OK, Done

if TYPE_CHECKING:

    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind cat @1:README.md > README.old",),
    options=(Option(("file",), "a checkpoint and a path relative to the current directory", "REF:PATH"),),
    more="If PATH is a link, cat prints its target. A label may contain colons: PATH begins after the first colon that ends a REF.",
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind cat."""
    point, given = lookup.checkpoint_and_path(context, options.file or "")
    (path,) = roots.paths_below_root(context.root.path, [given], options.directory)
    pieces = lookup.stream_file(context, point, path)
    done()
    for piece in pieces:
        write_bytes(piece)
    return OK
