"""An agent moves an ignored file to where it is captured. To go back removes it: it is named before, and its only copy is kept."""

import os
import shutil

import pytest

from casrewind.model.at_risk import OnlyCopy
from support.agent_turns import AgentTurns
from support.trees import plant

SECRET = b"TOKEN=1\n"


@pytest.fixture
def turns(workspace, root):
    """A session in a project with two ignored files and an ignored directory."""
    plant(root, {".gitignore": b".env\n*.key\n/private/\nnode_modules/\n", ".env": SECRET, "api/server.key": b"key\n", "a.py": b"1\n"})
    plant(root, {"private/notes": b"notes\n"})
    turns = AgentTurns(workspace, root)
    turns.prompt("p1", "tidy up")
    return turns


def before_turn(workspace):
    return workspace.turns()[0].before


def restored(workspace, *, dry_run=False, confirm=None, **more):
    point = before_turn(workspace)
    return workspace.plan_restore(point, **more) if dry_run else workspace.restore(point, confirm=confirm, **more)


VERBS = {
    "restore": restored,
    "restore a path": lambda workspace, **more: restored(workspace, scope=[b"env.txt"], **more),
    "restore and keep edits": lambda workspace, **more: restored(workspace, keep_edits=True, **more),
    "revert": lambda workspace, **more: workspace.revert(["@1"], **more),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_may_be_an_ignored_one_is_named_and_its_checkpoint_is_pinned(workspace, root, turns, verb):
    os.rename(root / ".env", root / "env.txt")
    turns.stop("p1")
    wanted = (OnlyCopy(b"env.txt", b".env"),)
    assert VERBS[verb](workspace, dry_run=True).only_copies == wanted
    asked = []
    done = VERBS[verb](workspace, confirm=lambda plan: asked.append(plan.only_copies) or True)
    assert asked == [wanted] and done.only_copies == wanted and not (root / "env.txt").exists()
    assert workspace.marks(done.safety).pinned
    assert b"".join(workspace.cat(done.safety, b"env.txt")) == SECRET
    undone = workspace.undo()
    assert (root / "env.txt").read_bytes() == SECRET and undone.only_copies == ()
    assert workspace.redo(dry_run=True).only_copies == wanted, "redo removes it again"


@pytest.mark.parametrize(("old", "new", "found"), [
    ("api/server.key", "api/server.txt", OnlyCopy(b"api/server.txt", b"")),
    ("private", "shown", OnlyCopy(b"shown/notes", b"private")),
])  # fmt: skip
def test_without_a_name_that_resembles_it_the_number_of_ignored_entries_tells(workspace, root, turns, old, new, found):
    os.rename(root / old, root / new)
    turns.stop("p1")
    assert workspace.revert(["@1"], dry_run=True).only_copies in ((found,), (found._replace(source=b""),))


def test_below_a_directory_the_source_is_named_there(workspace, root):
    plant(root, {".gitignore": b".env\n", "api/.env": SECRET, ".env": b"other\n"})
    turns = AgentTurns(workspace, root)
    turns.prompt("p1", "tidy up")
    os.rename(root / "api/.env", root / "api/dotenv.sample")
    turns.stop("p1")
    assert workspace.revert(["@1"], dry_run=True).only_copies == (OnlyCopy(b"api/dotenv.sample", b"api/.env"),)


def written(root):
    plant(root, {"env.txt": b"TOKEN=\n"})


def captured_file_moved(root):
    os.rename(root / "a.py", root / "env.py")


def old_files_unpacked(root):
    plant(root, {f"lib/{number}.py": b"%d\n" % number for number in range(30)})
    for place in (root / "lib").iterdir():
        os.utime(place, (10**9, 10**9))


def ignored_file_is_still_there(root):
    plant(root, {"env.txt": SECRET})
    os.utime(root / "env.txt", (10**9, 10**9))


def made_again_by_tools(root):
    plant(root, {"node_modules_list": b"x\n"})
    os.utime(root / "node_modules_list", (10**9, 10**9))


@pytest.mark.parametrize("act", [written, captured_file_moved, old_files_unpacked, ignored_file_is_still_there, made_again_by_tools])
def test_other_removed_files_are_not_named(workspace, root, turns, act):
    act(root)
    turns.stop("p1")
    done = workspace.revert(["@1"])
    assert done.only_copies == () and not workspace.marks(done.safety).pinned


def test_what_an_older_checkpoint_has_is_no_only_copy(workspace, root, turns):
    """A file came back that had been there, with its old time, and an ignored one went away."""
    plant(root, {"env.old": b"once\n"})
    os.utime(root / "env.old", (10**9, 10**9))
    workspace.save()
    os.rename(root / "env.old", root.parent / "aside")
    workspace.save()
    turns.stop("p1")
    turns.prompt("p2", "bring it back")
    os.rename(root.parent / "aside", root / "env.old")
    os.unlink(root / ".env")
    turns.stop("p2")
    assert workspace.revert(["@1"], dry_run=True).only_copies == ()


def test_the_terminal_names_it_before_and_after(casrewind, root):
    plant(root, {".gitignore": b".env\n", ".env": SECRET, "a.py": b"1\n"})
    casrewind("save", "-m", "first", code=0)
    shutil.move(root / ".env", root / "env.txt")
    line = "  env.txt may be your .env; casrewind include .env protects it\n"
    assert line in casrewind("restore", "first", "-n", code=0).out
    plan = casrewind.json("restore", "first", "-n")
    assert plan["only_copies"] == [{"path": "env.txt", "source": ".env"}]
    done = casrewind("restore", "first", "-y", code=0).out
    assert "is pinned: it may have the only copy of env.txt" in done
    assert casrewind("undo", "-y", code=0).out and (root / "env.txt").read_bytes() == SECRET
