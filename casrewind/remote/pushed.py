"""What a push has done."""

from .._typing import NamedTuple

COPIED = "the remote has more of this machine than this store knows (a copy of it pushed, or it is older): it goes on in a new chain"
REMOVED_THERE = "what this machine pushed was removed from the remote by remote gc: all of it is sent again"
ENDED_THERE = "a copy of this store has ended what both had pushed: everything is sent again"
BLOCKED = "somebody put objects where this machine's next pieces belong: it goes on in a new chain"
AFTER_PURGE = "after the purge everything is pushed anew, and what was pushed before it is emptied"


class Pushed(NamedTuple):
    """The result of a push: the number of checkpoints, of blobs, of bytes sent and of requests; a roll-up does not count. `notes` are
    sentences about what else happened; `left` are objects of before a purge that could not be emptied, `damaged` the ids of checkpoints
    that cannot be sent, because the store is damaged. With a dry run `size` counts plain bytes."""

    checkpoints: int
    blobs: int
    size: int
    requests: int
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    dry_run: bool = False
    damaged: tuple[str, ...] = ()
