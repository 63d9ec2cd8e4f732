"""restore --to with several directories, a git worktree among them, and what comes from the worktree."""

import os
import random
import re
import shutil
import subprocess

import pytest

from casrewind.upkeep.directory_origins import origin_of
from casrewind.workspace import open as opened
from support.picture import differences, picture
from support.scanner import settle
from support.trees import Dir, Exec, Link, Mode, plant

FILES = {
    "a": b"one\n", "d/b": Exec(b"two\n"), "d/e/secret": Mode(0o600, b"three\n"), "link": Link("d/b"), "empty": b"", "closed": Dir(0o500),
    "zeros": b"x" + b"\0" * 300_000, "d/e/f/g/h": b"deep\n",
}  # fmt: skip
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")


def git(place, *words):
    return subprocess.run([*GIT, "-C", str(place), *words], check=True, capture_output=True, text=True, env={**os.environ, "HOME": "/nowhere"}).stdout


def names_in(place):
    return sorted(os.fsdecode(path) for path in picture(place) if b"/" not in path)


def test_several_directories_are_equal(casrewind, root, tmp_path):
    plant(root, FILES)
    casrewind("save", code=0)
    plant(root, {"a": b"edited", "new": b"1"})
    places = [tmp_path / "try1", tmp_path / "above" / "try2", tmp_path / "try3"]
    places[2].mkdir()
    done = casrewind("restore", "last", *(word for place in places for word in ("--to", str(place))), code=0)
    lines = done.out.splitlines()
    assert [re.sub(r"\d\.\d s$", "T", line) for line in lines[:-1]] == [f"wrote 7 files to {place} in T" for place in places]
    assert lines[-1].startswith("  restored to c")
    plant(root, {"a": b"one\n"})
    (root / "new").unlink()
    for place in places:
        assert not differences(picture(place), picture(root))
    with opened(str(root), store=casrewind.json("status")["store"]) as workspace:
        assert {origin_of(workspace._context, str(place)).checkpoint for place in places} == {workspace.checkpoints()[0][0].id}


def test_directories_of_every_shape_and_mode_come_back(casrewind, root, tmp_path):
    """Empty ones beside full ones, 40 levels, and modes that keep their owner out: each is entered and left in some order."""
    chance, made = random.Random(7), [b""]
    for number in range(160):
        above = chance.choice(made[-40:])
        path = above + b"/%d" % number if above else b"%d" % number
        made.append(path)
        plant(root, {path: Dir(0o755)} if number % 3 else {path + b"/file": b"%d" % number})
    plant(root, {b"/".join([b"deep"] * 40) + b"/file": b"1", "closed/inner": Dir(0o500)})
    for path in [path for path in made if path and chance.random() < 0.2]:
        os.chmod(os.path.join(os.fsencode(root), path), 0o500 if os.geteuid() else 0o100)
    casrewind("save", code=0)
    casrewind("restore", "last", "--to", str(tmp_path / "try1"), "--to", str(tmp_path / "try2"), code=0)
    assert not differences(picture(tmp_path / "try1"), picture(root)) and not differences(picture(tmp_path / "try2"), picture(root))


def test_json_names_each_directory(casrewind, root, tmp_path):
    plant(root, {"a": b"1", "d/b": b"2"})
    casrewind("save", code=0)
    done = casrewind.json("restore", "last", "--to", "../try1", "--to", str(tmp_path / "try2"), code=0)
    assert [(row["directory"], row["files"], row["from_worktree"]) for row in done["written"]] == [
        (str(root.parent / "try1"), 2, 0), (str(tmp_path / "try2"), 2, 0),
    ]  # fmt: skip
    assert done["commit"] is None and done["carried"] == [] and done["restored"] == 2


