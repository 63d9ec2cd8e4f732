"""Usage: what uses the space of a store, by checkpoint, path and session. Read-only.

Bytes are those of the packs: compressed records with their heads. All pack bytes except pack heads have one of four
uses. One checkpoint alone needs them, several do, only undo and open restores do, or they are garbage.
"""

from array import array
from collections.abc import Iterable, Sequence

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..model import path_count, size_by_owner
from ..model.checkpoint import Checkpoint
from ..model.size_by_owner import SharedSizes
from ..store import packs, reachability
from ..store.catalog import Marked
from ..store.reachability import ReferenceGraph
from . import gc
from .verify import BLOB, TREE, Problem, needed_plans


class CheckpointUsage(NamedTuple):
    """Bytes of one checkpoint: `unique` would be freed if only it were deleted; others need the `shared` bytes too."""

    checkpoint: Checkpoint
    marked: Marked
    unique: int
    shared: int


class PathUsage(NamedTuple):
    """Bytes of all versions of a path in all checkpoints. A blob that several paths share counts for each of them. For
    a directory (`is_directory`) `size` sums everything ever in it, and `versions` counts its states."""

    path: bytes
    is_directory: bool
    size: int
    versions: int


class SessionUsage(NamedTuple):
    """Bytes of the checkpoints of one agent session; `agent` and `session` are "" for checkpoints that no agent made.
    No other session needs the `unique` bytes. `transcripts` is the part of `unique` and `shared` in stored
    conversations. `checkpoints` counts them; `newest_ns` is the time of the newest (nanoseconds since 1970)."""

    agent: str
    session: str
    checkpoints: int
    newest_ns: int
    unique: int
    shared: int
    transcripts: int


class Usage(NamedTuple):
    """The use of space, in bytes. The lists are sorted, the largest first; `problems` name what is unreadable.

    `store_size` is the whole store on disk, including index, ledger and the `ballast`, which gc uses on a full disk.
    `packs` counts the packs; `packs_size` is their total. It is the sum of `unique`, `shared`, `other`, `garbage` and 8
    bytes for each pack. One checkpoint needs the `unique` bytes, several need the `shared` bytes, only undo, redo or an
    open restore needs the `other` bytes. `trees` is the part in directory listings. `gc_frees`: what gc with the
    configured limits would free, None if unknown.
    """

    store_size: int
    ballast: int
    packs: int
    packs_size: int
    unique: int
    shared: int
    other: int
    garbage: int
    trees: int
    gc_frees: int | None
    checkpoints: tuple[CheckpointUsage, ...]
    paths: tuple[PathUsage, ...]
    sessions: tuple[SessionUsage, ...]
    problems: tuple[Problem, ...]

    @property
    def reachable(self) -> int:
        """Bytes that are not garbage."""
        return self.unique + self.shared + self.other


def usage(context: Context, depth: int | None = None) -> Usage:
    """Measure the whole store, including other worktrees' checkpoints. `depth` truncates paths to this many components
    and sums directories; None lists files. Raises StoreBusy, LedgerCorrupt."""
    with context.store.hold_shared_lock():
        found = _Measurement(context).measure_all(depth)
    try:
        after = gc.collect(context, dry_run=True)
    except errors.StoreDamaged:
        return found
    return found._replace(gc_frees=max(after.bytes_before - after.bytes_after, 0))


