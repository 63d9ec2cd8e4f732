"""A sound journal of one worktree that lies where another one's would: worktrees of one repository share a store."""

import os

import pytest

from casrewind import errors
from casrewind.model import undo_history
from casrewind.model import plan as plans
from casrewind.model.plan import Action
from casrewind.change import finish_restore
from casrewind.store import packs
from support.picture import differences, picture
from support.trees import plant


@pytest.mark.parametrize("forward", [True, False])
def test_a_plan_that_would_fit_is_not_carried_out_in_another_worktree(workspace, root, forward):
    plant(root, {"keep": b"the same bytes in both worktrees"})
    point = workspace.save().checkpoint
    keep = dict(workspace.entries(point))[b"keep"]
    before = picture(root)
    store = workspace._context.store
    removal = [Action(b"keep", keep, None, b"keep")]
    with store.writing() as session:
        plan = session.put(packs.PLAN, plans.encode(removal if forward else plans.reverse(removal)))
        store.add_blobs(session)
    theirs, ours = bytes(16), workspace.root.key
    journal = undo_history.Operation(undo_history.RESTORE, 1, theirs, point.id, point.id, plan, "")
    store.journals.write(journal)
    directory = os.path.join(store.path, "journals")
    os.rename(os.path.join(directory, theirs.hex()), os.path.join(directory, ours.hex()))
    with pytest.raises(errors.StoreDamaged):
        finish_restore.finish_restore(workspace._context, forward=forward)
    assert differences(before, picture(root)) == {}
