"""What macOS alone has, as the bytes that its library answers. Nothing here shows that a Mac answers so."""

import ctypes
import errno
import os
import subprocess
import sys

import pytest

from casrewind import fsio, libsystem, locations
from casrewind.worktree import root, safe_rename
from support import fake_libsystem
from support.fake_libsystem import CAROL, EVERYONE, HANDS_DOWN
from support.picture import picture
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux answers for the Mac's library")

NODE = bytes(16) + bytes.fromhex("8a330000") + bytes(28) + b"node".ljust(16, b"\0") + b"x" * 56 + bytes.fromhex("e7ab526700000000" "39300c0000000000")
"""proc_bsdinfo of a process "node": its parent is 13194 (at byte 16), its name at 48, its start at 120 and 128."""


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_process_s_parent_name_and_start_stand_where_the_header_says(mac, monkeypatch):
    def answer(fake, pid, flavor, argument, buffer, size):
        assert (pid, flavor, argument, size) == (13215, 3, 0, 136)
        ctypes.memmove(buffer, NODE, 136)
        return 136

    assert len(NODE) == 136
    monkeypatch.setattr(fake_libsystem.FakeLibSystem, "do_proc_pidinfo", answer)
    assert libsystem.process_info(13215) == (13194, b"node", "1733471207.798777")


def test_of_another_user_s_process_all_is_told_but_its_start(mac, sleeper):
    mac.of_others.add(sleeper.pid)
    assert libsystem.process_info(sleeper.pid) == (os.getpid(), b"sleep", "")
    mac.hidden_by_sandbox.add(sleeper.pid)
    with pytest.raises(PermissionError):
        libsystem.process_info(sleeper.pid)


@pytest.mark.parametrize("pid", [0, -1, 1 << 32, (1 << 32) + 1, 10**30])
def test_a_number_that_no_process_can_have_is_not_taken_for_another(mac, pid):
    with pytest.raises(ProcessLookupError):
        libsystem.process_info(pid)
    assert not mac.calls


def test_an_answer_of_another_length_is_none(mac, monkeypatch):
    monkeypatch.setattr(fake_libsystem.FakeLibSystem, "do_proc_pidinfo", lambda *_: 64)
    with pytest.raises(OSError):
        libsystem.process_info(os.getpid())


@pytest.mark.parametrize("name", ["getfsstat$INODE64", "getfsstat"])
def test_mounts_are_listed_by_either_name_of_the_call(mac, monkeypatch, name):
    """On Apple silicon the call has its plain name alone."""
    monkeypatch.setitem(fake_libsystem.HEADERS, "getfsstat", fake_libsystem.HEADERS["getfsstat$INODE64"])
    mac.lacks = {"getfsstat$INODE64", "getfsstat"} - {name}
    mac.volumes += [(b"/Volumes/a b", b"exfat"), *((b"/Volumes/%d" % number, b"smbfs") for number in range(40))]
    found = locations.mounts()
    assert [(mount.point, mount.kind) for mount in found[:2]] == [(b"/", "apfs"), (b"/Volumes/a b", "exfat")] and len(found) == 42


def test_a_mount_that_comes_while_the_list_is_read_is_no_end_of_the_list(mac, monkeypatch):
    ask = fake_libsystem.FakeLibSystem.do_getfsstat

    def late(fake, buffer, size, flags):
        answer = ask(fake, buffer, size, flags)
        if len(fake.volumes) < 30:
            fake.volumes += [(b"/Volumes/%d" % len(fake.volumes), b"hfs")] * 15
        return answer

    monkeypatch.setattr(fake_libsystem.FakeLibSystem, "do_getfsstat", late)
    assert len(locations.mounts()) == 31


def test_a_path_s_file_system_is_that_of_the_nearest_mount(mac, tmp_path):
    mac.volumes += [(os.fsencode(tmp_path), b"smbfs"), (os.fsencode(tmp_path / "in"), b"apfs")]
    (tmp_path / "in").mkdir()
    assert [locations.file_system_type(str(path)) for path in (tmp_path / "x", tmp_path / "in" / "x", "/")] == ["smbfs", "apfs", "apfs"]
    mac.refuse["getfsstat$INODE64"] = errno.EPERM
    assert locations.mounts() == [] and locations.file_system_type("/") == ""


