"""show, diff and revert of a turn: its own change, and nobody else's."""

import os
import re

import pytest

from casrewind.agents import client_process
from casrewind.model.retention import Limits
from casrewind.store.agent_sessions import AgentSession
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.packfile import flip_blob
from support.trees import plant

A, B = "01c243ca-0000-4000-8000-000000000001", "d0f5aaaa-0000-4000-8000-000000000002"


@pytest.fixture
def agent(root, settings):
    plant(root, {"till.py": b"one\ntwo\n", "prices": b"5\n"})
    with opened(root, settings) as workspace:
        yield AgentTurns(workspace, root, A)


@pytest.fixture
def three(agent, root):
    """@3 makes alpha, a person edits, @2 rounds and breaks prices, @1 looks around."""
    agent.tell("SessionStart", source="startup")
    agent.prompt("a", "make alpha\nand explain it")
    plant(root, {"alpha": b"1\n", "new/deep": b"2\n"})
    agent.stop("a")
    plant(root, {"person": b"p\n"})
    agent.prompt("b", "round to cents")
    plant(root, {"till.py": b"one\ntwo\nthree\n"})
    (root / "prices").unlink()
    agent.stop("b")
    agent.prompt("c", "look around")
    agent.stop("c")
    return agent


@pytest.fixture
def shared(agent, root):
    """@2 and @1 run at the same time; beta may be of either."""
    other = AgentTurns(agent.workspace, root, B)
    agent.prompt("a", "slow job")
    plant(root, {"slow1": b"1"})
    other.prompt("b", "make beta")
    plant(root, {"beta": b"1"})
    other.stop("b")
    plant(root, {"slow2": b"1"})
    agent.stop("a")
    return agent


def names(found):
    return [change["path"] for change in found["changes"]]


def test_show_is_the_newest_turn_in_full(three, casrewind):
    found = casrewind("show", code=0).out
    assert found.splitlines()[:3] == ["turn @1 of claude", "  prompt    look around", f"  session   {A}"]
    assert found.endswith("\nnothing changed\n")
    lines = casrewind("show", "@3", code=0).out.splitlines()
    assert lines[:4] == ["turn @3 of claude", "  prompt    make alpha", "            and explain it", f"  session   {A}"]
    assert lines[-3:] == [" alpha    | 1 +", " new/deep | 1 +", " 2 files changed, 2 insertions(+)"]
    (time,) = [line for line in lines if line.startswith("  time      ")]
    assert re.fullmatch(r"  time      \S+ (\d\d:\d\d)(?: to (?!\1)\d\d:\d\d)?, \d+ s ago", time), "one minute is named once"
    patch = casrewind("show", "@2", "-p", code=0).out
    assert "+three\n" in patch and "-5\n" in patch and "person" not in patch
    assert "-U 0" not in patch and "@@ -2,0 +3 @@" in casrewind("show", "@2", "-U", "0", code=0).out
    listed = casrewind("show", "@2", "--files", code=0).out
    assert "file  0644            8 till.py" in listed and "person" in listed and "prices" in listed
    assert casrewind("show", "@2", "--name-status", code=0).out.splitlines()[-2:] == ["D\tprices", "M\ttill.py"]


def test_show_of_the_id_is_the_turn_and_other_references_are_checkpoints(three, casrewind):
    turns = casrewind.json("list")["turns"]
    for reference in (turns[1]["before"], turns[1]["before"][:8], "@2", "2"):
        assert casrewind("show", reference, code=0).out.startswith("turn @2 of claude")
    for reference in ("last", turns[1]["after"], "after:@2"):
        assert casrewind("show", reference, code=0).out.startswith("checkpoint c")
    assert "prompt    round to cents (turn @2)" in casrewind("show", "after:@2", code=0).out
    found = casrewind.json("show", "@2")
    assert found["turn"] == turns[1] and names(found) == ["prices", "till.py"]
    assert found["checkpoint"]["id"] == turns[1]["before"] and "prices" in [entry["path"] for entry in found["entries"]]
    assert casrewind.json("show", turns[1]["after"])["checkpoint"]["prompt"] == "round to cents"
    for wrong in ("@0", "@9", "after:@9"):
        casrewind("show", wrong, code=15)


def test_a_project_without_turns_shows_the_newest_checkpoint(casrewind, root):
    plant(root, {"f": b"1"})
    casrewind("save", "-m", "here", code=0)
    assert "label     here" in casrewind("show", code=0).out
    assert casrewind("diff", code=0).out.startswith("from 'here' (0 s ago, c")


