"""Bad input and bad surroundings: a clear message, the exit code of the contract, and nothing changed.

Each message is checked for what is wrong, which thing is meant and what to do.
"""

import json
import os
import shlex
import shutil
import subprocess

import pytest

from support import other_users, unprivileged
from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.trees import plant
from support.unchanged import store_picture, unchanged

TREE = {"a": b"one\n", "d/b": b"two\n" * 50, "big": bytes(range(256)) * 300}


@pytest.fixture
def user():
    """The command run by a user who is not root, in a project and with a home of its own."""
    unprivileged.require()
    with unprivileged.open_directory() as base:
        root, home = base / "project", base / "home"
        for place in (root, home):
            place.mkdir()
            unprivileged.give(place)
        command = Command(root, home)

        def run(*arguments, **more):
            return command(*arguments, prefix=unprivileged.PREFIX, **more)

        run.root, run.home = root, home
        yield run


@pytest.fixture
def ready(casrewind, root):
    """A project with a checkpoint, edited since."""
    plant(root, TREE)
    casrewind.json("save", "-m", "first")
    plant(root, {"a": b"edited\n", "new": b"n"})
    return casrewind


def says(found, code, *words):
    assert found.code == code, found
    assert found.out == "" or list(json.loads(found.out)) == ["format", "error"]
    assert found.err.startswith("casrewind: ") and found.err.count("\n") == 1, found.err
    for word in words:
        assert word in found.err, (word, found.err)


# -- where to start


def test_a_start_directory_that_is_missing(casrewind, home):
    with unchanged(casrewind.root, home / "data"):
        says(casrewind("-C", "/no/such/place", "save"), 10, "/no/such/place", "No such file", "-C DIR")


def test_a_start_that_is_no_directory(ready, home):
    with unchanged(ready.root, home / "data"):
        says(ready("-C", os.path.join(ready.root, "a"), "save"), 10, "not a directory", "-C DIR")


@pytest.mark.parametrize(("where", "why"), [("home", "home directory"), ("/", "home directory"), ("/usr", "system directory"), pytest.param("/proc/self", "system directory", marks=pytest.mark.linux_only("/proc"))])
def test_roots_that_are_refused(casrewind, home, where, why):
    place = str(home) if where == "home" else where
    if not os.path.isdir(place):
        pytest.skip(f"no {place} here")
    before = sorted(os.listdir(home))
    for command in (["save"], ["status"], ["restore", "last", "--yes"]):
        says(casrewind("-C", place, *command), 14, "not a project", os.path.realpath(place), why, "--force")
    assert sorted(os.listdir(home)) == before


def test_force_works_on_a_root_that_is_refused_otherwise_and_says_so_everywhere(home):
    plant(home, {"notes": b"1"})
    command = InProcess(home, home)
    assert command("save", "--force", code=0)
    plant(home, {"notes": b"2"})
    says(command("status"), 14, "--force")
    assert command("--force", "restore", "last", "--yes", code=0)
    assert (home / "notes").read_bytes() == b"1"
    assert command("--force", "undo", "--yes", code=0)
    assert (home / "notes").read_bytes() == b"2"


# -- paths


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "d/../../outside", ".."])
def test_a_path_outside_the_root(ready, root, home, path):
    with unchanged(root, home / "data"):
        for command in (["restore", "last", "--yes"], ["restore", "last", "--dry-run"], ["diff", "last"]):
            says(ready(*command, "--", "a", path), 14, path, "outside", str(root))


def test_a_path_in_version_controls_own_files(ready, root, home):
    plant(root, {".git/config": b"[core]\n"})
    with unchanged(root, home / "data"):
        says(ready("restore", "last", "--yes", "--", ".git/config"), 14, ".git/config")


def test_paths_are_relative_to_where_one_starts(ready, root):
    plant(root, {"d/b": b"edited"})
    report = ready("-C", str(root / "d"), "restore", "--json", "last", "--yes", "--", "b", code=0).json
    assert [change["path"] for change in report["changes"]] == ["d/b"]
    assert (root / "a").read_bytes() == b"edited\n"


NOWHERE = {
    "diff with the worktree": ("diff", "last", "--"), "diff of two": ("diff", "prev", "last", "--"), "log": ("log",),
    "a patch": ("diff", "--patch", "last", "--"), "diff as JSON": ("diff", "--json", "last", "--"), "log as JSON": ("log", "--json"),
    "a dry run": ("restore", "last", "--dry-run", "--"), "restore": ("restore", "last", "--yes", "--"),
    "restore as JSON": ("restore", "last", "--json", "--yes", "--"),
}  # fmt: skip


