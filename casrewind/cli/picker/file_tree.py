"""The changed files of a comparison as lines of a tree: removals first, directories with their number of files.

The danger prevented here: a removal that is overlooked below a hundred edits.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ..._typing import NamedTuple
from ...messages import printable
from ...model.diff import Change
from ...model.manifest import DIR
from ..show.changes import shown_path
from ..show.text import SIGNS

_MANY = 20
"""A directory with more changed files than this starts folded."""


class TreeLine(NamedTuple):
    """One line: a file with its change, or a directory (None). `key` identifies the line. `name` is the displayed part
    of the path. `sign` is the sign of the file, or of all files below the directory. `start` and `end` are places in
    the list of changes."""

    key: bytes
    depth: int
    name: str
    sign: str
    change: Change | None
    start: int
    end: int
    is_folded: bool = False


class FileTreeModel:
    """The changed files, and which directories are folded. The caller draws them."""

    def __init__(self, changes: Sequence[Change]) -> None:
        """`changes`: the counted ones (model/diff.py)."""
        self._removed, self._others = [one for one in changes if one.new is None], [one for one in changes if one.new is not None]
        self.changes: list[Change] = []
        self.lines: list[TreeLine] = []
        self._folded: dict[bytes, bool] = {}  # what a person folded or unfolded
        self.words = ""
        self._rebuild_lines()

    def __len__(self) -> int:
        return len(self.lines)

    def filter_by_path(self, words: str) -> None:
        """Keep only the lines of the files with all words in their path."""
        self.words = words
        self._rebuild_lines()

    def toggle_directory(self, line: TreeLine) -> None:
        """Fold a directory, or unfold it."""
        self._folded[line.key] = not line.is_folded
        self._rebuild_lines()

    def choosable_paths_of(self, line: TreeLine) -> list[bytes]:
        """The paths of a line that can be chosen. The mode of a directory cannot: its path stands for all that is in it."""
        return [change.path for change in self.changes[line.start : line.end] if not _is_mode_of_directory(change)]

    def all_choosable_paths(self) -> set[bytes]:
        """All paths that can be chosen."""
        return {change.path for change in self.changes if not _is_mode_of_directory(change)}

    def line_of_directory_above(self, index: int) -> int:
        """The place of the directory that a line is in, or its own place."""
        line = self.lines[index]
        return next((at for at in range(index, -1, -1) if self.lines[at].depth < line.depth), index)

    def line_of_file(self, path: bytes) -> int | None:
        """The place of a file's line; None if it is not shown."""
        return next((at for at, line in enumerate(self.lines) if line.change is not None and line.change.path == path), None)

    def _rebuild_lines(self) -> None:
        wanted = self.words.casefold().split()

        def is_wanted(change: Change) -> bool:
            return all(word in printable(change.path).casefold() for word in wanted)

        groups = [sorted(filter(is_wanted, group), key=lambda change: change.path) for group in (self._removed, self._others)]
        self.changes = [change for group in groups for change in group]
        middle = len(groups[0])
        paths = [change.path for change in self.changes]
        found: list[TreeLine] = []
        for start, end, mark in ((0, middle, b"-"), (middle, len(paths), b"+")):
            found += self._group_lines(paths, start, end, mark)
        self.lines = found

    def _group_lines(self, paths: Sequence[bytes], start: int, end: int, mark: bytes) -> Iterator[TreeLine]:
        """The lines of one group. Without recursion: paths may be thousands of directories deep."""
        waiting = [(start, end, 0, 0)]  # (place, end, length of the path above, depth)
        while waiting:
            at, stop, length, depth = waiting.pop()
            if at == stop:
                continue
            path = paths[at]
            cut = path.find(b"/", length)
            last = at + 1 if cut < 0 else bisect_left(paths, path[:cut] + b"0", at, stop)  # the character behind a slash
            waiting.append((last, stop, length, depth))
            if last == at + 1:
                change = self.changes[at]
                name = printable(shown_path(change)[length:])
                yield TreeLine(mark + path, depth, name, SIGNS[change.status], change, at, last)
                continue
            above = path[: _shared_directory_length(path, paths[last - 1])]
            key = mark + above
            is_folded = self._folded.get(key, last - at > _MANY and not self.words)
            yield TreeLine(key, depth, printable(above[length:]), self._common_sign(at, last), None, at, last, is_folded)
            if not is_folded:
                waiting.append((at, last, len(above), depth + 1))

    def _common_sign(self, start: int, end: int) -> str:
        signs = {SIGNS[change.status] for change in self.changes[start:end]}
        return signs.pop() if len(signs) == 1 else "~"


def _is_mode_of_directory(change: Change) -> bool:
    return change.old is not None and change.new is not None and change.old.kind == change.new.kind == DIR


def _shared_directory_length(one: bytes, other: bytes) -> int:
    """The length of the directory that both paths have in common, with its slash."""
    same = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))
    return one.rfind(b"/", 0, same) + 1
