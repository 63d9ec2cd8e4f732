"""A file of the project that a program has open for writing."""

from .._typing import NamedTuple


class OpenFile(NamedTuple):
    """`path`: below the root. `program`: its name, and `pid` its process. `is_database`: an SQLite database."""

    path: bytes
    program: str
    pid: int
    is_database: bool
