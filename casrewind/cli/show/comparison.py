"""A comparison as lines, in the requested form."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...history.rename_detection import find_renames
from ...messages import printable
from ...model.diff import Change, Counts, count, counted_changes
from . import changes
from .text import BOLD, COLOURS, CONTEXT, CYAN, Line, counts_in_words

if TYPE_CHECKING:
    from ...history.compare import Comparison
    from ...history.rename_detection import Rename
    from ..grammar.command_line import ParsedOptions

SUMMARY, PATCH, STAT, NAME_STATUS, NAME_ONLY, ENTRIES = "summary", "patch", "stat", "name-status", "name-only", "entries"
_LETTERS = {"added": "A", "modified": "M", "removed": "D", "type": "T"}
_MARKED = r"(?s)(\[-.*?-\])|\{\+.*?\+\}"
"""Words that a patch marks: removed ones, or added ones."""


class Form(NamedTuple):
    """The form of a comparison.

    `name` is one of the forms above, except the last, which lists a checkpoint's entries. `context` (lines) and `words`
    apply to patches.
    """

    name: str = SUMMARY
    context: int = CONTEXT
    words: bool = False
    renames: bool = True


def form_of(options: "ParsedOptions") -> Form:
    """The form that a command line requests. -U or --word-diff alone requests a patch."""
    context, words = getattr(options, "context", None), getattr(options, "word_diff", False)
    name = options.form
    if name in (SUMMARY, ENTRIES) and (context is not None or words):
        name = PATCH
    return Form(name, CONTEXT if context is None else context, words, not getattr(options, "no_renames", False))


def comparison_lines(
    found: "Comparison", form: Form, columns: int, shared: Collection[bytes] = (), makers: Mapping[bytes, str] | None = None
) -> Iterator[Line]:
    """The lines of a comparison. Summary and table mark paths that another turn may have changed (`shared`) with "?". `makers`: what
    the summary says behind a path, or behind a directory with its slash.

    A table fits into `columns`.
    """
    renames = find_renames(found) if form.renames else ()
    changed = changes.changes_with_renames(counted_changes(found.changes), renames)
    if form.name == PATCH:
        from . import patch

        for change, rename in changed:
            yield from patch_lines(patch.patch_of_change(found, change, rename, context=form.context, words=form.words), words=form.words)
    elif form.name == STAT:
        from . import diffstat

        table = [(pair[0].path, diffstat.count_lines(found, *pair)) for pair in changed]
        rows = [row._replace(name=f"{row.name} ?") if path in shared else row for path, row in table]
        yield from diffstat.table_lines(rows, columns)
        yield from changes.unclear_lines(found.unclear)
    elif form.name == SUMMARY:
        for row in changes.change_rows(found.changes, renames):
            yield row.line().with_around("", " ?" if row.path in shared else "  " + makers.get(row.path, "?") if makers else "")
        yield Line(_summary_line(found.changes, renames) if found.changes else "no difference")
        yield from changes.unclear_lines(found.unclear)
    else:
        for change, rename in changed:
            yield Line(_shown_name(change, rename, with_status=form.name == NAME_STATUS))


def _summary_line(found: Sequence[Change], renames: "Sequence[Rename]") -> str:
    counts = count(found)
    if not renames:
        return counts_in_words(counts)
    left = Counts(counts.added - len(renames), counts.modified, counts.removed - len(renames))
    return f"{counts_in_words(left)}, {len(renames)} renamed"


def _shown_name(change: Change, rename: "Rename | None", *, with_status: bool) -> str:
    name = printable(change.path)
    if not with_status:
        return name
    if rename is None:
        return f"{_LETTERS[change.status]}\t{name}"
    return f"R{rename.similarity:03}\t{printable(rename.source)}\t{name}"


def patch_lines(found: Iterable[bytes], *, words: bool = False) -> Iterator[Line]:
    """The lines of a patch in git's colours."""
    is_head = True
    for data in found:
        is_head = (is_head and not data.startswith(b"@@")) or data.startswith(b"diff --")
        text = data.decode("utf-8", "surrogateescape")
        yield Line(text, tuple(_styles_of_patch_line(text, is_head=is_head, words=words)), is_content=True)


def _styles_of_patch_line(text: str, *, is_head: bool, words: bool) -> Iterator[tuple[int, int, str]]:
    if is_head:
        yield 0, len(text), BOLD
    elif text.startswith("@@"):
        head, end, _ = text.partition(" @@")
        yield 0, len(head + end), CYAN
    elif words:
        import re

        yield from ((found.start(), found.end(), COLOURS["-" if found[1] else "+"]) for found in re.finditer(_MARKED, text))
    elif text[:1] in ("+", "-"):
        yield 0, len(text), COLOURS[text[0]]
