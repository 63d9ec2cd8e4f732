"""Each turn of generated histories is taken back, and compared with git: what `git merge-file` takes back cleanly is taken
back to the same bytes, and where git finds a conflict the file is left alone.

The generator: three files, five turns, edits of a person between them. Half of all edits of a file are at most five lines
away from the edit before. Some lines repeat (empty ones, closing brackets), as in source code.
"""

import random
import subprocess

import pytest

from casrewind.model.line_diff import blocks, lines_of
from casrewind.ops import revert as reverts
from casrewind.ops.turn_view import TurnView
from casrewind.ops.undo import undo
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.picture import picture
from support.trees import plant

FILES = ("a.py", "b.py", "notes.md")


class History:
    """Five turns over three files, and the contents of each file before and after each turn."""

    def __init__(self, seed, workspace, root):
        self.random, self.root, self.made = random.Random(seed), root, 0
        self.agent = AgentTurns(workspace, root)
        self.texts = {name: [self.line() for _ in range(self.random.randint(20, 80))] for name in FILES}
        self.last = dict.fromkeys(FILES, 0)
        self.turns = []
        self.write()
        for number in range(5):
            before = self.now()
            self.agent.prompt(f"p{number}", f"prompt {number}")
            self.edit()
            self.agent.stop(f"p{number}")
            self.turns.append((before, self.now()))
            if self.random.random() < 0.6:
                self.edit()

    def line(self):
        self.made += 1
        return self.random.choice([b"\n", b"}\n"]) if self.random.random() < 0.15 else b"statement %d\n" % self.made

    def edit(self):
        for name in self.random.sample(FILES, self.random.randint(1, 3)):
            lines = self.texts[name]
            for _ in range(self.random.randint(1, 2)):
                near = self.last[name] + self.random.randint(-5, 5) if self.random.random() < 0.5 else self.random.randint(0, len(lines))
                at, count = max(0, min(near, len(lines))), self.random.randint(0, 3)
                new = [self.line() for _ in range(self.random.randint(0 if count else 1, 3))]
                lines[at : at + count] = new
                self.last[name] = at
        self.write()

    def write(self):
        plant(self.root, self.now())

    def now(self):
        return {name: b"".join(lines) for name, lines in self.texts.items()}


def merged_by_git(place, base, ours, theirs):
    """The bytes, or None for a conflict."""
    for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
        (place / name).write_bytes(data)
    done = subprocess.run(["git", "merge-file", "-p", "--diff3", "ours", "base", "theirs"], cwd=place, capture_output=True)
    return done.stdout if done.returncode == 0 else None


def is_near(base, ours, theirs):
    """True if an edit since is at most five lines away from an edit of the turn."""
    base, mine, other = lines_of(base), blocks(lines_of(base), lines_of(ours)), blocks(lines_of(base), lines_of(theirs))
    return any(one.old_start - two.old_end <= 5 and two.old_start - one.old_end <= 5 for one in mine for two in other)


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.long)])
def test_each_turn_of_generated_histories_is_taken_back_as_git_does(count, settings, tmp_path):
    place = tmp_path / "git"
    place.mkdir()
    changed = near = conflicts = clean = same = 0
    for seed in range(count):
        root = tmp_path / f"project{seed}"
        root.mkdir()
        with opened(root, settings) as workspace:
            history = History(seed, workspace, root)
            present, seen = history.now(), picture(root, mtimes=True)
            view = TurnView(workspace._context)
            for number, (before, after) in enumerate(reversed(history.turns), 1):
                report = reverts.revert(workspace._context, view, [view.find_turn(f"@{number}")])
                left = {item.path.decode() for item in report.kept}
                assert left <= {name for name in FILES if before[name] != after[name]}
                for name in FILES:
                    result = (root / name).read_bytes()
                    if before[name] == after[name]:
                        assert result == present[name]
                        continue
                    expected = merged_by_git(place, after[name], present[name], before[name])
                    changed += 1
                    near += is_near(after[name], present[name], before[name])
                    conflicts += expected is None
                    if expected is None:
                        assert name in left and result == present[name], (seed, number, name)
                    else:
                        clean += 1
                        same += result == expected
                        assert result == expected or (name in left and result == present[name]), (seed, number, name)
                if report.actions:
                    undo(workspace._context)
                assert picture(root, mtimes=True) == seen
    print(f"{count} histories: {changed} changed paths, {near} with a later edit 0 to 5 lines away, {conflicts} conflicts in git, "
          f"{same} of {clean} clean ones taken back to the same bytes")
    assert near >= changed / 3 and conflicts >= 0.15 * changed
    assert same >= 0.98 * clean
