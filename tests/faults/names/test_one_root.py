"""A project on a disk that folds names has one store, in whichever spelling its path comes: with case and form, and with form alone."""

import errno
import fcntl
import itertools
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from casrewind import agents, errors, locations
from casrewind.agents import session_files
from casrewind.agents.client import dashed_project_name
from casrewind.upkeep.all_stores import list_stores
from casrewind.workspace import Workspace
from casrewind.worktree import root as roots
from support.changes import edit_before_execution
from support.folding_filesystem import mounted
from support.git_repository import add_worktree, make_repository
from support.trees import plant

NFC, NFD = "Caf\u00e9", unicodedata.normalize("NFD", "Caf\u00e9")
SPELLINGS = {"case": [("Work/Proj", "work/PROJ"), (f"{NFC}/p", f"{NFD}/P"), ("Straße/p", "STRASSE/p")], "form": [(f"{NFC}/p", f"{NFD}/p"), (f"p/{NFD}", f"p/{NFC}")]}


@pytest.fixture(scope="module")
def mounts(tmp_path_factory):
    with mounted(tmp_path_factory.mktemp("case")) as (case, _), mounted(tmp_path_factory.mktemp("form"), folds="form") as (form, _):
        yield {"case": case, "form": form}


@pytest.fixture(params=[(folds, *pair) for folds, pairs in SPELLINGS.items() for pair in pairs], ids=lambda given: f"{given[0]}-{ascii(given[1])}")
def spellings(request, mounts, numbers=itertools.count()):
    """The path of a directory as its parents list it, and another spelling of it. Each test has a directory of its own."""
    folds, listed, other = request.param
    above = mounts[folds] / f"number {next(numbers)}"
    (above / listed).mkdir(parents=True)
    assert (above / other).is_dir()
    return above / listed, above / other


@pytest.fixture
def two(mounts, numbers=itertools.count()):
    """The same, of one pair."""
    above = mounts["case"] / f"pair {next(numbers)}"
    (above / "Work" / "Proj").mkdir(parents=True)
    return above / "Work" / "Proj", above / "work" / "PROJ"


def stores(home):
    return sorted(path.name for path in (Path(home) / "data" / "stores").iterdir())


@pytest.mark.parametrize("first", [0, 1], ids=["as-listed", "respelled"])
def test_two_spellings_have_one_store_and_one_list(spellings, at, home, first):
    one, two = at(spellings[first]), at(spellings[1 - first])
    plant(spellings[0], {"a": b"1"})
    one("save", "-m", "first", code=0)
    plant(spellings[0], {"a": b"2"})
    two("save", "-m", "second", code=0)
    assert len(stores(home)) == 1
    assert labels(one) == labels(two) == ["second", "first"]
    assert one.json("status")["root"] == two.json("status")["root"] == str(spellings[0])


def test_the_other_spelling_undoes(two, at):
    listed, other = at(two[0]), at(two[1])
    plant(two[0], {"a": b"1"})
    listed("save", code=0)
    plant(two[0], {"a": b"2"})
    other("restore", "last", "--yes", code=0)
    assert (two[0] / "a").read_bytes() == b"1"
    listed("undo", "--yes", code=0)
    assert (two[0] / "a").read_bytes() == b"2"
    other("redo", "--yes", code=0)
    assert (two[0] / "a").read_bytes() == b"1"


@pytest.mark.parametrize("target", [0, 1], ids=["as-listed", "respelled"])
def test_a_link_to_either_spelling_leads_to_the_one_store(two, at, home, tmp_path, target):
    (tmp_path / "link").symlink_to(two[target])
    plant(two[0], {"a": b"1"})
    at(tmp_path / "link")("save", code=0)
    at(two[1])("save", code=0)
    assert stores(home) == [roots.store_name_of(str(two[0]))]


def test_a_start_below_the_root_is_in_it(two, at, home):
    plant(two[0], {"Src/Deep/a": b"1"})
    at(two[0])("save", code=0)
    found = at(two[1] / "SRC" / "deep")
    found("save", code=0)
    assert len(stores(home)) == 1
    plant(two[0], {"Src/Deep/a": b"2", "b": b"x"})
    found("restore", "last", "--yes", "--", "a", code=0)
    assert (two[0] / "Src/Deep/a").read_bytes() == b"1" and (two[0] / "b").exists()


def test_a_restore_stops_one_in_the_other_spelling_by_name(two, at, settings, monkeypatch):
    plant(two[0], {"a": b"1"})
    refused = []
    with Workspace(str(two[0]), settings, create=True) as workspace:
        point = workspace.save().checkpoint
        plant(two[0], {"a": b"2"})
        edit_before_execution(monkeypatch, lambda: refused.append(at(two[1])("restore", "last", "--yes", code=11).err))
        workspace.restore(point)
    assert f"process {os.getpid()} holds it" in refused[0]
    assert (two[0] / "a").read_bytes() == b"1"


