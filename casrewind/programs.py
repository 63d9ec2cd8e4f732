"""Finds programs to run: a client, a pager, an editor, a clipboard tool.

The danger prevented here: a relative entry of PATH, such as `.`, finds a program that lies in the project. A clone would
bring a program that runs as soon as a person looks at it.
"""

import os
from collections.abc import Mapping


def find_program(program: str, environ: Mapping[str, str]) -> str | None:
    """The path of a program. Relative paths and PATH entries are skipped: they could find programs of the project."""
    import shutil

    places = absolute_path(environ)
    if os.path.dirname(program) and not os.path.isabs(program):
        return None
    return shutil.which(program, path=places) if places else None


def absolute_path(environ: Mapping[str, str]) -> str:
    """The variable PATH without its relative and empty entries, which stand for the working directory."""
    return os.pathsep.join(place for place in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place))
