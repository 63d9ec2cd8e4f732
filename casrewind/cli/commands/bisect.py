"""casrewind bisect."""

import os
import subprocess
import sys
from functools import partial

from ... import errors, locations
from ..._typing import TYPE_CHECKING
from ...change import bisect as bisects
from ...history import compare, lookup
from ...history.turn_view import TurnView
from ...messages import age_in_words, printable
from ...worktree import root as roots
from ..grammar.options import JSON, Command, Option
from ..show import bisected
from ..show.restored import turn_name
from ..show.rows import RowWriter
from ..terminal.lines import print_json, print_lines, remark
from ..terminal.table import terminal_width
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...change.bisect import FirstBad, NextRun
    from ...context import Context
    from ...model.bisection import Candidate
    from ...model.checkpoint import Checkpoint
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind bisect -- make test", "casrewind bisect --good @9 --with .venv -- .venv/bin/pytest -q"),
    options=(
        Option(("--good",), "a state in which COMMAND succeeds (default: the oldest)", "REF"),
        Option(("--bad",), "a later state in which COMMAND fails (default: the files now, which bisect saves)", "REF"),
        Option(
            ("--with",),
            "link PATH of the project into every state, for example node_modules; COMMAND can write to it; repeat for several",
            "PATH",
            "links",
            repeats=True,
        ),
        JSON,
        Option(("words",), "the command to run", "COMMAND ...", nargs="*"),
    ),
    usage=("[--good REF] [--bad REF] [--with PATH ...] [--json] [--] COMMAND ...",),
    more=(
        "Runs COMMAND on one saved state after another in a temporary directory, and does not touch the project. COMMAND must exit with 0 "
        "if a state is good, with 1 to 124 if it is bad, or with 125 to skip it. An exit code of 126 or more ends the search. New files "
        "that COMMAND makes stay there for its next run."
    ),
    behind="the command goes",
    takes_rest=True, saves=True,
)

_STOPPING = 5.0
"""Seconds that an interrupted command has to end."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind bisect."""
    arguments = [*options.words, *(["--"] if options.words and options.dashed else []), *options.rest]
    if not arguments:
        raise errors.UsageError("bisect: missing COMMAND", "casrewind bisect -- make test, for example")
    good, bad = (None if word is None else lookup.checkpoint(context, word) for word in (options.good, options.bad))
    links = roots.paths_below_root(context.root.path, options.links, options.directory)
    teller = _Teller(context, done, is_bad_now=bad is None, is_quiet=options.quiet)
    below = os.path.relpath(locations.real_path(options.directory), context.root.path)
    run = partial(_run_in_directory, arguments, below, teller, is_output_apart=options.json)
    found = bisects.bisect(context, good, bad, links, run, teller.tell_next_run)
    done()
    _print_first_bad(context, options, found)
    return OK if len(found.suspects) == 1 else REMARKS


class _Teller:
    """Says on standard error which state the command runs in, and what came of it: standard output has the result."""

    def __init__(self, context: "Context", done: Done, *, is_bad_now: bool, is_quiet: bool) -> None:
        self._context, self._done, self._is_bad_now, self._is_quiet = context, done, is_bad_now, is_quiet
        self._view: TurnView | None = None

    def tell_next_run(self, step: "NextRun") -> None:
        """Name the state of the next run."""
        self._done()
        if self._is_quiet:
            return
        if self._view is None:
            self._view = TurnView(self._context)
        name = f"the files now ({step.point.id})" if step.name == "bad" and self._is_bad_now else self._name_of(step.point)
        end = f", the {step.name} end" if step.name else ""
        left = f"about {step.most_left} more" if step.most_left else "the last one"
        remark(f"run {step.number}, {left}{end}: {name}")
        if step.purged:
            remark(f"  without purged files: {', '.join(map(printable, step.purged))}")

    def _name_of(self, point: "Checkpoint") -> str:
        assert self._view is not None
        return bisected.state_name(self._view, point)

    def tell_result(self, code: int) -> None:
        """Say what the state is."""
        if not self._is_quiet:
            what = "good" if code == 0 else "skipped" if code == bisects.SKIP else "bad" if code < bisects.FIRST_STOP else "stopped"
            remark(f"  {what}{f' (exit code {code})' if code else ''}")


def _run_in_directory(arguments: "Sequence[str]", below: str, teller: _Teller, directory: str, *, is_output_apart: bool) -> int:
    """Run the command in the directory of a state. Raises BisectError if it cannot be run."""
    place = os.path.normpath(os.path.join(directory, below))
    try:
        os.makedirs(place, exist_ok=True)
        child = subprocess.Popen(
            arguments, cwd=place, env={**os.environ, "PWD": place}, stdout=sys.stderr.fileno() if is_output_apart else None
        )
    except OSError as error:
        raise _not_run_error(arguments[0], error) from error
    try:
        code = child.wait()
    except BaseException:  # an interrupt: the directory goes, and what runs in it goes first
        child.terminate()
        try:
            child.wait(_STOPPING)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    code = 128 - code if code < 0 else code
    teller.tell_result(code)
    return code


def _not_run_error(program: str, error: OSError) -> errors.BisectError:
    shown = printable(program)
    hint = ""
    if os.path.dirname(program) and not os.path.isabs(program):
        hint = f"bisect runs the command in a copy of the state, where it may be missing: --with {shown} links the project's"
    return errors.BisectError(f"cannot run {shown}: {error.strerror}", hint)


def _print_first_bad(context: "Context", options: "ParsedOptions", found: "FirstBad") -> None:
    view = TurnView(context)
    changes = _suspect_changes(view, found.good, found.suspects)
    if options.json:
        print_json(bisected.bisect_json(found, changes))
        return
    only = changes[0] if len(found.suspects) == 1 else None
    compared = None if only is None else compare.compare(context, only.old, only.new)
    print_lines(bisected.bisect_lines(found, changes, compared, terminal_width()))


def _suspect_changes(view: TurnView, good: "Candidate", suspects: "Sequence[Candidate]") -> list[bisected.SuspectChange]:
    """The steps that may be the first bad one, oldest first."""
    states = [good, *suspects]
    return [_suspect_change(view, old.last, new.first) for old, new in zip(states, suspects, strict=False)]


def _suspect_change(view: TurnView, old: "Checkpoint", new: "Checkpoint") -> bisected.SuspectChange:
    maker = view.maker_of(old.id, new.id, b"")
    if len(maker.turns) == 1 and maker.by == "turn":
        turn = view.with_changes(maker.turns[0])
        return bisected.SuspectChange(old, new, turn_name(turn), maker.by, (turn,))
    return bisected.SuspectChange(old, new, f"{RowWriter(view).made_by(maker)} ({age_in_words(new.created_ns)})", maker.by, maker.turns)
