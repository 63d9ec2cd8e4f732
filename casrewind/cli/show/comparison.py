"""Prints a comparison in the requested form."""

import sys
from collections.abc import Collection, Iterator, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import printable
from ...model.diff import Change, Counts
from ...model.diff import count as count_changes
from ...ops.compare import Comparison
from ...ops.rename_detection import Rename, find
from ..terminal import colour
from ..terminal.lines import print_line, raw
from . import changes, diffstat, patch
from .text import counted

if TYPE_CHECKING:
    from ..command_line import ParsedOptions

SUMMARY, PATCH, STAT, NAME_STATUS, NAME_ONLY, ENTRIES = "summary", "patch", "stat", "name-status", "name-only", "entries"
_LETTERS = {"added": "A", "modified": "M", "removed": "D", "type": "T"}
_BOLD, _CYAN, _GREEN, _RED = "1", "36", "32", "31"


class Form(NamedTuple):
    """The form of a comparison.

    `name` is one of the forms above, except the last, which lists a checkpoint's entries. `context` (lines) and `words`
    apply to patches.
    """

    name: str = SUMMARY
    context: int = patch.CONTEXT
    words: bool = False
    renames: bool = True


def form_of(options: "ParsedOptions") -> Form:
    """The form that a command line requests. -U or --word-diff alone requests a patch."""
    context, words = getattr(options, "context", None), getattr(options, "word_diff", False)
    name = options.form
    if name in (SUMMARY, ENTRIES) and (context is not None or words):
        name = PATCH
    return Form(name, patch.CONTEXT if context is None else context, words, not getattr(options, "no_renames", False))


def print_comparison(found: Comparison, form: Form, shared: Collection[bytes] = ()) -> None:
    """Print a comparison. Summary and table mark paths that another turn may have changed (`shared`) with "?"."""
    renames = find(found) if form.renames else ()
    if form.name == PATCH:
        for change, rename in pairs(changes.telling(found.changes), renames):
            _print_patch(patch.lines(found, change, rename, context=form.context, words=form.words), words=form.words)
    elif form.name == STAT:
        table = [(pair[0].path, diffstat.count(found, *pair)) for pair in pairs(changes.telling(found.changes), renames)]
        for line in diffstat.lines([row._replace(name=f"{row.name} ?") if path in shared else row for path, row in table]):
            print_line(line)
        print_unclear(found)
    elif form.name == SUMMARY:
        for row in changes.rows(found.changes, renames):
            print_line(row.text() + (" ?" if row.path in shared else ""))
        print_line(_sum(found.changes, renames) if found.changes else "no difference")
        print_unclear(found)
    else:
        for change, rename in pairs(changes.telling(found.changes), renames):
            _print_name(change, rename, with_status=form.name == NAME_STATUS)


def print_unclear(found: Comparison) -> None:
    """Name the paths that one side did not capture. They are no changes."""
    for line in changes.unclear_lines(found.unclear):
        print_line(f" {line}")


def pairs(found: Sequence[Change], renames: Sequence[Rename]) -> Iterator[tuple[Change, Rename | None]]:
    """The changes by path, each with its rename if it has a rename. A rename appears once, under the new path."""
    sources, places = {item.source for item in renames}, {item.path: item for item in renames}
    for change in found:
        rename = places.get(change.path) if change.old is None else None
        if rename is not None:
            yield rename.change, rename
        elif change.new is not None or change.path not in sources:
            yield change, None


def _sum(found: Sequence[Change], renames: Sequence[Rename]) -> str:
    counts = count_changes(list(found))
    if not renames:
        return counted(counts)
    left = Counts(counts.added - len(renames), counts.modified, counts.removed - len(renames))
    return f"{counted(left)}, {len(renames)} renamed"


def _print_name(change: Change, rename: Rename | None, *, with_status: bool) -> None:
    name = printable(change.path)
    if not with_status:
        print_line(name)
    elif rename is None:
        print_line(f"{_LETTERS[change.status]}\t{name}")
    else:
        print_line(f"R{rename.similarity:03}\t{printable(rename.source)}\t{name}")


def _print_patch(lines: Iterator[bytes], *, words: bool) -> None:
    """Print a patch: raw bytes for a program; for a terminal in colour, without control sequences."""
    is_shown, is_coloured = colour.is_terminal(sys.stdout), colour.is_on(sys.stdout, for_programs=True)
    is_head = True
    for data in lines:
        is_head = (is_head and not data.startswith(b"@@")) or data.startswith(b"diff --")
        if is_shown:  # content may contain control sequences for a terminal
            data = printable(data[:1] + data[1:].replace(b"\t", b"        ")).encode("utf-8", "backslashreplace")
        if is_coloured:
            data = _coloured(data, is_head=is_head, words=words)
        raw(data + b"\n")


def _coloured(data: bytes, *, is_head: bool, words: bool) -> bytes:
    """A line of a patch in git's colours."""
    if is_head:
        return _in(_BOLD, data)
    if data.startswith(b"@@"):
        head, end, place = data.partition(b" @@")
        return _in(_CYAN, head + end) + place
    if words:
        for (opening, closing), code in ((patch.REMOVED, _RED), (patch.ADDED, _GREEN)):
            data = data.replace(opening, b"\x1b[%bm" % code.encode() + opening).replace(closing, closing + b"\x1b[m")
        return data
    code = {b"+": _GREEN, b"-": _RED}.get(data[:1], "")
    return _in(code, data) if code else data


def _in(code: str, data: bytes) -> bytes:
    return b"\x1b[" + code.encode() + b"m" + data + b"\x1b[m"
