"""Which checkpoint a directory was made from: what restore --to notes, when it counts, and what bounds it."""

import os
import shutil
import time

import pytest

from casrewind import errors
from casrewind.model import digest
from casrewind.model.retention import Limits
from casrewind.upkeep import directory_origins
from casrewind.upkeep.directory_origins import origin_of
from casrewind.workspace import open as opened
from support.packfile import flip_blob
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
        assert (found.checkpoint, found.directory) == (point.id, str(tmp_path / "try1"))
    assert origin_of(context, str(tmp_path / "other")) is None and origin_of(context, str(root)) is None
    shutil.rmtree(tmp_path / "try1")
    assert origin_of(context, str(tmp_path / "try1")) is None


def test_another_directory_at_the_path_has_none_and_the_moved_one_keeps_its_own(workspace, context, root, tmp_path):
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    workspace.materialise(point, tmp_path / "try1")
    (tmp_path / "try1").rename(tmp_path / "away")
    (tmp_path / "try1").mkdir()
    assert origin_of(context, str(tmp_path / "try1")) is None
    assert origin_of(context, str(tmp_path / "away")).checkpoint == point.id
    workspace.gc()
    assert origin_of(context, str(tmp_path / "away")).checkpoint == point.id, "the checkpoint is there, so the row is"


def test_a_directory_without_the_id_or_with_a_strange_one_has_no_origin(workspace, context, root, tmp_path, settings):
    """A copy without attributes, an id that somebody made up, and one of another store."""
    plant(root, {"a": b"1"})
    workspace.materialise(workspace.save().checkpoint, tmp_path / "try1")
    plain = tmp_path / "plain"
    plain.mkdir()
    for identity in ("0" * 32, "../../session", "x", "", "0" * 31 + "\n", "A" * 32):
        shutil.rmtree(plain / ".casrewind-origin", ignore_errors=True)
        plant(plain, {".casrewind-origin/id": identity.encode()})
        assert origin_of(context, str(plain)) is None
    plant(tmp_path / "second", {"a": b"1"})
    with opened(tmp_path / "second", settings) as other:
        other.materialise(other.save().checkpoint, tmp_path / "try2")
    assert origin_of(context, str(tmp_path / "try2")) is None
    with pytest.raises(errors.CheckpointNotFound, match="has an origin that this store does not know") as failed:
        workspace.take(tmp_path / "try2")
    assert f"casrewind take {tmp_path / 'try2'} --base REF" in failed.value.hint


@pytest.mark.parametrize("there", ["a link", "a file", "a directory", "a fifo"])
def test_what_is_no_id_is_not_followed_and_hangs_nothing(workspace, context, root, tmp_path, there):
    plant(root, {"a": b"1"})
    workspace.materialise(workspace.save().checkpoint, tmp_path / "try1")
    [row] = context.store.origins.all()
    plant(tmp_path, {"outside/id": row.id.encode()})
    place = tmp_path / "plain"
    place.mkdir()
    if there == "a link":
        (place / ".casrewind-origin").symlink_to(tmp_path / "outside")
    elif there == "a file":
        (place / ".casrewind-origin").write_text(row.id)
    else:
        (place / ".casrewind-origin").mkdir()
        (os.mkdir if there == "a directory" else os.mkfifo)(place / ".casrewind-origin" / "id")
    assert origin_of(context, str(place)) is None
    with pytest.raises(errors.CheckpointNotFound, match="says which checkpoint it was made from"):
        workspace.take(place)


@pytest.mark.parametrize("end", ["damaged", "a write fails"])
def test_a_second_writing_that_fails_leaves_no_origin(casrewind, root, tmp_path, end):
    plant(root, {"a": b"1\n", "b": b"0123456789" * 100_000})
    casrewind("save", code=0)
    casrewind("restore", "last", "--to", "../try1", code=0)
    for name in "ab":
        (tmp_path / "try1" / name).unlink()
    store = casrewind.json("status")["store"]
    assert len(os.listdir(f"{store}/origins")) == 1
    if end == "damaged":
        flip_blob(store, digest.of(b"1\n"))
        casrewind("restore", "last", "--to", "../try1", code=20)
    else:
        limit = ("sh", "-c", 'ulimit -f 100; exec "$@"', "sh")
        assert casrewind("restore", "last", "--to", "../try1", prefix=limit).code in (1, 13)
    assert os.listdir(tmp_path / "try1") == [] and os.listdir(f"{store}/origins") == []
    assert "says which checkpoint it was made from" in casrewind("take", "../try1", "-y", code=15).err
    assert sorted(os.listdir(root)) == ["a", "b"]


def test_an_origin_that_cannot_be_noted_is_said_and_leaves_no_id(casrewind, root, tmp_path):
    plant(root, {"a": b"1\n"})
    point = casrewind.json("save")["checkpoint"]
    plant(casrewind.json("status")["store"], {"origins": b"in the way"})
    done = casrewind("restore", "last", "--to", "../try1", code=0)
    assert f"  casrewind could not note its origin (Not a directory): casrewind take needs --base {point} for it\n" in done.out
    [written] = casrewind.json("restore", "last", "--to", "../try2")["written"]
    assert written["origin_problem"] == "Not a directory" and os.listdir(tmp_path / "try1") == ["a"]
    casrewind("take", "../try1", "-n", code=15)
    plant(tmp_path / "try1", {"a": b"2\n"})
    casrewind("take", "../try1", "--base", point, "-y", code=0)
    assert (root / "a").read_bytes() == b"2\n"


def test_a_directory_in_the_project_that_a_restore_removed_and_made_again_loses_nothing_here(casrewind, root):
    """Its files are back, its attributes may not be: then take does not know it."""
    plant(root, {"a": b"1\n", "d/b": b"2\n"})
    casrewind("save", "-m", "begin", code=0)
    casrewind("restore", "begin", "--to", "try1", code=0)
    plant(root, {"try1/a": b"theirs\n"})
    casrewind("take", "try1", "-y", code=0)
    assert (root / "a").read_bytes() == b"theirs\n"
    casrewind("restore", "begin", "-y")
    casrewind("undo", "-y", code=0)
    casrewind("take", "try1", "-y")
    assert (root / "a").read_bytes() == b"theirs\n" and (root / "d/b").read_bytes() == (root / "try1/d/b").read_bytes() == b"2\n"


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
    """A path below a file is gone; one on a disk that is not mounted is not, nor the place where the disk itself is mounted."""
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    workspace.materialise(point, tmp_path / "disk" / "try1")
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    for place in ("disk", "disk/try1"):
        (tmp_path / place).mkdir()
        os.utime(tmp_path / "disk", ns=(1, 1))
        assert directory_origins.needed_by_directories(context) == {point.id}
    now = time.time_ns()
    os.utime(tmp_path / "disk", ns=(now, now))
    assert directory_origins.needed_by_directories(context) == set()


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"version":1}', b'{"directory":1,"id":"x"}', b"\xff" * 100, b"[" * 20_000])
def test_a_damaged_row_is_no_row(workspace, context, root, tmp_path, garbage):
    plant(root, {"a": b"1"})
    workspace.materialise(workspace.save().checkpoint, tmp_path / "try1")
    place = os.path.join(workspace.store_path, "origins")
    (name,) = os.listdir(place)
    with open(os.path.join(place, name), "wb") as file:
        file.write(garbage)
    assert origin_of(context, str(tmp_path / "try1")) is None
    workspace.gc()
