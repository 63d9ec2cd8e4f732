"""A look ahead of all else: its answers are those of a look in its place, and it is believed only where that is certain."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from casrewind import Workspace
from casrewind.settings import looking_ahead
from casrewind.store import roll
from casrewind.worktree import ahead as aheads
from casrewind.worktree import sheet as sheets
from casrewind.worktree import sheetmaker
from support.command import Command
from support.scanner import Scanner, settle
from support.trees import plant

SMALL = {f"d{n}/f{m}": b"1" for n in range(8) for m in range(90)}
"""Three shares."""


@pytest.fixture
def scan(root):
    plant(root, SMALL)
    settle()
    found = Scanner(root, paged=True)
    found()
    return found


def pages(scan):
    data = sheetmaker.build(scan.memory.get)
    return sheets.Sheet(data, ()), sheets.names(data)


def compared(scan, ahead, processes=1):
    """Which directories may be taken from the sheet, and which files this process has looked at itself."""
    sheet, _ = pages(scan)
    own, real = [], sheet._moved

    def moved(fd, start, end):
        own.extend(range(start, end))
        return real(fd, start, end)

    sheet._moved = moved
    fd = os.open(scan.root, os.O_RDONLY)
    try:
        sheet.look(fd, os.fstat(fd).st_dev, (), ahead=ahead, processes=processes)
    finally:
        os.close(fd)
    digest = scan.rules()
    return {path for n in range(8) if sheet.take(path := b"d%d" % n, digest)}, own


def wait_until_done(ahead):
    """Wait until the fork has taken every share, and told of them as far as a pipe holds it."""
    import select

    assert select.select([ahead._reader], [], [], 60)[0]


def change(root, path, how):
    place = root / path
    if how == "edit":
        place.write_bytes(b"22")
    elif how == "mode":
        os.chmod(place, 0o600)
    else:
        place.unlink()
        if how == "link":
            place.symlink_to("f1")
        elif how == "directory":
            place.mkdir()


@pytest.mark.parametrize("seed", range(6))
def test_it_says_what_a_look_in_its_place_says(scan, root, seed):
    chance = random.Random(seed)
    for path in chance.sample(sorted(SMALL), 4):
        change(root, path, chance.choice(["edit", "mode", "gone", "link", "directory"]))
    plain, _ = compared(scan, None)
    ahead = aheads.Ahead(str(root), pages(scan)[1])
    try:
        wait_until_done(ahead)
        assert compared(scan, ahead) == (plain, [])
    finally:
        ahead.close()
    assert plain and len(plain) < 8


def test_what_it_has_not_taken_is_looked_at_here(scan, root, monkeypatch):
    change(root, "d0/f0", "edit")
    change(root, "d7/f89", "edit")
    here, real = os.getpid(), os.read

    def read(fd, size):
        if os.getpid() != here and reads.pop(0) == "waits":
            time.sleep(60)
        return real(fd, size)

    reads = ["takes", "waits"]
    monkeypatch.setattr(os, "read", read)
    ahead = aheads.Ahead(str(root), pages(scan)[1])
    time.sleep(0.3)  # it has the first share, and tells of nothing: it is not waited for if it is killed
    os.kill(ahead._pid, 9)
    try:
        assert compared(scan, ahead)[0] == {b"d%d" % n for n in range(1, 7)}
    finally:
        ahead.close()


@pytest.mark.parametrize("said", ["nothing", "half", "garbage"])
def test_a_fork_that_dies_or_talks_nonsense_costs_a_look_and_nothing_else(scan, root, monkeypatch, said):
    change(root, "d3/f5", "edit")
    real = aheads._look

    def look(*given):
        data = real(*given)
        return {"nothing": b"", "half": data[: len(data) // 2], "garbage": bytes(len(data) - 4) + b"end!"}[said]

    monkeypatch.setattr(aheads, "_look", look)
    ahead = aheads.Ahead(str(root), pages(scan)[1])
    try:
        taken, own = compared(scan, ahead)
        assert taken == {b"d%d" % n for n in range(8) if n != 3} and set(own) >= set(range(len(SMALL)))
    finally:
        ahead.close()


@pytest.mark.parametrize("which", ["ahead", "aside"])
def test_a_fork_that_is_stopped_is_not_waited_for(scan, root, monkeypatch, which):
    change(root, "d3/f5", "edit")
    here, real = os.getpid(), os.read
    pids = []

    def read(fd, size):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGSTOP)
        return real(fd, size)

    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: pids.append(pid := fork()) or pid)
    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(sheets, "_WORTH_A_FORK", 1)
    ahead = aheads.Ahead(str(root), pages(scan)[1]) if which == "ahead" else None
    try:
        taken, _ = compared(scan, ahead, processes=2)
    finally:
        if ahead is not None:
            ahead.close()
    assert taken == {b"d%d" % n for n in range(8) if n != 3}
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_it_is_good_for_one_look_and_for_a_short_while(scan, root, monkeypatch):
    names = pages(scan)[1]
    ahead = aheads.Ahead(str(root), names)
    wait_until_done(ahead)
    compared(scan, ahead)
    change(root, "d1/f1", "edit")
    assert b"d1" not in compared(scan, ahead)[0]
    ahead.close()
    late = aheads.Ahead(str(root), names)
    wait_until_done(late)
    change(root, "d2/f1", "edit")
    monkeypatch.setattr(aheads, "_FRESH", 0.0)
    assert b"d2" not in compared(scan, late)[0]
    late.close()


def test_it_serves_neither_other_names_nor_another_root(scan, root):
    names = pages(scan)[1]
    change(root, "d4/f0", "edit")
    for wrong in (names[:-1], names + b"\0d9/x", names.replace(b"d4/f0", b"d4/f1"), b""):
        ahead = aheads.Ahead(str(root), wrong)
        assert b"d4" not in compared(scan, ahead)[0]
        ahead.close()
    twin = root.parent / "twin"
    shutil.copytree(root, twin, symlinks=True)
    ahead = aheads.Ahead(str(twin), names)
    wait_until_done(ahead)
    taken, own = compared(scan, ahead)
    assert taken == {b"d%d" % n for n in range(8) if n != 4} and set(own) >= set(range(len(SMALL)))
    ahead.close()


def test_it_lets_go_of_everything(scan, root):
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        ahead = aheads.Ahead(str(root), pages(scan)[1])
        pid = ahead._pid
        ahead.close()
        ahead.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert set(os.listdir("/proc/self/fd")) == before


MANY = {f"d{n}/f{m}": b"%d" % m for n in range(30) for m in range(80)}


@pytest.fixture
def many(root, settings):
    """A project that is large enough, saved so that its sheet and its roll are there."""
    plant(root, MANY)
    settle()
    settings = settings._replace(processes=2)
    with Workspace(str(root), settings, create=True) as workspace:
        workspace.save()
    return settings


def roll_of(root, settings):
    """(path of the roll, what it says)."""
    with Workspace(str(root), settings, create=False) as workspace:
        index = os.path.join(workspace.store_path, "index")
        (name,) = [name for name in os.listdir(index) if name.startswith("roll-")]
        return Path(index, name), roll.read(workspace.store_path, workspace.root.key)


def test_a_save_finds_by_it_what_was_edited(root, many, monkeypatch):
    _, names = roll_of(root, many)
    assert set(names.decode().split("\0")) == set(MANY)
    (root / "d7" / "f3").write_bytes(b"edited")
    (root / "d9" / "f4").unlink()
    looked = []
    real = sheets.Sheet._moved
    monkeypatch.setattr(sheets.Sheet, "_moved", lambda self, *given: looked.append(given) or real(self, *given))
    with looking_ahead(str(root), many) as ahead:
        wait_until_done(ahead)
        with Workspace(str(root), many, create=False, ahead=ahead) as workspace:
            changes = workspace.save().changes
    assert looked == [] and sum(changes) == 2


@pytest.mark.parametrize("roll_is", ["gone", "garbage", "other names", "huge", "a fifo", "a directory", "a link", "secret"])
def test_a_roll_that_is_wrong_changes_nothing(root, home, many, roll_is):
    place, names = roll_of(root, many)
    place.unlink()
    if roll_is == "garbage":
        place.write_bytes(os.urandom(50_000))
    elif roll_is == "other names":
        place.write_bytes(names.replace(b"f3\0", b"f4\0"))
    elif roll_is == "huge":
        place.write_bytes(bytes(roll.MOST * 3))
    elif roll_is == "a fifo":
        os.mkfifo(place)
    elif roll_is == "a directory":
        os.mkdir(place)
    elif roll_is == "a link":
        os.symlink("/dev/zero", place)
    elif roll_is == "secret":
        place.write_bytes(names)
        os.chmod(place, 0)
    (root / "d7" / "f3").write_bytes(b"edited")
    command = Command(root, home)
    done = command("save", "-m", "x")
    assert (done.code, done.err) == (0, ""), done
    assert "d7/f3" in command("diff", "prev", "last").out
