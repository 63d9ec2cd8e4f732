"""casrewind cat."""

from ...typed import Any
from ..output import raw
from . import OK, Done


def cat(workspace: Any, options: Any, done: Done) -> int:
    """casrewind cat."""
    point, given = workspace.checkpoint_and_path(options.file)
    (path,) = workspace.scope([given], options.directory)
    pieces = workspace.cat(point, path)
    done()
    for piece in pieces:
        raw(piece)
    return OK
