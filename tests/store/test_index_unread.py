"""Nothing is mapped that is not byte for byte what was written: a flip that no seal covers is noticed too."""

import os

import pytest

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
