"""The JSON that several commands share: a contract with scripts. JSON of a single command is built in that command's
module.
"""

import os
from collections.abc import Iterable

from .. import agents
from .._typing import Any
from ..model import cursor as cursors
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.domain import Skip
from ..model.manifest import DIR, Entry
from ..model.turn_records import Turn
from ..ops.references import label_of
from ..store.catalog import Marked

Shape = dict[str, Any]


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
    field = agents.turn_field(point.agent)
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
