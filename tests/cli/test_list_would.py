"""casrewind list --would: how many files would change if somebody went back to before each turn."""

import pytest

from casrewind.cli.terminal import table
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.killed_programs import contents
from support.packfile import flip_blob
from support.trees import plant

SESSION = "01c243ca-0000-4000-8000-000000000001"


@pytest.fixture
def agent(root, settings):
    """Three turns, of which the newest removed a file, and an edit by hand after them."""
    plant(root, {"till.py": b"1\n", "gone": b"g", ".gitignore": b"*.log\n"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root, SESSION)
        agent.prompt("a", "write the till")
        plant(root, {"till.py": b"2\n", "new/deep": b"2", "new/more": b"3"})
        agent.stop("a")
        agent.prompt("b", "look around")
        agent.stop("b")
        agent.prompt("c", "tidy up")
        (root / "gone").unlink()
        plant(root, {"till.py": b"3\n"})
        agent.stop("c")
        plant(root, {"mine": b"by hand", "debug.log": b"ignored"})
        yield agent


def test_each_count_is_what_a_restore_there_does(casrewind, agent, root):
    turns = casrewind.json("list", "--would")["turns"]
    before = contents(root)
    assert len(turns) == 3
    for turn in turns:
        done = casrewind.json("restore", f"@{turn['n']}", "-y")
        assert turn["would_change"] == {"written": done["restored"], "removed": done["removed"]}
        casrewind("undo", "-y", code=0)
        assert contents(root) == before
    assert [turn["would_change"] for turn in turns] == [{"written": 2, "removed": 1}] * 2 + [{"written": 2, "removed": 3}]


@pytest.mark.parametrize("columns", [62, 80, 120])
def test_the_column_stands_in_place_of_the_paths(casrewind, agent, monkeypatch, columns):
    monkeypatch.setattr(table, "_fixed_width", [columns])
    lines = casrewind("list", "--would", code=0).out.splitlines()
    rows = [line for line in lines if "would change" in line]
    assert [row.partition("would change ")[2].split()[0] for row in rows] == ["3", "3", "5"]
    assert not any("till.py" in line for line in lines) and all(len(line) <= columns for line in lines)
    assert "~1 -1" in rows[0] and "write the till" in "\n".join(lines), "what the turn did itself stays"


def test_the_state_of_now_is_named(casrewind, agent):
    casrewind("restore", "@1", "-y", code=0)
    rows = [line for line in casrewind("list", "--would", code=0).out.splitlines() if line.lstrip().startswith("@")]
    assert "(current)" in rows[0] and "(current)" in rows[1] and "would change 3" in rows[2]


def test_many_are_not_counted_out(casrewind, agent, root):
    plant(root, {f"more/{number}": b"m" for number in range(96)})
    assert casrewind("list", "--would", code=0).out.count("would change 99 ") == 2
    plant(root, {"more/other": b"m"})
    assert casrewind("list", "--would", code=0).out.count("changes over 99") == 3


def test_in_a_client_the_list_has_it_without_an_option(casrewind, agent):
    inside = casrewind("list", "-n", "8", code=0, CASREWIND_INSIDE=SESSION).out
    assert inside.count("would change 3") == 2 and "till.py" not in inside


def test_a_state_that_cannot_be_read_is_not_counted(casrewind, agent):
    flip_blob(agent.context.store.path, agent.workspace.checkpoint("@3").tree)
    assert casrewind.json("list", "--would", code=20)["turns"][-1]["would_change"] is None
    assert "not known" in casrewind("list", "--would").out.splitlines()[-1]


@pytest.mark.parametrize("other", ["--all", "--remote", "--oneline"])
def test_it_is_of_the_list_of_turns_alone(casrewind, agent, other):
    assert "--would counts for each turn" in casrewind("list", "--would", other, code=64).err
