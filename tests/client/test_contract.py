"""What every client must do, asked of each real one with the same story (tests/support/three_turns.py): install, three turns, back, on
in the fork, uninstall. What is special about a client, and what it lacks, stands in its class in tests/support/resumed_clients.py.
"""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from casrewind.agents.carried_lines import carried
from support import real_clients, resumed_clients, three_turns
from support.picture import differences, picture
from support.sample_start import marks_of
from support.three_turns import PROMPTS, triggers
from support.trees import plant


FURTHER = []


def further(question):
    """What is asked beyond the three turns. A push asks Claude Code all of it, and one other client two of these questions: another client
    and other questions after a change of the product. `--run-long` asks everybody everything."""
    FURTHER.append(question.__name__)
    return question


def marks_of_question(client, question):
    """The marks of a question that a client is asked."""
    if question not in FURTHER:
        return real_clients.in_turn(client)
    return real_clients.in_turn(client, further=True) or ([] if client == "claude" else marks_of(question, FURTHER, 2))


def pytest_generate_tests(metafunc):
    """Each question is asked of every client. What a client lacks is skipped with the reason."""
    if "person" not in metafunc.fixturenames:
        return
    cases = []
    for kind in resumed_clients.ALL:
        name = kind.__name__.lower()
        marks = [pytest.mark.xdist_group(f"client-{name}"), *marks_of_question(name, metafunc.function.__name__)]
        gap = kind.lacks.get(metafunc.function.__name__)
        cases.append(pytest.param(kind, id=name, marks=marks if gap is None else [*marks, pytest.mark.skip(reason=f"{name}: {gap}")]))
    metafunc.parametrize("person", cases, indirect=True, scope="module")


@pytest.fixture(scope="module")
def person(request, tmp_path_factory):
    found = request.param(tmp_path_factory.mktemp("c"))
    yield found
    found.client.stop()
    assert found.calls_home or found.client.model.strangers == [], "the client wanted something else than its model"


@pytest.fixture(scope="module")
def installed(person):
    """What install said, and the settings of before."""
    path, data = person.client.config / person.settings[0], person.settings[1]
    if data is not None:
        plant(path.parent, {path.name: data})
    found = SimpleNamespace(settings=path.read_bytes(), said=person.install())
    found.again = person.install()
    return found


@pytest.fixture(scope="module")
def told(person, installed):
    return three_turns.tell(person)


@pytest.fixture(scope="module")
def gone_back(person, told):
    return three_turns.go_back(person, told)


@pytest.fixture
def turns(person):
    return three_turns.turns(person)


def test_a_gap_is_a_question():
    assert {name for kind in resumed_clients.ALL for name in kind.lacks} <= globals().keys()


