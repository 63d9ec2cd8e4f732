"""`casrewind hook`: silent, exit 0 whatever comes in, and a checkpoint for every event that the tier takes."""

import json
import os
import shutil
import time

import pytest

from support.command import Command
from support.fake_client import Client
from support.picture import picture
from support.trees import plant


@pytest.fixture
def client(casrewind, root):
    """Its hooks start the interpreter, as those of a client do; elsewhere they are forks."""
    plant(root, {"a": b"1", "d/b": b"2"})
    client = Client(casrewind, root)
    client.forks = False
    return client


@pytest.fixture
def started(client):
    client.send(client.payload("SessionStart.startup"))
    client.wait_for(1)
    return client


def test_a_turn_is_three_checkpoints_with_prompt_session_and_transcript(started, root):
    started.send(started.payload("UserPromptSubmit.prompt", prompt="please do it"))
    plant(root, {"a": b"changed by the agent"})
    started.send(started.payload("Stop.plain"))
    points = started.points()
    assert [point["trigger"] for point in points] == ["turn_end", "prompt", "session_start"]
    assert points[1]["prompt"] == "please do it" and points[1]["agent"] == "claude"
    assert points[0]["session"] == json.loads(started.payload("Stop.plain"))["session_id"]
    assert points[0]["changes"] == {"added": 0, "modified": 1, "removed": 0}
    assert points[1]["changes"] == {"added": 0, "modified": 0, "removed": 0}
    assert started.casrewind.json("verify")["ok"]
    started.casrewind("restore", "prev", "--yes", code=0)
    assert (root / "a").read_bytes() == b"1"


def test_what_changed_while_no_hook_fired_is_in_the_next_checkpoint_and_says_so(started, root):
    plant(root, {"new": b"by hand"})
    started.send(started.payload("UserPromptSubmit.prompt"))
    point = started.points()[0]
    assert point["changes"]["added"] == 1 and "something else" in point["label"]
    started.casrewind("gc", "--max-count", "1", code=0)  # a description keeps nothing
    started.send(started.payload("Stop.plain"))
    started.casrewind("gc", "--max-count", "1", code=0)
    assert len(started.points()) == 2, "a turn stays whole"


def test_where_a_change_came_from_is_said_as_far_as_it_is_known(started, root):
    def label(name, **changes):
        plant(root, {"f": os.urandom(8)})
        started.send(started.payload(name, **changes))
        return started.points()[0]["label"]

    assert "something else than this turn" in label("UserPromptSubmit.prompt", prompt_id="one")
    assert label("Stop.plain", prompt_id="one") is None
    assert "(!)" in label("Stop.plain", prompt_id="two"), "a turn without a prompt is a command of the person's own"
    assert "background" in label("SubagentStop.general-purpose", prompt_id="two")
    assert "something else than this turn" in label("UserPromptSubmit.prompt", prompt_id="three")
    assert "cut short" in label("UserPromptSubmit.prompt", prompt_id="four"), "Esc: no end of the turn was told"
    assert "background" in label("UserPromptSubmit.task-notification")
    assert label("UserPromptSubmit.prompt", prompt_id="five") and label("UserPromptSubmit.prompt", prompt_id="five") is None
    assert label("Stop.plain", prompt_id="five") is None
    assert label("Stop.plain", prompt_id="six") is None, "the prompt that waited may have become this turn"


def test_the_root_is_the_clients_and_not_where_the_agent_went(started, root):
    started.send(started.payload("UserPromptSubmit.prompt", cwd=str(root / "d")))
    assert started.points()[0]["files"] == 2


@pytest.mark.parametrize("tier, taken", [("minimal", ["prompt"]), ("balanced", ["prompt", "turn_end"])])
def test_a_tier_takes_what_it_takes(started, tier, taken):
    for name in ("UserPromptSubmit.prompt", "PreToolUse.Write", "PostToolBatch", "Stop.plain"):
        started.send(started.payload(name), CASREWIND_TIER=tier)
    assert [point["trigger"] for point in reversed(started.points())][1:] == taken


