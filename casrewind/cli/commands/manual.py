"""casrewind help --man: the manual page of this installation, which `man` does not find after `uv tool install`."""

import os
import subprocess
import sys
from pathlib import Path

from ... import errors, programs
from . import OK

_NAME = "casrewind.1"


def show_manual() -> int:
    """Show the page with `man`. Raises UsageError if the page or `man` is missing."""
    page = find_manual_page()
    if page is None:
        raise errors.UsageError("this installation has no manual page", "casrewind help --all and casrewind COMMAND --help say the same")
    program = programs.find_program("man", os.environ)
    if program is None:
        raise errors.UsageError(f"there is no program man; the manual page is {page}", "casrewind help --all says the same")
    sys.stdout.flush()
    done = subprocess.run([program, str(page)], check=False)
    return OK if done.returncode == 0 else errors.WorkspaceError.exit_code


def find_manual_page() -> Path | None:
    """The page: among the files of the installed package, else in the sources beside it."""
    from importlib import metadata

    found = []
    try:
        files = metadata.files("casrewind") or ()
        found = [Path(str(file.locate())).resolve() for file in files if file.name == _NAME]
    except metadata.PackageNotFoundError:
        pass
    found.append(Path(__file__).resolve().parents[3] / "docs" / _NAME)
    return next((page for page in found if page.is_file()), None)
