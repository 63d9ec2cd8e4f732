"""Manifests: entries, and the trees that hold them. A directory is one blob, or several nodes if large
(model/directory_nodes.py).

Equal directories have equal bytes, so an unchanged directory costs nothing and a diff visits only what differs. The
byte tables are in docs/internals/format.md. Decoding trusts nothing: it checks names with the validator of scan and
restore, and requires exact order and length.
"""

import struct
from collections.abc import Callable, Iterable, Iterator

from .. import errors
from .._typing import NamedTuple
from . import paths

TYPE_CHECKING = False
if TYPE_CHECKING:  # a save of small directories does not need it
    from .directory_nodes import NodeLimits, NodeList

FILE, DIR, LINK, PURGED = "file", "dir", "link", "purged"
LARGE_FILE = "large file"
"""Kind of a file that is stored in chunks, where callers distinguish it from FILE."""
PERMISSIONS = 0o777
"""The mode bits that a restore sets and a comparison includes."""

LARGE = 1 << 20
"""Files of this many bytes or more are stored in chunks."""
TEMPORARY_PREFIX = b".casrewind-tmp-"
"""Prefix of a restore's temporary files in the worktree. Such names are never captured."""

MAGIC = b"CRT1"
_FILE, _CHUNKED, _DIR, _LINK, _PURGED = 1, 2, 3, 4, 5
_HEAD = struct.Struct("<4sI")  # magic, number of entries
EMPTY = _HEAD.pack(MAGIC, 0)
"""The tree of an empty directory, encoded."""
_NAME = struct.Struct("<BBH")  # kind, length of the name, mode
_FILE_TAIL = struct.Struct("<qQ32s")  # mtime, size, content digest
_DIGEST = struct.Struct("32s")
_TAILS = {_FILE: 48, _CHUNKED: 80, _DIR: 32, _PURGED: 8}  # bytes after the name, except for links
_DIGESTED = {_FILE: FILE, _CHUNKED: LARGE_FILE}  # kinds with content
_MOST_IN_NODE = 256  # directory_nodes.LIMITS.most, which is not imported for small directories
_REMEMBERED = 50_000  # entries that a Finder caches: more than most projects have
_AGAIN = 5000  # repeated trees before the paths of a manifest are counted
_MAX_TARGET = 4095  # no system creates a longer link


class Entry(NamedTuple):
    """The recorded state of one path. `digest` is that of a file's content or a directory's tree, else b"". `chunks`
    is the digest of a large file's chunk list, else b"". `size` (bytes) and `mtime_ns` are set for files only,
    `target` for links only."""

    kind: str
    mode: int
    size: int = 0
    mtime_ns: int = 0
    digest: bytes = b""
    target: bytes = b""
    chunks: bytes = b""


def link_entry(target: bytes) -> Entry:
    """An entry for a symbolic link. Its mode is constant, because not every system keeps modes of links."""
    return Entry(LINK, 0o777, len(target), target=target)


def is_directory(entry: Entry | None) -> bool:
    """True if a path has an entry, and it is a directory's."""
    return entry is not None and entry.kind == DIR


def same_for_restore(one: Entry | None, other: Entry | None) -> bool:
    """True if two entries are equal for a restore: same kind, permission bits, bytes and target. mtimes do not count.
    Directories are compared without their contents."""
    if one is None or other is None:
        return one is other
    if one.kind != other.kind:
        return False
    if one.kind == LINK:
        return one.target == other.target
    if (one.mode ^ other.mode) & PERMISSIONS:
        return False
    return one.kind == DIR or one.digest == other.digest


Tree = list[tuple[bytes, Entry]]
"""A directory's entries by name, in byte order of the names."""
Loader = Callable[[bytes], "Tree | NodeList"]
"""Loads a tree by its digest: the entries of a directory or of one node, or the list of nodes of a large directory.
Raises StoreDamaged. `entries` returns all entries of a directory."""


def encode_entry(name: bytes, entry: Entry) -> bytes:
    """One entry as encoded in a tree."""
    kind = entry.kind
    if kind == FILE:
        code = _CHUNKED if entry.chunks else _FILE
        tail = _FILE_TAIL.pack(entry.mtime_ns, entry.size, entry.digest) + entry.chunks
    elif kind == DIR:
        code, tail = _DIR, entry.digest
    elif kind == LINK:
        code, tail = _LINK, struct.pack("<H", len(entry.target)) + entry.target
    else:
        code, tail = _PURGED, struct.pack("<Q", entry.size)
    return _NAME.pack(code, len(name), entry.mode) + name + tail