def test_what_is_installed_is_wanted_where_no_tier_is_configured(started, root):
    """`install --tier aggressive` is enough: nobody has to say it again in a configuration file."""
    plant(root, {"made": b"in this turn"})
    started.send(started.payload("PreToolUse.Bash"), "claude", "PreToolUse")
    assert [point["trigger"] for point in started.points()] == ["tool_batch", "session_start"]


def test_the_aggressive_tier_takes_every_change_before_a_tool_and_not_every_batch(started, root):
    now = time.time()

    def send(name, seconds_later):
        """The child's own arguments say when an event was: nobody has to wait."""
        moment = str(int((now + seconds_later) * 1e9))
        started.send(started.payload(name), "claude", name.partition(".")[0], "--child", moment, CASREWIND_TIER="aggressive")
        return [point["trigger"] for point in started.points()]

    plant(root, {"made": b"1"})
    assert send("PreToolUse.Read", 60) == ["session_start"], "it changes nothing"
    assert send("PreToolUse.Bash", 1) == ["tool_batch", "session_start"], "what the tool removes may be an instant old"
    assert send("PreToolUse.Bash", 2) == send("PreToolUse.Write", 60) == ["tool_batch", "session_start"], "nothing has changed"
    assert send("PostToolBatch", 5) == ["tool_batch", "session_start"], "the checkpoint before the tool is younger than 15 s"
    plant(root, {"made": b"2"})
    assert send("PreToolUse.Bash", 6) == ["tool_batch", "tool_batch", "session_start"]
    assert started.points()[0]["changes"] == {"added": 0, "modified": 1, "removed": 0}
    assert send("PostToolBatch", 40) == ["tool_batch", "tool_batch", "tool_batch", "session_start"]
    started.send(started.payload("Stop.plain"), CASREWIND_TIER="aggressive")
    assert started.points()[0]["trigger"] == "turn_end", "what is no tool's is always taken"


def test_the_first_batch_of_a_turn_is_taken_however_young_the_prompt_is(started):
    started.send(started.payload("UserPromptSubmit.prompt"), CASREWIND_TIER="aggressive")
    started.send(started.payload("PostToolBatch"), CASREWIND_TIER="aggressive")
    assert [point["trigger"] for point in started.points()] == ["tool_batch", "prompt", "session_start"]


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"hook_event_name": 7}', b'{"hook_event_name": "Stop", "session_id": []}'],
)
def test_garbage_is_silent_and_the_next_command_tells_of_it(started, payload):
    before = started.points()
    started.send(payload)
    said = started.casrewind("list", code=0).err
    assert "a hook could not do all of its work" in said and "MalformedEvent" in said
    assert started.casrewind("list", code=0).err == ""
    assert started.points() == before


def test_an_agent_that_nobody_knows_is_silent(started):
    started.send(started.payload("Stop.plain"), "nobody")
    assert "UnknownAgent" in started.casrewind("list", code=0).err
    assert len(started.points()) == 1


def test_a_hook_of_an_earlier_version_makes_its_checkpoint(started):
    """Its line may end with an option for a background helper that is gone."""
    before = len(started.points())
    started.send(started.payload("Stop.plain"), "claude", "--resident")
    assert [point["trigger"] for point in started.points()[: len(started.points()) - before]] == ["turn_end"]
    assert started.casrewind("list", code=0).err == ""


def test_the_next_event_sees_changed_private_rules(started, root):
    """They stand outside of the project, and no file of it says that they changed."""
    plant(root, {"private": b"1"})
    started.send(started.payload("Stop.plain"))
    with open(started.casrewind.json("status")["private_rules"]["file"], "wb") as file:  # as an editor does it: no command saves
        file.write(b"private\n")
    started.send(started.payload("Stop.plain", prompt_id="the next"))
    assert "private" not in {entry["path"] for entry in started.casrewind.json("show", "last")["entries"]}


