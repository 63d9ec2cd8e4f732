"""verify --repair repairs what can be repaired, names exactly what cannot, and takes nothing; what is sound still restores."""

import itertools
import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from support import packfile, unprivileged
from support.command import Command
from support.command_in_process import InProcess
from support.gc_checks import run_and_kill
from support.picture import differences, picture
from support.stores import LockHolder
from support.trees import plant
from support.unchanged import store_picture, unchanged

CHECKPOINT, PIN, RESTORE, UNDO = 1, 2, 6, 7  # records of the ledger
CHUNK, PLAN = 2, 7  # records of packs


@pytest.fixture
def run(root, home):
    """The command, in this process."""
    return InProcess(root, home)


class Points:
    """Checkpoints of one worktree and what they look like: {id: picture}, {id: {path: bytes}}."""

    def __init__(self, run):
        self.run, self.pictures, self.files = run, {}, {}

    def save(self, tree=(), *arguments):
        plant(self.run.root, dict(tree))
        identity = self.run.json("save", *arguments)["checkpoint"]
        self.note(identity)
        return identity

    def note(self, identity):
        shown = picture(self.run.root, mtimes=True, skip={b".git"})
        self.pictures[identity] = shown
        self.files[identity] = {}
        for path, what in shown.items():
            if what[0] == "file":
                with open(os.path.join(os.fsencode(self.run.root), path), "rb") as file:
                    self.files[identity][path.decode()] = file.read()

    def needing(self, content):
        """Every (checkpoint, path) that has these bytes."""
        return {(point, path) for point, files in self.files.items() for path, data in files.items() if data == content}

    def having(self, directory):
        """Every (checkpoint, directory) whose directory of that name holds the same as in the first one that has it."""
        found = {}
        for point, shown in self.pictures.items():
            below = {path: what for path, what in shown.items() if path.startswith(directory.encode() + b"/")}
            found[point] = below
        first = next(below for below in found.values() if below)
        return {(point, directory) for point, below in found.items() if below == first}

    def elsewhere(self, identity, tmp_path, *arguments, code=0):
        """The picture of a checkpoint that is written to another place."""
        place = tmp_path / f"out-{identity}-{code}-{len(arguments)}"
        shutil.rmtree(place, ignore_errors=True)
        done = self.run("restore", "--json", identity, "--to", str(place), *arguments)
        assert done.code == code, done
        return picture(place, mtimes=True) if place.exists() else {}

    def all_restore(self, tmp_path, but=()):
        for identity, shown in self.pictures.items():
            if identity not in but:
                assert not differences(self.elsewhere(identity, tmp_path), shown), identity


@pytest.fixture
def points(run):
    return Points(run)


@pytest.fixture
def store(points, home):
    """The path of a store with three checkpoints, marks, an undone restore and a restore."""
    points.save({"a": b"one" * 50, "d/b": b"two" * 50, "d/e/c": b"three" * 50}, "-m", "first")
    points.save({"a": b"changed" * 30, "d/new": b"new" * 60}, "--pin")
    last = points.save({"d/e/c": b"changed as well" * 20})
    points.run("pin", last, "named later", code=0)
    points.run("restore", points.run.row(3), "-y", code=0)
    points.run("undo", "--yes", code=0)
    points.run("restore", "prev", "-y", code=0)
    return store_of(home)


def store_of(home):
    (found,) = (home / "data" / "stores").iterdir()
    return str(found)


def told(run):
    """All checkpoints that the ledger tells of. Which operation stood behind a safety checkpoint is in the ledger only."""
    return run.json("list", "--all")["checkpoints"]


def affected(problems):
    return {(place["checkpoint"], place["path"]) for problem in problems for place in problem["affects"]}


def lose_index(store):
    shutil.rmtree(os.path.join(store, "index"))


# -- a sound store


def test_a_sound_store_is_left_as_it_is_and_called_sound(run, store):
    before = store_picture(store)
    found = run.json("verify", "--repair")
    assert found["ok"] and found["problems"] == [] and found["repaired"] == [] and found["checkpoints"] >= 5
    assert found["blobs"] > 10
    assert not differences(store_picture(store), before)
    done = run("verify", "--repair", code=0)
    assert done.out.startswith("sound: ") and done.err == ""


