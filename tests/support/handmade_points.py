"""Checkpoints of another machine as records and blobs made by hand, for pieces that no push makes."""

import os

from casrewind.model import checkpoint as checkpoints
from casrewind.model import digest as digests
from casrewind.model import domain as domains
from casrewind.model.checkpoint import Checkpoint
from casrewind.model.diff import Counts
from casrewind.store import ledger

from . import handmade_checkpoints as handmade

DATA = b"content"
DOMAIN = domains.encode(domains.Domain(False, True, 1 << 30, (), (), (), 0))
GOOD = handmade.tree(handmade.file_row(b"f", digests.of(DATA), len(DATA)))


def point(tree, **fields):
    made = Checkpoint(
        seq=0, id="c" + os.urandom(7).hex(), created_ns=1_700_000_000_000_000_000, worktree=bytes(range(16)), root=b"/home/user/shop",
        parent="", trigger="manual", label="", prompt="", agent="", session="", tree=digests.of(tree), domain=digests.of(DOMAIN), files=1,
        size=7, changes=Counts(1, 0, 0), skipped=0, flags=0,
    )  # fmt: skip
    return made._replace(**fields)


def checkpoint_record(made, seq=1):
    return ledger.CHECKPOINT, seq, checkpoints.encode(made)
