"""casrewind gc."""

import os
from collections.abc import Sequence

from ... import agents, config, errors, fsio
from ..._typing import Any
from ...agents import diagnose
from ...ops import status as statuses
from ...ops.gc import Collected
from ...ops.status import AgentSeen, Status
from ...ops.verify import STORE, Problem, Verified
from ...workspace import context_of
from ...worktree.ignored import find_ignored
from .. import environment, json_output
from ..json_output import Shape, time_of
from ..output import age, as_json, note, plural, print_line, remark, size, skipped
from . import OK, Done
from .include import unprotected


def gc(workspace: Any, options: Any, done: Done) -> int:
    """casrewind gc."""
    limits = options.limits
    if options.max_age is not None:  # who says it now means it: the newest ten are not spared for their age
        limits = limits._replace(max_age=config.parse_age(options.max_age, "--max-age"), keep_last=1)
    if options.max_count is not None:
        limits = limits._replace(max_count=config.parse_count(options.max_count, "--max-count"))
    if options.max_size is not None:
        limits = limits._replace(max_size=config.parse_size(options.max_size, "--max-size"))
    if options.auto:
        from ..hook import background_gc

        background_gc.run(workspace, limits)
        return OK
    found = workspace.gc(limits, dry_run=options.dry_run)
    done()
    if options.json:
        as_json(_collected_json(found))
    elif not options.quiet:
        _print_collected(found)
    for line in found.notes:
        note(line)
    if found.damaged:
        remark(f"casrewind: {len(found.damaged)} damaged packs were left alone: run casrewind verify --repair")
    return OK


def _print_collected(found: Collected) -> None:
    freed = f"{size(max(found.bytes_before - found.bytes_after, 0))} of {size(found.bytes_before)}"
    dropped = plural(len(found.dropped), "checkpoint")
    if not found.dropped:
        print_line(f"no checkpoint to forget, {found.kept:,} kept; {'would free about' if found.dry_run else 'freed'} {freed}")
    elif found.dry_run:
        print_line(f"would forget {dropped} and keep {found.kept:,}; would free about {freed}")
    else:
        print_line(f"forgot {dropped} and kept {found.kept:,}; freed {freed}")
    if not found.dry_run:
        return
    for item in found.dropped:
        point = item.checkpoint
        what = point.label or point.prompt or point.trigger.replace("_", " ")
        print_line(f"  {point.id}  {age(point.created_ns):>12}  {item.reason}  {fsio.printable(what)}")


def _collected_json(found: Collected) -> dict[str, Any]:
    return {
        "kept": found.kept,
        "dropped": len(found.dropped),
        "bytes_before": found.bytes_before,
        "bytes_after": found.bytes_after,
        "dry_run": found.dry_run,
        "checkpoints": [{"id": item.checkpoint.id, "reason": item.reason} for item in found.dropped],
    }


def verify(workspace: Any, options: Any, done: Done) -> int:
    """casrewind verify."""
    found = workspace.repair() if options.repair else workspace.verify(quick=options.quick)
    done()
    return _report_verified(found, options)


def verify_unopened(error: errors.StoreDamaged, options: Any) -> int:
    """casrewind verify of a store that is too damaged to be opened."""
    return _report_verified(Verified((Problem(STORE, "FORMAT", str(error)),), 0, 0), options)


def _report_verified(found: Verified, options: Any) -> int:
    if options.json:
        as_json(_verified_json(found))
    else:
        _print_verified(found, quick=options.quick)
    for line in found.notes:
        note(line)
    return errors.StoreDamaged.exit_code if found.problems else OK


def _print_verified(found: Verified, *, quick: bool) -> None:
    for line in found.repaired:
        print_line(f"repaired: {fsio.printable(line)}")
    if not found.problems:
        how = "found in place" if quick else "read and checked"
        print_line(f"sound: {plural(found.checkpoints, 'checkpoint')}, {plural(found.blobs, 'blob')} {how}")
        return
    print_line(f"DAMAGED: {plural(len(found.problems), 'problem')} in {plural(found.checkpoints, 'checkpoint')}")
    for problem in found.problems:
        print_line(f"  {problem.kind} {problem.id[:16]}: {fsio.printable(problem.detail)}")
    if any(problem.affects for problem in found.problems):
        print_line("  --json names every checkpoint and path that is affected")
    print_line("  what is not named here can still be restored: casrewind restore REF --skip-damaged, or restore REF -- PATH")
    if not found.repaired:
        print_line("  casrewind verify --repair mends what can be mended")
    print_line("  casrewind save stores again what the project still holds, and so mends older checkpoints that miss it")


