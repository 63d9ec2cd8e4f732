"""What of a checkpoint cannot be had because the store is damaged: named, and on request left alone while all else is
restored.

The danger prevented here: one flipped bit that costs the whole undo, or a restore that deletes a directory because the
tree that lists it cannot be read. Where a tree is damaged the worktree stays as it is. Bytes that have their digest and
are no tree, or no tree that a save would write, are not damage but forgery: they are refused as a whole.
"""

from collections.abc import Callable, Iterable, Sequence

from .. import errors
from ..model import diff as diffs
from ..model import manifest, paths
from ..model import plan as plans
from ..model.manifest import DIR, FILE, Entry, Loader
from ..model.plan import Action, Kept, Plan
from ..typed import NamedTuple
from .site import Site

_SHOWN = 5


class Sound(NamedTuple):
    """A target without what cannot be read of it: its root `tree`, every path that it names (None: nobody asked), and what
    was `lost`."""

    tree: bytes
    named: tuple[bytes, ...] | None
    lost: tuple[Kept, ...]


NOTHING = Sound(b"", (), ())


def survey(load: Loader, root: bytes, now: bytes | None = None) -> tuple[list[tuple[bytes, Entry]], list[Kept]]:
    """(every path and entry of a manifest that can be had, the directories whose trees are damaged).

    What is in directories that are the same in the manifest `now` is left out: its trees are not read. Raises
    StoreDamaged when nothing can be had: when the root's own tree is damaged.
    """
    entries: list[tuple[bytes, Entry]] = []
    lost: list[Kept] = []
    lenient = diffs.lenient(load)
    stack: list[tuple[bytes, bytes, bytes | None]] = [(b"", root, now)]
    while stack:
        place, digest, other = stack.pop()
        if digest == other:
            continue
        if place.count(b"/") >= paths.MAX_DEPTH:
            raise errors.UnsafePath(f"refused manifest: more than {paths.MAX_DEPTH} levels")
        try:
            rows = load(digest)
        except (errors.BlobMissing, errors.BlobCorrupt) as error:
            if not place:
                raise
            lost.append(Kept(place, f"its tree is damaged in the store: {error}", benign=False))
            continue
        there = {} if other is None else {name: entry.digest for name, entry in lenient(other) if entry.kind == DIR}
        for name, entry in rows:
            path = paths.join(place, name)
            entries.append((path, entry))
            if entry.kind == DIR:
                stack.append((path, entry.digest, there.get(name)))
    return entries, lost


def sound(load: Loader, put: Callable[[bytes], bytes], target: bytes, now: bytes, *, names: bool) -> Sound:
    """The manifest `target` where, for each directory whose tree is damaged, stands what the manifest `now` has there.

    Unless the `names` of all its paths are wanted, or something is lost, trees that both have are not read: nothing in
    these directories has to be restored. Raises StoreDamaged when nothing can be had: when the root's own tree is damaged.
    """
    if not names and not survey(load, target, now)[1]:
        return Sound(target, None, ())
    entries, lost = survey(load, target)
    named = tuple(path for path, _ in entries)
    if not lost:
        return Sound(target, named, ())
    finder = manifest.Finder(load, now)
    tree = manifest.graft(load, put, target, {item.path: finder.find(item.path) for item in lost})
    return Sound(tree, named, tuple(lost))


def unreadable(site: Site, actions: Iterable[Action]) -> list[Kept]:
    """The paths whose content has to be written and cannot be had whole from the store. Reads all of it.

    Raises ManifestCorrupt for content that is sound and not what its entry says.
    """
    wanted = [action for action in actions if plans.content_differs(action)]
    report = site.say_of("checking stored content")
    lost = []
    for number, action in enumerate(wanted):
        after = action.after
        if after is not None and after.kind == FILE:
            try:
                if sum(map(len, site.store.content(after))) != after.size:
                    raise errors.ManifestCorrupt(
                        f"damaged tree: the content of {paths.display(action.path)} has another size; run casrewind verify"
                    )
            except (errors.BlobMissing, errors.BlobCorrupt) as error:
                lost.append(Kept(action.path, f"damaged in the store: {error}", benign=False))
        if report is not None:
            report(number + 1, len(wanted))
    return lost


def refuse(lost: Sequence[Kept], hint: str) -> None:
    """Raise StoreDamaged when anything is lost, with the names."""
    if not lost:
        return
    shown = "; ".join(f"{paths.display(item.path)}: {item.reason}" for item in lost[:_SHOWN])
    more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    raise errors.StoreDamaged(
        f"damaged store, nothing was changed: {shown}{more}. {hint}; casrewind verify says all that is affected"
    )


def leave(plan: Plan, lost: Sequence[Kept]) -> Plan:
    """The plan without what was lost. Where a directory was to give way to a lost file, what is in it stays, too."""
    if not lost:
        return plan
    places = paths.Places([item.path for item in lost])
    inside = [
        Kept(action.path, "what should take its place is damaged in the store", benign=False)
        for action in plan.actions
        if places.cover(action.path) and action.path not in {item.path for item in lost}
    ]
    return plans.keep(plan, [*lost, *inside])
