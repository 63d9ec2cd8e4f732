"""What is Pi's own: the questions of the extension that `casrewind install pi` writes, its tree, its labels, and other extensions."""

import json
import os
import re
import resource
import time

import pytest

from support import real_clients, three_turns
from support.claude_client import wait
from support.fake_client import line_to_type
from support.resumed_clients import Pi
from support.sample_start import by_turns
from support.three_turns import PROMPTS, triggers
from support.transcripts import values

pytestmark = [pytest.mark.xdist_group("client-pi"), *real_clients.in_turn("pi")]
further = real_clients.further("pi")

CHAT, FILES, BOTH = "Conversation only, the files stay", "Files only, the conversation stays", "Files and conversation"
UNDO, CANCEL = "Undo the last restore", "Cancel"
bash = Pi.call


@pytest.fixture(scope="module")
def person(tmp_path_factory):
    found = Pi(tmp_path_factory.mktemp("p"))
    found.install()
    yield found
    found.client.stop()


@pytest.fixture(scope="module")
def client(person):
    return person.client


@pytest.fixture(scope="module")
def told(person):
    found = three_turns.tell(person)
    person.client.model.script["spoil it"] = [[bash("echo spoilt > alpha.txt")], ["Spoilt."]]
    return found


def test_doctor_asks_the_client_itself(client, told):
    extension = client.config / "extensions" / "casrewind.js"
    whole = extension.read_bytes()
    extension.write_bytes(b"syntax error here;;(\n" + whole)
    broken = client.casrewind("doctor", "pi", "--json", code=16).json
    extension.write_bytes(whole)
    assert any("does not load" in problem or "was asked" in problem for problem in broken["agents"]["pi"]["problems"])
    assert any("was edited" in problem for problem in broken["agents"]["pi"]["problems"])
    assert client.points() == told.points, "it left no checkpoint"


@pytest.fixture(scope="module")
def kept():
    """The process that tests with `front` share while they follow each other: no, or one."""
    return []


@pytest.fixture(autouse=True)
def nobody_else_has_a_session(request, kept):
    if "front" not in request.fixturenames and kept:
        kept.pop().close()


@pytest.fixture
def front(client, told, kept):
    """The first session again, with the files of before its third prompt and one more turn. A test may close it."""
    client.casrewind("restore", told.points[5]["id"], "--yes", code=0)
    if kept and kept[0].is_open:
        kept[0].ask("switch_session", sessionPath=str(client.transcript(told.session)))
    else:
        kept[:] = [client.front("--session", told.session)]
    front = kept[0]
    front.asked, front.answers, front.notes = [], [], []
    front.say("spoil it")
    return front


def alpha(client):
    return (client.project / "alpha.txt").read_bytes()


def newest(front):
    return front.prompts()[-1][0]


def test_fork_asks_and_each_answer_does_what_it_says(client, told, front):
    target, session = newest(front), front.session()
    for answer in (None, CANCEL):
        front.answers = [answer]
        assert front.ask("fork", entryId=target)["cancelled"]
        assert (alpha(client), front.session()) == (b"spoilt\n", session)
    assert front.asked[-1]["options"] == [CHAT, FILES, BOTH, UNDO, CANCEL]
    assert "1 path differs" in front.asked[-1]["title"] and "\n  ~ alpha.txt" in front.asked[-1]["title"]
    front.answers = [FILES]
    assert front.ask("fork", entryId=target)["cancelled"]
    assert (alpha(client), front.session()) == (b"alpha v2\n", session)
    number = len(front.asked)
    client.casrewind("undo", "--yes", code=0)
    front.answers = [UNDO]
    client.casrewind("restore", told.points[0]["id"], "--yes", code=0)
    assert front.ask("fork", entryId=target)["cancelled"] and alpha(client) == b"spoilt\n"
    front.answers = [CHAT]
    assert front.ask("fork", entryId=target) == {"text": "spoil it", "cancelled": False}
    assert alpha(client) == b"spoilt\n" and front.session() != session
    front.ask("switch_session", sessionPath=str(client.transcript(session)))
    front.answers = [BOTH]
    assert not front.ask("fork", entryId=target)["cancelled"]
    assert alpha(client) == b"alpha v2\n" and len(front.asked) == number + 3
    front.say("probe")
    assert client.model.requests[-1].told[-1] == "user: probe" and "spoil it" not in str(client.model.requests[-1].told)
    assert not front.ask("fork", entryId=newest(front))["cancelled"], "nothing differs: no question"
    assert len(front.asked) == number + 3


