"""The benchmark of several directories runs, on few files, and has a line for each way. No test looks at a time."""

import json
import shutil

import pytest

from support.benchmark import TOP, marks, run

pytestmark = marks("directories")


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not installed")
def test_every_way_is_measured_in_every_place_and_nothing_is_left(scratch, tmp_path):
    (tmp_path / "other").mkdir()
    record = tmp_path / "d.json"
    places = ["--at", scratch, "--at", tmp_path / "other"]
    code, out, err = run("directories", "--files", 30, "--directories", 2, "--rounds", 1, *places, "--json", record, scratch=scratch)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 14 and lines[0].startswith("generated: 30 files, ") and "2 directories; 1 rounds on " in lines[0]
    names = ["casrewind", "cp -r", "cp -a", "git worktree add"]
    for start in (0, 7):
        assert [line.split("  ")[1].strip() for line in lines[start + 2 : start + 6]] == names
        assert "casrewind takes at most " in lines[start + 6]
    found = json.loads(record.read_text())
    assert len(found["places"]) == 2 and all(list(one["samples"]) == names for one in found["places"])
    assert not any(scratch.iterdir()) and not any((tmp_path / "other").iterdir())


def test_what_is_too_slow_is_said(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import directories

    samples = {"casrewind": [(0.3, 0.5), (0.2, 0.4), (0.9, 0.5)], "cp -r": [(0.2, 0.2), (0.2, 0.2), (0.2, 0.2)]}
    *_, ours, base, last = directories.table(samples)
    assert ours.split() == ["casrewind", "300", "ms", "1.50", "500", "ms", "2.50"] and base.split()[-1] == "1.00"
    assert last == "  casrewind takes at most 2.50 times what cp -r takes: 2 is the most"


@pytest.mark.parametrize(("words", "said"), [(["--rounds", 0], "--rounds: 0 is too few"), (["--at", "/nowhere"], "no directory")])
def test_what_cannot_be_measured_is_refused(words, said, scratch):
    code, _, err = run("directories", *words, scratch=scratch)
    assert code == 64 and said in err
