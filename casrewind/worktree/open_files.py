"""Finds the programs that have files open for writing, before a restore changes these files.

The danger prevented here: a restore replaces an SQLite database, and the program that has it open writes what it remembers
over the restored bytes, or into a file that has no name any more. Nobody is told, and both say that all is well.

An open file is compared by device and inode, never by name: a process in a container has another name for it. What this
process may not look at (other users, other pid namespaces) is not found. Linux only.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .. import fsio
from .._typing import NamedTuple
from ..model.at_risk import OpenFile, database_of
from .reader import Worktree

_HEADER = b"SQLite format 3\0"
_PROCESSES = "/proc"
_MOST_SECONDS = 2.0
"""Time for one look at all processes; it takes some 10 ms for 1,000 open files."""

_Identity = tuple[int, int]
"""Device and inode of a file."""


class Writer(NamedTuple):
    """A process that has a file open for writing. `name`: what the system calls the file there."""

    identity: _Identity
    pid: int
    name: bytes


def find_open_files(tree: Worktree, paths: Sequence[bytes], may_be: Iterable[bytes]) -> tuple[OpenFile, ...]:
    """The files at these paths that a program has open for writing, databases first. `may_be`: those that may be an SQLite
    database. Looked for only if one is: else it costs next to nothing."""
    databases = {path: identity for path in may_be if (identity := _identity_if_database(tree, path)) is not None}
    if not databases:
        return ()
    wanted = {identity: (path, True) for path, identity in databases.items()}
    for path in paths:
        status = tree.status_of(path)
        is_other = database_of(path) not in databases  # who only reads a database writes its -shm
        if is_other and status is not None and stat.S_ISREG(status.st_mode):
            wanted[status.st_dev, status.st_ino] = (path, False)
    return _open_files(wanted, writers())


def find_open_databases(tree: Worktree) -> tuple[OpenFile, ...]:
    """The SQLite databases below the root that a program has open for writing, by their names in this process."""
    top = os.fsencode(tree.root).rstrip(b"/") + b"/"
    wanted: dict[_Identity, tuple[bytes, bool]] = {}
    for writer in writers(top):
        path = writer.name.removeprefix(top)
        if _identity_if_database(tree, path) == writer.identity:
            wanted[writer.identity] = (path, True)
    return _open_files(wanted, writers()) if wanted else ()  # others may have it open by another name


def writers(beginning: bytes = b"/") -> Iterator[Writer]:
    """Every file that a process has open for writing and whose name begins so, as far as this process may see. The newest
    processes come first."""
    end = time.monotonic() + _MOST_SECONDS
    try:
        pids = sorted((int(name) for name in os.listdir(_PROCESSES) if name.isdecimal()), reverse=True)
    except OSError:  # no Linux, or /proc is not mounted
        return
    for pid in pids:
        yield from _writers_of_process(pid, beginning)
        if time.monotonic() > end:
            return


def _writers_of_process(pid: int, beginning: bytes) -> Iterator[Writer]:
    place = f"{_PROCESSES}/{pid}/fd"
    try:
        numbers = os.listdir(place)
    except OSError:  # another user's, or it has ended
        return
    for number in numbers:
        try:
            name = os.readlink(f"{place}/{number}".encode())
            if not name.startswith(beginning) or not _is_for_writing(pid, number):
                continue
            status = os.stat(f"{place}/{number}")
        except OSError:  # closed since
            continue
        if stat.S_ISREG(status.st_mode):
            yield Writer((status.st_dev, status.st_ino), pid, name)


def _is_for_writing(pid: int, number: str) -> bool:
    with open(f"{_PROCESSES}/{pid}/fdinfo/{number}", "rb") as file:
        for line in file:
            if line.startswith(b"flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _open_files(wanted: Mapping[_Identity, tuple[bytes, bool]], seen: Iterable[Writer]) -> tuple[OpenFile, ...]:
    found = {(*wanted[writer.identity], writer.pid) for writer in seen if writer.identity in wanted}
    rows = sorted(found, key=lambda row: (not row[1], row[0], row[2]))
    return tuple(OpenFile(path, _name_of_program(pid), pid, is_database) for path, is_database, pid in rows)


def _name_of_program(pid: int) -> str:
    """The name that the program was started by, else that of its process."""
    for place, end in (("cmdline", b"\0"), ("comm", b"\n")):
        try:
            with open(f"{_PROCESSES}/{pid}/{place}", "rb") as file:
                words = file.read(4096).split(end, 1)[0].split()
        except OSError:
            continue
        if words and (name := words[0].rpartition(b"/")[2].lstrip(b"-")):
            return name.decode("utf-8", "replace")
    return "a program"


def _identity_if_database(tree: Worktree, path: bytes) -> _Identity | None:
    try:
        directory, name = tree.open_parent(path)
        with fsio.closing(directory), fsio.closing(fsio.open_on_disk(name, directory=directory)) as file:
            status = os.fstat(file)
            is_database = stat.S_ISREG(status.st_mode) and os.pread(file, len(_HEADER), 0) == _HEADER
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if is_database else None
