"""What a person reads of the store itself: status, verify."""

from ... import fsio
from ...ops.resting import Status
from ...ops.verify import Verified
from .text import age, plural, say, size
from .timeline import skipped


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
    skipped(found.skipped)
