"""Edits of a project: each one may be impossible where it stands, and is left out then."""

import contextlib
import os
import shutil
import subprocess

from plain import below, join, look, mounts
from walk import DIR_MODES, MIB, MODES, NAMES, PATTERNS, SETTINGS, TIMES, TOP  # noqa: F401


def _free(project):
    """{path: Thing} of what may be edited: neither stores nor what others own, nor what is mounted."""
    blind = mounts(project.root) | project.stores | {b".git"}
    return {path: thing for path, thing in look(project.root).items() if not below(path, blind)}


def _at(project, path):
    return os.path.join(os.fsencode(project.root), path)


def _place(project, chance):
    """A directory, b"" for the root."""
    return chance.choice([b"", b"", *sorted(path for path, thing in _free(project).items() if thing.kind == "dir")])


def _path(project, chance, kinds=("file", "dir", "link", "other")):
    found = sorted(path for path, thing in _free(project).items() if thing.kind in kinds)
    return chance.choice(found) if found else None


def _new(project, chance):
    return join(_place(project, chance), chance.choice(NAMES))


def _edit(work):
    def step(project, chance):
        with contextlib.suppress(OSError, shutil.Error):
            said = work(project, chance)
            if said:
                project.say(said)

    return step


@_edit
def write(project, chance):
    path = _path(project, chance, ("file",)) if chance.random() < 0.5 else _new(project, chance)
    if path is None or (os.path.lexists(_at(project, path)) and not os.path.isfile(_at(project, path))) or os.path.islink(_at(project, path)):
        return None
    size = chance.choice((0, 1, 50, 3000, 3000, 40_000))
    data = chance.randbytes(size)
    if chance.random() < 0.4 and os.path.exists(_at(project, path)):
        with open(_at(project, path) + b"~", "wb") as file:
            file.write(data)
        os.rename(_at(project, path) + b"~", _at(project, path))
        return f"write {path!r} ({size} bytes) by renaming"
    with open(_at(project, path), "wb") as file:
        file.write(data)
    return f"write {path!r} ({size} bytes)"


@_edit
def append(project, chance):
    path = _path(project, chance, ("file",))
    if path is None:
        return None
    with open(_at(project, path), "ab") as file:
        file.write(chance.randbytes(chance.choice((1, 100))))
    return f"append to {path!r}"


@_edit
def remove(project, chance):
    path = _path(project, chance, ("file", "link", "other"))
    if path is not None:
        os.unlink(_at(project, path))
        return f"remove {path!r}"


@_edit
def make_dir(project, chance):
    path = _new(project, chance)
    os.mkdir(_at(project, path))
    return f"mkdir {path!r}"


def _holds(path, places):
    return any(place == path or place.startswith(path + b"/") for place in places)


@_edit
def remove_tree(project, chance):
    path = _path(project, chance, ("dir",))
    if path is None or _holds(path, mounts(project.root) | project.stores):
        return None
    shutil.rmtree(_at(project, path))
    return f"rm -r {path!r}"


@_edit
def rename(project, chance):
    path, to = _path(project, chance), _new(project, chance)
    if path is None or _holds(path, mounts(project.root) | project.stores):
        return None
    os.rename(_at(project, path), _at(project, to))
    return f"mv {path!r} {to!r}"


@_edit
def link(project, chance):
    path, target = _new(project, chance), chance.choice((b"a", b"../x", b"/etc/passwd", b"nowhere\xff", os.fsencode(project.outside)))
    os.symlink(target, _at(project, path))
    return f"ln -s {target!r} {path!r}"


@_edit
def fifo(project, chance):
    path = _new(project, chance)
    os.mkfifo(_at(project, path))
    return f"mkfifo {path!r}"


@_edit
def mode(project, chance):
    path = _path(project, chance, ("file", "dir"))
    if path is None:
        return None
    wanted = chance.choice(DIR_MODES if os.path.isdir(_at(project, path)) else MODES)
    if os.stat(_at(project, path)).st_nlink > 1 and not os.path.isdir(_at(project, path)):
        return None  # that may be a file outside
    if os.geteuid():
        wanted |= 0o700 if os.path.isdir(_at(project, path)) else 0o600  # the model reads everything, as root can
    os.chmod(_at(project, path), wanted)
    return f"chmod {wanted:o} {path!r}"