class _Measurement:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._graph = ReferenceGraph(context.store.read_many, context.counter("counting"))
        self._problems: list[Problem] = []

    def measure_all(self, depth: int | None) -> Usage:
        graph = self._graph
        everything = _ordered_by_session(self._context.store.checkpoints())
        sessions = list(dict.fromkeys(_session_key(point) for point, _ in everything))
        numbers = {session: number for number, session in enumerate(sessions)}
        owners = [self._nodes_named_by(point) for point, _ in everything]
        groups = [numbers[_session_key(point)] for point, _ in everything]
        plans, damaged = needed_plans(self._context)
        self._problems += damaged
        owners.append([graph.number_of_plan(digest) for digest in plans])  # the last owner gets what no checkpoint needs
        groups.append(len(sessions))
        graph.read_containers()
        sizes = self._stored_sizes_by_number()
        found = size_by_owner.compute_sizes(graph.edges, sizes, owners, groups)
        rows = sorted(
            (
                CheckpointUsage(point, marked, found.owner_unique[at], found.owner_total[at] - found.owner_unique[at])
                for at, (point, marked) in enumerate(everything)
            ),
            key=lambda row: (-row.unique, -row.shared, -row.checkpoint.seq),
        )
        other = found.owner_unique[-1]
        count, total = self._count_packs_and_bytes()
        for digest, error in graph.missing.items():
            self._problems.append(Problem(BLOB, digest.hex(), error.problem))
        return Usage(
            store_size=self._context.store.size(),
            ballast=self._context.store.maintenance().ballast_bytes(),
            packs=count,
            packs_size=total,
            unique=found.unique - other,
            shared=found.shared,
            other=other,
            garbage=max(total - count * len(packs.HEAD) - found.unique - found.shared, 0),
            trees=sum(sizes[own] for own in {reachability.node_number_of_edge(graph.edges[tree][0]) for tree in graph.trees}),
            gc_frees=None,
            checkpoints=tuple(rows),
            paths=tuple(_Paths(graph, sizes, depth).rows(self._listable_trees(everything))),
            sessions=tuple(self._usage_of_sessions([point for point, _ in everything], sessions, found, sizes)),
            problems=tuple(self._problems),
        )

    def _listable_trees(self, everything: Iterable[tuple[Checkpoint, Marked]]) -> set[bytes]:
        """The root trees, without those that have too many paths to list: these become problems."""
        graph = self._graph

        def below(tree: int) -> tuple[int, list[int]]:
            named = [reachability.node_number_of_edge(edge) for edge in graph.named_edges_of_directory(tree)]
            return len(named), [node for node in named if node in graph.trees]

        points = {point.tree: point for point, _ in everything}
        numbers = {graph.number_of_tree(tree): tree for tree in points}
        for number, why in path_count.reasons_to_refuse(below, numbers).items():
            tree = numbers[number]
            refused = errors.ManifestRefused(why, (tree,), points.pop(tree).id)
            self._problems.append(Problem(TREE, tree.hex(), str(refused)))
        return set(points)

    def _nodes_named_by(self, point: Checkpoint) -> list[int]:
        graph = self._graph
        found = [graph.number_of_tree(point.tree), graph.number_of_domain(point.domain)]
        return found if point.transcript is None else [*found, graph.number_of_content(point.transcript)]

    def _stored_sizes_by_number(self) -> "array[int]":
        """The stored bytes of every blob, by its number; 0 for a blob in no pack."""
        graph = self._graph
        sizes = array("Q", [0]) * len(graph)
        for digest, place in self._context.store.maintenance().sweep().places(graph.blobs()):
            if place is not None:
                sizes[graph.number_of_blob(digest)] = place.length
            elif digest not in graph.missing:
                graph.missing[digest] = errors.BlobMissing(f"blob {digest.hex()[:16]} is in no pack")
        return sizes

    def _count_packs_and_bytes(self) -> tuple[int, int]:
        found, _ = self._context.store.maintenance().sweep().pack_usage(())
        return len(found), sum(pack.size for pack in found)

    def _usage_of_sessions(
        self, points: Sequence[Checkpoint], sessions: Sequence[tuple[str, str]], found: SharedSizes, sizes: Sequence[int]
    ) -> list[SessionUsage]:
        members: dict[tuple[str, str], list[Checkpoint]] = {}
        for point in points:
            members.setdefault(_session_key(point), []).append(point)
        stored = [{self._graph.number_of_content(p.transcript) for p in members[one] if p.transcript is not None} for one in sessions]
        transcripts = _weigh_sets(self._graph, sizes, stored)
        rows = [
            SessionUsage(
                agent=one[0],
                session=one[1],
                checkpoints=len(members[one]),
                newest_ns=max(point.created_ns for point in members[one]),
                unique=found.group_unique[at],
                shared=found.group_total[at] - found.group_unique[at],
                transcripts=transcripts[at],
            )
            for at, one in enumerate(sessions)
        ]
        return sorted(rows, key=lambda row: (-row.unique, -row.shared, row.agent, row.session))


