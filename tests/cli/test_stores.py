"""stores: every store under the data directory, whose it is, and which one is broken; a broken one hides no other."""

import base64
import os
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.command import Command
from support.command_in_process import InProcess
from support.picture import picture
from support.stores import LockHolder
from support.trees import plant

STORE = {
    "root": (str, type(None)), "exists": bool, "store": str, "checkpoints": int, "bytes": int, "used_at": (str, type(None)),
    "worktrees": list, "problem": (str, type(None)),
}  # fmt: skip
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def project(home, place, *contents):
    """A project with a checkpoint of each of the contents; its command."""
    casrewind = InProcess(place, home)
    for content in contents:
        plant(place, {"f": content})
        casrewind("save", code=0)
    return casrewind


def listed(casrewind):
    found = casrewind.json("stores")
    assert set(found) == {"stores"}
    for store in found["stores"]:
        assert {key for key in store if not key.endswith("_b64")} == set(STORE)
        for key, kinds in STORE.items():
            assert type(store[key]) in (kinds if isinstance(kinds, tuple) else (kinds,)), (key, store[key])
        for line in store["worktrees"]:
            assert {key: type(value) for key, value in line.items() if key != "root_b64"} == {"root": str, "exists": bool, "checkpoints": int}
    return found["stores"]


def registry(home):
    return home / "data" / "stores"


def test_where_nothing_was_saved_there_are_none_and_none_is_made(casrewind, home):
    assert listed(casrewind) == []
    assert "no stores under" in casrewind("stores", code=0).out
    assert list(home.iterdir()) == []


def test_each_store_with_its_root_size_last_use_and_checkpoints(home, tmp_path):
    one = project(home, tmp_path / "one", b"1", b"2", b"3")
    two = project(home, tmp_path / "two", b"1")
    plant(tmp_path / "one", {"f": b"x"})
    one("restore", "last", "--yes", code=0)  # its safety checkpoint is not counted
    first, second = listed(two)  # the one used last first
    assert (first["root"], first["checkpoints"]) == (str(tmp_path / "one"), 3)
    assert (second["root"], second["checkpoints"]) == (str(tmp_path / "two"), 1)
    for found, casrewind in ((first, one), (second, two)):
        status = casrewind.json("status")
        assert found["store"] == status["store"]
        assert found["checkpoints"] == status["checkpoints"] == len(casrewind.json("list")["checkpoints"])
        assert found["exists"] is True and found["problem"] is None
        assert found["worktrees"] == [{"root": found["root"], "exists": True, "checkpoints": found["checkpoints"]}]
        assert found["bytes"] == sum(
            os.lstat(os.path.join(place, name)).st_blocks * 512 for place, _, names in os.walk(status["store"]) for name in names
        )
        used = datetime.fromisoformat(found["used_at"].replace("Z", "+00:00"))
        assert used >= datetime.fromisoformat(status["last"]["created_at"].replace("Z", "+00:00"))
        assert abs((datetime.now(UTC) - used).total_seconds()) < 600
    said = one("stores", code=0).out
    assert said.index(str(tmp_path / "one")) < said.index(str(tmp_path / "two"))
    assert "3 checkpoints" in said and "1 checkpoint," in said and "GONE" not in said and "adopt" not in said


def test_a_pin_is_a_use(home, tmp_path):
    one, two = (project(home, tmp_path / name, b"1") for name in ("one", "two"))
    assert [Path(store["root"]).name for store in listed(one)] == ["two", "one"]
    one("pin", "last", code=0)
    assert [Path(store["root"]).name for store in listed(one)] == ["one", "two"]
    assert two


def test_a_root_that_is_gone_or_something_else_now_is_said(home, tmp_path):
    for name in ("gone", "file", "link", "there"):
        project(home, tmp_path / name, b"1")
    for name in ("gone", "file", "link"):
        shutil.rmtree(tmp_path / name)
    plant(tmp_path, {"file": b""})
    (tmp_path / "link").symlink_to("there")
    casrewind = InProcess(tmp_path / "there", home)
    assert {Path(store["root"]).name: store["exists"] for store in listed(casrewind)} == {
        "gone": False, "file": False, "link": False, "there": True,
    }  # fmt: skip
    lines = casrewind("stores", code=0).out.splitlines()
    assert f"{tmp_path}/gone  (GONE)" in lines and f"{tmp_path}/there" in lines
    assert "casrewind adopt" in lines[-1]


