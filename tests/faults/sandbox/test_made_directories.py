"""Which directory `restore --to` made is told by the id on it, on real file systems: not by a path, a number or a time.

ext4 gives the inode number of a removed directory to the next one. An overlay and a disk that is mounted again have other numbers.
ramfs has no attributes: there the id is a file.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import unprivileged
from support.command import Command
from support.picture import differences, picture
from support.trees import plant

FILES = {"a": b"1\n", "b": b"2\n", "d/c": b"3\n"}
ID = ".casrewind-origin"


@pytest.fixture
def disk(mount, tmp_path):
    """disk("name"): an ext4, which is made the first time, and mounted again after `unmount`."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")

    def make(name):
        image = tmp_path / f"{name}.image"
        if not image.exists():
            with open(image, "wb") as file:
                file.truncate(20 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        return mount(name, "-o", "loop", str(image))

    return make


def unmount(place):
    subprocess.run(["umount", str(place)], check=True)


def git(place, *words):
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *who, "-C", str(place), *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def saved(casrewind, root, mount):  # noqa: ARG001 - skips where nothing can be mounted
    """The command, in a project with a checkpoint."""
    plant(root, FILES)
    casrewind("save", "-m", "begin", code=0)
    return casrewind


def edit_and_take(command, place, content=b"theirs\n"):
    """Edit a file there, take it, and go back."""
    plant(place, {"a": content})
    done = command("take", str(place), "-y", code=0)
    assert "1 path written, 0 removed" in done.out, done
    assert Path(command.root, "a").read_bytes() == content
    command("undo", "-y", code=0)


def refused(command, place, *words, said="says which checkpoint it was made from"):
    before = picture(command.root)
    assert said in command("take", str(place), *words, "-y", code=15).err
    assert not differences(before, picture(command.root))


def test_a_directory_that_was_made_again_has_no_origin_though_its_inode_number_is_the_same(saved, disk):
    """Thirty times: the same number comes nearly always."""
    place, same = disk("disk") / "try", 0
    for _ in range(30):
        saved("restore", "begin", "--to", str(place), code=0)
        number = place.stat().st_ino
        shutil.rmtree(place)
        place.mkdir()
        same += place.stat().st_ino == number
        refused(saved, place)
        place.rmdir()
    assert same > 0, "this file system gives no number again: the test shows nothing"


def test_another_file_system_at_the_place_has_no_origin(saved, disk, mount):
    """The root of every ext4 has the same inode number."""
    place = disk("disk")
    shutil.rmtree(place / "lost+found")
    saved("restore", "begin", "--to", str(place), code=0)
    unmount(place)
    refused(saved, place)
    shutil.rmtree(disk("other") / "lost+found")
    mount("disk", "--bind", str(place.parent / "other"))
    refused(saved, place)


def test_a_disk_that_is_mounted_again_has_another_device_number_and_the_same_origin(saved, disk, mount, tmp_path):
    place = disk("disk")
    saved("restore", "begin", "--to", str(place / "try"), code=0)
    number = (place / "try").stat().st_dev
    for attempt in range(8):
        unmount(place)
        disk(f"first{attempt}")  # it gets the loop device that has just become free, unless another test was quicker
        if disk("disk").stat().st_dev != number:
            break
    assert number != (place / "try").stat().st_dev
    edit_and_take(saved, place / "try")
    mount("elsewhere", "--bind", str(place))
    edit_and_take(saved, tmp_path / "elsewhere" / "try", content=b"again\n")


def test_an_overlay_keeps_the_origin(saved, mount, tmp_path):
    """A directory that was made below it and is copied up, and one that was made in it; both after it is mounted again."""
    for name in ("lower", "layers/upper", "layers/work"):
        (tmp_path / name).mkdir(parents=True)
    saved("restore", "begin", "--to", str(tmp_path / "lower" / "below"), code=0)
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/layers/upper,workdir={tmp_path}/layers/work"
    place = mount("over", "-t", "overlay", "none", "-o", options)
    saved("restore", "begin", "--to", str(place / "inside"), code=0)
    edit_and_take(saved, place / "below", content=b"copied up\n")
    unmount(place)
    mount("over", "-t", "overlay", "none", "-o", options)
    edit_and_take(saved, place / "below", content=b"again\n")
    edit_and_take(saved, place / "inside", content=b"made inside\n")
    shutil.rmtree(place / "inside")
    (place / "inside").mkdir()
    refused(saved, place / "inside")


@pytest.fixture
def plain(mount):
    """A directory on a file system without attributes."""
    place = mount("plain", "-t", "ramfs", "none")
    with pytest.raises(OSError):
        os.setxattr(place, "user.note", b"x")
    return place


def test_without_attributes_a_directory_with_the_id_serves(saved, plain, root):
    place = plain / "try"
    saved("restore", "begin", "--to", str(place), code=0)
    assert sorted(os.listdir(place / ID)) == [".gitignore", "id"]
    edit_and_take(saved, place)
    assert [change["path"] for change in saved.json("take", str(place), "-n")["changes"]] == ["a"]
    place.rename(plain / "moved")
    edit_and_take(saved, plain / "moved", content=b"moved\n")
    shutil.copytree(plain / "moved", plain / "copied")
    edit_and_take(saved, plain / "copied", content=b"copied\n")
    shutil.rmtree(plain / "moved")
    (plain / "moved").mkdir()
    refused(saved, plain / "moved")
    assert not os.path.lexists(root / ID)


def test_without_attributes_a_directory_can_be_emptied_and_written_again(saved, plain):
    place = plain / "try"
    saved("restore", "begin", "--to", str(place), code=0)
    first = (place / ID / "id").read_bytes()
    for name in os.listdir(place):
        if name != ID:
            (shutil.rmtree if (place / name).is_dir() else os.unlink)(place / name)
    saved("restore", "begin", "--to", str(place), code=0)
    assert (place / ID / "id").read_bytes() != first
    edit_and_take(saved, place)
    assert "is not empty" in saved("restore", "begin", "--to", str(place), code=14).err


def test_without_attributes_a_git_worktree_stays_clean_and_no_checkpoint_has_the_id(saved, plain, root, tmp_path):
    """Also in a checkpoint of a project around it, and in one of the directory itself, which then goes back to it."""
    place = plain / "try"
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "worktree", "add", "-q", "--detach", "--no-checkout", str(place))
    saved("restore", "begin", "--to", str(place), code=0)
    git(place, "reset", "-q")
    assert git(place, "status", "--porcelain") == "" and (place / ID / "id").exists()
    assert git(place, "status", "--porcelain", "--ignored").splitlines() == [f"!! {ID}/"]
    for number, project in enumerate((place, plain)):
        own, made = Command(project, saved.home), tmp_path / f"made{number}"
        assert own.json("save")["skipped"] == []
        own("restore", "last", "--to", str(made), code=0)
        assert sorted(picture(made)) == [path for path in sorted(picture(project)) if not {ID.encode(), b".git"} & {*path.split(b"/")}]
    plant(place, {"a": b"edited\n"})
    Command(place, saved.home)("restore", "last", "-y", code=0)
    assert (place / "a").read_bytes() == b"1\n" and (place / ID / "id").exists()


