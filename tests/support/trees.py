"""Trees from literals: {"a/b.py": b"...", "run.sh": Exec(b"..."), "l": Link("a"), "empty": Dir()}."""

import os
import shutil
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


def edit(root, chance):
    """Do something to a tree, at random."""
    places = [place for place, _, _ in os.walk(root)]
    place = chance.choice(places)
    names = sorted(os.listdir(place))
    name = os.path.join(place, chance.choice(names)) if names else None
    deed = chance.randrange(7)
    if deed == 0 or name is None:
        plant(root, {os.path.relpath(os.path.join(place, f"n{chance.randrange(9)}.{chance.choice('ocp')}"), root): b"new"})
    elif deed == 1 and os.path.isfile(name):
        with open(name, "ab") as file:
            file.write(b"more")
    elif deed == 2:
        shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
    elif deed == 3:
        os.chmod(name, chance.choice([0o700, 0o755, 0o644]) | (0o700 if os.path.isdir(name) else 0))
    elif deed == 4:
        os.rename(name, name + "x")
    elif deed == 5:
        os.makedirs(os.path.join(place, "deep", "er"), exist_ok=True)
    else:
        os.utime(name, ns=(1, 1))
