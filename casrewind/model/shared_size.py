"""Shares: which bytes only one of several owners has need of, and which several have.

What names what is a graph of numbers: a node is something stored, or a container that names others. Owners stand in a
row, each with the nodes that it names itself. The row is gone along once: from one owner to the next only what differs
between the two is looked at, so that thousands of checkpoints of thousands of files cost little more than what changed
among them. Of every node it is remembered since when it is there, how long it was there before, and whose it was; never
a set of owners.
"""

from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

from .._typing import NamedTuple

NODE = 0xFFFFFFFF
"""The part of an edge that is a node's number; what is above it tells edges of one container apart, by name say."""
Edges = Mapping[int, Sequence[int]]
"""{container: what it names}, no edge twice."""
_NOBODY, _SEVERAL = -1, -2


class SharedSizes(NamedTuple):
    """Bytes. Of each owner in the row, and of each group of owners: `total` is all that it has need of, `unique` what nobody
    else has. `unique` and `shared` are of all owners together, every node counted once."""

    owner_total: list[int]
    owner_unique: list[int]
    group_total: list[int]
    group_unique: list[int]
    unique: int
    shared: int


def share(edges: Edges, sizes: Sequence[int], owners: Sequence[Sequence[int]], groups: Sequence[int]) -> SharedSizes:
    """Who has need of what. `sizes` are the bytes of each node, `owners` the nodes that each owner names, `groups` the number
    of each owner's group, beginning with 0, members one after the other."""
    row = _OwnerRow(edges, sizes, groups)
    for position, nodes in enumerate(owners):
        row.go_on(position, tuple(dict.fromkeys(nodes)))
    row.go_on(len(owners), ())
    return row.result()


class _OwnerRow:
    """The row of owners, as far as it was gone along."""

    def __init__(self, edges: Edges, sizes: Sequence[int], groups: Sequence[int]) -> None:
        self._edges, self._sizes, self._groups = edges, sizes, groups
        count = len(sizes)
        self._names = array("I", [0]) * count  # how many edges lead to a node from what is there
        self._since = array("i", [0]) * count  # where it came
        self._last = array("i", [_NOBODY]) * count  # where it was last, when it went
        self._owners = array("i", [0]) * count  # how many owners had it when it went
        self._group = array("i", [_NOBODY]) * count  # whose it was
        self._before: Sequence[int] = ()
        self._now = 0
        self._group_start = 0
        self._total: list[int] = []
        self._group_total = [0] * (max(groups, default=_NOBODY) + 1)

    def go_on(self, position: int, nodes: Sequence[int]) -> None:
        """To the next owner, at `position`, who names these nodes."""
        groups = self._groups
        group = groups[position] if position < len(groups) else _NOBODY
        if position and group != groups[position - 1]:
            self._group_start = position
        new = 0
        for node, was_there in self._step(nodes).items():
            if was_there == (self._names[node] > 0):
                continue
            size = self._sizes[node]
            if was_there:
                self._now -= size
                self._went(node, position)
            else:
                self._now += size
                self._since[node] = position
                if self._last[node] < self._group_start:
                    new += size
        if group != _NOBODY:
            self._total.append(self._now)
            # what was there when the group began, and stays, is the first one's
            self._group_total[group] += self._now if position == self._group_start else new

    def _went(self, node: int, position: int) -> None:
        since = self._since[node]
        mine = self._groups[since] if self._groups[since] == self._groups[position - 1] else _SEVERAL
        self._group[node] = mine if self._group[node] in (_NOBODY, mine) else _SEVERAL
        self._owners[node] += position - since
        self._last[node] = position - 1

    def _step(self, nodes: Sequence[int]) -> dict[int, bool]:
        """Count the edges anew for another owner: {node whose count met 0: whether it was there before}.

        A container that comes is held against one that goes at the same time: what both name is not looked at.
        """
        names, edges = self._names, self._edges
        touched: dict[int, bool] = {}
        coming: list[Sequence[int]] = [nodes]
        going: list[Sequence[int]] = [self._before]
        self._before = nodes
        while coming or going:
            come, go = [], []
            pairs = [_differences(*pair) for pair in zip_longest(_by_length(coming), _by_length(going), fillvalue=())]
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
        """What was found."""
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


def _by_length(found: list[Sequence[int]]) -> list[Sequence[int]]:
    """The longest first: what was one directory before and after is nearly as long."""
    return found if len(found) < 2 else sorted(found, key=len, reverse=True)


def _differences(come: Sequence[int], go: Sequence[int]) -> tuple[Collection[int], Collection[int]]:
    """(what only comes, what only goes)."""
    if not come or not go:
        return come, go
    new, old = set(come), set(go)
    return new - old, old - new
