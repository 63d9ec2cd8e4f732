"""adopt: a project that was moved or renamed takes its checkpoints along; nothing else ever changes whose they are."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from casrewind import adopt, errors, locks
from casrewind.model.undo_history import RESTORE, Operation
from casrewind.store.store import Store
from casrewind.worktree import root as roots
from casrewind.workspace import Workspace
from support import forked_command
from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.shim import compile_shim
from support.stores import LockHolder
from support.trees import Exec, Link, plant

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
TREE = {"f": b"1", "d/g": b"deep", "run.sh": Exec(b"#!/bin/sh\n"), "l": Link("d/g"), b"odd\xff": b"odd"}


@pytest.fixture
def old(tmp_path, at):
    """A project with a history: two checkpoints, marks, a restore, an undo and a second restore."""
    place = tmp_path / "old place" / "project"
    plant(place, TREE)
    casrewind = at(place)
    casrewind("save", "-m", "first", code=0)
    plant(place, {"f": b"2", "new": b"n"})
    casrewind("save", code=0)
    casrewind("pin", "first", "renamed: first", code=0)
    casrewind("restore", "prev", "--yes", code=0)
    casrewind("undo", "--yes", code=0)
    casrewind("restore", "prev", "--yes", code=0)
    return place


@pytest.fixture
def new(tmp_path):
    """Where it goes."""
    return tmp_path / "new" / "project"


def move(old, new):
    new.parent.mkdir(exist_ok=True)
    os.rename(old, new)


def history(casrewind):
    return casrewind("list", "--all", "--json", code=0).out


def registry(home):
    return home / "data" / "stores"


def names(home):
    return sorted(path.name.rpartition("-")[0] for path in registry(home).iterdir())


def everything(home):
    """What the stores hold, without what only helps: locks, index."""
    kept = {}
    for path, what in picture(registry(home), mtimes=True).items():
        if not {b"locks", b"index"}.intersection(path.split(b"/")):
            kept[path] = what
    return kept


def test_list_numbers_restore_and_undo_go_on_in_the_new_place(old, new, at, home):
    before = history(at(old))
    move(old, new)
    casrewind = at(new)
    found = casrewind("adopt", str(old), code=0)
    assert found.out == f"adopted 2 checkpoints of {old}: they are those of {new} now\n" and found.err == ""
    assert history(casrewind) == before
    assert len(list(registry(home).iterdir())) == 1
    status = casrewind.json("status")
    assert (status["root"], status["checkpoints"], status["journal"], status["protected"]) == (str(new), 2, None, True)
    assert Path(status["store"]).parent == registry(home)
    assert f"root      {new}" in casrewind("show", "prev", code=0).out
    assert casrewind.json("show", "renamed: first")["checkpoint"]["pinned"] is True
    assert casrewind.json("save")["created"] is True  # f is as in 2, the newest one is of something else
    assert casrewind.json("verify")["ok"] is True

    there = picture(new)
    plant(new, {"f": b"3"})
    casrewind("restore", "last", "--yes", code=0)
    assert differences(picture(new), there) == {}
    casrewind("undo", "--yes", code=0)
    assert (new / "f").read_bytes() == b"3"


def test_a_restore_from_before_the_move_is_undone_after_it_and_redone(old, new, at):
    move(old, new)
    casrewind = at(new)
    casrewind("adopt", str(old), code=0)
    assert (new / "f").read_bytes() == b"1" and not (new / "new").exists()
    casrewind("undo", "--yes", code=0)
    assert ((new / "f").read_bytes(), (new / "new").read_bytes()) == (b"2", b"n")
    casrewind("redo", "--yes", code=0)
    assert (new / "f").read_bytes() == b"1" and not (new / "new").exists()


def test_what_did_not_change_is_known_to_be_saved(tmp_path, new, at):
    plant(tmp_path / "old", TREE)
    point = at(tmp_path / "old").json("save")["checkpoint"]
    move(tmp_path / "old", new)
    at(new)("adopt", str(tmp_path / "old"), code=0)
    again = at(new).json("save")
    assert (again["checkpoint"], again["created"]) == (point, False)


def test_the_json_says_what_was_adopted(old, new, at):
    move(old, new)
    found = at(new).json("adopt", str(old))
    assert found == {"old": str(old), "root": str(new), "store": at(new).json("status")["store"], "checkpoints": 2, "machine": None, "problems": []}
    assert Path(found["store"]).name.startswith("project-")


def test_without_its_index_the_store_tells_the_same(old, new, at, home):
    move(old, new)
    casrewind = at(new)
    casrewind("adopt", str(old), code=0)
    plant(new, {"another": b"after"})
    casrewind("save", "-m", "after", code=0)
    before = history(casrewind), casrewind("list", "--json", code=0).out
    shutil.rmtree(Path(casrewind.json("status")["store"]) / "index")
    assert (history(casrewind), casrewind("list", "--json", code=0).out) == before
    casrewind("undo", "--yes", code=0)


def test_gc_and_a_new_index_leave_everything_where_it_is_now(old, new, at):
    move(old, new)
    casrewind = at(new)
    casrewind("adopt", str(old), code=0)
    before = history(casrewind)
    casrewind("gc", code=0)
    assert history(casrewind) == before
    shutil.rmtree(Path(casrewind.json("status")["store"]) / "index")
    assert history(casrewind) == before
    casrewind("undo", "--yes", code=0)
    assert (new / "f").read_bytes() == b"2"


def test_a_project_that_moves_again_and_back(old, new, tmp_path, at, home):
    before = history(at(old))
    places = [old, new, tmp_path / "third", old]
    for source, target in zip(places, places[1:]):
        move(source, target)
        at(target)("adopt", str(source), code=0)
        assert history(at(target)) == before
    assert len(list(registry(home).iterdir())) == 1
    at(old)("undo", "--yes", code=0)


@pytest.mark.parametrize("way", ["relative", "slash", "dots", "renamed above", "a link is left", "a link is left above", "below the root"])
def test_however_the_old_path_is_said(old, new, tmp_path, at, way):
    before = history(at(old))
    said, place = str(old), new
    if way == "renamed above":
        os.rename(old.parent, tmp_path / "renamed")
        place = tmp_path / "renamed" / "project"
    elif way == "a link is left above":
        os.rename(old.parent, tmp_path / "renamed")
        old.parent.symlink_to("renamed")
        place = tmp_path / "renamed" / "project"
    else:
        move(old, new)
    if way == "relative":
        said = "../../old place/project"
    if way == "slash":
        said += "//"
    if way == "dots":
        said = f"{tmp_path}/old place/../old place/./project/"
    if way == "a link is left":
        old.symlink_to(new)
    if way == "below the root":
        plant(new, {".git/HEAD": b""})
        at(new / "d")("adopt", "../../../old place/project", code=0)
    else:
        at(place)("adopt", said, code=0)
    assert history(at(place)) == before


def test_names_that_are_not_utf_8_or_hold_odd_characters(tmp_path, at):
    old, new = os.fsencode(tmp_path) + b"/pro\xffject", os.fsencode(tmp_path) + b"/pr\xfeo'; ject\n"
    plant(old, TREE)
    at(os.fsdecode(old))("save", code=0)
    before = history(at(os.fsdecode(old)))
    os.rename(old, new)
    found = at(os.fsdecode(new))("adopt", old, "--json", code=0).json
    assert (base64.b64decode(found["old_b64"]), base64.b64decode(found["root_b64"])) == (old, new)
    assert history(at(os.fsdecode(new))) == before


# -- what is refused, and changes nothing


def refused(home, casrewind, *arguments, code):
    before = everything(home)
    found = casrewind("adopt", *arguments, code=code)
    assert differences(before, everything(home)) == {}
    assert found.out == ""
    return found.err


def test_a_root_that_is_still_there_is_14_unless_forced(old, new, at, home):
    shutil.copytree(old, new, symlinks=True)
    said = refused(home, at(new), str(old), code=14)
    assert str(old) in said and "still there" in said and "two projects" in said and "--force" in said
    before = history(at(old))
    assert at(new)("adopt", "--force", str(old), code=0)
    assert history(at(new)) == before
    at(old)("list", code=10)


def test_something_else_in_the_old_place_is_no_hindrance(old, new, at):
    move(old, new)
    old.write_bytes(b"a file")
    at(new)("adopt", str(old), code=0)


def test_a_root_that_was_never_saved_is_10(old, new, at, home, tmp_path):
    new.mkdir(parents=True)
    for said in (str(tmp_path / "never"), str(old.parent), str(old) + "x"):
        found = refused(home, at(new), said, code=10)
        assert said in found and "casrewind stores" in found
    assert "casrewind save" in at(new)("list", code=10).err


def test_before_anything_was_saved_it_is_10_and_makes_nothing(new, at, home):
    new.mkdir(parents=True)
    at(new)("adopt", "/nowhere", code=10)
    assert list(home.iterdir()) == []


def test_its_own_path_is_64(old, at, home):
    for said in (str(old), ".", "../project/"):
        assert "had before" in refused(home, at(old), said, code=64)
    at(old)("adopt", code=64)
    at(old)("adopt", "a", "b", code=64)


def test_adopting_twice_is_10_and_says_where_to_look(old, new, at, home):
    move(old, new)
    at(new)("adopt", str(old), code=0)
    assert "casrewind stores" in refused(home, at(new), str(old), code=10)


@pytest.mark.parametrize("left", ["an empty store", "a making that was interrupted", "an empty directory"])
def test_an_empty_store_in_the_way_is_replaced(old, new, at, home, settings, left):
    before = history(at(old))
    move(old, new)
    with Workspace(str(new), settings, create=True) as workspace:
        store = Path(workspace.store_path)
    if left != "an empty store":
        (store / "FORMAT").unlink()
    if left == "an empty directory":
        shutil.rmtree(store)
        store.mkdir()
    at(new)("adopt", str(old), code=0)
    assert history(at(new)) == before
    assert len(list(registry(home).iterdir())) == 1


def test_a_store_without_any_checkpoint_is_nothing_to_adopt(old, new, at, home, settings, tmp_path):
    (tmp_path / "empty").mkdir()
    Workspace(str(tmp_path / "empty"), settings, create=True).close()
    (tmp_path / "empty").rmdir()
    new.mkdir(parents=True)
    assert "no checkpoint" in refused(home, at(new), str(tmp_path / "empty"), code=10)


def test_an_open_restore_is_11_and_says_how_to_finish(old, new, at, home, settings):
    with Workspace(str(old), settings, create=False) as workspace:
        store = workspace.store_path
        target = workspace.checkpoint("last")
    with Store(store) as opened:
        opened.journals.write(Operation(RESTORE, 1, roots.key_of(str(old)), target.id, target.id, target.tree, ""))
    move(old, new)
    said = refused(home, at(new), str(old), code=11)
    assert str(old) in said and "--continue" in said and "--abort" in said


def test_a_running_restore_is_11(old, new, at, home, settings):
    with Workspace(str(old), settings, create=False) as workspace:
        store = Path(workspace.store_path)
    move(old, new)
    with LockHolder(store / "locks" / ("restore-" + roots.key_of(str(old)).hex())):
        assert "running" in refused(home, at(new), str(old), code=11)
    at(new)("adopt", str(old), code=0)


@pytest.mark.parametrize("lock", ["gate", "store", "gc"])
def test_a_store_that_is_in_use_is_busy(old, new, at, home, settings, lock):
    with Workspace(str(old), settings, create=False) as workspace:
        store = Path(workspace.store_path)
    move(old, new)
    before = everything(home)
    with LockHolder(store / "locks" / lock, stopped=True), pytest.raises(errors.StoreBusy, match=lock):
        adopt(str(new), str(old), settings._replace(deadline=0.1))
    assert differences(before, everything(home)) == {}
    assert adopt(str(new), str(old), settings).checkpoints == 2


def test_home_and_system_directories_do_not_adopt(old, at, home):
    assert "is not a project: it is your home directory" in refused(home, at(home), str(old), code=14)
    assert "/ is not a project" in refused(home, at("/"), str(old), code=14)


def test_a_broken_store_is_not_moved(old, new, at, home, settings):
    with Workspace(str(old), settings, create=False) as workspace:
        store = Path(workspace.store_path)
    move(old, new)
    (store / "FORMAT").write_bytes(b"casrewind store 99\n")
    assert "99" in refused(home, at(new), str(old), code=12)
    (store / "FORMAT").unlink()
    refused(home, at(new), str(old), code=20)


def test_who_waited_for_a_lock_while_its_store_was_moved_gets_that_of_the_one_there_now(tmp_path):
    """An empty store is replaced while a save waits at its gate: the save must not go on with a lock that excludes nobody."""
    held = threading.Event()
    got = []
    for name in ("there", "other"):
        plant(tmp_path, {f"{name}/gate": b""})
    path = str(tmp_path / "there" / "gate")

    def wait():
        with locks.locked(path, exclusive=False, deadline=60.0) as fd:
            got.append(os.fstat(fd).st_ino)

    with locks.locked(path, exclusive=True, deadline=1.0):
        waiter = threading.Thread(target=wait)
        acquire = locks.acquire

        def tell(*arguments, **named):
            held.set()
            return acquire(*arguments, **named)

        locks.acquire = tell
        try:
            waiter.start()
            assert held.wait(60)  # the waiter has the file open
        finally:
            locks.acquire = acquire
        os.rename(tmp_path / "there", tmp_path / "gone")
        os.rename(tmp_path / "other", tmp_path / "there")
    waiter.join(60)
    assert got == [os.stat(path).st_ino]


def test_who_waited_for_a_lock_of_a_store_that_went_away_is_told(tmp_path):
    plant(tmp_path, {"there/gate": b""})
    path = str(tmp_path / "there" / "gate")
    acquire = locks.acquire

    def move_first(*arguments, **named):
        os.rename(tmp_path / "there", tmp_path / "gone")
        return acquire(*arguments, **named)

    locks.acquire = move_first
    try:
        with pytest.raises(errors.StoreError, match="lock"), locks.locked(path, exclusive=True, deadline=1.0):
            raise AssertionError("locked what is not there")
    finally:
        locks.acquire = acquire


# -- a store that was given with --store


def test_a_store_of_ones_own_stays_where_it_is(tmp_path, new, home):
    old, store = tmp_path / "old", str(tmp_path / "store")
    plant(old, TREE)

    def run(place, *arguments, code=0):
        return InProcess(place, home)("--store", store, *arguments, code=code)

    run(old, "save", "-m", "x")
    before = run(old, "list", "--json").out
    move(old, new)
    assert "no checkpoints to show" in run(new, "list").out
    assert run(new, "adopt", str(old), "--json").json["store"] == store
    assert run(new, "list", "--json").out == before
    plant(new, {"f": b"2"})
    run(new, "restore", "x", "--yes")
    assert (new / "f").read_bytes() == b"1"
    run(new, "adopt", str(old), code=10)


# -- interruptions

KILLED = """
import os, signal, sys
from casrewind.store import registry
from casrewind.cli.main import main
registry.rename_store = lambda source, target: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


