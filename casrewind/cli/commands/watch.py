"""casrewind watch: run the resident helper of a project until it is idle."""

import sys

from ... import config, errors, fsio, locations
from ..._typing import TYPE_CHECKING
from ...settings import Settings, find_root
from ...store.failure_log import FailureLog
from ..terminal.lines import print_error
from . import OK

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions


def watch(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind watch. A hook starts it with --auto; then errors are written to the log."""
    if not options.auto:
        return _serve_until_idle(settings, options, quiet=options.quiet)
    try:
        return _serve_until_idle(settings, options, quiet=True)
    except Exception as error:
        from ...hook import helper

        if not isinstance(error, helper.HelperAlreadyRuns) and not locations.ownership_problem(settings.data):
            fsio.make_directories(settings.data)
            FailureLog(settings.data).append_line(f"the helper (casrewind watch) of {options.directory}: {error}")
        return OK


def _serve_until_idle(settings: Settings, options: "ParsedOptions", *, quiet: bool) -> int:
    idle = config.parse_age(options.idle, "--idle")
    if settings.store is not None:
        raise errors.UsageError("watch helps hooks, and they use the project's own store", "leave --store out")
    if not sys.platform.startswith("linux"):
        raise errors.WorkspaceError("the helper is for Linux only: here hooks do all of their work themselves")
    from ...hook import helper

    try:
        found = helper.Helper(find_root(options.directory, settings), settings, idle)
    except OSError as error:
        raise errors.WorkspaceError(f"nothing can be watched here: {error.strerror or error}") from error
    try:
        if not quiet:
            lack = f", but not its files: {found.unwatched}" if found.unwatched else ""
            print_error(f"watching for the hooks of {found.root.path}{lack}")
        why = found.serve()
        if not quiet:
            print_error(f"ended: {why}")
    finally:
        found.close()
    return OK
