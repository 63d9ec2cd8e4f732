"""casrewind list, save, show, run, pin, unpin, diff and cat."""

import os
from collections.abc import Callable, Sequence

from ... import errors, fsio
from ..._typing import TYPE_CHECKING, Any
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...model.domain import Skip
from ...model.manifest import DIR, FILE, Entry
from ...ops.references import is_numbered, label_of
from ...ops.save import Saved
from ...store.catalog import Marked
from ...workspace import context_of
from .. import output
from ..output import (
    age,
    as_json,
    counted,
    plural,
    print_line,
    raw,
    remark,
    signed,
    size,
    skipped,
)
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...ops.compare import Comparison
    from ...ops.pins import Marking
    from ..json_output import Shape

_NARROW = 76
"""Columns that a list needs for everything that it has to say."""


def list_checkpoints(workspace: Any, options: Any, done: Done) -> int:
    """casrewind list."""
    from ...ops.references import is_numbered

    current = workspace.current()
    is_wanted = _filter(workspace, options)
    if options.number is None or options.grep is not None:  # a label may have been given later: only the marks know it
        everything = workspace.checkpoints(every_worktree=options.all)
    else:
        everything = context_of(workspace).store.checkpoints(options.number, lambda point: is_wanted(point, None))
    rows = []
    number = 0
    for point, marked in everything:
        counts = is_numbered(point, workspace.root.key)
        number += counts
        if is_wanted(point, marked):
            rows.append((number if counts else None, point, marked))
    del rows[options.number or len(rows) :]
    if options.reverse:
        rows.reverse()
    done()
    if options.json:
        from .. import json_output

        output.as_json({"checkpoints": [json_output.checkpoint(point, marked, current) for _, point, marked in rows]})
    elif options.oneline:
        _print_lines(rows)
    else:
        _print_list(rows, current, is_filtered=options.since is not None or options.grep is not None)
    return OK


def _filter(workspace: Any, options: Any) -> Callable[[Checkpoint, Marked | None], bool]:
    """True for the checkpoints that the options ask for. The text of `--grep` is only looked for if marks are given.

    Raises UsageError for a `--since` that is not a time.
    """
    sessions: dict[str, int | None] = {}
    since = 0
    text = (options.grep or "").casefold()
    if options.session is not None:
        from ...ops import conversation

        sessions = conversation.lineage(context_of(workspace), options.session)
    if options.since is not None:
        from ...ops import moments

        found = moments.moment_of(options.since)
        if found is None:
            raise errors.UsageError(f"--since: {options.since!r} is not a time; examples: 1h, 30m, 14:30, yesterday, 2026-11-20 18:00")
        since = found

    def is_wanted(point: Checkpoint, marked: Marked | None) -> bool:
        if not (options.all or is_numbered(point, workspace.root.key)) or point.created_ns < since:
            return False
        if options.session is not None and not _is_of(point, sessions):
            return False
        return not text or marked is None or text in f"{label_of(point, marked)}\n{point.prompt}".casefold()

    return is_wanted


def _print_lines(found: Sequence[tuple[int | None, Checkpoint, Marked]]) -> None:
    """One short line for each checkpoint."""
    for number, point, marked in found:
        what = " ".join((output.description(point, marked) or point.trigger.replace("_", " ")).split())
        line = f"{number or '-':>3}  {point.id}  {output.age(point.created_ns):>10}  {fsio.printable(what)}"
        output.print_line(output.cut_to(line, output.width()))


def _is_of(point: Checkpoint, sessions: dict[str, int | None]) -> bool:
    """Whether a checkpoint was made in one of these sessions, before the next of them went on from it."""
    until = sessions.get(point.session, 0)
    return until is None or point.created_ns <= until


def _print_list(found: Sequence[tuple[int | None, Checkpoint, Marked]], current: str, *, is_filtered: bool) -> None:
    if not found and is_filtered:
        output.print_line("no checkpoint matches")
        return
    if not found:
        output.print_line("no checkpoints to show; casrewind save makes one")
        return
    names = ("#", "id", "when", "what", "files", "size", "changes")[: 4 if output.width() < _NARROW else None]
    rows = []
    for number, point, marked in found:
        what = output.description(point, marked) or ("" if point.trigger == checkpoints.MANUAL else point.trigger.replace("_", " "))
        signs = ("* " if marked.pinned else "") + what + ("  (current)" if point.id == current else "")
        row = (
            "" if number is None else str(number), point.id, output.age(point.created_ns), fsio.printable(signs),
            f"{point.files:,}", output.size(point.size), output.signed(point.changes),
        )  # fmt: skip
        rows.append(row[: len(names)])
    output.table(names, rows, right=("#", "files", "size"), last="what")


