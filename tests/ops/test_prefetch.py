"""Trees and contents of one restore: read once, and not all of them held."""

import shutil
from itertools import pairwise

import pytest

from casrewind import errors
from casrewind.model import diff as diffs
from casrewind.model import digest as digests
from casrewind.model import manifest
from casrewind.model.diff import diff
from casrewind.model.plan import Action
from casrewind.ops import execute
from casrewind.ops.execute import Contents
from casrewind.store import reading
from casrewind.store.reading import TimelineTrees, TreeCache, TreesAhead
from support import packfile
from support.scanner import settle
from support.trees import plant


def test_a_tree_is_loaded_once_as_long_as_there_are_not_too_many():
    loads = []

    def load(digest):
        loads.append(digest)
        return [(b"%d" % number, manifest.link_entry(digest)) for number in range(3)]

    remembered = TreeCache(load, 10)
    assert remembered(b"one") is remembered(b"one")
    assert remembered(b"two") == load(b"two")
    assert loads == [b"one", b"two", b"two"]
    remembered(b"three")  # one too many: 4 for each
    assert remembered(b"one") == load(b"one")
    assert loads == [b"one", b"two", b"two", b"three", b"one", b"one"]


def test_directories_are_read_many_at_once(workspace, root, monkeypatch):
    """Each once, whatever the depth: with few lookups in the index. A directory in two places is the same one."""
    plant(root, {f"a{one}/b{two}/c{one}{two}/f": b"%d %d" % (one, two) for one in range(12) for two in range(12)})
    plant(root, {f"again/{name}/deep/f": b"same" for name in range(30)})
    target = workspace.save().checkpoint
    store, lots = workspace._context.store, []
    looked_up = type(store)._locations_of

    def looking_up(self, wanted):
        lots.append(len(wanted))
        return looked_up(self, wanted)

    monkeypatch.setattr(type(store), "_locations_of", looking_up)
    found = list(manifest.walk(TreesAhead(store.load_tree, store.read_many), target.tree))
    assert len(lots) < 15 and sum(lots) < 500
    lots.clear()
    assert found == list(manifest.walk(store.load_tree, target.tree)) and len(lots) > 300
    monkeypatch.setattr(reading, "_HELD", 20)
    lots.clear()
    assert list(manifest.walk(TreesAhead(store.load_tree, store.read_many), target.tree)) == found


@pytest.fixture
def timeline(workspace, root):
    """The trees of thirty checkpoints, newest first: in each of them one of 24 directories has another file."""
    plant(root, {f"a{one}/b{two}/f{three}": b"" for one in range(4) for two in range(6) for three in range(5)})
    found = []
    for number in range(30):
        plant(root, {f"a{number % 4}/b{number % 6}/f": b"%d" % number})
        found.append(workspace.save().checkpoint.tree)
    return found[::-1]


def test_trees_along_a_timeline_are_read_many_at_once(workspace, timeline, monkeypatch):
    store, lots = workspace._context.store, []
    expected = [list(diffs.diff(store.load_tree, old, new)) for new, old in pairwise(timeline)]
    assert all(expected)
    looked_up = type(store)._locations_of
    monkeypatch.setattr(type(store), "_locations_of", lambda self, wanted: lots.append(len(wanted)) or looked_up(self, wanted))
    load = TimelineTrees(store.load_tree, store.read_many, timeline)
    assert [list(diffs.diff(load, old, new)) for new, old in pairwise(timeline)] == expected
    assert len(lots) < 15 and sum(lots) <= 5 * 30, "of each checkpoint its root, and the two directories above the file before and after"
    backwards = [list(diffs.diff(load, old, new)) for new, old in [*pairwise(timeline)][::-1]]
    assert backwards == expected[::-1], "in any order"
    monkeypatch.setattr(reading, "_MOST_AHEAD", 20)
    load = TimelineTrees(store.load_tree, store.read_many, timeline)
    assert [list(diffs.diff(load, old, new)) for new, old in pairwise(timeline)] == expected, "of which few can be kept"


def test_a_damaged_tree_of_a_timeline_is_met_where_it_is_asked_for(workspace, timeline):
    store = workspace._context.store
    packfile.flip_blob(store.path, timeline[5])
    load = TimelineTrees(store.load_tree, store.read_many, timeline)
    for at, (new, old) in enumerate(pairwise(timeline)):
        if at in (4, 5):
            with pytest.raises(errors.BlobCorrupt):
                list(diffs.diff(load, old, new))
        else:
            assert len(list(diffs.diff(load, old, new))) == 1


def test_a_damaged_directory_is_met_where_it_is_asked_for(workspace, root):
    plant(root, {"a/f": b"1", "b/c/g": b"2", "z": b"3"})
    target = workspace.save().checkpoint
    store = workspace._context.store
    entry = dict(manifest.walk(store.load_tree, target.tree))[b"b/c"]
    packfile.flip_blob(store.path, entry.digest)
    lost = []
    found = manifest.walk(TreesAhead(store.load_tree, store.read_many), target.tree, lambda path, error: lost.append((path, type(error))))
    assert {path for path, _ in found} == {b"a", b"a/f", b"b", b"b/c", b"z"}
    assert lost == [(b"b/c", errors.BlobCorrupt)]


