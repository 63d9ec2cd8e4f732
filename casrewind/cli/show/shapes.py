"""The JSON that several commands share: a contract with scripts. JSON of a single command is built in that command's
module.
"""

import os
from collections.abc import Iterable, Sequence

from ... import agents
from ..._typing import TYPE_CHECKING
from ...fastjson import JsonObject
from ...history.checkpoint_names import label_of
from ...model import cursor as cursors
from ...model.checkpoint import Checkpoint
from ...model.diff import Change, count, counted_changes, topmost_unclear
from ...model.domain import Skip
from ...model.manifest import DIR, Entry
from ...model.turn_records import Outside, Reset, Row, SavedRow, Turn
from ...store.catalog import Marked

if TYPE_CHECKING:
    from ...history.changes_back import ChangesBack
    from ...upkeep.save import Saved

Shape = JsonObject


def path(raw: bytes, key: str = "path") -> Shape:
    """A path as text, with its bytes in base64 if it is not UTF-8."""
    try:
        return {key: raw.decode("utf-8")}
    except UnicodeDecodeError:
        import base64

        return {key: raw.decode("utf-8", "replace"), key + "_b64": base64.b64encode(raw).decode("ascii")}


def path_or_none(found: str | None, key: str) -> Shape:
    """A path, or null."""
    return {key: None} if found is None else path(os.fsencode(found), key)


def time_of(nanoseconds: int) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    from datetime import UTC, datetime

    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"


def mode_of(entry: Entry | None) -> str | None:
    """A mode as an octal string."""
    return None if entry is None else f"{entry.mode:04o}"


def size_of(entry: Entry | None) -> int | None:
    """A file's size in bytes; None for other kinds."""
    return None if entry is None or entry.kind == DIR else entry.size


def skips(found: Iterable[Skip]) -> list[Shape]:
    """Skipped paths with their reasons."""
    return [{**path(skip.path), "reason": skip.reason} for skip in found]


def checkpoint(point: Checkpoint, marked: Marked, current: str, turn: Turn | None = None) -> Shape:
    """One checkpoint as in list --json. `turn`: its turn, if it is known."""
    cursor = cursors.decode(point.cursor) if point.cursor else cursors.Cursor()
    field = agents.turn_id_field(point.agent)
    return {
        "id": point.id,
        "seq": point.seq,
        "created_at": time_of(point.created_ns),
        "trigger": point.trigger,
        "label": label_of(point, marked) or None,
        "prompt": point.prompt or (turn.prompt if turn is not None else "") or None,
        "agent": point.agent or None,
        "session": point.session or None,
        "files": point.files,
        "bytes": point.size,
        "changes": dict(point.changes._asdict()),
        "pinned": marked.pinned,
        "current": point.id == current,
        "turn": (point.more.turn if turn is None else turn.id) or None,
        "prompt_id": (getattr(cursor, field) if field else "") or cursor.prompt_id or cursor.message_id or None,
        "event_id": cursor.event_id or None,
        "branch": point.more.branch or None,
        "commit": point.more.commit or None,
        "parent": point.parent or None,
        "machine": point.more.machine or None,
        "meta": point.meta,
    }


def saved(found: "Saved", root: str) -> Shape:
    """What a save did, as in save --json. `root`: the project's."""
    point = found.checkpoint
    return {
        "checkpoint": point.id,
        "created": found.created,
        "root": root,
        "files": point.files,
        "bytes": point.size,
        "changes": dict(found.changes._asdict()),
        "skipped": skips(found.skipped),
        "elapsed_ms": found.elapsed_ms,
    }


def change(found: Change) -> Shape:
    """One change as in diff --json."""
    return {
        **path(found.path),
        "status": found.status,
        "old_mode": mode_of(found.old),
        "new_mode": mode_of(found.new),
        "old_size": size_of(found.old),
        "new_size": size_of(found.new),
    }


def changes(found: Iterable[Change]) -> list[Shape]:
    """The counted changes as in diff --json, sorted by path."""
    return [change(one) for one in counted_changes(found)]


def unclear(found: Iterable[Change]) -> Shape:
    """The paths that one side did not capture. A directory stands for everything in it."""
    some = topmost_unclear(found)
    return {
        "captured_since": [path(one.path) for one in some if one.old is None],
        "no_longer_captured": [path(one.path) for one in some if one.new is None],
    }


def turn(found: Turn, back: "ChangesBack | None" = None) -> Shape:
    """A turn, or a subagent of one, as in list --json. `back`: it counts what a restore to before it would change."""
    counted = None if back is None else back.count(found)
    return {
        "n": found.n,
        "name": found.name,
        "id": found.id,
        "session": found.session or None,
        "agent": found.agent or None,
        "prompt": found.prompt or None,
        "prompt_id": found.prompt_id or None,
        "also": list(found.also),
        "started_at": _time_or_none(found.started_ns),
        "ended_at": None if found.running else _time_or_none(found.ended_ns),
        "before": found.before,
        "after": found.after,
        "running": found.running,
        "cut_short": found.cut_short,
        "end_unseen": found.end_unseen,
        "mixed": found.mixed,
        "shared": [{**path(place), "turns": list(turns)} for place, turns in found.shared],
        "changes": _counts_or_none(found.changes),
        "paths": _shown_paths(found.changes),
        **unclear(found.unclear),
        "purged": len(found.purged),
        "damaged": found.damaged,
        "subagent": found.subagent or None,
        "subagent_type": found.kind or None,
        "subagents": [turn(one) for one in found.subagents],
        "among": [{**path(place), "names": list(names)} for place, names in found.among],
        "worktree": found.place or None,
        "not_saved": found.not_saved,
        "taken_back": found.taken_back,
        "branch": found.branch or None,
        **({} if back is None else {"would_change": None if counted is None else counted._asdict()}),
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
            **({"by": found.by} if found.by else {}),
            "seen_at": _time_or_none(found.seen_ns),
            "checkpoint": found.checkpoint or None,
            "changes": _counts_or_none(found.changes),
            "paths": _shown_paths(found.changes),
            **unclear(found.unclear),
            "purged": len(found.purged),
            "damaged": found.damaged,
        }
    if isinstance(found, SavedRow):
        return {
            "row": "saved",
            "checkpoint": found.checkpoint,
            "label": found.label or None,
            "files": found.files,
            "at": time_of(found.at_ns),
            "in": list(found.during),
        }
    if isinstance(found, Reset):
        return {
            "row": found.kind,
            "target": found.target or None,
            "safety": found.safety,
            "at": time_of(found.at_ns),
            "in": list(found.during),
            "changes": _counts_or_none(found.changes),
            "paths": _shown_paths(found.changes),
            **unclear(found.unclear),
            "damaged": found.damaged,
        }
    return {"row": "forgotten"}


def _time_or_none(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else time_of(nanoseconds)


def _counts_or_none(changes: Sequence[Change] | None) -> Shape | None:
    return None if changes is None else dict(count(changes)._asdict())


def _shown_paths(changes: Sequence[Change] | None) -> list[str]:
    return [path(change.path)["path"] for change in counted_changes(changes or ())]
