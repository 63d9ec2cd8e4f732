"""The JSON shape of `log`."""

from collections.abc import Sequence

from ..model.manifest import Entry
from ..ops.log import Logged, PathChange
from . import shapes
from .shapes import Shape


def logged(found: Sequence[Logged], current: str) -> Shape:
    """log --json: the rows of one path, or of all paths that a pattern matches, newest first, with the path of each."""
    rows = [(one.path, row) for one in found for row in one.changes]
    several = len(found) > 1
    return {
        **({"paths": [shapes.path(one.path) for one in found]} if several else shapes.path(found[0].path)),
        "changes": [
            {**(shapes.path(path) if several else {}), **_row(row, current)}
            for path, row in sorted(rows, key=lambda pair: (-pair[1].checkpoint.seq, pair[0]))
        ],
        "damaged": list(dict.fromkeys(identity for one in found for identity in one.damaged)),
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
