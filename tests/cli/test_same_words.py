"""A row has the same words in `list`, in `log`, in a client's list and in the picker."""

import random
from types import SimpleNamespace

import pytest

from casrewind.cli.show.rows import RowWriter, sides_of, words_of
from casrewind.model.checkpoint import MANUAL, PROMPT, Checkpoint
from casrewind.model.diff import Change, Counts
from casrewind.model.manifest import FILE, Entry
from casrewind.model.turn_records import BACKGROUND, TYPED, Forgotten, Outside, Reset, SavedRow, Turn
from casrewind.store.catalog import Marked

NOW = 1_700_000_000_000_000_000
PROMPTS = ("make it work", "two\nlines", "", "tidy up the tests")
LABELS = ("it works", "", "before the merge")


class Story:
    """Rows of every kind, the newest first, with all that a view and the picker's timeline know of them."""

    def __init__(self, count):
        self.chance = random.Random(7)
        self.points, self.marks, self.turns = {}, {}, []
        make = (self.turn, self.turn, self.outside, self.saved, self.reset, self.forgotten)
        self.rows = [self.chance.choice(make)() for _ in range(count)]
        self.sides = sides_of(self.turns)

    def checkpoint(self, trigger):
        identity = f"c{len(self.points):014}"
        label = self.chance.choice(LABELS)
        self.points[identity] = Checkpoint(
            len(self.points), identity, NOW, b"w" * 16, b"/w", "", trigger, label if trigger == MANUAL else "", self.chance.choice(PROMPTS),
            "claude", "aaaa", b"", b"", 1, 1, Counts(0, 0, 0), 0, 0,
        )  # fmt: skip
        self.marks[identity] = Marked(self.chance.random() < 0.3, "")
        return identity

    def changes(self):
        if self.chance.random() < 0.2:
            return None
        sides = ((None, Entry(FILE, 0o644)), (Entry(FILE, 0o644), None), (Entry(FILE, 0o644), Entry(FILE, 0o755)))
        return tuple(Change(b"f%d" % number, *self.chance.choice(sides)) for number in range(self.chance.randrange(4)))

    def unclear(self):
        return (Change(b"u", None, Entry(FILE, 0o644)),) if self.chance.random() < 0.3 else ()

    def during(self):
        return tuple(sorted(self.chance.sample(range(1, 9), self.chance.randrange(3))))

    def turn(self):
        before, after = self.checkpoint(PROMPT), self.checkpoint("turn_end")
        changes = self.changes()
        number, ended = len(self.turns) + 1, self.chance.choice((NOW, None))
        found = Turn(
            number, before, "claude", "aaaa", self.chance.choice(PROMPTS), "", (), NOW, ended, before, after, False,
            self.chance.random() < 0.2, self.chance.random() < 0.3, False, self.chance.random() < 0.3, "", (before, after), changes=changes,
            shared=tuple((change.path, (9,)) for change in changes or () if self.chance.random() < 0.5),
            purged=(b"p",) * self.chance.randrange(2), damaged=self.chance.random() < 0.2, unclear=self.unclear(),
        )  # fmt: skip
        self.turns.append(found)
        return found

    def outside(self):
        kind = self.chance.choice(("outside", TYPED, BACKGROUND))
        return Outside(kind, self.checkpoint("turn_end"), NOW, 2, self.changes(), damaged=self.chance.random() < 0.2, unclear=self.unclear())

    def saved(self):
        return SavedRow(self.checkpoint(MANUAL), self.chance.choice(LABELS), 3, NOW, self.during())

    def reset(self):
        kind = self.chance.choice(("restored", "undone", "redone", "reverted", "taken"))
        target = self.chance.choice([*self.points, "gone"])
        loose, damaged = self.chance.random() < 0.3, self.chance.random() < 0.2
        return Reset(kind, target, self.checkpoint("safety"), NOW, self.during(), 0, "", loose, self.changes(), damaged, self.unclear())

    def forgotten(self):
        return Forgotten(self.checkpoint("turn_end"))


def test_every_list_has_the_same_words_for_a_row():
    pytest.importorskip("textual")
    from casrewind.cli.picker import coloured_lines, picker_rows

    story = Story(200)
    view = SimpleNamespace(turns=story.turns, points=story.points, named=story.points, marks=story.marks, find_renames=lambda _: ())
    printed, client = RowWriter(view), RowWriter(view, 99, 8, 2)
    timeline = picker_rows.PickerTimeline([], story.points, story.marks, {}, story.sides, {"aaaa": 0}, len(story.turns), [], [], True)
    kinds = set()
    for row in story.rows:
        words = words_of(row, story.points, story.marks, story.sides)
        title, kinds = ("* " if words.is_pinned else "") + words.title, kinds | {type(row)}
        shown = client.row_text(row)
        assert (shown.title, shown.ending, shown.note) == (title, words.ending, words.note)
        for paths in (True, False):  # `list`, and `log`
            line = next(printed.lines(row, paths=paths)).text
            assert title + words.ending in line and words.note in line
        picked = coloured_lines.timeline_row(timeline, picker_rows.row_of(row, story.points, ""), 400, is_base=False, is_unfolded=False).plain
        assert title in picked and f"{words.ending}{f' {words.note}' if words.note else ''}" in picked, picked
    assert len(kinds) == 5
    assert any("(while @" in words_of(row, story.points, story.marks, story.sides).title for row in story.rows)
