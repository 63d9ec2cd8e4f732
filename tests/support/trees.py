"""Trees from literals: {"a/b.py": b"...", "run.sh": Exec(b"..."), "l": Link("a"), "empty": Dir()}."""

import os
from typing import NamedTuple


class Link(NamedTuple):
    target: str | bytes


class Exec(NamedTuple):
    data: bytes


class Mode(NamedTuple):
    mode: int
    data: bytes


class Dir(NamedTuple):
    mode: int = 0o755


class Fifo(NamedTuple):
    pass


def plant(root, tree):
    """Make (or overwrite) the entries of a literal tree below `root`. Missing parents are made."""
    root = os.fsencode(root)
    os.makedirs(root, exist_ok=True)
    for name, what in tree.items():
        path = os.path.join(root, os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(what, Dir):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, what.mode)
            continue
        if os.path.lexists(path):
            os.unlink(path)
        if isinstance(what, Link):
            os.symlink(os.fsencode(what.target), path)
        elif isinstance(what, Fifo):
            os.mkfifo(path)
        else:
            data, mode = (what, 0o644) if isinstance(what, bytes) else (what.data, getattr(what, "mode", 0o755))
            with open(path, "wb") as file:
                file.write(data)
            os.chmod(path, mode)
