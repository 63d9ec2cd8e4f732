"""Reading the user's files: torn reads are noticed, links not followed, fifos do not hang, paths stay beneath."""

import hashlib
import os
import shutil
import socket

import pytest
from blake3 import blake3

from casrewind import errors, fsio
from casrewind.model import manifest
from casrewind.worktree.reader import EMPTY_TREE, HashSink, NotCapturable, Worktree, read_until_stable
from casrewind.worktree.spelling import NameSpelling
from support.trees import Dir, Exec, Fifo, Link, Mode, plant


@pytest.fixture
def tree(root):
    with Worktree(str(root)) as opened:
        yield opened


class Sink(HashSink):
    """Calls something while a file is being read, as a writer would come in between."""

    def __init__(self, meanwhile, times=1):
        self._meanwhile, self.left, self.seen = meanwhile, times, []

    def _come_in(self):
        if self.left:
            self.left -= 1
            self._meanwhile()

    def put_file(self, data):
        self.seen.append(data)
        return super().put_file(data)

    def put_stream(self, source, size):
        buffer = memoryview(bytearray(1 << 16))
        first = source.readinto(buffer)
        self._come_in()
        data = bytes(buffer[:first])
        while count := source.readinto(buffer):
            data += buffer[:count]
        return len(data), blake3(data).digest(), b""


def digest(data):
    return blake3(data).digest()


def test_a_file_that_holds_still(tree, root):
    plant(root, {"f": Mode(0o640, b"content")})
    os.utime(root / "f", ns=(0, 123_456_789_012))
    found = tree.capture(b"f", HashSink())
    assert found.stable
    assert found.entry == manifest.Entry(manifest.FILE, 0o640, 7, (root / "f").stat().st_mtime_ns, digest(b"content"))
    assert found.stamp.ino == (root / "f").stat().st_ino


def test_a_large_file_that_changes_once_while_it_is_read_is_read_again(tree, root):
    old, new = b"a" * (2 << 20), b"b" * (2 << 20)
    plant(root, {"f": old})

    def overwrite():
        with open(root / "f", "r+b") as file:
            file.write(new)

    found = tree.capture(b"f", Sink(overwrite))
    assert found.stable
    assert found.entry.digest == digest(new)


@pytest.mark.parametrize("how", ["grows", "shrinks", "same size"])
def test_a_large_file_that_never_holds_still_is_named_unstable(tree, root, how):
    plant(root, {"f": b"a" * (2 << 20)})
    sizes = iter(range(1, 100))

    def change():
        number = next(sizes)
        with open(root / "f", "r+b") as file:
            if how == "grows":
                file.seek(0, os.SEEK_END)
                file.write(b"more")
            elif how == "shrinks":
                file.truncate((2 << 20) - number * 1000)
            else:
                file.write(b"%d" % number)

    found = tree.capture(b"f", Sink(change, times=100))
    assert not found.stable


def test_a_small_file_that_changes_between_the_two_looks_is_read_again(tree, root, monkeypatch):
    plant(root, {"f": b"old"})
    real, came = os.read, []

    def read(fd, size):
        data = real(fd, size)
        if not came:
            came.append(True)
            (root / "f").write_bytes(b"newer")
        return data

    monkeypatch.setattr(os, "read", read)
    sink = Sink(lambda: None)
    found = tree.capture(b"f", sink)
    assert found.stable
    assert found.entry.digest == digest(b"newer")
    assert sink.seen == [b"newer"]  # the torn one went nowhere


def test_a_small_file_that_never_holds_still_is_named_unstable(tree, root, monkeypatch):
    plant(root, {"f": b""})
    real = os.read

    def read(fd, size):
        data = real(fd, size)
        with open(root / "f", "ab") as file:
            file.write(b"x")
        return data

    monkeypatch.setattr(os, "read", read)
    assert not tree.capture(b"f", HashSink()).stable


def test_a_file_that_outgrows_the_border_while_it_is_read_is_not_cut_off(tree, root, monkeypatch):
    plant(root, {"f": b"a" * (manifest.LARGE - 1)})
    whole = b"b" * (manifest.LARGE + 5)
    real, came = os.read, []

    def read(fd, size):
        if not came:
            came.append(True)
            (root / "f").write_bytes(whole)
        return real(fd, size)

    monkeypatch.setattr(os, "read", read)
    found = tree.capture(b"f", HashSink())
    assert found.stable
    assert (found.entry.size, found.entry.digest) == (len(whole), digest(whole))


def test_links_are_read_and_not_followed(tree, root, tmp_path):
    plant(tmp_path, {"secret": b"s", "outside/x": b"s"})
    plant(root, {"l": Link("../secret"), "d": Link("../outside"), "dangling": Link(b"\xff\n"), "real/x": b"r"})
    assert tree.capture(b"l", HashSink()).entry == manifest.link_entry(b"../secret")
    assert tree.capture(b"dangling", HashSink()).entry.target == b"\xff\n"
    assert tree.capture(b"d", HashSink()).entry.kind == "link"
    assert tree.capture(b"d/x", HashSink()) is None  # behind a link is nothing
    assert tree.status_of(b"d/x") is None
    with pytest.raises(OSError, match="Not a directory|Too many levels"):
        tree.open_directory(b"d")
    with pytest.raises(OSError, match="Not a directory|Too many levels"):
        tree.names(b"d")


def test_read_stable_follows_no_link_even_if_the_file_became_one_just_now(tree, root, tmp_path):
    plant(tmp_path, {"secret": b"s"})
    plant(root, {"l": Link("../secret")})
    with pytest.raises(NotCapturable):
        read_until_stable(b"l", tree.fd, HashSink())


