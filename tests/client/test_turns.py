"""Five prompts in two sessions, one cut short with Esc, one done by a subagent, and an edit by a person: one row for each turn, and
every command means the turn that its number names."""

import re
import threading
from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_model import bash, call
from support.model_server import Held
from support.picture import differences, picture
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-turns"), pytest.mark.timeout(600), *real_clients.at_times("turns")]

PROMPTS = ["tidy up", "delegate it", "long job", "make beta", "make alpha"]  # as the list has them: the newest first
TIDIED = ["alpha.txt", "beta.txt"]
IN_CLIENT = ("", " show @2", " log alpha.txt", " diff", " restore @2", " undo", " back @1", " help", " back 2")


@pytest.fixture(scope="module")
def went(start):
    client = start()
    client.casrewind("install", "claude", code=0)
    plant(client.project, {"kept.txt": b"kept\n", "person.txt": b"one\n"})
    end = client.project.parent / "end"
    gate = threading.Event()
    agent = call("Agent", description="sub job", prompt="subtask: write it", subagent_type="general-purpose")
    client.model.script = {
        "make alpha": [[call("Write", file_path=str(client.project / "alpha.txt"), content="v1\n")], ["Done."]],
        "make beta": [[bash("echo beta > beta.txt")], ["Done."]],
        "long job": [[bash(f"echo half > half.txt; timeout 60 sh -c 'while [ ! -e {end} ]; do sleep 0.1; done'")], ["Not reached."]],
        "delegate it": [[agent], ["Delegated."], ["Heard of it."]],
        "subtask: write it": [Held(gate, (bash("echo sub > sub.txt"),)), ["Written."]],
        "tidy up": [[bash("rm -r beta.txt many; echo v2 > alpha.txt")], ["Done."]],
    }
    found = SimpleNamespace(client=client, before={}, answers={}, files={})
    first = client.terminal()
    second = client.terminal()

    def say(terminal, prompt):
        found.before[prompt] = picture(client.project)
        terminal.say(prompt)

    say(first, "make alpha")
    plant(client.project, {"person.txt": b"two\n"})
    say(second, "make beta")
    found.before["long job"] = picture(client.project)
    first.type("long job")
    first.until(lambda: (client.project / "half.txt").exists())
    first.wait_for("esc to interrupt")
    first.keys("Escape")
    first.wait_for("Interrupted")
    say(first, "delegate it")
    points = len(client.points())
    gate.set()
    client.wait_for_more(points, 3, "turn_end")  # the subagent's end, the notification, the end of the answer to it
    first.wait_until_idle()
    found.delegated = picture(client.project)
    plant(client.project, {f"many/{number}": b"%d" % number for number in range(30)})
    say(second, "tidy up")
    found.screen = second.screen()
    found.after = picture(client.project)
    found.listed, found.shown = client.casrewind.json("list"), client.casrewind("list", code=0).out
    found.sessions = [found.listed["turns"][number]["session"] for number in (0, 1)]  # the second, the first

    for command in (("show", "@2"), ("log", "alpha.txt"), ("diff",)):
        found.answers[command] = client.casrewind(*command, code=0).out

    def files_after(*command):
        found.answers[command] = client.casrewind(*command, code=0)
        seen = picture(client.project)
        client.casrewind("undo", "--yes", code=0)
        return seen

    for command in (("restore", "@2", "--yes"), ("restore", "after:@2", "--yes"), ("back", "3", "--yes", "--session", found.sessions[1]),
                    ("back", "@4", "--yes", "--code")):  # fmt: skip
        found.files[command] = files_after(*command)
    found.undone = picture(client.project)
    for command in IN_CLIENT:
        found.answers[command] = first.order(f"/casrewind{command}")
        found.files[command] = picture(client.project)
    found.requests = len(client.model.requests)
    forks = [path for path in (client.config / "projects").glob("*/*.jsonl") if path.stem not in found.sessions]
    found.fork = max(forks, key=lambda path: path.stat().st_mtime_ns).stem
    client.resume(f"claude --resume {found.fork}", "what now")
    found.resumed = client.model.requests[-1].told
    end.touch()
    return found


