"""Subagents as parts of their turn, in a real store: told by a client's events, numbered, compared, reverted, kept by gc."""

import pytest

from casrewind import errors
from casrewind.change.revert import prepare_revert
from casrewind.history.checkpoint_names import turn_of
from casrewind.history.turn_view import TurnView
from casrewind.upkeep import agent_event
from support.agent_turns import AgentTurns
from support.dict_differ import letters
from support.git_repository import git, make_repository
from support.trees import plant


@pytest.fixture
def told(workspace, root):
    plant(root, {"readme": b"r\n"})
    return AgentTurns(workspace, root)


def subagents(told, number=1):
    """{name: (its changes, {path: the others that may have made it})} of a turn."""
    view = TurnView(told.context)
    turn = view.with_changes_of_subagents(view.find_turn(f"@{number}"))
    return {one.name: (letters(one.changes), {path.decode(): names for path, names in one.among}) for one in turn.subagents}


def two_in_a_row(told, root):
    told.prompt("p", "refactor")
    first = told.begin("p", "a1")
    told.stop("p", background_tasks=[{"type": "subagent"}])
    plant(root, {"one": b"1\n"})
    end = told.end("p", "a1", background_tasks=[{"type": "subagent"}])
    told.notify("n")
    plant(root, {"own": b"o\n"})
    told.begin("n", "a2", "general-purpose")
    told.stop("n", background_tasks=[{"type": "subagent"}])
    plant(root, {"two": b"2\n", "one": b"2\n"})
    told.end("n", "a2", "general-purpose", background_tasks=[{"type": "subagent"}])
    told.notify("n2")
    told.stop("n2")
    return first, end


def test_two_in_a_row_have_their_own_changes(told, root):
    first, end = two_in_a_row(told, root)
    view = TurnView(told.context)
    (turn,) = view.turns
    assert letters(view.with_changes(turn).changes) == {"one": "A", "own": "A", "two": "A"}
    assert turn.marks == ("2 subagents",)
    one, two = turn.subagents
    assert (one.name, one.title, one.before, one.after, one.cut_short) == ("@1.1", "explore", first.id, end.id, False)
    assert (two.name, two.title) == ("@1.2", "general-purpose")
    assert subagents(told) == {"@1.1": ({"one": "A"}, {}), "@1.2": ({"one": "M", "two": "A"}, {})}


def three_at_once(told, root, **wrote):
    told.prompt("p", "refactor")
    for who in ("a1", "a2", "a3"):
        told.begin("p", who)
    told.stop("p", background_tasks=[{"type": "subagent"}] * 3)
    plant(root, {"one": b"1\n", "two": b"2\n", "d/three": b"3\n", "by-shell": b"x\n"})
    for who in ("a1", "a2", "a3"):
        told.end("p", who, wrote=wrote.get(who, ()), background_tasks=[{"type": "subagent"}])
    told.notify("n")
    told.stop("n")


def test_of_three_at_once_a_path_is_proved_by_the_tool_that_named_it_or_unknown_among_them(told, root):
    three_at_once(told, root, a1=["one"], a2=["two"], a3=["d/three"])
    found = subagents(told)
    assert found["@1.1"] == ({"by-shell": "A", "one": "A"}, {"by-shell": ("@1.2", "@1.3")})
    assert found["@1.2"] == ({"by-shell": "A", "two": "A"}, {"by-shell": ("@1.1", "@1.3")})
    assert found["@1.3"] == ({"by-shell": "A", "d": "A", "d/three": "A"}, {"by-shell": ("@1.1", "@1.2")})


def test_without_a_proof_every_path_is_unknown_among_them(told, root):
    three_at_once(told, root)
    for changes, among in subagents(told).values():
        assert set(changes) == set(among) == {"one", "two", "d", "d/three", "by-shell"}


