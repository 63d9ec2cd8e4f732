"""gc by itself: started after a save when it is time, by the real program, and never more than one."""

import fcntl
import os
import subprocess
import time

import pytest

from support.command import CONFIG_FILE, Command
from support.trees import plant

MB = 1 << 20


@pytest.fixture
def at(root, home, clock):
    """at("+2d", "save"): the command, with a clock that is off."""
    command = Command(root, home)

    def work(when, *arguments, **more):
        return command(*arguments, **clock(when), **more)

    return work


def last_gc(store):
    """When the last gc was, as it is written down; "" when there was none."""
    place = os.path.join(store, "gc")
    if not os.path.exists(place):
        return ""
    with open(place) as file:
        return file.read()


def wait_for(condition):
    """Until something is so that a process brings about which nobody waits for."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def store_of(command):
    return command.json("status")["store"]


def edit(root, n):
    plant(root, {"a": b"%d" % n})


def test_the_first_saves_of_a_store_start_none(casrewind, root):
    for n in range(3):
        edit(root, n)
        casrewind("save", code=0)
    time.sleep(1)
    assert last_gc(store_of(casrewind)) == ""


def test_a_day_later_a_save_starts_one_and_the_next_save_none(casrewind, at, root):
    edit(root, 1)
    casrewind("save", code=0)
    store = store_of(casrewind)
    edit(root, 2)
    at("+25h", "save", code=0)
    wait_for(lambda: last_gc(store))
    first = last_gc(store)
    edit(root, 3)
    at("+26h", "save", code=0)
    time.sleep(1)
    assert last_gc(store) == first
    edit(root, 4)
    at("+51h", "save", code=0)
    wait_for(lambda: last_gc(store) != first)


def test_it_forgets_what_is_old_and_thins(casrewind, at, root):
    for n in range(14):
        edit(root, n)
        casrewind("save", code=0)
    edit(root, 100)
    at("+9d", "save", code=0)
    wait_for(lambda: len(casrewind.json("list")["checkpoints"]) <= 12)
    left = casrewind.json("list")["checkpoints"]
    assert len(left) in (10, 11)  # the newest ten, and where a new hour began while they were made the newest before it
    assert casrewind.json("verify")["ok"]


@pytest.mark.parametrize("words", [("save",), ("run", "--", "true")])
def test_it_can_be_turned_off(casrewind, at, root, words):
    edit(root, 1)
    casrewind("save", code=0)
    edit(root, 2)
    at("+25h", *words, code=0, CASREWIND_AUTO_GC="false")
    time.sleep(1)
    assert last_gc(store_of(casrewind)) == ""


def test_a_store_that_grows_to_its_budget_is_brought_down(casrewind, root, home):
    plant(home, {CONFIG_FILE: b'[retention]\nmax_size = "24MiB"\n'})
    for n in range(9):
        (root / "artefact").write_bytes(os.urandom(2 * MB))
        casrewind("save", code=0)
    store = store_of(casrewind)
    wait_for(lambda: last_gc(store))
    wait_for(lambda: casrewind.json("status")["store_bytes"] <= 17 * MB)
    assert casrewind.json("list")["checkpoints"][0]["changes"]["modified"] == 1


def test_a_variable_can_keep_more_than_the_file_and_never_less(casrewind, root, home):
    """A hook and its gc have the variables that a project's own settings set."""
    plant(home, {CONFIG_FILE: b"[retention]\nmax_count = 12\n"})
    for n in range(16):
        edit(root, n)
        casrewind("save", code=0)
    lost = {"CASREWIND_MAX_COUNT": "1", "CASREWIND_MAX_AGE": "0s", "CASREWIND_MAX_SIZE": "1KiB", "CASREWIND_THIN": "true"}
    casrewind("gc", "--auto", code=0, CASREWIND_MAX_COUNT="15")
    assert len(casrewind.json("list")["checkpoints"]) == 15
    casrewind("gc", "--auto", code=0, **lost)
    assert len(casrewind.json("list")["checkpoints"]) == 12
    casrewind("gc", code=0, **lost)
    assert len(casrewind.json("list")["checkpoints"]) < 12, "a person who types it has set them"


def test_none_is_started_while_another_is_at_work_and_it_is_tried_again(casrewind, at, root):
    edit(root, 1)
    casrewind("save", code=0)
    store = store_of(casrewind)
    with open(os.path.join(store, "locks", "gc"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        edit(root, 2)
        at("+25h", "save", code=0)
        wait_for(lambda: not of_this_store(root))
        assert last_gc(store) == ""
        assert casrewind("status", code=0).err == ""  # and nothing to tell
    edit(root, 3)
    at("+25h", "save", code=0)
    wait_for(lambda: last_gc(store))


def of_this_store(root):
    """The processes that collect garbage of the project."""
    found = subprocess.run(["pgrep", "-f", "--", f"-C {root} gc --auto"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_what_it_could_not_do_is_told_by_the_next_command_and_not_tried_at_every_save(casrewind, at, root):
    plant(root, {"a": os.urandom(9000)})
    casrewind("save", code=0)
    store = store_of(casrewind)
    pack = os.path.join(store, "packs", os.listdir(os.path.join(store, "packs"))[0])
    with open(pack, "r+b") as file:  # the root's tree, the only one that is no noise, is the last but one of the records
        data = file.read()
        at_tree = data.rfind(b"CRB1", 0, data.rfind(b"CRB1"))
        file.seek(at_tree + 60)
        file.write(bytes(8))
    edit(root, 2)
    at("+25h", "save", code=0)
    wait_for(lambda: last_gc(store))
    told = at("+25h", "status", code=0).err
    assert "automatic gc: nothing was swept, because the store is damaged" in told
    assert at("+25h", "status", code=0).err == ""
    before = last_gc(store)
    edit(root, 3)
    at("+26h", "save", code=0)
    time.sleep(1)
    assert last_gc(store) == before


def test_a_budget_that_cannot_be_kept_is_told_once_and_by_status(casrewind, root, home):
    plant(home, {CONFIG_FILE: b'[retention]\nmax_size = "8MiB"\n'})
    for n in range(4):
        (root / "artefact").write_bytes(os.urandom(3 * MB))
        casrewind("save", "--pin", code=0)
    store = store_of(casrewind)
    wait_for(lambda: last_gc(store).split()[-1:] > ["0"])
    for n in range(3):
        (root / "artefact").write_bytes(os.urandom(3 * MB))
        casrewind("-q", "save", code=0)
    found = casrewind("status", code=0)
    assert "cannot be kept to its budget of 8,388,608 bytes" in found.out
    assert "cannot be kept to its budget" in casrewind("doctor").out
    assert casrewind("status", code=0).err == ""


def test_it_does_not_change_what_a_killed_one_left(casrewind, at, root):
    for n in range(30):
        plant(root, {"a": os.urandom(20_000)})
        casrewind("save", code=0)
    points = casrewind.json("list")["checkpoints"]
    for _ in range(3):
        edit(root, 1)
        at("+25h", "save", "-m", "x", code=0)
        subprocess.run(["pkill", "-9", "-f", "--", f"-C {root} gc --auto"], check=False)
        assert casrewind.json("verify")["ok"]
    kept = {point["id"] for point in casrewind.json("list")["checkpoints"]}
    assert {point["id"] for point in points[:7]} <= kept  # with the three above them: the ten that stay, if one got to its end
