"""Claude Code on a terminal: `/casrewind ...` typed in it, and prompts typed while a turn runs."""

import json
import re
import shlex
import threading
from types import SimpleNamespace

import pytest

from casrewind.cli.show.text import IN_CLIENT
from support import real_clients
from support.claude_client import Terminal
from support.claude_model import bash, call
from support.fake_client import line_to_type
from support.model_server import Held
from support.picture import differences, picture
from support.trees import plant

pytestmark = pytest.mark.xdist_group("client-typed")

OTHER = "0c5a1f6e-0000-4000-8000-000000000001"
"""The session of another conversation in the same project."""
FIRST = ["user: please create alpha", "assistant: Creating.", "call Write", "result", "assistant: It is there."]
SECOND = ["user: please run bash", "call Bash", "result", "assistant: Ran."]
WAITED = real_clients.at_time("queued")
COMMANDS = ("", " list -n 1", " restore 99", " nonsense", " list 'x", " back 1", " undo", " back 7", " diff", " back")


@pytest.fixture(scope="module")
def asked(start):
    """Two turns, then commands typed in the client, and what was answered; the client's files are not in the home."""
    client = start(moved=True)
    plant(client.project, {"kept.txt": b"kept"})
    client.casrewind("install", "claude", "--short", code=0)
    client.model.script = {
        "create alpha": [["Creating.", call("Write", file_path=str(client.project / "alpha.txt"), content="v1\n")], ["It is there."]],
        "run bash": [[bash("echo made > made; echo v2 > alpha.txt; rm kept.txt")], ["Ran."]],
    }
    found = SimpleNamespace(client=client, pictures=[picture(client.project)], answers={}, after={})
    terminal = client.terminal()
    for prompt in ("please create alpha", "please run bash"):
        terminal.say(prompt)
        found.pictures.append(picture(client.project))
    found.points, found.requests = client.points(), len(client.model.requests)
    for command in COMMANDS:
        found.answers[command] = terminal.order("/back" if command == COMMANDS[-1] else f"/casrewind{command}")
        found.after[command] = picture(client.project)
    found.requests_after = len(client.model.requests)
    found.points_after = client.points()
    client.say("something else", "--session-id", OTHER)  # the newest of the list of /resume
    terminal.type(resume_line(found.answers[COMMANDS[-1]]))
    client.wait_for_more(len(found.points), 2)
    terminal.wait_until_idle()
    terminal.say("what now")
    found.request = client.model.requests[-1]
    found.moved_on = client.points()
    return found


def test_every_typed_prompt_and_its_turn_is_a_checkpoint(asked):
    assert [(point["trigger"], point["prompt"]) for point in asked.points] == [
        ("session_start", None), ("prompt", "please create alpha"), ("turn_end", "please create alpha"),
        ("prompt", "please run bash"), ("turn_end", "please run bash"),
    ]  # fmt: skip
    assert {point["label"] for point in asked.points} == {None}
    assert len({point["session"] for point in asked.points}) == 1
    assert not (asked.client.home / ".claude").exists(), "everything of the client's is where CLAUDE_CONFIG_DIR says"


def test_no_answer_needs_the_model_or_becomes_a_checkpoint(asked):
    assert asked.requests_after == asked.requests == 4
    assert [point["id"] for point in asked.points_after] == [point["id"] for point in asked.points]


def test_the_list_is_shown(asked):
    assert "@1  please run bash" in asked.answers[""] and "@2  please create alpha" in asked.answers[""]
    assert ["please run bash" in asked.answers[" list -n 1"], "please create alpha" in asked.answers[" list -n 1"]] == [True, False]


@pytest.mark.parametrize("command, says", [(" restore 99", "99"), (" nonsense", "back [N]"), (" list 'x", "quotation mark"), (" back 7", "this worktree has 2")])
def test_what_cannot_be_done_is_answered_too(asked, command, says):
    assert says in asked.answers[command]
    before = asked.pictures[2]
    assert differences(asked.after[command], before) == {}


def test_back_brings_the_files_and_says_how_to_go_on(asked):
    answer = asked.answers[" back 1"]
    lines = [line.strip() for line in answer.splitlines()]
    assert lines[0].startswith('restored to before "please run bash"') and lines[-2:] == [resume_line(answer, "to go on from there: "), "/casrewind undo takes this back"]
    assert re.findall("[0-9a-f]{8}-|c[0-9a-f]{14}", answer) == [], "no id"
    assert differences(asked.after[" back 1"], asked.pictures[1]) == {}


