"""casrewind help: the texts of --help, and the manual page of this installation, which `man` does not find after
`uv tool install`.
"""

import os
import sys

from ... import errors, programs
from ..._typing import TYPE_CHECKING
from ..grammar import help as texts
from ..grammar.options import Command, Option, flag
from ..terminal.lines import print_line
from ..terminal.pager import pager
from . import OK

if TYPE_CHECKING:
    from pathlib import Path

    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind help restore", "casrewind help --all", "casrewind help --man"),
    options=(
        Option(("topic",), "a command", "COMMAND", nargs="?"),
        flag("--all", "list every command"),
        flag("--man", "show the manual page"),
    ),
)
_NAME = "casrewind.1"
_SCREEN = 24
"""Lines of a usual terminal: a shorter text needs no pager."""


def run(options: "ParsedOptions") -> int:
    """casrewind help, COMMAND --help, and casrewind alone where no terminal is. It needs no settings, which may be unreadable."""
    if getattr(options, "man", False):
        return _show_manual()
    text = texts.help_text(options).rstrip("\n")
    if not sys.stdout.isatty() or text.count("\n") < _SCREEN:
        print_line(text)
        return OK
    with pager(options):
        print_line(text)
    return OK


def _show_manual() -> int:
    """Show the page with `man`. Raises UsageError if the page or `man` is missing."""
    import subprocess  # 15 ms with the other imports below, which no --help has to wait for

    page = _find_manual_page()
    if page is None:
        raise errors.UsageError("this installation has no manual page", "casrewind help --all and casrewind COMMAND --help say the same")
    program = programs.find_program("man", os.environ)
    if program is None:
        raise errors.UsageError(f"the program man is missing; the manual page is {page}", "casrewind help --all says the same")
    sys.stdout.flush()
    done = subprocess.run([program, str(page)], check=False)
    return OK if done.returncode == 0 else errors.WorkspaceError.exit_code


def _find_manual_page() -> "Path | None":
    """The page: among the files of the installed package, else in the sources beside it."""
    from importlib import metadata
    from pathlib import Path

    found = []
    try:
        files = metadata.files("casrewind") or ()
        found = [Path(str(file.locate())).resolve() for file in files if file.name == _NAME]
    except metadata.PackageNotFoundError:
        pass
    found.append(Path(__file__).resolve().parents[3] / "docs" / _NAME)
    return next((page for page in found if page.is_file()), None)