@pytest.fixture
def killed(old, new, home):
    """A project whose adoption was killed between the record and the move of its store; what was listed before."""
    before = history(InProcess(old, home))
    move(old, new)
    done = forked_command.call(["-C", str(new), "adopt", str(old)], Command(new, home).environment, program=KILLED)
    assert done[0] == -signal.SIGKILL, done
    return before


def test_killed_between_the_record_and_the_move_the_same_command_finishes(killed, old, new, at, home):
    casrewind = at(new)
    assert len(list(registry(home).iterdir())) == 1
    assert "adopted 2 checkpoints" in casrewind("adopt", str(old), code=0).out
    assert history(casrewind) == killed
    casrewind("undo", "--yes", code=0)
    casrewind("adopt", str(old), code=10)


@pytest.mark.parametrize("command", ["list", "save", "status", "undo --yes"])
def test_killed_between_the_record_and_the_move_any_command_finishes(killed, new, at, home, command):
    casrewind = at(new)
    assert f"note: {new} was moved: its checkpoints came along" in casrewind(*command.split(), code=0).err
    assert len(list(registry(home).iterdir())) == 1
    assert set(identities(casrewind)) >= set(point["id"] for point in json.loads(killed)["checkpoints"])


def identities(casrewind):
    return [point["id"] for point in casrewind.json("list", "--all")["checkpoints"]]


