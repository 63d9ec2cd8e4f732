"""A restore that keeps edits takes back what turns did since, and nothing that a person edited outside of them."""

import pytest

from casrewind import errors
from casrewind.cli.picker.timeline import BOTH, CODE, TimelineModel
from casrewind.cli.terminal.questions import KEEP_EDITS, NO, YES
from casrewind.model.retention import Limits
from casrewind.errors import Declined
from support.agent_turns import AgentTurns
from support.command import CONFIG_FILE
from support.picker_screen import run_picker
from support.picture import picture
from support.terminal_in_process import on_terminal
from support.trees import plant

BASE = [f"line {number}" for number in range(20)]


def text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def with_line(lines, at, line):
    return [*lines[:at], line, *lines[at:]]


def replaced(lines, at, line):
    return [*lines[:at], line, *lines[at + 1 :]]


class Person(AgentTurns):
    """One session in a project with a few files."""

    def turn(self, name, files, removed=()):
        """One turn that writes and removes files; its first checkpoint."""
        before = self.prompt(name, f"do {name}")
        self.edit(files, removed)
        self.stop(name)
        return before

    def edit(self, files, removed=()):
        plant(self.root, files)
        for path in removed:
            (self.root / path).unlink()


@pytest.fixture
def told(workspace, root):
    plant(root, {"till.py": text(BASE), "notes.md": b"n\n", "keep.txt": b"k\n", "old.py": b"old\n"})
    return Person(workspace, root)


@pytest.fixture
def edited(told):
    """Two turns, with edits of a person between them and behind them. The checkpoint before the first turn."""
    first = told.turn("one", {"till.py": text(replaced(BASE, 2, "agent one")), "new.py": b"new\n"}, removed=["old.py"])
    lines = with_line(replaced(BASE, 2, "agent one"), 10, "mine 1")
    told.edit({"till.py": text(lines), "keep.txt": b"mine\n", "own/file": b"mine\n"})
    told.turn("two", {"till.py": text(replaced(lines, 15, "agent two")), "notes.md": b"changed\n"})
    told.edit({"till.py": text(with_line(replaced(lines, 15, "agent two"), 19, "mine 2"))})
    return first


def test_turns_are_taken_back_and_edits_between_and_behind_them_stay(told, edited, root):
    before = picture(root)
    done = told.workspace.restore(edited, keep_edits=True)
    assert (root / "till.py").read_bytes() == text(with_line(with_line(BASE, 10, "mine 1"), 19, "mine 2"))
    assert (root / "notes.md").read_bytes() == b"n\n" and (root / "old.py").read_bytes() == b"old\n" and not (root / "new.py").exists()
    assert (root / "keep.txt").read_bytes() == (root / "own/file").read_bytes() == b"mine\n"
    assert {item.path: item.why for item in done.kept} == dict.fromkeys([b"keep.txt", b"own", b"own/file"], "outside")
    assert done.edited == (b"keep.txt", b"own/file", b"till.py") and not done.exact and not done.incomplete
    assert [(one.path, one.kept) for one in done.merged] == [(b"till.py", 2)]
    assert told.workspace.current() == "", "it is the state of no checkpoint"
    after = picture(root)
    told.workspace.undo()
    assert picture(root) == before
    told.workspace.redo()
    assert picture(root) == after
    told.workspace.gc(Limits(0.0, 1, 1, 1 << 40, thin=False))
    told.workspace.undo()
    assert picture(root) == before


def test_what_a_person_sees(edited, casrewind, told):
    told.workspace.close()
    plan = casrewind("restore", "@2", "--keep-edits", "-n", code=0).out.splitlines()
    assert plan[0].startswith('restore to before "do one" (@2, ')
    assert plan[1:] == [
        "  takes back what turns changed since then; edits made outside of turns stay",
        "  what changed while @2..@1 ran counts as theirs, even if you did it",
        "would restore 3 paths and remove 1; 1 path would stay",
        "  - new.py", "  ~ notes.md (8 B -> 2 B)", "  + old.py", "  ~ till.py  merged: 2 places taken back, 2 lines of yours kept",
        "  kept, yours (2 paths):", "    keep.txt", "    own",
        "  not the exact state of @2: 3 paths keep your edits",
    ]  # fmt: skip
    found = casrewind.json("restore", "@2", "--keep-edits", "-n")
    assert found["exact"] is False and found["edited_outside"] == ["keep.txt", "own/file", "till.py"]
    assert casrewind.json("restore", "@2", "-n")["exact"] is True
    result = casrewind("restore", "@2", "--keep-edits", "-y", code=0).out
    assert "  3 paths written (1 merged with later edits), 1 removed" in result and "  not the exact state of @2: 3 paths keep your edits\n" in result
    assert casrewind.json("undo", "-y")["restored"] == 3


