"""What a person reads: one line of result first, then the details. JSON and everything for scripts is made in shapes."""

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TextIO

from .. import fsio
from ..model import checkpoint as checkpoints
from ..model import domain as domains
from ..model import paths
from ..model.checkpoint import Checkpoint
from ..model.diff import Change, Counts, count
from ..model.domain import Skip
from ..model.manifest import DIR, Entry
from ..model.plan import Action, Kept, Plan
from ..ops.carry import Restored
from ..ops.compare import Comparison
from ..ops.references import label_of
from ..ops.resting import Status
from ..ops.save import Saved
from ..ops.verify import Verified
from ..store.catalog import Marked
from . import shapes

_SHOWN = 20
_NARROW = 76
"""Columns that a list needs for everything that it has to say."""
_CONTROLS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What JSON leaves as it is and a terminal may obey: C1 controls, line separators, changes of direction."""
_SIGNS = {"added": "A", "modified": "M", "removed": "D", "type": "T"}
_COLOURS = {"A": "32", "D": "31", "M": "33", "T": "35"}


def say(line: str = "") -> None:
    """One line on standard output, whatever bytes the terminal's encoding cannot show."""
    try:
        print(line)
    except UnicodeEncodeError:
        print(line.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def remark(line: str) -> None:
    """One line on standard error."""
    print(line, file=sys.stderr)


def as_json(shape: dict[str, Any]) -> None:
    """One JSON object on standard output, in UTF-8 whatever the locale is; no control character is left as it is."""
    text = json.dumps(shape, ensure_ascii=False)
    text = _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    raw(text.encode("utf-8", "replace") + b"\n")


def raw(data: bytes) -> None:
    """Bytes on standard output, behind what was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def size(number: int) -> str:
    """Bytes for people."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(nanoseconds: int) -> str:
    """How long ago, for people."""
    seconds = (time.time_ns() - nanoseconds) / 1e9
    if seconds < 0:
        return "in the future"
    for step, unit in ((60, "s"), (60, "min"), (24, "h"), (365, "d")):
        if seconds < step:
            return f"{int(seconds)} {unit} ago"
        seconds /= step
    return f"{plural(int(seconds), 'year')} ago"


def plural(number: int, word: str) -> str:
    """"1 file", "2 files"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def is_colourful(stream: TextIO) -> bool:
    """Whether a stream takes colours: a terminal that knows them, and nobody said NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _paint(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if is_colourful(sys.stdout) else text


def _counts(counts: Counts) -> str:
    return f"+{counts.added} ~{counts.modified} -{counts.removed}"


def saved(report: Saved) -> None:
    """save."""
    point = report.checkpoint
    if report.created:
        say(
            f"saved {point.id}: {plural(point.files, 'file')}, {size(point.size)} ({_counts(report.changes)}) "
            f"in {report.elapsed_ms / 1000:.2f} s"
        )
    else:
        say(f"nothing changed since {point.id}, saved {age(point.created_ns)}")
    if point.files == 0:
        remark(f"WARNING: nothing was captured: no file here, or all are ignored ({report.ignored} ignored entries)")
    _skipped(report.skipped)


def run_ended(before: Saved, after: Saved) -> None:
    """run, when the command has ended: on standard error, because standard output is the command's."""
    counts = after.checkpoint.changes
    if counts == (0, 0, 0):
        remark(f"saved {after.checkpoint.id} after the command: nothing changed")
        return
    remark(
        f"saved {after.checkpoint.id} after the command: {_counted(counts)}; "
        f"casrewind restore {before.checkpoint.id} takes it back"
    )


def faults(report: Saved) -> None:
    """What a save could not have, on standard error."""
    _skipped(report.faults)


def _skipped(found: Sequence[Skip]) -> None:
    if not found:
        return
    by_reason: dict[str, list[bytes]] = {}
    for skip in found:
        by_reason.setdefault(skip.reason, []).append(skip.path)
    for reason, places in sorted(by_reason.items()):
        names = ", ".join(fsio.show(place) for place in places[:3]) + (", ..." if len(places) > 3 else "")
        line = f"  not captured ({reason}): {len(places)}: {names}"
        if reason == domains.UNSTABLE:
            line = f"  captured while changing, may be torn: {len(places)}: {names}"
        (remark if reason in domains.FAULTS else say)(line)


def checkpoint_list(found: Iterable[tuple[int | None, Checkpoint, Marked]], current: str) -> None:
    """list."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(
        width=None if sys.stdout.isatty() else 160,
        highlight=False,
        color_system="auto" if is_colourful(sys.stdout) else None,
    )
    columns = ("#", "id", "when", "what", "files", "size", "changes")[: 4 if console.width < _NARROW else None]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:  # only what may be broken into lines: an id in two lines cannot be copied
        side: Literal["left", "right"] = "right" if name in ("#", "files", "size") else "left"
        table.add_column(name, justify=side, overflow="fold", no_wrap=name != "what")
    empty = True
    for number, point, marked in found:
        empty = False
        what = label_of(point, marked) or point.prompt or (
            "" if point.trigger == checkpoints.MANUAL else point.trigger.replace("_", " ")
        )
        signs = ("* " if marked.pinned else "") + what + ("  (current)" if point.id == current else "")
        row = (
            "" if number is None else str(number), point.id, age(point.created_ns), Text(fsio.show(signs)),
            f"{point.files:,}", size(point.size), _counts(point.changes),
        )  # fmt: skip
        table.add_row(*row[: len(columns)])
    if empty:
        say("no checkpoints to show; casrewind save makes one")
        return
    with console.capture() as captured:  # printed by rich, a closed pipe would end in rich's own exit code
        console.print(table)
    for line in captured.get().splitlines():
        say(line.rstrip())


def checkpoint(point: Checkpoint, marked: Marked, entries: Sequence[tuple[bytes, Entry]], skipped: Sequence[Skip]) -> None:
    """show."""
    say(f"checkpoint {point.id} (number {point.seq} of its store)")
    say(f"  made      {shapes.time_of(point.created_ns)}, {age(point.created_ns)}, {point.trigger.replace('_', ' ')}")
    label = label_of(point, marked)
    if label:
        say(f"  label     {fsio.show(label)}")
    if marked.pinned:
        say("  pinned")
    say(f"  root      {fsio.show(point.root)}")
    say(f"  holds     {plural(point.files, 'file')}, {size(point.size)}; against its parent {_counts(point.changes)}")
    if point.flags & checkpoints.DURING_RESTORE:
        say("  made while a restore was unfinished")
    for where, entry in entries:
        target = f" -> {fsio.show(entry.target)}" if entry.target else ""
        tail = "/" if entry.kind == DIR else target
        width = "" if entry.kind == DIR else f"{entry.size}"
        say(f"{entry.kind:<5} {entry.mode & 0o7777:04o} {width:>12} {fsio.show(where)}{tail}")
    _skipped(skipped)


def comparison(found: Comparison, form: str) -> None:
    """diff, as "stat", "patch" or "name-status"."""
    if form == "patch":
        from . import patch

        shown = sys.stdout.isatty()
        for change in found.changes:
            for data in patch.lines(found, change):
                if shown:  # a person looks at it: content may hold sequences that command a terminal
                    text = fsio.show(data.replace(b"\t", b"        "))
                    say(_paint(text, {"+": "32", "-": "31", "@": "36", "d": "1"}.get(text[:1], "0")))
                else:
                    raw(data + b"\n")
        return
    for change in found.changes:
        sign = _SIGNS[change.status]
        line = f"{_paint(sign, _COLOURS[sign])}  {fsio.show(change.path)}"
        say(line if form == "name-status" else line + _sizes(change))
    if form == "stat":
        say(_summary(found.changes))


def _sizes(change: Change) -> str:
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
    return _counted(counts)


def _counted(counts: Counts) -> str:
    return f"{counts.added} added, {counts.modified} modified, {counts.removed} removed"


def plan(actions: Sequence[Action], left: Sequence[Kept]) -> None:
    """What a restore will do: for --dry-run and before asking."""
    shown = shapes.really_changes(actions)
    for action in shown[: None if len(shown) <= _SHOWN else _SHOWN]:
        change = Change(action.path, action.before, action.after)
        sign = _SIGNS[change.status]
        say(f"  {_paint(sign, _COLOURS[sign])}  {fsio.show(action.path)}{_sizes(change)}")
    if len(shown) > _SHOWN:
        say(f"  ... and {len(shown) - _SHOWN} more; --dry-run --json lists all of them")
    _kept(left)


def _kept(left: Sequence[Kept]) -> None:
    for item in left[:_SHOWN]:
        (say if item.benign else remark)(f"  left alone: {fsio.show(item.path)}: {fsio.show(item.reason)}")
    if len(left) > _SHOWN:
        say(f"  ... and {len(left) - _SHOWN} more paths left alone")


def restored(report: Restored, dry_list: bool = False) -> None:  # noqa: FBT001, FBT002 - one caller, one meaning
    """restore, undo, redo."""
    actions = shapes.really_changes(report.actions)
    wrote = sum(1 for action in actions if action.after is not None)
    removed = len(actions) - wrote
    if dry_list:
        say(f"would restore {plural(wrote, 'path')} and remove {removed}; {plural(report.unchanged, 'path')} would stay")
        plan(report.actions, report.kept)
        return
    name = {"restore": "restored", "undo": "undone", "redo": "redone", "abort": "taken back"}.get(report.op, "written")
    if report.op == "materialise":
        say(f"written: {plural(wrote, 'path')}")
    elif not actions and report.kept and not report.unchanged:
        say(f"nothing was {name}")
    elif not actions:
        say(f"nothing to do: the worktree has it already ({plural(report.unchanged, 'path')} unchanged)")
    else:
        say(f"{name}: {plural(wrote, 'path')} written, {removed} removed, {report.unchanged} unchanged")
    _kept(report.kept)
    if report.op == "restore" and report.safety:
        say(f"  the state before is {report.safety}; casrewind undo goes back to it")
    if report.op == "undo" and any(item.reason == "edited since" for item in report.kept):
        if actions:
            say("  to put those back too: casrewind redo, then casrewind undo --all")
        else:
            say("  to put those back too: casrewind undo --all")
    elif report.op == "undo" and actions:
        say("  casrewind redo takes the undo back")


def ask(plan_to_do: Plan, reference: str) -> bool:
    """Show a plan and ask. Anything but yes is no."""
    say(f"restoring {fsio.show(reference)!r} will change:")
    plan(plan_to_do.actions, plan_to_do.kept)
    try:
        answer = input("Go on? The state before is kept for undo. [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def verified(found: Verified) -> None:
    """verify."""
    if not found.problems:
        say(f"sound: {plural(found.checkpoints, 'checkpoint')}, {plural(found.blobs, 'blob')} read and checked")
        return
    say(f"DAMAGED: {plural(len(found.problems), 'problem')} in {plural(found.checkpoints, 'checkpoint')}")
    for problem in found.problems:
        say(f"  {problem.kind} {problem.id[:16]}: {fsio.show(problem.detail)}")
    say("  what is not named here can still be restored: casrewind restore REF, or restore REF -- PATH")


def status(found: Status, root: str, store: str, budget: int) -> None:
    """status."""
    say("protected" if found.protected else "NOT PROTECTED")
    for reason in found.reasons:
        say(f"  ! {reason}")
    say(f"  root         {fsio.show(root)}")
    say(f"  store        {fsio.show(store)} ({size(found.store_bytes)} of {size(budget)})")
    say(f"  checkpoints  {found.checkpoints}; {plural(found.undo, 'restore')} to undo, {found.redo} to redo")
    if found.last is not None:
        last = found.last
        label = f" {fsio.show(last.label)!r}" if last.label else ""
        say(f"  last         {last.id}{label}, {age(last.created_ns)}: {plural(last.files, 'file')}, {size(last.size)}")
    if found.journal is not None:
        state = "running" if found.running else "interrupted"
        say(f"  journal      a {found.journal.op} of {found.journal.target} is {state}")
    _skipped(found.skipped)


def where(path: bytes) -> str:
    """A path for a sentence."""
    return fsio.show(path) if path else paths.display(b".")
