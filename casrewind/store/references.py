"""What a blob names: for every kind of blob, in one place.

The danger prevented here: a kind that gc does not follow, while du, verify and purge do. What it names is garbage to gc then, and removed.
"""

from collections.abc import Iterator

from ..model import domain as domains
from ..model import manifest
from ..model import plan as plans
from ..model.manifest import DIR, FILE, LARGE_FILE, Entry
from ..typed import NamedTuple
from . import chunker, packs

HOLDS = frozenset((packs.TREE, packs.CHUNK_LIST, packs.DOMAIN, packs.PLAN))
"""The kinds of blobs that name others. All others are content."""
_IN_TREES = {FILE: packs.FILE, LARGE_FILE: packs.CHUNK_LIST, DIR: packs.TREE}


class Reference(NamedTuple):
    """One blob that another one names: what it is used as (a kind of store/packs.py), its digest, the name that it has there (in trees),
    and how many bytes the content has that it stands for (0: that is not said). A tree without a name is a node of a large directory."""

    kind: int
    digest: bytes
    name: bytes = b""
    size: int = 0


def references(kind: int, data: bytes) -> Iterator[Reference]:
    """What the bytes of a blob of this kind name; the same blob may be named more than once. Raises StoreDamaged, UnsafePath."""
    if kind == packs.TREE:
        for name, below, digest, size in manifest.references(data):
            yield Reference(_IN_TREES[below], digest, name, size)
    elif kind == packs.CHUNK_LIST:
        level, items = chunker.decode_node(data)
        for item in items:
            yield Reference(packs.CHUNK_LIST if level else packs.CHUNK, item.digest, b"", item.length)
    elif kind == packs.DOMAIN:
        for rule in domains.decode(data).rules:
            yield Reference(packs.RULES, rule.digest)
    elif kind == packs.PLAN:
        for action in plans.decode(data):
            for entry in (action.before, action.after):
                if entry is not None and entry.kind == FILE:
                    yield of_file(entry)
    elif kind not in (packs.FILE, packs.CHUNK, packs.RULES):
        raise ValueError(f"no kind of blob: {kind}")


def of_file(entry: Entry) -> Reference:
    """The content of a file: one blob, or the top node of its chunk list."""
    if entry.chunks:
        return Reference(packs.CHUNK_LIST, entry.chunks, b"", entry.size)
    return Reference(packs.FILE, entry.digest, b"", entry.size)
