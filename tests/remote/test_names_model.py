"""The order of names, pieces and lists (casrewind/remote/names.py), in every interleaving of two machines of one name, for clocks that are
wrong: a clone by a name takes what a list of every object would give, and a base is the one that was named last. What a clock that is
behind hides is named.

Each step is a request of the product. A machine that crashes or sleeps before any of its steps takes no further step, or a late one.
tests/remote/test_names.py drives the product itself."""

import itertools
from typing import NamedTuple

import pytest

CLOCKS = (-100, 0, 100)
"""By how many minutes a pusher's clock is wrong."""
LATE = 10
"""Minutes by which an entry may be behind."""


class Pusher(NamedTuple):
    """Its `clock` and `name`; the names with an entry as it notes them; when the server got each of its pieces, and the machine's name
    that the newest one says; what it does next; whether an earlier version pushed them, so that they have no entry."""

    clock: int
    name: str = "m"
    named: frozenset = frozenset()
    pieces: tuple = ()
    says: str = ""
    step: int = 0
    is_old: bool = False


class State(NamedTuple):
    """`entries`: {(name, own time, server's time, pusher, number of the piece that is meant, 0 = the newest)}. `bases`: the pieces that
    were named a base, in order. `is_calm`: no accident has happened yet."""

    now: int
    pushers: tuple
    entries: frozenset = frozenset()
    bases: tuple = ()
    is_calm: bool = True


PUSH = ("entry", "piece")
BASE = ("piece", "base")


def pusher_after(state, at, order):
    """The state a minute later, after the next step of a pusher."""
    one, now, entries, bases = state.pushers[at], state.now + 1, state.entries, state.bases
    what = order[one.step]
    if what == "entry" and one.name not in one.named:
        entries |= {(one.name, now + one.clock, now, at, 0)}
        one = one._replace(named=one.named | {one.name})
    elif what == "piece":
        one = one._replace(pieces=(*one.pieces, now), says=one.name)
    elif what == "base" and one.pieces:
        entries |= {("base", now + one.clock, now, at, len(one.pieces))}
        bases += ((at, len(one.pieces)),)
    one = one._replace(step=(one.step + 1) % len(order))
    return State(now, (*state.pushers[:at], one, *state.pushers[at + 1 :]), entries, bases, state.is_calm)


def accidents(state):
    """The states after one more thing that may happen: a machine gets another name; the owner puts a copy of an entry half an hour later,
    but for that of a clock that is ahead, which nobody can tell from a new one; a machine of an earlier version pushes without an entry."""
    first, later = state.pushers[0], state.now + 30
    if not first.step:
        yield state._replace(pushers=(first._replace(name="n"), *state.pushers[1:]), is_calm=False)
    for entry in [entry for entry in state.entries if entry[1] <= entry[2]]:
        yield state._replace(now=later, entries=state.entries - {entry} | {(*entry[:2], later, *entry[3:])}, is_calm=False)
    if first == Pusher(first.clock):
        old = first._replace(pieces=(state.now + 1,), says=first.name, is_old=True)
        yield state._replace(now=state.now + 1, pushers=(old, *state.pushers[1:]), is_calm=False)


def by_list(state, name):
    """The chain with the newest piece of those that say a name: what a list of every object gives."""
    return max((one.pieces[-1], at) for at, one in enumerate(state.pushers) if one.says == name)[1] if any(one.says == name for one in state.pushers) else None


def counting(state, name, leaves_late_out):
    """(The entries of a name that count, the pushers of those that are left out and named)."""
    listed = [entry for entry in state.entries if entry[0] == name]
    late = [entry for entry in listed if leaves_late_out and entry[2] - entry[1] > LATE]
    return [entry for entry in listed if entry not in late], {entry[3] for entry in late}


