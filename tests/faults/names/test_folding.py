"""On a file system that folds case and normalisation, as a Mac's does: nothing merges or vanishes, names come back."""

import itertools
import os
import unicodedata

import pytest

from casrewind import errors
from support import handmade_checkpoints, path_kinds
from casrewind.workspace import Workspace
from casrewind.worktree import safe_rename
from support.command import Command
from support.folding_filesystem import DISKS, mounted
from support.picture import differences, picture
from support.stores import nth_newest
from support.trees import Dir, Exec, Link, plant

NFC, NFD = "caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")


@pytest.fixture(scope="module")
def mount(tmp_path_factory):
    with mounted(tmp_path_factory.mktemp("fold")) as (point, backing):
        yield point, backing


@pytest.fixture(scope="module")
def mount_without_links(tmp_path_factory):
    with mounted(tmp_path_factory.mktemp("nolinks"), links="no") as (point, backing):
        yield point, backing


class Place:
    """A project on a folding mount; `real` is where its files lie."""

    def __init__(self, mount, name):
        self.root, self.real = mount[0] / name, mount[1] / name
        self.root.mkdir()

    def names(self, below="."):
        return sorted(os.listdir(self.real / below))


@pytest.fixture
def place(mount, numbers=itertools.count()):
    return Place(mount, f"project {next(numbers)}")


@pytest.fixture
def folding(place, settings):
    with Workspace(str(place.root), settings, create=True) as opened:
        yield opened


def test_the_file_system_is_what_it_says(place):
    (place.root / "readme").write_text("x")
    assert (place.root / "README").read_text() == "x"
    os.rename(place.root / "readme", place.root / "README")
    assert place.names() == ["README"]
    (place.root / NFC).write_text("y")
    assert (place.root / NFD).read_text() == "y"
    with pytest.raises(OSError, match="Invalid or incomplete multibyte"):
        open(os.fsencode(place.root) + b"/\xff", "w")


@pytest.mark.skipif(bool(DISKS["case"]), reason="asks the file system of the tests: what APFS does with two spellings is not known")
def test_with_flags_it_exchanges_two_names_and_gives_a_free_name_alone(tmp_path):
    with mounted(tmp_path, flags="yes") as (point, backing):
        plant(point, {"Readme": b"1", "other": b"2"})
        directory = os.open(point, os.O_RDONLY)
        assert safe_rename.exchange_names(directory, b"README", b"other")
        assert {name: (backing / name).read_bytes() for name in os.listdir(backing)} == {"Readme": b"2", "other": b"1"}
        with pytest.raises(FileExistsError):
            safe_rename.rename_without_replacing(directory, b"other", b"README")
        safe_rename.rename_without_replacing(directory, b"OTHER", b"New")
        assert sorted(os.listdir(backing)) == ["New", "Readme"]
        assert safe_rename.exchange_names(directory, b"NEW", b"new")
        assert (point / "New").read_bytes() == b"1"
        os.close(directory)


def test_it_is_found_out(folding, place, workspace, root):
    plant(place.root, {"Some": b"x"})
    plant(root, {"Some": b"x"})
    assert folding._context.tree.ignores_case_in_names()
    assert not workspace._context.tree.ignores_case_in_names()


def test_it_is_found_out_with_both_spellings_of_a_name_in_other_directories(folding, place):
    plant(place.root, {"1234": b"x", "5678": b"y"})  # no letter in any name: the root's own name tells
    assert folding._context.tree.ignores_case_in_names()


def test_an_ordinary_tree_comes_back(folding, place):
    plant(place.root, {"A/b.py": b"one", "run.sh": Exec(b"#!"), "l": Link("A"), "empty": Dir(), NFC: b"\0\xff" * 5000})
    before = picture(place.real, mtimes=True)
    point = folding.save().checkpoint
    plant(place.root, {"A/b.py": b"two", "A/new": b"x", "l": Link("B")})
    (place.root / "empty").rmdir()
    (place.root / NFC).unlink()
    broken = picture(place.real)
    report = folding.restore(point)
    assert not report.kept
    assert differences(before, picture(place.real, mtimes=True)) == {}
    assert not folding.undo().kept
    assert differences(broken, picture(place.real)) == {}
    assert not folding.redo().kept
    assert differences(before, picture(place.real, mtimes=True)) == {}


