"""Renames that lose nothing: exchange, rename only where nothing stands, and what stands in for both."""

import ctypes
import errno
import os

import pytest

from casrewind.worktree import safe_rename
from support.picture import picture
from support.trees import Dir, Link, plant


def no_call(monkeypatch):
    monkeypatch.setattr(safe_rename, "_CALL", None)


def unsupported(number):
    def patch(monkeypatch):
        def call(*_):
            ctypes.set_errno(number)
            return -1

        monkeypatch.setattr(safe_rename, "_CALL", call)

    return patch


def as_musl(monkeypatch):
    """The C library as on Alpine: it has `syscall` and no `renameat2`. The kernel below is the real one."""
    load = ctypes.CDLL

    class Musl:
        def __init__(self, *arguments, **options):
            self._real = load(*arguments, **options)

        def __getattr__(self, name):
            if name == "renameat2":
                raise AttributeError(name)
            return getattr(self._real, name)

    monkeypatch.setattr(ctypes, "CDLL", Musl)
    call = safe_rename._find_system_call()
    monkeypatch.setattr(ctypes, "CDLL", load)
    for name, value in zip(("_CALL", "_EXCHANGE", "_NOREPLACE"), call):
        monkeypatch.setattr(safe_rename, name, value)


def as_musl_on_an_old_kernel(monkeypatch):
    """The same, and the real kernel does not know the number."""
    monkeypatch.setattr(safe_rename, "_NUMBERS", dict.fromkeys(safe_rename._NUMBERS, 9999))
    as_musl(monkeypatch)
    assert safe_rename._CALL(0, b"a", 0, b"b", 1) == -1 and ctypes.get_errno() == errno.ENOSYS


def as_musl_on_another_machine(monkeypatch):
    """The same, on a machine whose number of the call is not known here."""
    monkeypatch.setattr(safe_rename, "_NUMBERS", {})
    as_musl(monkeypatch)


def no_links(monkeypatch):
    no_call(monkeypatch)

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


WAYS = {
    "the system's call": lambda monkeypatch: None,
    "the call by its number": as_musl,
    "no such number": as_musl_on_an_old_kernel,
    "no number": as_musl_on_another_machine,
    "no such call": no_call,
    "EINVAL": unsupported(errno.EINVAL),
    "ENOSYS": unsupported(errno.ENOSYS),
    "ENOTSUP": unsupported(errno.ENOTSUP),
    "no hard links either": no_links,
}
KINDS = {"file": b"1", "link": Link("nowhere"), "directory": Dir(), "full directory": {"x": b"x"}}


ATOMIC = ("the system's call", "the call by its number")


OF_LINUX = pytest.mark.linux_only("a C library without renameat2")


@pytest.fixture(params=[pytest.param(way, marks=OF_LINUX if "number" in way else (), id=way) for way in WAYS])
def way(request, monkeypatch):
    if "number" in request.param and os.uname().machine not in safe_rename._NUMBERS:
        pytest.skip("renameat2 has a number on Linux, and is not made by its number on this machine")
    WAYS[request.param](monkeypatch)
    return request.param


@pytest.fixture
def here(root):
    fd = os.open(root, os.O_RDONLY)
    yield fd
    os.close(fd)


def make(root, name, kind):
    what = KINDS[kind]
    plant(root, {f"{name}/{inner}": data for inner, data in what.items()} if isinstance(what, dict) else {name: what})


@pytest.mark.parametrize("kind", KINDS)
def test_rename_where_nothing_stands(way, root, here, kind):
    make(root, "a", kind)
    before = picture(root, inodes=True)
    safe_rename.rename_without_replacing(here, b"a", b"b")
    after = picture(root, inodes=True)
    assert {b"b" + path[1:]: entry[:1] for path, entry in before.items()} == {
        path: entry[:1] for path, entry in after.items()
    }
    assert after[b"b"][-2] == before[b"a"][-2]  # the very same inode: nothing was copied


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("there", KINDS)
def test_rename_where_something_stands_changes_nothing(way, root, here, kind, there):
    make(root, "a", kind)
    make(root, "b", there)
    before = picture(root, mtimes=True, inodes=True)
    with pytest.raises(FileExistsError):
        safe_rename.rename_without_replacing(here, b"a", b"b")
    assert picture(root, mtimes=True, inodes=True) == before


def test_rename_of_what_is_not_there(way, here):
    with pytest.raises(FileNotFoundError):
        safe_rename.rename_without_replacing(here, b"missing", b"b")
    assert os.listdir(here) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("there", KINDS)
def test_exchange_trades_names_or_says_that_it_cannot(way, root, here, kind, there):
    make(root, "a", kind)
    make(root, "b", there)
    inodes = os.lstat(root / "a").st_ino, os.lstat(root / "b").st_ino
    traded = safe_rename.exchange_names(here, b"a", b"b")
    assert traded == (way in ATOMIC)
    now = os.lstat(root / "a").st_ino, os.lstat(root / "b").st_ino
    assert now == (inodes[::-1] if traded else inodes)


def test_exchange_with_nothing(root, here):
    plant(root, {"a": b"1"})
    for pair in ((b"a", b"missing"), (b"missing", b"a")):
        with pytest.raises(FileNotFoundError):
            safe_rename.exchange_names(here, *pair)
    assert os.listdir(root) == ["a"]


def test_an_error_that_means_something_else_is_raised(monkeypatch, root, here):
    plant(root, {"a": b"1"})
    for number in (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES):
        unsupported(number)(monkeypatch)
        with pytest.raises(OSError) as caught:
            safe_rename.rename_without_replacing(here, b"a", b"b")
        assert caught.value.errno == number
    assert os.listdir(root) == ["a"]


def test_a_link_is_renamed_and_not_what_it_points_to(way, root, here):
    plant(root, {"target": b"t", "a": Link("target")})
    safe_rename.rename_without_replacing(here, b"a", b"b")
    assert os.readlink(root / "b") == "target"
    assert (root / "target").read_bytes() == b"t"


def test_what_a_name_would_meet(root, here):
    plant(root, {"a": b"1", "b": b"1"})
    os.link(root / "a", root / "same")
    assert safe_rename.is_free_or_same(here, b"a", b"free")
    assert safe_rename.is_free_or_same(here, b"a", b"same")
    assert not safe_rename.is_free_or_same(here, b"a", b"b")