def _verified_json(found: Verified) -> json_output.Shape:
    return {
        "ok": not found.problems,
        "problems": [
            {
                "kind": problem.kind,
                "id": problem.id,
                "detail": problem.detail,
                "affects": [{"checkpoint": place.checkpoint, **json_output.path(place.path)} for place in problem.affects],
            }
            for problem in found.problems
        ],
        "blobs": found.blobs,
        "checkpoints": found.checkpoints,
        "repaired": list(found.repaired),
    }


def status(workspace: Any, options: Any, done: Done) -> int:
    """casrewind status."""
    context = context_of(workspace)
    found, seen = workspace.status(), statuses.seen(context)
    ignored, complete = find_ignored(context.tree, context.options)
    for name in agents.NAMES:
        gone, old = diagnose.standing(agents.profile_of(name), workspace.root.path, environment.home(), os.environ)
        found = found._replace(protected=found.protected and not gone, reasons=(*found.reasons, *gone, *old))
    done()
    if options.json:
        last = None
        if found.last is not None:
            last = json_output.checkpoint(found.last, workspace.marks(found.last), workspace.current())
        shape = _status_json(found, seen, workspace.root.path, workspace.store_path, options.budget, last)
        left_out = [{"path": fsio.printable(each.path), "bytes": each.size, "directory": each.is_dir} for each in ignored]
        as_json({**shape, "ignored": left_out, "ignored_complete": complete})
    else:
        _print_status(found, seen, workspace.root.path, workspace.store_path, options.budget)
        for line in unprotected(ignored, complete=complete):
            print_line(f"  {line}")
    return OK


def _print_status(found: Status, seen: Sequence[AgentSeen], root: str, store: str, budget: int) -> None:
    if found.protected and found.last is not None:
        print_line(f"protected by the checkpoint made {age(found.last.created_ns)}")
    else:
        print_line("NOT PROTECTED")
    for reason in found.reasons:
        print_line(f"  ! {reason}")
    print_line(f"  root         {fsio.printable(root)}")
    print_line(f"  store        {fsio.printable(store)} ({size(found.store_bytes)} of {size(budget)})")
    steps = f"{plural(found.undo, 'restore')} to undo, {found.redo} to redo" if found.undo or found.redo else "no restore to undo"
    print_line(f"  checkpoints  {found.checkpoints}; {steps}")
    if found.last is not None:
        last = found.last
        label = f" {fsio.printable(found.label)!r}" if found.label else ""
        print_line(f"  last         {last.id}{label}, {age(last.created_ns)}: {plural(last.files, 'file')}, {size(last.size)}")
    for item in seen:
        event = f"last event {fsio.printable(item.event)}, {age(item.event_ns)}" if item.event else "no event known"
        point = f"; last checkpoint {item.checkpoint}, {age(item.checkpoint_ns)}" if item.checkpoint else ""
        print_line(f"  {fsio.printable(item.agent):<11}  {'runs now; ' if item.running else ''}{event}{point}")
    if not seen:
        print_line("  agents       no agent activity yet; casrewind doctor checks the hooks")
    if found.journal is not None:
        state = "is running" if found.running else "was interrupted"
        print_line(f"  unfinished   {found.journal.op} of {found.journal.target} {state}")
    skipped(found.skipped)


def _status_json(found: Status, seen: Sequence[AgentSeen], root: str, store: str, budget: int, last: Shape | None) -> Shape:
    journal = None
    if found.journal is not None:
        journal = {
            "op": found.journal.op,
            "target": found.journal.target,
            "safety": found.journal.safety,
            "started_at": time_of(found.journal.created_ns),
            "running": found.running,
        }
    return {
        "root": root,
        "store": store,
        "checkpoints": found.checkpoints,
        "last": last,
        "protected": found.protected,
        "reasons": list(found.reasons),
        "store_bytes": found.store_bytes,
        "budget_bytes": budget,
        "agents": {item.agent: _shape_of_agent(item) for item in seen},
        "journal": journal,
        "skipped": json_output.skips(found.skipped),
    }


def _shape_of_agent(found: AgentSeen) -> Shape:
    return {
        "session": found.session or None,
        "last_event": found.event or None,
        "last_event_at": time_of(found.event_ns) if found.event_ns else None,
        "running": found.running,
        "last_checkpoint": found.checkpoint or None,
        "last_checkpoint_at": time_of(found.checkpoint_ns) if found.checkpoint_ns else None,
    }
