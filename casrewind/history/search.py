"""Which changes add or remove a text: the number of its occurrences differs, or an added or removed line matches.

The danger prevented here: a text that was not looked for is taken for absent. Files that are not searched are named.
"""

import re
from collections.abc import Iterable

from .. import errors
from ..model.diff import Change
from ..model.line_diff import blocks, is_binary, lines_of
from ..model.manifest import FILE, LINK, PURGED, Entry
from . import rename_detection
from .compare import Comparison
from .restorable import JudgedChanges

LARGEST = 4 << 20
"""Size of a file that is searched."""
TOO_LARGE, WAS_PURGED, CHANGED = "too_large", "purged", "changed"
"""Why a file was not searched."""


class TextQuery:
    """Counts a text. Two contents differ if the numbers differ."""

    def __init__(self, text: bytes) -> None:
        """Raises UsageError for an empty text."""
        if not text:
            raise errors.UsageError("the text to search for is empty")
        self._text = text

    def occurrences(self, data: bytes) -> int:
        """How often the text occurs."""
        return data.count(self._text)


class LineQuery:
    """Finds lines that match a regular expression of Python. Two contents differ if one has other such lines than the other,
    or has them elsewhere."""

    def __init__(self, pattern: str) -> None:
        """Raises UsageError for what is no regular expression."""
        if not pattern:
            raise errors.UsageError("the regular expression to search for is empty")
        try:
            self._search = re.compile(pattern).search
        except (re.error, RecursionError, OverflowError) as error:
            raise errors.UsageError(f"no regular expression: {error}", "-S searches for the text as it is") from error

    def occurrences(self, data: bytes) -> tuple[int, int]:
        """How many lines match, and which."""
        found = sorted(line for line in lines_of(data) if self._matches_pattern(line))
        return len(found), hash(tuple(found))

    def is_moved(self, old: bytes, new: bytes) -> bool:
        """True if a matching line was moved: it is removed in one place and added in another one."""
        before, after = lines_of(old), lines_of(new)
        return any(
            any(map(self._matches_pattern, (*before[block.old_start : block.old_end], *after[block.new_start : block.new_end])))
            for block in blocks(before, after)
        )

    def _matches_pattern(self, line: bytes) -> bool:
        return self._search(line.removesuffix(b"\n").decode("utf-8", "surrogateescape")) is not None


class Search:
    """Finds the changes that differ in a query. Each content is searched once.

    `not_searched`: paths with a content that was not searched, and why. `binary`: paths of binary files that were found.
    """

    def __init__(self, query: TextQuery | LineQuery) -> None:
        """`query`: what is searched for."""
        self._query = query
        self._nothing: object = query.occurrences(b"")
        self._known: dict[tuple[str, bytes, bytes], tuple[object, bool]] = {}  # by content: what it has; whether it is binary
        self.not_searched: dict[bytes, str] = {}
        self.binary: set[bytes] = set()

    def matching_changes(self, found: Comparison) -> JudgedChanges:
        """The known and the unclear changes that differ. `damaged`: a content cannot be read. A file that was only renamed
        does not differ."""
        damage: list[bytes] = []
        changes, unclear = (
            tuple(change for change in some if self._is_found(found, change, damage)) for some in (found.changes, found.unclear)
        )
        renames = rename_detection.find_renames(found._replace(changes=changes))
        same = [item for item in renames if not self._is_found(found, item.change, damage)]
        unchanged = {item.source for item in same} | {item.path for item in same}
        changes = tuple(change for change in changes if change.path not in unchanged)
        self.binary -= unchanged
        return JudgedChanges(changes, unclear, bool(damage))

    def note_purged_paths(self, purged: Iterable[bytes]) -> None:
        """Note purged paths as not searched."""
        self.not_searched.update(dict.fromkeys(purged, WAS_PURGED))

    def _is_found(self, found: Comparison, change: Change, damage: list[bytes]) -> bool:
        try:
            return self._differs_in_query(found, change)
        except errors.StoreDamaged:
            damage.append(change.path)
            return False

    def _differs_in_query(self, found: Comparison, change: Change) -> bool:
        old, new = (one if one is not None and one.kind in (FILE, LINK, PURGED) else None for one in (change.old, change.new))
        if old is not None and new is not None and _content_key(old) == _content_key(new):
            return False
        for entry in (old, new):
            if entry is not None and (entry.kind == PURGED or entry.size > LARGEST):
                self.not_searched[change.path] = WAS_PURGED if entry.kind == PURGED else TOO_LARGE
                return False
        before, after = self._ask_content(found, change.path, old, of_new=False), self._ask_content(found, change.path, new, of_new=True)
        if before is None or after is None:
            self.not_searched[change.path] = CHANGED
            return False
        if before[0] == after[0]:
            if before[0] == self._nothing or isinstance(self._query, TextQuery):
                return False
            was, now = (self._read_or_none(found, change.path, entry, of_new=is_new) for entry, is_new in ((old, False), (new, True)))
            if was is None or now is None or not self._query.is_moved(was, now):
                return False
        if before[1] or after[1]:
            self.binary.add(change.path)
        return True

    def _ask_content(self, found: Comparison, path: bytes, entry: Entry | None, *, of_new: bool) -> tuple[object, bool] | None:
        """Returns (the result of the query for a content, True if it is binary), or None if the content cannot be read any more."""
        if entry is None:
            return self._nothing, False
        key = _content_key(entry)
        if key not in self._known:
            data = self._read_or_none(found, path, entry, of_new=of_new)
            if data is None:
                return None
            self._known[key] = self._query.occurrences(data), is_binary(data)
        return self._known[key]

    def _read_or_none(self, found: Comparison, path: bytes, entry: Entry | None, *, of_new: bool) -> bytes | None:
        if entry is None:
            return b""
        return entry.target if entry.kind == LINK else (found.new if of_new else found.old)(path, entry)


def _content_key(entry: Entry) -> tuple[str, bytes, bytes]:
    return entry.kind, entry.digest, entry.target
