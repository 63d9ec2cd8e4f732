"""A turn whose change is no longer in the files is marked and dim: what took it back, and what brought it again."""

import pytest

from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.command_in_process import InProcess
from support.terminal_in_process import on_terminal
from support.trees import plant


@pytest.fixture
def run(root, home, settings):
    """@3 makes a and more, @2 edits a, @1 makes c."""
    run = InProcess(root, home)
    with opened(root, settings, create=True) as workspace:
        run.agent = AgentTurns(workspace, root)
        for number, tree in enumerate(({"a": b"1\n", "b/x": b"1\n"}, {"a": b"2\n"}, {"c": b"3\n"})):
            run.agent.prompt(f"p{number}", f"prompt {number}")
            plant(root, tree)
            run.agent.stop(f"p{number}")
        yield run


def taken(run):
    """The numbers of the turns that are taken back: as JSON has them, and as the list marks them."""
    found = [turn["n"] for turn in run.json("list")["turns"] if turn["taken_back"]]
    lines = run("list", code=0).out.splitlines()
    assert [int(line.split()[0][1:]) for line in lines if "taken back)" in line] == found
    return found


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([], []),
        (["restore @2"], [1, 2]),
        (["restore after:@2"], [1]),
        (["restore @2 -- a"], [2]),
        (["restore @3 -- a"], [2]),  # a part of @3
        (["restore @3 -- a", "restore after:@1 -- a"], []),
        (["restore @3", "restore @2 -- a"], [1, 2]),  # some of @3 may be there again
        (["restore @3 --keep-edits"], [1, 2, 3]),
        (["restore @2 --keep-edits"], [1, 2]),
        (["restore @2 --keep-edits", "undo"], []),
        (["restore @2 --keep-edits", "undo", "redo"], [1, 2]),
        (["restore @2 --keep-edits", "restore after:@1"], []),
        (["restore @2", "undo"], []),
        (["restore @2", "undo", "redo"], [1, 2]),
        (["restore @1", "restore @3", "undo"], [1]),
        (["restore @1", "restore @3", "undo", "undo"], []),
        (["restore @3", "restore after:@1"], []),
        (["restore @3", "restore @1"], [1]),
        (["revert @1"], [1]),
        (["revert @3 b/x"], []),
        (["revert @1", "undo"], []),
        (["revert @1", "restore @2"], [1, 2]),
        (["revert @1", "restore after:@1"], []),
    ],
    ids=lambda value: " ".join(map(str, value)).replace(" ", "-"),
)
def test_what_took_a_turn_back(run, lines, wanted):
    for line in lines:
        command, *rest = line.split()
        run(command, "-y", *rest, code=0)
    assert taken(run) == wanted


def test_a_merge_takes_a_turn_back_and_what_is_left_alone_does_not(run, root):
    lines = [b"%d\n" % number for number in range(9)]
    plant(root, {"a": b"".join(lines)})
    run.agent.prompt("p8", "edit a")
    plant(root, {"a": b"".join([b"agent\n", *lines[1:]]), "d": b"4\n"})
    run.agent.stop("p8")
    plant(root, {"a": b"".join([b"agent\n", *lines[1:8], b"mine\n"])})
    run("restore", "@1", "-y", "--keep-edits", code=0)
    assert (root / "a").read_bytes() == b"".join([*lines[:8], b"mine\n"]) and taken(run) == [1]
    run("undo", "-y", code=0)
    plant(root, {"d": b"mine\n"})
    run("restore", "@1", "-y", "--keep-edits", code=3)
    assert (root / "d").read_bytes() == b"mine\n" and taken(run) == [], "a part of @1 is still there"


def test_a_later_turn_is_not_taken_back_and_numbers_move(run, root):
    run("restore", "@2", "-y", code=0)
    run.agent.prompt("p9", "go on from there")
    plant(root, {"d": b"4"})
    run.agent.stop("p9")
    assert taken(run) == [2, 3]
    assert run("list", code=0).out.splitlines()[1].split()[:3] == ["restored", "to", "@3"]


def test_it_is_dim_on_a_terminal_and_in_words_everywhere(run):
    run("restore", "@1", "-y", code=0)
    shown = on_terminal(run, ["list"]).out
    row = next(line for line in shown.splitlines() if "prompt 2 (taken back)" in line)
    assert row.startswith("\x1b[2m") and row.count("\x1b") == 2
    plain = on_terminal(run, ["list"], NO_COLOR="1").out
    assert "prompt 2 (taken back)" in plain and "\x1b[2m" not in plain
    assert "  taken back\n" in run("show", "@1", code=0).out


def test_removals_are_first_and_a_pipe_names_three(run, root):
    run.agent.prompt("p8", "tidy")
    for name in ("b/x", "c"):
        (root / name).unlink()
    plant(root, {"a": b"9", "a1": b"9"})
    run.agent.stop("p8")
    assert "-b/x, -c, a and 1 more" in run("list", code=0).out
    assert len(run.json("list")["turns"][0]["paths"]) == 4


def test_a_restore_is_one_short_line(run):
    run("restore", "@3", "-y", code=0)
    assert run("list", code=0).out.splitlines()[0].split("  ")[3:4] == ["restored to @3"]
    assert len(run("list", code=0).out.splitlines()[0]) < 80
