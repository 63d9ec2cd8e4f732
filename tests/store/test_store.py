"""The store as a whole: private, versioned, locked with deadlines, shared by many, readable when it cannot be written."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind import errors, fsio
from casrewind.model import manifest
from casrewind.model import undo_history
from casrewind.store import ledger
from casrewind.store.index import Index
from casrewind.store.layout import FORMAT
from casrewind.store.store import Store
from casrewind.workspace import Settings, Workspace
from support import unprivileged
from support.command import Command
from support.picture import differences, picture
from support.stores import LockHolder, filled
from support.trees import Exec, Link, plant


def files_of(store):
    found = {}
    for place, _, names in os.walk(store):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, store)] = file.read()
    return found


# -- layout


def test_everything_in_the_store_is_private_from_the_start_whatever_the_umask(root, home, casrewind):
    plant(root, {"a": b"a", "d/b": b"b" * 2_000_000})
    umask = ("sh", "-c", 'umask 000; exec "$@"', "sh")
    casrewind("save", "-m", "one", code=0, prefix=umask)
    plant(root, {"a": b"changed"})
    casrewind("save", "--pin", code=0, prefix=umask)
    casrewind("restore", "one", "-y", code=0, prefix=umask)
    casrewind("undo", "--yes", code=0, prefix=umask)
    shutil.rmtree(next((home / "data" / "stores").iterdir()) / "index")
    casrewind("list", code=0, prefix=umask)
    seen = 0
    for place, directories, names in os.walk(home / "data"):
        for name in (*directories, *names):
            mode = os.lstat(os.path.join(place, name)).st_mode
            assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), os.path.join(place, name)
            seen += 1
    assert seen > 12
    assert stat.S_IMODE(os.lstat(home / "data").st_mode) == 0o700


def test_no_file_of_the_store_is_ever_made_wider(root, home, casrewind):
    """Not only at the end: every open and mkdir with O_CREAT under umask 000, seen from outside."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    plant(root, {"a": b"a"})
    log = home / "trace"
    trace = (
        "sh", "-c", f'umask 000; exec strace -f -qq -e trace=openat,mkdir,mkdirat,chmod,fchmod,fchmodat -o {log} "$@"', "sh",
    )  # fmt: skip
    if casrewind("save", prefix=trace).code != 0:
        pytest.skip("strace may not trace here")
    data = str(home / "data")
    made = [
        line for line in log.read_text(errors="replace").splitlines()
        if data in line and ("O_CREAT" in line or "mkdir" in line) and "ENOENT" not in line
    ]  # fmt: skip
    assert len(made) > 8
    assert [line for line in made if not any(mode in line for mode in (", 0600", ", 0700"))] == []


def test_a_store_that_belongs_to_another_user_is_refused_and_left_alone(root, settings, casrewind):
    if os.geteuid() != 0:
        pytest.skip("needs root to give a store away")
    store = filled(root, settings)
    os.chown(store, 65534, 65534)
    before = files_of(store)
    for command in (["save"], ["list"], ["restore", "last", "-y"]):
        assert "belongs to user 65534" in casrewind(*command, code=14).err
    assert files_of(store) == before


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_store_that_others_may_write_to_is_refused(root, settings, casrewind, mode):
    store = filled(root, settings)
    os.chmod(store, mode)
    assert "others may write" in casrewind("save", code=14).err
    assert "others may write" in casrewind("list", code=14).err


def test_a_directory_that_others_may_write_to_is_refused_before_a_store_is_made_in_it(root, tmp_path, casrewind):
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o777)
    plant(root, {"a": b"a"})
    casrewind("--store", str(place), "save", code=14)
    assert os.listdir(place) == []


@pytest.mark.parametrize("text", [b"casrewind store 1\n", b"casrewind store 3\n", b"casrewind store 10\n", b"", b"\xff" * 300])
def test_an_unknown_format_is_refused_and_nothing_is_changed(root, settings, casrewind, text):
    store = filled(root, settings)
    with open(os.path.join(store, "FORMAT"), "wb") as file:
        file.write(text)
    before, tree = files_of(store), picture(root)
    for command in (["save", "-m", "x"], ["list"], ["restore", "prev", "-y"], ["status"]):
        done = casrewind(*command, code=12)
        assert "format" in done.err
        assert done.out == ""
    assert files_of(store) == before
    assert not differences(picture(root), tree)


