"""A session that another machine recorded, written where its client looks for it here: the same id, the same bytes, over nothing."""

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from casrewind import agents, errors
from casrewind.agents import codex, session_files
from casrewind.agents.carried_lines import carried
from casrewind.model import cursor as cursors
from casrewind.history import conversation
from casrewind.change import rewind
from casrewind.upkeep import conversation_rest
from support import known_clients
from support.command import Command
from support.other_machine import bring, context_of, take_away
from support.recorded_session import NAMES, RECORDED, Session, rows
from support.trees import plant

STORED = [agent for agent in RECORDED if agent != "opencode"]
"""Clients whose sessions are files."""


@pytest.fixture
def here(tmp_path):
    """Another home, and a project at another path."""
    root, home = tmp_path / "b" / "My_shop", tmp_path / "b" / "home"
    for place in (root, home):
        place.mkdir(parents=True)
    return Command(root, home)


@pytest.fixture
def sent(tmp_path):
    """What a machine sent of a recorded session of a client. The machine is gone. With `late`, the client wrote all but the
    first line after its hooks, and the rest was stored before it was sent."""

    def make(agent, *, late=False):
        root, home = tmp_path / "a" / "work", tmp_path / "a" / "home"
        for place in (root, home):
            place.mkdir(parents=True)
        there = Command(root, home)
        session = Session(agent, there, root)
        session.write(rows(agent))
        plant(root, {"f": b"1"})
        there("save", code=0)
        asked = session.client.prompts(session.read())[-1]
        session.write(rows(agent)[:1] if late else rows(agent))
        turn = {"turn_id": asked.message_id} if agent == "opencode" else {}
        session.event("prompt", prompt=asked.text, **turn)
        session.event("turn_end", **turn)
        session.write(rows(agent))
        if late:
            with context_of(there) as context:
                assert conversation_rest.store_rest(context, transcripts=False) is None
                point = conversation_rest.store_rest(context, transcripts=True)
                assert point is not None and conversation_rest.store_rest(context, transcripts=True) is None
        data = session.read()
        store = take_away(there, tmp_path / "sent")
        shutil.rmtree(tmp_path / "a")
        return SimpleNamespace(id=session.id, data=data, store=store, client=session.client)

    return make


def two_files(there):
    """A session of Codex that was rewound in the client, in a new project: it goes on in another file. And {name: bytes} of both."""
    for place in (there.root, there.home):
        os.mkdir(place)
    session = Session("codex", there, Path(there.root))
    there("save", code=0)
    first = session.path
    for session.path in (first, first.with_name(f"{first.stem}_01a1fb4c-41d9.jsonl")):
        session.write(rows("codex")[: 20 if session.path == first else None])
        session.event("prompt")
        session.event("turn_end")
    return session, {path.name: path.read_bytes() for path in session.files()}


def expected_place(agent, session, here):
    """Where the client looks for a session with the name of the recorded one."""
    pattern = known_clients.place(agent, session, here.root)
    name = os.path.basename(NAMES[agent]).format(session=session, short=session[:8])
    path = os.path.join(here.home, os.path.dirname(pattern), name)
    assert re.fullmatch(pattern, os.path.relpath(path, here.home)), (pattern, path)
    return path


def hand_over(here, point):
    with context_of(here) as context:
        return rewind.take_over_conversation(context, context.store.checkpoint(point.id))


def travelling(client, data):
    """The lines of a session that a fork carries: tests/agents/test_carried_lines.py tells which."""
    return carried(data, client.carried_lines())


def to_checkpoint(here, point):
    with context_of(here) as context:
        return rewind.prepare_rewind(context, context.store.checkpoint(point.id)).carry_out()


@pytest.mark.parametrize("agent", STORED)
def test_the_session_is_written_where_the_client_looks_for_it(agent, sent, here):
    there = sent(agent)
    point = bring(there.store, here)[-1]
    umask = os.umask(0)
    try:
        chat = hand_over(here, point)
    finally:
        os.umask(umask)
    known = known_clients.CONVERSATIONS[agent]
    assert (chat.session, chat.mode, chat.resume) == (there.id, "handed_over", (known.resume_there or known.resume).format(there.id))
    assert chat.path == expected_place(agent, there.id, here)
    assert os.stat(chat.path).st_mode & 0o7777 == 0o600 and os.stat(os.path.dirname(chat.path)).st_mode & 0o7777 == 0o700
    says_root = known_clients.CONVERSATIONS[agent].says_root
    head, _, rest = Path(chat.path).read_bytes().partition(b"\n")
    old, _, wanted = travelling(there.client, there.data).partition(b"\n")
    assert rest == wanted and json.loads(head) == {**json.loads(old), **({"cwd": os.path.realpath(here.root)} if says_root else {})}
    assert says_root or head == old