def encode_tree(tree: Iterable[tuple[bytes, Entry]]) -> bytes:
    """A directory's entries as canonical bytes. Names must differ. Raises UnsafePath for an invalid name."""
    rows = sorted(tree)
    for name, _ in rows:
        _raise_if_bad_name(name)
    return _HEAD.pack(MAGIC, len(rows)) + b"".join([encode_entry(name, entry) for name, entry in rows])


def store_tree(data: bytes, put: Callable[[bytes], bytes], limits: "NodeLimits | None" = None) -> bytes:
    """Store a directory, encoded by `encode_tree`, whole or as nodes, and return its digest. `put` stores one tree or
    node and returns its digest. Raises StoreError for too many entries."""
    count = int.from_bytes(data[4:8], "little")
    if count <= (_MOST_IN_NODE if limits is None else limits.most):
        return put(data)
    from . import directory_nodes

    if count > directory_nodes.MOST_ENTRIES:  # it could not be read again
        most = directory_nodes.MOST_ENTRIES
        raise errors.StoreError(f"cannot store a directory with {count:,} entries: the maximum is {most:,}", "ignore it")
    names, starts, position = [], [], _HEAD.size
    while position < len(data):
        starts.append(position)
        _, name, position = _parse_next_entry(data, position)
        names.append(name)
    starts.append(position)

    def put_entries(start: int, end: int) -> bytes:
        return put(_HEAD.pack(MAGIC, end - start) + data[starts[start] : starts[end]])

    return directory_nodes.store_nodes(names, put_entries, put, limits or directory_nodes.LIMITS)


def _raise_if_bad_name(name: bytes) -> None:
    why = paths.why_bad_name(name)
    if why is not None:
        raise errors.UnsafePath(f"refused name {paths.lossy_text(name)!r}: it has {why}")


SharedRows = dict[bytes, tuple[bytes, "Entry"]]
"""Decoded entries with their names, by their bytes."""


def decode_tree(data: bytes, shared: SharedRows | None = None) -> Tree:
    """The entries in a tree's bytes. Raises ManifestCorrupt, or UnsafePath for a name that no restore may write.

    With `shared`, an entry that is in it is not decoded again: trees that have it share one object. It gets all entries but links.
    """
    if len(data) < _HEAD.size:
        raise _damage_error("shorter than its head")
    magic, count = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise _damage_error("not a tree")
    rows: Tree = []
    position, last = _HEAD.size, b""
    for _ in range(count):
        start, row = position, None
        if shared is not None and position + 1 < len(data):
            position += _NAME.size + data[position + 1] + _TAILS.get(data[position], 0)
            row = shared.get(data[start:position])
        if row is None:
            name, entry, position = decode_entry(data, start)
            _raise_if_bad_name(name)
            row = name, entry
            if shared is not None and entry.kind != LINK:
                shared[data[start:position]] = row
        if row[0] <= last:
            raise _damage_error("names out of order")
        last = row[0]
        rows.append(row)
    if position != len(data):
        raise _damage_error("bytes after the last entry")
    return rows


def decode_node(data: bytes, shared: SharedRows | None = None) -> "Tree | NodeList":
    """A stored tree: the entries of a directory or of one node, or a list of nodes. Raises as `decode_tree`, which describes
    `shared`."""
    if data[:4] != MAGIC:
        from . import directory_nodes

        return directory_nodes.decode(data)
    if int.from_bytes(data[4:8], "little") > _MOST_IN_NODE:
        raise _damage_error("more entries than one node has")
    return decode_tree(data, shared)


def directory_entries(load: Loader, digest: bytes) -> Tree:
    """All entries of a directory, given the digest of its tree."""
    node = load(digest)
    if isinstance(node, list):
        return node
    from . import directory_nodes

    return directory_nodes.entries_below(load, node)


def differing_entries(load: Loader, one: bytes | None, other: bytes | None) -> tuple[Tree, Tree]:
    """The entries of two directories; None has no entries. For large directories, nodes present in both are neither
    loaded nor returned."""
    if one is None or other is None:
        return ([] if one is None else directory_entries(load, one)), ([] if other is None else directory_entries(load, other))
    first, second = load(one), load(other)
    if isinstance(first, list) or isinstance(second, list):
        return first if isinstance(first, list) else directory_entries(load, one), second if isinstance(
            second, list
        ) else directory_entries(load, other)
    from . import directory_nodes

    return directory_nodes.differing_rows(load, first, second)


