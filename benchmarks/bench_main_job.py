"""The main job, in one process: first save, unchanged save, save and restore of ten edits, diff, list.

    python -m pytest benchmarks --benchmark-enable -p no:xdist --files 5000
"""

import itertools

import pytest

from casrewind.workspace import Workspace

from . import trees

ROUNDS = 10
CHECKPOINTS = 200


@pytest.fixture
def edit(tree):
    """Change ten files, or as many as said, differently at every call."""
    paths = [path.relative_to(tree) for path in tree.rglob("*.py")]
    marks = itertools.count()
    return lambda number=10: trees.edit(tree, trees.pick(paths, number), next(marks))


def test_first_save(benchmark, tree, settings):
    opened = []

    def close():
        while opened:
            opened.pop().close()

    def fresh():
        close()
        trees.remove(settings.data)
        opened.append(Workspace(str(tree), settings, create=True))

    report = benchmark.pedantic(lambda: opened[-1].save(), setup=fresh, rounds=ROUNDS)
    close()
    assert report.created


def test_unchanged_save(benchmark, workspace):
    workspace.save()
    report = benchmark(workspace.save)
    assert not report.created


def test_save_after_ten_edits(benchmark, workspace, edit):
    workspace.save()
    report = benchmark.pedantic(workspace.save, setup=edit, rounds=ROUNDS)
    assert report.changes.modified == 10


def test_restore_of_ten_edits(benchmark, workspace, edit):
    point = workspace.save().checkpoint
    report = benchmark.pedantic(lambda: workspace.restore(point), setup=edit, rounds=ROUNDS)
    assert len(report.actions) == 10


def test_diff_against_the_worktree(benchmark, workspace, edit):
    point = workspace.save().checkpoint
    edit()
    found = benchmark(lambda: workspace.diff(point))
    assert len(found.changes) == 10


def test_diff_between_two_checkpoints(benchmark, workspace, edit):
    old = workspace.save().checkpoint
    edit()
    new = workspace.save().checkpoint
    found = benchmark(lambda: workspace.diff(old, new))
    assert len(found.changes) == 10


def test_list_of_200_checkpoints(benchmark, workspace, edit):
    for _ in range(CHECKPOINTS):
        edit(1)
        workspace.save()
    found = benchmark(workspace.checkpoints)
    assert len(found) == CHECKPOINTS
