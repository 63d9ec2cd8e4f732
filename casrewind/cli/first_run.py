"""The output of `casrewind` without a command, on a terminal, in a project without checkpoints."""

from .output import print_line
from .questions import asked

_TEXT = """No checkpoints of this project yet.

  s   save one now                              casrewind save
  i   save before every prompt of Claude Code   casrewind install claude
  q   quit"""


def chosen() -> list[str]:
    """Offer the first steps. The words of the command that takes the chosen one; none for none."""
    print_line(_TEXT)
    try:
        answer = asked("What now? [s/i/q] ").strip().lower()
    except EOFError:
        print_line()
        answer = ""
    if answer == "s":
        return ["save"]
    if answer == "i":
        return ["install", "claude"]
    return []
