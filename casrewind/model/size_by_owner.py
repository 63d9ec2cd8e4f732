"""Size accounting: bytes that only one of several owners needs, and bytes that several need.

References form a graph of numbers: a node is a stored object, or a container that names others. Owners form a row,
each with the nodes that it names directly. One pass over the row visits only the differences between neighbours. So
thousands of checkpoints of thousands of files cost little more than the changes among them. Each node records where
its present run began, how many owners had it before, and which group they belong to; never a set of owners.
"""

from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

from .._typing import NamedTuple

NODE = 0xFFFFFFFF
"""The bits of an edge that are the node's number. Higher bits distinguish a container's edges, for example by name."""
Edges = Mapping[int, Sequence[int]]
"""{container: its edges}, each edge once."""
_NONE, _SEVERAL = -1, -2


class SharedSizes(NamedTuple):
    """Sizes in bytes for each owner in the row and each group of owners. `total` is all that the owner or group
    needs, `unique` the part that it alone needs. `unique` and `shared` cover all owners together, with every node
    counted once."""

    owner_total: list[int]
    owner_unique: list[int]
    group_total: list[int]
    group_unique: list[int]
    unique: int
    shared: int


def compute_sizes(edges: Edges, sizes: Sequence[int], owners: Sequence[Sequence[int]], groups: Sequence[int]) -> SharedSizes:
    """Compute total and unique sizes of owners and groups. `sizes` are the bytes of each node, `owners` the nodes
    that each owner names. `groups` holds each owner's group number, from 0; members of a group are adjacent."""
    row = _OwnerRow(edges, sizes, groups)
    for position, nodes in enumerate(owners):
        row.advance(position, tuple(dict.fromkeys(nodes)))
    row.advance(len(owners), ())
    return row.result()


class _OwnerRow:
    """The state of one pass over the row of owners."""

    def __init__(self, edges: Edges, sizes: Sequence[int], groups: Sequence[int]) -> None:
        self._edges, self._sizes, self._groups = edges, sizes, groups
        count = len(sizes)
        self._names = array("I", [0]) * count  # of each node: how often the current owner refers to it
        self._since = array("i", [0]) * count  # position where the node's present run began
        self._last = array("i", [_NONE]) * count  # last position of its previous run
        self._owners = array("i", [0]) * count  # number of owners in all previous runs
        self._group = array("i", [_NONE]) * count  # group of these owners
        self._before: Sequence[int] = ()
        self._now = 0
        self._group_start = 0
        self._total: list[int] = []
        self._group_total = [0] * (max(groups, default=_NONE) + 1)

    def advance(self, position: int, nodes: Sequence[int]) -> None:
        """Advance to the owner at `position`, which names these nodes."""
        groups = self._groups
        group = groups[position] if position < len(groups) else _NONE
        if position and group != groups[position - 1]:
            self._group_start = position
        new = 0
        for node, was_there in self._count_edges(nodes).items():
            if was_there == (self._names[node] > 0):
                continue
            size = self._sizes[node]
            if was_there:
                self._now -= size
                self._end_run(node, position)
            else:
                self._now += size
                self._since[node] = position
                if self._last[node] < self._group_start:
                    new += size
        if group != _NONE:
            self._total.append(self._now)
            # nodes present from the group's start on are counted by its first owner
            self._group_total[group] += self._now if position == self._group_start else new

    def _end_run(self, node: int, position: int) -> None:
        since = self._since[node]
        mine = self._groups[since] if self._groups[since] == self._groups[position - 1] else _SEVERAL
        self._group[node] = mine if self._group[node] in (_NONE, mine) else _SEVERAL
        self._owners[node] += position - since
        self._last[node] = position - 1

    def _count_edges(self, nodes: Sequence[int]) -> dict[int, bool]:
        """Count the edges for the next owner. Returns {node with a count that met 0: True if it was present before}.
        An appearing container is compared with a disappearing one: nodes that both name are not visited."""
        names, edges = self._names, self._edges
        touched: dict[int, bool] = {}
        coming: list[Sequence[int]] = [nodes]
        going: list[Sequence[int]] = [self._before]
        self._before = nodes
        while coming or going:
            come, go = [], []
            pairs = [_without_common(*pair) for pair in zip_longest(_longest_first(coming), _longest_first(going), fillvalue=())]
            for more, _ in pairs:
                for edge in more:
                    node = edge & NODE
                    if names[node] == 0:
                        touched.setdefault(node, False)
                        if node in edges:
                            come.append(edges[node])
                    names[node] += 1
            for _, less in pairs:
                for edge in less:
                    node = edge & NODE
                    names[node] -= 1
                    if names[node] == 0:
                        touched.setdefault(node, True)
                        if node in edges:
                            go.append(edges[node])
            coming, going = come, go
        return touched

    def result(self) -> SharedSizes:
        """The sizes after the whole row."""
        unique, group_unique = [0] * len(self._total), [0] * len(self._group_total)
        shared = 0
        for node, size in enumerate(self._sizes):
            count = self._owners[node]
            if count == 1:
                unique[self._since[node]] += size
            elif count:
                shared += size
            if self._group[node] >= 0:
                group_unique[self._group[node]] += size
        return SharedSizes(self._total, unique, self._group_total, group_unique, sum(unique), shared)


def _longest_first(found: list[Sequence[int]]) -> list[Sequence[int]]:
    """Longest first: versions of the same directory have nearly the same length, so they are paired."""
    return found if len(found) < 2 else sorted(found, key=len, reverse=True)


def _without_common(come: Sequence[int], go: Sequence[int]) -> tuple[Collection[int], Collection[int]]:
    if not come or not go:
        return come, go
    new, old = set(come), set(go)
    return new - old, old - new
