"""Packs are not listed at every question; and still nothing that happens to one goes by unnoticed."""

import os
import time

import pytest

from casrewind.store import packs
from casrewind.workspace import Workspace
from support.gc_checks import checkpoint_picture, packs_of
from support.picture import differences, picture
from support.trees import plant

TREE = {f"d{number % 3}/f{number}": b"%d\n" % number * 50 for number in range(30)}
QUIET = 0.03
"""Seconds after which a directory's stamp is believed."""


@pytest.fixture
def settled(root, workspace):
    """A workspace with some packs, which has found all of them in the index; all stamps of the worktree are known."""
    plant(root, TREE)
    for number in range(4):
        plant(root, {"d0/f0": b"%d" % number})
        time.sleep(QUIET)
        assert workspace.save().created
    time.sleep(QUIET)
    workspace.checkpoints()
    return workspace


def pack(workspace, largest=True):
    directory = os.path.join(workspace.store_path, "packs")
    return (max if largest else min)((os.path.join(directory, name) for name in os.listdir(directory)), key=os.path.getsize)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_deleted_pack_is_noticed_by_the_next_query(root, settled, at_once):
    if at_once:  # in the same tick of the clock in which another one came
        plant(root, {"new": b"new"})
        settled.save()
    index = os.path.join(settled.store_path, "index", "data.mdb")
    before = os.stat(index).st_ino, os.stat(index).st_ctime_ns
    os.unlink(pack(settled))
    told = settled.checkpoints()
    assert len(told) == 4 + at_once
    assert (os.stat(index).st_ino, os.stat(index).st_ctime_ns) != before, "the index still names the pack"
    assert settled.verify().problems


@pytest.mark.parametrize("how", ["by its stamp", "by its bytes"])
@pytest.mark.parametrize("when", ["in an open workspace", "in a new one"])
@pytest.mark.parametrize("what", ["deleted", "cut", "cut to nothing"])
def test_what_was_in_a_lost_pack_is_stored_again(root, settings, settled, what, when, how):
    lost = pack(settled)
    before = picture(root)
    if what == "deleted":
        os.unlink(lost)
    else:
        os.truncate(lost, os.path.getsize(lost) // 2 if what == "cut" else 0)
    if when == "in an open workspace":
        point = settled.save("again", rehash=how == "by its bytes").checkpoint
    else:
        with Workspace(str(root), settings, create=False) as other:
            point = other.save("again", rehash=how == "by its bytes").checkpoint
    assert differences(checkpoint_picture(settled, point), before) == {}
    assert not [problem for problem in settled.verify().problems if any(place.checkpoint == point.id for place in problem.affects)]


def test_the_quick_way_to_verify_notices_a_pack_that_lost_nothing_but_content(settled):
    """All that holds the manifests together is in another pack: nothing that the quick way reads is gone."""
    lost = pack(settled)
    directory, name = os.path.split(lost)
    with open(lost, "rb") as file:
        data = file.read()
    found = [place for _, place in packs.records_of_pack(directory, name.removesuffix(".pack"))]
    parts = [data[place.offset : place.offset + place.length] for place in found]
    content = [part for part in parts if packs.decode_record_head(part)[0] == packs.FILE]
    assert len(content) == len(TREE) and parts[: len(TREE)] == content
    with open(os.path.join(directory, "0123456789abcdef0123.pack"), "wb") as file:
        file.write(packs.HEAD + b"".join(parts[len(TREE) :]))
    assert not settled.verify(quick=True).problems
    os.truncate(lost, found[3].offset)
    time.sleep(QUIET)
    assert len(settled.verify(quick=True).problems) == len(TREE) - 3


def test_packs_of_another_process_are_followed(root, settled, casrewind):
    plant(root, {"by another": b"process" * 1000})
    before = picture(root)
    identity = casrewind.json("save")["checkpoint"]
    (point,) = [point for point, _ in settled.checkpoints() if point.id == identity]
    assert differences(checkpoint_picture(settled, point), before) == {}


def test_a_pack_that_came_back_is_found_again(settled):
    lost = pack(settled)
    with open(lost, "rb") as file:
        data = file.read()
    os.unlink(lost)
    assert settled.verify().problems
    with open(lost, "wb") as file:
        file.write(data)
    assert not settled.verify().problems


def test_a_pack_that_nobody_named_yet_goes_with_the_next_gc(settled):
    """A save that was killed between giving its pack a name and publishing: nobody needs it, and it is found."""
    stray = os.path.join(settled.store_path, "packs", "0123456789abcdef0123.pack")
    with open(pack(settled, largest=False), "rb") as file:
        data = file.read()
    with open(stray, "wb") as file:
        file.write(data)
    os.utime(os.path.dirname(stray), ns=(1, 1))
    settled.gc()
    assert os.path.basename(stray) not in packs_of(settled.store_path)
    assert not settled.verify().problems
