"""Trees and contents that are read ahead are those that are read one by one, and damage is met in its place."""

import shutil
from itertools import pairwise

import pytest

from casrewind import errors
from casrewind.model import diff as diffs
from casrewind.model import digest as digests
from casrewind.model import manifest
from casrewind.model.diff import diff
from casrewind.model.plan import Action
from casrewind.change import execute
from casrewind.change.execute import Contents
from casrewind.store import reading
from casrewind.store.reading import TimelineTrees, TreeCache, TreesAhead
from support import packfile
from support.trees import plant


@pytest.mark.parametrize("held", [20, 1 << 30])
def test_a_walk_that_reads_ahead_finds_what_one_finds_that_does_not(workspace, root, monkeypatch, held):
    """Whatever the depth, and with a directory in two places, however few can be held."""
    monkeypatch.setattr(reading, "_HELD", held)
    plant(root, {f"a{one}/b{two}/c{one}{two}/f": b"%d %d" % (one, two) for one in range(12) for two in range(12)})
    plant(root, {f"again/{name}/deep/f": b"same" for name in range(30)})
    target = workspace.save().checkpoint
    store = workspace._context.store
    assert list(manifest.walk(TreesAhead(store.load_tree, store.read_many), target.tree)) == list(manifest.walk(store.load_tree, target.tree))


@pytest.fixture
def timeline(workspace, root):
    """The trees of thirty checkpoints, newest first: in each of them one of 24 directories has another file."""
    plant(root, {f"a{one}/b{two}/f{three}": b"" for one in range(4) for two in range(6) for three in range(5)})
    found = []
    for number in range(30):
        plant(root, {f"a{number % 4}/b{number % 6}/f": b"%d" % number})
        found.append(workspace.save().checkpoint.tree)
    return found[::-1]


@pytest.mark.parametrize("held", [20, 1 << 30])
def test_comparisons_along_a_timeline_find_what_single_ones_find(workspace, timeline, monkeypatch, held):
    """In any order, however few trees can be held."""
    monkeypatch.setattr(reading, "_MOST_AHEAD", held)
    store = workspace._context.store
    load = TimelineTrees(store.load_tree, store.read_many, timeline)
    for pairs in ([*pairwise(timeline)], [*pairwise(timeline)][::-1]):
        expected = [list(diffs.diff(store.load_tree, old, new)) for new, old in pairs]
        assert all(expected) and [list(diffs.diff(load, old, new)) for new, old in pairs] == expected


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


@pytest.mark.parametrize("held", [10, 1 << 20])
def test_a_comparison_that_reads_ahead_finds_what_one_finds_that_does_not(workspace, root, held):
    """Whatever was made, removed or changed, however little can be held."""
    plant(root, {f"a{one}/b{two}/f": b"%d %d" % (one, two) for one in range(12) for two in range(12)})
    first = workspace.save().checkpoint.tree
    for number in range(12):
        (root / f"a{number}/b{number}/f").write_bytes(b"else")
    shutil.rmtree(root / "a1")
    plant(root, {"new/deep/f": b"n"})
    second = workspace.save().checkpoint.tree
    store = workspace._context.store
    trees = TreeCache(store.load_tree, held, read_many=store.read_many)
    trees.load_differing_trees(first, second)
    found = list(diff(trees, first, second))
    assert len(found) > 20 and found == list(diff(store.load_tree, first, second))


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