def test_the_object_that_json_prints_has_these_keys(run, points, store):
    packfile.flip_blob(store, packfile.digest(b"one" * 50))
    found = run.json("verify", code=20)
    assert set(found) == {"ok", "problems", "blobs", "checkpoints", "repaired"}
    assert all(set(problem) == {"kind", "id", "detail", "affects"} for problem in found["problems"])
    assert found["ok"] is False and found["repaired"] == []


# -- packs


@pytest.mark.parametrize("how", ["flip in a body", "flip in a head", "cut", "garbage inserted", "garbage behind", "head"])
def test_what_is_sound_in_a_damaged_pack_is_kept(run, points, store, tmp_path, how):
    content = b"two" * 50  # the only one of its kind
    digest = packfile.digest(content)
    ((pack, at, length),) = packfile.records(store)[digest]
    with open(pack, "rb") as file:
        data = file.read()
    lost = points.needing(content)
    kept = {d for d, places in packfile.records(store).items() if any(p == pack for p, _, _ in places)} - {digest}
    if how == "flip in a body":
        packfile.flip(pack, at + length - 1)
    elif how == "flip in a head":
        packfile.flip(pack, at + 20)
    elif how == "cut":
        behind = {d for d, places in packfile.records(store).items() for p, o, _ in places if p == pack and o > at}
        os.truncate(pack, at + length - 1)
        assert behind
    elif how == "garbage inserted":
        lost = set()
        with open(pack, "wb") as file:
            file.write(data[:at] + b"CRB1 is no head" * 9 + data[at:])
    elif how == "garbage behind":
        lost = set()
        with open(pack, "ab") as file:
            file.write(bytes(77))
    else:
        lost = set()
        packfile.flip(pack, 2)
    found = run.json("verify", "--repair", code=20 if lost else 0)
    (done,) = found["repaired"]
    assert os.path.basename(pack).removesuffix(".pack") in done
    there = packfile.records(store)
    if how == "cut":
        named = affected(found["problems"])
        assert all({(point, path), (point, ""), (point, "d")} & named for point, path in lost)
    else:
        assert kept <= there.keys()
        assert affected(found["problems"]) == {(point, path) for point, path in lost} | safety_of(found, lost, points)
    assert os.path.exists(os.path.join(store, "damaged", os.path.basename(pack))), "set aside, not thrown away"
    points.all_restore(tmp_path, but={point for point, _ in affected(found["problems"])})
    again = run.json("verify", "--repair", code=20 if lost else 0)
    assert again["repaired"] == [] and again["problems"] == found["problems"]


def safety_of(found, lost, points):
    """What is named of checkpoints that no picture was taken of: those that were made before restores."""
    return {(point, path) for point, path in affected(found["problems"]) if point not in points.files}


def test_a_second_copy_of_a_damaged_blob_is_found_and_nothing_is_lost(run, points, store, tmp_path):
    ((pack, at, length),) = packfile.records(store)[packfile.digest(b"two" * 50)]
    copy = os.path.join(store, "packs", "0" * 20 + ".pack")
    shutil.copyfile(pack, copy)
    os.chmod(copy, 0o600)
    for damaged in (pack, copy):
        packfile.flip(damaged, at + length - 1)
        found = run.json("verify", "--repair")
        assert found["ok"] and len(found["repaired"]) == 1
        points.all_restore(tmp_path)
        if damaged == pack:  # what was copied out of the first one is a copy again, of all but that record
            shutil.copyfile(os.path.join(store, "damaged", os.path.basename(pack)), copy + "~")
            packfile.flip(copy + "~", at + length - 1)
            os.rename(copy + "~", os.path.join(store, "packs", "1" * 20 + ".pack"))


def test_damage_to_garbage_is_nobodys(run, points, store, tmp_path):
    from casrewind.store.store import Store

    with Store(store) as opened, opened.writing() as session:
        session.put_file(b"nobody needs this" * 9)
        opened.add_blobs(session)
    packfile.flip_blob(store, packfile.digest(b"nobody needs this" * 9))
    assert run.json("verify")["ok"]
    points.all_restore(tmp_path)
    assert run.json("verify", "--repair")["ok"]
    points.all_restore(tmp_path)


# -- the ledger


@pytest.mark.parametrize("kind", [CHECKPOINT, PIN, RESTORE, UNDO])
def test_a_flip_in_the_ledger_costs_nothing_while_there_is_an_index(run, points, store, tmp_path, kind):
    before = told(run)
    at = next(at for what, at, _ in packfile.ledger_records(store) if what == kind)
    packfile.flip(os.path.join(store, "ledger"), at + 30)
    assert not run.json("verify", code=20)["ok"]
    found = run.json("verify", "--repair")
    assert found["ok"] and len(found["repaired"]) == 1
    assert told(run) == before
    points.all_restore(tmp_path)
    lose_index(store)
    assert told(run) == before
    run("undo", "--yes", code=0)


