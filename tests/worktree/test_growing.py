"""A file that grows while it is read: only what it had when the reading began is read, and it is named.

A source with a spy in it lets the file grow in the middle of a read, so that nothing here depends on a race.
"""

import os

import pytest

from casrewind.model import manifest
from casrewind.worktree import reader
from casrewind.worktree.reader import HashSink, NotCapturable, Worktree, read_until_stable
from support.trees import plant

MB = 1 << 20


class Greedy(HashSink):
    """Lets the file grow by a terabyte of holes at each piece that it is given, and counts the bytes."""

    def __init__(self, path):
        self.path, self.read = path, 0

    def grow(self):
        with open(self.path, "r+b") as file:
            file.truncate(os.path.getsize(self.path) + (1 << 40))

    def put_stream(self, source, size):
        buffer = memoryview(bytearray(MB))
        self.grow()
        while count := source.readinto(buffer):
            self.read += count
            assert self.read < 64 * MB, "it is read for as long as it grows"
        return self.read, bytes(32), b""


def test_a_large_file_that_grows_past_the_limit_is_read_once_to_the_size_that_it_had(root):
    plant(root, {"log": b"x" * (3 * MB)})
    sink = Greedy(root / "log")
    with Worktree(str(root)) as tree:
        found = read_until_stable(b"log", tree.fd, sink, 4 * MB)
    assert not found.stable
    assert sink.read == found.entry.size == 3 * MB


def test_a_small_file_never_gives_more_bytes_than_the_limit(root, monkeypatch):
    plant(root, {"log": b"x" * 900})
    real = os.read

    def growing(fd, count):
        with open(root / "log", "ab") as file:
            file.write(b"y" * 5000)
        return real(fd, count)

    monkeypatch.setattr(reader.os, "read", growing)
    with Worktree(str(root)) as tree:
        found = read_until_stable(b"log", tree.fd, HashSink(), 1000)
    monkeypatch.undo()
    assert not found.stable
    assert found.entry.size <= 1000 < os.path.getsize(root / "log")


def test_what_is_too_large_before_it_is_read_is_not_read(root):
    plant(root, {"f": b"x" * 11})
    with Worktree(str(root)) as tree:
        with pytest.raises(NotCapturable):
            read_until_stable(b"f", tree.fd, HashSink(), 10)
        assert read_until_stable(b"f", tree.fd, HashSink(), 11).entry == manifest.Entry(
            manifest.FILE, 0o644, 11, os.stat(root / "f").st_mtime_ns, found_digest(b"x" * 11)
        )


def found_digest(data):
    return HashSink().put_file(data)
