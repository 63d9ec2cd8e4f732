"""A turn has one name, one time and the same marks in every command, and what was done and undone takes little room in a list."""

import random
import re
import time

import pytest

from casrewind.cli.plan.facts import step_in_words, target_of, turn_title
from casrewind.cli.show.rows import RowWriter
from casrewind.cli.show.text import column_width
from casrewind.history.turn_view import TurnView
from casrewind.model.turn_records import Turn
from casrewind.workspace import open as opened
from support import sample_start
from support.agent_turns import AgentTurns
from support.command_in_process import InProcess
from support.terminal_in_process import on_terminal
from support.trees import plant

MINUTE = 60 * 1_000_000_000
A, B = "01c243ca-0000-4000-8000-000000000001", "d0f5aaaa-0000-4000-8000-000000000002"
ROWS, CHOSEN = (200, 8) if sample_start.takes_all else (70, 4)
MARKS = ("running", "cut short", "taken back")


class Clock:
    """The time of this process: it goes on when it is told to."""

    def __init__(self, monkeypatch):
        self.now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: self.now)

    def wait(self, minutes):
        self.now += minutes * MINUTE


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def sessions(root, settings, clock):
    """Two sessions of agents in one project."""
    plant(root, {"keep": b"k\n", "src/a.py": b"".join(b"line %d\n" % number for number in range(30))})
    with opened(root, settings, create=True) as workspace:
        for agent in (AgentTurns(workspace, root, A), AgentTurns(workspace, root, B)):
            agent.tell("PostToolBatch")  # the client's hooks tell ends
        yield AgentTurns(workspace, root, A), AgentTurns(workspace, root, B)


@pytest.fixture
def run(root, home):
    return InProcess(root, home)


def listed(run, *words, columns=80):
    """The lines of `list` on a terminal."""
    found = on_terminal(run, ["list", *words], columns=columns, NO_COLOR="1")
    assert found.code == 0, found
    return found.out.replace("\r", "").splitlines()


def turn_of(agent, number, prompt, files, *, ends=True):
    agent.prompt(f"{agent.session}-{number}", prompt)
    plant(agent.root, files)
    if ends:
        agent.stop(f"{agent.session}-{number}")


# -- one name, one time, the same marks


WORDS = "make tidy rename the tests of a parser and then explain what came out of it in three long sentences".split()


class RandomStory:
    """Turns of two sessions with restores, undos and reverts between them, in the course of some hours."""

    def __init__(self, run, sessions, clock, seed):
        self.run, self.sessions, self.clock, self.chance = run, sessions, clock, random.Random(seed)
        self.count = 0

    def prompt(self):
        text = " ".join(self.chance.choices(WORDS, k=self.chance.randrange(1, 14)))
        return self.chance.choice((text, f"{text}\nand a second line", f"\n  {text}  \n", ""))

    def tell(self, rows):
        """Go on until a list has this many rows."""
        while len(self.run.json("list")["rows"]) < rows:
            for _ in range(10):
                self.chance.choice((self.turn,) * 6 + (self.restore, self.restore, self.undo, self.revert, self.save, self.edit))()
        return self.run.json("list")

    def turn(self):
        self.count += 1
        agent = self.chance.choice(self.sessions)
        self.clock.wait(self.chance.randrange(1, 4))
        agent.prompt(f"p{self.count}", self.prompt())
        plant(agent.root, {f"f{self.chance.randrange(9)}": b"%d\n" % self.count} if self.chance.random() < 0.8 else {})
        self.clock.wait(self.chance.choice((2, 70)))  # another age at its end
        if self.chance.random() < 0.7:
            agent.stop(f"p{self.count}")

    def edit(self):
        plant(self.sessions[0].root, {f"mine{self.chance.randrange(3)}": b"%d\n" % self.clock.now})

    def number(self):
        return f"@{self.chance.randrange(1, max(2, min(self.count, 6)))}"

    def restore(self):
        self.run("restore", self.chance.choice(("", "after:")) + self.number(), "-y", *self.chance.choice(([], ["--keep-edits"])))

    def revert(self):
        self.run("revert", self.number(), "-y")

    def undo(self):
        self.run(self.chance.choice(("undo", "redo")), "-y")

    def save(self):
        self.run("save", "-m", f"label {self.clock.now}")


