"""Factory Droid: prompts in two sessions, and an edit by a person: one row for each turn, and every command means the turn that its
number names."""

import re
from types import SimpleNamespace

import pytest

from casrewind.agents.droid import CLIENT as droid
from support import real_clients
from support.claude_client import wait
from support.claude_model import call
from support.droid_client import DroidClient
from support.picture import differences, picture
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-droid"), *real_clients.in_turn("droid")]

PROMPTS = ["tidy up", "make gamma", "make beta", "make alpha"]  # as the list has them: the newest first
IN_CLIENT = ("", " show @2", " diff", " restore @2", " undo", " back @1", " back 2")


def execute(command):
    return call("Execute", command=command, summary="Side effects", riskLevel="low", riskLevelReason="a few small files")


@pytest.fixture(scope="module")
def went(tmp_path_factory):
    client = DroidClient(tmp_path_factory.mktemp("d"))
    try:
        yield played(client)
    finally:
        client.stop()


def played(client):
    """Two sessions that take turns, then every command, in a terminal and in the client."""
    plant(client.project, {"kept.txt": b"kept\n", "person.txt": b"one\n"})
    client.casrewind("install", "droid", code=0)
    client.model.script = {
        "make alpha": [[call("Create", file_path=str(client.project / "alpha.txt"), content="v1\n")], ["Done."]],
        "make beta": [[execute("echo beta > beta.txt")], ["Done."]],
        "make gamma": [[execute("echo gamma > gamma.txt")], ["Done."]],
        "tidy up": [[execute("rm beta.txt; echo v2 > alpha.txt")], ["Done."]],
    }
    found = SimpleNamespace(client=client, before={}, answers={}, files={})
    first = client.front()
    wait(client.points)  # nobody waits for the first save of a project when a session starts
    second = client.front()
    found.sessions = [first.session, second.session]

    def say(front, prompt):
        found.before[prompt] = picture(client.project)
        front.say(prompt)

    say(first, "make alpha")
    plant(client.project, {"person.txt": b"two\n"})
    say(second, "make beta")
    say(first, "make gamma")
    found.made = picture(client.project)
    say(second, "tidy up")
    found.after = picture(client.project)
    found.listed, found.shown = client.casrewind.json("list"), client.casrewind("list", code=0).out
    for command in (("show", "@2"), ("log", "alpha.txt"), ("diff",)):
        found.answers[command] = client.casrewind(*command, code=0).out
    for command in (("restore", "@2", "--yes"), ("restore", "after:@2", "--yes"), ("back", "4", "--yes", "--session", first.session),
                    ("back", "@3", "--yes", "--code")):  # fmt: skip
        found.answers[command] = client.casrewind(*command, code=0).out
        found.files[command] = picture(client.project)
        client.casrewind("undo", "--yes", code=0)
    found.undone = picture(client.project)
    asked = len(client.model.requests)
    for command in IN_CLIENT:
        answer = str(first.say(f"/casrewind{command}"))
        lines = re.findall(r"to go ahead, type:[\\n ]+(/casrewind [^\\'\"]{1,60} yes [0-9a-z]{4}-[0-9a-f]{4})", answer)  # a plan comes first
        found.answers[command] = str(first.say(lines[-1])) if lines else answer
        found.files[command] = picture(client.project)
    found.asked = len(client.model.requests) - asked
    found.prompts = [prompt.text for prompt in droid.prompts(client.transcript(first.session).read_bytes())]
    first.close()
    second.close()
    (fork,) = set(re.findall(r"(?:droid --resume|/resume) ([0-9a-f-]{36})", found.answers[" back 2"]))
    client.print("what now", "-s", fork)
    found.resumed = client.model.requests[-1].told
    return found


def test_each_turn_is_one_row_with_its_prompt_and_its_change(went):
    turns = went.listed["turns"]
    assert [(turn["n"], turn["prompt"]) for turn in turns] == list(enumerate(PROMPTS, 1))
    assert [sorted(turn["paths"]) for turn in turns] == [["alpha.txt", "beta.txt"], ["gamma.txt"], ["beta.txt"], ["alpha.txt"]]
    assert [turn["changes"] for turn in turns[:2]] == [{"added": 0, "modified": 1, "removed": 1}, {"added": 1, "modified": 0, "removed": 0}]
    assert [went.sessions.index(turn["session"]) for turn in turns] == [1, 0, 1, 0]
    assert not any(turn["cut_short"] or turn["running"] or turn["mixed"] or turn["shared"] for turn in turns)
    lines = [line for line in went.shown.splitlines() if "@" in line]
    assert [line.split()[0] for line in lines] == ["@1", "@2", "@3", "@4"]
    assert all(prompt in line and "droid" in line for prompt, line in zip(PROMPTS, lines, strict=True))


def test_what_the_person_edited_is_a_row_of_its_own(went):
    (row,) = [row for row in went.listed["rows"] if row["row"] == "outside"]
    assert (row["kind"], row["paths"]) == ("edited", ["person.txt"])
    assert went.listed["rows"].index(row) == 3, "between make beta and make alpha"


def test_commands_in_a_terminal_mean_the_turn_that_the_number_names(went):
    shown, logged, changed = (went.answers[command] for command in (("show", "@2"), ("log", "alpha.txt"), ("diff",)))
    assert "make gamma" in shown and "gamma.txt" in shown and "beta.txt" not in shown
    assert "tidy up" in logged and "make alpha" in logged and "make beta" not in logged
    assert "tidy up" in changed and "beta.txt" in changed and "gamma.txt" not in changed


def test_a_restore_goes_to_before_the_prompt_and_back_counts_the_turns_of_the_list(went):
    assert differences(went.files["restore", "@2", "--yes"], went.before["make gamma"]) == {}
    assert differences(went.files["restore", "after:@2", "--yes"], went.made) == {}
    assert differences(went.files["back", "@3", "--yes", "--code"], went.before["make beta"]) == {}
    command = ("back", "4", "--yes", "--session", went.sessions[0])
    assert differences(went.files[command], went.before["make alpha"]) == {}
    assert differences(went.undone, went.after) == {}


def test_in_the_client_the_commands_do_what_they_say(went):
    listed = went.answers[""]
    assert "  @2  make gamma" in listed and "tidy up" not in listed and "of other sessions" in listed
    assert "make gamma" in went.answers[" show @2"] and "gamma.txt" in went.answers[" show @2"]
    assert "beta.txt" in went.answers[" diff"]
    assert differences(went.files[" restore @2"], went.before["make gamma"]) == {}
    assert differences(went.files[" undo"], went.after) == {}
    assert "is a turn of droid" in went.answers[" back @1"] and differences(went.files[" back @1"], went.after) == {}
    assert differences(went.files[" back 2"], went.before["make gamma"]) == {}


def test_the_fork_goes_on_before_the_prompt_and_no_command_asked_the_model(went):
    assert went.resumed[0] == "user: make alpha" and went.resumed[-1] == "user: what now" and "user: make gamma" not in went.resumed
    assert went.asked == 0 and went.prompts == ["make alpha", "make gamma"], "what was for us is no prompt"