def test_a_path_that_two_named_is_unknown_among_the_two(told, root):
    three_at_once(told, root, a1=["one", "two"], a2=["two"])
    found = subagents(told)
    assert found["@1.1"][1]["two"] == ("@1.2",) and found["@1.2"][1]["two"] == ("@1.1",)
    assert "two" not in found["@1.3"][0]


def test_what_a_tool_failed_to_write_proves_nothing(told, root):
    told.prompt("p", "refactor")
    for who in ("a1", "a2"):
        told.begin("p", who)
    told.stop("p")
    plant(root, {"one": b"1\n"})
    told.end("p", "a1", failed=["one"])
    told.end("p", "a2")
    assert subagents(told) == {"@1.1": ({"one": "A"}, {"one": ("@1.2",)}), "@1.2": ({"one": "A"}, {"one": ("@1.1",)})}


def test_until_its_end_the_agent_itself_may_have_made_it(told, root):
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    plant(root, {"early": b"1\n", "named": b"1\n"})
    told.stop("p")
    plant(root, {"late": b"1\n"})
    told.end("p", "a1", wrote=["named"])
    assert subagents(told) == {"@1.1": ({"early": "A", "late": "A", "named": "A"}, {"early": ("@1",)})}


def test_a_shell_that_the_agent_left_running_may_have_made_it(told, root):
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p", background_tasks=[{"type": "shell"}])
    plant(root, {"late": b"1\n"})
    told.end("p", "a1")
    assert subagents(told) == {"@1.1": ({"late": "A"}, {"late": ("@1",)})}


def test_another_session_may_have_made_it(told, root):
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p")
    other = AgentTurns(told.workspace, root, session="s2")
    other.prompt("q", "beside")
    plant(root, {"x": b"1\n"})
    other.stop("q")
    told.end("p", "a1")
    assert subagents(told, 2) == {"@2.1": ({"x": "A"}, {"x": ("@1",)})}


def test_one_without_an_end_may_have_worked_until_the_end_of_the_turn(told, root):
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p")
    told.begin("p", "a2")
    plant(root, {"x": b"1\n"})
    told.end("p", "a2")
    assert subagents(told) == {"@1.1": ({"x": "A"}, {"x": ("@1.2",)}), "@1.2": ({"x": "A"}, {"x": ("@1.1",)})}
    assert [one.marks for one in TurnView(told.context).turns[0].subagents] == [("cut short",), ()]


def test_one_whose_start_was_not_seen_has_no_number_and_may_have_made_it(told, root):
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p")
    plant(root, {"x": b"1\n"})
    told.end("p", "unseen")
    told.end("p", "a1")
    assert subagents(told) == {"@1.1": ({"x": "A"}, {"x": ("@1",)})}


def test_ends_of_earlier_versions_make_no_rows(told, root):
    told.prompt("p", "refactor")
    told.stop("p")
    plant(root, {"x": b"1\n"})
    told.end("p", "a1")
    (turn,) = TurnView(told.context).turns
    assert turn.subagents == () and turn.marks == ()


def test_a_helper_of_the_client_is_no_subagent(told):
    assert told.event("SubagentStart", "p", agent_id="a1", agent_type="").trigger == ""
    assert told.event("SubagentStop", "p", agent_id="a1", agent_type="").trigger == ""


def test_a_start_whose_event_was_left_to_another_process_still_counts(told, root):
    """It has the state of another save, so it may have worked from the beginning of the turn."""
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p")
    plant(root, {"x": b"1\n"})
    event = told.event("SubagentStart", "p", agent_id="a2", agent_type="explore")
    agent_event.record_missed(told.context, agent_event.event_as_line(event, 5, (), tells_ends=True))
    told.end("p", "a1")
    told.end("p", "a2")
    assert subagents(told)["@1.1"] == ({"x": "A"}, {"x": ("@1.2",)})