def decode_entry(data: bytes, position: int) -> tuple[bytes, Entry, int]:
    """Returns (name, entry, position of the next entry)."""
    try:
        code, name_length, mode = _NAME.unpack_from(data, position)
        position += _NAME.size
        name = data[position : position + name_length]
        position += name_length
        if code in (_FILE, _CHUNKED):
            mtime_ns, size, digest = _FILE_TAIL.unpack_from(data, position)
            position += _FILE_TAIL.size
            chunks = b""
            if code == _CHUNKED:
                (chunks,), position = _DIGEST.unpack_from(data, position), position + _DIGEST.size
            return name, Entry(FILE, mode, size, mtime_ns, digest, chunks=chunks), position
        if code == _DIR:
            (digest,) = _DIGEST.unpack_from(data, position)
            return name, Entry(DIR, mode, digest=digest), position + _DIGEST.size
        if code == _LINK:
            (length,) = struct.unpack_from("<H", data, position)
            start, position = position + 2, position + 2 + length
            target = data[start:position]
            if len(target) != length:
                raise _damage_error("an entry is cut short")
            if not target or b"\0" in target or length > _MAX_TARGET:
                raise _damage_error("an impossible link target")
            return name, Entry(LINK, mode, length, target=target), position
        if code == _PURGED:
            (size,) = struct.unpack_from("<Q", data, position)
            return name, Entry(PURGED, mode, size), position + 8
    except struct.error as error:
        raise _damage_error("an entry is cut short") from error
    raise _damage_error(f"unknown kind of entry {code}")


def _damage_error(why: str) -> errors.ManifestCorrupt:
    return errors.ManifestCorrupt(f"damaged tree: {why}", "run casrewind verify")


def references(data: bytes) -> Iterator[tuple[bytes, str, bytes, int]]:
    """Yield the references of a tree: (name, FILE, LARGE_FILE or DIR, digest, bytes of the content). Raises
    ManifestCorrupt.

    The digest is that of the file, of the top node of its chunk list, or of the directory's tree; a tree has size 0.
    Links and purged paths have no references. A list of nodes yields its nodes as DIR, with the name b"". Names and
    modes are not checked: `decode_tree` does that.
    """
    if data[:4] != MAGIC or len(data) < _HEAD.size:
        from . import directory_nodes

        yield from ((b"", DIR, part.digest, 0) for part in directory_nodes.decode(data).parts)
        return
    position, end = _HEAD.size, len(data)
    while position + 1 < end:
        code, name, position = _parse_next_entry(data, position)
        if code == _DIR:
            yield name, DIR, data[position - 32 : position], 0
        elif code in _DIGESTED:
            size = int.from_bytes(data[position - _TAILS[code] + 8 : position - _TAILS[code] + 16], "little")
            yield name, _DIGESTED[code], data[position - 32 : position], size
    if position != end:
        raise _damage_error("an entry is cut short")


def entry_or_node_in(data: bytes, wanted: bytes) -> Entry | bytes | None:
    """The entry for a name in a tree's bytes, or None. For a list of nodes: the digest of the node with that name, or
    None. Other entries are not checked. Raises ManifestCorrupt."""
    if data[:4] != MAGIC:
        from . import directory_nodes

        return directory_nodes.decode(data).digest_of_node_with(wanted)
    position, end = _HEAD.size, len(data)
    while position + 1 < end:
        _, name, after = _parse_next_entry(data, position)
        if name == wanted:
            return decode_entry(data, position)[1]
        position = after
    return None


def _parse_next_entry(data: bytes, position: int) -> tuple[int, bytes, int]:
    code, start = data[position], position + _NAME.size
    end = start + data[position + 1]
    if code == _LINK:
        return code, data[start:end], end + 2 + int.from_bytes(data[end : end + 2], "little")
    if code not in _TAILS:
        raise _damage_error(f"unknown kind of entry {code}")
    return code, data[start:end], end + _TAILS[code]


class PathLimit:
    """Ends a walk over one or two manifests that have more paths than can be listed (model/path_count.py)."""

    def __init__(self, load: Loader, *roots: bytes | None) -> None:
        """`roots` are the digests of the root trees, None for no manifest."""
        self._load, self._roots = load, [root for root in roots if root is not None]
        self._seen: set[int] = set()
        self._again = 0

    def count_or_refuse(self, *trees: bytes | None) -> None:
        """Call before reading a tree, or a pair of trees. Raises ManifestRefused."""
        before = len(self._seen)
        self._seen.add(hash(trees))
        if len(self._seen) == before:
            self._again += 1
            if self._again == _AGAIN:
                from . import path_count

                for root in self._roots:
                    path_count.refuse_too_many(self._count_and_children_of, root)

    def _count_and_children_of(self, digest: bytes) -> tuple[int, list[bytes]]:
        try:
            tree = directory_entries(self._load, digest)
        except (errors.BlobMissing, errors.BlobCorrupt):
            return 0, []  # the walk meets the damage itself and reports it
        return len(tree), [entry.digest for _, entry in tree if entry.kind == DIR]