def told(line):
    """(title without its cut, marks, age) that a line says of a turn behind its number or around it."""
    title = re.search(r'"([^"]*?)(…?)"', line)
    assert title, line
    return title[1], frozenset(mark for mark in MARKS if mark in line.partition(title[0])[2]), re.search(r"\d+ (?:s|min|h|d) ago", line)[0]


def agrees(turn, line):
    title, marks, age = told(line)
    assert turn.title.startswith(title) and (title or not turn.title), (turn.title, line)
    assert marks == frozenset(turn.marks), (turn.marks, line)
    return age


@pytest.mark.turns(3)
def test_a_turn_has_one_name_one_time_and_the_same_marks_in_many_rows(run, sessions, clock):
    """Of all rows what functions say, and of some what commands print."""
    story = RandomStory(run, sessions, clock, 48)
    found = story.tell(ROWS)
    context = sessions[0].context
    view = TurnView(context)
    view.scan_worktree()
    rows = [*view.rows()]
    writer = RowWriter(view, 160, len(view.turns))
    assert len(rows) >= ROWS and len(found["rows"]) >= ROWS
    turns = [row for row in rows if isinstance(row, Turn)]
    assert len(turns) > ROWS // 2 and {turn.marks for turn in turns} >= {(), ("cut short",), ("taken back",), ("cut short", "taken back")}
    chosen = set(story.chance.sample([turn.n for turn in turns], CHOSEN)) | {1, 2}
    for turn in turns:
        text = writer.row_text(turn)
        assert text.mark == f"@{turn.n}" and text.title.removeprefix("* ") == turn.title and all(mark in text.ending for mark in turn.marks)
        ages = {text.when, agrees(turn, turn_title(turn))}
        for point in filter(None, (turn.before, turn.after)) if turn.n in chosen else ():
            target = target_of(context, view.points[point])
            if target.turn == turn.n and " \"" in target.name:
                assert f"@{turn.n}, " in target.name
                ages.add(agrees(turn, target.name))
        if turn.n in chosen:
            ages |= ages_in_commands(run, turn)
        assert len(ages) == 1, (turn, ages)


def ages_in_commands(run, turn):
    """The ages of a turn as commands print them. Its name and its marks are those of the list."""
    name = f"@{turn.n}"
    shown = run("show", name, code=0).out
    title = next(line for line in shown.splitlines() if line.startswith("  prompt"))
    assert turn.title in shown and title
    assert all((f"  {mark}" in shown or f", {mark}" in shown) == (mark in turn.marks) for mark in MARKS), shown
    ages = {re.search(r"  time .*, (\d+ \w+ ago)", shown)[1]}
    diff = " ".join(run("diff", name, "--stat", code=0).out.splitlines()[:3])
    ages.add(agrees(turn, diff))
    plan = run("restore", name, "-n").out.splitlines()[0]
    assert f"({name}, " in plan
    if " to 'label " not in plan:  # a save without a change gave it one, and a plan prefers that
        ages.add(agrees(turn, plan))
    ages.add(agrees(turn, run("diff", name, "last", code=0).out.partition(" to ")[0]))
    row = next(line for line in run("list", code=0).out.splitlines() if line.split()[:1] == [name])
    assert turn.title in row and all((mark in row) == (mark in turn.marks) for mark in MARKS)
    if turn.n == 1:
        status = next(line for line in run("status", code=0).out.splitlines() if line.startswith("  newest turn"))
        ages.add(agrees(turn, status))
    return ages


