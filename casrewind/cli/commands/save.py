"""casrewind save."""

import os
from contextlib import suppress

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history.present_scan import read_stat_index
from ...messages import age_in_words, plural
from ...upkeep.save import save_by_hand
from ..grammar.options import JSON, MESSAGE, Command, Option, flag
from ..terminal.lines import print_json, print_line, print_lines, remark
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...context import Context
    from ...model.domain import Skip
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind save", "casrewind save -m 'before the clean-up'"),
    options=(
        Option(("text",), "the same as -m MESSAGE", "MESSAGE", nargs="?"),
        MESSAGE,
        flag("--pin", "never delete this checkpoint"),
        flag("--rehash", "read every file, even if its timestamp is unchanged"),
        JSON,
    ),
    usage=("[-m MESSAGE] [--pin] [--rehash] [--json] [MESSAGE]",),
    stray="a label of several words needs quotes: casrewind save -m 'before the clean-up'",
    creates=True, saves=True, tells_faults=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind save."""
    message = str(options.message) if options.text is None else _label_from_words(options)
    report = save_by_hand(context, message, pin=options.pin, rehash=options.rehash)
    done()
    if options.json:
        from ..show import shapes

        print_json(shapes.saved(report, context.root.path))
    elif not options.quiet:
        point = report.checkpoint
        if report.created:
            from ..show.text import human_size, signed_counts

            print_line(
                f"saved {point.id}: {plural(point.files, 'file')}, {human_size(point.size)} ({signed_counts(report.changes)}) "
                f"in {report.elapsed_ms / 1000:.2f} s"
            )
        else:
            print_line(f"nothing changed since {point.id}, saved {age_in_words(point.created_ns)}")
        if point.files == 0:
            remark(f"WARNING: nothing was captured: no file here, or all are ignored ({report.ignored} ignored entries)")
        _print_skipped(report.skipped)
        if report.created and not point.parent and report.ignored:
            from ...upkeep import unprotected
            from ...worktree.ignored import find_ignored
            from ..show.left_out import SEARCH_ENDED, unprotected_lines
            places: dict[bytes, int] = {}
            with suppress(errors.CasrewindError):  # the checkpoint is made, whatever happens here
                places = read_stat_index(context).directories_with_ignored()
            found = find_ignored(context.tree, context.policy, places or None, with_recreatable=False)
            unprotected.record_named(context, found.entries)
            print_lines([*unprotected_lines(found), *([] if found.is_complete else [SEARCH_ENDED])])
    return REMARKS if report.faults else OK


def _print_skipped(skipped: "Sequence[Skip]") -> None:
    """Name paths that were not captured. A save without them imports less."""
    if skipped:
        from ..show.text import skipped_lines

        print_lines(skipped_lines(skipped))


def _label_from_words(options: "ParsedOptions") -> str:
    """The label that is given as a word. Raises UsageError for two labels, and for a word that is a path."""
    text = options.text or ""
    if options.message:
        raise errors.UsageError(f"save: two labels, {options.message!r} and {text!r}")
    if not text.strip() or os.path.lexists(os.path.join(options.directory, text)):
        raise errors.UsageError(f"save: {text!r} is not a label: save covers the whole project", "a label is given with -m MESSAGE")
    return text