def test_no_line_of_an_answer_is_broken_by_the_client(start):
    client = start()
    widths = range(IN_CLIENT - 1, IN_CLIENT + 3)
    answer = {"decision": "block", "reason": "\n".join(f"{width} {'x' * (width - 4)}E" for width in widths)}
    told = client.project.parent / "told"
    told.write_text(json.dumps(answer))
    hook = {"type": "command", "command": f"cat {shlex.quote(str(told))}"}
    plant(client.config, {"settings.json": json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}).encode()})
    terminal = Terminal(client, (), columns=80, lines=24)
    client.terminals.append(terminal)
    terminal.wait_for("accept edits on")
    terminal.type("hello")
    terminal.wait_for(f"{widths[-1]}")
    shown = [line.strip() for line in terminal.wait_for("Original prompt").splitlines()]
    assert [width for width in widths if f"{width} {'x' * (width - 4)}E" in shown] == [IN_CLIENT - 1, IN_CLIENT]


def test_undo_brings_the_files_back(asked):
    assert "undone" in asked.answers[" undo"] and 'from before "please run bash"' in asked.answers[" diff"]
    assert differences(asked.after[" undo"], asked.pictures[2]) == {}


def test_what_it_says_to_type_switches_the_client_to_exactly_the_turns_before(asked):
    assert asked.request.told == [*FIRST, "user: what now"]
    assert differences(asked.after[" back"], asked.pictures[1]) == {}
    fork = asked.moved_on[-1]["session"]
    assert fork != asked.points[0]["session"]
    assert [(point["prompt"], point["session"]) for point in asked.moved_on[-3:]] == [(None, fork), ("what now", fork), ("what now", fork)]
    assert asked.client.model.strangers == []


def resume_line(answer, before=""):
    """What an answer says to type for the conversation."""
    return before + re.search(r"to go on from there: (/resume [\w ]{1,30})$", answer, re.M)[1]


@pytest.fixture(scope="module")
def queued(start):
    """Prompts typed while a turn runs: one that the client hands to the turn, two that become the next turn, and one that is
    typed while the Stop hooks of a turn run."""
    client = start()
    stop = client.project.parent / "stop"
    foreign = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "while [ -e %s ]; do sleep 0.05; done"}]}]}}' % stop
    plant(client.project, {"readme": b"read me"})
    plant(client.config, {"settings.json": foreign.encode()})
    client.casrewind("install", "claude", code=0)
    gates = [threading.Event() for _ in range(3)]
    client.model.script = {
        "start one": [[bash("echo 1 > one")], Held(gates[0], ("More.", bash("echo 2 > two")))],
        "into the turn": [["Done."]],
        "start three": [[bash("echo 3 > three")], Held(gates[1], ("Did three.",))],
        "wait your turn": [[bash("echo 4 > four")], ["Did four."]],
        "while it stops": [[bash("echo 5 > five")], ["Did five."]],
        "start six": [[bash("echo 6 > six")], Held(gates[2], ("Did six.",))],
    }
    found = SimpleNamespace(client=client, pictures={}, reports={}, files={})

    def seen():
        return [point["prompt"] for point in client.points() if point["trigger"] == "prompt"]

    def queue(prompt):
        found.pictures[prompt] = picture(client.project)
        terminal.type(prompt)
        terminal.until(lambda: seen()[-1] == prompt and waits(prompt))

    def waits(prompt):
        """Whether the client wrote down that this prompt waits."""
        lines = client.transcript(client.points()[0]["session"]).read_bytes().splitlines()
        return any(b'"queue-operation"' in line and prompt.encode() in line for line in lines)

    def turns_ended(count):
        terminal.until(lambda: [point["trigger"] for point in client.points()].count("turn_end") == count)
        terminal.wait_until_idle()

    terminal = client.terminal()
    terminal.type("start one")
    client.model.wait_for(2)
    queue("into the turn")
    gates[0].set()
    turns_ended(1)
    back(found, "start one", "back", "1")
    waited = next(point for point in client.points() if point["prompt"] == "into the turn")
    back(found, "into the turn", "jump", waited["id"])

    terminal.type("start three")
    client.model.wait_for(5)
    for prompt in ("me too", "wait your turn"):
        queue(prompt)
    gates[1].set()
    turns_ended(3)
    back(found, "me too", "back", "1")

    stop.touch()
    before = len(client.points())
    terminal.type("nothing much")
    client.wait_for_more(before, 2, "turn_end")
    queue("while it stops")
    stop.unlink()
    turns_ended(5)
    back(found, "while it stops", "back", "1")

    found.points = client.points()
    found.pictures["start six"] = picture(client.project)
    requests = len(client.model.requests)
    terminal.type("start six")
    client.model.wait_for(requests + 2)
    terminal.type("/casrewind back 1")
    terminal.wait_for("Queued")
    gates[2].set()
    found.late_answer = terminal.answer_to("/casrewind back 1")
    found.files["start six"] = picture(client.project)
    found.asked_for_it = len(client.model.requests) - requests - 2
    found.requests = {}
    for prompt, report in found.reports.items():
        if report["fork"] is not None:
            client.resume(report["fork"]["resume"], "what now")
            found.requests[prompt] = client.model.requests[-1].told
    return found


