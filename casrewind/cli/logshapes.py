"""The JSON shape of `log`."""

from ..model.manifest import Entry
from ..ops.log import Logged, PathChange
from . import shapes
from .shapes import Shape


def logged(found: Logged, current: str) -> Shape:
    """log --json."""
    return {
        **shapes.path(found.path),
        "changes": [_row(row, current) for row in found.changes],
        "damaged": list(found.damaged),
    }


def _row(row: PathChange, current: str) -> Shape:
    """One checkpoint, as in list --json, and what it changed, as in diff --json."""
    change = shapes.change(row.change)
    return {
        "checkpoint": shapes.checkpoint(row.checkpoint, row.marked, current),
        "before": None if row.before is None else row.before.id,
        "status": change.pop("status"),
        "old_kind": _kind(row.change.old),
        "new_kind": _kind(row.change.new),
        **{key: value for key, value in change.items() if key.startswith(("old_", "new_"))},
        "counts": None if row.counts is None else dict(row.counts._asdict()),
        "reason": row.reason or None,
    }


def _kind(entry: Entry | None) -> str | None:
    return None if entry is None else entry.kind
