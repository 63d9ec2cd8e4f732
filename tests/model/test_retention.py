"""What may be forgotten: decided from values alone, and never everything."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from casrewind.model.checkpoint import MANUAL, SAFETY, Checkpoint
from casrewind.model.diff import Counts
from casrewind.model.retention import Limits, decide
from support.sample_start import examples

NOW = 1_750_000_000 * 10**9
SECOND = 10**9
HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
NOBODY = frozenset()
RUN = settings(derandomize=True, deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])


def point(seq, age=0.0, *, worktree=0, trigger=MANUAL):
    """A checkpoint made `age` seconds before NOW."""
    return Checkpoint(
        seq=seq, id=f"c{seq:04x}", created_ns=NOW - round(age * SECOND), worktree=bytes([worktree]) * 16, root=b"/p",
        parent="", trigger=trigger, label="", prompt="", agent="", session="", tree=bytes(32), domain=bytes(32), files=0,
        size=0, changes=Counts(0, 0, 0), skipped=0, flags=0,
    )  # fmt: skip


def timeline(*ages, **more):
    """Checkpoints of one worktree, newest first, from their ages in seconds, the newest one's first."""
    return [point(len(ages) - n, age, **more) for n, age in enumerate(ages)]


AGES = st.one_of(
    st.floats(0, 40 * DAY), st.floats(0, HOUR), st.floats(-2 * YEAR, 2 * YEAR), st.sampled_from([0.0, DAY, 30 * DAY, YEAR])
)


@st.composite
def histories(draw):
    """Checkpoints newest first, of up to three worktrees, in any order of clocks, safety ones among them."""
    rows = draw(st.lists(st.tuples(AGES, st.integers(0, 2), st.booleans()), max_size=30))
    return [
        point(seq, age, worktree=worktree, trigger=SAFETY if is_safety else MANUAL)
        for seq, (age, worktree, is_safety) in zip(range(len(rows), 0, -1), rows, strict=True)
    ]


LIMITS = st.builds(
    Limits,
    max_age=st.one_of(st.none(), st.just(0.0), st.floats(0, 2 * YEAR)),
    max_count=st.one_of(st.none(), st.integers(1, 12)),
    keep_last=st.integers(1, 12),
    max_size=st.none(),
    thin=st.just(False),  # test_budget.py, test_thinning.py
)


@st.composite
def cases(draw):
    """(checkpoints, limits, ids that a person named, ids that something needs)"""
    points = draw(histories())
    ids = [found.id for found in points]
    some = st.sets(st.sampled_from(ids), max_size=4) if ids else st.just(set())
    return points, draw(LIMITS), frozenset(draw(some)), dict.fromkeys(draw(some), "undo")


def kept(points, limits, named=NOBODY, needed=None, now=NOW):
    """The ids that stay, newest first."""
    return [found.id for found in decide(points, limits, now, named, needed or {}).kept]


def is_believed(points, limits):
    """Whether the clock is to be believed, said once more in other words: the newest stamp is not ahead by more than an
    hour, and lies no further back than the limit on age (or a day)."""
    if limits.max_age is None or not points:
        return True
    newest = (NOW - max(found.created_ns for found in points)) / SECOND
    return -HOUR <= newest <= max(limits.max_age, DAY)


def exempt(points, named, needed):
    """Ids that must stay whatever the limits are."""
    found = {one.id for one in points if one.id in named or one.id in needed}
    for worktree in {one.worktree for one in points}:
        own = [one for one in points if one.worktree == worktree]
        listed = [one for one in own if one.trigger != SAFETY]
        found |= {one.id for one in (own[:1] + listed[:1])}
    return found


@RUN
@given(cases())
def test_everything_is_either_kept_or_dropped_and_the_order_stays(case):
    points, limits, named, needed = case
    found = decide(points, limits, NOW, named, needed)
    dropped = [item.checkpoint for item in found.dropped]
    assert sorted((*found.kept, *dropped), key=lambda one: -one.seq) == points
    assert [one.seq for one in found.kept] == sorted((one.seq for one in found.kept), reverse=True)
    assert [one.seq for one in dropped] == sorted((one.seq for one in dropped), reverse=True)
    assert all(item.reason for item in found.dropped)


