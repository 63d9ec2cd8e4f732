"""The spellings in which a text is found."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casrewind.messages import printable
from casrewind.errors import UsageError
from casrewind.upkeep.purge_text import MOST_TEXT, SecretText


def made(text):
    return SecretText(text.encode() if isinstance(text, str) else text)


def test_it_is_found_as_it_is_and_as_json_writes_it_once_and_twice():
    word = 'a"b\\c\té☃😀d'
    secret = made(word)
    for once in (json.dumps(word), json.dumps(word, ensure_ascii=False)):
        assert secret.is_in(once.encode())
        for twice in (json.dumps(once), json.dumps(once, ensure_ascii=False), json.dumps({"x": json.dumps({"y": word})})):
            assert secret.is_in(twice.encode())
    assert secret.is_in(word.encode()) and secret.is_in(printable(word).encode())
    assert not secret.is_in(word[1:].encode())


def test_bytes_that_are_no_text_are_found_as_they_are():
    secret = made(b"\xff\xfe\x00\x01secret")
    assert secret.is_in(b"..\xff\xfe\x00\x01secret..")


@pytest.mark.parametrize("text", [b"", b"a", b"abc", b"abc\n", b"abc\r\n", b"\t  \n ", b" " * 50, b"x" * (MOST_TEXT + 1)])
def test_what_would_be_everywhere_or_is_too_long_is_refused(text):
    with pytest.raises(UsageError, match="the text to purge"):
        made(text)


def test_one_newline_at_the_end_is_not_part_of_it():
    for end in (b"", b"\n", b"\r\n"):
        assert made(b"hunter2" + end).is_in(b"xhunter2x")
    assert not made(b"hunter2\n\n").is_in(b"xhunter2x")


@given(st.text(st.sampled_from('ab"\\/é\n\t☃😀u0*#\x07'), min_size=4, max_size=30).filter(lambda text: text.strip() == text), st.text(), st.text())
def test_it_is_found_wherever_it_stands_in_json(word, before, after):
    if len(word.encode()) >= 4:
        value = before + word + after
        for ascii_only in (True, False):
            once = json.dumps({"text": value}, ensure_ascii=ascii_only)
            assert made(word).is_in(once.encode("utf-8", "replace"))
            assert made(word).is_in(json.dumps([once], ensure_ascii=ascii_only).encode("utf-8", "replace"))


def test_the_beginning_of_it_at_a_cut_is_found():
    secret = made("hunter2-hunter2")
    assert secret.is_in(b"the password is hunter2-hu", cut=True) and secret.is_in(b"the password is hunt", cut=True)
    assert not secret.is_in(b"the password is hunter2-hu") and not secret.is_in(b"hunter2-hu, it is", cut=True)
    assert not secret.is_in(b"the password is hun", cut=True), "three letters tell nothing"
    assert not secret.is_in(b"", cut=True)
