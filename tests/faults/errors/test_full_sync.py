"""Disks of a Mac that answer a full sync in their own ways. The calls for macOS run here, with answers of the test's own.

Nothing here shows that a full sync makes anything durable: only a Mac could.
"""

import errno
import os
import sys

import pytest

from support import fake_libsystem
from support.command_in_process import InProcess
from support.machines import KEY
from support.picture import differences, picture
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the path of a descriptor in /proc")

UNKNOWN, LOST = ("ENOTTY", "ENOTSUP", "EINVAL"), ("EIO", "ENOSPC", "EDQUOT")


class Mac:
    """A full sync below a directory has an answer. `volumes`: how a volume was synced, each time."""

    def __init__(self, library):
        self.below, self.answer, self.volumes, self.syncs = "", 0, [], 0
        self._sync_volume = library.do_fsync_volume_np

    def refuse(self, fd):
        if self.answer and os.readlink(f"/proc/self/fd/{fd}").startswith(self.below):
            raise OSError(self.answer, os.strerror(self.answer))

    def full_sync(self, fd):
        self.syncs += 1
        self.refuse(fd)

    def sync_volume(self, fd, way):
        self.volumes.append(way)
        self.refuse(fd)
        return self._sync_volume(fd, way)


@pytest.fixture
def mac(monkeypatch):
    with fake_libsystem.installed() as library:
        made = Mac(library)
        library.before_full_sync = made.full_sync
        monkeypatch.setattr(library, "do_fsync_volume_np", made.sync_volume)
        yield made


@pytest.fixture
def run(tmp_path):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    return InProcess(root, home, CASREWIND_REMOTE_KEY=KEY)


@pytest.mark.parametrize("answer", UNKNOWN)
@pytest.mark.parametrize("place", ["store", "root", "both"])
def test_a_disk_that_knows_no_full_sync_is_synced_otherwise_and_all_goes_on(run, mac, tmp_path, answer, place):
    mac.below = {"store": run.home, "root": str(run.root), "both": str(tmp_path)}[place]
    mac.answer = getattr(errno, answer)
    plant(run.root, {"a": b"1", "d/b": b"2"})
    run("save", "-m", "first", code=0)
    first = picture(run.root)
    plant(run.root, {"a": b"one", "c": b"3"})
    run("save", code=0)
    second = picture(run.root)
    run("restore", "first", "-y", code=0)
    assert not differences(picture(run.root), first)
    run("undo", "-y", code=0)
    assert not differences(picture(run.root), second)
    run("remote", "add", f"file://{tmp_path}/bucket", "--new", code=0)
    run("push", code=0)
    run("gc", code=0)
    run("verify", code=0)
    assert mac.syncs and (mac.volumes[-2:] == [3, 2] if place != "store" else set(mac.volumes) == {3})


@pytest.mark.parametrize("answer", LOST)
def test_a_full_sync_that_may_have_lost_bytes_is_no_success_and_the_restore_can_be_finished_or_taken_back(run, mac, answer):
    plant(run.root, {"a": b"1"})
    run("save", "-m", "first", code=0)
    plant(run.root, {"a": b"one"})
    run("save", code=0)
    for how, wanted in (("--continue", b"1"), ("--abort", b"one")):
        mac.below, mac.answer = str(run.root), getattr(errno, answer)
        failed = run("restore", "first", "-y")
        assert failed.code not in (0, 3) and "restore --continue" in failed.err, failed
        mac.answer = 0
        run("restore", how, "-y", code=0)
        with open(os.path.join(run.root, "a"), "rb") as file:
            assert file.read() == wanted
        if how == "--continue":
            run("undo", "-y", code=0)


def test_a_store_whose_bytes_may_be_lost_makes_no_checkpoint(run, mac):
    plant(run.root, {"a": b"1"})
    run("save", code=0)
    mac.below, mac.answer = run.home, errno.EIO
    plant(run.root, {"a": b"one"})
    assert run("save").code not in (0, 3)
    mac.answer = 0
    assert len(run.json("list", "--all")["checkpoints"]) == 1