def back(found, prompt, *command):
    """Go back, look at the files, take it back."""
    found.reports[prompt] = found.client.casrewind.json(*command, "--yes")
    found.files[prompt] = picture(found.client.project)
    found.client.casrewind("undo", "--yes", code=0)


INTO = ["user: start one", "call Bash", "result"]
NOBODY = "assistant: No response requested."  # the client's own words behind what the model did not answer
THREE = ["user: start three", "call Bash", "result", "assistant: Did three."]


@WAITED
def test_each_queued_prompt_is_a_checkpoint_of_its_own(queued):
    shown = [point["prompt"] for point in queued.points if point["trigger"] == "prompt"]
    assert shown == ["start one", "into the turn", "start three", "me too", "wait your turn", "nothing much", "while it stops"]
    labels = {point["label"] for point in queued.points if not (point["label"] or "").startswith("as restored from")}
    assert labels == {None}, "what changed is the work of the turns, or what undo brought back"


@WAITED
def test_a_prompt_that_the_turn_was_given_is_no_turn_of_its_own(queued):
    assert queued.reports["start one"]["prompts"] == ["start one", "into the turn"]
    assert queued.reports["start one"]["fork"] is None, "nothing was said before"
    assert queued.reports["me too"]["prompts"] == ["me too", "wait your turn"], "both together became the next turn"


@WAITED
@pytest.mark.parametrize("prompt", ["into the turn", "me too", "while it stops"])
def test_back_has_the_files_of_the_moment_when_it_was_typed(queued, prompt):
    assert differences(queued.files[prompt], queued.pictures[prompt]) == {}
    assert queued.reports[prompt]["prompts"][0] == prompt


@WAITED
def test_back_before_a_prompt_that_the_turn_was_given_keeps_that_turn_as_it_was_when_it_was_typed(queued):
    assert queued.requests["into the turn"] == [*INTO, NOBODY, "user: what now"]


@WAITED
def test_back_before_prompts_that_waited_keeps_the_turn_that_they_waited_for(queued):
    told = queued.requests["me too"]
    assert told[-5:] == [*THREE, "user: what now"] and any("into the turn" in text for text in told)


@WAITED
def test_back_before_a_prompt_typed_while_the_turn_before_it_ended(queued):
    assert queued.requests["while it stops"][-3:] == ["user: nothing much", "assistant: OK.", "user: what now"]


@WAITED
def test_a_command_typed_while_a_turn_runs_waits_for_its_end_and_takes_that_turn_back(queued):
    assert "start six" in queued.late_answer and queued.asked_for_it == 0
    assert differences(queued.files["start six"], queued.pictures["start six"]) == {}


@real_clients.at_time("plugin")
def test_the_plugin_has_the_same_command_under_its_own_name(start):
    client = start()
    client.install_command()
    plugin = client.project.parent / "plugin"
    client.casrewind("install", "claude", "--plugin", str(plugin), code=0)
    plant(client.project, {"kept.txt": b"kept"})
    client.model.script = {"wreck it": [[bash("rm kept.txt")], ["Wrecked."]]}
    terminal = client.terminal("--plugin-dir", str(plugin))
    terminal.say("wreck it")
    assert not (client.project / "kept.txt").exists()
    plan = terminal.ask("/casrewind:casrewind restore 1")
    line = line_to_type(plan)
    assert "+ kept.txt" in plan and line == "/casrewind:casrewind yes" and not (client.project / "kept.txt").exists()
    answer = terminal.ask(line)
    assert "restored" in answer and "+ kept.txt" in answer and "/casrewind:casrewind undo" in answer
    assert (client.project / "kept.txt").read_bytes() == b"kept"
    assert len(client.model.requests) == 2
    for text in (line, "/casrewind:casrewind restore 1", "wreck it"):  # what was typed comes back with the up arrow
        terminal.keys("Up")
        terminal.until(lambda text=text: terminal.screen().rpartition("❯")[2].strip().startswith(text))
