"""Blame: who wrote each line of a file.

The danger prevented here: a line is called an agent's that a person wrote, and is thrown away. So each line is traced back through the
edits of its file, and through the operations that brought it: a restore, a revert, a take, a pull. A line of which two may be the
authors names both, and one that nothing explains names nobody.
"""

from collections.abc import Iterator, Mapping, Sequence

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import printable
from ..model.checkpoint import TAKEN_FROM, Checkpoint
from ..model.history import TAKE
from ..model.line_diff import Block, blocks, is_binary, lines_of
from ..model.manifest import FILE, PURGED, Entry
from ..model.turn_records import OPERATIONS, Reset, Row
from ..worktree.reader import HashSink, NotCapturable
from .compare import read_present
from .lookup import find_file_or_link
from .provenance import Edit, Makers, Provenance
from .search import LARGEST
from .turn_view import TurnView

TURN, PERSON, UNKNOWN, TAKEN, MACHINE, OLDER, PURGED_BYTES = "turn", "you", "unknown", "taken", "machine", "older", "purged"
"""Kinds of authors: one turn, a person, one of several, a directory, another machine, whoever was there before the first checkpoint,
and one whose bytes were purged."""

_Positions = Mapping[int, Sequence[int]]
"""{the number of a line in a state: the numbers of the same line in the file that was asked for}."""


class Author(NamedTuple):
    """Who wrote lines."""

    kind: str
    """TURN, PERSON, UNKNOWN, TAKEN, MACHINE, OLDER or PURGED_BYTES."""
    makers: Makers = Makers()
    """The turn, or the candidates. Nobody for the other kinds."""
    place: str = ""
    """The directory of a take, or the name of the machine."""
    row: Row | None = None
    """The row of the edit, None since the newest checkpoint."""

    def __str__(self) -> str:
        """In a word: "@3", "you", "@3?", "@3 @2?", "../try", "sandbox-4", "older", "?"."""
        if self.kind == UNKNOWN:
            return f"{' '.join(f'@{number}' for number in self.makers.turns[::-1])}?"
        return {TURN: "".join(self.makers.names), PERSON: "you", OLDER: "older", PURGED_BYTES: "?"}.get(self.kind, self.place)


class AuthoredLines(NamedTuple):
    """A run of lines with one author, from `first` to `last`; the first line of a file is 1."""

    first: int
    last: int
    author: Author


class Blame(NamedTuple):
    """Who wrote a file. `lines`: its lines with their ends; () for a file without lines. `view`: what the numbers of turns mean."""

    path: bytes
    lines: tuple[bytes, ...]
    runs: tuple[AuthoredLines, ...]
    view: TurnView
    is_whole: bool
    """The file has one author because it is binary or too large."""


def blame(context: Context, view: TurnView, path: bytes, point: Checkpoint | None = None) -> Blame:
    """Who wrote each line of a file, as it is now or in a checkpoint. `view`: all turns of the worktree that the checkpoint is of.
    Raises PathNotFound for what is no file."""
    with context.store.hold_shared_lock():
        entry = _present_file(context, path) if point is None else find_file_or_link(context, point, path)
        tracer = _Tracer(context, view)
        lines, authors = tracer.trace(path, entry, point)
    return Blame(path, tuple(lines), tuple(_runs(authors)), view, tracer.is_whole)


def _present_file(context: Context, path: bytes) -> Entry:
    try:
        captured = context.tree.capture(path, HashSink())
    except NotCapturable:
        captured = None
    except OSError as error:
        raise errors.PathNotFound(f"{printable(path)} cannot be read: {error.strerror}") from error
    if captured is None or captured.entry.kind != FILE:
        raise errors.PathNotFound(f"no file {printable(path or b'.')} here", "give a REF, too: casrewind blame PATH @3")
    return captured.entry


