"""The ledger: what was acknowledged is there or its loss is said; what was not is cut and no harm done."""

import errno
import os

import pytest

from casrewind import errors, fsio
from casrewind.store import ledger
from casrewind.store.ledger import Ledger

PAYLOADS = [b"one", b"", b"three" * 50, b"CRE1 looks like a record"]


@pytest.fixture
def book(tmp_path):
    made = Ledger(str(tmp_path / "ledger"))
    made.create()
    return made


def records(payloads=PAYLOADS, first=1):
    return [ledger.encode(ledger.CHECKPOINT, seq, payload) for seq, payload in enumerate(payloads, first)]


def filled(book, payloads=PAYLOADS):
    end = ledger.HEAD.size
    for record in records(payloads):
        end = book.append(end, record)
    return end


def read(book, start=0, acknowledged=0):
    return [(record.seq, record.payload) for record in book.read(start, acknowledged)]


def whole(book):
    with open(book.path, "rb") as file:
        return file.read()


def put(book, data):
    with open(book.path, "wb") as file:
        file.write(data)


def test_records_come_back_in_order_with_their_numbers(book):
    end = filled(book)
    assert read(book) == list(enumerate(PAYLOADS, 1))
    assert book.size() == end
    middle = next(iter(book.read(0, 0))).end
    assert read(book, middle, end) == list(enumerate(PAYLOADS, 1))[1:]
    assert read(book, end, end) == []


def test_every_ledger_file_has_an_id_of_its_own(book, tmp_path):
    other = Ledger(str(tmp_path / "other"))
    other.create()
    assert len(book.identity()) == 16
    assert book.identity() != other.identity()
    assert os.stat(book.path).st_mode & 0o777 == 0o600


def test_a_torn_tail_of_every_length_is_passed_over_and_cut_by_the_next_append(book, tmp_path):
    end = filled(book)
    sound = whole(book)
    torn = ledger.encode(ledger.CHECKPOINT, 5, b"never acknowledged")
    for length in range(1, len(torn)):
        put(book, sound + torn[:length])
        assert read(book, 0, end) == list(enumerate(PAYLOADS, 1))
        after = book.append(end, ledger.encode(ledger.CHECKPOINT, 5, b"next"))
        assert read(book, 0, after) == [*enumerate(PAYLOADS, 1), (5, b"next")]
        (kept,) = [name for name in os.listdir(tmp_path) if name.startswith("ledger.cut-")]
        assert (tmp_path / kept).read_bytes() == torn[:length]
        assert os.stat(tmp_path / kept).st_mode & 0o777 == 0o600
        os.unlink(tmp_path / kept)


@pytest.mark.parametrize("fill", [b"\0", b"\xff", b"CRE1"])
def test_a_tail_of_anything_at_all_that_was_never_acknowledged_is_passed_over(book, fill):
    end = filled(book)
    put(book, whole(book) + fill * 1000)
    assert len(read(book, 0, end)) == len(PAYLOADS)


def test_a_flip_of_any_byte_that_was_acknowledged_is_damage(book):
    end = filled(book)
    sound = whole(book)
    for position in range(ledger.HEAD.size, end):
        damaged = bytearray(sound)
        damaged[position] ^= 0x04
        put(book, damaged)
        with pytest.raises(errors.LedgerCorrupt):
            read(book, 0, end)


def test_without_an_index_a_flip_is_damage_wherever_a_sound_record_follows(book):
    """Nothing tells what was acknowledged, but a torn append has nothing sound behind it."""
    end = filled(book)
    sound = whole(book)
    last = end - len(records()[-1])
    for position in range(ledger.HEAD.size, last):
        damaged = bytearray(sound)
        damaged[position] ^= 0x04
        put(book, damaged)
        with pytest.raises(errors.LedgerCorrupt):
            read(book)


def test_a_flip_in_the_head_is_damage_or_another_ledger(book):
    filled(book)
    sound, identity = whole(book), book.identity()
    for position in range(ledger.HEAD.size):
        damaged = bytearray(sound)
        damaged[position] ^= 0x04
        put(book, damaged)
        try:
            assert book.identity() != identity
        except (errors.LedgerCorrupt, errors.FormatUnsupported):
            pass


