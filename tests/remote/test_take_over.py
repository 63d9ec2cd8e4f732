"""adopt, where both places have checkpoints: those of the old one come as those of another machine."""

import shutil
from pathlib import Path

import pytest

import casrewind as api
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.trees import plant

FILES = {f"d{n % 3}/file {n}": b"content of file %d\n" % n for n in range(20)}


@pytest.fixture
def old(tmp_path, home):
    """A root that is gone, with two checkpoints, one of them pinned, and a restore."""
    place = tmp_path / "before" / "project"
    casrewind = InProcess(place, home)
    plant(place, {**FILES, "d0/file 0": b"other"})
    casrewind("save", "-m", "first", code=0)
    plant(place, FILES)
    casrewind("save", "-m", "second", code=0)
    casrewind("pin", "second", code=0)
    casrewind("restore", "first", "--yes", code=0)
    shutil.rmtree(place)
    return place


@pytest.fixture
def casrewind(old, tmp_path, home):
    """The command in the place to which the project was moved, where it has a checkpoint of its own."""
    place = tmp_path / "after" / "another name"
    plant(place, {**FILES, "d0/file 0": b"edited here", "made.py": b"made\n"})
    command = InProcess(place, home)
    command("save", "-m", "here", code=0)
    return command


def store_of_old(home):
    return next((Path(home) / "data" / "stores").glob("project-*"))


def test_the_other_checkpoints_come_as_those_of_another_machine(casrewind, old, home):
    new = Path(casrewind.root)
    own, before, there = casrewind.json("list", "--all"), picture(new), picture(store_of_old(home) / "packs")
    assert f"casrewind adopt {old}" in casrewind("list", code=0).out
    assert casrewind("adopt", str(old), code=0).out == (
        f"took over 2 checkpoints of {old}: this project has its own, so casrewind lists these as those of project\n"
        "  casrewind list --remote lists them, casrewind restore project:last restores the newest\n"
        f"  undo cannot undo restores that were made at {old}; the store of {old} stays\n"
    )
    assert differences(before, picture(new)) == {} and differences(there, picture(store_of_old(home) / "packs")) == {}
    assert "adopt" not in casrewind("list", code=0).out and casrewind.json("list", "--all") == own
    listed = casrewind.json("list", "--remote", "--all")["machines"]
    assert [one["machine"] for one in listed] == ["project"]
    saved = [(point["label"], point["pinned"]) for point in listed[0]["checkpoints"] if point["trigger"] == "manual"]
    assert saved == [("second", True), ("first", False)]
    assert casrewind.json("verify")["ok"] is True


def test_they_are_restored_and_undo_knows_only_what_was_done_here(casrewind, old):
    before = picture(casrewind.root)
    casrewind("adopt", str(old), code=0)
    casrewind("restore", "project:last", "-y", code=0)
    assert (Path(casrewind.root) / "d0/file 0").read_bytes() == FILES["d0/file 0"] and not (Path(casrewind.root) / "made.py").exists()
    casrewind("undo", "-y", code=0)
    assert differences(before, picture(casrewind.root)) == {}
    casrewind("undo", "-y", code=15)  # the restore of before the move
    casrewind("gc", code=0)
    assert "first" in casrewind("list", "--remote", "--all", code=0).out


def test_adopting_twice_takes_nothing_more(casrewind, old, home):
    first = casrewind.json("adopt", str(old))
    assert (first["checkpoints"], first["machine"], first["problems"]) == (2, "project", [])
    again = casrewind.json("adopt", str(old))
    assert (again["checkpoints"], again["machine"]) == (0, "project")
    assert casrewind("adopt", str(old), code=0).out == f"nothing new in the store of {old}\n"
    assert store_of_old(home).exists()


def test_two_roots_of_one_name_have_two_names(casrewind, old, home, tmp_path):
    other = tmp_path / "elsewhere" / "project"
    plant(other, {"x": b"x"})
    InProcess(other, home)("save", "-m", "of the other", code=0)
    shutil.rmtree(other)
    names = [casrewind.json("adopt", str(place))["machine"] for place in (old, other, old)]
    assert names[0] == names[2] == "project" and names[1].startswith("project.")
    assert len(casrewind.json("list", "--remote")["machines"]) == 2
    assert casrewind.json("show", f"{names[1]}:last")["checkpoint"]["label"] == "of the other"


def test_a_root_that_is_still_there_keeps_its_checkpoints(casrewind, old):
    old.mkdir()
    casrewind("adopt", str(old), code=14)
    assert casrewind.json("list", "--remote")["machines"] == []


def test_a_program_takes_them_over_too(casrewind, old, settings):
    found = api.adopt(casrewind.root, old, settings)
    assert (found.old, found.root, found.checkpoints, found.machine, found.problems) == (str(old), str(casrewind.root), 2, "project", ())


def test_a_damaged_store_gives_what_can_be_read(casrewind, old, home):
    for pack in (store_of_old(home) / "packs").glob("*.pack"):
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.write_bytes(data)
    done = casrewind("adopt", str(old), code=3)
    assert f"of {old} cannot be read: casrewind --store {store_of_old(home)} verify" in done.err
    assert casrewind.json("verify")["ok"] is True
