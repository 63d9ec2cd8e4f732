"""docs/generate_sessions.py, as a module."""

import importlib.util
from pathlib import Path


def _load():
    path = Path(__file__).resolve().parent.parent.parent / "docs" / "generate_sessions.py"
    spec = importlib.util.spec_from_file_location("generate_sessions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sessions = _load()