def test_fifos_sockets_and_devices_hang_nobody(tree, root):
    plant(root, {"fifo": Fifo()})
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"/proc/self/fd/{tree.fd}/sock")
    try:
        for name in (b"fifo", b"sock"):
            with pytest.raises(NotCapturable):
                tree.capture(name, HashSink())
            with pytest.raises(NotCapturable):
                read_until_stable(name, tree.fd, HashSink())  # even if it became one after it was looked at
    finally:
        listener.close()
    here = os.open("/dev", os.O_RDONLY)
    try:
        with pytest.raises(NotCapturable):
            read_until_stable(b"zero", here, HashSink())
    finally:
        os.close(here)


def test_directories_are_captured_without_what_is_in_them(tree, root):
    plant(root, {"d/x": b"1", "d": Dir(0o750)})
    found = tree.capture(b"d", HashSink())
    assert found.entry == manifest.Entry(manifest.DIR, 0o750, digest=EMPTY_TREE)


def test_what_is_not_there(tree, root):
    plant(root, {"file": b"f"})
    for path in (b"missing", b"missing/x", b"file/x", b"n" * 255 + b"/x"):
        assert tree.capture(path, HashSink()) is None
        assert tree.status_of(path) is None


@pytest.mark.parametrize(
    "path", [b"..", b"../x", b"/etc/passwd", b"a/../b", b"", b"a//b", b".git/config", b"x\0y", b".GIT"]
)
def test_paths_that_may_not_be_touched(tree, path):
    for look in (tree.capture, lambda given, _: tree.status_of(given), lambda given, _: tree.open_parent(given)):
        with pytest.raises(errors.UnsafePath):
            look(path, HashSink())


def test_every_path_is_reached_from_the_descriptor_of_the_root(root, tmp_path):
    """The root's own name may come to mean something else while it is open."""
    plant(root, {"f": b"ours"})
    with Worktree(str(root)) as tree:
        os.rename(root, tmp_path / "moved")
        plant(root, {"f": b"theirs"})
        assert tree.capture(b"f", HashSink()).entry.digest == digest(b"ours")


def test_a_root_that_cannot_be_opened(tmp_path):
    plant(tmp_path, {"file": b""})
    for name in ("missing", "file"):
        with pytest.raises(errors.WorkspaceNotFound):
            Worktree(str(tmp_path / name))


def test_names_are_bytes_and_sorted(tree, root):
    plant(root, {b"\xff": b"", b"b": b"", b"a\n": b"", b"A": b""})
    assert tree.names(b"") == [b"A", b"a\n", b"b", b"\xff"]


def test_spelling_and_names_that_cannot_be(tree, root):
    plant(root, {"Dir/File": b"x"})
    spelling = NameSpelling(tree)
    for path in (b"Dir/File", b"Dir", b"dir/File", b"Dir/file", b"missing/x", b"Dir/File/x"):
        assert spelling.find(path) == path, "as it is spelled, or absent"
    assert tree.allows_name(b"\xff")
    assert tree.allows_name(b"n" * 255)
    assert not tree.allows_name(b"n" * 256)


def test_whether_a_directory_may_be_changed(tree, root):
    plant(root, {"d/x": b"", "file": b"", "l": Link("d"), "run": Exec(b"")})
    assert tree.may_change_names(b"")
    assert tree.may_change_names(b"d")
    for path in (b"file", b"l", b"missing"):
        assert not tree.may_change_names(path)


def test_a_hash_sink_gives_the_digests_that_a_store_would(root):
    data = bytes(range(256)) * 20_000
    plant(root, {"f": data})
    with open(root / "f", "rb", buffering=0) as file:
        assert HashSink().put_stream(file, 0)[:2] == (len(data), digest(data))
    assert HashSink().put_file(data) == HashSink().put_rules(data) == digest(data)
    assert hashlib.sha256(data).digest() != digest(data)


@pytest.fixture(params=[pytest.param("at once", marks=pytest.mark.linux_only("openat2")), "part by part"])
def way_down(request, monkeypatch):
    """How directories are opened: by openat2, and as on a kernel without it."""
    import ctypes  # noqa: F401 - nothing is opened at once by a process that has not loaded it

    if request.param == "part by part":
        monkeypatch.setattr(fsio, "_find_openat2", lambda: None)
    else:
        assert fsio._find_openat2() is not None
    return request.param


def test_a_deep_directory_is_reached_through_no_link(way_down, tree, root, tmp_path):
    """Wherever in the path it is, and wherever it leads: also to a place inside."""
    plant(tmp_path / "outside", {"c/d/secret": b"s"})
    plant(root, {"a/b/c/d/f": b"f", "a/b/inside": Link("c"), "a/out": Link(str(tmp_path / "outside")), "a/file": b"x"})
    with fsio.closing(tree.open_directory(b"a/b/c/d")) as fd:
        assert os.listdir(fd) == ["f"]
        assert os.path.samestat(os.fstat(fd), os.stat(root / "a/b/c/d"))
    for path, error in ((b"a/out/c/d", OSError), (b"a/b/inside/d", OSError), (b"a/b/c/inside", FileNotFoundError),
                        (b"a/file/c/d", NotADirectoryError), (b"a/b/none/d", FileNotFoundError), (b"a/b/c\0/d", ValueError)):  # fmt: skip
        with pytest.raises(error):
            os.close(tree.open_directory(path))
    assert tree.status_of(b"a/out/c/d/secret") is None
    shutil.rmtree(root / "a/b")
    os.symlink(tmp_path / "outside", root / "a/b")
    with pytest.raises(OSError):
        os.close(tree.open_directory(b"a/b/c/d"))
