"""Modes: what a restore changes of them, and which other name, bit or directory it leaves alone."""

import os
import stat

import pytest

from support import unprivileged
from support.command import Command
from support.trees import Mode, plant

YEAR_2020 = 1_577_836_800_000_000_000


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


# -- set-id and sticky bits of directories


@pytest.mark.parametrize(("saved", "edited", "restored"), [
    (0o1777, 0o1770, 0o1777), (0o2775, 0o2755, 0o2775), (0o0755, 0o3700, 0o3755), (0o1777, 0o0770, 0o0777),
])  # fmt: skip
def test_bits_that_a_directory_has_stay_in_a_restore_and_its_undo(workspace, root, saved, edited, restored):
    """A sticky bit that goes lets everybody remove the files of everybody else."""
    plant(root, {"d/x": b"1"})
    os.chmod(root / "d", saved)
    then = workspace.save().checkpoint
    os.chmod(root / "d", edited)
    assert not workspace.restore(then).incomplete
    assert mode(root / "d") == restored
    workspace.undo()
    assert mode(root / "d") == edited
    workspace.redo()
    assert mode(root / "d") == restored


def test_a_directory_that_is_opened_on_the_way_keeps_its_bits(tmp_path):
    """The directory itself does not differ; its owner may not write to it, but a file in it has to change."""
    unprivileged.require()
    with unprivileged.open_directory() as place:
        (place / "home").mkdir()
        root = place / "project"
        plant(root, {"d/x": b"1", "gone/y": b"2", "gone/z": b"3"})
        unprivileged.give(root, place / "home")
        os.chmod(root / "d", 0o3555)
        os.chmod(root / "gone", 0o1555)
        casrewind = Command(root, place / "home")
        casrewind("save", code=0, prefix=unprivileged.PREFIX)
        (root / "d/x").write_bytes(b"edited")
        os.chmod(root / "gone", 0o1755)
        (root / "gone/y").unlink()
        os.chmod(root / "gone", 0o1555)
        for verb in (("restore", "last", "-y"), ("undo", "--yes"), ("redo", "--yes")):
            casrewind(*verb, code=0, prefix=unprivileged.PREFIX)
            assert (mode(root / "d"), mode(root / "gone")) == (0o3555, 0o1555), verb
        assert (root / "d/x").read_bytes() == b"1"


# -- files with more names than one


@pytest.fixture
def linked(workspace, root, tmp_path):
    """A file with another name outside of the root, saved as 0644 and narrowed since; the checkpoint and the other name."""
    plant(root, {"f": Mode(0o644, b"bytes"), "large": b"x" * 3_000_000})
    other, large = tmp_path / "outside", tmp_path / "outside large"
    os.link(root / "f", other)
    os.link(root / "large", large)
    for name in ("f", "large"):
        os.utime(root / name, ns=(YEAR_2020, YEAR_2020))
    then = workspace.save().checkpoint
    os.chmod(root / "f", 0o600)
    os.chmod(root / "large", 0o640)
    return then, other, large


def test_a_mode_is_not_changed_through_another_name_of_the_file(workspace, root, linked):
    then, other, large = linked
    report = workspace.restore(then)
    assert not report.incomplete
    assert (mode(root / "f"), mode(root / "large")) == (0o644, 0o644)
    assert (mode(other), mode(large)) == (0o600, 0o640), "nothing outside of the root changes"
    assert (root / "f").read_bytes() == b"bytes" and (root / "large").read_bytes() == b"x" * 3_000_000
    assert {os.stat(root / name).st_mtime_ns for name in ("f", "large")} == {YEAR_2020}
    assert sorted(os.listdir(root)) == ["f", "large"]
    workspace.undo()
    assert (mode(root / "f"), mode(root / "large"), mode(other)) == (0o600, 0o640, 0o600)


def test_an_ignored_name_keeps_its_mode(workspace, root):
    """It is in no safety checkpoint, so no undo could give it back."""
    plant(root, {"f": Mode(0o640, b"1"), ".gitignore": b"ignored\n"})
    os.link(root / "f", root / "ignored")
    then = workspace.save().checkpoint
    os.chmod(root / "f", 0o777)
    workspace.restore(then)
    assert (mode(root / "f"), mode(root / "ignored")) == (0o640, 0o777)


def test_the_copy_has_the_owner_of_the_file(workspace, root, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: another owner")
    plant(root, {"f": Mode(0o644, b"1")})
    os.chown(root, 65534, 65534)
    os.chown(root / "f", 65534, 12345)
    os.link(root / "f", tmp_path / "outside")
    then = workspace.save().checkpoint
    os.chmod(root / "f", 0o600)
    workspace.restore(then)
    status = os.stat(root / "f")
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o644, 65534, 12345)
