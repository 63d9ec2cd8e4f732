"""What every purge does once it knows what goes: new blobs, then the ledger anew, then all that nothing names any more.

The danger prevented here: a purge that takes what a save published a moment ago, or that leaves checkpoints which name what
is gone. What was collected counts only if nothing happened since, which is looked at with everybody else out; until the
ledger is replaced, nothing has happened, and after it, whoever comes next can finish. docs/format.md derives the order.
"""

import os
from collections.abc import Callable, Iterable

from .. import errors, fsio
from .._typing import Any, NamedTuple
from ..model import checkpoint as checkpoints
from ..model import domain as domains
from ..model import history as undo_history
from ..model import paths
from ..model.checkpoint import Checkpoint
from ..model.domain import RuleRef
from ..model.history import History
from ..store import ledger
from ..store.maintenance import Maintenance
from ..store.reachability import Marker
from . import gc
from .context import Context

_TRIES = 5
_MARKS = frozenset({ledger.PIN, ledger.UNPIN, ledger.LABEL})
_RULE_FILES = {
    "casrewindignore": ".casrewindignore", "gitignore": ".gitignore", "project": ".casrewind.toml",
    "exclude": os.fsdecode(domains.EXCLUDE_NAME), "global": os.fsdecode(domains.GLOBAL_NAME),
}  # fmt: skip

Put = Callable[[int, bytes], bytes]
"""Stores a blob of a kind (store/packs.py), or only says its digest, when nothing is to be done."""


class LedgerRewrite(NamedTuple):
    """What the ledger becomes: {checkpoint's id: its fields that change}, {plan: what takes its place}, what becomes of a
    label. `gone` are digests that nothing may have need of any more."""

    points: dict[str, dict[str, Any]]
    plans: dict[bytes, bytes]
    label: Callable[[str], str]
    gone: frozenset[bytes]


def refuse_open_restores(context: Context) -> None:
    """Raise JournalOpen when a restore of any worktree is unfinished: its plan and its bytes are needed as they are."""
    for operation in context.store.journals.open():
        point = context.store.checkpoint(operation.safety)
        where = f" in {fsio.printable(point.root)}" if point is not None else ""
        raise errors.JournalOpen(
            f"a restore is unfinished{where}: finish it there with casrewind restore --continue, or take it back with "
            f"casrewind restore --abort; nothing was purged"
        )


def finish_interrupted(context: Context, maintenance: Maintenance) -> None:
    """Finish a purge that was interrupted. Raises StoreDamaged when that cannot be done."""
    said = gc.finish_interrupted_purge(context, maintenance)
    if maintenance.unfinished_purge():
        raise errors.StoreDamaged(said[-1])


def step_plans(context: Context) -> list[bytes]:
    """The digests of the plans that undo and redo would need."""
    histories = context.store.histories().values()
    return list(dict.fromkeys(step.plan for history in histories for step in (*history.undo, *history.redo)))


def carry_out(context: Context, maintenance: Maintenance, collect: Callable[[Put], LedgerRewrite]) -> None:
    """Do what `collect` finds is to be done; it is asked again when something was published meanwhile. Only with other upkeep
    kept out. Raises StoreBusy, StoreFull, StoreDamaged, JournalOpen and what `collect` raises."""
    for _ in range(_TRIES):
        reach, seq, found = _prepare(context, maintenance, collect)
        with maintenance.exclusively():
            if done := maintenance.position() == seq:
                refuse_open_restores(context)
                _begin(context, maintenance, found)
        if done:
            break
    else:
        with maintenance.exclusively():  # everybody waits: else a stream of savers could put it off for ever
            reach, seq, found = _prepare(context, maintenance, collect, held=True)
            _begin(context, maintenance, found)
    if damaged := gc.finish_purge(context, maintenance, reach, seq):
        raise errors.StoreDamaged(gc.UNSWEPT.format(len(damaged)))


def _prepare(
    context: Context, maintenance: Maintenance, collect: Callable[[Put], LedgerRewrite], *, held: bool = False
) -> tuple[Marker, int, LedgerRewrite]:
    """(what will be reachable, up to which sequence number that was looked at, what the ledger becomes); its blobs are stored."""
    seq = maintenance.position()
    refuse_open_restores(context)
    with context.store.session(held=held) as session:
        found = collect(session.put)
        context.store.add_blobs(session)
    return _mark(context, found), seq, found


def _mark(context: Context, found: LedgerRewrite) -> Marker:
    """All that is reachable when the ledger is rewritten."""
    reach = Marker(context.store.read_many, context.counter("marking"))
    points = [point._replace(**found.points.get(point.id, {})) for point, _ in context.store.checkpoints()]
    gc.add_points(reach, points, [found.plans.get(plan, plan) for plan in step_plans(context)])
    gc.refuse_damage(reach)
    if needed := sum(1 for digest in found.gone if digest in reach.marked):
        raise errors.StoreError(f"nothing was purged: {needed} blobs of it are needed by what checkpoints rest on themselves")
    return reach


def _begin(context: Context, maintenance: Maintenance, found: LedgerRewrite) -> None:
    def convert(kind: int, seq: int, payload: bytes) -> bytes:
        if kind == ledger.CHECKPOINT:
            point = checkpoints.decode(seq, payload)
            return checkpoints.encode(point._replace(**found.points[point.id])) if point.id in found.points else payload
        if kind in ledger.OPERATIONS:
            operation = undo_history.decode_operation(payload)
            return undo_history.encode_operation(operation._replace(plan=found.plans.get(operation.plan, operation.plan)))
        if kind in _MARKS:
            mark = undo_history.decode_mark(payload)
            label = found.label(mark.label)
            return payload if label == mark.label else undo_history.encode_mark(mark._replace(label=label))
        return payload

    maintenance.begin_purge(convert, {key: _moved(history, found) for key, history in context.store.histories().items()})


def _moved(history: History, found: LedgerRewrite) -> History:
    def steps(old: Iterable[undo_history.Step]) -> tuple[undo_history.Step, ...]:
        return tuple(step._replace(plan=found.plans.get(step.plan, step.plan)) for step in old)

    return history._replace(undo=steps(history.undo), redo=steps(history.redo))


def rule_path(rule: RuleRef) -> bytes:
    """The path of a rule file, or what it is called where it lies outside of the worktree's files."""
    return paths.join(rule.base, _RULE_FILES.get(rule.source, rule.source).encode("utf-8", "surrogateescape"))


def checkpoints_of(context: Context) -> list[Checkpoint]:
    """Every checkpoint of the store, newest first."""
    return [point for point, _ in context.store.checkpoints()]