def test_without_an_index_a_flip_costs_that_record_and_no_other(run, points, store, tmp_path):
    before = told(run)
    records = [(at, end) for what, at, end in packfile.ledger_records(store) if what == CHECKPOINT]
    oldest = sorted(before, key=lambda row: row["seq"])
    packfile.flip(os.path.join(store, "ledger"), records[1][0] + 30)
    lose_index(store)
    run("list", code=20)
    found = run.json("verify", "--repair")
    assert found["repaired"]
    after = told(run)
    assert {row["id"] for row in before} - {row["id"] for row in after} == {oldest[1]["id"]}
    points.all_restore(tmp_path, but={oldest[1]["id"]})


@pytest.mark.parametrize("how", ["gone", "empty", "head", "cut in the middle", "cut between records", "other id", "another's"])
def test_a_lost_ledger_comes_back_from_the_index(run, points, store, tmp_path, home, how):
    before, ledger = told(run), os.path.join(store, "ledger")
    spans = packfile.ledger_records(store)
    if how == "gone":
        os.unlink(ledger)
    elif how == "empty":
        os.truncate(ledger, 0)
    elif how == "head":
        packfile.flip(ledger, 1)
    elif how == "cut in the middle":
        os.truncate(ledger, spans[2][1] + 9)
    elif how == "cut between records":
        os.truncate(ledger, spans[2][1])
    elif how == "other id":
        packfile.flip(ledger, 12)
    else:
        other = InProcess(tmp_path / "other", tmp_path / "other home")
        plant(other.root, {"x": b"x"})
        for number in range(9):
            other("save", "-m", f"round {number}", code=0)
        (strange,) = (tmp_path / "other home" / "data" / "stores").iterdir()
        shutil.copyfile(strange / "ledger", ledger)
    with unchanged(points.run.root):
        for arguments in (["list"], ["save", "-m", "x"], ["restore", "prev", "-y"], ["undo", "--yes"], ["gc"]):
            done = run(*arguments, code=20)
            assert len(done.err.strip().splitlines()) == 1
    found = run.json("verify", "--repair")
    assert found["ok"] and len(found["repaired"]) == 1, found
    assert told(run) == before
    lose_index(store)
    assert told(run) == before
    points.all_restore(tmp_path)
    run("undo", "--yes", code=0)
    run("redo", "--yes", code=0)
    assert run.json("verify", "--repair")["repaired"] == []
    aside = [name for name in os.listdir(store) if name.startswith("ledger.damaged-")]
    assert len(aside) == (how not in ("gone", "empty"))


def test_an_old_ledger_from_before_it_was_rewritten_is_told_from_the_one_that_was_followed(run, points, home, tmp_path):
    for number in range(30):
        points.save({"a": b"%d" % number})
    store = store_of(home)
    shutil.copyfile(os.path.join(store, "ledger"), tmp_path / "old")
    size = os.path.getsize(os.path.join(store, "ledger"))
    run("gc", "--max-count", "3", code=0)
    assert os.path.getsize(os.path.join(store, "ledger")) < size, "the ledger was not rewritten: this shows nothing"
    late = points.save({"a": b"after the old copy"})
    before = told(run)
    shutil.copyfile(tmp_path / "old", os.path.join(store, "ledger"))
    run("list", code=20)
    run("gc", code=20)
    assert run.json("verify", "--repair")["ok"]
    assert told(run) == before
    assert not differences(points.elsewhere(late, tmp_path), points.pictures[late])


def test_an_index_of_before_the_ledger_was_rewritten_is_only_old(run, points, home, tmp_path):
    for number in range(30):
        points.save({"a": b"%d" % number})
    store = store_of(home)
    shutil.copytree(os.path.join(store, "index"), tmp_path / "old")
    run("gc", "--max-count", "3", code=0)
    before = told(run)
    lose_index(store)
    shutil.copytree(tmp_path / "old", os.path.join(store, "index"))
    assert told(run) == before
    assert run.json("verify", "--repair")["repaired"] == []


