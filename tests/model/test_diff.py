"""Diff and patch: laws that hold for any two manifests, and what a diff must not look at."""

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind.model import diff as diffs
from casrewind.model import digest as digests
from casrewind.model import manifest, manifest_edits
from casrewind.model.manifest import DIR
from support import random_values
from support.sample_start import examples

RUN = settings(derandomize=True, deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])

names = st.sampled_from([b"a", b"b", b"c", b"d", b"a.b", b"a-", b"\xff"])
leaves = st.one_of(
    st.builds(
        lambda mode, content, mtime: manifest.Entry(manifest.FILE, mode, len(content), mtime, digests.of(content)),
        st.sampled_from([0o644, 0o755, 0o4755]), st.sampled_from([b"one", b"two", b"three"]), st.integers(0, 2),
    ),
    st.builds(manifest.link_entry, st.sampled_from([b"a", b"b"])),
)
# a directory is (mode, {name: node}), anything else an entry
nodes = st.recursive(
    leaves, lambda below: st.tuples(st.sampled_from([0o755, 0o700]), st.dictionaries(names, below, max_size=4)), max_leaves=14
)
worlds = st.dictionaries(names, nodes, max_size=4)


class Trees:
    """Trees in memory; counts what is loaded."""

    def __init__(self):
        self.blobs, self.loads = {}, []

    def store(self, data):
        digest = digests.of(data)
        self.blobs[digest] = data
        return digest

    def load(self, digest):
        self.loads.append(digest)
        return manifest.decode_tree(self.blobs[digest])

    def plant(self, world):
        rows = []
        for name, node in world.items():
            if isinstance(node, manifest.Entry):
                rows.append((name, node))
            else:
                rows.append((name, manifest.Entry(manifest.DIR, node[0], digest=self.plant(node[1]))))
        return self.store(manifest.encode_tree(rows))

    def flat(self, root):
        return dict(manifest.walk(self.load, root))


def seen(entries):
    """What a restore would bring back of each path."""
    return {
        path: (e.kind, None if e.kind == "link" else e.mode & 0o777, b"" if e.kind == DIR else e.digest, e.target)
        for path, e in entries.items()
    }


@RUN
@given(worlds)
def test_a_manifest_does_not_differ_from_itself_and_nothing_is_loaded_to_know_it(world):
    trees = Trees()
    root = trees.plant(world)
    assert list(diffs.diff(trees.load, root, root)) == []
    assert trees.loads == []


@RUN
@given(worlds, worlds)
def test_a_diff_names_exactly_the_paths_that_differ(one, other):
    trees = Trees()
    old, new = trees.plant(one), trees.plant(other)
    before, after = trees.flat(old), trees.flat(new)
    changes = list(diffs.diff(trees.load, old, new))
    found = {change.path: change for change in changes}
    assert [change.path for change in changes] == sorted(found), "a path twice, or not in order"
    left, right = seen(before), seen(after)
    assert found.keys() == {path for path in left.keys() | right.keys() if left.get(path) != right.get(path)}
    for path, change in found.items():
        assert change.old == before.get(path)
        assert change.new == after.get(path)


@RUN
@given(worlds, worlds)
def test_patching_one_manifest_with_the_diff_gives_the_other(one, other):
    trees = Trees()
    old, new = trees.plant(one), trees.plant(other)
    changes = {change.path: change.new for change in diffs.diff(trees.load, old, new)}
    gone = {path for path, entry in changes.items() if entry is None}
    patched = manifest_edits.with_changed_paths(trees.load, trees.store, old, {p: e for p, e in changes.items() if p not in gone or (
        p.rpartition(b"/")[0] not in gone and not _below_another(p, changes)
    )})
    assert seen(trees.flat(patched)) == seen(trees.flat(new))
    assert list(diffs.diff(trees.load, patched, new)) == []


def _below_another(path, changes):
    """True when a directory above `path` became something else: then nothing has to be said of `path`."""
    parts = path.split(b"/")
    above = (changes.get(b"/".join(parts[:count])) for count in range(1, len(parts)))
    return any(entry is not None and entry.kind != DIR for entry in above)


@RUN
@given(worlds, worlds)
def test_a_diff_the_other_way_is_the_same_diff_turned_round(one, other):
    trees = Trees()
    old, new = trees.plant(one), trees.plant(other)
    there = {(c.path, c.old, c.new) for c in diffs.diff(trees.load, old, new)}
    back = {(c.path, c.new, c.old) for c in diffs.diff(trees.load, new, old)}
    assert there == back
    turned = {"added": "removed", "removed": "added", "modified": "modified", "type": "type"}
    assert sorted(turned[c.status] for c in diffs.diff(trees.load, old, new)) == sorted(
        c.status for c in diffs.diff(trees.load, new, old)
    )


