"""Paths that another agent's session may have changed: two agents can share a worktree.

The danger prevented here: a rewind for one session takes back what another one is doing, unsaid.
"""

from collections.abc import Container, Iterable
from contextlib import suppress

from .. import errors
from ..agents import client_process
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..model.plan import Action
from ..store.agent_sessions import AgentSession
from .context import Context

_RUNS = frozenset({checkpoints.PROMPT, "tool_batch", "compact"})


class ForeignChanges:
    """Paths that other sessions may have changed after a checkpoint, because a turn of theirs was running. Two agents
    can share a worktree, and a rewind for one resets all of it, so it reports these paths. Create this before the
    restore, which is a change itself."""

    def __init__(self, context: Context, since: Checkpoint, own: Iterable[str]) -> None:
        """Reads every checkpoint after `since`. `own` are the sessions that do not count as others. A checkpoint of another
        machine has no place among those here: then every turn counts of the sessions that run now."""
        self._paths: set[bytes] = set()
        self._now: manifest.Finder | None = None
        mine = frozenset(own)
        points = [p for p, _ in reversed(context.store.checkpoints()) if p.worktree == context.root.key]
        last = {point.session: point.seq for point in points if point.session and point.session not in mine}
        if since.more.machine:
            last = {session: last[session] for session in _running_among(context, last)}
            since = points[0] if last else since
        if not any(seq > since.seq for seq in last.values()):
            return
        load = diffs.loader_with_damaged_trees_empty(context.store.load_tree)
        alive = _running_among(context, last)
        running: set[str] = set()
        before = since
        for point in points:
            if point.seq > since.seq:
                if any(point.seq <= last[session] or session in alive for session in running):
                    with suppress(errors.ManifestRefused):  # keep what was found before the refusal
                        self._paths.update(change.path for change in diffs.diff(load, before.tree, point.tree))
                before = point
            if point.session in last:
                (running.add if point.trigger in _RUNS else running.discard)(point.session)
        if running & alive:
            self._now = manifest.Finder(load, before.tree)

    def among(self, actions: Iterable[Action]) -> tuple[bytes, ...]:
        """The paths of these actions that another session may have changed, sorted."""
        return tuple(sorted(action.path for action in actions if action.path in self._paths or self._may_be_of_running_session(action)))

    def _may_be_of_running_session(self, action: Action) -> bool:
        """True if a path changed after the newest checkpoint while another session's turn is running."""
        return self._now is not None and not manifest.same_for_restore(self._now.find(action.path), action.before)


def _running_among(context: Context, sessions: Container[str]) -> set[str]:
    """Those of the sessions that run now."""
    return {one.session for one in context.store.sessions.all() if one.session in sessions and _has_running_turn(one)}


def _has_running_turn(seen: AgentSession) -> bool:
    """True if the session's client is alive and its last event left a turn running."""
    return seen.running and seen.pid > 0 and client_process.is_alive_or_unknown(client_process.ClientProcess(seen.pid, seen.pid_start))
