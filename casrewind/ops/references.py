"""Resolves references to checkpoints: a turn (3 and @3), last, prev, a label, a time, an id or its prefix.

Also finds the checkpoint of an entry of a conversation (`of_entry`).
"""

from collections.abc import Callable, Collection, Sequence

from .. import errors
from .._typing import TYPE_CHECKING
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..store.catalog import Marked
from ..store.store import Store

if TYPE_CHECKING:
    from .._typing import NoReturn

LEAST_PREFIX = 4
REMOTE = "remote:"
"""What the name of a checkpoint on another machine is to begin with."""
AFTER = "after:"
"""What `after:N` and `after:@N`, the state behind a turn, begin with."""
_SHOWN = 8
_NEWEST = {"last": 1, "prev": 2}
"""Names of the newest checkpoints, and their places."""
_ENTRY_ORDER = ("turn_end", "tool_batch", "compact", "session_end", "session_start")
"""Triggers by how well the files of their checkpoints belong to the entry at which the conversation stood."""
Turns = Callable[[str], Checkpoint]
"""Gives the checkpoint of a reference to a turn (see `turn_of`). Raises CheckpointNotFound."""


def label_of(point: Checkpoint, marked: Marked) -> str:
    """The current label: the latest one given, else the label that the checkpoint was made with."""
    return marked.label or point.label


def is_named(point: Checkpoint, marked: Marked) -> bool:
    """True if gc keeps a checkpoint because of a pin, or of a label that was not unpinned."""
    own = point.label and point.trigger != checkpoints.SAFETY and not point.flags & checkpoints.DESCRIBED
    return marked.pinned or (bool(marked.label or own) and not marked.released)


def is_labelled(point: Checkpoint, marked: Marked) -> bool:
    """True if a person gave the label: it is not that of a safety checkpoint, nor a description."""
    return bool(marked.label) or (point.trigger != checkpoints.SAFETY and not point.flags & checkpoints.DESCRIBED)


def is_numbered(point: Checkpoint, worktree: bytes) -> bool:
    """True for the checkpoints that `last`, `prev` and times count: those of this worktree without safety checkpoints."""
    return point.worktree == worktree and point.trigger != checkpoints.SAFETY


def resolve(store: Store, worktree: bytes, reference: str, turns: Turns) -> Checkpoint:
    """The checkpoint that `reference` names. Turns, `last`, `prev` and times are this worktree's and skip safety
    checkpoints. Raises CheckpointNotFound, AmbiguousReference."""
    if turn_of(reference) is not None:
        return turns(reference)
    place = _NEWEST.get(reference)
    if place is not None:  # the newest ones are enough
        newest = store.checkpoints(place, lambda point: is_numbered(point, worktree))
        found = [point for point, _ in newest if is_numbered(point, worktree)]
        if len(found) == place:
            return found[-1]
    return _resolve(store.checkpoints(), worktree, reference)


def turn_of(reference: str) -> tuple[int, bool] | None:
    """Returns (number of a turn, True for the state after it), or None if `reference` names no turn.

    A bare number is a turn: `3` is `@3`, and `after:3` is `after:@3`.
    """
    number = reference.removeprefix(AFTER)
    digits = number.removeprefix("@")
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits[:18]), number != reference


def check_label(label: str) -> None:
    """Raise UsageError for a label of the form of another reference: it could not be named, or would hide what it means.

    Ledgers of older versions may hold such labels.
    """
    form = _form_of(label)
    if form is not None:
        refuse_label(label, f"it would be taken for {form}")


def refuse_label(label: str, why: str) -> "NoReturn":
    """Raise UsageError for a label."""
    raise errors.UsageError(f"{label[:80]!r} cannot be a label: {why}", "give another LABEL")


def _form_of(label: str) -> str | None:
    """What a text means as a reference if it is no label and no id, or None. `run` labels `after: COMMAND` are none."""
    machine, colon, rest = label.partition(":")
    if label in _NEWEST or label.isdigit():
        return "one of last, prev and the numbers of turns"
    if turn_of(label) is not None:
        return "the number of a turn"
    if label.startswith(AFTER) and not rest.startswith(" "):
        return "the state after a turn"
    if label.startswith(REMOTE) or (colon and machine and rest.startswith(("@", AFTER)) and turn_of(rest) is not None):
        return "a checkpoint of another machine"
    return "a time" if _moment_of(label) is not None else None


def _moment_of(text: str) -> int | None:
    """The moment that a text means, in nanoseconds since 1970, or None."""
    if not (text[:1].isdigit() or text.startswith(("today", "yesterday"))):
        return None
    from . import moments

    return moments.moment_of(text)


def resolve_with_path(store: Store, worktree: bytes, text: str, turns: Turns) -> tuple[Checkpoint, str]:
    """Parse REF:PATH. Returns (checkpoint, path). Labels may contain colons: the first colon after a valid reference
    counts. Raises UsageError without a colon, else the error of the part before the first colon."""
    if ":" not in text:
        raise errors.UsageError(f"{text!r} names no file", "write REF:PATH, as in last:README.md")
    everything = store.checkpoints()
    failure: errors.CheckpointError | None = None
    cut = _first_colon(text)
    while cut >= 0:
        try:
            if turn_of(text[:cut]) is not None:
                return turns(text[:cut]), text[cut + 1 :]
            return _resolve(everything, worktree, text[:cut]), text[cut + 1 :]
        except errors.AmbiguousReference as error:
            if not isinstance(failure, errors.AmbiguousReference):
                failure = error
        except errors.CheckpointError as error:
            failure = failure or error
        cut = text.find(":", cut + 1)
    assert failure is not None
    raise failure