def test_a_store_without_its_format_file_is_damage_and_nothing_is_overwritten(root, settings, casrewind):
    store = filled(root, settings)
    os.unlink(os.path.join(store, "FORMAT"))
    before = files_of(store)
    for command in (["save", "-m", "x"], ["list"], ["restore", "prev", "-y"]):
        assert "FORMAT" in casrewind(*command, code=20).err
    shutil.rmtree(os.path.join(store, "packs"))  # a ledger full of records is reason enough
    os.mkdir(os.path.join(store, "packs"))
    casrewind("save", "-m", "x", code=20)
    assert files_of(store) == {name: data for name, data in before.items() if not name.startswith("packs")}


@pytest.mark.parametrize("left", [[], ["packs"], ["packs", "locks", "tmp", "journals"], ["packs", "ledger"]])
def test_a_making_that_was_interrupted_is_no_store_yet_and_is_finished_by_the_next_save(root, tmp_path, casrewind, left):
    whole = tmp_path / "whole"
    Store(str(whole), create=True).close()
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    for name in left:
        (shutil.copytree if (whole / name).is_dir() else shutil.copy)(whole / name, store / name)
    plant(root, {"a": b"a"})
    casrewind("--store", str(store), "list", code=10)
    casrewind("--store", str(store), "save", code=0)
    assert len(casrewind("--store", str(store), "list", "--json", code=0).json["checkpoints"]) == 1


def test_a_new_store_is_what_the_format_says(tmp_path):
    Store(str(tmp_path / "a" / "store"), create=True).close()
    store = tmp_path / "a" / "store"
    assert (store / "FORMAT").read_bytes() == FORMAT == b"casrewind store 2\n"
    assert {"FORMAT", "ledger", "packs", "locks", "tmp", "journals"} <= set(os.listdir(store))
    with pytest.raises(errors.WorkspaceNotFound):
        Store(str(tmp_path / "nothing"))


# -- locks

ACTIONS = {
    "save": lambda workspace: workspace.save("x"),
    "list": lambda workspace: workspace.checkpoints(),
    "restore": lambda workspace: workspace.restore(workspace.checkpoint("prev")),
}
# what must wait for whom; everything else goes on
WAITS = {
    "gate": {"save", "restore"},
    "store": {"save", "restore"},
    "publish": {"save", "restore"},
    "index": {"save", "list", "restore"},
}


@pytest.mark.parametrize("stopped", [False, True], ids=["blocked", "stopped"])
@pytest.mark.parametrize("lock", WAITS)
def test_nobody_waits_for_a_lock_longer_than_the_deadline(root, settings, lock, stopped):
    store = filled(root, settings)
    before, book = picture(root), files_of(store)["ledger"]
    plant(root, {"changing": b"unsaved"})
    changed = picture(root)
    with LockHolder(os.path.join(store, "locks", lock), stopped=stopped) as holder:
        for name, action in ACTIONS.items():
            with Workspace(str(root), settings._replace(deadline=0.15), create=False) as workspace:
                if name in WAITS[lock]:
                    with pytest.raises(errors.StoreBusy, match=f"the {lock} lock") as caught:
                        action(workspace)
                    assert caught.value.exit_code == 11
                else:
                    action(workspace)
        assert files_of(store)["ledger"] == book
        assert not differences(picture(root), changed)
        holder.kill()  # a killed holder loses the lock at once
        with Workspace(str(root), settings._replace(deadline=0.15), create=False) as workspace:
            for action in ACTIONS.values():
                action(workspace)
    assert before != changed
    assert not [name for name in os.listdir(os.path.join(store, "tmp"))]


def test_a_second_restore_of_the_same_worktree_is_refused_at_once_and_another_worktree_goes_on(root, tmp_path, settings):
    settings = settings._replace(store=str(tmp_path / "store"))
    store = filled(root, settings)
    other = tmp_path / "other"
    plant(other, {"f": b"1"})
    filled(other, settings)
    with Workspace(str(root), settings, create=False) as workspace:
        lock = os.path.join(store, "locks", "restore-" + workspace.root.key.hex())
        with LockHolder(lock):
            with pytest.raises(errors.StoreBusy):
                workspace.restore(workspace.checkpoint("prev"))
            assert workspace.save("a save goes on").created
            with Workspace(str(other), settings, create=False) as second:
                second.restore(second.checkpoint("prev"))
        workspace.restore(workspace.checkpoint("prev"))


