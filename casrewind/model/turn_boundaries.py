"""Which checkpoint belongs to which turn, where a turn begins, and where it ends. The order of the records decides.

The danger prevented here: one prompt is charged with the work of another. A checkpoint that fits no turn for certain
belongs to no turn. A missing end is never replaced by a later end that only happens to come next.

Or a part of a timeline is read as if it were all of it: a turn that began in front of the part could run in it, end in it, or own one
of its records. Where a record leaves a doubt, the part begins behind it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from .._typing import NamedTuple
from . import checkpoint as checkpoints
from .turn_records import INTERRUPTED, PastOperation, Point
from .undo_history import RESTORE

Session = tuple[str, str]
"""An agent and its session's id: ids of two agents are never compared."""

_AGREE = 150  # characters of two prompts that must be equal: a record keeps only these of a long prompt

_BESIDE_NS = 5_000_000_000  # some clients run hooks at the same time: of a session's start and its first prompt, or one of ours twice

_WITH_ENDS = (checkpoints.PROMPT, "turn_end", "tool_batch")
"""Triggers whose records can open a turn. Such a record must say whether the client reports ends."""

class Span(NamedTuple):
    """A turn runs from one checkpoint to another. Both are positions in the list of points.

    The list's length means the worktree.
    """

    first: int
    last: int


class TurnPositions(NamedTuple):
    """A turn as positions in the list of points. See Turn for the names. `opened`: the position that decides its
    number. `inside`: the positions of all checkpoints that belong to it. `own_ends`: those of its ends that are no subagent's."""

    agent: str
    session: str
    prompt: str
    prompt_id: str
    also: tuple[str, ...]
    opened: int
    before: int | None
    after: int | None
    spans: tuple[Span, ...]
    running: bool
    cut_short: bool
    end_unseen: bool
    mixed: bool
    inside: tuple[int, ...]
    own_ends: tuple[int, ...]


class TurnBoundaries(NamedTuple):
    """All turns, in the order in which they were opened. `typed`: the positions of turn ends that a command
    of the user caused. `opened_again`: {position of a notification: the turn, by its index in `turns`}. `gaps`: the
    positions directly behind forgotten checkpoints.

    `own`: {position of a save or safety checkpoint: the turn in which the agent made it}.
    """

    turns: tuple[TurnPositions, ...]
    typed: frozenset[int]
    opened_again: dict[int, int]
    gaps: frozenset[int]
    own: dict[int, int]


def find_boundaries(points: Sequence[Point], alive: Collection[Session]) -> TurnBoundaries:
    """The turns of one worktree's checkpoints, oldest first. `alive`: the sessions whose client may still work on a turn
    without an end."""
    reading = _Reading(points)
    for at, point in enumerate(points):
        reading.read_next(at, point)
    return reading.finished_boundaries(alive)


class _Draft:
    """A turn that is being put together."""

    def __init__(self, session: Session, before: int | None, opened: int, prompt: str, turn_id: str) -> None:
        self.session, self.before, self.opened, self.prompt, self.turn_id = session, before, opened, prompt, turn_id
        self.inside = [opened]
        self.waiting: list[int] = []
        self.ends: list[int] = []  # of the turn itself
        self.subagent_ends: list[int] = []  # of its subagents: an end only when the turn has one of its own
        self.spans: list[list[int]] = [[opened, -1]]  # -1: no end yet
        self.closed = self.answering = self.interrupted = False
        self.cut_at: int | None = None
        self.taken_back = -1  # the safety checkpoint of a restore to before this turn

    @property
    def is_open(self) -> bool:
        """True until an end, or something that leaves the turn without one."""
        return not self.closed and self.spans[-1][1] < 0

    def end(self, at: int) -> None:
        """An end at this position; the last one counts."""
        self.spans[-1][1] = max(at, self.spans[-1][1])


