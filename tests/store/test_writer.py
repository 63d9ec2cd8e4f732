"""A session decides what need not be stored again: the one decision that loses content when it is wrong."""

import os
import random

import pytest

from casrewind.model import digest as digests
from casrewind.store import packs as packing
from casrewind.store import writer as sessions
from casrewind.store.packs import PackReader, PackWriter, BlobLocation
from casrewind.store.writer import StoreWriter

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
    row = {digests.of(BLOB): BlobLocation(PACK, 40, 60, len(BLOB))}
    writer = PackWriter(str(tmp_path / "packs"), str(tmp_path / "tmp"))
    session = StoreWriter(str(tmp_path), writer, lambda _: b"", lambda wanted: {key: row[key] for key in wanted}, live, lambda size: None)
    session.put_file(BLOB)
    assert list(session.write_and_sync_packs().places) == ([] if stored else [digests.of(BLOB)])


@pytest.fixture
def opened(tmp_path):
    for name in ("packs", "tmp"):
        (tmp_path / name).mkdir()
    writer = PackWriter(str(tmp_path / "packs"), str(tmp_path / "tmp"))
    session = StoreWriter(str(tmp_path), writer, lambda _: b"", lambda _: {}, {}, lambda size: None)
    yield session
    writer.remove_unfinished()
    session.drop_pending_and_wait()


def contents(count):
    chance = random.Random(3)
    return [chance.randbytes(chance.randint(1, 9000)) + b"x" * 5000 for _ in range(count)]


def test_what_is_compressed_beside_the_scan_can_be_read_all_the_time_and_is_written_in_order(opened, monkeypatch):
    monkeypatch.setattr(sessions, "_BATCH_BYTES", 300_000)
    blobs = contents(200)
    for number, blob in enumerate(blobs):
        digest = opened.put(packing.TREE, blob) if number % 3 == 0 else opened.put_file(blob)
        assert opened.read(digest) == blob
    assert all(opened.read(digests.of(blob)) == blob for blob in blobs)
    (pack,), places = opened.write_and_sync_packs()
    found, offsets = zip(*((digest, place.offset) for digest, place in places.of_pack(pack)), strict=True)
    assert sorted(found) == sorted(map(digests.of, blobs))
    assert list(offsets) == sorted(offsets)
    trees = {digests.of(blob) for blob in blobs[::3]}
    kinds = "".join("t" if digest in trees else "f" for digest in found)
    assert kinds.count("tf") < 10  # in each batch, content stands before the trees that name it


def test_where_no_thread_can_be_had_the_same_is_written(opened, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sessions, "_BATCH_BYTES", 100_000)
    monkeypatch.setattr(packing._thread, "start_new_thread", refuse)
    blobs = contents(60)
    found = [opened.put_file(blob) for blob in blobs]
    assert list(opened.write_and_sync_packs().places) == found


def test_what_went_wrong_beside_the_scan_is_raised_where_it_matters(opened, monkeypatch):
    def fail(blobs, *, beside=False):
        raise MemoryError(f"{len(blobs)} {beside}")

    monkeypatch.setattr(sessions, "_BATCH_BLOBS", 3)
    monkeypatch.setattr(packing, "compress", fail)
    for blob in contents(3):
        opened.put_file(blob)
    with pytest.raises(MemoryError, match="3 True"):
        opened.write_pending()
    with pytest.raises(MemoryError, match="3 True"):
        opened.write_and_sync_packs()
    opened.drop_pending_and_wait()
    assert opened.write_and_sync_packs().sizes == {}


def test_records_that_are_written_together_begin_in_no_full_pack(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(packing, "MAX_SIZE", 50_000)
    blobs = contents(40)
    opened.put_file(b"first")
    found = [opened.put_file(blob) for blob in blobs]
    done = opened.write_and_sync_packs()
    assert len(done.sizes) > 3
    reader = PackReader(str(tmp_path / "packs"))
    places = {digest: place for pack in done.sizes for digest, place in done.places.of_pack(pack)}
    for digest, blob in zip(found, blobs, strict=True):
        assert places[digest].offset < 50_000 and reader.read(places[digest], digest) == blob
    reader.close()
    for name, size in done.sizes.items():
        assert size == os.path.getsize(tmp_path / "packs" / f"{name}.pack")
        assert size == max(place.offset + place.length for _, place in done.places.of_pack(name))


def test_what_a_writer_has_finished_is_in_the_index(workspace):
    """A clone finishes many times: what was written before it is neither written nor fetched again."""
    store = workspace._context.store
    with store.writing() as writer:
        first = writer.put(packing.FILE, BLOB, is_new=True)
        assert list(writer.neither_stored_nor_pending([first, bytes(32)])) == [bytes(32)]
        store.add_blobs(writer)
        written = writer.bytes_written
        assert list(writer.neither_stored_nor_pending([first, bytes(32)])) == [bytes(32)] and writer.read(first) == BLOB
        assert writer.put_file(BLOB) == first and not writer.unpublished()
        store.add_blobs(writer)
        assert writer.bytes_written == written
