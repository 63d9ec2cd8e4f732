"""Subagents as a person and a program meet them: folded in list, unfolded in show, named @3.1 by every command."""

import pytest

from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.git_repository import git, make_repository
from support.terminal_in_process import on_terminal
from support.trees import plant


@pytest.fixture
def agent(root, settings):
    """@2 has three subagents, two of them at once. @1 has none."""
    plant(root, {"readme": b"r\n"})
    with opened(root, settings) as workspace:
        told = AgentTurns(workspace, root)
        told.prompt("p", "refactor the till")
        told.begin("p", "a1")
        told.stop("p")
        plant(root, {"till.py": b"1\n", "readme": b"R\n"})
        told.end("p", "a1")
        told.notify("n")
        told.begin("n", "a2", "general-purpose")
        told.begin("n", "a3", "plan")
        told.stop("n")
        plant(root, {"two.py": b"2\n", "log": b"x\n"})
        told.end("n", "a2", "general-purpose", wrote=["two.py"], task="Write two \x1b[31m tests")
        told.end("n", "a3", "plan", wrote=[".claude/worktrees/a3/plan.md"])
        told.prompt("q", "look")
        told.stop("q")
        yield told


def test_list_folds_them(agent, casrewind):
    out = casrewind("list", code=0).out
    assert "refactor the till (3 subagents)" in out and "@2.1" not in out
    assert "(3 subagents)" in casrewind("list", "--oneline", code=0).out


def test_its_checkpoints_name_it(agent, casrewind):
    listed = [line for line in casrewind("list", "--all", code=0).out.splitlines() if "subagent" in line]
    assert ["subagent" + line.partition("subagent")[2].partition("  ")[0] for line in listed] == [
        "subagent ended: plan", "subagent ended: Write two \\x1b[31m tests", "subagent began: plan", "subagent began: Write two \\x1b[31m tests",
        "subagent ended: explore", "subagent began: explore",
    ]  # fmt: skip


def test_show_unfolds_them(agent, casrewind):
    lines = casrewind("show", "@2", code=0).out.splitlines()
    (one, two, three) = [line for line in lines if line.split()[:1] and line.split()[0].startswith("@2.")]
    assert one.split()[:2] == ["@2.1", "explore"] and "+1 ~1" in one and "till.py" in one and "unknown" not in one
    assert two.startswith("  @2.2  Write two \\x1b[31m tests ") and "+2" in two and "(1 unknown)" in two
    assert three.split()[:2] == ["@2.3", "plan"] and "+1" in three and "(unknown)" in three
    assert on_terminal(casrewind, ["show", "@2"], columns=80, NO_COLOR="1").code == 0


def test_one_is_shown_and_compared(agent, casrewind):
    shown = casrewind("show", "@2.2", code=0).out
    assert shown.startswith("subagent @2.2 of claude\n  task      Write two \\x1b[31m tests\n  type      general-purpose\n")
    assert casrewind("show", "@2.1", code=0).out.startswith("subagent @2.1 of claude\n  type      explore\n"), "its client noted no task"
    assert "two.py" in shown and "till.py" not in shown
    assert " ? changed while @2.3 ran, too: log" in shown
    changed = casrewind("diff", "@2.1", code=0).out
    assert changed.startswith('@2.1 "explore"') and "till.py" in changed and "two.py" not in changed
    assert "+R" in casrewind("diff", "@2.1", "-p", code=0).out


def test_one_with_a_worktree_of_its_own_says_where_its_work_is(root, settings, casrewind):
    plant(root, {"readme": b"r\n"})
    make_repository(root)
    git(root, "worktree", "add", "-q", ".claude/worktrees/a1")
    with opened(root, settings) as workspace:
        told = AgentTurns(workspace, root)
        told.prompt("p", "draft")
        told.begin("p", "a1", cwd=str(root / ".claude/worktrees/a1"))
        told.stop("p")
        told.end("p", "a1", wrote=[".claude/worktrees/a1/draft.py"])
    for words in (("show", "@1"), ("show", "@1.1")):
        out = casrewind(*words, code=0).out
        assert "nothing changed" in out and "it works in .claude/worktrees/a1, which has a list of its own" in out, words
    (one,) = casrewind.json("show", "@1")["turn"]["subagents"]
    assert (one["worktree"], one["paths"]) == (".claude/worktrees/a1", [])


