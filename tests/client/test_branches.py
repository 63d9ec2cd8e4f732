"""Conversations that are no straight line: rewound by the client's own /rewind, and compacted."""

from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_model import SUMMARY, bash
from support.picture import differences, picture

pytestmark = [pytest.mark.xdist_group("client-branches"), *real_clients.at_times("branches")]

FIRST = ["user: number one", "call Bash", "result", "assistant: Did one."]
THIRD = ["user: number three", "call Bash", "result", "assistant: Did three."]
NUMBERS = ("one", "two", "three", "four", "five")


@pytest.fixture(scope="module")
def bent(start):
    """One; two, thrown away with the client's own /rewind; three; a compaction; four; five. Then back to before each."""
    client = start()
    client.casrewind("install", "claude", code=0)
    client.model.script = {f"number {name}": [[bash(f"echo {name} > {name}")], [f"Did {name}."]] for name in NUMBERS}
    found = SimpleNamespace(client=client, pictures={}, reports={}, files={}, requests={})
    terminal = client.terminal()

    def say(name):
        found.pictures[name] = picture(client.project)
        terminal.say(f"number {name}")

    say("one")
    say("two")
    terminal.type("/rewind")
    terminal.wait_for("to the point before")
    terminal.keys("Up")
    terminal.wait_for("  ❯ number two")
    terminal.keys("Enter")
    terminal.wait_for("❯ 1. Restore conversation")
    terminal.keys("Enter")
    terminal.until(lambda: "Restore" not in terminal.screen() and terminal.screen().count("number two") == 1)
    terminal.keys("C-u")  # the client puts the prompt that was taken back in place for another try
    terminal.until(lambda: "number two" not in terminal.screen())
    say("three")
    found.after_rewind = client.model.requests[-1].told
    points = len(client.points())
    terminal.type("/compact keep it short")
    client.wait_for_more(points, 2, "session_start")
    terminal.wait_for("Compacted")
    say("four")
    say("five")
    found.after_compaction = client.model.requests[-1].told
    found.points = client.points()
    transcript = client.transcript(found.points[0]["session"])
    found.original = transcript.read_bytes()
    for name in ("five", "four", "three", "one"):
        found.reports[name] = client.casrewind.json("back", client.casrewind.turn(f"number {name}"), "--both", "--yes")
        found.files[name] = picture(client.project)
        client.casrewind("undo", "--yes", code=0)
    for name, report in found.reports.items():
        if report["fork"] is not None:
            client.resume(report["fork"]["resume"], "what now")
            found.requests[name] = client.model.requests[-1]
    found.original_after = transcript.read_bytes()[: len(found.original)]
    return found


def test_the_client_rewound_and_compacted_as_this_supposes(bent):
    assert bent.after_rewind == [*FIRST, *THIRD[:-1]]
    assert bent.client.model.compactions == 1
    assert SUMMARY[9:-10] in bent.after_compaction[0] and "user: number one" not in bent.after_compaction
    assert [point["prompt"] for point in bent.points if point["trigger"] == "prompt"] == [f"number {name}" for name in NUMBERS]
    assert [point["trigger"] for point in bent.points if point["trigger"] in ("compact", "session_start")] == [
        "session_start", "compact", "session_start",
    ]  # fmt: skip


def test_what_the_clients_own_rewind_threw_away_does_not_come_back(bent):
    for name, request in bent.requests.items():
        assert "number two" not in str(request.body["messages"]) and "Did two." not in str(request.body["messages"]), name
        assert "number two" not in bent.reports[name]["prompts"]
    assert [bent.reports[name]["prompts"][0] for name in bent.reports] == ["number five", "number four", "number three", "number one"]


def test_back_over_the_compaction_gives_the_whole_conversation_of_before(bent):
    assert bent.requests["three"].told == [*FIRST, "user: what now"]


def test_back_to_behind_the_compaction_gives_its_summary(bent):
    behind = bent.after_compaction[: bent.after_compaction.index("user: number four")]
    fourth = ["user: number four", "call Bash", "result", "assistant: Did four."]
    assert bent.requests["four"].told == [*behind, "user: what now"]
    assert bent.requests["five"].told == [*behind, *fourth, "user: what now"]


def test_before_the_first_prompt_there_is_nothing_to_fork(bent):
    assert bent.reports["one"]["fork"] is None
    assert bent.reports["one"]["prompts"] == [f"number {name}" for name in ("one", "three", "four", "five")]


@pytest.mark.parametrize("name", ["one", "three", "four", "five"])
def test_the_files_are_those_of_before_that_prompt_whatever_the_conversation_did(bent, name):
    assert differences(bent.files[name], bent.pictures[name]) == {}


def test_the_original_conversation_keeps_every_byte(bent):
    assert bent.original_after == bent.original
    assert b"number two" in bent.original