def test_an_error_in_one_directory_leaves_the_others(casrewind, root, tmp_path):
    """One cannot be made at all, and one has too few inodes."""
    plant(root, {f"d/{number}": b"%d" % number for number in range(60)})
    casrewind("save", code=0)
    plant(tmp_path, {"file": b"mine"})
    places = [tmp_path / "try1", tmp_path / "file" / "below", tmp_path / "small" / "try", tmp_path / "try4"]
    (tmp_path / "small").mkdir()
    options = ["-t", "tmpfs", "-o", "nr_inodes=40,size=4m"]
    is_mounted = subprocess.run(["mount", *options, "none", str(tmp_path / "small")], capture_output=True, check=False).returncode == 0
    if not is_mounted:
        del places[2]
    try:
        failed = casrewind("restore", "last", *(word for place in places for word in ("--to", str(place))))
        assert failed.code == 1 and failed.err.count("\n") == 1
        assert f"cannot write to {places[1]}" in failed.err and "nothing of the checkpoint is there" in failed.err
        assert f"written: {places[0]} and {places[-1]}" in failed.err
        assert os.listdir(tmp_path / "small") == [] and (tmp_path / "file").read_bytes() == b"mine"
        if is_mounted:
            assert f"so is {places[2]}" in failed.err
            alone = casrewind("restore", "last", "--to", str(places[2]), code=13)
            assert "space" in alone.err and os.listdir(tmp_path / "small") == []
    finally:
        if is_mounted:
            subprocess.run(["umount", str(tmp_path / "small")], check=True)
    for place in (places[0], places[-1]):
        assert not differences(picture(place), picture(root))


@pytest.mark.parametrize("second", ["try1", "try1/", "try1/below", "link"])
def test_one_directory_twice_is_refused(casrewind, root, tmp_path, second):
    plant(root, {"a": b"1"})
    casrewind("save", code=0)
    (tmp_path / "link").symlink_to("try1")
    if second == "link":
        (tmp_path / "try1").mkdir()
    refused = casrewind("restore", "last", "--to", f"{tmp_path}/{second}", "--to", f"{tmp_path}/try1", code=64)
    assert "they are the same directory, or one lies in the other" in refused.err
    assert second == "link" or not (tmp_path / "try1").exists()


def test_a_git_worktree_has_exactly_the_changes_since_its_commit(casrewind, root, tmp_path):
    plant(root, {"same": b"1\n", "edited": b"1\n", "gone": b"1\n", ".gitignore": b"*.o\n", "x.o": b"2"})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    commit = git(root, "rev-parse", "HEAD").strip()
    plant(root, {"edited": b"2\n", "new": b"1\n"})
    (root / "gone").unlink()
    casrewind("save", code=0)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "second")
    plant(root, {"edited": b"3\n"})
    git(root, "worktree", "add", "-q", "--detach", "--no-checkout", str(tmp_path / "try1"), commit)
    own = (tmp_path / "try1" / ".git").read_bytes()
    done = casrewind("restore", "last", "--to", str(tmp_path / "try1"), code=0)
    assert done.out.splitlines()[0].endswith(f"; made at commit {commit[:12]}")
    assert (tmp_path / "try1" / ".git").read_bytes() == own
    git(tmp_path / "try1", "reset", "-q")
    assert git(tmp_path / "try1", "status", "--porcelain").splitlines() == [" M edited", " D gone", "?? new"]
    assert git(tmp_path / "try1", "rev-parse", "HEAD").strip() == commit
    refused = casrewind("restore", "last", "--to", str(tmp_path / "try1"), code=14)
    assert "is not empty" in refused.err


def test_a_git_directory_stays_when_nothing_can_be_written(casrewind, root, tmp_path):
    plant(root, {"small": b"1", "z": b"0123456789" * 100_000})
    casrewind("save", code=0)
    place = tmp_path / "try1"
    plant(place, {".git/HEAD": b"ref: refs/heads/main\n"})
    failed = casrewind("restore", "last", "--to", str(place), prefix=("sh", "-c", 'ulimit -f 100; exec "$@"', "sh"))
    assert failed.code in (1, 13) and "nothing of the checkpoint is there" in failed.err
    assert sorted(picture(place)) == [b".git", b".git/HEAD"]
    (place / ".git").rename(tmp_path / "away")
    (place / ".git").symlink_to(tmp_path / "away")
    casrewind("restore", "last", "--to", str(place), code=14)