def test_diff_without_a_reference_starts_before_the_newest_turn(three, casrewind, root):
    plant(root, {"later": b"l\n"})
    lines = casrewind("diff", code=0).out.splitlines()
    assert lines[0].startswith('from before "look around" (@1, ') and lines[0].endswith(" to the files now") and lines[1] == "+ later"
    found = casrewind.json("diff")
    newest = casrewind.json("list")["turns"][0]
    assert (found["from"]["checkpoint"], found["from"]["n"], found["from"]["side"]) == (newest["before"], 1, "before")
    assert found["to"] == {"checkpoint": None, "turn": None, "n": None, "side": "now", "at": None} and found["turn"] is None
    assert casrewind("diff", "last", code=0).out.splitlines() == ["+ later", "1 added, 0 modified, 0 removed"]
    assert casrewind("diff", "-p", code=0).out.startswith("diff --git"), "a program reads a patch"
    assert casrewind("diff", "--name-only", code=0).out == "later\n"


def test_diff_of_a_turn_is_its_own_change(three, casrewind, root):
    found = casrewind.json("diff", "@2")
    assert names(found) == ["prices", "till.py"] and found["turn"]["n"] == 2
    assert (found["from"]["side"], found["to"]["side"]) == ("before", "after")
    assert casrewind("diff", "@2", code=0).out.splitlines()[0].startswith('@2 "round to cents", 0 s ago: from c')
    assert names(casrewind.json("diff", "@2", "till.py")) == names(casrewind.json("diff", "@2", "--", "till.py")) == ["till.py"]
    assert casrewind.json("diff", "@2", "--", "till.py", "absent", code=3)["missing"] == [{"path": "absent"}]
    casrewind("diff", "@2", "--", "absent", code=15)
    two = casrewind.json("diff", "@3", "@2")
    assert names(two) == ["alpha", "new/deep", "person"] and two["turn"] is None and two["from"]["n"] == 3
    assert names(casrewind.json("diff", "after:@3", "@2")) == ["person"]
    assert names(casrewind.json("diff", "after:@2")) == []
    assert casrewind("diff", "@3", "@2", code=0).out.startswith('from before "make alpha" (@3, ')


def test_a_turn_that_runs_is_compared_with_the_files(three, casrewind, root):
    three.prompt("d", "the next job")
    plant(root, {"now": b"n\n"})
    assert names(casrewind.json("diff", "@1")) == ["now"]
    assert names(casrewind.json("diff", "after:@1")) == [], "the files as they are"
    assert names(casrewind.json("diff", "@1", "after:@1")) == ["now"]
    assert "nothing to do" in casrewind("restore", "after:@1", "-y", code=0).out and (root / "now").exists()
    assert [(c["path"], c["status"]) for c in casrewind.json("diff", "after:@1", "@1")["changes"]] == [("now", "removed")]
    shown = casrewind.json("show", "@1")
    assert names(shown) == ["now"] and shown["turn"]["after"] is None
    assert " now | 1 +" in casrewind("show", code=0).out


def test_a_live_session_is_so_far(three, casrewind, root):
    three.prompt("d", "the next job")
    plant(root, {"now": b"n\n"})
    alive(three)
    assert re.match(r'@1 "the next job", running, \d+ s ago: from ', casrewind("diff", "@1", code=0).out)
    assert "  running, or stopped with Esc: what it changed so far" in casrewind("show", code=0).out
    line = casrewind("list", code=0).out.splitlines()[0]
    assert re.match(r"\s*@1\s+the next job \(running\)\s+\d+ s ago\s+so ", line), line
    assert casrewind.json("list")["turns"][0]["running"] is True


def test_shared_paths_are_marked_and_named(shared, casrewind):
    found = casrewind("show", "@2", code=0).out
    assert " beta ? | 1 +" in found and " slow1  | 1 +" in found and " ? changed while @1 ran, too: beta\n" in found
    assert "+ beta ?" in casrewind("diff", "@2", code=0).out.splitlines()
    assert casrewind.json("show", "@1")["turn"]["shared"] == [{"path": "beta", "turns": [2]}]


