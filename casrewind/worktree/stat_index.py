"""The stat index: the last save's stamps and records in one flat value. Git's own is simply called the index.

All files are compared with their recorded stamps by path, in one loop. An unchanged directory is reused with its whole
subtree: nothing in it is opened, listed or read.

The danger prevented here: trusting records made under other conditions. A subtree is reused only if all of its stamps
are unchanged. A racy stamp is stored as stamps.NONE, which no file has. The digest of the ignore rules that reach the
subtree must be unchanged, and so must all rule files in it, even ignored ones. No skip in it may have a reason that can
vanish without a change of the directory: scan_directory.py stores stamps.NONE for such directories.

In other directories, a file's entry is reused while its own stamp is unchanged. An unparsable value counts as empty.
All rows come from one scan: each tree names the trees of its children. The store checks which store and checkpoint a
value belongs to (store/stat_file.py).

The page docs/internals/format.md 9 defines the bytes. A column is one field of all rows. A row is one directory, before
its subdirectories.
"""

import operator
import os
import stat
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise

from .. import fsio
from .._typing import NamedTuple, TypeVar
from ..gitignore.rules import RULE_FILES
from ..model import manifest, paths
from ..model import stamp as stamps
from ..model.domain import RuleRef, Skip
from ..model.manifest import Entry

try:
    from .threaded_comparison import positions_that_differ
except ImportError:  # the installation had no compiler
    from ..model.stamp import positions_that_differ

Row = TypeVar("Row")
Basis = tuple[str, bytes, bytes, bytes]
"""The identity of the state that a stat index describes (store/stat_file.py)."""
_RULE_BITS = sum(source.bit for source in RULE_FILES.values())
_ONLY_RULES = bytes(bits for bits in range(256) if not bits & ~_RULE_BITS)
_VERSION = bytes((5, _RULE_BITS))  # a scan that looked for fewer rule files has not recorded the others
_HEAD = struct.Struct("<2sIIIQQQQ")  # version; directories, other entries, rule files; bytes of the four lists of paths
_STAMP, _DIGEST = stamps.PACKED.size, 32
_INODE = 24  # offset of the inode in a packed stamp
_NO_STAMP = stamps.PACKED.pack(*stamps.NONE)


class DirRecord(NamedTuple):
    """A scan's record of one directory.

    `stamp`: packed. `rules`: digest of the rules in force, with the directory's own. `tree`: its tree's digest.
    `special`: bits of names that affect the whole directory. `files`, `size`, `ignored`: of the directory itself.
    `names` (separated by NUL) and `stamps` (packed) describe the entries that are not directories, by name.
    `children`: names of directories. `skipped`: (name, reason). `rule_files`: (name, digest, packed stamp). `weight`: what
    its rule files add to the weight of all rules of the project.
    """

    stamp: bytes
    rules: bytes
    tree: bytes
    special: int
    files: int
    size: int
    ignored: int
    names: bytes
    stamps: bytes
    children: bytes
    skipped: tuple[tuple[bytes, str], ...] = ()
    rule_files: tuple[tuple[bytes, bytes, bytes], ...] = ()
    weight: int = 0

    def forgetting(self, name: bytes) -> "DirRecord":
        """The record without a valid stamp for one name: the next scan reads the file."""
        at = split_names(self.names).index(name) * _STAMP
        return self._replace(stamps=self.stamps[:at] + _NO_STAMP + self.stamps[at + _STAMP :])

    def positions_that_differ(self, fd: int) -> list[int]:
        """The positions of the names that do not have their stamps in the directory open as `fd`."""
        return positions_that_differ(self.names, self.stamps, fd)


class StaleIndex(Exception):
    """The index is unusable: it is inconsistent, or the store lacks data that it relies on."""


def split_names(names: bytes) -> list[bytes]:
    """Split a list of names at NUL."""
    return names.split(b"\0") if names else []


class Subtree(NamedTuple):
    """An unchanged directory with its subtree: its entry, totals, skips and rule files with their weight."""

    entry: Entry
    files: int
    size: int
    ignored: int
    entries: int
    skipped: list[Skip]
    rules: list[RuleRef]
    weight: int