@pytest.fixture
def left(old, new, at, home, settings):
    """A store that has the new root's name and the old root's checkpoints: what an interruption of an older version left."""
    before = history(at(old))
    move(old, new)
    with Workspace(str(new), settings, create=True) as workspace:
        target = workspace.store_path
    shutil.rmtree(target)
    (source,) = registry(home).iterdir()
    os.rename(source, target)
    return before


def test_a_store_that_has_its_name_already_gets_the_record(left, old, new, at):
    casrewind = at(new)
    assert casrewind.json("status")["checkpoints"] == 0
    assert "adopted 2 checkpoints" in casrewind("adopt", str(old), code=0).out
    assert history(casrewind) == left


def test_saved_in_between_it_says_so_and_force_puts_both_in_one_list(left, old, new, at, home):
    casrewind = at(new)
    plant(new, {"f": b"in between"})
    point = casrewind.json("save")["checkpoint"]
    said = refused(home, casrewind, str(old), code=1)
    assert "--force" in said and "list --all" in said
    casrewind("adopt", str(old), "--force", code=0)
    found = casrewind.json("list")["checkpoints"]
    assert [p["id"] for p in found][0] == point and len(found) == 3
    casrewind("restore", "renamed: first", "--yes", code=0)
    assert (new / "f").read_bytes() == b"1"


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    if not sys.platform.startswith("linux"):
        pytest.skip("the fault shim is written for Linux")
    made = compile_shim(str(tmp_path_factory.mktemp("shim")))
    if made is None:
        pytest.skip("no C compiler for the fault shim")
    return made


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("act", "stride"),
    [("kill", 4), ("fail", 12), *(pytest.param(act, 1, marks=pytest.mark.long) for act in ("kill", "fail"))],
)
def test_interrupted_at_calls_that_change_the_disk_it_can_be_finished(old, new, at, home, settings, shim, tmp_path, act, stride):
    before = history(at(old))
    move(old, new)
    Workspace(str(new), settings, create=True).close()  # one more thing to do: an empty store is in the way
    shutil.copytree(home, tmp_path / "kept")
    command = Command(new, home)
    log = tmp_path / "calls"
    command("adopt", str(old), code=0, LD_PRELOAD=shim, SHIM_LOG=str(log))
    calls = log.read_text().splitlines()
    total = len(calls)
    assert total > 10
    moved = next(n for n, line in enumerate(calls) if " rename " in line and line.endswith(at(new).json("status")["store"]))
    assert " fsync " in calls[moved + 1], "the move is not made durable"
    appended = max(n for n in range(moved) if calls[n].endswith("/locks/publish"))
    order = [line.split()[1] for line in calls[appended:moved]]
    assert order.index("write") < order.index("fsync"), "the record is not durable before the move"
    outcomes = []
    for number in range(1, total + 1, stride):
        shutil.rmtree(home)
        shutil.copytree(tmp_path / "kept", home)
        done = command("adopt", str(old), LD_PRELOAD=shim, SHIM_AT=str(number), SHIM_ACT=act, SHIM_ERRNO="28")
        assert done.code == -signal.SIGKILL if act == "kill" else done.code in (0, 1, 13), (number, done)
        if len(outcomes) % 2:  # whatever the person does next: what there is of a move is found
            assert history(at(new)) == before, number
        again = at(new)("adopt", str(old))
        assert again.code == 10 if done.code == 0 else again.code in (0, 10), (number, done, again)
        outcomes.append(again.code)
        assert history(at(new)) == before, number
        at(new)("undo", "--yes", code=0)
        assert names(home) == ["project"], number
    print(f"adopt, {act}: {total} calls, {len(outcomes)} points, {outcomes.count(0)} times there was something left to do")
    assert outcomes.count(0) > len(outcomes) / 4


