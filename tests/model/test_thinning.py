"""Thinning: of a week every turn stays, of the next one an hour, of what is older one a day; and never more goes."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind.model.checkpoint import MANUAL, SAFETY, Checkpoint
from casrewind.model.diff import Counts
from casrewind.model.retention import HOURLY, WHOLE, Limits, decide
from casrewind.settings import Settings
from support.sample_start import examples

NOW = 1_750_000_000 * 10**9
HOUR, DAY = 3600, 86400
THIN = Limits(None, None, 1, None, True)
RUN = settings(derandomize=True, deadline=None, max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])


def point(seq, age, *, worktree=0, trigger=MANUAL):
    """A checkpoint made `age` seconds before NOW."""
    return Checkpoint(
        seq=seq, id=f"c{seq:04x}", created_ns=NOW - round(age * 10**9), worktree=bytes([worktree]) * 16, root=b"/p",
        parent="", trigger=trigger, label="", prompt="", agent="", session="", tree=bytes(32), domain=bytes(32), files=0,
        size=0, changes=Counts(0, 0, 0), skipped=0, flags=0,
    )  # fmt: skip


def timeline(*ages, **more):
    """Checkpoints from their ages, newest first."""
    return [point(len(ages) - n, age, **more) for n, age in enumerate(ages)]


@st.composite
def histories(draw):
    """Checkpoints in the order in which they were made, of two worktrees, safety ones among them, and one of now."""
    ages = sorted(draw(st.lists(st.one_of(st.floats(0, 9 * DAY), st.floats(0, 40 * DAY)), max_size=40)))
    rows = [(0.0, 0, False), *((age, draw(st.integers(0, 1)), draw(st.booleans())) for age in ages)]
    return [
        point(len(rows) - n, age, worktree=worktree, trigger=SAFETY if safety else MANUAL)
        for n, (age, worktree, safety) in enumerate(rows)
    ]


def kept(points, limits=THIN, named=frozenset(), needed=None, now=NOW):
    return decide(points, limits, now, named, needed or {}).kept


def test_a_week_is_whole_the_next_has_hours_the_rest_has_days():
    minutes = [60.0 * n for n in range(40 * 24 * 60)]
    ages = [(NOW - one.created_ns) // 10**9 for one in kept(timeline(*minutes))]
    assert len([age for age in ages if age <= 7 * DAY]) == 7 * 24 * 60 + 1
    assert len([age for age in ages if 7 * DAY < age <= 14 * DAY]) in (7 * 24, 7 * 24 + 1)
    assert len([age for age in ages if age > 14 * DAY]) in (26, 27)


PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
DEFAULTS = Settings("", "").limits
PER_DAY, HOURS = 60, 8


def turns(*ages):
    """Turns of two checkpoints each, a second apart, from the ages of their ends, newest first; and their sets."""
    points = timeline(*(age + more for age in ages for more in (0.0, 1.0)))
    return points, [frozenset(one.id for one in points[at : at + 2]) for at in range(0, len(points), 2)]


def test_the_page_says_what_a_busy_month_keeps():
    """60 turns a day, within eight hours of each day, for 40 days."""
    points, sets = turns(*(day * DAY + HOUR + n * HOURS * HOUR / PER_DAY for day in range(40) for n in range(PER_DAY)))
    left = {one.id for one in decide(points, DEFAULTS, NOW, frozenset(), {}, sets).kept}
    assert all(len(one & left) in (0, 2) for one in sets), "the before and the after of a turn stay or go together"
    ages = [(NOW - one.created_ns) // 10**9 for one in points[::2]]
    stays = [one.id in left for one in points[::2]]
    borders = [(0, WHOLE, "every turn"), (WHOLE, HOURLY, "the newest of each hour"), (HOURLY, DEFAULTS.max_age, "the newest of each day")]
    rows = []
    for start, end, what in [*borders, (DEFAULTS.max_age, 40 * DAY, "none")]:
        inside = [stay for age, stay in zip(ages, stays, strict=True) if start < age <= end]
        name = f"over {start / DAY:.0f} days" if what == "none" else f"{start / DAY:.0f} to {end / DAY:.0f} days"
        rows.append(f"| {name} | {what} | {sum(inside)} of {len(inside)} |")
    rows.append(f"| together | | {sum(stays)} of {len(stays)} |")
    assert "\n".join(rows) in PAGE.read_text(), "\n".join(rows)


def test_a_count_is_a_count_of_turns():
    """2,500 turns within minutes: a limit of 2,000 keeps 4,000 checkpoints; the default keeps all."""
    points, sets = turns(*(n * 0.4 for n in range(2500)))
    found = decide(points, DEFAULTS._replace(max_count=2000), NOW, frozenset(), {}, sets)
    assert found.kept == tuple(points[:4000]) and {one.reason for one in found.dropped} == {"more than 2000 newer ones"}
    assert decide(points, DEFAULTS, NOW, frozenset(), {}, sets).dropped == ()


@RUN
@given(histories())
def test_of_each_hour_and_day_the_newest_stays_and_no_other_goes(points):
    stay = {one.id for one in kept(points)}
    for one in points:
        age = (NOW - one.created_ns) / 10**9
        step = 0 if age <= 7 * DAY else HOUR if age <= 14 * DAY else DAY

        def same(other, one=one, step=step):
            other_age = (NOW - other.created_ns) / 10**9
            other_step = 0 if other_age <= 7 * DAY else HOUR if other_age <= 14 * DAY else DAY
            return (
                (other.worktree, other.trigger, other_step) == (one.worktree, one.trigger, step)
                and other.created_ns // (step * 10**9) == one.created_ns // (step * 10**9)
            )  # fmt: skip

        if not step or not any(same(other) for other in points if other.seq > one.seq):
            assert one.id in stay
        elif one.id not in {p.id for p in exempt(points)}:
            assert one.id not in stay


def exempt(points):
    """The newest of each worktree, and its newest that is no safety checkpoint."""
    for worktree in {one.worktree for one in points}:
        own = [one for one in points if one.worktree == worktree]
        yield from own[:1]
        yield from [one for one in own if one.trigger != SAFETY][:1]


@RUN
@given(histories(), st.data())
def test_what_is_named_or_needed_is_not_thinned_and_a_second_time_nothing_goes(points, data):
    ids = [one.id for one in points]
    named = frozenset(data.draw(st.sets(st.sampled_from(ids), max_size=5)))
    needed = dict.fromkeys(data.draw(st.sets(st.sampled_from(ids), max_size=5)), "undo")
    found = decide(points, THIN, NOW, named, needed)
    assert named | needed.keys() <= {one.id for one in found.kept}
    assert decide(found.kept, THIN, NOW, named, needed).dropped == ()


@RUN
@given(histories(), st.sampled_from([30 * DAY, 365 * DAY, -365 * DAY]))
def test_neither_holidays_nor_a_wrong_clock_make_anything_old(points, off):
    assert {one.id for one in kept(points)} <= {one.id for one in kept(points, now=NOW + off * 10**9)}


def test_a_count_counts_what_is_left_after_thinning():
    ages = [n * 600.0 for n in range(10)] + [9 * DAY + n * 1e-3 for n in range(500)] + [(10 + n) * DAY for n in range(4)]
    found = decide(timeline(*ages), THIN._replace(max_count=13), NOW, frozenset(), {})
    assert [round((NOW - one.created_ns) / 10**9 / DAY) for one in found.kept] == [0] * 10 + [9, 10, 11]
    assert found.dropped[0].reason == "a newer one of the same hour is kept"
    assert found.dropped[-1].reason == "more than 13 newer ones"  # of four that are left, one is too many


def test_the_newest_ten_are_spared():
    assert len(kept(timeline(0, *[9 * DAY] * 30), THIN._replace(keep_last=10))) == 10
