"""casrewind review: what changed since a person last looked."""

import os
import re

import pytest

from casrewind import Limits, errors
from casrewind.upkeep import gc
from casrewind.worktree import scan as scans
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.machines import Machine
from support.picker_screen import run_picker
from support.terminal_in_process import on_terminal
from support.trees import plant


def write(root, name, *lines):
    plant(root, {name: "".join(f"{line}\n" for line in lines).encode()})


@pytest.fixture
def shop(casrewind, workspace, root):
    """A turn that was looked at; then a turn, an edit by a person, and a turn of another session."""
    write(root, "till.py", "start")
    casrewind("save", code=0)
    told = AgentTurns(workspace, root)
    told.other = AgentTurns(workspace, root, "s2")
    told.prompt("a", "looked at")
    write(root, "till.py", "start", "one")
    told.stop("a")
    casrewind("review", "--done", code=0)
    told.prompt("b", "round to cents")
    write(root, "till.py", "start", "one", "two")
    told.stop("b")
    write(root, "mine.md", "by me")
    told.other.prompt("c", "give change")
    write(root, "change.py", "change")
    told.other.stop("c")
    return told


def seen(workspace):
    """What a review has: the prompts of its turns, and {path: who made its difference}."""
    found = workspace.review()
    turns = [row.prompt for row in found.rows if hasattr(row, "prompt")]
    return turns, {path.decode(): str(makers) for path, makers in found.makers.items()}


ALL = (["give change", "round to cents"], {"change.py": "@1", "mine.md": "you", "till.py": "@2"})
NOTHING = ([], {})


def test_turns_and_edits_since_the_mark_are_rows_and_one_difference(shop, casrewind, workspace):
    assert seen(workspace) == ALL
    head, *lines = casrewind("review", code=0).out.splitlines()
    assert head.startswith("since you looked, ") and "looked at" not in "\n".join(lines)
    rows, _, files = "\n".join(lines).partition("\n\n")
    assert [line.split("  ")[1].strip() for line in rows.splitlines()] == ["@1", "", "@2"] and "edited outside of a turn" in rows
    assert files.splitlines() == ["+ change.py  @1", "+ mine.md  you", "~ till.py (10 B -> 14 B)  @2", "2 added, 1 modified, 0 removed"]
    patch = casrewind("review", "-p", code=0).out
    assert "+two" in patch and "+one" not in patch and patch == casrewind("diff", "--since-review", "-p", code=0).out
    assert "till.py" not in casrewind("diff", "--since-review", "--name-only", "--", "mine.md", code=0).out


def test_turns_that_changed_nothing_are_one_line_and_the_heading_is_what_a_person_sees_first(shop, casrewind):
    for number in range(30):
        shop.prompt(f"q{number}", f"question {number}")
        shop.stop(f"q{number}")
    lines = on_terminal(casrewind, ["review"], columns=80, NO_COLOR="1").out.splitlines()
    assert len(lines) < 24 and lines[0].startswith("since you looked, ") and "and 30 turns that changed nothing" in [line.strip() for line in lines]
    assert "question" not in "\n".join(lines)
    assert len(casrewind.json("review")["turns"]) == 32, "a program gets all"
    assert casrewind("review", "--done", code=0).out.splitlines()[1] == "no longer new: @31, @32, 1 other change and 30 turns that changed nothing"


def test_a_question_mark_is_explained_where_it_is(shop, casrewind, root):
    legend = "?: only a restore changed it, or the author is unknown"
    assert legend not in casrewind("review", code=0).out
    shop.prompt("d", "cut short")
    write(root, "cut", "1")
    casrewind("restore", "@1", "--yes", code=0)
    casrewind("review", "--done", "@1", code=0)
    *_, path, counts, last = casrewind("review", code=0).out.splitlines()
    assert path.endswith("cut  ?") and last == legend


def test_the_heading_of_a_diff_says_when_a_person_looked(shop, casrewind):
    found = casrewind("diff", "--since-review", code=0).out.splitlines()[0]
    assert re.match(r'since you looked, \d+ s ago: from after "looked at" \(after:@3, \d+ s ago, c[0-9a-f]{14}\) to the files now$', found), found


