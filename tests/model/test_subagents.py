"""Who made what, told from records alone: turns with subagents, made at random, in which it is known who wrote what."""

import random

import pytest

from casrewind.model.turn_boundaries import checkpoints_by_turn, find_boundaries
from casrewind.model.turn_records import Point
from casrewind.model.turns import Outline
from support.dict_differ import DictDiffer

ITSELF = 0
NAMED, UNNAMED = "abc", "def"
"""What subagents write with tools that name it, and what anybody writes by a shell."""


class Turn:
    """One turn at random: an agent and up to four subagents that write files while they work."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.records, self.trees, self.files = [], {}, {}
        self.writes = []
        """(path, its content before, its content then, who wrote it, the position of the next record)"""
        self.running, self.named = {}, {}
        self.id, self.is_working = "t", True
        self.point("prompt", prompt="do it")
        for _ in range(self.random.randint(4, 25)):
            self.step()
        while self.running:
            self.work()
            self.end(min(self.running))
        if self.is_working:
            self.stop()

    def point(self, trigger, turn_id="t", **more):
        number = len(self.records)
        tree, parent = f"tree{number}".encode(), f"c{number - 1}" if number else ""
        self.trees[tree] = dict(self.files)
        self.records.append(Point(number, f"c{number}", number, parent, trigger, tree, agent="claude", session="s", turn_id=turn_id, **more))

    def work(self):
        """Some of those who work now write something."""
        workers = sorted({*self.running, *([ITSELF] if self.is_working else [])})
        for who in self.random.choices(workers, k=self.random.randint(0, 3)) if workers else ():
            path = self.random.choice(NAMED + UNNAMED if who else UNNAMED)
            content = str(len(self.writes))
            self.writes.append((path.encode(), self.files.get(path), content, who, len(self.records)))
            self.files[path] = content
            if path in NAMED:
                self.named[who].add(path.encode())

    def step(self):
        self.work()
        kind = self.random.choice(("begin", "begin", "end", "end", "stop", "notify", "tool", "save"))
        if kind == "begin" and len(self.named) < 4 and (self.is_working or self.running):
            who = len(self.named) + 1
            self.running[who] = self.id if self.is_working else "t"
            self.named[who] = set()
            self.point("tool_batch", self.running[who], subagent=f"agent{who}", subagent_type="explore")
        elif kind == "end" and self.running:
            self.end(self.random.choice(sorted(self.running)))
        elif kind == "stop" and self.is_working:
            self.stop()
        elif kind == "notify" and not self.is_working:
            self.point("turn_end", "")
            self.id, self.is_working = f"n{len(self.records)}", True
        elif kind == "tool" and (self.is_working or self.running):
            self.point("tool_batch", self.id)
        elif kind == "save":
            self.point("manual", "")

    def end(self, who):
        written, of = tuple(sorted(self.named[who])), self.running.pop(who)
        self.point("turn_end", of, of_subagent=True, subagent=f"agent{who}", subagent_type="explore", written=written, subagents=len(self.running))

    def stop(self):
        self.point("turn_end", self.id, subagents=len(self.running))
        self.is_working = False

    def makers_between(self, path, old, new):
        """Who took a path from one content to another."""
        writes = [write for write in self.writes if write[0] == path]
        first = next(at for at, write in enumerate(writes) if write[1] == old)
        last = next(at for at, write in enumerate(writes) if write[2] == new)
        return {write[3] for write in writes[first : last + 1]}


def content(entry):
    return None if entry is None else entry.digest.rstrip(b"\0").decode()


@pytest.mark.parametrize("start", range(0, 1000, 250))
def test_a_change_of_one_subagent_is_of_it_alone_or_has_its_maker_among_the_names(start):
    sure = unsure = 0
    for seed in range(start, start + 250):
        story = Turn(seed)
        outline, differ = Outline(story.records, ()), DictDiffer(story.trees, {})
        (turn,) = outline.turns
        (boundaries,) = find_boundaries(story.records, ()).turns
        assert [one.name for one in turn.subagents] == [f"@1.{number}" for number in range(1, len(story.named) + 1)]
        for part in (outline.with_its_changes(one, differ) for one in turn.subagents):
            among = dict(part.among)
            for change in part.changes:
                makers = story.makers_between(change.path, content(change.old), content(change.new))
                names = {int(name.removeprefix("@1").removeprefix(".") or 0) for name in among.get(change.path, ())}
                assert makers <= {part.subagent} | names, (seed, part.name, change.path, among.get(change.path))
                assert part.subagent not in names
                sure += not names
                unsure += bool(names)
            mine = {write[0] for write in story.writes if write[3] == part.subagent and any(span.first < write[4] <= span.last for span in boundaries.spans)}
            assert mine <= {change.path for change in part.changes}, (seed, part.name)
    assert sure > 100 and unsure > 100, (sure, unsure)


def test_of_several_at_once_the_paths_that_tools_named_are_sure():
    sure = unsure = 0
    for seed in range(300):
        story = Turn(seed)
        outline, differ = Outline(story.records, ()), DictDiffer(story.trees, {})
        for part in (outline.with_its_changes(one, differ) for one in outline.turns[0].subagents):
            among = dict(part.among)
            for change in part.changes:
                named = [who for who, paths in story.named.items() if change.path in paths]
                if named == [part.subagent]:
                    sure += change.path not in among
                    unsure += change.path in among
    assert unsure == 0 and sure > 100


def test_what_gc_keeps_of_a_turn_says_the_same_of_its_subagents():
    less = 0
    for seed in range(300):
        story = Turn(seed)
        (kept,) = checkpoints_by_turn(story.records)
        left = [point for point in story.records if point.id in kept]
        less += len(left) < len(story.records)
        differ = DictDiffer(story.trees, {})
        found = []
        for records in (story.records, left):
            outline = Outline(records, ())
            found.append([outline.with_its_changes(one, differ) for one in outline.turns[0].subagents])
        assert [(one.name, one.changes, one.among) for one in found[0]] == [(one.name, one.changes, one.among) for one in found[1]], seed
    assert less > 100
