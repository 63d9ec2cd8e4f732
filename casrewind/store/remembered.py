"""The stat cache of one worktree, as a scan asks for it.

With a sheet a scan asks for few records, without one for all of them: so those that the sheet is too old for are fetched
together, others one by one first, and all at once when that turns out to be the wrong guess. Each record is true of the
stamps that are in it, whoever wrote it: it does not matter when it is fetched.
"""

from ..model import paths
from . import stamprows
from .books import Books

_FEW = 40


class Remembered:
    """Records of directories, by path; `sheet` is the worktree's, None when it has none; `generation` that of them all."""

    def __init__(self, books: Books, worktree: bytes, known: bytes = b"") -> None:
        """Look for the sheet, of which the data is left out when `known` is its name."""
        self._books, self._worktree = books, worktree
        self.sheet, self.generation = books.query(
            lambda tables: (stamprows.sheet(tables, worktree, known), stamprows.generation(tables, worktree))
        )
        self._rows: stamprows.StampKeys | None = None
        self._stale: dict[bytes, bytes | None] | None = None
        self._asked = 0 if self.sheet else _FEW

    def get(self, path: bytes) -> bytes | None:
        """The record of a directory."""
        if self._rows is None:
            if self._stale is None:
                self._stale = self._newer()
            if path in self._stale:
                return self._stale[path]
            if self._asked < _FEW:
                self._asked += 1
                return self._books.view(lambda tables: stamprows.stamp(tables, self._worktree, path))
            self._rows = self._books.view(lambda tables: stamprows.StampKeys(tables, self._worktree))
        return self._rows.get(path)

    def _newer(self) -> dict[bytes, bytes | None]:
        """The records that are newer than the sheet, and those above them: a scan asks for each of them."""
        if self.sheet is None:
            return {}
        stale = [place for place in self.sheet.stale if place]
        wanted = {b"", *stale, *(above for place in stale for above in paths.parents(place))}
        return self._books.view(
            lambda tables: {place: stamprows.stamp(tables, self._worktree, place) for place in wanted}
        )