def test_contents_come_in_whatever_order_they_are_asked_for(workspace, root, monkeypatch):
    monkeypatch.setattr(execute, "_FILES", 3)
    files = {f"f{number}": b"content %d" % (number // 2) for number in range(12)} | {"large": b"0123456789abcdef" * 90_000}
    plant(root, files)
    tree = workspace.save().checkpoint.tree
    store = workspace._context.store
    actions = [Action(path, None, entry, path) for path, entry in manifest.walk(store.load_tree, tree)]
    for order in (actions, actions[::-1], actions[5:] + actions[:5], actions[::2]):
        read = Contents(store, [action.after for action in actions])
        for action in order:
            assert digests.of(b"".join(read(action.after))) == action.after.digest
            assert len(read._ahead) <= 3


def test_trees_that_differ_are_read_a_level_at_a_time_and_no_others(workspace, root, monkeypatch):
    """Whatever was made, removed or changed: a comparison afterwards looks nothing up, and finds what it finds without."""
    plant(root, {f"a{one}/b{two}/f": b"%d %d" % (one, two) for one in range(12) for two in range(12)})
    first = workspace.save().checkpoint.tree
    for number in range(12):
        (root / f"a{number}/b{number}/f").write_bytes(b"else")
    shutil.rmtree(root / "a1")
    plant(root, {"new/deep/f": b"n"})
    second = workspace.save().checkpoint.tree
    store, lots = workspace._context.store, []
    looked_up = type(store)._locations_of

    def looking_up(self, wanted):
        lots.append(len(wanted))
        return looked_up(self, wanted)

    monkeypatch.setattr(type(store), "_locations_of", looking_up)
    trees = TreeCache(store.load_tree, read_many=store.read_many)
    trees.load_differing_trees(first, second)
    assert len(lots) <= 4 and sum(lots) < 80
    lots.clear()
    found = list(diff(trees, first, second))
    assert len(found) > 20 and not lots
    assert found == list(diff(store.load_tree, first, second))
    few = TreeCache(store.load_tree, 10, read_many=store.read_many)
    few.load_differing_trees(first, second)
    assert list(diff(few, first, second)) == found


def test_trees_that_cannot_be_read_ahead_are_met_by_the_comparison(workspace, root):
    plant(root, {"a/f": b"1", "b/g": b"1"})
    first = workspace.save().checkpoint.tree
    plant(root, {"a/f": b"2", "b/g": b"2"})
    second = workspace.save().checkpoint.tree
    store = workspace._context.store
    packfile.flip_blob(store.path, dict(manifest.walk(store.load_tree, first))[b"b"].digest)
    trees = TreeCache(store.load_tree, read_many=store.read_many)
    trees.load_differing_trees(first, second)
    with pytest.raises(errors.BlobCorrupt):
        list(diff(trees, first, second))


def test_a_scan_reads_the_trees_of_changed_directories_at_once(workspace, root, monkeypatch):
    """A lookup in the index costs as much as a small tree: not one for each directory. Those without a change are not read."""
    plant(root, {f"a{one}/b{two}/f": b"%d %d" % (one, two) for one in range(12) for two in range(12)})
    point = workspace.save().checkpoint
    settle()
    workspace.save()  # nothing is doubtful any more
    for number in range(12):
        (root / f"a{number}/b{number}/f").write_bytes(b"else")
    store, lots, read = workspace._context.store, [], []
    looked_up, decode = type(store)._locations_of, manifest.decode_node

    def looking_up(self, wanted):
        lots.append(len(wanted))
        return looked_up(self, wanted)

    def decoding(data, shared=None):
        read.append(digests.of(data))
        return decode(data, shared)

    monkeypatch.setattr(type(store), "_locations_of", looking_up)
    monkeypatch.setattr(manifest, "decode_node", decoding)
    told = workspace.diff(point.id)
    assert len(told.changes) == 12
    assert len(lots) <= 6 and len(read) == len(set(read)) == 2 * (1 + 12 + 12)


def test_what_a_scan_has_read_is_there_for_the_comparison_with_it(workspace, root):
    """Also when it fills most of the cache: only trees of another comparison give place."""
    plant(root, {f"a{number}/f": b"%d" % number for number in range(20)})
    first = workspace.save().checkpoint.tree
    (root / "a1/f").write_bytes(b"else")
    second = workspace.save().checkpoint.tree
    store, read = workspace._context.store, []

    def read_many(wanted, kind):
        read.extend(wanted)
        return store.read_many(wanted, kind)

    trees = TreeCache(store.load_tree, 100, read_many=read_many)
    assert trees.read_ahead([first, *(entry.digest for _, entry in store.load_tree(first))])
    trees.load_differing_trees(first, second)
    assert [change.path for change in diff(trees, first, second)] == [b"a1/f"] and len(read) == len(set(read)) == 1 + 20 + 2
