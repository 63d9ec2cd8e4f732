"""Changes that another session may have made: what was changed while a turn of it was running.

Two agents can work in one worktree. A rewind of one of them takes the whole worktree back, and says which of the paths
are perhaps not its own.
"""

from collections.abc import Iterable
from contextlib import suppress

from .. import errors
from ..agents import sessions as clients
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..model.plan import Action
from ..store.sessions import Session
from .site import Site

_RUNS = frozenset({checkpoints.PROMPT, "tool_batch", "compact"})


class Foreign:
    """What other sessions may have changed after a checkpoint. Made before a restore, which is a change of its own."""

    def __init__(self, site: Site, since: Checkpoint, own: Iterable[str]) -> None:
        """Look at every checkpoint after `since`; `own` are the sessions that are not others."""
        self._paths: set[bytes] = set()
        self._now: manifest.Finder | None = None
        mine = frozenset(own)
        points = [p for p, _ in reversed(site.store.checkpoints()) if p.worktree == since.worktree]
        last = {point.session: point.seq for point in points if point.session and point.session not in mine}
        if not any(seq > since.seq for seq in last.values()):
            return
        load = diffs.lenient(site.store.load_tree)
        alive = {one.session for one in site.store.sessions.all() if one.session in last and _is_running(one)}
        running: set[str] = set()
        before = since
        for point in points:
            if point.seq > since.seq:
                if any(point.seq <= last[session] or session in alive for session in running):
                    with suppress(errors.ManifestRefused):  # what was found of it until then is named
                        self._paths.update(change.path for change in diffs.diff(load, before.tree, point.tree))
                before = point
            if point.session in last:
                (running.add if point.trigger in _RUNS else running.discard)(point.session)
        if running & alive:
            self._now = manifest.Finder(load, before.tree)

    def among(self, actions: Iterable[Action]) -> tuple[bytes, ...]:
        """The paths of these actions that are perhaps not this session's, sorted."""
        return tuple(sorted(action.path for action in actions if action.path in self._paths or self._is_new(action)))

    def _is_new(self, action: Action) -> bool:
        """Whether a path was changed after the newest checkpoint while another session's turn runs."""
        return self._now is not None and not manifest.same(self._now.find(action.path), action.before)


def _is_running(seen: Session) -> bool:
    """Whether a turn still runs in a client that is alive, after the last that was seen of it."""
    return seen.running and seen.pid > 0 and clients.is_alive(clients.Process(seen.pid, seen.pid_start))
