"""restore --to: where it writes nothing, however the directory is spelled."""

import os

from support.picture import picture
from support.trees import plant


def test_no_checkpoint_is_written_into_version_control_or_the_store(casrewind, root, tmp_path):
    plant(root, {"f": b"1", "sub/g": b"2"})
    casrewind("save", code=0)
    store = casrewind.json("status")["store"]
    (tmp_path / "link").symlink_to(store)
    before = picture(root)
    listed = sorted(os.listdir(store))
    for place in (root / ".git", root / ".git/new", root / "sub/.hg/x", root / ".GIT", tmp_path / "other/.git", store + "/new", store + "/packs/a/b", tmp_path / "link/new"):
        refused = casrewind("restore", "last", "--to", str(place), code=14)
        assert "refused" in refused.err and refused.err.count("\n") == 1
    assert picture(root) == before and sorted(os.listdir(store)) == listed and not (tmp_path / "other").exists()


def test_a_git_directory_that_lies_elsewhere_is_one_too(casrewind, root, tmp_path):
    import subprocess

    plant(root, {"f": b"1"})
    subprocess.run(["git", "init", "-q", "--separate-git-dir", str(tmp_path / "kept"), str(root)], check=True)
    casrewind("save", code=0)
    assert "version control" in casrewind("restore", "last", "--to", str(tmp_path / "kept" / "new"), code=14).err
    assert not (tmp_path / "kept" / "new").exists()


def test_a_link_in_the_project_is_not_followed(casrewind, root, tmp_path):
    plant(root, {"f": b"1", "d/g": b"2"})
    out = tmp_path / "out"
    out.mkdir()
    (root / "lnk").symlink_to(out)
    (root / "d" / "dangling").symlink_to(tmp_path / "new")
    casrewind("save", code=0)
    for name, leads in (("lnk", out), ("lnk/below", out), ("d/dangling", tmp_path / "new")):
        refused = casrewind("restore", "last", "--to", name, code=14)
        assert "is a link in the project" in refused.err and str(leads) in refused.err
    assert list(out.iterdir()) == [] and not (tmp_path / "new").exists()
    (tmp_path / "mine").symlink_to(out)
    casrewind("restore", "last", "--to", str(tmp_path / "mine"), code=0)  # one's own link, elsewhere
    assert (out / "f").read_bytes() == b"1"


def test_without_room_nothing_is_made(casrewind, root, tmp_path):
    """What does not fit is refused before the directory is there (a hole takes no place here)."""
    with open(root / "big", "wb") as file:
        file.truncate(1 << 20)
    casrewind("save", code=0)
    from casrewind.settings import Settings
    from casrewind.workspace import Workspace
    from support import hostile

    with Workspace(str(root), Settings(home=casrewind.home, data=os.path.join(casrewind.home, "data")), create=False) as workspace:
        forger = hostile.Forger(workspace)
        (digest,) = forger.blobs(b"x")
        point = forger.publish(hostile.tree(hostile.file_row(b"f", digest, 1 << 60)))
    for command in (["--to", str(tmp_path / "new")], ["--dry-run"], ["--yes"]):
        assert "not enough space" in casrewind("restore", point.id, *command, code=13).err
    assert not (tmp_path / "new").exists()
