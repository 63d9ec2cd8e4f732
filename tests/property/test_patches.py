"""Patches of 1,000 generated pairs of files: `git apply` and `patch -p1` make the other side of each, in both directions, and
they name as many lines as git's own.

What neither program can take out of a patch without binary parts is left out of the trees, and is looked for in the patch.
"""

import os
import random
import shutil
import subprocess

import pytest

from casrewind.cli.show import changes, patch
from casrewind.history import rename_detection
from support.picture import differences, picture
from support.sample_start import by_turns
from support.trees import Link, Mode, plant

PAIRS = 50
TREES = 20
NAMES = ["plain", "with space", 'quo"te', "back\\slash", "tab\there", "new\nline", "-dash", "utfé", "--- a", "b", "x'y", b"latin\xe9", "a,v", "{c}"]
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "PATH": os.environ["PATH"], "LC_ALL": "C"}


def content(chance):
    """Lines that repeat much, or little."""
    kinds = chance.choice([2, 3, 10, 1000])
    return [b"%s%d" % (b"  " * (number % 3), number) for number in (chance.randrange(kinds) for _ in range(chance.randrange(1, 80)))]


def edited(chance, lines):
    lines = list(lines)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(lines) + 1)
        deed = chance.randrange(4)
        if deed == 0:
            lines[at:at] = [b"new %d" % chance.randrange(3) for _ in range(chance.randrange(1, 5))]
        elif deed == 1:
            del lines[at : at + chance.randrange(1, 6)]
        elif deed == 2 and lines:
            lines[at % len(lines)] = b"changed"
        else:
            lines[at:at] = lines[at : at + 4]
    return lines


def joined(chance, lines, end):
    if not lines:
        return b""
    return end.join(lines) + (end if chance.random() < 0.8 else b"")


def pair(chance):
    """(what a path was, what it is); None: not there."""
    end = chance.choice([b"\n", b"\n", b"\n", b"\r\n"])
    lines = content(chance)
    old, new = joined(chance, lines, end), joined(chance, edited(chance, lines), end)
    modes = [0o644, 0o644, chance.choice([0o644, 0o755])]
    kind = chance.randrange(20)
    if kind == 0:
        return None, Mode(modes[2], new or b"n")
    if kind == 1:
        return Mode(modes[2], old or b"o"), None
    if kind == 2:
        return Mode(0o644, old), Mode(0o755, old)
    if kind == 3:
        return Link(f"to {chance.randrange(9)}"), Link(f"at {chance.randrange(9)}/x")
    if kind == 4:
        return None, Link("new")
    if kind == 5:
        return Link("old"), None
    if kind == 6:
        return Mode(0o644, b""), Mode(0o644, new or b"n")
    if kind == 7:
        return Mode(0o644, old or b"o"), Mode(0o644, b"")
    if kind == 8:
        return None, Mode(0o644, b"")
    if kind == 9:
        return Mode(0o644, b""), None
    return Mode(modes[0], old), Mode(modes[2], new)


def trees(chance):
    """Two trees, and how many of their files were renamed."""
    old, new = {}, {}
    for number in range(PAIRS):
        name = chance.choice(NAMES)
        where = [b"", b"d/", b"d e/f/"][chance.randrange(3)] + b"%d-" % number + os.fsencode(name)
        before, after = pair(chance)
        if before is not None:
            old[where] = before
        if after is not None:
            if before is not None and isinstance(before, Mode) and chance.random() < 0.1:
                where = b"moved/" + where
            new[where] = after
    return old, new


def apply(place, data, program, *, reverse):
    if program == "git":
        command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", *(["-R"] if reverse else []), "-"]
    else:
        command = ["patch", "-p1", "-s", "-f", "--binary", "--no-backup-if-mismatch", *(["-R"] if reverse else [])]
    done = subprocess.run(command, cwd=place, input=data, env=GIT | {"GIT_CEILING_DIRECTORIES": str(place.parent)}, capture_output=True)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])


def made(found, *, with_renames, context=3):
    moved = rename_detection.find_renames(found) if with_renames else ()
    return [
        b"".join(line + b"\n" for line in patch.patch_of_change(found, change, rename, context=context))
        for change, rename in changes.changes_with_renames(found.changes, moved)
        if not any(entry is not None and entry.kind == "dir" for entry in (change.old, change.new))
    ]


def files(place):
    return {path: what for path, what in picture(place).items() if what[0] != "dir"}


def counted(parts):
    """How many lines the hunks take away and put in."""
    body = [line for part in parts for line in part.partition(b"\n@@")[2].split(b"\n")]
    return sum(line[:1] == b"+" for line in body), sum(line[:1] == b"-" for line in body)


@pytest.mark.parametrize("seed", by_turns(range(TREES), 8))
@pytest.mark.skipif(not (shutil.which("git") and shutil.which("patch")), reason="git and patch are needed")
def test_both_programs_make_each_side_of_the_other(workspace, root, tmp_path, seed):
    chance = random.Random(seed)
    old, new = trees(chance)
    plant(root, old)
    first = workspace.save().checkpoint
    shutil.copytree(root, tmp_path / "old", symlinks=True)
    for name in os.listdir(root):
        path = root / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    plant(root, new)
    second = workspace.save().checkpoint
    shutil.copytree(root, tmp_path / "new", symlinks=True)
    found = workspace.diff(first, second)
    before, after = files(tmp_path / "old"), files(tmp_path / "new")
    context = chance.choice([1, 3, 3, 7])
    for program in ("git", "patch"):
        for with_renames in (True, False):
            parts = made(found, with_renames=with_renames, context=context)
            assert any(b"\nrename from " in part for part in parts) == with_renames
            place = tmp_path / f"{program}-{with_renames}"
            shutil.copytree(tmp_path / "old", place, symlinks=True)
            apply(place, b"".join(parts), program, reverse=False)
            assert differences(files(place), after) == {}, (program, with_renames)
            apply(place, b"".join(parts), program, reverse=True)
            assert differences(files(place), before) == {}, (program, with_renames)
    theirs = subprocess.run(
        ["git", "diff", "--no-index", "--no-renames", "--minimal", "--numstat", "old", "new"], cwd=tmp_path, env=GIT, capture_output=True
    )
    rows = [line.split(b"\t") for line in theirs.stdout.splitlines()]
    added, removed = counted(made(found, with_renames=False))
    assert (added, removed) == (sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows))
