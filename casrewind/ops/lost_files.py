"""The files that a turn removed, from its first checkpoint to its end."""

from ..model import diff as diffs
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR
from .context import Context


def find(context: Context, end: Checkpoint) -> list[bytes]:
    """The paths of the files that are gone at a turn's end, except files that moved to another path."""
    start = context.store.checkpoint(end.more.turn) if end.more.turn else None
    if start is None:
        return []
    changes = list(diffs.diff(diffs.lenient(context.store.load_tree), start.tree, end.tree))
    moved = {change.new.digest for change in changes if change.old is None and change.new is not None}
    return [
        change.path for change in changes if change.new is None and change.old is not None
        if change.old.kind != DIR and change.old.digest not in moved
    ]  # fmt: skip
