"""The orders of save and restore (docs/internals/format.md, 11), seen by strace; those of gc are in test_order_maintenance.py."""

import pytest

from support.command import Command
from support.system_calls import Order, calls_of
from support.trees import Link, plant

CHANGES = ("make", "rename", "unlink", "rmdir", "mkdir", "symlinkat", "linkat", "write", "fchmod")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """(command, its places) where two states were saved: a restore of the first writes, removes and makes directories."""
    place = tmp_path_factory.mktemp("order")
    root, home = place / "project", place / "home"
    root.mkdir()
    home.mkdir()
    casrewind = Command(root, home)
    plant(root, {"edit": b"first", "d/edit": b"first too", "back/again": b"b", "l": Link("one"), "same": b"same"})
    casrewind("save", "-m", "first", code=0)
    return casrewind, {"store": casrewind.json("status")["store"], "root": root}


@pytest.fixture(scope="module")
def saved(project):
    """The calls of a save that has something new to store."""
    casrewind, places = project
    root = places["root"]
    plant(root, {"edit": b"second", "d/edit": b"second too", "gone": b"g", "new/gone": b"n", "l": Link("two")})
    (root / "back/again").unlink()
    (root / "back").rmdir()
    return Order(calls_of(casrewind, places, root.parent / "save", "save", "-m", "second"))


@pytest.fixture(scope="module")
def restored(project, saved):
    """The calls of a restore of the first state."""
    casrewind, places = project
    return Order(calls_of(casrewind, places, places["root"].parent / "restore", "restore", "first", "-y"))


def _changes(order):
    return [at for at, call in enumerate(order.calls) if call.path.startswith("root/") and call.what in CHANGES]


def _is_durable(order, named, directory):
    """A file that was written elsewhere and renamed: its bytes were synced before, its name after; the place of that."""
    draft = order.calls[named].source
    assert order.last("fsync", draft, named) > order.last("write", draft, named)
    return order.first("fsync", directory, named)


def test_a_checkpoint_is_told_of_when_its_packs_are_durable_and_the_index_hears_last(saved):
    synced = _is_durable(saved, saved.one("rename", "store/packs/"), "store/packs")
    (told,) = saved.every("write", "store/ledger")
    durable = saved.first("fsync", "store/ledger", told)
    assert synced < told < durable < saved.every("write", "store/index/data.mdb")[0]


def test_before_the_first_change_of_a_restore_its_safety_checkpoint_and_its_journal_are_durable(restored):
    packed = _is_durable(restored, restored.every("rename", "store/packs/")[0], "store/packs")
    told = restored.every("write", "store/ledger")[0]
    durable = restored.first("fsync", "store/ledger", told)
    named = restored.one("rename", "store/journals/")
    assert packed < told < durable < restored.every("make", restored.calls[named].source)[0]
    assert _is_durable(restored, named, "store/journals") < _changes(restored)[0]


def test_contents_are_durable_before_they_get_their_names(restored):
    written = restored.every("write", "root/")
    named = restored.every("rename", "root/edit") + restored.every("rename", "root/d/edit")
    assert written
    assert len(named) == 2
    assert max(written) < restored.first("syncfs", "root", max(written)) < min(named)


def test_nothing_is_removed_before_everything_is_written(restored):
    gone = restored.every("rename", "root/", "root/gone") + restored.every("rename", "root/", "root/new/gone")
    assert len(gone) == 2
    came = [*restored.every("rename", "root/edit"), *restored.every("rename", "root/back"), *restored.every("rename", "root/l")]
    assert len(came) == 3
    assert max(came) < min([*gone, *restored.every("unlink", "root/")])


def test_the_journal_goes_when_the_worktree_and_the_record_of_the_restore_are_durable(restored):
    closed = restored.one("unlink", "store/journals/")
    synced = restored.first("syncfs", "root", _changes(restored)[-1])
    told = restored.every("write", "store/ledger")[-1]
    assert synced < told < restored.first("fsync", "store/ledger", told) < closed < restored.first("fsync", "store/journals", closed)


def test_the_index_gets_the_safety_checkpoint_and_the_record_of_the_restore_in_one_commit(restored):
    """The ten syncs of a restore: pack, packs, ledger, journal, journals, worktree, worktree, ledger, index, journals."""
    (commit,) = restored.every("fsync", "store/index/data.mdb")
    told = restored.every("write", "store/ledger")[-1]
    assert restored.first("fsync", "store/ledger", told) < commit
    assert len(restored.every("fsync", "")) + len(restored.every("syncfs", "")) == 10