def test_with_ledger_and_index_gone_the_packs_stay(run, points, store, tmp_path):
    """There is no checkpoint any more. What they held is still there, and gc must not take that away, too."""
    packs = picture(os.path.join(store, "packs"))
    os.unlink(os.path.join(store, "ledger"))
    lose_index(store)
    run("list", code=20)
    found = run.json("verify", "--repair")
    assert found["checkpoints"] == 0 and "0 checkpoints" in found["repaired"][0]
    assert not differences(picture(os.path.join(store, "packs")), packs)
    for arguments in (["gc"], ["gc", "--max-count", "1"], ["gc", "--dry-run"]):
        done = run(*arguments, code=0)
        assert "no checkpoint at all: nothing is swept" in done.err
        assert not differences(picture(os.path.join(store, "packs")), packs)
    last = points.save()
    assert not differences(points.elsewhere(last, tmp_path), points.pictures[last])
    run("undo", "--yes", code=15)


def test_a_ledger_of_another_store_without_an_index_does_not_make_gc_empty_the_packs(run, points, store, tmp_path):
    packs = picture(os.path.join(store, "packs"))
    other = InProcess(tmp_path / "other", tmp_path / "other home")
    plant(other.root, {"x": b"x"})
    other("save", code=0)
    (strange,) = (tmp_path / "other home" / "data" / "stores").iterdir()
    shutil.copyfile(strange / "ledger", os.path.join(store, "ledger"))
    lose_index(store)
    assert "nothing is swept" in run("gc", code=0).err
    assert not differences(picture(os.path.join(store, "packs")), packs)
    assert not run.json("verify", code=20)["ok"]


# -- FORMAT, directories


@pytest.mark.parametrize("text", [None, b"", b"casrewind store 2", b"casrewind stose 2\n", b"casrewind store 1\n", b"casrewind store 3\n", bytes(18)])
def test_a_damaged_format_file_is_written_again(run, points, store, tmp_path, text):
    """"casrewind store 3" and "1" too: where every pack and the ledger are of version 2, it is that file that is wrong."""
    place = os.path.join(store, "FORMAT")
    os.unlink(place)
    if text is not None:
        with open(place, "wb") as file:
            file.write(text)
    with unchanged(points.run.root):
        assert run("list").code == (20 if text is None else 12)
        assert run("save", "-m", "x").code == (20 if text is None else 12)
    found = run.json("verify", "--repair")
    assert found["ok"] and "FORMAT" in found["repaired"][0]
    points.all_restore(tmp_path)


@pytest.mark.parametrize(("version", "advice"), [(1, "use the casrewind that made it"), (3, "upgrade casrewind")])
def test_a_store_of_another_version_is_refused_and_not_touched(run, store, version, advice):
    with open(os.path.join(store, "FORMAT"), "wb") as file:
        file.write(b"casrewind store %d\n" % version)
    for name in os.listdir(os.path.join(store, "packs")):
        packfile.flip(os.path.join(store, "packs", name), 4, 2 ^ version)
    packfile.flip(os.path.join(store, "ledger"), 4, 2 ^ version)
    os.rmdir(os.path.join(store, "tmp"))
    before = picture(store, mtimes=True)
    for arguments in (["verify", "--repair"], ["verify"], ["list"], ["save"], ["gc"]):
        done = run(*arguments, code=12)
        assert advice in done.err and done.err.count("\n") == 1
    assert not differences(picture(store, mtimes=True), before)


@pytest.mark.parametrize("name", ["locks", "tmp", "journals"])
def test_a_missing_directory_is_made_again(run, points, store, tmp_path, name):
    shutil.rmtree(os.path.join(store, name))
    with unchanged(points.run.root):
        for arguments in (["list"], ["save", "-m", "x"], ["restore", "prev", "-y"], ["verify"], ["gc"]):
            done = run(*arguments)
            assert done.code in (0, 20), (arguments, done)
            assert done.code == 0 or "casrewind verify --repair" in done.err, done
    shutil.rmtree(os.path.join(store, name), ignore_errors=True)
    found = run.json("verify", "--repair")
    assert found["ok"] and any(name in line for line in found["repaired"])
    points.all_restore(tmp_path)


