"""A store through a memory map into a page that is dirty already changes bytes and neither mtime nor ctime: no scan can see
it (docs/limits.md), but a restore may not lose it."""

import mmap
import os
import time

import pytest

from support.trees import plant


def edit_without_a_stamp(workspace, path):
    """Save a file, then put `six` at its beginning in such a way that its stamp is as it was saved.

    When somebody syncs the disk in between the page is clean again, and the edit leaves a stamp: then once more.
    """
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        for attempt in range(30):
            page[:3] = b"%03d" % attempt
            time.sleep(0.05)  # old enough to be believed
            workspace.save()
            before = os.stat(path)
            page[:3] = b"six"
            after = os.stat(path)
            if (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns):
                return
    pytest.skip("here, even that leaves a stamp")


def test_an_edit_that_left_no_stamp_is_stored_before_it_is_overwritten(workspace, root):
    plant(root, {"a": b"one" * 50})
    then = workspace.save("one").checkpoint
    edit_without_a_stamp(workspace, root / "a")
    assert not workspace.restore(then).kept
    assert (root / "a").read_bytes() == b"one" * 50
    workspace.undo()
    assert (root / "a").read_bytes() == b"six" + b"one" * 49
