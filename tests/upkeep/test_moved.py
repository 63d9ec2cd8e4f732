"""A project that was moved takes its checkpoints along when a person next runs a command in it: only when it is beyond doubt,
and at no cost for whoever has a store. Hooks: hooks/test_moved_projects.py."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import casrewind
from casrewind import errors
from casrewind.model.undo_history import RESTORE, Operation
from casrewind.upkeep import adopt
from casrewind.store.store import Store
from casrewind.workspace import Workspace
from casrewind.worktree import root as roots
from support.command import Command
from support.command_in_process import InProcess
from support.fake_client import Client
from support.picture import differences, picture
from support.stores import LockHolder
from support.trees import Exec, Link, plant

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
FILES = {f"d{n % 3}/file {n}": b"content of file %d\n" % n for n in range(20)}
TREE = {**FILES, "link": Link("d0"), "run.sh": Exec(b""), "empty": b""}


@pytest.fixture
def old(tmp_path, at):
    """A project with two checkpoints and a restore."""
    place = tmp_path / "before" / "project"
    plant(place, {**TREE, "d0/file 0": b"other"})
    at(place)("save", "-m", "first", code=0)
    plant(place, TREE)
    at(place)("save", code=0)
    at(place)("restore", "first", "--yes", code=0)
    at(place)("undo", "--yes", code=0)
    return place


@pytest.fixture
def new(tmp_path):
    (tmp_path / "after").mkdir()
    return tmp_path / "after" / "another name"


def history(casrewind):
    return casrewind("list", "--all", "--json", code=0).out


def ids(listed):
    return [point["id"] for point in json.loads(listed)["checkpoints"]]


def registry(home):
    return home / "data" / "stores"


def stores(home):
    """What the stores hold, without what only helps."""
    kept = picture(registry(home))
    return {path: what for path, what in kept.items() if not {b"locks", b"index"}.intersection(path.split(b"/"))}


def not_adopted(home, casrewind, *command, code=10):
    before = stores(home)
    found = casrewind(*(command or ("list",)), code=code)
    assert differences(stores(home), before) == {}
    return found.err


COMMANDS = [
    ("list",), ("status",), ("show", "first"), ("diff",), ("cat", "first:d0/file 3"), ("save",), ("save", "-m", "again"), ("pin", "first"),
    ("restore", "first", "--yes"), ("redo", "--yes"), ("run", "--", "true"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command))
def test_the_first_command_in_the_new_place_takes_the_checkpoints_along(old, new, at, home, command):
    before = history(at(old))
    os.rename(old, new)
    found = at(new)(*command, code=0)
    assert f"casrewind: note: {new} was moved from {old}: its 2 checkpoints came along\n" in found.err
    assert set(ids(before)) <= set(ids(history(at(new))))
    assert len(list(registry(home).iterdir())) == 1
    assert at(new)("list", code=0).err == ""


@pytest.mark.parametrize("command", [("gc",), ("verify",), ("purge", "d0", "--yes")], ids=lambda command: command[0])
def test_what_looks_after_a_store_does_not_go_for_another_one(old, new, at, home, command):
    os.rename(old, new)
    not_adopted(home, at(new), *command)


def test_numbers_restore_and_undo_go_on(old, new, at):
    before = history(at(old))
    os.rename(old, new)
    casrewind = at(new)
    assert casrewind.json("save")["created"] is False  # nothing changed since
    assert history(casrewind) == before
    there = picture(new)
    casrewind("restore", "first", "--yes", code=0)
    assert (new / "d0" / "file 0").read_bytes() == b"other"
    casrewind("undo", "--yes", code=0)
    assert differences(picture(new), there) == {}


def test_a_project_that_was_moved_back_and_forth(old, new, at, home):
    before = history(at(old))
    for source, target in ((old, new), (new, old), (old, new)):
        os.rename(source, target)
        assert history(at(target)) == before
    assert len(list(registry(home).iterdir())) == 1


@pytest.mark.parametrize("link", [False, True])
def test_it_does_not_matter_how_it_was_moved(old, new, at, link):
    before = history(at(old))
    subprocess.run(["cp", "-a", str(old), str(new)], check=True)  # other inodes, as on another disk
    shutil.rmtree(old)
    if link:
        old.symlink_to(new)
    assert history(at(old if link else new)) == before


def test_a_copy_without_its_times_is_named_and_a_person_adopts_it(old, new, at, home):
    before = history(at(old))
    subprocess.run(["cp", "-r", str(old), str(new)], check=True)
    shutil.rmtree(old)
    assert f"casrewind adopt {old}" in not_adopted(home, at(new))
    at(new)("adopt", str(old), code=0)
    assert history(at(new)) == before


def test_the_directory_above_was_renamed(old, tmp_path, at):
    before = history(at(old))
    os.rename(old.parent, tmp_path / "renamed")
    assert history(at(tmp_path / "renamed" / "project")) == before


def test_what_was_restored_last_counts_not_the_newest_checkpoint(tmp_path, new, at):
    plant(tmp_path / "old", FILES)
    at(tmp_path / "old")("save", "-m", "then", code=0)
    plant(tmp_path / "old", dict.fromkeys(FILES, b"all of them differ"))
    at(tmp_path / "old")("save", code=0)
    at(tmp_path / "old")("restore", "then", "--yes", code=0)
    os.rename(tmp_path / "old", new)
    assert len(ids(history(at(new)))) == 3


@pytest.mark.parametrize(("edited", "adopted"), [(10, True), (11, False)])
def test_half_of_the_sample_has_to_be_here_as_it_was(tmp_path, new, at, home, edited, adopted):
    plant(tmp_path / "old", FILES)
    at(tmp_path / "old")("save", code=0)
    os.rename(tmp_path / "old", new)
    for name in list(FILES)[:edited]:
        data = bytearray((new / name).read_bytes())
        data[-2] ^= 1  # as long as before
        (new / name).write_bytes(data)
    if adopted:
        assert len(ids(history(at(new)))) == 1
    else:
        not_adopted(home, at(new))


# -- what is no move


def test_a_copy_is_another_project(old, new, at, home):
    shutil.copytree(old, new, symlinks=True)
    assert "adopt" not in not_adopted(home, at(new))
    at(new)("save", code=0)
    assert len(list(registry(home).iterdir())) == 2
    assert len(ids(history(at(new)))) == 1 and len(ids(history(at(old)))) == 4
    shutil.rmtree(old)
    assert len(ids(history(at(new)))) == 1  # it has a store


def test_a_new_project_is_not_an_old_one_that_is_gone(old, new, at, home, tmp_path):
    shutil.rmtree(old)
    plant(new, {**dict.fromkeys(FILES, b"of another project, with longer files"), "d0/file 0": FILES["d0/file 0"]})
    assert "adopt" not in not_adopted(home, at(new))
    plant(tmp_path / "after" / "project", {"README": b"only the name is the same"})
    assert f"if this project was at {old} before: casrewind adopt {old}\n" in not_adopted(home, at(tmp_path / "after" / "project"))
    said = at(tmp_path / "after" / "project")("save", code=0).err
    assert said == f"casrewind: note: there was no checkpoint here yet; if this project was at {old} before: casrewind adopt {old}\n"
    assert len(list(registry(home).iterdir())) == 2


def test_a_project_in_the_same_place_goes_on_with_its_own(old, at, home):
    before = history(at(old))
    shutil.rmtree(old)
    plant(old, {"entirely": b"different"})
    assert history(at(old)) == before
    assert at(old)("save", code=0).err == ""


def test_two_that_agree_are_left_to_the_person(old, new, at, home, tmp_path):
    twin = tmp_path / "before" / "twin"
    subprocess.run(["cp", "-a", str(old), str(twin)], check=True)
    at(twin)("save", code=0)
    os.rename(old, new)
    shutil.rmtree(twin)
    said = not_adopted(home, at(new))
    assert f"casrewind adopt {old}" in said and f"casrewind adopt {twin}" in said
    at(new)("adopt", str(old), code=0)


TEMPLATE = {"README.md": b"# hello\n", ".gitignore": b"*.log\n", "LICENSE": b"as is\n"}


def test_what_every_new_project_begins_with_is_no_proof(tmp_path, new, at, home):
    plant(tmp_path / "old", {**TEMPLATE, "main.py": b"print(1)\n"})
    at(tmp_path / "old")("save", code=0)
    shutil.rmtree(tmp_path / "old")
    plant(new, {**TEMPLATE, "main.py": b"print(2)\n"})
    assert f"casrewind adopt {tmp_path}/old" in not_adopted(home, at(new))


@pytest.mark.parametrize("how", ["moved", "copied with its times"])
def test_a_small_project_is_known_by_its_times(tmp_path, new, at, how):
    plant(tmp_path / "old", TEMPLATE)
    before = history(at(tmp_path / "old")) if at(tmp_path / "old")("save", code=0) else ""
    if how == "moved":
        os.rename(tmp_path / "old", new)
    else:
        subprocess.run(["cp", "-a", str(tmp_path / "old"), str(new)], check=True)
        shutil.rmtree(tmp_path / "old")
    assert history(at(new)) == before


def test_a_directory_that_became_a_link_hides_no_other_file(old, new, at):
    before = history(at(old))
    os.rename(old, new)
    os.rename(new / "d0", new.parent / "d0")
    (new / "d0").symlink_to(new.parent / "d0")
    assert history(at(new)) == before


def test_links_are_not_followed_for_it(tmp_path, new, at, home):
    plant(tmp_path / "old", FILES)
    at(tmp_path / "old")("save", code=0)
    os.rename(tmp_path / "old", tmp_path / "elsewhere")
    plant(new, {name: Link(str(tmp_path / "elsewhere" / name)) for name in FILES})
    not_adopted(home, at(new))
    for name in ("d0", "d1", "d2"):
        shutil.rmtree(new / name)
        (new / name).symlink_to(tmp_path / "elsewhere" / name)
    not_adopted(home, at(new))
    shutil.rmtree(new)
    for name in FILES:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(new / name)
    not_adopted(home, at(new))


def test_a_disk_that_may_only_not_be_mounted_is_left_to_the_person(old, new, at, home):
    shutil.copytree(old, new, symlinks=True)
    shutil.rmtree(old)
    os.utime(old.parent, (1, 1))  # as it was before a disk was mounted over it
    assert f"casrewind adopt {old}" in not_adopted(home, at(new))


def test_a_store_that_was_given_is_nobodys_former_one(old, new, at, home, tmp_path):
    os.rename(old, new)
    at(new)("--store", str(tmp_path / "mine"), "list", code=10)
    at(new)("--store", str(tmp_path / "mine"), "save", code=0)
    assert len(ids(history(at(new)))) == 4


@needs_git
def test_linked_worktrees_are_left_alone(tmp_path, at, home):
    main, linked = tmp_path / "main", tmp_path / "linked"
    plant(main, FILES)

    def git(place, *arguments):
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", "-C", str(place), *who, *arguments], check=True, capture_output=True)

    git(main, "init", "-q")
    git(main, "add", ".")
    git(main, "commit", "-q", "-m", "x")
    git(main, "worktree", "add", "-q", str(linked))
    at(linked)("save", code=0)
    git(main, "worktree", "remove", "--force", str(linked))
    assert "no checkpoints to show" in at(main)("list", code=0).out  # those of the linked one are not its own
    git(main, "worktree", "add", "-q", str(tmp_path / "again"))
    assert "no checkpoints to show" in at(tmp_path / "again")("list", code=0).out
    at(main)("save", code=0)
    os.rename(main, tmp_path / "moved")
    assert f"casrewind adopt {main}" in not_adopted(home, at(tmp_path / "again"))  # git does not find its way there any more
    assert len(ids(history(at(tmp_path / "moved")))) == 2


# -- what is in the way


def test_an_empty_store_is_replaced(old, new, at, home, settings):
    before = history(at(old))
    os.rename(old, new)
    Workspace(str(new), settings, create=True).close()
    assert history(at(new)) == before
    assert len(list(registry(home).iterdir())) == 1


def test_a_store_with_a_checkpoint_stays(old, new, at, home, settings):
    os.rename(old, new)
    with Workspace(str(new), settings, create=True) as workspace:
        workspace.save()
    assert len(ids(history(at(new)))) == 1
    assert len(list(registry(home).iterdir())) == 2


def test_an_open_restore_is_said_and_a_save_goes_on(old, new, at, home, settings):
    with Workspace(str(old), settings, create=False) as workspace:
        target = workspace.checkpoint("last")
        store = workspace.store_path
    with Store(store) as opened:
        opened.journals.write(Operation(RESTORE, 1, roots.key_of(str(old)), target.id, target.id, target.tree, ""))
    os.rename(old, new)
    said = not_adopted(home, at(new))
    assert "--abort" in said and f"casrewind adopt {old}" in said
    assert "--abort" in at(new)("save", code=0).err
    assert len(list(registry(home).iterdir())) == 2


@pytest.mark.parametrize("lock", ["gate", "gc"])
def test_a_store_in_use_is_waited_for_and_no_other_one_is_begun(old, new, home, settings, lock):
    with Workspace(str(old), settings, create=False) as workspace:
        store = workspace.store_path
    os.rename(old, new)
    with LockHolder(Path(store) / "locks" / lock, stopped=True), pytest.raises(errors.StoreBusy):
        casrewind.adopt_moved(new, settings._replace(deadline=0.1))
    assert len(list(registry(home).iterdir())) == 1
    assert casrewind.adopt_moved(new, settings).adopted.checkpoints == 2


def test_broken_stores_and_what_is_none_hide_nothing(old, new, at, home):
    before = history(at(old))
    os.rename(old, new)
    plant(registry(home), {"x-0123456789ab/FORMAT": b"casrewind store 99\n", "y": b"a file", "z-0123456789ab/packs/p": b""})
    shutil.copytree(next(registry(home).glob("project-*")), registry(home) / "project-0123456789ab")
    (registry(home) / "project-0123456789ab" / "ledger").write_bytes(b"garbage")
    assert history(at(new)) == before


def test_without_an_index_one_of_the_same_name_is_found_still(old, tmp_path, at, home):
    before = history(at(old))
    os.rename(old, tmp_path / "after")
    shutil.rmtree(next(registry(home).iterdir()) / "index")
    not_adopted(home, at(tmp_path / "after"))
    os.rename(tmp_path / "after", tmp_path / "project")
    assert history(at(tmp_path / "project")) == before


def test_two_commands_at_once(old, new, at, home):
    before = history(at(old))
    os.rename(old, new)
    command = Command(new, home)
    line = [sys.executable, "-m", "casrewind", "-C", str(new), "list", "--all", "--json"]
    running = [subprocess.Popen(line, env=command.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    answers = [process.communicate() for process in running]
    assert before.encode() in [out for out, _ in answers], answers
    assert len(list(registry(home).iterdir())) == 1
    assert history(at(new)) == before


def test_it_is_found_among_many_and_only_so_many_are_looked_at(tmp_path, new, at, home, monkeypatch):
    for number in range(8):
        plant(tmp_path / f"gone {number}", {f"f{n}": b"%d %d" % (number, n) for n in range(4)})
        at(tmp_path / f"gone {number}")("save", code=0)
        os.rename(tmp_path / f"gone {number}", tmp_path / f"moved {number}")
        time.sleep(0.01)  # the order is that of the ledgers' times
    assert len(ids(history(at(tmp_path / "moved 3")))) == 1
    monkeypatch.setattr(adopt, "_MOST_STORES", 3)
    not_adopted(home, at(tmp_path / "moved 0"))
    assert len(ids(history(at(tmp_path / "moved 7")))) == 1  # of those that were used last
    monkeypatch.setattr(adopt, "_MOST_SECONDS", -1.0)
    not_adopted(home, at(tmp_path / "moved 6"))


# -- whose business it is


def test_a_program_adopts_when_it_asks_to(old, new, home, settings):
    os.rename(old, new)
    with pytest.raises(errors.WorkspaceNotFound):
        casrewind.open(new, settings, create=False)
    found = casrewind.adopt_moved(new, settings)
    assert (found.adopted.old, found.adopted.root, found.adopted.checkpoints) == (str(old), str(new), 2)
    assert casrewind.adopt_moved(new, settings) == casrewind.Moved(None, (), None)
    with casrewind.open(new, settings, create=False) as workspace:
        assert workspace.checkpoint("first").root == os.fsencode(new)


def test_a_command_that_is_typed_in_the_client_takes_the_checkpoints_along(old, new, home):
    os.rename(old, new)
    client = Client(Command(new, home), new)
    said = client.typed("/casrewind list --all")
    assert f"{new} was moved from {old}: its 2 checkpoints came along" in " ".join(said.split()) and "first" in said
    assert len(list(registry(home).iterdir())) == 1


WATCHED = """
import os, sys
touched = []
def watch(event, arguments):
    place = arguments[0] if event in ("open", "os.listdir", "os.scandir") and arguments else None
    if isinstance(place, int) and event != "open":
        place = os.readlink(f"/proc/self/fd/{place}")
    if isinstance(place, (str, bytes)) and (event != "open" or not os.path.isdir(place)):  # macOS tells the path of an open directory
        touched.append(os.fsdecode(place))
sys.addaudithook(watch)
from casrewind.cli.main import main
code = main(sys.argv[2:])
assert code == 0, code
strange = [path for path in touched if "/data/stores" in path and sys.argv[1] not in path]
assert strange == [], strange
"""


@pytest.mark.parametrize("command", [("save",), ("list", "--all"), ("status",)], ids=lambda command: command[0])
def test_who_has_a_store_does_not_pay_for_it(old, tmp_path, at, home, command):
    plant(tmp_path / "gone", TREE)
    at(tmp_path / "gone")("save", code=0)
    shutil.rmtree(tmp_path / "gone")
    line = [sys.executable, "-c", WATCHED, roots.store_name_of(str(old)), "-C", str(old), *command]
    done = subprocess.run(line, env=Command(old, home).environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
