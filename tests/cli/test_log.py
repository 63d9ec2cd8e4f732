"""log PATH as it is typed: a row for each change, the diff on request, its JSON, and what is no path."""

import json
import os
import re
import sys

import pytest

from casrewind.upkeep.save import Moment
from casrewind.upkeep.save import save as save_moment
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.command_in_process import InProcess
from support.packfile import flip_blob
from support.terminal import Session
from support.trees import Link, plant


@pytest.fixture
def told(root, home, settings, casrewind):
    """The command beside a project with a labelled checkpoint, three prompts of an agent and a pin."""
    plant(root, {"src/till.py": b"print('till')\n", "notes": b"n"})
    casrewind("save", "-m", "by hand", code=0)
    with opened(root, settings) as workspace:
        for number in range(3):
            plant(root, {"src/till.py": b"print('till')\n" + b"# more\n" * (number + 1), "notes": b"n%d" % (number // 2)})
            moment = Moment(trigger="prompt", prompt=f"make it longer, part {number}", agent="claude", session="3f6e0f0e-6a4e-4a53")
            save_moment(workspace._context, moment)
    return casrewind


def test_a_row_says_when_at_which_prompt_and_from_what_to_what(told):
    found = told("log", "src/till.py", code=0)
    lines = found.out.splitlines()
    listed = told.json("list")["checkpoints"]
    assert lines[0] == "src/till.py: 4 changes" and len(lines) == 5 and found.err == ""
    assert [line.split()[1] for line in lines[1:]] == [row["id"] for row in listed]
    assert [line[0] for line in lines[1:]] == ["~", "~", "~", "+"]
    assert all(word in lines[1] for word in (" ago ", " 28 B -> 35 B ", " claude 3f6e0f0e ", " @2 make it longer, part 1"))
    assert lines[3].endswith("  edited outside of a turn"), "it was there before the first prompt"
    assert "manual" not in found.out and " 14 B " in lines[4] and lines[4].endswith("  by hand")
    assert len({line.index("ago") for line in lines[1:] if line[25:].lstrip()[1:2] == " "}) <= 1  # in columns


def test_number_and_safety(told, root):
    assert told("log", "-n", "1", "src/till.py", code=0).out.splitlines()[0] == "src/till.py: 1 change"
    plant(root, {"src/till.py": b"lost"})
    told("restore", "last", "--yes", code=0)
    told("save", "-m", "after", code=0)
    assert "safety" not in told("log", "src/till.py", code=0).out
    (row,) = [line for line in told("log", "--all", "src/till.py", code=0).out.splitlines() if " safety " in line]
    assert "35 B -> 4 B" in row
    for bad in ("0", "x", "-1"):
        told("log", "-n", bad, "notes", code=64)


def test_patch_shows_what_each_changed(told):
    found = told("log", "src/till.py", "--patch", "-n", "1", code=0).out
    assert "--- a/src/till.py\n+++ b/src/till.py\n" in found
    assert [line for line in found.splitlines() if line.startswith("+#")] == ["+# more"]
    whole = told("log", "src", "--patch", code=0).out
    assert whole.count("+++ b/src/till.py") == 4 and "directory" not in whole  # the files in it say that it came
    told("log", "src", "--patch", "--json", code=64)


def test_a_mode_and_a_kind_are_named(told, root):
    os.chmod(root / "notes", 0o600)
    told("save", code=0)
    os.unlink(root / "notes")
    plant(root, {"notes": Link("src")})
    told("save", code=0)
    os.unlink(root / "notes")
    told("save", code=0)
    lines = told("log", "notes", code=0).out.splitlines()[1:]
    assert [line[0] for line in lines] == ["-", "~", "~", "~", "~", "+"]
    assert "file -> link" in lines[1] and "mode 0644 -> 0600" in lines[2] and "mode" not in lines[3]
    assert told("log", "src", code=0).out.splitlines()[1].split()[-7:-1] == ["3f6e0f0e", "@2", "make", "it", "longer,", "part"]
    assert "+0 ~1 -0" in told("log", "src", code=0).out.splitlines()[1]


def test_the_json_has_both_sides_and_the_checkpoint_as_in_list(told):
    found = told.json("log", "src/till.py")
    assert list(found) == ["path", "changes", "damaged"] and found["path"] == "src/till.py" and found["damaged"] == []
    listed = told.json("list")["checkpoints"]
    assert [row["checkpoint"] for row in found["changes"]] == listed
    newest, oldest = found["changes"][0], found["changes"][-1]
    assert newest == {
        "checkpoint": listed[0], "before": listed[1]["id"], "status": "modified", "old_kind": "file", "new_kind": "file",
        "old_mode": "0644", "new_mode": "0644", "old_size": 28, "new_size": 35, "counts": None, "reason": None, "by": "turn",
        "turns": [{"n": 2, "id": listed[1]["id"], "prompt": "make it longer, part 1"}],
    }  # fmt: skip
    assert [row["by"] for row in found["changes"]] == ["turn", "turn", "outside", "unknown"] and oldest["turns"] == []
    assert (oldest["before"], oldest["status"], oldest["old_kind"], oldest["old_size"]) == (None, "added", None, None)
    directory = told.json("log", "src")["changes"]
    assert [row["counts"] for row in directory[-2:]] == [
        {"added": 0, "modified": 1, "removed": 0}, {"added": 1, "modified": 0, "removed": 0}
    ]  # fmt: skip
    assert directory[0]["new_size"] is None


def test_paths_are_relative_to_where_one_is(told, root, home):
    inside = InProcess(root / "src", home)
    assert inside("log", "till.py", code=0).out.startswith("src/till.py: 4 changes")
    assert inside("log", "../notes", code=0).out.startswith("notes: 3 changes")
    assert inside("log", ".", code=0).out.startswith("src: 4 changes")
    assert told("log", ".", code=0).out.startswith(".: 4 changes")
    assert told("log", f"{root}/notes", code=0).out.startswith("notes: 3 changes")
    for outside in ("../x", "/etc/passwd", ".git/config"):
        told("log", outside, code=14)


def test_an_unknown_path_is_15_and_names_the_nearest(told, casrewind):
    assert "the nearest known name is src/till.py" in told("log", "src/til.py", code=15).err
    assert "the nearest known name is src/till.py" in told("log", "till.py", code=15).err
    told("log", "--all", code=64)
    told("log", "notes", "src", code=64)


def test_without_a_store_it_is_10(casrewind):
    assert "casrewind save" in casrewind("log", "f", code=10).err


def test_purged_entries_are_named(told):
    told("purge", "notes", "--yes", code=0)
    out = told("log", "notes", code=0).out
    assert "purged" in out.splitlines()[1] and out.splitlines()[-1] == "  notes was purged: the bytes that it had then are gone from the store"
    assert "purged added: absent -> purged 0644" in told("log", "notes", "--patch", code=0).out
    assert told.json("log", "notes")["changes"][0]["new_kind"] == "purged"


def test_damage_is_20_and_the_rest_is_shown(told, root, settings):
    with opened(root, settings) as workspace:
        store, tree = workspace.store_path, workspace.checkpoint("prev").tree
        name = workspace.checkpoint("prev").id
    flip_blob(store, tree)
    found = told("log", "src/till.py", code=20)
    assert found.out.startswith("src/till.py: 3 changes") and name in found.err and "casrewind verify" in found.err
    assert json.loads(told("log", "src/till.py", "--json", code=20).out)["damaged"] == [name]


@pytest.mark.parametrize(("columns", "colour"), [(40, False), (100, True), (160, True)])
def test_on_a_terminal_of_any_width_nothing_is_broken_in_two(told, process, columns, colour):
    variables = {"TERM": "xterm-256color"} if colour else {"TERM": "dumb"}
    command = [sys.executable, "-m", "casrewind", "-C", told.root, "log", "src/till.py"]
    code, shown = Session(command, {**process.environment, **variables}, size=(24, columns)).end()
    text = shown.decode()
    assert code == 0 and ("\x1b[33m~\x1b[0m" in text) is colour and "Traceback" not in text
    assert " ".join(text.split()).count("make it longer, part") == 2
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()) <= columns
    for row in told.json("log", "src/till.py")["changes"]:
        assert row["checkpoint"]["id"] in text


def test_odd_names_do_not_command_the_terminal(told, root):
    plant(root, {"a\x1b[31m\nb": b"x", b"na\xffme": b"y"})
    told("save", code=0)
    found = told("log", "a\x1b[31m\nb", code=0).out
    assert "\x1b" not in found and len(found.splitlines()) == 2
    assert told.json("log", os.fsdecode(b"na\xffme"))["path_b64"] == "bmH/bWU="


@pytest.fixture
def turns(root, settings, casrewind):
    """Two turns with an edit between them, a restore, and a third turn."""
    plant(root, {"till.py": b"1\n"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.tell("SessionStart", source="startup")
        agent.prompt("a", "make alpha")
        plant(root, {"till.py": b"1\n2\n", "alpha": b"a\n"})
        agent.stop("a")
        plant(root, {"till.py": b"1\n2\n3\n"})
        agent.prompt("b", "round to cents")
        plant(root, {"till.py": b"1\n2\n3\n4\n"})
        agent.stop("b")
        casrewind("restore", "@1", "-y", code=0)
        agent.prompt("c", "look around")
        agent.stop("c")
    return casrewind


def test_each_change_of_a_path_names_who_made_it(turns):
    lines = turns("log", "till.py", code=0).out.splitlines()
    assert lines[0] == "till.py: 5 changes"
    assert lines[1].endswith('restored to before "round to cents"') and lines[2].endswith("claude s1  @2 round to cents")
    assert lines[3].endswith("edited outside of a turn") and lines[4].endswith("claude s1  @3 make alpha")
    found = turns.json("log", "till.py")["changes"]
    assert [(row["by"], [turn["prompt"] for turn in row["turns"]]) for row in found] == [
        ("restored", []), ("turn", ["round to cents"]), ("outside", []), ("turn", ["make alpha"]), ("unknown", []),
    ]  # fmt: skip


def test_without_a_path_it_is_the_history_turn_by_turn(turns):
    found = turns("log", code=0).out
    heads = [line for line in found.splitlines() if not line.startswith("      ~") and not line.startswith("      +")]
    assert [line[:32].strip() for line in heads] == [
        "restored to @2", "@2  round to cents (taken back", "edited outside of a turn", "@3  make alpha",
    ]  # fmt: skip
    assert "      + alpha\n" in found and "(4 B -> 6 B)" in found
    assert turns("log", "-n", "1", code=0).out.count("\n  @") == 1
    patch = turns("log", "-p", code=0).out
    assert patch.count("--- a/till.py") == 4 and "+4\n" in patch and "-4\n" in patch
    assert " till.py | 1 +\n" in turns("log", "--stat", code=0).out
    history = turns.json("log")
    assert [turn["n"] for turn in history["turns"]] == [2, 3]
    assert [[change["path"] for change in row["change"]] for row in history["rows"]] == [["till.py"], ["till.py"], ["till.py"], ["alpha", "till.py"]]


def test_background_work_of_a_turn_is_named_as_in_list(workspace, root, casrewind):
    agent = AgentTurns(workspace, root)
    agent.prompt("a", "build it")
    plant(root, {"other": b"1"})
    agent.stop("a")
    plant(root, {"built": b"1"})
    agent.tell("UserPromptSubmit", "b", prompt="<task-notification>\n<task-id>b1</task-id>")
    agent.stop("b")
    plant(root, {"built": b"2"})
    workspace.save()
    workspace.close()
    assert "work in the background of @1" in casrewind("list", code=0).out
    lines = casrewind("log", "built", code=0).out.splitlines()
    assert lines[1].endswith("edited outside of a turn") and lines[2].endswith("claude s1  work in the background of @1")
    found = casrewind.json("log", "built")["changes"]
    assert [(row["by"], [turn["n"] for turn in row["turns"]]) for row in found] == [("outside", []), ("outside", [1])]
