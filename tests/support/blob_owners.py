"""Who owns which stored bytes: packs read with bare eyes, whole sets of digests for every owner, nothing clever.

Written from docs/internals/format.md; shares nothing with the project but the roots that it is given.
"""

import os
import struct

from .packfile import HEAD
from .zstd_frames import zstd

PACK_HEAD = 8
TAIL = struct.Struct("<qQ32s")


def pack_sizes(store):
    """{name: bytes} of the packs."""
    place = os.path.join(store, "packs")
    return {name: os.path.getsize(os.path.join(place, name)) for name in os.listdir(place)}


class Blobs:
    """Every blob of a store: the bytes that its records take, and what it is."""

    def __init__(self, store):
        self.lengths, self._places, self.doubles = {}, {}, 0
        for name in sorted(pack_sizes(store)):
            path = os.path.join(store, "packs", name)
            with open(path, "rb") as file:
                data = file.read()
            at = PACK_HEAD
            while at < len(data):
                magic, _, codec, _, digest, _, stored, _ = HEAD.unpack_from(data, at)
                assert magic == b"CRB1", (path, at)
                if digest in self.lengths:
                    self.doubles += HEAD.size + stored
                self.lengths[digest] = HEAD.size + stored
                self._places[digest] = (codec, data[at + HEAD.size : at + HEAD.size + stored])
                at += HEAD.size + stored

    def read(self, digest):
        codec, body = self._places[digest]
        return zstd.decompress(body) if codec else body

    def weight(self, digests):
        return sum(self.lengths[digest] for digest in set(digests))

    def entries(self, data, at, count):
        """(name, kind, digest, chunk list) of entries as they stand in trees and plans, and where they end."""
        found = []
        for _ in range(count):
            kind, length, _ = struct.unpack_from("<BBH", data, at)
            at += 4
            name, at = data[at : at + length], at + length
            digest = chunks = b""
            if kind in (1, 2):
                digest = TAIL.unpack_from(data, at)[2]
                at += TAIL.size
                if kind == 2:
                    chunks, at = data[at : at + 32], at + 32
            elif kind == 3:
                digest, at = data[at : at + 32], at + 32
            elif kind == 4:
                at += 2 + struct.unpack_from("<H", data, at)[0]
            else:
                assert kind == 5
                at += 8
            found.append((name, kind, digest, chunks))
        return found, at

    def content(self, digest, chunks):
        """The digests that a file's content consists of."""
        if not chunks:
            return {digest}
        found = {chunks}
        data = self.read(chunks)
        assert data[:4] == b"CRC1"
        level, count = struct.unpack_from("<BI", data, 4)
        for number in range(count):
            item = data[9 + 40 * number : 41 + 40 * number]
            found |= self.content(b"", item) if level else {item}
        return found

    def tree(self, digest):
        """The entries of a tree."""
        data = self.read(digest)
        assert data[:4] == b"CRT1"
        found, end = self.entries(data, 8, struct.unpack_from("<I", data, 4)[0])
        assert end == len(data)
        return found

    def below(self, digest):
        """All that a tree names, itself included."""
        found = {digest}
        for _, kind, below, chunks in self.tree(digest):
            if kind in (1, 2):
                found |= self.content(below, chunks)
            elif kind == 3:
                found |= self.below(below)
        return found

    def of_domain(self, digest):
        """A domain and its rule files."""
        data, at, found = self.read(digest), 0, {digest}
        while at < len(data):
            tag, length = struct.unpack_from("<HI", data, at)
            value, at = data[at + 6 : at + 6 + length], at + 6 + length
            while tag == 4 and value:
                size = struct.unpack_from("<I", value)[0]
                item, value = value[4 : 4 + size], value[4 + size :]
                source = struct.unpack_from("<H", item)[0]
                found.add(item[2 + source : 34 + source])
        return found

    def of_plan(self, digest):
        """A plan and the contents of the files in it."""
        data, found = self.read(digest), {digest}
        assert data[:4] == b"CRP1"
        at = 8
        for _ in range(struct.unpack_from("<I", data, 4)[0]):
            bits = data[at]
            at += 1
            for _ in range(2 if bits & 4 else 1):
                at += 4 + struct.unpack_from("<I", data, at)[0]
            entries, at = self.entries(data, at, (bits & 1) + (bits >> 1 & 1))
            for _, kind, below, chunks in entries:
                if kind in (1, 2):
                    found |= self.content(below, chunks)
        assert at == len(data)
        return found

    def of_checkpoint(self, point):
        return self.below(point.tree) | self.of_domain(point.domain) | self.of_transcript(point)

    def of_transcript(self, point):
        return self.content(point.transcript.digest, point.transcript.chunks) if point.transcript else set()

    def trees(self, root):
        """The digests of all directories of one manifest."""
        return {root}.union(*(self.trees(below) for _, kind, below, _ in self.tree(root) if kind == 3))

    def paths(self, root, depth=None, place=b""):
        """(path, is it a directory, what it is: one version of it, the digests of that) in one manifest."""
        for name, kind, digest, chunks in self.tree(root):
            path = place + name
            if kind in (1, 2):
                yield path, False, ("file", digest), self.content(digest, chunks)
            elif kind == 3 and depth == path.count(b"/") + 1:
                yield path, True, ("dir", digest), self.below(digest)
            elif kind == 3:
                yield from self.paths(digest, depth, path + b"/")


