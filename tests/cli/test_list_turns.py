"""casrewind list as rows of turns: what is printed, and its JSON."""

import os
import re
import time

import pytest

from casrewind.agents import client_process
from casrewind.cli.show.text import column_width
from casrewind.cli.terminal import table
from casrewind.store.agent_sessions import AgentSession
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.packfile import flip_blob
from support.trees import plant

A, B = "01c243ca-0000-4000-8000-000000000001", "d0f5aaaa-0000-4000-8000-000000000002"


@pytest.fixture
def agent(root, settings):
    """The agent's side of the store that the command reads."""
    plant(root, {"till.py": b"1\n", "gone": b"g"})
    with opened(root, settings) as workspace:
        yield AgentTurns(workspace, root, A)


@pytest.fixture
def story(agent, casrewind, root):
    """Turns of two sessions at the same time, one cut short, an edit between turns, a typed command, saves and a restore."""
    other = AgentTurns(agent.workspace, root, B)
    agent.tell("SessionStart", source="startup")
    agent.prompt("a", "make alpha\nand explain it")
    plant(root, {"alpha": b"1", "new/deep": b"2"})
    agent.stop("a")
    casrewind("save", "-m", "it works", code=0)
    agent.prompt("b", "long job")
    plant(root, {"long": b"1"})
    agent.prompt("c", "look around")  # "long job" has no end
    agent.stop("c")
    plant(root, {"person": b"p"})
    agent.prompt("d", "slow job")
    plant(root, {"slow1": b"1"})
    other.prompt("e", "make beta")
    plant(root, {"beta": b"1"})
    other.stop("e")
    agent.prompt("d", "queued one")
    plant(root, {"slow2": b"1"})
    (root / "gone").unlink()
    agent.stop("d")
    casrewind("restore", "@1", "-y", code=0)
    return casrewind


def begun(agent, root, prompt="one"):
    """A turn that is over, and one that has no end yet. It changed a file."""
    agent.prompt("z", "before it")
    agent.stop("z")
    agent.prompt("a", prompt)
    plant(root, {"new": b"1"})
    alive(agent)


def alive(agent, **more):
    """The agent's client is this process, and its last event was the prompt of a turn."""
    session = AgentSession(
        agent.agent, agent.session, "", str(agent.root), agent.context.root.key.hex(), time.time_ns(), "UserPromptSubmit", True,
        os.getpid(), client_process.client_process(os.getpid()).start, "", "",
    )  # fmt: skip
    agent.context.store.sessions.record(session._replace(**more))


NAMES = ("row", "n", "kind", "label", "in", "paths")


def shown(text):
    """The lines without ages."""
    return [re.sub(r"(seen )?\d+ s ago *", "AGO ", line) for line in text.splitlines()]


def wide(monkeypatch, columns):
    monkeypatch.setattr(table, "_fixed_width", [columns])


def test_rows_on_eighty_columns(story, monkeypatch):
    wide(monkeypatch, 80)
    lines = story("list", code=0).out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert shown("\n".join(lines)) == [
        "newest checkpoint AGO ; casrewind status says what changed",
        "      restored to @1              AGO +1 -2",
        "  @1  make beta (taken back)      AGO +1         beta (shared)      d0f5",
        "  @2  slow job                    AGO +3 -1      (1 shared)         01c2",
        "      + queued one",
        "      edited outside of a turn    AGO +1         person",
        "  @3  look around                 AGO nothing changed               01c2",
        "  @4  long job (cut short)        AGO +1         long               01c2",
        "      saved: it works             AGO 4 files",
        "  @5  make alpha                  AGO +2         alpha, new/deep    01c2",
    ]


@pytest.mark.parametrize("columns", [40, 60, 71, 72, 100, 160])
def test_no_line_is_wider_than_the_terminal_and_every_row_is_there(story, monkeypatch, columns):
    wide(monkeypatch, columns)
    lines = story("list", code=0).out.splitlines()
    assert all(column_width(line) <= columns for line in lines), lines
    assert [line.split()[0] for line in lines if re.match(r" +@\d  ", line)] == ["@1", "@2", "@3", "@4", "@5"]
    text = "\n".join(lines)
    assert "edited outside of a turn" in text and "(cut short)" in text or columns == 72


def test_in_a_pipe_nothing_is_cut_and_a_row_is_a_line(story):
    found = story("list", code=0).out
    assert "-gone, beta, slow1 and 1 more (1 shared)  claude 01c2" in found and "restored to @1" in found
    assert len(found.splitlines()) == 9 and "\x1b" not in found
    assert story("ls", code=0).out.count("\n  @") == 5
    assert [line.split()[0] for line in story("list", "--reverse", code=0).out.splitlines()][:1] == ["@5"]