def clone_of_machine(state, name, *, checks=True, newest="piece", falls_back=True, late=True):
    """(The chain that a clone by a machine's name takes, those that it names as left out)."""
    entries, named = counting(state, name, late)
    said = [entry for entry in entries if state.pushers[entry[3]].pieces and (not checks or state.pushers[entry[3]].says == name)]
    by = {"piece": lambda entry: state.pushers[entry[3]].pieces[-1], "server": lambda entry: entry[2], "own": lambda entry: entry[1]}[newest]
    if said:
        return max(said, key=by)[3], named
    return by_list(state, name) if falls_back else None, named


def clone_of_base(state, *, newest="server", late=True, meant=True):
    """(What a clone of the base takes, the pushers of entries that it names as left out)."""
    entries, named = counting(state, "base", late)
    entries = [entry for entry in entries if len(state.pushers[entry[3]].pieces) >= entry[4] > 0]
    if not entries:
        return None, named
    chosen = max(entries, key=lambda entry: entry[2 if newest == "server" else 1])
    return (chosen[3], chosen[4] if meant else len(state.pushers[chosen[3]].pieces)), named


def is_wrong(state, broken):
    """True if a clone by a name takes something else than it should, and does not name what it left out."""
    of_machine = {key: value for key, value in broken.items() if key in ("checks", "newest", "falls_back", "late")}
    of_base = {key: value for key, value in broken.items() if key in ("base_newest", "late", "meant")}
    if "base_newest" in of_base:
        of_base["newest"] = of_base.pop("base_newest")
    for name in ("m", "n"):
        wanted = by_list(state, name)
        taken, named = clone_of_machine(state, name, **of_machine)
        one = None if wanted is None else state.pushers[wanted]
        is_unknown = one is not None and one.is_old and not one.named and taken is not None  # it gets its entry with its next push
        if taken != wanted and wanted not in named and not is_unknown:
            return True
    done = [base for base in state.bases if state.pushers[base[0]].clock >= -LATE]
    taken, named = clone_of_base(state, **of_base)
    return taken != (done[-1] if done else None) and not (done and done[-1][0] in named)


def explored(clocks, *, orders=(PUSH, PUSH), **broken):
    """(The number of states that can be reached, the number of those in which a clone is wrong)."""
    first = State(0, tuple(Pusher(clock) for clock in clocks))
    seen, waiting, wrong = {first}, [first], 0
    while waiting:
        state = waiting.pop()
        wrong += is_wrong(state, broken)
        following = [*accidents(state)] if state.is_calm else []
        following += [pusher_after(state, at, orders[at]) for at, one in enumerate(state.pushers) if len(one.pieces) < 2 - at or one.step]
        for new in following:
            if new not in seen:
                seen.add(new)
                waiting.append(new)
    return len(seen), wrong


def explored_for_all_clocks(orders=((PUSH, PUSH), ((*PUSH, "base"), (*PUSH, "base"))), **broken):
    """The same for each two of the clocks, with pushes that name a base and without."""
    found = [explored(pair, orders=order, **broken) for pair in itertools.product(CLOCKS, repeat=2) for order in orders]
    return sum(states for states, _ in found), sum(wrong for _, wrong in found)


def test_in_no_interleaving_a_clone_by_a_name_takes_another_chain():
    states, wrong = explored_for_all_clocks()
    print(f"two machines of one name, three clocks, an accident: {states:,} states, {wrong} wrong")
    assert not wrong and states > 10_000


@pytest.mark.parametrize(
    "broken",
    [
        {"orders": [(("piece", "entry"), ("piece", "entry"))]}, {"checks": False}, {"newest": "server"}, {"newest": "own"}, {"falls_back": False},
        {"base_newest": "own"}, {"late": False}, {"meant": False},
    ],
    ids=[
        "piece before entry", "a name without a look at the chain", "the newest entry of a machine", "own times of machines", "no list of all",
        "own times of bases", "copies of old entries", "a base that moves",
    ],
)  # fmt: skip
def test_the_model_finds_what_a_wrong_order_takes(broken):
    assert explored_for_all_clocks(**broken)[1]
