"""A root that is not there: gone, or only the disk that it lies on."""

import os
import shutil
import subprocess
import time

import pytest

from casrewind.worktree.root import why_maybe_unmounted as doubt

LATER = 1_000_000_000 * 3600


def gone(tmp_path):
    """A root that was there when it was used, and was removed since."""
    root = tmp_path / "work" / "project"
    root.mkdir(parents=True)
    used = time.time_ns()
    root.rmdir()
    return root, used


def test_what_was_removed_is_gone(tmp_path):
    root, used = gone(tmp_path)
    assert doubt(str(root), used) == doubt(str(root), used, store=str(tmp_path)) == ""
    shutil.rmtree(tmp_path / "work")
    assert doubt(str(root), used, store=str(tmp_path)) == ""


def test_what_was_moved_away_or_gave_way_to_a_file_is_gone(tmp_path):
    root, used = gone(tmp_path)
    (tmp_path / "work" / "other").mkdir()
    root.write_bytes(b"")
    assert doubt(str(root), used, store=str(tmp_path)) == ""
    shutil.rmtree(tmp_path / "work")
    (tmp_path / "work").write_bytes(b"")
    assert doubt(str(root), used, store=str(tmp_path)) == ""


def test_a_directory_from_which_nothing_was_removed_since_says_that_another_one_was_there(tmp_path):
    root, used = gone(tmp_path)
    assert "nothing was removed from" in doubt(str(root), used + LATER)
    (tmp_path / "work" / "left").write_bytes(b"")  # it need not be empty
    os.utime(tmp_path / "work", ns=(used - LATER, used - LATER))
    assert str(tmp_path / "work") in doubt(str(root), used)


def test_a_disk_that_is_not_mounted(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    place = tmp_path / "disk"
    place.mkdir()
    past = time.time_ns() - LATER
    os.utime(place, ns=(past, past))
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], capture_output=True, check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        root = place / "a" / "project"
        root.mkdir(parents=True)
        used = time.time_ns()
        root.rmdir()
        assert doubt(str(root), used) == ""  # the disk is there, and the project is not on it
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
    assert f"nothing was removed from {place}" in doubt(str(root), used)


@pytest.mark.parametrize("top", ["/mnt", "/media", "/run/media", "/Volumes"])
def test_where_disks_come_and_go_nobody_can_tell(tmp_path, top):
    root = f"{top}/no such disk of this test/project"
    assert top in doubt(root, 1, store=str(tmp_path))


def test_a_link_on_the_way_that_leads_nowhere(tmp_path):
    root, used = gone(tmp_path)
    (tmp_path / "work").rmdir()
    (tmp_path / "work").symlink_to("not there")
    assert f"{tmp_path}/work is a link" in doubt(str(root), used)
    (tmp_path / "not there").mkdir()
    assert doubt(str(root), used) == ""


def test_a_link_in_its_place_is_in_doubt_for_those_who_remove_only(tmp_path):
    root, used = gone(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    root.symlink_to("../elsewhere")
    assert doubt(str(root), used) == ""
    assert "a link stands in its place" in doubt(str(root), used, store=str(tmp_path))


def test_what_cannot_be_looked_at_may_be_there(tmp_path):
    assert "cannot be looked at" in doubt(f"{tmp_path}/{'x' * 300}/project", 1)
