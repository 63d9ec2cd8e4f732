"""Stores inside a project: no scan captures one, no restore changes one, and nothing else is taken for one."""

import os
import pathlib
import shutil

import pytest

from support.command import Command
from support.trees import plant

KEPT = "it is a casrewind store: nothing in it is restored or removed"


def stores_in(place):
    """The stores below a directory, as paths below it."""
    return sorted(os.path.relpath(at, place) for at, _, names in os.walk(place) if "FORMAT" in names)


def contents(place):
    """{path: (inode, bytes)} of every file below a directory."""
    files = [path for path in pathlib.Path(place).rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.read_bytes()) for path in files}


def skips(saved):
    return [(skip["path"], skip["reason"]) for skip in saved["skipped"]]


@pytest.fixture
def container(root):
    """The command as it runs in a container: its home and its data directory are its own, in the project."""
    return Command(root, root.parent / "container-home", CASREWIND_HOME=str(root / ".cas"))


def test_a_data_directory_in_the_project_is_not_captured_and_survives_a_restore(casrewind, container, root):
    plant(root, {"a": b"1"})
    container("save", code=0)
    saved = casrewind.json("save", "-m", "host")
    assert skips(saved) == [(".cas", "casrewind store")]
    assert saved["files"] == 1
    plant(root, {"a": b"2"})
    precious = container.json("save", "-m", "precious", "--pin")["checkpoint"]
    before = contents(root / ".cas")
    assert casrewind.json("restore", "host", "-y")["skipped"] == []
    assert (root / "a").read_bytes() == b"1"
    assert contents(root / ".cas") == before
    assert container("cat", f"{precious}:a", code=0).out == "2"
    container("verify", code=0)
    assert "casrewind store): 1: .cas\n" in casrewind("status", code=0).out
    assert "casrewind store): 1: .cas\n" in casrewind("save", code=0).out


def test_a_data_directory_with_other_things_in_it_gives_up_its_stores_only(casrewind, container, root):
    plant(root, {"a": b"1"})
    container("save", code=0)
    plant(root, {".cas/notes": b"mine"})
    saved = casrewind.json("save")
    (store,) = stores_in(root)
    assert skips(saved) == [(store, "casrewind store")]
    assert casrewind("cat", "last:.cas/notes", code=0).out == "mine"


def test_the_store_of_a_nested_repository_survives_a_restore_of_the_outer_one(casrewind, root, home):
    plant(root, {"a": b"1", "inner/.git/HEAD": b"", "inner/b": b"1"})
    inner = Command(root / "inner", home)
    store = str(root / "inner/.cas")
    casrewind("save", "-m", "without", code=0)
    inner("--store", store, "save", code=0)
    casrewind("save", "-m", "outer", code=0)
    plant(root, {"inner/b": b"2"})
    precious = inner("--store", store, "save", "--json", "--pin", code=0).json["checkpoint"]
    before = contents(store)
    casrewind("restore", "outer", "-y", code=0)
    casrewind("restore", "without", "-y", code=0)
    assert contents(store) == before
    assert inner("--store", store, "cat", f"{precious}:b", code=0).out == "2"


def captured_as_files(casrewind, root, home):
    """A checkpoint that holds a store as plain files, as earlier versions made them: as if its FORMAT came later."""
    plant(root, {"a": b"1", "inner/b": b"1"})
    inner = Command(root / "inner", home)
    store = root / "inner/.cas"
    inner("--store", str(store), "save", code=0)
    os.rename(store / "FORMAT", root.parent / "FORMAT")
    casrewind("save", "-m", "old", code=0)
    os.rename(root.parent / "FORMAT", store / "FORMAT")
    plant(root, {"inner/b": b"2"})
    inner("--store", str(store), "save", code=0)
    return store


