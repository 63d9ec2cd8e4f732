"""Going back in a project that has other projects with agents of their own inside: the plan names them, and asks."""

from pathlib import Path

import pytest

from support.command_in_process import InProcess
from support.fake_client import Client, line_to_type, unfolded
from support.git_repository import add_worktree, git, make_repository
from support.picker_screen import run_picker
from support.trees import plant

from .test_back_turns import Conversation, processes  # noqa: F401 - a fixture
from .test_typed_plans import typed


@pytest.fixture
def nested(casrewind, root, home):
    """A project with a nested repository, and an agent in each; (client of the project, client of the nested one)."""
    plant(root, {"app.py": b"one\n", "vendor/lib/lib.py": b"lib\n"})
    make_repository(root / "vendor" / "lib")
    git(root, "init", "-q")
    casrewind("save", code=0)
    InProcess(root / "vendor" / "lib", home)("save", code=0)
    return Client(casrewind, root), Client(InProcess(root / "vendor" / "lib", home), root / "vendor" / "lib")


def turn(client, text, changes, session="11111111-1111-4111-8111-111111111111"):
    """A whole turn of a client that makes these changes."""
    client.send(client.payload("UserPromptSubmit.prompt", session_id=session, prompt=text, prompt_id=f"id of {text}"))
    plant(client.root, changes)
    client.send(client.payload("Stop.plain", session_id=session, prompt_id=f"id of {text}"))


OTHER = "22222222-2222-4222-8222-222222222222"
LIES = "1 path lies in vendor/lib, which has had 1 turn of its own since then"


def test_a_restore_names_the_projects_inside_that_had_turns(nested, casrewind, root):
    outer, inner = nested
    turn(outer, "outer", {"app.py": b"two\n"})
    assert "of its own" not in casrewind("restore", "@1", "-n", code=0).out
    turn(inner, "inner", {"lib.py": b"edited\n"}, OTHER)
    turn(outer, "again", {"app.py": b"three\n"})
    assert LIES in casrewind("restore", "@2", "-n", code=0).out
    assert casrewind.json("restore", "@2", "-n")["inner_projects"] == [{"path": "vendor/lib", "turns": 1, "paths": 1}]
    assert casrewind.json("restore", "@2", "-n", "--", "app.py")["inner_projects"] == []
    assert LIES in unfolded(outer.typed("/casrewind restore @2", agree=False))
    assert LIES in casrewind("restore", "@2", "-y", code=0).err
    assert (root / "vendor/lib/lib.py").read_bytes() == b"lib\n"
    assert "of its own" not in casrewind("undo", "-n", code=0).out
    turn(inner, "inner again", {"lib.py": b"edited again\n"}, OTHER)
    assert LIES in casrewind("undo", "-n", "--all", code=0).out


@pytest.mark.parametrize("has_turn", [True, False])
def test_a_turn_that_changed_paths_of_another_project_is_not_the_smallest_step(nested, root, processes, has_turn):  # noqa: F811 - the fixture
    outer, inner = nested
    conversation = Conversation(outer, "aaaa-1", processes[0].pid)
    conversation.turn("both", **{"app.py": "two", "vendor/lib/lib.py": "edited"})
    if has_turn:
        turn(inner, "inner", {}, OTHER)
    answer = typed(conversation, "/casrewind back --code")
    assert (LIES in unfolded(answer), "nothing has changed yet" in answer) == (has_turn, has_turn), answer
    assert (root / "app.py").read_bytes() == (b"two" if has_turn else b"one\n")
    if has_turn:
        assert "restored to" in typed(conversation, line_to_type(answer))
    assert (root / "vendor/lib/lib.py").read_bytes() == b"lib\n"


def test_a_project_inside_whose_store_cannot_be_read_is_named(nested, casrewind):
    outer, inner = nested
    turn(outer, "outer", {"vendor/lib/lib.py": b"edited\n"})
    (Path(inner.casrewind.json("status")["store"]) / "FORMAT").write_text("casrewind store 9999\n")
    assert "vendor/lib, which has a store of its own that cannot be read" in casrewind("restore", "@1", "-n", code=0).out
    assert casrewind.json("restore", "@1", "-n")["inner_projects"] == [{"path": "vendor/lib", "turns": None, "paths": 1}]


def test_a_worktree_that_was_moved_without_git_is_named_by_its_turns(nested, casrewind, root, home):
    """It is an ordinary directory of the checkout until git knows its new place: a restore would remove it."""
    outer, _ = nested
    plant(root, {".gitignore": b"/vendor/\n"})
    make_repository(root)
    turn(outer, "outer", {"app.py": b"two\n"})
    place = add_worktree(root)
    turn(Client(InProcess(place, home), place), "inner", {"app.py": b"other\n"}, OTHER)
    turn(outer, "again", {"app.py": b"three\n"})
    place.rename(root / "moved")
    shown = casrewind("restore", "@2", "-n", code=0).out
    assert "3 REMOVED" in shown or "remove 3" in shown, shown
    assert "lie in moved, which has had 1 turn of its own since then" in shown


@pytest.mark.parametrize("key", ["c", "x"])
def test_the_picker_names_them_too(nested, root, home, key):
    outer, inner = nested
    turn(outer, "outer", {"vendor/lib/lib.py": b"edited\n"})
    turn(inner, "inner", {}, OTHER)

    async def story(stage):
        await stage.shows("1 turn, 3 checkpoints")
        await stage.press(key)
        await stage.shows("Go on?", LIES)
        await stage.press("escape")

    run_picker(root, home, story)
    assert (root / "vendor/lib/lib.py").read_bytes() == b"edited\n"


def test_an_undo_in_the_picker_names_them_as_the_command_does(nested, casrewind, root, home):
    outer, inner = nested
    turn(outer, "outer", {"vendor/lib/lib.py": b"edited\n"})
    casrewind("restore", "@1", "-y", code=0)
    turn(inner, "inner", {}, OTHER)
    assert LIES in casrewind("undo", "-n", code=0).out

    async def story(stage):
        await stage.shows("1 turn, ")
        await stage.press("u")
        await stage.shows("Undo the restore to", "Go on?", LIES)
        await stage.press("escape")

    run_picker(root, home, story)
    assert (root / "vendor/lib/lib.py").read_bytes() == b"lib\n"