@pytest.mark.parametrize("words", [(), ("@1",), ("@2",)])
def test_done_reads_the_project_once(shop, casrewind, monkeypatch, words):
    scan, count = scans.scan, []
    monkeypatch.setattr(scans, "scan", lambda *given, **more: count.append(1) or scan(*given, **more))
    casrewind("review", "--done", *words, code=0)
    assert len(count) == 1


def test_nothing_was_looked_at_yet(workspace, casrewind, root):
    assert casrewind("review", code=15).err.startswith("casrewind: there is no checkpoint here yet")
    write(root, "a", "1")
    casrewind("save", code=0)
    write(root, "a", "2")
    said = casrewind("review", code=0).out
    assert said.startswith("nothing is marked as reviewed yet; since the first checkpoint, ") and "~ a" in said
    assert casrewind.json("review")["reviewed_at"] is None
    assert "nothing is marked" in casrewind("diff", "--since-review", code=15).err


def test_done_marks_the_files_as_they_are_now_and_saves_them_first(shop, casrewind, workspace, root):
    write(root, "mine.md", "by me", "just now")
    before = len(workspace.checkpoints())
    said = casrewind("review", "--done", code=0).out.splitlines()
    assert said[0].startswith("marked as reviewed: the files as they are now (c") and said[1:] == ["no longer new: @1, @2 and 2 other changes", "nothing is new now"]
    assert len(workspace.checkpoints()) == before + 1 and seen(workspace) == NOTHING
    assert casrewind("review", code=0).out.splitlines()[-1] == "no difference"
    write(root, "mine.md", "by me")
    assert seen(workspace) == ([], {"mine.md": "you"})


@pytest.mark.parametrize("ref", ["@2", "2", "after:@2"])
def test_done_up_to_a_turn(shop, casrewind, workspace, ref):
    said = casrewind("review", "--done", ref, code=0).out.splitlines()
    assert re.match(r"marked as reviewed: the files after @2, \d+ s ago \(c", said[0]) and said[1:] == ["no longer new: @2", "still new: @1 and 1 other change"]
    assert seen(workspace) == (["give change"], {"change.py": "@1", "mine.md": "you"})
    assert casrewind("review", "--done", "@3", code=0).out.splitlines()[1:] == ["new again: @2", "still new: @1 and 1 other change"]
    assert seen(workspace) == ALL


def test_a_running_turn_is_marked_as_far_as_it_is(shop, workspace, casrewind, root):
    shop.run_in_this_process()
    shop.prompt("d", "long job")
    write(root, "long", "1")
    casrewind("review", "--done", "@1", code=0)
    assert seen(workspace) == (["long job"], {})
    write(root, "long", "1", "2")
    assert seen(workspace) == (["long job"], {"long": "@1"})
    shop.stop("d")
    assert seen(workspace) == (["long job"], {"long": "@1"})
    casrewind("review", "--done", code=0)
    assert seen(workspace) == NOTHING


def test_who_may_have_been_either_is_unknown(shop, casrewind, workspace, root):
    shop.prompt("d", "go on")
    write(root, "whose.py", "?")
    shop.tell("SessionStart", source="resume")
    casrewind("save", code=0)
    assert seen(workspace)[1]["whose.py"] == "@1 or you"
    assert next(change["by"] for change in casrewind.json("review")["changes"] if change["path"] == "whose.py") == {"turns": [], "you": False, "perhaps": [1]}


def test_what_a_restore_took_back_and_an_undo_brought_again_is_as_new_as_it_was(shop, casrewind, workspace):
    """Turns behind the mark are no difference while they are taken back; what was looked at is one while it is gone."""
    casrewind("restore", "@2", "--yes", code=0)
    assert seen(workspace)[1] == {}
    casrewind("undo", "--yes", code=0)
    assert seen(workspace)[1] == ALL[1]
    casrewind("restore", "@3", "--yes", code=0)
    assert list(seen(workspace)[1]) == ["till.py"] and "restored to @3" in casrewind("review", code=0).out
    casrewind("undo", "--yes", code=0)
    assert seen(workspace)[1] == ALL[1]