def test_the_setting_and_exact(edited, casrewind, told, root, home):
    told.workspace.close()
    (home / CONFIG_FILE).parent.mkdir(parents=True)
    (home / CONFIG_FILE).write_text("[restore]\nkeep_edits = true\n")
    assert casrewind.json("restore", "@2", "-y")["exact"] is False and (root / "keep.txt").read_bytes() == b"mine\n"
    casrewind("undo", "-y", code=0)
    assert casrewind.json("restore", "@2", "-y", "--exact")["exact"] is True and (root / "keep.txt").read_bytes() == b"k\n"


def test_a_conflict_leaves_the_file_alone_and_the_rest_is_done(told, root, casrewind):
    first = told.turn("one", {"notes.md": b"changed\n", "new.py": b"new\n", "till.py": text(BASE[5:])})
    told.edit({"notes.md": b"changed by me\n", "new.py": b"new\nmine\n"})
    told.workspace.close()
    report = casrewind.json("restore", first.id, "--keep-edits", "-y", code=3)
    assert {item["path"] for item in report["skipped"]} == {"notes.md", "new.py"} and report["exact"] is False
    assert (root / "notes.md").read_bytes() == b"changed by me\n" and (root / "new.py").read_bytes() == b"new\nmine\n"
    assert (root / "till.py").read_bytes() == text(BASE)


def test_without_a_turn_since_then_it_is_a_usage_error_and_no_answer(told, casrewind):
    told.turn("one", {"notes.md": b"changed\n"})
    point = told.workspace.save("it works").checkpoint
    told.edit({"keep.txt": b"mine\n"})
    model, answers = TimelineModel(told.context), Answers(NO)
    with pytest.raises(Declined):
        model.restore(next(row for row in model.first_timeline().rows if row.target == point.id), CODE, (), answers)
    assert not answers.seen[0].may_keep
    told.workspace.close()
    failed = casrewind("restore", "it works", "--keep-edits", "-y", code=64)
    assert "no agent did anything since then" in failed.err and f"restore --exact {point.id}" in failed.err
    asked = on_terminal(casrewind, ["restore", "it works"], typed="n\n").out
    assert "Those edits will be lost" in asked and "[y/N/d]" in asked and "keeps them" not in asked, "what would fail is not offered"
    assert casrewind.json("restore", "it works", "-y")["restored"] == 1


def test_to_a_label_the_turns_that_began_since_count(told, root):
    told.turn("one", {"notes.md": b"one\n"})
    told.edit({"keep.txt": b"mine\n"})
    point = told.workspace.save("it works").checkpoint
    told.turn("two", {"notes.md": b"two\n"})
    told.edit({"till.py": b"mine\n"})
    done = told.workspace.restore(point, keep_edits=True)
    assert (root / "notes.md").read_bytes() == b"one\n" and done.edited == (b"till.py",)


def test_a_turn_that_was_running_already_is_left_out_and_named(told, root, workspace):
    other = AgentTurns(workspace, root, session="s2")
    other.prompt("long", "work for an hour")
    plant(root, {"slow.py": b"1\n"})
    first = told.turn("one", {"notes.md": b"one\n"})
    plant(root, {"slow.py": b"2\n"})
    other.stop("long")
    told.edit({"keep.txt": b"mine\n"})
    done = told.workspace.restore(first, keep_edits=True)
    assert (root / "slow.py").read_bytes() == b"2\n" and (root / "keep.txt").read_bytes() == b"mine\n"
    kept = {item.path: item for item in done.kept}
    assert kept[b"slow.py"].reason == "@2 was running already then, and changed it" and not kept[b"slow.py"].benign
    assert kept[b"notes.md"].why == "shared" and kept[b"notes.md"].by == (2,), "either of the two may have changed it"


