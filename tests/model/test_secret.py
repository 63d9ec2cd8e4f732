"""The spellings of a text, and covering it: never a byte longer or shorter, and a line of JSON stays one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casrewind import fsio
from casrewind.errors import UsageError
from casrewind.model.secret import MOST, Secret

TEXTS = st.text(st.sampled_from('ab"\\/é\n\t☃😀u0*#\x07'), min_size=4, max_size=30).filter(
    lambda text: len(text.strip()) > 3 and not text.endswith(("\n", "\r"))
)


def made(text):
    return Secret(text.encode() if isinstance(text, str) else text, fsio.show)


def test_it_is_found_as_it_is_and_as_json_writes_it_once_and_twice():
    word = 'a"b\\c\té☃😀d'
    secret = made(word)
    for once in (json.dumps(word), json.dumps(word, ensure_ascii=False)):
        assert secret.is_in(once.encode())
        for twice in (json.dumps(once), json.dumps(once, ensure_ascii=False), json.dumps({"x": json.dumps({"y": word})})):
            assert secret.is_in(twice.encode())
    assert secret.is_in(word.encode()) and secret.is_in(fsio.show(word).encode())
    assert not secret.is_in(word[1:].encode())


def test_bytes_that_are_no_text_are_found_as_they_are():
    secret = made(b"\xff\xfe\x00\x01secret")
    assert secret.is_in(b"..\xff\xfe\x00\x01secret..")


@pytest.mark.parametrize("text", [b"", b"a", b"abc", b"abc\n", b"abc\r\n", b"\t  \n ", b" " * 50, b"x" * (MOST + 1)])
def test_what_would_be_everywhere_or_is_too_long_is_refused(text):
    with pytest.raises(UsageError, match="the text to purge"):
        made(text)


def test_one_newline_at_the_end_is_not_part_of_it():
    for end in (b"", b"\n", b"\r\n"):
        assert made(b"hunter2" + end).is_in(b"xhunter2x")
    assert not made(b"hunter2\n\n").is_in(b"xhunter2x")


@given(TEXTS, st.lists(st.one_of(st.just("HERE"), st.text(max_size=10)), max_size=8))
def test_what_is_covered_is_as_long_as_before_and_holds_it_no_more(word, parts):
    secret = made(word)
    data = "".join(word if part == "HERE" else part for part in parts).encode("utf-8", "replace")
    hidden = secret.hide(data, secret.spans(data))
    assert len(hidden) == len(data)
    assert not secret.is_in(hidden)
    for at, (one, other) in enumerate(zip(data, hidden, strict=True)):
        assert one == other or any(start <= at < end for start, end in secret.spans(data))


@given(TEXTS, st.lists(st.one_of(st.just("HERE"), st.text(st.sampled_from('abn"\\u0é\n1'), max_size=10)), max_size=8), st.booleans(), st.booleans())
def test_a_line_of_json_stays_one(word, parts, ascii_only, nested):
    secret = made(word)
    value = {"text": "".join(word if part == "HERE" else part for part in parts)}
    if nested:
        value = {"text": json.dumps(value, ensure_ascii=ascii_only), "more": [word]}
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    hidden = secret.hide(data, secret.spans(data, as_json=True))
    assert len(hidden) == len(data) and not secret.is_in(hidden)
    if not any(form in b'{"text": "more"}[] ,' for form in secret.forms):
        json.loads(hidden)


def test_half_of_an_escape_is_not_left():
    for word, line in (("n123", r'{"t":"a\n123"}'), ("abc\\", r'{"t":"abc\"d"}'), ("abc\\\\\\", r'{"t":"abc\\\"d"}'), ("u00e9x", r'{"t":"\u00e9x"}')):
        secret = made(word)
        data = line.encode()
        hidden = secret.hide(data, secret.spans(data, as_json=True))
        assert hidden != data
        json.loads(hidden)


def test_the_beginning_of_it_at_a_cut_is_found():
    secret = made("hunter2-hunter2")
    assert secret.begins_at_end(b"the password is hunter2-hu") == 10
    assert secret.begins_at_end(b"the password is h") == 1
    assert secret.begins_at_end(b"the password is") == 0
    assert secret.begins_at_end(b"") == 0


def test_a_text_with_stars_in_it_is_covered_with_something_else():
    secret = made("*abc*")
    data = b"x*abc*abc*y"
    assert secret.hide(data, secret.spans(data)) == b"x#########y"
