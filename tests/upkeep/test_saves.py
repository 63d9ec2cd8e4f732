"""When a save makes a checkpoint, and what it may believe of the last one."""

import os
import shutil
import time

from casrewind.workspace import Workspace
from support.picture import picture
from support.trees import Dir, Link, plant


def ids(workspace):
    return [point.id for point, _ in workspace.checkpoints()]


def test_a_bare_save_of_an_identical_state_returns_the_newest_one(casrewind, root):
    plant(root, {"a": b"1", "d/empty": Dir(), "l": Link("a")})
    first = casrewind.json("save")
    assert first["created"] is True
    again = casrewind.json("save")
    assert (again["checkpoint"], again["created"]) == (first["checkpoint"], False)
    assert len(casrewind.json("list", "--all")["checkpoints"]) == 1
    assert "nothing changed" in casrewind("save", code=0).out


def test_a_message_or_a_pin_makes_a_new_one_that_shares_the_manifest(casrewind, root):
    plant(root, {"a": b"1"})
    first = casrewind.json("save")["checkpoint"]
    with_message = casrewind.json("save", "-m", "again")
    pinned = casrewind.json("save", "--pin")
    assert with_message["created"] is pinned["created"] is True
    assert len({first, with_message["checkpoint"], pinned["checkpoint"]}) == 3
    assert casrewind.json("save")["checkpoint"] == pinned["checkpoint"]
    listed = casrewind.json("list")["checkpoints"]
    assert [(point["label"], point["pinned"]) for point in listed] == [(None, True), ("again", False), (None, False)]


def test_touching_a_file_makes_no_difference_but_its_next_mtime_is_recorded(workspace, root):
    plant(root, {"a": b"1", "b": b"1"})
    first = workspace.save().checkpoint
    os.utime(root / "a", ns=(5, 10**18 + 7))
    again = workspace.save()
    assert (again.created, again.checkpoint) == (False, first)
    plant(root, {"b": b"2"})
    entries = dict(workspace.entries(workspace.save().checkpoint))
    assert entries[b"a"].mtime_ns == 10**18 + 7


def test_every_difference_that_a_restore_would_undo_makes_a_checkpoint(workspace, root):
    plant(root, {"a": b"1", "l": Link("a"), "d": Dir()})
    workspace.save()
    for change in (
        lambda: plant(root, {"a": b"2"}),
        lambda: os.chmod(root / "a", 0o755),
        lambda: plant(root, {"l": Link("d")}),
        lambda: os.chmod(root / "d", 0o700),
        lambda: os.mkdir(root / "d" / "empty"),
        lambda: os.rename(root / "a", root / "A"),
        lambda: plant(root, {".gitignore": b"zzz\n"}),
        lambda: os.unlink(root / ".gitignore"),
    ):
        change()
        assert workspace.save().created is True
        assert workspace.save().created is False


def test_the_mode_of_a_directory_that_holds_something_skipped_is_seen(root, settings):
    """Such a directory is listed again at every scan: nothing that is remembered of it may stand for it."""
    plant(root, {"d/big": b"x" * 2000, "d/a": b"1"})
    time.sleep(0.03)
    with Workspace(str(root), settings._replace(max_file_size=1000), create=True) as workspace:
        workspace.save()
        assert workspace.save().created is False
        os.chmod(root / "d", 0o700)
        assert workspace.save().created is True
        assert dict(workspace.entries(workspace.checkpoint("last")))[b"d"].mode == 0o700


def test_rules_that_changed_make_a_checkpoint_although_no_entry_did(workspace, root):
    """The next restore has to know which paths this state speaks for."""
    plant(root, {"a": b"1", "d/.gitignore": b"*\n", "d/x": b"ignored"})
    workspace.save()
    plant(root, {"d/.gitignore": b"*\n# and a remark\n"})
    assert workspace.save().created is True
    assert workspace.save().created is False


def test_a_save_of_an_older_state_is_a_new_checkpoint(workspace, root):
    plant(root, {"a": b"1"})
    workspace.save()
    plant(root, {"a": b"2"})
    workspace.save()
    plant(root, {"a": b"1"})
    assert workspace.save().created is True
    assert len(ids(workspace)) == 3


