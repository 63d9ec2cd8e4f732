"""casrewind without a command, on a terminal: the picker, or the first steps in a project without checkpoints."""

import argparse
import os
import sys

from ... import fsio
from ..._typing import Any
from .. import output
from ..output import drop_output, print_line, remark, reporter
from ..picker import has_screen
from ..questions import asked
from . import OK, REMARKS, Done

_FIRST_STEPS = """No checkpoints of this project yet.

  s   save one now                              casrewind save
  i   save before every prompt of Claude Code   casrewind install claude
  q   quit"""


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


def first_step() -> list[str]:
    """Offer the first steps in a project without checkpoints. Returns the words of the chosen command, or []."""
    print_line(_FIRST_STEPS)
    try:
        answer = asked("What now? [s/i/q] ").strip().lower()
    except (EOFError, OSError):  # the input ends, or the terminal is gone
        answer = ""
        try:
            print_line()
            sys.stdout.flush()
        except OSError:
            drop_output()
    if answer == "s":
        return ["save"]
    if answer == "i":
        return ["install", "claude"]
    return []
