"""A sheet brought up to date: what has changed of a few directories is written over what it says of them.

A sheet that is too old for a directory makes every scan open that directory, and all above it. To make it anew every record of
the stat cache has to be read; what has changed is often a few files of a few directories, whose places in the sheet are known.

The danger prevented here: a sheet that says more than the records do. A directory is taken over only from a record with which a
new sheet would have it, and only with every directory under it: the rules are the same, nothing in it is racy or to be looked at
again, and its tree names the trees of its children as the sheet has them. Directories that came or went would move the rows of all
others: those above them stay as they are, and too old.
"""

import stat
import struct
import sys
from collections.abc import Iterable, Sequence

from ..model import digest as digests
from ..model import manifest, paths
from ..model import stamp as stamps
from ..model.domain import Skip
from ..typed import Literal
from . import statcache
from .passes import Remember
from .shares import STAMP
from .sheet import HEAD, NOBODY, ROW, VERSION, Sheet

_COUNTS, _SIZES, _MODES = ROW.size // 4, ROW.size // 8, STAMP.size // 4  # of those, one after the other, a row or a stamp is made
_MOST = 1000  # files with more names, or skips: they are gone through for each directory


def _column(data: bytes, code: Literal["I", "Q"]) -> Sequence[int]:
    """Bytes as numbers, little-endian."""
    count = len(data) // struct.calcsize("<" + code)
    return memoryview(data).cast(code) if sys.byteorder == "little" else struct.unpack(f"<{count}{code}", data)


def renew(sheet: Sheet, remember: Remember, places: Iterable[bytes]) -> tuple[bytes, frozenset[bytes]] | None:
    """The sheet as bytes with what `remember` says now of these directories, and of which of them it does; None when of none,
    or when the sheet contradicts itself."""
    renewal = _Renewal(sheet)
    if not renewal.is_worth_it:
        return None
    numbers = {renewal.numbers[path]: path for path in places if path in renewal.numbers}
    try:
        done = [path for number, path in sorted(numbers.items(), reverse=True) if renewal.take(number, path, remember(path))]
        return (renewal.data(), frozenset(done)) if done else None
    except (IndexError, KeyError, struct.error):
        return None


