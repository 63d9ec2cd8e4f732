"""Three-way merges: of the lines of a file, and of the entries of one path.

`base` is what a turn left, `ours` what is there now, `theirs` what was there before the turn. The result has
everything that was done since, without what the turn did.

The danger prevented here: a merge that loses a line. Changes that overlap or touch are a conflict, and a conflict
leaves the whole path as it is. A wrong alignment of lines may cost a conflict, never a line.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator

from .._typing import NamedTuple
from .line_diff import blocks, is_binary, lines_of
from .manifest import DIR, FILE, PERMISSIONS, PURGED, Entry, same_for_restore

OURS, THEIRS, BOTH, CONFLICT = "ours", "theirs", "both", "conflict"
"""Which side changed the lines of a group: one of them, both in the same way, or both differently."""
CONFLICTS, REMOVED, IS_PURGED, IS_BINARY, IS_LARGE = "conflict", "removed_since", "purged", "binary", "too_large"
"""Words for what prevents a merge."""
_MOST_BYTES, _MOST_LINES = 4 << 20, 50_000
"""Limits of one side of a merge by lines."""

Reader = Callable[[Entry], bytes]
"""Returns the content of a file. May raise StoreDamaged."""


class FileMovedOn(Exception):
    """No place has these bytes, and no checkpoint promises them: the file changed since it was looked at."""


class LineRange(NamedTuple):
    """The lines `start` to `end` (not included) of a text."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many lines."""
        return self.end - self.start


class LineGroup(NamedTuple):
    """Adjacent lines that differ in the three texts, and which `side` changed them."""

    base: LineRange
    ours: LineRange
    theirs: LineRange
    side: str


class LineMerge(NamedTuple):
    """The lines of three texts, and the groups in which they differ, in order."""

    base: list[bytes]
    ours: list[bytes]
    theirs: list[bytes]
    groups: tuple[LineGroup, ...]

    @property
    def clean(self) -> list[LineGroup]:
        """The groups that only theirs changed."""
        return [group for group in self.groups if group.side == THEIRS]

    @property
    def conflicts(self) -> list[LineGroup]:
        """The groups that both sides changed differently."""
        return [group for group in self.groups if group.side == CONFLICT]

    def ours_with_theirs_in(self, chosen: Collection[LineGroup]) -> bytes:
        """Ours, with the lines of theirs in the chosen groups."""
        return b"".join(self._merged_lines(chosen, None))

    def with_conflict_markers(self, ours_name: bytes, base_name: bytes, theirs_name: bytes) -> bytes:
        """The merge with its conflicts between markers, which have these names."""
        return b"".join(self._merged_lines([*self.clean, *self.conflicts], (ours_name, base_name, theirs_name)))

    def _merged_lines(self, chosen: Collection[LineGroup], names: tuple[bytes, bytes, bytes] | None) -> Iterator[bytes]:
        at = 0
        for group in sorted(chosen):
            yield from self.ours[at : group.ours.start]
            if names is not None and group.side == CONFLICT:
                yield from self._conflict_with_markers(group, *names)
            else:
                yield from self.theirs[slice(*group.theirs)]
            at = group.ours.end
        yield from self.ours[at:]

    def _conflict_with_markers(self, group: LineGroup, ours_name: bytes, base_name: bytes, theirs_name: bytes) -> Iterator[bytes]:
        end = b"\r\n" if any(line.endswith(b"\r\n") for line in (*self.ours[:1], *self.base[:1], *self.theirs[:1])) else b"\n"
        for mark, lines, span in (
            (b"<<<<<<< " + ours_name, self.ours, group.ours),
            (b"||||||| " + base_name, self.base, group.base),
            (b"=======", self.theirs, group.theirs),
        ):
            yield mark + end
            for line in lines[slice(*span)]:
                yield line if line.endswith(b"\n") else line + end  # so that the next mark begins a line
        yield b">>>>>>> " + theirs_name + end


