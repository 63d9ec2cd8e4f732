"""What a word can mean that names a checkpoint: a turn (3 and @3), last, prev, a time, a label, an id or its prefix.

The danger prevented here: a label that reads as another reference, which would hide what that one means. `lookup` finds
the checkpoint of a reference.
"""

from collections.abc import Iterable

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple
from ..messages import printable
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..store.catalog import Marked

if TYPE_CHECKING:
    from .._typing import NoReturn

LEAST_PREFIX = 4
_SESSIONS = 8  # sessions that an error names
_ORIGIN_SHOWN = 8
REMOTE = "remote:"
"""What the name of a checkpoint of the only other machine begins with."""
AFTER = "after:"
"""What `after:N` and `after:@N`, the state behind a turn, begin with."""
NEWEST = {"last": 1, "prev": 2}
"""Names of the newest checkpoints, and their places."""


class ReferencePlace(NamedTuple):
    """A reference in two parts. `machine`: the name of another machine, "" = this one. `reference`: the rest. `namesakes`: how many
    machines have the name that was given, if it means the newest of several."""

    worktree: bytes
    machine: str
    reference: str
    namesakes: int = 0

    @property
    def prefix(self) -> str:
        """What stands in front of a turn's number: `sandbox-4:`, or ""."""
        return f"{self.machine}:" if self.machine else ""


def plain_name(machine: str, origin: str) -> str:
    """The name that a machine gave itself, of the name that it has here: `sandbox-4` of `sandbox-4.3f2a`. `origin`: see Circumstances."""
    head, slash, directory = machine.partition("/")
    base, dot, end = head.rpartition(".")
    is_longer = base and dot and len(end) >= LEAST_PREFIX and origin.startswith(end)
    return f"{base if is_longer else head}{slash}{directory}"


def full_name(machine: str, origin: str) -> str:
    """A name that no other machine has, whatever others are called: `sandbox-4.3f2a91c0`."""
    head, slash, directory = plain_name(machine, origin).partition("/")
    return f"{head}.{origin[:_ORIGIN_SHOWN]}{slash}{directory}"


def is_full_name(name: str, machine: str, origin: str) -> bool:
    """True if a name means this machine and no namesake of it."""
    head, slash, directory = name.partition("/")
    plain, end = plain_name(machine, origin).partition("/"), head.rpartition(".")[2]
    is_own = head.removesuffix(f".{end}") == plain[0] and (slash, directory) == plain[1:]
    return is_own and len(end) >= LEAST_PREFIX and origin.startswith(end)


def label_of(point: Checkpoint, marked: Marked) -> str:
    """The current label: the latest one given, else the label that the checkpoint was made with. What a safety checkpoint is for, its
    operation says."""
    return marked.label or ("" if point.trigger == checkpoints.SAFETY else point.label)


def is_kept_by_mark(point: Checkpoint, marked: Marked) -> bool:
    """True if gc keeps a checkpoint because of a pin, or of a label that was not unpinned."""
    own = point.label and point.trigger != checkpoints.SAFETY and not point.flags & checkpoints.DESCRIBED
    return marked.pinned or (bool(marked.label or own) and not marked.released)


def is_labelled(point: Checkpoint, marked: Marked) -> bool:
    """True if a person gave the label: it is not that of a safety checkpoint, nor a description."""
    return bool(marked.label) or (point.trigger != checkpoints.SAFETY and not point.flags & checkpoints.DESCRIBED)


def is_listed(point: Checkpoint, worktree: bytes) -> bool:
    """True for the checkpoints that `last`, `prev` and times count: those of this worktree without safety checkpoints."""
    return point.worktree == worktree and point.trigger != checkpoints.SAFETY


class TurnReference(NamedTuple):
    """What `@3` and `after:@3.1` name. `subagent`: the number of a subagent of the turn, 0 = the turn itself."""

    number: int
    is_after: bool
    subagent: int = 0


def turn_of(reference: str) -> TurnReference | None:
    """The turn, or the subagent of one, that `reference` names, or None.

    A bare number is a turn: `3` is `@3`, and `after:3` is `after:@3`. Subagents have no bare numbers: 3.1 may be a label or a file.
    """
    name = reference.removeprefix(AFTER)
    digits, dot, part = name.removeprefix("@").partition(".")
    if not all(one.isascii() and one.isdigit() for one in ([digits, part] if dot else [digits])):
        return None
    if dot and (digits == name.partition(".")[0] or not int(part[:18])):
        return None
    return TurnReference(int(digits[:18]), name != reference, int(part[:18] or 0))


def machine_of(reference: str) -> tuple[str, str]:
    """Returns (the name of a machine, the reference there) of `remote:REF` and `MACHINE:REF`. ("", the reference) has another form.

    A colon has other uses, too. So a name counts only if there is a machine of that name, and a time stays a time.
    """
    machine, colon, rest = reference.partition(":")
    is_one = colon and rest and f"{machine}:" != AFTER and moment_of(reference) is None
    return (machine, rest) if is_one else ("", reference)


def refuse_ambiguous_label(label: str) -> None:
    """Raise UsageError for a label of the form of another reference: it could not be named, or would hide what it means.

    Ledgers of older versions may hold such labels.
    """
    form = _other_reference_meant_by(label)
    if form is not None:
        raise_bad_label(label, f"it would be taken for {form}")


def raise_bad_label(label: str, why: str) -> "NoReturn":
    """Raise UsageError for a label."""
    raise errors.UsageError(f"{label[:80]!r} cannot be a label: {why}", "give another LABEL")


def _other_reference_meant_by(label: str) -> str | None:
    """What a text means as a reference if it is no label and no id, or None. `run` labels `after: COMMAND` are none."""
    machine, rest = machine_of(label)
    if label in NEWEST or label.isdigit():
        return "one of last, prev and the numbers of turns"
    if turn_of(label) is not None:
        return "the number of a turn"
    if label.startswith(AFTER) and not label.startswith(f"{AFTER} "):
        return "the state after a turn"
    is_turn = rest.startswith(("@", AFTER)) and turn_of(rest) is not None
    if label.startswith(REMOTE) or (machine and (is_turn or rest in NEWEST)):
        return "a checkpoint of another machine"
    return "a time" if moment_of(label) is not None else None


def moment_of(text: str) -> int | None:
    """The moment that a text means, in nanoseconds since 1970, or None."""
    if not (text[:1].isdigit() or text.startswith(("today", "yesterday"))):
        return None
    from . import typed_times

    return typed_times.parse_moment(text)


def unknown_session_error(given: str, known: Iterable[str]) -> errors.AgentError:
    """The error for a session that is none of the `known` ones, or whose id is cut too short."""
    names = sorted(map(printable, known))
    hint = f"known are {', '.join(names[:_SESSIONS])}{', ...' if len(names) > _SESSIONS else ''}"
    if len(given) < LEAST_PREFIX:
        hint = f"give its id, or at least its first {LEAST_PREFIX} characters"
    return errors.AgentError(f"no session {printable(given)!r} is known here", hint)
