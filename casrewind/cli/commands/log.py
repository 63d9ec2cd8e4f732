"""casrewind log: the history of a path."""

import textwrap
from collections.abc import Sequence

from ... import errors, fsio
from ..._typing import Any
from ...model import checkpoint as checkpoints
from ...model.manifest import DIR, PURGED, Entry
from ...ops.path_history import Logged, PathChange
from .. import json_output
from ..json_output import Shape
from ..output import COLOURS, SIGNS, age, as_json, description, paint, plural, print_line, remark, signed, size, width
from ..pager import pager
from . import OK, Done

_MOST_LOGGED = 100
"""Paths that a pattern may match."""
_SESSION = 8
"""Characters of a session's id that are shown."""
_INDENT = 5
"""Columns before the second line of a row."""
_LEAST = 16
"""Columns that a line of words has at least."""


def log(workspace: Any, options: Any, done: Done) -> int:
    """casrewind log."""
    given = [*([] if options.path is None else [options.path]), *options.rest]
    if len(given) != 1:
        missing = "log: missing PATH; casrewind list shows all checkpoints"
        raise errors.UsageError(f"log: one PATH at a time, not {len(given)}" if given else missing)
    points = [point for point, _ in workspace.checkpoints() if options.all or point.trigger != checkpoints.SAFETY]
    scope = workspace.paths(given, points, options.directory, worktree=False)
    if len(scope) > _MOST_LOGGED:
        raise errors.UsageError(f"{fsio.printable(given[0])} matches {len(scope)} paths: log shows at most {_MOST_LOGGED} at once")
    found = [workspace.log(path, options.number, safety=options.all) for path in scope]
    done()
    if options.json:
        as_json(_shape(found, workspace.current()))
    else:
        with pager(options):
            for one in found:
                _show(one, patch=options.patch)
    damaged = dict.fromkeys(identity for one in found for identity in one.damaged)
    if damaged:
        remark(f"casrewind: damaged, and passed over: {', '.join(damaged)}; casrewind verify says whom it affects")
    return errors.StoreDamaged.exit_code if damaged else OK


def _show(found: Logged, *, patch: bool) -> None:
    """One line of result, then a row for each checkpoint, newest first; with `patch` what it changed below it."""
    name = fsio.printable(found.path or b".")
    print_line(f"{name}: {plural(len(found.changes), 'change')}" if found.changes else f"{name}: no change")
    table = [_cells(row) for row in found.changes]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row, cells in zip(found.changes, table, strict=True):
        _line(row, cells, widths)
        if patch:
            from ..comparison import PATCH, Form, print_comparison

            print_comparison(found.compare(row), Form(PATCH))
            print_line()
    if any(entry.kind == PURGED for row in found.changes for entry in (row.change.old, row.change.new) if entry is not None):
        print_line(f"  {name} was purged: its bytes of then are gone from the store")


def _cells(row: PathChange) -> tuple[str, ...]:
    """What stands in columns: id, when, trigger, sizes, session."""
    point = row.checkpoint
    session = f"{point.agent} {point.session[:_SESSION]}".strip() if point.session else ""
    return point.id, age(point.created_ns), point.trigger.replace("_", " "), _sizes(row), fsio.printable(session)


def _line(row: PathChange, cells: tuple[str, ...], widths: list[int]) -> None:
    """One row, in columns; in lines of their own, whole words, what has no room beside them on a terminal."""
    sign, what = SIGNS[row.change.status], fsio.printable(description(row.checkpoint, row.marked))
    columns = width() - _INDENT
    head = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True) if width)
    lines = _filled([cell for cell in cells if cell], columns) if len(head) > columns else [head.rstrip()]
    if what and len(head) + 2 + len(what) <= columns:
        lines = [f"{head}  {what}"]
    elif what:
        lines += textwrap.wrap(what, max(columns, _LEAST))
    if row.reason:
        lines.append(f"({row.reason})")
    print_line(f"{paint(sign, COLOURS[sign])}  {lines[0]}")
    for line in lines[1:]:
        print_line(" " * _INDENT + line)


def _filled(parts: list[str], columns: int) -> list[str]:
    """Parts side by side as long as a line has room for them."""
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + 2 + len(part) <= columns:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _sizes(row: PathChange) -> str:
    """The sizes before and after, of a directory how many paths changed; a mode or kind that is another one."""
    old, new = row.change.old, row.change.new
    parts = []
    if row.counts is not None:
        parts.append(signed(row.counts))
    elif old is None:
        parts.append(_size(new))
    elif new is None:
        parts.append(_size(old))
    elif (old.size, old.kind) != (new.size, new.kind) or old.digest != new.digest:
        parts.append(f"{_size(old)} -> {_size(new)}")
    if old is not None and new is not None and (old.mode ^ new.mode) & 0o777 and old.kind == new.kind:
        parts.append(f"mode {old.mode & 0o777:04o} -> {new.mode & 0o777:04o}")
    if old is not None and new is not None and old.kind != new.kind:
        parts.append(f"{old.kind} -> {new.kind}")
    return ", ".join(parts)


def _size(entry: Entry | None) -> str:
    if entry is None:
        return ""
    if entry.kind == PURGED:
        return "purged"
    return "-" if entry.kind == DIR else size(entry.size)


def _shape(found: Sequence[Logged], current: str) -> Shape:
    """The rows of one path, or of all paths that a pattern matches, newest first, with the path of each."""
    rows = [(one.path, row) for one in found for row in one.changes]
    several = len(found) > 1
    return {
        **({"paths": [json_output.path(one.path) for one in found]} if several else json_output.path(found[0].path)),
        "changes": [
            {**(json_output.path(path) if several else {}), **_row(row, current)}
            for path, row in sorted(rows, key=lambda pair: (-pair[1].checkpoint.seq, pair[0]))
        ],
        "damaged": list(dict.fromkeys(identity for one in found for identity in one.damaged)),
    }


def _row(row: PathChange, current: str) -> Shape:
    """One checkpoint, as in list --json, and what it changed, as in diff --json."""
    change = json_output.change(row.change)
    return {
        "checkpoint": json_output.checkpoint(row.checkpoint, row.marked, current),
        "before": None if row.before is None else row.before.id,
        "status": change.pop("status"),
        "old_kind": _kind(row.change.old),
        "new_kind": _kind(row.change.new),
        **{key: value for key, value in change.items() if key.startswith(("old_", "new_"))},
        "counts": None if row.counts is None else dict(row.counts._asdict()),
        "reason": row.reason or None,
    }


def _kind(entry: Entry | None) -> str | None:
    return None if entry is None else entry.kind
