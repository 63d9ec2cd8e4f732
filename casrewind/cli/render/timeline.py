"""What a person reads of checkpoints: save, run, list, show, diff."""

import sys
from collections.abc import Iterable, Sequence

from ... import fsio
from ...model import checkpoint as checkpoints
from ...model import domain as domains
from ...model.checkpoint import Checkpoint
from ...model.diff import Change, count
from ...model.domain import Skip
from ...model.manifest import DIR, Entry
from ...ops.references import label_of
from ...ops.save import Saved
from ...store.catalog import Marked
from ...typed import TYPE_CHECKING
from .. import shapes
from .text import COLOURS, SIGNS, age, counted, paint, plural, raw, remark, say, signed, size

if TYPE_CHECKING:  # a save has no need of them
    from ...ops.compare import Comparison
    from ...ops.marks import Marking

_NARROW = 76
"""Columns that a list needs for everything that it has to say."""


def saved(report: Saved) -> None:
    """save."""
    point = report.checkpoint
    if report.created:
        say(
            f"saved {point.id}: {plural(point.files, 'file')}, {size(point.size)} ({signed(report.changes)}) "
            f"in {report.elapsed_ms / 1000:.2f} s"
        )
    else:
        say(f"nothing changed since {point.id}, saved {age(point.created_ns)}")
    if point.files == 0:
        remark(f"WARNING: nothing was captured: no file here, or all are ignored ({report.ignored} ignored entries)")
    skipped(report.skipped)


def run_ended(before: Saved, after: Saved) -> None:
    """run, when the command has ended: on standard error, because standard output is the command's."""
    counts = after.checkpoint.changes
    if counts == (0, 0, 0):
        remark(f"saved {after.checkpoint.id} after the command: nothing changed")
        return
    remark(
        f"saved {after.checkpoint.id} after the command: {counted(counts)}; "
        f"casrewind restore {before.checkpoint.id} takes it back"
    )


def faults(report: Saved) -> None:
    """What a save could not have, on standard error."""
    skipped(report.faults)


def skipped(found: Sequence[Skip]) -> None:
    """What a checkpoint does not hold, and why."""
    if not found:
        return
    by_reason: dict[str, list[bytes]] = {}
    for skip in found:
        by_reason.setdefault(skip.reason, []).append(skip.path)
    for reason, places in sorted(by_reason.items()):
        names = ", ".join(fsio.show(place) for place in places[:3]) + (", ..." if len(places) > 3 else "")
        kind = domains.kind_of(reason)
        line = f"  not captured ({fsio.show(reason)}): {len(places)}: {names}"
        if kind == domains.UNREADABLE_RULES:
            line = f"  not counted ({fsio.show(reason)}; a restore of this deletes nothing below): {len(places)}: {names}"
        if kind == domains.SETTINGS:
            line = f"  not counted ({fsio.show(reason)}): {len(places)}: {names}"
        if reason == domains.UNSTABLE:
            line = f"  captured while changing, may be torn: {len(places)}: {names}"
        if reason == domains.LATE:
            line = f"  captured, but changed after the moment this was made for: {len(places)}: {names}"
        (remark if domains.is_fault(reason) else say)(line)


def checkpoint_list(found: Iterable[tuple[int | None, Checkpoint, Marked]], current: str) -> None:
    """list."""
    from . import columns  # a save has no need of it

    names = ("#", "id", "when", "what", "files", "size", "changes")[: 4 if columns.width() < _NARROW else None]
    rows = []
    for number, point, marked in found:
        label = label_of(point, marked)
        described = point.flags & checkpoints.DESCRIBED and not marked.label  # what a person typed says more than that
        what = (point.prompt if described else "") or label or point.prompt or (
            "" if point.trigger == checkpoints.MANUAL else point.trigger.replace("_", " ")
        )
        signs = ("* " if marked.pinned else "") + what + ("  (current)" if point.id == current else "")
        row = (
            "" if number is None else str(number), point.id, age(point.created_ns), fsio.show(signs),
            f"{point.files:,}", size(point.size), signed(point.changes),
        )  # fmt: skip
        rows.append(row[: len(names)])
    if not rows:
        say("no checkpoints to show; casrewind save makes one")
        return
    columns.table(names, rows, right=("#", "files", "size"), last="what")


def checkpoint(point: Checkpoint, marked: Marked, entries: Sequence[tuple[bytes, Entry]], left_out: Sequence[Skip]) -> None:
    """show."""
    say(f"checkpoint {point.id} (number {point.seq} of its store)")
    say(f"  made      {shapes.time_of(point.created_ns)}, {age(point.created_ns)}, {point.trigger.replace('_', ' ')}")
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


def marked(report: "Marking") -> None:
    """pin, unpin."""
    name, label = report.checkpoint.id, fsio.show(report.label)
    if not report.changed:
        already = f"{name} is pinned already{f', its label is {label!r}' if label else ''}"
        say(already if report.marked.pinned else f"{name} is not pinned, and no label keeps it")
    elif not report.marked.pinned:
        say(f"unpinned {name}{f'; its label {label!r} stays, and does not keep it any more' if label else ''}")
    else:
        before = f" (it was {fsio.show(report.before)!r})" if report.before not in ("", report.label) else ""
        say(f"pinned {name}{f', its label is {label!r}' if label else ''}{before}")


def comparison(found: "Comparison", form: str) -> None:
    """diff, as "stat", "patch" or "name-status"."""
    if form == "patch":
        from .. import patch

        shown = sys.stdout.isatty()
        for change in found.changes:
            for data in patch.lines(found, change):
                if shown:  # a person looks at it: content may hold sequences that command a terminal
                    text = fsio.show(data.replace(b"\t", b"        "))
                    say(paint(text, {"+": "32", "-": "31", "@": "36", "d": "1"}.get(text[:1], "0")))
                else:
                    raw(data + b"\n")
        return
    for change in found.changes:
        sign = SIGNS[change.status]
        line = f"{paint(sign, COLOURS[sign])}  {fsio.show(change.path)}"
        say(line if form == "name-status" else line + sizes(change))
    if form == "stat":
        say(_summary(found.changes))


def sizes(change: Change) -> str:
    """What else there is to say of a changed path: mode, kind, size."""
    parts = []
    if change.old is not None and change.new is not None and (change.old.mode ^ change.new.mode) & 0o777:
        parts.append(f"mode {change.old.mode & 0o777:04o} -> {change.new.mode & 0o777:04o}")
    if change.old is not None and change.new is not None and change.old.kind != change.new.kind:
        parts.append(f"{change.old.kind} -> {change.new.kind}")
    elif change.old is not None and change.new is not None and change.old.size != change.new.size:
        parts.append(f"{change.old.size} -> {change.new.size} bytes")
    return f"  ({', '.join(parts)})" if parts else ""


def _summary(changes: Sequence[Change]) -> str:
    counts = count(list(changes))
    if not changes:
        return "no difference"
    return counted(counts)