def test_a_missing_directory_of_packs_is_made_again_and_everything_is_named(run, points, store):
    shutil.rmtree(os.path.join(store, "packs"))
    with unchanged(points.run.root):
        for arguments in (["list"], ["save", "-m", "x"], ["restore", "prev", "-y"], ["verify"]):
            run(*arguments, code=20)
    found = run.json("verify", "--repair", code=20)
    assert any("packs" in line for line in found["repaired"])
    assert {point for point, _ in affected(found["problems"])} >= set(points.pictures)
    assert run("save", "-m", "anew", code=0)


# -- journals


def test_a_damaged_journal_is_set_aside_and_said(run, points, store, root, home):
    plant(root, {"a": b"unsaved"})
    oldest = run.row(3)
    assert any(run_and_kill(Command(root, home), store, at, "restore", oldest, "-y") for at in (4, 3, 2, 1))
    (name,) = os.listdir(os.path.join(store, "journals"))
    packfile.flip(os.path.join(store, "journals", name), 40)
    with unchanged(root):
        run("restore", oldest, "-y", code=11)
        run("restore", "--continue", code=20)
        assert [problem["kind"] for problem in run.json("verify", code=20)["problems"]] == ["journal"]
        found = run.json("verify", "--repair")
    (line,) = found["repaired"]
    assert "journal" in line and "set aside" in line
    (aside,) = os.listdir(os.path.join(store, "journals"))
    assert aside in line
    run("restore", oldest, "-y", code=0)
    run("undo", "--yes", code=0)


def test_a_journal_whose_plan_is_damaged_is_a_problem_that_stays_named(run, points, store, root, home):
    plant(root, {"a": b"unsaved"})
    oldest = run.row(3)
    assert any(run_and_kill(Command(root, home), store, at, "restore", oldest, "-y") for at in (4, 3, 2, 1))
    plans = packfile.kinds(store)[PLAN]
    for plan in plans:
        packfile.flip_blob(store, plan)
    found = run.json("verify", "--repair", code=20)
    named = {problem["id"] for problem in found["problems"] if problem["kind"] == "plan"}
    assert named and named <= {plan.hex() for plan in plans}  # those of older restores, nothing has need of
    with unchanged(root):
        run("restore", "--continue", code=20)
        run("restore", "--abort", code=20)  # nobody knows what it was about: let go of it, and say so
    run("restore", oldest, "-y", code=0)


# -- damaged blobs of every kind


def test_a_damaged_domain_stops_a_restore_and_what_is_left_out_deletes_nothing(run, points, store, root, tmp_path):
    first = next(iter(points.pictures))
    from casrewind.store.store import Store

    with Store(store) as opened:
        domains = {point.id: point.domain for point, _ in opened.checkpoints()}
    lost = packfile.flip_blob(store, domains[first])
    found = run.json("verify", "--repair", code=20)
    assert {(p["kind"], p["id"]) for p in found["problems"]} == {("domain", lost)}
    assert affected(found["problems"]) == {(point, "") for point, domain in domains.items() if domain == domains[first]}
    plant(root, {"later": b"came later", "a": b"changed"})
    with unchanged(root):
        run("restore", first, "-y", code=20)
    run("restore", first, "-y", "--skip-damaged", code=3)
    there = picture(root, mtimes=True)
    assert (root / "later").read_bytes() == b"came later"
    wrong = differences(there, points.pictures[first])
    assert all(should is None for _, should in wrong.values()), wrong
    assert not differences(points.elsewhere(first, tmp_path), points.pictures[first])


def test_a_damaged_rule_file_does_the_same(run, points, home, root):
    first = points.save({".gitignore": b"*.log\n# this line makes it longer\n", "a": b"1"})
    plant(root, {".gitignore": b"*.tmp\n"})
    points.save({"a": b"2", "x.log": b"captured now"})
    store = store_of(home)
    lost = packfile.flip_blob(store, packfile.digest(b"*.log\n# this line makes it longer\n"))
    found = run.json("verify", code=20)
    assert {p["id"] for p in found["problems"]} == {lost}
    assert affected(found["problems"]) == {(first, ""), (first, ".gitignore")}
    with unchanged(root):
        run("restore", first, "-y", code=20)
    run("restore", first, "-y", "--skip-damaged", code=3)
    assert (root / "x.log").read_bytes() == b"captured now", "ignored then: deleting it would be a loss"
    assert (root / "a").read_bytes() == b"1"
    assert (root / ".gitignore").read_bytes() == b"*.tmp\n"


