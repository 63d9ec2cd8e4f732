"""The lines of the picker's panes as coloured texts. Colours are the terminal's own sixteen."""

from collections.abc import Collection, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ...messages import age_in_words, plural, printable
from ...model.diff import Change
from ...model.manifest import FILE
from ..show.changes import entry_details
from ..show.text import colour_of_session, cut_to, human_size
from . import picker_rows
from .file_tree import TreeLine
from .patch_lines import PatchLine
from .picker_rows import PickerRow, PickerTimeline

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_PATCH = {"+": "green", "-": "red", "@": "cyan"}
_AGE, _SHORT_AGE, _COUNTS, _WHO, _ID_ALONE = 11, 5, 10, 12, 5
"""Columns of the age, of the short age, of the numbers, of agent and session, and of the session alone."""
_ROOMY_TITLE, _LEAST_TITLE = 60, 28
"""Columns that a title has before anything beside it is written out, and the least of them: a row with less room omits the
session, then the age. The colour in front of a row tells sessions apart, too."""


def timeline_row(found: PickerTimeline, row: PickerRow, width: int, *, is_base: bool, is_unfolded: bool) -> Text:
    """A row: its session's colour, number and title, then age, numbers and session as far as they fit."""
    digits = len(str(found.turns)) + 2 if found.turns else 0
    columns = _texts_beside_title(found, row, width - 1 - digits)
    text = _start_of_row(found, row, digits, is_base=is_base)
    start = text.cell_len
    text.append(picker_rows.row_title(found, row), style="" if picker_rows.is_turn_with_changes(row) else "dim")
    if is_unfolded:
        text.append(" ▾", style="dim")
    if row.is_inside and found.points.get(row.target) is None:
        text.append("  of another worktree", style="dim")
    left = max(width - sum(cells for cells, _ in columns), 1) - 1
    note = picker_rows.remark_on(found, row)
    least = start + _LEAST_TITLE if picker_rows.number_of_turn(row) else left
    if text.cell_len + len(note) > left and least + len(note) > left:
        note = picker_rows.title_ending(found, row)  # what a row is comes before what is special about it
    text.truncate(max(left - len(note), 8), overflow="ellipsis")
    text.append(note, style="yellow").truncate(left, overflow="ellipsis", pad=True)
    for cells, part in columns:
        text.append(" ").append(part.append(" " * max(cells - 1 - part.cell_len, 0)))
    return text


def _start_of_row(found: PickerTimeline, row: PickerRow, digits: int, *, is_base: bool) -> Text:
    """What stands in front of a title."""
    session = picker_rows.session_of(row)
    colour, _ = colour_of_session(found.sessions.get(session, 0))
    text = Text().append("▌" if session else " ", style=colour).append(f"{picker_rows.number_of_turn(row):<{digits}}", style="dim")
    text.append("◆" if is_base else "")
    if row.is_inside:
        text.append("  · ", style="dim")
    if picker_rows.is_pinned(found, row):
        text.append("* ", style="yellow")
    return text


