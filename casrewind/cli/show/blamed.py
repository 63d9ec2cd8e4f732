"""The lines of a file with their authors, as a terminal and the picker show them."""

from collections.abc import Iterator, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import age_in_words, printable
from ...model.turn_records import Turn
from .text import column_width, cut_to

if TYPE_CHECKING:
    from ...history.blame import AuthoredLines, Blame

_PROMPT_COLUMNS, _AGE_COLUMNS = 20, 10


class BlamedLine(NamedTuple):
    """A line of a file with its author."""

    head: str
    """The author, the start of the prompt, and the age if it is asked for."""
    text: str
    """The number of the line and its content, undecodable bytes as surrogates; of a file without lines, words about it."""
    session: int | None
    """The number of the session whose turn wrote it. None: a person wrote it, or nobody knows who."""


def number_sessions(turns: Sequence[Turn]) -> dict[str, int]:
    """{session: its number}, for its colour. `turns`: all of them, newest first."""
    return {session: number for number, session in enumerate(dict.fromkeys(turn.session for turn in turns))}


def blamed_lines(found: "Blame", runs: "Sequence[AuthoredLines]", *, has_ages: bool, columns: int = 0) -> Iterator[BlamedLine]:
    """A line for each line of these runs of a file; of a file without lines, one. `columns`: a prompt has those that the lines of the
    file leave of them."""
    turns = {turn.n: turn for turn in found.turns}
    sessions = number_sessions(found.turns)
    width = max((len(str(run.author)) for run in runs), default=0)
    digits = len(str(runs[-1].last)) if runs else 0
    written = [turns[run.author.makers.turns[0]] if run.author.makers.is_one and run.author.makers.turns else None for run in runs]
    longest = max((column_width(_line_of(found, at)) for run in runs for at in range(run.first, run.last + 1)), default=0) if columns else 0
    left = columns - width - digits - longest - 6 - (_AGE_COLUMNS + 2 if has_ages else 0)
    room = max(min(left, max((column_width(_title_of(turn)) for turn in written), default=0)), _PROMPT_COLUMNS)
    for run, turn in zip(runs, written, strict=True):
        title = cut_to(_title_of(turn), room) if turns else ""
        title += " " * (room - column_width(title) if turns else 0)
        age = "" if run.author.at_ns is None else age_in_words(run.author.at_ns)
        head = f"{str(run.author).ljust(width)}  {title}{f'  {age.rjust(_AGE_COLUMNS)}' if has_ages else ''}"
        session = None if turn is None else sessions[turn.session]
        if found.is_whole:
            yield BlamedLine(head.rstrip(), "(binary, or too large: one author)", session)
            continue
        for at in range(run.first, run.last + 1):
            yield BlamedLine(head, f"{at:>{digits}}  {_line_of(found, at)}", session)


def _line_of(found: "Blame", at: int) -> str:
    return found.lines[at - 1].removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape") if found.lines else ""


def _title_of(turn: Turn | None) -> str:
    return "" if turn is None else printable(turn.prompt.partition("\n")[0])