def test_background_work_of_a_turn_is_left_alone_and_named(told, root, workspace):
    first = told.turn("one", {"made": b"one\n"})
    plant(root, {"built": b"1\n"})
    told.tell("UserPromptSubmit", "two", prompt="<task-notification>\n<task-id>b1</task-id>")
    plant(root, {"made": b"one\nthen\n"})
    told.stop("two")
    done = workspace.restore(first, keep_edits=True)
    assert (root / "built").read_bytes() == b"1\n" and not (root / "made").exists()
    kept = {item.path: item for item in done.kept}
    assert kept[b"built"].reason == "background work of @1 changed it" and not kept[b"built"].benign and kept[b"built"].by == (1,)


def test_turns_of_every_session_are_taken_back_also_where_they_ran_together(told, root, workspace):
    other = AgentTurns(workspace, root, session="s2")
    first = told.prompt("one", "do one")
    plant(root, {"till.py": text(replaced(BASE, 2, "one"))})
    other.prompt("two", "do two")
    plant(root, {"till.py": text(replaced(replaced(BASE, 2, "one"), 8, "two")), "both.py": b"1\n"})
    told.stop("one")
    other.stop("two")
    plant(root, {"till.py": text(with_line(replaced(replaced(BASE, 2, "one"), 8, "two"), 15, "mine"))})
    done = workspace.restore(first, keep_edits=True)
    assert (root / "till.py").read_bytes() == text(with_line(BASE, 15, "mine"))
    assert not (root / "both.py").exists() and not done.incomplete


def test_forgotten_turns_cannot_be_told_from_edits(told, casrewind):
    first = told.turn("one", {"notes.md": b"one\n"})
    told.workspace.pin(first)
    for number in range(4):
        told.turn(f"t{number}", {"till.py": b"%d\n" % number})
    told.workspace.gc(Limits(0.0, 1, 1, 1 << 40, thin=False))
    with pytest.raises(errors.CheckpointNotFound, match="forgotten"):
        told.workspace.restore(first, keep_edits=True)
    assert told.workspace.restore(first).exact


def test_a_person_who_made_a_directory_or_removed_one_keeps_that(told, root):
    told.edit({"lib/a.py": b"a\n", "lib/b.py": b"b\n"})
    first = told.turn("one", {"gen/x.py": b"x\n"}, removed=["lib/a.py"])
    told.edit({"gen/mine.py": b"mine\n"}, removed=["lib/b.py"])
    (root / "lib").rmdir()
    done = told.workspace.restore(first, keep_edits=True)
    assert (root / "gen/mine.py").read_bytes() == b"mine\n" and not (root / "gen/x.py").exists()
    assert not (root / "lib").exists() and b"lib/a.py" in {item.path for item in done.kept if not item.benign}


def test_paths_limit_it(told, edited, root):
    done = told.workspace.restore(edited, [b"notes.md", b"keep.txt"], keep_edits=True)
    assert (root / "notes.md").read_bytes() == b"n\n" and b"agent two" in (root / "till.py").read_bytes()
    assert done.edited == (b"keep.txt",)
    with pytest.raises(errors.PathNotFound):
        told.workspace.restore(edited, [b"keep.txt"], keep_edits=True)


def test_purged_content_of_a_turn_is_left_alone(told, root):
    first = told.turn("one", {"secret": b"s\n", "notes.md": b"one\n"})
    told.edit({"secret": b"s\nmine\n"})
    told.workspace.save()
    told.workspace.purge([b"secret"])
    done = told.workspace.restore(first, keep_edits=True)
    assert (root / "secret").read_bytes() == b"s\nmine\n" and (root / "notes.md").read_bytes() == b"n\n"


# -- questions


class Answers:
    """A person in front of the picker. `seen`: the proposals."""

    def __init__(self, *answers):
        self.answers, self.seen = list(answers), []

    def __call__(self, proposal):
        self.seen.append(proposal)
        return self.answers.pop(0)


def row_of(model, number):
    return next(row for row in model.first_timeline().rows if getattr(row.item, "n", 0) == number)


@pytest.mark.parametrize("last", [YES, NO])
def test_the_picker_offers_to_keep_edits_and_shows_that_plan(told, edited, root, last):
    model, before = TimelineModel(told.context), picture(root)
    answers = Answers(KEEP_EDITS, last)
    if last == NO:
        with pytest.raises(Declined):
            model.restore(row_of(model, 2), CODE, (), answers)
        assert picture(root) == before
    else:
        result = model.restore(row_of(model, 2), CODE, (), answers)
        assert "  not the exact state of @2: 3 paths keep your edits" in [line.text for line in result.lines]
        assert (root / "keep.txt").read_bytes() == b"mine\n" and (root / "notes.md").read_bytes() == b"n\n"
    first, second = answers.seen
    words = [line.text for line in second.lines]
    assert words[:2] == [
        "  takes back what turns changed since then; edits made outside of turns stay",
        "  what changed while @2..@1 ran counts as theirs, even if you did it",
    ]  # fmt: skip
    assert first.may_keep and not second.may_keep and "keeping your edits" in second.headline.text
    assert "  (e keeps them; casrewind undo brings everything back)" in [line.text for line in first.lines]


