"""A directory that has one state after the other, for a command that is run in each of them.

The danger prevented here: a command is run on files that are not those of the state. It may have changed, removed or
replaced any of them in the run before. So each path is looked at before the next run, and written anew if its stamp is not
that of the file that was written. No link is followed: a command may leave links to anywhere.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from .. import fsio
from ..model import manifest
from ..model import stamp as stamps
from ..model.manifest import DIR, FILE, LINK, PERMISSIONS, Entry
from ..model.stamp import Stamp
from .new_tree import NewTree
from .reader import Worktree

_SECOND = 1_000_000_000
_PAUSE = 0.005
_LONGEST_WAIT = 2.5
"""Seconds. The coarsest file systems have steps of two seconds."""


class ScratchTree:
    """A directory with a known content, which becomes another one. What else is in it stays."""

    def __init__(self, directory: str) -> None:
        """Opens the directory. Raises OSError."""
        self._directory = directory
        self._tree = Worktree(directory)
        self._known: dict[bytes, tuple[Entry, Stamp]] = {}
        self._written_at = 0  # seconds since 1970

    def close(self) -> None:
        """Close the directory. It stays."""
        self._tree.close()

    def stat_and_note_paths(self, rows: Iterable[tuple[bytes, Entry]]) -> None:
        """Note that the directory has these paths now. Raises OSError."""
        for path, entry in rows:
            with suppress(PermissionError):  # in a directory that its owner may not enter; it is written again
                status = self._lstat_or_none(path)
                if status is not None:
                    self._known[path] = entry, stamps.of(status)
        self._written_at = int(time.time())
        self._wait_for_another_stamp()

    def make_equal_to(
        self, wanted: Mapping[bytes, Entry], contents: Callable[[Sequence[Entry]], Callable[[Entry], Iterable[bytes]]]
    ) -> None:
        """Make the files, links and directories those of `wanted`. `contents` is given the files to write, and returns what
        reads one. A written file is new now, so that a build sees it. Raises OSError, and what `contents` raises."""
        self._make_directories_writable(wanted)
        for path in sorted(self._known, reverse=True):
            if path not in wanted:
                self._remove_unwanted(path)
        missing = [path for path in sorted(wanted) if not self._remove_unless_as_wanted(path, wanted[path])]
        files = [wanted[path] for path in missing if wanted[path].kind == FILE]
        if files:
            self._wait_for_another_second()
        self._write_missing(missing, wanted, contents(files))
        for path in sorted(wanted, reverse=True):  # what is in a directory before its mode
            self._known[path] = self._set_directory_mode(path, wanted[path])
        self._wait_for_another_stamp()

    def _write_missing(self, missing: Sequence[bytes], wanted: Mapping[bytes, Entry], read: Callable[[Entry], Iterable[bytes]]) -> None:
        new, now = NewTree(self._directory), time.time_ns()
        try:
            for path in missing:
                entry = wanted[path]
                if entry.kind == DIR:
                    new.make_directory(path, entry.mode)
                elif entry.kind == LINK:
                    new.make_link(path, entry.target)
                else:
                    new.begin_file(path)
                    for piece in read(entry):
                        new.write(piece)
                    new.end_file(path, entry.mode, now)
            new.set_last_directory_modes()
        finally:
            new.close()
        self._written_at = now // _SECOND

    def _set_directory_mode(self, path: bytes, entry: Entry) -> tuple[Entry, Stamp]:
        """A path that is as it should be, but for the mode of a directory that was there before."""
        status = self._tree.status_of(path)
        if status is None:
            raise FileNotFoundError(2, os.strerror(2), path)
        if entry.kind == DIR and (status.st_mode ^ entry.mode) & PERMISSIONS:
            self._chmod(path, entry.mode & PERMISSIONS)
        return entry, stamps.of(status)

    def _make_directories_writable(self, wanted: Mapping[bytes, Entry]) -> None:
        """Let this process change what is in the directories."""
        known = {path for path, (entry, _) in self._known.items() if entry.kind == DIR}
        for path in sorted(known.union(path for path, entry in wanted.items() if entry.kind == DIR)):
            status = self._lstat_or_none(path)
            if status is not None and stat.S_ISDIR(status.st_mode) and stat.S_IRWXU & ~status.st_mode:
                self._chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)

    def _remove_unless_as_wanted(self, path: bytes, entry: Entry) -> bool:
        """True if a path is as it should be. Else it is removed."""
        status = self._lstat_or_none(path)
        if status is None:
            return False
        if entry.kind == DIR and stat.S_ISDIR(status.st_mode):
            return True
        if entry.kind != DIR and path in self._known:
            known, stamp = self._known[path]
            if manifest.same_for_restore(known, entry) and stamps.matches(stamp, status):
                return True
        self._remove(path, status)
        return False

    def _remove(self, path: bytes, status: os.stat_result) -> None:
        parent, name = self._tree.open_parent(path)
        with fsio.closing(parent):
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    def _remove_unwanted(self, path: bytes) -> None:
        """Remove a path that the next state does not have. A directory with something else in it stays."""
        del self._known[path]
        with suppress(FileNotFoundError, NotADirectoryError):
            status = self._lstat_or_none(path)
            if status is None:
                return
            if not stat.S_ISDIR(status.st_mode):
                self._remove(path, status)
                return
            parent, name = self._tree.open_parent(path)
            with fsio.closing(parent), suppress(OSError):
                os.rmdir(name, dir_fd=parent)

    def _chmod(self, path: bytes, mode: int) -> None:
        parent, name = self._tree.open_parent(path)
        with fsio.closing(parent):
            os.chmod(name, mode, dir_fd=parent)  # it is no link: it was looked at, and only this user is let in here

    def _lstat_or_none(self, path: bytes) -> os.stat_result | None:
        return self._tree.status_of(path)

    # -- times

    def _wait_for_another_second(self) -> None:
        """Wait until a file that is written gets another time, in whole seconds, than one of the last state. Python takes
        what it compiled for up to date by the second and the size. Nothing is waited for if no run left a file."""
        until = time.monotonic() + _LONGEST_WAIT
        while int(time.time()) == self._written_at and time.monotonic() < until and self._has_more():
            time.sleep(_PAUSE)

    def _has_more(self) -> bool:
        """True if something is there that is not of the state, or a link, which may lead to what a run left."""
        base = os.fsencode(self._directory)
        for place, directories, files in os.walk(base):
            for name in (*directories, *files):
                path = os.path.join(place, name)[len(base) + 1 :]
                if path not in self._known or self._known[path][0].kind == LINK:
                    return True
        return False

    def _wait_for_another_stamp(self) -> None:
        """Wait until a change of what was written gets another stamp."""
        until = time.monotonic() + _LONGEST_WAIT
        latest = max((stamp.ctime_ns for _, stamp in self._known.values()), default=0)
        written = stamps.NONE._replace(ctime_ns=latest, mtime_ns=latest)
        while stamps.is_racy(written, time.time_ns()) and time.monotonic() < until:
            time.sleep(_PAUSE)