class _Reading:
    """One pass over the checkpoints of a worktree, oldest first."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points
        self.positions = {point.id: at for at, point in enumerate(points)}
        self.drafts: list[_Draft] = []
        self.newest: dict[Session, _Draft] = {}
        self.by_id: dict[tuple[Session, str], _Draft] = {}
        self.by_turn: dict[str, _Draft] = {}
        self.told: set[Session] = set()
        self.typed: set[int] = set()
        self.opened_again: dict[int, _Draft] = {}
        self.own: dict[int, _Draft] = {}

    def read_next(self, at: int, point: Point) -> None:
        """Read the next checkpoint."""
        session = (point.agent, point.session)
        trigger = point.trigger
        if trigger == checkpoints.WATCH:
            return
        if trigger in (checkpoints.MANUAL, checkpoints.SAFETY):
            by = self._find_turn(point, session) if point.turn else self.newest.get(session) if point.session else None
            if by is not None and (by.is_open or point.turn):
                by.inside.append(at)
                self.own[at] = by
            elif trigger == checkpoints.SAFETY and point.op == RESTORE:
                self._note_turn_taken_back(at, point)
            return
        if trigger in ("turn_end", "tool_batch", "compact", "session_end") and not point.is_notification:
            self.told.add(session)
        if trigger == checkpoints.PROMPT:
            self._read_prompt(at, point, session)
        elif trigger == "turn_end":
            self._read_turn_end(at, point, session)
        elif trigger == "tool_batch":
            self._read_tool_event(at, point, session)
        else:
            self._read_other_event(at, point, session)

    def _note_turn_taken_back(self, at: int, point: Point) -> None:
        """A restore to before a turn that has no end: a person who goes back does not wait for its end. A target that
        was forgotten is older than what is left."""
        target = self.positions.get(point.target, -1)
        for draft in self.newest.values():
            if draft.is_open and target <= draft.opened:
                draft.taken_back = at

    def _find_turn(self, point: Point, session: Session) -> _Draft | None:
        """The turn that a checkpoint names, by the record's own field or by the client's id."""
        if point.turn:
            return self.by_turn.get(point.turn)
        return self.by_id.get((session, point.turn_id)) if point.turn_id else None

    def _open_turn(self, session: Session, before: int | None, opened: int, prompt: str, point: Point) -> _Draft:
        draft = _Draft(session, before, opened, prompt, point.turn_id)
        self.drafts.append(draft)
        self._close_turn(session)
        self.newest[session] = draft
        if point.turn_id:
            self.by_id[session, point.turn_id] = draft
        self.by_turn[point.turn if before is None and point.turn else self.points[opened].id] = draft
        return draft

    def _open_named_turn(self, session: Session, at: int, point: Point) -> _Draft:
        """The turn of a record after the turn's start. The record may name the start, which may still exist."""
        before = self.positions.get(point.turn, len(self.points))
        if before >= at:
            return self._open_turn(session, None, at, point.prompt, point)
        half = self.newest.get(session)
        if half is not None and half.before is None and half.opened == before:  # also in a turn without a start
            half.inside = [one for one in half.inside if one != before]
            self.drafts.remove(half)
            if half.inside:
                half.opened = half.spans[0][0] = half.inside[0]
                self.drafts.append(half)
        draft = self._open_turn(session, before, before, point.prompt, point)
        draft.inside.append(at)
        return draft

    def _close_turn(self, session: Session) -> None:
        newest = self.newest.get(session)
        if newest is not None:
            newest.closed = True

    def _read_prompt(self, at: int, point: Point, session: Session) -> None:
        newest = self.newest.get(session)
        if newest is not None and self._is_told_again(newest, point):
            newest.inside.append(at)
            self.by_turn.setdefault(point.turn or point.id, newest)
            return
        is_free = newest is not None and newest.is_open and not newest.ends and point.turn != point.id
        if newest is not None and is_free and self._find_turn(point, session) is newest:
            newest.waiting.append(at)
            newest.inside.append(at)
        else:  # with the id of another before, it was typed while a turn ran that has no older record left
            is_inside = point.turn not in ("", point.id) and point.turn not in self.by_turn
            self._open_turn(session, None if is_inside else at, at, point.prompt, point)

    def _is_told_again(self, draft: _Draft, point: Point) -> bool:
        """True for a prompt that a turn without an end has already. Where hooks are registered twice, each prompt comes twice, at the
        same time. Qwen Code reports one again after a tool, without its text."""
        if draft.ends or not draft.is_open:
            return False
        for seen in (self.points[at] for at in draft.inside if self.points[at].trigger == checkpoints.PROMPT):
            is_at_once = seen.prompt == point.prompt and abs(point.at_ns - seen.at_ns) < _BESIDE_NS
            if seen.prompt_id == point.prompt_id and (is_at_once or (point.prompt_id and not point.prompt)):
                return True
        return False

    def _read_turn_end(self, at: int, point: Point, session: Session) -> None:
        found, newest = self._find_turn(point, session), self.newest.get(session)
        if point.is_notification:
            self._read_notification(found if point.turn else newest, at)
        elif found is not None:
            self._end_turn(found, at, point)
        elif not point.turn_id and newest is not None and not point.turn:
            if not newest.closed:
                self._end_turn(newest, at, point)
        elif newest is not None and newest.waiting and self.positions.get(point.turn) in (*newest.waiting, newest.spans[-1][1]):
            self._end_turn(self._open_waiting_turn(newest, point), at, point)
        elif point.turn or (point.prompt and not self._waits_in_turn(newest, point.prompt)):
            self._end_turn(self._open_named_turn(session, at, point), at, point)
        elif not point.prompt and newest is not None and newest.answering:
            self._end_turn(newest, at, point)
        elif newest is not None and newest.waiting and not point.no_prompt:
            self._end_turn(self._open_waiting_turn(newest, point), at, point)
        elif not point.of_subagent and point.turn_id:
            self.typed.add(at)

    def _read_notification(self, draft: _Draft | None, at: int) -> None:
        """A task notification came: the turn continues from here, if it has ended."""
        if draft is None:
            return
        draft.inside.append(at)
        if draft.ends and not draft.answering:
            is_working = self._running_subagents(draft) > 0 and draft in self.newest.values()  # others of its subagents
            draft.answering, draft.closed = True, False
            if is_working:
                draft.spans[-1][1] = -1
                return
            draft.spans.append([at, -1])
            self.opened_again[at] = draft

    def _end_turn(self, draft: _Draft, at: int, point: Point) -> None:
        draft.inside.append(at)
        if draft.answering and point.turn_id not in ("", draft.turn_id):  # the answer to the notification has an id of its own
            draft.answering = point.of_subagent
            self.by_id[draft.session, point.turn_id] = draft
        if point.of_subagent:
            draft.subagent_ends.append(at)
            if draft.ends:
                draft.end(at)
            return
        newest = self.newest[draft.session]
        if newest is not draft and point.event:  # a slow hook: this end was before the session's next prompt
            later = next(one for one in self.drafts[self.drafts.index(draft) + 1 :] if one.session == draft.session)
            at = later.opened
        draft.interrupted = point.reason == INTERRUPTED
        draft.ends.append(at)
        draft.end(max([at, *draft.subagent_ends]) if newest is draft else at)

    def _waits_in_turn(self, newest: _Draft | None, prompt: str) -> bool:
        """True when a prompt is one of those that wait, or all of them joined."""
        texts = [self.points[at].prompt for at in newest.waiting] if newest is not None else []
        return any(text[:_AGREE] == prompt[:_AGREE] for text in (*texts, "\n".join(texts)))

    def _open_waiting_turn(self, front: _Draft, point: Point) -> _Draft:
        """The prompts that waited are a turn of their own."""
        texts = point.prompt or "\n".join(self.points[at].prompt for at in front.waiting)
        opened = front.spans[-1][1]
        if opened < 0:
            opened = front.cut_at = front.waiting[0]
        waiting, front.waiting = front.waiting, []
        front.inside = [at for at in front.inside if at not in waiting]
        draft = self._open_turn(front.session, opened, opened, texts, point)
        draft.inside = sorted({opened, *waiting})
        return draft

    def _read_tool_event(self, at: int, point: Point, session: Session) -> None:
        found, newest = self._find_turn(point, session), self.newest.get(session)
        if found is None and newest is not None and newest.answering and point.turn_id:
            found = self.by_id[session, point.turn_id] = newest
        is_unnamed = not point.turn and not point.turn_id and not point.has_turn_ids
        if found is None and is_unnamed and newest is not None and not newest.closed:
            found = newest
        if found is None and point.turn:
            self._open_named_turn(session, at, point)
        elif found is not None:
            found.inside.append(at)

    def _read_other_event(self, at: int, point: Point, session: Session) -> None:
        """A session's start or end, or a compaction."""
        found, newest = self._find_turn(point, session), self.newest.get(session)
        by_itself = point.reason in ("auto", "compact") and not point.has_turn_ids
        if found is None and newest is not None and newest.is_open and (by_itself or self._ran_beside_first_prompt(point, newest)):
            found = newest
        if found is not None and (
            point.trigger == "compact" or (point.trigger == checkpoints.SESSION_START and found.is_open and not found.ends)
        ):
            found.inside.append(at)
        else:
            self._close_turn(session)

    def _ran_beside_first_prompt(self, point: Point, newest: _Draft) -> bool:
        """True for a session's start, if its hook ran at the same time as the first prompt's hook and ended later."""
        is_first = point.trigger == checkpoints.SESSION_START and newest.inside == [newest.opened]
        return is_first and not point.has_turn_ids and point.created_ns - self.points[newest.opened].created_ns < _BESIDE_NS

    # -- where each turn ends

    def finished_boundaries(self, alive: Collection[Session]) -> TurnBoundaries:
        """What was found."""
        gaps = frozenset(at for at, point in enumerate(self.points) if point.parent and point.parent not in self.positions)
        drafts = sorted(self.drafts, key=lambda draft: draft.opened)
        numbers = {draft: number for number, draft in enumerate(drafts)}
        return TurnBoundaries(
            tuple(self._positions_of(draft, alive, gaps) for draft in drafts),
            frozenset(self.typed),
            {at: numbers[draft] for at, draft in self.opened_again.items()},
            gaps,
            {at: numbers[draft] for at, draft in self.own.items()},
        )

    def _positions_of(self, draft: _Draft, alive: Collection[Session], gaps: frozenset[int]) -> TurnPositions:
        now = len(self.points)
        is_alive = draft.session in alive and not draft.closed and self.newest[draft.session] is draft
        is_alive = is_alive and max(draft.inside) > draft.taken_back
        last = draft.spans[-1][1]
        after: int | None = last
        missing = last < 0
        running = is_alive and (missing or self._running_subagents(draft) > 0)
        forgotten = False
        if running:
            after = now
        elif missing:
            newest = max(at for at in draft.inside if draft.cut_at is None or at < draft.cut_at)
            after = draft.cut_at if draft.cut_at is not None else newest + 1
            forgotten = draft.cut_at is None and after in gaps
        if forgotten:
            after = None
        told = self._tells_ends(draft)
        is_short = missing and not running and not forgotten
        spans = [Span(first, end) for first, end in draft.spans[:-1]]
        spans.append(Span(draft.spans[-1][0], max(draft.inside) if after is None else after))
        return TurnPositions(
            *draft.session,
            prompt=draft.prompt,
            prompt_id=draft.turn_id,
            also=tuple(self.points[at].prompt for at in draft.waiting),
            opened=draft.opened,
            before=draft.before,
            after=after,
            spans=tuple(spans),
            running=running,
            cut_short=(is_short and told) or (draft.interrupted and not running),
            end_unseen=missing and not forgotten and not told,
            mixed=is_short,
            inside=tuple(sorted(set(draft.inside))),
            own_ends=tuple(draft.ends),
        )

    def _running_subagents(self, draft: _Draft) -> int:
        """How many subagents of a turn still ran at its last recorded end."""
        ends = [at for at in (*draft.ends, *draft.subagent_ends) if draft.ends]
        return self.points[max(ends)].subagents if ends else 0

    def _tells_ends(self, draft: _Draft) -> bool:
        said = self.points[draft.opened].tells_ends
        return draft.session in self.told if said is None else said


