"""A root that is removed and made anew while a workspace is open: the new one counts, not the one that is gone."""

import shutil
import sys

import pytest

from casrewind import errors
from support.picture import differences, picture
from support.trees import plant


def test_a_save_and_a_restore_see_the_new_root(workspace, root):
    plant(root, {"a": b"one", "d/b": b"two"})
    before = picture(root)
    point = workspace.save().checkpoint
    shutil.rmtree(root)
    plant(root, {"c": b"three"})
    again = workspace.save()
    assert again.created and again.checkpoint.files == 1
    workspace.restore(point)
    assert differences(before, picture(root)) == {}


def test_a_root_that_is_gone_is_said(workspace, root):
    plant(root, {"a": b"one"})
    workspace.save()
    shutil.rmtree(root)
    with pytest.raises(errors.WorkspaceNotFound):
        workspace.save()
    assert len(workspace.checkpoints()) == 1


def test_a_command_that_makes_the_project_anew_is_taken_back(casrewind, root):
    plant(root, {"a": b"one", "d/b": b"two"})
    before = picture(root)
    script = f"import os, shutil; shutil.rmtree({str(root)!r}); os.mkdir({str(root)!r}); open({str(root / 'x')!r}, 'w').close()"
    casrewind("run", "--", sys.executable, "-c", script, code=0)
    listed = casrewind.json("list")["checkpoints"]
    assert [point["files"] for point in listed] == [1, 2]
    casrewind("restore", "prev", "--yes", code=0)
    assert differences(before, picture(root)) == {}
