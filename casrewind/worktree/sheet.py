"""The sheet: much of the stat cache on one page, so that what did not change is compared in one go.

Most directories of most projects are as they were. Opening each of them, and unpacking a record of its own for it, costs
more than looking at its files does; from the sheet they are all looked at by their paths, and none is opened.

The danger prevented here: believing too much. The sheet is a copy of stat-cache records and says no more than they do:
with these stamps, and under these rules, the tree of this directory is that one. It knows whole directories only, with
all that is under them: without rule files, with nothing racy or to be looked at again, every tree naming the trees of its
children. What changed since it was made, or does not look as it says, is unclean, and so is all above it: that is
scanned as if there were no sheet. Nothing is read here, so a path that leads elsewhere by now does no harm: what is found
there has other stamps.
"""

import os
import stat
import struct
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack

from ..model import manifest
from ..model.domain import Skip
from ..model.manifest import Entry
from ..typed import NamedTuple, Protocol
from .shares import SHARE, STAMP, TAKEN, TICKET, lay_out

VERSION = 3
HEAD = struct.Struct("<BIIIIIII")  # version; how many rule digests, directories, others, linked; bytes of their paths, of skips
ROW = struct.Struct("<IIIIQQQ32s")  # parent, end of the subtree, rules, entries seen; files, bytes, ignored; tree
NOBODY, _NOWHERE = 0xFFFFFFFF, 0xFFFFFFFE  # no parent; a parent that the sheet does not have
_STALE_LEAST = 64  # directories scanned one by one cost less than a new sheet
_STALE_WATCHED = 16  # where a new sheet is made when nobody waits for it
_WORTH_A_FORK = 3000  # entries; looking at fewer takes no longer than making it does
LONGEST = 3500  # bytes of a directory's path: with a name in it, it still is one that the system takes
MOST = 2_000_000
"""Entries of a worktree from which on no sheet is made: it is read and written as a whole."""


class Part(NamedTuple):
    """A directory that is as it was, with all that is under it: its entry, what its files, their bytes and what was
    ignored add up to, how many entries that are, and what was skipped."""

    entry: Entry
    files: int
    size: int
    ignored: int
    seen: int
    skipped: list[Skip]


class Watcher(Protocol):
    """What a scan asks of a watch (watch.py). `full`: nothing is known, look at everything. `changed`: directories in which something may
    have changed. `below`: directories that are unknown with all under them."""

    full: bool
    changed: set[bytes]
    below: set[bytes]

    def see(self, path: bytes, place: bytes, *, follow: bool = False) -> None:
        """Have the directory `path`, which is at `place`, watched before it is looked at."""


