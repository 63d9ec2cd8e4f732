"""What a person reads of the store itself: status, verify."""

from collections.abc import Sequence

from ... import fsio
from ...ops.gc import Collected
from ...ops.resting import Seen, Status
from ...ops.verify import Verified
from .text import age, plural, say, size
from .timeline import skipped


def collected(found: Collected) -> None:
    """gc."""
    freed = found.bytes_before - found.bytes_after
    would = "would forget" if found.dry_run else "forgot"
    free = "would free about" if found.dry_run else "freed"
    say(
        f"{would} {plural(len(found.dropped), 'checkpoint')} and keep {found.kept:,}; {free} {size(max(freed, 0))} of "
        f"{size(found.bytes_before)}"
    )
    if not found.dry_run:
        return
    for item in found.dropped:
        point = item.checkpoint
        what = point.label or point.prompt or point.trigger.replace("_", " ")
        say(f"  {point.id}  {age(point.created_ns):>12}  {item.reason}  {fsio.show(what)}")


def verified(found: Verified, *, quick: bool) -> None:
    """verify."""
    for line in found.repaired:
        say(f"repaired: {fsio.show(line)}")
    if not found.problems:
        how = "found in place" if quick else "read and checked"
        say(f"sound: {plural(found.checkpoints, 'checkpoint')}, {plural(found.blobs, 'blob')} {how}")
        return
    say(f"DAMAGED: {plural(len(found.problems), 'problem')} in {plural(found.checkpoints, 'checkpoint')}")
    for problem in found.problems:
        say(f"  {problem.kind} {problem.id[:16]}: {fsio.show(problem.detail)}")
    if any(problem.affects for problem in found.problems):
        say("  --json names every checkpoint and path that is affected")
    say("  what is not named here can still be restored: casrewind restore REF --skip-damaged, or restore REF -- PATH")
    if not found.repaired:
        say("  casrewind verify --repair mends what can be mended")
    say("  casrewind save stores again what the project still holds, and so mends older checkpoints that miss it")


def status(found: Status, seen: Sequence[Seen], root: str, store: str, budget: int) -> None:
    """status."""
    say("protected" if found.protected else "NOT PROTECTED")
    for reason in found.reasons:
        say(f"  ! {reason}")
    say(f"  root         {fsio.show(root)}")
    say(f"  store        {fsio.show(store)} ({size(found.store_bytes)} of {size(budget)})")
    steps = f"{plural(found.undo, 'restore')} to undo, {found.redo} to redo" if found.undo or found.redo else "no restore to undo"
    say(f"  checkpoints  {found.checkpoints}; {steps}")
    if found.last is not None:
        last = found.last
        label = f" {fsio.show(found.label)!r}" if found.label else ""
        say(f"  last         {last.id}{label}, {age(last.created_ns)}: {plural(last.files, 'file')}, {size(last.size)}")
    for item in seen:
        event = f"last event {fsio.show(item.event)}, {age(item.event_ns)}" if item.event else "no event known"
        point = f"; last checkpoint {item.checkpoint}, {age(item.checkpoint_ns)}" if item.checkpoint else ""
        say(f"  {fsio.show(item.agent):<11}  {'runs now; ' if item.running else ''}{event}{point}")
    if not seen:
        say("  agents       none was seen in this project; casrewind doctor says whether one is connected")
    if found.journal is not None:
        state = "is running" if found.running else "was interrupted"
        say(f"  unfinished   {found.journal.op} of {found.journal.target} {state}")
    skipped(found.skipped)
