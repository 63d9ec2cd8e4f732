"""The index is disposable: whatever happens to it, the answers stay right, or are refused."""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from casrewind.model import undo_history
from casrewind.store import ledger
from casrewind.store.index import Index, IndexUnusable
from casrewind.store.store import Store
from casrewind.workspace import Workspace
from support.picture import differences, picture
from support.stores import filled, probe
from support.trees import plant

DATA = "index/data.mdb"
NOTE = "index/written"


@pytest.fixture
def store(root, settings):
    return filled(root, settings)


def size(store):
    return os.path.getsize(os.path.join(store, DATA))


def told(root, settings):
    with Workspace(str(root), settings, create=False) as workspace:
        return (
            workspace.checkpoints(every_worktree=True), workspace.current(), workspace.status()._replace(store_bytes=0),
            [list(workspace.entries(point)) for point, _ in workspace.checkpoints()],
        )  # fmt: skip


def test_a_lost_index_changes_no_answer(root, settings, store):
    before = told(root, settings)
    shutil.rmtree(os.path.join(store, "index"))
    assert told(root, settings) == before
    assert size(store) > 0


@pytest.mark.parametrize("what", [b"", b"garbage", bytes(8192), b"\xff" * 200_000], ids=["empty", "short", "zeros", "ones"])
def test_garbage_in_place_of_the_index_changes_no_answer(store, what):
    case = [[DATA, 0], [DATA, 0, what.hex()]]
    assert probe(store, [case]) == {"right": 1, "refused": 0, "other": []}