def test_the_picker_does_not_offer_it_without_such_edits_and_keeps_them_if_configured(told, root):
    told.turn("one", {"notes.md": b"one\n"})
    told.turn("two", {"till.py": b"two\n"})
    model, answers = TimelineModel(told.context), Answers(NO)
    with pytest.raises(Declined):
        model.restore(row_of(model, 2), CODE, (), answers)
    assert not answers.seen[0].may_keep
    told.edit({"keep.txt": b"mine\n"})
    TimelineModel(told.context, keep_edits=True).restore(row_of(model, 2), CODE, (), Answers(YES))
    assert (root / "keep.txt").read_bytes() == b"mine\n" and (root / "notes.md").read_bytes() == b"n\n"


def test_the_picker_leaves_alone_what_came_behind_esc_and_names_it(told, root, stopped):
    told.turn("two", {"notes.md": b"two\n"})
    told.edit({"own.txt": b"mine\n"})
    model, answers = TimelineModel(told.context), Answers(KEEP_EDITS, YES)
    result = model.restore(row_of(model, 2), CODE, (), answers)
    named = "  left alone, may be yours: casrewind did not see @2 end (4 paths):"  # no option of a command line
    assert named in [line.text for line in answers.seen[1].lines] and named in [line.text for line in result.lines]
    assert (root / "repair.txt").read_bytes() == (root / "own.txt").read_bytes() == b"mine\n" and (root / "notes.md").read_bytes() == b"n\n"


def test_a_file_that_changes_before_the_answer_is_not_merged(told, edited, root):
    def confirm(_plan):
        plant(root, {"till.py": b"quite another text\n"})
        return True

    done = told.workspace.restore(edited, confirm=confirm, keep_edits=True)
    assert (root / "till.py").read_bytes() == b"quite another text\n" and not (root / "new.py").exists()
    assert {item.path: item.reason for item in done.kept if not item.benign} == {b"till.py": "@1: line 1 was edited since by you"}


def test_a_turn_that_still_runs_is_taken_back_so_far(told, root, casrewind):
    first = told.turn("one", {"notes.md": b"one\n"})
    told.edit({"keep.txt": b"mine\n"})
    told.prompt("two", "go on")
    plant(root, {"till.py": text(replaced(BASE, 2, "agent"))})
    told.run_in_this_process()
    assert "  @1 still runs, or was stopped with Esc" in casrewind("restore", first.id, "--keep-edits", "-n", code=0).out.splitlines()
    done = told.workspace.restore(first, keep_edits=True)
    assert (root / "till.py").read_bytes() == text(BASE) and (root / "notes.md").read_bytes() == b"n\n"
    assert (root / "keep.txt").read_bytes() == b"mine\n" and done.edited == (b"keep.txt",)


def test_e_in_the_question_of_the_picker(told, edited, root, home):
    async def story(stage):
        await stage.shows("do two")
        await stage.press("j", "j", "c")
        await stage.shows("(e keeps them; u brings everything back)", "Go on?", "e keep my edits", "y yes", "n no")
        await stage.press("e")
        await stage.shows("keeping your edits", "kept, yours")
        await stage.press("y")
        await stage.shows("not the exact state of @2: 3 paths keep your edits")
        await stage.press("enter", "q")

    told.workspace.close()
    run_picker(root, home, story)
    assert (root / "keep.txt").read_bytes() == b"mine\n" and (root / "notes.md").read_bytes() == b"n\n"


# -- what a person made, and an agent moved or removed later


def test_what_a_person_made_and_an_agent_moved_comes_back_to_its_name(told, root):
    first = told.turn("one", {"notes.md": b"one\n"})
    told.edit({"notes.txt": b"mine 1\nmine 2\n"})
    told.turn("two", {"docs/notes.txt": b"mine 1\nmine 2\n"}, removed=["notes.txt"])
    before = picture(root)
    plan = told.workspace.plan_restore(first.id, keep_edits=True)
    done = told.workspace.restore(first, keep_edits=True)
    assert plan.actions == done.actions and plan.kept == done.kept
    assert (root / "notes.txt").read_bytes() == b"mine 1\nmine 2\n" and not (root / "docs").exists()
    assert (root / "notes.md").read_bytes() == b"n\n"
    assert b"notes.txt" in done.edited and not done.exact
    told.workspace.undo()
    assert picture(root) == before


