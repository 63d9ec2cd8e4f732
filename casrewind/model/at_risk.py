"""What a plan touches that a person may miss: edits that no turn made, files that no other checkpoint has, files that a program writes.

Such a file may be an SQLite database: the program would put back what it has in memory.
"""

from collections.abc import Sequence

from .._typing import NamedTuple

_PAGE = 512
"""The size of every SQLite database is a multiple of this: other files are not opened to look."""
JOURNALS, SHARED_MEMORY = (b"-wal", b"-journal"), b"-shm"
"""The ends of the names of the companions that belong to a database's contents, and of what its running programs share."""
_COMPANIONS = (*JOURNALS, SHARED_MEMORY)


class OutsideEdits(NamedTuple):
    """Paths of a plan with edits of a person, sorted. `proved`: edited outside of all turns. `possible`: others that a turn
    without a seen end changed; an edit after that turn counts as the turn's. `can_stay`: a restore can keep them.
    `is_of_machine`: the target is another machine's. `is_of_undo`: they were edited since the restore, by whomever."""

    proved: tuple[bytes, ...]
    possible: tuple[bytes, ...]
    can_stay: bool = True
    is_of_machine: bool = False
    is_of_undo: bool = False


NO_EDITS = OutsideEdits((), ())


class OnlyCopy(NamedTuple):
    """A removed file that may be the only copy of an ignored file. `source`: where that was, b"" = unknown."""

    path: bytes
    source: bytes


class OpenFile(NamedTuple):
    """`path`: below the root. `program`: its name, and `pid` its process. `is_database`: an SQLite database."""

    path: bytes
    program: str
    pid: int
    is_database: bool


def may_be_of_database(path: bytes, size: int) -> bool:
    """True if a file of so many bytes can be a database, or the journal of one."""
    return path.endswith(_COMPANIONS) or (size > 0 and size % _PAGE == 0)


def database_of(path: bytes) -> bytes:
    """The database that a file belongs to, by its name; any other file itself."""
    return next((path.removesuffix(end) for end in _COMPANIONS if path.endswith(end)), path)


def find_pairs(names: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """The databases with a companion among these names: each member's name -> the list, empty now, of the members to capture."""
    ends = [name for name in names if name.endswith(JOURNALS)]
    there = set(names) if ends else set()
    found: dict[bytes, list[bytes]] = {}
    for name in ends:
        database = database_of(name)
        if database in there:
            found[name] = found.setdefault(database, [])
            if database + SHARED_MEMORY in there and name.endswith(b"-wal"):
                found[database + SHARED_MEMORY] = found[database]
    return found