def _session_key(point: Checkpoint) -> tuple[str, str]:
    """(agent, session) of a checkpoint; ("", "") without a session."""
    return (point.agent, point.session) if point.session else ("", "")


def _ordered_by_session(everything: Iterable[tuple[Checkpoint, Marked]]) -> list[tuple[Checkpoint, Marked]]:
    """The checkpoints session by session, ordered so that neighbours are similar."""
    by_age = sorted(everything, key=lambda pair: pair[0].seq)
    first: dict[tuple[str, str], tuple[bytes, int]] = {}
    for point, _ in by_age:
        first.setdefault(_session_key(point), (point.worktree, point.seq))
    return sorted(by_age, key=lambda pair: (first[_session_key(pair[0])], pair[0].worktree, pair[0].seq))


def _weigh_sets(graph: ReferenceGraph, sizes: Sequence[int], sets: Iterable[Iterable[int]]) -> list[int]:
    """The bytes of each set of nodes and of everything below them. A set counts each blob once."""
    seen = array("I", [0]) * len(sizes)
    found = []
    for number, nodes in enumerate(sets, 1):
        total, stack = 0, list(nodes)
        while stack:
            node = stack.pop()
            if seen[node] != number:
                seen[node] = number
                total += sizes[node]
                stack += [reachability.node_number_of_edge(edge) for edge in graph.edges.get(node, ())]
        found.append(total)
    return found


class _Paths:
    """Every path of some manifests. A directory with the same state in many checkpoints is searched once; otherwise
    only its new entries are."""

    def __init__(self, graph: ReferenceGraph, sizes: Sequence[int], depth: int | None) -> None:
        self._graph, self._sizes, self._depth = graph, sizes, depth
        self._parents: list[tuple[int, int, int]] = [(0, 0, 0)]  # (parent, number of the name, depth)
        self._numbers: dict[tuple[int, int], int] = {}
        self._versions: dict[int, set[int]] = {}

    def rows(self, trees: Iterable[bytes]) -> list[PathUsage]:
        """The paths below these trees, the largest first."""
        graph = self._graph
        self._add_up_paths([graph.number_of_tree(digest) for digest in trees])
        names = graph.names()
        weights = _weigh_sets(graph, self._sizes, self._versions.values())
        found = [
            PathUsage(self._path_of_number(number, names), not graph.trees.isdisjoint(versions), weight, len(versions))
            for (number, versions), weight in zip(self._versions.items(), weights, strict=True)
        ]
        return sorted(found, key=lambda row: (-row.size, row.path))

    def _add_up_paths(self, roots: Iterable[int]) -> None:
        edges, trees = self._graph.edges, self._graph.trees
        seen: dict[int, set[int]] = {}
        stack = [(0, root) for root in roots]
        visited = set(stack)
        while stack:
            path, tree = stack.pop()
            known = seen.setdefault(path, set())
            new = set(edges[tree]) - known
            known |= new
            for edge in new:
                name, node = reachability.name_of(edge), reachability.node_number_of_edge(edge)
                if not name:  # the tree's own blob, or a node of a large directory
                    if node in trees and (path, node) not in visited:
                        visited.add((path, node))
                        stack.append((path, node))
                    continue
                below = self._number_of(path, name)
                if node not in trees or self._parents[below][2] == self._depth:
                    self._versions.setdefault(below, set()).add(node)
                elif (below, node) not in visited:
                    visited.add((below, node))
                    stack.append((below, node))

    def _number_of(self, parent: int, name: int) -> int:
        """The number of a path; 0 is the root."""
        number = self._numbers.get((parent, name))
        if number is None:
            number = self._numbers[parent, name] = len(self._parents)
            self._parents.append((parent, name, self._parents[parent][2] + 1))
        return number

    def _path_of_number(self, number: int, names: Sequence[bytes]) -> bytes:
        parts = []
        while number:
            number, name, _ = self._parents[number]
            parts.append(names[name])
        return b"/".join(reversed(parts))
