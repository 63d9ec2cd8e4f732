"""The stat cache in the index: a row for each directory, and a sheet of many of them for each worktree.

The danger prevented here: an index that grows for ever. LMDB wants the pages of one large value side by side, and never finds
them among those that were freed; so a sheet is cut into rows of one page each.
"""

import os
from collections.abc import Callable, Collection
from itertools import takewhile

from ..model import digest as digests
from ..typed import NamedTuple
from .table import Tables

_SHEET, _STALE, _GENERATION, _LIFE = b"sheet ", b"stale ", b"stamps of ", b"life of "
_SLICE = 4080
"""Bytes of a sheet in one row: they fill one page of LMDB's."""
_TOGETHER = 1000  # rows of a sheet that are put in one call


def _stamp_key(worktree: bytes, path: bytes) -> bytes:
    return worktree + digests.of(path)[:16]


class StampKeys:
    """The stat-cache rows of one worktree, all loaded at once: what the scan asks for."""

    def __init__(self, tables: Tables, worktree: bytes, life: bytes) -> None:
        """Copy the rows out of the index, if they are of this life of the file system."""
        self._rows: dict[bytes, bytes] = {}
        if not is_of(tables, worktree, life):
            return
        for key, value in tables[b"stamps"].items(worktree):
            if not key.startswith(worktree):
                break
            self._rows[key[len(worktree) :]] = value

    def __len__(self) -> int:
        """How many directories are known."""
        return len(self._rows)

    def get(self, path: bytes) -> bytes | None:
        """The record of a directory."""
        return self._rows.get(digests.of(path)[:16])

    def take(self, path: bytes) -> bytes | None:
        """The record of a directory, which is let go of."""
        return self._rows.pop(digests.of(path)[:16], None)


def stamps(tables: Tables, worktree: bytes, life: bytes, places: Collection[bytes]) -> dict[bytes, bytes | None]:
    """The stat-cache records of some directories, none when they are not of this life of the file system."""
    if not is_of(tables, worktree, life):
        return dict.fromkeys(places)
    return {place: tables[b"stamps"].get(_stamp_key(worktree, place)) for place in places}


class Page(NamedTuple):
    """A sheet to be remembered. One that was made of the sheet named `base` takes the place of that one only, and is new enough
    for the directories in `fresh`; without a `base`, it was made of all records."""

    data: bytes
    base: bytes = b""
    fresh: frozenset[bytes] = frozenset()


class News(NamedTuple):
    """What a scan has to say to the stat cache: records by directory (None: drop it), a sheet of them, and the life of the file system
    (worktree/life.py) in which the stamps in them were taken."""

    rows: dict[bytes, bytes | None]
    page: Page | None = None
    life: bytes = b""


NO_NEWS = News({})


class Sheet(NamedTuple):
    """Much of a worktree's stat cache as one value, and the directories whose records have changed since it was made.
    `name` is a digest of the value, by which who has it already knows it."""

    data: bytes
    stale: frozenset[bytes]
    name: bytes


def name_of(data: bytes) -> bytes:
    """The name of a sheet."""
    return digests.of(data) + len(data).to_bytes(4, "big")


def is_of(tables: Tables, worktree: bytes, life: bytes) -> bool:
    """True when a worktree's stat cache was made in this life of the file system; never when `life` is not known (b"")."""
    return life != b"" and tables[b"meta"].get(_LIFE + worktree) == life


def generation(tables: Tables, worktree: bytes) -> int | None:
    """A number that is one more after each change of a worktree's stat cache; None where nothing was changed yet."""
    found = tables[b"meta"].get(_GENERATION + worktree)
    return None if found is None else int.from_bytes(found, "big")


def sheet(tables: Tables, worktree: bytes, known: bytes = b"") -> Sheet | None:
    """The sheet of a worktree, None when there is none; without its data when `known` is its name."""
    head, stale = tables[b"meta"].get(_SHEET + worktree), tables[b"meta"].get(_STALE + worktree)
    if head is None or stale is None:
        return None
    newer = frozenset(stale.split(b"\0"))
    if head == known:
        return Sheet(b"", newer, head)
    size = int.from_bytes(head[digests.SIZE :], "big")
    data = tables[b"meta"].join_raw(_slice_keys(worktree, size))
    return Sheet(data, newer, head) if name_of(data) == head else None