# -- linked worktrees


def git(place, *arguments):
    subprocess.run(
        ["git", "-C", str(place), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], check=True, capture_output=True
    )


@pytest.fixture
def family(tmp_path, at):
    """A repository and a linked worktree of it in one directory, each with two checkpoints and a restore."""
    main, linked = tmp_path / "family" / "main", tmp_path / "family" / "linked"
    plant(main, {"f": b"0"})
    git(main, "init", "-q")
    git(main, "add", "f")
    git(main, "commit", "-q", "-m", "x")
    git(main, "worktree", "add", "-q", str(linked))
    for place in (main, linked):
        for n in range(2):
            plant(place, {"f": b"%s %d" % (place.name.encode(), n)})
            at(place)("save", code=0)
        at(place)("restore", "prev", "--yes", code=0)
    return main, linked


def own(casrewind):
    return casrewind("list", "--json", code=0).out


@needs_git
def test_a_linked_worktree_that_moved_takes_its_own_checkpoints_along(family, at, tmp_path, home):
    main, linked = family
    before = own(at(main)), own(at(linked)), at(main).json("status")["store"]
    git(main, "worktree", "move", str(linked), str(tmp_path / "elsewhere"))
    casrewind = at(tmp_path / "elsewhere")
    assert "no checkpoints to show" in casrewind("list", code=0).out
    found = casrewind.json("adopt", str(linked))
    assert (found["store"], found["checkpoints"]) == (before[2], 2)
    assert (own(at(main)), own(casrewind), casrewind.json("status")["store"]) == before
    casrewind("undo", "--yes", code=0)
    assert (tmp_path / "elsewhere" / "f").read_bytes() == b"linked 1"
    at(main)("undo", "--yes", code=0)
    assert (main / "f").read_bytes() == b"main 1"


