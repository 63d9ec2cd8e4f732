"""The JSON shapes of the command line: a contract that scripts rely on, so each is made in one place, here."""

from __future__ import annotations  # a save does not load the rooms of all that a shape is made of

import os
from collections.abc import Iterable, Iterator

from ..model import checkpoint as checkpoints
from ..model.diff import Change
from ..model.manifest import DIR, FILE, Entry
from ..ops.references import label_of
from ..typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..agents.install import Installed, Uninstalled
    from ..agents.profile import Profile
    from ..model.checkpoint import Checkpoint
    from ..model.domain import Skip
    from ..model.plan import Action, Kept
    from ..ops.execute import Restored
    from ..ops.gc import Collected
    from ..ops.purge import Purged
    from ..ops.purge_text import TextPurged
    from ..ops.resting import Seen, Status
    from ..ops.rewind import Rewound
    from ..ops.save import Saved
    from ..ops.verify import Verified
    from ..store.catalog import Marked

Shape = dict[str, Any]


def path(raw: bytes, key: str = "path") -> Shape:
    """A path: text, and its bytes in base64 beside it when it is not UTF-8."""
    try:
        return {key: raw.decode("utf-8")}
    except UnicodeDecodeError:
        import base64

        return {key: raw.decode("utf-8", "replace"), key + "_b64": base64.b64encode(raw).decode("ascii")}


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
    """A file's size in bytes; None for what has none."""
    return None if entry is None or entry.kind == DIR else entry.size


def skips(found: Iterable[Skip]) -> list[Shape]:
    """Skipped paths with their reasons."""
    return [{**path(skip.path), "reason": skip.reason} for skip in found]


def kept(found: Iterable[Kept]) -> list[Shape]:
    """Paths that a restore left alone, with their reasons."""
    return [{**path(item.path), "reason": item.reason} for item in found]


def saved(report: Saved, root: str) -> Shape:
    """save --json."""
    point = report.checkpoint
    return {
        "checkpoint": point.id,
        "created": report.created,
        "root": root,
        "files": point.files,
        "bytes": point.size,
        "changes": dict(report.changes._asdict()),
        "skipped": skips(report.skipped),
        "elapsed_ms": report.elapsed_ms,
    }


def checkpoint(point: Checkpoint, marked: Marked, current: str) -> Shape:
    """One checkpoint as in list --json."""
    return {
        "id": point.id,
        "seq": point.seq,
        "created_at": time_of(point.created_ns),
        "trigger": point.trigger,
        "label": label_of(point, marked) or None,
        "prompt": point.prompt or None,
        "agent": point.agent or None,
        "session": point.session or None,
        "files": point.files,
        "bytes": point.size,
        "changes": dict(point.changes._asdict()),
        "pinned": marked.pinned,
        "current": point.id == current,
    }


