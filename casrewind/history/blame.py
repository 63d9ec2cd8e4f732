"""Blame: who wrote each line of a file.

The danger prevented here: a line is called an agent's that a person wrote, and is thrown away. So each line is traced back through the
edits of its file, and through the operations that brought it: a restore, a revert, a take, a pull. A line of which two may be the
authors names both, and one that nothing explains names nobody.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import printable
from ..model.checkpoint import TAKEN_FROM, Checkpoint
from ..model.line_diff import blocks_of_numbers, is_binary, lines_of
from ..model.manifest import FILE, PURGED, Entry
from ..model.turn_records import OPERATIONS, Outside, Reset, Turn
from ..model.undo_history import TAKE
from ..worktree.reader import HashSink, NotCapturable
from .checkpoint_names import ReferencePlace
from .compare import read_present
from .lookup import find_file_or_link
from .provenance import Edit, Makers, Provenance
from .search import LARGEST
from .turn_view import TurnView

TURN, PERSON, UNKNOWN, TAKEN, MACHINE, OLDER, PURGED_BYTES = "turn", "you", "unknown", "taken", "machine", "older", "purged"
"""Kinds of authors: one turn, a person, one of several, a directory, another machine, whoever was there before the first checkpoint,
and one whose bytes were purged."""


class _Text(NamedTuple):
    """The lines of a state, and a number for each: equal lines have equal numbers."""

    lines: list[bytes]
    numbers: list[int]


class _Positions(NamedTuple):
    """Places of lines in a state, ascending, and for each the place of the same line in the file that was asked for."""

    there: list[int]
    here: list[int]


_NO_TEXT = _Text([], [])


class Author(NamedTuple):
    """Who wrote lines."""

    kind: str
    """TURN, PERSON, UNKNOWN, TAKEN, MACHINE, OLDER or PURGED_BYTES."""
    makers: Makers = Makers()
    """The turn, or the candidates. Nobody for the other kinds."""
    place: str = ""
    """The directory of a take, the name of the machine, or who may have edited in place of a person."""
    at_ns: int | None = None
    """When the turn began, or when the change was seen; None since the newest checkpoint, and if nobody knows."""

    def __str__(self) -> str:
        """In a word: "@3", "you", "@3?", "@3 @2?", "aider?", "../try", "sandbox-4", "older", "?"."""
        if self.kind == UNKNOWN:
            return f"{' '.join(f'@{number}' for number in self.makers.turns[::-1])}?"
        person = f"{self.place}?" if self.place else "you"
        return {TURN: "".join(self.makers.names), PERSON: person, OLDER: "older", PURGED_BYTES: "?"}.get(self.kind, self.place)


class AuthoredLines(NamedTuple):
    """A run of lines with one author, from `first` to `last`; the first line of a file is 1."""

    first: int
    last: int
    author: Author


class Blame(NamedTuple):
    """Who wrote a file."""

    path: bytes
    lines: tuple[bytes, ...]
    """Its lines with their ends; () for a file without lines."""
    runs: tuple[AuthoredLines, ...]
    """All lines in their order; of a file without lines, one that stands for all of it."""
    turns: tuple[Turn, ...]
    """All turns, newest first, without their changes: what the numbers mean."""
    is_whole: bool
    """The file has one author, because it is a link, binary or too large."""


def blame(context: Context, path: bytes, point: Checkpoint | None = None) -> Blame:
    """Who wrote each line of a file, as it is now or in a checkpoint. Raises PathNotFound for what is no file."""
    machine = "" if point is None else point.more.machine
    with context.store.hold_shared_lock():
        view = TurnView(context, place=ReferencePlace(point.worktree, machine, "") if point is not None and machine else None)
        entry = _present_file(context, path) if point is None else find_file_or_link(context, point, path)
        tracer = _Tracer(context, view)
        lines, authors = tracer.trace(path, entry, point)
    return Blame(path, tuple(lines), tuple(_runs(authors)), view.turns, tracer.is_whole)


def blame_lines(context: Context, view: TurnView, paths: Iterable[bytes]) -> Iterator[tuple[bytes, list[Author]]]:
    """(a file as it is now, who wrote each of its lines) for those of these paths that have lines. `view`: lines that are older than what
    is certain in it may have no author."""
    tracer = _Tracer(context, view)
    for path in paths:
        with suppress(errors.PathNotFound):
            _, authors = tracer.trace(path, _present_file(context, path), None)
            if not tracer.is_whole:
                yield path, authors


def _present_file(context: Context, path: bytes) -> Entry:
    try:
        captured = context.tree.capture(path, HashSink()) if path else None
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
    text: _Text
    sought: _Positions
    limit: int = -1
    is_present: bool = False


class _Tracer:
    """Traces lines back, strand by strand. What no strand explains has an unknown author."""

    def __init__(self, context: Context, view: TurnView) -> None:
        self._context, self._view = context, view
        self._provenance = Provenance(context, view)
        self._number_of = defaultdict[bytes, int](count().__next__).__getitem__
        self._known: dict[bytes, _Text | None] = {}
        self._found: list[Author] = []
        self._left: list[_Strand] = []
        self.is_whole = False

    def trace(self, path: bytes, entry: Entry, point: Checkpoint | None) -> tuple[list[bytes], list[Author]]:
        """Returns (the lines of a file, their authors); of a file without lines, no line and the author of the whole."""
        text = self._text_of(path, entry)
        self.is_whole = text is None
        if text is None:
            text = self._text_of(path, entry) or _NO_TEXT
        self._found = [Author(UNKNOWN)] * len(text.lines)
        every = list(range(len(text.lines)))
        limit = -1 if point is None else 2 * point.seq
        self._left = [_Strand(path, entry, text, _Positions(every, every), limit, is_present=point is None)]
        while self._left:
            self._follow(self._left.pop())
        return [] if self.is_whole else text.lines, self._found

    def _follow(self, strand: _Strand) -> None:
        """Find the authors of the lines of one strand. Where an operation brought lines, another strand begins."""
        path, now, sought = strand.path, strand.text, strand.sought
        known: Entry | None = strand.entry
        homeless: list[_Strand] = []  # what an operation brought, and its target had not
        for edit in self._edits_of(strand):
            before = self._text_before(edit)
            if before is None:
                return self._note(sought, Author(PURGED_BYTES if edit.old is not None and edit.old.kind == PURGED else UNKNOWN))
            if edit.old is None and self._follow_move(edit, now, sought):
                return None
            made, sought = _split(sought, before, now)
            if isinstance(edit.row, Reset) and edit.row.kind != OPERATIONS[TAKE]:
                made = self._follow_to_target(edit, now, made)
                homeless += [_Strand(path, strand.entry, now, made)] if made.here else []
            else:
                self._note(made, self._author_of(edit))
            homeless = [rest for one in homeless if (rest := self._follow_older(one, edit, before)).sought.here]
            if not (sought.here or homeless):
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

    def _follow_move(self, edit: Edit, now: _Text, sought: _Positions) -> bool:
        """If a file came from another path, trace what it had there."""
        found = None if isinstance(edit.row, Reset) else self._provenance.moved_here(edit)
        text = None if found is None else self._text_of(found.source, found.old)
        if found is None or text is None:
            return False
        made, kept = _split(sought, text, now)
        self._note(made, self._author_of(edit))
        self._left.append(_Strand(found.source, found.old, text, kept, edit.order - 1))
        return True

    def _follow_to_target(self, edit: Edit, now: _Text, made: _Positions) -> _Positions:
        """Trace the lines that an operation brought in the state to which it went back. Returns those that are not there."""
        target = self._view.named.get(edit.row.target) if isinstance(edit.row, Reset) else None
        entry = None if target is None else self._provenance.entry_in(target, edit.path)
        text = None if entry is None else self._text_of(edit.path, entry)
        if target is None or entry is None or text is None:
            return made
        rest, there = _split(made, text, now)
        if target.more.machine:
            self._note(there, Author(MACHINE, place=printable(target.more.machine), at_ns=self._time_of(edit)))
        elif there.here:
            self._left.append(_Strand(edit.path, entry, text, there, limit=2 * target.seq))
        return rest

    def _follow_older(self, strand: _Strand, edit: Edit, text: _Text) -> _Strand:
        """Trace those lines of a strand that an older state has. Returns a strand of the others."""
        if edit.old is None:
            return strand
        rest, there = _split(strand.sought, text, strand.text)
        if there.here:
            self._left.append(_Strand(edit.path, edit.old, text, there, edit.order - 1))
        return strand._replace(sought=rest)

    def _is_oldest(self, path: bytes, known: Entry) -> bool:
        """True if the first checkpoint has a file with these bytes."""
        oldest = min(self._view.points.values(), key=lambda point: point.seq, default=None)
        found = None if oldest is None else self._provenance.entry_in(oldest, path)
        return found is not None and found.digest == known.digest

    def _note(self, lines: _Positions, author: Author) -> None:
        for at in lines.here:
            self._found[at] = author

    def _author_of(self, edit: Edit) -> Author:
        if isinstance(edit.row, Reset):  # a take
            safety = self._view.points.get(edit.row.safety)
            return Author(TAKEN, place="" if safety is None else printable(safety.meta.get(TAKEN_FROM, "")), at_ns=self._time_of(edit))
        kind = UNKNOWN if not edit.makers.is_one else PERSON if edit.makers.is_person else TURN
        other = edit.row.by if isinstance(edit.row, Outside) and kind == PERSON else ""
        return Author(kind, edit.makers, place=printable(other), at_ns=self._time_of(edit))

    def _time_of(self, edit: Edit) -> int | None:
        if edit.makers.turns:
            return self._view.turns[edit.makers.turns[0] - 1].started_ns
        return edit.row.seen_ns if isinstance(edit.row, Outside) else edit.row.at_ns if isinstance(edit.row, Reset) else None

    def _text_before(self, edit: Edit) -> _Text | None:
        """The lines before an edit, none without a file. None: they cannot be read."""
        if edit.old is None or edit.old.kind not in (FILE, PURGED):
            return _NO_TEXT
        return None if edit.old.kind == PURGED else self._text_of(edit.path, edit.old)

    def _text_of(self, path: bytes, entry: Entry) -> _Text | None:
        """The lines of a file, None if it has none, or they cannot be read. Of a file that is traced as a whole, its digest."""
        if self.is_whole:
            return self._with_numbers([entry.digest if entry.kind == FILE else entry.target])
        if entry.digest not in self._known:
            self._known[entry.digest] = self._read_text(path, entry)
        return self._known[entry.digest]

    def _read_text(self, path: bytes, entry: Entry) -> _Text | None:
        if entry.kind != FILE or entry.size > LARGEST:
            return None
        data: bytes | None
        try:
            data = b"".join(self._context.store.content(entry))
        except errors.StoreDamaged:
            data = read_present(self._context, path, entry)
        return None if data is None or is_binary(data) else self._with_numbers(lines_of(data))

    def _with_numbers(self, lines: list[bytes]) -> _Text:
        return _Text(lines, list(map(self._number_of, lines)))


def _split(sought: _Positions, old: _Text, new: _Text) -> tuple[_Positions, _Positions]:
    """Lines of `new`: those that `old` has not, and those that it has, with their places there."""
    made, kept = _Positions([], []), _Positions([], [])
    start, moved = 0, 0
    for block in [*blocks_of_numbers(old.numbers, new.numbers, old.lines, new.lines, keeps_unique=True), None]:
        end = len(sought.there) if block is None else bisect_left(sought.there, block.new_start, start)
        kept.there.extend([at + moved for at in sought.there[start:end]])
        kept.here.extend(sought.here[start:end])
        if block is not None:
            start = bisect_left(sought.there, block.new_end, end)
            made.there.extend(sought.there[end:start])
            made.here.extend(sought.here[end:start])
            moved = block.old_end - block.new_end
    return made, kept
