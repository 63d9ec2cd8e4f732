"""The child process that reads an SQLite database and its companion so that they belong together.

The danger prevented here: a database and its -wal or -journal are read at different moments, and the restored pair is damaged.
And: a process that closes any descriptor of a database loses all its locks on it (fcntl), so a program that saves its own project
would write without them (https://www.sqlite.org/howtocorrupt.html, 2.2). So another process opens it, and closes nothing before
it has all bytes: the system closes for it.

It is started by its path, with the standard library alone: descriptor 3 is the directory, the argument is the database's name.
Output: "w" or "j" for the kind of companion;
for the database, then its companion, HEAD and the bytes; then YES, or NO if they may be of different moments.
"""

import os
import sys
import time
from struct import Struct

DIRECTORY = 3
"""The descriptor of the database's directory."""
HEAD = Struct("<qQqqQIQ")
"""Bytes that follow (-1: there is no such file); size, times in ns, inode, mode and number of names of the file."""
YES, NO, NOT_A_DATABASE = b"y", b"n", 9
_DATABASE = b"SQLite format 3\0"
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # of a rollback journal that is in use (https://www.sqlite.org/fileformat2.html, 3)
_COUNTER = 24, 4  # place and length of the change counter in the header
_BYTES_AT_ONCE = 1 << 20
_MOST_KEPT = 64 << 20  # bytes of a database that is held in memory, to give its lock back before they are handed over
_LOCKED_SECONDS = 0.05  # a writer without a time-out fails while a rollback database is locked
_QUIET_SECONDS = 1.0  # to wait for a moment without a transaction, which needs no lock
_LOCK_SECONDS = 1.0  # to wait for the lock
_PAUSE_SECONDS = 0.001
_TICK_SECONDS = 0.02  # longer than a file system keeps one time
_CPU_SECONDS, _MEMORY = 60, 1 << 30  # limits for a file that was made to cost much


def _open(name: bytes) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=DIRECTORY)
    except FileNotFoundError:
        return -1


