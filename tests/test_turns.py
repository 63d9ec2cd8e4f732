"""What takes turns is run after some change of the product, each case of it, with whatever else is drawn from the same bytes."""

import random

import pytest

from support import sample_start


@pytest.mark.parametrize("turns", [2, 3, 4])
def test_every_case_meets_every_other_choice_and_one_case_in_so_many_is_chosen(turns, monkeypatch):
    chance, met = random.Random(turns), set()
    for _ in range(2000):
        number = chance.getrandbits(64)
        monkeypatch.setattr(sample_start, "_number", lambda number=number: number)
        places = [place for place in range(12) if sample_start.is_its_turn("tests/a/test_b.py::test_c", place, turns)]
        assert len(places) == 12 // turns
        met |= {(place, other, sample_start.start_below(other)) for place in places for other in range(1, 8)}
    assert met == {(place, other, start) for place in range(12) for other in range(1, 8) for start in range(other)}
