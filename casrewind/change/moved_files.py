"""Finds the files to which a turn moved what cannot go back to its own name.

The danger prevented here: a turn moved a person's file. Its old name is left alone, for whatever reason, and so does not get
it back; the new name is the turn's own and goes away. Then the file is nowhere.

The work is bounded: of files that are large, or too many, only those with the same content are found.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .. import errors
from .._typing import NamedTuple
from ..messages import printable
from ..model import manifest
from ..model import plan as plans
from ..model.manifest import FILE, Entry
from ..model.merge import FileMovedOn
from ..model.plan import Action, Kept, Plan
from .edits import Edits, PathEdit
from .path_merger import PathContents
from .safety_capture import CapturedState

MOVED = "moved"
"""The word for why such a file is left alone."""
_MOST_BYTES, _ALL_BYTES, _MOST_FILES = 1 << 20, 32 << 20, 2000
"""Bytes of a file that is compared by its lines, and of all of them, and how many these are."""
_MOST_WITH_LINE = 100
"""A line that more files have says nothing."""


class _File(NamedTuple):
    path: bytes
    entry: Entry


Versions = Callable[[bytes], Iterable[Entry]]
"""What a path had between the edits of the turns: see Provenance.versions_of."""


def keep_moved_files(
    plan: Plan, done: Edits, now: CapturedState, contents: PathContents, versions: Versions | None = None, *, only_removed: bool = False
) -> Plan:
    """The plan without the files to which a turn moved what a path had that is left alone. `only_removed`: what
    is written over may go."""
    finder = manifest.Finder(now.load, now.tree)
    left = {path: finder.find(path) for path in (*done.left, *(item.path for item in plan.kept if item.path in done.by_path))}
    if not left:
        return plan

    going = (each for each in plan.actions if each.after is None) if only_removed else plan.actions
    return plans.keep_paths(plan, _find_moved_files(contents, done, versions, left, going))


def _find_moved_files(
    contents: PathContents, done: Edits, versions: Versions | None, left: Mapping[bytes, Entry | None], actions: Iterable[Action]
) -> list[Kept]:
    """The files of a plan that would lose what one of the paths had that are left alone. `left`: these, with their present
    entries."""
    lines = _LinesOfFiles(contents)
    going = [
        _File(action.path, action.before) for action in actions
        if action.before is not None and _loses_content(action) and lines.is_put_there(action.path, done.by_path.get(action.path, ()))
    ]  # fmt: skip
    if not going:
        return []
    gone = []
    for path, there in left.items():
        sides = [edit.change.old for edits in (done.by_path, done.left) for edit in edits.get(path, ())]
        had = [entry for entry in sides if entry is not None and _is_text_or_data(entry)]
        if had and versions is not None:  # two turns rewrote it: what was moved is like what lay between them, and like nothing before
            had += [entry for entry in versions(path) if _is_text_or_data(entry)]
        for entry in {entry.digest: entry for entry in had}.values():
            stands = there is not None and _is_text_or_data(there) and lines.are_alike(_File(path, entry), _File(path, there))
            gone += [] if stands else [_File(path, entry)]
    reason = "it has what {} had, which is left alone"
    return [Kept(path, reason.format(printable(was)), benign=False, why=MOVED) for path, was in _pairs_of_alike(going, gone, lines)]


def _is_text_or_data(entry: Entry) -> bool:
    return entry.kind == FILE and entry.size > 0


def _loses_content(action: Action) -> bool:
    before, after = action.before, action.after
    return before is not None and _is_text_or_data(before) and (after is None or after.digest != before.digest)


def _pairs_of_alike(going: Sequence[_File], gone: Sequence[_File], lines: "_LinesOfFiles") -> Iterator[tuple[bytes, bytes]]:
    """Yield (path of a file that goes, path that had it)."""
    exact = {file.entry.digest: file.path for file in reversed(gone)}
    with_line: dict[bytes, list[int]] = {}
    for number, file in enumerate(gone):
        for line in lines.of(file):
            with_line.setdefault(line, []).append(number)
    for file in going:
        was = exact.get(file.entry.digest)
        if was is None and with_line:
            few = (numbers for line in lines.of(file) if len(numbers := with_line.get(line, [])) <= _MOST_WITH_LINE)
            near = Counter(number for numbers in few for number in numbers)
            was = next((gone[number].path for number, _ in near.most_common() if lines.are_alike(file, gone[number])), None)
        if was is not None:
            yield file.path, was


class _LinesOfFiles:
    """The lines of files, each read once."""

    def __init__(self, contents: PathContents) -> None:
        self._contents, self._room = contents, _ALL_BYTES
        self._known: dict[bytes, Counter[bytes]] = {}

    def of(self, file: _File) -> Counter[bytes]:
        """The lines of a file, and how often it has each. Empty if it is too large or cannot be read."""
        path, entry = file
        if entry.digest not in self._known:
            data = b""
            if entry.size <= min(_MOST_BYTES, self._room) and len(self._known) < _MOST_FILES:
                self._room -= entry.size
                try:
                    data = self._contents.read(path, entry)
                except (errors.StoreDamaged, FileMovedOn):
                    data = b""
            self._known[entry.digest] = Counter(data.splitlines())
        return self._known[entry.digest]

    def is_put_there(self, path: bytes, edits: Iterable[PathEdit]) -> bool:
        """True if one of these edits made the file, or put another one in its place."""
        sides = ((edit.change.old, edit.change.new) for edit in edits if edit.change.new is not None and _is_text_or_data(edit.change.new))
        return any(
            old is None or not _is_text_or_data(old) or not self.are_alike(_File(path, old), _File(path, new)) for old, new in sides
        )

    def are_alike(self, one: _File, other: _File) -> bool:
        """True if two files have the same content, or half of their lines in common."""
        if one.entry.digest == other.entry.digest:
            return True
        left, right = self.of(one), self.of(other)
        return bool(left) and 2 * (left & right).total() >= max(left.total(), right.total())