def test_at_the_message_to_which_files_were_restored_the_restore_can_be_undone(client, told, front):
    target, session = newest(front), front.session()
    front.answers = [FILES, CANCEL, UNDO]
    for answer in (b"alpha v2\n", b"alpha v2\n", b"spoilt\n"):
        assert front.ask("fork", entryId=target)["cancelled"] and alpha(client) == answer
    assert [asked["options"] for asked in front.asked[1:]] == [[CHAT, UNDO, CANCEL]] * 2
    assert front.asked[1]["title"] == "casrewind: the newest restore made the files what they were then"
    assert "undone: 1 written" in front.notes[-1] and front.session() == session
    front.say("probe")
    front.answers = [FILES]
    assert front.ask("fork", entryId=target)["cancelled"]
    front.say("go on from there")
    assert not front.ask("fork", entryId=newest(front))["cancelled"] and len(front.asked) == 4, "another message: no question"


def test_the_client_s_list_of_prompts_and_its_footer_are_ours(person, client, told, front):
    prompts = person.adapter.prompts(client.transcript(told.session).read_bytes())
    assert [(prompt.prompt_id, prompt.text) for prompt in prompts] == front.prompts() and [text for _, text in front.prompts()[:3]] == PROMPTS
    assert re.fullmatch(r"\d+ checkpoints?", front.status["casrewind"])


def test_the_question_names_the_first_paths_removals_first(client, told, front):
    odd = [*(f"later{number}.txt" for number in range(6)), "later\x1b[2J.txt"]
    for name in odd:
        (client.project / name).write_text("later")
    front.answers = [FILES]
    assert front.ask("fork", entryId=newest(front))["cancelled"]
    shown = front.asked[-1]["title"].splitlines()
    assert shown[0].startswith("casrewind: 8 paths differ from then")
    assert shown[1] == "  - later\\x1b[2J.txt" and all(line.startswith("  - later") for line in shown[1:6])
    assert shown[6:] == ["  ... and 3 more"]
    assert "1 written, 7 removed" in front.notes[-1] and "\x1b" not in front.notes[-1]
    assert front.notes[-1].index("- later5.txt") < front.notes[-1].index("~ alpha.txt")


def test_files_that_stay_are_recorded_with_the_new_place(client, told, front):
    front.answers = [CHAT]
    assert not front.ask("fork", entryId=newest(front))["cancelled"]
    session = front.session()
    wait(lambda: client.points()[-1]["session"] == session)
    point = client.points()[-1]
    assert (point["trigger"], session != told.session) == ("session_start", True)
    assert client.casrewind("cat", f"{point['id']}:alpha.txt", code=0).out == "spoilt\n" == alpha(client).decode()


def test_a_command_in_the_client_goes_back_in_the_same_session_and_stays_there(client, told, front):
    session, asked, before = front.session(), len(client.model.requests), client.model.requests[-1].prompts
    assert before[-1] == "spoil it"
    assert "spoil it" in front.order("/casrewind list -n 5")
    assert "1 written, 0 removed" in front.order("/casrewind back 1", ends="where it was before: spoil it")
    assert (alpha(client), front.session(), len(client.model.requests)) == (b"alpha v2\n", session, asked)
    assert front.asked == [], "nothing was asked"
    front.close()
    client.print("still here", "--session", session)
    assert client.model.requests[-1].prompts == [*before[:-1], "still here"], "the move outlived the client"
    assert "casrewind: since" not in json.dumps(client.model.requests[-1].body), "a move of files and conversation needs no words"
    again = client.front("--session", session)
    plan = again.order("/casrewind undo")
    assert "~ alpha.txt" in plan and alpha(client) == b"alpha v2\n"
    assert "undone" in again.order(line_to_type(plan)) and alpha(client) == b"spoilt\n"
    assert "no turn '@99'" in again.order("/casrewind back 99") and "not --nix" in again.order("/casrewind back --nix")
    assert "does not take" in again.order("/casrewind restore last --to /elsewhere")
    again.close()


def test_a_command_that_takes_more_than_a_turn_back_is_planned_first(client, told, front):
    mine, session = client.project / "mine.txt", front.session()
    mine.write_text("mine")
    plan = front.order("/casrewind back 2", ends="To go ahead")
    assert "- mine.txt" in plan and "since then, outside of a turn. Those edits will be lost:\n    mine.txt\n" in plan
    assert (alpha(client), mine.read_text()) == (b"spoilt\n", "mine")
    mine.write_text("mine, and more")
    done = front.order(line_to_type(plan), ends="where it was before")
    assert "mine.txt: it changed just now" in done and mine.exists() and front.session() == session
    client.casrewind("undo", "--yes", code=0)
    mine.unlink()


