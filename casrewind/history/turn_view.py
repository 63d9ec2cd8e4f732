"""The turns of one worktree, read from its store: rows, the turn that `@N` names, and the state that a reference names.

The danger prevented here: a list of a few turns compares thousands of checkpoints. The records alone decide the order
of all rows. Trees are compared only for the requested rows, and each pair only once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from .. import agents, errors
from .._typing import NamedTuple
from ..agents import client_process
from ..context import Context
from ..model import diff as diffs
from ..model import manifest, undo_history
from ..model.checkpoint import PROMPT, RUN, SAFETY, Checkpoint
from ..model.composed_changes import changes_beyond_plans
from ..model.diff import Change
from ..model.domain import Stop
from ..model.manifest import Entry, Loader, Tree
from ..model.turn_records import (
    NOT_SAVED,
    UNKNOWN_STEP,
    Difference,
    Forgotten,
    Interval,
    Outside,
    PastOperation,
    Reset,
    Row,
    SavedRow,
    State,
    Turn,
    row_name,
)
from ..model.turns import Outline
from ..store.agent_sessions import AgentSession
from ..store.catalog import Marked
from ..store.reading import TimelineTrees
from . import compare
from .checkpoint_names import AFTER, ReferencePlace, turn_of
from .compare import Comparison, ScannedWorktree
from .restorable import DomainComparer
from .turn_checkpoints import records_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model.directory_nodes import NodeList
    from .rename_detection import Rename

_PAIRS = 2000  # differences of trees and plans that are remembered
_LARGE = 1000  # changes of a difference that is not remembered


class Maker(NamedTuple):
    """The source of a change. `by`: "turn" (or parallel turns), "outside", or an operation's row name. Outside, `turns` has the turn
    whose background work it is."""

    by: str
    turns: tuple[Turn, ...]
    operation: PastOperation | None


class TurnView:
    """The turns of one worktree under one reading of the ledger. Numbers do not move while it is used."""

    def __init__(
        self,
        context: Context,
        seen: ScannedWorktree | None = None,
        everything: Sequence[tuple[Checkpoint, Marked]] | None = None,
        *,
        needs_operations: bool = True,
        has_operations: bool = True,
        place: ReferencePlace | None = None,
    ) -> None:
        """`seen`: the scanned worktree (history/compare.py), or None without a scan. `everything`: all checkpoints of the
        store, newest first, if the caller has read them. `place`: those of another machine, not of this worktree.
        Without `needs_operations`, a ledger that is too damaged to read them is no error: the view has no rows of
        operations then, and `is_damaged` is True. Without `has_operations`, none belongs to `everything`: it is a part
        of all that has no safety checkpoint (history/worktree_timeline.py), and the ledger is not read. Raises StoreDamaged.
        """
        self._context, self.tree = context, context.tree
        everything = context.store.checkpoints() if everything is None else everything
        worktree = context.root.key if place is None else place.worktree
        self.machine = "" if place is None else place.machine
        found = [pair for pair in everything if pair[0].worktree == worktree]
        self.points = {point.id: point for point, _ in found}
        self.marks = {point.id: marked for point, marked in found}
        self.is_damaged = False
        try:
            has_operations = has_operations and context.store.has_finished_restore(worktree)
            operations = _read_complete_operations(context, self.points) if has_operations else []
        except errors.StoreDamaged:
            if needs_operations:
                raise
            operations, self.is_damaged = [], True
        targets = {operation.target for operation in operations}
        pulled = [pair for pair in everything if pair[0].id in targets and pair[0].more.machine]
        self.named = {**self.points, **{point.id: point for point, _ in pulled}}
        """The checkpoints that a row may name: those of the view, and those of other machines that were restored here."""
        self.marks.update((point.id, marked) for point, marked in pulled)
        self._records = records_of(found, operations)
        live = [] if self.machine else _sessions_alive(context, found)
        self.live = frozenset((one.agent, one.session) for one in live)
        """The sessions (agent, id) of this worktree with a running client."""
        self._working = frozenset((one.agent, one.session) for one in live if not is_idle(one))
        self._build_outline(seen)

    def _build_outline(self, seen: ScannedWorktree | None) -> None:
        self._seen = seen
        self._outline = Outline(self._records, self._working, now=seen is not None)
        self._differ = _StoreDiffer(self._context, seen, [point.tree for point in self.points.values()])

    @property
    def seen(self) -> ScannedWorktree | None:
        """The scanned worktree, None before a scan."""
        return self._seen

    def scan_worktree(self) -> None:
        """Scan the worktree, so that the change of a turn without an end is known. The numbers stay what they are."""
        if self._seen is None and not self.machine:
            self._build_outline(compare.scan_worktree(self._context))

    def typed_number(self, turn: Turn) -> str:
        """A turn as a person types it: @3, @3.1, or sandbox-4:@3."""
        return f"{self.machine}:{turn.name}" if self.machine else turn.name

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, newest first, without their changes."""
        return self._outline.turns

    @cached_property
    def ends(self) -> frozenset[str | None]:
        """The checkpoints at which turns ended. After Esc, that is the safety checkpoint of the next restore."""
        return frozenset(turn.after for turn in self.turns)

    def rows(
        self, most: int | None = None, wanted: Callable[[Row], bool] | None = None, part: slice = slice(None)
    ) -> Iterator[Row]:
        """All rows, newest first, with their changes; down to `most` turns. `wanted`, `part`: see Outline.rows."""
        return self._outline.rows(self._differ, most, wanted, part)

    def intervals(self) -> Iterator[Interval]:
        """See Outline.intervals."""
        return self._outline.intervals(self._differ)

    def changes_since_newest(self) -> tuple[Change, ...]:
        """See Outline.changes_since_newest. Scans the worktree."""
        self.scan_worktree()
        return self._outline.changes_since_newest(self._differ)

    def count_down_to(self, turns: int, saves: int) -> int:
        """See Outline.count_down_to."""
        return self._outline.count_down_to(turns, saves)

    def with_changes(self, turn: Turn) -> Turn:
        """A turn with its changes."""
        return self._outline.with_its_changes(turn, self._differ)

    def with_changes_of_subagents(self, turn: Turn) -> Turn:
        """A turn whose subagents have their changes."""
        return turn._replace(subagents=tuple(self.with_changes(one) for one in turn.subagents))

    def with_marks(self, turn: Turn) -> Turn:
        """A turn with its marks. Of some turns only their changes tell whether they are taken back."""
        return self.with_changes(turn) if self._outline.may_be_taken_back(turn) else turn

    def with_changes_so_far(self, turn: Turn) -> Turn:
        """A turn with its changes; of one without an end, those that the newest checkpoint has."""
        return self._outline.with_its_changes(turn, self._differ, is_so_far=True)

    def find_renames(self, row: Turn | Outside | Reset) -> "tuple[Rename, ...]":
        """The renames among the changes of a row, as diff finds them. Contents are read only if files are gone and others came."""
        changes = row.changes or ()
        found = self.comparison_of_row(row)
        if found is None or not (any(change.new is None for change in changes) and any(change.old is None for change in changes)):
            return ()
        from .rename_detection import find_renames  # most lists need none

        return find_renames(found)

    def comparison_of_row(self, row: Row, scope: Sequence[bytes] = ()) -> Comparison | None:
        """What a filled row changed with both sides' bytes, limited to `scope`. None: it is not known."""
        if isinstance(row, SavedRow | Forgotten):
            return compare.comparison_of_changes(self._context, ())
        if row.changes is None:
            return None
        to_now = row.to_now if isinstance(row, Turn) else isinstance(row, Outside) and not row.checkpoint
        return compare.comparison_of_changes(self._context, row.changes, scope, to_now=to_now, unclear=row.unclear)

    def comparison(self, turn: Turn, scope: Sequence[bytes] = ()) -> Comparison:
        """A filled turn's change with both sides' bytes, limited to `scope`. Raises CheckpointNotFound if unknown."""
        for side, name in ((turn.before, "before"), (turn.after or turn.to_now, "after")):
            if not side:
                named = f"{name} {self.typed_number(turn)}"
                what = f"the state {named} was forgotten, so what it changed is not known{self._nearest_in_words(turn)}"
                raise errors.CheckpointNotFound(what)
        if turn.to_now and self.machine:
            raise self._not_here_error(turn)
        if turn.changes is None:
            raise errors.StoreDamaged(f"what {self.typed_number(turn)} changed cannot be read", "casrewind verify shows what is damaged")
        return compare.comparison_of_changes(self._context, turn.changes, scope, to_now=turn.to_now, unclear=turn.unclear)

    def origin_of(self, safety: str) -> str:
        """The safety checkpoint of the restore, revert or take that an undo or redo is about. "" = unknown. `safety`: its own."""
        return self._outline.reversed.get(safety, UNKNOWN_STEP).origin

    def newest_state(self) -> Callable[[bytes], Entry | None]:
        """Looks up a path in the newest state that is known: the newest checkpoint, with what was restored after it."""
        state = self._outline.newest_state()
        if state is None:
            return lambda _: None
        finder = manifest.Finder(self._context.store.load_tree, state.tree)
        after = {change.path: change.new for plan in state.plans for change in self._differ.plan(plan).changes or ()}
        return lambda path: after[path] if path in after else finder.find(path)

    def turn_of(self, identity: str) -> Turn | None:
        """The turn that a checkpoint belongs to."""
        return self._outline.turn_of(identity)

    def maker_of(self, first: str, last: str, path: bytes) -> Maker:
        """Who changed a path, or something below it, between two checkpoints of this worktree."""
        turns, operations = self._outline.possible_makers(first, last)
        for done in reversed(operations):
            changes = self._differ.plan(done.plan).changes or ()
            if any(not path or change.path == path or change.path.startswith(path + b"/") for change in changes):
                return Maker(row_name(done.op, self.points[done.safety].more.op), (), done)
        return Maker("turn", turns, None) if turns else Maker("outside", self._outline.background_turn(first, last), None)

    def find_turn(self, reference: str) -> Turn:
        """The turn that `N`, `@N` or the id of its before names; the subagent of `@N.1` or of such an id. Raises CheckpointNotFound."""
        named = turn_of(reference)
        if named is None:
            found = next((one for turn in self.turns for one in (turn, *turn.subagents) if one.id == reference), None)
            if found is None:
                raise errors.CheckpointNotFound(f"no turn {reference!r}", "casrewind list shows them")
            return found
        if not 1 <= named.number <= len(self.turns):
            raise self._no_turn_error(reference, named.number)
        turn = self.turns[named.number - 1]
        if named.subagent > len(turn.subagents):
            what = f"no subagent {reference!r}: {turn.name} has {len(turn.subagents)} whose start is known"
            raise errors.CheckpointNotFound(what, f"casrewind show {self.typed_number(turn)} shows the turn")
        return turn.subagents[named.subagent - 1] if named.subagent else turn

    def _no_turn_error(self, reference: str, number: int) -> errors.CheckpointNotFound:
        """The error for a number without a turn. A bare number once named a checkpoint, so it names that one."""
        if self.machine:
            what = f"no turn '{self.machine}:{reference}': {self.machine} has {len(self.turns)}"
            return errors.CheckpointNotFound(what, "casrewind list --remote shows them")
        counted = [identity for identity, point in self.points.items() if point.trigger != SAFETY]
        is_old_number = not reference.startswith("@") and 1 <= number <= len(counted)
        place = f"; counted from the newest, checkpoint {number} is {counted[number - 1]}" if is_old_number else ""
        if self.turns:
            what = f"no turn {reference!r}: this worktree has {len(self.turns)}{place}"
            return errors.CheckpointNotFound(what, "casrewind list shows them")
        hint = "give last, prev, a label or an id: casrewind list --all shows them"
        return errors.CheckpointNotFound(f"no turn {reference!r}: this worktree has none{place}", hint)

    def find_state(self, reference: str) -> tuple[Turn, Checkpoint | None]:
        """Returns (the turn, the checkpoint) of the state that `@N` (before that turn) or `after:@N` (behind it) names;
        `N` and `after:N` are the same.
        None instead of the checkpoint is the worktree as it is. Raises CheckpointNotFound."""
        is_after = reference.startswith(AFTER)
        turn = self.find_turn(reference.removeprefix(AFTER))
        what = f"the state {'after' if is_after else 'before'} {self.typed_number(turn)}"
        if is_after and turn.to_now:
            if self.machine:
                raise self._not_here_error(turn)
            return turn, None
        identity = turn.after if is_after else turn.before
        if identity is None:
            raise errors.CheckpointNotFound(f"{what} was forgotten{self._nearest_in_words(turn)}")
        point = self.points[identity]
        if not point.is_saved:
            raise errors.CheckpointNotFound(f"{what} was {NOT_SAVED}{self._nearest_in_words(turn)}")
        return turn, point

    def _not_here_error(self, turn: Turn) -> errors.CheckpointNotFound:
        what = f"the state after {self.typed_number(turn)} is not here: the turn had not ended there"
        return errors.CheckpointNotFound(what, "casrewind pull fetches what is new")

    def _nearest_in_words(self, turn: Turn) -> str:
        at = self.points[turn.id].seq
        found = (point for point in self.points.values() if point.seq < at and point.is_saved)
        older = max(found, key=lambda point: point.seq, default=None)
        return f"; the nearest older checkpoint is {older.id}" if older is not None else ""


