"""casrewind du: what uses the space of the store."""

from collections.abc import Sequence

from ... import errors
from ..._typing import TYPE_CHECKING
from ...history import lookup
from ...history.turn_view import TurnView
from ...messages import age_in_words, plural, printable
from ...upkeep.usage import CheckpointUsage, PathUsage, SessionUsage, Usage, usage
from ..grammar.options import JSON, NUMBER, Command, Option, positive_number
from ..show import shapes
from ..show.rows import RowWriter
from ..show.shapes import Shape
from ..show.text import human_size
from ..terminal.lines import print_json, print_line, remark
from ..terminal.table import print_table
from . import OK, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind du --by path --depth 2",),
    options=(
        NUMBER._replace(help="show N rows of each table (default: 10, or all with --json)"),
        Option(("--by",), "show only this table", choices=("checkpoint", "path", "session")),
        Option(("--depth",), "add up everything below N directory levels", "N", convert=positive_number),
        JSON,
    ),
    more="Shows the space by checkpoint, by path and by session, largest first.",
    stays=True,
)

_TABLES = ("checkpoint", "path", "session")
_TABLE_ROWS = 10
"""Rows of each table in text output without -n."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind du."""
    tables = _TABLES if options.by is None else (options.by,)
    if options.depth is not None and "path" not in tables:
        raise errors.UsageError("--depth is about paths", f"leave it or --by {options.by} out")
    found = usage(context, options.depth)
    done()
    if options.json:
        print_json(_usage_json(found, options.budget, lookup.current_id(context), tables, options.number))
    else:
        _print_usage(context, found, options.budget, tables, options.number or _TABLE_ROWS)
    for problem in found.problems[:_TABLE_ROWS]:
        remark(f"casrewind: damaged: {problem.detail}")
    if found.problems:
        more = f"{len(found.problems):,} in all; " if len(found.problems) > _TABLE_ROWS else ""
        remark(f"casrewind: {more}what is damaged is not counted: casrewind verify shows what is affected")
    return errors.StoreDamaged.exit_code if found.problems else OK


def _print_usage(context: "Context", found: Usage, budget: int, tables: Sequence[str], most: int) -> None:
    """Print the totals, the distribution of bytes, then the requested tables."""
    frees = "nothing" if found.gc_frees == 0 else f"about {human_size(found.gc_frees or 0)}"
    gives = "casrewind cannot tell how much gc would free" if found.gc_frees is None else f"gc would free {frees}"
    print_line(
        f"{human_size(found.store_size)} on disk of a budget of {human_size(budget)}: {human_size(found.reachable)} reachable; {gives}"
    )
    parts = {
        "needed by one checkpoint alone": found.unique,
        "shared by several checkpoints": found.shared,
        "needed only by undo or an open restore": found.other,
        "garbage": found.garbage,
        "kept free for gc, which uses it when the disk is full": found.ballast,
        "index, ledger and the rest": max(found.store_size - found.packs_size - found.ballast, 0),
    }
    for what, number in parts.items():
        if number:
            print_line(f"  {human_size(number):>10}  {what}")
    if not found.checkpoints:
        print_line("  no checkpoints; casrewind save makes one")
        return
    if "checkpoint" in tables:
        _print_checkpoints(found.checkpoints, most, RowWriter(TurnView(context)))
    if "path" in tables:
        _print_paths(found.paths, most, found.trees)
    if "session" in tables:
        _print_sessions(found.sessions, most)
    print_line()
    print_line("casrewind gc deletes old checkpoints; casrewind purge PATH removes a path from all")


def _print_checkpoints(found: Sequence[CheckpointUsage], most: int, writer: RowWriter) -> None:
    _print_heading(found, most, "checkpoint", "unique = freed if only it is deleted, * = pinned")
    rows = []
    for row in found[:most]:
        point = row.checkpoint
        machine = f"{point.more.machine}: " if point.more.machine else ""
        trigger, title = point.trigger.replace("_", " "), writer.checkpoint_title(point, row.marked)
        told = printable(("* " if row.marked.pinned else "") + machine + (title if title != trigger else ""))
        rows.append(
            (
                human_size(row.unique),
                human_size(row.shared),
                point.id,
                age_in_words(point.created_ns),
                trigger,
                told,
            )
        )
    print_table(("unique", "shared", "id", "when", "trigger", "what"), rows, right=("unique", "shared"), last="what", cut=True)


def _print_paths(found: Sequence[PathUsage], most: int, trees: int) -> None:
    beside = "" if any(row.is_directory for row in found) else f"; lists of directories: {human_size(trees)}"
    _print_heading(found, most, "path", f"stored = all versions together{beside}")
    rows = [
        (human_size(row.size), f"{row.versions:,}", printable(row.path) + ("/" if row.is_directory else "")) for row in found[:most]
    ]
    print_table(("stored", "versions", "path"), rows, right=("stored", "versions"), last="path")


def _print_sessions(found: Sequence[SessionUsage], most: int) -> None:
    _print_heading(found, most, "session", "unique = what no other session needs")
    rows = [
        (
            human_size(row.unique), human_size(row.shared), human_size(row.transcripts), f"{row.checkpoints:,}",
            age_in_words(row.newest_ns),
            printable(f"{row.agent} {row.session}") if row.session else "(no agent)",
        )
        for row in found[:most]
    ]  # fmt: skip
    names = ("unique", "shared", "transcript", "checkpoints", "newest", "session")
    print_table(names, rows, right=names[:4], last="session")


def _print_heading(found: Sequence[object], most: int, word: str, legend: str) -> None:
    of = f"the largest {most:,} of {plural(len(found), word)}, -n N for more" if len(found) > most else plural(len(found), word)
    print_line()
    print_line(f"{of}; {legend}")


def _usage_json(found: Usage, budget: int, current: str, tables: tuple[str, ...], most: int | None) -> Shape:
    """The report as JSON. A table that was not requested is null; other tables have at most `most`
    rows (None = all).
    """
    return {
        "store_bytes": found.store_size,
        "budget_bytes": budget,
        "gc_bytes": found.gc_frees,
        "ballast_bytes": found.ballast,
        "packs": found.packs,
        "packs_bytes": found.packs_size,
        "reachable_bytes": found.reachable,
        "unique_bytes": found.unique,
        "shared_bytes": found.shared,
        "other_bytes": found.other,
        "garbage_bytes": found.garbage,
        "tree_bytes": found.trees,
        "checkpoints": [_checkpoint_shape(row, current) for row in found.checkpoints[:most]] if "checkpoint" in tables else None,
        "paths": [_path_shape(row) for row in found.paths[:most]] if "path" in tables else None,
        "sessions": [_session_shape(row) for row in found.sessions[:most]] if "session" in tables else None,
        "problems": [{"kind": one.kind, "id": one.id, "detail": one.detail} for one in found.problems],
    }


def _checkpoint_shape(row: CheckpointUsage, current: str) -> Shape:
    return {**shapes.checkpoint(row.checkpoint, row.marked, current), "unique_bytes": row.unique, "shared_bytes": row.shared}


def _path_shape(row: PathUsage) -> Shape:
    return {**shapes.path(row.path), "kind": "dir" if row.is_directory else "file", "stored_bytes": row.size, "versions": row.versions}


def _session_shape(row: SessionUsage) -> Shape:
    return {
        "agent": row.agent or None,
        "session": row.session or None,
        "checkpoints": row.checkpoints,
        "newest_at": shapes.time_of(row.newest_ns),
        "unique_bytes": row.unique,
        "shared_bytes": row.shared,
        "transcript_bytes": row.transcripts,
    }
