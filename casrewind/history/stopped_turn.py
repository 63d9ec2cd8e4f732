"""When the turn that runs was stopped with Esc: what its client's transcript says, read at the next look at the files.

The danger prevented here: what a person repairs behind Esc is taken for the agent's. So the moment counts only if the turn was
still open then, if it lies between the turn's newest checkpoint and this look, and if the transcript's clock is true.
"""

import time

from .. import agents
from ..context import Context
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..model.domain import Stop

_OPEN = (checkpoints.PROMPT, "tool_batch")
"""Triggers behind which a turn goes on."""


def find_stop(context: Context, look_ns: int = 0) -> Stop | None:
    """The stop of the worktree's newest turn that has no end, None if none is known. `look_ns`: the time of the look (nanoseconds
    since 1970), 0 = now. Reads the end of a transcript only if a turn is open."""
    open_turns = [point for point in context.store.newest_of_agents(context.root.key).values() if _is_open(point)]
    for point in sorted(open_turns, key=lambda point: -point.seq):
        seen = context.store.sessions.find(point.agent, point.session)
        at_ns = agents.stopped_ns(point.agent, seen.transcript) if seen is not None else 0
        if (point.more.at_ns or point.created_ns) <= at_ns <= (look_ns or time.time_ns()):
            return Stop(point.id, at_ns)
    return None


def _is_open(point: Checkpoint) -> bool:
    """True if a checkpoint of this machine is the newest one of a turn without an end."""
    return point.trigger in _OPEN and not point.more.machine
