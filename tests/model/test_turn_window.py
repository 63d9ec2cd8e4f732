"""The newest turns that a part of a timeline is enough for are those of the whole: numbers, changes, rows and owners."""

import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind.model.turn_records import Point
from casrewind.model.turn_boundaries import certain_counts, certain_from_position
from casrewind.model.turns import Outline
from model.test_turn_properties import with_fields
from support.dict_differ import DictDiffer
from support.sample_start import examples
from support.turn_stories import SESSIONS, Story

ALIVE = [frozenset(), frozenset({SESSIONS[0][:2]}), frozenset({SESSIONS[1][:2], SESSIONS[2][:2]})]


class Steady(Story):
    """A story in which a session works for a while: more of its parts explain themselves."""

    weights = (10, 10, 1, 0.2, 0.2, 1, 3, 2, 2, 1, 2, 2, 0.3, 0.1, 1, 0.1)
    at_work = SESSIONS[0]

    def session(self):
        if self.random.random() < 0.1:
            self.at_work = self.random.choice(SESSIONS)
        return self.at_work


LEAST = {Story: 10, Steady: 300}
"""Turns that are certain in the parts of the stories of a push."""


def told(kind, seed, length):
    story = kind(seed)
    for _ in range(length):
        story.step()
    story.edit()
    return story


def compared_parts(story, records):
    """Compare each part of a timeline with the whole; how many turns were certain in the parts."""
    points = [record for record in records if isinstance(record, Point)]
    differ = DictDiffer(story.trees, story.plans, story.files)
    wholes = {alive: Outline(records, alive, now=True) for alive in ALIVE}
    seen, total = set(), 0
    for cut in range(len(points)):
        start = cut + certain_from_position(points[cut:])
        if start in seen or start == len(points):
            continue
        seen.add(start)
        part = points[start:]
        known = {(point.agent, point.session) for point in part if point.trigger != "manual"}
        for alive, whole in wholes.items():
            if alive <= known:
                total += check_part(Outline(part, alive, now=True), whole, part, differ)
    return total


def compared_all(story, random_):
    """The same for the records of this version, for those of a mixture of versions, and where some were forgotten."""
    new = with_fields(story)
    mixed = [pair[random_.random() < 0.9] for pair in zip(story.records, new, strict=True)]
    for records in (story.records, mixed, some_forgotten(new, random_)):
        compared_parts(story, records)
    return compared_parts(story, new)


def some_forgotten(records, random_):
    """The records without some checkpoints and their operations."""
    gone = {record.id for record in records if isinstance(record, Point) and random_.random() < 0.05}
    return [record for record in records if (record.id if isinstance(record, Point) else record.safety) not in gone]


def check_part(outline, whole, part, differ):
    """What a part says is what the whole says."""
    turns = outline.turns
    assert turns == whole.turns[: len(turns)]
    count, saves = certain_counts(part, [turn.id for turn in turns])
    for turn in turns:
        assert outline.with_its_changes(turn, differ) == whole.with_its_changes(whole.turns[turn.n - 1], differ)
    for most in range(count):
        assert list(outline.rows(differ, most)) == list(whole.rows(differ, most))
    assert list(islice(outline.rows(differ), saves)) == list(islice(whole.rows(differ), saves))
    for point in part:
        assert outline.turn_of(point.id) == whole.turn_of(point.id)
    return count


def turns(number):
    """So many turns of one session, each with its end."""
    found = []
    for at in range(0, 2 * number, 2):
        more = {"agent": "claude", "session": "A", "turn_id": f"t{at}", "turn": f"c{at}", "tells_ends": True}
        for place, trigger in ((at, "prompt"), (at + 1, "turn_end")):
            found.append(Point(place, f"c{place}", place, f"c{place - 1}" if place else "", trigger, b"", **more))
    return found


DOUBTS = {
    "an operation": {"trigger": "safety", "op": "restore"},
    "a task notification": {"turn_id": ""},
    "an id of the client's only": {"turn": "", "turn_id": "t0"},
    "the end of an older turn": {"turn": "c0"},
    "unknown ends": {"tells_ends": None},
    "a prompt of an earlier version": {"trigger": "prompt", "turn": ""},
    "a prompt of an older turn": {"trigger": "prompt", "turn": "c0"},
    "another order of parents": {"parent": "c1"},
    "a session that began before": {"session": "B", "turn": "c4"},
    "a save in a session that began before": {"trigger": "manual", "session": "B", "turn": ""},
    "the start of a session that may be beside a prompt": {"session": "B", "trigger": "session_start", "turn": "", "turn_id": "", "has_turn_ids": False},
}
"""What leaves a doubt about an end of a turn: the part begins behind it."""


@pytest.mark.parametrize("doubt", DOUBTS.values(), ids=DOUBTS)
def test_a_part_begins_behind_a_doubt(doubt):
    part = turns(5)[4:]
    assert certain_from_position(part) == 0
    part[1] = part[1]._replace(**doubt)
    assert certain_from_position(part) == 2


def test_what_closes_an_older_turn_leaves_no_doubt():
    part = turns(4)[2:]
    for more in ({"trigger": "session_end", "turn": "c0"}, {"trigger": "session_start", "turn": "", "turn_id": ""}):
        part[0] = part[0]._replace(session="B", **more)
        assert certain_from_position(part[:1]) == 0 and certain_from_position(part) == 2


def test_what_began_in_front_of_a_part_may_reach_to_its_second_prompt():
    part = turns(5)[2:]
    assert certain_counts(part, ["c8", "c6", "c4", "c2"]) == (2, 0)
    saved = part[3]._replace(trigger="manual", turn="", session="")
    assert certain_counts([*part[:3], saved, *part[4:]], ["c8", "c6", "c4", "c2"]) == (2, 1)
    assert certain_counts(part[:2], ["c2"]) == (0, 0)


@pytest.mark.parametrize("kind", [Story, Steady])
def test_every_part_of_every_story(kind):
    found = []

    @settings(max_examples=examples(240), derandomize=True, deadline=None)
    @given(seed=st.integers(0, 2**40), length=st.integers(0, 50))
    def work(seed, length):
        story = told(kind, seed, length)
        found.append(compared_all(story, random.Random(seed)))

    work()
    assert sum(found) > LEAST[kind], "the parts of these stories have no turns"


@pytest.mark.long
@pytest.mark.parametrize("kind", [Story, Steady])
def test_every_part_of_many_stories(kind):
    @settings(max_examples=10_000, deadline=None)
    @given(seed=st.integers(0, 2**40), length=st.integers(0, 60))
    def work(seed, length):
        story = told(kind, seed, length)
        compared_all(story, random.Random(seed))

    work()
