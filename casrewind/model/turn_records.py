"""What the turn view reads and what it shows: plain values without a clock, a disk or a transcript.

The danger prevented here: a view asks the store while it assigns changes to turns. All inputs are values, so the
rules can be tested with recorded sequences. A turn is one prompt of one session and everything until that turn ends.
"""

from collections.abc import Sequence

from .._typing import NamedTuple, Protocol
from ..messages import first_line, plural
from .diff import Change, counted_changes
from .domain import Stop
from .manifest import FILE, is_directory
from .paths import parents
from .undo_history import ABORT, CONTINUE, REDO, RESTORE, REVERT, TAKE, UNDO

EDITED, TYPED, BACKGROUND = "edited", "typed", "background"
"""The kinds of an outside row: not by a turn, by a command typed in the client, by background work of a turn."""
OPERATIONS = {
    RESTORE: "restored", UNDO: "undone", REDO: "redone", REVERT: "reverted", TAKE: "taken", ABORT: "aborted", CONTINUE: "restored",
}  # fmt: skip
"""An operation and the name of its row."""
NOT_SAVED = "not saved (too slow)"
"""What is said of an event without a checkpoint of its own: the saves of its project last longer than its prompts."""
INTERRUPTED = "interrupt"
"""The reason of a turn's end that an interruption caused."""


class Point(NamedTuple):
    """A checkpoint as the turn view reads it.

    `label` is "" unless a person or an agent chose it. `turn_id` is the client's id of the whole turn, "" = none.
    `prompt_id`: the client's id of the prompt or of its message, "" = none. `at_ns`: the time of the event, in nanoseconds
    since 1970. `has_turn_ids`: the client has ids of turns at all. `turn`: the id of the before of the turn that the record names.
    `event`: the client's name of the event, "" without one. `reason`: the event's source or reason.
    `of_subagent`: the event reports that a subagent ended. `subagent`, `subagent_type`, `subagent_root` and
    `subagent_task`: see checkpoint.Circumstances. `written`: the paths that its tools named as written. `subagents` and `tasks`: how
    many subagents still run after this event, and how many other tasks in the background.
    `no_prompt`: it is known that no prompt caused this event. `tells_ends`: the client's hooks report the ends of
    turns; None = unknown. `op` and `target`: the operation after a safety checkpoint, and its target. `domain`: the
    digest of its domain, b"" = no change is unclear. `is_saved`: the tree is the state at this event.
    """

    seq: int
    id: str
    created_ns: int
    parent: str
    trigger: str
    tree: bytes
    label: str = ""
    prompt: str = ""
    agent: str = ""
    session: str = ""
    turn_id: str = ""
    has_turn_ids: bool = True
    files: int = 0
    turn: str = ""
    event: str = ""
    reason: str = ""
    of_subagent: bool = False
    subagents: int = 0
    no_prompt: bool = False
    tells_ends: bool | None = None
    op: str = ""
    target: str = ""
    branch: str = ""
    domain: bytes = b""
    is_saved: bool = True
    prompt_id: str = ""
    at_ns: int = 0
    tasks: int = 0
    subagent: str = ""
    subagent_type: str = ""
    subagent_root: str = ""
    subagent_task: str = ""
    written: tuple[bytes, ...] = ()

    @property
    def is_notification(self) -> bool:
        """The agent hears that work in the background has ended, and goes on: an end without an id, from a client that has ids of turns."""
        return self.trigger == "turn_end" and self.has_turn_ids and not self.turn_id and not self.of_subagent


class PastOperation(NamedTuple):
    """A restore, undo or redo, or the end of an interrupted one: its target, its safety checkpoint, and the digest of the plan
    that was carried out. `current`: the id of the checkpoint that the worktree then was, or "" if only some paths were restored."""

    op: str
    created_ns: int
    target: str
    safety: str
    plan: bytes
    agent: str = ""
    session: str = ""
    current: str = ""


def with_session(point: Point, operations: Sequence[PastOperation]) -> Point:
    """A safety checkpoint with the session of the operation that it was made for."""
    named = next((done for done in operations if done.session), None)
    return point if named is None or point.session else point._replace(agent=named.agent, session=named.session)


class State(NamedTuple):
    """The files at one moment: a checkpoint's tree with these plans carried out in this order. `domain`: see Point.
    `is_safety`: the tree may hold paths that the domain leaves out, because a restore was to change them."""

    tree: bytes
    plans: tuple[bytes, ...] = ()
    domain: bytes = b""
    is_safety: bool = False


