"""The lines of the picker's panes as coloured texts. Colours are the terminal's own sixteen."""

from collections.abc import Collection, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ...messages import age_in_words, plural, printable
from ...model.diff import Change
from ...model.manifest import FILE
from ..show.changes import entry_details
from ..show.text import human_size
from . import picker_rows
from .file_tree import TreeLine
from .patch_lines import PatchLine
from .picker_rows import PickerRow, PickerTimeline

_SESSIONS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}
_PATCH = {"+": "green", "-": "red", "@": "cyan"}
_AGE, _COUNTS, _WHO = 11, 13, 12
"""Columns of the age, the numbers and the session of a row."""
_LEAST_TITLE = 32
"""The least columns of a title. If a title has fewer, a row shortens the age, then omits the session, then
omits the age."""
_SHORT = {" s ago": "s", " min ago": "m", " h ago": "h", " d ago": "d"}


def timeline_row(found: PickerTimeline, row: PickerRow, width: int, *, is_base: bool, is_unfolded: bool) -> Text:
    """A row: its session's colour, number and title, then age, numbers and session as far as they fit."""
    session = picker_rows.session_of(row)
    digits = len(str(found.turns)) + 1 if found.turns else 0
    text = Text()
    if session:
        text.append("▌", style=_SESSIONS[found.sessions.get(session, 0) % len(_SESSIONS)])
    else:
        text.append(" ")
    if digits:
        text.append(f"{picker_rows.number_of_turn(row):<{digits}} ", style="dim")
    text.append("◆" if is_base else "")
    if row.is_inside:
        text.append("  · ", style="dim")
    if picker_rows.is_pinned(found, row):
        text.append("* ", style="yellow")
    is_turn = bool(picker_rows.number_of_turn(row))
    text.append(picker_rows.row_title(found, row), style="" if is_turn and not picker_rows.is_taken_back(row) else "dim")
    if is_unfolded:
        text.append(" ▾", style="dim")
    if row.is_inside and found.points.get(row.target) is None:
        text.append("  of another worktree", style="dim")
    columns = _texts_beside_title(found, row, width)
    left = max(width - sum(cells for cells, _ in columns), 1) - bool(columns)
    note = picker_rows.remark_on(found, row)
    if not is_turn and text.cell_len + len(note) > left:
        note = picker_rows.title_ending(found, row)  # what a row is comes before what is special about it
    left -= len(note)
    text.truncate(max(left, 8), overflow="ellipsis")
    text.append(note, style="yellow").append(" " * max(left - text.cell_len + len(note), 0))
    for cells, part in columns:
        text.append(" ").append(part.append(" " * max(cells - 1 - part.cell_len, 0)))
    return text


def _texts_beside_title(found: PickerTimeline, row: PickerRow, width: int) -> list[tuple[int, Text]]:
    when = picker_rows.time_of(found, row)
    words = age_in_words(when) if when is not None else ""
    is_wide = width >= _AGE + _COUNTS + _WHO + _LEAST_TITLE
    if not is_wide:
        for long, short in _SHORT.items():
            words = words.removesuffix(long) + short if words.endswith(long) else words
    cells = _AGE if is_wide else 5
    columns = [(_COUNTS, _counts_of_row(row))]
    if width >= cells + _COUNTS + 16:
        columns.insert(0, (cells, Text(words.rjust(cells - 1), style="dim")))
    if width >= cells + _COUNTS + _WHO + _LEAST_TITLE:
        columns.append((_WHO, Text(picker_rows.agent_and_session(row), style="dim")))
    return columns


def _counts_of_row(row: PickerRow) -> Text:
    counts = picker_rows.change_counts(row)
    if counts is None:
        words = picker_rows.words_for_counts(row)
        return Text(words if len(words) < _COUNTS else words[: _COUNTS - 2] + "…", style="dim")
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
    text = Text(line.text, style=_PATCH.get(line.sign, "" if line.part >= 0 else "bold"))
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
