"""What a hook shows to the person at the client: a line at session start, and a warning after a turn that removed many files."""

import contextlib
import json
import os
import shutil

import pytest

from casrewind import errors
from casrewind.workspace import Workspace
from support import forked_command
from support.fake_client import Client
from support.trees import plant

HERE = {"CLAUDE_PID": str(os.getpid())}


@pytest.fixture
def client(casrewind, root):
    plant(root, {"f": b"1", **{f"many/{number}": b"%d" % number for number in range(30)}})
    casrewind("save", code=0)
    found = Client(casrewind, root)
    found.send(found.payload("SessionStart.startup", session_id="s"))
    return found


def told(client, name, **variables):
    """What the client shows after an event; None for nothing."""
    turn = {} if name.startswith("SessionStart") else {"prompt_id": "p1", "prompt": "clean up"}
    code, out, err = client.call(client.payload(name, session_id="s", **turn), **{**HERE, **variables})
    assert (code, err) == (0, b"")
    found = json.loads(out) if out else {}
    assert set(found) <= {"systemMessage"}
    return found.get("systemMessage")


def test_a_session_starts_with_a_line_about_the_checkpoints(client):
    assert told(client, "SessionStart.startup").startswith("casrewind: 2 checkpoints, newest ")
    told(client, "UserPromptSubmit.prompt")
    assert "newest turn " in told(client, "SessionStart.resume")
    assert told(client, "SessionStart.resume", CASREWIND_SESSION_LINE="no") is None


def test_a_first_session_has_no_checkpoint_yet(casrewind, root):
    plant(root, {"f": b"1"})
    client = Client(casrewind, root)
    assert told(client, "SessionStart.startup") == "casrewind: from now on this project is saved at every prompt"
    client.wait_for(1)


@pytest.mark.parametrize("shell", ["SessionStart.startup", "Stop.plain"])
def test_a_script_that_calls_the_hook_gets_nothing(client, root, shell):
    client.send(client.payload("UserPromptSubmit.prompt", session_id="s", prompt_id="p1"))
    shutil.rmtree(root / "many")
    client.send(client.payload(shell, session_id="s", prompt_id="p1"))


def test_a_turn_that_removed_many_files_ends_with_a_warning(client, root):
    assert told(client, "UserPromptSubmit.prompt") is None
    shutil.rmtree(root / "many")
    shown = told(client, "Stop.plain")
    assert shown.startswith("casrewind: this turn removed 30 files (many/0, many/1 and 28 more)") and "/casrewind back 1" in shown


def test_what_a_turn_only_ignores_is_not_removed(client, root):
    assert told(client, "UserPromptSubmit.prompt") is None
    plant(root, {".gitignore": b"many/\n"})
    assert told(client, "Stop.plain") is None


def test_what_a_turn_ignores_and_removes_is_removed(client, root):
    assert told(client, "UserPromptSubmit.prompt") is None
    plant(root, {".gitignore": b"many/\n"})
    shutil.rmtree(root / "many")
    assert "this turn removed 30 files" in told(client, "Stop.plain")


def test_the_first_turn_of_a_session_without_a_checkpoint_at_its_start_is_a_turn(client, root):
    """Clients without such an event, and sessions that were running when the hooks were installed."""
    named = {"session_id": "later", "prompt_id": "p7"}
    client.send(client.payload("UserPromptSubmit.prompt", prompt="remove the many", **named), **HERE)
    shutil.rmtree(root / "many")
    code, out, _ = client.call(client.payload("Stop.plain", **named), **HERE)
    assert code == 0 and "this turn removed 30 files" in json.loads(out)["systemMessage"]
    end, before = client.points()[:2]
    assert (end["turn"], end["prompt"], before["turn"]) == (before["id"], "remove the many", before["id"])


def interrupt_a_restore(root, settings):
    """Leave a restore that stopped after some of its changes, as after a kill."""
    stopped = []

    def stop(what, done, total):
        if what == "restoring" and done == 45:
            stopped.append(done)
            raise InterruptedError

    with Workspace(str(root), settings, create=False) as workspace:
        point, _ = workspace.checkpoints()[0]
    shutil.rmtree(root / "many")
    plant(root, {f"new/{number}": b"%d" % number for number in range(30)})
    with Workspace(str(root), settings, create=False, progress=stop) as workspace:
        with contextlib.suppress(errors.WorkspaceError, InterruptedError):
            workspace.restore(workspace.checkpoint(point.id))
        assert stopped and workspace.is_interrupted()


def test_a_prompt_on_half_restored_files_says_so_to_the_person_at_each_prompt(client, casrewind, root, settings):
    interrupt_a_restore(root, settings)
    shown = told(client, "UserPromptSubmit.prompt")
    assert shown.startswith("casrewind: a restore was interrupted here, and this turn works on half-restored files")
    assert "/casrewind restore --continue finishes it, /casrewind restore --abort takes it back" in shown
    assert told(client, "UserPromptSubmit.prompt") == shown
    client.typed("/casrewind restore --abort", variables=HERE)
    assert len(os.listdir(root / "new")) == 30 and not (root / "many").exists()
    assert told(client, "UserPromptSubmit.prompt") is None