def walk(
    load: Loader, root: bytes, damaged: Callable[[bytes, errors.StoreDamaged], None] | None = None, *, in_order: bool = False
) -> Iterator[tuple[bytes, Entry]]:
    """Yield every (path, entry) of a manifest, parents before children, without recursion. `root` is the digest of its
    root tree. `damaged` is called with each directory that has an unreadable tree, and the error; without it, and for
    the root, the error is raised. `in_order`: by path, which takes longer. Raises ManifestRefused for a manifest that is
    too deep or has too many paths."""
    from heapq import heappop, heappush

    bound = PathLimit(load, root)
    stack: list[tuple[bytes, bytes]] = [(b"", root)]
    heap: list[tuple[bytes, Entry]] = []  # what comes later in the order of paths
    while stack or heap:
        if not stack:
            path, entry = heappop(heap)
            yield path, entry
            if entry.kind == DIR:
                stack.append((path, entry.digest))
            continue
        prefix, digest = stack.pop()
        if prefix.count(b"/") >= paths.MAX_DEPTH:
            raise errors.ManifestRefused(f"more than {paths.MAX_DEPTH} levels", (root,))
        bound.count_or_refuse(digest)
        try:
            rows = directory_entries(load, digest)
        except (errors.BlobMissing, errors.BlobCorrupt) as error:
            if damaged is None or not prefix:
                raise
            damaged(prefix, error)
            continue
        for name, entry in rows:
            path = paths.join(prefix, name)
            if in_order:
                heappush(heap, (path, entry))
                continue
            yield path, entry
            if entry.kind == DIR:
                stack.append((path, entry.digest))


class Finder:
    """Looks up paths in one manifest. Caches directories, and nodes of large directories."""

    def __init__(self, load: Loader, root: bytes) -> None:
        """`root` is the digest of the root tree."""
        self._load, self._root = load, root
        self._places: dict[bytes, dict[bytes, Entry] | NodeList] = {}
        self._nodes: dict[bytes, tuple[dict[bytes, Entry] | NodeList, bytes]] = {}  # (node, upper bound)
        self._rows = 0

    def find(self, path: bytes) -> Entry | None:
        """The entry of a path, or None if it is not in the manifest."""
        parent, _, name = path.rpartition(b"/")
        return self._find_entry_in(self._load_directory_or_nodes(parent), name)

    def entries_of_directory(self, path: bytes) -> dict[bytes, Entry]:
        """The entries of a directory by name, empty if the manifest has no such directory."""
        known = self._load_directory_or_nodes(path)
        if not isinstance(known, dict):
            from . import directory_nodes

            known = self._places[path] = dict(directory_nodes.entries_below(self._load, known))
            self._rows += len(known)
        return known

    def _load_directory_or_nodes(self, path: bytes) -> "dict[bytes, Entry] | NodeList":
        """As `directory`, but the list of nodes for a large directory. No recursion."""
        pending = []
        while path and path not in self._places:
            pending.append(path)
            path = path.rpartition(b"/")[0]
        known = self._places.get(path)
        if known is None:
            known = self._load_into_cache(path, self._root)
        for below in reversed(pending):
            entry = self._find_entry_in(known, below.rpartition(b"/")[2])
            known = self._load_into_cache(below, entry.digest if entry is not None and entry.kind == DIR else None)
        return known

    def _find_entry_in(self, known: "dict[bytes, Entry] | NodeList", name: bytes) -> Entry | None:
        if isinstance(known, dict):
            return known.get(name)
        from . import directory_nodes

        node: dict[bytes, Entry] | NodeList = known
        before = b""
        while not isinstance(node, dict):
            digest = node.digest_of_node_with(name)
            if digest not in self._nodes:
                place = dict(directory_nodes.node_places(node, before))[digest]
                below = directory_nodes.load_at(self._load, digest, place)
                rows = dict(below) if isinstance(below, list) else below
                self._count_and_bound_cache(len(rows))
                self._nodes[digest] = rows, place.before
            node, before = self._nodes[digest]
        return node.get(name)

    def _load_into_cache(self, path: bytes, tree: bytes | None) -> "dict[bytes, Entry] | NodeList":
        node = [] if tree is None else self._load(tree)
        known = dict(node) if isinstance(node, list) else node
        self._count_and_bound_cache(len(known))
        self._places[path] = known
        return known

    def _count_and_bound_cache(self, rows: int) -> None:
        self._rows += rows + 1
        if self._rows > _REMEMBERED:
            self._places, self._nodes, self._rows = {}, {}, rows + 1
