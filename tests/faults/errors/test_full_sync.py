"""Disks of a Mac that answer a full sync in their own ways. The calls for macOS run here, with answers of the test's own.

Nothing here shows that a full sync makes anything durable: only a Mac could.
"""

import errno
import os
import sys
from collections import Counter
from pathlib import Path

import lmdb
import pytest

from support import fake_libsystem
from support.command_in_process import InProcess
from support.machines import KEY
from support.picture import differences, picture
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the path of a descriptor in /proc")

UNKNOWN, LOST = ("ENOTTY", "ENOTSUP", "EINVAL"), ("EIO", "ENOSPC", "EDQUOT")


class Mac:
    """A full sync and a barrier below a directory have an answer. `counts`: the answered syncs by kind. `volumes`: how a volume was
    synced, each time."""

    def __init__(self, library):
        self.below, self.answer, self.volumes, self.counts = "", 0, [], Counter()
        self._sync_volume = library.do_fsync_volume_np

    def refuse(self, fd):
        if self.answer and os.readlink(f"/proc/self/fd/{fd}").startswith(self.below):
            raise OSError(self.answer, os.strerror(self.answer))

    def sync(self, fd, kind):
        self.refuse(fd)
        self.counts[kind] += 1

    def sync_volume(self, fd, way):
        self.volumes.append(way)
        self.refuse(fd)
        self.counts["volume"] += 1
        return self._sync_volume(fd, way)


@pytest.fixture
def mac(monkeypatch):
    opened = lmdb.open
    with fake_libsystem.installed() as library:
        made = Mac(library)
        library.before_sync = made.sync
        monkeypatch.setattr(library, "do_fsync_volume_np", made.sync_volume)

        def open_index(*arguments, sync=True, **more):
            made.counts["index"] += sync  # it would ask for a full sync at each commit
            return opened(*arguments, sync=sync, **more)

        monkeypatch.setattr(lmdb, "open", open_index)
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
    assert mac.counts["index"] == 0 and (mac.counts["full"] > 0) == (place != "both")
    assert mac.volumes[-2:] == [3, 2] if place != "store" else set(mac.volumes) == {3}


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


SYNCS = {
    "a first save": {"full": 4, "barrier": 4}, "a save": {"full": 1, "barrier": 2}, "a save with nothing changed": {},
    "a restore": {"full": 4, "barrier": 3, "volume": 2}, "an undo": {"full": 4, "barrier": 3, "volume": 2},
    "a gc that forgets and merges": {"full": 2, "barrier": 4}, "a gc with nothing to do": {},
}  # fmt: skip
"""No more, for they take long, and no fewer: no test on Linux would miss one. A full sync of Apple's drives takes
about 4 to 22 ms; docs/internals/durability.md says what each is for."""


def test_each_command_makes_the_full_syncs_that_the_table_says(run, mac):
    found = {}

    def count(what, *arguments):
        mac.counts.clear()
        run(*arguments, code=0)
        found[what] = dict(+mac.counts)

    plant(run.root, {"a": b"1", "d/b": b"2"})
    count("a first save", "save", "-m", "first")
    plant(run.root, {"a": b"one", "c": b"3"})
    count("a save", "save")
    count("a save with nothing changed", "save")
    count("a restore", "restore", "first", "-y")
    count("an undo", "undo", "-y")
    for number in range(9):
        plant(run.root, {"a": os.urandom(20_000), "same": b"%d" % number})
        run("save", code=0)
    count("a gc that forgets and merges", "gc", "--max-count", "1")
    count("a gc with nothing to do", "gc", "--max-count", "1")
    assert found.keys() == SYNCS.keys()
    for what, counts in found.items():
        assert counts == SYNCS[what], what


def test_an_index_that_a_power_cut_left_half_written_is_made_again(run, mac):
    """Nothing synced it: its meta page may be on the disk, and the pages that it leads to may be what was there before."""
    for number in range(10):
        plant(run.root, {f"{number}": os.urandom(900)})
        run("save", code=0)
    listed = run.json("list", "--all")["checkpoints"]
    index, page = Path(run.json("status")["store"], "index"), os.sysconf("SC_PAGE_SIZE")
    data = (index / "data.mdb").read_bytes()
    half = data[: len(data) // 2 // page * page].ljust(len(data), b"\xff")
    (index / "data.mdb").write_bytes(half)
    (index / "written").write_bytes(b" " * 96)
    assert run.json("list", "--all")["checkpoints"] == listed and len(listed) == 10
    assert (index / "data.mdb").read_bytes() != half, "nobody may map it"
    run("verify", code=0)
