"""Every kind of blob says what it names, in one place; what a store holds is exactly what is named there, or is content."""

import pytest

from casrewind.store import packs
from casrewind.store.reachability import HOLDS, references
from support import packfile
from support.trees import plant

KINDS = (packs.FILE, packs.CHUNK, packs.TREE, packs.CHUNK_LIST, packs.DOMAIN, packs.RULES, packs.PLAN)


@pytest.fixture
def storied(workspace, root):
    """A store with a blob of every kind."""
    plant(root, {".gitignore": b"*.log\n", "a/b/f": b"1", "g": b"2", "large": bytes(range(256)) * (3 << 12), "l": b"3"})
    one = workspace.save("one").checkpoint
    plant(root, {"a/b/f": b"changed"})
    (root / "g").unlink()
    workspace.restore(one)
    return workspace


def stored(workspace):
    return packfile.kinds(workspace.store_path)


def test_there_is_a_blob_of_every_kind(storied):
    assert {kind for kind, digests in stored(storied).items() if digests} == set(KINDS)


def test_every_blob_of_a_store_is_named_by_another_one_or_by_the_ledger(storied):
    store = storied._context.store
    named = {point.tree for point, _ in store.checkpoints()} | {point.domain for point, _ in store.checkpoints()}
    named |= {step.plan for history in store.histories().values() for step in (*history.undo, *history.redo)}
    everything = {digest for digests in stored(storied).values() for digest in digests}
    for kind, digests in stored(storied).items():
        for digest in digests:
            found = list(references(kind, store.read(digest, kind)))
            assert bool(found) <= (kind in HOLDS)
            for reference in found:
                assert reference.kind in KINDS and reference.digest in everything
                named.add(reference.digest)
    assert everything == named


def test_a_kind_that_is_not_known_names_nothing_unnoticed():
    with pytest.raises(ValueError, match="no kind of blob: 8"):
        list(references(8, b""))
