"""The present state of the worktree, captured so that a restore can touch it: every byte that will go is stored first.

The danger prevented here: "it has not changed" read off a stamp. Every path that a plan will touch is read and hashed
again, ignored paths that the target names included, and what cannot be read is in the way, not absent.
"""

import os
import stat
from collections.abc import Iterable, Sequence

from .. import errors, fsio
from ..model import manifest, paths
from ..model.diff import Change, diff
from ..model.manifest import DIR, LINK, PURGED, Entry, Loader, same
from ..model.phases import needs_opening
from ..model.plan import Action, Kept, content_differs
from ..store.session import DrySession, Session
from ..typed import NamedTuple
from ..worktree import scan as scans
from ..worktree import sheet as sheets
from ..worktree.files import NotCapturable, Spelling
from .damage import NOTHING, Sound, sound
from .site import Site

_SHOWN = 10


class Present(NamedTuple):
    """The manifest of everything that is there now, as far as the target has to do with it, and the scan behind it.

    `target` is what can be had of the target, when there is one, `paths` how many paths that has.
    """

    tree: bytes
    scan: scans.Scan
    target: Sound = NOTHING
    paths: int = 0


def scan_now(site: Site, session: Session | DrySession) -> scans.Scan:
    """Scan the worktree with the help of the stat cache."""
    remembered = site.store.stamps(site.root.key)
    sheet = None if remembered.sheet is None else sheets.Sheet(remembered.sheet.data, remembered.sheet.stale)
    return scans.scan(
        site.tree, session, session.load_tree, site.options, remembered.get, site.say("scanning"), sheet
    )


def add_paths(
    site: Site,
    session: Session | DrySession,
    tree: bytes,
    wanted: Iterable[bytes],
    known: Iterable[bytes] = (),
    strangers: dict[bytes, str] | None = None,
) -> bytes:
    """The manifest `tree` with what stands at the paths `wanted` now, read afresh; `known` are those already read.

    Parents before children. What cannot be stored goes into `strangers`, {path: what it is}; without that, it raises
    ContentInTheWay.
    """
    finder = manifest.Finder(session.load_tree, tree)
    everything = set(wanted)
    for path in list(everything):
        # a directory that is not captured (ignored, say) has to be, for what is in it to have a place
        everything.update(parent for parent in paths.parents(path) if finder.find(parent) is None)
    fresh: dict[bytes, Entry | None] = {}
    obstacles: list[str] = []
    absent: set[bytes] = set()
    skip = set(known)
    spelling = Spelling(site.tree) if site.tree.folds_names() else None
    for path in sorted(everything):
        if path in skip or any(parent in absent for parent in paths.parents(path)):
            continue
        # on a file system that folds names, the same file under another name is another path: plan.fold joins the two
        respelled = spelling is not None and not spelling.is_exact(path)
        found: list[str] = []
        entry = None if respelled else _capture(site, session, path, found)
        if found and strangers is not None:
            strangers[path] = found[0]
        else:
            obstacles += found
        if entry is None:
            absent.add(path)
        fresh[path] = entry
    if obstacles:
        raise in_the_way(obstacles)
    return _patched(session, finder, tree, fresh)


def _capture(site: Site, session: Session | DrySession, path: bytes, obstacles: list[str]) -> Entry | None:
    name = paths.display(path)
    try:
        captured = site.tree.capture(path, session)
    except NotCapturable:
        obstacles.append(f"{name} is a special file")
        return None
    except OSError as error:
        if fsio.is_ours(error):
            raise
        obstacles.append(f"{name} cannot be read: {error.strerror}")
        return None
    if captured is None:
        return None
    # One that never held still is taken as it was seen last: if it is not that any more when its turn comes, it is kept.
    status = site.tree.status_of(path)
    if status is not None and status.st_dev != site.tree.status.st_dev:
        obstacles.append(f"{name} lies on another file system")
    return captured.entry


def _patched(
    session: Session | DrySession, finder: manifest.Finder, tree: bytes, fresh: dict[bytes, Entry | None]
) -> bytes:
    """Put fresh entries into the manifest; a directory keeps the tree that the manifest has for it."""
    changes: dict[bytes, Entry | None] = {}
    for path, entry in fresh.items():
        old = finder.find(path)
        if entry is not None and entry.kind == DIR and old is not None and old.kind == DIR:
            entry = entry._replace(digest=old.digest)
        if entry != old:
            changes[path] = entry
    return manifest.patch(session.load_tree, session.put_tree, tree, changes) if changes else tree


