"""A plan names the edits that were made outside of a turn: those that are proved, and no other."""

import shutil

import pytest

from casrewind.cli.picker.timeline import CODE, TimelineModel
from casrewind.history.provenance import edited_outside
from casrewind.errors import Declined
from support.agent_turns import AgentTurns
from support.packfile import flip_blob
from support.trees import plant


@pytest.fixture
def told(workspace, root):
    plant(root, {"till.py": b"0", "README.md": b"read me", "gone": b"g", "d/x": b"x"})
    return AgentTurns(workspace, root)


def turn(told, name, **files):
    """One turn that writes `files`; the id of the checkpoint before it."""
    before = told.prompt(name, f"do {name}")
    plant(told.root, {path.replace("_", "/"): text.encode() for path, text in files.items()})
    told.stop(name)
    return before


def named(told, point):
    actions = told.workspace.plan_restore(point.id).actions
    return [path.decode() for path in edited_outside(told.context, point, actions).proved]


def test_edits_between_turns_and_behind_them_are_named_and_those_of_turns_are_not(told, root):
    first = turn(told, "a", till="1", other="1")
    plant(root, {"README.md": b"mine", "notes": b"mine"})
    (root / "gone").unlink()
    second = turn(told, "b", till="2", other="2")
    assert named(told, first) == ["README.md", "gone", "notes"]
    assert named(told, second) == [], "the checkpoint before @1 has these edits"
    plant(root, {"till": b"3", "d/mine": b"m"})
    (root / "d/x").chmod(0o755)
    assert named(told, first) == ["README.md", "d/mine", "d/x", "gone", "notes", "till"]
    assert named(told, second) == ["d/mine", "d/x", "till"]
    shutil.rmtree(root / "d")
    assert "d/x" in named(told, second) and "d" not in named(told, second)


def test_an_edit_that_a_later_turn_worked_on_is_named(told, root):
    first = turn(told, "a", till="1")
    plant(root, {"till": b"mine"})
    turn(told, "b", till="mine, and more")
    turn(told, "c", till="mine, and even more")
    assert named(told, first) == ["till"]


def test_an_edit_that_was_taken_back_before_is_not_named(told, root, workspace):
    first = turn(told, "a", till="1")
    plant(root, {"till": b"mine", "new": b"mine"})
    second = turn(told, "b", other="2")
    assert named(told, first) == ["new", "till"]
    workspace.restore(first)
    assert named(told, first) == [] and named(told, second) == []
    turn(told, "c", till="3")
    assert named(told, first) == []
    workspace.undo(everything=True)
    assert named(told, first) == ["new", "till"]


def test_while_a_turn_runs_only_what_was_there_before_it_is_named(told, root):
    first = turn(told, "a", till="1")
    plant(root, {"till": b"mine"})
    told.prompt("b", "go on")
    plant(root, {"till": b"somebody's", "other": b"somebody's"})
    assert named(told, first) == ["till"]


@pytest.mark.parametrize("how", ["cut short", "without an end"])
def test_what_a_turn_without_a_seen_end_changed_may_contain_edits(told, root, casrewind, how):
    first = turn(told, "a", till="1")
    told.prompt("b", "write on")
    plant(root, {"till": b"2", "notes": b"2"})
    if how == "cut short":
        turn(told, "c", other="3")
        plant(root, {"README.md": b"mine", "notes": b"mine"})
    else:
        plant(root, {"notes": b"mine, perhaps"})
    actions = told.workspace.plan_restore(first.id).actions
    found = edited_outside(told.context, first, actions)
    told.workspace.close()
    text = casrewind("restore", first.id, "-n", code=0).out
    if how == "cut short":
        assert found[:2] == ((b"README.md", b"notes"), (b"till",)), "what is proved is not named twice"
        assert "  2 of these paths were edited since then, outside of a turn. Those edits will be lost:\n    README.md, notes\n" in text
    else:
        assert found[:2] == ((), (b"notes", b"till"))
    possible = [path.decode() for path in found.possible]
    were = f"{len(possible)} of these paths may contain your edits (casrewind did not see their turn end, as after Esc):"
    assert f"  {were}\n    {', '.join(possible)}\n" in text
    assert casrewind.json("restore", first.id, "-n")["edited_outside"] == [path.decode() for path in found.proved]


def test_without_turns_nothing_is_an_edit_that_no_turn_made(workspace, root, told):
    point = workspace.save("it works").checkpoint
    plant(root, {"till": b"mine"})
    assert named(told, point) == []


@pytest.mark.parametrize("is_newest", [True, False])
def test_of_a_damaged_store_nothing_is_named(told, root, is_newest):
    first = turn(told, "a", till="1")
    plant(root, {"d/mine": b"mine"})
    second = told.prompt("b", "remove d/x")
    (root / "d/x").unlink()
    told.stop("b")
    actions = told.workspace.plan_restore(first.id).actions
    point = told.workspace.checkpoint("last" if is_newest else second.id)
    load = told.context.store.load_tree
    flip_blob(told.workspace.store_path, point.tree if is_newest else dict(load(point.tree))[b"d"].digest)
    found = edited_outside(told.context, first, actions)
    assert found[:2] == ((), ()), "a directory that cannot be read is not an empty one"


def test_a_plan_names_three_of_them_and_json_all(told, root, casrewind):
    turn(told, "a", till="1")
    plant(root, {f"mine{number}": b"m" for number in range(5)})
    turn(told, "b", till="2")
    line = "  5 of these paths were edited since then, outside of a turn. Those edits will be lost:\n    mine0, mine1, mine2 and 2 more\n"
    every = [f"mine{number}" for number in range(5)]
    assert line in casrewind("restore", "@2", "-n", code=0).out
    assert casrewind.json("restore", "@2", "-n")["edited_outside"] == every
    assert "outside of a turn" not in casrewind("restore", "@2", "-n", "till", code=0).out
    assert "outside of a turn" not in casrewind("revert", "@1", "-n", code=0).out
    assert casrewind.json("restore", "@2", "--yes")["edited_outside"] == every
    assert "outside of a turn" not in casrewind("undo", "--yes", code=0).out
    assert casrewind.json("restore", "@1", "-n")["edited_outside"] == []


def test_the_picker_names_them_in_its_question(told, root):
    turn(told, "a", till="1")
    plant(root, {"README.md": b"mine"})
    turn(told, "b", till="2")
    model = TimelineModel(told.context)
    row = next(row for row in model.first_timeline().rows if getattr(row.item, "n", 0) == 2)
    asked = []

    def ask(proposal):
        asked.extend(line.text for line in proposal.lines)
        return False

    with pytest.raises(Declined):
        model.restore(row, CODE, (), ask)
    assert "  1 of these paths was edited since then, outside of a turn. Those edits will be lost:" in asked
    assert asked[asked.index("  1 of these paths was edited since then, outside of a turn. Those edits will be lost:") + 1] == "    README.md"
