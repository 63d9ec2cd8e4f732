"""Reads one key of a terminal as the answer to a question, without Enter.

The dangers prevented here: a key that was typed before a question is shown answers it, so such keys are dropped. And the
terminal stays without echo when the process ends, so a signal that ends or stops it gives the terminal back first.
"""

import os
import signal
import termios
import tty
from contextlib import suppress

from ..._typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
_ANSWER_BYTES = 100
"""Bytes that are read as one answer: a key with several bytes, such as an arrow key, or text that was pasted."""


def drop_typed(terminal: int) -> None:
    """Drop the keys that were typed up to now."""
    with suppress(termios.error):  # no terminal
        termios.tcflush(terminal, termios.TCIFLUSH)


def read_key(terminal: int, question: str, stream: TextIO) -> str:
    """Ask, and read one key. Several bytes that come at once are one answer. Raises termios.error if this is no terminal."""
    settings = termios.tcgetattr(terminal)

    def show() -> None:
        """Not through the stream: a signal may come while something is written to that."""
        tty.setcbreak(terminal, termios.TCSAFLUSH)  # drops what was typed before
        os.write(stream.fileno(), question.encode(stream.encoding or "utf-8", "replace"))

    def give_back() -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSAFLUSH, settings)  # drops what is left of a long key

    def end_or_stop(number: int, frame: "FrameType | None") -> None:
        give_back()
        if number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, end_or_stop)  # it was stopped, and goes on
        show()

    stream.flush()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    replaced = {number: old for number, old in handlers.items() if old in (signal.SIG_DFL, signal.default_int_handler)}
    answer = ""
    try:
        for number in replaced:
            signal.signal(number, end_or_stop)
        show()
        answer = os.read(terminal, _ANSWER_BYTES).decode("ascii", "ignore").strip()
    finally:
        give_back()
        for number, old in replaced.items():
            signal.signal(number, old)
        stream.write(f"{answer if answer.isprintable() else ''}\n")
        stream.flush()
    return answer