def test_a_restore_that_was_looked_at_is_not_new_and_its_undo_is(shop, casrewind, workspace):
    casrewind("restore", "@3", "--yes", code=0)
    casrewind("review", "--done", code=0)
    assert seen(workspace) == NOTHING and workspace.review().rows == ()
    casrewind("undo", "--yes", code=0)
    assert set(seen(workspace)[1]) == {"change.py", "mine.md", "till.py"}
    casrewind("review", "--done", code=0)
    assert seen(workspace) == NOTHING and workspace.review().rows == ()


def test_what_a_revert_removes(shop, casrewind, workspace):
    casrewind("revert", "@2", "--yes", code=0)
    assert seen(workspace)[1] == {"change.py": "@1", "mine.md": "you"}, "it never was looked at, and it is gone"
    casrewind("revert", "@3", "--yes", code=0)
    assert set(seen(workspace)[1]) == {"change.py", "mine.md", "till.py"}, "it was looked at"


def test_a_mark_at_the_end_of_a_turn_that_a_restore_ended(shop, casrewind, workspace, root):
    shop.prompt("d", "cut short")
    write(root, "cut", "1")
    casrewind("restore", "@1", "--yes", code=0)
    casrewind("review", "--done", "@1", code=0)
    assert seen(workspace)[1] == {"cut": ""} and "restored to @1" in casrewind("review", code=0).out


def test_a_list_has_a_line_at_the_mark(shop, casrewind):
    def lines(*more):
        return [("LOOKED" if "reviewed up to here" in line else line.split()[0]) for line in casrewind("list", *more, code=0).out.splitlines() if "@" in line or "reviewed up" in line]

    assert lines() == ["@1", "@2", "LOOKED", "@3"] == lines("--reverse")[::-1]
    assert lines("-n", "1") == ["@1"] and "LOOKED" not in lines("--grep", "e")
    casrewind("review", "--done", code=0)
    assert lines() == ["LOOKED", "@1", "@2", "@3"] == lines("--reverse")[::-1]


def test_m_in_the_picker_marks_up_to_a_row(shop, root, home, workspace):
    async def story(stage):
        await stage.shows("3 turns of 2 sessions")
        await stage.until(lambda text: ["@1", "edited", "@2", "--", "@3", "saved"] == [row.replace("▶ ", "").split()[0] for row in stage.rows()])
        await stage.press("m")
        await stage.shows("marked as reviewed: up to @1; nothing is new now")
        await stage.until(lambda text: "--" == stage.rows()[0].replace("▶ ", "").split()[0])
        await stage.press("n", "m")
        await stage.shows("marked as reviewed: up to @2; new again: @1 and 1 other change")
        await stage.until(lambda text: "--" == stage.rows()[2].replace("▶ ", "").split()[0])
        await stage.press("g", "j", "m")
        await stage.shows("marked as reviewed: up to edited outside of a turn; still new: @1")
        await stage.until(lambda text: "--" == stage.rows()[1].replace("▶ ", "").split()[0])
        await stage.press("g", "j", "m")
        await stage.shows("this row is none of them")
        await stage.press("escape", "g", "m")
        await stage.shows("up to @1; nothing is new now")

    run_picker(root, home, story)
    assert seen(workspace) == NOTHING


def test_gc_keeps_the_state_that_is_marked(shop, workspace, casrewind, root):
    marked = casrewind.json("review", "--done", "@3")["checkpoint"]
    limits = Limits(max_age=None, max_count=1, keep_last=0)
    gc.collect(workspace._context, limits)
    assert marked in {point.id for point, _ in workspace.checkpoints()} and set(seen(workspace)[1]) == set(ALL[1])
    casrewind("review", "--done", code=0)
    gc.collect(workspace._context, limits)
    assert marked not in {point.id for point, _ in workspace.checkpoints()}