def test_a_result_and_an_undo_name_the_turn_as_the_list_does(run, sessions, clock):
    one, two = sessions
    turn_of(one, 1, "make alpha\nand explain it", {"alpha": b"1\n"})
    clock.wait(90)
    turn_of(two, 2, "make beta", {"beta": b"1\n"})
    done = run("restore", "@2", "-y", code=0).out.splitlines()[0]
    assert re.fullmatch(r'restored to before "make alpha" \(@2, 1 h ago, c\w+\)', done), done
    assert re.fullmatch(r'  1  undo the restore to before "make alpha" \(@2; \d\d:\d\d, 0 s ago\)', run("undo", "--list").out.rstrip())
    assert 'undone: the restore to before "make alpha" (@2; ' in run("undo", "-y", code=0).out
    again = run("restore", "@2", "-n", code=0).out.splitlines()[0]
    assert 'before "make alpha" (@2, 1 h ago, c' in again
    run("restore", "after:@2", "-y", code=0)
    step = step_in_words(one.context, one.context.store.history(one.context.root.key).undo[-1])
    assert step.startswith('the restore to after "make alpha" (after:@2; ')
    assert 'to after "make alpha" (after:@2, 1 h ago, c' in run("restore", "after:@2", "-n", code=0).out


def test_the_time_of_a_turn_is_that_of_its_prompt_also_when_a_restore_ended_it(run, sessions, clock):
    one, _ = sessions
    turn_of(one, 1, "stopped with Escape", {"x": b"1\n"}, ends=False)
    clock.wait(45)
    run("restore", "@1", "-y", code=0)
    clock.wait(5)
    line = next(line for line in listed(run) if line.startswith("  @1"))
    assert "50 min ago" in line and "(cut short, taken back)" in line and "stopped" in line
    assert "restored to @1  " in listed(run)[1], "the agent was idle: it is not known that it worked"
    assert "50 min ago" in run("show", "@1", code=0).out


def test_a_save_by_hand_behind_a_turn_that_was_stopped_is_not_said_to_be_made_while_it_ran(run, sessions, clock):
    one, two = sessions
    turn_of(one, 1, "stopped with Escape", {"x": b"1\n"}, ends=False)
    run("save", "-m", "by hand", code=0)
    two.prompt("p2", "goes on")
    run("save", "-m", "between", code=0)
    two.stop("p2")
    text = run("list", code=0).out
    assert "saved: by hand  " in text and "saved: between (while @1 ran)" in text


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_marks_have_their_room_before_words(run, sessions, clock, columns):
    one, two = sessions
    turn_of(one, 1, "a prompt of many words that no column of a terminal can hold as a whole", {"x": b"1\n", "y" * 40: b"1\n"}, ends=False)
    turn_of(two, 2, "another", {})
    run("restore", "@2", "-y", code=0)
    lines = listed(run, columns=columns)
    assert any(re.search(r"@2  a prompt?.*… ?\(cut short, taken back\)", line) for line in lines), lines
    assert all(column_width(line) <= columns for line in lines), lines


# -- what was done and undone


def test_what_was_undone_is_one_row_and_the_third_is_folded(run, sessions, clock):
    one, _ = sessions
    for number in range(3):
        turn_of(one, number, f"turn {number}", {f"f{number}": b"1\n"})
    for _ in range(4):
        run("restore", "@2", "-y", code=0)
        run("undo", "-y", code=0)
    run("revert", "@1", "-y", code=0)
    run("undo", "-y", code=0)
    lines = [line[6:].split("  ")[0] for line in listed(run)[1:]]
    assert lines[:4] == ["reverted @1 (undone)", "restored to @2 (undone)", "3 more, undone: casrewind list --all", "turn 2"], lines
    assert sum("before the restore to" in line for line in listed(run, "--all")) == 4
    assert len(run.json("list")["rows"]) == 13, "a program gets all"
    assert [line[6:26] for line in listed(run, "--reverse")[-3:]] == ["3 more, undone: casr", "restored to @2 (undo", "reverted @1 (undone)"]
    assert "\x1b[2m" in next(line for line in on_terminal(run, ["list"], columns=80).out.splitlines() if "reverted @1" in line)


