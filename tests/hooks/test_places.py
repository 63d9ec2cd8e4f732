"""A conversation is written only where its client keeps conversations, whatever a checkpoint or an event names."""

import os
from pathlib import Path

import pytest

from casrewind.model import cursor as cursors
from casrewind.settings import Settings
from casrewind.store.agent_sessions import AgentSession
from support.fake_client import Client
from support.handmade_checkpoints import Forger
from casrewind.workspace import Workspace

MINE = b"export MINE=1\n"
COMMANDS = [
    ("back", "1", "--chat"), ("back", "1", "--chat", "--in-place", "--yes"), ("back", "1", "--both", "--yes"), ("restore", "last", "--chat"),
    ("jump", "last", "--yes"), ("restore", "last", "--both", "--yes"),
]  # fmt: skip


def session_of(client):
    return client.transcript.stem


@pytest.fixture
def forged(ended, casrewind, root):
    """A store whose checkpoints name `path` as the transcript, as somebody else could have written it."""
    client, prompts, _ = ended

    def name(path):
        settings = Settings(home=casrewind.home, data=os.path.join(casrewind.home, "data"))
        with Workspace(str(root), settings, create=False) as workspace:
            points = [point for point, _ in workspace.checkpoints()]
            at = next(point for point in points if point.trigger == "prompt" and point.prompt == prompts[-1].text[:200])
            cursor = cursors.encode(cursors.decode(at.cursor)._replace(transcript=os.fsencode(path)))
            fields = {"agent": at.agent, "session": at.session, "trigger": at.trigger, "prompt": at.prompt}
            forger = Forger(workspace)
            forger.publish(at.tree, cursor=cursor, transcript=at.transcript, domain=at.domain, **fields)
            seen = workspace._context.store.sessions.find("claude", at.session)
            assert isinstance(seen, AgentSession)
            workspace._context.store.sessions.record(seen._replace(transcript=str(path)))

    return client, name


def rewrite(casrewind):
    return casrewind("rewrite-chat", "last", stdin=b"REWRITE\n")


def everything(place):
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path(place).rglob("*")}


FEW = COMMANDS[:2]


def test_nothing_is_written_where_no_transcript_can_be(forged, casrewind, root, tmp_path):
    client, name = forged
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / ".bashrc").write_bytes(MINE)
    right = f"{session_of(client)}.jsonl"
    (victim / right).write_bytes(MINE)
    projects = client.transcript.parent.parent
    (projects / "out").symlink_to(victim)
    (projects / "more").mkdir()
    (projects / "more" / right).symlink_to(victim / ".bashrc")
    before, files = everything(victim), everything(projects)
    for path, commands in (
        (victim / ".bashrc", COMMANDS),
        (victim / right, FEW),
        (victim / "new" / right, FEW),
        (projects / "out" / right, FEW),
        (projects / "x" / ".." / ".." / ".." / ".." / "victim" / right, FEW),
        (projects / "more" / right, FEW),
        (projects / right, FEW),
        (client.transcript.with_name("x.jsonl"), FEW),
        (right, FEW),
    ):
        name(path)
        for command in commands:
            refused = casrewind(*command, code=16)
            assert "nothing was written" in refused.err and refused.err.count("\n") == 1, (path, refused)
        if commands is COMMANDS:
            done = rewrite(casrewind)
            assert done.code == 16 and "nothing was written" in done.err
        assert everything(victim) == before and everything(projects) == files
    assert (root / "f").read_bytes() == b"wrecked", "no file of the project was touched either"


def test_in_place_what_is_there_has_to_be_that_session(ended, casrewind):
    client, _, _ = ended
    for data in (MINE, b'{"type":"user","sessionId":"another"}\n'):
        client.transcript.write_bytes(data)
        refused = casrewind("back", "1", "--chat", "--in-place", "--yes", code=16)
        assert "does not hold lines of that session" in refused.err
        assert client.transcript.read_bytes() == data
        assert [path.name for path in client.transcript.parent.iterdir()] == [client.transcript.name]


def test_the_question_names_the_file(ended, casrewind):
    client, _, _ = ended
    point = next(point for point in client.points() if point["trigger"] == "prompt")["id"]
    assert str(client.transcript) in casrewind("rewrite-chat", point, stdin=b"no\n", code=64).err


@pytest.mark.parametrize("how", ["linked home of the client", "linked sessions", "CLAUDE_CONFIG_DIR", "linked home"])
def test_a_client_s_files_may_be_elsewhere(ended, casrewind, tmp_path, how):
    client, prompts, _ = ended
    home = Path(casrewind.home)
    moved = {"linked sessions": home / ".claude" / "projects", "linked home": home}.get(how, home / ".claude")
    away = tmp_path / "another disk" / moved.name
    away.parent.mkdir()
    moved.rename(away)
    transcript = client.transcript
    if how == "CLAUDE_CONFIG_DIR":
        casrewind.environment["CLAUDE_CONFIG_DIR"] = str(away)
        transcript = away / client.transcript.relative_to(moved)
        client.send(client.payload("Stop.plain", session_id=session_of(client), transcript_path=str(transcript)))
        client.send(client.payload("SessionEnd.other", session_id=session_of(client), transcript_path=str(transcript)), CLAUDE_PID="99999999")
    else:
        moved.symlink_to(away)
    fork = casrewind.json("back", "1", "--chat")["fork"]
    assert Path(fork["path"]).parent == transcript.parent and Path(fork["path"]).exists()
    done = casrewind.json("back", "2", "--chat", "--in-place", "--yes", "--session", session_of(client))
    assert done["fork"]["mode"] == "in_place" and len(done["prompts"]) == 2
    assert transcript.stat().st_size < Path(done["fork"]["backup"]).stat().st_size


def test_a_path_that_cannot_be_a_transcript_is_not_kept(casrewind, root, tmp_path):
    client = Client(casrewind, root)
    casrewind("save", code=0)
    link, bashrc = client.transcript.with_name("l.jsonl"), Path(casrewind.home) / ".bashrc"
    for path in (bashrc, tmp_path / "o.jsonl"):
        path.write_bytes(MINE)
    link.symlink_to(bashrc)
    for path in (bashrc, tmp_path / "o.jsonl", tmp_path / "absent.jsonl", link):
        client.send(client.payload("Stop.plain", session_id="1-2", transcript_path=str(path)))
        settings = Settings(home=casrewind.home, data=os.path.join(casrewind.home, "data"))
        with Workspace(str(root), settings, create=False) as workspace:
            point = workspace.checkpoint("last")
        assert point.session == "1-2" and point.transcript is None
        assert cursors.decode(point.cursor).transcript == b""