@_edit
def time(project, chance):
    path, when = _path(project, chance, ("file",)), chance.choice(TIMES)
    if path is None:
        return None
    os.utime(_at(project, path), ns=(when, when))
    return f"touch -d @{when / 1e9:.0f} {path!r}"


@_edit
def rules(project, chance):
    place = _place(project, chance)
    path = join(place, chance.choice((b".gitignore", b".gitignore", b".casrewindignore")))
    if chance.random() < 0.25:
        os.unlink(_at(project, path))
        return f"remove {path!r}"
    if os.path.lexists(_at(project, path)) and (os.path.islink(_at(project, path)) or not os.path.isfile(_at(project, path))):
        return None
    lines = chance.sample(PATTERNS, chance.choice((1, 2, 3)))
    with open(_at(project, path), "wb") as file:
        file.write(b"\n".join(lines) + b"\n")
    return f"write {path!r}: {lines}"


@_edit
def hard_link(project, chance):
    path, to = _path(project, chance, ("file",)), _new(project, chance)
    if chance.random() < 0.4:
        name = chance.choice(("one", "two", "far/three"))
        os.link(f"{project.outside}/{name}", _at(project, to))
        return f"ln outside/{name} {to!r}"
    if path is None:
        return None
    os.link(_at(project, path), _at(project, to))
    return f"ln {path!r} {to!r}"


@_edit
def large(project, chance):
    path, size = join(b"", b"large"), chance.choice((MIB + 5, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB))
    with open(_at(project, path), "wb") as file:
        file.write(chance.randbytes(50))
        file.truncate(size)
    return f"write {path!r} ({size} bytes)"


@_edit
def settings(project, chance):
    path = _at(project, b".casrewind.toml")
    if chance.random() < 0.4:
        os.unlink(path)
        return "remove .casrewind.toml"
    data = chance.choice(SETTINGS)
    with open(path, "wb") as file:
        file.write(data)
    return f"write .casrewind.toml: {data!r}"


def _run(*words):
    return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0


@_edit
def mount(project, chance):
    if os.geteuid() != 0 or mounts(project.root):
        return None
    if chance.random() < 0.5:
        path, what = _path(project, chance, ("dir",)), f"{project.outside}/far"
    else:
        path, what = _path(project, chance, ("file",)), f"{project.outside}/one"
    if path is None or _holds(path, project.stores):
        return None
    return f"mount --bind {what} {path!r}" if _run("mount", "--bind", what, _at(project, path)) else None


@_edit
def unmount(project, chance):
    for point in mounts(project.root):
        _run("umount", "-l", _at(project, point))
        project.say(f"umount {point!r}")


@_edit
def flag(project, chance):
    path, letter = _path(project, chance, ("file", "dir")), chance.choice("ia")
    if path is None or os.geteuid() != 0 or os.stat(_at(project, path)).st_nlink > 1 and not os.path.isdir(_at(project, path)):
        return None
    return f"chattr +{letter} {path!r}" if _run("chattr", f"+{letter}", _at(project, path)) else None


@_edit
def unflag(project, chance):
    for path, thing in _free(project).items():
        if thing.flags:
            _run("chattr", "-ia", _at(project, path))
            project.say(f"chattr -ia {path!r}")


@_edit
def store(project, chance):
    """Another command's data directory in the project, used again if it is there."""
    home = _at(project, b".cas")
    if b".cas" not in project.stores and os.path.lexists(home):
        return None
    project.call("save", "-m", f"inner {chance.random()}", codes={0, 3}, CASREWIND_HOME=os.fsdecode(home))
    project.stores.add(b".cas")


@_edit
def nested(project, chance):
    """A repository in the project that has a store of its own."""
    place = _at(project, b"nested")
    if b"nested/.st" not in project.stores and os.path.lexists(place):
        return None
    os.makedirs(os.path.join(place, b".git"), exist_ok=True)
    project.call("save", "-m", f"nested {chance.random()}", root=os.fsdecode(place), store=("--store", os.fsdecode(place) + "/.st"), codes={0, 3})
    project.stores.add(b"nested/.st")
