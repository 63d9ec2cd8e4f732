"""The main job, in one process: first save, unchanged save, save and restore of ten edits, diff.

    python -m pytest benchmarks/bench_main_job.py --benchmark-enable -p no:xdist --files 5000
"""

import itertools
import shutil

from casrewind.workspace import Workspace

_EDITS = itertools.count()


def edit(tree, number=10):
    """Change `number` files, differently each time."""
    mark = next(_EDITS)
    for path in sorted(tree.rglob("*.py"))[:: max(1, len(list(tree.rglob("*.py"))) // number)][:number]:
        with path.open("ab") as file:
            file.write(b"# edit %d\n" % mark)


def test_first_save(benchmark, tree, settings):
    def fresh():
        shutil.rmtree(settings.data, ignore_errors=True)
        return (Workspace(str(tree), settings, create=True),), {}

    report = benchmark.pedantic(lambda workspace: workspace.save(), setup=fresh, rounds=5)
    assert report.created


def test_unchanged_save(benchmark, workspace):
    workspace.save()
    report = benchmark(workspace.save)
    assert not report.created


def test_save_after_ten_edits(benchmark, workspace, tree):
    workspace.save()
    report = benchmark.pedantic(workspace.save, setup=lambda: edit(tree), rounds=10)
    assert report.changes.modified == 10


def test_restore_of_ten_edits(benchmark, workspace, tree):
    point = workspace.save().checkpoint
    report = benchmark.pedantic(lambda: workspace.restore(point), setup=lambda: edit(tree), rounds=10)
    assert len(report.actions) == 10


def test_diff_against_the_worktree(benchmark, workspace, tree):
    point = workspace.save().checkpoint
    edit(tree)
    found = benchmark(lambda: workspace.diff(point))
    assert len(found.changes) == 10
