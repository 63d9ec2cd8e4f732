"""What a person reads of the space that a store takes."""

import sys
from collections.abc import Iterable, Sequence

from ... import fsio
from ...model import checkpoint as checkpoints
from ...ops.references import label_of
from ...ops.usage import CheckpointUsage, PathUsage, SessionUsage, Usage
from .text import age, is_colourful, plural, say, size

_PIPED = 160
"""Columns where nobody looks."""


def usage(found: Usage, budget: int, tables: Sequence[str], most: int) -> None:
    """du: one line of result, where the bytes are, then the tables asked for."""
    frees = "nothing" if found.gc_frees == 0 else f"about {size(found.gc_frees or 0)}"
    gives = "what gc would give back cannot be told" if found.gc_frees is None else f"gc would give back {frees}"
    say(f"{size(found.store_size)} on disk of a budget of {size(budget)}: {size(found.reachable)} reachable; {gives}")
    undo = f", {size(found.other)} only by undo or an open restore" if found.other else ""
    garbage = f"; {size(found.garbage)} garbage" if found.garbage else ""
    beside = size(max(found.store_size - found.packs_size, 0))
    say(
        f"  {size(found.unique)} needed by one checkpoint each, {size(found.shared)} by several{undo}{garbage}; "
        f"{beside} index, ledger and the like"
    )
    if not found.checkpoints:
        say("  no checkpoints; casrewind save makes one")
        return
    if "checkpoint" in tables:
        _checkpoints(found.checkpoints, most)
    if "path" in tables:
        _paths(found.paths, most, found.trees)
    if "session" in tables:
        _sessions(found.sessions, most)
    say()
    say("casrewind gc forgets old checkpoints, casrewind purge PATH removes a path from all of them; -n N shows more rows")


def _checkpoints(found: Sequence[CheckpointUsage], most: int) -> None:
    _heading(found, most, "checkpoint", "unique: what forgetting it alone would free; * pinned")
    rows = []
    for row in found[:most]:
        point = row.checkpoint
        what = ("* " if row.marked.pinned else "") + (label_of(point, row.marked) or point.prompt)
        if point.flags & checkpoints.DESCRIBED and not row.marked.label and point.prompt:
            what = ("* " if row.marked.pinned else "") + point.prompt
        rows.append((size(row.unique), size(row.shared), point.id, age(point.created_ns), point.trigger.replace("_", " "), what))
    _table(("unique", "shared", "id", "when", "trigger", "what"), rows, numbers=2)


def _paths(found: Sequence[PathUsage], most: int, trees: int) -> None:
    beside = "" if any(row.is_directory for row in found) else f"; {size(trees)} beside are lists of what is in directories"
    _heading(found, most, "path", f"stored: all versions together{beside}")
    rows = [
        (size(row.size), f"{row.versions:,}", fsio.show(row.path) + ("/" if row.is_directory else "")) for row in found[:most]
    ]
    _table(("stored", "versions", "path"), rows, numbers=2)


def _sessions(found: Sequence[SessionUsage], most: int) -> None:
    _heading(found, most, "session", "unique: what no other session needs; transcript: the conversation in it")
    rows = [
        (
            size(row.unique), size(row.shared), size(row.transcripts), f"{row.checkpoints:,}", age(row.newest_ns),
            f"{row.agent} {row.session}" if row.session else "(made without an agent)",
        )
        for row in found[:most]
    ]  # fmt: skip
    _table(("unique", "shared", "transcript", "checkpoints", "newest", "session"), rows, numbers=4)


def _heading(found: Sequence[object], most: int, word: str, what: str) -> None:
    of = f"the largest {most:,} of {plural(len(found), word)}" if len(found) > most else plural(len(found), word)
    say()
    say(f"{of} ({what})")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> None:
    """Rows below their columns; the first `numbers` columns end at their right sides."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(
        width=None if sys.stdout.isatty() else _PIPED,
        highlight=False,
        color_system="auto" if is_colourful(sys.stdout) else None,
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    last = len(columns) - 1
    for place, name in enumerate(columns):  # only what stands last may be broken into lines: an id in two cannot be copied
        table.add_column(name, justify="right" if place < numbers else "left", overflow="fold", no_wrap=place != last)
    for row in rows:
        table.add_row(*row[:-1], Text(fsio.show(row[-1])))
    with console.capture() as captured:  # printed by rich, a closed pipe would end in rich's own exit code
        console.print(table)
    for line in captured.get().splitlines():
        say(line.rstrip())