def test_what_a_killed_process_left_unsynced_is_synced_before_the_index_tells_of_it(root, settings, monkeypatch):
    """Else a power cut could set the ledger back behind the index, and a sound ledger would be called cut."""
    store = filled(root, settings)
    with Store(store) as opened:
        point = opened.checkpoints()[0][0]
        seq = max(record.seq for record in ledger.Ledger(os.path.join(store, "ledger")).read(0, 0))
    with open(os.path.join(store, "ledger"), "ab") as file:  # written whole, never synced
        file.write(ledger.encode(ledger.PIN, seq + 1, undo_history.encode_mark(undo_history.Mark(point.id, ""))))
    shutil.copy(next(Path(store, "packs").iterdir()), os.path.join(store, "packs", "ab" * 10 + ".pack"))
    seen, sync, change = [], fsio.sync_fd, Index.change

    def note(fd, **how):
        seen.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd, **how)

    def committed(self, work):
        result = change(self, work)
        seen.append("index")
        return result

    monkeypatch.setattr(fsio, "sync_fd", note)
    monkeypatch.setattr(Index, "change", committed)
    with Store(store) as opened:
        assert opened.checkpoints()[0][1].pinned
    assert seen == ["packs", "ledger", "index"]


def test_lock_files_stay_and_lie_outside_the_index(root, settings):
    store = filled(root, settings)
    before = {name: os.stat(os.path.join(store, "locks", name)).st_ino for name in os.listdir(os.path.join(store, "locks"))}
    shutil.rmtree(os.path.join(store, "index"))
    with Workspace(str(root), settings, create=False) as workspace:
        workspace.save("again")
    after = {name: os.stat(os.path.join(store, "locks", name)).st_ino for name in os.listdir(os.path.join(store, "locks"))}
    assert before == {name: after[name] for name in before}
    assert {"gate", "store", "publish", "index"} <= set(before)
    assert "lock.mdb" not in os.listdir(os.path.join(store, "index"))


def test_a_follower_waits_until_a_record_is_durable_or_gone(root, settings):
    """A record is in the file before it is synced, and may be taken back: nobody may build on it before."""
    store = filled(root, settings)
    with Workspace(str(root), settings, create=False) as workspace:
        before = workspace.checkpoints()
        with LockHolder(os.path.join(store, "locks", "publish")):
            with open(os.path.join(store, "ledger"), "ab") as file:
                file.write(b"CRE1 half a record")
            with Workspace(str(root), settings._replace(deadline=0.1), create=False) as other:
                with pytest.raises(errors.StoreBusy):
                    other.checkpoints()
        assert workspace.checkpoints() == before


# -- many at once

SAVER = """
import os, sys
from casrewind.workspace import Settings, Workspace
root, home, store, name, rounds = sys.argv[1:]
settings = Settings(home=home, data=home + "/data", store=store, environ={})
for number in range(int(rounds)):
    draft = f"{home}/draft-{name}"
    with open(draft, "w") as file:
        file.write(f"{name} {number}" * 50)
    os.replace(draft, f"{root}/{name}")
    with Workspace(root, settings, create=True) as workspace:
        workspace.save(f"{name} {number}", pin=number == 0)
"""


