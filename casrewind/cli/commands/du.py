"""casrewind du: which content uses the space of a store."""

from collections.abc import Sequence

from ... import errors, fsio
from ..._typing import Any
from ...ops.usage import CheckpointUsage, PathUsage, SessionUsage, Usage
from .. import json_output
from ..json_output import Shape
from ..output import age, as_json, description, plural, print_line, remark, size, table
from . import OK, Done

_TABLES = ("checkpoint", "path", "session")
_SHOWN = 10
"""Rows of each table in text output without -n."""


def du(workspace: Any, options: Any, done: Done) -> int:
    """casrewind du."""
    tables = _TABLES if options.by is None else (options.by,)
    if options.depth is not None and "path" not in tables:
        raise errors.UsageError(f"--depth is about paths: leave it or --by {options.by} out")
    found = workspace.usage(options.depth)
    done()
    if options.json:
        as_json(_shape(found, options.budget, workspace.current(), tables, options.number))
    else:
        _show(found, options.budget, tables, options.number or _SHOWN)
    for problem in found.problems[:_SHOWN]:
        remark(f"casrewind: damaged: {problem.detail}")
    if found.problems:
        more = f"{len(found.problems):,} in all; " if len(found.problems) > _SHOWN else ""
        remark(f"casrewind: {more}what is damaged is not counted: casrewind verify says whom it affects")
    return errors.StoreDamaged.exit_code if found.problems else OK


def _show(found: Usage, budget: int, tables: Sequence[str], most: int) -> None:
    """Print the totals, the distribution of bytes, then the requested tables."""
    frees = "nothing" if found.gc_frees == 0 else f"about {size(found.gc_frees or 0)}"
    gives = "what gc would give back cannot be told" if found.gc_frees is None else f"gc would give back {frees}"
    print_line(f"{size(found.store_size)} on disk of a budget of {size(budget)}: {size(found.reachable)} reachable; {gives}")
    parts = {
        "needed by one checkpoint alone": found.unique,
        "shared by several checkpoints": found.shared,
        "needed only by undo or an open restore": found.other,
        "garbage": found.garbage,
        "index, ledger and the rest": max(found.store_size - found.packs_size, 0),
    }
    for what, number in parts.items():
        if number:
            print_line(f"  {size(number):>10}  {what}")
    if not found.checkpoints:
        print_line("  no checkpoints; casrewind save makes one")
        return
    if "checkpoint" in tables:
        _checkpoints(found.checkpoints, most)
    if "path" in tables:
        _paths(found.paths, most, found.trees)
    if "session" in tables:
        _sessions(found.sessions, most)
    print_line()
    print_line("casrewind gc forgets old checkpoints; casrewind purge PATH removes a path from all")


def _checkpoints(found: Sequence[CheckpointUsage], most: int) -> None:
    _heading(found, most, "checkpoint", "unique = freed if it alone is forgotten, * = pinned")
    rows = []
    for row in found[:most]:
        point = row.checkpoint
        told = fsio.printable(("* " if row.marked.pinned else "") + description(point, row.marked))
        rows.append((size(row.unique), size(row.shared), point.id, age(point.created_ns), point.trigger.replace("_", " "), told))
    table(("unique", "shared", "id", "when", "trigger", "what"), rows, right=("unique", "shared"), last="what", cut=True)


def _paths(found: Sequence[PathUsage], most: int, trees: int) -> None:
    beside = "" if any(row.is_directory for row in found) else f"; lists of directories: {size(trees)}"
    _heading(found, most, "path", f"stored = all versions together{beside}")
    rows = [
        (size(row.size), f"{row.versions:,}", fsio.printable(row.path) + ("/" if row.is_directory else "")) for row in found[:most]
    ]
    table(("stored", "versions", "path"), rows, right=("stored", "versions"), last="path")


def _sessions(found: Sequence[SessionUsage], most: int) -> None:
    _heading(found, most, "session", "unique = what no other session needs")
    rows = [
        (
            size(row.unique), size(row.shared), size(row.transcripts), f"{row.checkpoints:,}", age(row.newest_ns),
            fsio.printable(f"{row.agent} {row.session}") if row.session else "(no agent)",
        )
        for row in found[:most]
    ]  # fmt: skip
    names = ("unique", "shared", "transcript", "checkpoints", "newest", "session")
    table(names, rows, right=names[:4], last="session")


def _heading(found: Sequence[object], most: int, word: str, what: str) -> None:
    of = f"the largest {most:,} of {plural(len(found), word)}, -n N for more" if len(found) > most else plural(len(found), word)
    print_line()
    print_line(f"{of}; {what}")


def _shape(found: Usage, budget: int, current: str, tables: tuple[str, ...], most: int | None) -> Shape:
    """The report as JSON. A table that was not requested is null; other tables have at most `most`
    rows (None = all).
    """
    return {
        "store_bytes": found.store_size,
        "budget_bytes": budget,
        "gc_bytes": found.gc_frees,
        "packs": found.packs,
        "packs_bytes": found.packs_size,
        "reachable_bytes": found.reachable,
        "unique_bytes": found.unique,
        "shared_bytes": found.shared,
        "other_bytes": found.other,
        "garbage_bytes": found.garbage,
        "tree_bytes": found.trees,
        "checkpoints": [_checkpoint(row, current) for row in found.checkpoints[:most]] if "checkpoint" in tables else None,
        "paths": [_path(row) for row in found.paths[:most]] if "path" in tables else None,
        "sessions": [_session(row) for row in found.sessions[:most]] if "session" in tables else None,
        "problems": [{"kind": one.kind, "id": one.id, "detail": one.detail} for one in found.problems],
    }


def _checkpoint(row: CheckpointUsage, current: str) -> Shape:
    return {**json_output.checkpoint(row.checkpoint, row.marked, current), "unique_bytes": row.unique, "shared_bytes": row.shared}


def _path(row: PathUsage) -> Shape:
    return {**json_output.path(row.path), "kind": "dir" if row.is_directory else "file", "stored_bytes": row.size, "versions": row.versions}


def _session(row: SessionUsage) -> Shape:
    return {
        "agent": row.agent or None,
        "session": row.session or None,
        "checkpoints": row.checkpoints,
        "newest_at": json_output.time_of(row.newest_ns),
        "unique_bytes": row.unique,
        "shared_bytes": row.shared,
        "transcript_bytes": row.transcripts,
    }