class Owned:
    """What `casrewind du` has to say of a store, found the slow way."""

    def __init__(self, store, points, plans, depth=None):
        blobs = self.blobs = Blobs(store)
        self.sets = {point.id: blobs.of_checkpoint(point) for point in points}
        self.plans = set().union(*(blobs.of_plan(plan) for plan in plans))
        self.sessions = {}
        for point in points:
            self.sessions.setdefault((point.agent, point.session) if point.session else ("", ""), []).append(point)
        self.reachable = self.plans.union(*self.sets.values())
        self.total = sum(pack_sizes(store).values())
        self.packs = len(pack_sizes(store))
        counts = {}
        for owned in [*self.sets.values(), self.plans]:
            for digest in owned:
                counts[digest] = counts.get(digest, 0) + 1
        self.alone = {digest for digest, count in counts.items() if count == 1}
        self.trees = set().union(*(blobs.trees(point.tree) for point in points))
        self.versions, self.contents, self.directories = {}, {}, set()
        for root in {point.tree for point in points}:
            for path, is_directory, version, content in blobs.paths(root, depth):
                self.versions.setdefault(path, set()).add(version)
                self.contents.setdefault(path, set()).update(content)
                if is_directory:
                    self.directories.add(path)

    def checkpoints(self):
        """{id: (unique, shared)}."""
        weight = self.blobs.weight
        return {name: (weight(owned & self.alone), weight(owned - self.alone)) for name, owned in self.sets.items()}

    def session(self, name):
        """(unique, shared, transcripts) of a session."""
        mine = set().union(*(self.sets[point.id] for point in self.sessions[name]))
        others = self.plans.union(*(self.sets[p.id] for key, points in self.sessions.items() if key != name for p in points))
        told = set().union(*(self.blobs.of_transcript(point) for point in self.sessions[name]))
        return self.blobs.weight(mine - others), self.blobs.weight(mine & others), self.blobs.weight(told)

    def paths(self):
        """{path: (is it a directory, bytes, versions)}."""
        return {
            path: (path in self.directories, self.blobs.weight(self.contents[path]), len(versions))
            for path, versions in self.versions.items()
        }

    def sums(self):
        """(unique, shared, other, garbage)."""
        weight = self.blobs.weight
        alone = set().union(*(owned & self.alone for owned in self.sets.values()))
        other = self.plans & self.alone
        shared = weight(self.reachable - self.alone)
        return weight(alone), shared, weight(other), self.total - PACK_HEAD * self.packs - weight(self.reachable)


def plans_of(workspace):
    """The plans that undo, redo and open restores of a workspace's store have need of."""
    store = workspace._context.store
    steps = [step for history in store.histories().values() for step in (*history.undo, *history.redo)]
    return {step.plan for step in steps} | {journal.plan for journal in store.journals.read_all()}


def checked_usage(workspace, depth=None):
    """Hold what `usage` says of a store against what is found here; the report."""
    found = workspace.usage(depth)
    points = [point for point, _ in workspace.checkpoints(every_worktree=True)]
    owned = Owned(workspace.store_path, points, plans_of(workspace), depth)
    assert found.problems == ()
    assert (found.packs, found.packs_size) == (owned.packs, owned.total)
    assert (found.unique, found.shared, found.other, found.garbage) == owned.sums()
    assert found.unique + found.shared + found.other + found.garbage + PACK_HEAD * found.packs == owned.total
    assert found.trees == owned.blobs.weight(owned.trees)
    assert {row.checkpoint.id: (row.unique, row.shared) for row in found.checkpoints} == owned.checkpoints()
    assert len(found.checkpoints) == len(points)
    assert {(r.agent, r.session): (r.unique, r.shared, r.transcripts) for r in found.sessions} == {
        name: owned.session(name) for name in owned.sessions
    }
    assert {row.path: (row.is_directory, row.size, row.versions) for row in found.paths} == owned.paths()
    for rows, key in (
        (found.checkpoints, lambda row: row.unique), (found.paths, lambda row: row.size), (found.sessions, lambda row: row.unique),
    ):  # fmt: skip
        assert [key(row) for row in rows] == sorted(map(key, rows), reverse=True)
    return found
