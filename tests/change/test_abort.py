"""An interrupted restore that is taken back, or finished, while a turn runs: no turn is charged with it."""

import shutil

import pytest

from casrewind.model.turn_records import SavedRow
from casrewind.history.turn_view import TurnView
from casrewind.workspace import Workspace
from support.agent_turns import AgentTurns
from support.picture import differences, picture
from support.trees import plant

FIRST = {f"src/f{number}": b"first %d\n" % number for number in range(12)} | {f"old/o{number}": b"old %d\n" % number for number in range(9)}
SECOND = {f"src/f{number}": b"second %d\n" % number for number in range(12)} | {f"new/n{number}": b"new %d\n" % number for number in range(9)}


class Cut(Exception):
    """Where a restore stops."""


def cut_in_the_middle(root, settings, change, after=26):
    """What a kill in the middle of a change leaves: some paths are as before, some as they should become."""

    def stop(what, done, total):
        if what == "restoring" and done == after:
            raise Cut

    with Workspace(str(root), settings, create=False, progress=stop) as workspace:
        with pytest.raises(Cut):
            change(workspace)
        assert workspace.is_interrupted()


@pytest.fixture
def target(workspace, root):
    """A checkpoint that a restore goes to; the files are others now."""
    plant(root, FIRST)
    point = workspace.save().checkpoint
    shutil.rmtree(root / "old")
    plant(root, SECOND)
    workspace.save()
    return point


def changed_paths(turn):
    return [change.path.decode() for change in turn.changes]


@pytest.mark.parametrize("forward", [False, True], ids=["abort", "continue"])
def test_a_turn_in_which_an_interrupted_restore_ends_has_the_agents_files_alone(workspace, root, settings, target, forward):
    turns = AgentTurns(workspace, root)
    before = picture(root)
    cut_in_the_middle(root, settings, lambda other: other.restore(other.checkpoint(target.id)))
    assert differences(before, picture(root))
    turns.prompt("p1", "make one file")
    workspace.finish_restore(forward=forward)
    plant(root, {"made.txt": b"by the agent\n"})
    turns.stop("p1")
    [turn] = workspace.turns()
    assert changed_paths(turn) == ["made.txt"]
    workspace.revert([turn])
    assert not (root / "made.txt").exists()
    if not forward:
        assert differences(before, picture(root)) == {}


def rows(workspace):
    """The rows of the list, newest first, each as its kind with the paths that it changed."""
    view = TurnView(workspace._context)
    return [((getattr(row, "kind", "") or "turn"), sorted(change.path.decode() for change in row.changes or ())) for row in view.rows() if not isinstance(row, SavedRow)]


def test_a_turn_that_ran_before_the_interrupted_restore_keeps_what_the_agent_does_behind_the_abort(workspace, root, settings, target):
    turns = AgentTurns(workspace, root)
    turns.prompt("p1", "make two files")
    plant(root, {"one.txt": b"by the agent\n"})
    cut_in_the_middle(root, settings, lambda other: other.restore(other.checkpoint(target.id), scope=[b"src", b"new", b"old"]))
    workspace.finish_restore(forward=False)
    plant(root, {"two.txt": b"by the agent\n"})
    turns.stop("p1")
    [turn] = workspace.turns()
    assert changed_paths(turn) == ["one.txt", "two.txt"]


def test_an_abort_is_a_row_of_the_list_and_no_step_of_undo(workspace, root, settings, target):
    other = workspace.save(message="other").checkpoint
    plant(root, {"src/f0": b"third\n"})
    workspace.restore(other)
    cut_in_the_middle(root, settings, lambda there: there.restore(there.checkpoint(target.id)))
    half = {path: what for path, what in picture(root).items() if b".casrewind-tmp" not in path}
    done = workspace.finish_restore(forward=False)
    [(kind, paths), *_] = rows(workspace)
    assert kind == "aborted" and "src/f0" in paths and "new/n8" not in paths, "of the half that was restored alone"
    workspace.restore(workspace.checkpoint(done.safety))
    assert differences(half, picture(root)) == {}, "the state before the abort"
    workspace.undo()
    workspace.undo()
    assert (root / "src/f0").read_bytes() == b"third\n", "undo takes the restore before it back"


