"""The search for the first bad state: how many states it looks at, what it does about skipped ones, and what it never looks at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casrewind.model import bisection, checkpoint
from casrewind.model.bisection import Bisection
from casrewind.model.diff import Counts


def searched(count, first_bad, skipped=()):
    """(the search at its end, the positions that were looked at)."""
    search, looked = Bisection(count), []
    while (at := search.next_position()) is not None:
        assert at not in looked and search.good < at < search.bad
        looked.append(at)
        search.record(at, is_good=None if at in skipped else at < first_bad)
    return search, looked


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 100, 1000])
def test_each_first_bad_state_is_found_in_the_logarithm_of_their_number(count):
    most = Bisection(count).most_left
    assert 2**most >= count - 1 > 2**most // 2
    for first_bad in range(1, count):
        search, looked = searched(count, first_bad)
        assert list(search.suspects) == [first_bad] and len(looked) <= most


@given(st.data())
def test_what_is_skipped_leaves_the_first_bad_state_among_the_suspects(data):
    count = data.draw(st.integers(2, 40))
    first_bad = data.draw(st.integers(1, count - 1))
    skipped = data.draw(st.sets(st.integers(1, max(count - 2, 1))))
    search, looked = searched(count, first_bad, skipped)
    suspects = list(search.suspects)
    assert first_bad in suspects and set(suspects[:-1]) <= skipped, "a suspect but the last one was not skipped"
    assert search.good not in skipped or search.good == 0
    assert len(looked) == len(set(looked))


def test_a_block_of_skipped_states_is_left_soon():
    _, looked = searched(1000, 100, range(300, 800))
    assert len(looked) <= 20


def point(number, tree):
    return checkpoint.Checkpoint(
        id=f"c{number}", seq=number, created_ns=number, worktree=b"w" * 16, root=b"/w", parent="", trigger="manual", label="", prompt="", agent="", session="",
        tree=tree.encode() * 32, domain=b"", files=0, size=0, changes=Counts(0, 0, 0), skipped=0, flags=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trees", "expected"),
    [("", []), ("a", ["a00"]), ("aab", ["a01", "b22"]), ("abac", ["a02", "c33"]), ("abcbd", ["a00", "b13", "d44"]), ("abcab", ["a03", "b44"]),
     ("abcad", ["a03", "d44"]), ("aba", ["a02"])],
)  # fmt: skip
def test_what_was_taken_back_is_no_candidate(trees, expected):
    found = bisection.candidate_states(point(number, tree) for number, tree in enumerate(trees))
    assert [f"{chr(state.first.tree[0])}{state.first.seq}{state.last.seq}" for state in found] == expected


@given(st.text("abcde", max_size=30))
def test_candidates_are_a_way_from_the_oldest_to_the_newest_state_without_a_circle(trees):
    found = bisection.candidate_states(point(number, tree) for number, tree in enumerate(trees))
    names = [chr(state.first.tree[0]) for state in found]
    assert len(set(names)) == len(names) and names[:1] == list(trees[:1]) and names[-1:] == list(trees[-1:])
    for one, other in zip(found, found[1:], strict=False):
        assert one.last.seq + 1 == other.first.seq, "the next state did not follow the one before it"