def test_the_json_has_turns_and_rows(story):
    found = story.json("list")
    rows = [{name: row[name] for name in NAMES if name in row} for row in found["rows"]]
    assert rows == [
        {"row": "restored", "in": [], "paths": ["beta", "gone", "slow2"]}, {"row": "turn", "n": 1}, {"row": "turn", "n": 2},
        {"row": "outside", "kind": "edited", "paths": ["person"]}, {"row": "turn", "n": 3}, {"row": "turn", "n": 4},
        {"row": "saved", "label": "it works", "in": []}, {"row": "turn", "n": 5},
    ]  # fmt: skip
    points = {point["id"]: point for point in found["checkpoints"]}
    newest, slow, look, long, alpha = found["turns"]
    assert alpha["prompt"] == "make alpha\nand explain it" and alpha["changes"] == {"added": 2, "modified": 0, "removed": 0}
    assert alpha["paths"] == ["alpha", "new/deep"] and (alpha["cut_short"], long["cut_short"], long["mixed"]) == (False, True, True)
    assert slow["also"] == ["queued one"] and slow["shared"] == [{"path": "beta", "turns": [1]}]
    assert newest["shared"] == [{"path": "beta", "turns": [2]}] and look["changes"] == {"added": 0, "modified": 0, "removed": 0}
    for turn in found["turns"]:
        assert turn["id"] == turn["before"] and points[turn["before"]]["prompt"] == points[turn["after"]]["prompt"] or turn is long
        assert {points[turn["before"]]["turn"], turn["id"]} == {turn["id"]}
        assert points[turn["before"]]["prompt_id"] == turn["prompt_id"] and points[turn["before"]]["session"] == turn["session"]
    assert points[alpha["after"]]["turn"] == alpha["id"] and points[alpha["after"]]["parent"] == alpha["before"]


def test_n_counts_turns_and_filters_never_renumber(story):
    found = story.json("list", "-n", "2")
    assert [turn["n"] for turn in found["turns"]] == [1, 2] and len(found["checkpoints"]) == 2
    assert found["rows"][-1]["row"] == "outside", "what stands above the next turn"
    assert [turn["n"] for turn in story.json("list", "--session", B)["turns"]] == [1]
    assert [row["row"] for row in story.json("list", "--session", "01c2")["rows"]] == ["turn"] * 4
    assert [turn["n"] for turn in story.json("list", "--grep", "LOOK")["turns"]] == [3]
    assert [row["row"] for row in story.json("list", "--grep", "works")["rows"]] == ["saved"]
    assert [turn["n"] for turn in story.json("list", "--grep", "queued")["turns"]] == [2]
    assert len(story.json("list", "--since", "1h")["rows"]) == 8
    assert story("list", "--grep", "nothing like it", code=0).out == "no turn matches; casrewind list --all has every checkpoint\n"
    story("list", "--since", "never", code=64)


def test_all_is_every_checkpoint_with_its_turn_and_prompt(story):
    lines = story("list", "--all", code=0).out.splitlines()
    assert lines[0].split() == ["id", "turn", "when", "what", "files", "size", "changes"] and len(lines) == 2 + 13
    assert "before the restore to" in lines[2]
    row = next(line for line in lines if "turn end: slow job" in line)
    assert row.startswith("c") and " @2 " in row
    assert [line.split()[1] for line in lines[3:] if "turn end: " in line] == ["@2", "@1", "@3", "@5"]


def test_oneline(story):
    lines = story("list", "--oneline", code=0).out.splitlines()
    assert len(lines) == 8 and all(re.search(r" c[0-9a-f]{14} ", line) for line in lines)
    assert lines[1].startswith(" @1  c") and lines[1].endswith("  make beta (taken back)")


def test_a_project_without_turns_says_so(casrewind, root, agent):
    agent.tell("SessionStart", source="startup")
    assert casrewind("list", code=0).out == "no turns yet; 1 checkpoint: casrewind list --all\n"
    assert casrewind.json("list")["rows"] == []
    for number in range(3):
        plant(root, {"f": b"%d" % number})
        casrewind("save", "-m", f"step {number}", code=0)
    lines = casrewind("list", code=0).out.splitlines()
    assert "saved: step 2" in lines[0] and "edited outside of a turn" in lines[1]
    assert lines[-1] == "no turns yet; 4 checkpoints: casrewind list --all" and len(lines) == 7
    assert len(casrewind.json("list", "-n", "2")["rows"]) == 2, "without turns -n counts rows"


