"""revert as a person and a program meet it: what the plan says, what the result says, and which turns are meant."""

import pytest

from casrewind.model.retention import Limits
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.terminal_in_process import on_terminal
from support.trees import plant

A, B = "01c243ca-0000-4000-8000-000000000001", "d0f5aaaa-0000-4000-8000-000000000002"
LINES = [b"line %d\n" % number for number in range(1, 10)]


def text(**changed):
    """The lines, with others in their places: text(l3=b"new")."""
    return b"".join(changed[f"l{number}"] + b"\n" if f"l{number}" in changed else line for number, line in enumerate(LINES, 1))


@pytest.fixture
def agent(root, settings):
    plant(root, {"a.py": text(), "till.py": text(), "notes.md": text(), "prices.csv": b"1\n"})
    with opened(root, settings) as workspace:
        yield AgentTurns(workspace, root, A)


def turn(agent, name, edits):
    agent.prompt(name, name)
    plant(agent.root, edits)
    agent.stop(name)


@pytest.fixture
def three(agent, root):
    """@3 edits four files and makes one, @2 edits two of these, a person too, @1 is of another session."""
    turn(agent, "rename one", {
        "a.py": text(l1=b"one", l3=b"three"), "till.py": text(l1=b"one"), "notes.md": text(l3=b"x"), "prices.csv": b"2\n", "helper.py": b"h\n",
    })  # fmt: skip
    turn(agent, "round to cents", {"a.py": text(l1=b"one", l3=b"three", l7=b"seven\nseven"), "notes.md": text(l3=b"y\ny")})
    plant(root, {"a.py": text(l1=b"one", l3=b"three", l7=b"seven\nseven", l9=b"mine"), "till.py": text(l1=b"one", l5=b"mine")})
    other = AgentTurns(agent.workspace, root, B)
    turn(other, "look around", {"seen": b"1\n"})
    return agent


def read(root, path="a.py"):
    return (root / path).read_bytes()


PLAN = [
    "  - helper.py",
    "  ~ a.py  merged: 2 places taken back, 3 lines of @2 and yours kept",
    "  ~ prices.csv",
    "  ~ till.py  merged: 1 place taken back, 1 line of yours kept",
    "  left alone: notes.md: lines 3-4 were edited since by @2",
]


def test_the_plan_has_removals_first_then_merges_and_conflicts_last(three, casrewind, root):
    shown = on_terminal(casrewind, ["revert", "@3"], typed="n\n").out.replace("\r\n", "\n")
    title, *lines = without_colours(shown).partition("revert @3 ")[2].splitlines()  # what was typed may stand before it
    assert title.startswith('"rename one" (') and title.endswith("): 3 written (2 merged with later edits), 1 REMOVED")
    assert [line for line in lines if line[:2] == "  " and "the numbers changed in the last minute" not in line] == PLAN
    assert all(len(line) <= 80 for line in lines)
    assert "nothing was changed" in shown and (root / "helper.py").exists()


def without_colours(shown):
    import re

    return re.sub("\x1b\\[[0-9;]*m", "", shown)


def test_the_patch_of_the_plan_is_against_the_files_as_they_are(three, casrewind, root):
    shown = without_colours(on_terminal(casrewind, ["revert", "@3", "a.py"], typed="d\nn\n").out).replace("\r\n", "\n")
    assert "\n-one\n+line 1\n line 2\n-three\n+line 3\n" in shown and "mine" not in shown


def test_the_result_counts_merges_and_undo_is_exact(three, casrewind, root):
    before = {path: read(root, path) for path in ("a.py", "till.py", "notes.md", "prices.csv", "helper.py")}
    done = casrewind("revert", "@3", "-y", code=3)
    assert "\n  3 paths written (2 merged with later edits), 1 removed, 0 unchanged\n" in done.out
    assert done.err == "  left alone: notes.md: lines 3-4 were edited since by @2\n"
    assert read(root) == text(l7=b"seven\nseven", l9=b"mine") and read(root, "till.py") == text(l5=b"mine")
    again = casrewind("revert", "@3", "a.py", "till.py", "-y", code=0).out
    assert again.startswith("nothing to do: already taken back (2 paths unchanged)\n")
    casrewind("undo", "-y", code=0)
    assert {path: read(root, path) for path in before} == before