def test_a_damaged_plan_stops_undo_and_nothing_else(run, points, store, root, tmp_path):
    for plan in packfile.kinds(store)[PLAN]:
        packfile.flip_blob(store, plan)
    found = run.json("verify", "--repair", code=20)
    assert {problem["kind"] for problem in found["problems"]} == {"plan"}
    with unchanged(root):
        done = run("undo", "--yes", code=20)
        assert len(done.err.strip().splitlines()) == 1
    points.all_restore(tmp_path)
    run("restore", run.row(3), "-y", code=0)
    run("undo", "--yes", code=0)


def tree_of(store, identity, path):
    """The digest of a directory's tree in a checkpoint."""
    from casrewind.model import manifest
    from casrewind.store.store import Store

    with Store(store) as opened:
        point = opened.checkpoint(identity)
        return manifest.Finder(opened.load_tree, point.tree).find(path).digest if path else point.tree


def test_a_damaged_tree_costs_its_directory_and_no_other(run, points, store, root, tmp_path):
    first = next(iter(points.pictures))
    lost = packfile.flip_blob(store, tree_of(store, first, b"d/e"))
    found = run.json("verify", "--repair", code=20)
    assert {(p["kind"], p["id"]) for p in found["problems"]} == {("tree", lost)}
    assert {place for place in affected(found["problems"]) if place[0] in points.pictures} == points.having("d/e")
    plant(root, {"a": b"changed", "d/b": b"changed", "d/e/c": b"here now", "d/e/extra": b"too"})
    with unchanged(root):
        done = run("restore", first, "-y", code=20)
        assert "d/e" in done.err
    run("restore", first, "-y", "--", "a", "d/b", code=0)
    assert (root / "a").read_bytes() == points.files[first]["a"]
    plant(root, {"a": b"changed", "d/b": b"changed"})
    before = picture(root, mtimes=True)
    report = run.json("restore", first, "-y", "--skip-damaged", code=3)
    assert [item["path"] for item in report["skipped"]] == ["d/e"]
    after = picture(root, mtimes=True)
    for path, (here, should) in differences(after, points.pictures[first]).items():
        assert path.startswith(b"d/e/") and here == before.get(path), (path, here, should)
    run("undo", "--yes", code=0)
    assert not differences(picture(root, mtimes=True), before), "what was left out is undone exactly, too"
    there = points.elsewhere(first, tmp_path, "--skip-damaged", code=3)
    wanted = {path: what for path, what in points.pictures[first].items() if not path.startswith(b"d/e/")}
    wanted.pop(b"d/e") if b"d/e" not in there else None
    assert not differences(there, wanted)
    assert points.elsewhere(first, tmp_path, code=20) == {}


def test_a_damaged_root_tree_leaves_nothing_to_restore(run, points, store, root, tmp_path):
    first = next(iter(points.pictures))
    packfile.flip_blob(store, tree_of(store, first, b""))
    found = run.json("verify", "--repair", code=20)
    assert affected(found["problems"]) >= {(first, "")}
    with unchanged(root):
        run("restore", first, "-y", code=20)
        run("restore", first, "-y", "--skip-damaged", code=20)
        run("show", first, code=20)
    assert points.elsewhere(first, tmp_path, "--skip-damaged", code=20) == {}
    points.all_restore(tmp_path, but={point for point, _ in affected(found["problems"])})


def chunk_list_of(store, identity):
    from casrewind.model import manifest
    from casrewind.store.store import Store

    with Store(store) as opened:
        return manifest.Finder(opened.load_tree, opened.checkpoint(identity).tree).find(b"large").chunks


@pytest.mark.parametrize("what", ["chunk", "node"])
def test_a_damaged_part_of_a_large_file_costs_that_file(run, points, home, root, tmp_path, what):
    noise = random.Random(8).randbytes(2_500_000)
    first = points.save({"large": noise, "small": b"small" * 40})
    second = points.save({"large": noise[:900_000] + b"insert" + noise[900_000:], "small": b"other" * 40})
    store = store_of(home)
    if what == "chunk":  # noise stands in the pack as it is
        parts = {d: packfile.body(places[0]) for d, places in packfile.records(store).items() if d in packfile.kinds(store)[CHUNK]}
        chunk = next(d for d, part in parts.items() if all(part in files["large"] for files in points.files.values()))
        packfile.flip_blob(store, chunk)
        lost = {(first, "large"), (second, "large")}
    else:
        tops = {point: chunk_list_of(store, point) for point in (first, second)}
        packfile.flip_blob(store, tops[first])
        lost = {(first, "large")}
    found = run.json("verify", "--repair", code=20)
    assert affected(found["problems"]) == lost
    plant(root, {"large": b"here now", "small": b"here now"})
    before = picture(root, mtimes=True)
    with unchanged(root):
        run("restore", first, "-y", code=20)
        assert run("cat", f"{first}:large").code == 20
    run("restore", first, "-y", "--skip-damaged", code=3)
    assert (root / "large").read_bytes() == b"here now" and (root / "small").read_bytes() == b"small" * 40
    run("undo", "--yes", code=0)
    assert not differences(picture(root, mtimes=True), before)