def test_paths_of_a_command_are_in_the_root_in_either_spelling(two, at):
    plant(two[0], {"Src/a": b"1", "b": b"1"})
    listed, other = at(two[0]), at(two[1])
    listed("save", code=0)
    plant(two[0], {"Src/a": b"2", "b": b"2"})
    for command, place in ((listed, two[1]), (other, two[0]), (other, two[1])):
        assert command("diff", "last", "--name-only", "--", place / "Src", code=0).out == "Src/a\n"
        assert command("diff", "last", "--name-only", "--", place, code=0).out == "Src/a\nb\n"
    other("restore", "last", "--yes", "--", two[1] / "SRC" / "a", code=0)
    assert ((two[0] / "Src/a").read_bytes(), (two[0] / "b").read_bytes()) == (b"1", b"2")
    with pytest.raises(errors.UnsafePath):
        roots.paths_below_root(str(two[0]), [str(two[1].parent / "else")], str(two[1]))


def test_a_directory_inside_the_project_is_known_as_that_in_either_spelling(two, at, home):
    plant(two[0], {"a": b"1"})
    at(two[0])("save", code=0)
    outside = two[0].parent / "outside"
    outside.mkdir()
    (two[0] / "way").symlink_to(outside)
    refused = at(two[0])("restore", "last", "--to", two[1] / "way" / "x", code=14).err
    assert "is a link in the project" in refused
    assert "would hold the project" in at(two[0])("--store", two[1].parent, "save", code=64).err


@pytest.mark.turns(2)
def test_a_linked_worktree_has_the_store_of_its_checkout_in_either_spelling(two, at, home):
    plant(two[0], {"a": b"1"})
    make_repository(two[1])
    inner, beside = add_worktree(two[1]), add_worktree(two[1], "w2", above="../beside")
    at(two[1])("save", code=0)
    for place in (inner, beside):
        plant(place, {"b": b"1"})
        at(place)("save", code=0)
        listed = locations.real_path(str(place))
        assert os.path.samefile(listed, place) and at(place).json("status")["root"] == listed
    assert stores(home) == [roots.store_name_of(str(two[0]))]
    files = at(two[0]).json("save")["files"]
    assert files == 1, "a worktree inside is no part of its checkout"


def save_under_other_spelling(two, settings):
    """A checkpoint of the directory while its path was spelled in the other way. Then the path is as it was, and nothing says when
    it was respelled."""
    listed, other = two
    directories = [(listed.parent, other.parent.name), (other.parent.parent / other.parent.name / listed.name, other.name)]
    for path, name in directories:
        os.rename(path, path.with_name(name))
    with Workspace(str(other), settings, create=True) as workspace:
        workspace.save("earlier")
    for path, name in ((other, listed.name), (other.parent, listed.parent.name)):
        os.rename(path, path.with_name(name))
    for above in (listed.parent, listed.parent.parent):
        os.utime(above, (1, 1))


def labels(casrewind):
    return [point["label"] for point in casrewind.json("list", "--all")["checkpoints"]]


@pytest.mark.parametrize("first", [0, 1], ids=["as-listed", "respelled"])
def test_a_store_under_another_spelling_is_gone_on_with(two, at, home, settings, first):
    plant(two[0], {"a": b"1"})
    save_under_other_spelling(two, settings)
    plant(two[0], {"a": b"another file by now", "b": b"x"})
    assert labels(at(two[first])) == labels(at(two[1 - first])) == ["earlier"]
    assert stores(home) == [roots.store_name_of(str(two[0]))]
    assert [found.root for found in list_stores(str(home / "data"))] == [str(two[0])]


def test_a_project_that_was_respelled_goes_on(two, at, home):
    plant(two[0], {"a": b"1"})
    at(two[0])("save", "-m", "earlier", code=0)
    now = two[0].with_name("pROJ")
    os.rename(two[0], now)
    plant(now, {"a": b"another file by now"})
    assert labels(at(two[1])) == ["earlier"]
    assert stores(home) == [roots.store_name_of(str(now))]


def test_two_stores_of_one_directory_are_joined_by_adopt(two, at, settings):
    plant(two[0], {"a": b"1"})
    save_under_other_spelling(two, settings)
    with Workspace(str(two[0]), settings, create=True) as workspace:
        workspace.save("later")
    assert labels(at(two[1])) == ["later"]
    assert "took over 1 checkpoint" in at(two[0])("adopt", two[1], code=0).out
    assert "earlier" in at(two[1])("list", "--remote", "--all", code=0).out