def save(workspace: Any, options: Any, done: Done) -> int:
    """casrewind save."""
    message = _label(options)
    report = workspace.save(message, pin=options.pin, rehash=options.rehash)
    done()
    if options.json:
        as_json(_saved_json(report, workspace.root.path))
    elif not options.quiet:
        _print_saved(report)
        if report.created and not report.checkpoint.parent:
            from ...worktree.ignored import find_ignored
            from .include import unprotected

            context = context_of(workspace)
            found, complete = find_ignored(context.tree, context.options)
            for line in unprotected(found, complete=complete):
                print_line(line)
    return REMARKS if report.faults else OK


def _label(options: Any) -> str:
    """The label that was given, as an option or as a word. Raises UsageError for two labels, and for a word that is a path."""
    if options.text is None:
        return str(options.message)
    if options.message:
        raise errors.UsageError(f"save: two labels, {options.message!r} and {options.text!r}")
    if not options.text.strip() or os.path.lexists(os.path.join(options.directory, options.text)):
        raise errors.UsageError(f"save: {options.text!r} is not a label: save covers the whole project; a label is given with -m MESSAGE")
    return str(options.text)


def _print_saved(report: Saved) -> None:
    point = report.checkpoint
    if report.created:
        print_line(
            f"saved {point.id}: {plural(point.files, 'file')}, {size(point.size)} ({signed(report.changes)}) "
            f"in {report.elapsed_ms / 1000:.2f} s"
        )
    else:
        print_line(f"nothing changed since {point.id}, saved {age(point.created_ns)}")
    if point.files == 0:
        remark(f"WARNING: nothing was captured: no file here, or all are ignored ({report.ignored} ignored entries)")
    skipped(report.skipped)


def _saved_json(report: Saved, root: str) -> dict[str, Any]:
    from .. import json_output

    point = report.checkpoint
    return {
        "checkpoint": point.id,
        "created": report.created,
        "root": root,
        "files": point.files,
        "bytes": point.size,
        "changes": dict(report.changes._asdict()),
        "skipped": json_output.skips(report.skipped),
        "elapsed_ms": report.elapsed_ms,
    }


def show(workspace: Any, options: Any, done: Done) -> int:
    """casrewind show."""
    from .. import words

    point = words.shown(workspace, options)
    marked = workspace.marks(point)
    if not options.json and (options.form != "entries" or options.context is not None or options.word_diff):
        return _show_change(workspace, options, point, done)
    entries = sorted(workspace.entries(point))
    domain = workspace.domain(point)
    done()
    if options.json:
        from .. import json_output

        as_json(
            {
                "checkpoint": json_output.checkpoint(point, marked, workspace.current()),
                "entries": [_entry_json(where, entry) for where, entry in entries],
                "skipped": json_output.skips(domain.skipped),
            }
        )
    else:
        from ..pager import pager

        with pager(options):
            _print_checkpoint(point, marked)
            _print_entries(entries, domain.skipped)
    return OK


def _show_change(workspace: Any, options: Any, point: Checkpoint, done: Done) -> int:
    """What a checkpoint changed against its parent, in the form that was asked for."""
    from ...ops import compare
    from ..comparison import form_of, print_comparison
    from ..pager import pager

    found = compare.with_parent(context_of(workspace), point)
    done()
    with pager(options):
        _print_checkpoint(point, workspace.marks(point))
        print_line()
        print_comparison(found, form_of(options))
    return OK


def _print_checkpoint(point: Checkpoint, marked: Marked) -> None:
    from ..json_output import time_of

    print_line(f"checkpoint {point.id} (number {point.seq} of its store)")
    print_line(f"  made      {time_of(point.created_ns)}, {age(point.created_ns)}, {point.trigger.replace('_', ' ')}")
    label = label_of(point, marked)
    if label:
        print_line(f"  label     {fsio.printable(label)}")
    if marked.pinned:
        print_line("  pinned")
    print_line(f"  root      {fsio.printable(point.root)}")
    print_line(f"  holds     {plural(point.files, 'file')}, {size(point.size)}; against its parent {signed(point.changes)}")
    if point.flags & checkpoints.DURING_RESTORE:
        print_line("  made while a restore was unfinished")


def _print_entries(entries: Sequence[tuple[bytes, Entry]], left_out: Sequence[Skip]) -> None:
    for where, entry in entries:
        target = f" -> {fsio.printable(entry.target)}" if entry.target else ""
        tail = "/" if entry.kind == DIR else target
        width = "" if entry.kind == DIR else f"{entry.size}"
        print_line(f"{entry.kind:<5} {entry.mode & 0o7777:04o} {width:>12} {fsio.printable(where)}{tail}")
    skipped(left_out)


