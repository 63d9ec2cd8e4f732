"""Makes a sheet (sheet.py) of all that the stat cache knows.

The danger prevented here: a sheet that says more than the records it is made of. A directory is on it only when it is whole, with all
that is under it, and a sheet is made of one state of the records, all at once.
"""

import stat
import struct

from ..model import manifest, paths
from ..model import stamp as stamps
from . import sheet, statcache
from .passes import Remember
from .shares import STAMP


class _Place:
    """A directory while a sheet is made: what the sheet will say of it, and what it adds up to with all that is under it."""

    __slots__ = (
        "children", "count", "end", "files", "ignored", "linked", "others", "path", "rules", "seen", "size", "skips", "stamp",
        "stamps", "tree", "whole",
    )  # fmt: skip

    def __init__(self, path: bytes, old: statcache.Record) -> None:
        self.path, self.rules, self.tree, self.stamp = path, old.rules, old.tree, STAMP.pack(*old.stamp)
        self.files, self.size, self.ignored, self.seen = old.files, old.size, old.ignored, len(old.names)
        self.skips = [(paths.join(path, name), reason.encode()) for name, reason in old.skipped]
        rows = zip(old.names, old.kinds, old.stamps, strict=True)
        files = [(name, stamp, kind) for name, kind, stamp in rows if kind != statcache.DIRECTORY]
        others = [(name, stamp) for name, stamp, _ in files]
        self.linked = [at for at, (_, _, kind) in enumerate(files) if kind == statcache.LINKED]
        self.count = len(others)
        self.others = b"\0".join([paths.join(path, name) for name, _ in others])
        self.stamps = b"".join([STAMP.pack(*stamp) for _, stamp in others])
        self.children: list[_Place] = []
        self.end = 0
        self.whole = bool(path) and len(path) <= sheet.LONGEST and old.stamp != stamps.NONE and not old.rule_files
        self.whole = self.whole and all(stamp != stamps.NONE for _, stamp in others)


def build(remember: Remember) -> bytes:
    """The sheet of all that the stat cache knows."""
    whole = [place for place in _places(remember) if place.whole]  # in front of what is under them
    numbers = {place.path: number for number, place in enumerate(whole)}
    rules = {digest: number for number, digest in enumerate(dict.fromkeys(place.rules for place in whole))}
    rows: list[bytes] = []
    skips: list[bytes] = []
    for number, place in enumerate(whole):
        parent = numbers.get(place.path.rpartition(b"/")[0], sheet.NOBODY)
        sums = (place.seen, place.files, place.size, place.ignored)
        rows.append(sheet.ROW.pack(parent, number + place.end, rules[place.rules], *sums, place.tree))
        skips += [b"%d\0%s\0%s" % (number, path, reason) for path, reason in place.skips]
    places = b"\0".join([place.path for place in whole])
    others = b"\0".join([place.others for place in whole if place.count])
    skipped = b"\0".join(skips)
    linked, count = [], 0
    for place in whole:
        linked += [count + at for at in place.linked]
        count += place.count
    head = sheet.HEAD.pack(sheet.VERSION, len(rules), len(whole), count, len(linked), len(places), len(others), len(skipped))
    tail = struct.pack(f"<{len(linked)}I", *linked)
    outer, inner = [place.stamp for place in whole], [place.stamps for place in whole]
    return b"".join((head, *rules, *rows, *outer, *inner, tail, places, others, skipped))


def _places(remember: Remember) -> list[_Place]:
    """Every directory that is remembered, in front of what is under it, and whether it is whole."""
    found: list[_Place] = []
    top = statcache.decode(remember(b""))
    stack = [] if top is None else [(_Place(b"", top), top)]
    while stack:
        place, old = stack.pop()
        found.append(place)
        for name, kind in zip(old.names, old.kinds, strict=True):
            if kind == statcache.DIRECTORY:
                path = paths.join(place.path, name)
                below = statcache.decode(remember(path))
                if below is None or not _names(old, name, below):
                    place.whole = False
                if below is not None:
                    place.children.append(_Place(path, below))
                    stack.append((place.children[-1], below))
    for place in reversed(found):
        for child in place.children:
            place.whole = place.whole and child.whole and child.rules == place.rules
            place.files, place.size = place.files + child.files, place.size + child.size
            place.ignored, place.seen = place.ignored + child.ignored, place.seen + child.seen
            place.end += child.end
        place.end += 1
    return found


def _names(old: statcache.Record, name: bytes, child: statcache.Record) -> bool:
    """Whether the tree that is remembered of a directory has the child as it is remembered itself."""
    entry = manifest.dir_entry(stat.S_IMODE(child.stamp.mode), child.tree)
    return manifest.encode_entry(name, entry) in old.tree_bytes
