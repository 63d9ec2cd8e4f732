"""How a checkpoint is named: last, prev, a number (1 = newest), a label, an id, a unique prefix of an id."""

from .. import errors
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..store.catalog import Marked
from ..store.store import Store

LEAST_PREFIX = 4
_SHOWN = 8


def label_of(point: Checkpoint, marked: Marked) -> str:
    """The label that stands: the one given later, else the one that the checkpoint was made with."""
    return marked.label or point.label


def resolve(store: Store, worktree: bytes, reference: str) -> Checkpoint:
    """The checkpoint that `reference` names. Numbers, `last` and `prev` are this worktree's and skip safety checkpoints.

    Raises CheckpointNotFound, AmbiguousReference.
    """
    everything = store.checkpoints()
    numbered = [p for p, _ in everything if p.worktree == worktree and p.trigger != checkpoints.SAFETY]
    if reference in ("last", "prev") or (reference.isascii() and reference.isdigit()):
        number = {"last": 1, "prev": 2}.get(reference) or int(reference[:18])
        if not 1 <= number <= len(numbered):
            raise errors.CheckpointNotFound(
                f"no checkpoint {reference!r}: this worktree has {len(numbered)}; casrewind list shows them"
            )
        return numbered[number - 1]
    # an empty reference, an unset variable say, would name every checkpoint without a label
    labelled = [point for point, marked in everything if reference and label_of(point, marked) == reference]
    if labelled:
        return _only(labelled, reference, "label")
    for point, _ in everything:
        if point.id == reference:
            return point
    if len(reference) >= LEAST_PREFIX:
        found = [point for point, _ in everything if point.id.startswith(reference)]
        if found:
            return _only(found, reference, "prefix")
    raise errors.CheckpointNotFound(
        f"no checkpoint {reference!r}: give a number, last, prev, a label, an id or at least {LEAST_PREFIX} characters "
        f"of one; casrewind list shows them"
    )


def _only(found: list[Checkpoint], reference: str, what: str) -> Checkpoint:
    if len(found) == 1:
        return found[0]
    shown = ", ".join(point.id for point in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    raise errors.AmbiguousReference(f"{what} {reference!r} names {len(found)} checkpoints: {shown}; give the id of one")
