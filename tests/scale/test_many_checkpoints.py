"""Hundreds of checkpoints of a small project, in the long size ten thousand: everything is right, and what a save opens does not become more.

Wall times of whole processes are printed; nothing is asserted about them.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from unittest import mock

import pytest

from support import real_trees
from casrewind.store import store
from casrewind.workspace import Settings, Workspace
from support.command import Command
from support.gc_checks import checkpoint_picture, disk_usage, packs_of
from support.picture import differences, picture
from support.scanner import settle

pytestmark = pytest.mark.xdist_group("many-checkpoints")  # the history takes longer to make than to ask
FILES = 200
SAMPLES = 10
MOST_AT_ONCE = 250
"""Packs that gc may take away in one go: it keeps everybody out meanwhile."""


def path_of(root, number):
    return os.path.join(root, f"d{number % 10}", f"f{number}.py")


def edit(root, source, number):
    """Change three files; now and then one goes, and comes back later."""
    for file in source.sample(range(FILES), 3):
        with open(path_of(root, file), "ab") as out:
            out.write(b"edit %d\n" % number)
    if number % 7 == 0:
        gone = path_of(root, number % FILES)
        if os.path.exists(gone):
            os.unlink(gone)


class History:
    """A project with its store in a place that can be put back to how it was made."""

    def __init__(self, place, count):
        self.place, self.count = place, count
        self.work, self.master = os.path.join(place, "work"), os.path.join(place, "master")
        self.root, home = os.path.join(self.work, "project"), os.path.join(self.work, "home")
        os.makedirs(self.root)
        os.makedirs(home)
        self.settings = Settings(
            home=home, data=os.path.join(home, "data"), environ={"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}
        )
        self.command = Command(self.root, home, CASREWIND_AUTO_GC="false")  # it would merge them
        self.pictures = {}
        self.ids = []
        self.calls = {}
        self._make()
        os.rename(self.work, self.master)

    def _make(self):
        source = random.Random(1)
        for number in range(FILES):
            os.makedirs(os.path.dirname(path_of(self.root, number)), exist_ok=True)
            with open(path_of(self.root, number), "wb") as file:
                file.write(b"line %d\n" % number * source.randrange(1, 200))
        started = time.monotonic()
        with mock.patch.object(store, "MANY", 1 << 30), Workspace(self.root, self.settings, create=True) as workspace:
            self.store = workspace.store_path
            for number in range(self.count):
                edit(self.root, source, number)
                saved = workspace.save()
                assert saved.created
                self.ids.append(saved.checkpoint.id)
                if number % max(self.count // SAMPLES, 1) == 3:
                    self.pictures[saved.checkpoint.id] = picture(self.root)
                if number in (self.count // 10, self.count - 1):
                    settle()  # files with young stamps are read again, and how many there are is a matter of speed
                    workspace.save()
                    edit(self.root, source, number)
                    settle()
                    self.calls[len(packs_of(self.store))] = calls_of_a_save(self)
                    self.ids += [point.id for point, _ in workspace.checkpoints()[:1]]
        print(f"{self.count:,} saves in one process: {time.monotonic() - started:.1f} s")

    def again(self):
        """The project and its store as they were made."""
        shutil.rmtree(self.work, ignore_errors=True)
        subprocess.run(["cp", "-a", self.master, self.work], check=True)
        return self

    def open(self):
        return Workspace(self.root, self.settings, create=False)

    def timed(self, *arguments, code=0):
        started = time.monotonic()
        result = self.command(*arguments, code=code)
        print(f"{' '.join(arguments)}: {time.monotonic() - started:.2f} s")
        return result

    def holds(self, workspace, identities):
        """Every one of these checkpoints is what it was when it was made."""
        found = {point.id: point for point, _ in workspace.checkpoints()}
        for identity in identities:
            assert differences(checkpoint_picture(workspace, found[identity]), self.pictures[identity]) == {}, identity


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(400, id="push"),
        pytest.param(10_000, id="full", marks=[pytest.mark.long, pytest.mark.timeout(2400)]),
    ],
)
def made(request):
    with tempfile.TemporaryDirectory(prefix="casrewind-many-", dir=real_trees.roomy()) as place:
        yield History(place, request.param)


@pytest.fixture
def history(made):
    return made.again()


def calls_of_a_save(history):
    """What a save in a process of its own does with the store, by strace: {what: how often}."""
    with tempfile.NamedTemporaryFile() as log:
        if shutil.which("strace") is None:
            return None
        history.command("save", code=0, prefix=["strace", "-f", "-qq", "-s", "400", "-o", log.name])
        lines = log.read().decode("utf-8", "replace").splitlines()
    packs = re.compile(rf'"{re.escape(history.store)}/packs"')
    listed = [line for line in lines if "openat(" in line and packs.search(line) and "O_DIRECTORY" in line]
    stats = re.compile(r"\b(stat|lstat|newfstatat|statx|fstat)\(")
    return {
        "opened": sum("openat(" in line and "ENOENT" not in line for line in lines),
        "looked at": sum(bool(stats.search(line)) and '.pack"' in line for line in lines),
        "listings": len(listed),
    }


@pytest.mark.turns(3)
def test_a_save_opens_as_many_files_as_ever(made):
    """And looks at each pack once: what is believed to be stored is on the list of that save."""
    (few, before), (many, after) = sorted(made.calls.items())
    if before is None:
        pytest.skip("needs strace")
    print(f"with {few} packs {before}, with {many} packs {after}")
    assert many > few * 5
    assert abs(after["opened"] - before["opened"]) < 20
    assert (after["looked at"] - many) - (before["looked at"] - few) < 20
    assert after["listings"] <= before["listings"] <= 6


def test_questions_are_answered_right(history):
    told = json.loads(history.timed("list", "--json").out)["checkpoints"]
    assert [entry["id"] for entry in told] == history.ids[::-1]
    assert [entry["seq"] for entry in told] == sorted((entry["seq"] for entry in told), reverse=True)
    history.timed("list")
    old = list(history.pictures)[2]
    shown = json.loads(history.timed("show", old, "--json").out)
    files = {entry["path"] for entry in shown["entries"] if entry["kind"] == "file"}
    assert files == {os.fsdecode(path) for path, what in history.pictures[old].items() if what[0] == "file"}
    assert json.loads(history.timed("status", "--json").out)["checkpoints"] == len(history.ids)
    assert json.loads(history.timed("diff", "--json").out)["changes"] == []
    assert json.loads(history.timed("diff", old, "--json").out)["changes"]
    history.timed("save")
    with open(path_of(history.root, 1), "ab") as file:
        file.write(b"one more\n")
    assert json.loads(history.timed("save", "--json").out)["created"]
    assert json.loads(history.timed("save", "--json").out)["created"] is False


def test_an_old_one_comes_back_and_goes_again(history):
    before = picture(history.root)
    for old in list(history.pictures)[:3]:
        history.timed("restore", old, "--yes")
        assert differences(picture(history.root), history.pictures[old]) == {}
    history.timed("undo", "--yes")
    history.timed("undo", "--yes")
    history.timed("undo", "--yes")
    assert differences(picture(history.root), before) == {}
    history.timed("redo", "--yes")
    assert differences(picture(history.root), history.pictures[next(iter(history.pictures))]) == {}


def test_all_of_it_verifies(history):
    assert json.loads(history.timed("verify", "--quick", "--json").out)["ok"]
    whole = json.loads(history.timed("verify", "--json").out)
    assert whole["ok"] and whole["checkpoints"] == len(history.ids) and whole["blobs"] > 5 * len(history.ids)


def test_a_lost_index_is_derived_again(history):
    before = history.command("list", "--json", code=0).out
    shutil.rmtree(os.path.join(history.store, "index"))
    assert history.timed("list", "--json").out == before
    assert json.loads(history.timed("verify", "--json").out)["ok"]


def test_gc_forgets_half_and_merges_the_rest(history):
    size, packs = disk_usage(history.store), len(packs_of(history.store))
    half = str(len(history.ids) // 2)
    planned = json.loads(history.timed("gc", "--max-count", half, "--dry-run", "--json").out)
    assert len(packs_of(history.store)) == packs
    done = json.loads(history.timed("gc", "--max-count", half, "--json").out)
    assert done["dropped"] == planned["dropped"] == len(history.ids) - int(half)
    after = packs_of(history.store)
    print(f"{packs:,} packs, {size:,} bytes; after gc {len(after):,} packs, {disk_usage(history.store):,} bytes")
    assert len(after) <= packs / 100 + 4
    assert disk_usage(history.store) < size
    left = [identity for identity in history.pictures if identity in history.ids[-int(half) :]]
    with history.open() as workspace:
        assert [point.id for point, _ in workspace.checkpoints()] == history.ids[-int(half) :][::-1]
        history.holds(workspace, left)
        assert not workspace.verify().problems
        assert workspace.save().created is False
    history.timed("gc", "--max-count", half)
    history.timed("list")


SAVER = """
import json, os, sys, time
from casrewind.store import store
from casrewind.workspace import Settings, Workspace
root, home, stop, figures = sys.argv[1:]
settings = Settings(home=home, data=os.path.join(home, "data"), environ={"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
took, made = [], []
with Workspace(root, settings, create=False) as workspace:
    while not (os.path.exists(stop) and len(made) > 3):
        with open(os.path.join(root, "saver"), "w") as file:
            file.write(str(len(took)) * 100)
        started = time.monotonic()
        made.append(workspace.save().checkpoint.id)
        took.append(time.monotonic() - started)
        time.sleep(0.01)
with open(figures, "w") as file:
    json.dump({"took": took, "made": made}, file)
"""


def test_gc_leaves_room_for_savers(history, tmp_path):
    stop, figures = tmp_path / "stop", tmp_path / "figures"
    environment = {**os.environ, **history.command.environment}
    saver = subprocess.Popen(
        [sys.executable, "-c", SAVER, history.root, history.settings.home, str(stop), str(figures)], env=environment
    )
    try:
        time.sleep(0.5)
        history.timed("gc", "--max-count", str(len(history.ids) // 2))
    finally:
        stop.touch()
        assert saver.wait(60) == 0
    told = json.loads(figures.read_text())
    took = sorted(told["took"])
    print(f"{len(took)} saves meanwhile: median {took[len(took) // 2] * 1000:.0f} ms, longest {took[-1] * 1000:.0f} ms")
    with history.open() as workspace:
        found = {point.id for point, _ in workspace.checkpoints()}
        assert found.issuperset(told["made"]), "what was saved meanwhile is there"
        history.holds(workspace, [identity for identity in history.pictures if identity in found])
        assert not workspace.verify().problems


def test_gc_takes_few_packs_at_once(history):
    """Each group of packs is a moment for which everybody else is kept out."""
    with history.open() as workspace:
        sweep = workspace._context.store.maintenance().sweep()
        with workspace._context.store.hold_shared_lock():
            live = {digest for digest, _ in sweep_rows(workspace)}
            groups = sweep.groups_worth_rewriting(sweep.pack_usage(live)[0])
            nothing = sweep.groups_worth_rewriting(sweep.pack_usage(())[0])
    assert sum(map(len, groups)) == sum(map(len, nothing)) == len(packs_of(history.store))
    assert max(map(len, [*groups, *nothing])) <= MOST_AT_ONCE


def sweep_rows(workspace):
    from casrewind.store import packs

    directory = os.path.join(workspace.store_path, "packs")
    for name in os.listdir(directory):
        yield from packs.records_of_pack(directory, name.removesuffix(".pack"))
