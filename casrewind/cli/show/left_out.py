"""What ignore rules leave out, as lines and as JSON: the entries that `worktree/ignored.py` found.

The danger prevented here: a person believes that something is protected, because no line speaks of it. So what tools make
again, which is a guess by its name, is counted and has a line of its own, and a search with an end says that it had one.
"""

from collections.abc import Iterator, Sequence

from ..._typing import TYPE_CHECKING
from ...messages import age_in_words, plural, printable, shell_quoted_path
from . import shapes
from .text import DIM, SHOWN, Line, column_width, human_size, styled

if TYPE_CHECKING:
    from ...upkeep.inclusion import LostRule
    from ...worktree.ignored import Ignored, IgnoredEntry
    from .shapes import Shape

_NAMED = 5
"""Ignored entries per line, at most."""
_COLUMNS = 78
"""Of a terminal, without the two that `status` puts in front."""
SEARCH_ENDED = styled(("more may be left out; casrewind status --ignored looks everywhere", DIM))


def ignored_lines(found: "Ignored") -> Iterator[Line]:
    """All of the entries, in a few lines."""
    yield from unprotected_lines(found)
    guessed = _find_guessed(found)
    if guessed:
        end = f" ({_count_files(found, guessed)}); status --ignored lists {'them' if found.is_complete else 'all'}"
        lines = [f"also left out: {_name_some(guessed, most)}{end}" for most in range(_NAMED, 0, -1)]
        yield styled((next((line for line in lines if column_width(line) <= _COLUMNS), lines[-1]), DIM))
    elif not found.is_complete:
        yield SEARCH_ENDED


def lines_of_all_ignored(found: "Ignored") -> Iterator[Line]:
    """A line for each of the entries, found without a limit."""
    guessed = _find_guessed(found)
    yield from _list_entries("not protected, because git ignores it:", _find_unprotected(found))
    yield from _list_entries(f"also left out, because tools make them again ({_count_files(found, guessed)}):", guessed)
    if found.unreadable is not None:
        yield Line(f"{printable(found.unreadable or b'.')} cannot be read: more may be left out")
    elif not found.entries:
        yield Line("nothing is left out by ignore rules")


def unprotected_lines(found: "Ignored") -> Iterator[Line]:
    """A few names of the entries that tools do not make again, and how to protect one."""
    unprotected = _find_unprotected(found)
    if unprotected:
        yield Line(f"not protected, because git ignores it: {_name_some(unprotected, _NAMED)}")
        yield Line(f"  casrewind include {shell_quoted_path(unprotected[0].path + b'/' * unprotected[0].is_dir)} protects it")


def gone_lines(gone: "Sequence[tuple[bytes, int]]") -> Iterator[Line]:
    """A few of the entries that were left out and are gone, newest first: each is a path and when it was seen (ns since 1970)."""
    for path, seen_ns in gone[:_NAMED]:
        yield Line(f"gone, and was not protected: {printable(path)}, last seen {age_in_words(seen_ns)}")
    if len(gone) > _NAMED:
        yield Line(f"  ... and {len(gone) - _NAMED:,} more; status --json has them all")


def gone_shape(gone: "Sequence[tuple[bytes, int]]") -> "list[Shape]":
    """The same as JSON."""
    return [{**shapes.path(path), "last_seen_at": shapes.time_of(seen_ns)} for path, seen_ns in gone]


def ignored_shape(found: "Ignored") -> "Shape":
    """All of the entries as members of a JSON object."""
    return {"ignored": map(_entry_shape, found.entries), "ignored_complete": found.is_complete}


def _entry_shape(entry: "IgnoredEntry") -> "Shape":
    return {
        **shapes.path(entry.path), "bytes": entry.size, "directory": entry.is_dir, "files": entry.files,
        "recreatable": entry.is_recreatable,
    }  # fmt: skip


def _find_unprotected(found: "Ignored") -> "list[IgnoredEntry]":
    return [each for each in found.entries if not each.is_recreatable]


def _find_guessed(found: "Ignored") -> "list[IgnoredEntry]":
    """The entries that tools make again, directories first."""
    guessed = [each for each in found.entries if each.is_recreatable]
    guessed.sort(key=lambda each: (not each.is_dir, each.path.count(b"/"), each.path))
    return guessed


def _count_files(found: "Ignored", some: "Sequence[IgnoredEntry]") -> str:
    return ("" if found.is_complete else "at least ") + plural(sum(each.files for each in some), "file")


def _list_entries(title: str, some: "Sequence[IgnoredEntry]") -> Iterator[Line]:
    if some:
        yield Line(title)
    for each in some:
        files = f"{plural(each.files, 'file')}, " if each.is_dir else ""
        yield Line(f"  {_name_in_words(each)}  {files}{human_size(each.size)}")


def _name_some(some: "Sequence[IgnoredEntry]", most: int) -> str:
    more = f" and {len(some) - most:,} more" if len(some) > most else ""
    return ", ".join(map(_name_in_words, some[:most])) + more


def _name_in_words(entry: "IgnoredEntry") -> str:
    return printable(entry.path) + ("/" if entry.is_dir else "")


def lost_rule_lines(rules: "Sequence[LostRule]") -> Iterator[Line]:
    """What a plan would stop protecting: the rules that it removes."""
    if rules:
        names = ", ".join(printable(rule.text) for rule in rules[:SHOWN]) + (", ..." if len(rules) > SHOWN else "")
        files = ", ".join(printable(file) for file in dict.fromkeys(rule.file for rule in rules))
        yield Line(f"NOTE: {names} would no longer be protected: this removes rules of {files} (casrewind include)")
