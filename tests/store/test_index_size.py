"""The index does not grow for ever: what is freed is used again, and gc gives back what is not."""

import os
import random

from casrewind import open as open_workspace
from support.month_of_work import plant_project, source


FILES = 600
"""Of the project."""
SAVES = 60


def index_bytes(workspace):
    return os.stat(os.path.join(workspace.store_path, "index", "data.mdb")).st_size


def edit(root, noise, count, number):
    for _ in range(count):
        n = noise.randrange(FILES)
        (root / f"src/{n % 97:02d}/module_{n}.py").write_text(source(noise, n, number))


def test_saves_use_the_same_pages_again(root, settings):
    noise = random.Random(5)
    plant_project(root, FILES, noise)
    sizes = []
    with open_workspace(str(root), settings) as workspace:
        for number in range(SAVES):
            edit(root, noise, 12, number)
            workspace.save(f"turn {number}", described=True)
            sizes.append(index_bytes(workspace))
    rows = SAVES * 16 * 110  # of blobs: at most 16 a save, and of checkpoints
    assert sizes[-1] - sizes[20] <= rows + (256 << 10), sizes[::10]


def test_gc_gives_back_what_is_free_and_nothing_is_forgotten_by_it(root, settings):
    noise = random.Random(6)
    plant_project(root, FILES, noise)
    with open_workspace(str(root), settings) as workspace:
        for number in range(24):
            edit(root, noise, 150, number)
            workspace.save(f"turn {number}", described=True)
        before = index_bytes(workspace)
        assert before > 5 << 18, "an index below 1 MiB is not compacted"
        from casrewind import Limits

        workspace.gc(Limits(None, 2))
        assert index_bytes(workspace) < before * 0.7
        assert [point.label for point, _ in workspace.checkpoints()] == ["turn 23", "turn 22"]
        saved = workspace.save("after", described=True)
        assert saved.created
        assert workspace.verify().problems == ()
        other = open_workspace(str(root), settings)  # and another process's view of it is the new file
        with other:
            assert len(other.checkpoints()) == 3
