"""The order of hints, pieces and lists (casrewind/remote/days.py), in every interleaving over two days, for every clock: nothing that a
machine pushed is unread after the next pull. A clock that is further behind hides it, until a pull lists every object after seven days.

Each step is a request of the product. A machine that crashes or sleeps before any of its steps takes no further step, or a late one.
tests/remote/test_days.py drives the product itself."""

import itertools
from typing import NamedTuple

import pytest

CLOCKS = (-1, 0, 1, 365)
"""By how many days a pusher's clock is wrong."""
OVERLAP = 2
LAST = 1
"""The last day on which anybody pushes."""


class Pusher(NamedTuple):
    """Its `clock`, the days with a hint as it notes them, the pieces that it has put, what it does next, and the day of its clock
    when it began that."""

    clock: int
    hinted: frozenset = frozenset()
    pieces: int = 0
    step: int = 0
    began: int | None = None


class Reader(NamedTuple):
    """The newest day of the server that it has seen, the pieces that it has read of each pusher, and of the pull that runs: what it does
    next, the chains that are named, and the newest day of that list."""

    seen: int = 0
    read: tuple = ()
    step: int = 0
    named: frozenset = frozenset()
    newest: int = 0


class State(NamedTuple):
    """`hints`: {(day of the name, pusher, day of the server)}."""

    day: int
    pushers: tuple
    reader: Reader
    hints: frozenset = frozenset()


PUSH = ("hint", "piece")
PULL = ("days", "chains", "note")


def pusher_after(state, at, order):
    """The state after the next step of a pusher: the hint is put, or the piece."""
    one = state.pushers[at]
    day = state.day + one.clock if one.began is None else one.began
    if order[one.step] == "hint":
        hints = state.hints if day in one.hinted else state.hints | {(day, at, state.day)}
        one = one._replace(hinted=one.hinted | {day})
    else:
        hints, one = state.hints, one._replace(pieces=one.pieces + 1)
    step = (one.step + 1) % len(order)
    one = one._replace(step=step, began=day if step else None)
    return state._replace(pushers=(*state.pushers[:at], one, *state.pushers[at + 1 :]), hints=hints)


def reader_after(state, order, overlap, believes, whole):
    """The state after the next step of a pull."""
    one = state.reader
    what = order[one.step]
    if what == "days":
        from_day = one.seen - overlap
        listed = {hint for hint in state.hints if hint[0] >= from_day}
        listed = listed if whole else set(sorted(listed)[:1])
        newest = max((hint[0 if believes == "names" else 2] for hint in listed), default=one.seen)
        one = one._replace(named=frozenset(at for _, at, _ in listed), newest=max(one.seen, newest))
    elif what == "chains":
        one = one._replace(read=tuple(pusher.pieces if at in one.named else one.read[at] for at, pusher in enumerate(state.pushers)))
    else:
        one = one._replace(seen=one.newest)
    step = (one.step + 1) % len(order)
    return state._replace(reader=one._replace(step=step))


def pull(state, **reader):
    """The state after a pull that nothing comes between."""
    state = state._replace(reader=state.reader._replace(step=0))
    for _ in reader["order"]:
        state = reader_after(state, **reader)
    return state


def unread(state):
    """The clocks of the pushers with pieces that were not read."""
    return [one.clock for at, one in enumerate(state.pushers) if one.pieces > state.reader.read[at]]


def explored(clocks, *, push=PUSH, order=PULL, overlap=OVERLAP, believes="server", whole=True):
    """(The number of states that can be reached, the clocks of the pushers of which one more pull leaves something unread)."""
    reader = {"order": order, "overlap": overlap, "believes": believes, "whole": whole}
    first = State(0, tuple(Pusher(clock) for clock in clocks), Reader(read=(0,) * len(clocks)))
    seen, waiting, hidden = {first}, [first], set()
    while waiting:
        state = waiting.pop()
        hidden |= set(unread(pull(state, **reader)))
        following = [reader_after(state, **reader)]
        following += [pusher_after(state, at, push) for at, one in enumerate(state.pushers) if one.pieces < 2]
        following += [state._replace(day=state.day + 1)] if state.day < LAST else []
        for new in following:
            if new not in seen:
                seen.add(new)
                waiting.append(new)
    return len(seen), hidden


def explored_for_all_clocks(**broken):
    """The same for each two of the clocks."""
    found = [explored(pair, **broken) for pair in itertools.combinations_with_replacement(CLOCKS, 2)]
    return sum(states for states, _ in found), set().union(*(hidden for _, hidden in found))


def test_in_no_interleaving_a_clock_hides_news_from_the_next_pull():
    states, hidden = explored_for_all_clocks()
    print(f"two pushers, a reader, two days, four clocks: {states:,} states, hidden by {hidden or 'none'}")
    assert not hidden and states > 10_000


@pytest.mark.parametrize(
    "broken",
    [{"push": ("piece", "hint")}, {"overlap": 1}, {"believes": "names"}, {"whole": False}, {"order": ("chains", "days", "note")}],
    ids=["piece before hint", "no overlap", "a clock of a year", "a list that is not whole", "the chains of the list before"],
)
def test_the_model_finds_what_a_wrong_order_hides(broken):
    assert explored_for_all_clocks(**broken)[1]


@pytest.mark.parametrize("clock", [-3, -30])
def test_a_clock_further_behind_hides_news_so_every_object_is_listed_after_seven_days(clock):
    assert explored((clock, 0))[1] == {clock}
