"""Turns and rows as JSON: a contract with scripts."""

from collections.abc import Sequence

from ..model.diff import Change, count
from ..model.turn_records import Outside, Reset, Row, SavedRow, Turn
from . import json_output
from .changes import telling
from .json_output import Shape

_PATHS = 10
"""Paths that a turn or a row names."""


def turn(found: Turn) -> Shape:
    """A turn as in list --json."""
    return {
        "n": found.n,
        "id": found.id,
        "session": found.session or None,
        "agent": found.agent or None,
        "prompt": found.prompt or None,
        "prompt_id": found.prompt_id or None,
        "also": list(found.also),
        "started_at": _time(found.started_ns),
        "ended_at": None if found.running else _time(found.ended_ns),
        "before": found.before,
        "after": found.after,
        "running": found.running,
        "cut_short": found.cut_short,
        "end_unseen": found.end_unseen,
        "mixed": found.mixed,
        "shared": [{**json_output.path(path), "turns": list(turns)} for path, turns in found.shared],
        "changes": _counts(found.changes),
        "paths": _paths(found.changes),
        "purged": len(found.purged),
        "damaged": found.damaged,
        "branch": found.branch or None,
    }


def row(found: Row) -> Shape:
    """A row as in list --json. That of a turn has its number only."""
    if isinstance(found, Turn):
        return {"row": "turn", "n": found.n}
    if isinstance(found, Outside):
        return {
            "row": "outside",
            "kind": found.kind,
            **({"of": found.of} if found.of else {}),
            "seen_at": _time(found.seen_ns),
            "checkpoint": found.checkpoint or None,
            "changes": _counts(found.changes),
            "paths": _paths(found.changes),
            "purged": len(found.purged),
            "damaged": found.damaged,
        }
    if isinstance(found, SavedRow):
        return {
            "row": "saved",
            "checkpoint": found.checkpoint,
            "label": found.label or None,
            "files": found.files,
            "at": json_output.time_of(found.at_ns),
            "in": list(found.during),
        }
    if isinstance(found, Reset):
        return {
            "row": found.kind,
            "target": found.target or None,
            "safety": found.safety,
            "at": json_output.time_of(found.at_ns),
            "in": list(found.during),
            "changes": _counts(found.changes),
            "paths": _paths(found.changes),
            "damaged": found.damaged,
        }
    return {"row": "forgotten"}


def _time(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else json_output.time_of(nanoseconds)


def _counts(changes: Sequence[Change] | None) -> Shape | None:
    return None if changes is None else dict(count(list(changes))._asdict())


def _paths(changes: Sequence[Change] | None) -> list[str]:
    return [json_output.path(change.path)["path"] for change in telling(changes or ())[:_PATHS]]