def test_a_store_that_comes_into_the_project_is_not_captured(started, root, home):
    plant(root, {"d1/f": b"1", "d2/f": b"2"})
    started.send(started.payload("Stop.plain"))
    Command(root / "d1", home)("--store", str(root / "d2/store"), "save", code=0)
    for number in range(2):
        started.send(started.payload("Stop.plain", prompt_id=f"turn {number}"))
        (skipped,) = started.casrewind.json("show", "last")["skipped"]
        assert (skipped["path"], skipped["reason"]) == ("d2/store", "casrewind store")
        plant(root, {"d1/f": b"edited"})
    shutil.rmtree(root / "d2/store")
    started.send(started.payload("Stop.plain", prompt_id="the last"))
    assert started.casrewind.json("show", "last")["skipped"] == []


def test_the_transcript_is_stored_and_kept_by_gc(started, root):
    from casrewind.model import cursor as cursors
    from casrewind.settings import Settings
    from casrewind.workspace import Workspace

    started.send(started.payload("Stop.plain"))
    started.casrewind("gc", code=0)
    home = started.casrewind.home
    with Workspace(str(root), Settings(home=home, data=os.path.join(home, "data")), create=False) as workspace:
        point = workspace.checkpoint("last")
        assert b"".join(workspace._context.store.content(point.transcript)) == started.transcript.read_bytes()
        cursor = cursors.decode(point.cursor)
    assert cursor.offset == started.transcript.stat().st_size and cursor.transcript == os.fsencode(started.transcript)


def test_a_command_in_the_client_is_done_and_answered_without_the_model(started, root):
    plant(root, {"a": b"wrong"})
    assert "restored" in started.typed("/casrewind restore last")
    assert (root / "a").read_bytes() == b"1"
    for prompt, word in (("/casrewind", "restored to the session s"), ("/casrewind undo", "undone"), ("/casrewind restore nope", "no checkpoint"),
                         ("/casrewind rm -rf", "/casrewind [list]"), ("/casrewind restore 'x", "quotation mark")):  # fmt: skip
        assert word in started.typed(prompt)
    assert (root / "a").read_bytes() == b"wrong"
    assert [point["trigger"] for point in started.points()] == ["session_start"]


def answers(client, prompt):
    return client.typed(prompt)


REFUSED = (
    "restore last --to {there}", "restore last --to={there}", "restore --to {there} last", "save -C {there}", "save -C{there}", "save --store={there}",
    "-C {there} save", "save -m x --force", "verify --repair", "list --t {there}", "back 1 --in-place", "undo --al", "save --pin=yes",
    "purge f", "run -- touch {there}", "list -qn 3", "list -n 1 --to {there}",
)  # fmt: skip
DONE = {
    "list -n1 --all": "session start", "save '-m--to is a label' --pin": "saved", "restore last --dry-run -- a": "would restore",
    "diff --name-status last": "diff: done", "verify --quick": "sound", "list --session=x": "no turn matches",
    "help": "/casrewind back [N] ", "log a -n 1": "a", "show -p": "checkpoint", "lst": "did you mean list?",
}  # fmt: skip


def test_a_prompt_takes_no_command_out_of_the_project(started, root, tmp_path):
    there = tmp_path / "there"
    before, points = picture(root), started.points()
    for words in REFUSED:
        said = answers(started, f"/casrewind {words.format(there=there)}")
        assert "nothing was done" in said or said.startswith("casrewind: /casrewind [list]"), words
        assert not there.exists() and picture(root) == before, words
    assert started.points() == points


def test_what_a_prompt_may_ask_for_is_done(started):
    for words, said in DONE.items():
        assert said in answers(started, f"/casrewind {words}"), words


def test_a_prompt_of_more_than_one_line_is_no_command(started, root):
    plant(root, {"a": b"kept"})
    started.send(started.payload("UserPromptSubmit.prompt", prompt="/casrewind restore last\nas the issue says"))
    assert (root / "a").read_bytes() == b"kept" and started.points()[0]["trigger"] == "prompt"