def test_what_a_person_made_and_an_agent_removed_comes_back(told, root):
    first = told.turn("one", {"notes.md": b"one\n"})
    told.edit({"notes.txt": b"mine\n", "own/deep/x": b"x\n"})
    told.turn("two", {}, removed=["notes.txt", "own/deep/x"])
    (root / "own/deep").rmdir()
    (root / "own").rmdir()
    told.turn("three", {"till.py": b"three\n"})
    done = told.workspace.restore(first, keep_edits=True)
    assert (root / "notes.txt").read_bytes() == b"mine\n" and (root / "notes.md").read_bytes() == b"n\n"
    assert (root / "till.py").read_bytes() == text(BASE) and b"notes.txt" in done.edited
    assert not (root / "own").exists() and b"own/deep/x" in {item.path for item in done.kept}, "a person removed its directories"


def test_a_line_of_a_person_that_an_agent_took_away_comes_back(told, root):
    first = told.turn("one", {"notes.md": b"one\n"})
    told.edit({"till.py": text(with_line(BASE, 10, "mine"))})
    told.turn("two", {"till.py": text(BASE)})
    done = told.workspace.restore(first, keep_edits=True)
    assert (root / "till.py").read_bytes() == text(with_line(BASE, 10, "mine")) and done.edited == (b"till.py",)


def test_what_a_person_made_stays_where_an_agent_moved_it_if_its_own_name_is_taken(told, root):
    first = told.turn("one", {"notes.md": b"one\n"})
    told.edit({"notes.txt": b"mine\n"})
    told.turn("two", {"docs/notes.txt": b"mine\n", "docs/other": b"o\n"}, removed=["notes.txt"])
    told.turn("three", {"docs/notes.txt": b"mine\nthree\n"})
    told.edit({"notes.txt": b"another file\n"})
    done = told.workspace.restore(first, keep_edits=True)
    assert (root / "notes.txt").read_bytes() == b"another file\n" and b"mine\n" in (root / "docs/notes.txt").read_bytes()
    assert not (root / "docs/other").exists() and {b"notes.txt", b"docs/notes.txt"} <= {item.path for item in done.kept}


# -- a turn whose end nobody saw


@pytest.fixture
def stopped(told, root):
    """A turn that Esc stopped, and what a person edited behind it. The checkpoint before it."""
    first = told.prompt("one", "do one")
    plant(root, {"half.py": b"half\n", "till.py": text(replaced(BASE, 2, "agent"))})
    told.edit({"repair.txt": b"mine\n", "keep.txt": b"k\nmine\n"})
    return first


def test_what_came_behind_esc_stays_and_is_named(told, root, stopped):
    before = picture(root)
    done = told.workspace.restore(stopped, keep_edits=True)
    assert picture(root) == before and not done.actions and done.incomplete
    assert {item.path: (item.why, item.benign) for item in done.kept} == dict.fromkeys(
        [b"half.py", b"keep.txt", b"repair.txt", b"till.py"], ("unseen_end", False)
    )


def test_the_edits_behind_esc_of_an_older_turn_stay_and_those_of_the_others_are_taken_back(told, root, stopped):
    told.turn("two", {"notes.md": b"two\n", "keep.txt": b"k\nmine\ntwo\n"})
    told.workspace.restore(stopped, keep_edits=True)
    assert (root / "notes.md").read_bytes() == b"n\n", "only the turn whose end was seen changed it"
    assert (root / "keep.txt").read_bytes() == b"k\nmine\ntwo\n" and (root / "repair.txt").read_bytes() == b"mine\n"


