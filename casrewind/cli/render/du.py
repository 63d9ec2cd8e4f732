"""What a person reads of the space that a store takes."""

from collections.abc import Sequence

from ... import fsio
from ...model import checkpoint as checkpoints
from ...ops.references import label_of
from ...ops.usage import CheckpointUsage, PathUsage, SessionUsage, Usage
from . import columns
from .text import age, plural, say, size


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
        told = fsio.show(("* " if row.marked.pinned else "") + what)
        rows.append((size(row.unique), size(row.shared), point.id, age(point.created_ns), point.trigger.replace("_", " "), told))
    columns.table(("unique", "shared", "id", "when", "trigger", "what"), rows, right=("unique", "shared"), last="what", cut=True)


def _paths(found: Sequence[PathUsage], most: int, trees: int) -> None:
    beside = "" if any(row.is_directory for row in found) else f"; lists of directories: {size(trees)}"
    _heading(found, most, "path", f"stored = all versions together{beside}")
    rows = [
        (size(row.size), f"{row.versions:,}", fsio.show(row.path) + ("/" if row.is_directory else "")) for row in found[:most]
    ]
    columns.table(("stored", "versions", "path"), rows, right=("stored", "versions"), last="path")


def _sessions(found: Sequence[SessionUsage], most: int) -> None:
    _heading(found, most, "session", "unique = what no other session needs")
    rows = [
        (
            size(row.unique), size(row.shared), size(row.transcripts), f"{row.checkpoints:,}", age(row.newest_ns),
            fsio.show(f"{row.agent} {row.session}") if row.session else "(no agent)",
        )
        for row in found[:most]
    ]  # fmt: skip
    names = ("unique", "shared", "transcript", "checkpoints", "newest", "session")
    columns.table(names, rows, right=names[:4], last="session")


def _heading(found: Sequence[object], most: int, word: str, what: str) -> None:
    of = f"the largest {most:,} of {plural(len(found), word)}, -n N for more" if len(found) > most else plural(len(found), word)
    say()
    say(f"{of}; {what}")
