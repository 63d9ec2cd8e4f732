"""Trees to measure on: generated ones, copies of real ones, and edits in them."""

import os
import random
import shutil
import stat

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


def copy(source, target):
    """Copy files, links, modes and times of `source` to the new directory `target`, without what belongs to version
    control and without what is neither file, directory nor link."""
    shutil.copytree(source, target, symlinks=True, ignore=_left_out)


def _left_out(directory, names):
    return [name for name in names if name in VERSION_CONTROL or not _copied(os.path.join(directory, name))]


def _copied(path):
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def count(root):
    """(files and links, bytes in the files) below `root`."""
    files = size = 0
    for directory, inside, names in os.walk(root):
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