@pytest.mark.parametrize("agent", STORED)
def test_it_can_be_gone_back_in_from_there(agent, sent, here):
    there = sent(agent)
    point = bring(there.store, here)[-1]
    path = hand_over(here, point).path
    report = here.json("restore", point.id, "--chat")
    assert report["fork"]["mode"] == "fork" and os.path.commonpath([report["fork"]["path"], path]) != "/"
    client, kept = there.client, Path(report["fork"]["path"]).read_bytes()
    assert [one.text for one in client.prompts(kept)] == [one.text for one in client.prompts(there.data)]
    assert report["notes"] == [], "the live file is read"


def test_copilot_s_directory_names_the_project(sent, here):
    there = sent("copilot")
    chat = hand_over(here, bring(there.store, here)[-1])
    about = Path(chat.path).with_name("workspace.yaml").read_text().splitlines()
    assert about[:2] == [f"id: {there.id}", f'cwd: "{os.path.realpath(here.root)}"'] and "Fork" not in about[2]


def test_gemini_finds_the_directory_by_the_root_in_it(sent, here):
    there = sent("gemini")
    plant(Path(here.home), {".gemini/tmp/my-shop/.project_root": b"/somewhere/else/My_shop"})
    point = bring(there.store, here)[-1]
    for place in (chat := hand_over(here, point)).path, hand_over(here, point).path:
        directory = Path(place).parent.parent
        assert directory.name == "my-shop-1" and (directory / ".project_root").read_text() == os.path.realpath(here.root)
    assert chat.session == there.id


@pytest.mark.parametrize("agent", STORED)
@pytest.mark.parametrize("machine", ["", "sandbox-4"])
def test_a_session_that_is_there_stays_and_a_fork_is_made(agent, machine, sent, here):
    """Also one that goes on elsewhere: of another machine's conversation what was stored counts."""
    there = sent(agent)
    point = bring(there.store, here, machine=machine)[-1]
    again = (lambda: hand_over(here, point)) if not machine else lambda: to_checkpoint(here, point).chat
    first = again()
    assert (first.session, first.path) == (there.id, expected_place(agent, there.id, here))
    before = Path(first.path).read_bytes()
    if machine:
        before = b'{"type":"other"}\n'
        Path(first.path).write_bytes(before)
    second = again()
    assert second.mode == "fork" and second.session not in (there.id, "") and second.path != first.path
    assert Path(first.path).read_bytes() == before
    client = there.client
    assert [one.text for one in client.prompts(Path(second.path).read_bytes())] == [one.text for one in client.prompts(there.data)]


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_nothing_else_is_written_over_either(kind, sent, here):
    there = sent("claude")
    point = bring(there.store, here)[-1]
    path = expected_place("claude", there.id, here)
    os.makedirs(os.path.dirname(path))
    if kind == "link":
        os.symlink(os.path.join(here.home, "settings.json"), path)
    else:
        os.mkdir(path)
    with pytest.raises(errors.AgentError, match="refused"):
        hand_over(here, point)
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)] and not os.path.exists(os.path.join(here.home, "settings.json"))


def test_a_session_in_two_files_has_both(here, tmp_path):
    """The second one refers to the first one."""
    there = Command(tmp_path / "a", tmp_path / "home")
    session, wanted = two_files(there)
    chat = hand_over(here, bring(take_away(there, tmp_path / "sent"), here)[-1])
    assert os.path.basename(chat.path) == session.path.name
    wanted = {name: travelling(codex.CLIENT, data) for name, data in wanted.items()}
    assert {path.name: path.read_bytes() for path in Path(chat.path).parent.iterdir()} == wanted and len(wanted) == 2


def test_opencode_itself_has_to_write_its_session(sent, here):
    there = sent("opencode", late=True)
    point = bring(there.store, here)[-1]
    assert point.transcript is not None
    here.environment["PATH"] = "/nowhere"
    with pytest.raises(errors.AgentError, match="opencode is not on the PATH"):
        hand_over(here, point)


def test_a_checkpoint_without_a_conversation_means_the_last_one_before_it(sent, here):
    there = sent("claude")
    bring(there.store, here)
    here("save", code=0)
    with context_of(here) as context:
        point, _ = context.store.checkpoints(1)[0]
    assert not point.session and hand_over(here, point).session == there.id


@pytest.mark.parametrize("agent", STORED)
def test_what_the_client_wrote_after_its_last_hook_goes_along(agent, sent, here):
    there = sent(agent, late=True)
    chat = hand_over(here, bring(there.store, here)[-1])
    client = there.client
    assert [one.text for one in client.prompts(Path(chat.path).read_bytes())] == [one.text for one in client.prompts(there.data)]
    assert Path(chat.path).read_bytes().partition(b"\n")[2] == travelling(client, there.data).partition(b"\n")[2]