class Difference(NamedTuple):
    """What differs between two states. `changes`: None = it cannot be read. `damaged`: some of it could not be read.
    `unclear`: paths that one of the states did not capture (diff.split_unclear)."""

    changes: tuple[Change, ...] | None
    damaged: bool = False
    unclear: tuple[Change, ...] = ()


class Differ(Protocol):
    """Answers what differs. It is asked only for the rows that are shown."""

    def between(self, old: State, new: State | None) -> Difference:
        """What differs between a state and the tree of another one. None means the worktree as it is."""

    def plan(self, plan: bytes) -> Difference:
        """What a plan changed."""

    def stop(self, state: State | None) -> Stop | None:
        """The stop that was known when a state was captured. None means the worktree as it is."""


class Turn(NamedTuple):
    """One turn, or the part of it that a subagent ran.

    `n` is its number, 1 = the turn that was opened last. `id` never changes: the id of its before, else of its oldest
    checkpoint left. `also`: prompts that were typed while it ran and became a part of it. `before` and `after` are ids
    of checkpoints. None = forgotten, or the worktree as it is when `to_now` is true. `running`: its end is still to
    come. `cut_short`: its end is missing. `end_unseen`: its end is missing because the client's hooks report no ends.
    `mixed`: the change may contain edits made behind the turn. `changes`: None = unknown, or not compared. `shared`:
    paths that other turns may have changed, with the numbers of these turns. `displaced`: what these paths then had, if the turn
    alone took it away again, so that no change may be left of it. `purged`: purged paths, which cannot be
    compared. `damaged`: a part of the change could not be read. `unclear`: paths that were not captured before the turn,
    or not after it. `checkpoints`: the ids of all that belong to it, oldest first. `not_saved`: the project was too slow
    for a checkpoint at its start, its end, or the next event. `taken_back`: a restore or a revert took its change back,
    and nothing brought it again. `doubtful`: the paths of the change that someone else may have changed, because nobody saw the
    turn's end.

    `subagents`: those whose start was seen, the first one first, each as a turn with the number `subagent` of 1 and more; its prompt is
    what it was started for, once that is known, and `kind` its type. `among`: the paths of such a part that somebody else may have
    changed at the same time, with their names. `place`: the worktree of its own in which it works, "" = it works here.
    """

    n: int
    id: str
    agent: str
    session: str
    prompt: str
    prompt_id: str
    also: tuple[str, ...]
    started_ns: int | None
    ended_ns: int | None
    before: str | None
    after: str | None
    to_now: bool
    running: bool
    cut_short: bool
    end_unseen: bool
    mixed: bool
    branch: str
    checkpoints: tuple[str, ...]
    changes: tuple[Change, ...] | None = None
    shared: tuple[tuple[bytes, tuple[int, ...]], ...] = ()
    displaced: tuple[tuple[Change, tuple[int, ...]], ...] = ()
    purged: tuple[bytes, ...] = ()
    damaged: bool = False
    unclear: tuple[Change, ...] = ()
    not_saved: bool = False
    taken_back: bool = False
    doubtful: tuple[bytes, ...] = ()
    subagent: int = 0
    kind: str = ""
    subagents: "tuple[Turn, ...]" = ()
    among: tuple[tuple[bytes, tuple[str, ...]], ...] = ()
    place: str = ""

    @property
    def name(self) -> str:
        """The turn as a person types it: @3, or @3.1 of a subagent."""
        return f"@{self.n}.{self.subagent}" if self.subagent else f"@{self.n}"

    @property
    def unsure(self) -> frozenset[bytes]:
        """The paths of the change that somebody else may have changed at the same time."""
        return frozenset(self.others)

    @property
    def others(self) -> dict[bytes, tuple[str, ...]]:
        """By path, the names of those who may have changed it at the same time: @3, @3.1."""
        return {path: tuple(f"@{number}" for number in numbers) for path, numbers in self.shared} | dict(self.among)

    @property
    def title(self) -> str:
        """The turn's name in every command, beside its number: the first line of its prompt, else a subagent's type. A command may cut
        it."""
        return first_line(self.prompt) or first_line(self.kind) or "(no prompt)"

    @property
    def changed_nothing(self) -> bool:
        """True if the turn is over, and it is known that it changed no file."""
        is_known = self.changes is not None and not (self.running or self.damaged or self.unclear or self.purged)
        return is_known and not counted_changes(self.changes or ())

    @property
    def at_ns(self) -> int | None:
        """The turn's time in every command: when its prompt was typed, else its end. In nanoseconds since 1970, None = unknown."""
        return self.started_ns or self.ended_ns

    @property
    def marks(self) -> tuple[str, ...]:
        """What every command says of the turn behind its name. It is said whole, however short the name is cut."""
        folded = (plural(len(self.subagents), "subagent"), bool(self.subagents))
        told = (("running", self.running), ("cut short", self.cut_short), ("taken back", self.taken_back), folded)
        return tuple(words for words, is_so in told if is_so)


