"""Who made what a file has: traced through merges, restores, undos and takes."""

import pytest

from casrewind.history.provenance import OtherSessions, edited_outside
from support.agent_turns import AgentTurns
from support.trees import plant

TEXT = [b"line %d\n" % number for number in range(30)]


def with_lines(text, **lines):
    """The text with other lines: l3=b"..." replaces the third."""
    found = list(text)
    for name, line in lines.items():
        found[int(name[1:]) - 1] = line + b"\n"
    return found


@pytest.fixture
def told(workspace, root):
    plant(root, {"app.py": b"".join(TEXT), "other": b"0"})
    return AgentTurns(workspace, root)


def turn(told, name, **files):
    """One turn that writes `files`; the id of the checkpoint before it."""
    before = told.prompt(name, f"do {name}")
    plant(told.root, files)
    told.stop(name)
    return before


def write(root, lines):
    plant(root, {"app.py": b"".join(lines)})


def named(told, point):
    return [path.decode() for path in edited_outside(told.context, point, told.workspace.plan_restore(point.id).actions).proved]


@pytest.fixture
def merged(told, root):
    """A turn's line, a person's line, and the turn taken back: the merge has the person's line alone. The checkpoint before the turn."""
    before = turn(told, "a", **{"app.py": b"".join(with_lines(TEXT, l3=b"agent"))})
    write(root, with_lines(TEXT, l3=b"agent", l20=b"mine"))
    assert not told.workspace.revert([1]).kept
    assert (root / "app.py").read_bytes() == b"".join(with_lines(TEXT, l20=b"mine"))
    return before


def test_an_edit_that_a_merge_kept_is_named(told, merged):
    assert named(told, merged) == ["app.py"]
    told.workspace.save()
    assert named(told, merged) == ["app.py"]


def test_an_edit_that_a_merge_kept_is_named_behind_a_turn(told, root, merged):
    turn(told, "b", **{"app.py": b"".join(with_lines(TEXT, l20=b"mine", l28=b"agent again"))})
    assert named(told, merged) == ["app.py"]


def test_an_edit_that_a_merge_kept_and_that_was_undone_with_it_is_named_again(told, root, merged):
    told.workspace.undo()
    assert named(told, merged) == ["app.py"]


def test_what_a_restore_brought_back_is_of_whom_made_it_then(told, root, workspace):
    first = turn(told, "a", **{"app.py": b"".join(with_lines(TEXT, l3=b"agent"))})
    plant(root, {"app.py": b"".join(with_lines(TEXT, l3=b"agent", l20=b"mine"))})
    second = turn(told, "b", other=b"2")
    turn(told, "c", **{"app.py": b"nothing is left\n"})
    workspace.restore(second)
    assert named(told, first) == ["app.py"] and named(told, second) == []
    workspace.restore(first)
    assert named(told, first) == []
    turn(told, "d", **{"app.py": b"".join(with_lines(TEXT, l3=b"agent, later"))})
    assert named(told, first) == [], "the person's line is not in it"


def test_a_conflict_names_no_turn_whose_work_was_taken_back(told, root, workspace):
    """Its line went away with a restore, and the same place has the line of a person."""
    write(root, with_lines(TEXT, l3=b"mine at first"))
    first = turn(told, "a", **{"app.py": b"".join(with_lines(TEXT, l3=b"agent"))})
    second = turn(told, "b", **{"app.py": b"".join(with_lines(TEXT, l3=b"agent again"))})
    workspace.restore(second)
    write(root, with_lines(TEXT, l3=b"mine"))
    (item,) = workspace.revert([2]).kept
    assert item.reason == "line 3 was edited since by you" and item.by == ()
    assert named(told, first) == ["app.py"]


def by_others(told, point):
    """The paths of a restore that sessions beside `told` may have edited."""
    others = OtherSessions(told.context, point, {told.session})
    return [path.decode() for path in others.among(told.workspace.plan_restore(point.id).actions)]


def test_what_two_agents_that_run_may_both_have_made_is_named_for_either(told, root, workspace):
    other = AgentTurns(workspace, root, "s2")
    first = workspace.save().checkpoint
    for agent in (other, told):
        agent.prompt(agent.session, "go on")
        agent.run_in_this_process()
        plant(root, {f"while {agent.session} runs": b"1"})
    workspace.save()
    assert by_others(told, first) == ["while s1 runs", "while s2 runs"], "the other one began before"
    assert by_others(other, first) == ["while s1 runs"]
    told.stop("s1")
    other.stop("s2")
    plant(root, {"mine": b"1"})
    assert by_others(told, first) == ["while s1 runs", "while s2 runs"] and by_others(other, first) == ["while s1 runs"]


def test_what_another_session_did_and_was_taken_back_is_not_named(told, root, workspace):
    other = AgentTurns(workspace, root, "s2")
    first = workspace.save().checkpoint
    before = turn(other, "o", theirs=b"1")
    turn(told, "a", mine=b"1")
    assert by_others(told, first) == ["theirs"]
    workspace.restore(before)
    turn(told, "b", theirs=b"mine")
    assert by_others(told, first) == []


def test_a_persons_edit_is_named_behind_two_turns_that_overlapped(told, root, workspace):
    first = turn(told, "a", **{"app.py": b"".join(with_lines(TEXT, l3=b"agent"))})
    write(root, with_lines(TEXT, l3=b"agent", l20=b"mine"))
    other = AgentTurns(workspace, root, "s2")
    told.prompt("b", "do b")
    write(root, with_lines(TEXT, l3=b"agent b", l20=b"mine"))
    other.prompt("x", "do x")
    write(root, with_lines(TEXT, l3=b"agent b", l10=b"one of them", l20=b"mine"))
    told.stop("b")
    other.stop("x")
    assert named(told, first) == ["app.py"]


def test_a_persons_edit_is_named_behind_a_revert_while_a_turn_ran(told, root, workspace):
    first = turn(told, "a", **{"app.py": b"".join(with_lines(TEXT, l3=b"agent"))})
    write(root, with_lines(TEXT, l3=b"agent", l20=b"mine"))
    told.prompt("b", "do b")
    workspace.revert([2])
    write(root, with_lines(TEXT, l10=b"agent b", l20=b"mine"))
    told.stop("b")
    assert named(told, first) == ["app.py"]