def _runs(authors: Sequence[Author]) -> Iterator[AuthoredLines]:
    first = 0
    for at in range(1, len(authors) + 1):
        if at == len(authors) or authors[at] != authors[first]:
            yield AuthoredLines(first + 1, at, authors[first])
            first = at


class _Strand(NamedTuple):
    """Lines to be traced back from a state of a path. `limit`: see Provenance.edits_before. `is_present`: from the file as it
    is now, with what changed since the newest checkpoint."""

    path: bytes
    entry: Entry
    lines: Sequence[bytes]
    sought: _Positions
    limit: int = -1
    is_present: bool = False


class _Tracer:
    """Traces lines back, strand by strand. What no strand explains has an unknown author."""

    def __init__(self, context: Context, view: TurnView) -> None:
        self._context, self._view = context, view
        self._provenance = Provenance(context, view)
        self._same: dict[bytes, bytes] = {}
        """Each line once: most versions of a file have the same ones."""
        self._known: dict[bytes, list[bytes] | None] = {}
        self._found: list[Author] = []
        self._left: list[_Strand] = []
        self.is_whole = False

    def trace(self, path: bytes, entry: Entry, point: Checkpoint | None) -> tuple[list[bytes], list[Author]]:
        """Returns (the lines of a file, their authors); of a file without lines, no line and the author of the whole."""
        lines = self._lines_of(path, entry)
        self.is_whole = lines is None
        if lines is None:
            lines = self._lines_of(path, entry) or []
        self._found = [Author(UNKNOWN)] * len(lines)
        sought = {at: (at,) for at in range(len(lines))}
        self._left = [_Strand(path, entry, lines, sought, limit=-1 if point is None else 2 * point.seq, is_present=point is None)]
        while self._left:
            self._follow(self._left.pop())
        return [] if self.is_whole else lines, self._found

    def _follow(self, strand: _Strand) -> None:
        """Find the authors of the lines of one strand. Where an operation brought lines, another strand begins."""
        path, now, sought = strand.path, strand.lines, strand.sought
        known: Entry | None = strand.entry
        homeless: list[_Strand] = []  # what an operation brought, and its target had not
        for edit in self._edits_of(strand):
            before = self._lines_before(edit)
            if before is None:
                return self._note(sought, Author(PURGED_BYTES if edit.old is not None and edit.old.kind == PURGED else UNKNOWN))
            if edit.old is None and self._follow_move(edit, now, sought):
                return None
            made, sought = _split(sought, before, now)
            if isinstance(edit.row, Reset) and edit.row.kind != OPERATIONS[TAKE]:
                made = self._follow_to_target(edit, now, made)
                homeless += [_Strand(path, strand.entry, now, made)] if made else []
            else:
                self._note(made, self._author_of(edit))
            homeless = [rest for one in homeless if (rest := self._follow_older(one, edit, before)).sought]
            if not (sought or homeless):
                return None
            now, known = before, edit.old
        if known is not None and self._is_oldest(path, known):
            self._note(sought, Author(OLDER))
        return None

    def _edits_of(self, strand: _Strand) -> Iterator[Edit]:
        """The edits of the state of a strand, newest first."""
        newest = self._provenance.edit_since_newest(strand.path, strand.entry) if strand.is_present else None
        if newest is not None:
            yield newest
        known = strand.entry if newest is None else newest.old
        yield from self._provenance.edits_before(strand.path, known, strand.limit, by_lines=True)

    def _follow_move(self, edit: Edit, now: Sequence[bytes], sought: _Positions) -> bool:
        """If a file came from another path, trace what it had there."""
        found = None if isinstance(edit.row, Reset) else self._provenance.moved_here(edit)
        lines = None if found is None else self._lines_of(found.source, found.old)
        if found is None or lines is None:
            return False
        made, kept = _split(sought, lines, now)
        self._note(made, self._author_of(edit))
        self._left.append(_Strand(found.source, found.old, lines, kept, edit.order - 1))
        return True

    def _follow_to_target(self, edit: Edit, now: Sequence[bytes], made: _Positions) -> _Positions:
        """Trace the lines that an operation brought in the state to which it went back. Returns those that are not there."""
        target = self._view.named.get(edit.row.target) if isinstance(edit.row, Reset) else None
        entry = None if target is None else self._provenance.entry_in(target, edit.path)
        lines = None if entry is None else self._lines_of(edit.path, entry)
        if target is None or entry is None or lines is None:
            return made
        rest, there = _split(made, lines, now)
        if target.more.machine:
            self._note(there, Author(MACHINE, place=printable(target.more.machine), row=edit.row))
        elif there:
            self._left.append(_Strand(edit.path, entry, lines, there, limit=2 * target.seq))
        return rest

    def _follow_older(self, strand: _Strand, edit: Edit, lines: Sequence[bytes]) -> _Strand:
        """Trace those lines of a strand that an older state has. Returns a strand of the others."""
        if edit.old is None:
            return strand
        rest, there = _split(strand.sought, lines, strand.lines)
        if there:
            self._left.append(_Strand(edit.path, edit.old, lines, there, edit.order - 1))
        return strand._replace(sought=rest)

    def _is_oldest(self, path: bytes, known: Entry) -> bool:
        """True if the first checkpoint has a file with these bytes."""
        oldest = min(self._view.points.values(), key=lambda point: point.seq, default=None)
        found = None if oldest is None else self._provenance.entry_in(oldest, path)
        return found is not None and found.digest == known.digest

    def _note(self, lines: _Positions, author: Author) -> None:
        for places in lines.values():
            for at in places:
                self._found[at] = author

    def _author_of(self, edit: Edit) -> Author:
        if isinstance(edit.row, Reset):  # a take
            safety = self._view.points.get(edit.row.safety)
            return Author(TAKEN, place="" if safety is None else printable(safety.meta.get(TAKEN_FROM, "")), row=edit.row)
        kind = UNKNOWN if not edit.makers.is_one else PERSON if edit.makers.is_person else TURN
        return Author(kind, edit.makers, row=edit.row)

    def _lines_before(self, edit: Edit) -> list[bytes] | None:
        """The lines before an edit, none without a file. None: they cannot be read."""
        if edit.old is None or edit.old.kind not in (FILE, PURGED):
            return []
        return None if edit.old.kind == PURGED else self._lines_of(edit.path, edit.old)

    def _lines_of(self, path: bytes, entry: Entry) -> list[bytes] | None:
        """The lines of a file, None if it has none, or they cannot be read. Of a file that is traced as a whole, its digest."""
        if self.is_whole:
            return [entry.digest if entry.kind == FILE else entry.target]
        if entry.digest not in self._known:
            self._known[entry.digest] = self._read_lines(path, entry)
        return self._known[entry.digest]

    def _read_lines(self, path: bytes, entry: Entry) -> list[bytes] | None:
        if entry.kind != FILE or entry.size > LARGEST:
            return None
        data: bytes | None
        try:
            data = b"".join(self._context.store.content(entry))
        except errors.StoreDamaged:
            data = read_present(self._context, path, entry)
        if data is None or is_binary(data):
            return None
        return [self._same.setdefault(line, line) for line in lines_of(data)]


def _split(sought: _Positions, old: Sequence[bytes], new: Sequence[bytes]) -> tuple[_Positions, _Positions]:
    """Lines of `new`: those that `old` has not, and those that it has, by their numbers there."""
    made: dict[int, Sequence[int]] = {}
    kept: dict[int, Sequence[int]] = {}
    found: list[Block | None] = [*blocks(old, new), None]
    moved, rest = 0, iter(found)
    block = next(rest)
    for at in sorted(sought):
        while block is not None and block.new_end <= at:
            moved, block = block.old_end - block.new_end, next(rest)
        if block is not None and block.new_start <= at:
            made[at] = sought[at]
        else:
            kept[at + moved] = sought[at]
    return made, kept
