"""Captures an SQLite database together with its -wal or -journal, through a child process (database_child.py says why).

The danger prevented here: a person saves while a program writes to its database. The database and its companion are read at two
moments, and the restored pair is damaged, or lacks what was committed. No file of such a pair is opened in this process: its
close would take the locks of a program that saves its own project. Only where no child can be started, or it fails, are they read here,
and then the save says that they may be of two moments.
"""

import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

from .. import fsio
from ..model import manifest
from ..model import stamp as stamps
from ..model.at_risk import JOURNALS, may_be_of_database
from ..model.stamp import Stamp
from . import database_child
from .reader import CapturedFile, NotCapturable, Sink, TooLarge, read_until_stable

_CHILD = os.path.abspath(database_child.__file__)
_STALL_MS = 10_000
"""A child that hands over nothing for so long is ended; it may wait for a quiet moment and then for a lock."""


class _ChildFailed(Exception):
    """The child ended early, or hands over nothing."""


class _Output:
    """What the child hands over. As a FileSource it gives the bytes of one file."""

    def __init__(self, fd: int) -> None:
        self.fd, self.left = fd, 0

    def readinto(self, buffer: memoryview, /) -> int:
        if self.left == 0:
            return 0
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        if not poll.poll(_STALL_MS):
            raise _ChildFailed
        count = os.readv(self.fd, [buffer[: self.left]])
        if count == 0:
            raise _ChildFailed
        self.left -= count
        return count

    def read(self, length: int) -> bytes:
        """So many bytes."""
        data = bytearray(length)
        view = memoryview(data)
        self.left = length
        while self.left:
            self.readinto(view[length - self.left :])
        return bytes(data)


def capture_pair(directory: int, name: bytes, sink: Sink, most: int) -> dict[bytes, CapturedFile] | None:
    """A database and its companion: name -> what was captured. `stable` is False if they may be of different moments. None
    if it is no database, or one of them is to be treated as other files are: too large, or not to be read. Raises OSError."""
    for each in (name, *(name + end for end in JOURNALS)):
        with suppress(FileNotFoundError):
            status = os.stat(each, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most or not fsio.is_on_disk(status) or not sink.accepts(status.st_size):
                return None
            if each == name and not may_be_of_database(name, status.st_size):
                return None
    try:
        pid, output = _start_child(directory, name)
    except OSError:
        return _read_unlocked(directory, name, sink, most)
    code = -1
    found = None
    try:
        with suppress(_ChildFailed):
            found = _receive(_Output(output), name, sink, most)
    finally:
        os.close(output)
        if found is None:
            code = _end_child(pid)
        else:
            os.waitpid(pid, 0)
    if found is None and code != database_child.NOT_A_DATABASE:
        return _read_unlocked(directory, name, sink, most)
    return found


def _start_child(directory: int, name: bytes) -> tuple[int, int]:
    """Returns the child's id and the descriptor of its output. Raises OSError."""
    output, end = os.pipe()
    try:
        copy = os.dup(directory)  # a descriptor that is 3 already would be closed in the child
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, end, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, copy, database_child.DIRECTORY),
        ]  # fmt: skip
        try:
            command = [sys.executable, "-I", "-S", _CHILD, os.fsdecode(name)]
            pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
        finally:
            os.close(copy)
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(end)
    return pid, output


def _end_child(pid: int) -> int:
    """Its exit code; a child that has not ended is killed. It closes its output last."""
    poll_ended, status = os.waitpid(pid, os.WNOHANG)
    if not poll_ended:
        time.sleep(0.05)  # its output has ended, it itself not yet
        poll_ended, status = os.waitpid(pid, os.WNOHANG)
    if not poll_ended:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _receive(output: _Output, name: bytes, sink: Sink, most: int) -> dict[bytes, CapturedFile]:
    end = JOURNALS[output.read(1) != b"w"]
    first = _receive_file(output, sink, most)
    if first is None:
        raise _ChildFailed
    found = {name: first}
    other = _receive_file(output, sink, most)
    stable = output.read(1) == database_child.YES
    if other is not None:
        found[name + end] = other
    return {each: captured._replace(stable=stable) for each, captured in found.items()}


def _receive_file(output: _Output, sink: Sink, most: int) -> CapturedFile | None:
    length, *fields, links = database_child.HEAD.unpack(output.read(database_child.HEAD.size))
    if length < 0:
        return None
    if length > most:
        raise _ChildFailed
    stamp, chunks = Stamp(*fields), b""
    if length < manifest.LARGE:
        digest = sink.put_file(output.read(length))
    else:
        output.left = length
        _, digest, chunks = sink.put_stream(output, length)
    entry = manifest.Entry(manifest.FILE, stamp.mode & 0o7777, length, stamp.mtime_ns, digest, chunks=chunks)
    return CapturedFile(entry, stamp if length == stamp.size else stamps.NONE, stable=True, links=links)


def _read_unlocked(directory: int, name: bytes, sink: Sink, most: int) -> dict[bytes, CapturedFile]:
    """As other files are read, and said: the child could not do it."""
    found = {}
    for each in _names_of_pair(name):
        with suppress(FileNotFoundError, NotCapturable, TooLarge):
            found[each] = read_until_stable(each, directory, sink, most)._replace(stable=False)
    return found


def _names_of_pair(name: bytes) -> Iterable[bytes]:
    return (name, *(name + end for end in JOURNALS))