class Merge(NamedTuple):
    """What a path becomes: `entry`, None = absent. `mode`: the mode of a file that was merged by lines. `lines`: such a
    merge, which may have conflicts; then the content is to be made of it. `why` and `reason`: a word and a text for what
    prevents a merge, "" for none."""

    entry: Entry | None
    mode: int = 0
    lines: LineMerge | None = None
    why: str = ""
    reason: str = ""


def merge(base: Entry | None, ours: Entry | None, theirs: Entry | None, read: Reader) -> Merge:
    """Merge three entries of one path. Times are not compared."""
    if same_for_restore(base, theirs) or same_for_restore(ours, theirs):
        return Merge(ours)
    if PURGED in {entry.kind for entry in (base, theirs) if entry is not None}:
        return Merge(ours, why=IS_PURGED, reason="its content was purged")
    if same_for_restore(ours, base):
        return Merge(theirs)
    if base is None or theirs is None or ours is None:
        if ours is None:
            return Merge(ours, why=REMOVED, reason="removed since")
        reason = "made again since" if base is None else "the turn made it, and it was edited since"
        return Merge(ours, why=CONFLICTS, reason=reason)
    kinds = {base.kind, ours.kind, theirs.kind}
    if len(kinds) > 1 or kinds == {DIR}:
        what = "its mode" if kinds == {DIR} else "what it is"
        return Merge(ours, why=CONFLICTS, reason=f"{what} was changed since")
    if kinds != {FILE}:
        return Merge(ours, why=CONFLICTS, reason="edited since")
    return _merged_files(base, ours, theirs, read)


def _merged_files(base: Entry, ours: Entry, theirs: Entry, read: Reader) -> Merge:
    modes = [entry.mode & PERMISSIONS for entry in (base, ours, theirs)]
    if len(set(modes)) == 3:
        return Merge(ours, why=CONFLICTS, reason="its mode was changed since")
    mode = modes[2] if modes[1] == modes[0] else modes[1]
    digests = [entry.digest for entry in (base, ours, theirs)]
    if digests[0] == digests[2] or digests[1] == digests[2]:
        return Merge(ours._replace(mode=mode))
    if digests[0] == digests[1]:
        return Merge(theirs._replace(mode=mode))
    if max(base.size, ours.size, theirs.size) > _MOST_BYTES:
        return Merge(ours, why=IS_LARGE, reason="edited since, and too large to merge")
    texts = [read(entry) for entry in (base, ours, theirs)]
    if any(map(is_binary, texts)):
        return Merge(ours, why=IS_BINARY, reason="edited since, and binary")
    if max(text.count(b"\n") for text in texts) >= _MOST_LINES:
        return Merge(ours, why=IS_LARGE, reason="edited since, and too large to merge")
    return Merge(ours, mode, merge_lines(*map(lines_of, texts)))


def merge_lines(base: list[bytes], ours: list[bytes], theirs: list[bytes]) -> LineMerge:
    """Merge three texts. Changes of both sides that overlap or touch are one group, as in git."""
    sides = [deque(blocks(base, side, is_lowest=True)) for side in (ours, theirs)]  # the same change is in the same place
    moved = [0, 0]  # by how many lines each side is behind base
    found = []
    while starts := [side[0].old_start for side in sides if side]:
        first = end = min(starts)
        before, changed = tuple(moved), [False, False]
        while near := [number for number in (0, 1) if sides[number] and sides[number][0].old_start <= end]:
            for number in near:
                block = sides[number].popleft()
                end, moved[number], changed[number] = max(end, block.old_end), block.new_end - block.old_end, True
        mine, other = (LineRange(first + before[number], end + moved[number]) for number in (0, 1))
        side = BOTH if ours[slice(*mine)] == theirs[slice(*other)] else CONFLICT
        if not all(changed):
            side = OURS if changed[0] else THEIRS
        found.append(LineGroup(LineRange(first, end), mine, other, side))
    return LineMerge(base, ours, theirs, tuple(found))