def test_a_mount_below_a_root_is_found_though_its_device_is_the_root_s(mac, tmp_path):
    (tmp_path / "mount").mkdir()
    mac.volumes += [(os.fsencode(tmp_path / "mount"), b"apfs"), (os.fsencode(f"{tmp_path}-beside"), b"apfs")]
    with fsio.closing(os.open(tmp_path, os.O_RDONLY)) as fd:
        assert root.mounts_below(str(tmp_path), fd).points == {b"mount"}


def test_a_boot_is_told_from_the_next(mac, tmp_path):
    with fsio.closing(os.open(tmp_path, os.O_RDONLY)) as fd:
        first = root.life_of_file_system(fd)
        assert first.startswith(fake_libsystem.BOOT + b" ") and root.life_of_file_system(fd) == first
        mac.boot = mac.boot[:-1] + b"4"
        assert root.life_of_file_system(fd) not in (first, b"")
        for boot in (b"", mac.boot + b"0"):
            mac.boot = boot
            assert root.life_of_file_system(fd) == b""
        mac.refuse["sysctlbyname"] = errno.EPERM
        assert root.life_of_file_system(fd) == b""


def test_a_function_that_this_macos_lacks_is_an_error_and_no_crash(mac, tmp_path):
    mac.lacks = set(fake_libsystem.HEADERS)
    libsystem.find_function.cache_clear()
    with fsio.closing(os.open(tmp_path, os.O_RDONLY)) as fd:
        for call in (libsystem.mounts, lambda: libsystem.process_info(os.getpid()), lambda: libsystem.read_acl(fd), lambda: libsystem.sync_volume(fd, 3)):
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.ENOSYS
        assert locations.mounts() == [] and root.life_of_file_system(fd) == b"" and safe_rename._find_system_call() == (None, 0, 0)
        fsio.sync_tree(fd)


def test_names_are_exchanged_and_not_replaced(mac, tmp_path):
    plant(tmp_path, {"a": b"1", "b": b"2"})
    with fsio.closing(os.open(tmp_path, os.O_RDONLY)) as fd:
        assert safe_rename.exchange_names(fd, b"a", b"b")
        assert (tmp_path / "a").read_bytes() == b"2"
        before = picture(tmp_path, inodes=True)
        with pytest.raises(FileExistsError):
            safe_rename.rename_without_replacing(fd, b"a", b"b")
        assert picture(tmp_path, inodes=True) == before
        safe_rename.rename_without_replacing(fd, b"a", b"c")
    assert [given[4] for name, given in mac.calls if name == "renameatx_np"] == [2, 4, 4]


def test_an_acl_is_read_set_and_taken_away_also_an_inherited_one(mac, tmp_path):
    os.setxattr(tmp_path, HANDS_DOWN, EVERYONE)
    plant(tmp_path, {"a": b"", "b": b""})
    with fsio.closing(os.open(tmp_path / "a", os.O_RDWR)) as a, fsio.closing(os.open(tmp_path / "b", os.O_RDWR)) as b:
        assert libsystem.read_acl(a)[44:] == EVERYONE
        os.setxattr(a, fake_libsystem.ACL, CAROL + EVERYONE)
        libsystem.set_acl(b, libsystem.read_acl(a))
        assert libsystem.read_acl(b)[44:] == CAROL + EVERYONE
        libsystem.set_acl(b, b"")
        assert libsystem.read_acl(b) == b"" and libsystem.read_acl(a) != b""
        before = mac.count("acl_set_fd")
        libsystem.set_acl(b, b"")
        assert mac.count("acl_set_fd") == before, "what has none is not touched"


def test_an_acl_that_did_not_take_is_an_error(mac, tmp_path, monkeypatch):
    os.setxattr(tmp_path, HANDS_DOWN, EVERYONE)
    plant(tmp_path, {"a": b""})
    with fsio.closing(os.open(tmp_path / "a", os.O_RDWR)) as fd:
        monkeypatch.setattr(fake_libsystem.FakeLibSystem, "do_acl_set_fd", lambda *_: 0)
        with pytest.raises(OSError, match="not supported"):
            libsystem.set_acl(fd, b"")


def test_a_file_system_without_acls_has_none_to_take_away(mac, tmp_path):
    plant(tmp_path, {"a": b""})
    with fsio.closing(os.open(tmp_path / "a", os.O_RDWR)) as fd:
        mac.refuse["acl_get_fd"] = errno.ENOTSUP
        libsystem.set_acl(fd, b"")
        mac.refuse["acl_get_fd"] = errno.EIO
        with pytest.raises(OSError):
            libsystem.set_acl(fd, b"")
