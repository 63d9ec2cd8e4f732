"""Directories inside a root that have turns of their own: nested repositories, submodules, projects in a project.

The danger prevented here: they are captured with the root, so going back in it takes back what an agent did in them,
and the plan looks like one small turn. So a plan names them. What cannot be read is named, too.
"""

import os
from collections.abc import Iterable, Iterator

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..model import paths
from ..model.checkpoint import PROMPT, Checkpoint
from ..model.manifest import DIR
from ..model.plan import Action
from ..store.layout import Layout
from ..store.store import Store
from ..worktree import linked_worktrees
from ..worktree import root as roots

_PATIENCE = 1.0
"""Seconds to wait for a lock of another store."""


class InnerTurns(NamedTuple):
    """A directory inside the root with turns of its own: their number (None = its store cannot be read), and how many
    `paths` in it a plan changes."""

    path: bytes
    turns: int | None
    paths: int


def find_inner_turns(context: Context, since_ns: int, actions: Iterable[Action]) -> tuple[InnerTurns, ...]:
    """The directories with changed paths of these actions that have had turns of their own since a time (nanoseconds since
    1970), sorted by path."""
    changed: dict[bytes, int] = {}
    for action in actions:
        is_directory = any(entry is not None and entry.kind == DIR for entry in (action.before, action.after))
        if action.before != action.after or action.source != action.path:
            for place in (*paths.parents(action.path), *((action.path,) if is_directory else ())):
                changed[place] = changed.get(place, 0) + (not is_directory)
    known = _KnownStores(context)
    found = ((place, known.turns_in(place, since_ns)) for place in sorted(changed))
    return tuple(InnerTurns(place, turns, changed[place]) for place, turns in found if turns != 0)


class _KnownStores:
    """The stores of this user, and the roots in the store of the context."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._own = {point.worktree for point in context.store.listed_heads()} - {context.root.key}

    def turns_in(self, place: bytes, since_ns: int) -> int | None:
        """How many turns the root at a directory has had. None if that cannot be read."""
        path = os.path.join(self._context.root.path, os.fsdecode(place))
        root = roots.root_at(path)
        moved_from = linked_worktrees.listed_place(root)
        for key in (root.key, *([roots.key_of(moved_from)] if moved_from else [])):
            if key in self._own:
                return _count_turns(self._context.store, key, since_ns)
        directory = os.path.join(self._context.data, "stores", roots.store_name_of(root.owner))
        if not os.path.lexists(directory) or directory == self._context.store.path:
            return 0
        try:
            if not Layout(directory).exists():
                return 0  # a store that was never finished
            with Store(directory, deadline=_PATIENCE) as store:
                return _count_turns(store, root.key, since_ns)
        except (errors.CasrewindError, OSError):
            return None


def _count_turns(store: Store, key: bytes, since_ns: int) -> int:
    """The turns of a root that began after a time, or 1 for one that began before it and worked on."""
    found = list(_agent_checkpoints_since(store, key, since_ns))
    return max(sum(point.trigger == PROMPT for point in found), bool(found))


def _agent_checkpoints_since(store: Store, key: bytes, since_ns: int) -> Iterator[Checkpoint]:
    def is_older(point: Checkpoint) -> bool:
        return point.created_ns <= since_ns and not point.more.machine

    for point, _ in store.checkpoints(1, is_older):
        if point.worktree == key and point.agent and not point.more.machine and not is_older(point):
            yield point
