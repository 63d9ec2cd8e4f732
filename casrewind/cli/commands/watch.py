"""casrewind watch: be the resident helper of a project, until nobody has need of it."""

import argparse
import os
import sys

from ... import config, errors
from ...settings import Settings, find_root
from ...store.log import Log
from .. import failures
from . import OK


def watch(settings: Settings, options: argparse.Namespace) -> int:
    """casrewind watch; with --auto, as a hook starts it, what goes wrong is written into the log."""
    if not options.auto:
        return _watch(settings, options, quiet=options.quiet)
    try:
        return _listen(settings, options) if options.listener else _watch(settings, options, quiet=True)
    except Exception as error:
        if not _is_another(error, options):
            os.makedirs(settings.data, mode=0o700, exist_ok=True)
            who = "the listener for posted hooks" if options.listener else f"the helper (casrewind watch) of {options.directory}"
            Log(settings.data).add(f"{who}: {error}")
        return OK


def _is_another(error: Exception, options: argparse.Namespace) -> bool:
    if options.listener:
        from .. import listener

        return isinstance(error, listener.Already)
    from .. import helper

    return isinstance(error, helper.Already)


def _listen(settings: Settings, options: argparse.Namespace) -> int:
    """Be the listener, told on standard input of a session."""
    from .. import listener

    said = b""
    if not os.isatty(0):
        with open(0, "rb", closefd=False) as given:
            said = given.read()
    os.makedirs(settings.data, mode=0o700, exist_ok=True)
    listener.listen(config.parse_age(options.idle, "--idle"), said)
    return OK


def _watch(settings: Settings, options: argparse.Namespace, *, quiet: bool) -> int:
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
        if not quiet:
            lack = f", but not its files: {found.unwatched}" if found.unwatched else ""
            failures.say_error(f"watching for the hooks of {found.root.path}{lack}")
        why = found.serve()
        if not quiet:
            failures.say_error(f"ended: {why}")
    finally:
        found.close()
    return OK
