"""What of a checkpoint cannot be had because the store is damaged: named, and on request left alone while all else is
restored.

The danger prevented here: one flipped bit that costs the whole undo, or a restore that deletes a directory because the
tree that lists it cannot be read. Where a tree is damaged the worktree stays as it is. Bytes that have their digest and
are no tree, or no tree that a save would write, are not damage but forgery: they are refused as a whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from .. import errors
from ..model import diff as diffs
from ..model import manifest, paths
from ..model import plan as plans
from ..model.manifest import DIR, FILE, Entry, Loader
from ..model.plan import Action, Kept, Plan
from ..store import packs
from ..typed import NamedTuple
from .site import Site

_SHOWN = 5
_AT_ONCE = 100  # blobs that are looked up together


class Sound(NamedTuple):
    """A target without what cannot be read of it: its root `tree`, every path that it names (None: nobody asked), and what
    was `lost`."""

    tree: bytes
    named: tuple[bytes, ...] | None
    lost: tuple[Kept, ...]


NOTHING = Sound(b"", (), ())


def survey(load: Loader, root: bytes, lost: list[Kept]) -> Iterator[tuple[bytes, Entry]]:
    """Every path and entry of a manifest that can be had; the directories whose trees are damaged go into `lost`.

    Raises StoreDamaged when nothing can be had: when the root's own tree is damaged.
    """
    bound = manifest.Bound(load, root)
    stack: list[tuple[bytes, bytes]] = [(b"", root)]
    while stack:
        place, digest = stack.pop()
        if place.count(b"/") >= paths.MAX_DEPTH:
            raise errors.ManifestRefused(f"more than {paths.MAX_DEPTH} levels", (root,))
        bound.visit(digest)
        try:
            rows = load(digest)
        except (errors.BlobMissing, errors.BlobCorrupt) as error:
            if not place:
                raise
            lost.append(Kept(place, f"its tree is damaged in the store: {error}", benign=False))
            continue
        for name, entry in rows:
            path = paths.join(place, name)
            yield path, entry
            if entry.kind == DIR:
                stack.append((path, entry.digest))


def _is_whole(load: Loader, root: bytes, now: bytes) -> bool:
    """Whether every tree of a manifest can be had that the manifest `now` does not have in the same place."""
    lenient = diffs.lenient(load)
    stack: list[tuple[bytes, bytes | None, int]] = [(root, now, 0)]
    seen: set[int] = set()
    try:
        while stack:
            digest, other, depth = stack.pop()
            if depth > paths.MAX_DEPTH:
                raise errors.ManifestRefused(f"more than {paths.MAX_DEPTH} levels", (root,))
            if digest != other and hash((digest, other)) not in seen:
                seen.add(hash((digest, other)))
                there = {} if other is None else {name: entry.digest for name, entry in lenient(other) if entry.kind == DIR}
                stack += [(entry.digest, there.get(name), depth + 1) for name, entry in load(digest) if entry.kind == DIR]
    except (errors.BlobMissing, errors.BlobCorrupt):
        return False
    return True


def sound(load: Loader, put: Callable[[bytes], bytes], target: bytes, now: bytes, *, names: bool) -> Sound:
    """The manifest `target` where, for each directory whose tree is damaged, stands what the manifest `now` has there.

    Unless the `names` of all its paths are wanted, or something is lost, trees that both have are not read: nothing in
    these directories has to be restored. Raises StoreDamaged when nothing can be had: when the root's own tree is damaged.
    """
    lost: list[Kept] = []
    if not names and _is_whole(load, target, now):
        return Sound(target, None, ())
    named = tuple(path for path, _ in survey(load, target, lost))
    if not lost:
        return Sound(target, named, ())
    finder = manifest.Finder(load, now)
    tree = _graft(load, put, target, {item.path: finder.find(item.path) for item in lost})
    return Sound(tree, named, tuple(lost))


def _graft(
    load: Loader, store: Callable[[bytes], bytes], root: bytes, changes: Mapping[bytes, Entry | None]
) -> bytes:
    """As manifest.patch, but an entry comes as it is: a directory with the tree that it names. The trees that are replaced are
    not looked into; none of the paths may lie under another one."""
    finder = manifest.Finder(load, root)
    made = dict(changes)
    pending = {path.rpartition(b"/")[0] for path in changes}
    while True:
        place = max(pending, key=lambda path: path.count(b"/") + (path != b""))  # deepest first, the root last
        pending.discard(place)
        rows = dict(finder.directory(place))
        for path, entry in made.items():
            parent, _, name = path.rpartition(b"/")
            if parent == place and entry is None:
                rows.pop(name, None)
            elif parent == place and entry is not None and path:
                rows[name] = entry
        digest = store(manifest.encode_tree(rows.items()))
        here = finder.find(place) if place else None
        if here is None:
            return digest
        made[place] = here._replace(digest=digest)
        pending.add(place.rpartition(b"/")[0])


def unreadable(site: Site, actions: Sequence[Action]) -> list[Kept]:
    """The paths whose content has to be written and cannot be had whole from the store. Reads all of it.

    Raises ManifestCorrupt for content that is sound and not what its entry says.
    """
    wanted = [number for number, action in enumerate(actions) if plans.content_differs(action)]
    report = site.say_of("checking stored content")
    lost: list[Kept] = []
    for start in range(0, len(wanted), _AT_ONCE):
        part = [actions[number] for number in wanted[start : start + _AT_ONCE]]
        lost += _unlike(site, [(each.path, each.after) for each in part if each.after is not None and each.after.kind == FILE])
        if report is not None:
            report(start + len(part), len(wanted))
    return lost


def _unlike(site: Site, files: Sequence[tuple[bytes, Entry]]) -> Iterator[Kept]:
    wanted = list({entry.digest for _, entry in files if not entry.chunks})
    found = {digest: len(data) if isinstance(data, bytes) else data for digest, data in site.store.read_many(wanted, packs.FILE)}
    for path, entry in files:
        try:
            length = sum(map(len, site.store.content(entry))) if entry.chunks else found[entry.digest]
            if isinstance(length, errors.StoreDamaged):
                raise length
            if length != entry.size:
                raise errors.ManifestCorrupt(
                    f"damaged tree: the content of {paths.display(path)} has another size; run casrewind verify"
                )
        except (errors.BlobMissing, errors.BlobCorrupt) as error:
            yield Kept(path, f"damaged in the store: {error}", benign=False)


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
    left = {item.path for item in lost}
    places = paths.Places(left)
    inside = [
        Kept(action.path, "what should take its place is damaged in the store", benign=False)
        for action in plan.actions
        if places.cover(action.path) and action.path not in left
    ]
    return plans.keep(plan, [*lost, *inside])