def _read_complete_operations(context: Context, points: dict[str, Checkpoint]) -> list[undo_history.Operation]:
    """The operations that still have their safety checkpoint and their plan."""
    found = [operation for operation in context.store.operations() if operation.safety in points]
    there = context.store.lengths(list({operation.plan for operation in found}))
    return [operation for operation in found if operation.plan in there]


def _sessions_alive(context: Context, found: list[tuple[Checkpoint, Marked]]) -> list[AgentSession]:
    """The sessions and runs of a worktree with a live process. A session with an unknown process does not count."""
    mine = {point.session_key for point, _ in found if point.session_key[1]}
    alive = []
    for one in (*context.store.sessions.all(), *context.store.sessions.running_commands()):
        process = client_process.ClientProcess(one.pid, one.pid_start)
        if (one.agent, one.session) in mine and one.pid > 0 and client_process.is_alive_or_unknown(process):
            alive.append(one)
    return alive


def is_idle(seen: AgentSession) -> bool:
    """True if a live client certainly works on no turn. After Esc no client calls a hook. But a person who types
    `/casrewind` does that in an idle client, and some transcripts end with the interruption."""
    if seen.agent == RUN:
        return False
    trigger = agents.load_client(seen.agent).events.triggers.get(seen.event)
    if trigger == PROMPT and not seen.running:  # a prompt that began no turn is a command for casrewind
        return True
    return seen.running and agents.ends_interrupted(seen.agent, seen.transcript)