def test_what_the_agent_made_while_one_was_down_is_not_the_subagent_s(told, root):
    """One that is continued is the same; in between another one wrote the same file."""
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p")
    plant(root, {"x": b"1\n"})
    told.end("p", "a1")
    told.notify("n")
    plant(root, {"x": b"1\nown\n"})
    told.begin("n", "a1")
    told.stop("n")
    plant(root, {"x": b"1\nown\n2\n"})
    told.end("n", "a1")
    assert subagents(told) == {"@1.1": ({"x": "A"}, {"x": ("@1",)})}


def test_revert_takes_back_the_lines_of_one_subagent(told, root, workspace):
    plant(root, {"shared.py": b"a\nb\nc\nd\ne\nf\ng\n"})
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p")
    plant(root, {"shared.py": b"A\nb\nc\nd\ne\nf\ng\n", "one": b"1\n"})
    told.end("p", "a1")
    told.notify("n")
    told.begin("n", "a2")
    told.stop("n")
    plant(root, {"shared.py": b"A\nb\nc\nd\ne\nf\nG\n", "two": b"2\n"})
    told.end("n", "a2")
    view = TurnView(told.context)
    change = prepare_revert(told.context, view, [view.find_turn("@1.1")])
    change.carry_out()
    assert (root / "shared.py").read_bytes() == b"a\nb\nc\nd\ne\nf\nG\n"
    assert (not (root / "one").exists(), (root / "two").exists()) == (True, True)
    workspace.undo()
    assert (root / "shared.py").read_bytes() == b"A\nb\nc\nd\ne\nf\nG\n" and (root / "one").exists()


def test_revert_leaves_alone_what_is_unknown_among_several(told, root):
    three_at_once(told, root, a1=["one"])
    view = TurnView(told.context)
    report = prepare_revert(told.context, view, [view.find_turn("@1.1")]).carry_out()
    assert not (root / "one").exists() and (root / "two").exists() and (root / "by-shell").exists()
    assert {item.path: item.why for item in report.kept} == dict.fromkeys((b"by-shell", b"d", b"d/three", b"two"), "shared")
    assert "changed while @1.2 and @1.3 ran, too" in report.kept[0].reason
    prepare_revert(told.context, view, [view.find_turn("@1.1")], shared=True).carry_out()
    assert sorted(path.name for path in root.iterdir() if path.name != ".git") == ["readme"]


def test_references(told, root):
    first, end = two_in_a_row(told, root)
    view = TurnView(told.context)
    assert view.find_state("@1.1")[1].id == first.id and view.find_state("after:@1.1")[1].id == end.id
    assert turn_of("@12.3") == (12, False, 3) and turn_of("after:@3.1") == (3, True, 1)
    assert [turn_of(word) for word in ("3.1", "after:3.1", "@3.", "@3.0", "@3.x", "@.1", "@3.1.1")] == [None] * 7, "3.1 may be a label or a file"
    with pytest.raises(errors.CheckpointNotFound, match="no subagent '@1.3': @1 has 2"):
        view.find_turn("@1.3")


def test_one_that_works_on_behind_its_turn_has_what_its_tools_named_there(told, root):
    """As after Esc: the client tells of its end in the turn of then."""
    told.prompt("p", "slow")
    told.begin("p", "a1")
    plant(root, {"one": b"1\n", "own": b"1\n"})
    told.prompt("q", "thanks")
    told.stop("q", background_tasks=[{"type": "subagent"}])
    plant(root, {"two": b"2\n", "by-shell": b"x\n"})
    told.end("q", "a1", wrote=["one", "two"])
    assert subagents(told, 2) == {"@2.1": ({"by-shell": "A", "one": "A", "own": "A", "two": "A"}, {"by-shell": ("@1",), "own": ("@2",)})}
    view = TurnView(told.context)
    assert letters(view.with_changes(view.find_turn("@2")).changes) == {"one": "A", "own": "A"} and view.find_turn("@1").subagents == ()