class _Renewal:
    """Directories have to come in the order of their numbers, the last one first: what is under one lies behind it."""

    def __init__(self, sheet: Sheet) -> None:
        self._places, self.numbers = sheet._places, sheet._numbers  # noqa: SLF001 - the two are one, in two rooms
        self._rules, self._old_rows, self._old_stamps = sheet._rules, sheet._rows, sheet._stamps  # noqa: SLF001
        self._others, self._names = sheet._others, sheet._names  # noqa: SLF001
        self._linked, self._skipped = list(sheet._linked), list(sheet._skipped)  # noqa: SLF001
        self.is_worth_it = bool(self._places) and max(len(self._linked), len(self._skipped)) <= _MOST
        self._counts, self._sizes = _column(self._old_rows, "I"), _column(self._old_rows, "Q")
        self._modes = _column(self._old_stamps, "I")
        self._heads: dict[tuple[int, int], bytes] = {}
        self._failed: set[int] = set()
        self._rows: dict[int, bytes] = {}
        self._stamps: dict[int, bytes] = {}
        self._entries: dict[int, tuple[int, bytes]] = {}  # mode and tree
        self._gains: dict[int, list[int]] = {}  # by how much the sums of a row have changed
        self._blocks: list[tuple[int, int, list[bytes], bytes]] = []  # of the others: where, how many there were, paths, stamps
        self._families: dict[int, list[int]] = {}
        self._inside: dict[int, int] = {}
        self._offsets: dict[int, int] = {}

    def take(self, number: int, path: bytes, data: bytes | None) -> bool:
        """Take over a directory, unless that is not to be done: then no directory above it can be."""
        record = statcache.decode(data)
        if record is None or not self._fits(number, record) or not self._names_children(number, path, record):
            self._failed.add(number)
            return False
        parent, end, ruled, *before, _ = ROW.unpack_from(self._old_rows, number * ROW.size)
        sums = self._sums(number, record)
        self._rows[number] = ROW.pack(parent, end, ruled, *sums, record.tree)
        self._stamps[number] = STAMP.pack(*record.stamp)
        self._entries[number] = stat.S_IMODE(record.stamp.mode), record.tree
        self._gains[number] = [now - old for now, old in zip(sums, before, strict=True)]
        self._take_others(number, path, record)
        if record.skipped or any(owner == number for owner, _ in self._skipped):
            self._skipped = [each for each in self._skipped if each[0] != number]
            self._skipped += [(number, Skip(paths.join(path, name), reason)) for name, reason in record.skipped]
        return True

    def _fits(self, number: int, record: statcache.Record) -> bool:
        rules = self._rules[self._counts[number * _COUNTS + 2]]
        if record.stamp == stamps.NONE or record.rule_files or record.rules != rules:
            return False
        rows = zip(record.kinds, record.stamps, strict=True)
        return all(kind == statcache.DIRECTORY or stamp != stamps.NONE for kind, stamp in rows)

    def _names_children(self, number: int, path: bytes, record: statcache.Record) -> bool:
        """Whether the directories in a record are those of the sheet, and its tree names theirs."""
        children = self._family(number)[::-1]  # a sheet is made with the last of them first
        kinds = zip(record.names, record.kinds, strict=True)
        names = [name for name, kind in kinds if kind == statcache.DIRECTORY]
        cut = len(path) + 1
        if names != [self._places[child][cut:] for child in children] or not self._failed.isdisjoint(children):
            return False
        position, tree, modes, rows = 0, record.tree_bytes, self._modes, self._old_rows
        for name, child in zip(names, children, strict=True):
            new = self._entries.get(child)
            entry = new or (modes[child * _MODES + 8] & 0o7777, rows[(child + 1) * ROW.size - digests.SIZE : (child + 1) * ROW.size])
            position = tree.find(self._head(len(name), entry[0]) + name + entry[1], position)
            if position < 0:
                return False
        return True

    def _head(self, length: int, mode: int) -> bytes:
        """What stands in a tree in front of the name of a directory."""
        head = self._heads.get((length, mode))
        if head is None:
            name, tree = bytes(length), bytes(digests.SIZE)
            entry = manifest.encode_entry(name, manifest.dir_entry(mode, tree))
            head = self._heads[length, mode] = entry[: -len(name + tree)]
        return head

    def _sums(self, number: int, record: statcache.Record) -> list[int]:
        """What a directory adds up to now, with all that is under it: as in its row."""
        family, counts, sizes = self._family(number), self._counts, self._sizes
        sums = [
            len(record.names) + sum([counts[child * _COUNTS + 3] for child in family]),
            record.files + sum([sizes[child * _SIZES + 2] for child in family]),
            record.size + sum([sizes[child * _SIZES + 3] for child in family]),
            record.ignored + sum([sizes[child * _SIZES + 4] for child in family]),
        ]
        for child in self._gains.keys() & set(family):
            sums = [one + gain for one, gain in zip(sums, self._gains[child], strict=True)]
        return sums

    def _take_others(self, number: int, path: bytes, record: statcache.Record) -> None:
        start = self._start(number)
        inside = self._inside[number]
        rows = zip(record.names, record.kinds, record.stamps, strict=True)
        found = [(path + b"/" + name, kind, STAMP.pack(*stamp)) for name, kind, stamp in rows if kind != statcache.DIRECTORY]
        self._blocks.append((start, inside, [name for name, _, _ in found], b"".join([stamp for _, _, stamp in found])))
        linked = [start + at for at, (_, kind, _) in enumerate(found) if kind == statcache.LINKED]
        if self._linked or linked:
            moved = len(found) - inside
            behind = [at + moved for at in self._linked if at >= start + inside]
            self._linked = [at for at in self._linked if at < start] + linked + behind

    # -- where things stand in the sheet as it was

    def _family(self, parent: int) -> list[int]:
        """The directories in a directory; of NOBODY, those that are in none of the sheet."""
        found = self._families.get(parent)
        if found is not None:
            return found
        found, counts = [], self._counts
        number, last = (0, len(self._places)) if parent == NOBODY else (parent + 1, counts[parent * _COUNTS + 1])
        offset = entries = 0
        while number < last:
            found.append(number)
            end, seen = max(counts[number * _COUNTS + 1], number + 1), counts[number * _COUNTS + 3]
            self._offsets[number] = offset
            offset += seen - (end - number - 1)  # what is no directory
            entries += seen
            number = end
        self._families[parent] = found
        self._inside[parent] = 0 if parent == NOBODY else counts[parent * _COUNTS + 3] - entries - len(found)
        return found

    def _start(self, number: int) -> int:
        """How many others there are in front of those of a directory: those of what is above it, and beside it in front of it."""
        start, last = 0, number
        while number != NOBODY:
            parent = self._counts[number * _COUNTS]
            if NOBODY != parent >= last:
                raise IndexError(parent)
            self._family(parent)
            start += self._offsets[number] + self._inside[parent]
            number = last = parent
        return start

    # -- the sheet as it is now

    def data(self) -> bytes:
        """It as bytes."""
        rows, before = bytearray(self._old_rows), bytearray(self._old_stamps)
        for number, row in self._rows.items():
            rows[number * ROW.size : (number + 1) * ROW.size] = row
            before[number * STAMP.size : (number + 1) * STAMP.size] = self._stamps[number]
        count, names = len(self._others), self._names
        is_other = any(self._others[start : start + inside] != found for start, inside, found, _ in self._blocks)
        others = list(self._others) if is_other else []
        for start, inside, found, new in self._blocks:  # the last one first: those in front of it stay where they are
            first = (len(self._places) + start) * STAMP.size
            before[first : first + inside * STAMP.size] = new
            if is_other:
                others[start : start + inside] = found
        if is_other:
            count, names = len(others), b"\0".join(others)
        places = b"\0".join(self._places)
        skipped = sorted(self._skipped, key=lambda each: each[0])
        skips = b"\0".join([b"%d\0%s\0%s" % (number, skip.path, skip.reason.encode()) for number, skip in skipped])
        tail = struct.pack(f"<{len(self._linked)}I", *self._linked)
        lengths = len(self._rules), len(self._places), count, len(self._linked), len(places), len(names), len(skips)
        return b"".join((HEAD.pack(VERSION, *lengths), *self._rules, rows, before, tail, places, names, skips))