def test_one_is_reverted_and_the_rows_name_it(agent, casrewind, root):
    assert casrewind("revert", "@2.2", "--dry-run", code=3).out.startswith('revert @2.2 "Write two \\x1b[31m tests" (')
    done = casrewind("revert", "@2.2", "-y", code=3)
    assert "left alone: log: changed while @2.3 ran, too; --shared takes it back as well" in done.out + done.err
    assert not (root / "two.py").exists() and (root / "log").exists() and (root / "till.py").exists()
    assert "reverted @2.2" in casrewind("list", code=0).out
    assert '@2.2' in casrewind("undo", "--dry-run", code=0).out
    casrewind("undo", "-y", code=0)
    assert (root / "two.py").exists()
    casrewind("revert", "@2.1", "-y", code=0)
    assert not (root / "till.py").exists() and (root / "readme").read_bytes() == b"r\n"
    assert "reverted @2.1" in casrewind("list", code=0).out


def test_json_has_them(agent, casrewind):
    two, one = casrewind.json("list")["turns"][1], casrewind.json("list")["turns"][0]
    assert (one["subagent"], one["subagents"]) == (None, [])
    assert (two["subagent_type"], one["subagent_type"]) == (None, None)
    assert [(each["subagent"], each["name"], each["prompt"], each["subagent_type"], each["changes"]["added"]) for each in two["subagents"]] == [
        (1, "@2.1", None, "explore", 1), (2, "@2.2", "Write two \x1b[31m tests", "general-purpose", 2), (3, "@2.3", None, "plan", 1),
    ]  # fmt: skip
    assert two["subagents"][1]["among"] == [{"path": "log", "names": ["@2.3"]}]
    shown = casrewind.json("show", "@2")["turn"]
    assert shown["subagents"] == two["subagents"]
    part = casrewind.json("show", "@2.2")
    assert (part["turn"]["n"], part["turn"]["subagent"], [change["path"] for change in part["changes"]]) == (2, 2, ["log", "two.py"])
    done = casrewind.json("revert", "@2.1", "-y")
    assert (done["turns"], done["subagent"]) == ([2], 1)


@pytest.mark.parametrize(("words", "code", "says"), [
    (("show", "@2.4"), 15, "no subagent '@2.4': @2 has 3"), (("diff", "@1.1"), 15, "no subagent '@1.1': @1 has 0"), (("revert", "@2.0"), 15, "no checkpoint"),
    (("back", "@2.1"), 64, "is not a number"), (("revert", "@1", "@2.1"), 64, "@2.1 is another turn"), (("revert", "@1", "after:@2"), 64, "another turn"),
    (("show", "2.1"), 15, "no checkpoint '2.1'"), (("save", "-m", "@2.1"), 64, "the number of a turn"),
])  # fmt: skip
def test_what_is_no_subagent_is_refused_with_the_way_out(agent, casrewind, words, code, says):
    found = casrewind(*words, code=code)
    assert says in found.err


def test_the_state_before_and_after_one_can_be_restored(agent, casrewind, root):
    casrewind("restore", "@2.2", "-y", code=0)
    assert (root / "till.py").exists() and not (root / "two.py").exists()
    casrewind("restore", "after:@2.2", "-y", code=0)
    assert (root / "two.py").exists()


def test_a_purge_of_its_text_leaves_its_type(agent, casrewind, tmp_path):
    (tmp_path / "word").write_bytes(b"two \x1b[31m tests\n")
    with open(tmp_path / "word") as file:
        casrewind("purge", "--text", "-", "-y", stdin=file, code=0)
    shown = casrewind("show", "@2", code=0).out
    assert "Write" not in shown and "  @2.2  ***" in shown
    assert casrewind.json("show", "@2.2")["turn"]["prompt"] == "***"


@pytest.mark.parametrize(("noted", "shown"), [
    ('{"description": "' + "x" * 500 + '"}', "x" * 200), ('{"description": ["a"]}', ""), ("[1]", ""), ("{", ""), ('{"description": "\\ud83d a\\nb "}', "? a\nb"),
    ('{"description": "' + "x" * 100_000 + '"}', ""), (None, ""),
])  # fmt: skip
def test_what_a_client_notes_of_one_is_read_as_a_short_text_or_not_at_all(root, settings, casrewind, tmp_path, noted, shown):
    plant(root, {"readme": b"r\n"})
    note = tmp_path / "agent-a1.meta.json"
    if noted is None:
        (tmp_path / "private.json").write_text('{"description": "mine"}')
        note.symlink_to(tmp_path / "private.json")
    else:
        note.write_text(noted)
    with opened(root, settings) as workspace:
        told = AgentTurns(workspace, root)
        told.prompt("p", "draft")
        told.begin("p", "a1")
        told.stop("p")
        told.end("p", "a1")
    (one,) = casrewind.json("show", "@1")["turn"]["subagents"]
    assert (one["prompt"] or "", one["subagent_type"]) == (shown, "explore")
    assert ("explore" if shown == "" else shown.split("\n")[0]) in casrewind("list", "--all", code=0).out if len(shown) < 100 else True