@needs_git
def test_the_main_root_takes_the_store_along_for_all(family, at, tmp_path):
    main, linked = family
    before = own(at(main)), own(at(linked))
    os.rename(main, tmp_path / "elsewhere")
    git(tmp_path / "elsewhere", "worktree", "repair")
    casrewind = at(tmp_path / "elsewhere")
    casrewind("adopt", str(main), code=0)
    assert (own(casrewind), own(at(linked))) == before
    assert at(linked).json("status")["store"] == casrewind.json("status")["store"]
    for place, name in ((tmp_path / "elsewhere", "main"), (linked, "linked")):
        at(place)("undo", "--yes", code=0)
        assert (place / "f").read_bytes() == f"{name} 1".encode()


@needs_git
def test_both_moved_the_main_one_goes_first(family, at, tmp_path, home):
    main, linked = family
    before = own(at(main)), own(at(linked))
    os.rename(tmp_path / "family", tmp_path / "moved")
    here, there = tmp_path / "moved" / "main", tmp_path / "moved" / "linked"
    git(here, "worktree", "repair", str(there))
    said = refused(home, at(there), str(linked), code=10)
    assert "main one before it" in said
    said = refused(home, at(there), str(main), code=1)
    assert "linked worktree of" in said and str(here) in said
    at(here)("adopt", str(main), code=0)
    assert own(at(here)) == before[0]
    at(there)("adopt", str(linked), code=0)
    assert (own(at(here)), own(at(there))) == before
    at(there)("undo", "--yes", code=0)
    assert (there / "f").read_bytes() == b"linked 1"