# -- whom it affects


def linked(root, place):
    """A linked worktree of the repository at `root`, as git lays one out."""
    plant(root, {".git/HEAD": b"ref: refs/heads/main\n", ".git/worktrees/x/HEAD": b"ref: refs/heads/x\n"})
    plant(root, {".git/worktrees/x/commondir": b"../..\n", ".git/worktrees/x/gitdir": os.fsencode(place / ".git") + b"\n"})
    plant(root, {".git/objects/keep": b"", ".git/refs/keep": b""})
    plant(place, {".git": b"gitdir: " + os.fsencode(root / ".git" / "worktrees" / "x") + b"\n"})


def test_affects_names_every_checkpoint_and_path_in_every_worktree_and_no_other(run, points, root, home, tmp_path):
    linked(root, tmp_path / "linked")
    other = Points(InProcess(tmp_path / "linked", home))
    chance = random.Random(3)
    contents = [b"content %d " % number * 20 for number in range(12)]
    names = ["a", "b", "d/a", "d/b", "d/e/a", "x/y", "\xe4 \n"]
    for turn in range(12):
        tree = {name: chance.choice(contents) for name in chance.sample(names, 4)}
        (points, other)[turn % 2].save(tree, "-m", f"turn {turn}")
    store = store_of(home)
    stored = packfile.records(store)
    planted = [content for content in contents if packfile.digest(content) in stored][:4]
    for content in planted:
        packfile.flip_blob(store, packfile.digest(content))
    for arguments in (["verify"], ["verify", "--repair"], ["verify"]):
        found = run.json(*arguments, code=20)
        assert len(found["problems"]) == len(planted)
        by_id = {problem["id"]: problem for problem in found["problems"]}
        for content in planted:
            wanted = points.needing(content) | other.needing(content)
            assert wanted and affected([by_id[packfile.digest(content).hex()]]) == wanted
    lost = {point for point, _ in affected(found["problems"])}
    points.all_restore(tmp_path, but=lost)
    other.all_restore(tmp_path, but=lost)
    assert lost & set(points.pictures) and lost & set(other.pictures)
    for identity in lost & set(points.pictures):
        named = {path.encode() for point, path in affected(found["problems"]) if point == identity}
        there = points.elsewhere(identity, tmp_path, "--skip-damaged", code=3)
        missing = {path for path in points.pictures[identity] if path not in there}
        assert missing == named
        assert not [path for path in there if there[path] != points.pictures[identity][path]]


def test_a_save_after_the_repair_heals_what_the_project_still_holds(run, points, home, root, tmp_path):
    first = points.save({"a": b"still here" * 20, "d/b": b"gone since" * 20})
    second = points.save({"c": b"more" * 30})
    store = store_of(home)
    ids = [packfile.flip_blob(store, packfile.digest(content)) for content in (b"still here" * 20, b"gone since" * 20)]
    before = run.json("verify", "--repair", code=20)
    assert {problem["id"] for problem in before["problems"]} == set(ids)
    plant(root, {"d/b": b"other"})
    points.save()
    found = run.json("verify", code=20)
    assert {problem["id"] for problem in found["problems"]} == {ids[1]}
    assert affected(found["problems"]) == {(first, "d/b"), (second, "d/b")}
    plant(root, {"d/b": b"gone since" * 20})
    points.save()
    assert run.json("verify")["ok"]
    assert not differences({p: w[:3] for p, w in points.elsewhere(first, tmp_path).items()},
                           {p: w[:3] for p, w in points.pictures[first].items()})


