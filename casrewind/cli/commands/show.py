"""casrewind show."""

from collections.abc import Sequence

from ... import fsio
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...model.domain import Skip
from ...model.manifest import DIR, FILE, Entry
from ...ops.references import label_of
from ...store.catalog import Marked
from ...typed import Any
from .. import json_output
from ..output import age, as_json, plural, say, signed, size, skipped
from . import OK, Done


def show(workspace: Any, options: Any, done: Done) -> int:
    """casrewind show."""
    point = workspace.checkpoint(options.ref)
    marked = workspace.marks(point)
    entries = sorted(workspace.entries(point))
    domain = workspace.domain(point)
    done()
    if options.json:
        as_json(
            {
                "checkpoint": json_output.checkpoint(point, marked, workspace.current()),
                "entries": [_entry(where, entry) for where, entry in entries],
                "skipped": json_output.skips(domain.skipped),
            }
        )
    else:
        _show(point, marked, entries, domain.skipped)
    return OK


def _show(point: Checkpoint, marked: Marked, entries: Sequence[tuple[bytes, Entry]], left_out: Sequence[Skip]) -> None:
    say(f"checkpoint {point.id} (number {point.seq} of its store)")
    say(f"  made      {json_output.time_of(point.created_ns)}, {age(point.created_ns)}, {point.trigger.replace('_', ' ')}")
    label = label_of(point, marked)
    if label:
        say(f"  label     {fsio.show(label)}")
    if marked.pinned:
        say("  pinned")
    say(f"  root      {fsio.show(point.root)}")
    say(f"  holds     {plural(point.files, 'file')}, {size(point.size)}; against its parent {signed(point.changes)}")
    if point.flags & checkpoints.DURING_RESTORE:
        say("  made while a restore was unfinished")
    for where, entry in entries:
        target = f" -> {fsio.show(entry.target)}" if entry.target else ""
        tail = "/" if entry.kind == DIR else target
        width = "" if entry.kind == DIR else f"{entry.size}"
        say(f"{entry.kind:<5} {entry.mode & 0o7777:04o} {width:>12} {fsio.show(where)}{tail}")
    skipped(left_out)


def _entry(where: bytes, found: Entry) -> json_output.Shape:
    """One entry as in show --json."""
    return {
        **json_output.path(where),
        "kind": found.kind,
        "mode": json_output.mode_of(found),
        "size": json_output.size_of(found),
        "mtime_ns": found.mtime_ns if found.kind == FILE else None,
        "digest": found.digest.hex() if found.kind == FILE else None,
        **({"target": None} if not found.target else json_output.path(found.target, "target")),
    }
