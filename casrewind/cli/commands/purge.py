"""The command that removes what should never have been stored."""

import argparse
import os
import sys
from collections.abc import Callable

from ... import errors
from ...model import domain as domains
from ...model.secret import MOST
from ...typed import Any
from .. import shapes
from ..render import purge as render
from ..render import text
from . import OK, REMARKS, Done


def purge(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind purge."""
    from ...ops.restore import Declined

    if (options.path is None) == (options.text is None):
        raise errors.UsageError("purge needs to know what: a PATH, or a text on standard input with --text -")
    if options.glob and options.text is not None:
        raise errors.UsageError("purge --glob is for a PATH: a text is no pattern")
    if options.text not in (None, "-"):
        raise errors.UsageError("purge --text takes - alone: the text itself is read from standard input, so that it stands nowhere else")
    try:
        if options.text is None:
            return _path(workspace, options, done)
        return _text(workspace, options, done)
    except Declined:
        text.say("nothing was purged")
        return OK


def _path(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    confirm = _confirmation(options, done, lambda found: render.ask_path(found, whole=options.glob))
    given = os.fsencode(options.path)
    if given in (domains.EXCLUDE_NAME, domains.GLOBAL_NAME):  # names of rule files that lie elsewhere
        places: tuple[bytes, ...] = (given,)
    elif options.glob:  # a pattern is never guessed here: what goes is gone for good
        points = [point for point, _ in workspace.checkpoints(every_worktree=True)]
        places = workspace.paths([options.path], points, options.directory)
    else:
        places = workspace.scope([options.path], options.directory)
    found = workspace.purge(places, confirm, dry_run=options.dry_run)
    done()
    if options.json:
        text.as_json(shapes.purged(found))
    else:
        render.path(found)
    return OK


def _text(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    confirm = _confirmation(options, done, render.ask_text)
    found = workspace.purge_text(_read(done), confirm, dry_run=options.dry_run)
    done()
    if options.json:
        text.as_json(shapes.text_purged(found))
    else:
        render.words(found)
    return REMARKS if found.files or found.records else OK


def _read(done: Done) -> bytes:
    """The text, from standard input. On a terminal it is asked for, and not shown."""
    if not sys.stdin.isatty():
        return sys.stdin.buffer.read(MOST + 3)
    import getpass

    done()
    return getpass.getpass("Text to purge (it is not shown): ").encode("utf-8", "surrogateescape")


def _confirmation(options: argparse.Namespace, done: Done, ask: Callable[[Any], bool]) -> Callable[[Any], bool] | None:
    """What asks the person, None when nobody has to be asked. Raises UsageError where nobody can be."""
    if options.yes or options.dry_run:
        return None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise errors.UsageError("purge asks before it removes anything for good, and there is no terminal to ask on: say --yes")

    def confirm(found: Any) -> bool:
        done()
        return ask(found)

    return confirm
