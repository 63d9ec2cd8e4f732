"""casrewind without a command, on a terminal: the picker."""

import argparse
import os

from ... import fsio
from ..._typing import Any
from .. import output
from ..output import print_line, remark, reporter
from ..picker import has_screen
from . import OK, REMARKS, Done


def pick(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """Choose a checkpoint and restore it, on a full screen or with a plain prompt."""
    if not has_screen():
        return _plain(workspace, options, done)
    try:
        from ..picker import app
    except ImportError as error:  # installed without its dependencies
        remark(f"casrewind: note: no full screen ({error}): a plain prompt instead")
        return _plain(workspace, options, done)
    code, outcome, incomplete = app.run(workspace, options.relay, fsio.printable(os.path.basename(workspace.root.path)))
    for line in outcome:
        print_line(line)
    if code == output.INTERRUPTED:
        if workspace.is_interrupted():
            output.half_done()
        return output.interrupted()
    return code or (REMARKS if incomplete else OK)


def _plain(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    from ..picker import plain

    shown = reporter(quiet=options.quiet)
    if shown is not None:
        options.relay.listener, options.relay.done = shown, shown.close
    return plain.run(workspace, options, done)
