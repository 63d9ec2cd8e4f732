"""What this process may not change although a plan needs it: found before the first change, not in the middle.

The danger prevented here: a restore that stops half way, and that no --continue can ever finish.
"""

import os
import stat
from collections.abc import Iterable, Sequence

from .. import fsio
from ..model import paths
from ..model.manifest import DIR, LINK, same
from ..model.phases import needs_opening
from ..model.plan import Action, content_differs
from ..worktree.attributes import Attributes
from ..worktree.files import is_absence
from .present import mounted
from .site import Site

_HOW = {"immutable": "chattr -i lets go of it", "append-only": "chattr -a lets go of it"}


def closed(site: Site, actions: Sequence[Action]) -> list[str]:
    """What may not be changed, in words; nothing is changed to find out.

    A directory of ours that forbids its owner to write is no obstacle: the plan opens it and closes it again. Mounts are those of
    now, not of when the plan was made.
    """
    found: dict[bytes, str] = {}
    site.tree.look_for_mounts()
    with _Look(site, frozenset(action.source for action in actions if needs_opening(action))) as look:
        for action in actions:
            point = site.tree.mounts.above(action.source)
            if point is not None:
                found[point] = mounted(point)
                continue
            place, _, name = action.source.rpartition(b"/")
            look.enter(place)
            status = None if action.before is None else look.status(name)
            why = "" if status is None else look.why_not(name, status, action)
            if why:
                found[action.source] = f"{paths.display(action.source)} {why}"
            if _changes_names(action, status) and (why := look.why_no_names()):
                found[place] = why
    return list(found.values())


def under_mounts(site: Site, actions: Iterable[Action]) -> dict[bytes, str]:
    """{path: its mount point, in words} of the actions on paths that lie on a mount now."""
    site.tree.look_for_mounts()
    points = ((action.path, site.tree.mounts.above(action.source)) for action in actions)
    return {path: mounted(point) for path, point in points if point is not None}


def _changes_names(action: Action, status: os.stat_result | None) -> bool:
    """True when an action makes, removes or renames a name in its directory."""
    before, after = action.before, action.after
    if before is None or after is None or before.kind != after.kind or action.source != action.path or content_differs(action):
        return True
    return needs_copy(action, status)


def needs_copy(action: Action, status: os.stat_result | None) -> bool:
    """True when a file's mode changes and it has other names: then a copy replaces it. `status` is its lstat."""
    before, after = action.before, action.after
    if before is None or after is None or after.kind in (DIR, LINK) or same(before, after):
        return False
    return not content_differs(action) and status is not None and status.st_nlink > 1


class _Look:
    """The directories of a plan, one after the other, each opened once. `opened` are those that the plan opens for us."""

    def __init__(self, site: Site, opened: frozenset[bytes]) -> None:
        self._site, self._opened = site, opened
        self._attributes, self._me = Attributes(), os.geteuid()
        self._place: bytes | None = None
        self._fd, self._said = -1, False

    def __enter__(self) -> "_Look":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def enter(self, place: bytes) -> None:
        """Look at what is in this directory from now on."""
        if place == self._place:
            return
        self._close()
        self._place, self._said = place, False
        try:
            self._fd = self._site.tree.open_directory(place)
        except OSError as error:
            if fsio.is_ours(error):
                raise

    def status(self, name: bytes) -> os.stat_result | None:
        """lstat of a name, None where that cannot be had."""
        try:
            return None if self._fd < 0 else os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            if is_absence(error) or not fsio.is_ours(error):
                return None
            raise

    def why_not(self, name: bytes, status: os.stat_result, action: Action) -> str:
        """Why what an action finds may not be changed; "" where it may."""
        before, after = action.before, action.after
        keeps_content = before is not None and after is not None and before.kind == after.kind and not content_differs(action)
        if keeps_content and after is not None and after.kind == LINK and action.source == action.path:
            return ""
        attribute = self._attributes.of(name, self._fd, status)
        if attribute:
            return f"is {attribute} ({_HOW[attribute]})"
        if self._me in (0, status.st_uid):
            return ""
        if keeps_content and not same(before, after):
            return "belongs to somebody else: its mode cannot be changed"
        directory = os.fstat(self._fd)
        if directory.st_mode & stat.S_ISVTX and directory.st_uid != self._me and _changes_names(action, status):
            return "belongs to somebody else, and its directory has the sticky bit: it can be neither replaced nor removed"
        return ""

    def why_no_names(self) -> str:
        """Why no names can be made and removed in the directory; "" where they can, and when that was said already."""
        place = self._place
        if place is None or self._said:
            return ""
        self._said = True
        shown = paths.display(place) or fsio.show(self._site.tree.root)
        there = self._site.tree.status_of(place) if place else os.fstat(self._site.tree.fd)
        if there is None or not stat.S_ISDIR(there.st_mode):
            return ""
        attribute = "" if self._fd < 0 else self._attributes.of_open(self._fd, there)
        if attribute:
            return f"the directory {shown} is {attribute} ({_HOW[attribute]})"
        if (place in self._opened and there.st_uid == self._me) or self._site.tree.may_change(place):
            return ""
        return f"the directory {shown} may not be written to"
