"""A file of the project that a program has open for writing, and which files may be an SQLite database."""

from .._typing import NamedTuple

_PAGE = 512
"""The size of every SQLite database is a multiple of this: other files are not opened to look."""
_COMPANIONS = (b"-wal", b"-shm", b"-journal")


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
