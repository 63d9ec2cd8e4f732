"""The output of `casrewind` without a command, on a terminal, in a project without checkpoints."""

import sys

from .output import drop_output, print_line
from .questions import asked

_TEXT = """No checkpoints of this project yet.

  s   save one now                              casrewind save
  i   save before every prompt of Claude Code   casrewind install claude
  q   quit"""


def chosen() -> list[str]:
    """Offer the first steps. Returns the words of the chosen command, or an empty list."""
    print_line(_TEXT)
    try:
        answer = asked("What now? [s/i/q] ").strip().lower()
    except (EOFError, OSError):  # the input ends, or the terminal is gone
        answer = ""
        try:
            print_line()
            sys.stdout.flush()
        except OSError:
            drop_output()
    if answer == "s":
        return ["save"]
    if answer == "i":
        return ["install", "claude"]
    return []
