"""Peak memory of whole processes, children included, does not follow the size of what is saved or restored.

Each limit is below what a program would need that holds all of the content at once. The figures are printed.
"""

import json
import os
import shutil
import sys
import tempfile

import pytest

from support import real_trees
from support.big_trees import disturb, grow, grow_file
from support.command import Command
from support.machines import KEY
from support.peak_memory import MB, measured, measured_program
from support.picture import differences, picture
from support.sample_start import start_below

FULL = pytest.mark.long
REMOTE_BYTES_A_FILE = (850, 1050)
"""Of a push, and of a clone."""
OF_A_TREE, OF_A_FILE = ([] if start_below(2) == turn else [FULL] for turn in range(2))
"""A push measures a tree or a file, by turns."""
BYTES_A_FILE = {"restore after all was deleted": 650, "restore after all was changed": 1350, "undo": 1350}


class Measured:
    """Commands in a project, each one's peak held against a limit."""

    def __init__(self, place, limit):
        self.root, self.limit = os.path.join(place, "project"), limit
        home = os.path.join(place, "home")
        os.mkdir(home)
        self._command = Command(self.root, home, CASREWIND_MAX_FILE_SIZE="4GiB")

    def __call__(self, what, *arguments):
        peak, out = measured(self._command, *arguments)
        print(f"{what}: {peak}")
        assert peak.samples > 5, "too few samples to say anything"
        assert peak.bytes < self.limit, f"{what}: {peak}, limit {self.limit / MB:.0f} MB"
        return out


@pytest.fixture
def place():
    """A directory in memory if there is room, else on disk; removed afterwards: pytest's own would be kept."""
    with tempfile.TemporaryDirectory(prefix="casrewind-memory-", dir=real_trees.roomy()) as found:
        yield found


def size_of(root):
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(root) for name in names)


def round_trip(run, files, *, everything):
    """Save, lose or change all of these files, get them back; then the upkeep. With `everything`, what costs most of the
    time and tells little more, too."""
    before = picture(run.root)
    run("first save", "save")
    run("save again", "save")
    disturb(files)
    run("restore after half was deleted and half changed", "restore", "last", "--yes")
    assert differences(picture(run.root), before) == {}
    for path in files:
        os.unlink(path)
    run("restore after all was deleted", "restore", "last", "--yes")
    assert differences(picture(run.root), before) == {}
    if everything:
        run("undo", "undo", "--yes")
        run("redo", "redo", "--yes")
        run("diff", "diff", "--json")
        run("verify --quick", "verify", "--quick")
        assert differences(picture(run.root), before) == {}
    run("list", "list", "--json")
    run("verify", "verify")
    run("gc", "gc", "--max-count", "1")


@pytest.mark.parametrize(
    ("files", "size", "limit"),
    [
        pytest.param(5_000, 95 * MB, 85 * MB, id="push", marks=OF_A_TREE),  # what two processes share counts twice
        pytest.param(79_000, 1_300 * MB, 300 * MB, id="full", marks=[FULL, pytest.mark.timeout(1500)]),
    ],
)
def test_memory_does_not_follow_the_size_of_a_tree(place, files, size, limit, request):
    run = Measured(place, limit)
    found = grow(run.root, files, size)
    there = size_of(run.root)
    print(f"{len(found):,} files, {there / MB:,.0f} MB")
    assert there > limit
    round_trip(run, found, everything=request.config.getoption("--run-long"))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("size", "limit"),
    [
        pytest.param(110 * MB, 85 * MB, id="push", marks=OF_A_FILE),
        pytest.param(2_000 * MB, 200 * MB, id="full", marks=[FULL, pytest.mark.timeout(1500)]),
    ],
)
def test_memory_does_not_follow_the_size_of_a_file(place, size, limit, request):
    run = Measured(place, limit)
    os.mkdir(run.root)
    big = os.path.join(run.root, "big.bin")
    grow_file(big, size)
    before = picture(run.root)
    run("first save", "save", "--pin")
    os.unlink(big)
    run("restore of a deleted file", "restore", "last", "--yes")
    assert differences(picture(run.root), before) == {}
    grow_file(big, size - MB, seed=5)
    run("restore of a changed file", "restore", "last", "--yes")
    assert differences(picture(run.root), before) == {}
    if request.config.getoption("--run-long"):
        run("save with every byte read", "save", "--rehash")
        run("undo", "undo", "--yes")
        run("redo", "redo", "--yes")
        assert differences(picture(run.root), before) == {}
    run("verify", "verify")
    run("gc", "gc", "--max-count", "1")
    run("list", "list")


def plant_small(root, files):
    """Small files, fifty to a directory."""
    for directory in range(files // 50):
        there = os.path.join(root, f"part{directory // 200}", f"unit{directory % 200}")
        os.makedirs(there)
        for number in range(50):
            with open(os.path.join(there, f"file{number:02d}.py"), "wb") as file:
                file.write(b"# file %d of %d\n" % (number, directory))


def change_small(root):
    for there, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(there, name), "ab") as file:
                file.write(b"# changed\n")


