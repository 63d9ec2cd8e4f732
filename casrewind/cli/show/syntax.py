"""The kinds of words in the lines of a file, by its name: comments, strings, keywords.

The danger prevented here: a file that keeps the lexer busy for minutes. What is large, or takes long, has no kinds.
"""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache

from ..._typing import TYPE_CHECKING
from ...messages import printable

if TYPE_CHECKING:
    from types import FrameType

    from pygments.lexer import Lexer

MOST_COLOURED = 200_000
"""Characters of a text whose words are told apart."""
_PROCESSOR_SECONDS = 0.2
"""Processor time for one text, where a signal can end it: not beside a screen."""
STRING = "string"
_KINDS = (
    ("Token.Comment", "comment"), ("Token.Literal.String", STRING), ("Token.Literal.Number", "number"), ("Token.Keyword", "keyword"),
    ("Token.Name.Function", "name"), ("Token.Name.Class", "name"), ("Token.Name.Tag", "keyword"), ("Token.Name.Decorator", "number"),
    ("Token.Operator.Word", "keyword"),
)  # fmt: skip
Spans = list[tuple[int, int, str]]
"""(start, end, kind) of parts of a line."""


class _TooSlowError(Exception):
    """The time is up."""


def syntax_spans(path: bytes, lines: Sequence[str], last: int | None = None) -> dict[int, Spans]:
    """{index of a line: the kinds of its words}, up to the line with the index `last`. {} for a language that is not known, and for a
    text that is too large or too slow."""
    if sum(map(len, lines)) > MOST_COLOURED:
        return {}
    found: dict[int, Spans] = {}
    number = column = 0
    try:
        lexer = _find_lexer(printable(path.rpartition(b"/")[2]))  # the first one imports pygments, which is not the text's time
        with _limited_time():
            for token, value in () if lexer is None else lexer.get_tokens("\n".join(lines)):
                kind = _kind_of(token)
                for place, piece in enumerate(value.split("\n")):
                    if place:
                        number, column = number + 1, 0
                    if kind and piece:
                        found.setdefault(number, []).append((column, column + len(piece), kind))
                    column += len(piece)
                if last is not None and number > last:
                    break
    except Exception:  # a lexer of others, on text of anybody: without colours all is still there
        return {}
    return found


@cache
def _kind_of(token: object) -> str:
    name = str(token)
    return next((kind for start, kind in _KINDS if name.startswith(start)), "")


@lru_cache(maxsize=256)
def _find_lexer(name: str) -> "Lexer | None":
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    with suppress(ClassNotFound):
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    return None


@contextmanager
def _limited_time() -> Iterator[None]:
    """Raise _TooSlowError when the time is up, also inside of one match of a pattern. Other threads get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: "FrameType | None") -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _PROCESSOR_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
