"""What is in a store's place that should be a file: nobody waits for it, and the index is made anew."""

import os
import shutil
import socket
import subprocess
import sys

import pytest

from casrewind import errors
from casrewind.workspace import Workspace
from support.fake_client import Client
from support.picture import differences, picture
from support.trees import plant

LONG = pytest.mark.long
INDEX = ["index/data.mdb", "index/written", "index"]
OTHERS = ["FORMAT", "ledger", "locks/publish", "locks/index", "packs", "journals", "tmp", "sessions", "session.json", "log", "log.seen"]
REMOVER = """
import random, subprocess, sys, time
chance = random.Random(7)
for _ in range(int(sys.argv[2])):
    subprocess.run(["rm", "-r", sys.argv[1]], stderr=subprocess.DEVNULL)
    time.sleep(chance.random() * 0.04)
"""


@pytest.fixture
def casrewind(process):
    """The command in a process of its own: it may use up its memory or its time."""
    return process


@pytest.fixture
def store(casrewind, root, workspace):
    plant(root, {"a": b"1", "d/b": b"2"})
    workspace.save("first", pin=True)
    return workspace.store_path


def put(path, kind):
    """Put something at a path in place of what is there."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "endless":
        os.symlink("/dev/zero", path)
    elif kind == "directory":
        os.mkdir(path)
    else:
        here = os.open(os.path.dirname(path), os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")
        os.close(here)


@pytest.mark.parametrize("kind", ["fifo", "endless", *[pytest.param(kind, marks=LONG) for kind in ("directory", "socket")]])
@pytest.mark.parametrize("name", INDEX)
def test_an_index_with_something_else_in_it_is_made_anew(casrewind, root, store, name, kind):
    put(os.path.join(store, name), kind)
    plant(root, {"a": b"new"})
    casrewind("save", "-m", "second", code=0, timeout=25)
    for part in INDEX:
        assert not os.path.islink(os.path.join(store, part))
    assert os.path.isfile(os.path.join(store, "index/data.mdb"))
    assert [point["label"] for point in casrewind.json("list", timeout=25)["checkpoints"]] == ["second", "first"]


@pytest.mark.parametrize("kind", ["fifo", *[pytest.param(kind, marks=LONG) for kind in ("endless", "directory", "socket")]])
@pytest.mark.parametrize("name", OTHERS)
def test_nobody_waits_for_what_is_no_file(casrewind, root, store, name, kind):
    """A command does its work, or names what it cannot use."""
    if name == "packs" and kind == "directory":
        pytest.skip("what should be there is a directory")
    put(os.path.join(store, name), kind)
    plant(root, {"a": b"new"})
    before = picture(root)
    for command in (["save", "-m", "second"], ["restore", "first", "-y"]):
        done = casrewind(*command, timeout=25)
        assert done.code in (0, 1, 12, 14, 20), done
        if done.code:
            assert name.partition("/")[0] in done.err, done
            assert not differences(picture(root), before)


def test_a_data_file_that_is_far_too_long_is_not_read(casrewind, store):
    before = casrewind("list", "--json", "--all", code=0).out
    try:
        os.truncate(os.path.join(store, "index/data.mdb"), 1 << 40)
    except OSError:
        pytest.skip("this file system has no such long files")
    assert casrewind("list", "--json", "--all", code=0, timeout=100).out == before


@pytest.mark.parametrize("name", ["index/data.mdb", pytest.param("index/written", marks=LONG)])
def test_a_hook_makes_its_checkpoint_all_the_same(casrewind, root, store, name):
    client = Client(casrewind, root)
    put(os.path.join(store, name), "fifo")
    plant(root, {"a": b"new"})
    client.send(client.payload("Stop.plain"))
    client.wait_for(2)


@pytest.mark.parametrize("name", ["log", "log.seen"])
def test_a_log_that_is_a_fifo_keeps_nobody_waiting(tmp_path, name):
    put(tmp_path / name, "fifo")
    script = "import sys; from casrewind.store.failure_log import FailureLog; log = FailureLog(sys.argv[1]); log.append_line('x'); print(log.take_unseen_lines())"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=25, check=True)
    assert (b"x" in done.stdout) == (name == "log.seen")


def test_an_index_that_is_removed_again_and_again_is_no_damage(casrewind, root, settings, store):
    index = os.path.join(store, "index")
    with subprocess.Popen([sys.executable, "-c", REMOVER, index, "120"]) as remover, Workspace(str(root), settings, create=True) as one:
        rounds = 0
        while remover.poll() is None:
            rounds += 1
            plant(root, {"a": b"%d" % rounds, f"new{rounds % 7}": b"x"})
            there = picture(root)
            saved = one.save(f"round {rounds}").checkpoint
            plant(root, {"a": b"edited"})
            one.restore(saved)
            assert not differences(picture(root), there)
            with Workspace(str(root), settings, create=False) as other:
                assert other.checkpoint("last").id == saved.id
    assert casrewind.json("verify")["ok"]
    assert len([point for point in casrewind.json("list")["checkpoints"]]) >= rounds


def test_an_index_that_cannot_be_kept_is_not_called_damage(root, settings, store, monkeypatch):
    """Whoever removes it is faster every time: an error that says so, and no damage."""
    from casrewind.store.index import Index

    made = Index._create_empty_data_file

    def gone(self):
        made(self)
        shutil.rmtree(os.path.join(store, "index"))

    with Workspace(str(root), settings._replace(deadline=0.5), create=True) as workspace:
        shutil.rmtree(os.path.join(store, "index"))
        monkeypatch.setattr(Index, "_create_empty_data_file", gone)
        with pytest.raises(errors.StoreBusy, match="removed again and again"):
            workspace.checkpoints()
