"""casrewind list."""

from collections.abc import Sequence

from ... import errors, fsio
from ..._typing import TYPE_CHECKING, Any
from ...model import checkpoint as checkpoints
from ...model.checkpoint import Checkpoint
from ...model.domain import Skip
from ...model.manifest import DIR, FILE, Entry
from ...ops.pins import Marking
from ...ops.references import is_numbered, label_of
from ...ops.save import Saved
from ...store.catalog import Marked
from ...workspace import context_of
from .. import json_output, output
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

_NARROW = 76
"""Columns that a list needs for everything that it has to say."""


def list_checkpoints(workspace: Any, options: Any, done: Done) -> int:
    """casrewind list."""
    current = workspace.current()
    sessions: dict[str, int | None] = {}
    if options.session is not None:
        from ...ops import conversation

        sessions = conversation.lineage(context_of(workspace), options.session)

    def is_wanted(point: Checkpoint) -> bool:
        listed = options.all or is_numbered(point, workspace.root.key)
        return listed and (options.session is None or _is_of(point, sessions))

    if options.number is None:
        everything = workspace.checkpoints(every_worktree=options.all)
    else:
        everything = context_of(workspace).store.checkpoints(options.number, is_wanted)
    rows = []
    number = 0
    for point, marked in everything:
        counts = is_numbered(point, workspace.root.key)
        number += counts
        if is_wanted(point):
            rows.append((number if counts else None, point, marked))
    done()
    if options.json:
        from .. import json_output

        output.as_json({"checkpoints": [json_output.checkpoint(point, marked, current) for _, point, marked in rows]})
    else:
        _print_list(rows, current)
    return OK


def _is_of(point: Checkpoint, sessions: dict[str, int | None]) -> bool:
    """Whether a checkpoint was made in one of these sessions, before the next of them went on from it."""
    until = sessions.get(point.session, 0)
    return until is None or point.created_ns <= until


def _print_list(found: Sequence[tuple[int | None, Checkpoint, Marked]], current: str) -> None:
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
    report = workspace.save(options.message, pin=options.pin, rehash=options.rehash)
    done()
    if options.json:
        as_json(_saved_json(report, workspace.root.path))
    elif not options.quiet:
        _print_saved(report)
    return REMARKS if report.faults else OK


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
    point = workspace.checkpoint(options.ref)
    marked = workspace.marks(point)
    if not options.json and (options.form != "entries" or options.context is not None or options.word_diff):
        return _show_change(workspace, options, point, done)
    entries = sorted(workspace.entries(point))
    domain = workspace.domain(point)
    done()
    if options.json:
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
    print_line(f"checkpoint {point.id} (number {point.seq} of its store)")
    print_line(f"  made      {json_output.time_of(point.created_ns)}, {age(point.created_ns)}, {point.trigger.replace('_', ' ')}")
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


def _entry_json(where: bytes, found: Entry) -> json_output.Shape:
    """One entry as in show --json."""
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

    if not options.rest:
        raise errors.UsageError("run needs a command: casrewind run -- COMMAND")
    command = " ".join(options.rest)
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
        code = subprocess.Popen(options.rest).wait()
    except OSError as error:
        output.print_error(f"cannot run {options.rest[0]}: {error.strerror}")
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
        as_json({"checkpoint": json_output.checkpoint(report.checkpoint, report.marked, workspace.current())})
    else:
        print_marking(report)
    return OK


def print_marking(report: Marking) -> None:
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


if TYPE_CHECKING:
    from ...ops.compare import Comparison


def diff(workspace: Any, options: Any, done: Done) -> int:
    """casrewind diff."""
    if len(options.refs) > 2:
        raise errors.UsageError("diff takes at most two checkpoints; paths go behind --")
    old = workspace.checkpoint(options.refs[0] if options.refs else "last")
    new = workspace.checkpoint(options.refs[1]) if len(options.refs) == 2 else None
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
