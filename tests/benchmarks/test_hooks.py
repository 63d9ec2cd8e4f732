"""The benchmark of hooks runs, on a small tree. No test here looks at a time."""

import json
import shutil

import pytest

from support.benchmark import marks, run

pytestmark = marks("hooks")

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not installed")


def hooks(scratch, *arguments):
    """(exit code, stdout, stderr) of the benchmark; it leaves nothing behind."""
    found = run("hooks", *arguments, scratch=scratch)
    assert list(scratch.iterdir()) == []
    return found


@pytest.mark.turns(3)
@needs_git
def test_every_hook_is_measured_beside_git_and_makes_the_checkpoints_that_it_should(scratch, tmp_path):
    code, out, err = hooks(scratch, "--files", 60, "--rounds", 2, "--turns", 3, "--json", tmp_path / "r.json")
    assert code == 0, err
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["tree"]["files"] == 60 and {"UserPromptSubmit", "Stop"} <= set(record["command"])
    assert all(len(taken) == 2 and all(one["seconds"] > 0 for one in taken) for taken in record["samples"].values())
    lines = out.splitlines()
    for name in record["samples"]:
        assert sum(line.strip().startswith(name) for line in lines) >= 1, name
    assert {f"{event}, transcript of {size}" for event in ("prompt", "turn end") for size in ("190 KB", "5 MB")} < set(record["samples"])
    (git,) = [line for line in lines if line.startswith("  git ")]
    assert git.removesuffix(" ~").endswith(" 1.00")
    assert record["turns"][0]["turns"] == 3 and record["turns"][0]["store"] > 0
    assert [line for line in lines if line.startswith("a checkpoint by a hook: ")]


@needs_git
def test_a_tree_is_copied_and_never_touched(scratch, tmp_path):
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "d" / "f").write_text("1\n")
    before = {str(path): path.lstat().st_mtime_ns for path in tree.rglob("*")}
    code, out, err = hooks(scratch, tree, "--rounds", 1)
    assert code == 0 and out.startswith("tree: 1 files"), err
    assert {str(path): path.lstat().st_mtime_ns for path in tree.rglob("*")} == before


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--rounds", "0"], "--rounds: 0 is too few, 1 or more"),
        (["--turns", "-1"], "--turns: -1 is too few, 0 or more"),
        (["--json", "/nowhere/at/all.json"], "--json: '/nowhere/at/all.json' cannot be written"),
        (["/nowhere"], "'/nowhere' is no directory"),
        ([".", "--files", "10"], "give TREE or --files, not both"),
        (["--faster"], "unrecognized arguments: --faster"),
    ],
)
def test_bad_arguments_are_one_clear_line(scratch, arguments, said):
    code, out, err = hooks(scratch, *arguments)
    assert (code, out) == (64, "") and said in err and err.count("\n") == 1
