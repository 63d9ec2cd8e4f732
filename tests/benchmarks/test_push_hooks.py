"""The benchmark of hooks that push runs, on a small tree. No test looks at a time."""

import json

import pytest

from support.benchmark import run

pytestmark = pytest.mark.long  # it waits for slow servers


def test_every_hook_is_measured_with_every_server(scratch, tmp_path):
    code, out, err = run("push_hooks", "--files", 20, "--rounds", 1, "--json", tmp_path / "r.json", scratch=scratch)
    assert code == 0 and err == "" and list(scratch.iterdir()) == [], err
    samples = json.loads((tmp_path / "r.json").read_text())["samples"]
    assert len(samples) == 4 and all(len(ways) == 5 and all(len(taken) == 1 for taken in ways.values()) for ways in samples.values())
    assert out.count("\n| ") == 21


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--files", "0"], ["/nowhere"]])
def test_bad_arguments_are_one_clear_line(arguments, scratch):
    code, out, err = run("push_hooks", *arguments, scratch=scratch)
    assert code == 64 and out == "" and err.count("\n") == 1
