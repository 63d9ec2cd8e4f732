"""A session decides what need not be stored again: the one decision that loses content when it is wrong."""

import pytest

from casrewind.model import digest as digests
from casrewind.store.packs import PackWriter, Place
from casrewind.store.session import Session

BLOB = b"the bytes of a file, " * 20
PACK = "0123456789abcdef0123"


@pytest.mark.parametrize(
    ("live", "stored"),
    [({}, False), ({PACK: 99}, False), ({PACK: 100}, True), ({PACK: 4000}, True), ({"f" * 20: 4000}, False)],
    ids=["no pack", "cut by a byte", "just long enough", "longer", "another pack"],
)
def test_a_row_of_the_index_is_believed_only_while_its_pack_is_there_and_long_enough(tmp_path, live, stored):
    for name in ("packs", "tmp"):
        (tmp_path / name).mkdir()
    row = {digests.of(BLOB): Place(PACK, 40, 60, len(BLOB))}
    writer = PackWriter(str(tmp_path / "packs"), str(tmp_path / "tmp"))
    session = Session(str(tmp_path), writer, lambda _: b"", lambda wanted: {key: row[key] for key in wanted}, live, lambda size: None)
    session.put_file(BLOB)
    packs = session.finish()
    assert [digest for found in packs.values() for digest, _ in found.rows] == ([] if stored else [digests.of(BLOB)])