def test_a_bare_command_offers_the_prompts_and_how_many_files_each_would_change(client, told, front):
    (client.project / "mine.txt").write_text("mine")
    front.answers = [None]
    assert front.order("/casrewind list") and front.asked == []
    front.send("prompt", message="/casrewind")
    while not front.asked:
        front.next()
    now, first, *more = front.asked[0]["options"]
    assert now == "(current)  the files and the conversation stay as they are"
    assert re.fullmatch(r"@1  2 files  \d+ s ago  spoil it", first) and len(more) >= 2
    assert all(re.fullmatch(r"@\d+  (no file|1 file|\d+ files)  \d+ (s|min) ago  .+", row) and len(row) < 80 for row in more)
    assert (alpha(client), (client.project / "mine.txt").read_text()) == (b"spoilt\n", "mine"), "nothing was chosen"
    (client.project / "mine.txt").unlink()
    front.answers = [lambda options: next(row for row in options if row.startswith("@1 "))]
    front.order("/casrewind", ends="where it was before: spoil it")
    assert alpha(client) == b"alpha v2\n"


def test_the_footer_is_hidden_by_the_setting_of_extensions_before_this_one(client, told):
    settings = client.config / "settings.json"
    before = settings.read_bytes()
    settings.write_text(json.dumps({**json.loads(before), "rewind": {"silentCheckpoints": True}}))
    front = client.front("--session", told.session)
    try:
        front.say("probe")
        front.order("/casrewind list")
        assert "casrewind" not in front.status and front.asked == []
    finally:
        front.close()
        settings.write_bytes(before)


def test_the_checkpoint_of_a_message_with_tools_is_what_they_left_however_quick_they_were(client, told, front):
    """The save behind the second step is left out, because it follows soon on the first; the one before the third has its files."""
    client.casrewind("install", "pi", "--tier", "aggressive", code=0)
    other = client.front()
    client.model.script["in steps"] = [*([bash(f"echo {number} > step.txt")] for number in range(3)), ["In steps."]]
    try:
        other.say("in steps")
        session = other.session()
    finally:
        other.close()
        client.casrewind("install", "pi", code=0)
    entries = [entry for entry in values(client.transcript(session).read_bytes()) if entry.get("type") == "message"]
    ids = [entry["id"] for entry in entries if entry["message"]["role"] in ("assistant", "toolResult")]
    for number in range(3):
        for there in (ids[2 * number : 2 * number + 2], [ids[2 * number]]):
            at = client.casrewind.json("at", "--session", session, "--entry", ",".join(there))["checkpoint"]
            assert at is None or client.casrewind("cat", f"{at}:step.txt", code=0).out == f"{number}\n", (number, there)
    second = client.casrewind.json("at", "--session", session, "--entry", ",".join(ids[2:4]))["checkpoint"]
    assert second is not None
    (client.project / "step.txt").unlink()


def test_on_a_terminal_the_question_is_asked_at_fork_and_tree(client, told):
    client.casrewind("restore", told.points[5]["id"], "--yes", code=0)
    terminal = client.terminal()
    terminal.say("hello there")
    terminal.say("spoil it")
    terminal.wait_for("checkpoints")  # the footer
    terminal.type("/fork")
    terminal.wait_for("spoil it", times=2)
    terminal.keys("Enter")
    terminal.wait_for("1 path differs")
    terminal.keys("Escape")
    terminal.until(lambda: "1 path differs" not in terminal.screen())
    assert alpha(client) == b"spoilt\n"
    terminal.type("/casrewind list")
    terminal.wait_for("hello there", times=2)
    terminal.type("/tree")
    terminal.until(lambda: "hello there" in terminal.screen() and "/tree" not in terminal.screen().splitlines()[-4:])
    time.sleep(0.5)
    for key in ("Up", "Up", "Up", "Enter"):  # from the answer over the tool to the prompt
        terminal.keys(key)
        time.sleep(0.2)
    if "summar" in terminal.screen().lower():
        terminal.keys("Enter")  # no summary
    terminal.wait_for("1 path differs")
    for key in ("Down", "Down", "Enter"):
        terminal.keys(key)
        time.sleep(0.2)
    terminal.wait_for("files restored: 1 written")
    assert alpha(client) == b"alpha v2\n" and "~ alpha.txt" in terminal.screen()