class Outside(NamedTuple):
    """What changed while no turn ran. `checkpoint`: the first checkpoint that has the change ("" = the worktree as it
    is), `seen_ns`: its time. `of`: the number of the turn that may have made the change in the background, 0 = none.
    `before`: the checkpoint that has the files as they were before it, "" = none has. `by`: who edits beside the person, as
    `casrewind watch` was told, "" = nobody is known."""

    kind: str
    checkpoint: str
    seen_ns: int | None
    of: int
    changes: tuple[Change, ...] | None = None
    purged: tuple[bytes, ...] = ()
    damaged: bool = False
    unclear: tuple[Change, ...] = ()
    before: str = ""
    by: str = ""


class SavedRow(NamedTuple):
    """A save by hand. `during`: the numbers of the turns that ran when it was made."""

    checkpoint: str
    label: str
    files: int
    at_ns: int
    during: tuple[int, ...]


class Reversed(NamedTuple):
    """What an undo or redo reversed, by its safety checkpoint: the operation, and the restore, revert or take in the beginning."""

    operation: str
    origin: str


UNKNOWN_STEP = Reversed("", "")


class Reset(NamedTuple):
    """A restore, undo or redo, or an interrupted one that was taken back. `kind`: see OPERATIONS. `reversed`: what it reversed.

    `of` and `side`: the target is the "before" or "after" (`side`) of the turn with the number `of`; 0 and "" = of no
    turn. `loose`: no record of the operation is left, so its change is the step to the next checkpoint.
    """

    kind: str
    target: str
    safety: str
    at_ns: int
    during: tuple[int, ...]
    of: int
    side: str
    loose: bool
    changes: tuple[Change, ...] | None = None
    damaged: bool = False
    unclear: tuple[Change, ...] = ()
    reversed: Reversed = UNKNOWN_STEP


class Interval(NamedTuple):
    """What changed from one known state of the files to the next one."""

    order: int
    """Later ones have a higher number: twice that of the record at its end, and one more for an operation behind that checkpoint."""
    turns: tuple[int, ...]
    """The numbers of the turns that ran, or whose agent ran the operation."""
    row: "Row | None"
    """The row of what no turn did, None if there is none."""
    changes: tuple[Change, ...]


class Forgotten(NamedTuple):
    """A place where older checkpoints are not here. `checkpoint` is the first one behind it."""

    checkpoint: str


class LookedAt(NamedTuple):
    """The place in a list up to which a person looked. `at_ns`: when that was. `seq`: the newest record that they saw."""

    at_ns: int
    seq: int


Row = Turn | Outside | SavedRow | Reset | Forgotten


def doubtful_paths(turn: Turn, stop: Stop | None) -> tuple[bytes, ...]:
    """The paths that a turn without an end may not have changed. Of the others, the content was there when the person stopped the turn,
    by the times of the files at the next look, which had this `stop`. Absent paths and links have no time."""
    changes = turn.changes or ()
    if turn.not_saved or stop is None or stop.point not in turn.checkpoints:
        return tuple(change.path for change in changes)
    later = frozenset(stop.changed_since)
    certain = {change.path for change in changes if change.new is not None and change.new.kind == FILE and change.path not in later}
    above = {place for path in certain for place in parents(path)}
    above -= {place for change in changes if change.path not in certain for place in parents(change.path)}
    certain.update(change.path for change in changes if change.path in above and change.old is None and is_directory(change.new))
    return tuple(change.path for change in changes if change.path not in certain)


def is_of_person(row: "Row") -> bool:
    """True if a person made the changes of a row: edits outside of all turns, or what was taken from another directory."""
    return (isinstance(row, Outside) and row.kind != BACKGROUND) or (isinstance(row, Reset) and row.kind == OPERATIONS[TAKE])


def row_name(recorded: str, asked: str) -> str:
    """The name of an operation's row. `recorded`: in its record. `asked`: in its safety checkpoint."""
    return OPERATIONS[asked if recorded == RESTORE and asked in (REVERT, TAKE) else recorded]