@pytest.mark.parametrize("edit", [b"same", b"other"], ids=["same-bytes", "other-bytes"])
@pytest.mark.parametrize(("old", "new"), [("README", "readme"), ("Straße", "STRASSE"), (NFC, NFD), (NFD, NFC)])
def test_a_respelled_file_gets_its_name_back(folding, place, old, new, edit):
    plant(place.root, {old: b"same", "other/x": b"1"})
    before = picture(place.real, mtimes=True)
    point = folding.save().checkpoint
    os.rename(place.root / old, place.root / new)
    (place.root / new).write_bytes(edit)
    broken = picture(place.real)
    assert place.names() == sorted([new, "other"])
    report = folding.restore(point)
    assert not report.kept
    after = picture(place.real, mtimes=edit != b"same")
    assert differences(before if edit != b"same" else picture_without_times(before), after) == {}
    assert not folding.undo().kept
    assert differences(broken, picture(place.real)) == {}
    assert not folding.redo().kept
    assert place.names() == sorted([old, "other"])
    assert (place.real / old).read_bytes() == b"same"


def picture_without_times(found):
    return {path: entry[:3] for path, entry in found.items()}


@pytest.mark.parametrize("edit", [False, True], ids=["untouched", "edited"])
def test_a_respelled_directory_gets_its_name_back(folding, place, edit):
    plant(place.root, {"Src/Main.py": b"1", "Src/deep/er/x": b"2", "Src/gone": b"3", "Src/e": Dir()})
    before = picture(place.real)
    point = folding.save().checkpoint
    os.rename(place.root / "Src", place.root / "src")
    if edit:
        os.rename(place.root / "src/Main.py", place.root / "src/main.PY")
        plant(place.root, {"src/main.PY": b"edited", "src/deep/er/new": b"new"})
        (place.root / "src/gone").unlink()
        (place.root / "src/e").rmdir()
    broken = picture(place.real)
    assert not folding.restore(point).kept
    assert differences(before, picture(place.real)) == {}
    assert not folding.undo().kept
    assert differences(broken, picture(place.real)) == {}
    assert not folding.redo().kept
    assert differences(before, picture(place.real)) == {}


def test_a_respelled_directory_with_ignored_content_keeps_it(folding, place):
    plant(place.root, {".gitignore": b"*.log\n", "Src/a": b"1", "Src/x.log": b"mine"})
    point = folding.save().checkpoint
    os.rename(place.root / "Src", place.root / "src")
    plant(place.root, {"src/a": b"2"})
    folding.restore(point)
    assert (place.root / "Src/a").read_bytes() == b"1"
    assert (place.root / "Src/x.log").read_bytes() == b"mine"
    assert place.names() == [".gitignore", "Src"]
    folding.undo()
    assert (place.root / "Src/a").read_bytes() == b"2"
    assert place.names() == [".gitignore", "src"]


def test_a_name_that_only_changed_case_is_a_change_and_not_a_loss(folding, place):
    plant(place.root, {"README": b"x"})
    folding.save()
    os.rename(place.root / "README", place.root / "readme")
    second = folding.save()
    assert second.created
    assert [path for path, _ in folding.entries(second.checkpoint)] == [b"readme"]


def test_a_respelled_name_in_the_scope_of_a_restore(folding, place):
    plant(place.root, {"README": b"x", "b": b"1"})
    point = folding.save().checkpoint
    os.rename(place.root / "README", place.root / "readme")
    plant(place.root, {"b": b"2"})
    folding.restore(point, [b"README"])
    assert len(place.names()) == 2
    assert (place.root / "README").read_bytes() == b"x"
    assert (place.root / "b").read_bytes() == b"2"


def two_that_fold(one, two):
    digest = hostile_digest(b"1")
    return handmade_checkpoints.tree(*(handmade_checkpoints.file_row(name, digest, 1) for name in sorted((one, two))))


def hostile_digest(data):
    from blake3 import blake3

    return blake3(data).digest()


@pytest.mark.parametrize(
    ("one", "two"),
    [(b"README", b"readme"), (NFC.encode(), NFD.encode()), ("ß".encode(), b"SS")],
    ids=["case", "nf", "sharp"],
)
def test_a_target_with_two_names_that_fold_together_is_refused(folding, place, one, two):
    plant(place.root, {"keep": b"k"})
    folding.save()
    point = handmade_checkpoints.Forger(folding).publish(two_that_fold(one, two), b"1")
    before = picture(place.real, mtimes=True, inodes=True)
    with pytest.raises(errors.UnsafePath, match="the same name on this file system"):
        folding.restore(point)
    with pytest.raises(errors.UnsafePath, match="--to DIR"):
        folding.plan_restore(point)
    assert picture(place.real, mtimes=True, inodes=True) == before
    assert not folding.is_interrupted()
    with pytest.raises(errors.UnsafePath):
        folding.materialise(point, str(place.root / "out"))
    assert "out" not in place.names()