def test_an_index_cut_at_any_length_is_rebuilt_and_kills_nobody(store):
    """LMDB maps its file: reading behind a cut would be a SIGBUS."""
    whole = size(store)
    lengths = sorted({0, 1, 100, 4095, 4096, 8191, 8192, whole - 1, *range(0, whole, max(4096, whole // 24))})
    found = probe(store, [[[DATA, length]] for length in lengths])
    assert found == {"right": len(lengths), "refused": 0, "other": []}


def flips(store, samples):
    """One flip each: both meta pages, and places all over the file."""
    source = random.Random(11)
    with open(os.path.join(store, DATA), "rb") as file:
        data = file.read()
    used = [position for position in range(len(data)) if data[position]]
    places = [*range(0, 160, 10), *range(4096, 4256, 10), *source.sample(used, samples)]
    masks = (0x01, 0x10, 0x80, 0xFF)
    return [[DATA, place, bytes([data[place] ^ masks[n % 4]]).hex()] for n, place in enumerate(places)]


@pytest.mark.parametrize("samples", [40, pytest.param(1500, marks=pytest.mark.long)])
def test_an_index_that_something_else_wrote_to_is_not_even_opened(store, samples):
    cases = [[flip] for flip in flips(store, samples)]
    assert probe(store, cases) == {"right": len(cases), "refused": 0, "other": []}


@pytest.mark.parametrize("samples", [60, pytest.param(1500, marks=pytest.mark.long)])
def test_flips_that_left_no_mark_on_the_file_give_right_answers_or_refusals(store, samples):
    """Bit rot that no time stamp tells of: nothing is noted here of how the file looked.

    LMDB has no checksums: rows are sealed and counted here, but a pointer inside a page may lead it astray, and
    then the process may die. That is rare (5 of 4,800 flips, each among the pointers at the head of a page), never silent, and a
    wrong answer never. At that rate a push, with 92 flips, sees two such deaths once in 500 times, and three hardly ever.
    """
    cases = [[flip, [NOTE, 0]] for flip in flips(store, samples)]
    found = probe(store, cases)
    dead = [code for _, code in found["other"] if code < 0]
    assert [other for other in found["other"] if other[1] >= 0] == []
    assert len(dead) <= 2 + len(cases) // 200, found["other"]
    assert found["right"] + found["refused"] + len(dead) == len(cases)
    assert found["right"] >= len(cases) * 9 // 10


def test_rows_taken_out_of_the_small_tables_are_missed(store):
    """A flip that shortens a page takes rows out without a trace in what is left; they are counted for that."""
    script = (
        "import lmdb, sys\n"
        "e = lmdb.open(sys.argv[1], lock=False, max_dbs=20)\n"
        "db = e.open_db(sys.argv[2].encode(), create=False)\n"
        "with e.begin(write=True) as t:\n"
        "    with t.cursor(db=db) as c:\n"
        "        assert c.first() and c.delete()\n"
    )
    pristine = store + ".pristine"
    shutil.copytree(store, pristine)

    def ask():
        with Store(store) as opened:
            points = opened.checkpoints()
            key = points[0][0].worktree
            return points, opened.history(key), opened.head(key), [opened.checkpoint(point.id) for point, _ in points]

    expected = ask()
    for table in ("points", "ids", "marks", "worktrees", "packs", "blobs", "meta"):
        shutil.rmtree(store)
        shutil.copytree(pristine, store)
        subprocess.run([sys.executable, "-c", script, os.path.join(store, "index"), table], check=True)
        os.truncate(os.path.join(store, NOTE), 0)  # else the index would not even be opened
        assert ask() == expected, table


def test_an_old_index_put_back_catches_up(root, settings, store, tmp_path):
    shutil.copytree(os.path.join(store, "index"), tmp_path / "old")
    states = {}
    for number in range(3):
        plant(root, {"later": b"state %d" % number})
        with Workspace(str(root), settings, create=False) as workspace:
            states[workspace.save(f"later {number}").checkpoint.id] = picture(root)
    before = told(root, settings)
    shutil.rmtree(os.path.join(store, "index"))
    shutil.copytree(tmp_path / "old", os.path.join(store, "index"))
    assert told(root, settings) == before
    for identity, state in states.items():
        with Workspace(str(root), settings, create=False) as workspace:
            workspace.restore(workspace.checkpoint(identity))
        assert not differences(picture(root), state)


def test_an_index_of_another_store_is_thrown_away(root, settings, store, tmp_path):
    other_root = tmp_path / "another"
    plant(other_root, {"f": b"other"})
    other = filled(other_root, settings)
    before = told(root, settings)
    shutil.rmtree(os.path.join(store, "index"))
    shutil.copytree(os.path.join(other, "index"), os.path.join(store, "index"))
    assert told(root, settings) == before


@pytest.mark.parametrize("lost", [b"ids", b"worktrees", b"meta"])
def test_a_save_on_a_damaged_index_loses_nothing(root, settings, store, lost):
    """Not only reading: what is published on top of a damaged index is as it should be."""
    with Workspace(str(root), settings, create=False) as workspace:
        before = workspace.checkpoints()
    with open(os.path.join(store, DATA), "r+b") as file:
        data = file.read()
        file.seek(data.rfind(lost))
        file.write(b"???")
    plant(root, {"new": b"new"})
    with Workspace(str(root), settings, create=False) as workspace:
        saved = workspace.save("after the damage").checkpoint
    with Workspace(str(root), settings, create=False) as workspace:
        assert [point for point, _ in workspace.checkpoints()] == [saved, *(point for point, _ in before)]
        assert saved.parent == before[0][0].id


def test_after_marks_restores_and_undos_a_lost_index_leaves_the_list_byte_identical(root, home, settings, casrewind):
    store = filled(root, settings)
    with Store(store) as opened:
        ids = [point.id for point, _ in opened.checkpoints()]

        def mark(kind, identity, label=""):
            opened.append(kind, undo_history.encode_mark(undo_history.Mark(identity, label)))

        mark(ledger.PIN, ids[0], "pinned with a label")
        mark(ledger.PIN, ids[-1])
        mark(ledger.UNPIN, ids[-1])
        mark(ledger.LABEL, ids[-2], "relabelled \udcff é")
        mark(ledger.LABEL, ids[-2], "and again")
        mark(ledger.UNPIN, ids[0])
        mark(ledger.PIN, ids[2])
    casrewind("restore", casrewind.row(3), "-y", code=0)
    casrewind("undo", "--yes", code=0)
    casrewind("redo", "--yes", code=0)
    plant(root, {"new": b"new"})
    casrewind("save", "--pin", "-m", "the newest", code=0)
    before = casrewind("list", "--json", "--all", code=0).out
    rows = json.loads(before)["checkpoints"]
    assert [row["label"] for row in rows].count("pinned with a label") == 1
    assert sum(row["pinned"] for row in rows) == 3  # ids[2], "label 1" and the newest
    shutil.rmtree(os.path.join(store, "index"))
    assert casrewind("list", "--json", "--all", code=0).out == before
    casrewind("undo", "--yes", code=0)


def test_an_index_that_somebody_has_made_anew_in_the_meantime_is_not_thrown_away(tmp_path):
    """Two that found the same damage: the second one must not undo the repair of the first."""

    def index():
        return Index(str(tmp_path / "index"), str(tmp_path / "lock"), 1.0)

    for bad in (None, bytes(9000)):
        first, second = index(), index()
        if bad is not None:
            (tmp_path / "index" / "data.mdb").write_bytes(bad)
        for each in (first, second):
            with pytest.raises(IndexUnusable), each.view():
                pass
        doubted = second.seen
        first.discard(first.seen)
        first.change(lambda tables: tables[b"meta"].overwrite(b"key", b"made anew"))
        second.discard(doubted)
        with second.view() as tables:
            assert tables[b"meta"].get(b"key") == b"made anew"
            doubted = second.seen
        second.discard(doubted)
        with pytest.raises(IndexUnusable), first.view():
            pass
        first.change(lambda tables: None)
        first.close()
        second.close()


def test_processes_that_find_the_same_damage_do_not_undo_each_others_repair(root, store, casrewind):
    with open(os.path.join(store, DATA), "r+b") as file:
        file.write(bytes(200))
    command = [sys.executable, "-m", "casrewind", "-C", str(root), "list", "--json"]
    running = [
        subprocess.Popen(command, env=casrewind.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)
    ]
    answers = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * 6, answers
    assert len({out for out, _ in answers}) == 1
