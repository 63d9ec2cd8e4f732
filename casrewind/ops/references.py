"""Resolves references to checkpoints: last, prev, a number (1 = newest), a label, an id, or an id's unique prefix."""

from collections.abc import Sequence

from .. import errors
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..store.catalog import Marked
from ..store.store import Store

LEAST_PREFIX = 4
_SHOWN = 8


def label_of(point: Checkpoint, marked: Marked) -> str:
    """The current label: the latest one given, else the label that the checkpoint was made with."""
    return marked.label or point.label


def is_named(point: Checkpoint, marked: Marked) -> bool:
    """True if gc keeps a checkpoint because of a pin, or of a label that was not unpinned."""
    own = point.label and point.trigger != checkpoints.SAFETY and not point.flags & checkpoints.DESCRIBED
    return marked.pinned or (bool(marked.label or own) and not marked.released)


def is_numbered(point: Checkpoint, worktree: bytes) -> bool:
    """True for the checkpoints that are listed and numbered: those of this worktree without safety checkpoints."""
    return point.worktree == worktree and point.trigger != checkpoints.SAFETY


def resolve(store: Store, worktree: bytes, reference: str) -> Checkpoint:
    """The checkpoint that `reference` names. Numbers, `last` and `prev` count this worktree's checkpoints without
    safety ones. Raises CheckpointNotFound, AmbiguousReference."""
    number = _number(reference)
    if number:  # the newest ones are enough
        newest = store.checkpoints(number, lambda point: is_numbered(point, worktree))
        found = [point for point, _ in newest if is_numbered(point, worktree)]
        if len(found) == number:
            return found[-1]
    return _resolve(store.checkpoints(), worktree, reference)


def resolve_with_path(store: Store, worktree: bytes, text: str) -> tuple[Checkpoint, str]:
    """Parse REF:PATH. Returns (checkpoint, path). Labels may contain colons: the first colon after a valid reference
    counts. Raises UsageError without a colon, else the error of the part before the first colon."""
    if ":" not in text:
        raise errors.UsageError(f"{text!r} names no file: write REF:PATH, as in last:README.md")
    everything = store.checkpoints()
    failure: errors.CheckpointError | None = None
    cut = text.find(":")
    while cut >= 0:
        try:
            return _resolve(everything, worktree, text[:cut]), text[cut + 1 :]
        except errors.AmbiguousReference as error:
            if not isinstance(failure, errors.AmbiguousReference):
                failure = error
        except errors.CheckpointError as error:
            failure = failure or error
        cut = text.find(":", cut + 1)
    assert failure is not None
    raise failure


def _resolve(everything: Sequence[tuple[Checkpoint, Marked]], worktree: bytes, reference: str) -> Checkpoint:
    number = _number(reference)
    if number is not None:
        numbered = [point for point, _ in everything if is_numbered(point, worktree)]
        if not 1 <= number <= len(numbered):
            raise errors.CheckpointNotFound(
                f"no checkpoint {reference!r}: this worktree has {len(numbered)}; casrewind list shows them"
            )
        return numbered[number - 1]
    # an empty reference (an unset variable, say) would match every checkpoint without a label
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


def _number(reference: str) -> int | None:
    """The number of a reference, 1 for the newest checkpoint; None for a label or an id."""
    if reference.isascii() and reference.isdigit():
        return int(reference[:18])
    return {"last": 1, "prev": 2}.get(reference)


def _only(found: list[Checkpoint], reference: str, what: str) -> Checkpoint:
    if len(found) == 1:
        return found[0]
    shown = ", ".join(point.id for point in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    raise errors.AmbiguousReference(f"{what} {reference!r} names {len(found)} checkpoints: {shown}; give the id of one")