def test_the_same_target_is_restored_elsewhere_on_a_file_system_that_keeps_them_apart(folding, place, tmp_path):
    plant(place.root, {"keep": b"k"})
    folding.save()
    point = handmade_checkpoints.Forger(folding).publish(two_that_fold(b"README", b"readme"), b"1")
    folding.materialise(point, str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path / "out")) == ["README", "readme"]


@pytest.mark.parametrize("deep", [False, True])
def test_a_name_that_is_not_utf8_is_refused_and_leaves_no_journal(folding, place, deep, home):
    plant(place.root, {"keep": b"k"})
    folding.save()
    forger = handmade_checkpoints.Forger(folding)
    inner = handmade_checkpoints.tree(handmade_checkpoints.file_row(b"caf\xe9", hostile_digest(b"1"), 1))
    target = handmade_checkpoints.tree(handmade_checkpoints.dir_row(b"d", hostile_digest(inner))) if deep else inner
    point = forger.publish(target, inner, b"1")
    before = picture(place.real, mtimes=True, inodes=True)
    with pytest.raises(errors.CasrewindError, match="this file system"):
        folding.restore(point)
    assert picture(place.real, mtimes=True, inodes=True) == before
    assert not folding.is_interrupted()
    done = Command(place.root, home)("restore", point.id, "--yes", code=14)
    assert "caf" in done.err
    plant(place.root, {"keep": b"2"})
    assert folding.save().created  # and everything goes on working
    assert not folding.restore(nth_newest(folding, 3)).kept


def test_a_name_that_is_not_utf8_does_not_come_into_a_new_directory_either(folding, place):
    plant(place.root, {"keep": b"k"})
    folding.save()
    point = handmade_checkpoints.Forger(folding).publish(handmade_checkpoints.tree(handmade_checkpoints.file_row(b"caf\xe9", hostile_digest(b"1"), 1)), b"1")
    with pytest.raises(errors.CasrewindError):
        folding.materialise(point, str(place.root / "out"))
    assert "out" not in place.names()


def every_pair(root, which):
    for old in path_kinds.KINDS:
        for new in path_kinds.KINDS:
            pair = (old, new)
            path_kinds.make(root / f"{old}-{new}", pair[which], f"version {which}")


@pytest.mark.turns(3)
@pytest.mark.parametrize("links", ["hard links", "no hard links"])
def test_every_kind_becomes_every_other_without_exchange(mount, mount_without_links, settings, links):
    where = Place(mount if links == "hard links" else mount_without_links, "kinds")
    with Workspace(str(where.root), settings, create=True) as workspace:
        every_pair(where.root, 0)
        before = picture(where.real)
        point = workspace.save().checkpoint
        every_pair(where.root, 1)
        broken = picture(where.real)
        assert not workspace.restore(point).kept
        assert differences(before, picture(where.real)) == {}
        assert not workspace.undo().kept
        assert differences(broken, picture(where.real)) == {}
        assert not workspace.redo().kept
        assert differences(before, picture(where.real)) == {}


def test_links_to_other_spellings_stay_as_they_are(folding, place):
    plant(place.root, {"Target": b"x", "l": Link("TARGET")})
    point = folding.save().checkpoint
    (place.root / "l").unlink()
    assert not folding.restore(point).kept
    assert os.readlink(place.real / "l") == "TARGET"


@pytest.mark.parametrize("name", [".GIT", ".Git", ".g\u200cit", ".HG"])
def test_version_control_in_another_spelling_is_neither_stored_nor_touched(folding, place, name):
    plant(place.root, {f"sub/{name}/config": b"mine", "sub/a": b"1"})
    point = folding.save().checkpoint
    assert all(b"onfig" not in path for path, _ in folding.entries(point))
    plant(place.root, {"sub/a": b"2", f"sub/{name}/config": b"later"})
    folding.restore(point)
    assert (place.real / "sub" / name / "config").read_bytes() == b"later"
    assert (place.real / "sub/a").read_bytes() == b"1"
