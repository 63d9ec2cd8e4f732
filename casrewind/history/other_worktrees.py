"""The other worktrees that a person may look for here: those inside the root, and those that are gone.

The danger prevented here: a worktree is removed by force, and nobody knows that its files are still in the store.
"""

import os

from .._typing import NamedTuple
from ..context import Context
from ..model.checkpoint import Checkpoint
from ..worktree import linked_worktrees
from ..worktree import root as roots


class OtherWorktree(NamedTuple):
    """A worktree with a root of its own: its real path, and its newest checkpoint in this store (None = none yet). `is_gone`:
    no directory is at its path any more."""

    place: str
    newest: Checkpoint | None
    is_gone: bool


def find_others(context: Context) -> tuple[OtherWorktree, ...]:
    """The linked worktrees inside the root, by path; then those of the repository that are gone, the last saved first. Reads
    the repository's list and the store."""
    heads = {head.worktree: head for head in context.store.listed_heads() if not head.more.machine}
    inside = linked_worktrees.find_inside(context.root.path)
    live = [OtherWorktree(each.place, heads.get(roots.key_of(each.place)), is_gone=False) for each in inside]
    gone = [
        OtherWorktree(os.fsdecode(head.root), head, is_gone=True)
        for head in sorted(heads.values(), key=lambda head: -head.created_ns)
        if head.worktree != context.root.key and not os.path.lexists(head.root)
    ]
    return (*live, *gone)