def _entry_json(where: bytes, found: Entry) -> "Shape":
    """One entry as in show --json."""
    from .. import json_output

    return {
        **json_output.path(where),
        "kind": found.kind,
        "mode": json_output.mode_of(found),
        "size": json_output.size_of(found),
        "mtime_ns": found.mtime_ns if found.kind == FILE else None,
        "digest": found.digest.hex() if found.kind == FILE else None,
        **({"target": None} if not found.target else json_output.path(found.target, "target")),
    }


def run(workspace: Any, options: Any, done: Done) -> int:
    """casrewind run."""
    import signal
    import subprocess

    arguments = [*options.words, *(["--"] if options.words and options.dashed else []), *options.rest]
    if not arguments:
        raise errors.UsageError("run: missing COMMAND; casrewind run -- make test, for example")
    command = " ".join(arguments)
    label = options.message or command[:200]
    described = not options.message
    before = workspace.save(f"before: {label}", described=described)
    done()
    if not options.quiet:
        remark(f"saved {before.checkpoint.id} before the command")
    skipped(before.faults)
    # an interrupt from the terminal is the command's to answer; after it there is still a checkpoint to make
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.Popen(arguments).wait()
    except OSError as error:
        output.print_error(f"cannot run {arguments[0]}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    finally:
        signal.signal(signal.SIGINT, handler)
        after = workspace.save(f"after: {label}", described=described)
        done()
        if not options.quiet:
            _print_run(before, after)
        skipped(after.faults)
    return 128 - code if code < 0 else code


def _print_run(before: Saved, after: Saved) -> None:
    """run, when the command has ended: on standard error, because standard output is the command's."""
    counts = after.checkpoint.changes
    if counts == (0, 0, 0):
        remark(f"saved {after.checkpoint.id} after the command: nothing changed")
        return
    remark(
        f"saved {after.checkpoint.id} after the command: {counted(counts)}; "
        f"casrewind restore {before.checkpoint.id} takes it back"
    )


def pin(workspace: Any, options: Any, done: Done) -> int:
    """casrewind pin."""
    return _report_marking(workspace, options, workspace.pin(workspace.checkpoint(options.ref), options.label), done)


def unpin(workspace: Any, options: Any, done: Done) -> int:
    """casrewind unpin."""
    return _report_marking(workspace, options, workspace.unpin(workspace.checkpoint(options.ref)), done)


def _report_marking(workspace: Any, options: Any, report: Any, done: Done) -> int:
    done()
    if options.json:
        from .. import json_output

        as_json({"checkpoint": json_output.checkpoint(report.checkpoint, report.marked, workspace.current())})
    else:
        print_marking(report)
    return OK


def print_marking(report: "Marking") -> None:
    """What was marked, for a person."""
    name, label = report.checkpoint.id, fsio.printable(report.label)
    if not report.changed:
        already = f"{name} is pinned already{f', its label is {label!r}' if label else ''}"
        print_line(already if report.marked.pinned else f"{name} is not pinned, and no label keeps it")
    elif not report.marked.pinned:
        print_line(f"unpinned {name}{f'; its label {label!r} stays, and does not keep it any more' if label else ''}")
    else:
        before = f" (it was {fsio.printable(report.before)!r})" if report.before not in ("", report.label) else ""
        print_line(f"pinned {name}{f', its label is {label!r}' if label else ''}{before}")


def diff(workspace: Any, options: Any, done: Done) -> int:
    """casrewind diff."""
    from .. import words

    refs = words.compared(workspace, options)
    old = refs[0] if refs else workspace.checkpoint("last")
    new = refs[1] if len(refs) == 2 else None
    sides = [old] if new is None else [old, new]
    found = workspace.diff(old, new, workspace.paths(options.rest, sides, options.directory, worktree=new is None))
    done()
    if options.json:
        as_json(_diff_json(found, with_renames=not options.no_renames))
    else:
        from ..comparison import form_of, print_comparison
        from ..pager import pager

        with pager(options):
            print_comparison(found, form_of(options))
    for path in found.missing:
        remark(f"casrewind: no such path: {fsio.printable(path)}: no checkpoint that was compared has it, nor the worktree")
    return REMARKS if found.missing else OK


def _diff_json(found: "Comparison", *, with_renames: bool) -> dict[str, Any]:
    from ...ops import renames
    from .. import json_output

    moved = renames.find(found) if with_renames else ()
    return {
        "changes": [json_output.change(change) for change in found.changes],
        "missing": [json_output.path(path) for path in found.missing],
        "renames": [
            {**json_output.path(item.source, "from"), **json_output.path(item.path, "to"), "similarity": item.similarity}
            for item in moved
        ],
    }


def cat(workspace: Any, options: Any, done: Done) -> int:
    """casrewind cat."""
    point, given = workspace.checkpoint_and_path(options.file)
    (path,) = workspace.scope([given], options.directory)
    pieces = workspace.cat(point, path)
    done()
    for piece in pieces:
        raw(piece)
    return OK