def test_with_run_long_a_module_that_knows_the_clients_is_collected():
    """Not one of this directory: its conftest.py knows them before pytest has read its options."""
    line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", "--run-long", "tests/cli/test_doctor.py"]
    done = subprocess.run(line, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_is_installed_once_and_doctor_finds_its_hooks_at_work(person, installed):
    assert "installed" in installed.said and "already installed" in installed.again
    before, doctor = person.client.points(), person.client.casrewind("doctor", person.name, "--json", code=0).json["agents"][person.name]
    assert (doctor["problems"], doctor["version"], doctor["hook_test"]["ok"]) == ([], person.version, True)
    assert person.client.points() == before, "it left no checkpoint"


def test_the_client_did_what_the_script_says(told, turns):
    assert told.requests[-1].told == sum(turns, [])[:-1]
    assert len({str(each) for each in told.pictures}) == 4
    assert (b"made/by_hand" in told.pictures[3], b"gone.txt" in told.pictures[3]) == (True, False)


def test_the_list_has_a_row_for_each_turn_with_its_change(told):
    found = told.listed["turns"][::-1]
    assert [turn["prompt"] for turn in found] == PROMPTS
    paths = [turn["paths"] for turn in found]
    assert paths[:2] == [["alpha.txt"]] * 2 and {"alpha.txt", "bin/tool", "gone.txt"} < set(paths[2])
    assert not any(turn["running"] or turn["cut_short"] or turn["mixed"] for turn in found)
    assert {row["row"] for row in told.listed["rows"]} == {"turn"}


def test_every_prompt_and_every_turn_is_a_checkpoint_of_that_session(person, told):
    assert [trigger for trigger in triggers(told.points) if not trigger.startswith("session")] == ["prompt", "turn_end"] * 3
    for trigger in ("prompt", "turn_end"):
        assert [point["prompt"] for point in told.points if point["trigger"] == trigger] == PROMPTS
    assert {(point["agent"], point["session"]) for point in told.points} == {(person.name, told.session)}
    assert {point["label"] for point in told.points} == {None}, "nothing else changed a file"


def test_each_has_the_files_of_its_moment(person, told, tmp_path):
    for number, point in enumerate(point for point in told.points if point["trigger"] in ("prompt", "turn_end")):
        place = tmp_path / str(number)
        person.client.casrewind("restore", point["id"], "--to", str(place), code=0)
        found = differences(picture(place), told.pictures[(number + 1) // 2])
        assert {path for path in found if path.partition(b"/")[0] != b".git"} == set(), point


def test_back_has_the_files_of_before_the_prompt(person, told, gone_back):
    assert differences(gone_back.picture, told.pictures[2]) == {}
    assert gone_back.report["prompts"] == ["please run it"]
    assert gone_back.report["fork"]["resume"] == person.resume_line(gone_back.id)


def test_the_client_goes_on_from_exactly_the_turns_before(gone_back, turns):
    assert gone_back.request.told == [*turns[0], *turns[1], "user: what now"]
    assert "by_hand" not in str(gone_back.request.body), "nothing of the third turn, not in a reminder either"
    assert gone_back.answer in (None, gone_back.id)
    assert {point["session"] for point in gone_back.points if point["trigger"] != "safety"} == {gone_back.id}


def test_the_original_conversation_keeps_every_byte(person, told, gone_back):
    assert gone_back.original_after == gone_back.original
    assert [one.text for one in person.adapter.prompts(gone_back.fork)] == PROMPTS[:2]
    assert set(gone_back.modes.values()) <= {0o600}
    if person.own_lines is not None:
        kept = carried(gone_back.original, person.adapter.carried_lines()).splitlines()
        own = [line for line in gone_back.fork.replace(gone_back.id.encode(), told.session.encode()).splitlines() if line not in kept]
        assert len(own) == person.own_lines and gone_back.modes


def test_undo_has_the_files_of_after_the_turn_and_redo_those_of_before_it(told, gone_back):
    assert differences(gone_back.undo, told.pictures[3]) == {} and differences(gone_back.redo, told.pictures[2]) == {}


@further
def test_back_in_the_fork_is_before_its_own_prompt_and_then_before_its_parents(person, told, gone_back, turns):
    client, session = person.client, gone_back.id
    client.model.script["wreck it"] = [[person.call("rm kept.txt alpha.txt bin/tool; rmdir bin")], ["Wrecked."]]
    assert person.say("wreck it", session) == session and not (client.project / "kept.txt").exists()
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", session)
    assert differences(picture(client.project), told.pictures[2]) == {}
    assert [prompt.text for prompt in person.adapter.prompts(person.fork(report))] == [*PROMPTS[:2], "what now"]
    report = client.casrewind.json("back", client.casrewind.turn("please edit alpha"), "--both", "--yes", "--session", session)
    assert report["prompts"] == ["please edit alpha", "what now", "wreck it"]
    assert differences(picture(client.project), told.pictures[1]) == {}, "the checkpoint was the parent's"
    person.resume(report["fork"]["resume"], "once more")
    assert client.model.requests[-1].told == [*turns[0], "user: once more"]


@further
def test_a_turn_that_is_cut_in_the_middle_of_a_tool_can_be_taken_back(person, told, turns):
    client, before = person.client, picture(person.client.project)
    client.model.script["hang on"] = [[person.call("echo half > half.txt; sleep 30")], ["Never."]]
    person.kill("hang on", told.session, lambda: (client.project / "half.txt").exists() and "hang on" in person.prompts(told.session))
    report = client.casrewind.json("back", "1", "--both", "--yes", "--session", told.session)
    assert report["prompts"] == ["hang on"] and differences(picture(client.project), before) == {}
    person.resume(report["fork"]["resume"], "still there")
    assert client.model.requests[-1].told == [*sum(turns, []), "user: still there"]
    client.casrewind("undo", "--yes", code=0)
    assert (client.project / "half.txt").read_bytes() == b"half\n", "what the tool did so far is not lost"
    client.casrewind("redo", "--yes", code=0)


def test_a_command_typed_in_the_client_is_answered_without_the_model(person, told):
    client, asked, prompts = person.client, len(person.client.model.requests), person.prompts(told.session)
    answer = person.type_command(told.session, "/casrewind list")
    assert re.search(r"@\d+  .*please edit", answer, re.DOTALL) or "turns of other sessions" in answer, answer
    target = client.points()[-1]["id"]
    plant(client.project, {"mine": b"x"})
    for command, is_there in ((f"restore {target}", False), ("undo", True)):
        answer = person.type_command(told.session, f"/casrewind {command}")
        line = re.search(r"[Tt]o go ahead, type:[\\n\s]+(/casrewind (?:[^\\'\"\n]{1,60} yes [0-9a-z]{1,4}-[0-9a-f]{4}|yes))", answer)  # a plan comes first
        if command != "undo" or line:  # a small undo of what was done just now is done at once
            assert line and (client.project / "mine").exists() is not is_there, answer
            person.type_command(told.session, line[1])
        assert (client.project / "mine").exists() is is_there
    (client.project / "mine").unlink()
    assert len(client.model.requests) == asked, "no request to the model"
    assert person.prompts(told.session) == prompts, "what was for us is no prompt"


@further
def test_two_sessions_in_one_project_keep_their_own_turns_and_conversations(person, told):
    client = person.client
    with person.talk() as one, person.talk() as two:
        one.say("first of one")
        plant(client.project, {"by_a_person": b"x"})
        two.say("first of two")
        one.say('second of one, "quoted"')
    listed, other = client.casrewind.json("list"), person.original(two.session)
    assert [row["paths"] for row in listed["rows"][:4] if row["row"] == "outside"] == [["by_a_person"]], "what a person edited is no turn"
    assert [(turn["prompt"], turn["session"]) for turn in listed["turns"][2::-1]] == [
        ("first of one", one.session), ("first of two", two.session), ('second of one, "quoted"', one.session),
    ]  # fmt: skip
    report = client.casrewind.json("back", "--yes", "--session", one.session)
    assert report["prompts"] == ['second of one, "quoted"'] and person.original(two.session) == other
    person.resume(report["fork"]["resume"], "and on")
    assert client.model.requests[-1].told == ["user: first of one", "assistant: OK.", "user: and on"]


def test_in_place_the_session_itself_is_cut_and_kept_beside_or_that_is_refused(person, told):
    client, words = person.client, ("back", "--in-place", "--yes", "--session")
    if person.never_rewritten:
        person.say("one more thing", told.session)
        before = person.original(told.session)
        assert person.never_rewritten in client.casrewind(*words, told.session, code=16).err and person.original(told.session) == before
        return
    session = person.say("stays")
    person.say("regrettable", session)
    before = person.original(session)
    fork = client.casrewind.json(*words, session)["fork"]
    with open(fork["backup"], "rb") as kept:
        assert (fork["session_id"], kept.read()) == (session, before)
    person.resume(fork["resume"], "better")
    assert client.model.requests[-1].told == ["user: stays", "assistant: OK.", "user: better"]


@further
def test_the_aggressive_tier_keeps_what_one_tool_made_and_the_next_one_removed(person, told):
    client = person.client
    person.install("--tier", "aggressive")
    count = len(client.points())
    client.model.script["make and lose"] = [[person.call("echo precious > just.txt")], [person.call("rm just.txt")], ["Lost."]]
    person.say("make and lose")
    (before_rm,) = [point for point in client.points()[count:] if point["trigger"] == "tool_batch" and point["changes"]["added"]]
    assert client.casrewind("cat", f"{before_rm['id']}:just.txt", code=0).out == "precious\n" and not (client.project / "just.txt").exists()
    person.install("--tier", "balanced")


@further
def test_a_project_that_moved_keeps_its_checkpoints_and_its_conversation(person, told):
    client, old = person.client, person.client.project
    person.say("one thing before it moves", told.session)
    count, moved = len(client.points()), old.with_name("moved")
    old.rename(moved)
    client.project, client.casrewind.root = moved, str(moved)
    try:
        report = client.casrewind.json("back", "--yes", "--session", told.session)
        assert len(client.points()) >= count
        person.resume_moved(report["fork"], "moved on")
        request = client.model.requests[-1].told
        assert request[-1] == "user: moved on" and report["prompts"][0] not in str(request) and PROMPTS[0] in request[0]
    finally:
        moved.rename(old)
        client.project, client.casrewind.root = old, str(old)
    assert len(client.points()) >= count


def test_no_hook_failed_and_the_store_is_whole(person, told, gone_back):
    assert person.client.casrewind("status", code=0).err == "" and person.client.casrewind.json("verify")["ok"]


def test_uninstall_gives_the_settings_of_before_back_and_leaves_no_hook(person, installed, told):
    client, path = person.client, person.client.config / person.settings[0]
    client.casrewind("uninstall", person.name, code=0)
    assert path.read_bytes() == installed.settings
    assert not any(b"casrewind" in name for name in picture(client.config))
    before = len(client.points())
    person.run("is anybody there")
    assert len(client.points()) == before
