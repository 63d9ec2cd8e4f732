"""The ledger's records besides checkpoints: pins and labels, forgotten checkpoints, restores,
undos, redos and adoptions."""

from collections.abc import Iterable

from .._typing import NamedTuple
from . import tlv

RESTORE, UNDO, REDO = "restore", "undo", "redo"
REVERT = "revert"
"""A restore of the paths that one turn changed. Its safety checkpoint has this name; its record has `RESTORE`."""
TAKE = "take"
"""The changes of a directory that restore --to wrote are taken over. Named as a revert is."""
ABORT, CONTINUE = "abort", "continue"
"""The two ends of an interrupted operation. Their `target` is its safety checkpoint. Undo knows neither; turns are cut there."""
UNDO_STEPS = 50
"""How many restores a worktree can undo."""

_CHECKPOINT, _LABEL = 1, 2
_OP, _CREATED, _WORKTREE, _TARGET, _SAFETY, _PLAN, _CURRENT, _AGENT, _SESSION = range(1, 10)


class Mark(NamedTuple):
    """A pin, an unpin or a label: the checkpoint's id, and the label or ""."""

    checkpoint: str
    label: str


def encode_mark(mark: Mark) -> bytes:
    """A mark as a record's payload."""
    return tlv.encode(((_CHECKPOINT, mark.checkpoint), (_LABEL, mark.label)))


def decode_mark(data: bytes) -> Mark:
    """The mark in a record's payload. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "mark record")
    return Mark(got.required_bytes(_CHECKPOINT).decode("ascii", "replace"), got.text(_LABEL))


def encode_forgotten(identities: Iterable[str]) -> bytes:
    """The ids of forgotten checkpoints as a record's payload."""
    return tlv.encode(((1, tlv.encode_list(identity.encode() for identity in identities)),))


def decode_forgotten(data: bytes) -> tuple[str, ...]:
    """The ids in a forget record's payload. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "forget record")
    return tuple(item.decode("ascii", "replace") for item in tlv.decode_list(got.required_bytes(1), "forget record"))


class Adoption(NamedTuple):
    """A moved project: the 16-byte keys of the old and the new worktree, and the new `root` path."""

    old: bytes
    new: bytes
    root: bytes


def encode_adoption(adoption: Adoption) -> bytes:
    """An adoption as a record's payload."""
    return tlv.encode(((1, adoption.old), (2, adoption.new), (3, adoption.root)))


def decode_adoption(data: bytes) -> Adoption:
    """The adoption in a record's payload. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "adoption record")
    return Adoption(got.required_bytes(1, 16), got.required_bytes(2, 16), got.required_bytes(3))


class Operation(NamedTuple):
    """A restore, undo or redo, or the end of an interrupted one. `target` is the id of the restored checkpoint; an undo has the
    previously current checkpoint there. `safety` is the id of the operation's safety checkpoint, `plan` the digest of the executed plan.
    `current` is the id of the checkpoint that the worktree now equals, or "". `agent` and `session` name the agent's
    shell that ran the operation, "" = none."""

    op: str
    created_ns: int
    worktree: bytes
    target: str
    safety: str
    plan: bytes
    current: str
    agent: str = ""
    session: str = ""


def encode_operation(operation: Operation) -> bytes:
    """An operation as a record's payload, and as the body of a journal."""
    return tlv.encode(
        (
            (_OP, operation.op),
            (_CREATED, operation.created_ns),
            (_WORKTREE, operation.worktree),
            (_TARGET, operation.target),
            (_SAFETY, operation.safety),
            (_PLAN, operation.plan),
            (_CURRENT, operation.current),
            *([(_AGENT, operation.agent)] if operation.agent else []),
            *([(_SESSION, operation.session)] if operation.session else []),
        )
    )


