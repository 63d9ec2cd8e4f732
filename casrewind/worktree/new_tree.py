"""Writes files into a directory that has none yet: no temporary names, and no sync of each file.

The danger prevented here: a part of a checkpoint that looks complete. So after an error everything that was written is
removed. A name that is there already is never written through, and no link is followed: the directory may be another user's.
"""

import fcntl
import os
import stat
import time
from contextlib import suppress

from .. import errors, fsio
from ..model import paths
from ..model import plan as plans
from ..model.manifest import PERMISSIONS
from ..model.plan import Kept
from . import origin_id, sparse
from .displaced import DisplacedFiles, mode_in_words, name_path_in_errors, time_in_words
from .reader import Worktree

_CLONE = 0x40049409
"""FICLONE. On PowerPC, MIPS and SPARC the number differs: the call fails, and no blocks are shown to be shared."""
_SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_OPEN_TO_ALL, _READABLE = 0o755, 0o644
_MOST_OPEN = 16
"""Directories of one new tree that are open together."""
GIT = b".git"
"""The only name that a new tree may have beside its own files: what git worktree add makes."""


class NewTree:
    """A new or empty directory that receives files. At the end, `sync` or `remove_all_written`, then `close`."""

    def __init__(self, directory: str) -> None:
        """Opens the directory. Raises OSError."""
        try:
            self.tree = Worktree(os.path.realpath(directory))
        except errors.WorkspaceNotFound as error:  # the directory is there: too few descriptors, or it was just removed
            raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None
        self.shares_blocks: bool | None = None
        """Whether a copy of the worktree's files can share their blocks; None: not tried yet."""
        self.incomplete: list[tuple[Kept, int]] = []
        """What has another mode, time or owner than planned, and the mode that it has."""
        self._access = DisplacedFiles(self.tree, plans.sort_and_pack(()), "new")
        self._makes_for_another = self._access.is_root_in_project_of_another
        self._made = bytearray()  # paths, each with a zero byte behind it
        self._modes: dict[bytes, int] = {}  # of directories that have the mode 0700 so far
        self._chain: list[tuple[bytes, int]] = []  # open directories, each below the one before
        self._parent, self._parent_fd = b"", -1  # the last of the chain
        self._out, self._is_hole = -1, False

    def close(self) -> None:
        """Close the directory."""
        self._close_unfinished_file()
        self._close_directories_not_above(None)
        self.tree.close()

    def _close_unfinished_file(self) -> None:
        fd, self._out = self._out, -1
        if fd >= 0:
            os.close(fd)

    def _close_directories_not_above(self, path: bytes | None) -> None:
        """Close the open directories that `path` does not lie in; all of them without a path."""
        while self._chain and (path is None or not (path + b"/").startswith(self._chain[-1][0] + b"/")):
            os.close(self._chain.pop()[1])
        self._parent, self._parent_fd = self._chain[-1] if self._chain else (b"", -1)

    def _enter_parent(self, path: bytes) -> bytes:
        """Make the parent of a path the open directory. Returns the path's last component."""
        parent, _, name = path.rpartition(b"/")
        if parent == self._parent and self._parent_fd >= 0:
            return name
        self._close_directories_not_above(parent)
        if parent != self._parent or self._parent_fd < 0:
            self._enter_directory(parent)
        mode = self._modes.get(parent, 0)
        if mode & stat.S_IRWXU == stat.S_IRWXU:
            self._set_mode(parent, self._parent_fd, mode)
            del self._modes[parent]
        return name

    def _enter_directory(self, path: bytes) -> None:
        """Open a directory, and put it behind the chain of those that it lies in."""
        if self._parent_fd >= 0 and len(self._chain) < _MOST_OPEN:
            fd = fsio.open_beneath(self._parent_fd, path[len(self._parent) + 1 :])
        else:
            fd = self.tree.open_directory(path)
            self._close_directories_not_above(None)
        self._chain.append((path, fd))
        self._parent, self._parent_fd = path, fd

    def make_directory(self, path: bytes, mode: int) -> None:
        """Make a directory. It gets its mode when it is entered, or in `finish` if its owner may not change it. Raises OSError."""
        name = self._enter_parent(path)
        self._record_path_to_remove(path)
        try:
            self._access.make_directory_with_owner(self._parent_fd, name)
        except FileExistsError:
            self._take_back_recorded_path(path)
            raise
        self._modes[path] = mode

    def make_link(self, path: bytes, target: bytes) -> None:
        """Make a link. Raises OSError."""
        name = self._enter_parent(path)
        self._record_path_to_remove(path)
        try:
            os.symlink(target, name, dir_fd=self._parent_fd)
        except FileExistsError:
            self._take_back_recorded_path(path)
            raise
        self._access.give_link_to_owner_of_root(self._parent_fd, name)

    def begin_file(self, path: bytes) -> None:
        """Make an empty file. Until `end_file`, it is the one that is written, and nobody else can read it. Raises OSError."""
        name = self._enter_parent(path)
        self._record_path_to_remove(path)
        try:
            self._out = os.open(name, fsio.CREATE_FLAGS, 0o600, dir_fd=self._parent_fd)
        except FileExistsError:
            self._take_back_recorded_path(path)
            raise
        self._is_hole = False

    def write(self, piece: bytes) -> None:
        """Write the next bytes of the file. Raises OSError."""
        self._is_hole = sparse.write_piece(self._out, piece)

    def write_file(self, path: bytes, content: bytes, mode: int, mtime_ns: int) -> None:
        """Make a file with all of its bytes: `begin_file`, `write` and `end_file` in one. Raises OSError. The usual case is
        spelled out: most files are small, and a call of Python costs as much as one of the system."""
        if len(content) >= sparse.HOLE or self._makes_for_another:
            self.begin_file(path)
            if content:
                self.write(content)
            self.end_file(path, mode, mtime_ns)
            return
        name = self._enter_parent(path)
        self._record_path_to_remove(path)
        try:
            self._out = out = os.open(name, fsio.CREATE_FLAGS, 0o600, dir_fd=self._parent_fd)
        except FileExistsError:
            self._take_back_recorded_path(path)
            raise
        if content and (written := os.write(out, content)) < len(content):
            fsio.write_all(out, content[written:])
        self._set_mode_and_time(path, mode & PERMISSIONS, mtime_ns)
        self._out = -1
        os.close(out)

    def share_blocks_of(self, source: int) -> bool:
        """Let the file share the blocks of an open file. False if that is not possible, and from then on."""
        if self.shares_blocks is not False:
            try:
                fcntl.ioctl(self._out, _CLONE, source)
                self.shares_blocks = True
            except OSError:
                self.shares_blocks = False
        return self.shares_blocks

    def empty_cloned_file(self) -> None:
        """Empty the file: what was cloned is not what is wanted. Raises OSError."""
        os.ftruncate(self._out, 0)

    def end_file(self, path: bytes, mode: int, mtime_ns: int) -> None:
        """Give the file its time and mode, and close it. Raises OSError."""
        if self._is_hole:
            sparse.set_length_after_hole(self._out)
        mode, why = mode & PERMISSIONS, ""
        if self._makes_for_another:
            mode, why = self._access.set_owner_group_and_acl(self._out, self._parent_fd, None, mode)
        self._set_mode_and_time(path, mode, mtime_ns, why)
        self._close_unfinished_file()

    def _set_mode_and_time(self, path: bytes, mode: int, mtime_ns: int, why: str = "") -> None:
        """Give the file its mode and time. `why`: what else of it did not take."""
        os.fchmod(self._out, mode)
        os.utime(self._out, ns=(mtime_ns, mtime_ns))
        status = os.fstat(self._out)
        has = status.st_mode & PERMISSIONS
        if has != mode or status.st_mtime_ns != mtime_ns or why:
            self._note_if_incomplete(path, has, why, mode_in_words(mode, has), time_in_words(mtime_ns, status))

    def _note_if_incomplete(self, path: bytes, mode: int, *words: str) -> None:
        if why := "; ".join(filter(None, words)):
            self.incomplete.append((Kept(path, why, benign=False), mode))

    def set_last_directory_modes(self) -> None:
        """Set the modes of the last directories. Raises OSError."""
        for path in reversed(list(self._modes)):
            if (mode := self._modes.get(path)) is not None:  # else it was set when the directory was entered
                with name_path_in_errors(path):
                    self._chmod(path, mode)

    def sync(self) -> None:
        """Make everything durable. Raises OSError."""
        fsio.sync_tree(self.tree.fd)

    def set_origin_id(self, identity: str) -> None:
        """Put an id on the directory, behind everything else, which was synced. Raises OSError: then it has none."""
        if origin_id.set_attribute(self.tree.fd, identity):
            return
        try:
            self.make_directory(paths.ORIGIN, _OPEN_TO_ALL)
            for path, content in origin_id.files_with_id(identity):
                self.write_file(path, content, _READABLE, time.time_ns())
        except OSError:
            with suppress(OSError):
                origin_id.remove_origin_id(self.tree.fd)
            raise

    def remove_all_written(self) -> None:
        """Remove everything that was written. What cannot be removed stays."""
        with suppress(OSError):
            origin_id.remove_origin_id(self.tree.fd)
        self._close_unfinished_file()
        self._close_directories_not_above(None)
        made, self._modes = list(self._modes), {}
        for path in made:
            with suppress(OSError):
                self._chmod(path, stat.S_IRWXU)
        for path in reversed(bytes(self._made).split(b"\0")[:-1]):
            with suppress(OSError):
                name = self._enter_parent(path)
                try:
                    os.unlink(name, dir_fd=self._parent_fd)
                except (IsADirectoryError, PermissionError):  # POSIX has the second for a directory
                    os.rmdir(name, dir_fd=self._parent_fd)
        self._made = bytearray()

    def is_empty(self) -> bool:
        """True if the directory has no name but that of git. Raises OSError."""
        return not set(os.listdir(self.tree.fd)) - {os.fsdecode(GIT)}

    def _record_path_to_remove(self, path: bytes) -> None:
        """Record a path before it is made: an interruption may come right after."""
        self._made += path + b"\0"

    def _take_back_recorded_path(self, path: bytes) -> None:
        """Take back what `_record_path_to_remove` recorded last: something else was there."""
        del self._made[-len(path) - 1 :]

    def _chmod(self, path: bytes, mode: int) -> None:
        name = self._enter_parent(path)
        with fsio.closing(os.open(name, fsio.DIRECTORY_FLAGS, dir_fd=self._parent_fd)) as fd:
            self._set_mode(path, fd, mode)

    def _set_mode(self, path: bytes, fd: int, mode: int) -> None:
        """chmod of an open directory. Keeps set-id and sticky bits."""
        mode &= PERMISSIONS
        os.fchmod(fd, mode | os.fstat(fd).st_mode & _SPECIAL)
        has = os.fstat(fd).st_mode & PERMISSIONS
        self._note_if_incomplete(path, has, mode_in_words(mode, has))
