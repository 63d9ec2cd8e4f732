"""casrewind watch: a checkpoint after each burst of edits, for editors and agents without hooks."""

import signal
import sys
import time
from types import FrameType

from ... import errors
from ..._typing import TYPE_CHECKING
from ...config import parse_age
from ...hook import background_gc
from ...messages import plural, printable
from ...model import diff as diffs
from ...settings import from_environment
from ...upkeep.watch import ProjectWatch, WatchOptions
from ..grammar.options import JSON, Command, Option
from ..show import shapes
from ..show.text import signed_counts, skipped_lines
from ..terminal.lines import print_error, print_json, print_line, print_lines, remark
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...context import Context
    from ...model.checkpoint import Checkpoint
    from ...upkeep.save import Saved
    from ..grammar.command_line import ParsedOptions

USUAL = WatchOptions()
COMMAND = Command(
    examples=("casrewind watch", "casrewind watch --agent aider --settle 5s"),
    options=(
        Option(("--settle",), f"save after so long without an edit (default: {USUAL.settle:.0f}s)", "AGE"),
        Option(("--every",), f"look so often where the system tells of no edits (default: {USUAL.every:.0f}s)", "AGE"),
        Option(("--agent",), "who else edits here: lists name it beside you", "NAME", default=""),
        JSON._replace(help="print one JSON object for each save, that of casrewind save, and for each error"),
    ),
    more=(
        "Runs until you press Ctrl-C. It saves the files when they have been still for 2 seconds, and at the latest a minute after the "
        "first edit. While an agent with hooks works, it saves nothing: the hooks do."
    ),
    creates=True, tells_faults=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind watch."""
    settle = USUAL.settle if options.settle is None else parse_age(options.settle, "--settle")
    every = USUAL.every if options.every is None else parse_age(options.every, "--every")
    watch = ProjectWatch(context, WatchOptions(settle, every, options.agent or ""))
    settings, config = from_environment(store=options.store, force=options.force)
    teller = _BurstTeller(context, is_quiet=options.quiet, is_json=options.json)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        for found in watch.bursts():
            done()
            teller.tell(found, watch)
            if config.auto_gc and context.store.why_gc(context.limits.max_size):
                background_gc.start_gc(context.root.path, settings)
    except KeyboardInterrupt:
        done()
        rest = watch.save_rest()
        if rest is not None:
            teller.tell(rest, watch)
        teller.tell_end()
        return OK
    except errors.WorkspaceNotFound as error:
        print_error(error.problem, error.hint)
        teller.tell_end()
        return REMARKS
    except errors.StoreBusy as error:
        holder = error.problem.rpartition(": ")[2]
        raise errors.StoreBusy(f"casrewind watch already runs in this project: {holder}", "one is enough") from error
    return OK


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class _BurstTeller:
    """A line for each save."""

    def __init__(self, context: "Context", *, is_quiet: bool, is_json: bool) -> None:
        self._context, self._is_quiet, self._is_json, self._count, self._looking = context, is_quiet, is_json, 0, ""

    def tell(self, found: "Saved | errors.CasrewindError", watch: ProjectWatch) -> None:
        """Say what was saved, or why nothing could be. A pipe or a journal gets it at once, too."""
        self._print(found, watch)
        sys.stdout.flush()

    def _print(self, found: "Saved | errors.CasrewindError", watch: ProjectWatch) -> None:
        if isinstance(found, errors.CasrewindError):
            print_error(f"nothing was saved: {found.problem}", found.hint)
            if self._is_json:
                print_json({"error": {"code": found.exit_code, "message": found.problem, "hint": found.hint or None}})
            return
        self._count += found.created
        if watch.why_looking != self._looking:
            self._looking = watch.why_looking
            print_error(f"note: casrewind watch looks every {watch.every:g} s: {self._looking}")
        if self._is_json:
            print_json(shapes.saved(found, self._context.root.path))
        elif not self._is_quiet:
            print_line(self._line(found))
            print_lines(skipped_lines(found.faults))

    def _line(self, found: "Saved") -> str:
        point = found.checkpoint
        clock = time.strftime("%H:%M", time.localtime(point.created_ns // 1_000_000_000))
        if not found.created:
            return f"{clock} watching {printable(self._context.root.path)}; nothing changed since {point.id}"
        if not point.parent:
            return f"{clock} watching {printable(self._context.root.path)}; saved {plural(point.files, 'file')}"
        return f"{clock} {signed_counts(found.changes)}  {self._paths(point)}"

    def _paths(self, point: "Checkpoint") -> str:
        """The first path that a save changed, and how many more."""
        load = diffs.loader_with_damaged_trees_empty(self._context.store.load_tree)
        parent = self._context.store.checkpoint(point.parent)
        changes = diffs.counted_changes(diffs.diff(load, None if parent is None else parent.tree, point.tree))
        if not changes:
            return ""
        more = f" and {len(changes) - 1:,} more" if len(changes) > 1 else ""
        return printable(changes[0].path) + more

    def tell_end(self) -> None:
        """Say what the watch did, and how to go back."""
        if not self._is_quiet:
            remark(f"watched until {time.strftime('%H:%M')}: {plural(self._count, 'checkpoint')}; casrewind list shows them")
