"""The line diff is right, minimal where that can be had, and ends in bounded time whatever it is given."""

import random
import time

import pytest

from casrewind.model.line_diff import blocks

LIMIT = 30
"""Seconds: many times what it takes."""


def checked(old, new):
    """How many lines differ, after a check that the blocks make one text of the other."""
    old_at = new_at = count = 0
    for old_start, old_end, new_start, new_end in found(old, new):
        assert old[old_at:old_start] == new[new_at:new_start]
        assert old_start >= old_at and new_start >= new_at and old_end + new_end > old_start + new_start
        count += old_end - old_start + new_end - new_start
        old_at, new_at = old_end, new_end
    assert old[old_at:] == new[new_at:]
    return count


def found(old, new):
    started = time.process_time()
    result = blocks(old, new)
    assert time.process_time() - started < LIMIT
    return result


def common(old, new):
    """The length of the longest common subsequence, by the plain table."""
    row = [0] * (len(new) + 1)
    for line in old:
        above, row = row, [0]
        for at, other in enumerate(new):
            row.append(above[at] + 1 if line == other else max(above[at + 1], row[-1]))
    return row[-1]


@pytest.mark.parametrize("seed", range(4))
def test_small_texts_are_compared_minimally(seed):
    chance = random.Random(seed)
    for _ in range(500):
        kinds = chance.choice([1, 2, 3, 8, 50])
        old, new = ([b"%d" % chance.randrange(kinds) for _ in range(chance.randrange(30))] for _ in range(2))
        assert checked(old, new) == len(old) + len(new) - 2 * common(old, new)


def test_a_hundred_thousand_equal_lines():
    old = [b"same\n"] * 100_000
    new = list(old)
    new[50_000] = b"other\n"
    assert checked(old, old) == 0 and checked(old, new) == 2 and checked(new, old[:-10]) == 10


def test_nothing_in_common():
    old, new = ([b"%s %d\n" % (side, number) for number in range(50_000)] for side in (b"old", b"new"))
    assert found(old, new) == [(0, 50_000, 0, 50_000)]


def test_lines_that_repeat():
    old = [line for _ in range(10_000) for line in (b"{\n", b"}\n", b"\n", b"  x\n")]
    new = list(old)
    for at in range(1000, 39_000, 1300):
        new[at : at + 1] = [b"a\n", b"b\n"]
    assert checked(old, new) == 3 * len(range(1000, 39_000, 1300))


def test_a_third_of_all_parts_gone():
    old = [line for number in range(20_000) for line in (b"{\n", b"k%d\n" % number, b"}\n", b"\n")]
    new = [line for at in range(0, len(old), 4) if at // 4 % 3 for line in old[at : at + 4]]
    assert checked(old, new) == len(old) - len(new)


LINES = [8_000, pytest.param(50_000, marks=pytest.mark.long)]


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("kinds", [2, 1000])
def test_large_texts_at_random_end(kinds, lines):
    chance = random.Random(kinds)
    old, new = ([b"%d" % chance.randrange(kinds) for _ in range(lines)] for _ in range(2))
    checked(old, new)


@pytest.mark.parametrize("lines", LINES)
def test_shuffled_lines_end(lines):
    old = [b"%d" % number for number in range(lines)]
    new = list(old)
    random.Random(1).shuffle(new)
    checked(old, new)


def test_a_block_begins_where_a_person_expects_it():
    one, two = ([b"def %s():\n" % name, b"    return\n", b"\n"] for name in (b"one", b"two"))
    assert blocks([*one, *two], [*one, b"def new():\n", b"    return\n", b"\n", *two]) == [(3, 3, 3, 6)]
    assert blocks([b"a\n", b"b\n"], [b"a\n", b"b\n", b"b\n"]) == [(2, 2, 2, 3)]