@needs_git
def test_a_linked_worktree_that_git_does_not_know_of_any_more_says_what_to_do(family, at, tmp_path, home):
    main, linked = family
    before = own(at(linked))
    os.rename(linked, tmp_path / "elsewhere")
    assert "git worktree repair" in refused(home, at(tmp_path / "elsewhere"), str(linked), code=10)
    git(main, "worktree", "repair", str(tmp_path / "elsewhere"))
    at(tmp_path / "elsewhere")("adopt", str(linked), code=0)
    assert own(at(tmp_path / "elsewhere")) == before


@needs_git
def test_the_timelines_of_two_worktrees_are_put_together_only_by_force(family, at, home):
    main, linked = family
    both = own(at(main)), own(at(linked))
    git(main, "worktree", "remove", "--force", str(linked))
    assert "--force" in refused(home, at(main), str(linked), code=1)
    assert own(at(main)) == both[0]
    at(main)("adopt", "--force", str(linked), code=0)
    assert len(at(main).json("list")["checkpoints"]) == 4


# -- the hint, where a user meets it (what is adopted unasked: test_moved.py)


def test_where_there_is_no_store_the_error_says_how_a_moved_project_is_adopted(old, new, at):
    move(old, new)
    plant(new, {"f": b"x", "new": b"y", "run.sh": b"z", "d/g": b"w", b"odd\xff": b"v"})  # as good as another project
    commands = (
        ("list",), ("status",), ("show", "last"), ("diff",), ("restore", "last", "--yes"), ("undo", "--yes"), ("pin", "last"), ("gc",), ("verify",),
        ("purge", "f", "--yes"),
    )  # fmt: skip
    for command in commands:
        found = at(new)(*command, code=10)
        assert "casrewind save" in found.err
        assert f"if this project was at {old} before: casrewind adopt '{old}'\n" in found.err
    at(new)("adopt", str(old), code=0)
    at(new)("list", code=0)