@pytest.mark.parametrize("command", NOWHERE.values(), ids=NOWHERE)
def test_a_path_that_exists_nowhere_is_15_and_named(ready, root, home, command):
    ready("save", "-m", "again", code=0)
    with unchanged(root, home / "data"):
        says(ready(*command, "bigg"), 15, "bigg", "nearest known name is big, in ")
        says(ready(*command, "nothing/like/it"), 15, "nothing/like/it", "casrewind show ")


def test_paths_of_which_some_exist_nowhere_are_3_and_named_and_the_others_are_done(ready, root, home):
    plant(root, {".gitignore": b"ignored\n", "ignored": b"i"})
    with unchanged(root, home / "data"):
        found = ready("restore", "last", "--yes", "--", "ignored", code=3)
        assert "nothing was restored" in found.out and "ignored: not in the checkpoint" in found.err
        found = ready("diff", "last", "--name-status", "--", "a", "misspelt", code=3)
        assert found.out == "M\ta\n" and "misspelt" in found.err and "no such path" in found.err
        found = ready.json("diff", "last", "--", "a", "misspelt", code=3)
        assert [change["path"] for change in found["changes"]] == ["a"] and found["missing"] == [{"path": "misspelt"}]
        assert ready.json("diff", "last", "--", "a", "d", code=0)["missing"] == []
    report = ready.json("restore", "last", "--yes", "--", "a", "misspelt", "ignored", "d", code=3)
    assert [change["path"] for change in report["changes"]] == ["a"]
    assert [(item["path"], item["reason"]) for item in report["skipped"]] == [(name, "not in the checkpoint") for name in ("ignored", "misspelt")]
    assert (root / "a").read_bytes() == b"one\n" and (root / "ignored").read_bytes() == b"i"
    assert ready.json("restore", "last", "--yes", "--", "d")["skipped"] == []


def test_a_path_that_only_one_side_has_is_no_mistake(ready, root):
    plant(root, {"new": b"n"})
    assert ready("diff", "last", "--name-status", "--", "new", code=0).out == "A\tnew\n"
    assert ready("diff", "last", "last", "--", "new", code=0).out == "no difference\n"
    ready("save", "-m", "with it", code=0)
    os.unlink(root / "new")
    assert ready("diff", "last", "--name-status", "--", "new", code=0).out == "D\tnew\n"
    assert ready("diff", "prev", "last", "--name-status", "--", "new", code=0).out == "A\tnew\n"
    assert ready("restore", "prev", "--yes", "--", ".", code=0)


# -- conversations


@pytest.mark.parametrize("what", ["--chat", "--both"])
def test_a_checkpoint_without_a_conversation(ready, root, home, what):
    with unchanged(root, home / "data"):
        says(ready("restore", "last", what, "--yes"), 16, what, "conversation", ready.json("list")["checkpoints"][0]["id"], "leave")
        says(ready("restore", "nope", what, "--yes"), 15, "'nope'")


# -- content in the way


def test_content_that_no_checkpoint_holds_is_in_the_way(casrewind, root, home):
    plant(root, {"x": b"a file"})
    casrewind.json("save")
    os.unlink(root / "x")
    os.mkdir(root / "x")
    os.mkfifo(root / "x/fifo")
    with unchanged(root, home / "data"):
        says(casrewind("restore", "last", "--yes"), 14, "in the way", "x/fifo", "nothing was changed")


def test_a_directory_that_is_not_empty_is_no_place_to_write_to(ready, root, tmp_path, home):
    plant(tmp_path / "full", {"f": b"x"})
    with unchanged(root, home / "data"), unchanged(tmp_path / "full"):
        says(ready("restore", "last", "--to", str(tmp_path / "full")), 14, str(tmp_path / "full"), "not empty", "empty directory")
        says(ready("restore", "last", "--to", str(tmp_path / "full/f")), 1, str(tmp_path / "full/f"))


# -- what may not be read


