"""The turns of a real store: saves, hook events, restores, undo, gc."""

import pytest

from casrewind import errors
from casrewind.model.retention import Limits
from casrewind.model.turn_records import Forgotten, Outside, Reset, SavedRow, Turn
from casrewind.history import compare, turn_view
from casrewind.history.checkpoint_names import turn_of
from support.agent_turns import AgentTurns
from support.dict_differ import letters
from support.trees import plant

@pytest.fixture
def told(workspace, root):
    plant(root, {"readme": b"r"})
    return AgentTurns(workspace, root)


def view(told, *, now=False):
    return turn_view.TurnView(told.context, compare.scan_worktree(told.context) if now else None)


def test_two_turns_with_an_edit_between_them(told, root):
    told.tell("SessionStart", source="startup")
    first = told.prompt("a", "make alpha")
    plant(root, {"alpha": b"1"})
    end = told.stop("a")
    plant(root, {"person": b"2"})
    told.prompt("b", "edit alpha")
    plant(root, {"alpha": b"3", "d/new": b"4"})
    told.stop("b")
    rows = list(view(told).rows())
    assert [type(row) for row in rows] == [Turn, Outside, Turn]
    assert [letters(row.changes) for row in rows] == [{"alpha": "M", "d": "A", "d/new": "A"}, {"person": "A"}, {"alpha": "A"}]
    assert (rows[2].id, rows[2].before, rows[2].after, rows[2].n) == (first.id, first.id, end.id, 2)
    assert end.prompt == "make alpha"
    assert end.more.turn == first.more.turn == first.id
    assert (end.more.event, first.more.event) == ("Stop", "UserPromptSubmit")


def test_later_turns_are_named_by_their_records(told, root):
    told.prompt("a", "one")
    told.stop("a")
    second = told.prompt("b", "two")
    waiting = told.prompt("b", "and this")
    end = told.stop("b")
    assert second.more.turn == second.id
    assert waiting.more.turn == end.more.turn == second.id
    assert end.prompt == "two"
    assert view(told).turns[0].also == ("and this",)


def test_references(told, root):
    before = told.prompt("a", "one")
    after = told.stop("a")
    told.prompt("b", "two")
    plant(root, {"x": b"1"})
    seen = view(told)
    assert seen.find_state("@2")[1] == before
    assert seen.find_state("after:@2")[1] == after
    assert seen.find_state("after:@1")[1] is None  # nothing stands behind it: the worktree
    assert seen.find_turn(before.id).n == 2
    assert seen.turn_of(after.id).n == 2
    for wrong in ("@0", "@3", "after:@9"):
        with pytest.raises(errors.CheckpointNotFound):
            seen.find_state(wrong)
    with pytest.raises(errors.CheckpointNotFound):
        seen.find_turn("cffff")
    assert turn_of("@12") == (12, False, 0) and turn_of("after:@3") == (3, True, 0)
    assert turn_of("12") == (12, False, 0) and turn_of("after:3") == (3, True, 0), "a bare number is a turn"
    assert [turn_of(word) for word in ("@", "1x", "@x", "@-1", "-1", "after:", "after:last", "@@1", "@²", "²")] == [None] * 10


def test_the_newest_turn_against_the_worktree(told, root):
    told.prompt("a", "one")
    plant(root, {"x": b"1"})
    assert list(view(told).rows())[0].changes is None
    row = list(view(told, now=True).rows())[0]
    assert (letters(row.changes), row.to_now, row.after, row.end_unseen) == ({"x": "A"}, True, None, True)


def test_what_was_edited_since(told, root):
    told.prompt("a", "one")
    told.stop("a")
    plant(root, {"x": b"1"})
    row = list(view(told, now=True).rows())[0]
    assert (row.kind, row.checkpoint, letters(row.changes)) == ("edited", "", {"x": "A"})


def test_restore_and_undo_are_rows_and_a_younger_file_is_nobodys_edit(told, root, workspace):
    before = told.prompt("a", "one")
    plant(root, {"x": b"1", "readme": b"changed"})
    told.stop("a")
    workspace.restore(before)
    told.prompt("b", "two")
    plant(root, {"y": b"2"})
    told.stop("b")
    workspace.undo()
    told.prompt("c", "three")
    told.stop("c")
    rows = list(view(told).rows())
    assert [(getattr(row, "kind", "") or "turn") for row in rows] == ["turn", "undone", "turn", "restored", "turn"]
    assert letters(rows[1].changes) == {"x": "A", "readme": "M"}
    assert letters(rows[2].changes) == {"y": "A"}
    assert letters(rows[3].changes) == {"x": "D", "readme": "M"}
    assert (rows[3].of, rows[3].side, rows[3].loose) == (3, "before", False)


def test_a_restore_while_a_turn_runs_is_not_the_turns(told, root, workspace):
    workspace.save("start")
    told.prompt("a", "one")
    plant(root, {"x": b"1"})
    workspace.restore(workspace.checkpoint("start"))
    plant(root, {"y": b"1"})
    told.stop("a")
    rows = list(view(told).rows())
    reset, turn, saved = rows
    assert isinstance(reset, Reset) and reset.during == (1,) and letters(reset.changes) == {"x": "D"}
    assert letters(turn.changes) == {"y": "A"}
    assert isinstance(saved, SavedRow) and (saved.label, saved.during) == ("start", ())


