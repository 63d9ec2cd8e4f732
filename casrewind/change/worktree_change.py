"""A change of the worktree: what it would do, as a value, and the way to do it. Restore, revert, take, undo and redo make one;
a rewind is one with a conversation.

The danger prevented here: a person reads a plan, says yes, and something else is done. Or that person thinks for an hour: until then
gc and other restores wait, and a log file that grows makes the plan outdated before the answer comes. So a plan is made without a
lock. A yes covers what was shown, path by path: under the lock, `carry_out` looks again and does what still holds. A path that
changed or appeared since is left alone and named.
"""

import time
from collections.abc import Callable, Sequence

from .._typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from ..context import Context
from ..errors import Declined
from ..messages import printable
from ..model import paths, undo_history
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.manifest import is_directory, same_for_restore
from ..model.plan import Action, Kept, Plan
from ..model.undo_history import Operation
from ..store import packs
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from . import preflight
from .execute import execute
from .result import Restored
from .safety_capture import CapturedState

if TYPE_CHECKING:
    from ..history.provenance import OtherSessions

Result_co = TypeVar("Result_co", covariant=True)
AGAIN = "again"
"""The answer of a person who asks for another plan."""
Look = Callable[[StoreWriter | DryRunWriter], tuple[Restored, CapturedState]]
"""Looks at the worktree. Returns (what would be done and kept, the present state), with new blobs in the given writer."""


class PlanMoved(Exception):
    """A person cannot agree to the plan that was shown: something happened since. The message says what. Nothing was changed."""


Confirm = Callable[[Plan], bool | str | Plan]
"""Returns True to go ahead with a plan, AGAIN for another one. May raise a CasrewindError.

One that asks nobody may return a plan that a person agreed to earlier. Then only what that plan has is done."""


class ChangeRecord(NamedTuple):
    """How a change is recorded. `target`: a checkpoint that must still be there. `is_recorded_if_empty`: also if nothing had to
    change. `finish`: what follows a change that was made, without a lock. `others`: the plan names what they may have changed."""

    operation: Operation
    target: Checkpoint | None = None
    is_recorded_if_empty: bool = False
    finish: Callable[[Restored], Restored] | None = None
    others: "OtherSessions | None" = None


class PlannedChange(Protocol[Result_co]):
    """What would be done, as a value, and the way to do it."""

    def plan(self) -> Result_co:
        """What would be done. Changes nothing."""

    def question(self) -> Plan | None:
        """Plan it. Returns what a person has to agree to; None if no file would change."""

    def carry_out(self, confirm: Confirm | None = None) -> Result_co:
        """Do what was planned and still holds; do all if nothing was planned. `confirm` must not wait for a person."""


class WorktreeChange:
    """What an operation would do to the worktree. Nothing is changed before `carry_out`, and nothing is locked."""

    def __init__(self, context: Context, look: Look, record: ChangeRecord) -> None:
        """Looks at nothing yet."""
        self._context, self._look, self._record = context, look, record
        self._shown: Restored | None = None
        self._steps = undo_history.NO_HISTORY

    def plan(self) -> Restored:
        """What would be done. A later `carry_out` is held against it. Publishes and changes nothing. Raises as `carry_out`."""
        context = self._context
        preflight.refuse_open_journal(context)
        self._steps = undo_history.steps_alone(context.store.history(context.root.key))
        report, now = self._look(DryRunWriter(context.store.read, context.store.read_many))
        report = self._with_risks(now, report)._replace(open_files=preflight.find_open_files(context, report.actions))
        preflight.check_and_add_parent_modes(context, now, report.actions)
        self._shown = report._replace(dry_run=True)
        return self._shown

    def question(self) -> Plan | None:
        """See PlannedChange."""
        shown = self.plan()
        return _plan_of(shown) if shown.actions else None

    def carry_out(self, confirm: Confirm | None = None) -> Restored:
        """Do what `plan` showed; do all if it was not called. `confirm` must not wait for a person. Raises Declined, PlanMoved (only
        after `plan`), DatabaseOpen, JournalOpen, StoreBusy and others; then nothing was changed."""
        done = self._carry_out_locked(confirm)
        return done if self._record.finish is None or not done.safety else self._record.finish(done)

    def _carry_out_locked(self, confirm: Confirm | None) -> Restored:
        context = self._context
        preflight.refuse_open_journal(context)  # under the lock, one that was interrupted looks like one that runs
        with context.store.hold_restore_lock(context.root.key), context.store.writing() as writer:
            preflight.refuse_open_journal(context)
            if self._record.target is not None:
                preflight.refuse_forgotten(context, self._record.target)
            if self._shown is not None and undo_history.steps_alone(context.store.history(context.root.key)) != self._steps:
                raise PlanMoved("another restore, undo or redo was made here since that plan was shown")
            report, now = self._look(writer)
            if self._shown is not None:
                report = as_shown(self._shown.actions, report)
            if not report.actions:
                return self._record_nothing(writer, report)
            return self._confirm_and_execute(writer, report, now, confirm)

    def _confirm_and_execute(self, writer: StoreWriter, report: Restored, now: CapturedState, confirm: Confirm | None) -> Restored:
        context, shown = self._context, self._shown
        report = self._with_risks(now, report)
        named = () if shown is None else shown.open_files
        if confirm is not None:
            named = preflight.find_open_files(context, report.actions)
            answer = confirm(_plan_of(report._replace(open_files=named)))
            if not answer:
                raise Declined
            if isinstance(answer, Plan):
                report = as_shown(answer.actions, report)
                if not report.actions:
                    return self._record_nothing(writer, report)
        report = report._replace(open_files=preflight.find_open_files(context, report.actions))
        opened = next((item for item in report.open_files if item.is_database and item not in named), None)
        if shown is not None and opened is not None:
            who = f"{printable(opened.program)} (pid {opened.pid})"
            raise PlanMoved(f"{who} opened {paths.lossy_text(opened.path)} since that plan was shown")
        preflight.refuse_open_databases(report.open_files, named)
        report = report._replace(actions=plans.with_times(report.actions, {item.path for item in report.merged}, time.time_ns()))
        actions = preflight.check_and_add_parent_modes(context, now, report.actions)
        return execute(context, writer, self._record.operation, report, now, actions)

    def _with_risks(self, now: CapturedState, report: Restored) -> Restored:
        """A report with the files that may be the only copies of ignored ones, and those that other sessions may have changed. What an
        undo removes came from a checkpoint."""
        if self._record.others is not None:
            report = report._replace(foreign=self._record.others.among(report.actions))
        removed = [action for action in report.actions if action.after is None]
        if not removed or report.op == undo_history.UNDO:
            return report
        from .only_copies import find_only_copies

        return report._replace(only_copies=find_only_copies(self._context, now, report.target, removed))

    def _record_nothing(self, writer: StoreWriter, report: Restored) -> Restored:
        """Nothing has to change."""
        if self._record.is_recorded_if_empty and not report.kept:  # else nothing was reversed, so the step remains
            empty = writer.put(packs.PLAN, plans.encode(()))
            self._context.store.add_blobs(writer)
            self._context.store.record_operation(self._record.operation._replace(plan=empty, created_ns=time.time_ns()))
        return report._replace(dry_run=False)