def test_an_unreadable_file_or_directory_is_3_recorded_and_shown(user):
    plant(user.root, {"ok": b"1", "secret": b"2", "closed/in": b"3"})
    unprivileged.give(user.root)
    (user.root / "secret").chmod(0)
    (user.root / "closed").chmod(0)
    found = user("save", "--json", code=3).json
    skipped = [{"path": "closed", "reason": "unreadable"}, {"path": "secret", "reason": "unreadable"}]
    assert found["files"] == 1 and found["skipped"] == skipped
    assert user("show", "--json", "last", code=0).json["skipped"] == skipped
    assert user("status", "--json", code=0).json["skipped"] == skipped
    for command in (["save", "-m", "again"], ["show", "last"], ["status"]):
        said = user(*command)
        assert "secret" in said.err and "closed" in said.err and "unreadable" in said.err
    # and a restore to that checkpoint never takes them for absent
    (user.root / "secret").chmod(0o644)
    (user.root / "closed").chmod(0o755)
    plant(user.root, {"ok": b"changed"})
    unprivileged.give(user.root)
    user("restore", "last", "--yes", code=0)
    assert picture(user.root)[b"closed/in"] and picture(user.root)[b"secret"]
    assert (user.root / "ok").read_bytes() == b"1"


def test_an_unreadable_file_in_the_way_of_a_restore_is_14(user):
    plant(user.root, {"f": b"1"})
    unprivileged.give(user.root)
    user("save", code=0)
    plant(user.root, {"f": b"2", "closed/in": b"3"})
    unprivileged.give(user.root)
    (user.root / "f").chmod(0)
    (user.root / "closed").chmod(0)
    with unchanged(user.root):
        says(user("restore", "last", "--yes"), 14, "f cannot be read", "nothing was changed", "-- PATH")
    (user.root / "f").chmod(0o644)
    report = user("restore", "--json", "last", "--yes")
    assert report.code in (0, 3) and (user.root / "f").read_bytes() == b"1"
    assert (user.root / "closed").exists()  # it could not be read: nothing under it is deleted


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["closed", "closed it's"])
def test_a_directory_that_its_owner_closed_is_opened_not_moved_away(user, name):
    plant(user.root, {"f": b"1", f"{name}/in": b"1", f"{name}/sub/in": b"1"})
    unprivileged.give(user.root)
    user("save", code=0)
    plant(user.root, {"f": b"2"})
    unprivileged.give(user.root)
    user("restore", "last", "-y", code=0)
    for closed, mode in ((name, "rwx"), (f"{name}/sub", "rwx"), (f"{name}/in", "rw")):
        place = user.root / closed
        was = place.stat().st_mode & 0o777
        place.chmod(0)
        command = f"chmod u+{mode} {shlex.quote(closed)}"
        with unchanged(user.root):
            found = user("restore", "last", "--yes")
            says(found, 14, f"{closed} cannot be read ({command} allows it)", "nothing was changed", "do that, or restore only other paths")
            assert "move it away" not in found.err
        subprocess.run([*unprivileged.PREFIX, "sh", "-c", command], cwd=user.root, check=True)
        place.chmod(was)
        user("restore", "last", "--yes", code=0)


def test_a_directory_that_its_owner_may_not_write_to_says_how(user):
    plant(user.root, {"f": b"1"})
    unprivileged.give(user.root)
    user("save", code=0)
    plant(user.root, {"f": b"2"})
    unprivileged.give(user.root)
    user.root.chmod(0o555)
    command = f"chmod u+rwx {user.root}"
    says(user("restore", "last", "--yes"), 14, f"may not be written to ({command} allows it); do that")
    subprocess.run([*unprivileged.PREFIX, "sh", "-c", command], check=True)
    user("restore", "last", "--yes", code=0)


# -- the store


def store_of(command):
    return command.json("status")["store"]


def test_a_store_of_a_newer_format(ready, root, home):
    store = store_of(ready)
    with open(os.path.join(store, "FORMAT"), "wb") as file:
        file.write(b"casrewind store 99\n")
    with unchanged(root, home / "data"):
        for command in (["save"], ["list"], ["restore", "last", "--yes"], ["status"], ["undo", "--yes"]):
            says(ready(*command), 12, store, "store 99", "upgrade")


def test_a_store_that_others_may_write_to(ready, root, home):
    store = store_of(ready)
    os.chmod(store, 0o777)
    with unchanged(root, home / "data"):
        says(ready("save"), 14, store, "others may write", "chmod 700")


def test_a_store_of_somebody_else(user):
    other_users.require()
    plant(user.root, {"f": b"1"})
    unprivileged.give(user.root)
    user("save", code=0)
    store = user("status", "--json", code=0).json["store"]
    os.chown(store, 0, 0)
    os.chmod(store, 0o755)
    with unchanged(user.root):
        says(user("save"), 14, store, "belongs to user 0", "--store DIR")


