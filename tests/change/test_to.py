"""restore --to: where it writes nothing, however the directory is spelled; what it reads; what stays when it fails."""

import os
import re
import shutil

import pytest

from support import packfile
from support.picture import differences, picture
from support.trees import Dir, plant


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
    from support import handmade_checkpoints

    with Workspace(str(root), Settings(home=casrewind.home, data=os.path.join(casrewind.home, "data")), create=False) as workspace:
        forger = handmade_checkpoints.Forger(workspace)
        (digest,) = forger.blobs(b"x")
        point = forger.publish(handmade_checkpoints.tree(handmade_checkpoints.file_row(b"f", digest, 1 << 60)))
    for command in (["--to", str(tmp_path / "new")], ["--dry-run"], ["--yes"]):
        assert "not enough space" in casrewind("restore", point.id, *command, code=13).err
    assert not (tmp_path / "new").exists()


def bytes_read(log):
    """How many bytes were read from packs, by what strace saw."""
    calls = re.findall(r"\b(?:pread64|read)\(\d+<[^>]*/packs/[^>]*>.* = (\d+)$", log.read_text("utf-8", "replace"), re.MULTILINE)
    return sum(map(int, calls))


def opened(casrewind, log, *arguments):
    """How many files and directories a command opens, by what strace saw. Those that are not there count, too."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    traced = ("strace", "-f", "-qq", "-s", "1", "-e", "signal=none", "-e", "trace=open,openat,openat2,creat", "-o", str(log))
    casrewind(*arguments, prefix=traced, code=0)
    return sum(bool(re.match(r"\d+ +(open|openat|openat2|creat)\(", line)) for line in log.read_text("utf-8", "replace").splitlines())


@pytest.mark.linux_only("calls that are counted; the emulation of macOS makes some of its own")
def test_each_file_is_opened_once_in_each_directory(casrewind, root, tmp_path):
    """To make it. A directory is opened once, too; the rest does not grow with the files."""
    counts = {}
    for number in (10, 110):
        plant(root, {f"d{place}/{name}": b"%d %d" % (place, name) for place in range(4) for name in range(number)})
        casrewind("save", code=0)
        for places in (1, 3):
            to = [word for place in range(places) for word in ("--to", str(tmp_path / f"{number}-{places}-{place}"))]
            counts[number, places] = opened(casrewind, tmp_path / "log", "restore", "last", *to)
    more = 4 * 100
    assert more <= counts[110, 1] - counts[10, 1] <= more * 1.1
    assert 3 * more <= counts[110, 3] - counts[10, 3] <= 3 * more * 1.1
    assert counts[110, 3] - counts[110, 1] <= 2 * (4 * 110 + 4 + 20), "a directory is opened once"


def test_content_is_read_once(casrewind, root, home, tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    plant(root, {f"d/{number}": os.urandom(20_000) for number in range(150)} | {"large": os.urandom(3_000_000)})
    casrewind("save", code=0)
    stored = sum(path.stat().st_size for path in home.rglob("*.pack"))
    log = tmp_path / "log"
    traced = ("strace", "-f", "-y", "-qq", "-s", "1", "-e", "signal=none", "-e", "trace=pread64,read", "-o", str(log))
    casrewind("restore", "last", "--to", str(tmp_path / "out"), prefix=traced, code=0)
    assert stored * 0.9 < bytes_read(log) < stored * 1.3
    assert not differences(picture(tmp_path / "out"), picture(root))


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_nothing_stays_when_content_turns_out_to_be_damaged(casrewind, root, tmp_path, there):
    """More than the files that are read at once come before the damaged ones."""
    plant(root, {f"a/{number}": b"%d" % number for number in range(300)})
    plant(root, {"x": b"one" * 500, "y": b"sound", "z": b"two" * 500, "closed": Dir(0o500)})
    casrewind("save", code=0)
    store = casrewind.json("status")["store"]
    for content in (b"one" * 500, b"two" * 500):
        packfile.flip_blob(store, packfile.digest(content))
    out = tmp_path / "above" / "out"
    if there:
        out.mkdir(parents=True)
    refused = casrewind("restore", "last", "--to", str(out), code=20)
    assert "nothing was changed: x: damaged in the store" in refused.err and "; z: damaged in the store" in refused.err
    assert list(out.iterdir()) == [] if there else not out.parent.exists()
    done = casrewind.json("restore", "last", "--to", str(out), "--skip-damaged", code=3)
    assert {skipped["path"] for skipped in done["skipped"]} == {"x", "z"}
    assert sorted(path for path in picture(out) if b"/" not in path) == [b"a", b"closed", b"y"]


def test_nothing_stays_when_writing_fails(casrewind, root, tmp_path):
    plant(root, {f"a/{number}": b"%d" % number for number in range(2100)} | {"z": b"0123456789" * 100_000})
    casrewind("save", code=0)
    limited = ("sh", "-c", 'ulimit -f 100; exec "$@"', "sh")
    failed = casrewind("restore", "last", "--to", str(tmp_path / "out"), prefix=limited)
    assert failed.code in (1, 13) and failed.err.count("\n") == 1
    assert "z" in failed.err and "nothing of the checkpoint is there" in failed.err and "--continue" not in failed.err
    assert not (tmp_path / "out").exists()


def test_nothing_stays_when_it_is_interrupted(casrewind, root, tmp_path):
    """Among many files. The last directories have no modes yet, then."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    plant(root, {f"a/{number}": b"%d" % number for number in range(1000)} | {"b": Dir(0o500)})
    casrewind("save", code=0)
    log = tmp_path / "log"
    stopped = ("strace", "-f", "-qq", "-e", "trace=utimensat", "-e", "inject=utimensat:signal=SIGINT:when=900", "-o", str(log))
    done = casrewind("restore", "last", "--to", str(tmp_path / "out"), prefix=stopped)
    if "SIGINT" not in log.read_text("utf-8", "replace"):
        pytest.skip("strace injects no signal here")
    assert done.code == 130
    assert not (tmp_path / "out").exists()