def turns_running_in_each_step(turns: Sequence[TurnPositions], count: int) -> list[tuple[int, ...]]:
    """For each step the turns that run in it, by their indexes in `turns`. Step k ends at point k; step 0 is empty."""
    starts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for number, turn in enumerate(turns):
        for span in turn.spans:
            if span.first < span.last:
                starts.setdefault(span.first, []).append(number)
                ends.setdefault(span.last, []).append(number)
    running: tuple[int, ...] = ()
    found = [running]
    for at in range(count):
        if at in starts or at in ends:
            running = tuple(sorted({*running, *starts.get(at, ())}.difference(ends.get(at, ()))))
        found.append(running)
    return found


def checkpoints_by_turn(records: Iterable[Point | PastOperation]) -> Iterator[frozenset[str]]:
    """For each turn, the ids of the checkpoints that it needs to be understood. They are kept or forgotten together.

    These are its before and its last end. A turn without an end also needs its newest checkpoint, which shows where it
    stopped. Restores while it ran belong to it. A waiting prompt that cut short a turn belongs to that turn.
    """
    points = [record for record in records if isinstance(record, Point)]
    for turn in find_boundaries(points, ()).turns:
        found = {at for span in turn.spans for at in span if at < len(points)}
        found |= {turn.opened, *turn.inside[-1:]} if turn.mixed else {turn.opened}
        own_ends = (at for at in turn.inside if points[at].trigger == "turn_end" and not points[at].of_subagent)
        found |= set(sorted(own_ends)[-1:])  # without it the end of a subagent is no end
        if any(points[at].subagent for at in turn.inside):  # without one of these, work is another one's
            found |= {at for at in turn.inside if points[at].subagent or points[at].trigger == "turn_end"}
        for span in turn.spans:
            inner = range(span.first + 1, min(span.last, len(points)))
            found |= {at for at in inner if points[at].trigger == checkpoints.SAFETY}
        yield frozenset(points[at].id for at in found)


