"""Real source trees, mangled at random, restored and undone, compared entry by entry by other means.

Ignored paths are part of the comparison: neither a restore nor an undo may touch them.
"""

import os
import tempfile
import time

import pytest

from casrewind.workspace import Workspace
from support import real_trees
from support.picture import differences, picture
from support.wreck_tree import wreck_tree


class Stopwatch:
    """Wall times, for people who run this with -s: nothing is asserted about them."""

    def __init__(self):
        self._last = time.monotonic()

    def lap(self, what):
        now = time.monotonic()
        print(f"{what}: {now - self._last:.2f} s")
        self._last = now


def is_as(root, wanted, why):
    found = differences(picture(root, mtimes=True), wanted)
    assert found == {}, f"{why}: {len(found)} paths, first of them {list(found.items())[:5]}"


def round_trip(root, settings, changes, seed):
    watch = Stopwatch()
    original = picture(root, mtimes=True)
    watch.lap(f"picture of {len(original):,} entries")
    with Workspace(str(root), settings, create=True) as workspace:
        saved = workspace.save()
        watch.lap(f"save of {saved.checkpoint.files:,} files, {saved.checkpoint.size:,} bytes")
        assert workspace.save().created is False
        watch.lap("save again")
        held = {path for path, _ in workspace.entries(saved.checkpoint)}
        counts = wreck_tree(root, changes, seed)
        watch.lap(f"mangling {counts}")
        mangled = picture(root, mtimes=True)
        changed = differences(original, mangled)
        watch.lap(f"picture, {len(changed):,} paths differ")
        report = workspace.restore(saved.checkpoint)
        watch.lap(f"restore of {len(report.actions):,} paths")
        assert not report.incomplete
        restored = picture(root, mtimes=True)
        watch.lap("picture")
        same_but_touched = {
            path for path, (was, now) in changed.items() if was and now and was[0] == now[0] == "file" and was[2] == now[2]
        }
        for path in original.keys() & held:
            if path in same_but_touched:  # its bytes did not differ: it was not written, and keeps its mtime
                assert restored[path] == (*original[path][:3], mangled[path][3]), path
            else:
                assert restored.get(path) == original[path], path
        for path in restored.keys() - held:
            assert restored[path] == mangled[path], f"{path} is none of the checkpoint's and was changed"
        gone = mangled.keys() - restored.keys()
        assert not gone & held
        assert {action.path for action in report.actions if action.after is None} == gone
        watch.lap("comparison")
        workspace.undo()
        watch.lap("undo")
        is_as(root, mangled, "after undo")
        watch.lap("picture")
        workspace.redo()
        watch.lap("redo")
        is_as(root, restored, "after redo")
        watch.lap("picture")
        left = workspace.diff(saved.checkpoint).changes
        assert {change.path for change in left if change.old is not None} == set()
        assert {change.path for change in left} <= {item.path for item in report.kept}, "what is left was named"
        assert not [name for name in os.listdir(root) if name.startswith(".casrewind")]
    return len(original), len(changed)


def in_place(settings, place):
    """The same settings with the store beside the tree."""
    return settings._replace(data=os.path.join(place, "data"), force=True)


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_django_comes_back_from_any_mangling(settings, seed):
    with tempfile.TemporaryDirectory(prefix="casrewind-django-", dir=real_trees.roomy()) as place:  # pytest's own would be kept
        entries, changed = round_trip(real_trees.django(place), in_place(settings, place), changes=1500, seed=seed)
    assert entries > 6_900
    assert changed > 1_000


@pytest.mark.long
def test_a_tree_of_sixty_thousand_files_comes_back_from_thousands_of_changes(settings):
    with tempfile.TemporaryDirectory(prefix="casrewind-kernel-", dir=real_trees.roomy()) as place:
        entries, changed = round_trip(real_trees.kernel(place), in_place(settings, place), changes=4000, seed=4)
    assert entries > 60_000
    assert changed > 4_000
