"""Generated histories of turns in which a person adds lines between the turns: a restore that keeps edits loses none of them.

Every file is a history of its own. Lines are never equal, so what has to be there afterwards is known: the lines of the
checkpoint in their order, and each line of the person.
"""

import random

import pytest

from casrewind.model.merge import merge_lines
from casrewind.workspace import Workspace
from support.agent_turns import AgentTurns

FILES = 20
"""Histories in one project."""
TURNS = 5


class History:
    """One file, which an agent and a person edit by turns."""

    def __init__(self, path, chance):
        self.path, self.random = path, chance
        self.lines = [self.line(b"first") for _ in range(chance.randint(5, 40))]
        self.mine, self.of_agent, self.before, self.after = [], [], [], []
        self.write()

    def line(self, whose):
        return b"%s %016x\n" % (whose, self.random.getrandbits(64))

    def write(self):
        self.path.write_bytes(b"".join(self.lines))

    def turn(self):
        """The agent replaces, adds or removes some lines."""
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            at, count = self.random.randint(0, len(self.lines)), self.random.randint(0, 3)
            made = [self.line(b"agent") for _ in range(self.random.randint(0, 3))]
            self.of_agent += made
            self.lines[at : at + count] = made
        self.write()

    def edit(self):
        """The person adds a line, or none."""
        if self.random.random() < 0.6:
            line = self.line(b"mine")
            self.mine.append(line)
            self.lines.insert(self.random.randint(0, len(self.lines)), line)
            self.write()


def restored_histories(place, settings, seed):
    """Histories of one project after a restore that keeps edits to before one of the turns: (history, is it left alone)."""
    chance = random.Random(seed)
    place.mkdir()
    histories = [History(place / f"f{number}", chance) for number in range(FILES)]
    with Workspace(str(place), settings._replace(store=str(place) + ".store"), create=True) as workspace:
        told = AgentTurns(workspace, place)
        for number in range(TURNS):
            told.prompt(f"t{number}", f"turn {number}")
            for history in histories:
                history.before.append((list(history.lines), len(history.mine)))
                history.turn()
            told.stop(f"t{number}")
            for history in histories:
                history.after.append(list(history.lines))
                history.edit()
        goal = chance.randrange(TURNS - 1)
        done = workspace.restore(f"@{TURNS - goal}", keep_edits=True)
    left = {item.path.decode() for item in done.kept if not item.benign}
    for history in histories:
        yield history, history.path.name in left, goal


@pytest.mark.parametrize("projects", [5, pytest.param(100, marks=pytest.mark.long)])
def test_no_line_of_a_person_is_lost(tmp_path, settings, projects):
    clean = lost_by_one_merge = 0
    for seed in range(projects):
        for history, is_left, goal in restored_histories(tmp_path / f"p{seed}", settings, seed):
            lines = history.path.read_bytes().splitlines(keepends=True)
            target, earlier = history.before[goal]
            mine = history.mine[earlier:]
            if is_left:
                assert lines == history.lines, "a file with a conflict is as it was"
                continue
            clean += 1
            assert sorted(lines) == sorted(target + mine), (seed, history.path.name)
            assert [line for line in lines if line in set(target)] == target
            naive = merge_lines(history.after[-1], history.lines, target)
            if not naive.conflicts:
                lost_by_one_merge += not set(mine) & set(history.lines) <= set(naive.ours_with_theirs_in(naive.clean).splitlines(keepends=True))
    print(f"{projects * FILES} histories, {clean} clean; one merge with the newest turn's end as base loses lines in {lost_by_one_merge}")
    assert clean > projects * FILES / 3, "most histories end in a conflict: they show nothing"
    assert lost_by_one_merge > projects, "the easy way would do: these histories show nothing"
