"""What a person reads of one path's history: log."""

import shutil
import sys
import textwrap

from ... import fsio
from ...model import checkpoint as checkpoints
from ...model.manifest import DIR, PURGED, Entry
from ...ops.log import Logged, PathChange
from ...ops.references import label_of
from .text import COLOURS, SIGNS, age, paint, plural, say, signed, size
from .timeline import comparison

_SESSION = 8
"""Characters of a session's id that are shown."""
_INDENT = 5
"""Columns before the second line of a row."""
_LEAST = 16
"""Columns that a line of words has at least."""


def logged(found: Logged, *, patch: bool) -> None:
    """One line of result, then a row for each checkpoint, newest first; with `patch` what it changed below it."""
    name = fsio.show(found.path or b".")
    say(f"{name}: {plural(len(found.changes), 'change')}" if found.changes else f"{name}: no change")
    table = [_cells(row) for row in found.changes]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row, cells in zip(found.changes, table, strict=True):
        _line(row, cells, widths)
        if patch:
            comparison(found.compare(row), "patch")
            say()
    if any(entry.kind == PURGED for row in found.changes for entry in (row.change.old, row.change.new) if entry is not None):
        say(f"  {name} was purged: its bytes of then are gone from the store")


def _cells(row: PathChange) -> tuple[str, ...]:
    """What stands in columns: id, when, trigger, sizes, session."""
    point = row.checkpoint
    session = f"{point.agent} {point.session[:_SESSION]}".strip() if point.session else ""
    return point.id, age(point.created_ns), point.trigger.replace("_", " "), _sizes(row), fsio.show(session)


def _line(row: PathChange, cells: tuple[str, ...], widths: list[int]) -> None:
    """One row, in columns; in lines of their own, whole words, what has no room beside them on a terminal."""
    sign, what = SIGNS[row.change.status], fsio.show(_what(row))
    columns = shutil.get_terminal_size().columns - _INDENT if sys.stdout.isatty() else sys.maxsize
    head = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True) if width)
    lines = _filled([cell for cell in cells if cell], columns) if len(head) > columns else [head.rstrip()]
    if what and len(head) + 2 + len(what) <= columns:
        lines = [f"{head}  {what}"]
    elif what:
        lines += textwrap.wrap(what, max(columns, _LEAST))
    if row.reason:
        lines.append(f"({row.reason})")
    say(f"{paint(sign, COLOURS[sign])}  {lines[0]}")
    for line in lines[1:]:
        say(" " * _INDENT + line)


def _filled(parts: list[str], columns: int) -> list[str]:
    """Parts side by side as long as a line has room for them."""
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + 2 + len(part) <= columns:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _what(row: PathChange) -> str:
    """What was said of the checkpoint: what a person typed says more than what it was made for."""
    point = row.checkpoint
    described = point.flags & checkpoints.DESCRIBED and not row.marked.label
    return (point.prompt if described else "") or label_of(point, row.marked) or point.prompt


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