def test_a_full_file_system_leaves_a_directory_without_an_origin(saved, mount, root):
    """The second writing fails in its middle: no room for the inodes, which are not counted before."""
    plant(root, {f"many/{number}": b"" for number in range(60)})
    saved("save", "-m", "sixty", code=0)
    place = mount("small", "-t", "tmpfs", "-o", "size=4m,nr_inodes=100", "none") / "try"
    saved("restore", "sixty", "--to", str(place), code=0)
    shutil.rmtree(place / "many")
    for name in ("a", "b", "d/c"):
        (place / name).unlink()
    (place / "d").rmdir()
    plant(place.parent, {f"full{number}": b"" for number in range(60)})
    saved("restore", "sixty", "--to", str(place), code=13)
    assert os.listdir(place) == []
    refused(saved, place)


def test_what_root_makes_for_another_user_is_his_and_tells_his_own_store_nothing(saved, root):
    unprivileged.require()
    with unprivileged.open_directory() as base:
        plant(base / "project", FILES)
        (base / "home").mkdir()
        unprivileged.give(base)
        his = Command(base / "project", base / "home")
        his("save", code=0, prefix=unprivileged.PREFIX)
        (base / "plain").mkdir()
        subprocess.run(["mount", "-t", "ramfs", "none", str(base / "plain")], check=True)
        try:
            for place in (base / "plain" / "try", base / "try"):
                place.mkdir()
                unprivileged.give(place)
                saved("restore", "begin", "--to", str(place), code=0)
                said = his("take", str(place), "-y", code=15, prefix=unprivileged.PREFIX).err
                assert "has an origin that this store does not know" in said
                edit_and_take(saved, place, content=os.fsencode(place) + b"\n")
                unprivileged.run("sh", "-c", f"rm -r {place}/* {place}/.[!.]*" if (place / ID).exists() else f"rm -r {place}/*")
        finally:
            subprocess.run(["umount", str(base / "plain")], check=True)