def test_eight_processes_save_into_one_store_and_nothing_is_lost(root, home, tmp_path, settings):
    """Four in one worktree, four in worktrees of their own; the store does not exist before."""
    store = str(tmp_path / "store")
    rounds = 4
    roots = [root] * 4 + [tmp_path / f"root{number}" for number in range(4)]
    for place in roots[4:]:
        place.mkdir()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SAVER, str(place), str(home), store, f"saver{number}", str(rounds)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}, stderr=subprocess.PIPE,
        )
        for number, place in enumerate(roots)
    ]  # fmt: skip
    errors_seen = [process.communicate(timeout=200)[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 8, errors_seen
    for attempt in range(2):  # the second time from a rebuilt index
        with Store(store) as opened:
            found = opened.checkpoints()
            points = [point for point, _ in found]
            assert sorted(point.label for point in points) == sorted(
                f"saver{number} {round_}" for number in range(8) for round_ in range(rounds)
            )
            assert {point.label for point, marked in found if marked.pinned} == {f"saver{number} 0" for number in range(8)}
            sequence = [point.seq for point in points]
            assert sequence == sorted(set(sequence), reverse=True)
            for worktree in {point.worktree for point in points}:
                mine = [point for point in reversed(points) if point.worktree == worktree]
                assert [point.parent for point in mine] == ["", *(point.id for point in mine[:-1])]
                assert opened.head(worktree) == mine[-1]
            for point in points:
                name, number = point.label.split()
                entries = dict(manifest.walk(opened.load_tree, point.tree))
                for entry in entries.values():
                    assert b"".join(opened.content(entry))
                # what a saver wrote before it saved is in its checkpoint
                assert b"".join(opened.content(entries[name.encode()])).startswith(f"{name} {number}".encode())
        shutil.rmtree(os.path.join(store, "index"))


# -- a store that cannot be written

READ_ONLY = ("unshare", "-m", "sh", "-c", 'mount --bind "$STORE" "$STORE" && mount -o remount,ro,bind "$STORE" && exec "$@"', "sh")


def check_read_only(command, root, out, prefix, **variables):
    """Reading works, restoring elsewhere works, saving says why it does not."""
    before = picture(root)
    rows = command("list", "--json", code=0, prefix=prefix, **variables).json["checkpoints"]
    assert len(rows) == 2
    assert command("show", "last", "--json", code=0, prefix=prefix, **variables).json["entries"]
    command("diff", "prev", "last", code=0, prefix=prefix, **variables)
    command("restore", "prev", "--to", str(out), code=0, prefix=prefix, **variables)
    for arguments in (["save", "-m", "no"], ["restore", "prev", "-y"]):
        done = command(*arguments, prefix=prefix, **variables)
        assert done.code == 1, done
        assert len(done.err.strip().splitlines()) == 1
        assert "Read-only" in done.err or "denied" in done.err
    assert not differences(picture(root), before)


def test_a_store_on_a_read_only_file_system_can_be_read(root, tmp_path, casrewind):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs root and mount namespaces")
    store = tmp_path / "store"
    states = []
    for number in range(2):
        plant(root, {"f": b"%d" % number, "x": Exec(b"#!/bin/sh\n"), "l": Link("f"), "d/g": b"g" * 1_500_000})
        casrewind("--store", str(store), "save", code=0)
        states.append(picture(root))
    before = files_of(store)
    command = Command(root, casrewind.home)
    command.root = str(root)

    def with_store(*arguments, **more):
        return casrewind("--store", str(store), *arguments, STORE=str(store), **more)

    check_read_only(with_store, root, tmp_path / "out", READ_ONLY)
    assert not differences(picture(tmp_path / "out"), states[0])
    assert files_of(store) == before
    assert with_store("save", "-m", "writable again").code == 0


def test_a_store_that_its_owner_may_not_write_can_be_read():
    unprivileged.require()
    with unprivileged.open_directory() as place:
        root, home, store = place / "project", place / "home", str(place / "store")
        for directory in (root, home):
            directory.mkdir()
        unprivileged.give(place)
        command = Command(root, home, TMPDIR=str(home))

        def with_store(*arguments, **more):
            return command("--store", store, *arguments, **more)

        for number in range(2):
            plant(root, {"f": b"%d" % number, "d/g": b"g"})
            unprivileged.give(root)
            with_store("save", code=0, prefix=unprivileged.PREFIX)
        for path, _, names in os.walk(store):
            for name in names:
                os.chmod(os.path.join(path, name), 0o400)
            os.chmod(path, 0o500)
        check_read_only(with_store, root, str(home / "out"), unprivileged.PREFIX)
        assert [name for name in os.listdir(home) if name.startswith("casrewind-index")] == []


# -- disk trouble, for real


def test_a_full_store_says_so_and_works_again_when_there_is_space(root, home, tmp_path, casrewind):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs root and mount namespaces")
    plant(root, {"small": b"small"})
    script = tmp_path / "script"
    script.write_text(
        """set -e
mount -t tmpfs -o size=2m,mode=700 tmpfs "$STORE"
"$@" --store "$STORE/s" save -m first
head -c 5000000 /dev/urandom > "$ROOT/big"
set +e
"$@" --store "$STORE/s" save -m second; echo "code $?"
set -e
ls "$STORE/s/packs" | wc -l; ls "$STORE/s/tmp" | wc -l
rm "$ROOT/big"; echo more > "$ROOT/more"
"$@" --store "$STORE/s" save -m third
"$@" --store "$STORE/s" list --json
"""
    )
    mount = tmp_path / "mount"
    mount.mkdir()
    done = subprocess.run(
        ["unshare", "-m", "sh", str(script), sys.executable, "-m", "casrewind", "-C", str(root)],
        env={**casrewind.environment, "STORE": str(mount), "ROOT": str(root)}, capture_output=True, timeout=100, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert "code 13" in lines, done
    assert "no space left" in done.stderr
    after = lines[lines.index("code 13") + 1 :]
    assert after[:2] == ["1", "0"], done  # no pack more, no draft left
    listed = json.loads(done.stdout[done.stdout.index("{") :])
    assert [row["label"] for row in listed["checkpoints"]] == ["third", "first"]


def test_settings_without_a_writable_place_say_so(root, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    plant(root, {"a": b"a"})
    settings = Settings(home=str(tmp_path), data=str(tmp_path / "file"), environ={})
    with pytest.raises(errors.StoreError):
        Workspace(str(root), settings, create=True).close()
