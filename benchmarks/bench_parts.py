"""The parts of a save, of a comparison, of a list and of a restore, in one process, without files of a store where none is needed.

    python -m pytest benchmarks --benchmark-enable -p no:xdist --benchmark-timer time.process_time --benchmark-json parts.json
"""

import io
import random

from casrewind.model import digest as digests
from casrewind.model import diff as diffs
from casrewind.model.turn_records import Point
from casrewind.model.turns import Outline
from casrewind.change.restore import prepare_restore
from casrewind.history.present_scan import scan_now
from casrewind.settings import close_context, open_context
from casrewind.store import chunker, packs
from casrewind.store.dry_run_writer import DryRunWriter

import pytest

from . import trees

EDITS, TURNS = 1000, 2000


@pytest.fixture(scope="module")
def data(request):
    """Random bytes: nothing of them compresses."""
    return random.Random(5).randbytes(request.config.getoption("--megabytes") << 20)


@pytest.fixture
def context(workspace, tree, settings):
    workspace.save()
    opened = open_context(str(tree), settings, create=False)
    yield opened
    close_context(opened)


@pytest.fixture
def edited(context, tree):
    """The saved checkpoint of a tree in which a thousand files, or all of fewer, are changed afterwards."""
    paths = [path.relative_to(tree) for path in tree.rglob("*.py")]
    trees.edit(tree, trees.pick(paths, min(EDITS, len(paths))), 1)
    return context.store.head(context.root.key), min(EDITS, len(paths))


def test_hashing(benchmark, data):
    benchmark.extra_info["bytes"] = len(data)
    assert benchmark(digests.of, data) == digests.of(data)


def test_cutting_into_chunks(benchmark, data):
    benchmark.extra_info["bytes"] = len(data)
    assert benchmark(lambda: sum(map(len, chunker.cut_into_chunks(io.BytesIO(data), len(data))))) == len(data)


def test_compressing_chunks(benchmark, data):
    benchmark.extra_info["bytes"] = len(data)
    pieces = list(chunker.cut_into_chunks(io.BytesIO(data), len(data)))
    assert len(benchmark(packs.compress, pieces)) == len(pieces)


def test_scan_of_an_unchanged_tree(benchmark, context):
    found = benchmark(lambda: scan_now(context, DryRunWriter(context.store.read)))
    assert found.tree == context.store.head(context.root.key).tree


def test_diff_of_two_manifests_with_1000_changes(benchmark, context, edited):
    point, number = edited
    writer = DryRunWriter(context.store.read)
    now = scan_now(context, writer).tree
    found = benchmark(lambda: list(diffs.diff(writer.load_tree, point.tree, now)))
    assert len(found) >= number


def test_plan_of_a_restore_of_1000_edits(benchmark, context, edited):
    point, number = edited
    assert len(benchmark(lambda: prepare_restore(context, point).plan()).actions) == number


def test_arranging_2000_turns(benchmark):
    points = [
        Point(number + 1, f"c{number:015x}", number, f"c{number - 1:015x}" if number else "", "turn_end" if number % 2 else "prompt", b"t",
              prompt=f"do {number // 2}", agent="claude", session=f"s{number // 200}")
        for number in range(2 * TURNS)
    ]  # fmt: skip
    assert len(benchmark(lambda: Outline(points, frozenset()).turns)) == TURNS
