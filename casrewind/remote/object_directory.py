"""Objects as files below a directory: file://, on a NAS, a USB disk or the same machine.

Three dangers are prevented here. After a power cut an object is empty under its final name, and put-if-absent keeps
it so: each object is written and synced under another name, then renamed, and the directory is synced. (obstore's own
files are not synced: it offers no way to ask for it.) Two writers replace each other: the rename never replaces. A
disk that is not mounted is written to as an empty directory: only the first objects of a new remote make the directory.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from .. import fsio
from ..worktree import safe_rename

_FIRST = ("casrewind", "keys/")
"""Names, or their beginnings, of the objects that are written while a remote is made."""
SMALL = 1 << 20
"""Bytes that an object may have which is read without an end: the head and the keys have less than 200."""


class ObjectTooLong(Exception):
    """An object of which all is wanted is longer than SMALL. Internal."""

    def __init__(self, size: int) -> None:
        """`size` in bytes."""
        super().__init__(size)
        self.size = size


class ObjectDirectory:
    """Every method raises OSError."""

    endpoint, gives_ranges = "", True

    def __init__(self, root: str) -> None:
        """`root`: an absolute path. It need not exist, but the directory above it."""
        self._root = os.path.realpath(root)
        self._tidied: set[str] = set()

    def put_new(self, name: str, data: bytes) -> bool:
        """False if the object exists."""
        directory, _, file = self._path_of_object(name).rpartition("/")
        self._make_directories_durably(directory, is_new=name.startswith(_FIRST))
        if os.path.lexists(f"{directory}/{file}"):
            return False
        if directory not in self._tidied:  # only the owner of a chain writes in its directory
            self._tidied.add(directory)
            fsio.remove_orphans(directory)
        with self._write_draft(directory, data) as (draft, held):
            try:
                safe_rename.rename_without_replacing(held, os.fsencode(os.path.basename(draft)), os.fsencode(file))
            except FileExistsError:
                os.unlink(draft)
                return False
            _sync_directory(directory)
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write an object in place of what has its name."""
        directory, _, file = self._path_of_object(name).rpartition("/")
        with self._write_draft(directory, data) as (draft, _):
            os.rename(draft, f"{directory}/{file}")
            _sync_directory(directory)

    @contextmanager
    def _write_draft(self, directory: str, data: bytes) -> Iterator[tuple[str, int]]:
        """These bytes under another name, synced, and the open directory."""
        with fsio.draft_file(directory) as (draft, fd), fsio.closing(os.open(directory, fsio.DIRECTORY_FLAGS)) as held:
            with suppress(OSError):  # who may read the directory may read the object; some file systems have no modes
                os.fchmod(fd, os.fstat(held).st_mode & 0o666)
            fsio.write_all(fd, data)
            fsio.sync_fd(fd)
            yield draft, held

    def get(self, name: str, start: int, end: int | None, *, is_whole: bool) -> bytes:  # noqa: ARG002 - that is for servers
        """The bytes of an object from `start` to before `end`: what there is of them. Without `end` all, if these are SMALL at most.
        Raises ObjectTooLong."""
        path = self._path_of_object(name)
        if end is None and (size := os.stat(path, follow_symlinks=False).st_size) > SMALL:
            raise ObjectTooLong(size)
        return fsio.read_file(path, (SMALL if end is None else end) - start, start=start)

    def list(self, prefix: str, after: str) -> Iterator[tuple[str, int, int]]:
        """(name, size, time of its last change in ns) of each object below `prefix`, "" for all, in any order. A
        directory whose names are all before `after` may be left out."""
        os.stat(self._root)
        waiting = [prefix]
        while waiting:
            below = waiting.pop()
            try:
                entries = list(os.scandir(os.path.join(self._root, below)))
            except FileNotFoundError:
                continue
            for entry in entries:
                name = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if f"{name}0" > after:  # "0" is the sign after "/"
                        waiting.append(name)
                elif entry.is_file(follow_symlinks=False) and not fsio.is_draft(entry.name):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        yield name, status.st_size, status.st_mtime_ns

    def delete(self, names: Sequence[str]) -> None:
        """An object that is gone already is no error. A directory goes with the last object in it."""
        for name in names:
            path = self._path_of_object(name)
            with suppress(FileNotFoundError):
                os.unlink(path)
            if "/" in name:
                with suppress(OSError):
                    os.rmdir(os.path.dirname(path))

    def _path_of_object(self, name: str) -> str:
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise OSError(errno.EINVAL, "no name of an object", name)
        return os.path.join(self._root, name)

    def _make_directories_durably(self, directory: str, *, is_new: bool) -> None:
        """The directory of an object, with durable names down to it."""
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(directory)
        if directory != self._root:
            self._make_directories_durably(parent, is_new=is_new)
        elif not is_new:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        with suppress(FileExistsError):
            os.mkdir(directory)
        _sync_directory(parent)


def _sync_directory(path: str) -> None:
    try:
        fsio.sync_directory(path)
    except OSError as error:
        if error.errno not in fsio.CANNOT_SYNC:
            raise
