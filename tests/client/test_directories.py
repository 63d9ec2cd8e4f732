"""`restore --to --both` with the real clients: in each directory the client goes on with exactly the old turns, and tools run there."""

import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from support.claude_client import wait
from support.command_in_process import InProcess
from support.resumed_clients import Claude, Codex, Copilot, Droid, Gemini, Opencode, Pi
from support.sample_start import by_turns

pytestmark = [pytest.mark.xdist_group("client-directories"), pytest.mark.turns(2)]

ALONE = ["--disable", "daemon_auto_start"]
"""Options of Codex: its terminal would leave a server running."""


PERSONS = [Claude, *by_turns([Droid, Gemini, Copilot, Codex, Pi], 1), pytest.param(Opencode, marks=pytest.mark.long)]
"""OpenCode takes a minute and a half."""


@pytest.fixture(scope="module", params=PERSONS, ids=lambda kind: kind.__name__)
def forked(request, tmp_path_factory):
    """Two turns in the project; two directories have the files and the conversation of after the first one, and a turn of their own."""
    person = request.param(tmp_path_factory.mktemp("d"))
    client, casrewind = person.client, person.client.casrewind
    project = client.project
    person.install()
    client.model.script = {
        "note it": [[person.call("echo one > note.txt")], ["Noted."]], "and more": [[person.call("echo two >> note.txt")], ["More."]],
    }  # fmt: skip
    casrewind("save", code=0)  # the first one of a project would be left to another process
    person.say("please note it")
    ends = wait(lambda: [point for point in client.points() if point["trigger"] == "turn_end"])
    person.resume(person.resume_line(ends[-1]["session"]), "and more")
    wait(lambda: [point for point in client.points() if point["trigger"] == "turn_end"], lambda found: len(found) > 1)
    found = SimpleNamespace(person=person, project=project, before=transcripts(client), places=[project.parent / "try1", project.parent / "try2"])
    ref = ends[-1]["id"] if request.param is Droid else "@1"  # Droid has no event for a prompt in print mode
    found.report = casrewind.json("restore", ref, *(word for place in found.places for word in ("--to", str(place))), "--both")
    found.after = transcripts(client)
    client.model.script = {"where are we": [[person.call("pwd > where.txt && cat note.txt >> where.txt")], ["There."]]}
    found.requests = []
    for row in found.report["written"]:
        client.project, number = type(project)(row["directory"]), len(client.model.requests)
        assert row["fork"]["command"] == f"cd {client.project} && {row['fork']['resume']}"
        person.resume(row["fork"]["resume"], "where are we")
        found.requests.append(client.model.requests[number:])
    client.project = project
    yield found
    client.stop()


def transcripts(client):
    """{path: bytes} of the files that the client keeps of sessions, without those that it writes by the way."""
    return {path: path.read_bytes() for path in sorted(client.home.rglob("*.jsonl")) if path.is_file()}


def test_each_client_goes_on_with_exactly_the_old_turns(forked):
    old = ["user: please note it", f"call {forked.person.shell}", "result", "assistant: Noted."]
    assert [requests[0].told for requests in forked.requests] == [[*old, "user: where are we"]] * 2


def test_tools_run_in_the_directory(forked):
    for place in forked.places:
        assert (place / "where.txt").read_text() == f"{os.path.realpath(place)}\none\n"
    assert not (forked.project / "where.txt").exists() and (forked.project / "note.txt").read_text() == "one\ntwo\n"


def test_the_conversation_of_the_project_keeps_every_byte(forked):
    assert {path: forked.after[path] for path in forked.before} == forked.before


def test_codex_s_terminal_does_not_ask_for_the_directory(forked, tmp_path):
    """It would propose the old one. Without the option of that line it does ask."""
    if type(forked.person) is not Codex or shutil.which("tmux") is None:
        pytest.skip("asked of one client, in tmux")
    client = forked.person.client
    (row,) = client.casrewind.json("restore", "@1", "--to", str(forked.project.parent / "try3"), "--both")["written"]
    fork = row["fork"]

    def first_screen(*words):
        socket = str(tmp_path / f"t{len(words)}")

        def tmux(*given):
            return subprocess.run(["tmux", "-S", socket, *given], env=client.environment, capture_output=True, text=True, timeout=60).stdout

        tmux("-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "50", "-c", row["directory"], *client.command, *ALONE, *words)
        try:
            return wait(lambda: tmux("capture-pane", "-p", "-J"), lambda shown: "Use session directory" in shown or "Sol" in shown or "gpt-5" in shown)
        finally:
            tmux("kill-server")

    line = fork["resume"].split()[1:]
    assert line == ["resume", "-C", ".", fork["session_id"]]
    assert "Use session directory" not in first_screen(*line)
    assert "Use session directory" in first_screen("resume", fork["session_id"])


def test_what_is_done_in_a_directory_is_a_turn_there_and_comes_back(forked):
    """In Claude Code: the hooks run there, `back` takes the turn back, and `take` brings the changes of the other one home."""
    if type(forked.person) is not Claude:
        pytest.skip("asked of one client")
    casrewind, (one, two) = forked.person.client.casrewind, forked.places
    there = InProcess(one, forked.person.client.home)
    report = there.json("back", "1", "--both", "--yes")
    assert report["prompts"] == ["where are we"] and not (one / "where.txt").exists()
    assert casrewind.json("take", str(two), "--yes")["changes"][0]["path"] == "where.txt" and (forked.project / "where.txt").exists()