def _texts_beside_title(found: PickerTimeline, row: PickerRow, width: int) -> list[tuple[int, Text]]:
    """The age, the numbers and the session: (columns, text), as far as they fit beside a title in `width` columns."""
    when = picker_rows.time_of(found, row)
    age = age_in_words(when) if when is not None else ""
    numbers = _counts_of_row(row, width // 3)
    cells = max(_COUNTS, numbers.cell_len + 1)
    counts = [(cells, numbers)]
    if width >= _AGE + _COUNTS + _WHO + _ROOMY_TITLE:
        return [(_AGE, Text(age.rjust(_AGE - 1), style="dim")), *counts, (_WHO, Text(picker_rows.agent_and_session(row), style="dim"))]
    if width >= _SHORT_AGE + _COUNTS + _LEAST_TITLE:
        counts.insert(0, (_SHORT_AGE, Text(_short_age(age).rjust(_SHORT_AGE - 1), style="dim")))
    if len(found.sessions) > 1 and width >= _SHORT_AGE + _COUNTS + _ID_ALONE + _LEAST_TITLE:
        counts.append((_ID_ALONE, Text(picker_rows.short_session(row), style="dim")))
    return counts


def _short_age(age: str) -> str:
    """An age as its number and the first letter of its unit: "3 min ago" is "3m". "?" in place of other words."""
    number, unit, ago = age.split() if age else ("", " ", "ago")
    return f"{number}{unit[0]}" if ago == "ago" else "?"


def _counts_of_row(row: PickerRow, width: int) -> Text:
    """The numbers of a row, whole, or words in their place, in at most `width` columns."""
    counts = picker_rows.change_counts(row)
    if counts is None:
        return Text(cut_to(picker_rows.words_for_counts(row), max(width, _COUNTS - 1)), style="dim")
    if counts == (0, 0, 0):
        return Text("no change", style="dim")
    text = Text()
    for sign, number in zip("+~-", (counts.added, counts.modified, counts.removed), strict=True):
        if number:
            text.append(" " if text else "").append(f"{sign}{number}", style=_COLOURS[sign])
    return text


def tree_line(
    line: TreeLine, paths: Sequence[bytes], checked: Collection[bytes], parts: Collection[bytes], lines_of: Mapping[bytes, str]
) -> Text:
    """A directory or a file of the tree: its box, sign and name, then numbers."""
    text = Text(_choice_box(paths, checked, parts)).append(line.sign, style=_COLOURS[line.sign])
    text.append("  " + "  " * line.depth)
    if line.change is None:
        text.append("▸ " if line.is_folded else "▾ ", style="dim").append(line.name, style="bold")
        return text.append(f" ({plural(line.end - line.start, 'file')})", style="dim")
    text.append(line.name)
    return text.append(lines_of.get(line.change.path, "")).append(change_details(line.change), style="dim")


def _choice_box(paths: Sequence[bytes], checked: Collection[bytes], parts: Collection[bytes]) -> str:
    """The box before a line: [x] chosen, [~] a part of it, [ ] not chosen. `parts`: files with some parts chosen. Without a
    path that can be chosen there is no box."""
    if not paths:
        return "    "
    chosen = sum(path in checked for path in paths)
    if chosen == len(paths):
        return "[x] "
    return "[~] " if chosen or any(path in parts for path in paths) else "[ ] "


def patch_line(line: PatchLine, *, is_choice: bool, is_chosen: bool) -> Text:
    """A line of a patch. Hunks that can be chosen have a box; a chosen one has a bar on its left."""
    text = Text(line.text, style=_PATCH.get(line.sign, "" if line.sign else "bold"))
    for start, end, style in line.spans:
        text.stylize(style, start, end)
    if line.sign == "@" and is_choice:
        return Text().append("[x] " if is_chosen else "[ ] ", style="bold").append_text(text)
    return Text().append("▌", style="bold").append_text(text) if is_chosen and line.part >= 0 else text


def wrapped(text: str, width: int, console: Console) -> list[Text]:
    """The lines of a text, divided into lines of at most `width` columns."""
    found: list[Text] = []
    for line in text.splitlines():
        found += Text(printable(line.expandtabs())).wrap(console, width) if line.strip() else [Text()]
    while found and not found[-1].plain.strip():
        found.pop()
    return found


def footer(keys: Sequence[str], width: int) -> Text:
    """The keys, in lines that break only between keys."""
    lines: list[Text] = []
    for line in parts_in_lines(keys, width, 2):
        pairs = [("[ ]", key[4:]) if key.startswith("[ ]") else key.split(" ", 1) for key in line]
        lines.append(Text("  ").join(Text().append(name, style="bold").append(" " + what) for name, what in pairs))
    return Text("\n").join(lines)


def parts_in_lines(parts: Sequence[str], width: int, gap: int) -> list[list[str]]:
    """Parts in lines of at most `width` columns, which break only between parts; `gap` columns are between two parts."""
    lines: list[list[str]] = []
    left = 0
    for part in parts:
        if lines and left >= gap + cell_len(part):
            lines[-1].append(part)
            left -= gap + cell_len(part)
        else:
            lines.append([part])
            left = width - cell_len(part)
    return lines


def change_details(change: Change) -> str:
    """Further details of a changed path."""
    if change.old is None or change.new is None:
        entry = change.new or change.old
        return f"  {human_size(entry.size)}" if entry is not None and entry.kind == FILE else ""
    found = entry_details(change.old, change.new)
    return f"  ({found})" if found else ""
