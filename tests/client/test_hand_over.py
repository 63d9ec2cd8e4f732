"""A conversation goes on in another home and at another path, in the real client: exactly the old turns, tools run there.

Home and project of the machine that worked first are removed before the second one begins.
"""

import os
import shutil
from types import SimpleNamespace

import pytest

from casrewind import agents
from casrewind.agents.codex import CLIENT as codex
from support import real_clients
from support.claude_client import wait
from support.codex_client import CodexClient, Server
from support.command_in_process import InProcess
from support.other_machine import context_of
from support.picture import differences, picture
from support.resumed_clients import Claude, Codex, Copilot, Droid, Gemini, Opencode, Pi
from support.sample_start import by_turns

pytestmark = [pytest.mark.xdist_group("client-hand-over"), pytest.mark.turns(2)]

KEY = "crk1-" + "5a" * 32


def add_remote(casrewind, url, machine):
    casrewind("remote", "add", url, "--machine", machine, code=0, CASREWIND_REMOTE_KEY=KEY)


def ids(casrewind):
    """{id: machine} of the checkpoints in a store."""
    with context_of(casrewind) as context:
        return {point.id: point.more.machine for point, _ in context.store.checkpoints()}


PERSONS = [Claude, *by_turns([Codex, Pi, Copilot, Gemini, Droid], 1), pytest.param(Opencode, marks=pytest.mark.long)]
"""OpenCode takes a minute and a half."""


@pytest.fixture(scope="module", params=PERSONS, ids=lambda kind: kind.__name__)
def told(request, tmp_path_factory):
    """Two turns at the first place, pushed; then the place is gone. At the second place it is cloned, the client resumed, gone back
    and on, and pushed. A third place pulls."""
    directory, elsewhere = tmp_path_factory.mktemp("o"), tmp_path_factory.mktemp("elsewhere")
    url = f"file://{directory}/remote"
    first = request.param(directory)
    first.install()
    first.client.model.script = {
        "note it": [[first.call("echo one > note.txt")], ["Noted."]], "and more": [[first.call("echo two >> note.txt")], ["More."]],
    }  # fmt: skip
    there = first.client.casrewind
    there("save", code=0)  # the first one of a project would be left to another process
    first.say("please note it")
    point = wait(lambda: [point for point in first.client.points() if point["trigger"] == "turn_end"])[-1]
    client = agents.load_conversation_client(point["agent"])
    first.resume(client.sessions.resume.format(session=point["session"]), "and more")
    wait(lambda: [point for point in first.client.points() if point["trigger"] == "turn_end"], lambda found: len(found) > 1)
    add_remote(there, url, "sandbox")
    there("push", code=0)
    found = SimpleNamespace(url=url, before=picture(first.client.project), sent=ids(there))
    first.client.stop()
    for place in (first.client.home, first.client.project):
        shutil.rmtree(place)

    found.second = second = request.param(elsewhere)
    second.install()
    here, root = second.client.casrewind, elsewhere / "work"
    more = ["--all"] if request.param is Claude else []
    found.cloned = here.json("clone", *more, url, str(root), "--machine", "laptop", CASREWIND_REMOTE_KEY=KEY)
    second.client.project, here.root = root, str(root)
    found.after = picture(root)
    second.client.model.script = {"where are we": [[second.call("pwd > where.txt")], ["There."]]}
    second.resume(found.cloned["resume"], "where are we")
    found.where, found.requests = (root / "where.txt").read_text().strip(), list(second.client.model.requests)
    words = ["restore", found.cloned["checkpoint"]] if request.param is Droid else ["back", "1"]  # it has no hook at a prompt in print mode
    found.report = here.json(*words, "--both", "--yes")
    found.has_where = (root / "where.txt").exists()
    second.resume(found.report["fork"]["resume"], "and now")
    found.last = second.client.model.requests[-1]
    here("push", code=0)
    found.made = ids(here)

    third = InProcess(tmp_path_factory.mktemp("third"), tmp_path_factory.mktemp("home"))
    third("save", code=0)
    add_remote(third, url, "desk")
    third("pull", code=0)
    here("pull", code=0)
    found.pulled, found.home = ids(third), ids(here)
    found.verified = [casrewind.json("verify")["ok"] for casrewind in (here, third)]
    yield found
    second.client.stop()


def test_the_receipt_finds_each_message_in_what_the_client_has(told):
    """OpenCode itself writes its session."""
    receipt, chat = told.cloned["receipt"], told.cloned["receipt"]["conversation"]
    assert (receipt["exact"], chat["exact"], chat["why_not"], chat["prompts"]) == (receipt["files"], True, None, 2), chat
    assert chat["messages"] == chat["messages_here"] >= 4
    assert set(receipt["programs"]) <= {chat["agent"]}, "the client of this test may be on no PATH"
    assert chat["version_here"] in (None, chat["version_there"]), chat