def of_entry(store: Store, worktree: bytes, session: str, entries: Collection[str]) -> Checkpoint | None:
    """The checkpoint of an entry of a conversation (a message, or the end of an answer), or None. `entries` are its id
    and those of the entries that belong to it, such as the results of its tool calls.

    Only a checkpoint that was made at that very entry counts. The nearest one has the files of another moment. Copies
    of a session have the same ids, so the checkpoints of other sessions count when `session` has none.
    """
    wanted = [entry.encode("utf-8", "surrogatepass") for entry in entries if entry]
    found: list[tuple[tuple[int, int, int], Checkpoint]] = []
    for point, _ in store.checkpoints():
        if point.worktree == worktree and any(entry in point.cursor for entry in wanted):
            rank = _rank_at_entry(point, entries)
            if rank is not None:
                found.append(((rank, int(point.session != session), point.seq), point))
    return min(found)[1] if found else None


def _rank_at_entry(point: Checkpoint, entries: Collection[str]) -> int | None:
    """How well a checkpoint fits, 0 is best; None when it was not made at one of these entries."""
    from ..model import cursor as cursors

    cursor = cursors.decode(point.cursor)
    if point.trigger == checkpoints.PROMPT:
        return 0 if cursor.prompt_id in entries else None
    if cursor.message_id not in entries or point.trigger not in _ENTRY_ORDER:
        return None
    is_before = point.trigger == "tool_batch" and not cursor.tool_use_id
    return len(_ENTRY_ORDER) + 1 if is_before else _ENTRY_ORDER.index(point.trigger) + 1


def _resolve(everything: Sequence[tuple[Checkpoint, Marked]], worktree: bytes, reference: str) -> Checkpoint:
    place = _NEWEST.get(reference)
    if place is not None:
        numbered = [point for point, _ in everything if is_numbered(point, worktree)]
        if len(numbered) < place:
            raise errors.CheckpointNotFound(
                f"no checkpoint {reference!r}: this worktree has {len(numbered)}",
                "casrewind list shows them"
            )
        return numbered[place - 1]
    labelled = _labelled(everything, worktree, reference)
    if labelled is not None:
        return labelled
    moment = _moment_of(reference)
    if moment is not None:
        return _at(everything, worktree, reference, moment)
    for point, _ in everything:
        if point.id == reference:
            return _saved(point)
    if len(reference) >= LEAST_PREFIX:
        found = [point for point, _ in everything if point.id.startswith(reference)]
        if found:
            return _saved(_only(found, reference, "prefix"))
    raise errors.CheckpointNotFound(
        f"no checkpoint {reference!r}",
        f"give a turn (@N), last, prev, a label, a time, an id or at least {LEAST_PREFIX} characters of one; casrewind list shows them"
    )


def _saved(point: Checkpoint) -> Checkpoint:
    """The checkpoint, if its tree is the state at its event. Raises CheckpointNotFound."""
    if not point.is_saved:
        raise errors.CheckpointNotFound(
            f"{point.id} has no files of its own: this event was not saved, because the project was too slow",
            "casrewind list --all shows the checkpoints beside it"
        )
    return point


def _labelled(everything: Sequence[tuple[Checkpoint, Marked]], worktree: bytes, reference: str) -> Checkpoint | None:
    """The checkpoint with this label, or None. In this worktree it is the newest that a person labelled, else the
    newest. Else it is a checkpoint of another worktree; AmbiguousReference is raised if there are several of them."""
    if not reference:  # an unset variable, say, would name every checkpoint without a label
        return None
    found = [(point, marked) for point, marked in everything if label_of(point, marked) == reference]
    own = [point for point, _ in found if point.worktree == worktree]
    named = [point for point, marked in found if point.worktree == worktree and is_labelled(point, marked)]
    if named or own:
        return (named or own)[0]
    return _only([point for point, _ in found], reference, "label") if found else None


def _at(everything: Sequence[tuple[Checkpoint, Marked]], worktree: bytes, reference: str, moment: int) -> Checkpoint:
    """The newest checkpoint of this worktree that is not later than a moment. Raises CheckpointNotFound."""
    from . import moments

    numbered = [point for point, _ in everything if is_numbered(point, worktree)]
    for point in numbered:
        if point.created_ns <= moment:
            return point
    oldest = f"; the oldest is {numbered[-1].id}, made {moments.told(numbered[-1].created_ns)}" if numbered else ""
    raise errors.CheckpointNotFound(
        f"no checkpoint {reference!r}: none was made before {moments.told(moment)}{oldest}",
        "casrewind list shows them"
    )


def _first_colon(text: str) -> int:
    """Where the reference of REF:PATH may end first: not inside a time of day."""
    end = 5 if text[2:3] == ":" else 4
    clock = text[:end]
    if text[end : end + 1] == ":" and clock.replace(":", "", 1).isdigit() and clock[-3:-2] == ":":
        return end
    return text.find(":")


def _only(found: list[Checkpoint], reference: str, what: str) -> Checkpoint:
    if len(found) == 1:
        return found[0]
    shown = ", ".join(point.id for point in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    raise errors.AmbiguousReference(f"{what} {reference!r} names {len(found)} checkpoints: {shown}", "give the id of one")
