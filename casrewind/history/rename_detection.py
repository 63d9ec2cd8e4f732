"""Which removed file came back under another name: with the same content, or with similar content.

The work is bounded. Beyond the bounds a rename is shown as one path removed and one added, which is also right.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from .. import errors
from .._typing import NamedTuple
from ..model.diff import Change
from ..model.manifest import FILE, LINK, Entry
from .compare import Comparison

LEAST = 50
"""Per cent of the content that both files need to have in common."""
_MOST_FILES = 400
"""Removed or added files that are compared with each other. Of more, only those with equal names are."""
_MOST_BYTES = 1 << 20
"""Size of a file that is compared."""
_ALL_BYTES = 32 << 20
"""Bytes of all files that are compared."""
_PIECE = 64
"""Bytes of a piece, where a line is longer."""


class Rename(NamedTuple):
    """A file or link at `path` that was at `source` before. `similarity` is in per cent, 100 for the same content."""

    source: bytes
    path: bytes
    old: Entry
    new: Entry
    similarity: int

    @property
    def change(self) -> Change:
        """The change of the file itself, under its new path."""
        return Change(self.path, self.old, self.new)


def find_renames(found: Comparison) -> tuple[Rename, ...]:
    """The renames in a comparison, sorted by the new path."""
    gone = [(change.path, change.old) for change in found.changes if change.new is None and change.old is not None]
    come = [(change.path, change.new) for change in found.changes if change.old is None and change.new is not None]
    gone, come = ([pair for pair in pairs if pair[1].kind in (FILE, LINK)] for pairs in (gone, come))
    if not gone or not come:
        return ()
    made = [*_exact_renames(gone, come)]
    sources, targets = {item.source for item in made}, {item.path for item in made}
    gone = [pair for pair in gone if pair[0] not in sources and _is_file_to_compare(pair[1])]
    come = [pair for pair in come if pair[0] not in targets and _is_file_to_compare(pair[1])]
    made += _similar_renames(found, gone, come)
    return tuple(sorted(made, key=lambda item: item.path))


def _is_file_to_compare(entry: Entry) -> bool:
    return entry.kind == FILE and 0 < entry.size <= _MOST_BYTES


def _exact_renames(gone: Sequence[tuple[bytes, Entry]], come: Sequence[tuple[bytes, Entry]]) -> Iterator[Rename]:
    """The renames with the same content. A file with the same name is taken first."""
    by_content: dict[tuple[str, bytes, bytes], list[tuple[bytes, Entry]]] = {}
    for path, entry in gone:
        by_content.setdefault((entry.kind, entry.digest, entry.target), []).append((path, entry))
    left = []
    names: dict[tuple[tuple[str, bytes, bytes], bytes], list[tuple[bytes, Entry]]] = {}
    for key, pairs in by_content.items():
        for path, entry in reversed(pairs):
            names.setdefault((key, _last_component(path)), []).append((path, entry))
    taken = set()
    for path, entry in come:
        key = (entry.kind, entry.digest, entry.target)
        same = names.get((key, _last_component(path)))
        if same:
            source, old = same.pop()
            taken.add(source)
            yield Rename(source, path, old, entry, 100)
        elif key in by_content:
            left.append((path, entry, key))
    rest = {key: iter([pair for pair in pairs if pair[0] not in taken]) for key, pairs in by_content.items()}
    for path, entry, key in left:
        pair = next(rest[key], None)
        if pair is not None:
            yield Rename(pair[0], path, pair[1], entry, 100)


def _last_component(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _similar_renames(
    found: Comparison, gone: Sequence[tuple[bytes, Entry]], come: Sequence[tuple[bytes, Entry]]
) -> Iterator[Rename]:
    """The renames with similar content: the most similar ones first, then those with equal names."""
    if max(len(gone), len(come)) > _MOST_FILES:
        both = {_last_component(path) for path, _ in gone} & {_last_component(path) for path, _ in come}
        gone = [pair for pair in gone if _last_component(pair[0]) in both][:_MOST_FILES]
        come = [pair for pair in come if _last_component(pair[0]) in both][:_MOST_FILES]
    if not gone or not come:
        return
    room = [_ALL_BYTES]
    known: dict[bytes, list[tuple[int, int]]] = {}  # by piece: the removed files that have it, and how often
    for number, (path, entry) in enumerate(gone):
        for piece, times in _count_lines_within_room(found, path, entry, room, of_new=False).items():
            known.setdefault(piece, []).append((number, times))
    scores = []
    for number, (path, entry) in enumerate(come):
        common: Counter[int] = Counter()
        for piece, times in _count_lines_within_room(found, path, entry, room, of_new=True).items():
            for other, others in known.get(piece, ()):
                common[other] += min(times, others) * len(piece)
        for other, size in common.items():
            similarity = 100 * size // max(entry.size, gone[other][1].size)
            if similarity >= LEAST:
                is_named = _last_component(path) == _last_component(gone[other][0])
                scores.append((-similarity, not is_named, other, number))
    sources, targets = set(), set()
    for similarity, _, other, number in sorted(scores):
        if other not in sources and number not in targets:
            sources.add(other)
            targets.add(number)
            yield Rename(gone[other][0], come[number][0], gone[other][1], come[number][1], min(-similarity, 99))


def _count_lines_within_room(found: Comparison, path: bytes, entry: Entry, room: list[int], *, of_new: bool) -> Counter[bytes]:
    """The lines of a file, long lines in pieces, and how often it has each. Empty for an unreadable file."""
    if entry.size > room[0]:
        return Counter()
    room[0] -= entry.size
    try:
        data = (found.new if of_new else found.old)(path, entry)
    except errors.CasrewindError:
        return Counter()
    if not data:
        return Counter()
    return Counter(
        line[at : at + _PIECE] for line in data.splitlines(keepends=True) for at in range(0, len(line), _PIECE)
    )
