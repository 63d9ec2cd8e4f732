"""What a person reads of all stores: stores, adopt."""

import os
import shlex
from collections.abc import Sequence

from ... import fsio
from ...ops.adopt import Adopted
from ...ops.prune import Pruned, Spared
from ...ops.stores import Found
from .text import age, confirmed, plural, say, size


def stores(found: Sequence[Found], data: str) -> None:
    """stores."""
    if not found:
        say(f"no stores under {fsio.show(data)}; casrewind save makes one")
        return
    for store in found:
        _describe(store)
        if store.problem is not None:
            say(f"  CANNOT BE USED: {fsio.show(store.problem)}")
    moved = next((store.root for store in found if store.root and not store.exists), None)
    if moved is not None:
        say(
            f"stores --prune-missing 30d removes those of projects that are gone; one that was moved takes its checkpoints along: "
            f"casrewind adopt {shlex.quote(fsio.show(moved))}, where it is now"
        )


def _describe(store: Found) -> None:
    say(_name(store) + ("" if store.exists or not store.root else "  (GONE)"))
    used = f", used {age(store.used_ns)}" if store.used_ns else ""
    say(f"  {plural(store.checkpoints, 'checkpoint')}, {size(store.size)}{used}; {fsio.show(os.path.basename(store.path))}")
    for line in store.worktrees:
        if line.root != store.root:
            gone = "" if line.exists else "  (GONE)"
            say(f"  {plural(line.checkpoints, 'checkpoint')} of them of {fsio.show(line.root)}{gone}")


def _name(store: Found) -> str:
    return fsio.show(store.root if store.root is not None else store.path)


def pruned(found: Pruned) -> None:
    """stores --prune-missing."""
    for store in found.removed:
        _describe(store)
    _kept(found.kept)
    would = "would remove" if found.dry_run else "removed"
    free = "free" if found.dry_run else "freed"
    say(f"{would} {plural(len(found.removed), 'store')} and {free} {size(found.freed)}" if found.removed else "nothing to remove")


def _kept(kept: Sequence[Spared]) -> None:
    for item in kept:
        say(f"kept {_name(item.store)}: {fsio.show(item.reason)}")


def ask(found: Pruned) -> bool:
    """Show what will go, and ask. Anything but yes is no."""
    for store in found.removed:
        _describe(store)
    _kept(found.kept)
    say(f"removing {plural(len(found.removed), 'store')}, {size(found.freed)}; one whose project was moved: casrewind adopt, there, first")
    return confirmed()


def adopted(found: Adopted) -> None:
    """adopt."""
    checkpoints = plural(found.checkpoints, "checkpoint")
    say(f"adopted {checkpoints} of {fsio.show(found.old)}: they are those of {fsio.show(found.root)} now")
