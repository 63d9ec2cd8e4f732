"""The JSON shape of du."""

from __future__ import annotations

from ..typed import TYPE_CHECKING
from . import shapes
from .shapes import Shape

if TYPE_CHECKING:
    from ..ops.usage import CheckpointUsage, PathUsage, SessionUsage, Usage

TABLES = ("checkpoint", "path", "session")


def usage(found: Usage, budget: int, current: str, tables: tuple[str, ...] = TABLES, most: int | None = None) -> Shape:
    """du --json. Tables that were not asked for are null; of the others at most so many rows, None = all."""
    return {
        "store_bytes": found.store_size,
        "budget_bytes": budget,
        "gc_bytes": found.gc_frees,
        "packs": found.packs,
        "packs_bytes": found.packs_size,
        "reachable_bytes": found.reachable,
        "unique_bytes": found.unique,
        "shared_bytes": found.shared,
        "other_bytes": found.other,
        "garbage_bytes": found.garbage,
        "tree_bytes": found.trees,
        "checkpoints": [_checkpoint(row, current) for row in found.checkpoints[:most]] if "checkpoint" in tables else None,
        "paths": [_path(row) for row in found.paths[:most]] if "path" in tables else None,
        "sessions": [_session(row) for row in found.sessions[:most]] if "session" in tables else None,
        "problems": [{"kind": one.kind, "id": one.id, "detail": one.detail} for one in found.problems],
    }


def _checkpoint(row: CheckpointUsage, current: str) -> Shape:
    return {**shapes.checkpoint(row.checkpoint, row.marked, current), "unique_bytes": row.unique, "shared_bytes": row.shared}


def _path(row: PathUsage) -> Shape:
    return {**shapes.path(row.path), "kind": "dir" if row.is_directory else "file", "stored_bytes": row.size, "versions": row.versions}


def _session(row: SessionUsage) -> Shape:
    return {
        "agent": row.agent or None,
        "session": row.session or None,
        "checkpoints": row.checkpoints,
        "newest_at": shapes.time_of(row.newest_ns),
        "unique_bytes": row.unique,
        "shared_bytes": row.shared,
        "transcript_bytes": row.transcripts,
    }
