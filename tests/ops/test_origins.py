"""Which checkpoint a directory was made from: what restore --to notes, when it counts, and what bounds it."""

import os
import shutil
import time

import pytest

from casrewind.model.retention import Limits
from casrewind.ops import directory_origins
from casrewind.ops.directory_origins import origin_of
from support.trees import plant


@pytest.fixture
def context(workspace):
    return workspace._context


def test_a_written_directory_has_an_origin_until_it_is_removed(workspace, context, root, tmp_path):
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    workspace.materialise(point, tmp_path / "try1")
    (tmp_path / "link").symlink_to(tmp_path / "try1")
    for name in ("try1", "try1/", "link"):
        found = origin_of(context, f"{tmp_path}/{name}")
        assert (found.checkpoint, found.root, found.directory) == (point.id, str(root), str(tmp_path / "try1"))
    assert origin_of(context, str(tmp_path / "other")) is None and origin_of(context, str(root)) is None
    shutil.rmtree(tmp_path / "try1")
    assert origin_of(context, str(tmp_path / "try1")) is None


def test_another_directory_at_the_path_has_none(workspace, context, root, tmp_path):
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    workspace.materialise(point, tmp_path / "try1")
    (tmp_path / "try1").rename(tmp_path / "away")
    (tmp_path / "try1").mkdir()
    assert origin_of(context, str(tmp_path / "try1")) is None
    assert origin_of(context, str(tmp_path / "away")) is None
    shutil.rmtree(tmp_path / "try1")
    (tmp_path / "away").rename(tmp_path / "try1")
    assert origin_of(context, str(tmp_path / "try1")).checkpoint == point.id


def test_gc_keeps_the_checkpoint_while_the_directory_is_there(workspace, context, root, tmp_path):
    for number in range(5):
        plant(root, {"a": b"%d" % number})
        workspace.save()
    oldest = workspace.checkpoints()[-1][0].id
    workspace.materialise(oldest, tmp_path / "try1")
    limits = Limits(max_age=0.0, max_count=1, keep_last=0)
    workspace.gc(limits)
    assert [point.id for point, _ in workspace.checkpoints()][1:] == [oldest]
    shutil.rmtree(tmp_path / "try1")
    workspace.gc(limits)
    assert len(workspace.checkpoints()) == 1 and context.store.origins.all() == []


def test_at_most_a_hundred_rows_stay(workspace, context, root, tmp_path, monkeypatch):
    monkeypatch.setattr(directory_origins, "MOST", 3)
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    for number in range(5):
        workspace.materialise(point, tmp_path / f"try{number}")
        if number == 2:
            shutil.rmtree(tmp_path / "try2")
    assert {os.path.basename(row.directory) for row in context.store.origins.all()} == {"try1", "try3", "try4"}


def test_what_cannot_be_looked_at_is_not_gone(workspace, context, root, tmp_path):
    """A path below a file is gone; one on a disk that is not mounted is not."""
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    workspace.materialise(point, tmp_path / "disk" / "try1")
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    (tmp_path / "disk").mkdir()
    os.utime(tmp_path / "disk", ns=(1, 1))
    workspace.gc()
    assert len(context.store.origins.all()) == 1
    now = time.time_ns()
    os.utime(tmp_path / "disk", ns=(now, now))
    workspace.gc()
    assert context.store.origins.all() == []


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"version":1}', b'{"directory":1,"ino":"x"}', b"\xff" * 100, b"[" * 20_000])
def test_a_damaged_row_is_no_row(workspace, context, root, tmp_path, garbage):
    plant(root, {"a": b"1"})
    workspace.materialise(workspace.save().checkpoint, tmp_path / "try1")
    place = os.path.join(workspace.store_path, "origins")
    (name,) = os.listdir(place)
    with open(os.path.join(place, name), "wb") as file:
        file.write(garbage)
    assert origin_of(context, str(tmp_path / "try1")) is None
    workspace.gc()
