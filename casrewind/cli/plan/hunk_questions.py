"""Asks about the changes of a plan hunk by hunk, with the letters of `git add -p`. It only asks.

The danger prevented here: an answer decides about another change than the one on the screen. A letter that does not fit
decides nothing, and a hunk that was not asked about is not chosen.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile

from ... import errors
from ..._typing import TYPE_CHECKING, NamedTuple, TextIO
from ...change.chosen_edits import ChosenEdit
from ...messages import printable
from ...model.diff import Change, counted_changes
from ...model.manifest import DIR, FILE, PERMISSIONS, is_directory
from ...model.paths import parents
from ..show import patch
from ..show.comparison import patch_lines
from ..show.patch import Hunk, Texts
from ..show.text import cut_to
from ..terminal.lines import print_line, print_lines
from ..terminal.questions import read_answer
from .hunks import edit_with, has_hunks

if TYPE_CHECKING:
    from ...history.compare import Comparison

HUNK, MODE, CHANGE, ADDITION, REMOVAL = "hunk", "mode change", "change", "addition", "removal"
_HELP = """y - apply this hunk
n - do not apply this hunk
q - apply no further hunk, and ask no more; the hunks with y are applied
a - apply this hunk and all later hunks of the file
d - apply neither this hunk nor any later hunk of the file
j - leave this hunk undecided, go to the next undecided hunk
k - leave this hunk undecided, go to the previous undecided hunk
g - go to a hunk by its number
s - split this hunk into smaller hunks
? - show these letters"""
_UNFIT = {
    "j": "no undecided hunk follows", "k": "no undecided hunk is before this one", "g": "there is no other hunk",
    "s": "this hunk cannot be split",
}  # fmt: skip
"""What is said to a letter that does not fit."""
_HEAD = 40
"""Characters of a hunk in a list of hunks."""


class _Part(NamedTuple):
    """What one answer decides. `hunk`: the hunk, or None: the mode, the content, or the change as a whole."""

    what: str
    hunk: Hunk | None = None


def ask_for_each_change(found: "Comparison", stream: TextIO) -> dict[bytes, ChosenEdit]:
    """Ask about each change, in the order of a patch. Returns what is chosen, by path; {} if nothing is."""
    edits: dict[bytes, ChosenEdit] = {}
    for change, below in _group_with_changes_below(found.changes):
        questions = _FileQuestions(found, change, below, stream)
        goes_on = questions.ask_for_each_part()
        edits.update(questions.chosen_edits())
        if not goes_on:
            break
    return edits


def _group_with_changes_below(changes: Sequence[Change]) -> Iterator[tuple[Change, list[Change]]]:
    """Each change that is asked about; with those below it, if a directory takes the place of something else, or loses its
    own, or is empty. Any other directory comes and goes with what is in it."""
    counted = counted_changes(changes)
    below: dict[bytes, list[Change]] = {one.path: [] for one in counted if is_directory(one.old) != is_directory(one.new)}
    inside: set[bytes] = set()
    for one in changes:
        above = next((parent for parent in parents(one.path) if parent in below), None)
        if above is not None:
            below[above].append(one)
            inside.add(one.path)
    yield from ((one, below.get(one.path, [])) for one in counted if one.path not in inside)


class _FileQuestions:
    """The questions about one file, and their answers."""

    def __init__(self, found: "Comparison", change: Change, below: Sequence[Change], stream: TextIO) -> None:
        self._found, self._change, self._below, self._stream = found, change, below, stream
        self._texts = patch.lines_of_both_sides(found, change) if has_hunks(change) else None
        self._parts = list(_parts(change, self._texts))
        self._answers: list[bool | None] = [None] * len(self._parts)
        self._at = 0

    def ask_for_each_part(self) -> bool:
        """Ask about every part. Returns False if the person wants no more questions."""
        self._print_patch_part(self._lines_above_hunks())
        shown: _Part | None = None
        while None in self._answers:
            if self._at == len(self._parts):
                self._at = self._answers.index(None)
            part = self._parts[self._at]
            if part is not shown and part.hunk is not None and self._texts is not None:
                self._print_patch_part(patch.hunk_lines(self._texts, part.hunk))
            shown = part
            letters = self._letters()
            answer = self._read_answer_or_q(f"({self._at + 1}/{len(self._parts)}) Apply this {part.what} [{','.join(letters)}]? ")
            if answer == "q":
                return False
            self._take_answer(answer, letters)
        return True

    def chosen_edits(self) -> dict[bytes, ChosenEdit]:
        """What is chosen."""
        change, texts = self._change, self._texts
        chosen = [part for part, answer in zip(self._parts, self._answers, strict=True) if answer]
        if len(chosen) == len(self._parts):
            return {one.path: ChosenEdit(one, one.new) for one in (change, *self._below)}
        if not chosen:
            return {}
        old, new = change.old, change.new
        assert old is not None  # otherwise there is one part
        assert new is not None
        mode = new.mode if any(part.what == MODE for part in chosen) else old.mode
        blocks = [block for part in chosen if part.hunk is not None for block in part.hunk.blocks]
        if blocks and texts is not None:
            return {change.path: edit_with(change, texts, blocks, mode)}
        content = new if any(part.what == CHANGE for part in chosen) else old
        return {change.path: ChosenEdit(change, content._replace(mode=mode))}

    def _lines_above_hunks(self) -> Iterator[bytes]:
        """The lines above the first hunk; without hunks the whole patch."""
        if self._texts is not None:
            return takewhile(lambda line: not line.startswith(b"@@ "), patch.patch_of_change(self._found, self._change))
        return chain.from_iterable(patch.patch_of_change(self._found, one) for one in (self._change, *self._below))

    def _print_patch_part(self, found: Iterable[bytes]) -> None:
        print_lines(patch_lines(found), self._stream)

    def _letters(self) -> list[str]:
        """The letters that fit here."""
        hunk = self._parts[self._at].hunk
        fitting = {
            "k": None in self._answers[: self._at], "j": None in self._answers[self._at + 1 :], "g": len(self._parts) > 1,
            "s": hunk is not None and len(hunk.blocks) > 1,
        }  # fmt: skip
        return [*"ynqad", *(letter for letter, fits in fitting.items() if fits), "?"]

    def _read_answer_or_q(self, question: str) -> str:
        """An answer. The end of the input is q."""
        try:
            answer = read_answer(question, self._stream).strip().lower()
        except EOFError:
            answer = "q"
        except UnicodeDecodeError as error:
            raise errors.UsageError("an answer is not text: nothing was changed") from error
        if not sys.stdin.isatty():
            print_line(printable(answer), self._stream)  # a terminal shows what is typed
        return answer

    def _take_answer(self, answer: str, letters: Sequence[str]) -> None:
        """Do what an answer says."""
        at, letter = self._at, answer[:1]
        if letter != "g" and len(answer) > 1:
            letter = "?"
        if letter in _UNFIT and letter not in letters:
            print_line(_UNFIT[letter], self._stream)
        elif letter in ("y", "n"):
            self._answers[at] = letter == "y"
            self._at = self._next_unanswered(at)
        elif letter in ("a", "d"):
            self._answers[at:] = [letter == "a" if one is None else one for one in self._answers[at:]]
            self._at = len(self._parts)
        elif letter == "j":
            self._at = self._next_unanswered(at)
        elif letter == "k":
            self._at = max(place for place in range(at) if self._answers[place] is None)
        elif letter == "g":
            self._go_to_part(answer[1:].strip())
        elif letter == "s":
            self._split_hunk()
        elif letter:
            print_line(_HELP, self._stream)

    def _next_unanswered(self, at: int) -> int:
        """The next part without an answer, or the end."""
        return next((place for place in range(at + 1, len(self._parts)) if self._answers[place] is None), len(self._parts))

    def _go_to_part(self, number: str) -> None:
        if not number:
            for place, (part, answer) in enumerate(zip(self._parts, self._answers, strict=True)):
                sign = {True: "+", False: "-", None: " "}[answer]
                print_line(f"{sign}{place + 1:>3}: {self._part_in_list(part)}", self._stream)
            number = self._read_answer_or_q("Go to which hunk? ")
        if number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(self._parts):
            self._at = int(number[:9]) - 1
        else:
            print_line(f"there is no hunk {printable(number)!r}: they are 1 to {len(self._parts)}", self._stream)

    def _part_in_list(self, part: _Part) -> str:
        """A part in a list: its lines, and the first changed one."""
        if part.hunk is None or self._texts is None:
            return part.what
        block = part.hunk.blocks[0]
        changed = [*(b"-" + line for line in self._texts.old[block.old_start : block.old_end])]
        changed += [b"+" + line for line in self._texts.new[block.new_start : block.new_end]]
        return f"{patch.hunk_ranges(part.hunk).decode():<16} {cut_to(printable(changed[0].rstrip()), _HEAD)}"

    def _split_hunk(self) -> None:
        hunk = self._parts[self._at].hunk
        assert hunk is not None  # s fits
        smaller = [_Part(HUNK, one) for one in patch.split_hunk(hunk)]
        self._parts[self._at : self._at + 1] = smaller
        self._answers[self._at : self._at + 1] = [None] * len(smaller)
        print_line(f"split into {len(smaller)} hunks", self._stream)


def _parts(change: Change, texts: Texts | None) -> Iterator[_Part]:
    """The parts of a change that can be chosen alone: the mode of a file, and its hunks or its whole content."""
    old, new = change.old, change.new
    if old is None or new is None:
        yield _Part(ADDITION if old is None else REMOVAL)
        return
    is_other_mode = old.kind == new.kind and old.kind in (FILE, DIR) and (old.mode ^ new.mode) & PERMISSIONS
    if is_other_mode:
        yield _Part(MODE)
    if texts is not None and old.digest != new.digest:
        yield from (_Part(HUNK, hunk) for hunk in patch.hunks(texts, change.path))
    elif not is_other_mode or (old.kind == FILE and old.digest != new.digest):
        yield _Part(CHANGE)