class StatIndex:
    """A stat index in memory. First `compare` it with the worktree, then read subtrees and records."""

    def __init__(self, value: bytes = b"", basis: Basis | None = None) -> None:
        """Parse a value with this `basis`. A truncated value or another version means an empty index."""
        self.value, self.basis = value, basis
        try:
            columns = _Columns(value)
        except (ValueError, KeyError):
            columns = _Columns(_Rows().encode())
        self._columns = columns
        self._numbers = {path: number for number, path in enumerate(columns.places)}
        self._skip_owners = [self._numbers.get(path.rpartition(b"/")[0], 0) for path, _ in columns.skips]
        self._rule_owners = [self._numbers.get(path.rpartition(b"/")[0], 0) for path in columns.rule_paths]
        # The directories that are always scanned, because of a racy stamp or a special name
        self._doubtful = list(_positions_with_stamp_part(columns.place_stamps))
        self._doubtful += [bisect_left(columns.first, at + 1) - 1 for at in _positions_with_stamp_part(columns.other_stamps)]
        self._doubtful += [self._rule_owners[at] for at in _positions_with_stamp_part(columns.rule_stamps)]
        if columns.special.translate(None, _ONLY_RULES):
            self._doubtful += [number for number, bits in enumerate(columns.special) if bits & ~_RULE_BITS]
        self.begin_scan()

    def __len__(self) -> int:
        """The number of directories."""
        return len(self._columns.places)

    def begin_scan(self) -> None:
        """Reset the results of `compare`, for the next scan."""
        self._dirty = {0}  # a scan always enters the root
        self.differing: set[bytes] = set()
        """The directories that `compare` found changed."""
        for number in self._doubtful:
            self._mark_directory_and_parents(number)

    def _mark_directory_and_parents(self, number: int) -> None:
        """Mark a directory and all its parents as changed."""
        distances = self._columns.distances
        while number not in self._dirty:
            self._dirty.add(number)
            number -= distances[number]

    def _mark_differing(self, number: int) -> None:
        """Mark the directory of a changed row: a directory, another entry or a rule file."""
        columns = self._columns
        directories, others = len(columns.places), len(columns.other_stamps) // _STAMP
        if number >= directories + others:
            number = self._rule_owners[number - directories - others]
        elif number >= directories:
            number = bisect_left(columns.first, number - directories + 1) - 1
        self.differing.add(columns.places[number])
        self._mark_directory_and_parents(number)

    # -- comparing

    def compare(self, fd: int, device: int, excluded: Iterable[tuple[int, int]] = ()) -> None:
        """Compare every entry with the worktree; its root is open as `fd`. `excluded`: (device, inode) of directories
        not to enter. Raises StaleIndex."""
        columns = self._columns
        if fsio.HAS_FILE_FLAGS and self._has_directory_in_cloud(fd):
            raise StaleIndex
        for inode in (inode for where, inode in excluded if where == device):
            for number in _positions_with_stamp_part(columns.place_stamps, struct.pack("<Q", inode), _INODE):
                self._mark_differing(number)
        before = 0
        for names, packed, where in (
            (columns.place_names, columns.place_stamps, device),
            (columns.names, columns.other_stamps, None),  # on overlayfs, a file's device may differ from its directory's
            (columns.rule_names, columns.rule_stamps, None),
        ):
            try:
                found = positions_that_differ(names, packed, fd, where)
            except ValueError as error:
                raise StaleIndex from error
            for number in found:
                if before + number:  # not the root, whose path is empty
                    self._mark_differing(before + number)
            before += len(packed) // _STAMP

    def _has_directory_in_cloud(self, fd: int) -> bool:
        """True if only a cloud has what is in a recorded directory: to look at a path below would download that. Parents come first."""
        for path in self._columns.places[1:]:
            try:
                if not fsio.is_on_disk(os.stat(path, dir_fd=fd, follow_symlinks=False)):
                    return True
            except OSError:
                continue
        return False

    def trees_with_changes(self) -> list[bytes]:
        """If `compare` found a change, the recorded trees of the directories that a scan enters: it needs most of them."""
        return [_digest_in_column(self._columns.trees, number) for number in sorted(self._dirty)] if self.differing else []

    def mark_dirty(self, directories: Iterable[bytes]) -> int:
        """Mark directories for scanning, whatever their stamps. Call it after `compare`. Returns how many are marked in all."""
        for number in filter(None, map(self._numbers.get, directories)):
            self._mark_directory_and_parents(number)
        return len(self._dirty)

    # -- reading

    @property
    def directories(self) -> list[bytes]:
        """The paths of all directories that the last scan captured, b"" among them."""
        return self._columns.places

    def unchanged_subtree(self, path: bytes, rules: bytes) -> Subtree | None:
        """The subtree of an unchanged directory under rules with this digest; None if it must be scanned."""
        number = self._numbers.get(path)
        if number is None or number in self._dirty:
            return None
        columns = self._columns
        if _digest_in_column(columns.rules, number - columns.distances[number]) != rules:
            return None
        end = number + columns.spans[number]
        mode = stamps.PACKED.unpack_from(columns.place_stamps, number * _STAMP)[4]
        return Subtree(
            manifest.Entry(manifest.DIR, stat.S_IMODE(mode), digest=_digest_in_column(columns.trees, number)),
            sum(columns.files[number:end]),
            sum(columns.sizes[number:end]),
            sum(columns.ignored[number:end]),
            sum(columns.counts[number:end]),
            [Skip(path, reason) for path, reason in _rows_of(columns.skips, self._skip_owners, number, end)],
            [_parse_rule(path, digest) for path, digest, _ in _rows_of(columns.rule_files, self._rule_owners, number, end)],
            sum(columns.weights[number:end]),
        )

    def record_of_directory(self, path: bytes) -> DirRecord | None:
        """The record of one directory."""
        number = self._numbers.get(path)
        if number is None:
            return None
        columns = self._columns
        first, last = columns.first[number : number + 2]
        before = len(path) + 1 if path else 0
        children, child, end = [], number + 1, number + columns.spans[number]
        while child < end:
            children.append(columns.places[child][before:])
            child += columns.spans[child]
        return DirRecord(
            columns.place_stamps[number * _STAMP : (number + 1) * _STAMP],
            _digest_in_column(columns.rules, number),
            _digest_in_column(columns.trees, number),
            columns.special[number],
            columns.files[number],
            columns.sizes[number],
            columns.ignored[number],
            b"\0".join([path[before:] for path in columns.paths_of_non_directories(number)]),
            columns.other_stamps[first * _STAMP : last * _STAMP],
            b"\0".join(children),
            tuple((path[before:], reason) for path, reason in _rows_of(columns.skips, self._skip_owners, number, number + 1)),
            tuple(
                (path[before:], digest, stamp)
                for path, digest, stamp in _rows_of(columns.rule_files, self._rule_owners, number, number + 1)
            ),
            columns.weights[number],
        )

    def directories_with_ignored(self) -> dict[bytes, int]:
        """The directories in which the last scan ignored an entry, each with the number of these entries."""
        return {path: count for path, count in zip(self._columns.places, self._columns.ignored, strict=True) if count}

    # -- writing

    def updated_value(self, records: Mapping[bytes, DirRecord]) -> bytes:
        """A new value with these records, and the current ones of all other directories."""
        new = _Rows()
        stack = [(b"", 0)]
        tops = []  # (row, its parent's row) of records, and of the first rows of copied subtrees
        start = end = row = 0  # rows to copy, perhaps of several subtrees; the next new row
        while stack:
            path, parent = stack.pop()
            record, number = records.get(path), self._numbers.get(path)
            if record is None and number is not None and number not in self._dirty:
                if number != end:
                    self._copy_unchanged_rows(start, end, new)
                    start = end = number
                end += self._columns.spans[number]
                count = self._columns.spans[number]
            else:
                record = record or self.record_of_directory(path)
                if record is None:
                    continue
                self._copy_unchanged_rows(start, end, new)
                start = end = 0
                new.append(path, record)
                stack += [(paths.join(path, name), row) for name in reversed(split_names(record.children))]
                count = 1
            tops.append((row, parent))
            row += count
        self._copy_unchanged_rows(start, end, new)
        for row, parent in reversed(tops):
            new.distances[row] = row - parent
            if row:
                new.spans[parent] += new.spans[row]
        return new.encode()

    def _copy_unchanged_rows(self, number: int, end: int, new: "_Rows") -> None:
        """Copy the rows of subtrees unchanged: no row contains its own position."""
        if number == end:
            return
        old, (first, last) = self._columns, (self._columns.first[number], self._columns.first[end])
        for name in _NUMBERS:
            getattr(new, name).extend(getattr(old, name)[number:end])
        new.special.append(old.special[number:end])
        new.rules.append(old.rules[number * _DIGEST : end * _DIGEST])
        new.trees.append(old.trees[number * _DIGEST : end * _DIGEST])
        new.place_stamps.append(old.place_stamps[number * _STAMP : end * _STAMP])
        new.other_stamps.append(old.other_stamps[first * _STAMP : last * _STAMP])
        new.places += old.places[number:end]
        if first < last:
            new.others.append(old.names[old.starts[number] : old.starts[end] - 1])
        new.skips += _rows_of(old.skips, self._skip_owners, number, end)
        new.rule_files += _rows_of(old.rule_files, self._rule_owners, number, end)