@FULL
@pytest.mark.timeout(1800)
def test_a_restore_of_a_whole_project_takes_less_than_so_much_memory_for_each_file(place):
    """So that a million files stay below 1.4 GB. Most of what is taken is the scan's, where everything has to be read."""
    peaks = {}
    for files in (20_000, 100_000):
        here = os.path.join(place, str(files))
        root, home = os.path.join(here, "project"), os.path.join(here, "home")
        os.makedirs(home)
        plant_small(root, files)
        command = Command(root, home)
        command("save", "-m", "first", code=0)
        before = picture(root)
        for name in os.listdir(root):
            shutil.rmtree(os.path.join(root, name))
        peaks[files, "restore after all was deleted"], _ = measured(command, "restore", "first", "--yes")
        assert differences(picture(root), before) == {}
        change_small(root)
        changed = picture(root)
        peaks[files, "restore after all was changed"], _ = measured(command, "restore", "first", "--yes")
        assert differences(picture(root), before) == {}
        peaks[files, "undo"], _ = measured(command, "undo", "--yes")
        assert differences(picture(root), changed) == {}
        shutil.rmtree(here)
    each = {what: (peaks[100_000, what].bytes - peaks[20_000, what].bytes) / 80_000 for what in BYTES_A_FILE}
    for what, found in each.items():
        print(f"{what}: {found:.0f} bytes for each file; {peaks[20_000, what]}; {peaks[100_000, what]}")
    assert [what for what, limit in BYTES_A_FILE.items() if each[what] > limit] == []


def pushed(place, command, url):
    """Save the project of a command, push it to a new remote, clone that: the peaks of push and clone, and what the clone lacks."""
    command("save", code=0)
    command("remote", "add", url, "--new", code=0)
    push, _ = measured(command, "push")
    target = os.path.join(place, "clone")
    variables = {**command.environment, "CASREWIND_HOME": os.path.join(place, "data-of-clone")}
    clone, _ = measured_program([sys.executable, "-m", "casrewind", "clone", url, target], env=variables)
    different = differences(picture(target), picture(command.root))
    assert all(found is None for found, _ in different.values())
    return (push, clone), set(different)


@pytest.mark.turns(3)
def test_a_push_and_a_clone_take_less_than_so_much_memory_for_each_file(place):
    """So that a clone of 79,000 files stays below 100 MB."""
    peaks = []
    for files in (1_000, 10_000):
        here = os.path.join(place, str(files))
        root, home, remote = (os.path.join(here, name) for name in ("project", "home", "remote"))
        for directory in (home, remote):
            os.makedirs(directory)
        plant_small(root, files)
        found, lacking = pushed(here, Command(root, home, CASREWIND_REMOTE_KEY=KEY), f"file://{remote}")
        assert not lacking
        peaks.append(found)
        shutil.rmtree(here)
    for what, few, many, limit in zip(("push", "clone"), *peaks, REMOTE_BYTES_A_FILE, strict=True):
        each = (many.alone - few.alone) / 9_000
        print(f"{what}: {each:.0f} bytes for each file; {few}; {many}")
        assert each < limit, f"{what}: {each:.0f} bytes for each file, limit {limit}"


@FULL
@pytest.mark.timeout(1500)
def test_a_push_and_a_clone_of_a_real_source_tree_take_less_than_100_mb(place, s3):
    root, home = os.path.join(place, "project"), os.path.join(place, "home")
    os.mkdir(home)
    plant_kernel(root)
    command = Command(root, home, CASREWIND_REMOTE_KEY=KEY, **s3.variables)
    peaks, lacking = pushed(place, command, s3.bucket())
    assert len(lacking) < 500, "only what its rules ignore"
    for what, peak in zip(("push", "clone"), peaks, strict=True):
        print(f"{what}: {peak}")
        assert peak.bytes < 100 * MB, f"{what}: {peak}"


def plant_kernel(root):
    """Unpack a Linux source at a path. Its own .gitignore ignores all there is: not here."""
    archive = real_trees.once("linux-source.tar", real_trees.fetch_kernel)
    place = os.path.dirname(root)
    there = set(os.listdir(place))
    real_trees.run("tar", "-xf", archive, "--no-same-owner", cwd=place)
    (unpacked,) = set(os.listdir(place)) - there
    os.rename(os.path.join(place, unpacked), root)
    rules = os.path.join(root, ".gitignore")
    with open(rules) as file:
        lines = [line for line in file if line != "/*\n"]
    with open(rules, "w") as file:
        file.writelines(lines)


@FULL
@pytest.mark.timeout(1500)
def test_memory_with_a_real_source_tree(place):
    run = Measured(place, 300 * MB)
    plant_kernel(run.root)
    run("first save", "save")
    held = json.loads(run("show", "show", "last", "--json"))["entries"]
    files = [os.path.join(run.root, entry["path"]) for entry in held if entry["kind"] == "file"]
    files = [path for path in files if os.path.basename(path) not in (".gitignore", ".gitattributes")]
    print(f"{len(files):,} files, {sum(map(os.path.getsize, files)) / MB:,.0f} MB")
    assert len(files) > 70_000
    round_trip(run, files, everything=True)


def test_the_judge_counts_children_and_nothing_of_its_own(tmp_path):
    """What is held by the one who asks is not in the figures; what a child holds is."""
    mine = bytearray(b"x") * (400 * MB)
    child = "held = bytearray(b'x') * 90_000_000; import time; time.sleep(0.3)"
    parent = f"import subprocess, sys; held = bytearray(b'x') * 60_000_000; subprocess.run([sys.executable, '-c', {child!r}])"
    environment = {"PATH": os.environ["PATH"]}
    together, _ = measured_program([sys.executable, "-I", "-c", parent], env=environment)
    lonely, _ = measured_program([sys.executable, "-I", "-c", "import time; time.sleep(0.1)"], env=environment)
    print(f"a parent with 60 MB and a child with 90 MB: {together}; an empty program: {lonely}")
    assert together.processes == 2
    assert 150 * MB < together.bytes < 220 * MB
    assert together.alone < 150 * MB
    assert lonely.bytes < 40 * MB
    del mine