def test_revert_takes_one_turn_back_and_undo_takes_that_back(three, casrewind, root):
    plan = casrewind("revert", "@2", "-n", code=0).out
    assert plan.startswith('revert @2 "round to cents" (') and "would restore 2 paths and remove 0" in plan and not (root / "prices").exists()
    casrewind("revert", "@2", code=64)
    report = casrewind.json("revert", "@2", "--yes")
    assert (report["restored"], report["removed"], report["skipped"]) == (2, 0, [])
    assert (root / "prices").read_bytes() == b"5\n" and (root / "till.py").read_bytes() == b"one\ntwo\n"
    assert (root / "alpha").exists() and (root / "person").exists(), "nobody else's work goes"
    row = casrewind.json("list")["rows"][0]
    assert (row["row"], row["paths"]) == ("reverted", ["prices", "till.py"])
    assert "reverted @2  " in casrewind("list", code=0).out.splitlines()[0]
    assert casrewind("undo", "--list", code=0).out.startswith('  1  undo the revert of "round to cents" (')
    assert casrewind("log", "prices", code=0).out.startswith("prices: ")
    casrewind("undo", "--yes", code=0)
    assert not (root / "prices").exists() and (root / "till.py").read_bytes() == b"one\ntwo\nthree\n"
    assert "\n  0 paths written, 2 removed" in casrewind("revert", "@3", "-y", code=0).out
    assert not (root / "new").exists() and not (root / "alpha").exists()


def test_revert_keeps_what_was_edited_since_and_may_be_limited(three, casrewind, root):
    plant(root, {"till.py": b"mine\n"})
    found = casrewind("revert", "@2", "-y", code=3)
    assert "left alone: till.py: line 1 was edited since by you" in found.err and (root / "till.py").read_bytes() == b"mine\n"
    assert (root / "prices").read_bytes() == b"5\n"
    casrewind("undo", "--yes", code=0)
    casrewind("revert", "@2", "prices", "-y", code=0)
    assert (root / "prices").exists()
    casrewind("revert", "@2", "-y", "--", "person", code=15)
    plant(root, {"new/mine": b"m"})
    casrewind("revert", "@3", "-y")
    assert (root / "new" / "mine").read_bytes() == b"m" and not (root / "new" / "deep").exists()
    for wrong in ("last", "after:@2"):
        casrewind("revert", wrong, "-y", code=64)
    casrewind("revert", "@9", "-y", code=15)


def test_revert_leaves_shared_paths_alone_unless_told(shared, casrewind, root):
    found = casrewind("revert", "@2", "-y", code=3)
    assert "left alone: beta: changed while @1 ran, too; --shared takes it back as well" in found.err
    assert (root / "beta").exists() and not (root / "slow1").exists() and not (root / "slow2").exists()
    casrewind("undo", "--yes", code=0)
    casrewind("revert", "@2", "--shared", "-y", code=0)
    assert not (root / "beta").exists()


def test_purged_paths_are_named_and_not_compared(three, casrewind, root):
    plant(root, {"till.py": b"other\n"})
    three.prompt("d", "again")
    casrewind("purge", "till.py", "-y", code=0)
    plant(root, {"till.py": b"again and longer\n", "more": b"m\n"})
    three.stop("d")
    turn = casrewind.json("show", "@1")["turn"]
    assert turn["purged"] == 1 and turn["paths"] == ["more"]
    assert "purged, and not compared: till.py" in casrewind("show", "@1", code=0).out
    assert "purged, and not compared: till.py" in casrewind("diff", "@1", code=0).err
    assert "left alone: till.py: its content was purged" in casrewind("revert", "@1", "-y", code=3).err


def test_a_damaged_tree_is_20_and_never_a_traceback(three, casrewind, root):
    flip_blob(three.context.store.path, three.workspace.checkpoint("after:@2").tree)
    for line in (["show", "@2"], ["diff", "@2"], ["revert", "@2", "-y"], ["log"], ["list"], ["show", "@2", "--name-only"]):
        found = casrewind(*line, code=20)
        assert "Traceback" not in found.err and "bug" not in found.err, line
    assert casrewind.json("show", "@2", code=20)["turn"]["damaged"] is True


def test_what_was_forgotten_is_15_with_the_nearest_checkpoint(three, casrewind, root, settings):
    turns = casrewind.json("list")["turns"]
    casrewind("pin", turns[1]["after"], code=0)
    three.workspace.gc(Limits(None, 1))
    found = {turn["prompt"]: turn for turn in casrewind.json("list")["turns"]}
    assert set(found) == {"look around", "round to cents"}
    half = found["round to cents"]
    if half["before"] is None:
        for line in (["diff", "@2"], ["revert", "@2", "-y"], ["diff", "@2", "last"], ["restore", "@2", "-y"]):
            assert "forgotten" in casrewind(*line, code=15).err
        shown = casrewind("show", "@2", code=0).out
        assert "  prompt    round to cents" in shown and "its start was forgotten: what it changed is not known" in shown
        assert "its start was forgotten" in casrewind("list", code=0).out
    else:
        assert half["changes"] == turns[1]["changes"]


