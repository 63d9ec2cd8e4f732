"""A file that is caught between two halves of a write is never recorded as clean.

The save says how far it is (the progress that the command line shows); the tests write the second half at such a
moment, so that what they look at is no matter of luck.
"""

import json
import os
import subprocess
import sys

import pytest

from casrewind.workspace import Workspace
from support.race_half_written import halves, kinds, moments, races
from support.trees import plant

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("size", [3000, 300_000, 3_000_000])
@pytest.mark.parametrize("way", kinds)
def test_second_half_after_the_file_was_read(root, settings, size, way):
    assert halves(str(root), settings, size, way) == []


@pytest.mark.turns(2)
@pytest.mark.parametrize("way", kinds)
def test_second_half_in_the_same_second_on_a_file_system_with_coarse_times(shim, scratch, way):
    """The stamp is the same before and after: only the bytes tell."""
    done = subprocess.run(
        [sys.executable, "-m", "support.race_half_written", str(scratch), "300000", way],
        capture_output=True, text=True,
        env={
            "PATH": os.environ["PATH"], "LD_PRELOAD": shim, "SHIM_SECONDS": "1",
            "PYTHONPATH": os.pathsep.join([os.path.dirname(TESTS), TESTS]),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_a_file_that_never_holds_still_is_named(root, settings):
    """A writer that does not pause, and a file that takes long to read: the save says that its bytes may be torn."""
    size, rounds, enough = 6_000_000, 60, 4  # the writer may get little of a busy machine
    plant(root, {"moving.bin": b"0" * size, "quiet.txt": b"quiet"})
    code = (
        "import os, sys\nfd = os.open(sys.argv[1], os.O_WRONLY)\nprint(flush=True)\nn = 0\n"
        "while True:\n    n += 1\n    os.pwrite(fd, b'%08d' % n, n * 4096 % 6000000)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, root / "moving.bin"], stdout=subprocess.PIPE)
    named = 0
    try:
        writer.stdout.readline()
        with Workspace(str(root), settings, create=True) as workspace:
            for done in range(rounds):
                if named == enough:
                    break
                saved = workspace.save("again")
                unstable = workspace.domain(saved.checkpoint).unstable
                assert set(unstable) <= {b"moving.bin"}
                assert [skip.path for skip in saved.faults] == list(unstable)
                named += bool(unstable)
    finally:
        writer.kill()
        writer.communicate()
    print(f"{done} saves: {named} named the file as unstable")
    assert named == enough


def tell(counts):
    print(f"{sum(counts.values())} saves: " + ", ".join(f"{what} {number}" for what, number in sorted(counts.items())))


@pytest.mark.parametrize("rounds", [32, pytest.param(2000, marks=pytest.mark.long)])
def test_second_half_at_a_random_moment_of_the_walk(scratch, settings, rounds):
    counts, bad = moments(str(scratch), settings, rounds)
    tell(counts)
    assert bad == []
    assert counts["between the looks: whole"] + counts["between the looks: named as unstable"] > rounds / 8


@pytest.mark.parametrize("rounds", [32, pytest.param(2000, marks=pytest.mark.long)])
def test_a_writer_in_two_halves_that_knows_nothing_of_saves(scratch, settings, rounds):
    (scratch / "project").mkdir()
    counts, bad = races(str(scratch / "project"), settings, rounds)
    tell(counts)
    assert bad == []
    assert counts["whole"] > rounds / 10
