"""Mounts that answer "done" and keep their own modes, times, owners and attributes: what did not take is named, and undo takes it back.

One is real (bindfs). The others are a library that answers so for the calls of the command below one directory (ignoreshim.c).
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import unprivileged
from support.command import StartedCommand
from support.picture import differences, picture
from support.shim import compile_shim
from support.trees import Dir, Exec, Mode, plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the library and bindfs are for Linux")

SHIM = os.path.join(os.path.dirname(__file__), "ignoreshim.c")
OLD = {"a": Exec(b"old"), "d/b": b"b", "gone": b"g", "mode": Exec(b"m"), "e": Dir(0o700), "key": Mode(0o600, b"k")}


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    made = compile_shim(str(tmp_path_factory.mktemp("ignore")), SHIM)
    if made is None:
        pytest.skip("no C compiler for the shim")
    return made


def ignoring(shim, what, below):
    return {"LD_PRELOAD": shim, "IGNORED": what, "BELOW": str(below)}


def change(root):
    """From OLD to what is there before the restore."""
    plant(root, {"a": b"newer", "d/b": b"b", "key": b"changed", "new": b"n", "mode": b"m"})
    for name, mode in (("a", 0o640), ("mode", 0o644), ("key", 0o644), ("e", 0o755)):
        os.chmod(os.path.join(root, name), mode)
    os.unlink(os.path.join(root, "gone"))


@pytest.fixture
def run(tmp_path):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    return StartedCommand(root, home)


@pytest.fixture
def saved(run):
    """(The command in a project that has changed since its only checkpoint, the picture of then.)"""
    plant(run.root, OLD)
    os.utime(os.path.join(run.root, "a"), ns=(10**18, 10**18))
    os.utime(os.path.join(run.root, "gone"), ns=(10**18, 10**18))
    run("save", code=0)
    change(run.root)
    return run, picture(run.root)


SAID = {
    "modes": (
        "note: a: its mode 0755 cannot be set here: it has 0600", "note: gone: its mode 0644 cannot be set here: it has 0600",
        "left alone: mode: its mode 0755 cannot be set here: it has 0644", "left alone: e: its mode 0700 cannot be set here: it has 0755",
    ),
    "times": ("note: a: its time cannot be set here", "note: gone: its time cannot be set here"),
    "attributes": ("note: a: its attribute user.mine cannot be set",),
}  # fmt: skip


@pytest.mark.parametrize("what", SAID)
def test_what_did_not_take_is_named_and_undo_takes_all_of_it_back(saved, shim, what):
    run, before = saved
    with_attribute(run, "a")
    found = run("restore", "last", "-y", code=3, **ignoring(shim, what, run.root))
    for words in SAID[what]:
        assert words in found.err, found
    assert "key" not in found.err, "its mode is that of a new file"
    assert content(run, "a") == b"old" and not os.path.exists(os.path.join(run.root, "new"))
    run("undo", "-y", code=0)
    assert not differences(picture(run.root), before)


def content(run, name):
    return Path(run.root, name).read_bytes()


def with_attribute(run, name):
    try:
        os.setxattr(os.path.join(run.root, name), "user.mine", b"1")
    except OSError:
        pytest.skip("no user attributes here")


def test_where_no_mode_ever_takes_undo_brings_the_bytes_back_and_names_the_modes(saved, shim):
    run, before = saved
    variables = ignoring(shim, "modes times attributes", run.root)
    run("restore", "last", "-y", code=3, **variables)
    said = run("undo", "-y", code=3, **variables).err
    assert "a: its mode 0640 cannot be set here: it has 0600" in said and "left alone: mode" not in said
    now = picture(run.root)
    assert {path: entry[:1] + entry[2:] for path, entry in now.items()} == {path: entry[:1] + entry[2:] for path, entry in before.items()}
    again = run("redo", "-y", **variables)  # to what the restore had left, where only a time that passed since can differ
    assert again.code == (3 if "its time cannot be set here" in again.err else 0) and "mode" not in again.err
    assert content(run, "a") == b"old"


def test_json_and_the_next_diff_say_the_mode_that_is_there(saved, shim):
    run, _ = saved
    found = run.json("restore", "last", "-y", code=3, **ignoring(shim, "modes", run.root))
    assert {item["path"]: item["reason"] for item in found["skipped"]}["mode"] == "its mode 0755 cannot be set here: it has 0644"
    assert "mode" not in {item["path"] for item in found["changes"]}
    later = run.json("diff", "last")
    assert {"a", "gone", "mode", "e"} <= {item["path"] for item in later["changes"]}, "it is no secret that they differ"


def test_a_new_directory_that_keeps_its_own_modes_and_times_is_written_and_named(saved, shim, tmp_path):
    run, _ = saved
    to = tmp_path / "there"
    found = run("restore", "last", "--to", str(to), code=3, **ignoring(shim, "modes times", to))
    assert "a: its mode 0755 cannot be set here: it has 0600; its time cannot be set here" in found.err
    assert "note: e: " not in found.err and "d: its mode 0755 cannot be set here: it has 0700" in found.err
    assert (to / "a").read_bytes() == b"old" and (to / "d/b").read_bytes() == b"b"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_an_owner_that_root_cannot_set_is_named(saved, shim):
    run, _ = saved
    unprivileged.give(run.root)
    found = run("restore", "last", "-y", code=3, **ignoring(shim, "owners", run.root))
    assert "note: a: its owner cannot be set" in found.err and "note: gone: its owner cannot be set" in found.err


KILLED = """
import os, signal, sys
from casrewind.worktree import safe_rename
left, exchange, rename = [int(sys.argv[1])], safe_rename.exchange_names, safe_rename.rename_without_replacing
def dying(call):
    def named(*arguments):
        found = call(*arguments)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return named
