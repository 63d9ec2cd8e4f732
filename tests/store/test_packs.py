"""Packs: what is handed out is what was put in, or nothing is handed out."""

import errno
import os
import random

import pytest

from casrewind import errors, fsio
from casrewind.model import digest as digests
from casrewind.store import packs
from casrewind.store.packs import PackReader, PackWriter


@pytest.fixture
def place(tmp_path):
    for name in ("packs", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


def writer(place):
    return PackWriter(str(place / "packs"), str(place / "tmp"))


def written(place, *blobs, kind=packs.FILE):
    """One pack with these blobs; (its path, {digest: place})."""
    pen = writer(place)
    pen.append(kind, [(digests.of(blob), blob) for blob in blobs])
    ((name,), places) = pen.sync_and_name_packs()
    pen.remove_unfinished()
    return place / "packs" / (name + packs.SUFFIX), dict(places.of_pack(name))


def names(place):
    return sorted(os.listdir(place / "packs")), os.listdir(place / "tmp")


TEXT = b"the same words again and again, " * 40
NOISE = random.Random(1).randbytes(1500)


@pytest.mark.parametrize("blob", [b"", b"x", TEXT, NOISE, bytes(300_000)], ids=["empty", "one", "text", "noise", "zeros"])
def test_a_blob_comes_back_from_a_new_pack_and_before_the_pack_is_finished(place, blob):
    pen = writer(place)
    digest = digests.of(blob)
    pen.append(packs.FILE, [(digest, blob)])
    assert pen.read(digest) == blob
    assert pen.read(digests.of(b"another")) is None
    finished, places = pen.sync_and_name_packs()
    ((name, size),) = finished.items()
    assert pen.read(digest) is None  # not the writer's any more
    reader = PackReader(str(place / "packs"))
    assert reader.read(places.get(digest), digest) == blob
    assert list(packs.records_of_pack(str(place / "packs"), name)) == list(places.of_pack(name))
    assert packs.pack_sizes(str(place / "packs"), {}) == {name: size}
    reader.close()


def test_bytes_that_do_not_get_smaller_are_stored_as_they_are(place):
    pack, rows = written(place, NOISE, TEXT, b"")
    data = pack.read_bytes()
    codecs = {digest: packs.decode_record_head(data[row.offset :])[1] for digest, row in rows.items()}
    assert codecs == {digests.of(NOISE): packs.RAW, digests.of(TEXT): packs.ZSTD, digests.of(b""): packs.RAW}
    assert NOISE in data
    assert TEXT not in data


def test_many_blobs_at_once_are_compressed_in_order(place):
    """From 256 KiB on, several cores work; the frames must not change places, empty blobs included."""
    source = random.Random(2)
    blobs = [b"", *(bytes([n % 251]) * source.randrange(1, 9000) + source.randbytes(8) for n in range(200)), b"a"]
    pack, rows = written(place, *blobs)
    reader = PackReader(str(place / "packs"))
    for blob in blobs:
        assert reader.read(rows[digests.of(blob)], digests.of(blob)) == blob
    reader.close()
    assert pack.stat().st_size > 1000


def test_a_full_pack_is_followed_by_another(place, monkeypatch):
    monkeypatch.setattr(packs, "MAX_SIZE", 4000)
    blobs = [random.Random(n).randbytes(1000) for n in range(20)]
    pen = writer(place)
    for blob in blobs:
        pen.append(packs.FILE, [(digests.of(blob), blob)])
    done = pen.sync_and_name_packs()
    assert len(done.sizes) == 5
    assert all(size < 4000 + 1100 for size in done.sizes.values())
    rows = {digest: row for pack in done.sizes for digest, row in done.places.of_pack(pack)}
    reader = PackReader(str(place / "packs"))
    for blob in blobs:
        assert reader.read(rows[digests.of(blob)], digests.of(blob)) == blob
    reader.close()


def test_the_reader_keeps_few_packs_open_whatever_there_are(place):
    packed = [written(place, b"blob %d" % n) for n in range(40)]
    reader = PackReader(str(place / "packs"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        for number, (_, rows) in enumerate(packed):
            blob = b"blob %d" % number
            assert reader.read(rows[digests.of(blob)], digests.of(blob)) == blob
    assert len(os.listdir("/proc/self/fd")) - before <= 16
    reader.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_abort_leaves_nothing_behind(place):
    pen = writer(place)
    pen.append(packs.FILE, [(digests.of(b"x"), b"x")])
    assert names(place)[0] == []
    assert len(names(place)[1]) == 1
    pen.remove_unfinished()
    assert names(place) == ([], [])


def test_finished_packs_are_private_and_left_alone_by_a_later_abort(place):
    previous = os.umask(0)
    try:
        pack, _ = written(place, b"x")
    finally:
        os.umask(previous)
    assert pack.stat().st_mode & 0o777 == 0o600
    assert names(place) == ([pack.name], [])


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failed_sync_of_any_pack_leaves_no_named_pack(place, monkeypatch, failing):
    """Injected: a kernel that reports an error once, as it does after losing dirty pages."""
    monkeypatch.setattr(packs, "MAX_SIZE", 100)
    pen = writer(place)
    for blob in (NOISE, NOISE[:-1]):
        pen.append(packs.FILE, [(digests.of(blob), blob)])
    calls = []

    def sync(fd, **_):
        calls.append(fd)
        if len(calls) - 1 == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fsio, "sync_fd", sync)
    with pytest.raises(OSError, match="Input/output"):
        pen.sync_and_name_packs()
    assert len(calls) == failing + 1  # not tried again
    pen.remove_unfinished()
    assert names(place) == ([], [])


def test_a_failed_sync_of_the_directory_fails_the_save_and_keeps_what_others_may_have_seen(place, monkeypatch):
    """The pack has its name already: another process may rely on it, so it stays, as garbage that is whole."""
    pen = writer(place)
    pen.append(packs.FILE, [(digests.of(TEXT), TEXT)])

    def sync(path, **_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fsio, "sync_directory", sync)
    with pytest.raises(OSError, match="Input/output"):
        pen.sync_and_name_packs()
    pen.remove_unfinished()
    (name,), drafts = names(place)
    assert drafts == []
    ((digest, row),) = packs.records_of_pack(str(place / "packs"), name.removesuffix(packs.SUFFIX))
    reader = PackReader(str(place / "packs"))
    assert reader.read(row, digest) == TEXT
    reader.close()


def test_a_flip_of_any_bit_group_in_a_record_is_noticed_and_never_handed_out(place):
    """Every byte of two records (one compressed, one not), two kinds of flip each."""
    pack, rows = written(place, b"words words words words words words" * 3, NOISE[:60])
    whole = pack.read_bytes()
    reader = PackReader(str(place / "packs"))
    tried = 0
    for digest, row in rows.items():
        for position in range(row.offset, row.offset + row.length):
            for mask in (0x01, 0x80, 0xFF):
                damaged = bytearray(whole)
                damaged[position] ^= mask
                pack.write_bytes(damaged)
                with pytest.raises(errors.BlobCorrupt):
                    reader.read(row, digest)
                tried += 1
    assert tried == 3 * sum(row.length for row in rows.values())
    pack.write_bytes(whole)
    for digest, row in rows.items():
        assert digests.of(reader.read(row, digest)) == digest
    reader.close()


def test_a_frame_that_claims_a_huge_content_does_not_get_the_memory(place):
    """The head's lengths are under a checksum, the zstd frame's own length field is not."""
    blob = bytes(70_000)
    digest = digests.of(blob)
    frame = bytearray(packs.compress([blob])[0])
    frame[4] = 0xC0 | (frame[4] & 0x3F)  # an eight-byte content size field
    frame[5:9] = (1 << 61).to_bytes(8, "little")
    record = packs.encode_head(packs.FILE, packs.ZSTD, digest, len(blob), len(frame)) + bytes(frame)
    with pytest.raises(errors.BlobCorrupt):
        packs.checked_blob_of_record(record, digest, "p")


@pytest.mark.parametrize(
    "wrong",
    [{"offset": 1 << 63}, {"offset": (1 << 64) - 1}, {"length": (1 << 32) - 1}, {"offset": 0}, {"length": 0}, {"length": 5},
     {"offset": 9}],
)  # fmt: skip
def test_a_wrong_place_is_a_damaged_blob_and_no_crash(place, wrong):
    _, rows = written(place, TEXT)
    ((digest, row),) = rows.items()
    reader = PackReader(str(place / "packs"))
    with pytest.raises(errors.BlobCorrupt):
        reader.read(row._replace(**wrong), digest)
    with pytest.raises(errors.BlobMissing):
        reader.read(row._replace(pack="0" * 20), digest)
    reader.close()


def test_a_damaged_head_does_not_hide_the_records_behind_it(place):
    blobs = [b"first " * 30, NOISE, b"third " * 30, b"fourth " * 30]
    pack, rows = written(place, *blobs)
    whole = pack.read_bytes()
    for lost, blob in enumerate(blobs):
        row = rows[digests.of(blob)]
        for at in (0, 4, 9, 41, 46, 51):  # magic, kind, digest, lengths, checksum
            damaged = bytearray(whole)
            damaged[row.offset + at] ^= 0x10
            pack.write_bytes(damaged)
            found = dict(packs.records_of_pack(str(place / "packs"), pack.name.removesuffix(packs.SUFFIX)))
            assert found == {d: r for d, r in rows.items() if d != digests.of(blobs[lost])}


def test_the_search_for_the_next_head_is_not_fooled_by_bytes_that_look_like_one(place):
    decoy = b"noise " + packs.RECORD_MAGIC + NOISE[:80] + packs.RECORD_MAGIC
    pack, rows = written(place, decoy, b"behind the decoy")
    damaged = bytearray(pack.read_bytes())
    damaged[rows[digests.of(decoy)].offset] ^= 1
    pack.write_bytes(damaged)
    found = dict(packs.records_of_pack(str(place / "packs"), pack.name.removesuffix(packs.SUFFIX)))
    assert list(found) == [digests.of(b"behind the decoy")]


def test_a_next_head_across_the_seam_of_two_reads_is_found(place):
    filler = random.Random(3).randbytes((1 << 20) + 3000)
    for less in range(0, 60, 7):  # so that the second head starts a little before, on and behind the seam at 1 MiB
        first = filler[: (1 << 20) - 52 - 8 - less + 30]
        pack, rows = written(place, first, b"second")
        damaged = bytearray(pack.read_bytes())
        damaged[8] ^= 1
        pack.write_bytes(damaged)
        found = dict(packs.records_of_pack(str(place / "packs"), pack.name.removesuffix(packs.SUFFIX)))
        assert list(found) == [digests.of(b"second")]
        pack.unlink()


def test_every_cut_of_a_pack_gives_the_records_that_are_whole(place):
    blobs = [b"first " * 30, NOISE[:50], b"third"]
    pack, rows = written(place, *blobs)
    whole = pack.read_bytes()
    for length in range(len(whole)):
        pack.write_bytes(whole[:length])
        found = dict(packs.records_of_pack(str(place / "packs"), pack.name.removesuffix(packs.SUFFIX)))
        assert found == {digest: row for digest, row in rows.items() if row.offset + row.length <= length}
