"""docs/generate_sessions.py, as a module in which `casrewind` is a fork (support/forked_command.py)."""

import importlib.util
from pathlib import Path

from support import forked_command

TOP = Path(__file__).resolve().parent.parent.parent


def _load():
    spec = importlib.util.spec_from_file_location("generate_sessions", TOP / "docs" / "generate_sessions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.Scratch = _with_forks(module.Scratch)
    return module


def _with_forks(scratch):
    class Scratch(scratch):
        def script(self, name, line):
            interpreter = forked_command.interpreter() if name == "casrewind" else None
            super().script(name, line if interpreter is None else f'exec "{interpreter}" -I "{TOP}/casrewind/__main__.py" "$@"')

    return Scratch


sessions = _load()