def test_what_a_turn_changed_stays_its_own_when_a_restore_in_it_is_undone(told, root, workspace):
    """A restore and its undo left the file nowhere: only the new name of a moved file was the turn's, and went with it."""
    point = workspace.save("start").checkpoint
    told.prompt("a", "one")
    plant(root, {"moved": (root / "readme").read_bytes(), "x": b"1"})
    (root / "readme").unlink()
    workspace.restore(point)
    workspace.undo()
    workspace.redo()
    workspace.undo()
    told.stop("a")
    (turn,) = [row for row in view(told).rows() if isinstance(row, Turn)]
    assert letters(turn.changes) == {"moved": "A", "readme": "D", "x": "A"}
    workspace.revert([1])
    assert (root / "readme").is_file() and not (root / "moved").exists() and not (root / "x").exists()


def test_what_the_turns_own_agent_restores_is_the_turns(told, root, workspace):
    workspace.save("start")
    told.prompt("a", "one")
    plant(root, {"x": b"1", "readme": b"2"})
    context = workspace._opened
    workspace._opened = context._replace(shell=("claude", "s1"))
    workspace.restore(workspace.checkpoint("start"))
    workspace._opened = context
    plant(root, {"y": b"1"})
    told.stop("a")
    rows = list(view(told).rows())
    assert [type(row) for row in rows] == [Turn, SavedRow]
    assert letters(rows[0].changes) == {"y": "A"}


def test_a_subagent_moves_the_end(told, root):
    told.prompt("a", "one")
    told.stop("a", background_tasks=[{"type": "subagent"}, {"type": "shell"}])
    plant(root, {"sub": b"1"})
    last = told.tell("SubagentStop", "a", agent_id="x", agent_type="general", background_tasks=[{"type": "subagent"}])
    (turn,) = view(told).rows()
    assert (turn.after, letters(turn.changes)) == (last.id, {"sub": "A"})
    points = {point.more.event: point.more for point in view(told).points.values()}
    assert (points["Stop"].subagents, points["Stop"].tasks) == (1, 1)


def test_a_subagents_end_alone_is_none(told, root):
    told.prompt("a", "one")
    plant(root, {"sub": b"1"})
    told.tell("SubagentStop", "a", agent_id="x", agent_type="general")
    plant(root, {"more": b"1"})
    cut = told.prompt("b", "two")
    told.stop("b")
    turn = list(view(told).rows())[1]
    assert (turn.cut_short, turn.after, letters(turn.changes)) == (True, cut.id, {"sub": "A", "more": "A"})


def test_a_subagents_end_alone_is_none_in_any_spelling(workspace, root):
    told = AgentTurns(workspace, root, agent="cursor")
    told.tell("beforeSubmitPrompt", prompt="one")
    plant(root, {"sub": b"1"})
    told.tell("subagentStop")
    told.tell("beforeSubmitPrompt", prompt="two")
    told.tell("stop")
    assert [turn.cut_short for turn in view(told).turns] == [False, True]


def test_gc_takes_whole_turns(told, root, workspace):
    for number in range(12):
        told.prompt(f"t{number}", f"prompt {number}")
        plant(root, {f"f{number}": b"%d" % number})
        told.stop(f"t{number}")
    full = list(view(told).rows())
    workspace.gc(Limits(None, 5))
    rows = list(view(told).rows())
    left = [row for row in rows if isinstance(row, Turn)]
    assert all(turn.changes is not None for turn in left)
    assert [(turn.id, turn.prompt, turn.changes) for turn in left] == [(turn.id, turn.prompt, turn.changes) for turn in full[: len(left)]]
    assert 2 <= len(left) <= 6
    assert isinstance(rows[-1], Forgotten)


def test_the_branch_stands_in_the_turn(told, root):
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/feature\n")
    told.workspace._opened = told.context._replace(root=told.context.root._replace(git_dir=str(root / ".git")))
    point = told.prompt("a", "one")
    assert (point.more.branch, point.more.commit) == ("feature", "")
    assert view(told).turns[0].branch == "feature"


def test_a_turn_names_two_states_everywhere_a_checkpoint_is_asked_for(told, root, workspace):
    told.prompt("a", "make alpha")
    plant(root, {"alpha": b"1"})
    end = told.stop("a")
    second = told.prompt("b", "wreck it")
    (root / "alpha").unlink()
    assert workspace.checkpoint("@1") == second and workspace.checkpoint("after:@2").id == end.id
    assert workspace.checkpoint_and_path("@1:alpha") == (second, "alpha")
    assert workspace.checkpoint_and_path("after:@2:alpha")[0].id == end.id
    workspace.restore("@1")
    assert (root / "alpha").read_bytes() == b"1"
    for wrong in ("@3", "@0", "after:@9"):
        with pytest.raises(errors.CheckpointNotFound):
            workspace.checkpoint(wrong)