def test_a_directory_that_is_mounted_at_two_places_keeps_its_store(tmp_path, at, home):
    """Both paths are in use: a store that goes along would be taken away from under the other one."""
    one, two = tmp_path / "one" / "p", tmp_path / "two" / "p"
    for place in (one, two):
        place.mkdir(parents=True)
    plant(one, {"a": b"1"})
    at(one)("save", "-m", "first", code=0)
    (one.parent / "newer").mkdir()  # something happened beside the root since
    if subprocess.run(["mount", "--bind", one, two], capture_output=True, check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        assert os.path.samefile(one, two)
        assert f"casrewind adopt {one}" in at(two)("list", code=10).err.replace("'", "")
        assert at(one).json("list")["checkpoints"][0]["label"] == "first"
        assert stores(home) == [roots.store_name_of(str(one))]
    finally:
        subprocess.run(["umount", "--lazy", two], check=False)


def test_the_conversation_of_a_client_that_was_started_in_the_other_spelling_is_found_and_goes_along(two, home):
    listed, other = map(str, two)
    transcript = home / ".claude" / "projects" / dashed_project_name(other) / "11111111-1111-4111-8111-111111111111.jsonl"
    lines = [json.dumps({"type": "user", "cwd": cwd}).encode() + b"\n" for cwd in (other, f"{other}/sub", "/elsewhere")]
    plant(transcript.parent, {transcript.name: b"".join(lines)})
    found = session_files.find_newest_transcript(session_files.Homes(str(home), {}), listed)
    assert found is not None and found.path == str(transcript)
    forked = agents.load_client("claude").fork_for_other_root(transcript.read_bytes(), [listed], "/new")
    assert [json.loads(line)["cwd"] for line in forked.splitlines()] == ["/new", "/new/sub", "/elsewhere"]


# -- the spelling of a path


def test_a_path_is_spelled_as_its_directories_list_it(spellings):
    listed, other = map(str, spellings)
    assert locations.real_path(listed) == locations.real_path(other) == listed
    assert locations.real_path(f"{other}/not/There") == f"{listed}/not/There"
    with pytest.raises(FileNotFoundError):
        locations.real_path(f"{other}/not/There", strict=True)


def test_where_names_are_kept_apart_each_is_itself(tmp_path):
    for name in ("Proj", "proj", "PROJ", NFC, NFD):
        (tmp_path / name).mkdir()
        assert locations.real_path(str(tmp_path / name)) == str(tmp_path / name)
    assert locations.real_path(str(tmp_path / "pROJ")) == str(tmp_path / "pROJ"), "nothing has that name"


class GetPath:
    """Stands in for fcntl.fcntl of macOS: the path that a descriptor has there. `paths`: {path here: path there}; None = it fails."""

    def __init__(self, monkeypatch, paths):
        self.paths, self.asked = paths, []
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(fcntl, "fcntl", self)

    def __call__(self, fd, command, buffer):
        assert command == 50 and len(buffer) == 1024
        given = os.readlink(f"/proc/self/fd/{fd}")
        self.asked.append(given)
        found = self.paths.get(given)
        if found is None:
            raise OSError(errno.ENOENT, "no path")
        return os.fsencode(found).ljust(1024, b"\0")


def test_macos_is_asked_for_the_path_of_a_directory(two, monkeypatch):
    listed, other = map(str, two)
    calls = GetPath(monkeypatch, {listed: listed, other: listed})
    monkeypatch.setattr(os, "scandir", None)  # its answer is enough
    assert locations.real_path(other) == locations.real_path(listed) == listed
    assert locations.real_path(f"{other}/not/There") == f"{listed}/not/There"
    assert set(calls.asked) <= {listed, other}


def test_macos_tells_where_a_firmlink_leads(tmp_path, monkeypatch):
    """A firmlink is no link: /System/Volumes/Data/Users and /Users are one directory, as after a mount."""
    (tmp_path / "Users" / "me").mkdir(parents=True)
    (tmp_path / "Data").mkdir()
    if subprocess.run(["mount", "--bind", tmp_path / "Users", tmp_path / "Data"], capture_output=True, check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        place, firm = str(tmp_path / "Users" / "me"), str(tmp_path / "Data" / "me")
        GetPath(monkeypatch, {firm: place, place: place})
        assert locations.real_path(firm) == place
    finally:
        monkeypatch.undo()
        subprocess.run(["umount", "--lazy", tmp_path / "Data"], check=False)


@pytest.mark.parametrize("answer", [None, "/", "not absolute", "{}/elsewhere"])
def test_an_answer_of_macos_counts_only_if_it_names_that_directory(two, monkeypatch, answer):
    listed, other = map(str, two)
    (two[0].parent / "elsewhere").mkdir()
    said = answer and answer.format(two[0].parent)
    GetPath(monkeypatch, dict.fromkeys((listed, other), said))
    assert locations.real_path(other) == listed  # by the listings of its parents