@pytest.mark.parametrize("way", by_turns(["/fork", "/casrewind back", "/casrewind back --fork"], 1))
def test_on_a_terminal_the_counts_follow_files_and_conversation(client, told, way):
    """Pi draws the conversation anew after a move, and with it goes what was said before."""
    client.casrewind("restore", told.points[5]["id"], "--yes", code=0)
    terminal = client.terminal()
    terminal.say("spoil it")
    terminal.type(way)
    if way == "/fork":
        terminal.wait_for("spoil it", times=2)
        terminal.keys("Enter")
        terminal.wait_for("1 path differs")
        for key in ("Down", "Down", "Enter"):
            terminal.keys(key)
            time.sleep(0.2)
    terminal.until(lambda: "Spoilt." not in terminal.screen() and "files restored: 1 written" in terminal.screen())
    time.sleep(1)
    screen = terminal.screen()
    assert "files restored: 1 written" in screen and "~ alpha.txt" in screen and alpha(client) == b"alpha v2\n"


def test_a_restore_that_is_refused_keeps_the_conversation_where_it_is(client, told, front):
    target, session = newest(front), front.session()
    front.answers = [None, BOTH]
    (client.project / "kept.txt").unlink()
    (client.project / "kept.txt").mkdir()
    os.mkfifo(client.project / "kept.txt" / "pipe")  # it cannot be stored, so nothing may take its place
    try:
        assert front.ask("fork", entryId=target)["cancelled"]
        assert front.asked[-1]["options"][:1] == [CHAT] and BOTH not in front.asked[-1]["options"]
        assert "cannot be restored" in front.asked[-1]["title"]
        assert front.ask("fork", entryId=target)["cancelled"], "whatever the front end says"
        assert front.session() == session and alpha(client) == b"spoilt\n"
        assert "not restored" in front.notes[-1]
    finally:
        os.unlink(client.project / "kept.txt" / "pipe")


def test_messages_during_a_run_are_prompts_and_the_checkpoints_of_tools_are_aggressive(client, told, front):
    client.casrewind("install", "pi", "--tier", "aggressive", code=0)
    before = len(client.points())
    other = client.front()
    client.model.script["go slowly"] = [[bash("echo a > slow; sleep 1; echo b >> slow")], ["Slow."]]
    client.model.script["faster"] = [[bash("echo c > steered")], ["Steered."]]
    other.ask("prompt", message="go slowly")
    other.until("tool_execution_start")
    other.ask("steer", message="faster please")
    other.until("agent_settled")
    other.close()
    points = client.points()[before:]
    assert [point["prompt"] for point in points if point["trigger"] == "prompt"] == ["go slowly", "faster please"]
    assert "tool_batch" in triggers(points)
    (steered,) = (point for point in points if (point["trigger"], point["prompt"]) == ("prompt", "faster please"))
    shown = client.casrewind("cat", f"{steered['id']}:slow", code=0)
    assert shown.out == "a\nb\n" and client.casrewind("cat", f"{steered['id']}:steered").code != 0
    client.casrewind("install", "pi", code=0)
    client.casrewind("restore", points[0]["id"], "--yes", code=0)


@further
def test_a_compaction_has_a_checkpoint_and_the_conversation_before_it_comes_back_whole(client, told, front):
    before = client.model.requests[-1].prompts
    front.ask("compact")
    front.say("after it")
    assert client.model.requests[-1].prompts[0] != before[0], "the client sent a summary"
    (compact,) = (point for point in client.points()[-4:] if point["trigger"] == "compact")
    report = client.casrewind.json("restore", compact["id"], "--chat")
    client.resume(report["fork"]["resume"], "whole again")
    assert client.model.requests[-1].prompts == [*before, "whole again"]


def test_a_turn_that_is_cancelled_has_its_checkpoints(client, told, front):
    client.model.script["hang on"] = [[bash("echo half > half.txt; sleep 30")], ["Never."]]
    before = len(client.points())
    front.ask("prompt", message="hang on")
    wait(lambda: (client.project / "half.txt").exists())
    front.ask("abort")
    wait(lambda: triggers(client.points())[before:] == ["prompt", "turn_end"])
    assert "back" not in front.notes
    front.order("/casrewind back 1", ends="where it was")
    assert not (client.project / "half.txt").exists()
    front.say("go on")
    assert not any("hang on" in text for text in client.model.requests[-1].told)


