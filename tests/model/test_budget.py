"""A budget of bytes: the oldest go first, what somebody needs stays, and a mistyped budget takes nothing."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind.model.checkpoint import MANUAL, Checkpoint
from casrewind.model.diff import Counts
from casrewind.model.retention import Limits, kept_by_priority, decide, fit_into_budget
from support.sample_start import examples

NOW = 1_750_000_000 * 10**9
FREE = Limits(None, None)
RUN = settings(derandomize=True, deadline=None, max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])


def point(seq, worktree=0):
    return Checkpoint(
        seq=seq, id=f"c{seq:04x}", created_ns=NOW, worktree=bytes([worktree] * 16), root=b"/p", parent="", trigger=MANUAL, label="",
        prompt="", agent="", session="", tree=bytes(32), domain=bytes(32), files=0, size=0, changes=Counts(0, 0, 0),
        skipped=0, flags=0,
    )  # fmt: skip


def timeline(count):
    """Checkpoints, newest first."""
    return [point(seq) for seq in range(count, 0, -1)]


@st.composite
def cases(draw):
    points = timeline(draw(st.integers(1, 25)))
    ids = [one.id for one in points]
    some = st.sets(st.sampled_from(ids), max_size=3)
    decision = decide(points, FREE, NOW, frozenset(draw(some)), dict.fromkeys(draw(some), "undo"))
    sizes = {one: draw(st.one_of(st.just(0), st.integers(0, 1000))) for one in ids}
    return decision, sizes, draw(st.integers(0, 300)), draw(st.integers(0, 6000))


def weight(found, sizes):
    return sum(sizes[one.id] for one in found.kept)


@RUN
@given(cases())
def test_what_stays_fits_or_is_what_nobody_may_take(case):
    decision, sizes, beside, most = case
    found = fit_into_budget(decision, sizes, beside, most)
    stay = {one.id for one in found.kept}
    assert decision.firm | decision.pinned <= stay
    rest = [one.id for one in decision.kept if one.id not in decision.firm | decision.pinned]
    firm = beside + sum(sizes[one] for one in decision.firm)
    pins = sum(sizes[one] for one in decision.pinned)
    if firm > most:
        assert found.kept == decision.kept
        assert found.floor == firm
    elif firm + pins > most:
        assert sum(sizes[one] for one in rest if one in stay) <= most // 4
        assert found.floor == firm + pins
    else:
        assert beside + weight(found, sizes) <= most
        assert found.floor == 0
    assert bool(found.notes) == bool(found.floor)


@RUN
@given(cases())
def test_the_oldest_go_first_and_none_without_need(case):
    decision, sizes, beside, most = case
    found = fit_into_budget(decision, sizes, beside, most)
    going = [item.checkpoint for item in found.dropped]
    rest = [one for one in kept_by_priority(decision) if one.id not in decision.firm | decision.pinned]
    assert going == rest[len(rest) - len(going) :]
    assert sorted([*found.kept, *going]) == sorted(decision.kept)
    if going and not found.floor:
        assert beside + weight(found, sizes) + sizes[going[0].id] > most


@RUN
@given(cases(), st.integers(0, 3000))
def test_a_larger_budget_keeps_what_a_smaller_one_keeps_as_long_as_both_can_be_kept(case, more):
    decision, sizes, beside, most = case
    small, large = fit_into_budget(decision, sizes, beside, most), fit_into_budget(decision, sizes, beside, most + more)
    if not small.floor:
        assert set(small.kept) <= set(large.kept)
        assert not large.floor


def test_a_worktree_that_saves_much_takes_little_of_the_newest_ten_of_another():
    quiet, busy = [point(seq, 1) for seq in range(12, 0, -1)], [point(seq, 2) for seq in range(100, 12, -1)]
    decision = decide([*busy, *quiet], FREE, NOW, frozenset(), {})
    found = fit_into_budget(decision, dict.fromkeys([one.id for one in decision.kept], 100), 0, 2500)
    kept = {number: [one for one in found.kept if one.worktree[0] == number] for number in (1, 2)}
    assert kept[1] == quiet[:10]
    assert kept[2] == busy[:15]
    tight = fit_into_budget(decision, dict.fromkeys([one.id for one in decision.kept], 100), 0, 800)
    assert {number: len([one for one in tight.kept if one.worktree[0] == number]) for number in (1, 2)} == {1: 4, 2: 4}


def test_reasons_and_notes_are_for_people():
    decision = decide(timeline(3), FREE, NOW, frozenset(), {})
    sizes = {"c0003": 500, "c0002": 400, "c0001": 400}
    found = fit_into_budget(decision, sizes, 100, 1000)
    assert [item.reason for item in found.dropped] == ["no room in the budget of 1,000 bytes"]
    assert "smaller than what the newest checkpoint" in fit_into_budget(decision, sizes, 100, 599).notes[0]
    pinned = decide(timeline(3), FREE, NOW, frozenset({"c0001"}), {})
    assert "unpin some" in fit_into_budget(pinned, sizes, 100, 900).notes[0]


@RUN
@given(cases(), st.integers(0, 6000))
def test_a_target_below_the_budget_is_reached_or_half_of_what_is_left_is_kept_free(case, most):
    decision, sizes, beside, budget = case
    found = fit_into_budget(decision, sizes, beside, budget, min(most, budget))
    if found.floor:
        assert found == fit_into_budget(decision, sizes, beside, budget)
        return
    firm = beside + sum(sizes[one] for one in decision.firm | decision.pinned)
    rest = sum(sizes[one.id] for one in found.kept if one.id not in decision.firm | decision.pinned)
    assert firm + rest <= max(min(most, budget), firm + (budget - firm) // 2)