class _StoreDiffer:
    """Compares trees of the store, and plans. Unreadable parts are reported as damage, readable parts as changes."""

    def __init__(self, context: Context, seen: ScannedWorktree | None, roots: Sequence[bytes]) -> None:
        """`roots`: the trees of the timeline's checkpoints, newest first."""
        self._context, self._seen = context, seen
        load: Loader = context.store.load_tree if seen is None else seen.load
        self._trees = TimelineTrees(load, context.store.read_many, roots)
        self._comparer = DomainComparer(context.store.read if seen is None else seen.read)
        self._known: dict[tuple[State, State | None], Difference] = {}
        self._plans: dict[bytes, Difference] = {}

    def between(self, old: State, new: State | None) -> Difference:
        """What differs between a state and the tree of another one. None means the worktree as it was scanned."""
        key = (old, new)
        if key in self._known:
            return self._known[key]
        found = self._compare_states(old, new)
        self._empty_caches_if_too_large()
        if len(found.changes or ()) < _LARGE:
            self._known[key] = found
        return found

    def _empty_caches_if_too_large(self) -> None:
        """Forget what is known when it grows too large."""
        if len(self._known) + len(self._plans) >= _PAIRS:
            self._known.clear()
            self._plans.clear()

    def plan(self, plan: bytes) -> Difference:
        """What a plan changed."""
        if plan in self._plans:
            return self._plans[plan]
        try:
            actions = self._context.store.plan(plan)
            found = Difference(tuple(Change(one.path, one.before, one.after) for one in actions))
        except (errors.StoreDamaged, errors.UnsafePath):
            found = Difference(None, damaged=True)
        self._empty_caches_if_too_large()
        if len(found.changes or ()) < _LARGE:
            self._plans[plan] = found
        return found

    def stop(self, state: State | None) -> Stop | None:
        """The stop that was known when a state was captured, None if its domain is damaged. See Differ."""
        if state is None:
            return None if self._seen is None else self._seen.domain.stop
        with suppress(errors.StoreDamaged):
            return self._comparer.stop_of(state.domain)
        return None

    def _compare_states(self, old: State, new: State | None) -> Difference:
        damage: list[bytes] = []
        load = _note_damage_and_take_for_empty(self._trees, damage)
        tree = new.tree if new is not None else self._tree_of_worktree.tree
        try:
            for root in (old.tree, tree):
                self._trees(root)
            changes = tuple(diffs.diff(load, old.tree, tree))
        except (errors.StoreDamaged, errors.ManifestRefused):
            return Difference(None, damaged=True)
        plans = [self.plan(plan) for plan in old.plans]
        known = [plan.changes for plan in plans if plan.changes is not None]
        if len(known) != len(plans):
            return Difference(None, damaged=True)
        changes = changes_beyond_plans(changes, known) if known else changes
        planned = frozenset(change.path for plan in known for change in plan)
        if new is None:
            told = compare.judge_now(self._context, self._comparer, changes, old.domain, self._tree_of_worktree, planned)
        else:
            told = self._comparer.judge(changes, old.domain, new.domain, certain=planned, strict=old.is_safety or new.is_safety)
        return Difference(told.changes, bool(damage) or told.damaged, told.unclear)

    @property
    def _tree_of_worktree(self) -> ScannedWorktree:
        assert self._seen is not None
        return self._seen


def _note_damage_and_take_for_empty(load: Loader, damage: list[bytes]) -> Loader:
    """A loader for which a damaged directory is empty; its digest is put into `damage`."""

    def noted(digest: bytes) -> "Tree | NodeList":
        try:
            return load(digest)
        except (errors.BlobMissing, errors.BlobCorrupt):
            damage.append(digest)
            raise

    return diffs.loader_with_damaged_trees_empty(noted)