def test_a_store_that_cannot_be_made(user):
    user.home.chmod(0o555)
    plant(user.root, {"f": b"1"})
    with unchanged(user.root):
        says(user("save"), 1, str(user.home), "Permission denied", "--store DIR")


def test_a_store_that_cannot_be_written_can_still_be_read(user):
    plant(user.root, TREE)
    unprivileged.give(user.root)
    user("save", code=0)
    before = picture(user.root)
    store = user("status", "--json", code=0).json["store"]
    points = user("list", "--json", code=0).out
    plant(user.root, {"a": b"edited"})
    unprivileged.give(user.root)
    for place, names, files in os.walk(store, topdown=False):
        for name in files:
            os.chmod(os.path.join(place, name), 0o400)
        os.chmod(place, 0o500)
    with unchanged(user.root):
        for command in (["save"], ["restore", "last", "--yes"]):
            says(user(*command), 1, store, "Permission denied", "--store DIR")
        assert user("list", "--json", code=0).out == points
        assert [e["path"] for e in user("show", "--json", "last", code=0).json["entries"]] == ["a", "big", "d", "d/b"]
        assert [c["path"] for c in user("diff", "--json", code=0).json["changes"]] == ["a"]
        user("status", code=0)
        elsewhere = user.home / "elsewhere"
        user("restore", "last", "--to", str(elsewhere), code=0)
    assert differences(before, picture(elsewhere)) == {}


def each_file(store, *parts):
    found = [os.path.join(place, name) for place, _, names in os.walk(os.path.join(store, *parts)) for name in names]
    assert found
    return sorted(found)


