"""What a session of two hundred checkpoints takes on disk: little more than what was edited, compressed."""

import os
import random
import subprocess

import pytest

from casrewind import open as open_workspace
from support import real_trees
from support.gc_checks import packs_of
from support.month_of_work import plant_project
from support.zstd_frames import zstd

CHECKPOINTS = 200
PER_CHECKPOINT = 16 << 10


def on_disk(place):
    return int(subprocess.run(["du", "-s", "-B1", place], capture_output=True, text=True, check=True).stdout.split()[0])


def sources(root):
    return sorted(os.path.join(place, name) for place, _, names in os.walk(root) for name in names if name.endswith(".py"))


def session(root, settings, what):
    """One to five sources anywhere in the tree get a line at every turn."""
    noise, compressor = random.Random(3), zstd.ZstdCompressor()
    files = sources(root)
    with open_workspace(str(root), settings) as workspace:
        workspace.save("before", described=True)
        before, changed = on_disk(workspace.store_path), 0
        for number in range(CHECKPOINTS):
            for path in noise.choices(files, k=noise.randrange(1, 6)):
                with open(path, encoding="utf-8") as file:
                    lines = file.read().splitlines(True)
                lines.insert(noise.randrange(len(lines) + 1), f"# edit {number} {noise.random()}\n")
                data = "".join(lines).encode()
                with open(path, "wb") as file:
                    file.write(data)
                changed += len(compressor.compress(data, compressor.FLUSH_FRAME))
            assert workspace.save(f"turn {number}", described=True).created
        grown = on_disk(workspace.store_path) - before
        assert len(packs_of(workspace.store_path)) < 5  # the last save has merged the others
        workspace.gc()
        merged = on_disk(workspace.store_path) - before
    allowed = 1.3 * changed + CHECKPOINTS * PER_CHECKPOINT
    print(f"{what}, {CHECKPOINTS} checkpoints: {changed:,} bytes compressed; {grown:,} on disk, {merged:,} after a gc: "
          f"{grown / allowed:.2f} and {merged / allowed:.2f} of 1.3 x that and 16 KiB each")
    assert merged <= allowed
    assert grown <= 2 * allowed  # the index has free pages until a gc


@pytest.mark.turns(3)
def test_two_hundred_checkpoints_of_a_small_project(root, settings):
    plant_project(root, 1000, random.Random(3))
    session(root, settings, "1,000 generated files")


@pytest.mark.long
def test_two_hundred_checkpoints_of_django(tmp_path, settings):
    place = tmp_path / "source"
    place.mkdir()
    session(real_trees.django(str(place)), settings, "Django 5.2")
