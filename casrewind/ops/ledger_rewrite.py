"""The common second half of every purge: store new blobs, rewrite the ledger, then delete what nothing references.

The danger prevented here: a purge deletes what a save has just published, or leaves checkpoints that reference deleted
data. The collected changes are valid only if nothing was published since; the exclusive lock makes that check safe.
Before the ledger is replaced, nothing has changed; after it, any process can finish. docs/internals/format.md derives
the order.
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
"""Stores a blob of a kind (see store/packs.py) and returns its digest; in a dry run it only returns the digest."""


class LedgerRewrite(NamedTuple):
    """The changes to the ledger. `points`: {checkpoint id: changed fields}; `plans`: {plan: its replacement}; `label`:
    maps a label to its new text. `gone`: digests that nothing may reference afterwards."""

    points: dict[str, dict[str, Any]]
    plans: dict[bytes, bytes]
    label: Callable[[str], str]
    gone: frozenset[bytes]


def refuse_open_restores(context: Context) -> None:
    """Raise JournalOpen if a restore of any worktree is unfinished: it needs its plan and its bytes unchanged."""
    for operation in context.store.journals.open():
        point = context.store.checkpoint(operation.safety)
        where = f" in {fsio.printable(point.root)}" if point is not None else ""
        raise errors.JournalOpen(
            f"a restore is unfinished{where}: finish it there with casrewind restore --continue, or take it back with "
            f"casrewind restore --abort; nothing was purged"
        )


def finish_interrupted(context: Context, maintenance: Maintenance) -> None:
    """Finish an interrupted purge. Raises StoreDamaged if that fails."""
    said = gc.finish_interrupted_purge(context, maintenance)
    if maintenance.unfinished_purge():
        raise errors.StoreDamaged(said[-1])


def carry_out(context: Context, maintenance: Maintenance, collect: Callable[[Put], LedgerRewrite]) -> None:
    """Apply what `collect` returns; `collect` runs again if something was published since. The caller must hold the
    maintenance lock. Raises StoreBusy, StoreFull, StoreDamaged, JournalOpen and what `collect` raises."""
    for _ in range(_TRIES):
        reach, seq, found = _prepare(context, maintenance, collect)
        with maintenance.exclusively():
            if done := maintenance.position() == seq:
                refuse_open_restores(context)
                _begin(context, maintenance, found)
        if done:
            break
    else:
        with maintenance.exclusively():  # block all saves: a stream of saves could delay the purge forever
            reach, seq, found = _prepare(context, maintenance, collect, held=True)
            _begin(context, maintenance, found)
    if damaged := gc.finish_purge(context, maintenance, reach, seq):
        raise errors.StoreDamaged(gc.UNSWEPT.format(len(damaged)))


def _prepare(
    context: Context, maintenance: Maintenance, collect: Callable[[Put], LedgerRewrite], *, held: bool = False
) -> tuple[Marker, int, LedgerRewrite]:
    """Returns (marks of what will be reachable, the sequence number they cover, the changes). Stores the new blobs."""
    seq = maintenance.position()
    refuse_open_restores(context)
    with context.store.session(held=held) as session:
        found = collect(session.put)
        context.store.add_blobs(session)
    return _mark(context, found), seq, found


def _mark(context: Context, found: LedgerRewrite) -> Marker:
    """Mark everything that is reachable after the rewrite."""
    reach = Marker(context.store.read_many, context.counter("marking"))
    points = [point._replace(**found.points.get(point.id, {})) for point, _ in context.store.checkpoints()]
    gc.add_points(reach, points, [found.plans.get(plan, plan) for plan in gc.step_plans(context)])
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
    """The path of a rule file. A rule file outside the worktree gets a fixed name."""
    return paths.join(rule.base, _RULE_FILES.get(rule.source, rule.source).encode("utf-8", "surrogateescape"))


def checkpoints_of(context: Context) -> list[Checkpoint]:
    """Every checkpoint of the store, newest first."""
    return [point for point, _ in context.store.checkpoints()]