def test_checkpoints_are_counted_apart_from_those_that_a_restore_made(casrewind, root):
    for number in range(2):
        plant(root, {"f": b"%d" % number})
        casrewind("save", "-m", f"step {number}", code=0)
    for word in ("step 0", "step 1", "step 0"):
        casrewind("restore", word, "-y", code=0)
    assert casrewind("list", code=0).out.splitlines()[-1] == "no turns yet; 2 checkpoints and 3 safety ones: casrewind list --all"
    rows = casrewind("list", "--all", code=0).out.splitlines()[2:]
    assert len(rows) == 5
    assert sum("before the restore to 'step 0'" in row for row in rows) == 2 and sum("before the restore to 'step 1'" in row for row in rows) == 1
    short = casrewind("list", "--all", "--oneline", code=0).out.splitlines()
    assert short[0].endswith("before the restore to 'step 0'")
    first = casrewind.json("list", "--all")["checkpoints"][0]["id"]
    assert casrewind("restore", first, "-n", code=0).out.startswith("restore to before the restore to 'step 0' (")
    casrewind("undo", "-y", code=0)
    first = casrewind.json("list", "--all")["checkpoints"][0]["id"]
    assert casrewind("restore", first, "-n", code=0).out.startswith("restore to before the undo of the restore to 'step 0' (")
    assert "before the undo of the restore to 'step 0'" in casrewind("list", "--all", code=0).out


def test_a_running_turn_is_counted_against_the_files_now(agent, casrewind, root):
    begun(agent, root)
    line = casrewind("list", code=0).out.splitlines()[0]
    assert re.fullmatch(r"  @1  one \(running\) +\d+ s ago +so far \+1 +new +claude 01c2", line), line
    turn = casrewind.json("list")["turns"][0]
    assert turn["running"] and turn["changes"]["added"] == 1 and turn["paths"] == ["new"] and turn["after"] is None


def test_a_command_typed_in_the_client_ends_a_turn_that_esc_left_open(agent, casrewind, root):
    """After Esc no hook is called. A person types /casrewind only in a client that is idle."""
    begun(agent, root)
    assert casrewind.json("list")["turns"][0]["running"]
    alive(agent, event="Notification", running=False)
    assert casrewind.json("list")["turns"][0]["running"], "another event says nothing of it"
    alive(agent, running=False)
    found = casrewind.json("list")["turns"][0]
    assert not found["running"] and found["cut_short"] and found["paths"] == ["new"]
    assert "one (cut short)" in casrewind("list", code=0).out


def test_a_restore_to_before_a_turn_ends_it_until_its_agent_goes_on(agent, casrewind, root):
    plant(root, {"f": b"0"})
    other = AgentTurns(agent.workspace, root, B)
    agent.prompt("z", "before it")
    agent.stop("z")
    agent.prompt("a", "one")
    alive(agent)
    plant(root, {"f": b"1"})
    other.prompt("b", "two")
    plant(root, {"f": b"2"})
    other.stop("b")
    casrewind("restore", "@1", "-y", code=0)
    assert [turn["running"] for turn in casrewind.json("list")["turns"]] == [False, True, False], "the second turn was taken back, not the first"
    casrewind("restore", "@2", "-y", code=0)
    (_, first, _) = casrewind.json("list")["turns"]
    assert not first["running"] and first["cut_short"]
    plant(root, {"f": b"3"})
    agent.stop("a")
    (_, first, _) = casrewind.json("list")["turns"]
    assert not first["cut_short"] and first["ended_at"] is not None and first["paths"] == ["f"]


INTERRUPTED = '{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user%s]"}]}}\n'


@pytest.mark.parametrize("for_tool", ["", " for tool use"])
def test_what_the_transcript_says_of_an_interruption_ends_a_turn(agent, casrewind, root, tmp_path, for_tool):
    begun(agent, root)
    transcript = tmp_path / "transcript.jsonl"
    alive(agent, transcript=str(transcript))
    assert casrewind.json("list")["turns"][0]["running"], "without a transcript nothing is known"
    words = '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"%s"}]}}\n'
    transcript.write_text(words % "yes" * 2000 + INTERRUPTED % for_tool + '{"type":"ai-title","aiTitle":"x"}\n')
    found = casrewind.json("list")["turns"][0]
    assert not found["running"] and found["cut_short"] and found["changes"]["added"] == 1
    transcript.write_text(transcript.read_text() + words % "[Request interrupted by user]")
    assert casrewind.json("list")["turns"][0]["running"], "the agent went on"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_nothing_cuts_off_that_a_turn_was_cut_short(agent, casrewind, root, monkeypatch, columns):
    begun(agent, root, "a prompt of many words that no column of a terminal can hold as a whole, and then some more words")
    alive(agent, running=False)
    wide(monkeypatch, columns)
    for form in ([], ["--oneline"]) if columns > 40 else ([],):
        lines = casrewind("list", *form, code=0).out.splitlines()
        assert any("… (cut short)" in line for line in lines[:2]), lines
        assert all(column_width(line) <= columns for line in lines)


