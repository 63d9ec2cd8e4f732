"""The commands that look after the store."""

import argparse
import os

from ... import agents, config, errors
from ...agents import diagnose
from ...ops import resting
from ...typed import Any
from ...workspace import site_of
from .. import places, shapes
from ..render import text
from ..render import upkeep as render
from . import OK, Done


def status(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind status."""
    found, seen = workspace.status(), resting.seen(site_of(workspace))
    for name in agents.NAMES:
        gone, old = diagnose.standing(agents.profile_of(name), workspace.root.path, places.home(), os.environ)
        found = found._replace(protected=found.protected and not gone, reasons=(*found.reasons, *gone, *old))
    done()
    if options.json:
        last = None
        if found.last is not None:
            last = shapes.checkpoint(found.last, workspace.marks(found.last), workspace.current())
        text.as_json(shapes.status(found, seen, workspace.root.path, workspace.store_path, options.budget, last))
    else:
        render.status(found, seen, workspace.root.path, workspace.store_path, options.budget)
    return OK


def gc(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind gc."""
    limits = options.limits
    if options.max_age is not None:  # who says it now means it: the newest ten are not spared for their age
        limits = limits._replace(max_age=config.parse_age(options.max_age, "--max-age"), keep_last=1)
    if options.max_count is not None:
        limits = limits._replace(max_count=config.parse_count(options.max_count, "--max-count"))
    if options.max_size is not None:
        limits = limits._replace(max_size=config.parse_size(options.max_size, "--max-size"))
    if options.auto:
        from .. import background

        background.run(workspace, limits)
        return OK
    found = workspace.gc(limits, dry_run=options.dry_run)
    done()
    if options.json:
        text.as_json(shapes.collected(found))
    elif not options.quiet:
        render.collected(found)
    for note in found.notes:
        text.remark(f"casrewind: note: {note}")
    if found.damaged:
        text.remark(f"casrewind: {len(found.damaged)} damaged packs were left alone: run casrewind verify --repair")
    return OK


def verify(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind verify."""
    found = workspace.repair() if options.repair else workspace.verify(quick=options.quick)
    done()
    return _verified(found, options)


def verify_unopened(error: errors.StoreDamaged, options: argparse.Namespace) -> int:
    """casrewind verify of a store that is too damaged to be opened."""
    from ...ops.verify import STORE, Problem, Verified

    return _verified(Verified((Problem(STORE, "FORMAT", str(error)),), 0, 0), options)


def _verified(found: Any, options: argparse.Namespace) -> int:
    if options.json:
        text.as_json(shapes.verified(found))
    else:
        render.verified(found, quick=options.quick)
    for note in found.notes:
        text.remark(f"casrewind: note: {note}")
    return errors.StoreDamaged.exit_code if found.problems else OK