@pytest.mark.parametrize("change", ["another prompt", "a running turn", "nothing new", "gone", "a link"])
def test_the_rest_is_only_that_of_the_last_turn(change, here, tmp_path):
    session = Session("claude", here, Path(here.root))
    session.write(rows("claude"))
    asked = session.client.prompts(session.read())[-1].text
    session.write(rows("claude") if change == "nothing new" else rows("claude")[:20])
    here("save", code=0)
    session.event("prompt", prompt="something else" if change == "another prompt" else asked)
    if change != "a running turn":
        session.event("turn_end")
    session.write(rows("claude"))
    if change in ("gone", "a link"):
        kept = session.path.rename(tmp_path / "kept.jsonl")
        if change == "a link":
            session.path.symlink_to(kept)
    with context_of(here) as context:
        assert conversation_rest.store_rest(context, transcripts=True) is None


def test_the_rest_of_a_turn_changes_no_row_of_the_list(here):
    session = Session("claude", here, Path(here.root))
    session.write(rows("claude"))
    asked = session.client.prompts(session.read())[-1].text
    session.write(rows("claude")[:20])
    here("save", code=0)
    session.event("prompt", prompt=asked)
    plant(Path(here.root), {"f": b"1"})
    session.event("turn_end")
    before = here.json("list")
    session.write(rows("claude"))
    with context_of(here) as context:
        point = conversation_rest.store_rest(context, transcripts=True)
    after = here.json("list")
    for listed in (before, after):
        for row in (*listed["turns"], *listed["rows"]):
            for name in ("age_s", "checkpoints", "after"):
                row.pop(name, None)
    assert after["turns"] == before["turns"] and after["rows"] == before["rows"]
    assert point.id in str(here.json("list", "--all")["checkpoints"]) and here.json("verify")["ok"]


@pytest.mark.parametrize("conversations", [True, False])
def test_a_clone_of_a_save_by_hand_has_the_conversation_before_it(conversations, here, tmp_path):
    """In both files of a session of Codex. A remote without conversations has none."""
    there, url, key = Command(tmp_path / "a", tmp_path / "home"), f"file://{tmp_path}/remote", {"CASREWIND_REMOTE_KEY": "crk1-" + "5a" * 32}
    session, wanted = two_files(there)
    plant(Path(there.root), {"f": b"by hand"})
    there("save", code=0)
    there("remote", "add", url, *([] if conversations else ["--no-conversations"]), code=0, **key)
    there("push", code=0)
    found = here.json("clone", url, str(tmp_path / "work"), **key)
    directory = session.path.relative_to(there.home).parent
    assert (tmp_path / "work" / "f").read_bytes() == b"by hand" and found["problems"] == []
    made, wanted = Path(here.home) / directory, {name: travelling(codex.CLIENT, data) for name, data in wanted.items()}
    assert found["resume"] == (f"codex resume -C . {session.id}" if conversations else None)
    assert ({path.name: path.read_bytes() for path in made.iterdir()} if made.exists() else {}) == (wanted if conversations else {})


def test_a_conversation_that_no_checkpoint_stored_is_named(sent, here):
    """OpenCode keeps its sessions in a database, which hooks do not read."""
    there = sent("opencode")
    point = bring(there.store, here)[-1]
    with pytest.raises(errors.AgentError, match="none of its bytes were stored"):
        hand_over(here, point)


def test_no_cursor_leads_out_of_the_directory_of_sessions(sent, here, tmp_path):
    point = next(p for p in bring(sent("claude").store, here) if p.cursor)
    odd = ["", "/", "..", "/a/../..", "a/..", "rollout-../../../x.jsonl", "rollout-a-b-c.jsonl", "rollout-", "/a\n/b.jsonl", "x" * 5000]
    homes = session_files.Homes(here.home, {})
    for agent in STORED + ["opencode", "cursor", "unheard-of"]:
        for name in odd:
            for session in (point.session, "../../x", "/x", ""):
                cursor = cursors.Cursor(agent=agent, session=session, transcript=os.fsencode(name))
                found = conversation.with_transcript_path_here(point._replace(agent=agent, session=session, cursor=cursors.encode(cursor)), here.root, homes)
                path = os.fsdecode(cursors.decode(found.cursor).transcript)
                if agent in STORED:
                    client = agents.load_conversation_client(agent)
                    try:
                        session_files.refuse_unsafe_transcript_path(client, path, session, homes)
                    except errors.AgentError:
                        continue
                    assert os.path.realpath(path).startswith(client.usual_sessions_directory(here.home, {}) + "/")
                else:
                    assert agent == "opencode" or path == name


def test_a_directory_of_sessions_that_a_variable_names_is_used(sent, here, tmp_path):
    there = sent("pi")
    moved = str(tmp_path / "moved")
    point = bring(there.store, here)[-1]
    root = os.path.realpath(here.root)
    for variables, wanted in (
        ({"PI_CODING_AGENT_SESSION_DIR": moved}, moved),
        ({"PI_CODING_AGENT_DIR": moved}, f"{moved}/sessions/-{root.replace('/', '-')}--"),
    ):
        found = conversation.with_transcript_path_here(point, root, session_files.Homes(here.home, variables))
        assert os.path.dirname(os.fsdecode(cursors.decode(found.cursor).transcript)) == wanted