def test_restores_in_each_other_and_a_redo_are_folded_as_they_cancel(run, sessions, clock):
    one, _ = sessions
    for number in range(3):
        turn_of(one, number, f"turn {number}", {f"f{number}": b"1\n"})
    run("restore", "@1", "-y", code=0)
    run("restore", "@2", "-y", code=0)
    for step in ("undo", "undo", "redo"):
        run(step, "-y", code=0)
    found = [line[6:].split("  ")[0] for line in listed(run)[1:4]]
    assert found == ["undone: the restore to @1 (redone)", "restored to @2 (undone)", "restored to @1"], "it is in effect again"
    run("undo", "-y", code=0)
    found = [line[6:].split("  ")[0] for line in listed(run)[1:4]]
    assert found == ["redone: the restore to @1 (undone)", "restored to @2 (undone)", "1 more, undone: casrewind list --all"]


def test_an_undo_that_left_an_edit_alone_is_a_row_of_its_own(run, sessions, clock, root):
    one, _ = sessions
    turn_of(one, 1, "two files", {"x": b"1\n", "y": b"1\n"})
    run("restore", "@1", "-y", code=0)
    plant(root, {"x": b"mine\n"})
    run("undo", "-y", code=3)
    text = "\n".join(listed(run))
    assert "undone: the restore to @1" in text and "(undone)" not in text


def test_the_undo_of_a_revert_is_named_as_one(run, sessions, clock):
    one, _ = sessions
    turn_of(one, 1, "make alpha", {"alpha": b"1\n"})
    run("revert", "@1", "-y", code=0)
    plant(one.root, {"other": b"1\n"})
    run("save", code=0)
    run("undo", "-y", code=0)
    assert 'redo the revert of "make alpha" (@1; ' in run("redo", "--list", code=0).out
    run("redo", "-y", code=0)
    assert 'undo the revert of "make alpha" (@1; ' in run("undo", "--list", code=0).out
    text = run("list", code=0).out
    assert "undone: the revert of @1 (redone)" in text and "the restore to" not in text


def test_an_hour_of_restores_and_undos_fits_on_a_screen_with_every_prompt(run, sessions, clock, root, tmp_path):
    """20 restores, each with its undo, two sessions, three Escs, a rename and a take: 24 lines of 80 columns."""
    one, two = sessions
    prompts = []

    def tell(agent, files, *, ends=True):
        clock.wait(4)
        prompts.append(f"prompt{len(prompts)}")
        turn_of(agent, len(prompts), f"{prompts[-1]} and what else there is to say of it, which is more than a column holds", files, ends=ends)

    tell(one, {"alpha": b"1\n"})
    tell(two, {"beta": b"1\n"})
    tell(one, {"stopped": b"1\n"}, ends=False)
    run("restore", "@2", "--to", str(tmp_path / "try"), code=0)
    plant(tmp_path / "try", {"taken": b"1\n"})
    run("take", str(tmp_path / "try"), "-y", code=0)
    tell(two, {"gamma": b"1\n"})
    tell(one, {"stopped again": b"1\n"}, ends=False)
    one.prompt("move", "prompt-of-a-rename moves a file")
    prompts.append("prompt-of-a-rename")
    (root / "src" / "a.py").rename(root / "src" / "b.py")
    one.stop("move")
    tell(two, {"stopped for the third time": b"1\n"}, ends=False)
    tell(one, {"delta": b"1\n"})
    for number in range(20):
        clock.wait(1)
        run("restore", f"@{number % 5 + 1}", "-y", code=0)
        run("undo", "-y", code=0)
    lines = listed(run)
    assert len(lines) <= 24 and all(column_width(line) <= 80 for line in lines), lines
    text = "\n".join(lines)
    assert [prompt for prompt in prompts if prompt not in text] == []
    assert text.count("(undone)") == 2 and "18 more, undone" in text and text.count("(cut short)") == 3
    assert re.search(r"prompt-of-a-rename.* R1 +src/a", text) and "taken from try" in text