def ask_and_carry_out(
    prepare: Callable[[], PlannedChange[Result_co]], confirm: Confirm | None = None, *, asks: bool = True, dry_run: bool = False
) -> Result_co:
    """Prepare a change, ask `confirm`, and carry the change out. After PlanMoved and the answer AGAIN, prepare and ask again. Nothing is
    locked while a person is asked. Without `asks`, `confirm` is called under the lock, and asks nobody. `dry_run`: only plan it. Raises
    Declined, and as `WorktreeChange.carry_out`."""
    if dry_run:
        return prepare().plan()
    why_again = ""
    while True:
        change = prepare()
        if confirm is None or not asks:
            return change.carry_out(confirm)
        plan = change.question()
        answer = plan is None or confirm(plan._replace(why_again=why_again))
        if answer == AGAIN:
            continue
        if not answer:
            raise Declined
        try:
            return change.carry_out()
        except PlanMoved as moved:
            why_again = str(moved)


def as_shown(shown: Sequence[Action], report: Restored) -> Restored:
    """The report with those of its actions that were shown. The paths of the others are kept, as changed just now."""
    agreed, planned = plans.sort_and_pack(shown), plans.sort_and_pack(report.actions)
    if agreed == planned:
        return report
    moved = {each.path: each for each in planned if not _is_same_action(agreed.get(each.path), each)}
    for path in list(moved):  # what stays in a directory keeps it from becoming something else
        moved.update((above, found) for above in paths.parents(path) if (found := planned.get(above)) and _changes_kind(found))
    upset = [path for path, each in moved.items() if _changes_kind(each)]
    is_below = paths.PathScope(upset).covers if upset else moved.__contains__
    left = [
        Kept(each.path, _reason_now(agreed.get(each.path), each), benign=False)
        for each in planned
        if each.path in moved or is_below(each.path)
    ]
    plan = plans.keep_paths(Plan(planned, report.kept), left)
    is_left = {item.path for item in left}.__contains__
    return report._replace(actions=plan.actions, kept=plan.kept, merged=tuple(each for each in report.merged if not is_left(each.path)))


def _reason_now(agreed: Action | None, action: Action) -> str:
    """Why a path is left alone. One that no plan had, and that the target does not have, was not there."""
    was_there = agreed.before is not None if agreed is not None else action.after is not None
    return plans.APPEARED_NOW if action.before is not None and not was_there else plans.CHANGED_NOW


def _is_same_action(agreed: Action | None, action: Action) -> bool:
    if agreed is None or agreed.source != action.source:
        return False
    return same_for_restore(agreed.before, action.before) and same_for_restore(agreed.after, action.after)


def _changes_kind(action: Action) -> bool:
    """True if a path becomes a directory that was none, or something else that was one: what is below it depends on that."""
    return action.after is not None and is_directory(action.before) != is_directory(action.after)


def _plan_of(report: Restored) -> Plan:
    return Plan(
        report.actions, report.kept, report.merged, report.only_copies, report.open_files, report.read,
        foreign=report.foreign, turns=report.turns,
    )  # fmt: skip
