"""Shares: whatever the graph, the owners and their order, the figures are those of plain sets."""

from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind.model.size_by_owner import compute_sizes
from support.sample_start import examples


@st.composite
def graphs(draw):
    """(edges, sizes, owners, groups): containers name nodes with higher numbers only, so that nothing goes in circles."""
    count = draw(st.integers(1, 14))
    sizes = draw(st.lists(st.sampled_from([0, 1, 10, 100, 1000, 10_000]), min_size=count, max_size=count))
    edges = {}
    for node in range(count - 1):
        if draw(st.booleans()):
            below = st.integers(node + 1, count - 1)
            pairs = st.tuples(st.integers(0, 2), below)  # with names: one container may name a node twice
            edges[node] = [name << 32 | to for name, to in draw(st.lists(pairs, max_size=6, unique=True))]
    owner = st.lists(st.integers(0, count - 1), max_size=4)
    owners = draw(st.lists(owner, max_size=9))
    groups, group = [], 0
    for place in range(len(owners)):
        group += bool(place) and draw(st.booleans())
        groups.append(group)
    return edges, sizes, owners, groups


def below(edges, nodes):
    found, stack = set(), list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [edge & 0xFFFFFFFF for edge in edges.get(node, ())]
    return found


def plainly(edges, sizes, owners, groups):
    """The same figures from a set for every owner."""

    def weigh(nodes):
        return sum(sizes[node] for node in nodes)

    sets = [below(edges, nodes) for nodes in owners]
    how_many = {node: sum(node in one for one in sets) for node in range(len(sizes))}
    alone = {node for node, count in how_many.items() if count == 1}
    together = [set().union(*(one for one, group in zip(sets, groups) if group == number)) for number in range(max(groups, default=-1) + 1)]
    others = [set().union(*(one for one, group in zip(sets, groups) if group != number)) for number in range(len(together))]
    return (
        [weigh(one) for one in sets],
        [weigh(one & alone) for one in sets],
        [weigh(one) for one in together],
        [weigh(one - other) for one, other in zip(together, others)],
        weigh(alone),
        weigh(node for node, count in how_many.items() if count > 1),
    )


@settings(max_examples=examples(400), deadline=None)
@given(graphs())
def test_the_figures_are_those_of_plain_sets(case):
    assert tuple(compute_sizes(*case)) == plainly(*case)


def test_nobody_owns_nothing():
    assert tuple(compute_sizes({}, [], [], [])) == ([], [], [], [], 0, 0)
    assert tuple(compute_sizes({}, [5], [], [])) == ([], [], [], [], 0, 0)
    assert tuple(compute_sizes({0: [1]}, [1, 2], [[], [0], []], [0, 0, 0])) == ([0, 3, 0], [0, 3, 0], [3], [3], 3, 0)


def test_what_comes_back_is_not_whose_it_was_alone():
    """0 is there, gone, and there again; 1 only once; 2 goes and comes within one group."""
    found = compute_sizes({}, [1, 10, 100], [[0], [1], [0, 2], [], [2]], [0, 0, 1, 1, 1])
    assert found.owner_unique == [0, 10, 0, 0, 0]
    assert found.group_total == [11, 101] and found.group_unique == [10, 100]
    assert (found.unique, found.shared) == (10, 101)


def test_a_container_that_moves_takes_its_nodes_along():
    """Node 2 stands below 0, then below 1, then below both; nothing of it ever goes."""
    edges = {0: [2], 1: [2], 2: [3], 4: [0], 5: [1], 6: [0, 1]}
    found = compute_sizes(edges, [1, 1, 1, 1000, 1, 1, 1], [[4], [5], [6], [5]], [0, 1, 1, 2])
    assert found.owner_total == [1003, 1003, 1004, 1003]
    assert found.shared == 1005 - 1 and found.unique == 1 + 1