def test_a_diff_loads_only_the_trees_on_the_way_to_what_differs():
    trees = Trees()
    leaf = manifest.Entry(manifest.FILE, 0o644, 1, 0, digests.of(b"x"))
    world = {
        f"d{i:03}".encode(): (0o755, {f"s{j}".encode(): (0o755, {b"f": leaf._replace(mtime_ns=i * 50 + j)}) for j in range(20)})
        for i in range(50)
    }
    old = trees.plant(world)
    world[b"d007"][1][b"s3"] = (0o755, {b"f": leaf._replace(digest=digests.of(b"y"))})
    new = trees.plant(world)
    trees.loads.clear()
    (change,) = diffs.diff(trees.load, old, new)
    assert (change.path, change.status) == (b"d007/s3/f", "modified")
    assert len(trees.loads) == 6  # root, d007 and s3, of either side, out of 2102


def test_from_nothing_everything_is_added_and_to_nothing_everything_removed():
    trees = Trees()
    leaf = manifest.Entry(manifest.FILE, 0o644, 1, 0, digests.of(b"x"))
    root = trees.plant({b"d": (0o755, {b"f": leaf}), b"l": manifest.link_entry(b"d")})
    assert diffs.count(list(diffs.diff(trees.load, None, root))) == (2, 0, 0)
    assert diffs.count(list(diffs.diff(trees.load, root, None))) == (0, 0, 2)
    assert list(diffs.diff(trees.load, None, None)) == []


def test_what_a_restore_does_not_bring_back_makes_no_difference():
    one = manifest.Entry(manifest.FILE, 0o644, 1, 0, digests.of(b"x"))
    for other, equal in (
        (one._replace(mtime_ns=5), True),
        (one._replace(mode=0o4644), True),
        (one._replace(mode=0o600), False),
        (one._replace(digest=digests.of(b"y")), False),
        (manifest.link_entry(b"x"), False),
        (None, False),
    ):
        assert manifest.same_for_restore(one, other) is equal
        assert manifest.same_for_restore(other, one) is equal
    assert manifest.same_for_restore(None, None)
    assert manifest.same_for_restore(manifest.link_entry(b"a")._replace(mode=0), manifest.link_entry(b"a"))


@RUN
@given(worlds, st.data())
def test_a_finder_finds_what_a_walk_tells(world, data):
    trees = Trees()
    root = trees.plant(world)
    everything = trees.flat(root)
    for remembered in (manifest._REMEMBERED, 3):
        with patch.object(manifest, "_REMEMBERED", remembered):
            finder = manifest.Finder(trees.load, root)
            for path, entry in everything.items():
                assert finder.find(path) == entry
                assert finder.find(path + b"x") == everything.get(path + b"x")
                assert finder.find(path + b"/nothing") is None
            assert finder.find(data.draw(random_values.some_paths) + b"?") is None


@RUN
@given(worlds)
def test_a_walk_in_order_yields_the_same_sorted_by_path(world):
    trees = Trees()
    root = trees.plant(world)
    assert list(manifest.walk(trees.load, root, in_order=True)) == sorted(manifest.walk(trees.load, root))


def test_in_the_order_of_paths_a_sibling_may_come_before_what_a_directory_has():
    trees = Trees()
    leaf = manifest.link_entry(b"t")
    root = trees.plant({b"a": (0o755, {b"b": leaf}), b"a-b": leaf, b"ab": leaf})
    assert [path for path, _ in manifest.walk(trees.load, root, in_order=True)] == [b"a", b"a-b", b"a/b", b"ab"]


@pytest.mark.parametrize("in_order", [False, True])
def test_a_walk_refuses_a_manifest_deeper_than_any_path_may_be(in_order):
    trees = Trees()
    digest = trees.plant({})
    for _ in range(2100):
        digest = trees.store(manifest.encode_tree([(b"d", manifest.Entry(manifest.DIR, 0o755, digest=digest))]))
    try:
        for path, _ in manifest.walk(trees.load, digest, in_order=in_order):
            assert path.count(b"/") <= 2100
    except manifest.errors.UnsafePath:
        return
    raise AssertionError("a manifest of 2100 levels was walked to its end")