def decode_operation(data: bytes) -> Operation:
    """The operation in these bytes. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "restore record")
    return Operation(
        op=got.text(_OP),
        created_ns=got.number(_CREATED),
        worktree=got.required_bytes(_WORKTREE, 16),
        target=got.text(_TARGET),
        safety=got.text(_SAFETY),
        plan=got.required_bytes(_PLAN, 32),
        current=got.text(_CURRENT),
        agent=got.text(_AGENT),
        session=got.text(_SESSION),
    )


class Step(NamedTuple):
    """A step to undo or redo: its plan's digest, and the checkpoints restored, current before, and saved for safety."""

    plan: bytes
    target: str
    before: str
    safety: str


class History(NamedTuple):
    """A worktree's steps, newest last, and the id of the checkpoint that it last equalled, or ""."""

    undo: tuple[Step, ...]
    redo: tuple[Step, ...]
    current: str


NO_HISTORY = History((), (), "")


def steps_alone(history: History) -> History:
    """A history without what the worktree last equalled, which a save changes. Two that are equal tell of the same operations."""
    return history._replace(current="")


def history_after(history: History, operation: Operation) -> History:
    """The history after one more operation. A restore adds a step and clears redo. An undo moves the newest step to
    the redo side, with the undo's executed plan, so that redo reverses exactly that. A redo moves the step back."""
    step = Step(operation.plan, operation.target, history.current, operation.safety)
    if operation.op == RESTORE:
        return History((*history.undo, step)[-UNDO_STEPS:], (), operation.current)
    if operation.op == UNDO:
        return History(history.undo[:-1], (*history.redo, step)[-UNDO_STEPS:], operation.current)
    return History((*history.undo, step)[-UNDO_STEPS:], history.redo[:-1], operation.current)


def find_origins(operations: Iterable[Operation]) -> dict[str, Operation]:
    """{safety checkpoint of an undo or redo: the restore, revert or take that it is about}. `operations`: those of one worktree, the oldest
    first. An undo or redo of one that was forgotten is missing."""
    found: dict[str, Operation] = {}
    done: list[Operation] = []
    undone: list[Operation] = []
    for one in operations:
        if one.op == RESTORE:
            done.append(one)
            undone.clear()
        elif one.op in (UNDO, REDO):
            step, other = (done, undone) if one.op == UNDO else (undone, done)
            if step and step[-1].target == one.target:
                other.append(step.pop())
                found[one.safety] = other[-1]
    return found


_UNDO_LIST, _REDO_LIST, _CURRENT_ID, _OF = 1, 2, 3, 4


def encode_history_record(worktree: bytes, history: History) -> bytes:
    """A worktree's history as a record's payload. In a compacted ledger it replaces the worktree's operations."""
    return tlv.encode(((_OF, worktree),)) + encode_history(history)


def decode_history_record(data: bytes) -> tuple[bytes, History]:
    """Returns (worktree key, history) of a history record's payload. Raises ManifestCorrupt."""
    return tlv.Fields(data, "history record").required_bytes(_OF, 16), decode_history(data)


def encode_history(history: History) -> bytes:
    """A history as bytes, for the index."""
    return tlv.encode(
        (
            (_UNDO_LIST, tlv.encode_list(_encode_step(step) for step in history.undo)),
            (_REDO_LIST, tlv.encode_list(_encode_step(step) for step in history.redo)),
            (_CURRENT_ID, history.current),
        )
    )


def decode_history(data: bytes) -> History:
    """The history in these bytes. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "undo history")
    return History(
        tuple(_decode_step(item) for item in tlv.decode_list(got.bytes_or_empty(_UNDO_LIST), "undo history")),
        tuple(_decode_step(item) for item in tlv.decode_list(got.bytes_or_empty(_REDO_LIST), "undo history")),
        got.text(_CURRENT_ID),
    )


def _encode_step(step: Step) -> bytes:
    return tlv.encode(((1, step.plan), (2, step.target), (3, step.before), (4, step.safety)))


def _decode_step(data: bytes) -> Step:
    got = tlv.Fields(data, "undo step")
    return Step(got.required_bytes(1, 32), got.text(2), got.text(3), got.text(4))