def test_the_branch_is_a_line_where_it_changes(agent, casrewind, root):
    (root / ".git" / "refs" / "heads").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for number, name in enumerate(("main", "main", "feature")):
        (root / ".git" / "HEAD").write_text(f"ref: refs/heads/{name}\n")
        agent.workspace._opened = agent.context._replace(root=agent.context.root._replace(git_dir=str(root / ".git")))
        agent.prompt(f"t{number}", f"prompt {number}")
        plant(root, {"f": b"%d" % number})
        agent.stop(f"t{number}")
    lines = [line.strip() for line in casrewind("list", code=0).out.splitlines()]
    assert [line for line in lines if line.startswith("branch")] == ["branch main -> feature"] and lines[1].startswith("branch")
    found = casrewind.json("list")
    assert [turn["branch"] for turn in found["turns"]] == ["feature", "main", "main"]
    assert {point["branch"] for point in found["checkpoints"]} == {"main", "feature"}


def test_damage_in_one_turn_leaves_the_row_and_is_20(agent, casrewind, root):
    for number in range(3):
        agent.prompt(f"t{number}", f"prompt {number}")
        plant(root, {f"d/f{number}": b"%d" % number, "f": b"%d" % number})
        end = agent.stop(f"t{number}")
    flip_blob(agent.context.store.path, agent.workspace.checkpoint("after:@2").tree)
    found = casrewind("list", code=20)
    lines = found.out.splitlines()
    assert len([line for line in lines if "@" in line]) == 3 and "damaged in the store" in found.out and "Traceback" not in found.err
    turns = casrewind.json("list", code=20)["turns"]
    assert [(turn["damaged"], turn["changes"] is None) for turn in turns] == [(True, True), (True, True), (False, False)]


def test_a_label_of_several_lines_is_its_first_line_and_grep_finds_the_others(agent, casrewind):
    casrewind("save", "-m", "add Dockerfile\n\nDetails: x", code=0)
    for words in ((), ("--oneline",), ("--all",), ("--all", "--oneline")):
        found = casrewind("list", *words, code=0).out
        assert "add Dockerfile" in found and "\\n" not in found and "Details" not in found
    assert "saved: add Dockerfile" in casrewind("list", "--grep", "details", code=0).out


def test_a_save_with_meta_folds_behind_its_turn_and_grep_finds_it(agent, casrewind, root):
    agent.prompt("a", "a long job")
    plant(root, {"f": b"1"})
    agent.workspace.save(meta={"episode": "7"})
    agent.workspace.save(meta={"episode": "8"})
    agent.stop("a")
    assert "episode" not in casrewind("list", code=0).out
    (line,) = casrewind("list", "--grep", "EPISODE=7", code=0).out.splitlines()
    assert "saved: episode=7 (while @1 ran)" in line
    assert casrewind("list", "--grep", "saved", code=0).out.startswith("no turn matches"), "a word of the row is not its meta"


def test_checkpoints_of_other_worktrees_are_told_and_named(casrewind, root, home, tmp_path):
    """A list that is empty, or short, says where the others are."""
    store = ("--store", home / "one-for-all")
    first, second, third = tmp_path / "first/app", tmp_path / "second", tmp_path / "third/app"
    for place in (first, root):
        plant(place, {"f": b"1"})
        casrewind(*store, "-C", place, "save", "-m", f"in {place.name}", code=0)
    assert f"\nthe worktree {first} has checkpoints, too: casrewind list --all\n" in casrewind(*store, "list", code=0).out
    plant(second, {"f": b"1"})
    empty = casrewind(*store, "-C", second, "list", code=0).out
    assert empty == "no checkpoints to show; casrewind save makes one\n2 other worktrees have checkpoints, too: casrewind list --all\n"
    assert "worktrees" not in casrewind(*store, "list", "--oneline", code=0).out
    rows = casrewind(*store, "list", "--all", code=0).out.splitlines()
    assert rows[0].split()[:3] == ["id", "worktree", "when"] and rows[3].split()[1] == "app"
    assert "  app: in app" in casrewind(*store, "list", "--all", "--oneline", code=0).out
    plant(third, {"f": b"1"})
    casrewind(*store, "-C", third, "save", code=0)
    assert f"  {first}  " in casrewind(*store, "list", "--all", code=0).out  # two have the same name