def test_what_changed_while_no_turn_ran_is_not_sure(told, root):
    told.prompt("p", "slow")
    told.begin("p", "a1")
    told.stop("p")
    plant(root, {"x": b"1\n"})
    told.prompt("q", "thanks")
    told.stop("q")
    told.end("q", "a1")
    assert subagents(told, 2) == {"@2.1": ({"x": "A"}, {"x": ("@2",)})}


def test_one_with_a_worktree_of_its_own_made_nothing_here_that_its_tools_did_not_name(told, root):
    make_repository(root)
    git(root, "worktree", "add", "-q", ".claude/worktrees/a1")
    told.prompt("p", "draft")
    told.begin("p", "a1", cwd=str(root / ".claude/worktrees/a1"))
    told.begin("p", "a2")
    told.stop("p")
    plant(root, {"x": b"1\n", "named": b"1\n"})
    told.end("p", "a1", wrote=["named"], cwd=str(root / ".claude/worktrees/a1"))
    told.end("p", "a2")
    assert subagents(told) == {"@1.1": ({"named": "A"}, {}), "@1.2": ({"x": "A"}, {})}
    assert [one.place for one in TurnView(told.context).turns[0].subagents] == [".claude/worktrees/a1", ""]


def test_the_agent_rests_between_its_end_and_the_next_news(told, root):
    told.prompt("p", "refactor")
    for who in ("a1", "a2"):
        told.begin("p", who)
    told.stop("p", background_tasks=[{"type": "subagent"}] * 2)
    told.end("p", "a1", background_tasks=[{"type": "subagent"}] * 2)
    plant(root, {"before-news": b"1\n"})
    told.notify("n")
    plant(root, {"in-answer": b"1\n"})
    told.stop("n", background_tasks=[{"type": "subagent"}])
    plant(root, {"behind-answer": b"1\n"})
    told.end("n", "a2", background_tasks=[{"type": "subagent"}])
    told.notify("n2")
    told.stop("n2")
    changes = dict.fromkeys(("before-news", "behind-answer", "in-answer"), "A")
    assert subagents(told) == {"@1.1": ({}, {}), "@1.2": (changes, {"in-answer": ("@1",)})}
    assert len(list(TurnView(told.context).rows())) == 1, "nothing of it is work in the background"


def test_the_api_takes_back_one_two_or_the_turn_with_all_of_them(told, root, workspace):
    three_at_once(told, root, a1=["one"], a2=["two"], a3=["d/three"])
    (turn,) = workspace.turns()
    assert letters(turn.subagents[0].changes) == {"by-shell": "A", "one": "A"}
    there = lambda: {name for name in ("one", "two", "d/three", "by-shell") if (root / name).exists()}  # noqa: E731
    for chosen, left in ((["@1.1"], {"two", "d/three", "by-shell"}), ([turn.subagents[1]], {"one", "d/three", "by-shell"}),
                         (["@1.1", "@1.2"], {"d/three", "by-shell"}), ([1, "@1.2"], set())):  # fmt: skip
        workspace.revert(chosen)
        assert there() == left, chosen
        workspace.undo()


def test_of_a_turn_whose_start_was_forgotten_no_subagent_is_told(told, root):
    told.prompt("p", "refactor")
    told.begin("p", "a1")
    told.stop("p")
    plant(root, {"x": b"1\n"})
    told.end("p", "a1")
    points = [pair for pair in told.context.store.checkpoints() if pair[0].trigger != "prompt"]
    (turn,) = TurnView(told.context, everything=points).turns
    assert (turn.before, turn.subagents) == (None, ())


def test_the_start_of_one_is_recorded_however_short_ago_a_tool_was(told):
    """Tools are at most recorded every 15 seconds."""
    told.prompt("p", "refactor")
    told.tell("PostToolBatch", "p")
    point = told.begin("p", "a1")
    event = told.event("SubagentStart", "p", agent_id="a2", agent_type="explore")
    assert not agent_event.is_too_soon(told.context, event, point.created_ns + 1)
    assert agent_event.is_too_soon(told.context, told.event("PostToolBatch", "p"), point.created_ns + 1)