def test_the_person_and_the_model_are_told_in_one_answer(client, casrewind, root, settings):
    """A restore was finished since the session's last prompt, and another one is half done."""
    told(client, "UserPromptSubmit.prompt")
    plant(root, {"f": b"2"})
    casrewind("restore", "last", "-y", code=0)
    interrupt_a_restore(root, settings)
    payload = client.payload("UserPromptSubmit.prompt", session_id="s", prompt_id="p2", prompt="go on")
    code, out, _ = client.call(payload, **HERE)
    found = json.loads(out)
    assert code == 0 and "half-restored" in found["systemMessage"]
    assert "the user restored files" in found["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize(("most", "warned"), [("30", False), ("29", True), ("0", False)])
def test_how_many_is_a_setting(client, root, most, warned):
    told(client, "UserPromptSubmit.prompt")
    shutil.rmtree(root / "many")
    assert (told(client, "Stop.plain", CASREWIND_WARN_REMOVED=most) is not None) == warned


def test_files_that_moved_are_not_removed(client, root):
    told(client, "UserPromptSubmit.prompt")
    os.rename(root / "many", root / "elsewhere")
    assert told(client, "Stop.plain") is None


def test_what_a_person_removed_before_the_turn_is_not_the_turns(client, root):
    shutil.rmtree(root / "many")
    told(client, "UserPromptSubmit.prompt")
    assert told(client, "Stop.plain") is None


def test_with_aggressive_the_whole_turn_counts(client, root):
    told(client, "UserPromptSubmit.prompt")
    shutil.rmtree(root / "many")
    told(client, "PreToolUse.Write")
    assert "removed 30 files" in told(client, "Stop.plain")


# -- the status line


def statusline(casrewind, told=b"", directory=None):
    words = [*(["-C", directory] if directory else []), "statusline"]
    code, out, err = forked_command.call(words, casrewind.environment, stdin=told, timeout=60, cwd="/")
    assert (code, err) == (0, b"") and out.count(b"\n") == 1
    return out.decode().rstrip("\n")


def test_the_status_line_is_about_the_project_that_the_client_names(client, root, casrewind, tmp_path):
    said = json.dumps({"workspace": {"project_dir": str(root)}, "cwd": "/"}).encode()
    assert statusline(casrewind, said).startswith("casrewind: 2 checkpoints, newest ")
    told(client, "UserPromptSubmit.prompt")
    assert statusline(casrewind, json.dumps({"cwd": str(root)}).encode()).startswith("casrewind: 3 checkpoints, newest turn ")
    assert statusline(casrewind, b"", str(root)).startswith("casrewind: 3 checkpoints")


@pytest.mark.parametrize("said", [b"{", b"[]", b'"x"', b'{"workspace": 3}', b'{"cwd": "relative"}', b'{"cwd": 3}', b"\xff" * 100])
def test_the_status_line_of_what_no_client_writes(casrewind, tmp_path, said):
    other = tmp_path / "other"
    other.mkdir()
    assert statusline(casrewind, said, str(other)) == "casrewind: no checkpoint yet"


def test_the_status_line_says_what_is_wrong(client, root, casrewind):
    store = casrewind.json("status")["store"]
    (root / "f").unlink()
    shutil.rmtree(root / "many")
    casrewind("save", code=0)
    assert "NOT PROTECTED: the newest checkpoint holds no file" in statusline(casrewind, b"", str(root))
    with open(os.path.join(store, "FORMAT"), "w") as file:
        file.write("nonsense")
    assert statusline(casrewind, b"", str(root)).startswith("casrewind: NOT PROTECTED: ")




def test_the_first_line_names_what_is_not_protected_and_each_name_once(casrewind, root):
    plant(root, {".git/HEAD": b"x", ".gitignore": b".env*\ndata/\nnode_modules/\n*.pyc\n", "f": b"1", ".env": b"KEY=1", "data/a": b"1" * 50,
                 "node_modules/m/i.js": b"1", "m.pyc": b"1"})  # fmt: skip
    client = Client(casrewind, root)
    assert told(client, "SessionStart.startup") == (
        "casrewind: from now on this project is saved at every prompt; "
        "left out, because git ignores them: .env, data/ (in a terminal, casrewind include .env protects the first)"
    )
    client.wait_for(1)
    assert "not protected" not in told(client, "SessionStart.startup")
    plant(root, {"sub/.env.local": b"KEY=2"})
    told(client, "UserPromptSubmit.prompt")  # its save sees the new directory
    assert told(client, "SessionStart.resume").endswith("; left out, because git ignores it: sub/.env.local (in a terminal, casrewind include sub/.env.local protects it)")
    assert "not protected" not in told(client, "SessionStart.resume")
    (root / ".env").unlink()
    assert "gone, and was not protected: .env, last seen" in casrewind("status", code=0).out


def test_a_long_list_of_unprotected_names_is_cut(casrewind, root):
    plant(root, {".git/HEAD": b"x", ".gitignore": b"*.db\n", **{f"d{number} x.db": b"1" * number for number in range(1, 7)}})
    shown = told(Client(casrewind, root), "SessionStart.startup")
    assert shown.endswith("; left out, because git ignores them: d1 x.db, d2 x.db, d3 x.db and 3 more (in a terminal, casrewind include 'd1 x.db' protects the first)")


def test_with_the_session_line_turned_off_nothing_is_named_and_nothing_counts_as_named(casrewind, root):
    plant(root, {".git/HEAD": b"x", ".gitignore": b".env\n", ".env": b"KEY=1"})
    client = Client(casrewind, root)
    assert told(client, "SessionStart.startup", CASREWIND_SESSION_LINE="no") is None
    client.wait_for(1)
    casrewind("status", code=0)  # names it, too, but nobody has to read that
    assert "because git ignores it: .env" in told(client, "SessionStart.startup")