def test_a_save_after_a_restore_compares_with_the_newest_own_one_not_with_the_safety_checkpoint(workspace, root):
    plant(root, {"a": b"1"})
    first = workspace.save().checkpoint
    plant(root, {"a": b"2"})
    second = workspace.save().checkpoint
    workspace.restore(first)
    back = workspace.save()
    assert back.created is True
    assert back.checkpoint.parent not in (first.id, second.id), "its parent is the safety checkpoint"
    assert workspace.save().created is False


def test_an_edit_of_the_same_size_with_its_mtime_put_back_is_seen(workspace, root):
    plant(root, {f"d/{number}": b"0" for number in range(20)})
    time.sleep(0.03)  # past the racy margin: from here on stamps are believed
    workspace.save()
    for number in range(20):
        status = os.stat(root / "d" / str(number))
        with open(root / "d" / str(number), "r+b") as file:
            file.write(b"1")
        os.utime(root / "d" / str(number), ns=(status.st_atime_ns, status.st_mtime_ns))
        saved = workspace.save()
        assert (saved.created, saved.changes.modified) == (True, 1)


def test_an_edit_right_after_a_save_is_seen(workspace, root):
    plant(root, {"a": b"0000"})
    workspace.save()
    for number in range(1, 200):
        with open(root / "a", "r+b") as file:
            file.write(b"%04d" % number)
        assert workspace.save().created is True


def test_a_rehash_reads_everything_and_finds_the_same(casrewind, root, workspace):
    plant(root, {"a": b"1", "d/b": b"2" * 5000, "large": b"x" * 1_100_000})
    time.sleep(0.03)
    first = casrewind.json("save")
    again = casrewind.json("save", "--rehash")
    assert (again["checkpoint"], again["created"]) == (first["checkpoint"], False)
    assert workspace.save().created is False
    assert workspace.save(rehash=True).created is False
    plant(root, {"a": b"2"})
    assert workspace.save(rehash=True).changes == (0, 1, 0)


def test_a_lost_index_costs_nothing_but_time(casrewind, root):
    for number in range(3):
        plant(root, {"a": b"%d" % number})
        casrewind("save", "-m", f"number {number}", code=0)
    casrewind("restore", casrewind.row(3), "-y", code=0)
    casrewind("undo", "--yes", code=0)
    store = casrewind.json("status")["store"]
    before = casrewind("list", "--all", "--json", code=0).out
    shutil.rmtree(os.path.join(store, "index"))
    assert casrewind("list", "--all", "--json", code=0).out == before
    shutil.rmtree(os.path.join(store, "index"))
    assert casrewind.json("save")["created"] is False
    casrewind("redo", "--yes", code=0)
    assert (root / "a").read_bytes() == b"0"


def test_nothing_captured_is_said_loudly(casrewind, root):
    plant(root, {".gitignore": b"*\n", "a": b"1"})
    assert "nothing was captured" in (done := casrewind("save", code=0)).err + done.out
    status = casrewind.json("status")
    assert status["protected"] is False
    assert status["reasons"]


def test_two_openers_see_each_others_checkpoints(workspace, root, settings):
    plant(root, {"a": b"1"})
    with Workspace(str(root), settings, create=True) as other:
        first = workspace.save().checkpoint
        assert ids(other) == [first.id]
        assert other.save().created is False
        plant(root, {"a": b"2"})
        other.restore(other.checkpoint(first.id))
        workspace.undo()
        assert (root / "a").read_bytes() == b"2"


def test_looking_changes_nothing(casrewind, root):
    plant(root, {"a": b"1", "d/b": b"1"})
    casrewind("save", code=0)
    plant(root, {"a": b"2"})
    before = picture(root, mtimes=True, inodes=True)
    listed = casrewind("list", "--all", "--json", code=0).out
    for command in (("diff",), ("diff", "--patch"), ("status",), ("show", "last"), ("list",), ("restore", "last", "--dry-run")):
        casrewind(*command, code=0)
    assert picture(root, mtimes=True, inodes=True) == before
    assert casrewind("list", "--all", "--json", code=0).out == listed