def _slice_keys(worktree: bytes, size: int) -> list[bytes]:
    return [_SHEET + worktree + number.to_bytes(2, "big") for number in range(-(-size // _SLICE))]


def _put_sheet(tables: Tables, worktree: bytes, data: bytes, stale: bytes) -> None:
    """Only what is other than it was is written: most of a sheet that was brought up to date is not."""
    table = tables[b"meta"]
    before = table.get(_SHEET + worktree)
    size = int.from_bytes(before[digests.SIZE :], "big") if before else 0
    known, keys = _slice_keys(worktree, size), _slice_keys(worktree, len(data))
    old = table.join_raw(known)
    for key in known[len(keys) :]:
        table.delete(key)
    parts = [(key, slice(at, at + _SLICE)) for key, at in zip(keys, range(0, len(data), _SLICE), strict=True)]
    for first in range(0, len(parts), _TOGETHER):  # a sheet may have a hundred million bytes: they are not copied all at once
        some = parts[first : first + _TOGETHER]
        table.put_many_raw([(key, data[part]) for key, part in some if len(old) != size or data[part] != old[part]])
    table.put(_SHEET + worktree, name_of(data))
    table.put(_STALE + worktree, stale)


def put_stamps(tables: Tables, worktree: bytes, news: News) -> None:
    """Change the stat cache of a worktree. What it has of another life of the file system is dropped first: nothing may make
    it look like what was seen in this one."""
    rows, page, life = news
    if (not rows and page is None) or not life:
        return
    if not is_of(tables, worktree, life):
        _forget(tables, worktree)
        tables[b"meta"].put(_LIFE + worktree, life)
    _put(tables, worktree, rows, page)


def _forget(tables: Tables, worktree: bytes) -> None:
    """Drop the records and the sheet of a worktree. The number of its changes stays: it never goes back."""
    for key in [key for key, _ in takewhile(lambda row: row[0].startswith(worktree), tables[b"stamps"].items(worktree))]:
        tables[b"stamps"].delete(key)
    meta = tables[b"meta"]
    head = meta.get(_SHEET + worktree)
    size = int.from_bytes(head[digests.SIZE :], "big") if head else 0
    for key in (*_slice_keys(worktree, size), _SHEET + worktree, _STALE + worktree):
        meta.delete(key)


def _put(tables: Tables, worktree: bytes, rows: dict[bytes, bytes | None], page: Page | None) -> None:
    if rows or page is not None:
        before = generation(tables, worktree)  # a first one is like no other: what was known of an index that is gone is void
        number = int.from_bytes(os.urandom(7), "big") if before is None else before + 1
        tables[b"meta"].put(_GENERATION + worktree, number.to_bytes(8, "big"))
    keys = {_stamp_key(worktree, path): value for path, value in rows.items()}
    for key in sorted(keys):  # LMDB fills pages that are written in order, and leaves a third of others empty
        if (value := keys[key]) is None:
            tables[b"stamps"].delete(key)
        else:
            tables[b"stamps"].put(key, value)
    meta = tables[b"meta"]
    if page is not None and len(page.data) <= _SLICE << 16 and not page.base:
        _put_sheet(tables, worktree, page.data, b"")
        return
    stale = meta.get(_STALE + worktree) if rows or page is not None else None
    if stale is None:
        return
    newer = {*stale.split(b"\0"), *rows}
    if page is not None and page.base and page.base == meta.get(_SHEET + worktree):
        _put_sheet(tables, worktree, page.data, b"\0".join(sorted(newer - page.fresh)))
    else:
        meta.put(_STALE + worktree, b"\0".join(sorted(newer)))


def drop_stamps(tables: Tables, keep: Callable[[bytes], bool]) -> None:
    """Drop the stat-cache records that `keep` has no use for, and every sheet, which may be of older ones."""
    for key in [key for key, value in tables[b"stamps"].items() if not keep(value)]:
        tables[b"stamps"].delete(key)
    for key in [key for key, _ in tables[b"meta"].items_raw(b"") if key.startswith((_SHEET, _STALE))]:
        tables[b"meta"].delete(key)
