"""What `casrewind` alone shows on a terminal in a project without checkpoints."""

from .. import errors
from .output import asked, print_line

_TEXT = """No checkpoints of this project yet.

  s   save one now                              casrewind save
  i   save before every prompt of Claude Code   casrewind install claude
  q   quit"""


def show(directory: str) -> int:
    """Offer the first steps, and take one. The exit code is 10 if none is taken."""
    from . import main

    print_line(_TEXT)
    try:
        answer = asked("What now? [s/i/q] ").strip().lower()
    except EOFError:
        print_line()
        answer = ""
    if answer == "s":
        return main.main(["-C", directory, "save"])
    if answer == "i":
        return main.main(["-C", directory, "install", "claude"])
    return errors.WorkspaceNotFound.exit_code
