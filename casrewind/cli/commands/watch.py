"""casrewind watch: be the resident helper of a project, until nobody has need of it."""

import argparse
import sys

from ... import config, errors
from ...settings import Settings, find_root
from .. import failures
from . import OK


def watch(settings: Settings, options: argparse.Namespace) -> int:
    """casrewind watch."""
    idle = config.parse_age(options.idle, "--idle")
    if settings.store is not None:
        raise errors.UsageError("watch helps hooks, and they use the project's own store: leave --store out")
    if not sys.platform.startswith("linux"):
        raise errors.WorkspaceError("the helper is for Linux only: here hooks do all of their work themselves")
    from .. import helper

    try:
        found = helper.Helper(find_root(options.directory, settings), settings, idle)
    except OSError as error:
        raise errors.WorkspaceError(f"nothing can be watched here: {error.strerror or error}") from error
    try:
        if not options.quiet:
            lack = f", but not its files: {found.unwatched}" if found.unwatched else ""
            failures.say_error(f"watching for the hooks of {found.root.path}{lack}")
        why = found.serve()
        if not options.quiet:
            failures.say_error(f"ended: {why}")
    finally:
        found.close()
    return OK
