"""Big trees and files that look like real ones: text that compresses, bytes that do not, none of it twice."""

import os
import random

_CORPUS = 4 << 20
_WORDS = (
    "def return self struct static const void import from int char if else for while value name path index table entry "
    "read write open close size offset length digest record state the of and is not none true false error raise"
).split()


class Material:
    """Bytes without end: half text, half noise. The same from the same seed."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        lines = []
        size = 0
        while size < _CORPUS:
            line = " " * self._random.randrange(0, 12) + " ".join(self._random.choices(_WORDS, k=self._random.randrange(1, 12)))
            lines.append(line)
            size += len(line) + 1
        self._text = "\n".join(lines).encode()
        self._noise = self._random.randbytes(_CORPUS)
        self._count = 0

    def take(self, size, *, text):
        """`size` bytes that were never given before."""
        source = self._text if text else self._noise
        parts = []
        while size > 0:
            self._count += 1
            piece = min(size, self._random.randrange(4 << 10, 32 << 10))
            start = self._random.randrange(len(source) - piece)
            head = b"%016x\n" % (self._count * 0x9E3779B97F4A7C15 % (1 << 64))
            parts.append((head + source[start : start + piece])[:piece])
            size -= piece
        return b"".join(parts)


def grow(root, files, size, seed=1):
    """A tree of `files` files and about `size` bytes: a quarter of the bytes do not compress, one file in 400 is large.
    The paths of the files."""
    material = Material(seed)
    source = random.Random(seed)
    found = []
    mean = size / files
    for number in range(files):
        directory = os.path.join(root, f"part{number // 1500}", f"unit{number // 15 % 100}")
        if number % 15 == 0:
            os.makedirs(directory, exist_ok=True)
        text = source.random() < 0.8
        length = int(mean * 30) if number % 400 == 7 else int(mean * source.uniform(0, 1.86))
        path = os.path.join(directory, f"file{number}.{'c' if text else 'bin'}")
        with open(path, "wb") as file:
            file.write(material.take(length, text=text))
        found.append(path)
    return found


def grow_file(path, size, seed=2):
    """One file of `size` bytes, a stretch of text after a stretch of noise."""
    material = Material(seed)
    with open(path, "wb") as file:
        left = size
        number = 0
        while left:
            piece = min(left, 1 << 20)
            file.write(material.take(piece, text=number // 8 % 2 == 0))
            left -= piece
            number += 1


def disturb(paths, seed=3):
    """Remove one half of the files, change every other one."""
    material = Material(seed)
    for number, path in enumerate(paths):
        if number % 2:
            os.unlink(path)
        else:
            size = os.path.getsize(path)
            with open(path, "wb") as file:
                file.write(material.take(size + 1, text=number % 3 == 0))
