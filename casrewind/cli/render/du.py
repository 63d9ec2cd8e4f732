"""What a person reads of the space that a store takes."""

import sys
from collections.abc import Sequence

from ... import fsio
from ...model import checkpoint as checkpoints
from ...ops.references import label_of
from ...ops.usage import CheckpointUsage, PathUsage, SessionUsage, Usage
from ...typed import Literal
from .text import age, is_colourful, plural, say, size

_PIPED = 5000
"""Columns where nobody looks: every row is one line."""
_BETWEEN = 3
_LEAST = 12
"""Columns between two columns of a table, and for what stands last in it."""


def usage(found: Usage, budget: int, tables: Sequence[str], most: int) -> None:
    """du: one line of result, where the bytes are, then the tables asked for."""
    frees = "nothing" if found.gc_frees == 0 else f"about {size(found.gc_frees or 0)}"
    gives = "what gc would give back cannot be told" if found.gc_frees is None else f"gc would give back {frees}"
    say(f"{size(found.store_size)} on disk of a budget of {size(budget)}: {size(found.reachable)} reachable; {gives}")
    parts = {
        "needed by one checkpoint alone": found.unique,
        "shared by several checkpoints": found.shared,
        "needed only by undo or an open restore": found.other,
        "garbage": found.garbage,
        "index, ledger and the rest": max(found.store_size - found.packs_size, 0),
    }
    for what, number in parts.items():
        if number:
            say(f"  {size(number):>10}  {what}")
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
    say("casrewind gc forgets old checkpoints; casrewind purge PATH removes a path from all")


def _checkpoints(found: Sequence[CheckpointUsage], most: int) -> None:
    _heading(found, most, "checkpoint", "unique = freed if it alone is forgotten, * = pinned")
    rows = []
    for row in found[:most]:
        point = row.checkpoint
        described = point.flags & checkpoints.DESCRIBED and not row.marked.label  # what a person typed says more than that
        what = (point.prompt if described else "") or label_of(point, row.marked) or point.prompt
        told = ("* " if row.marked.pinned else "") + what
        rows.append((size(row.unique), size(row.shared), point.id, age(point.created_ns), point.trigger.replace("_", " "), told))
    _table(("unique", "shared", "id", "when", "trigger", "what"), rows, numbers=2)


def _paths(found: Sequence[PathUsage], most: int, trees: int) -> None:
    beside = "" if any(row.is_directory for row in found) else f"; lists of directories: {size(trees)}"
    _heading(found, most, "path", f"stored = all versions together{beside}")
    rows = [
        (size(row.size), f"{row.versions:,}", fsio.show(row.path) + ("/" if row.is_directory else "")) for row in found[:most]
    ]
    _table(("stored", "versions", "path"), rows, numbers=2)


def _sessions(found: Sequence[SessionUsage], most: int) -> None:
    _heading(found, most, "session", "unique = what no other session needs")
    rows = [
        (
            size(row.unique), size(row.shared), size(row.transcripts), f"{row.checkpoints:,}", age(row.newest_ns),
            f"{row.agent} {row.session}" if row.session else "(no agent)",
        )
        for row in found[:most]
    ]  # fmt: skip
    _table(("unique", "shared", "transcript", "checkpoints", "newest", "session"), rows, numbers=4)


def _heading(found: Sequence[object], most: int, word: str, what: str) -> None:
    of = f"the largest {most:,} of {plural(len(found), word)}, -n N for more" if len(found) > most else plural(len(found), word)
    say()
    say(f"{of}; {what}")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> None:
    """Rows below their columns; the first `numbers` columns end at their right sides. What stands last gets the room that is
    left: what was said of a checkpoint is cut there, paths and sessions go on in the next line."""
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
    for place, name in enumerate(columns):
        side: Literal["left", "right"] = "right" if place < numbers else "left"
        table.add_column(name, justify=side, overflow="fold", no_wrap=name != columns[-1])
    room = console.width - sum(_BETWEEN + max(map(len, column)) for column in list(zip(columns, *rows, strict=True))[:-1])
    for row in rows:
        last = fsio.show(row[-1])
        is_long = columns[-1] == "what" and len(last) > max(room, _LEAST)
        table.add_row(*row[:-1], Text(last[: max(room, _LEAST) - 1] + "…" if is_long else last))
    with console.capture() as captured:  # printed by rich, a closed pipe would end in rich's own exit code
        console.print(table)
    for line in captured.get().splitlines():
        say(line.rstrip())
