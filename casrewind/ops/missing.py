"""Paths that a command was given and that exist nowhere.

The danger prevented here: a mistyped path that looks like one without any change.
"""

from collections.abc import Sequence
from itertools import islice

from .. import errors, fsio
from ..model import diff as diffs
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR
from .site import Site

_SHOWN = 3  # paths that a message names
_PLACES = 300
"""Directories that are searched for a name that is not where it was looked for."""


def missing(site: Site, points: Sequence[Checkpoint], scope: Sequence[bytes]) -> tuple[bytes, ...]:
    """The paths in `scope`, sorted, that no checkpoint in `points` holds and that do not exist in the worktree.

    Raises PathNotFound when that is every path in `scope`.
    """
    finders = [manifest.Finder(site.store.load_tree, point.tree) for point in points]
    found = [path for path in sorted(set(scope)) if path and not _exists(site, path)]
    found = [path for path in found if not any(_may_hold(finder, path) for finder in finders)]
    if found and len(found) == len(set(scope)):
        raise errors.PathNotFound(_message(site, points, found))
    return tuple(found)


def is_anywhere(site: Site, points: Sequence[Checkpoint], path: bytes) -> bool:
    """True when a checkpoint in `points` or the worktree has this very path."""
    return _exists(site, path) or any(_may_hold(manifest.Finder(site.store.load_tree, point.tree), path) for point in points)


def _exists(site: Site, path: bytes) -> bool:
    try:
        return site.tree.status_of(path) is not None
    except OSError:
        return True  # a directory above it cannot be searched: the path may exist


def _may_hold(finder: manifest.Finder, path: bytes) -> bool:
    try:
        return finder.find(path) is not None
    except errors.StoreDamaged:
        return True  # the command itself says what the damage means


def _message(site: Site, points: Sequence[Checkpoint], found: Sequence[bytes]) -> str:
    names = ", ".join(fsio.show(path) for path in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    held = " nor ".join(dict.fromkeys(point.id for point in points))
    said = f"no such path: {names}: neither {held} nor the worktree has {'it' if len(found) == 1 else 'one of them'}"
    for point in points:
        near = nearest(manifest.Finder(diffs.lenient(site.store.load_tree), point.tree), found[0])
        if near is not None:
            return f"{said}; the nearest known name is {fsio.show(near)}, in {point.id}"
    return f"{said}; casrewind show {points[-1].id} lists what that checkpoint holds"


def nearest(finder: manifest.Finder, path: bytes) -> bytes | None:
    """A path of this manifest that may have been meant: one with a similar name in the same place, or the same elsewhere."""
    here = b""
    for part in path.split(b"/"):
        names = finder.directory(here)
        if part not in names:
            import difflib

            text = {name.decode("utf-8", "surrogateescape"): name for name in names}
            near = difflib.get_close_matches(part.decode("utf-8", "surrogateescape"), text, 1)
            if near:
                return paths.join(here, text[near[0]])
            break
        here = paths.join(here, part)
    wanted, places = path.rpartition(b"/")[2], [b""]
    for place in places:
        names = finder.directory(place)
        if wanted in names:
            return paths.join(place, wanted)
        below = (paths.join(place, name) for name, entry in names.items() if entry.kind == DIR)
        places.extend(islice(below, max(_PLACES - len(places), 0)))
    return None
