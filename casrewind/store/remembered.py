"""The stat cache of one worktree, as a scan asks for it.

With a sheet a scan asks for few records, without one for all of them: so they are fetched one by one first, and all at
once when that turns out to be the wrong guess. Each record is true of the stamps that are in it, whoever wrote it: it
does not matter when it is fetched.
"""

from . import stamprows
from .books import Books

_FEW = 40


class Remembered:
    """Records of directories, by path; `sheet` is the worktree's, None when it has none."""

    def __init__(self, books: Books, worktree: bytes) -> None:
        """Look for the sheet."""
        self._books, self._worktree = books, worktree
        self.sheet = books.query(lambda tables: stamprows.sheet(tables, worktree))
        self._rows: stamprows.StampKeys | None = None
        self._asked = 0 if self.sheet else _FEW

    def get(self, path: bytes) -> bytes | None:
        """The record of a directory."""
        if self._rows is None:
            if self._asked < _FEW:
                self._asked += 1
                return self._books.view(lambda tables: stamprows.stamp(tables, self._worktree, path))
            self._rows = self._books.view(lambda tables: stamprows.StampKeys(tables, self._worktree))
        return self._rows.get(path)
