"""The chain of statements in a store: it goes on over gc, purges and a lost index, and says no word that was purged."""

import json
import os
import shutil

from casrewind.model import digest as digests
from casrewind.model.retention import Limits
from casrewind.store import ledger, statements
from casrewind.store.store import LedgerPosition, Store
from casrewind.upkeep.save import Moment, save
from support.trees import plant

WORD = "hunter2 of the prompt"


def chain(store):
    """The statements from the newest back to the first, by following digests."""
    records, _ = store.records_after(LedgerPosition(), ledger.CHECKPOINT, ledger.STATEMENTS)
    texts = {digests.of(text): text for text in statements.statements_in(records)}
    found, at = [], statements.newest_in(records)
    while at in texts:
        found.append(json.loads(texts[at]))
        at = bytes.fromhex(found[-1]["before"])
    assert at == b"", "the chain does not lead to its first statement"
    return found[::-1]


def make(workspace, root, count):
    for number in range(count):
        plant(root, {"f": b"%d" % number})
        save(
            workspace._context,
            Moment("prompt", prompt=f"{WORD} {number}", agent="claude", session="s1", opens_turn=True),
        )


def test_each_save_adds_one_statement(workspace, root):
    make(workspace, root, 5)
    found = chain(workspace._context.store)
    assert [one["kind"] for one in found] == ["checkpoint"] * 5 and len({one["prompt"] for one in found}) == 5
    assert WORD not in json.dumps(found)


def test_gc_drops_checkpoints_and_keeps_their_statements(workspace, root):
    make(workspace, root, 60)
    before = chain(workspace._context.store)
    for _ in range(2):
        workspace.gc(limits=Limits(None, 3, 1))
        make(workspace, root, 30)
        now = chain(workspace._context.store)
        assert now[: len(before)] == before and len(now) == len(before) + 30
        before = now


def test_a_purge_changes_no_statement_and_is_one_itself(workspace, root):
    plant(root, {"key": b"secret bytes of the file"})
    make(workspace, root, 4)
    before = chain(workspace._context.store)
    workspace.purge([b"key"])
    now = chain(workspace._context.store)
    assert now[:-1] == before and now[-1]["kind"] == "purge"
    assert set(now[-1]["changed"].split()) == {one["id"] for one in before}
    workspace.purge_text(WORD.encode())
    again = chain(workspace._context.store)
    assert again[:-1] == now and again[-1]["kind"] == "purge"
    assert not any(point.more.salt for point, _ in workspace._context.store.checkpoints())
    make(workspace, root, 1)
    assert len(chain(workspace._context.store)) == len(again) + 1


def test_a_lost_index_changes_nothing(workspace, root):
    make(workspace, root, 20)
    workspace.gc(limits=Limits(None, 3, 1))
    before, place = chain(workspace._context.store), workspace.store_path
    workspace.close()
    shutil.rmtree(os.path.join(place, "index"))
    os.mkdir(os.path.join(place, "index"), 0o700)
    with Store(place) as again:
        assert chain(again) == before