def needs_no_older_record(point: Point) -> bool:
    """False for a record of an operation, of an earlier version, or of a task notification, which continues a turn."""
    if point.trigger == checkpoints.SAFETY:
        return False
    if point.trigger in (checkpoints.MANUAL, checkpoints.WATCH) or _only_closes(point):
        return True
    if point.trigger in _WITH_ENDS and point.tells_ends is None:
        return False
    if point.trigger == checkpoints.PROMPT:
        return bool(point.turn)
    if point.is_notification:
        return False
    return bool(point.turn) or not point.turn_id  # an id of the client's may be that of an older turn


def certain_from_position(points: Sequence[Point]) -> int:
    """The lowest position from which find_boundaries needs no older record. `points`: oldest first.
    len(points) = none. It does not know which sessions are alive: none may be that has records in front of it only.

    From there on, each session begins with a prompt that opens a turn. Each named turn and each parent is there, too.
    No record continues a turn that has ended, and none is of an operation.
    """
    found = len(points)
    unopened: set[Session] = set()  # sessions whose oldest record here belongs to an older turn
    named: set[str] = set()  # turns that records here name and that are not here yet
    parents: set[str] = set()
    for at in range(len(points) - 1, -1, -1):
        point = points[at]
        if not needs_no_older_record(point):
            break
        named.discard(point.id)
        parents.discard(point.id)
        is_hand = point.trigger in (checkpoints.MANUAL, checkpoints.WATCH)
        if point.turn == point.id and point.trigger == checkpoints.PROMPT:
            unopened.discard((point.agent, point.session))
        elif not _only_closes(point):
            if point.turn:
                named.add(point.turn)
            if not is_hand or (point.session and not point.turn):
                unopened.add((point.agent, point.session))
        if not unopened and not named and not parents:
            found = at
        if point.parent:
            parents.add(point.parent)
    return found


def certain_counts(points: Sequence[Point], opened: Sequence[str]) -> tuple[int, int]:
    """Returns (how many turns, how many saves by hand) of a part that certain_from_position has found are certainly right: the
    newest ones. So are all rows above the oldest of them. `opened`: the ids of what opened the turns of the part.
    """
    ends = (checkpoints.PROMPT, checkpoints.MANUAL, checkpoints.WATCH)  # a row outside of turns that began in front of the part ends there
    first = next((at for at in range(1, len(points)) if points[at].trigger in ends), len(points))
    later = points[first + 1 :]
    turns = {point.id for point in later}.intersection(opened)
    return len(turns), sum(point.trigger == checkpoints.MANUAL for point in later)


def _only_closes(point: Point) -> bool:
    """True for a record that at most leaves an older turn of its session without an end."""
    if point.trigger == checkpoints.SESSION_START:
        return point.has_turn_ids and not point.turn and not point.turn_id
    return point.trigger == "session_end"
