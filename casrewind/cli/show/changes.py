"""Changes as lines, one for each counted path: added, modified, removed or renamed. A directory added or removed whole is
one line.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...messages import plural, printable
from ...model.diff import Change, count, counted_changes, topmost_unclear
from ...model.manifest import FILE, Entry, is_directory
from .text import COLOURS, SHOWN, SIGNS, Line, human_size, styled

if TYPE_CHECKING:
    from ...history.compare import Comparison
    from ...history.rename_detection import Rename

RENAMED = "R"
_NAMED_IN_PART = 3
"""What the row of a directory names of the paths below it."""


class Row(NamedTuple):
    """One line: its sign, the path (or both paths) as bytes, details, and the number of files that it covers. `is_part`: there may
    be others below its path."""

    sign: str
    path: bytes
    source: bytes | None
    more: str
    files: int
    is_part: bool = False

    def line(self) -> Line:
        """The row as a line, with its sign in colour."""
        name = f"{plural(self.files, 'file')} in {printable(self.path)}" if self.is_part else printable(self.path)
        if self.source is not None:
            name = f"{printable(self.source)} -> {name}"
        more = f" ({self.more})" if self.more else ""
        return styled((self.sign, COLOURS[self.sign]), f" {name}{more}")


def entry_details(old: Entry | None, new: Entry | None) -> str:
    """Further details of a changed path: mode, kind, size."""
    if old is None or new is None:
        return ""
    parts = []
    if (old.mode ^ new.mode) & 0o777:
        parts.append(f"mode {old.mode & 0o777:04o} -> {new.mode & 0o777:04o}")
    if old.kind != new.kind:
        parts.append(f"{old.kind} -> {new.kind}")
    elif old.size != new.size:
        before, after = human_size(old.size), human_size(new.size)
        parts.append(f"{before} -> {after}" if before != after else f"{old.size:,} -> {new.size:,} bytes")
    elif parts and old.kind == FILE and old.digest != new.digest:
        parts.append(f"other content, {human_size(new.size)} as before")
    return ", ".join(parts)


def change_rows(changes: Sequence[Change], renames: "Iterable[Rename]" = ()) -> list[Row]:
    """The lines of these changes, sorted by path. A directory added or removed whole is one line."""
    moved = list(renames)
    gone = {change.path for change in changes if is_directory(change.old) and not is_directory(change.new)}
    come = {change.path for change in changes if is_directory(change.new) and not is_directory(change.old)}
    sources, places = {item.source for item in moved}, {item.path for item in moved}
    found: list[Row] = []
    moved_dirs = _moved_directories(changes, moved, gone, come)
    for (source, place), items in moved_dirs.items():
        edited = sum(item.similarity < 100 for item in items)
        more = plural(len(items), "file") + (f", {edited} of them changed" if edited else "")
        found.append(Row(RENAMED, place + b"/", source + b"/", more, len(items)))
    in_moved = {item.path for items in moved_dirs.values() for item in items}
    found += [_row_of_rename(item) for item in moved if item.path not in in_moved]
    folded: dict[tuple[str, bytes], list[Change]] = {}
    for change in counted_changes(changes):
        if (change.new is None and change.path in sources) or (change.old is None and change.path in places):
            continue
        sign = SIGNS[change.status]
        above = None if sign == "~" else _highest_directory_with(change.path, gone if sign == "-" else come)
        if above is None:
            found.append(Row(sign, shown_path(change), None, entry_details(change.old, change.new), 1))
        else:
            folded.setdefault((sign, above), []).append(change)
    found += (_row_of_whole_directory(sign, above, below) for (sign, above), below in folded.items())
    return sorted(found, key=lambda row: (row.path, row.sign))


def rows_by_directory(rows: Sequence[Row], most: int, apart: Container[bytes] = ()) -> list[Row]:
    """At most `most` rows, if that can be had: the deepest directories stand for what they hold, and name the first of it.
    The paths `apart` keep their rows."""
    found = list(rows)
    for depth in range(max((row.path.rstrip(b"/").count(b"/") for row in rows), default=0), 0, -1):
        if len(found) <= most:
            break
        below: dict[tuple[str, bytes], list[Row]] = {}
        for row in found:
            parts = row.path.rstrip(b"/").split(b"/")
            above = b"/".join(parts[:depth]) + b"/" if len(parts) > depth and row.path not in apart else row.path
            below.setdefault((row.sign, above), []).append(row)
        found = [some[0] if len(some) == 1 else _row_of_part(above, some) for (_, above), some in below.items()]
    return found


def _row_of_part(above: bytes, some: Sequence[Row]) -> Row:
    """The row of a directory for those below it."""
    names = [printable(row.path.removeprefix(above)) for row in some[:_NAMED_IN_PART]]
    more = ", ".join([*names, "..."] if len(some) > len(names) else names)
    return Row(some[0].sign, above, None, more, sum(row.files for row in some), is_part=True)


def changes_with_renames(found: Sequence[Change], renames: "Sequence[Rename]") -> "Iterator[tuple[Change, Rename | None]]":
    """The changes by path, each with its rename if it has a rename. A rename appears once, under the new path."""
    sources, places = {item.source for item in renames}, {item.path: item for item in renames}
    for change in found:
        rename = places.get(change.path) if change.old is None else None
        if rename is not None:
            yield rename.change, rename
        elif change.new is not None or change.path not in sources:
            yield change, None


def shown_path(change: Change) -> bytes:
    """The path of a change, with a slash behind a directory."""
    return change.path + b"/" if is_directory(change.new or change.old) else change.path


def unclear_lines(unclear: Iterable[Change]) -> Iterator[Line]:
    """The paths that one side did not capture, which are no changes. A directory stands for everything in it."""
    by_reason = _unclear_by_reason(unclear)
    return (Line(f" {words}: {first_names([shown_path(change) for change in some])}") for words, some in by_reason if some)


def first_names(paths: Sequence[bytes]) -> str:
    """The first paths, and how many more there are."""
    names = ", ".join(printable(path) for path in paths[: SHOWN])
    return f"{names} and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else names


def unclear_notes(unclear: Iterable[Change]) -> list[str]:
    """How many paths one side did not capture."""
    return [f"{len(some):,} {words}" for words, some in _unclear_by_reason(unclear) if some]


def _unclear_by_reason(unclear: Iterable[Change]) -> list[tuple[str, list[Change]]]:
    found = topmost_unclear(unclear)
    return [
        ("captured since", [change for change in found if change.old is None]),
        ("no longer captured", [change for change in found if change.new is None]),
    ]


def _row_of_rename(item: "Rename") -> Row:
    parts = [f"{item.similarity}% the same" if item.similarity < 100 else "", entry_details(item.old, item.new)]
    return Row(RENAMED, item.path, item.source, ", ".join(part for part in parts if part), 1)


def _highest_directory_with(path: bytes, directories: set[bytes]) -> bytes | None:
    """The highest of these directories that is the path or contains it."""
    end = path.find(b"/")
    while end >= 0:
        if path[:end] in directories:
            return path[:end]
        end = path.find(b"/", end + 1)
    return path if path in directories else None


def _row_of_whole_directory(sign: str, above: bytes, below: Sequence[Change]) -> Row:
    """The line of a directory added or removed whole, or the line of its only file."""
    if len(below) == 1:
        return Row(sign, shown_path(below[0]), None, "", 1)
    return Row(sign, above + b"/", None, plural(len(below), "file"), len(below))


def _moved_directories(
    changes: Sequence[Change], moved: "Sequence[Rename]", gone: set[bytes], come: set[bytes]
) -> "dict[tuple[bytes, bytes], list[Rename]]":
    """The directories that moved: all their files are now in another new directory, under the same names."""
    groups: dict[bytes, list[Rename]] = {}
    for item in moved:
        above = _highest_directory_with(item.source, gone)
        if above is not None:
            groups.setdefault(above, []).append(item)
    files: dict[bytes, int] = {}
    for change in changes:
        if change.new is None and not is_directory(change.old):
            above = _highest_directory_with(change.path, gone)
            if above is not None:
                files[above] = files.get(above, 0) + 1
    found = {}
    for source, items in groups.items():
        ends = {item.path.removesuffix(item.source[len(source) :]) for item in items}
        place = min(ends)
        if len(items) > 1 and files[source] == len(items) and len(ends) == 1 and place in come:
            found[source, place] = items
    return found


def counts_by_kind(found: "Comparison", *, is_to_here: bool) -> str:
    """The number of files for each kind of change, and what is not clear. `is_to_here`: what a restore would do."""
    counted = count(found.changes)
    names = ("go", "change", "come back") if is_to_here else ("removed", "changed", "added")
    numbers = (counted.removed, counted.modified, counted.added)
    words = [f"{number:,} {name}" for number, name in zip(numbers, names, strict=True) if number]
    return ", ".join([*(words or ["no file differs" if is_to_here else "no file changed"]), *unclear_notes(found.unclear)])