def entry(where: bytes, found: Entry) -> Shape:
    """One entry as in show --json."""
    return {
        **path(where),
        "kind": found.kind,
        "mode": mode_of(found),
        "size": size_of(found),
        "mtime_ns": found.mtime_ns if found.kind == FILE else None,
        "digest": found.digest.hex() if found.kind == FILE else None,
        **({"target": None} if not found.target else path(found.target, "target")),
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


def action(found: Action) -> Shape:
    """One action of a restore, as the change that it makes."""
    return change(Change(found.path, found.before, found.after))


def really_changes(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions that change something: one that only opens a directory for the others is not news."""
    return (found for found in actions if found.before != found.after or found.source != found.path)


def numbers(actions: Iterable[Action]) -> tuple[int, int]:
    """How many paths these actions write, and how many they remove."""
    written = removed = 0
    for found in really_changes(actions):
        written += found.after is not None
        removed += found.after is None
    return written, removed


def restored(report: Restored) -> Shape:
    """restore, undo and redo --json."""
    written, removed = numbers(report.actions)
    return {
        "restored": written,
        "removed": removed,
        "unchanged": report.unchanged,
        "skipped": kept(report.kept),
        "foreign": [],
        "safety": report.safety or None,
        "target": report.target or None,
        "dry_run": report.dry_run,
        "changes": [action(found) for found in really_changes(report.actions)],
    }


def rewound(report: Rewound) -> Shape:
    """back, restore --chat and --both, rewrite-chat --json."""
    chat = report.chat
    found = {} if report.restored is None else restored(report.restored)
    fork = None
    if chat is not None:
        where = {**path(os.fsencode(chat.path)), **path_or_none(chat.backup, "backup")}
        fork = {"session_id": chat.session, **where, "resume": chat.resume, "mode": chat.mode}
    return {
        **found,
        "foreign": [raw.decode("utf-8", "replace") for raw in report.foreign],
        "fork": fork,
        "prompts": list(report.prompts),
        "notes": list(report.notes),
        "dry_run": report.dry_run,
    }


def agent(found: Seen) -> Shape:
    """One agent as in status --json."""
    return {
        "session": found.session or None,
        "last_event": found.event or None,
        "last_event_at": time_of(found.event_ns) if found.event_ns else None,
        "running": found.running,
        "last_checkpoint": found.checkpoint or None,
        "last_checkpoint_at": time_of(found.checkpoint_ns) if found.checkpoint_ns else None,
    }


def status(found: Status, seen: Iterable[Seen], root: str, store: str, budget: int, last: Shape | None) -> Shape:
    """status --json."""
    journal = None
    if found.journal is not None:
        journal = {
            "op": found.journal.op,
            "target": found.journal.target,
            "safety": found.journal.safety,
            "started_at": time_of(found.journal.created_ns),
            "running": found.running,
        }
    return {
        "root": root,
        "store": store,
        "checkpoints": found.checkpoints,
        "last": last,
        "protected": found.protected,
        "reasons": list(found.reasons),
        "store_bytes": found.store_bytes,
        "budget_bytes": budget,
        "agents": {item.agent: agent(item) for item in seen},
        "journal": journal,
        "skipped": skips(found.skipped),
    }


def collected(found: Collected) -> Shape:
    """gc --json."""
    return {
        "kept": found.kept,
        "dropped": len(found.dropped),
        "bytes_before": found.bytes_before,
        "bytes_after": found.bytes_after,
        "dry_run": found.dry_run,
        "checkpoints": [{"id": item.checkpoint.id, "reason": item.reason} for item in found.dropped],
    }


def purged(found: Purged) -> Shape:
    """purge PATH --json."""
    return {
        "purged": [{**path(item.path), "checkpoints": item.checkpoints, "safety": item.safety} for item in found.purged],
        "equal": [{**path(item.path), "checkpoints": item.checkpoints, "safety": item.safety} for item in found.equal],
        "transcripts": found.transcripts,
        "blobs": found.blobs,
        "bytes": found.size,
        "still_there": [path(item) for item in found.still_there],
        "dry_run": found.dry_run,
    }


def text_purged(found: TextPurged) -> Shape:
    """purge --text --json."""
    return {
        "places": dict(found.places._asdict()),
        "files": [{**path(item.path), "checkpoint": item.checkpoint} for item in found.files],
        "records": found.records,
        "still_there": [path(item) for item in found.still_there],
        "dry_run": found.dry_run,
    }


def verified(found: Verified) -> Shape:
    """verify --json."""
    return {
        "ok": not found.problems,
        "problems": [
            {
                "kind": problem.kind,
                "id": problem.id,
                "detail": problem.detail,
                "affects": [{"checkpoint": place.checkpoint, **path(place.path)} for place in problem.affects],
            }
            for problem in found.problems
        ],
        "blobs": found.blobs,
        "checkpoints": found.checkpoints,
        "repaired": list(found.repaired),
    }


def installed(found: Installed) -> Shape:
    """install --json."""
    return {
        "agent": found.target.profile.name,
        "scope": found.target.scope,
        "tier": found.tier,
        "changed": found.changed,
        "settings": [
            {**path(os.fsencode(item.path)), "changed": item.changed, **path_or_none(item.backup, "backup")} for item in found.written
        ],
        "hooks": [
            {"event": hook.event, "matcher": hook.matcher, "timeout": hook.timeout, **path(os.fsencode(place), "settings")}
            for place, hook in found.hooks
        ],
        **path_or_none(found.command, "command"),
        **path_or_none(found.program, "client"),
        "resident": found.resident,
        "notes": list(found.notes),
        "failed": list(found.failed),
    }


def uninstalled(found: Uninstalled) -> Shape:
    """uninstall --json."""
    return {
        "agent": found.target.profile.name,
        "scope": found.target.scope,
        "changed": bool(found.written or found.command),
        "settings": [
            {**path(os.fsencode(item.path)), "changed": item.changed, "restored": item.restored} for item in found.written
        ],
        "events": list(found.events),
        **path_or_none(found.command, "command"),
        "notes": list(found.notes),
    }


def plugin(profile: Profile, tier: str, directory: str, files: Iterable[str]) -> Shape:
    """install --plugin --json."""
    hooks = [{"event": hook.event, "matcher": hook.matcher, "timeout": hook.timeout} for hook in profile.hooks[tier]]
    found = [path(os.fsencode(item)) for item in files]
    return {"agent": profile.name, "tier": tier, **path(os.fsencode(directory), "plugin"), "files": found, "hooks": hooks}


def path_or_none(found: str | None, key: str) -> Shape:
    """A path that need not be."""
    return {key: None} if found is None else path(os.fsencode(found), key)


def is_listed(point: Checkpoint, *, safety: bool) -> bool:
    """Whether list shows a checkpoint."""
    return safety or point.trigger != checkpoints.SAFETY
