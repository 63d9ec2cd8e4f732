"""What an agent that went wrong leaves behind: random edits, deletions, renames, other kinds, other modes, new files."""

import os
import random
import shutil

MODES = (0o644, 0o755, 0o600, 0o640, 0o700, 0o664)


def wreck_tree(root, changes, seed, skip=(b".git",)):
    """Make about `changes` changes below `root`, the same ones for the same tree and seed. {what: how many}."""
    chance = random.Random(seed)
    files, directories = [], []
    top = os.fsencode(root)
    for place, below, names in os.walk(top):
        below[:] = sorted(name for name in below if name not in skip)
        files += [os.path.join(place, name) for name in sorted(names)]
        directories += [os.path.join(place, name) for name in below]
    done = {}
    doers = (_edit, _edit, _edit, _append, _delete, _rename, _mode, _to_link, _to_directory, _new, _new_directory, _touch)
    for number in range(changes):
        path = chance.choice(files)
        what = chance.choice(doers)
        if os.path.lexists(path) and what(path, chance, number):
            done[what.__name__[1:]] = done.get(what.__name__[1:], 0) + 1
    for path in chance.sample(directories, max(1, min(changes // 200, len(directories) // 20))):
        if os.path.isdir(path) and not os.path.islink(path) and path.count(b"/") > top.count(b"/") + 1:
            what = chance.choice((_delete_directory, _directory_to_file, _move_directory, _directory_mode))
            if what(path, chance, len(path)):
                done[what.__name__[1:]] = done.get(what.__name__[1:], 0) + 1
    return done


def _is_file(path):
    return os.path.isfile(path) and not os.path.islink(path)


def _edit(path, chance, number):
    if not _is_file(path):
        return False
    with open(path, "r+b") as file:
        file.seek(chance.randrange(max(1, os.path.getsize(path))))
        file.write(b"edit %d" % number)
    return True


def _append(path, chance, number):
    if not _is_file(path):
        return False
    with open(path, "ab") as file:
        file.write(b"\nmore " * chance.randrange(1, 5000))
    return True


def _delete(path, chance, number):
    if os.path.isdir(path) and not os.path.islink(path):
        return False
    os.unlink(path)
    return True


def _rename(path, chance, number):
    os.rename(path, path + b".%d.bak" % number)
    return True


def _mode(path, chance, number):
    if not _is_file(path):
        return False
    os.chmod(path, chance.choice(MODES))
    return True


def _to_link(path, chance, number):
    if not _is_file(path):
        return False
    os.unlink(path)
    os.symlink(chance.choice((b"elsewhere", b"/etc/hostname", b"..", os.path.basename(path))), path)
    return True


def _to_directory(path, chance, number):
    if not _is_file(path):
        return False
    os.unlink(path)
    os.mkdir(path, chance.choice((0o755, 0o700)))
    for name in range(chance.randrange(3)):
        _new(os.path.join(path, b"%d" % name), chance, number)
    return True


def _new(path, chance, number):
    with open(path + b".new.%d" % number, "wb") as file:
        file.write(chance.randbytes(chance.randrange(20_000)))
    return True


def _new_directory(path, chance, number):
    made = os.path.join(os.path.dirname(path), b"made-%d" % number, b"deep", b"er")
    os.makedirs(made)
    if chance.random() < 0.7:
        _new(os.path.join(made, b"x"), chance, number)
    return True


def _touch(path, chance, number):
    if not _is_file(path):
        return False
    os.utime(path, ns=(number * 10**9 + 1, number * 10**9 + 1))
    return True


def _delete_directory(path, chance, number):
    shutil.rmtree(path)
    return True


def _directory_to_file(path, chance, number):
    shutil.rmtree(path)
    with open(path, "wb") as file:
        file.write(b"was a directory")
    return True


def _move_directory(path, chance, number):
    os.rename(path, path + b"-moved")
    return True


def _directory_mode(path, chance, number):
    os.chmod(path, chance.choice((0o700, 0o750, 0o775)))
    return True
