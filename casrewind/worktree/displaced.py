"""The ground that a restore works on: where a path is now, what stands there, and what becomes of the displaced.

The danger prevented here: removing something that only looked like what the safety checkpoint holds. Whatever lost its
name to an action is hashed once more before it goes; what turns out to be something else is put back, or is kept under
a name that the user will see.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .. import errors, fsio
from ..model import paths
from ..model.manifest import DIR, TEMPORARY_PREFIX, Entry, same
from ..model.plan import Action, Actions, Kept
from . import rename
from .reader import HashSink, NotCapturable, Worktree, capture_at, is_absence

CHANGED = "changed while the restore ran"
MOVED_ASIDE = b"o"
"""Suffix of a temporary name that was given to something of the user's, never to content of ours."""

UNKNOWN = Entry("special", 0, 0, 0, b"", b"", b"")
"""Stands for something that is neither file, link nor directory, or cannot be read: like nothing in any plan."""

_HASH = HashSink()


@contextmanager
def naming(path: bytes) -> Iterator[None]:
    """Have an error of the system name the path that was worked on: its own name may be a temporary one, or none."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


class DisplacedFiles:
    """A worktree while the actions of one plan are carried out in it. `tag` makes temporary names the plan's own."""

    def __init__(self, tree: Worktree, actions: Actions, tag: str) -> None:
        """`actions` are those of the plan."""
        if not tag.isalnum():  # part of file names; it comes from a record of the store
            raise errors.UnsafePath(f"refused the id {tag[:40]!r}: it is none that casrewind gives")
        self.tree = tree
        self.kept: dict[bytes, Kept] = {}
        self.aside: dict[bytes, bytes] = {}  # directories that gave way to a file: path -> temporary name beside it
        self.spared: dict[bytes, Kept] = {}
        """Paths of actions that are not to be carried out, nor settled after an interruption."""
        self._actions, self._tag = actions, tag.encode()

    def temporary(self, action: Action, suffix: bytes = b"") -> bytes:
        """The name of an action's temporary file, beside the path that it changes."""
        return TEMPORARY_PREFIX + self._tag + b"-%d" % self.number(action) + suffix

    def number(self, action: Action) -> int:
        """The place of an action in the plan."""
        number = self._actions.number(action.path)
        assert number is not None
        return number

    @contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """(descriptor of the directory that a path lies in now, last component). Raises OSError."""
        fd, name = self.tree.open_parent(self.now(path))
        try:
            yield fd, name
        finally:
            os.close(fd)

    def now(self, path: bytes) -> bytes:
        """Where a path is while a directory above it stands aside."""
        if self.aside:
            for above in paths.parents(path):
                name = self.aside.get(above)
                if name is not None:
                    return paths.join(above.rpartition(b"/")[0], name) + path[len(above) :]
        return path

    @contextmanager
    def locate(self, path: bytes) -> Iterator[tuple[int, bytes, Entry | None]]:
        """As parent, and what stands at the path now, its bytes hashed: one way from the root for the look and for what is
        done upon it. The descriptor is -1 where there is no such directory (nothing stands there) or it is closed (UNKNOWN)."""
        fd, name, present = -1, b"", None
        try:
            fd, name = self.tree.open_parent(self.now(path))
        except OSError as error:
            if fsio.is_ours(error):
                raise
            present = None if is_absence(error) else UNKNOWN
        try:
            yield fd, name, present if fd < 0 else self.present_at(fd, name)
        finally:
            if fd >= 0:
                os.close(fd)

    def present(self, path: bytes) -> Entry | None:
        """What stands at a path now, its bytes hashed; UNKNOWN for what no plan can mean."""
        with self.locate(path) as (_, _, present):
            return present

    def present_at(self, fd: int, name: bytes) -> Entry | None:
        """What stands under a name in an open directory, as `present`."""
        try:
            captured = capture_at(fd, name, _HASH)
        except NotCapturable:
            return UNKNOWN
        except OSError as error:
            if fsio.is_ours(error):
                raise
            return UNKNOWN
        return None if captured is None else captured.entry

    def present_beside(self, path: bytes, name: bytes) -> Entry | None:
        """What stands under a name in the directory that `path` lies in."""
        return self.present(paths.join(path.rpartition(b"/")[0], name))

    def leave_alone(self, action: Action, reason: str = CHANGED) -> None:
        """Leave a path alone and remember why."""
        self.kept.setdefault(action.path, Kept(action.path, reason, benign=False))

    def dispose(self, fd: int, name: bytes, aside: bytes, action: Action) -> None:
        """Remove something displaced if the store holds it; else put it back, or keep it under a visible name."""
        held = self.present_at(fd, aside)
        if held is None:  # its directory went elsewhere, and it with it
            self.leave_alone(action)
            return
        if same(held, action.before) or same(held, action.after):
            os.unlink(aside, dir_fd=fd)
            return
        self.leave_alone(action)
        ours = action.after is not None and action.after.kind != DIR and same(self.present(action.path), action.after)
        if ours and rename.exchange(fd, aside, name):
            if same(self.present_beside(action.source, aside), action.after):
                os.unlink(aside, dir_fd=fd)  # what the restore wrote
            else:  # edited between the look and the exchange
                self.make_visible(fd, name, aside, action.path)
            return
        try:
            rename.without_replacing(fd, aside, name)
        except FileExistsError:
            self.make_visible(fd, name, aside, action.path)

    def make_visible(self, fd: int, name: bytes, aside: bytes, path: bytes) -> None:
        """Give displaced content that has no place any more a name that the user will see."""
        for number in range(1000):
            visible = name[:200] + b".casrewind-kept" + (b"-%d" % number if number else b"")
            try:
                rename.without_replacing(fd, aside, visible)
            except FileExistsError:
                continue
            where = paths.join(path.rpartition(b"/")[0], visible)
            reason = f"edited meanwhile: what stood at {paths.display(path)} is kept here"
            self.kept[where] = Kept(where, reason, benign=False)
            return
