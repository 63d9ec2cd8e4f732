"""Nothing is mapped that is not byte for byte what was written: a flip that no seal covers is noticed too."""

import os
import time

import pytest

from casrewind.store import index_check
from casrewind.store.index_check import IndexUnusable
from casrewind.store.index import Index


@pytest.fixture
def made(tmp_path):
    """(an index that nobody has open, the path of its data file)."""
    index = Index(str(tmp_path / "index"), str(tmp_path / "lock"), 1.0)
    index.change(lambda tables: [tables[b"blobs"].put_many([(b"%04d" % n, b"x" * 40) for n in range(400)])])
    index.close()
    return index, tmp_path / "index" / "data.mdb"


def test_a_flip_anywhere_even_where_no_row_is_makes_the_index_one_to_be_made_anew(made):
    index, path = made
    whole = path.read_bytes()
    places = range(5, len(whole), 509)
    assert len(places) > 50
    with index.view() as tables:
        assert tables[b"blobs"].get(b"0399") == b"x" * 40
    for place in places:
        index.close()
        with open(path, "r+b") as file:
            os.pwrite(file.fileno(), bytes([whole[place] ^ 0x10]), place)
        with pytest.raises(IndexUnusable), index.view():
            pass
        with open(path, "r+b") as file:
            os.pwrite(file.fileno(), whole[place : place + 1], place)
    with index.view() as tables:
        assert tables[b"blobs"].get(b"0000") == b"x" * 40


def proved(index, path):
    """The proof of a data file, as a process has it that looked when its stamps were old enough."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        index.trust_proof_and_defer_note(None)
        index.change(lambda tables: tables[b"blobs"].put_many([(b"more", os.urandom(9))]))
        proof = index.record_state()
        index.close()
        if proof is not None:
            return proof
    raise AssertionError("no stamp was ever old enough")


@pytest.fixture
def large(made, monkeypatch):
    """The same where every data file is one that a proof is worth waiting for."""
    monkeypatch.setattr("casrewind.store.index._LARGE", 0)
    return made


def test_what_was_put_off_is_noted_when_it_is_settled_and_before_that_nothing_is_claimed(made):
    index, path = made
    note = path.parent / "written"
    index.trust_proof_and_defer_note(None)
    index.change(lambda tables: tables[b"blobs"].put_many([(b"more", b"y")]))
    assert note.read_text().strip() == ""
    index.record_state()
    assert note.read_text().strip() == index_check.fingerprint(str(path))
    index.close()
    with index.view() as tables:
        assert tables[b"blobs"].get(b"more") == b"y"


def test_a_data_file_that_is_proved_is_not_read_and_any_other_is(large, monkeypatch):
    index, path = large
    proof = proved(index, path)
    read = []
    usual = index_check.fingerprint
    monkeypatch.setattr(index_check, "fingerprint", lambda place: read.append(place) or usual(place))
    index.trust_proof_and_defer_note(proof)
    with index.view():
        pass
    assert read == []
    index.close()
    other = Index(str(path.parent), str(path.parent.parent / "lock"), 1.0)
    other.change(lambda tables: tables[b"blobs"].put_many([(b"another", b"z")]))
    other.close()
    read.clear()
    with index.view():
        pass
    assert read == [str(path)], "somebody else has written since"


def test_a_flip_in_a_data_file_that_was_proved_is_noticed(large):
    index, path = large
    proof = proved(index, path)
    whole = path.read_bytes()
    for place in range(5, len(whole), 4099):
        index.close()
        with open(path, "r+b") as file:
            os.pwrite(file.fileno(), bytes([whole[place] ^ 0x10]), place)
        index.trust_proof_and_defer_note(proof)
        with pytest.raises(IndexUnusable), index.view():
            pass
        path.write_bytes(whole)


@pytest.mark.parametrize("age, is_proof", [(0, False), (19_000_000, False), (20_000_000, True)])
def test_a_proof_is_given_for_no_stamp_that_a_later_change_could_have_too(made, monkeypatch, age, is_proof):
    index, path = made
    index.trust_proof_and_defer_note(None)
    index.change(lambda tables: tables[b"blobs"].put_many([(b"more", b"y")]))
    changed = os.stat(path).st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed + age)
    assert (index.record_state() is not None) == is_proof
