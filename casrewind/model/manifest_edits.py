"""Manifests made from others: with some paths replaced or removed.

The danger prevented here: a change of one path writes other trees than a save of that state would. Both methods keep the digest
of each tree in which nothing changes.
"""

from collections.abc import Callable, Mapping

from . import paths
from .manifest import DIR, Entry, Finder, Loader, encode_tree


def with_changed_paths(
    load: Loader, store: Callable[[bytes], bytes], root: bytes, changes: Mapping[bytes, Entry | None]
) -> bytes:
    """Returns the root digest of manifest `root` with some paths replaced (None: removed).

    `store` stores a directory, encoded by `encode_tree`, and returns its digest. A directory entry in `changes` sets
    only the mode; its tree follows from the manifest and the rest of `changes`. Parents must exist, in the manifest
    or in `changes`.
    """
    by_parent: dict[bytes, dict[bytes, Entry | None]] = {}
    touched: set[bytes] = {b""}
    for path, entry in changes.items():
        parent, _, name = path.rpartition(b"/")
        by_parent.setdefault(parent, {})[name] = entry
        touched.update((parent, *paths.parents(path)))
        if entry is not None and entry.kind == DIR:
            touched.add(path)
    old = Finder(load, root)
    made: dict[bytes, bytes] = {}
    for place in sorted(touched, key=lambda p: p.count(b"/") + (p != b""), reverse=True):
        rows = dict(old.entries_of_directory(place))
        for name, entry in by_parent.get(place, {}).items():
            if entry is None:
                rows.pop(name, None)
            else:
                rows[name] = entry
        for name, entry in rows.items():
            below = paths.join(place, name)
            if below in made and entry.kind == DIR:
                rows[name] = entry._replace(digest=made[below])
        made[place] = store(encode_tree(rows.items()))
    return made[b""]


def with_replaced_entries(load: Loader, put: Callable[[bytes], bytes], root: bytes, changes: Mapping[bytes, Entry]) -> bytes:
    """Returns the root digest of manifest `root` with other entries for existing paths other than directories. `put`
    stores the bytes of one tree or node. Names do not change, so nodes keep their boundaries. Nodes without a changed
    path are not loaded and keep their digests, even if they are missing."""
    by_parent: dict[bytes, dict[bytes, Entry]] = {b"": {}}
    for path, entry in changes.items():
        parent, _, name = path.rpartition(b"/")
        by_parent.setdefault(parent, {})[name] = entry
        for above in paths.parents(path):
            by_parent.setdefault(above, {})
    finder = Finder(load, root)
    for place in sorted(by_parent, key=lambda place: place.count(b"/"), reverse=True):
        here = finder.find(place) if place else None
        if here is not None:
            parent, _, name = place.rpartition(b"/")
            by_parent[parent][name] = here._replace(digest=_with_replaced(load, put, here.digest, by_parent[place]))
    return _with_replaced(load, put, root, by_parent[b""])


def _with_replaced(load: Loader, put: Callable[[bytes], bytes], digest: bytes, changes: Mapping[bytes, Entry]) -> bytes:
    """A directory, or a node of it, with entries replaced. Recurses by the levels of nodes."""
    node = load(digest)
    if isinstance(node, list):
        return put(encode_tree((name, changes.get(name, entry)) for name, entry in node))
    from . import directory_nodes

    inside: dict[bytes, dict[bytes, Entry]] = {}
    for name, entry in changes.items():
        inside.setdefault(node.digest_of_node_with(name), {})[name] = entry
    parts = [
        part._replace(digest=_with_replaced(load, put, part.digest, inside[part.digest])) if part.digest in inside else part
        for part in node.parts
    ]
    return put(directory_nodes.encode(node._replace(parts=parts)))
