"""casrewind status: how things stand."""

import os
from collections.abc import Sequence

from ... import agents, fsio
from ...agents import diagnose
from ...ops import resting
from ...ops.resting import Seen, Status
from ...typed import Any
from ...workspace import site_of
from .. import environment, json_output
from ..json_output import Shape, time_of
from ..output import age, as_json, plural, say, size, skipped
from . import OK, Done


def status(workspace: Any, options: Any, done: Done) -> int:
    """casrewind status."""
    found, seen = workspace.status(), resting.seen(site_of(workspace))
    for name in agents.NAMES:
        gone, old = diagnose.standing(agents.profile_of(name), workspace.root.path, environment.home(), os.environ)
        found = found._replace(protected=found.protected and not gone, reasons=(*found.reasons, *gone, *old))
    done()
    if options.json:
        last = None
        if found.last is not None:
            last = json_output.checkpoint(found.last, workspace.marks(found.last), workspace.current())
        as_json(_shape(found, seen, workspace.root.path, workspace.store_path, options.budget, last))
    else:
        _show(found, seen, workspace.root.path, workspace.store_path, options.budget)
    return OK


def _show(found: Status, seen: Sequence[Seen], root: str, store: str, budget: int) -> None:
    say("protected" if found.protected else "NOT PROTECTED")
    for reason in found.reasons:
        say(f"  ! {reason}")
    say(f"  root         {fsio.show(root)}")
    say(f"  store        {fsio.show(store)} ({size(found.store_bytes)} of {size(budget)})")
    steps = f"{plural(found.undo, 'restore')} to undo, {found.redo} to redo" if found.undo or found.redo else "no restore to undo"
    say(f"  checkpoints  {found.checkpoints}; {steps}")
    if found.last is not None:
        last = found.last
        label = f" {fsio.show(found.label)!r}" if found.label else ""
        say(f"  last         {last.id}{label}, {age(last.created_ns)}: {plural(last.files, 'file')}, {size(last.size)}")
    for item in seen:
        event = f"last event {fsio.show(item.event)}, {age(item.event_ns)}" if item.event else "no event known"
        point = f"; last checkpoint {item.checkpoint}, {age(item.checkpoint_ns)}" if item.checkpoint else ""
        say(f"  {fsio.show(item.agent):<11}  {'runs now; ' if item.running else ''}{event}{point}")
    if not seen:
        say("  agents       none was seen in this project; casrewind doctor says whether one is connected")
    if found.journal is not None:
        state = "is running" if found.running else "was interrupted"
        say(f"  unfinished   {found.journal.op} of {found.journal.target} {state}")
    skipped(found.skipped)


def _shape(found: Status, seen: Sequence[Seen], root: str, store: str, budget: int, last: Shape | None) -> Shape:
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


def _shape_of_agent(found: Seen) -> Shape:
    return {
        "session": found.session or None,
        "last_event": found.event or None,
        "last_event_at": time_of(found.event_ns) if found.event_ns else None,
        "running": found.running,
        "last_checkpoint": found.checkpoint or None,
        "last_checkpoint_at": time_of(found.checkpoint_ns) if found.checkpoint_ns else None,
    }