def damage(path, how):
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if how == "cut":
            file.truncate(size * 2 // 3)
        elif how == "emptied":
            file.truncate(0)
        else:
            for place in range(size // 16, size, max(size // 8, 1)):
                file.seek(place)
                byte = file.read(1)
                file.seek(place)
                file.write(bytes((byte[0] ^ 0x10,)))


@pytest.mark.parametrize("how", ["cut", "emptied", "flipped"])
@pytest.mark.parametrize("what", ["packs", "ledger"])
def test_a_damaged_store_is_20_or_right_and_never_half_a_restore(ready, root, how, what, home):
    store = store_of(ready)
    for target in each_file(store, "packs") if what == "packs" else [os.path.join(store, "ledger")]:
        damage(target, how)
    broken = picture(root)
    found = ready("restore", "last", "--yes")
    if found.code == 0:  # the index still knew what the ledger says
        assert what == "ledger" and how == "flipped"
        assert (root / "a").read_bytes() == b"one\n" and not (root / "new").exists()
    else:
        assert found.code == 20 and differences(broken, picture(root)) == {}
        assert "casrewind verify" in found.err and ("blob" in found.err or "damaged" in found.err)
    for command in (["list"], ["show", "last"], ["diff"], ["status"], ["undo", "--yes"], ["restore", "last", "--to", str(home / "to")]):
        found = ready(*command)
        assert found.code in (0, 15, 20) and (found.code == 0) == (found.err == ""), found


@pytest.mark.parametrize("how", ["cut", "emptied", "flipped", "gone"])
def test_a_damaged_index_changes_nothing_that_is_said_or_done(ready, root, how):
    listed = ready("list", "--json", "--all", code=0).out
    store = store_of(ready)
    for target in each_file(store, "index"):
        if how == "gone":
            shutil.rmtree(os.path.join(store, "index"), ignore_errors=True)
        else:
            damage(target, how)
    assert ready("list", "--json", "--all", code=0).out == listed
    ready("restore", "last", "--yes", code=0)
    assert (root / "a").read_bytes() == b"one\n"


def test_a_damaged_journal_is_20(ready, root, home):
    from casrewind.worktree.root import key_of

    store = store_of(ready)
    ready.json("restore", "last", "--yes")
    with open(os.path.join(store, "journals", key_of(str(root)).hex()), "wb") as file:
        file.write(b"CRJ1 nonsense")
    with unchanged(root):
        for command in (["restore", "--continue"], ["restore", "--abort"]):
            found = ready(*command, code=20)
            assert "journal" in found.err and "casrewind verify" in found.err


def test_a_store_that_is_something_else(casrewind, root, tmp_path):
    plant(tmp_path / "other", {"FORMAT": b"not mine\n", "x": b"y"})
    os.chmod(tmp_path / "other", 0o700)
    with unchanged(root), unchanged(tmp_path / "other"):
        says(casrewind("--store", str(tmp_path / "other"), "save"), 12, str(tmp_path / "other"), "not mine", "--store DIR")
    plant(tmp_path / "file", {"f": b"x"})
    found = casrewind("--store", str(tmp_path / "file/f"), "save")
    assert found.code in (1, 10) and str(tmp_path / "file/f") in found.err


# -- no space


@pytest.fixture
def small(tmp_path):
    """Mount small file systems: small("name", "2m") -> path."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    mounted = []

    def make(name, size):
        place = tmp_path / name
        place.mkdir(mode=0o700)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "casrewind-test", str(place)], capture_output=True)
        if done.returncode:
            pytest.skip("mounting a small file system is not allowed here")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def noise(size, seed):
    import random

    return random.Random(seed).randbytes(size)


def test_a_save_into_a_full_store_is_13_and_loses_nothing(root, home, small):
    data = small("data", "1m")
    command = InProcess(root, home, CASREWIND_HOME=str(data))
    plant(root, {"f": noise(100_000, 1)})
    first = command.json("save")["checkpoint"]
    plant(root, {"g": noise(3_000_000, 2), "h": noise(400_000, 3)})
    before = store_picture(command.json("status")["store"])
    with unchanged(root):
        says(command("save"), 13, "no space left", str(data), "free some space")
    after = store_picture(command.json("status")["store"])
    assert differences(before, after) == {}
    assert [p["id"] for p in command.json("list")["checkpoints"]] == [first]
    os.unlink(root / "g")
    assert command.json("save")["files"] == 2  # what the failed save wrote is gone: there is room again


def test_a_restore_into_a_full_worktree_is_13_and_changes_nothing(home, small):
    root = small("project", "2m")
    command = InProcess(root, home)
    plant(root, {"f": noise(1_200_000, 4)})
    command.json("save")
    os.unlink(root / "f")
    plant(root, {"g": noise(1_200_000, 5)})
    with unchanged(root, home / "data"):
        found = command("restore", "last", "--yes", "--", "f")
        says(found, 13, "space", str(root), "nothing was changed")


def test_a_restore_whose_safety_checkpoint_does_not_fit_is_13_and_changes_nothing(root, home, small):
    data = small("data", "1m")
    command = InProcess(root, home, CASREWIND_HOME=str(data))
    plant(root, {"f": b"small"})
    command.json("save")
    plant(root, {"f": noise(3_000_000, 6)})
    with unchanged(root):
        says(command("restore", "last", "--yes"), 13, "no space left", str(data), "free some space")
    plant(root, {"f": b"small again"})
    command.json("restore", "last", "--yes")
    assert (root / "f").read_bytes() == b"small"


# -- a restore under way


def test_an_open_journal_is_11_until_somebody_decides(ready, root, home):
    """A restore whose worktree loses its disk half way would leave one; here it is put back from the middle of one."""
    from casrewind.model import undo_history
    from casrewind.store.store import Store
    from casrewind.worktree.root import key_of

    report = ready.json("restore", "last", "--yes")
    store = store_of(ready)
    with Store(store) as opened:
        step = opened.history(key_of(str(root))).undo[-1]
    journal = undo_history.Operation(undo_history.RESTORE, 1, key_of(str(root)), report["target"], report["safety"], step.plan, "")
    with Store(store) as opened:
        opened.journals.write(journal)
    with unchanged(root, home / "data"):
        for command in (["restore", "last", "--yes"], ["restore", "last", "--dry-run"], ["undo", "--yes"]):
            found = ready(*command, code=11)
            assert "--continue" in found.err and "--abort" in found.err and found.out == ""
    status = ready.json("status")
    assert status["journal"]["op"] == "restore" and status["journal"]["target"] == report["target"]
    assert status["journal"]["safety"] == report["safety"] and status["journal"]["running"] is False
    assert any("--continue" in reason for reason in status["reasons"])
    said = ready("status", code=0).out
    assert "interrupted" in said and report["target"] in said
    noted = ready("list", code=0)
    assert "interrupted" in noted.err and "--continue" in noted.err
    saved = ready("save", "--json", "-m", "meanwhile", code=0)
    assert "interrupted" in saved.err
    assert ready("restore", "--continue", "--json", code=0).json["dry_run"] is False
    assert ready.json("status")["journal"] is None
