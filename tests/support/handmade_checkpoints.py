"""Checkpoints made by hand: bytes that the product's own encoder would never write, published through its store.

An attacker who can write to a store can give every blob a right digest; so these have right digests, too.
"""

import hashlib
import struct

from casrewind.model import manifest
from casrewind.model.checkpoint import Checkpoint
from casrewind.model.diff import Counts
from casrewind.store import packs

FILE, CHUNKED, DIR, LINK, PURGED = 1, 2, 3, 4, 5


def row(kind, name, tail, mode=0o644):
    """One entry of a tree."""
    return struct.pack("<BBH", kind, len(name) & 0xFF, mode) + name + tail


def file_row(name, digest, size, mode=0o644, mtime_ns=1_700_000_000_000_000_000):
    return row(FILE, name, struct.pack("<qQ32s", mtime_ns, size, digest), mode)


def chunked_row(name, digest, size, chunks, mode=0o644):
    return row(CHUNKED, name, struct.pack("<qQ32s", 0, size, digest) + chunks, mode)


def dir_row(name, tree, mode=0o755):
    return row(DIR, name, tree, mode)


def link_row(name, target):
    return row(LINK, name, struct.pack("<H", len(target)) + target, 0o777)


def tree(*rows, count=None):
    """A tree's bytes: the rows as they are given, in that order."""
    return b"CRT1" + struct.pack("<I", len(rows) if count is None else count) + b"".join(rows)


def node_list(*nodes, level=1, count=None):
    """A list of nodes of a large directory: nodes are (first name, digest)."""
    body = b"".join(bytes([len(first)]) + first + digest for first, digest in nodes)
    return b"CRN1" + struct.pack("<BI", level, len(nodes) if count is None else count) + body


def chunk_list(*items, level=0, count=None):
    """A chunk list's node: items are (digest, length)."""
    body = b"".join(digest + struct.pack("<Q", length) for digest, length in items)
    return b"CRC1" + struct.pack("<BI", level, len(items) if count is None else count) + body


def plan(*actions, count=None):
    """A plan's bytes: actions are (path, source or None, row of before or None, row of after or None)."""
    parts = [b"CRP1", struct.pack("<I", len(actions) if count is None else count)]
    for path, source, before, after in actions:
        bits = (before is not None) | (after is not None) << 1 | (source is not None) << 2
        parts += (bytes([bits]), struct.pack("<I", len(path)), path)
        if source is not None:
            parts += (struct.pack("<I", len(source)), source)
        parts += (part for part in (before, after) if part is not None)
    return b"".join(parts)


class Forger:
    """Puts blobs and checkpoints into a workspace's store without asking what they hold."""

    def __init__(self, workspace):
        self.workspace = workspace
        self._store = workspace._context.store
        self._count = 0

    def blobs(self, *blobs):
        """Store blobs; their digests."""
        with self._store.writing() as session:
            found = [session.put(packs.TREE, data) for data in blobs]
            self._store.add_blobs(session)
        return found

    def directory(self, *rows):
        """Store a directory of any size as a save would, in nodes; its digest."""
        return manifest.store_tree(tree(*rows), lambda node: self.blobs(node)[0])

    def publish(self, root_tree, *blobs, domain=None, **fields):
        """A checkpoint whose root tree is `root_tree` (a tree's bytes, or a digest); `blobs` are stored beside it."""
        newest = self._newest()
        self._count += 1
        with self._store.writing() as session:
            for data in blobs:
                session.put(packs.TREE, data)
            digest = root_tree
            if not (len(root_tree) == 32 and root_tree[:4] not in (b"CRT1", b"CRN1")):
                digest = session.put(packs.TREE, root_tree)
            speaks_for = newest.domain
            if domain is not None:
                speaks_for = domain if len(domain) == 32 else session.put(packs.DOMAIN, domain)
            draft = Checkpoint(
                seq=0,
                id="c" + hashlib.sha256(b"%d" % self._count).hexdigest()[:14],
                created_ns=newest.created_ns,
                worktree=newest.worktree,
                root=newest.root,
                parent="",
                trigger="manual",
                label="",
                prompt="",
                agent="",
                session="",
                tree=digest,
                domain=speaks_for,
                files=1,
                size=1,
                changes=Counts(0, 0, 0),
                skipped=0,
                flags=0,
            )._replace(**fields)
            return self._store.publish(session, draft, lambda _: draft)

    def _newest(self):
        """A checkpoint made by an honest save: its worktree, root and domain are taken over."""
        found = [point for point, _ in self.workspace.checkpoints()]
        return found[-1]