def test_the_same_rows_after_gc_without_index_in_another_worktree_and_in_a_fork(three, casrewind, root, settings, tmp_path):
    for number in range(10):
        three.prompt(f"t{number}", f"prompt {number}")
        plant(root, {f"f{number}": b"%d" % number})
        three.stop(f"t{number}")
    whole = casrewind.json("list")
    three.workspace.gc(Limits(None, 6))
    kept = casrewind.json("list")
    assert 2 <= len(kept["turns"]) <= 8 and kept["turns"] == whole["turns"][: len(kept["turns"])]
    assert kept["rows"][-1] == {"row": "forgotten"} and "older checkpoints are not here" in casrewind("list", code=0).out
    store = three.context.store.path
    three.workspace.close()
    index = os.path.join(store, "index")
    assert os.path.exists(index), os.listdir(store)
    import shutil

    shutil.rmtree(index) if os.path.isdir(index) else os.unlink(index)
    assert casrewind.json("list") == kept
    with opened(root, settings) as workspace:
        fork = AgentTurns(workspace, root, B)
        fork.tell("SessionStart", source="resume")
        fork.prompt("x", "in the fork")
        plant(root, {"forked": b"1"})
        fork.stop("x")
    forked = casrewind.json("list")
    assert [turn["n"] for turn in forked["turns"]] == list(range(1, len(kept["turns"]) + 2))
    assert [{**turn, "n": turn["n"] - 1, "name": f"@{turn['n'] - 1}"} for turn in forked["turns"][1:]] == kept["turns"]
    assert forked["turns"][0]["paths"] == ["forked"] and forked["turns"][0]["session"] == B
    other = tmp_path / "other"
    plant(other, {"g": b"1"})
    with_store = ("--store", store, "-C", str(other))
    casrewind("save", "-m", "elsewhere", *with_store, code=0)
    assert "\nno turns yet; 1 checkpoint" in casrewind("list", *with_store, code=0).out
    assert casrewind.json("list")["turns"] == forked["turns"]


def alive(agent):
    """The client of this session is this process: it runs."""
    sessions = agent.context.store.sessions
    start = client_process.client_process(os.getpid()).start
    root, key = agent.context.root.path, agent.context.root.key.hex()
    sessions.record(AgentSession("claude", A, "", root, key, 1, "UserPromptSubmit", True, os.getpid(), start, "", ""))


def test_a_restore_to_after_a_turn_that_runs_says_that_it_runs(three, casrewind, root):
    three.prompt("d", "slow job")
    plant(root, {"till.py": b"half\n"})
    for words in (["-n"], ["-y"]):
        said = casrewind("restore", "after:@1", *words, code=0).out
        assert said.splitlines()[0] == '@1 "slow job" has no end yet: the state after it is the files as they are now'
        assert "nothing to do; casrewind restore @1 restores the state before it" in said
    alive(three)
    said = casrewind("restore", "after:@1", "-n", code=0).out
    assert said.startswith('@1 "slow job" still runs: the state after it is the files as they are now')
    assert casrewind.json("restore", "after:@1", "-n")["running"] is True and (root / "till.py").read_bytes() == b"half\n"
    refused = casrewind("revert", "@1", "-y", code=11).err
    assert "@1 has not ended: its agent still works, or was stopped with Esc; wait, or add --running" in refused
    assert "running, or stopped with Esc" in casrewind("revert", "@1", "-n", "--running", code=0).out.splitlines()[0]
    casrewind("revert", "@1", "-y", "--running", code=0)
    assert (root / "till.py").read_bytes() == b"one\ntwo\nthree\n"


def test_the_plan_of_revert_says_that_the_end_of_the_turn_was_not_seen(agent, casrewind, root):
    agent.prompt("a", "make alpha")
    plant(root, {"alpha": b"1\n"})
    agent.prompt("b", "next")
    assert "left alone, may be yours: casrewind did not see @2 end; --shared takes it back (1 path):" in casrewind("revert", "@2", "-n", code=3).err
    plan = casrewind("revert", "@2", "-n", "--shared", code=0).out.splitlines()
    assert ", its end was not seen; with what was edited until " in plan[0] and plan[0].startswith('revert @2 "make alpha" (')
    done = casrewind("revert", "@2", "-y", "--shared", code=0).out
    assert "its end was not seen" in done.splitlines()[0] and not (root / "alpha").exists()
    agent.stop("b")
    assert "already taken back" in casrewind("revert", "@2", "-y", code=0).out
    assert ", cut short, taken back; with what was edited until " in casrewind("revert", "@2", "-n", code=0).out.splitlines()[0]
    assert casrewind.json("revert", "@2", "-n")["mixed"] is True and casrewind.json("revert", "@1", "-n")["mixed"] is False
    assert "its end" not in casrewind("revert", "@1", "-n", code=0).out