def test_a_cut_before_the_acknowledged_end_is_damage(book):
    end = filled(book)
    sound = whole(book)
    for length in range(end):
        put(book, sound[:length])
        with pytest.raises(errors.LedgerCorrupt):
            read(book, 0, end)
        with pytest.raises(errors.LedgerCorrupt):
            read(book, end, end)


def test_a_newer_ledger_version_is_refused(book):
    put(book, whole(book)[:4] + (3).to_bytes(4, "little") + whole(book)[8:])
    with pytest.raises(errors.FormatUnsupported):
        book.identity()


def test_a_failed_sync_takes_the_record_back(book, monkeypatch):
    end = filled(book)
    before = whole(book)

    def sync(fd, **_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(fsio, "sync_fd", sync)
        with pytest.raises(OSError, match="Input/output"):
            book.append(end, ledger.encode(ledger.CHECKPOINT, 5, b"lost"))
    assert whole(book) == before
    book.append(end, ledger.encode(ledger.CHECKPOINT, 5, b"next"))
    assert read(book)[-1] == (5, b"next")


def test_a_record_that_would_be_too_large_is_refused_before_anything_is_written(book):
    filled(book)
    with pytest.raises(errors.StoreError):
        ledger.encode(ledger.LABEL, 1, bytes(ledger.MAX_PAYLOAD + 1))


def test_a_ledger_that_is_a_link_is_not_followed(book, tmp_path):
    end = filled(book)
    os.rename(book.path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", book.path)
    before = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(OSError, match="symbolic links"):
        book.append(end, records()[0])
    assert (tmp_path / "elsewhere").read_bytes() == before


# -- reading in pieces


def test_records_across_the_border_of_two_pieces_come_back(book):
    sizes = [(1 << 20) - 100, 3 << 20, 10, (1 << 24), 1, (1 << 20) * 2]
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    end = filled(book, payloads)
    assert [len(payload) for _, payload in read(book, 0, end)] == sizes
    first = next(iter(book.read(0, end))).end
    assert [len(payload) for _, payload in read(book, first, end)] == sizes[1:]


@pytest.mark.parametrize("size", [1, 1 << 20, (1 << 20) + 1, 1 << 24])
def test_a_torn_record_of_any_size_is_cut_and_kept(book, size):
    end = filled(book)
    torn = ledger.encode(ledger.CHECKPOINT, 9, b"t" * size)[:-1]
    with open(book.path, "ab") as file:
        file.write(torn)
    assert read(book, 0, end) == list(enumerate(PAYLOADS, 1))
    book.append(end, records([b"next"], 5)[0])
    assert read(book)[-1] == (5, b"next")
    directory = os.path.dirname(book.path)
    [kept] = [name for name in os.listdir(directory) if name.startswith("ledger.cut-")]
    assert os.stat(os.path.join(directory, kept)).st_size == len(torn)


def test_more_bytes_than_a_record_has_are_damage_wherever_they_are(book):
    end = filled(book)
    os.truncate(book.path, end + ledger.LONGEST)
    assert len(read(book, 0, end)) == len(PAYLOADS)
    os.truncate(book.path, end + ledger.LONGEST + 1)
    for start in (0, end):
        with pytest.raises(errors.LedgerCorrupt, match="verify --repair"):
            read(book, start, end)
    with pytest.raises(errors.LedgerCorrupt):
        book.append(end, records([b"next"], 5)[0])
    assert book.size() == end + ledger.LONGEST + 1, "nothing was cut"


def test_false_heads_without_number_are_damage_and_take_no_time(book):
    end = filled(book)
    head = ledger.RECORD.pack(ledger.RECORD_MAGIC, ledger.CHECKPOINT, 0, 0, 5, 8 << 20)
    with open(book.path, "ab") as file:
        file.write(b"x" + head * (ledger.LONGEST // len(head) - 1))
    with pytest.raises(errors.LedgerCorrupt):
        read(book, 0, end)