_NUMBERS = ("distances", "spans", "counts", "path_bytes", "files", "ignored", "weights", "sizes")


class _Rows:
    """All rows of a new value. A column of bytes is a list of parts."""

    def __init__(self) -> None:
        self.distances, self.spans, self.counts, self.path_bytes = (list[int]() for _ in range(4))
        self.files, self.ignored, self.weights, self.sizes = (list[int]() for _ in range(4))
        self.special, self.rules, self.trees = list[bytes](), list[bytes](), list[bytes]()
        self.place_stamps, self.other_stamps = list[bytes](), list[bytes]()
        self.places, self.others = list[bytes](), list[bytes]()
        self.skips: list[tuple[bytes, str]] = []
        self.rule_files: list[tuple[bytes, bytes, bytes]] = []

    def append(self, path: bytes, record: DirRecord) -> None:
        """Add the row of one directory. Its distance to its parent is set later."""
        before = path + b"/" if path else b""
        self.distances.append(0)
        self.spans.append(1)
        self.counts.append(len(record.stamps) // _STAMP)
        self.path_bytes.append(len(record.names) + 1 + len(record.stamps) // _STAMP * len(before) if record.names else 0)
        self.files.append(record.files)
        self.ignored.append(record.ignored)
        self.weights.append(record.weight)
        self.sizes.append(record.size)
        self.special.append(bytes([record.special]))
        self.rules.append(record.rules)
        self.trees.append(record.tree)
        self.place_stamps.append(record.stamp)
        self.other_stamps.append(record.stamps)
        self.places.append(path)
        if record.names:
            self.others.append(before + record.names.replace(b"\0", b"\0" + before))
        if record.skipped:
            self.skips += [(before + name, reason) for name, reason in record.skipped]
        if record.rule_files:
            self.rule_files += [(before + name, digest, stamp) for name, digest, stamp in record.rule_files]

    def encode(self) -> bytes:
        """The encoded value."""
        lists = (
            b"\0".join(self.places),
            b"\0".join(self.others),
            b"\0".join([path for path, _, _ in self.rule_files]),
            b"\0".join([path + b"\0" + reason.encode() for path, reason in self.skips]),
        )
        head = _HEAD.pack(_VERSION, len(self.places), sum(self.counts), len(self.rule_files), *map(len, lists))
        numbers = [struct.pack(f"<{len(self.places)}{'Q' if name == 'sizes' else 'I'}", *getattr(self, name)) for name in _NUMBERS]
        columns = (self.special, self.rules, self.trees, self.place_stamps, self.other_stamps)
        rule_digests, rule_stamps = ([rule[at] for rule in self.rule_files] for at in (1, 2))
        parts = (part for column in columns for part in column)
        return b"".join((head, *numbers, *parts, *rule_digests, *rule_stamps, *lists))


class _Columns:
    """A parsed value, by column."""

    def __init__(self, data: bytes) -> None:
        """Raises ValueError."""
        if len(data) < _HEAD.size or data[:2] != _VERSION:
            raise ValueError
        _, directories, others, rules, *lengths = _HEAD.unpack_from(data)
        widths = [4 * directories] * 7 + [8 * directories, directories]
        widths += [_DIGEST * directories] * 2 + [_STAMP * directories, _STAMP * others, _DIGEST * rules, _STAMP * rules]
        ends = list(accumulate((*widths, *lengths), initial=_HEAD.size))
        if ends[-1] != len(data):
            raise ValueError
        fields = [data[start:end] for start, end in pairwise(ends)]
        numbers = [struct.unpack(f"<{directories}I", field) for field in fields[:7]]
        self.distances, self.spans, self.counts, self.path_bytes, self.files, self.ignored, self.weights = numbers
        self.sizes = struct.unpack(f"<{directories}Q", fields[7])
        self.special, self.rules, self.trees, self.place_stamps, self.other_stamps, digests, rule_stamps = fields[8:15]
        self.rule_stamps = rule_stamps
        self.place_names, self.names, self.rule_names = fields[15:18]
        """The paths of directories, of other entries and of rule files, each with a NUL between them."""
        self.places = self.place_names.split(b"\0") if directories else []
        self.rule_paths = split_names(self.rule_names)
        found = split_names(fields[18])
        self.skips = [(path, reason.decode()) for path, reason in zip(found[::2], found[1::2], strict=True)]
        self.first = list(accumulate(self.counts, initial=0))
        """For each directory, the position of its first entry that is not a directory; then their total number."""
        self.starts = list(accumulate(self.path_bytes, initial=0))
        """For each directory, the position of these entries in `names`; then the length of `names` with a last NUL."""
        totals = len(self.places), len(self.rule_paths), self.first[-1], self.starts[-1]
        if totals != (directories, rules, others, len(self.names) + bool(others)):
            raise ValueError
        rows = range(directories)
        if directories and not (
            all(map(operator.le, self.distances, rows))
            and min(self.distances[1:], default=1) > 0 < min(self.spans)
            and max(map(operator.add, rows, self.spans)) <= directories
            and all(path.rpartition(b"/")[2] in RULE_FILES for path in self.rule_paths)
        ):
            raise ValueError
        self.rule_files = [
            (path, digests[at * _DIGEST : (at + 1) * _DIGEST], rule_stamps[at * _STAMP : (at + 1) * _STAMP])
            for at, path in enumerate(self.rule_paths)
        ]

    def paths_of_non_directories(self, number: int) -> list[bytes]:
        """The paths of one directory's entries that are not directories. Raises StaleIndex. Splits only these: to
        split all names of a million files takes longer than the rest of a save."""
        found = split_names(self.names[self.starts[number] : max(self.starts[number + 1] - 1, 0)])
        if len(found) != self.counts[number]:
            raise StaleIndex
        return found


def _positions_with_stamp_part(column: bytes, part: bytes = _NO_STAMP, offset: int = 0) -> Iterator[int]:
    """The rows in a column of stamps that have `part` at an offset; by default the rows without a stamp."""
    at = column.find(part)
    while at >= 0:
        if at % _STAMP == offset:
            yield at // _STAMP
        at = column.find(part, at + 1)


def _digest_in_column(column: bytes, number: int) -> bytes:
    return column[number * _DIGEST : (number + 1) * _DIGEST]


def _rows_of(rows: list[Row], owners: list[int], start: int, end: int) -> list[Row]:
    """The rows for the directories from `start` to before `end`; rows are in directory order."""
    return rows[bisect_left(owners, start) : bisect_left(owners, end)] if rows else []


def _parse_rule(path: bytes, digest: bytes) -> RuleRef:
    place, _, name = path.rpartition(b"/")
    return RuleRef(place, RULE_FILES[name].name, digest)