def test_another_extension_may_answer_beforehand(client, told, front):
    other = client.config / "extensions" / "other.js"
    other.write_text(
        """export default (pi) => pi.registerCommand("other", { description: "", handler: async (args, ctx) => {
          if (args === "at") pi.events.emit("casrewind:at", { entry: ctx.sessionManager.getBranch().filter((e) => e.message?.role === "user").at(-1).id, reply: (found) => ctx.ui.notify(JSON.stringify(found), "info") });
          else if (args === "list") pi.events.emit("casrewind:list", { number: 2, reply: (found) => ctx.ui.notify(JSON.stringify(found), "info") });
          else if (args.startsWith("back ")) pi.events.emit("casrewind:back", { entry: args.slice(5), reply: (found) => ctx.ui.notify(JSON.stringify(found), "info") });
          else { pi.events.emit("casrewind:answer", { choice: args }); ctx.ui.notify("answered", "info"); }
        } });"""
    )
    again = client.front("--session", told.session)
    try:
        target, session = newest(again), again.session()
        assert json.loads(again.order("/other at"))["written"] == 1
        assert [turn["prompt"] for turn in json.loads(again.order("/other list"))["turns"]][0] == "spoil it"
        assert "no checkpoint" in json.loads(again.order("/other back nothing"))["error"] and alpha(client) == b"spoilt\n"
        assert json.loads(again.order(f"/other back {target}"))["restored"] == 1 and alpha(client) == b"alpha v2\n"
        client.casrewind("undo", "--yes", code=0)
        again.order("/other cancel")
        assert again.ask("fork", entryId=target)["cancelled"] and alpha(client) == b"spoilt\n"
        again.order("/other both")
        assert not again.ask("fork", entryId=target)["cancelled"] and again.session() != session
        assert alpha(client) == b"alpha v2\n" and again.asked == []
    finally:
        again.close()
        other.unlink()


def test_a_pi_that_a_tool_starts_is_a_subagent(client, told, front):
    client.model.script["have it done"] = [[bash("pi -p --no-session 'the sub task'; echo by a subagent > alpha.txt")], ["Done."]]
    client.model.script["the sub task"] = [[bash("echo sub > sub.txt")], ["Sub."]]
    before = len(client.points())
    front.say("have it done")
    assert (client.project / "sub.txt").exists()
    points = client.points()[before:]
    assert triggers(points) == ["prompt", "turn_end", "turn_end"] and {point["session"] for point in points} == {told.session}
    assert [point["prompt"] for point in points if point["trigger"] == "prompt"] == ["have it done"]
    front.order("/casrewind back 1", ends="where it was")
    assert not (client.project / "sub.txt").exists()


def test_a_label_pins_its_checkpoint_and_uninstalled_nothing_is_left(client, told, front):
    """The label is put where Pi's own tree puts it: as an entry of the session."""
    target = newest(front)
    transcript = client.transcript(front.session())
    front.close()
    last = values(transcript.read_bytes())[-1]["id"]
    label = {"type": "label", "id": "1abe1001", "parentId": last, "timestamp": "2026-11-22T04:00:11.000Z", "targetId": target, "label": "good"}
    with transcript.open("ab") as file:
        file.write(json.dumps(label).encode() + b"\n")
    again = client.front("--session", told.session)
    wait(lambda: any(point["label"] == "pi:good" and point["pinned"] for point in client.points()))
    again.close()
    with transcript.open("ab") as file:
        file.write(json.dumps({**label, "id": "1abe1002", "parentId": "1abe1001", "targetId": target, "label": "good 2"}).encode() + b"\n")
    client.print("hello", "--session", told.session)
    (point,) = (point for point in client.points() if (point["label"] or "").startswith("pi:"))
    assert (point["label"], point["prompt"]) == ("pi:good 2", "spoil it")


def cpu_seconds():
    """Of all processes that this one has started and that have ended: a busy machine changes it little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@further
def test_a_hook_costs_little_and_a_missing_casrewind_nothing(client, told):
    extension = client.config / "extensions" / "casrewind.js"
    whole = extension.read_text()
    extension.write_text(re.sub(r"const COMMAND = .*;", 'const COMMAND = ["/nowhere/casrewind"];', whole))
    start = cpu_seconds()
    client.print("without")
    without = cpu_seconds() - start
    extension.write_text(whole)
    before = len(client.points())
    start = cpu_seconds()
    client.print("with")
    used = cpu_seconds() - start
    assert len(client.points()) == before + 4
    print(f"{without:.2f} s, with the hooks {used:.2f} s")
    assert 0.1 < without and used < without + 4, "four hooks, each an interpreter's start"