@RUN
@given(cases())
def test_the_newest_of_each_worktree_and_what_is_named_or_needed_stays(case):
    points, limits, named, needed = case
    assert exempt(points, named, needed) <= set(kept(points, limits, named, needed))


@RUN
@given(cases())
def test_a_count_keeps_exactly_the_newest_of_each_worktree_and_what_is_exempt(case):
    points, limits, named, needed = case
    limits = limits._replace(max_age=None, max_count=limits.max_count or 3)
    expected = exempt(points, named, needed)
    for worktree in {one.worktree for one in points}:
        listed = 0
        for one in (one for one in points if one.worktree == worktree):
            if listed < limits.max_count:
                expected.add(one.id)  # a safety checkpoint counts for nothing: it stays with the listed one before it
            listed += one.trigger != SAFETY
    assert set(kept(points, limits, named, needed)) == expected


@RUN
@given(cases())
@example((timeline(0, *[DAY] * 5, trigger=SAFETY), Limits(0.0, None, 10), NOBODY, {}))
def test_a_limit_on_age_drops_what_is_older_and_nothing_else(case):
    points, limits, named, needed = case
    limits = limits._replace(max_count=None)
    expected = exempt(points, named, needed)
    for worktree in {one.worktree for one in points}:
        own = [one for one in points if one.worktree == worktree]
        expected |= {one.id for one in [one for one in own if one.trigger != SAFETY][: limits.keep_last]}
        expected |= {
            one.id for one in own if limits.max_age is None or (NOW - one.created_ns) / SECOND <= limits.max_age
        }
    if not is_believed(points, limits):
        expected = {one.id for one in points}
    assert set(kept(points, limits, named, needed)) == expected


@RUN
@given(cases())
def test_both_limits_together_keep_what_both_of_them_keep(case):
    points, limits, named, needed = case
    by_age = set(kept(points, limits._replace(max_count=None), named, needed))
    by_count = set(kept(points, limits._replace(max_age=None), named, needed))
    assert set(kept(points, limits, named, needed)) == by_age & by_count


@RUN
@given(cases(), st.floats(0, YEAR), st.integers(0, 5), st.integers(0, 5))
def test_looser_limits_keep_everything_that_tighter_ones_keep(case, age, count, last):
    points, limits, named, needed = case
    looser = Limits(
        None if limits.max_age is None else limits.max_age + age,
        None if limits.max_count is None else limits.max_count + count,
        limits.keep_last + last,
    )
    # a limit that becomes long enough to believe the clock again may drop what a doubted one kept
    if is_believed(points, limits) == is_believed(points, looser):
        assert set(kept(points, limits, named, needed)) <= set(kept(points, looser, named, needed))
    assert set(kept(points, limits, named, needed)) <= set(kept(points, limits._replace(max_age=None), named, needed))
    assert kept(points, Limits(None, None), named, needed) == [one.id for one in points]


@RUN
@given(cases())
def test_the_same_question_has_the_same_answer_and_a_second_time_drops_nothing(case):
    points, limits, named, needed = case
    found = decide(points, limits, NOW, named, needed)
    assert decide(list(points), limits, NOW, named, dict(needed)) == found
    assert decide(found.kept, limits, NOW, named, needed).dropped == ()


@RUN
@given(cases(), st.sampled_from([-YEAR, YEAR, -10 * YEAR, 10 * YEAR]))
def test_a_clock_that_is_years_off_takes_nothing_for_its_age(case, off):
    points, limits, named, needed = case
    points = [one._replace(created_ns=NOW - (NOW - one.created_ns) % (20 * DAY * SECOND)) for one in points]
    limits = limits._replace(max_age=min(limits.max_age or 0.0, 300 * DAY))
    found = decide(points, limits, NOW + off * SECOND, named, needed)
    without = decide(points, limits._replace(max_age=None), NOW, named, needed)
    assert found.kept == without.kept
    assert len(found.notes) == (1 if points else 0)