def test_json_says_how_each_path_changes_and_why_one_is_left_alone(three, casrewind):
    found = casrewind.json("revert", "@3", "-n", code=3)
    how = {change["path"]: (change["how"], change["merged"]) for change in found["changes"]}
    assert how["a.py"] == ("merged", {"taken": 2, "kept": 3, "conflicts": 0}) and how["prices.csv"] == ("written", None)
    assert how["helper.py"] == ("removed", None) and found["turns"] == [3] and found["unknown_turns"] == []
    assert [(item["path"], item["why"], item["lines"], item["by"]) for item in found["skipped"]] == [("notes.md", "conflict", [[3, 4]], [2])]


def test_several_turns_are_one_plan_and_one_undo(three, casrewind, root):
    plan = casrewind("revert", "@3..@2", "-n", code=0).out.splitlines()
    assert plan[0] == 'revert @3..@2 (2 turns: "rename one" to "round to cents"):'
    found = casrewind.json("revert", "3..2", "-y")
    assert (found["turns"], found["turn"], found["skipped"]) == ([2, 3], None, [])
    assert read(root) == text(l9=b"mine") and read(root, "till.py") == text(l5=b"mine") and read(root, "notes.md") == text()
    assert not (root / "helper.py").exists() and (root / "seen").exists()
    casrewind("undo", "-y", code=0)
    assert read(root, "notes.md") == text(l3=b"y\ny") and (root / "helper.py").exists()


def test_a_range_the_wrong_way_round_shows_the_right_one(three, casrewind):
    assert casrewind("revert", "@2..@3", "-y", code=64).err.rstrip().endswith("; casrewind revert @3..@2")
    casrewind("revert", "@9..@2", "-y", code=15)
    casrewind("revert", code=64)


def test_all_turns_of_a_session_are_taken_back(three, casrewind, root):
    plan = casrewind("revert", "--session", "01c2", "-n", code=0).out.splitlines()
    assert plan[0] == 'revert session 01c243ca (2 turns: "rename one" to "round to cents"):'
    casrewind("revert", "--session", "01c2", "a.py", "-y", code=0)
    assert read(root) == text(l9=b"mine") and (root / "helper.py").exists()
    casrewind("revert", "--session", A, "-y", code=0)
    assert not (root / "helper.py").exists() and (root / "seen").exists()
    assert "has no turns here" in casrewind("revert", "--session", "none", "-y", code=15).err


def test_theirs_takes_the_lines_of_before_the_turn(three, casrewind, root):
    casrewind("revert", "@3", "--theirs", "-y", code=0)
    assert read(root, "notes.md") == text() and read(root) == text(l7=b"seven\nseven", l9=b"mine")
    assert "--theirs and --markers exclude each other" in casrewind("revert", "@3", "--theirs", "--markers", code=64).err


def test_markers_are_asked_for_once_more_and_count_as_incomplete(three, casrewind, root):
    words = ["revert", "@3", "notes.md", "--markers"]
    shown = on_terminal(casrewind, words, typed="y\nn\n").out
    assert "Write conflict markers into notes.md? [y/N]" in shown and read(root, "notes.md") == text(l3=b"y\ny")
    assert "merged: markers at 1 place" in shown
    done = on_terminal(casrewind, words, typed="y\ny\n")
    marks = b"<<<<<<< now\ny\ny\n||||||| after @3\nx\n=======\nline 3\n>>>>>>> before @3"
    assert done.code == 3 and read(root, "notes.md") == text(l3=marks)
    assert "conflicts to resolve, between markers: notes.md" in done.out


def test_a_turn_whose_start_was_forgotten_is_left_out_only_if_that_is_said(three, casrewind, root):
    casrewind("pin", casrewind.json("list")["turns"][1]["after"], code=0)
    three.workspace.gc(Limits(None, 1))
    assert [turn["before"] is None for turn in casrewind.json("list")["turns"]] == [False, True]
    refused = casrewind("revert", "@2..@1", "-y", code=15).err
    assert "what @2 changed is not known: the state before it was forgotten; --known reverses the other turns" in refused
    plan = casrewind("revert", "@2..@1", "--known", "-n", code=0).out
    assert "NOTE: not taken back, because casrewind does not know what they changed: @2" in plan
    assert casrewind.json("revert", "@2..@1", "--known", "-y")["unknown_turns"] == [2]
    assert not (root / "seen").exists()
