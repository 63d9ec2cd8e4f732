"""The commands for all of a user's stores, which need no workspace: stores, adopt."""

import argparse
import sys

from ... import config, errors, projects
from ...typed import Any
from .. import storeshapes
from ..render import stores as render
from ..render import text
from . import OK, REMARKS


def stores(settings: Any, options: argparse.Namespace) -> int:
    """casrewind stores."""
    if settings.store is not None:
        raise errors.UsageError("stores lists all of the data directory: leave --store out")
    if options.prune_missing is not None:
        return _prune(settings, options)
    if options.dry_run or options.yes:
        raise errors.UsageError("stores only lists: --dry-run and --yes go with --prune-missing AGE")
    found = projects.stores(settings)
    if options.json:
        text.as_json({"stores": [storeshapes.store(store) for store in found]})
    else:
        render.stores(found, settings.data)
    return OK


def _prune(settings: Any, options: argparse.Namespace) -> int:
    from ...ops.restore import Declined

    age = config.parse_age(options.prune_missing, "--prune-missing")
    confirm = None
    if not (options.yes or options.dry_run):
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise errors.UsageError("stores --prune-missing asks before it removes stores, and there is no terminal to ask on: say --yes")
        confirm = render.ask
    try:
        found = projects.prune_missing(age, settings, confirm, dry_run=options.dry_run)
    except Declined:
        text.say("nothing was removed")
        return OK
    if options.json:
        text.as_json(storeshapes.pruned(found))
    else:
        render.pruned(found)
    return REMARKS if any(item.fault for item in found.kept) else OK


def adopt(settings: Any, options: argparse.Namespace) -> int:
    """casrewind adopt."""
    found = projects.adopt(options.directory, options.old, settings)
    if options.json:
        text.as_json(storeshapes.adopted(found))
    else:
        render.adopted(found)
    return OK