def test_an_abort_that_is_cut_too_is_finished_by_a_second_one_and_cuts_the_turn_once(workspace, root, settings, target):
    turns = AgentTurns(workspace, root)
    before = picture(root)
    cut_in_the_middle(root, settings, lambda other: other.restore(other.checkpoint(target.id)))
    turns.prompt("p1", "make one file")
    cut_in_the_middle(root, settings, lambda other: other.finish_restore(forward=False))
    assert differences(before, picture(root))
    workspace.finish_restore(forward=False)
    assert differences(before, picture(root)) == {}
    plant(root, {"made.txt": b"by the agent\n"})
    turns.stop("p1")
    [turn] = workspace.turns()
    assert changed_paths(turn) == ["made.txt"]
    assert [kind for kind, _ in rows(workspace)].count("aborted") == 1


def test_a_restore_is_finished_although_its_abort_was_begun(workspace, root, settings, target):
    turns = AgentTurns(workspace, root)
    cut_in_the_middle(root, settings, lambda other: other.restore(other.checkpoint(target.id)))
    turns.prompt("p1", "make one file")
    cut_in_the_middle(root, settings, lambda other: other.finish_restore(forward=False))
    workspace.finish_restore(forward=True)
    plant(root, {"made.txt": b"by the agent\n"})
    turns.stop("p1")
    [turn] = workspace.turns()
    assert changed_paths(turn) == ["made.txt"]
    assert [kind for kind, _ in rows(workspace)] == ["turn", "restored", "edited"]


@pytest.mark.parametrize("forward", [False, True], ids=["abort", "continue"])
def test_gc_and_a_new_index_leave_such_a_turn_what_it_is(workspace, root, settings, target, forward, home):
    turns = AgentTurns(workspace, root)
    cut_in_the_middle(root, settings, lambda other: other.restore(other.checkpoint(target.id)))
    turns.prompt("p1", "make one file")
    workspace.finish_restore(forward=forward)
    plant(root, {"made.txt": b"by the agent\n"})
    turns.stop("p1")
    found = rows(workspace)
    workspace.gc()
    assert rows(workspace) == found
    [index] = [place for place in home.rglob("index") if place.is_dir() and (place / "data.mdb").exists()]
    workspace.close()
    shutil.rmtree(index)
    with Workspace(str(root), settings, create=False) as again:
        assert rows(again) == found
        assert changed_paths(again.turns()[0]) == ["made.txt"]
        assert not again.verify().problems


def test_an_end_that_was_cut_and_never_given_again_is_no_end(workspace, root, settings, target):
    cut_in_the_middle(root, settings, lambda other: other.restore(other.checkpoint(target.id)))
    cut_in_the_middle(root, settings, lambda other: other.finish_restore(forward=False))
    plant(root, {"made.txt": b"by a person\n"})
    workspace.save()
    workspace.finish_restore(forward=True)
    assert [kind for kind, _ in rows(workspace)] == ["restored", "restored", "edited"]


@pytest.mark.parametrize("way", ["--abort", "--continue"])
def test_the_end_of_an_interrupted_restore_names_what_it_did_and_how_to_go_back(casrewind, workspace, root, settings, target, way):
    """No plan was shown before it. The half that was done already is not counted for an abort."""
    cut_in_the_middle(root, settings, lambda other: other.restore(other.checkpoint(target.id)))
    done = casrewind("restore", way, code=0).out
    if way == "--abort":
        assert done.startswith("taken back: ") and "  - old/ (9 files)\n" in done and "  ~ src/f0 (8 B -> 9 B)\n" in done
        identity = done.partition("  casrewind restore ")[2].split()[0]
        assert f"casrewind restore {identity} goes back to the half-restored state\n" in done
        casrewind("restore", identity, "-y", code=0)
    else:
        assert done.startswith("restored: ") and "  - new/ (9 files)\n" in done and "casrewind undo takes this back" in done
