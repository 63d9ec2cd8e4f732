"""Pin, unpin and label: marks that are added to a checkpoint later, as ledger records.

The first danger prevented here: a label does not name its checkpoint. A newer checkpoint may have the same label, or
the label may read like another kind of reference. The second danger: a checkpoint gets a mark after gc has deleted it.
"""

import unicodedata
from collections.abc import Sequence

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..history.checkpoint_names import (
    LEAST_PREFIX,
    is_kept_by_mark,
    is_labelled,
    label_of,
    raise_bad_label,
    refuse_ambiguous_label,
)
from ..messages import printable
from ..model import undo_history
from ..model.checkpoint import Checkpoint
from ..store import ledger
from ..store.catalog import Marked

_UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that a label may not contain: controls, surrogates, line and paragraph separators."""


class Marking(NamedTuple):
    """The result of a pin or unpin. Its text says what is pinned or unpinned now, with its label."""

    checkpoint: Checkpoint
    marked: Marked
    """Its marks now."""
    before: str
    """Its label before."""
    changed: bool
    """False if the marks had these values already, and nothing was written."""

    def __str__(self) -> str:
        name, label = self.checkpoint.id, printable(self.label)
        named = f", its label is {label!r}" if label else ""
        if not self.changed:
            return f"{name} is pinned already{named}" if self.marked.pinned else f"{name} is not pinned, and no label keeps it"
        if not self.marked.pinned:
            return f"unpinned {name}{f'; its label {label!r} stays, and does not keep it any more' if label else ''}"
        return f"pinned {name}{named}{f' (it was {printable(self.before)!r})' if self.before not in ('', self.label) else ''}"

    @property
    def label(self) -> str:
        """The current label."""
        return label_of(self.checkpoint, self.marked)


def pin(context: Context, point: Checkpoint, label: str | None = None) -> Marking:
    """Protect a checkpoint from gc. A `label` replaces its current label. Raises UsageError for an invalid label,
    CheckpointNotFound if gc deleted the checkpoint first."""
    with context.store.hold_shared_lock():  # keeps gc out until the mark is written
        everything = context.store.checkpoints()
        old = _marks_or_raise(everything, point)
        standing = label_of(point, old)
        if label is not None and (label != standing or not label):
            _refuse_label(label, point, everything)
        new = "" if label is None or label == standing else label
        if old.pinned and not new:
            return Marking(point, old, standing, changed=False)
        context.store.append(ledger.PIN, undo_history.encode_mark(undo_history.Mark(point.id, new)))
    return Marking(point, Marked(pinned=True, label=new or old.label), standing, changed=True)


def unpin(context: Context, point: Checkpoint) -> Marking:
    """Allow gc to delete a checkpoint. Its label remains but no longer protects it. Raises CheckpointNotFound as `pin`
    does."""
    with context.store.hold_shared_lock():
        old = _marks_or_raise(context.store.checkpoints(), point)
        standing = label_of(point, old)
        if not is_kept_by_mark(point, old):
            return Marking(point, old, standing, changed=False)
        context.store.append(ledger.UNPIN, undo_history.encode_mark(undo_history.Mark(point.id, "")))
    return Marking(point, old._replace(pinned=False, released=True), standing, changed=True)


def _marks_or_raise(everything: Sequence[tuple[Checkpoint, Marked]], point: Checkpoint) -> Marked:
    for other, marked in everything:
        if other.id == point.id:
            return marked
    raise errors.CheckpointNotFound(f"checkpoint {point.id} was forgotten a moment ago", "casrewind list shows what there is")


def _refuse_label(label: str, point: Checkpoint, everything: Sequence[tuple[Checkpoint, Marked]]) -> None:
    """Raise UsageError for a label that is badly formed, or that would name another checkpoint."""
    refuse_ambiguous_label(label)
    why = _why_label_is_bad(label)
    for other, marked in everything:
        if why is None and other.id != point.id:
            is_newer = other.worktree == point.worktree and other.seq > point.seq
            if is_newer and is_labelled(other, marked) and label_of(other, marked) == label:
                why = f"checkpoint {other.id} is newer and has it already, so the label would name that one"
            elif len(label) >= LEAST_PREFIX and other.id.startswith(label):
                why = f"it would be taken for checkpoint {other.id}"
    if why is not None:
        raise_bad_label(label, why)


def _why_label_is_bad(label: str) -> str | None:
    """Why a label is invalid on its own, or None."""
    if not label.strip():
        return "it is empty"
    if label != label.strip():
        return "it starts or ends with white space"
    if any(unicodedata.category(character) in _UNSEEN for character in label):
        return "it holds a line break, a control character or invalid text"
    return None