def test_gc_that_decided_before_keeps_it_too(shop, workspace, monkeypatch):
    context, decide, late = workspace._context, gc._decide_what_to_forget, []
    oldest = workspace.checkpoints()[-1][0]

    def decide_and_be_late(*given):
        found = decide(*given)
        late.append(None if late else workspace.mark_reviewed(oldest))
        return found

    monkeypatch.setattr(gc, "_decide_what_to_forget", decide_and_be_late)
    gc.collect(context, Limits(max_age=None, max_count=1, keep_last=0))
    assert oldest.id in {point.id for point, _ in workspace.checkpoints()}


def test_a_project_that_moved_keeps_its_mark(shop, workspace, root, at, tmp_path):
    workspace.close()
    os.rename(root, tmp_path / "elsewhere")
    moved = at(tmp_path / "elsewhere")
    assert "since you looked" in moved("review", code=0).out and moved.json("review")["reviewed_at"]


def test_another_machine_has_a_mark_of_its_own(shop, workspace, machines, casrewind, tmp_path):
    sandbox = machines()
    plant(sandbox.root, {"there": b"1"})
    sandbox.turn("a", "over there", {"there": b"2"})
    sandbox.pull_into(workspace)
    assert seen(workspace) == ALL, "what was pulled changed no file here"
    with pytest.raises(errors.RootRefused, match="what was looked at is marked there"):
        workspace.mark_reviewed("remote:last")
    casrewind("restore", "remote:last", "there", "--yes", code=0)
    assert set(seen(workspace)[1]) == {*ALL[1], "there"}


def test_a_clone_begins_with_nothing_looked_at(tmp_path):
    machine = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/remote")
    plant(machine.root, {"a": b"1"})
    with machine.open() as workspace:
        workspace.save()
        workspace.mark_reviewed()
    machine.push()
    clone = machine.clone_to(tmp_path / "two")
    with clone.open() as workspace:
        plant(clone.root, {"a": b"2"})
        found = workspace.review()
        assert found.marked_ns is None and [change.path for change in found.difference.changes] == [b"a"]


def test_a_linked_worktree_has_a_mark_of_its_own(root, settings, tmp_path):
    git = pytest.importorskip("support.git_repository")
    assert git  # made by git itself
    import subprocess

    plant(root, {"a": b"1"})
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"], ["worktree", "add", "-q", str(tmp_path / "linked")]):
        subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)
    with opened(root, settings) as workspace:
        workspace.save()
        workspace.mark_reviewed()
    with opened(tmp_path / "linked", settings) as linked:
        linked.save()
        assert linked.review().marked_ns is None


@pytest.mark.parametrize("words, code, said", [
    (("@2",), 64, "a REF goes with --done"), (("--done", "@9"), 15, "no turn '@9'"), (("--done", "nope"), 15, "no checkpoint 'nope'"),
])  # fmt: skip
def test_what_cannot_be_marked_says_why(shop, casrewind, words, code, said):
    found = casrewind("review", *words)
    assert found.code == code and said in found.err


def test_a_program_gets_rows_turns_and_changes_with_their_makers(shop, casrewind):
    found = casrewind.json("review")
    assert [row["row"] for row in found["rows"]] == ["turn", "outside", "turn"] and [turn["n"] for turn in found["turns"]] == [1, 2]
    assert [(change["path"], change["by"]) for change in found["changes"]] == [
        ("change.py", {"turns": [1], "you": False, "perhaps": []}), ("mine.md", {"turns": [], "you": True, "perhaps": []}),
        ("till.py", {"turns": [2], "you": False, "perhaps": []}),
    ]  # fmt: skip
    assert set(casrewind.json("review", "--done")) == {"checkpoint", "at"}


@pytest.mark.parametrize("data", [b"", b"{", b'{"version": 1, "checkpoint": 7, "order": 1, "at_ns": 1}', b'{"version": 1, "checkpoint": "c1", "order": 1, "at_ns": 1}'])
def test_a_mark_that_is_damaged_or_of_another_store_is_none(shop, casrewind, workspace, data):
    (place,) = os.scandir(os.path.join(workspace.store_path, "reviews"))
    with open(place.path, "wb") as file:
        file.write(data)
    assert casrewind.json("review")["reviewed_at"] is None and casrewind("list", code=0)
