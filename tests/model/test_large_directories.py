"""Nodes of large directories: cut by names alone, local in what a change makes anew, and refused when they make no sense."""

import random
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind import errors
from casrewind.model import diff as diffs
from casrewind.model import digest as digests
from casrewind.model import manifest, manifest_edits, directory_nodes
from casrewind.model.manifest import DIR, PURGED, Entry
from casrewind.model.directory_nodes import LIMITS, LOST, NodeLimits, NodeList
from support import handmade_nodes, random_values
from support.handmade_nodes import entry, leaf, listed
from support.sample_start import examples

RUN = settings(derandomize=True, deadline=None, max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
SMALL = NodeLimits(2, 5)
"""So that a few names make several levels."""

contents = st.binary(max_size=2)
directories = st.dictionaries(random_values.names, contents, max_size=90)
many_names = st.lists(st.integers(0, 5000), max_size=400, unique=True).map(lambda found: sorted(b"%04d" % number for number in found))


class Memory:
    """Trees and nodes in memory. `loads` are the digests that were asked for."""

    def __init__(self, limits=SMALL):
        self.blobs, self.loads, self.limits = {}, [], limits

    def put(self, data):
        self.blobs[digests.of(data)] = data
        return digests.of(data)

    def store(self, data):
        return manifest.store_tree(data, self.put, self.limits)

    def directory(self, world):
        """Store {name: content}; the digest."""
        return self.store(manifest.encode_tree((name, entry(content)) for name, content in world.items()))

    def load(self, digest):
        self.loads.append(digest)
        return manifest.decode_node(self.blobs[digest])

    def nodes(self, top):
        """{digest: node} of a directory."""
        node = self.load(top)
        return {top: node} | (dict(directory_nodes.nodes_below(self.load, node)) if isinstance(node, NodeList) else {})


def sizes(node):
    return len(node.parts if isinstance(node, NodeList) else node)


# -- cutting


@RUN
@given(many_names, st.sampled_from([SMALL, NodeLimits(1, 2), NodeLimits(4, 9)]))
def test_every_node_has_the_least_and_at_most_the_most_names(names, limits):
    starts = directory_nodes.node_starts(names, limits)
    lengths = [end - start for start, end in zip(starts, [*starts[1:], len(names)], strict=True)]
    assert starts[0] == 0 and sum(lengths) == len(names)
    assert len(starts) == 1 or min(lengths) >= limits.least
    assert max(lengths) <= limits.most
    assert (len(starts) == 1) == (len(names) <= limits.most)


def test_the_limits_of_a_small_directory_are_those_of_a_node():
    """manifest.py has the number, too: it does not import the nodes for small directories."""
    assert manifest._MOST_IN_NODE == LIMITS.most >= 2 * LIMITS.least
    most = -(-directory_nodes.MOST_ENTRIES // LIMITS.least)
    levels = 1
    while most > LIMITS.most:
        most, levels = -(-most // LIMITS.least), levels + 1
    assert levels <= directory_nodes.MOST_LEVELS


@RUN
@given(directories, st.randoms(use_true_random=False))
def test_equal_directories_have_equal_roots_whatever_the_order_of_edits(world, chance):
    memory = Memory()
    root = memory.directory({})
    names = list(world)
    chance.shuffle(names)
    detours = [b"zz%d" % number for number in range(chance.randint(0, 20))]
    for name in (*names, *detours):
        root = manifest_edits.with_changed_paths(memory.load, memory.store, root, {name: entry(world.get(name, b"detour"))})
    for name in detours:
        if name not in world:
            root = manifest_edits.with_changed_paths(memory.load, memory.store, root, {name: None})
    assert root == memory.directory(world)


@RUN
@given(directories)
def test_a_directory_comes_back(world):
    memory = Memory()
    root = memory.directory(world)
    rows = manifest.directory_entries(memory.load, root)
    assert rows == sorted((name, entry(content)) for name, content in world.items())
    nodes = memory.nodes(root)
    assert all(sizes(node) <= SMALL.most for node in nodes.values())
    assert all(sizes(node) >= SMALL.least for digest, node in nodes.items() if digest != root)
    finder = manifest.Finder(memory.load, root)
    assert all(finder.find(name) == found for name, found in rows) and finder.find(b"\xfe no such name") is None
    assert dict(manifest.walk(memory.load, root)) == dict(rows)


@RUN
@given(st.dictionaries(random_values.names, contents, max_size=SMALL.most))
def test_a_small_directory_is_one_blob_byte_for_byte(world):
    memory = Memory()
    data = manifest.encode_tree((name, entry(content)) for name, content in world.items())
    assert memory.store(data) == digests.of(data)
    assert memory.blobs == {digests.of(data): data}


def test_a_directory_with_as_many_entries_as_one_node_has_is_one_blob_and_with_one_more_it_is_not():
    for count, blobs in ((LIMITS.most, 1), (LIMITS.most + 1, 3)):
        memory = Memory(None)
        memory.directory({b"%05d" % number: b"" for number in range(count)})
        assert len(memory.blobs) == blobs


def test_a_change_makes_few_nodes_anew():
    """Of 6,000 names: an edit one at each level, a name more or less hardly ever more."""
    chance = random.Random(5)
    world = {b"file%06d.txt" % number: b"%d" % number for number in chance.sample(range(10**6), 6000)}
    memory = Memory(None)
    root = memory.directory(world)
    levels = memory.load(root).level + 1
    assert levels == 2 and 30 < len(memory.nodes(root)) < 80
    made = {"edit": [], "remove": [], "add": []}
    for number in range(8):
        for kind, news in made.items():
            changed = dict(world)
            if kind == "add":
                changed[b"file%06d.txt" % chance.randrange(10**6)] = b"new"
            else:
                name = chance.choice(sorted(world))
                del changed[name]
                changed |= {name: b"new %d" % number} if kind == "edit" else {}
            other = Memory(None)
            news.append(len(other.nodes(other.directory(changed)).keys() - memory.blobs.keys()))
    assert set(made["edit"]) == {levels}
    for kind in ("remove", "add"):
        assert max(made[kind]) <= levels + 6 and sum(made[kind]) / 8 < levels + 0.5, made[kind]


@RUN
@given(directories, contents)
def test_an_edit_cuts_nothing_anew(world, content):
    """A purge, too, gives entries other bytes and keeps names."""
    memory = Memory()
    root = memory.directory(world)
    gone = Entry(PURGED, 0o644, 3)
    for name in sorted(world)[:3]:
        for now in (entry(content + b"!!!"), gone):  # longer than any content: another entry indeed
            before = memory.nodes(root)
            changed = manifest_edits.with_changed_paths(memory.load, memory.store, root, {name: now})
            assert manifest_edits.with_replaced_entries(memory.load, memory.put, root, {name: now}) == changed
            new = memory.nodes(changed)
            level = before[root].level if isinstance(before[root], NodeList) else 0
            assert len(new.keys() - before.keys()) == level + 1
            assert [directory_nodes.first_and_last(node) for node in new.values()] == [directory_nodes.first_and_last(node) for node in before.values()]


def test_what_is_replaced_leaves_the_rest_unread_and_lost_nodes_as_they_are():
    memory = Memory()
    world = {b"%03d" % number: b"%d" % number for number in range(80)}
    below = memory.directory(world)
    root = memory.store(manifest.encode_tree([(b"d", manifest.Entry(manifest.DIR, 0o755, digest=below)), (b"f", entry(b"f"))]))
    nodes = memory.nodes(below)
    (lost, node) = [(digest, node) for digest, node in nodes.items() if isinstance(node, list)][-1]
    del memory.blobs[lost]

    def load(digest):
        return memory.load(digest) if digest in memory.blobs else LOST

    changed = manifest_edits.with_replaced_entries(load, memory.put, root, {b"d/000": entry(b"other"), b"f": entry(b"g")})
    rows = dict(manifest.walk(load, changed))
    assert rows[b"d/000"] == entry(b"other") and rows[b"f"] == entry(b"g")
    assert set(rows) == {b"d", b"f", *(b"d/" + name for name in world if name not in dict(node))}
    top = memory.load(rows[b"d"].digest)
    lists = [top, *(node for _, node in directory_nodes.nodes_below(load, top) if isinstance(node, NodeList))]
    assert lost in {part.digest for node in lists for part in node.parts}


# -- diff


@RUN
@given(directories, directories, st.integers(0, 90))
def test_a_diff_over_nodes_is_the_diff_of_the_dictionaries(one, other, common):
    for old, new in ((one, other), (one, {**dict(sorted(one.items())[:common]), **dict(sorted(other.items())[:3])})):
        memory = Memory()
        found = list(diffs.diff(memory.load, memory.directory(old), memory.directory(new)))
        wanted = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        assert [change.path for change in found] == wanted
        for change in found:
            before, after = old.get(change.path), new.get(change.path)
            assert (change.old, change.new) == tuple(None if each is None else entry(each) for each in (before, after))


def test_a_diff_of_many_names_with_one_change_loads_few_nodes():
    memory = Memory(None)
    world = {b"%06d" % number: b"%d" % (number % 7) for number in range(20_000)}
    old = memory.directory(world)
    for changed in (world | {b"010000": b"other"}, world | {b"new": b"n"}, {**world, b"000000": b"x"}):
        new = memory.directory(changed)
        memory.loads = []
        assert len(list(diffs.diff(memory.load, old, new))) == 1
        assert len(memory.loads) <= 12
    assert len(memory.nodes(old)) > 100


def test_what_is_counted_leaves_out_a_lost_node_and_no_more():
    memory = Memory()
    world = {b"%03d" % number: b"%d" % number for number in range(60)}
    old, new = memory.directory(world), memory.directory({name: content + b"!" for name, content in world.items()})
    lost, rows = [(digest, node) for digest, node in memory.nodes(old).items() if isinstance(node, list)][3]
    del memory.blobs[lost]

    def load(digest):
        if digest not in memory.blobs:
            raise errors.BlobMissing("gone")
        return memory.load(digest)

    with pytest.raises(errors.BlobMissing):
        list(diffs.diff(load, old, new))
    counts = diffs.count(diffs.diff(diffs.loader_with_damaged_trees_empty(load), old, new))
    assert counts == (len(rows), 60 - len(rows), 0)


# -- what makes no sense


def stored(build):
    memory = Memory()
    return memory, build(memory.put)


@pytest.mark.parametrize("name", handmade_nodes.NODES)
def test_nodes_that_make_no_sense_are_refused(name):
    memory, top = stored(handmade_nodes.NODES[name])
    for look in (
        lambda: manifest.directory_entries(memory.load, top),
        lambda: list(manifest.walk(memory.load, top)),
        lambda: manifest.Finder(memory.load, top).entries_of_directory(b""),
        lambda: list(diffs.diff(memory.load, None, top)),
        lambda: list(diffs.diff(memory.load, top, memory.directory({b"%d" % number: b"" for number in range(20)}))),
    ):
        with pytest.raises(errors.ManifestCorrupt, match="run casrewind verify"):
            look()


def test_a_name_in_a_node_that_no_restore_may_write_is_refused():
    memory = Memory()
    sound = leaf(b"b", b"c..")
    top = memory.put(listed(1, (b"a", memory.put(leaf(b"a"))), (b"b", memory.put(sound.replace(b"c..", b"c/d")))))
    with pytest.raises(errors.UnsafePath):
        manifest.directory_entries(memory.load, top)


def test_lists_that_share_nodes_level_upon_level_end_at_once():
    """Each list names the one below it twice: 2^levels entries, if they were followed. Their first names cannot both be true."""
    memory = Memory()
    below = memory.put(listed(1, (b"a", memory.put(leaf(b"a"))), (b"b", memory.put(leaf(b"b")))))
    for level in range(2, directory_nodes.MOST_LEVELS + 1):
        below = memory.put(listed(level, (b"a", below), (b"b", below)))
    with pytest.raises(errors.ManifestCorrupt):
        manifest.directory_entries(memory.load, below)
    assert len(memory.loads) < 30


def test_more_entries_than_a_directory_can_have_are_refused(monkeypatch):
    monkeypatch.setattr(directory_nodes, "MOST_ENTRIES", 50)
    memory = Memory()
    rows = manifest.encode_tree((b"%03d" % number, entry(b"")) for number in range(51))
    with pytest.raises(errors.StoreError, match="51 entries"):
        memory.store(rows)
    monkeypatch.setattr(directory_nodes, "MOST_ENTRIES", 51)
    top = memory.store(rows)
    assert len(manifest.directory_entries(memory.load, top)) == 51
    monkeypatch.setattr(directory_nodes, "MOST_ENTRIES", 50)
    with pytest.raises(errors.ManifestCorrupt, match="more entries"):
        manifest.directory_entries(memory.load, top)


def test_a_directory_of_large_directories_is_walked_and_compared():
    memory = Memory()
    flat = {b"%02d" % number: b"%d" % number for number in range(30)}
    worlds = [flat, flat | {b"29": b"other", b"30": b"new"}]
    roots = []
    for world in worlds:
        below = memory.directory(world)
        rows = [(b"d%02d" % number, manifest.Entry(manifest.DIR, 0o755, digest=below)) for number in range(12)]
        roots.append(memory.store(manifest.encode_tree(rows)))
    assert len(dict(manifest.walk(memory.load, roots[0]))) == 12 * 31
    found = [change.path for change in diffs.diff(memory.load, *roots)]
    assert found == [b"d%02d/%d" % (number, name) for number in range(12) for name in (29, 30)]
    changed = manifest_edits.with_changed_paths(memory.load, memory.store, roots[0], {b"d05/29": entry(b"other"), b"d05/30": entry(b"new")})
    assert [change.path for change in diffs.diff(memory.load, roots[0], changed)] == [b"d05/29", b"d05/30"]
    assert manifest.Finder(memory.load, changed).find(b"d05").kind == DIR


@RUN
@given(directories, random_values.names, st.sampled_from([3, 20, 50_000]))
def test_a_finder_finds_every_name_and_no_other_whatever_it_remembers(world, name, remembered):
    memory = Memory()
    below = memory.directory(world)
    root = memory.store(manifest.encode_tree((each, manifest.Entry(manifest.DIR, 0o755, digest=below)) for each in sorted({name, b"d", *list(world)[:20]})))
    with patch.object(manifest, "_REMEMBERED", remembered):
        finder = manifest.Finder(memory.load, root)
        for each in [*world, name, *world]:
            assert finder.find(b"d/" + each) == (entry(world[each]) if each in world else None)
            assert (finder.find(each) is not None) == (each in {name, b"d", *list(world)[:20]})
        assert finder.entries_of_directory(b"d") == {each: entry(content) for each, content in world.items()}
        assert all(finder.find(b"d/" + each) == entry(content) for each, content in world.items())


def test_a_finder_loads_one_node_of_each_level():
    memory = Memory(None)
    below = memory.directory({b"%06d" % number: b"%d" % (number % 7) for number in range(100_000)})
    root = memory.store(manifest.encode_tree([(b"d", manifest.Entry(manifest.DIR, 0o755, digest=below))]))
    finder = manifest.Finder(memory.load, root)
    memory.loads = []
    assert finder.find(b"d/050000") == entry(b"%d" % (50_000 % 7)) and finder.find(b"d/050001") and finder.find(b"d/no such") is None
    assert len(memory.loads) <= 1 + 3 + 3