# -- a rename, and directories


def test_a_rename_is_one_file_in_list_and_in_diff(run, sessions, clock, root):
    one, _ = sessions
    one.prompt("p", "move two")
    (root / "src" / "a.py").rename(root / "src" / "b.py")
    (root / "keep").rename(root / "kept")
    plant(root, {"new": b"1\n", "src/b.py": (root / "src" / "b.py").read_bytes() + b"and a line\n"})
    one.stop("p")
    line = next(line for line in listed(run, columns=160) if line.startswith("  @1"))
    assert "+1 R2 " in line and "keep -> kept, src/a.py -> src/b.py, new" in line
    assert run("diff", "@1", code=0).out.splitlines()[-1] == "1 added, 0 modified, 0 removed, 2 renamed"
    assert "+1 R2" in run("log", code=0).out and "-2" not in line


def test_a_plan_of_many_paths_names_their_directories(run, sessions, clock, root):
    one, _ = sessions
    plant(root, {"many/there": b"1\n", "a/b/there": b"1\n"})
    many = {f"many/f{number}": b"%d\n" % number for number in range(300)} | {f"a/b/g{number}": b"%d\n" % number for number in range(9)}
    turn_of(one, 1, "make many", {**many, "whole/x": b"1\n", "whole/y": b"1\n", "single": b"1\n"})
    plan = run("restore", "@1", "-n", code=0).out.splitlines()
    assert plan[2:] == ["  - 9 files in a/b/ (g0, g1, g2, ...)", "  - 300 files in many/ (f0, f1, f10, ...)", "  - single", "  - whole/ (2 files)"]
    run("restore", "@1", "-y", code=0)
    undo = run("undo", "-n", code=0).out.splitlines()
    assert [line.replace("+", "-") for line in undo[2:]] == plan[2:]
    assert undo[1] == "would restore 312 paths and remove 0", "nothing stays that was not looked at"


def test_a_plan_of_few_paths_names_each(run, sessions, clock, root):
    one, _ = sessions
    plant(root, {"many/there": b"1\n"})
    turn_of(one, 1, "make some", {f"many/f{number}": b"1\n" for number in range(10, 30)})
    assert run("restore", "@1", "-n", code=0).out.splitlines()[2:] == [f"  - many/f{number}" for number in range(10, 30)]


def test_what_is_left_alone_is_not_said_to_be_nothing_that_stays(run, sessions, clock, root):
    one, _ = sessions
    turn_of(one, 1, "make alpha", {"alpha": b"1\n"})
    plant(root, {"alpha": b"mine\n"})
    found = run("revert", "@1", "-n", code=3)
    assert "left alone" in found.err and "would stay" not in found.out


def test_a_safety_checkpoint_has_one_name(run, sessions, clock, home, root):
    one, _ = sessions
    turn_of(one, 1, "first", {"x": b"1\n"})
    turn_of(one, 2, "second", {"x": b"2\n"})
    run("restore", "@1", "-y", code=0)
    run("undo", "-y", code=0)
    points = [each for each in run.json("list", "--all")["checkpoints"] if each["trigger"] == "safety"]
    for point, name in zip(points, ("before the undo of the restore to @1", "before the restore to @1"), strict=True):
        assert point["label"] is None
        for words in (("list", "--all"), ("du", "--by", "checkpoint"), ("show", point["id"]), ("restore", point["id"], "--dry-run")):
            assert name in run(*words, code=0).out, (words, name)
        assert run("pin", point["id"], code=0).out == f"pinned {point['id']}\n"
