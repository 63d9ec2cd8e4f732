"""Where a store may be made: in a new or an empty directory, and never around the project that it belongs to."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from casrewind.store.layout import Layout
from support import fake_libsystem
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.trees import plant


@pytest.fixture
def project(root):
    plant(root, {"a": b"1", "d/b": b"2"})
    return root


@pytest.mark.parametrize(
    "there",
    [{"x": b"1"}, {"packs/mine": b"1", "notes": b"1"}, {"packs/": None, "locks": b"1", ".hidden": b"1"}, {"d/e/f": b"1"}],
    ids=["a file", "packs of others", "hidden", "directories"],
)
def test_a_directory_that_holds_something_else_does_not_become_a_store(casrewind, project, tmp_path, there):
    place = tmp_path / "place"
    for name, data in there.items():
        if data is None:
            (place / name).mkdir(parents=True)
        else:
            plant(place, {name: data})
    os.chmod(place, 0o700)
    before = picture(place)
    found = casrewind("--store", str(place), "save", code=64)
    assert found.err.startswith(f"casrewind: {place} is not a store and not empty") and found.err.count("\n") == 1
    assert casrewind("--store", str(place), "list").code == 10
    assert not differences(picture(place), before)


@pytest.mark.parametrize("which", ["the root", "above it", "through a link"])
def test_a_store_does_not_hold_its_own_project(casrewind, project, tmp_path, which):
    os.symlink(project, tmp_path / "link")
    store = {"the root": project, "above it": tmp_path, "through a link": tmp_path / "link"}[which]
    before = picture(tmp_path)
    for command in (["save"], ["list"], ["run", "--", "true"]):
        assert "would hold the project" in casrewind("--store", str(store), *command, code=64).err
    assert not differences(picture(tmp_path), before)


@pytest.mark.parametrize("place", ["new", "new/deeper/yet", "empty"])
def test_a_new_or_empty_directory_in_the_project_is_a_place_for_a_store(casrewind, project, place):
    (project / "empty").mkdir()
    store = str(project / place)
    casrewind("--store", store, "save", "-m", "one", code=0)
    plant(project, {"a": b"2"})
    assert casrewind("--store", store, "save", "--json", code=0).json["files"] == 2
    casrewind("--store", store, "restore", "one", "-y", code=0)
    assert (project / "a").read_bytes() == b"1"


def test_the_project_itself_may_be_the_data_directory(casrewind, project):
    home = {"CASREWIND_HOME": str(project)}
    casrewind("save", "-m", "one", code=0, **home)
    plant(project, {"a": b"2"})
    saved = casrewind.json("save", **home)
    assert saved["files"] == 2
    assert [skip["path"] for skip in saved["skipped"]] == ["stores"]
    casrewind("restore", "one", "-y", code=0, **home)
    assert (project / "a").read_bytes() == b"1"


def test_a_project_among_the_stores_is_refused(casrewind, project):
    store = casrewind.json("save")["checkpoint"] and casrewind.json("status")["store"]
    assert "keeps its stores" in casrewind("-C", store, "save", code=14).err


@pytest.mark.parametrize("place", ["/proc/x", "/proc/self/x"])
def test_a_place_where_nothing_can_be_made_is_no_damaged_store(casrewind, project, place):
    for arguments, variables in ((["--store", place], {}), ([], {"CASREWIND_HOME": place})):
        found = casrewind(*arguments, "save", code=10, **variables)
        assert found.err.startswith("casrewind: no store can be made at /proc/") and found.err.count("\n") == 1
        assert "damaged" not in found.err
        assert casrewind(*arguments, "list", code=10, **variables).err.count("\n") == 1


def test_a_store_that_another_process_has_made_meanwhile_is_no_stranger(workspace):
    workspace.save()
    Layout(workspace.store_path).create()
    assert len(workspace.checkpoints()) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux answers for the Mac's library")
@pytest.mark.parametrize("kind, is_beside", [(b"apfs", True), (b"exfat", True), (b"webdav", False), (b"macfuse", False), (b"smbfs", False)])
def test_on_a_mac_the_index_lies_beside_its_store_unless_that_is_on_a_share(project, home, tmp_path, monkeypatch, kind, is_beside):
    (tmp_path / "local").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "local"))
    run, store = InProcess(project, home), tmp_path / "disk" / "store"
    with fake_libsystem.installed() as mac:
        mac.volumes.append((os.fsencode(tmp_path / "disk"), kind))
        run("--store", str(store), "save", "-m", "one", code=0)
        plant(project, {"a": b"2"})
        run("--store", str(store), "restore", "one", "-y", code=0)
    assert (project / "a").read_bytes() == b"1"
    assert (store / "index").is_dir() == is_beside and bool(os.listdir(tmp_path / "local")) != is_beside


def test_what_no_checkpoint_needs_makes_a_lost_store_no_strangers_directory(casrewind, root):
    """A plan that was shown in a client stays in its own directory of the store."""
    plant(root, {"f": b"1"})
    casrewind("save", "-m", "one", code=0)
    plant(root, {"f": b"2"})
    assert "nothing has changed yet" in casrewind("restore", "one", "--typed", "restore one", code=0).out
    store = Path(casrewind.json("status")["store"])
    for place in ("FORMAT", "ledger", "packs", "index"):
        shutil.rmtree(store / place) if (store / place).is_dir() else (store / place).unlink()
    assert (store / "shown").is_dir()
    casrewind("save", code=0)