def test_a_damaged_newest_checkpoint_keeps_nobody_from_saving_and_restoring(run, points, home, root, tmp_path):
    """What the next one is counted against cannot be read: it is made all the same."""
    first = points.save({"a": b"1", "d/b": b"1"})
    last = points.save({"a": b"2", "d/b": b"2"})
    store = store_of(home)
    for tree in [tree_of(store, last, path) for path in (b"", b"d")]:
        packfile.flip_blob(store, tree)
    run.json("verify", "--repair", code=20)
    assert points.save() == last, "nothing has changed, so there is no other checkpoint"
    assert run.json("verify")["ok"], "and the one that there was is whole again"
    points.all_restore(tmp_path)
    for tree in [tree_of(store, last, path) for path in (b"", b"d")]:
        packfile.flip_blob(store, tree)
    run.json("verify", "--repair", code=20)
    again = points.save({"a": b"3"})
    assert not differences(points.elsewhere(again, tmp_path), points.pictures[again])
    packfile.flip_blob(store, tree_of(store, again, b""))
    run.json("verify", "--repair", code=20)
    plant(root, {"a": b"4"})
    before = picture(root, mtimes=True)
    run("restore", first, "-y", code=0)
    assert not differences(picture(root, mtimes=True), points.pictures[first])
    run("undo", "--yes", code=0)
    assert not differences(picture(root, mtimes=True), before)


# -- beside others


def test_a_repair_beside_savers_loses_nothing_of_theirs(run, points, home, root, tmp_path):
    points.save({"a": b"one" * 50, "b": b"two" * 50})
    store = store_of(home)
    packfile.flip_blob(store, packfile.digest(b"two" * 50))
    plant(root, {"b": b"another"})
    script = (
        "import sys, os\n"
        "from support.command_in_process import InProcess\n"
        "run = InProcess(sys.argv[1], sys.argv[2])\n"
        "for number in range(12):\n"
        "    open(os.path.join(sys.argv[1], sys.argv[3]), 'w').write('%s %d' % (sys.argv[3], number))\n"
        "    done = run('save', '--json', '-m', '%s %d' % (sys.argv[3], number))\n"
        "    assert done.code in (0, 3), done\n"  # 3: the file of the other one was just being written
        "    print(done.json['checkpoint'], flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    savers = [
        subprocess.Popen([sys.executable, "-c", script, str(root), str(home), f"s{n}"], stdout=subprocess.PIPE, env=environment)
        for n in range(2)
    ]
    repairs = 0
    while any(saver.poll() is None for saver in savers):
        run.json("verify", "--repair", code=20)
        repairs += 1
    made = [saver.communicate()[0].split() for saver in savers]
    assert [saver.returncode for saver in savers] == [0, 0]
    assert repairs > 1 and [len(ids) for ids in made] == [12, 12]
    found = run.json("verify", "--repair", code=20)
    assert {problem["id"] for problem in found["problems"]} == {packfile.digest(b"two" * 50).hex()}
    for identity in itertools.chain(*made):
        points.elsewhere(identity.decode(), tmp_path)


def test_a_repair_waits_for_no_other_upkeep(run, points, store):
    before = store_picture(store)
    with LockHolder(os.path.join(store, "locks", "gc")):
        for arguments in (["verify", "--repair"], ["gc"]):
            done = run(*arguments, code=11)
            assert len(done.err.strip().splitlines()) == 1
    assert not differences(store_picture(store), before)
    run("verify", "--repair", code=0)


def test_verify_works_on_a_store_that_cannot_be_written_and_repair_says_that_it_does_not(root, home):
    unprivileged.require()
    with unprivileged.open_directory() as place:
        there, data = place / "project", place / "home"
        data.mkdir()
        plant(there, {"a": b"one" * 50, "b": b"two" * 50})
        command = Command(there, data)
        command("save", code=0)
        store = store_of(data)
        lost = packfile.flip_blob(store, packfile.digest(b"two" * 50))
        unprivileged.give(place)
        for path, _, _ in os.walk(store, topdown=False):
            os.chmod(path, 0o500)
        before = store_picture(store)

        def asked(*arguments, code):
            return command(*arguments, code=code, prefix=unprivileged.PREFIX, TMPDIR=str(place))

        found = asked("verify", "--json", code=20).json
        assert {problem["id"] for problem in found["problems"]} == {lost}
        done = asked("verify", "--repair", code=1)
        assert "cannot be written" in done.err
        assert not differences(store_picture(store), before)
        out = place / "out"
        out.mkdir()
        unprivileged.give(out)
        asked("restore", "last", "--to", str(out), "--skip-damaged", code=3)
        assert (out / "a").read_bytes() == b"one" * 50 and not (out / "b").exists()