def closed(site: Site, actions: Iterable[Action]) -> list[str]:
    """What this process may not change although the actions need it: found before the first change, not in the middle.

    A directory of ours that forbids its owner to write is no obstacle: the plan opens it and closes it again.
    """
    me = os.geteuid()
    obstacles: dict[bytes, str] = {}
    opened = {action.source for action in actions if needs_opening(action)}
    for action in actions:
        before, after = action.before, action.after
        status = site.tree.status_of(action.source)
        if before is not None and after is not None and before.kind == after.kind and not content_differs(action):
            if status is not None and me not in (0, status.st_uid) and not same(before, after) and after.kind != LINK:
                obstacles[action.path] = f"{paths.display(action.path)} belongs to somebody else: its mode cannot be changed"
            if action.source == action.path:
                continue
        place = action.source.rpartition(b"/")[0]
        if place in obstacles:
            continue
        there = site.tree.status_of(place) if place else os.fstat(site.tree.fd)
        if there is None or not stat.S_ISDIR(there.st_mode) or (place in opened and there.st_uid == me):
            continue
        if not site.tree.may_change(place):
            obstacles[place] = f"the directory {paths.display(place) or fsio.show(site.tree.root)} may not be written to"
    return list(obstacles.values())


def in_the_way(obstacles: list[str]) -> errors.ContentInTheWay:
    """The refusal that names what is in the way."""
    shown = "; ".join(obstacles[:_SHOWN])
    more = f"; and {len(obstacles) - _SHOWN} more" if len(obstacles) > _SHOWN else ""
    return errors.ContentInTheWay(
        f"content in the way, nothing was changed: {shown}{more}. Move it away, or restore only other paths with -- PATH"
    )


def capture_for(site: Site, session: Session | DrySession, target: bytes, scope: Sequence[bytes]) -> Present:
    """The present state for a restore to the manifest `target`, limited to `scope`.

    The scan, plus every path that only the target names (ignored now, or really absent), plus a fresh look at every
    path that would change and whose bytes were not read by the scan itself. What stands above a path of the scope counts
    only where the target has that path (add_paths sees to it): else it is nobody's business.
    """
    scan = scan_now(site, session)
    places = paths.Places(scope)
    load = session.load_tree
    aim = sound(load, session.put_tree, target, scan.tree, names=bool(scope) or site.tree.folds_names())
    target = aim.tree

    def within(change: Change) -> bool:
        return places.cover(change.path)

    # what is purged in the target is left alone: storing it now would bring back what somebody wanted gone
    changes = list(diff(load, scan.tree, target))
    only_target = [
        change.path
        for change in changes
        if change.old is None and (change.new is None or change.new.kind != PURGED) and within(change)
    ]
    tree = add_paths(site, session, scan.tree, only_target)
    if isinstance(session, Session):
        touched = [
            change.path
            for change in diff(load, tree, target)
            if change.old is not None and change.old.kind != DIR and within(change)
        ]
        tree = add_paths(site, session, tree, touched, {*scan.read, *only_target})
    if aim.named is not None:
        return Present(tree, scan, aim, len(aim.named))
    gained = sum((change.old is None) - (change.new is None) for change in changes)
    return Present(tree, scan, aim, scan.entries + gained)


def holdouts(
    site: Site, load: Loader, tree: bytes, actions: tuple[Action, ...], *, benign: bool
) -> tuple[list[Kept], list[str]]:
    """(directories that cannot go because something unplanned is in them, obstacles to directories becoming files).

    Looks at the directories that the actions remove or replace, as they are now.
    """
    finder = manifest.Finder(load, tree)
    going = {action.path for action in actions if action.after is None}
    kept: list[Kept] = []
    obstacles: list[str] = []
    replaced = {
        action.path
        for action in actions
        if action.before is not None and action.after is not None and action.before.kind == DIR != action.after.kind
    }
    for action in actions:
        if action.before is None or action.before.kind != DIR or (action.after is not None and action.after.kind == DIR):
            continue
        try:
            names = site.tree.names(action.source)
        except OSError:
            names = ()
        strangers = [name for name in names if paths.join(action.path, name) not in going]
        if not strangers:
            continue
        inside = next((place for place in (*paths.parents(action.path), action.path) if place in replaced), None)
        first = paths.join(action.path, strangers[0])
        if inside is not None:
            obstacles.append(f"{paths.display(first)} is in no checkpoint and {paths.display(inside)} has to become a file")
        else:
            known = finder.find(first) is not None
            reason = f"still holds {paths.display(strangers[0])}" + ("" if known else ", which is not captured")
            kept.append(Kept(action.path, reason, benign=benign))
    return kept, obstacles
