"""Edits at random, by this process and another one: names, contents, links, modes, rule files, whole directories."""

import os
import random
import shutil
import subprocess

from support.trees import plant


class RandomEdits:
    """Random edits, by this process and another one. The same edits of the same tree with the same seed, on any file system."""

    def __init__(self, root, seed):
        self.root, self.out, self.random = str(root), str(root.parent / "out"), random.Random(seed)
        os.mkdir(self.out)

    def once(self):
        found = sorted(os.walk(self.root))  # the order in which a file system lists names is its own
        directories = [place for place, _, _ in found]
        files = sorted(os.path.join(place, name) for place, _, names in found for name in names) or [self.root]
        pick = self.random.choice
        file, place, other = pick(files), pick(directories), pick(directories)
        new = os.path.join(place, f"n{self.random.randrange(10**6)}")
        linked = [path for path in files if os.lstat(path).st_nlink > 1] or files
        # nobody is told of a name in an ignored directory (limits.md): no rule here is about the root's own h1, h2 ...
        second = os.path.join(self.root, f"h{self.random.randrange(10**6)}")
        away = [os.path.join(self.out, name) for name in sorted(os.listdir(self.out))] or [file]
        script = 'cd "$1" && mkdir -p q/w/e && echo 1 >q/w/e/r && echo 2 >q/w/t && mv q "$2"'
        todo = [
            *[lambda: self.append(file)] * 4, lambda: self.append(new), lambda: self.append(pick(linked)), lambda: self.same_size(file),
            lambda: os.unlink(file), lambda: os.makedirs(new + "/deep/er"), lambda: os.rename(file, new),
            *[lambda: os.rename(place, os.path.join(other, "moved"))] * 2, lambda: swap(place, other, self.root),
            lambda: shutil.rmtree(place) if place != self.root else None, lambda: os.link(file, second),
            lambda: os.chmod(file, pick([0o644, 0o755, 0o600])), lambda: os.chmod(place, pick([0o755, 0o700])),
            lambda: os.symlink("f0", new), lambda: plant(place, {".gitignore": pick([b"f1\n", b"e*\n", b"", b"n*\n"])}),
            lambda: self.leave(place, os.path.basename(new)), lambda: os.rename(pick(away), new),
            lambda: subprocess.run(["sh", "-c", script, "sh", place, new], check=True),
        ]  # fmt: skip
        try:
            pick(todo)()
        except (OSError, subprocess.CalledProcessError):
            pass  # a directory into itself, say

    def leave(self, place, name):
        if place != self.root:
            os.rename(place, os.path.join(self.out, name))

    def append(self, path):
        with open(path, "ab") as file:
            file.write(self.random.randbytes(4).hex().encode())

    def same_size(self, path):
        status = os.stat(path)
        with open(path, "r+b") as file:
            file.write(self.random.randbytes(status.st_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def swap(one, two, root):
    if root not in (one, two) and not one.startswith(two) and not two.startswith(one):
        os.rename(one, root + "/.between")
        os.rename(two, one)
        os.rename(root + "/.between", two)
