"""Scans the worktree as it is and records nothing. Finds what each scan is told: the stat index, and when a turn was stopped.

The danger prevented here: what a person repairs behind Esc is taken for the agent's. So the moment of a stop counts only if the turn
was open then, if it lies between the turn's newest checkpoint and this look, and if the transcript's clock is true.
"""

import time

from .. import agents
from ..context import Context
from ..model import checkpoint as checkpoints
from ..model.domain import Stop
from ..worktree import scan as scans
from ..worktree.reader import ScanSink
from ..worktree.stat_index import StatIndex

_OPEN = (checkpoints.PROMPT, "tool_batch")
"""Triggers after which a turn still runs."""


def scan_now(context: Context, sink: ScanSink) -> scans.Scan:
    """Scan the worktree, using the stat index. Nothing is recorded."""
    policy = context.policy._replace(stop=find_stop(context))
    return scans.scan(context.tree, sink, policy, read_stat_index(context), context.progress)


def find_stop(context: Context, look_ns: int = 0) -> Stop | None:
    """The stop of the worktree's newest turn that has no end, None if none is known. `look_ns`: the time of the look (nanoseconds
    since 1970), 0 = now. Reads the end of a transcript only if a turn is open; those of other machines tell nothing here."""
    newest = context.store.newest_of_agents(context.root.key).values()
    open_turns = [point for point in newest if point.trigger in _OPEN and not point.more.machine]
    for point in sorted(open_turns, key=lambda point: -point.seq):
        seen = context.store.sessions.find(point.agent, point.session)
        at_ns = agents.stopped_ns(point.agent, seen.transcript) if seen is not None else 0
        if (point.more.at_ns or point.created_ns) <= at_ns <= (look_ns or time.time_ns()):
            return Stop(point.id, at_ns)
    return None


def read_stat_index(context: Context) -> StatIndex:
    """The stat index of the worktree, from the store. Raises StoreError and others."""
    context.tree.reopen_root_if_replaced()
    key, life = context.root.key, context.tree.life
    basis, value = context.store.stat_index(key, life) or (None, b"")
    return StatIndex(value, basis)