def test_nothing_is_decided_of_nothing():
    assert decide([], Limits(0.0, 1), NOW, NOBODY, {})[:3] == ((), (), ())


def test_a_clock_that_went_back_is_said():
    found = decide(timeline(-YEAR, DAY, 40 * DAY), Limits(30.0 * DAY, None), NOW, NOBODY, {})
    assert found.dropped == ()
    assert "365 days in the future: is the clock right?" in found.notes[0]


def test_a_clock_that_went_ahead_is_said():
    found = decide(timeline(0, DAY, 40 * DAY), Limits(30.0 * DAY, None), NOW + YEAR * SECOND, NOBODY, {})
    assert found.dropped == ()
    assert "the newest checkpoint is 365 days old" in found.notes[0]
    assert "casrewind save" in found.notes[0]


def test_a_new_checkpoint_is_believed_again():
    limits = Limits(30.0 * DAY, None)
    points = [point(4, -YEAR), *timeline(YEAR, YEAR, 2 * YEAR)]
    found = decide(points, limits, NOW + YEAR * SECOND, NOBODY, {})
    assert [item.checkpoint.seq for item in found.dropped] == [3, 2, 1]
    assert found.notes == ()


def test_clocks_of_two_machines_may_differ_by_an_hour():
    found = decide(timeline(-0.9 * HOUR, DAY, 40 * DAY), Limits(30.0 * DAY, None), NOW, NOBODY, {})
    assert [item.checkpoint.seq for item in found.dropped] == [1]
    assert found.notes == ()


def test_one_old_stamp_from_the_future_keeps_the_others_from_being_judged_by_age():
    found = decide(timeline(DAY, -YEAR, 40 * DAY), Limits(30.0 * DAY, 2), NOW, NOBODY, {})
    assert [item.checkpoint.seq for item in found.dropped] == [1]
    assert "more than 2 newer ones" in found.dropped[0].reason
    assert len(found.notes) == 1


def test_an_age_of_nothing_works_for_a_day_after_the_newest_checkpoint():
    points = timeline(0, HOUR, DAY)
    assert kept(points, Limits(0.0, None), now=NOW + 23 * HOUR * SECOND) == [points[0].id]
    assert kept(points, Limits(0.0, None), now=NOW + 25 * HOUR * SECOND) == [one.id for one in points]


@pytest.mark.parametrize("keep_last", [1, 10])
def test_safety_checkpoints_of_a_worktree_where_nobody_saves_go_for_their_age(keep_last):
    safety = [point(seq, (101 - seq) * DAY, trigger=SAFETY) for seq in range(100, 1, -1)]
    points = [*safety, point(1, 200 * DAY)]
    found = kept(points, Limits(30.0 * DAY, None, keep_last))
    assert found == [one.id for one in safety[:30]] + [points[-1].id]


def test_the_newest_safety_checkpoint_stays_only_while_nothing_was_saved_since():
    safety = point(2, 5 * DAY, trigger=SAFETY)
    limits = Limits(0.0, 1)
    assert kept([safety, point(1, 6 * DAY)], limits, now=NOW - 5 * DAY * SECOND) == ["c0002", "c0001"]
    assert kept([point(3), safety, point(1, 6 * DAY)], limits) == ["c0003"]


def test_a_worktree_that_has_only_safety_checkpoints_keeps_its_newest():
    points = timeline(0, 0, 0, trigger=SAFETY)
    assert kept(points, Limits(0.0, 1), now=NOW + SECOND) == [points[0].id]


def test_each_worktree_counts_for_itself():
    points = [point(seq, worktree=seq % 2) for seq in range(8, 0, -1)]
    assert [one[-1] for one in kept(points, Limits(None, 2))] == ["8", "7", "6", "5"]


def test_reasons_are_for_people():
    found = decide(timeline(0, 1, 40 * DAY, 41 * DAY), Limits(30.0 * DAY, 3), NOW, NOBODY, {})
    assert [item.reason for item in found.dropped] == ["older than 30 days", "more than 3 newer ones"]