def _read(fd: int) -> bytes:
    size, pieces, at = os.fstat(fd).st_size if fd >= 0 else 0, [], 0
    while at < size and (piece := os.pread(fd, min(_BYTES_AT_ONCE, size - at), at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _head(fd: int, length: int) -> bytes:
    if fd < 0:
        return HEAD.pack(-1, 0, 0, 0, 0, 0, 0)
    found = os.fstat(fd)
    return HEAD.pack(length, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode, found.st_nlink)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _send(*files: int) -> None:
    """Hand over the files of which each is as long as it is now."""
    lengths = [os.fstat(fd).st_size if fd >= 0 else -1 for fd in files]
    for fd, length in zip(files, lengths, strict=True):
        _write(_head(fd, length))
        at = 0
        while at < length:
            piece = os.pread(fd, min(_BYTES_AT_ONCE, length - at), at)
            piece = piece or bytes(min(_BYTES_AT_ONCE, length - at))  # it was cut: only a file that is not whole ends so
            _write(piece)
            at += len(piece)


def _send_kept(fd: int, data: bytes) -> None:
    """Hand over a database without a companion."""
    _write(_head(fd, len(data)) + data + _head(-1, 0))


def _state(*files: int) -> list[object]:
    found = [os.fstat(fd) for fd in files if fd >= 0]
    return [(each.st_size, each.st_mtime_ns, each.st_ino, each.st_nlink) for each in found]


def _lock(name: bytes) -> object:
    """A read transaction: the value holds it. None if there is no sqlite3, or SQLite refuses. A schema is not parsed."""
    try:
        import sqlite3
    except ImportError:
        return None
    os.fchdir(DIRECTORY)
    place = "file:" + "".join(f"%{byte:02x}" for byte in name) + "?mode=ro"
    end = time.monotonic() + _LOCK_SECONDS
    connection = None
    while True:
        try:
            connection = connection or sqlite3.connect(place, uri=True, timeout=0, isolation_level=None)
            connection.execute("begin")
            connection.execute("pragma schema_version").fetchone()
        except sqlite3.Error as error:
            if "locked" not in str(error) or time.monotonic() > end:
                return None
            if connection is not None and connection.in_transaction:
                connection.execute("rollback")
            time.sleep(_PAUSE_SECONDS)
        else:
            return connection


def _send_as_they_are(database: int, other: int) -> bytes:
    """Without a lock: whole if neither changed meanwhile, as the two of a program that was killed. A file that changed just now may
    change again within the same tick of the clock of the file system, which no time shows: one waits, and if it goes on, they are not."""
    if _changed_just_now(database, other):
        time.sleep(_TICK_SECONDS)
    before, is_still = _state(database, other), not _changed_just_now(database, other)
    _send(database, other)
    return YES if is_still and _state(database, other) == before else NO


def _changed_just_now(*files: int) -> bool:
    newest = max(os.fstat(fd).st_mtime for fd in files if fd >= 0)
    return abs(time.time() - newest) < _TICK_SECONDS


def _send_with_wal(name: bytes, database: int, wal: int) -> bytes:
    """A reader of a -wal keeps its frames, and hinders no writer. Without a -shm SQLite would make one in the project."""
    if not os.access(name + b"-shm", os.F_OK, dir_fd=DIRECTORY, follow_symlinks=False):
        return _send_as_they_are(database, wal)
    held = _lock(name)
    if held is None:  # a program may have mapped the -wal's index, and nothing keeps it from writing: said, whatever the times are
        _send(database, wal)
        return NO
    _send(database, wal)
    held.execute("commit")  # type: ignore[attr-defined]
    return YES


def _is_in_use(name: bytes) -> bool:
    """True if a rollback journal is there that may have to be played back."""
    journal = _open(name + b"-journal")
    if journal < 0:
        return False
    try:
        return os.pread(journal, len(_JOURNAL), 0) == _JOURNAL
    finally:
        os.close(journal)


def _send_with_journal(name: bytes, database: int) -> bytes:
    """Between two transactions the bytes are whole as they are. If a writer leaves no such moment, a small database is locked."""
    is_small, seconds = os.fstat(database).st_size <= _MOST_KEPT, 1.0
    end = time.monotonic() + _QUIET_SECONDS
    while True:
        counter = os.pread(database, _COUNTER[1], _COUNTER[0])
        is_quiet = not _is_in_use(name)
        if is_quiet and not is_small:
            return _send_large(name, database, counter)
        began = time.monotonic()
        data = _read(database) if is_small else b""
        seconds = time.monotonic() - began
        is_whole = is_quiet and not _is_in_use(name) and data[_COUNTER[0] : sum(_COUNTER)] == counter
        if is_whole and _read(database) == data and not _is_in_use(name):
            _send_kept(database, data)
            return YES
        if time.monotonic() > end:
            break
        time.sleep(_PAUSE_SECONDS)
    held = _lock(name) if is_small and seconds <= _LOCKED_SECONDS else None
    if held is None:  # its writer was killed: SQLite plays the journal back when it is opened
        return _send_as_they_are(database, _open(name + b"-journal"))
    data = _read(database)
    held.execute("commit")  # type: ignore[attr-defined]
    _send_kept(database, data)  # under the lock the database is whole without the journal that has just been begun
    return YES


def _send_large(name: bytes, database: int, counter: bytes) -> bytes:
    before = _state(database)
    _send(database, -1)
    same = _state(database) == before and os.pread(database, _COUNTER[1], _COUNTER[0]) == counter
    return YES if same and not _is_in_use(name) else NO


def main() -> int:
    """Read the pair. Returns the exit code."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ImportError, OSError, ValueError):  # a lower limit is in force
        pass
    name = os.fsencode(sys.argv[1])
    database = _open(name)
    if database < 0 or os.pread(database, len(_DATABASE), 0) not in (b"", _DATABASE):
        return NOT_A_DATABASE
    wal = _open(name + b"-wal")
    _write(b"j" if wal < 0 else b"w")
    _write(_send_with_journal(name, database) if wal < 0 else _send_with_wal(name, database, wal))
    return 0


if __name__ == "__main__":
    code = main()
    os._exit(code)  # no close by SQLite: the last one would write to the project