@pytest.mark.parametrize("ignored", [False, True])
def test_a_checkpoint_that_holds_a_store_as_files_changes_none(casrewind, root, home, tmp_path, ignored):
    store = captured_as_files(casrewind, root, home)
    if ignored:
        plant(root, {".gitignore": b".cas\n"})
    before = contents(store)
    for options in (["--dry-run"], ["-y"]):
        told = casrewind.json("restore", "old", *options, code=3)
        assert [(item["path"], item["reason"]) for item in told["skipped"]] == [("inner/.cas", KEPT)]
        assert contents(store) == before
    assert (root / "inner/b").read_bytes() == b"1"
    assert casrewind.json("restore", "old", "-y", "--", "inner/.cas/ledger", code=3)["skipped"][0]["path"] == "inner/.cas"
    casrewind("undo", "--yes", code=0)
    assert (root / "inner/b").read_bytes() == b"2"
    assert contents(store) == before
    casrewind("restore", "old", "--to", str(tmp_path / "elsewhere"), code=0)
    assert (tmp_path / "elsewhere/inner/.cas/ledger").read_bytes()


def test_an_undo_of_what_an_earlier_version_did_in_a_store_leaves_it_alone(casrewind, root, home):
    store = captured_as_files(casrewind, root, home)
    os.rename(store / "FORMAT", root.parent / "FORMAT")
    casrewind("restore", "old", "-y", code=0)
    os.rename(root.parent / "FORMAT", store / "FORMAT")
    before = contents(store)
    told = casrewind.json("undo", "--yes", code=3)
    assert [(item["path"], item["reason"]) for item in told["skipped"]] == [("inner/.cas", KEPT)]
    assert contents(store) == before
    assert (root / "inner/b").read_bytes() == b"2"


def test_nothing_is_written_below_a_store_with_to(casrewind, container, root):
    plant(root, {"a": b"1"})
    container("save", code=0)
    casrewind("save", code=0)
    (store,) = stores_in(root)
    before = contents(root / ".cas")
    for place in (root / store / "new", root / store / "packs/a/b"):
        assert "lies in a casrewind store" in casrewind("restore", "last", "--to", str(place), code=14).err
    assert contents(root / ".cas") == before


@pytest.mark.parametrize("missing", ["FORMAT", "ledger", "packs", "line", "head", "mode", "kind"])
def test_what_only_looks_like_a_store_is_captured(casrewind, root, tmp_path, missing):
    plant(root, {"src/FORMAT": b"casrewind store 1\n", "src/ledger": b"CRLG and so on", "src/packs/p.py": b"x"})
    os.chmod(root / "src", 0o700)
    assert skips(casrewind.json("save", "-m", "all of it")) == [("src", "casrewind store")]
    if missing == "line":
        plant(root, {"src/FORMAT": b"a format\n"})
    elif missing == "head":
        plant(root, {"src/ledger": b"1 Jan: 3 apples\n"})
    elif missing == "mode":
        os.chmod(root / "src", 0o755)
    elif missing == "kind":
        os.unlink(root / "src/ledger")
        os.mkfifo(root / "src/ledger")
    else:
        os.rename(root / "src" / missing, tmp_path / missing)
    saved = casrewind.json("save")
    assert "casrewind store" not in [reason for _, reason in skips(saved)]
    again = casrewind.json("save", "-m", "again")  # from what is remembered of the directory now
    assert again["files"] == saved["files"] > 0
    if missing in ("FORMAT", "ledger", "packs"):
        os.rename(tmp_path / missing, root / "src" / missing)
        assert skips(casrewind.json("save")) == [("src", "casrewind store")]


def test_a_store_in_a_directory_that_is_remembered_is_seen_when_it_comes(casrewind, root, home):
    plant(root, {"inner/b": b"1", "inner/c/d": b"1"})
    for _ in range(2):
        casrewind("save", "-m", "x", code=0)
    Command(root / "inner", home)("--store", str(root / "inner/c/store"), "save", code=0)
    for _ in range(3):
        assert skips(casrewind.json("save", "-m", "y")) == [("inner/c/store", "casrewind store")]
    shutil.rmtree(root / "inner/c/store")
    assert skips(casrewind.json("save", "-m", "z")) == []
