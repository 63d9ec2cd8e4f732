"""The stat cache of one worktree, as a scan asks for it.

With a sheet a scan asks for few records, without one for all of them: so those that the sheet is too old for are fetched
together, and those of directories that do not look as it says; others one by one first, and all at once when that turns out
to be the wrong guess. Each record is true of the stamps that are in it, whoever wrote it: it does not matter when it is fetched.
"""

from collections.abc import Collection

from ..model import paths
from . import stamprows
from .books import Books

_FEW = 40


class Remembered:
    """The stat-cache records of a worktree, by path. `sheet` is its sheet, or None. `generation` is that of the records, None without
    records. `life` is the life of the file system (worktree/life.py) in which they were made."""

    def __init__(self, books: Books, worktree: bytes, life: bytes, known: bytes = b"") -> None:
        """Look for the sheet; its data is left out when `known` is its name. Records of another life are not found."""
        self._books, self._worktree, self.life = books, worktree, life
        self.sheet: stamprows.Sheet | None
        self.generation: int | None
        self.sheet, self.generation = books.query(
            lambda tables: (stamprows.sheet(tables, worktree, known), stamprows.generation(tables, worktree))
            if stamprows.is_of(tables, worktree, life)
            else (None, None)
        )
        self._rows: stamprows.StampKeys | None = None
        self._together: dict[bytes, bytes | None] = {}  # what was fetched in one look
        self._expected: Collection[bytes] = () if self.sheet is None else (b"", *self.sheet.stale)
        self._asked = 0 if self.sheet else _FEW

    def expect(self, places: Collection[bytes]) -> None:
        """The records of these directories will be asked for, and those above them. They are fetched together when one is
        asked for that was not yet: until then more may come into the collection."""
        self._fetch()
        self._expected = places

    def get(self, path: bytes) -> bytes | None:
        """The record of a directory."""
        if self.generation is None:
            return None
        if path not in self._together and self._rows is None:
            self._fetch()
        if path in self._together:
            return self._together[path]
        if self._rows is None:
            if self._asked < _FEW:
                self._asked += 1
                return self._some([path])[path]
            self._rows = self._books.view(lambda tables: stamprows.StampKeys(tables, self._worktree, self.life))
        return self._rows.get(path)

    def at_hand(self, path: bytes) -> bytes | None:
        """The record of a directory as it was when this was asked for it, if it was one of those that were expected."""
        return self._together.get(path)

    def take(self, path: bytes) -> bytes | None:
        """As get, for who asks for each directory once: a record is let go of when it is given. Those of a million files are
        100 MB, and as many come in their place."""
        found = self.get(path) if self._rows is None else self._rows.take(path)
        if path in self._together:
            self._together[path] = None
        return found

    def _fetch(self) -> None:
        """Get what is expected, and the records of the directories above: a scan asks for each of them."""
        expected, self._expected = self._expected, ()
        places = [place for place in expected if place]
        wanted = {b"", *places, *(above for place in places for above in paths.parents(place))} - self._together.keys()
        if expected and wanted:
            self._together |= self._some(wanted)

    def _some(self, places: Collection[bytes]) -> dict[bytes, bytes | None]:
        return self._books.view(lambda tables: stamprows.stamps(tables, self._worktree, self.life, places))