class Sheet:
    """A sheet, and after `look` what of it is clean; `doubted` are the directories that were found not to be."""

    def __init__(self, data: bytes, stale: Collection[bytes]) -> None:
        """`data` is what `sheetmaker.build` made, `stale` the directories whose records are newer. Bytes that are no sheet of this
        version know nothing."""
        self._rules: list[bytes] = []
        self._rows = b""
        self._places: list[bytes] = []
        self._names, self._count = b"", 0  # of the others
        self._split: list[bytes] | None = None
        self._stamps = b""  # of the directories, then of the others
        self._skipped: list[tuple[int, Skip]] = []
        self._linked: tuple[int, ...] = ()  # which of the others have more names
        self._device, self._never = 0, frozenset[int]()  # where directories have to lie, and which are never entered
        self._is_known = self._parse(data)
        if not self._is_known:
            self._places, self._names, self._count = [], b"", 0
        self._numbers = dict(zip(self._places, range(len(self._places)), strict=True))
        self.begin(stale)

    def begin(self, stale: Collection[bytes]) -> None:
        """Nothing was looked at yet, and `stale` are the directories whose records are newer."""
        self._unclean: set[int] = set()
        self.doubted: set[bytes] = set()
        self._stale = len(stale)
        for place in stale:
            if place in self._numbers:
                self._spoil(self._numbers[place])

    def _parse(self, data: bytes) -> bool:
        if len(data) < HEAD.size or data[0] != VERSION:
            return False
        _, rules, directories, others, linked, places, names, skips = HEAD.unpack_from(data)
        lengths = (rules * 32, directories * ROW.size, (directories + others) * STAMP.size, linked * 4, places, names, skips)
        if HEAD.size + sum(lengths) != len(data):
            return False
        parts, at = [], HEAD.size
        for length in lengths:
            parts.append(data[at : at + length])
            at += length
        self._rules = [parts[0][at : at + 32] for at in range(0, len(parts[0]), 32)]
        self._rows = parts[1]
        self._stamps = parts[2]
        self._linked = struct.unpack(f"<{linked}I", parts[3])
        self._places = parts[4].split(b"\0") if directories else []
        self._names, self._count = parts[5], others
        found = parts[6].split(b"\0") if skips else []
        try:
            self._skipped = [
                (int(found[at]), Skip(found[at + 1], found[at + 2].decode())) for at in range(0, len(found), 3)
            ]
        except (IndexError, ValueError):
            return False
        return (len(self._places), self._names.count(b"\0") + 1 if others else 0) == (directories, others)

    @property
    def _others(self) -> list[bytes]:
        """The paths of what is no directory: of little use to who is told what has changed."""
        if self._split is None:
            self._split = self._names.split(b"\0") if self._count else []
        return self._split

    def serves(self, more: int) -> bool:
        """Whether it is still worth its while when so many more directories have newer records than it."""
        return self._is_known and self._stale + more <= _STALE_LEAST + len(self._places) // 16

    def spares(self, stale: int) -> bool:
        """Whether it leaves next to nothing to be scanned for somebody who watches, when so many directories have newer records."""
        return self._is_known and stale <= _STALE_WATCHED + len(self._places) // 256

    def look(
        self,
        fd: int,
        device: int,
        excluded: Iterable[tuple[int, int]],
        *,
        processes: int = 1,
        watch: Watcher | None = None,
        root: bytes = b"",
    ) -> None:
        """Compare everything with the worktree whose root is open as `fd`. `excluded`: directories (device, inode) that are
        not to be entered. With 2 `processes`, where there is enough to do, a fork looks at some of it. With a `watch` of the `root` at
        this path everything is watched first; or, when that is so already, little is looked at."""
        self._device, self._never = device, frozenset(inode for where, inode in excluded if where == device)
        if watch is not None and not watch.full:
            self._look_where(fd, watch)
            return
        if watch is not None:
            for path in self._places:
                watch.see(path, root + b"/" + path)
        with ExitStack() as closing:
            shares, told = self._share_out(fd, closing, processes)
            moved = self._all_shares(fd, [] if shares < 0 else [*self._take_shares(fd, shares), *told()])
        for number in moved:
            self._doubt_entry(number)

    def doubt_mounts(self, places: Iterable[bytes]) -> None:
        """Directories in which something is mounted are to be scanned: no stamp tells of a mount. After `look`."""
        for place in places:
            if place in self._numbers:
                self._doubt(self._numbers[place])

    def _doubt_entry(self, number: int) -> None:
        """A directory, or the directory of one of the others, is not as it was."""
        if number < len(self._places):
            self._doubt(number)
        else:
            other = self._others[number - len(self._places)]
            self._doubt(self._numbers.get(other.rpartition(b"/")[0], _NOWHERE))

    def _share_out(self, fd: int, closing: ExitStack, processes: int) -> tuple[int, Callable[[], list[int]]]:
        """(the pipe of shares that nobody has taken yet, -1 for none; what gives the numbers of who takes some of them)."""
        count = len(self._places) + len(self._others)
        if processes < 2 or count < _WORTH_A_FORK:
            return -1, list
        from .aside import Aside

        shares = lay_out(-(-count // SHARE))
        closing.callback(os.close, shares)
        aside = Aside(lambda: self._take_shares(fd, shares), (fd, shares))
        closing.callback(aside.close)
        return shares, aside.numbers

    def _look_where(self, fd: int, watch: Watcher) -> None:
        """Look only at what may have changed, and at the files that have other names: for their directories nobody knows."""
        for path in watch.changed:
            if path in self._numbers:
                self._doubt(self._numbers[path])
        for path in watch.below:
            inside = path + b"/"
            for place, number in self._numbers.items():
                if place == path or place.startswith(inside):
                    self._doubt(number)
        for linked in self._linked:
            number = len(self._places) + linked
            if self._moved(fd, number, number + 1):
                self._doubt_entry(number)

    def _take_shares(self, fd: int, shares: int) -> list[int]:
        """Look at one share after the other until none is left. Returns the numbers of the entries that moved, and the shares taken, each
        as a number above those of all entries."""
        found = []
        while share := os.read(shares, TICKET):
            number = int.from_bytes(share, "little")
            found += self._moved(fd, number * SHARE, (number + 1) * SHARE)
            found.append(TAKEN + number)
        return found

    def _all_shares(self, fd: int, found: list[int]) -> list[int]:
        """Which entries have moved, of all: those in the shares that were taken and never told of are looked at now."""
        done = {number - TAKEN for number in found if number >= TAKEN}
        moved = [number for number in found if number < TAKEN]
        for number in range(-(-(len(self._places) + len(self._others)) // SHARE)):
            if number not in done:
                moved += self._moved(fd, number * SHARE, (number + 1) * SHARE)
        return moved

    def _moved(self, fd: int, start: int, end: int) -> list[int]:
        """Which of these entries do not have the stamps that are remembered: directories come first, then the others."""
        places = len(self._places)
        if start < places < end:
            return self._moved(fd, start, places) + self._moved(fd, places, end)
        paths = self._places[start:end] if start < places else self._others[start - places : end - places]
        status, device, moved = os.stat, self._device, []
        remembered = STAMP.iter_unpack(self._stamps[start * STAMP.size : (start + len(paths)) * STAMP.size])
        for number, (path, old) in enumerate(zip(paths, remembered, strict=True), start):
            try:
                now = status(path, dir_fd=fd, follow_symlinks=False)
            except OSError:
                moved.append(number)
                continue
            is_other = old != (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_mode)
            if is_other or (number < places and (now.st_dev != device or now.st_ino in self._never)):
                moved.append(number)
        return moved

    def _doubt(self, number: int) -> None:
        """A directory may be other than the sheet says, by what `look` has seen."""
        if number < len(self._places):
            self.doubted.add(self._places[number])
        self._spoil(number)

    def _spoil(self, number: int) -> None:
        """A directory, and so all those above it, are not what the sheet says. When it does not say where that is, nothing
        of it is believed."""
        while number != NOBODY and number not in self._unclean:
            if number >= len(self._places):
                self._unclean.update(range(len(self._places)))
                return
            self._unclean.add(number)
            number = ROW.unpack_from(self._rows, number * ROW.size)[0]

    def take(self, path: bytes, rules: bytes) -> Part | None:
        """What is known of a directory in which the rules of that digest are in force, None when it has to be scanned."""
        number = self._numbers.get(path)
        if number is None or number in self._unclean:
            return None
        _, end, ruled, seen, files, size, ignored, tree = ROW.unpack_from(self._rows, number * ROW.size)
        if ruled >= len(self._rules) or self._rules[ruled] != rules:
            return None
        mode = STAMP.unpack_from(self._stamps, number * STAMP.size)[4]
        entry = manifest.dir_entry(stat.S_IMODE(mode), tree)
        skipped = [skip for owner, skip in self._skipped if number <= owner < end]
        return Part(entry, files, size, ignored, seen, skipped)