def test_the_hint_is_left_out_where_it_would_be_wrong(old, new, tmp_path, at, home):
    new.mkdir(parents=True)
    assert "adopt" not in at(new)("list", code=10).err  # the other one is there
    os.rename(old, tmp_path / "another name")
    assert f"casrewind adopt '{old}'" in at(tmp_path / "another name")("gc", code=10).err  # its files are there
    assert "adopt" not in at(new)("--store", str(tmp_path / "none"), "list", code=10).err
    assert "adopt" in at(new)("list", code=10).err
    assert "adopt" not in InProcess(tmp_path / "nowhere", home)("list", code=10).err


def test_a_broken_store_on_the_shelf_does_not_take_the_hint_away(old, new, tmp_path, at, home):
    move(old, new)
    plant(registry(home), {"project-0123456789ab/FORMAT": b"casrewind store 99\n", "project-0123456789ac": b"a file"})
    assert f"casrewind adopt '{old}'" in at(new)("gc", code=10).err
    at(new)("list", code=0)


# -- roots that are gone


def test_a_root_is_there_when_it_is_a_directory_of_its_own(tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir")
    (tmp_path / "file").write_bytes(b"")
    there = {name: roots.is_still_there(str(tmp_path / name)) for name in ("dir", "link", "file", "none", "file/below")}
    assert there == {"dir": True, "link": False, "file": False, "none": False, "file/below": False}
    assert roots.is_still_there(str(tmp_path / "link" / ".." / "dir"), unlike=str(tmp_path / "dir")) is False
    assert roots.is_still_there(str(tmp_path), unlike=str(tmp_path / "dir")) is True
    assert roots.is_still_there(str(tmp_path / "none"), unlike=str(tmp_path / "dir")) is False
    assert roots.is_still_there("/" + "x" * 300) is True  # nobody can tell: a name that is too long for this system
