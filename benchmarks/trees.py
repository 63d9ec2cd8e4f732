"""Trees to measure on: generated ones, copies of real ones, and edits in them."""

import os
import random
import shutil
import stat
import subprocess

VERSION_CONTROL = frozenset({".git", ".hg", ".jj", ".svn"})
_WORDS = [b"def ", b"return ", b"self.", b"value", b" = ", b"\n", b"import ", b"0", b"(", b")"]


def generate(root, files):
    """Make a project of `files` Python-like files of 0 to about 12 KiB below `root`, twenty to a directory. The same every time."""
    for number in range(files):
        chance = random.Random(number)
        place = os.path.join(root, f"d{number // 400}", f"d{number // 20 % 20}")
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"f{number}.py"), "wb") as file:
            file.write(b"".join(chance.choices(_WORDS, k=chance.randrange(3000))))


def given_or_generated(tree, scratch, files):
    """The tree that the user gave; without one a generated project of `files` files in `scratch`."""
    if tree is None:
        tree = os.path.join(scratch, "tree")
        generate(tree, files)
    return tree


def copy(source, target):
    """Copy files, links, modes and times of `source` to the new directory `target`, without what belongs to version
    control and without what is neither file, directory nor link."""
    shutil.copytree(source, target, symlinks=True, ignore=_left_out)


def duplicate(source, target):
    """The same for a copy of ours, in which nothing is to be left out; by `cp` where there is one, which is quicker. Raises OSError."""
    if shutil.which("cp") is None:
        copy(source, target)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    done = subprocess.run(["cp", "-R", "-p", "-P", source, target], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"cp: {done.stderr.strip()[-200:]}")


def _left_out(directory, names):
    return [name for name in names if name in VERSION_CONTROL or not _copied(os.path.join(directory, name))]


def _copied(path):
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def count(root):
    """(files and links, bytes in the files) below `root`."""
    files = size = 0
    for directory, inside, names in os.walk(root):
        if ".casrewind-origin" in inside:  # what restore --to puts where it can set no attribute
            inside.remove(".casrewind-origin")
        for name in names + [name for name in inside if os.path.islink(os.path.join(directory, name))]:
            status = os.lstat(os.path.join(directory, name))
            files += 1
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return files, size


def pick(paths, number):
    """`number` of the sorted `paths`, evenly spread."""
    ordered = sorted(paths)
    return [ordered[index * len(ordered) // number] for index in range(number)]


def edit(root, paths, mark):
    """Append a line that names `mark` to every one of `paths` below `root`."""
    for path in paths:
        with open(os.path.join(root, path), "ab") as file:
            file.write(b"# edit %d\n" % mark)


def work(root, paths, step):
    """What a turn of an agent does, about: in one to four of `paths` below `root` a few lines are replaced, every fifth turn
    makes a new file, every tenth removes one of those. The same for the same `step` and contents."""
    chance = random.Random(f"turn {step}")
    for path in chance.sample(paths, min(len(paths), chance.randint(1, 4))):
        with open(os.path.join(root, path), "r+b") as file:
            lines = file.read().splitlines(keepends=True)
            at = chance.randrange(len(lines) + 1)
            lines[at : at + chance.randrange(4)] = [b"# turn %d, line %d\n" % (step, line) for line in range(chance.randint(1, 8))]
            file.seek(0)
            file.truncate()
            file.write(b"".join(lines))
    beside = os.path.join(root, os.path.dirname(paths[0]))
    if step % 5 == 0:
        with open(os.path.join(beside, f"new{step}.txt"), "wb") as file:
            file.write(b"".join(chance.choices(_WORDS, k=1000)))
    if step % 10 == 9:
        os.remove(os.path.join(beside, f"new{step - 4}.txt"))


def contents(root, paths):
    """The bytes of `paths` below `root`, in their order."""
    found = []
    for path in paths:
        with open(os.path.join(root, path), "rb") as file:
            found.append(file.read())
    return found


def remove(place):
    """Remove a directory tree, read-only directories too. None there is fine."""
    for directory, inside, _ in os.walk(place):
        for name in inside:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(place, ignore_errors=not os.path.lexists(place))
