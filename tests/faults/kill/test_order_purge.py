"""The order in which a purge changes the store (docs/internals/format.md, 11), seen by strace."""

import pytest

from support.command import Command
from support.system_calls import Order, calls_of
from support.trees import plant


@pytest.fixture(scope="module")
def purged(tmp_path_factory):
    """The calls of a purge of one of two files that share a pack."""
    place = tmp_path_factory.mktemp("order")
    root, home = place / "project", place / "home"
    root.mkdir()
    home.mkdir()
    casrewind = Command(root, home)
    plant(root, {"key": b"a secret", "f": b"1"})
    casrewind("save", code=0)
    plant(root, {"f": b"2"})
    casrewind("save", code=0)
    places = {"store": casrewind.json("status")["store"]}
    return Order(calls_of(casrewind, places, place / "purge", "purge", "key", "--yes"))


def test_the_note_is_durable_before_the_ledger_that_names_nothing_of_it_any_more(purged):
    noted, ledger = purged.one("rename", "store/purging"), purged.one("rename", "store/ledger")
    for named in (noted, ledger):
        draft = purged.calls[named].source
        assert purged.last("fsync", draft, named) > purged.last("write", draft, named)
    assert purged.first("fsync", "store", noted) < ledger
    assert purged.first("fsync", "store", ledger) < purged.every("unlink", "store/packs/")[0]


def test_new_trees_are_durable_before_the_ledger_names_them(purged):
    ledger = purged.one("rename", "store/ledger")
    trees = purged.every("rename", "store/packs/")[0]
    assert trees < purged.first("fsync", "store/packs", trees) < ledger


def test_all_that_goes_is_gone_durably_before_the_note_is(purged):
    removed = purged.every("unlink", "store/packs/") + purged.every("unlink", "store/index")
    done = purged.one("unlink", "store/purging")
    assert removed
    assert max(removed) < purged.first("syncfs", "store", max(removed)) < done < purged.first("fsync", "store", done)
