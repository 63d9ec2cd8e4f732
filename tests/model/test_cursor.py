"""A cursor as bytes: it comes back, what is empty takes no place, a later version's fields are skipped."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind import errors
from casrewind.model import cursor as cursors
from casrewind.model import tlv
from casrewind.model.cursor import Cursor
from support import random_values

RUN = settings(derandomize=True, deadline=None, max_examples=60)
hashes = st.just(b"") | random_values.digests
cursor_values = st.builds(
    Cursor, *[random_values.texts] * 2, st.binary(max_size=30), *[random_values.texts] * 5, st.integers(0, (1 << 63) - 1), hashes, hashes
)


@RUN
@given(cursor_values)
def test_what_is_encoded_comes_back(cursor):
    assert cursors.decode(cursors.encode(cursor)) == cursor


def test_what_is_empty_takes_no_place():
    assert cursors.encode(Cursor()) == b"" and cursors.decode(b"") == Cursor()
    assert cursors.encode(Cursor(prompt_id="p")) == tlv.encode([(4, "p")])


def test_the_fields_of_a_later_version_are_skipped():
    whole = Cursor("claude", "s", b"/t", "p", "m", "turn", "tool", "e", 7, b"p" * 32, b"t" * 32)
    assert cursors.decode(cursors.encode(whole) + tlv.encode([(900, "news")])) == whole


@RUN
@given(st.binary(max_size=40), st.integers(0, 200))
def test_no_bytes_make_it_raise_anything_but_its_own_error(data, end):
    whole = cursors.encode(Cursor("claude", "s", b"/t", "p", "m", "turn", "tool", "e", 7, b"p" * 32, b"t" * 32))
    for attempt in (data, whole[:end], whole[:end] + data):
        try:
            assert isinstance(cursors.decode(attempt), Cursor)
        except errors.ManifestCorrupt:
            pass


@pytest.mark.parametrize("bad", [(10, b"short"), (11, b"x" * 33), (9, b"123")])
def test_a_field_of_the_wrong_size_is_damage(bad):
    with pytest.raises(errors.ManifestCorrupt):
        cursors.decode(tlv.encode([bad]))