safe_rename.exchange_names, safe_rename.rename_without_replacing = dying(exchange), dying(rename)
from casrewind.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def killed(run, number, **variables):
    line = [sys.executable, "-c", KILLED, str(number), "-C", run.root, "restore", "last", "-y"]
    done = subprocess.run(line, env={**run.environment, **variables}, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("how", ["--continue", "--abort"])
def test_a_restore_that_was_killed_is_finished_or_taken_back_there_too(saved, shim, number, how):
    run, before = saved
    variables = ignoring(shim, "modes", run.root)
    killed(run, number, **variables)
    found = run("restore", how, "-y", code=None, **variables)
    if how == "--continue":
        assert found.code == 3 and "a: " in found.err and "gone: " in found.err
        run("undo", "-y", code=0)
        assert not differences(picture(run.root), before)
        return
    assert content(run, "a") == b"newer" and not os.path.exists(os.path.join(run.root, "gone"))
    assert {path for path in picture(run.root)} == set(before)


@contextmanager
def bindfs(place, below, *options):
    if shutil.which("bindfs") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no bindfs, or no access to /dev/fuse")
    place.mkdir()
    made = subprocess.run(["bindfs", *options, str(below), str(place)], capture_output=True, check=False)
    if made.returncode or not os.path.ismount(place):
        pytest.skip(f"bindfs does not mount here: {made.stderr.decode(errors='replace')[-200:]}")
    try:
        yield
    finally:
        for _ in range(100):
            if subprocess.run(["fusermount3", "-u", str(place)], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.05)


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_on_a_real_mount_that_shows_its_own_modes_and_owner_undo_brings_exactly_the_same_back(tmp_path, user):
    """As on the disk of a camera, or in the shared directory of a virtual machine: everything is 0777 and of one user."""
    if os.geteuid() != 0 and user == "nobody":
        pytest.skip("the mount is one's own")
    below, root, home = tmp_path / "below", tmp_path / "project", tmp_path / "home"
    for path in (below, home):
        path.mkdir()
    options = ["--chmod-ignore", "--chown-ignore", "--chgrp-ignore", "--perms=0777", f"--force-user={user}"]
    with bindfs(root, below, *options):
        run = StartedCommand(root, home)
        plant(root, OLD)
        run("save", code=0)
        before = picture(root)
        run("restore", "last", "-y", code=0)
        plant(root, {"a": b"edited", "new": b"n", "f/g": b"g"})
        os.unlink(root / "gone")
        edited = picture(root)
        run("restore", "last", "-y", code=0)
        assert not differences(picture(root), before)
        run("undo", "-y", code=0)
        assert not differences(picture(root), edited)


def test_a_checkpoint_of_a_usual_disk_that_is_restored_there_names_what_the_mount_keeps(tmp_path):
    """The project was copied there, with its store beside it: all modes differ, and none can be set."""
    below, root, home = tmp_path / "below", tmp_path / "project", tmp_path / "home"
    for path in (below, home):
        path.mkdir()
    run = StartedCommand(root, home)
    with bindfs(root, below):
        plant(root, OLD)
        run("save", code=0)
    root.rmdir()
    with bindfs(root, below, "--chmod-ignore", "--perms=0777"):
        plant(root, {"a": b"edited"})
        edited = picture(root)
        found = run("restore", "last", "-y", code=3)
        assert "note: a: its mode 0755 cannot be set here: it has 0777" in found.err
        assert "left alone: d/b: its mode 0644 cannot be set here: it has 0777" in found.err
        assert "  1 path written, 0 removed" in found.out
        assert (root / "a").read_bytes() == b"old"
        run("undo", "-y", code=0)
        assert not differences(picture(root), edited)
