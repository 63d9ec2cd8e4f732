"""The order of holds, removals and purges (casrewind/remote/base_chain.py and old_chains.py), in every interleaving: nothing that a chain
uses is emptied, and nothing that was purged is sent again by who could see the purge.

Each step is a request of the product, and every state on the way is judged. So a machine that crashes or sleeps before any of its steps is in it, too: it is
one that takes no further step. tests/remote/test_holds.py drives the product itself."""

from typing import NamedTuple

import pytest

BASE = -1
"""The chain that the others are clones of. A chain with a number is that of this pusher."""


class Pusher(NamedTuple):
    """A clone, which has read BASE: what it does next, and what its chain is: with a hold on BASE, using its blobs, ended by a collector,
    with pieces. `stopped`: it sends nothing, because BASE was purged. `knew`: when it looked, BASE had been purged."""

    step: int = 0
    hold: bool = False
    uses: bool = False
    ended: bool = False
    pieces: int = 0
    stopped: bool = False
    knew: bool = False


class Collector(NamedTuple):
    """Who removes a chain, or purges it if it `purges`: what it does next, which chain, and what it saw of it."""

    step: int = 0
    chain: int = BASE
    dead: bool = False
    held: bool = False
    pieces: int = 0
    purges: bool = False


class State(NamedTuple):
    pushers: tuple
    collectors: tuple
    ended: bool = False
    emptied: bool = False
    purged: bool = False


PUSHER = ("hold", "look", "drop", "push", "push")
"""`look` sees what is about to go, why, what has ended, and what is missing. "look for dead" sees the first only, "look for any end" not why."""
COLLECTOR = ("dead", "look", "end", "empty", "drop", "done")


def pusher_after(state, one, order):
    """(The pusher after its next step) of its program."""
    what = order[one.step]
    if what == "hold":
        one = one._replace(hold=True)
    elif what.startswith("look"):
        dead = [other for other in state.collectors if other.dead and other.chain == BASE]
        is_going = bool(dead) or (what != "look for dead" and (state.ended or state.emptied))
        is_purged = state.purged or any(other.purges for other in dead)
        one = one._replace(uses=not is_going, stopped=is_purged and what == "look", knew=is_purged)
    elif what == "push" and one.stopped:
        pass
    elif what == "drop" and not one.uses:
        one = one._replace(hold=False)
    elif what == "push" and not one.ended:  # else its number is in use, and it begins a chain that uses nothing
        one = one._replace(pieces=one.pieces + 1)
    return one._replace(step=one.step + 1)


def collector_after(state, one, order):
    """(The state, the collector) after the collector's next step."""
    what, mine = order[one.step], None if one.chain == BASE else state.pushers[one.chain]
    if what == "dead":
        one = one._replace(dead=True)
    elif what == "look":
        held = one.chain == BASE and any(other.hold for other in state.pushers)
        one = one._replace(held=held, pieces=0 if mine is None else mine.pieces)
    elif what == "done":
        one = one._replace(dead=False)
    elif not one.held:
        if mine is None:
            ended, purged = state.ended or what == "end", state.purged or (what == "end" and one.purges)
            state = state._replace(ended=ended, purged=purged, emptied=state.emptied or what == "empty")
        elif what == "end" and mine.pieces != one.pieces:
            one = one._replace(held=True)  # the chain has another piece there: it stays
        elif what in ("end", "drop"):
            mine = mine._replace(ended=True) if what == "end" else mine._replace(hold=False)
            state = state._replace(pushers=(*state.pushers[: one.chain], mine, *state.pushers[one.chain + 1 :]))
    return state, one._replace(step=one.step + 1)


def is_lost(state):
    """A chain has pieces that use what is emptied, or one that has sent everything although its first push had seen the purge."""
    return any(
        one.pieces and not one.ended and ((one.uses and state.emptied) or (one.knew and not one.uses)) for one in state.pushers
    )


def following(state, pusher, collector):
    """Every state after one more step. Which collector is which makes no difference."""
    for at, one in enumerate(state.pushers):
        if one.step < len(pusher):
            new = pusher_after(state, one, pusher)
            yield state._replace(pushers=(*state.pushers[:at], new, *state.pushers[at + 1 :]))
    for at, one in enumerate(state.collectors):
        if one.step < len(collector):
            for chain in range(BASE, len(state.pushers)) if not one.step else (one.chain,):
                changed, new = collector_after(state, one._replace(chain=chain, purges=one.purges and chain == BASE), collector)
                yield changed._replace(collectors=tuple(sorted((*state.collectors[:at], new, *state.collectors[at + 1 :]))))


def explored(pushers, collectors, *, pusher=PUSHER, collector=COLLECTOR):
    """(The number of states that can be reached, the number of those in which something is lost)."""
    first = State((Pusher(),) * pushers, (Collector(purges=True), *(Collector(),) * (collectors - 1)))
    seen, waiting, lost = {first}, [first], 0
    while waiting:
        for new in following(waiting.pop(), pusher, collector):
            if new not in seen:
                seen.add(new)
                waiting.append(new)
                lost += is_lost(new)
    return len(seen), lost


@pytest.mark.parametrize(("pushers", "collectors"), [(2, 2), pytest.param(3, 2, marks=pytest.mark.long)])
def test_in_no_interleaving_something_is_lost(pushers, collectors):
    states, lost = explored(pushers, collectors)
    print(f"{pushers} pushers, {collectors} collectors: {states:,} states, {lost} lost")
    assert lost == 0 and states > 1000


@pytest.mark.parametrize(
    "broken",
    [
        {"pusher": ("look", "hold", "drop", "push", "push")},
        {"pusher": ("look", "push", "push")},
        {"pusher": ("hold", "look for dead", "drop", "push", "push")},
        {"pusher": ("hold", "look for any end", "drop", "push", "push")},
        {"collector": ("look", "dead", "end", "empty", "drop", "done")},
        {"collector": ("dead", "look", "empty", "drop", "done")},
        {"collector": ("dead", "look", "drop", "end", "empty", "done")},
    ],
    ids=["look before hold", "no hold", "look that is not whole", "clone, purge elsewhere, push", "look before dead", "no end", "hold dropped first"],
)
def test_the_model_finds_a_loss_in_a_wrong_order(broken):
    assert explored(2, 1, **broken)[1] + explored(1, 2, **broken)[1] > 0
