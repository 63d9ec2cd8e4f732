"""Generated histories in which turns change the ignore rules: no revert removes what was there before its turn, and no turn
is charged with a path that it did not make, change or remove."""

import os
import random
import shutil

import pytest

from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.command_in_process import InProcess
from support.picture import picture
from support.trees import plant

FILES = [".env", "a.log", "a.py", "build/out", "build/x.log", "data/x.csv", "data/y.csv", "data/deep/z.csv", "lib/l.py", "node_modules/m/i.js"]
RULES = ["*.log", ".env", "build/", "data/", "data/*.csv", "/lib/", "!a.log", "*", "!*.py", "!.gitignore"]
PLACES = [".gitignore", ".casrewindignore", "data/.gitignore", ".casrewind.toml"]


class History:
    """A project, its turns, and what was on disk before and after each of them."""

    def __init__(self, seed, root, settings):
        self.random, self.root, self.settings = random.Random(seed), root, settings
        self.counter = 0
        self.sides = []

    def files(self):
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def edit(self, most):
        for path in self.random.sample(FILES, self.random.randint(0, most)):
            self.counter += 1
            if (self.root / path).exists() and self.random.random() < 0.4:
                (self.root / path).unlink()
            else:
                plant(self.root, {path: b"%d\n" % self.counter * self.random.choice([1, 400])})
        if self.random.random() < 0.15:
            shutil.rmtree(self.root / self.random.choice(["data", "build"]), ignore_errors=True)

    def rules(self):
        place = self.random.choice(PLACES)
        self.counter += 1
        if place == ".casrewind.toml":
            text = f"# {self.counter}\n" + ("[capture]\nmax_file_size = 1000\n" if self.random.random() < 0.5 else "")
        else:
            text = "".join(f"{rule}\n" for rule in self.random.sample(RULES, self.random.randint(0, 3)))
        if self.random.random() < 0.2 and (self.root / place).exists():
            (self.root / place).unlink()
        else:
            plant(self.root, {place: text.encode()})

    def turn(self, number):
        with opened(self.root, self.settings) as workspace:
            turns = AgentTurns(workspace, self.root)
            before = self.files()
            turns.prompt(f"p{number}", f"turn {number}")
            for step in self.random.sample([self.rules, lambda: self.edit(4)], self.random.randint(1, 2)):
                step()
            turns.stop(f"p{number}")
        self.sides.append((before, self.files()))
        if self.random.random() < 0.5:
            self.edit(2)


def check_counts(history, found):
    turns = found[::-1]
    for (before, after), (turn, unclear) in zip(history.sides, turns, strict=True):
        named = {change.path.decode(): change for change in turn.changes}
        for path, change in named.items():
            entry = change.new or change.old
            if entry.kind == "dir":
                continue
            here = ("removed" if path not in after else "modified") if path in before else "added"
            assert change.status == here, (turn.prompt, path, change.status, here)
            assert path in before or path in after
        for change in unclear:
            assert (change.old is None) != (change.new is None)
            if change.new is not None and change.new.kind != "dir":
                assert change.path.decode() in after
            if change.old is not None and change.old.kind != "dir":
                assert change.path.decode() in before


def check(seed, root, home, settings, turns):
    history = History(seed, root, settings)
    history.edit(8)
    history.rules()
    for number in range(turns):
        history.turn(number)
    from casrewind.history.turn_view import TurnView

    with opened(root, settings) as workspace:
        view = TurnView(workspace._context)
        check_counts(history, [(turn, turn.unclear) for turn in map(view.with_changes, view.turns)])
    command = InProcess(root, home)
    for number, (before, _) in enumerate(history.sides):
        name = f"@{turns - number}"
        whole, there = picture(root), history.files()
        plan = command.json("revert", name, "-n", code=None)
        done = command.json("revert", name, "-y", code=None)
        assert [change["path"] for change in plan["changes"]] == [change["path"] for change in done["changes"]]
        now = history.files()
        lost = [path for path in before if path in there and path not in now]
        assert lost == [], (seed, name, lost)
        if done["safety"]:
            command("undo", "-y", code=0)
        assert picture(root) == whole, (seed, name)
        command.json("restore", name, "-y", code=None)
        now = history.files()
        assert [path for path in before if path in there and path not in now] == [], (seed, name, "restore")
        command("undo", "-y", code=None)
        assert history.files() == there, (seed, name, "restore")


@pytest.mark.parametrize("seed", range(4))
def test_no_revert_removes_what_was_there_before_its_turn(seed, root, home, settings):
    check(seed, root, home, settings, 4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_no_revert_removes_what_was_there_before_its_turn_many_times(seed, root, home, settings):
    check(seed, root, home, settings, 6)
