"""What a push has done, and what waits for the next one. No request, no key, no library of a remote."""

from .._typing import NamedTuple
from ..context import Context
from ..store import push_notes
from ..store.push_notes import PushNotes
from .remote_config import RemoteConfig, find
from .sync_state import StateFiles

COPIED = "the remote has more of this machine than this store knows (a copy of it pushed, or it is older): it continues in a new chain"
REMOVED_THERE = "what this machine pushed was removed from the remote by remote gc: all of it is sent again"
ENDED_THERE = "a copy of this store has ended what both had pushed: everything is sent again"
BLOCKED = "somebody put objects where this machine's next pieces belong: it continues in a new chain"
AFTER_PURGE = "after the purge, push sends everything again and empties what was pushed before"


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


class Unsent(NamedTuple):
    """What waits for a push: the remote's configuration, and the `number` of checkpoints. `oldest_ns`: when the oldest of them was made,
    0 = there is none. `has_pushed`: this store may have a piece on the remote. `machines`: those whose chains were read. `notes`: what
    the store notes of earlier pushes."""

    config: RemoteConfig
    number: int
    oldest_ns: int
    has_pushed: bool
    machines: tuple[str, ...]
    notes: PushNotes


def count_unsent(context: Context) -> Unsent | None:
    """What of a store waits for a push, or None without a remote. Sends no request, and needs no key."""
    found = find(context.store)
    if found is None:
        return None
    state = StateFiles(found[0]).state
    own = [point for point in context.store.checkpoints_after(state.position.seq) if not point.more.machine]
    machines = tuple(one.machine for one in state.chains.values())
    has_pushed = state.next > 1 or state.pending > 0 or bool(state.ended)
    return Unsent(found[1], len(own), own[0].created_ns if own else 0, has_pushed, machines, push_notes.read_push_notes(found[0]))