def test_the_contents_are_on_the_disk_before_the_directory_says_what_it_was_made_from(casrewind, root, tmp_path):
    """One sync for each directory. The scratch directory of a bisect gets none."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    plant(root, {f"f{number}": b"%d" % number for number in range(20)})
    casrewind("save", code=0)
    calls = "trace=syncfs,fsync,fdatasync,fsetxattr,write,openat"
    traced = ("strace", "-f", "-y", "-qq", "-e", "signal=none", "-e", calls, "-o", str(tmp_path / "log"))
    casrewind("restore", "last", "--to", str(tmp_path / "try0"), "--to", str(tmp_path / "try1"), prefix=traced, code=0)
    for name in ("try0", "try1"):
        order = re.findall(rf"(sync|fsetxattr|write|openat)\w*\([^\n]*/{name}[/>][^\n]*", (tmp_path / "log").read_text())
        assert order.count("sync") == 1 and "write" in order[: order.index("sync")]
        assert {"fsetxattr", "openat"} & {*order[order.index("sync") :]}, "nothing says what it was made from"
    traced = (*traced[:-1], str(tmp_path / "bisect"))
    casrewind("bisect", "--", "false", prefix=traced)
    assert not re.search(r"sync\w*\([^\n]*casrewind-bisect", (tmp_path / "bisect").read_text())


# -- .worktreeinclude


@pytest.fixture
def ignoring(casrewind, root):
    """A project with ignored files, some of them listed."""
    (root / ".git").mkdir()
    plant(root, {
        ".gitignore": b".env*\nsecrets/\nnode_modules/\n*.log\n",
        ".worktreeinclude": b"# what a fresh worktree needs\n.env*\n!.env.old\nsecrets/**/*.pem\nnode_modules/\ntracked\nuntracked\n",
        ".env": Mode(0o600, b"KEY=1\n"), ".env.old": b"old", "app/.env.local": b"2", "secrets/a/b/c.pem": b"pem", "secrets/a/note": b"no",
        "secrets/d.pem": b"top", "node_modules/m/index.js": b"js", "node_modules/.bin/m": Link("../m/index.js"), "tracked": b"t",
        "build.log": b"log",
    })  # fmt: skip
    casrewind("save", code=0)
    return root


CARRIED = [".env", "app/.env.local", "node_modules/.bin/m", "node_modules/m/index.js", "secrets/a/b/c.pem", "secrets/d.pem"]


def test_listed_ignored_files_come_along_as_they_are_now(casrewind, ignoring, tmp_path):
    plant(ignoring, {".env": Mode(0o600, b"KEY=2, longer\n"), "untracked": b"not ignored"})
    done = casrewind("restore", "last", "--to", str(tmp_path / "try1"), "--to", str(tmp_path / "try2"), code=0)
    assert "\n  and 6 ignored files, as now (.worktreeinclude): .env (14 B), app/.env.local (1 B), " in done.out
    for place in (tmp_path / "try1", tmp_path / "try2"):
        there = picture(place)
        for path in CARRIED:
            assert there[os.fsencode(path)] == picture(ignoring)[os.fsencode(path)]
        assert names_in(place) == [".env", ".gitignore", ".worktreeinclude", "app", "node_modules", "secrets", "tracked"]
        assert sorted(os.listdir(place / "secrets" / "a")) == ["b"]
    with opened(str(ignoring), store=casrewind.json("status")["store"]) as workspace:
        assert [os.fsdecode(path) for path, _ in workspace.materialise("last", tmp_path / "try3").carried] == CARRIED
        assert workspace.materialise("last", tmp_path / "try4", from_worktree=False).carried == ()
    assert not (tmp_path / "try4" / ".env").exists()


def test_a_file_of_the_checkpoint_is_never_replaced_by_an_ignored_one(casrewind, ignoring, tmp_path):
    casrewind("include", ".env", code=0)
    casrewind("save", code=0)
    plant(ignoring, {".env": b"later"})
    shutil.rmtree(ignoring / "node_modules")
    plant(ignoring, {".gitignore": b".env*\nnode_modules/\n", "node_modules": b"a file, so it is saved"})
    casrewind("save", "-m", "kept", code=0)
    (ignoring / "node_modules").unlink()
    plant(ignoring, {".env": b"now", "node_modules/x": b"1"})
    casrewind("restore", "kept", "--to", str(tmp_path / "try1"), code=0)
    assert (tmp_path / "try1" / ".env").read_bytes() == b"later"
    assert (tmp_path / "try1" / "node_modules").read_bytes() == b"a file, so it is saved"


def test_no_link_is_followed_and_too_much_is_not_copied(casrewind, ignoring, tmp_path):
    plant(tmp_path / "outside", {"key": b"private"})
    shutil.rmtree(ignoring / "secrets")
    (ignoring / "secrets").symlink_to(tmp_path / "outside")
    (ignoring / ".env").unlink()
    (ignoring / ".env").symlink_to(tmp_path / "outside" / "key")
    casrewind("restore", "last", "--to", str(tmp_path / "try1"), code=0)
    assert os.readlink(tmp_path / "try1" / ".env") == str(tmp_path / "outside" / "key")
    assert not os.path.lexists(tmp_path / "try1" / "secrets")
    with open(ignoring / "node_modules" / "huge", "wb") as file:
        file.truncate(2 << 30)
    done = casrewind("restore", "last", "--to", str(tmp_path / "try2"), code=3)
    assert "more than 1 GiB: none was copied; the largest is node_modules/huge" in done.out + done.err
    assert names_in(tmp_path / "try2") == [".gitignore", ".worktreeinclude", "app", "tracked"]
    assert os.listdir(tmp_path / "try2" / "app") == []


# -- shared blocks


@pytest.fixture
def sharing(tmp_path):
    """A directory on a file system that shares blocks."""
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("no mkfs.btrfs")
    image, place = tmp_path / "image", tmp_path / "mounted"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(200 << 20)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True, capture_output=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(place)], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_files_share_blocks_where_they_are_still_the_checkpoints(sharing, tmp_path):
    root = sharing / "project"
    plant(root, {f"d/{number}": b"%d" % number * 9000 for number in range(8)} | {"edited": b"before", "gone": b"1", "same": b"2", "none": b""})
    wanted = picture(root)
    with opened(str(root), store=str(tmp_path / "store")) as workspace:
        settle()
        workspace.save()
        os.utime(root / "d/0")  # a save reads it again: nobody knows
        times = os.stat(root / "edited")
        plant(root, {"edited": b"after!"})  # as long, and of the same time
        os.utime(root / "edited", ns=(times.st_atime_ns, times.st_mtime_ns))
        (root / "gone").unlink()
        done = workspace.materialise("last", [sharing / "try1", tmp_path / "try2", sharing / "try3"])
        assert [row.from_worktree for row in done.written] == [8, 0, 8]
        for name in ("try1", "try3"):
            assert not differences(picture(sharing / name), wanted)
        assert not differences(picture(tmp_path / "try2"), wanted)
        plant(sharing / "try1", {"d/1": b"mine"})
        assert (root / "d/1").read_bytes() == b"1" * 9000 and (root / "d/1").stat().st_nlink == 1
        assert workspace.materialise("last", sharing / "try4", from_worktree=False).written[0].from_worktree == 0