@needs_git
def test_linked_worktrees_are_listed_below_the_root_that_the_store_is_named_after(home, tmp_path):
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(linked)]):
        subprocess.run(["git", *command], cwd=main, env={**os.environ, **identity}, check=True, capture_output=True)
    casrewind = project(home, main, b"1", b"2")
    project(home, linked, b"3")
    (found,) = listed(casrewind)
    assert (found["root"], found["checkpoints"]) == (str(main), 3)
    assert sorted(found["worktrees"], key=lambda line: line["root"]) == [
        {"root": str(linked), "exists": True, "checkpoints": 1}, {"root": str(main), "exists": True, "checkpoints": 2},
    ]  # fmt: skip
    shutil.rmtree(linked)
    (found,) = listed(casrewind)
    assert found["exists"] is True and {line["root"]: line["exists"] for line in found["worktrees"]}[str(linked)] is False
    assert f"1 checkpoint of them of {linked}  (GONE)" in casrewind("stores", code=0).out


def break_format(store):
    (store / "FORMAT").write_bytes(b"casrewind store 99\n")


def break_ledger(store):
    shutil.rmtree(store / "index")
    content = bytearray((store / "ledger").read_bytes())
    content[40] ^= 1
    (store / "ledger").write_bytes(content)


def lose_format(store):
    (store / "FORMAT").unlink()


def open_it(store):
    store.chmod(0o777)


def empty_it(store):
    shutil.rmtree(store)
    store.mkdir()


def give_it_away(store):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a store to another user")
    os.chown(store, 65534, 65534)


BREAK = {
    break_format: "casrewind store 99", break_ledger: "damaged", lose_format: "FORMAT", open_it: "others may write",
    empty_it: "nothing in it", give_it_away: "another user|belongs to user",
}  # fmt: skip


@pytest.mark.parametrize("harm", BREAK, ids=lambda harm: harm.__name__)
def test_a_broken_store_is_said_and_hides_no_other(home, tmp_path, harm):
    casrewind = project(home, tmp_path / "sound", b"1")
    broken = project(home, tmp_path / "broken", b"1", b"2").json("status")["store"]
    harm(Path(broken))
    by_path = {store["store"]: store for store in listed(casrewind)}
    found = by_path.pop(broken)
    assert any(word in found["problem"] for word in BREAK[harm].split("|")), found
    assert (found["root"], found["exists"], found["checkpoints"], found["worktrees"]) == (None, False, 0, [])
    (other,) = by_path.values()
    assert (other["root"], other["checkpoints"], other["problem"]) == (str(tmp_path / "sound"), 1, None)
    said = casrewind("stores", code=0).out
    assert "CANNOT BE USED: " + found["problem"][:30] in said and str(tmp_path / "sound") in said and broken in said


def test_a_store_that_is_busy_is_said(home, tmp_path):
    casrewind = project(home, tmp_path / "free", b"1")
    busy = project(home, tmp_path / "busy", b"1").json("status")["store"]
    with LockHolder(Path(busy) / "locks" / "index", stopped=True):
        problems = {store["store"]: store["problem"] for store in listed(casrewind)}
    assert "busy" in problems.pop(busy)
    assert list(problems.values()) == [None]


def test_a_name_that_is_not_utf_8(home, tmp_path):
    place = os.fsencode(tmp_path) + b"/pro\xffject"
    casrewind = project(home, os.fsdecode(place), b"1")
    (found,) = listed(casrewind)
    assert base64.b64decode(found["root_b64"]) == place and found["exists"] is True
    assert "pro\\xffject" in casrewind("stores", code=0).out


def test_what_is_no_directory_on_the_shelf_is_left_out(home, tmp_path):
    casrewind = project(home, tmp_path / "one", b"1")
    plant(registry(home), {"notes.txt": b"mine"})
    (registry(home) / "dangling").symlink_to("nowhere")
    assert len(listed(casrewind)) == 1


def test_no_workspace_is_needed(home, tmp_path):
    project(home, tmp_path / "one", b"1")
    for place in ("/", home, tmp_path):
        assert [store["root"] for store in listed(InProcess(place, home))] == [str(tmp_path / "one")]


def test_looking_changes_nothing(home, tmp_path):
    casrewind = project(home, tmp_path / "one", b"1", b"2")
    project(home, tmp_path / "gone", b"1")
    shutil.rmtree(tmp_path / "gone")
    before = picture(home, mtimes=True, inodes=True)
    listed(casrewind)
    casrewind("stores", code=0)
    assert picture(home, mtimes=True, inodes=True) == before


def test_the_store_option_does_not_fit(casrewind, tmp_path):
    found = casrewind("--store", str(tmp_path / "s"), "stores", code=64)
    assert "--store" in found.err
    casrewind("stores", "x", code=64)


def test_a_shelf_that_cannot_be_listed_is_1(home, tmp_path):
    plant(home, {"data/stores": b"a file"})
    found = InProcess(tmp_path, home)("stores", code=1)
    assert str(registry(home)) in found.err


def test_a_reader_that_has_seen_enough_is_no_error(home, tmp_path):
    project(home, tmp_path / "one", b"1")
    command = f"set -o pipefail; {shlex.quote(sys.executable)} -m casrewind stores | head -c1"
    done = subprocess.run(["bash", "-c", command], env=Command(tmp_path, home).environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
