"""Checkpoints of other machines on the command line: how they are named, listed, shown and restored."""

import os
import re
import time

import pytest

from casrewind.agents import client_process
from casrewind.agents.carried_lines import carried
from casrewind.agents.claude import CLIENT as claude
from casrewind.cli.show.text import column_width
from casrewind.cli.terminal import table
from casrewind.upkeep import agent_event
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.command import Command
from support.picture import differences, picture
from support.recorded_session import Session, rows
from support.trees import plant


@pytest.fixture
def here(root, settings):
    """The project on this machine: a turn of its own."""
    plant(root, {"print.py": b"old\n", "mine": b"m"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.prompt("a", "own work")
        plant(root, {"own": b"o"})
        agent.stop("a")
        yield workspace


def worked(machine):
    """Two turns, and one that had not ended when it was pushed."""
    plant(machine.root, {"print.py": b"old\n"})
    machine.agent.tell("SessionStart", source="startup")
    machine.turn("a", "make the till", {"till.py": b"1\n", "lib/a": b"a"})
    machine.turn("b", "now the printer", {"print.py": b"new\n"})
    return machine


@pytest.fixture
def sandbox(machines, here):
    found = worked(machines())
    found.points = found.pull_into(here)
    return found


def wide(monkeypatch, columns):
    monkeypatch.setattr(table, "_fixed_width", [columns])


def shown(text):
    """The lines without ages and ids."""
    return [re.sub(r"\d+ s ago|\bc[0-9a-f]{14}\b", "~", line).rstrip() for line in text.splitlines()]


# -- list


def test_a_machine_has_a_line_and_its_rows_have_numbers_as_they_are_typed(sandbox, casrewind, monkeypatch):
    wide(monkeypatch, 80)
    head, *rows = shown(casrewind("list", "--remote", code=0).out)
    assert head.startswith("sandbox-4: 2 turns, the newest ~, of /") and len(head) <= 80
    assert rows == [
        "  remote:@1  now the printer             ~     ~1         print.py",
        "  remote:@2  make the till               ~     +2         lib/a, till.py",
    ]
    assert shown(casrewind("list", "--remote", "--oneline", code=0).out) == [
        "remote:@1  ~     ~  now the printer", "remote:@2  ~     ~  make the till",
    ]  # fmt: skip
    assert len(casrewind("list", "--remote", "-n", "1", code=0).out.splitlines()) == 2
    assert "make the till" not in casrewind("list", "--remote", "--grep", "PRINTER", code=0).out
    assert shown(casrewind("list", "--remote", "--reverse", code=0).out)[-1].startswith("  remote:@1")


def test_several_machines(sandbox, here, machines, casrewind, monkeypatch):
    wide(monkeypatch, 80)
    other = machines("a-machine-with-a-long-name.example", session="eeee")
    other.turn("a", "a prompt that is too long for a row of eighty columns, so it is cut", {"f": b"1"})
    other.pull_into(here)
    found = casrewind("list", "--remote", code=0).out
    assert all(column_width(line) <= 80 for line in found.splitlines())
    assert [re.sub(r"^\d+$", "N", line.split()[0]) for line in found.splitlines()] == [
        "a-machine-with-a-long-name.example:", "a-machine-with-a-long-name.example:@1", "N", "sandbox-4:", "sandbox-4:@1", "sandbox-4:@2",
    ]  # fmt: skip
    refused = casrewind("restore", "remote:@1", code=15)
    assert refused.err == (
        "casrewind: 'remote:@1' may mean 2 machines; write a-machine-with-a-long-name.example:@1 or sandbox-4:@1\n"
    )
    assert "now the printer" in casrewind("show", "sandbox-4:@1", code=0).out
    assert "a prompt that is" in casrewind("show", "a-machine-with-a-long-name.example:@1", code=0).out


def test_every_checkpoint_of_a_machine(sandbox, casrewind, monkeypatch):
    wide(monkeypatch, 80)
    assert shown(casrewind("list", "--remote", "--all", code=0).out)[1:] == [
        "id                turn        when      what",
        "─────────────────────────────────────────────────────────────────",
        "~   remote:@1   ~   turn end: now the printer",
        "~   remote:@1   ~   now the printer",
        "~   remote:@2   ~   turn end: make the till",
        "~   remote:@2   ~   make the till",
        "~               ~   session start",
    ]
    found = casrewind.json("list", "--remote")["machines"]
    assert [one["machine"] for one in found] == ["sandbox-4"] and found[0]["root"] == str(sandbox.root)
    assert [turn["prompt"] for turn in found[0]["turns"]] == ["now the printer", "make the till"]
    assert {point["machine"] for point in found[0]["checkpoints"]} == {"sandbox-4"}
    assert casrewind.json("list", "--remote", "--all")["machines"][0]["checkpoints"] == found[0]["checkpoints"]


def test_without_another_machine(here, casrewind):
    assert casrewind("list", "--remote", code=0).out == "no checkpoints of other machines; casrewind pull fetches them\n"
    assert casrewind.json("list", "--remote") == {"machines": []}
    assert casrewind("restore", "remote:@1", code=15).err == (
        "casrewind: no checkpoint of another machine is here; casrewind pull fetches them\n"
    )


def test_the_list_of_this_machine_does_not_change(here, machines, casrewind):
    commands = [("list",), ("list", "--all"), ("list", "--json"), ("list", "--all", "--json"), ("status",), ("log", "print.py"), ("log",), ("undo", "--list")]

    def told():
        texts = ["\n".join(shown(casrewind(*command, code=0).out)) for command in commands]
        return [re.sub(r"[\d.]+ [KM]iB|\"seq\": \d+|\d+ s\b", "~", text) for text in texts]

    before = told()
    worked(machines()).pull_into(here)
    assert told() == before


# -- names


def test_words_for_a_checkpoint_of_a_machine(sandbox, casrewind):
    (start, before_2, after_2, before_1, after_1) = (point.id for point in sandbox.points)
    for word, wanted in {
        "remote:@1": before_1, "remote:after:@1": after_1, "remote:@2": before_2, "remote:after:@2": after_2, "remote:last": after_1,
        "remote:prev": before_1, "sandbox-4:@1": before_1, "sandbox-4:last": after_1, "sandbox-4:after:@2": after_2, after_2: after_2,
        f"remote:{start[:9]}": start, "remote:today": after_1,
    }.items():  # fmt: skip
        assert casrewind.json("restore", word, "-n")["target"] == wanted, word
    assert casrewind("cat", "remote:@1:till.py", code=0).out == "1\n"
    assert casrewind("cat", "sandbox-4:after:@1:print.py", code=0).out == "new\n"
    assert casrewind("cat", "remote:last:lib/a", code=0).out == "a"
    assert shown(casrewind("diff", "remote:@1", code=0).out) == [
        'sandbox-4:@1 "now the printer", ~: from ~ to ~', "~ print.py", "0 added, 1 modified, 0 removed",
    ]  # fmt: skip
    assert "~ print.py" in casrewind("diff", "@1", "remote:last", code=0).out
    assert casrewind("diff", "remote:@2", "remote:last", code=0).out.startswith('from before "make the till" (sandbox-4:@2, ')
    assert casrewind("show", "remote:@1", code=0).out.startswith("turn sandbox-4:@1 of claude\n")
    assert f"root      {sandbox.root} on sandbox-4\n" in casrewind("show", "remote:last", code=0).out
    assert casrewind("restore", "remote:last", "--to", str(sandbox.root.parent / "new"), code=0)
    assert differences(picture(sandbox.root.parent / "new"), picture(sandbox.root)) == {}
    assert casrewind("pin", "remote:@1", "works", code=0).out.startswith(f"pinned {before_1}")
    assert casrewind("cat", "remote:works:print.py", code=0).out == "old\n"


@pytest.mark.parametrize(("words", "code", "said"), [
    (("restore", "remote:@7"), 15, "no turn 'sandbox-4:@7': sandbox-4 has 2; casrewind list --remote shows them"),
    (("restore", "remote:3"), 15, "no checkpoint 'sandbox-4:3'; give a turn (@N), last,"),
    (("restore", "remote:nope"), 15, "no checkpoint 'sandbox-4:nope'; give"),
    (("restore", "other:@1"), 15, "no checkpoint 'other:@1'; give"),
    (("cat", "remote:last"), 64, "'remote:last' names no file; write REF:PATH"),
    (("cat", "remote:@9:f"), 15, "no turn 'sandbox-4:@9': sandbox-4 has 2;"),
    (("cat", "other:@1:f"), 15, "no checkpoint 'other'; give"),
    (("revert", "remote:@1", "-y"), 64, "remote:@1 is a turn of sandbox-4: revert reverses turns of this machine; casrewind restore remote:@1 "),
    (("restore", "remote:@1", "--keep-edits", "-y"), 15, "the files here never were those of sandbox-4, so edits cannot be told apart; casrewind restore --exact c"),
    (("save", "-m", "remote:@1"), 64, "'remote:@1' cannot be a label: it would be taken for a checkpoint of another machine"),
    (("save", "-m", "ci:last"), 64, "'ci:last' cannot be a label: it would be taken for a checkpoint of another machine"),
    (("back", "remote:1"), 64, "N: 'remote:1' is not a number"),
    (("back", "after:@1"), 64, "N: 'after:@1' is not a number"),
])  # fmt: skip
def test_what_is_no_checkpoint_of_a_machine(sandbox, casrewind, words, code, said):
    refused = casrewind(*words, code=code)
    assert said in refused.err, refused
    assert refused.out == ""


def test_a_turn_that_had_not_ended_has_no_state_behind_it(here, machines, casrewind):
    found = machines()
    plant(found.root, {"f": b"1"})
    found.turn("a", "long job", {"f": b"2"}, ends=False)
    found.pull_into(here)
    refused = casrewind("restore", "remote:after:@1", "-y", code=15).err
    assert refused == "casrewind: the state after sandbox-4:@1 is not here: the turn had not ended there; casrewind pull fetches what is new\n"
    assert shown(casrewind("list", "--remote", code=0).out)[1].endswith(" not counted")
    assert casrewind("diff", "remote:@1", code=15).err.startswith("casrewind: the state after sandbox-4:@1")
    assert "long job" in casrewind("show", "remote:@1", code=0).out


def test_a_session_that_is_alive_here_runs_no_turn_there(here, machines, casrewind):
    """A conversation was handed over, and goes on here under its id."""
    found = machines(session="s1")
    found.turn("a", "long job", {"f": b"2"}, ends=False)
    found.pull_into(here)
    process = client_process.client_process(os.getpid())
    event = AgentTurns(here, here.root.path).event("UserPromptSubmit", "z", prompt="more")
    seen = agent_event.session_record(here._context, event, time.time_ns())
    here._context.store.sessions.record(seen._replace(pid=process.pid, pid_start=process.start))
    (turn,) = casrewind.json("list", "--remote")["machines"][0]["turns"]
    assert not turn["running"]


def test_the_picker_shows_no_remote_row_and_names_a_restore_of_one(sandbox, here, casrewind):
    pytest.importorskip("textual")
    from casrewind.cli.picker import coloured_lines, picker_rows
    from casrewind.cli.picker.timeline import TimelineModel

    casrewind("back", "remote:@1", "--code", "-y", code=0)
    shown = TimelineModel(here._context).first_timeline()
    assert shown.is_complete and shown.elsewhere == []
    titles = [picker_rows.row_title(shown, row) + picker_rows.remark_on(shown, row) for row in shown.rows]
    assert titles[0] == 'restored to before "now the printer" of sandbox-4'
    assert coloured_lines.timeline_row(shown, shown.rows[0], 60, is_base=False, is_unfolded=False).plain.startswith(
        '    restored to before "now th… of sandbox-4 '
    )
    assert set(shown.points) == {point["id"] for point in casrewind.json("list", "--all")["checkpoints"]}


# -- back


def test_back_takes_the_files_over_and_undo_gives_them_back(sandbox, casrewind, root, monkeypatch):
    wide(monkeypatch, 80)
    before = picture(root)
    done = casrewind("back", "remote:@1", "--code", "-y", code=0)
    assert shown(done.out) == [
        'restored to before "now the printer" (sandbox-4:@1, ~)', "  2 paths written, 2 removed, 1 unchanged",
        "  the agent will be told (hooks.tell_agent)", "  casrewind undo takes this back",
    ]  # fmt: skip
    assert {path.name for path in root.iterdir()} == {"print.py", "till.py", "lib"}
    assert shown(casrewind("list", code=0).out)[1] == '      restored to before "now t… of sandbox-4  ~     +2 -2'
    assert 'undo the restore to before "now the printer" of sandbox-4' in casrewind("undo", "--list", code=0).out
    assert 'undone: the restore to before "now the printer" of sandbox-4' in casrewind("undo", "-y", code=0).out
    assert differences(picture(root), before) == {}
    assert casrewind("redo", "-y", code=0)
    assert {path.name for path in root.iterdir()} == {"print.py", "till.py", "lib"}


def test_back_plans_and_asks_on_a_terminal(sandbox, terminal, casrewind, root):
    plant(root, {"mine": b"edited"})
    session = terminal("back", "remote:@1", "--code")
    session.read_until(b"[y/N/d] ")
    asked = session.shown.decode()
    assert 'back to before "now the printer" (sandbox-4:@1, ' in asked
    assert "1 of these paths was edited here, outside of a turn. Those edits will be lost:" in asked and "keep" not in asked
    session.type("n\n")
    assert "nothing was changed" in session.end()[1].decode()
    assert (root / "own").exists()


def test_edits_here_stay_since_both_machines_had_the_same_files(sandbox, here, casrewind, root, terminal, monkeypatch):
    casrewind("back", "remote:@1", "--code", "-y", code=0)
    plant(root, {"print.py": b"old\n\n\n\nedited\n", "mine": b"m"})
    plant(sandbox.root, {"print.py": b"first\nold\n", "label.py": b"l"})
    sandbox.turn("c", "labels", {"label.py": b"l2"})
    sandbox.pull_into(here)
    title, *lines = casrewind("back", "remote:@1", "--code", "--keep-edits", "-n", code=0).out.splitlines()
    assert title.startswith('back to before "labels" (sandbox-4:@1, ') and lines == [
        "would restore 2 paths and remove 0; 2 paths would stay", "  + label.py",
        "  ~ print.py  merged: 1 place of sandbox-4 taken over, 4 lines of yours kept", "  kept, yours (1 path):", "    mine",
        "  not the exact state of sandbox-4:@1: 2 paths keep your edits",
    ]  # fmt: skip
    session = terminal("back", "remote:@1", "--code")
    session.read_until(b"[y/N/e/d] ")
    assert b"edited here, outside of a turn. Those edits will be lost:" in session.shown and b"--keep-edits" not in session.shown
    session.type("e")
    session.read_until(b"[y/N/d] ")
    assert b"  takes over only what sandbox-4 changed since both were equal; edits here stay" in session.shown
    session.type("y")
    assert session.end()[0] == 0
    assert (root / "print.py").read_bytes() == b"first\nold\n\n\n\nedited\n" and (root / "mine").exists() and (root / "label.py").exists()


def test_a_person_in_a_client_sees_the_plan_first(sandbox, casrewind, root):
    first = casrewind("back", "--session", "s1", "--typed=back remote:@1", "remote:@1", "--code", code=0).out
    assert (root / "own").exists() and "nothing has changed yet. To go ahead, type:" in first
    line = first.splitlines()[-1].strip()
    assert re.search(r"back remote:@1 yes c\w+-\w+$", line), line


@pytest.fixture
def talked(here, machines):
    """A machine with a recorded conversation, which its hooks reported, and which were pulled. `session`: the conversation."""
    found = machines()
    found.session = Session("claude", Command(found.root, found.home), found.root)
    plant(found.root, {"print.py": b"old\n"})
    lines = rows("claude")
    prompts = [at for at, line in enumerate(lines) if line.get("type") == "user" and isinstance(line["message"]["content"], str)]
    found.session.write(lines[: prompts[-1]])
    found.session.event("prompt")
    plant(found.root, {"print.py": b"newer\n"})
    found.session.write(lines)
    found.session.event("turn_end")
    found.pull_into(here)
    return found


def test_back_brings_the_conversation_under_its_id(talked, casrewind, root, home):
    planned = casrewind("back", "remote:@1", "-n", code=0).out
    assert planned.endswith("would bring the conversation of sandbox-4 here\n") and not list(home.rglob("*.jsonl"))
    done = casrewind("back", "remote:@1", "-y", code=0).out
    assert done.startswith('restored to before "casrewind doctor" (sandbox-4:@1, ')
    assert done.endswith(f"continue the conversation: claude --resume {talked.session.id}\n  casrewind undo takes this back\n")
    (written,) = home.rglob("*.jsonl")
    assert written.stem == talked.session.id
    assert carried(talked.session.path.read_bytes(), claude.carried_lines()).startswith(written.read_bytes())
    assert (root / "print.py").read_bytes() == b"old\n" and not (root / "own").exists()
    assert casrewind.json("back", "sandbox-4:@1", "--chat")["fork"]["mode"] == "fork", "a session of that id is here now"


def test_back_cuts_no_conversation_of_another_machine_in_place(talked, casrewind):
    refused = casrewind("back", "remote:@1", "--in-place", code=64)
    assert refused.err == "casrewind: back remote:@1 restores the conversation of another machine, so it does not accept --in-place\n"


def test_a_conversation_that_was_left_at_home(sandbox, casrewind, root):
    before = picture(root)
    refused = casrewind("back", "remote:@1", "-y")
    assert refused.code == 16 and refused.err.endswith("casrewind back remote:@1 --code takes the files over\n"), refused
    assert differences(picture(root), before) == {}
