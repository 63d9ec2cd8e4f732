"""The worktree during a restore: the current location of each path, its content, and the displaced files.

The danger prevented here: removing a file that only resembles the safety checkpoint's content. Every displaced file is
hashed once more before its removal. If it differs, it is put back, or kept under a visible name.
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
"""Suffix of temporary names for the user's files; our own content never has it."""

UNKNOWN = Entry("special", 0, 0, 0, b"", b"", b"")
"""An unreadable or special file. It equals no entry of any plan."""

_HASH = HashSink()


@contextmanager
def naming(path: bytes) -> Iterator[None]:
    """Make an OSError name the path of the action instead of a temporary name."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


class DisplacedFiles:
    """A worktree during the execution of one plan. `tag` makes the plan's temporary names unique."""

    def __init__(self, tree: Worktree, actions: Actions, tag: str) -> None:
        """`actions` are the plan's."""
        if not tag.isalnum():  # it becomes part of file names, and is read from the store
            raise errors.UnsafePath(f"invalid checkpoint id {tag[:40]!r}")
        self.tree = tree
        self.kept: dict[bytes, Kept] = {}
        self.aside: dict[bytes, bytes] = {}  # directories replaced by a file: path -> temporary name beside it
        self.spared: dict[bytes, Kept] = {}
        """Paths to leave alone, also in recovery after an interruption."""
        self._actions, self._tag = actions, tag.encode()

    def temporary(self, action: Action, suffix: bytes = b"") -> bytes:
        """The name of an action's temporary file, beside its path."""
        return TEMPORARY_PREFIX + self._tag + b"-%d" % self.number(action) + suffix

    def number(self, action: Action) -> int:
        """The position of an action in the plan."""
        number = self._actions.number(action.path)
        assert number is not None
        return number

    @contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields (descriptor of the current parent directory, last component). Raises OSError."""
        fd, name = self.tree.open_parent(self.now(path))
        try:
            yield fd, name
        finally:
            os.close(fd)

    def now(self, path: bytes) -> bytes:
        """The current location of a path, if a directory above it was moved aside."""
        if self.aside:
            for above in paths.parents(path):
                name = self.aside.get(above)
                if name is not None:
                    return paths.join(above.rpartition(b"/")[0], name) + path[len(above) :]
        return path

    @contextmanager
    def locate(self, path: bytes) -> Iterator[tuple[int, bytes, Entry | None]]:
        """Yields (parent descriptor, name, hashed entry). The check and the action share one walk from the root.
        Without an accessible parent, the descriptor is -1, and the entry is None (parent missing) or UNKNOWN."""
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
        """The entry at a path now, with its content hashed; UNKNOWN if no plan can contain it."""
        with self.locate(path) as (_, _, present):
            return present

    def present_at(self, fd: int, name: bytes) -> Entry | None:
        """As `present`, for a name in an open directory."""
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
        """As `present`, for a name in the directory of `path`."""
        return self.present(paths.join(path.rpartition(b"/")[0], name))

    def leave_alone(self, action: Action, reason: str = CHANGED) -> None:
        """Leave a path alone and record the reason."""
        self.kept.setdefault(action.path, Kept(action.path, reason, benign=False))

    def dispose(self, fd: int, name: bytes, aside: bytes, action: Action) -> None:
        """Remove a displaced file if the store has its content; otherwise put it back or make it visible."""
        held = self.present_at(fd, aside)
        if held is None:  # its directory was moved, and the file with it
            self.leave_alone(action)
            return
        if same(held, action.before) or same(held, action.after):
            os.unlink(aside, dir_fd=fd)
            return
        self.leave_alone(action)
        ours = action.after is not None and action.after.kind != DIR and same(self.present(action.path), action.after)
        if ours and rename.exchange(fd, aside, name):
            if same(self.present_beside(action.source, aside), action.after):
                os.unlink(aside, dir_fd=fd)  # written by the restore
            else:  # edited between the check and the exchange
                self.make_visible(fd, name, aside, action.path)
            return
        try:
            rename.without_replacing(fd, aside, name)
        except FileExistsError:
            self.make_visible(fd, name, aside, action.path)

    def make_visible(self, fd: int, name: bytes, aside: bytes, path: bytes) -> None:
        """Rename displaced content that cannot be put back. The user will see its new name."""
        for number in range(1000):
            visible = name[:200] + b".casrewind-kept" + (b"-%d" % number if number else b"")
            try:
                rename.without_replacing(fd, aside, visible)
            except FileExistsError:
                continue
            where = paths.join(path.rpartition(b"/")[0], visible)
            reason = f"edited during the restore: the previous {paths.display(path)} is kept here"
            self.kept[where] = Kept(where, reason, benign=False)
            return
