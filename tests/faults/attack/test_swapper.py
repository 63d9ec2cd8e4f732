"""A directory and a link that leads out of the project trade names all the time while casrewind works.

Nothing outside may be changed, removed or stored. It is a race: the test shows no more than that some seconds of it
went well, and (by its own figures) that the race was on.
"""

import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.store import packs
from casrewind.workspace import Settings, Workspace
from support.picture import picture
from support.store_checks import leftovers, read_everything
from support.trees import Link, plant

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECRET = b"OUTSIDE-AND-NOBODY'S-BUSINESS"
INSIDE = {f"sub/{place}{n}": b"inside %d\n" % n for n in range(12) for place in ("f", "deep/g")}
NEWER = {f"sub/{place}{n}": b"newer %d\n" % n for n in range(12) for place in ("f", "h/i")}
OUTSIDE = {name.removeprefix("sub/"): SECRET + b" %d\n" % n for n, name in enumerate([*INSIDE, *NEWER])}


@contextmanager
def swapping(root):
    """start(how), hold(work), stop(): `work` is done while no names are exchanged; how often they were is what stop gives."""
    if not sys.platform.startswith("linux"):
        pytest.skip("names are exchanged with Linux's renameat2")
    process = None

    def start(how):
        nonlocal process
        process = subprocess.Popen(
            [sys.executable, "-m", "support.race_swapper", str(root), "sub", "link", how],
            stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], "PYTHONPATH": TESTS},
        )  # fmt: skip
        if process.stdout.readline() != b"swapping\n":
            pytest.skip("names cannot be exchanged here")

    def hold(work):
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        work()
        process.send_signal(signal.SIGCONT)

    def stop():
        process.send_signal(signal.SIGTERM)
        return int(process.communicate(timeout=60)[0])

    try:
        yield start, hold, stop
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            process.communicate()


@pytest.fixture
def swapper(root):
    with swapping(root) as found:
        yield found


def blobs(workspace):
    """Every blob in the store, whether anything names it or not."""
    reader = packs.PackReader(f"{workspace.store_path}/packs")
    try:
        for name in packs.pack_names(f"{workspace.store_path}/packs"):
            for digest, place in packs.records_of_pack(f"{workspace.store_path}/packs", name):
                yield reader.read(place, digest)
    finally:
        reader.close()


def race(workspace, root, outside, swapper, goes_on, how="", works=("save", "restore", "undo")):
    """Rounds of `works` while `goes_on(number)`; what came of each. After a refusal the tree is put in order by hand."""

    def put_in_order():
        for name in ("sub", "link"):
            if os.path.islink(root / name) or os.path.isfile(root / name):
                os.unlink(root / name)
            elif os.path.isdir(root / name):
                shutil.rmtree(root / name)
        plant(root, {**NEWER, "link": Link(os.path.relpath(outside, root))})

    plant(outside, OUTSIDE)
    before = picture(outside, inodes=True)
    plant(root, {**INSIDE, "link": Link(os.path.relpath(outside, root)), "file": b"one"})
    one = workspace.save("one").checkpoint
    plant(root, {**NEWER, "file": b"two"})
    for n in range(12):
        os.unlink(root / f"sub/deep/g{n}")
    two = workspace.save("two").checkpoint
    tally, number = collections.Counter(), 0
    inside = os.open(root / "sub", os.O_RDONLY | os.O_DIRECTORY)
    start, hold, stop = swapper
    start(how)
    while goes_on(number):
        plant(root, {"file": b"edit %d" % number})
        for n in range(12 if works == ("save",) else 0):  # there is something to read below
            file = os.open(f"f{n}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=inside)
            os.write(file, b"edit %d\n" % (number + n))
            os.close(file)
        for name in works:
            work = {"save": workspace.save, "undo": workspace.undo, "restore": lambda: workspace.restore((one, two)[number % 2])}[name]
            try:
                done = work()
                tally[name + (" with kept paths" if name != "save" and done.incomplete else "")] += 1
            except errors.CasrewindError as error:
                tally[f"{name}: {type(error).__name__}"] += 1
                if isinstance(error, errors.ContentInTheWay):
                    hold(put_in_order)
            if workspace.is_interrupted():
                for way in (number % 2 == 0, number % 2 == 1):
                    try:
                        workspace.finish_restore(forward=way)
                        tally["resumed"] += 1
                        break
                    except errors.CasrewindError as error:
                        tally[f"resume: {type(error).__name__}"] += 1
        number += 1
    tally["rounds"], tally["names exchanged"] = number, stop()
    os.close(inside)
    assert picture(outside, inodes=True) == before
    assert not [blob for blob in blobs(workspace) if SECRET in blob]
    if workspace.is_interrupted():
        workspace.finish_restore(forward=False)
    assert not workspace.is_interrupted()
    read_everything(workspace)
    tally["temporary files left"] = sum(b".casrewind-tmp-" in name for name in leftovers(root))
    return tally


def hits(tally, work="restore"):
    """How often the swapper met this work: it was refused, or it stopped in its middle, or it named paths that it had to leave
    alone. One that nothing meets does all that it should."""
    met = (f"{work} with kept paths", f"{work}: ContentInTheWay", f"{work}: WorkspaceError")
    return sum(tally[name] for name in met)


@pytest.mark.turns(2)
@pytest.mark.parametrize("how", ["", "pausing"])
def test_nothing_outside_is_touched_or_stored(workspace, root, tmp_path, swapper, how):
    tally = race(workspace, root, tmp_path / "outside", swapper, lambda number: number < 20, how)
    print(how or "without a pause", dict(tally))
    assert tally["save"] > 7
    assert len(tally) > 5 and hits(tally) > 0, "the swapper hardly ever met the work"
    if how:
        assert tally["restore"] + tally["restore with kept paths"] > 3


@pytest.mark.long
@pytest.mark.parametrize("how", ["", "pausing"])
@pytest.mark.parametrize("works", [("save",), ("restore", "undo")])
def test_nothing_outside_is_touched_or_stored_in_a_minute(workspace, root, tmp_path, swapper, works, how):
    until = time.monotonic() + 60
    tally = race(workspace, root, tmp_path / "outside", swapper, lambda _: time.monotonic() < until, how, works)
    print(how or "without a pause", dict(tally))
    assert tally["rounds"] > 100
    if how and "restore" in works:
        assert tally["restore"] + tally["restore with kept paths"] > tally["rounds"] / 4


@pytest.fixture
def fast_place():
    """A directory in memory where there is one: 5,000 restores need no disk."""
    with tempfile.TemporaryDirectory(prefix="casrewind-swapper-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        yield Path(place)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_outside_is_touched_or_stored_in_5000_restores(fast_place):
    tally = collections.Counter()
    for how, rounds in (("", 500), ("pausing", 4500)):
        root, home = fast_place / f"project {how}", fast_place / f"home {how}"
        root.mkdir()
        home.mkdir()
        settings = Settings(home=str(home), data=str(home / "data"), environ={"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"})
        with Workspace(str(root), settings, create=True) as workspace, swapping(root) as swapper:
            found = race(workspace, root, fast_place / f"outside {how}", swapper, lambda number, most=rounds: number < most, how, ("restore",))
        print(how or "without a pause", dict(found), "hits:", hits(found))
        tally += found
    assert tally["rounds"] == 5000
    assert hits(tally) > 500 and tally["restore"] > 500
    assert tally["restore with kept paths"] + tally["restore: WorkspaceError"] > 100, "it hardly ever met one in its middle"
