"""casrewind save, run, pin, unpin and cat."""

import errno
import os
from contextlib import suppress

from ... import errors
from ..._typing import TYPE_CHECKING
from ...messages import age_in_words, plural
from ...model.checkpoint import RUN
from ...ops.save import Saved, read_stat_index, save_by_hand
from ..terminal.lines import print_error, print_json, print_line, print_lines, remark, write_bytes
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...model.domain import Skip
    from ...ops.context import Context
    from ...ops.pins import Marking
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape


def save(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind save."""
    message = str(options.message) if options.text is None else _label_from_words(options)
    report = save_by_hand(context, message, pin=options.pin, rehash=options.rehash)
    done()
    if options.json:
        print_json(_saved_json(report, context.root.path))
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
            from ...worktree.ignored import find_ignored
            from ..show.left_out import SEARCH_ENDED, unprotected_lines
            places: list[bytes] = []
            with suppress(errors.CasrewindError):  # the checkpoint is made, whatever happens here
                places = read_stat_index(context).directories_with_ignored()
            found = find_ignored(context.tree, context.policy, places or None, with_recreatable=False)
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


def _saved_json(report: Saved, root: str) -> "Shape":
    from ..show import shapes

    point = report.checkpoint
    return {
        "checkpoint": point.id,
        "created": report.created,
        "root": root,
        "files": point.files,
        "bytes": point.size,
        "changes": dict(report.changes._asdict()),
        "skipped": shapes.skips(report.skipped),
        "elapsed_ms": report.elapsed_ms,
    }


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind run."""
    import signal
    import subprocess

    from ...ops.run import CommandTurn

    arguments = [*options.words, *(["--"] if options.words and options.dashed else []), *options.rest]
    if not arguments:
        raise errors.UsageError("run: missing COMMAND", "casrewind run -- make test, for example")
    turn = CommandTurn(context, arguments, options.message or "")
    before = turn.save_before()
    done()
    if not options.quiet:
        remark(f"saved {before.checkpoint.id} before the command")
    _print_skipped(before.faults)
    # the child handles an interrupt from the terminal; this process still has to make the second checkpoint
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.Popen(arguments).wait()
    except OSError as error:
        is_missing = not _program_exists(arguments[0])
        print_error(f"cannot run {arguments[0]}: {os.strerror(errno.ENOENT) if is_missing else error.strerror}")
        return 127 if is_missing else 126
    finally:
        signal.signal(signal.SIGINT, handler)
        after = turn.save_after()
        done()
        if not options.quiet:
            _print_run(before, after)
        _print_skipped(after.faults)
    return 128 - code if code < 0 else code


def _program_exists(program: str) -> bool:
    """Whether there is such a program. A directory of PATH that may not be searched has none, as a shell sees it."""
    places = ("",) if "/" in program else os.get_exec_path()
    return any(os.path.lexists(os.path.join(place, program)) for place in places)


def _print_run(before: Saved, after: Saved) -> None:
    """Print the result of `run` to standard error: standard output belongs to the command."""
    counts = after.checkpoint.changes
    if counts == (0, 0, 0):
        remark(f"saved {after.checkpoint.id} after the command: nothing changed")
        return
    from ..show.text import counts_in_words

    remark(f"saved {after.checkpoint.id} after the command: {counts_in_words(counts)}")
    verb = "revert" if before.checkpoint.agent == RUN else "restore"  # in an agent's shell it is no turn of its own
    remark(f"  casrewind {verb} {before.checkpoint.id} takes it back")


def pin(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind pin."""
    from ...ops import lookup, pins

    return _print_marking(context, options, pins.pin(context, lookup.checkpoint(context, options.ref or ""), options.label), done)


def unpin(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind unpin."""
    from ...ops import lookup, pins

    return _print_marking(context, options, pins.unpin(context, lookup.checkpoint(context, options.ref or "")), done)


def _print_marking(context: "Context", options: "ParsedOptions", report: "Marking", done: Done) -> int:
    done()
    if options.json:
        from ...ops import lookup
        from ..show import shapes

        print_json({"checkpoint": shapes.checkpoint(report.checkpoint, report.marked, lookup.current_id(context))})
    else:
        from ..show.pinned import marking_lines

        print_lines(marking_lines(report))
    return OK


def cat(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind cat."""
    from ...ops import lookup, path_history
    from ...worktree import root as roots

    point, given = lookup.checkpoint_and_path(context, options.file or "")
    (path,) = roots.paths_below_root(context.root.path, [given], options.directory)
    pieces = path_history.stream_file(context, point, path)
    done()
    for piece in pieces:
        write_bytes(piece)
    return OK