def test_the_client_goes_on_with_exactly_the_old_turns(told):
    call = [f"call {told.second.shell}", "result"]
    old = ["user: please note it", *call, "assistant: Noted.", "user: and more", *call, "assistant: More."]
    assert told.requests[0].told == [*old, "user: where are we"] and told.cloned["problems"] == []
    assert told.last.told == [*old, "user: and now"]


def test_files_and_tools_are_at_the_new_place(told):
    found = differences(told.before, told.after)
    assert {path for path in found if path.partition(b"/")[0] != b".git"} == set()
    assert told.where == os.path.realpath(told.second.client.project)


def test_back_goes_to_before_the_prompt_there(told):
    assert told.report["prompts"] == ["where are we"] and not told.has_where


def test_all_turns_of_the_first_place_can_be_gone_back_to(told):
    if type(told.second) is not Claude:
        pytest.skip("asked of one client: it cloned all checkpoints")
    here, client = told.second.client.casrewind, told.second.client
    report = here.json("back", here.turn("and more"), "--both", "--yes", "--session", told.cloned["resume"].split()[-1])
    assert report["prompts"][0] == "and more" and (client.project / "note.txt").read_text() == "one\n"
    told.second.resume(report["fork"]["resume"], "otherwise")
    assert client.model.requests[-1].told[3:] == ["assistant: Noted.", "user: otherwise"]
    here("undo", "--yes", code=0)
    assert (client.project / "note.txt").read_text() == "one\ntwo\n"


def test_both_timelines_come_to_a_third_place_whole(told):
    own = {point for point in told.made if point not in told.sent}
    assert {point for point, machine in told.pulled.items() if machine == "sandbox"} >= set(told.sent)
    assert {point for point, machine in told.pulled.items() if machine == "laptop"} >= own and own
    assert set(told.sent) <= set(told.home) and told.verified == [True, True]


def test_a_restore_brings_it_to_a_project_that_is_there(told, tmp_path_factory):
    """In Claude Code: a third machine with files of its own takes over what the second one has."""
    if type(told.second) is not Claude:
        pytest.skip("asked of one client")
    third = Claude(tmp_path_factory.mktemp("t"))
    third.install()
    here = third.client.casrewind
    (third.client.project / "own.txt").write_text("own")
    here("save", code=0)
    add_remote(here, told.url, "desk")
    here("pull", code=0)
    report = here.json("restore", "laptop:last", "--both", "--yes")
    assert report["fork"]["mode"] == "handed_over" and report["fork"]["resume"] == told.report["fork"]["resume"]
    assert sorted(os.listdir(third.client.project)) == ["note.txt"] and report["prompts"] == []
    third.resume(report["fork"]["resume"], "at last")
    assert third.client.model.requests[-1].told == [*told.last.told, "assistant: OK.", "user: at last"]
    here("undo", "--yes", code=0)
    assert (third.client.project / "own.txt").read_text() == "own" and here.json("verify")["ok"]
    third.client.stop()


@real_clients.further("codex")
def test_codex_goes_on_in_a_session_that_was_rewound_in_it(tmp_path_factory):
    """It writes another file for the session. That file refers to the first one, which comes along."""
    first = CodexClient(tmp_path_factory.mktemp("x"))
    first.casrewind("install", "codex", code=0)
    first.trust()
    first.casrewind("save", code=0)
    session = first.say("first of three")
    for prompt in ("second of three", "third of three"):
        first.say(prompt, session)
    turn = codex.prompts(first.transcript(session).read_bytes())[1].prompt_id
    with Server(first) as server:
        server.ask("thread/resume", threadId=session)
        server.ask("thread/revert", threadId=session, beforeTurnId=turn)
    first.say("instead", session)
    url = f"file://{tmp_path_factory.mktemp('r')}"
    add_remote(first.casrewind, url, "sandbox")
    first.casrewind("push", code=0)
    first.stop()
    shutil.rmtree(first.home)
    second = CodexClient(tmp_path_factory.mktemp("x"))
    found = second.casrewind.json("clone", url, str(second.home / "work"), CASREWIND_REMOTE_KEY=KEY)
    assert found["resume"] == f"codex resume -C . {session}"
    second.say("and on", session)
    assert second.model.requests[-1].told == [
        "user: first of three", "assistant: OK.", "user: instead", "assistant: OK.", "user: and on",
    ]  # fmt: skip
    second.stop()
