"""The result of a pin or unpin as a line."""

from collections.abc import Iterator

from ..._typing import TYPE_CHECKING
from ...messages import printable
from .text import Line

if TYPE_CHECKING:
    from ...upkeep.pins import Marking


def marking_lines(report: "Marking") -> Iterator[Line]:
    """What is pinned or unpinned now, with its label."""
    name, label = report.checkpoint.id, printable(report.label)
    if not report.changed:
        already = f"{name} is pinned already{f', its label is {label!r}' if label else ''}"
        yield Line(already if report.marked.pinned else f"{name} is not pinned, and no label keeps it")
    elif not report.marked.pinned:
        yield Line(f"unpinned {name}{f'; its label {label!r} stays, and does not keep it any more' if label else ''}")
    else:
        before = f" (it was {printable(report.before)!r})" if report.before not in ("", report.label) else ""
        yield Line(f"pinned {name}{f', its label is {label!r}' if label else ''}{before}")
