"""An interruption between the ledger's record of a restore and the end of its journal: both ways out tell the truth."""

import pytest

from casrewind import errors
from casrewind.store import journal
from support.picture import differences, picture
from support.trees import plant


def interrupted_at_the_very_end(workspace, root, monkeypatch, verb):
    """Run a verb whose journal cannot be removed: what a kill right there leaves."""
    monkeypatch.setattr(journal.Journals, "remove", lambda self, worktree: (_ for _ in ()).throw(errors.StoreError("gone")))
    with pytest.raises(errors.StoreError):
        verb()
    monkeypatch.undo()


@pytest.fixture
def broken(workspace, root):
    plant(root, {"a": b"one", "d/b": b"two"})
    point = workspace.save().checkpoint
    plant(root, {"a": b"changed", "new": b"x"})
    return point


def test_continue_ends_it_and_undo_takes_it_back_once(workspace, root, broken, monkeypatch):
    before = picture(root)
    interrupted_at_the_very_end(workspace, root, monkeypatch, lambda: workspace.restore(broken))
    workspace.finish_restore(forward=True)
    assert (root / "a").read_bytes() == b"one"
    workspace.undo()
    assert differences(before, picture(root)) == {}
    with pytest.raises(errors.NothingToUndo):
        workspace.undo()


def test_abort_takes_it_back_and_leaves_nothing_to_undo(workspace, root, broken, monkeypatch):
    before = picture(root)
    interrupted_at_the_very_end(workspace, root, monkeypatch, lambda: workspace.restore(broken))
    after = picture(root)
    workspace.finish_restore(forward=False)
    assert differences(before, picture(root)) == {}
    with pytest.raises(errors.NothingToUndo):
        workspace.undo()
    workspace.redo()
    assert differences(after, picture(root)) == {}
    workspace.undo()
    assert differences(before, picture(root)) == {}


def test_abort_of_an_undo_makes_it_undoable_again(workspace, root, broken, monkeypatch):
    before = picture(root)
    workspace.restore(broken)
    after = picture(root)
    interrupted_at_the_very_end(workspace, root, monkeypatch, workspace.undo)
    assert differences(before, picture(root)) == {}
    workspace.finish_restore(forward=False)
    assert differences(after, picture(root)) == {}
    workspace.undo()
    assert differences(before, picture(root)) == {}
