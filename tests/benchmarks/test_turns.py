"""The benchmark of what hooks add to a turn of the real client runs, on few files, and has a line for each kind. No test looks at a time."""

import sys

import pytest

from support import real_clients, real_trees
from support.benchmark import run

pytestmark = [pytest.mark.long, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs network namespaces")]


def test_every_kind_of_hooks_is_measured_and_nothing_is_left(scratch):
    real_clients.claude()  # or there is nothing to measure
    code, out, err = run("turns", "--files", 40, "--rounds", 1, scratch=scratch, CASREWIND_TEST_CACHE=real_trees.place())
    assert (code, err) == (0, "")
    first, heading, *lines = out.splitlines()
    assert first == "1 turns of each kind in turn, 40 files, 1 batches of tools, balanced" and "beside true" in heading
    assert [line.split()[0] for line in lines] == ["none", "true", "command"]
    assert not any(scratch.iterdir())


def test_what_cannot_be_measured_is_refused(scratch):
    code, _, err = run("turns", "--rounds", 0, scratch=scratch)
    assert code == 64 and "--rounds: 0 is too few" in err