@pytest.mark.parametrize("verb", ["restore", "revert"])
def test_what_two_turns_rewrote_and_moved_stays_where_it_is_if_its_own_name_cannot_have_it(told, root, verb):
    """What was moved is like what the other turn had made of it, and like nothing that was there before both."""
    other = AgentTurns(told.workspace, root, "s2")
    mine = [f"mine {number}" for number in range(10)]
    told.edit({"own.txt": text(mine)})
    first = told.prompt("one", "shorten it")
    other.prompt("two", "move it")
    told.edit({"own.txt": text([*mine[4:], "one"])})
    told.workspace.save()
    told.edit({"docs/own.txt": text([*mine[7:], "one"])}, removed=["own.txt"])
    told.stop("one")
    other.stop("two")
    told.edit({"own.txt": b"another\n"})
    done = told.workspace.restore(first, keep_edits=True) if verb == "restore" else told.workspace.revert([1, 2])
    assert (root / "own.txt").read_bytes() == b"another\n" and (root / "docs/own.txt").read_bytes() == text([*mine[7:], "one"])
    assert {item.path: item.why for item in done.kept}[b"docs/own.txt"] == "moved"


@pytest.mark.parametrize("verb", ["restore", "revert"])
def test_a_file_that_came_behind_esc_stays_whole_also_where_its_older_name_has_edits_of_a_turn(told, root, verb):
    """Only the edit of before the move was taken back, and nothing was named."""
    first = told.turn("one", {"till.py": text(replaced(BASE, 2, "agent one"))})
    told.edit({"shop.py": (root / "till.py").read_bytes()}, removed=["till.py"])
    told.prompt("two", "do two")
    told.edit({"shop.py": text(replaced(replaced(BASE, 2, "agent one"), 9, "who knows"))})
    told.turn("three", {"shop.py": text(replaced(replaced(replaced(BASE, 2, "agent one"), 9, "who knows"), 15, "agent three"))})
    before = (root / "shop.py").read_bytes()
    done = told.workspace.restore(first, keep_edits=True) if verb == "restore" else told.workspace.revert([1, 2, 3])
    assert (root / "shop.py").read_bytes() == before
    assert {item.path: (item.why, item.benign) for item in done.kept}[b"shop.py"] == ("unseen_end", False)


def test_what_came_behind_esc_stays_where_a_later_turn_moved_it(told, root, stopped):
    told.turn("two", {"docs/repair.txt": b"mine\n"}, removed=["repair.txt"])
    done = told.workspace.restore(stopped, keep_edits=True)
    assert (root / "docs/repair.txt").read_bytes() == b"mine\n"
    assert {item.path: item.why for item in done.kept}[b"docs/repair.txt"] == "moved"


def test_what_a_person_reads_of_a_turn_whose_end_nobody_saw(told, root, stopped, casrewind):
    told.turn("two", {"notes.md": b"two\n"})
    told.workspace.close()
    plan = casrewind("restore", "@2", "--keep-edits", "-n", code=3)
    assert "  what changed while @2..@1 ran counts as theirs, even if you did it" in plan.out.splitlines()
    assert "your edits stay" not in plan.out
    named = ["  left alone, may be yours: casrewind did not see @2 end; --exact takes it back (4 paths):", "    half.py", "    keep.txt", "    repair.txt", "    till.py"]
    assert "\n".join(named) in plan.out + plan.err
    found = casrewind.json("restore", "@2", "--keep-edits", "-y", code=3)
    assert {item["path"]: item["why"] for item in found["skipped"]}["repair.txt"] == "unseen_end"
    assert casrewind.json("restore", "@2", "--exact", "-y", "--", "repair.txt", code=0)["removed"] == 1


def test_where_all_is_left_alone_it_does_not_say_that_the_worktree_has_it_already(told, stopped, casrewind):
    told.workspace.close()
    done = casrewind("restore", "@1", "--keep-edits", "-y", code=3)
    assert done.out.startswith("nothing was restored\n") and "nothing to do" not in done.out + done.err


def test_rules_that_are_merged_are_in_the_plan_and_those_that_go_are_named(told, root, casrewind):
    rules = ["!/.env", *(f"rule{number}" for number in range(9))]
    told.edit({".casrewindignore": text(rules)})
    told.turn("one", {".casrewindignore": text([*rules, "!/data/"])})
    told.edit({".casrewindignore": text(["# mine", *rules, "!/data/"])})
    told.workspace.close()
    for words in (["restore", "@1", "--keep-edits"], ["revert", "@1"]):
        plan = casrewind(*words, "-n", code=0)
        assert "data/ would no longer be protected" in plan.out + plan.err if words[0] == "restore" else True
        casrewind(*words, "-y", code=0)
        assert (root / ".casrewindignore").read_bytes() == text(["# mine", *rules])
        casrewind("undo", "-y", code=0)
