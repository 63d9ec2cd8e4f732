"""Damage met from the command line: the right answer or a clear refusal, and never a changed worktree for nothing."""

import os
import random
import shutil

import pytest

from support.picture import differences, picture
from support.stores import filled
from support.trees import plant


@pytest.fixture
def scene(root, settings):
    """(store, what each checkpoint looked like, what is there now)."""
    store = filled(root, settings, checkpoints=3, directories=2)
    plant(root, {"changing": b"unsaved words", "new": b"never saved"})
    return store, picture(root)


def packs_of(store):
    return sorted(
        (os.path.join(store, "packs", name) for name in os.listdir(os.path.join(store, "packs"))), key=os.path.getsize
    )


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x40]))


def refuse_or_answer(casrewind, root, tree, arguments, *, must_fail=False):
    """Exit 0 with an answer, or 20 with one clear line and nothing changed. True when it was refused."""
    done = casrewind(*arguments)
    assert done.code in ((20,) if must_fail else (0, 20)), done
    if done.code == 20:
        (line,) = done.err.strip().splitlines()
        assert line.startswith("casrewind: ")
        assert "casrewind verify" in line
        assert done.out == ""
        assert not differences(picture(root), tree)
    return done.code == 20


@pytest.mark.parametrize("how", ["cut", "cut to nothing", "gone", "flip in every record", "zeros"])
def test_damaged_packs(root, casrewind, scene, how):
    store, tree = scene
    for pack in packs_of(store):
        size = os.path.getsize(pack)
        if how == "cut":
            os.truncate(pack, size // 3)
        elif how == "cut to nothing":
            os.truncate(pack, 0)
        elif how == "gone":
            os.unlink(pack)
        elif how == "zeros":
            with open(pack, "r+b") as file:
                file.write(bytes(size))
        else:
            for at in range(60, size, 60):
                flip(pack, at)
    points = casrewind("list", "--json", code=20).json["checkpoints"]
    assert len(points) == 3  # the ledger is whole
    casrewind("list", "--all", code=0)
    refuse_or_answer(casrewind, root, tree, ["show", points[2]["id"]], must_fail=True)
    refuse_or_answer(casrewind, root, tree, ["restore", points[2]["id"], "-y"], must_fail=True)
    refuse_or_answer(casrewind, root, tree, ["redo", "--yes"], must_fail=True)


def test_one_flip_in_one_pack_costs_only_what_lies_there(root, casrewind, scene):
    """At any place: each checkpoint is either brought back exactly or refused before the first change."""
    store, tree = scene
    casrewind("save", code=0)
    source = random.Random(3)
    good = {}
    for point in [point["id"] for point in casrewind.json("list")["checkpoints"]][:4]:
        casrewind("restore", point, "--to", os.path.join(casrewind.home, "good" + point), code=0)
        good[point] = picture(os.path.join(casrewind.home, "good" + point))
    pristine = store + ".pristine"
    shutil.copytree(store, pristine)
    refused = 0
    for turn in range(6):
        shutil.rmtree(store)
        shutil.copytree(pristine, store)
        pack = source.choice(packs_of(store))
        flip(pack, source.randrange(os.path.getsize(pack)))
        out = os.path.join(casrewind.home, f"out{turn}")
        point = source.choice(sorted(good))
        if refuse_or_answer(casrewind, root, tree, ["restore", point, "--to", out]):
            refused += 1
        else:
            assert not differences(picture(out), good[point])
    assert refused < 6


@pytest.mark.parametrize("where", ["head", "first record", "last record", "cut at a record", "cut inside a record", "gone"])
def test_a_damaged_ledger(root, casrewind, scene, where):
    store, tree = scene
    ledger = os.path.join(store, "ledger")
    size = os.path.getsize(ledger)
    with open(ledger, "rb") as file:
        starts = [at for at in range(size) if file.seek(at) == at and file.read(4) == b"CRE1"]
    if where == "gone":
        os.unlink(ledger)
    elif where.startswith("cut"):
        os.truncate(ledger, starts[-1] if where == "cut at a record" else starts[-1] + 30)
    else:
        flip(ledger, {"head": 1, "first record": starts[0] + 40, "last record": starts[-1] + 40}[where])
    listed = casrewind("list")
    assert listed.code in (0, 20), listed
    if where in ("head", "cut at a record", "cut inside a record", "gone"):
        assert listed.code == 20
        assert len(listed.err.strip().splitlines()) == 1
    refuse_or_answer(casrewind, root, tree, ["save", "-m", "x"])
    shutil.rmtree(os.path.join(store, "index"), ignore_errors=True)
    if where in ("head", "first record", "gone"):
        refuse_or_answer(casrewind, root, tree, ["list"], must_fail=True)
        refuse_or_answer(casrewind, root, tree, ["restore", "prev", "-y"], must_fail=True)
        refuse_or_answer(casrewind, root, tree, ["save", "-m", "x"], must_fail=True)


@pytest.mark.parametrize("how", ["cut", "garbage", "gone", "a file", "a link", "unreadable meta"])
def test_a_damaged_index_is_rebuilt_without_a_word(root, casrewind, scene, tmp_path, how):
    store, tree = scene
    before = casrewind("list", "--json", "--all", code=0).out
    index = os.path.join(store, "index")
    data = os.path.join(index, "data.mdb")
    if how == "cut":
        os.truncate(data, 5000)
    elif how == "garbage":
        with open(data, "wb") as file:
            file.write(random.Random(4).randbytes(50_000))
    elif how == "unreadable meta":
        flip(data, 16)
        flip(data, 4096 + 16)
    elif how == "gone":
        shutil.rmtree(index)
    else:
        shutil.rmtree(index)
        if how == "a file":
            with open(index, "w") as file:
                file.write("not a directory")
        else:
            os.symlink(tmp_path / "nowhere", index)
    done = casrewind("list", "--json", "--all", code=0)
    assert done.out == before
    assert done.err == ""
    assert not differences(picture(root), tree)
    casrewind("restore", "prev", "-y", code=0)
    casrewind("undo", "--yes", code=0)
    assert not differences(picture(root), tree)


def test_a_damaged_journal_is_said_and_changes_nothing(root, casrewind, scene):
    store, tree = scene
    with_key = os.listdir(os.path.join(store, "locks"))
    (key,) = {name.removeprefix("restore-") for name in with_key if name.startswith("restore-")}
    with open(os.path.join(store, "journals", key), "wb") as file:
        file.write(b"CRJ1 and then nonsense")
    for arguments, codes in ((["restore", "prev", "-y"], (11, 20)), (["restore", "--continue"], (20,)), (["redo", "--yes"], (11, 20))):
        done = casrewind(*arguments)
        assert done.code in codes, done
        assert not differences(picture(root), tree)
    assert casrewind("list", "--json", code=0).json["checkpoints"]


def test_a_ledger_and_a_pack_cut_together_are_damage_and_not_an_empty_store(casrewind, root, home):
    plant(root, {"a": b"one"})
    casrewind("save", code=0)
    plant(root, {"a": b"two"})
    casrewind("save", code=0)
    (store,) = (home / "data" / "stores").iterdir()
    for path in [store / "ledger", *(store / "packs").iterdir()]:
        path.chmod(0o600)
        data = path.read_bytes()
        path.write_bytes(data[:-5])
    casrewind("list", code=20)
    casrewind("list", code=20)
    assert (root / "a").read_bytes() == b"two"