def test_each_turn_is_one_row_with_its_prompt_and_its_change(went):
    turns = went.listed["turns"]
    assert [(turn["n"], turn["prompt"]) for turn in turns] == list(enumerate(PROMPTS, 1))
    assert [sorted(turn["paths"])[:2] for turn in turns] == [TIDIED, ["sub.txt"], ["half.txt"], ["beta.txt"], ["alpha.txt"]]
    assert turns[0]["changes"]["modified"] == 1 and turns[0]["changes"]["removed"] > 30
    assert [turn["cut_short"] for turn in turns] == [False, False, True, False, False]
    assert [turn["session"] == went.sessions[1] for turn in turns] == [False, True, True, False, True]
    lines = [line for line in went.shown.splitlines() if "@" in line]
    assert [line.split()[0] for line in lines] == ["@1", "@2", "@3", "@4", "@5"]
    assert all(prompt in line for prompt, line in zip(PROMPTS, lines, strict=True)) and "(cut short)" in lines[2]


def test_what_the_person_edited_is_a_row_of_its_own(went):
    outside = [row for row in went.listed["rows"] if row["row"] == "outside"]
    assert [(row["kind"], row["paths"][0]) for row in outside] == [("edited", "many/0"), ("edited", "person.txt")]
    assert [went.listed["rows"].index(row) for row in outside] == [1, 5], "before tidy up, and between make beta and make alpha"
    assert any("edited outside of a turn" in line and "person.txt" in line for line in went.shown.splitlines())


def test_the_client_shows_a_line_at_the_start_and_a_warning_after_a_turn_that_removed_many_files(went):
    assert re.search("SessionStart:startup says: casrewind: [0-9]+ checkpoints?, newest ", went.screen)
    assert "Stop says: casrewind: this turn removed 31 files (beta.txt, many/0 and 29 more)" in went.screen


def test_commands_in_a_terminal_mean_the_turn_that_the_number_names(went):
    shown, logged, changed = (went.answers[command] for command in (("show", "@2"), ("log", "alpha.txt"), ("diff",)))
    assert "delegate it" in shown and "sub.txt" in shown and "half.txt" not in shown and "alpha.txt" not in shown
    assert "tidy up" in logged and "make alpha" in logged and "long job" not in logged
    assert "tidy up" in changed and "beta.txt" in changed and "half.txt" not in changed


def test_a_restore_goes_to_before_the_prompt_and_after_means_its_end(went):
    assert differences(went.files["restore", "@2", "--yes"], went.before["delegate it"]) == {}
    assert differences(went.files["restore", "after:@2", "--yes"], went.delegated) == {}
    assert differences(went.files["back", "@4", "--yes", "--code"], went.before["make beta"]) == {}
    assert differences(went.undone, went.after) == {}


def test_back_counts_the_turns_of_the_list(went):
    command = ("back", "3", "--yes", "--session", went.sessions[1])
    assert differences(went.files[command], went.before["long job"]) == {}


def test_in_the_client_the_turns_of_its_session_are_shown(went):
    lines = [line for line in went.answers[""].splitlines() if line.lstrip().startswith("@")]
    own = [prompt for prompt, is_own in zip(PROMPTS, (False, True, True, False, True), strict=True) if is_own]
    assert [prompt in line for line, prompt in zip(lines, own, strict=True)] == [True] * 3
    assert "2 turns of other sessions" in went.answers[""]
    assert "delegate it" in went.answers[" show @2"] and "sub.txt" in went.answers[" show @2"]
    assert "tidy up" in went.answers[" log alpha.txt"] and "make alpha" in went.answers[" log alpha.txt"]
    assert "beta.txt" in went.answers[" diff"] and "half.txt" not in went.answers[" diff"]
    assert "/casrewind back [N]" in went.answers[" help"]


def test_in_the_client_back_and_restore_do_what_they_say(went):
    assert differences(went.files[" restore @2"], went.before["delegate it"]) == {}
    assert differences(went.files[" undo"], went.after) == {}
    assert '@1 "tidy up" is a turn of claude' in went.answers[" back @1"] and differences(went.files[" back @1"], went.after) == {}
    answer = went.answers[" back 2"]
    assert f"to go on from there: /resume make alpha {went.fork[:4]}" in answer and "claude --resume" not in answer
    assert differences(went.files[" back 2"], went.before["delegate it"]) == {}
    assert "user: delegate it" not in went.resumed and went.resumed[0] == "user: make alpha" and went.resumed[-1] == "user: what now"


def test_no_command_in_the_client_asked_the_model(went):
    assert went.client.model.strangers == []
    assert not any("casrewind" in text for request in went.client.model.requests for text in request.told)
