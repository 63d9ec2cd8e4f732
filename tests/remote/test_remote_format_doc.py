"""docs/internals/remote-format.md is true: its examples decode to the values beside them and encode to the same bytes."""

import re
import struct
from pathlib import Path
from types import SimpleNamespace

import casrewind
import pytest

from casrewind.model import digest as digests
from casrewind.remote.allowance import RECORD_WEIGHT, RECORDS_FLOOR, RECORDS_RATIO
from casrewind.remote import names, objects, piece, seal
from casrewind.store import packs
from support import handmade_pieces as handmade

DOCUMENT = Path(__file__).parents[2] / "docs" / "internals" / "remote-format.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
_BLOCK = re.compile(r"```hex\n# example: (.+)\n((?:.*\n)+?)```\n\n```text\n((?:.*\n)+?)```\n")
EXAMPLES = {
    name: (
        bytes.fromhex("".join(line.partition("#")[0] for line in lines.splitlines())),
        dict(line.split(" = ", 1) for line in values.splitlines()),
    )
    for name, lines, values in _BLOCK.findall(TEXT)
}
MASTER = bytes(range(32))
REMOTE = handmade.IDENTITY
KEYS = seal.Keys(MASTER, REMOTE)
PIECE, VALUES = EXAMPLES["piece"]


def reader():
    return piece.PieceReader(KEYS, VALUES["name"], len(PIECE), lambda start, end: PIECE[start:end])


def test_the_page_has_all_examples():
    assert EXAMPLES.keys() == {"head of a remote", "locked key", "piece", "table", "records", "roll-up", "replaced piece", "end", "hold", "dead"}


def test_the_head_of_a_remote():
    data, values = EXAMPLES["head of a remote"]
    assert seal.check_head(MASTER, data).hex() == values["id"] == REMOTE.hex() and values["version"] == str(seal.VERSION)
    assert seal.remote_head(MASTER, REMOTE) == data
    key = handmade.object_key(MASTER, handmade.mac_of(MASTER, [data[:35]]), "casrewind")
    assert handmade.opened(key, 0, data[35:51]) == b"" and digests.of(data[:51])[:16] == data[51:]


def test_the_locked_key(monkeypatch):
    data, values = EXAMPLES["locked key"]
    assert seal.unlock_key(data, values["passphrase"], REMOTE) == MASTER == bytes.fromhex(values["master key"])
    monkeypatch.setattr(seal.os, "urandom", lambda length: data[4 : 4 + length])
    assert seal.lock_key(MASTER, values["passphrase"], REMOTE) == data
    import hashlib

    secret = hashlib.scrypt(values["passphrase"].encode(), salt=data[4:20] + REMOTE, n=1 << 16, r=8, p=1, maxmem=1 << 27, dklen=32)
    assert handmade.opened(secret, 0, data[20:68]) == MASTER and digests.of(data[:68])[:16] == data[68:]


def test_the_piece_is_what_the_product_reads():
    found = reader()
    values = {"name": VALUES["name"], "MAC": found.mac.hex()}
    uses = {blob.frame: blob.use for blob in found.table.blobs}
    for n, frame in enumerate(found.table.frames):
        values[f"frame {n}"] = f"use={uses.get(n, 2)} sealed={frame.sealed} compressed={frame.stored} plain={frame.plain}"
    data = {digest: data for digest, _, data in found.blobs({blob.digest for blob in found.table.blobs})}
    for n, blob in enumerate(found.table.blobs):
        assert digests.of(data[blob.digest]) == blob.digest
        values[f"blob {n}"] = f"use={blob.use} frame={blob.frame} {data[blob.digest].hex()}"
    values |= {f"record {n}": f"kind={kind} seq={seq} {payload.hex()}" for n, (kind, seq, payload) in enumerate(found.records())}
    assert values == VALUES


def test_the_piece_is_what_the_product_writes(monkeypatch):
    table = EXAMPLES["table"][1]
    monkeypatch.setattr(casrewind, "__version__", table["version"])
    found, builder = reader(), piece.PieceBuilder(KEYS)
    for digest, use, data in found.blobs({blob.digest for blob in found.table.blobs}):
        builder.add(digest, use, data)
    builder.add_records(found.records())
    made = builder.finish(VALUES["name"], bytes.fromhex(table["before"]), bytes.fromhex(table["push"]), table["machine"])
    assert made == (PIECE, bytes.fromhex(VALUES["MAC"]))


def test_a_reader_of_the_document_alone_reads_the_piece():
    fields, rows, plain = handmade.read_piece(MASTER, VALUES["name"], PIECE)
    assert handmade.fields_of(fields.items()) == EXAMPLES["table"][0] and plain[2] == EXAMPLES["records"][0]
    assert [row[0] + 16 for row in rows] == [frame.sealed for frame in reader().table.frames]


def test_the_table_and_the_records():
    table, data = reader().table, EXAMPLES["table"][1]
    shown = {"frames": len(table.frames), "blobs": len(table.blobs), "records": table.records, "machine": table.machine, "version": table.version}
    assert {key: str(value) for key, value in shown.items()} | {"before": table.before.hex(), "push": table.push.hex()} == data
    records = {str(n): f"kind={kind} seq={seq} {payload.hex()}" for n, (kind, seq, payload) in enumerate(reader().records())}
    assert records == EXAMPLES["records"][1]


def test_the_roll_up_and_a_piece_that_it_replaced(monkeypatch):
    from casrewind.remote import collect

    data, values = EXAMPLES["roll-up"]
    found = piece.PieceReader(KEYS, values["name"], len(data), lambda start, end: data[start:end])
    shown = {"name": values["name"], "MAC": found.mac.hex(), "before": found.table.before.hex(), "rolled up": found.mac_at_end.hex()}
    shown |= {f"blob {n}": f"use={use} {one.hex()}" for n, (_, use, one) in enumerate(found.blobs({blob.digest for blob in found.table.blobs}))}
    shown |= {f"record {n}": f"kind={kind} seq={seq} {payload.hex()}" for n, (kind, seq, payload) in enumerate(found.records())}
    assert shown == values and not found.is_replaced and not found.is_end
    assert handmade.read_piece(MASTER, values["name"], data)[0][8] == found.table.rolled_up
    monkeypatch.setattr(casrewind, "__version__", found.table.version)
    builder = piece.PieceBuilder(KEYS)
    for digest, use, one in found.blobs({blob.digest for blob in found.table.blobs}):
        builder.add(digest, use, one)
    builder.add_records(found.records())
    table = found.table
    assert builder.finish(values["name"], table.before, table.push, table.machine, table.rolled_up) == (data, found.mac)
    empty, shown = EXAMPLES["replaced piece"]
    assert collect.empty_piece(KEYS, shown["name"], bytes.fromhex(shown["rolled up"])) == empty and shown["rolled up"] == found.mac.hex()
    opened = piece.PieceReader(KEYS, shown["name"], len(empty), lambda start, end: empty[start:end])
    assert opened.is_replaced and not opened.is_end and handmade.read_piece(MASTER, shown["name"], empty)[0][8] == found.mac


def test_the_end_of_a_chain(monkeypatch):
    from casrewind.remote import collect

    data, values = EXAMPLES["end"]
    opened = piece.PieceReader(KEYS, values["name"], len(data), lambda start, end: data[start:end])
    assert (str(opened.table.end), opened.table.machine, values["reason"]) == ("1", values["machine"], "1 (purged)")
    gone = [bytes.fromhex(values[f"gone {n}"]) for n in range(2)]
    assert set(gone) == opened.table.gone == {KEYS.digest_of_purged(digests.of(one)) for one in (b"hello\n", b"world\n")}
    monkeypatch.setattr(casrewind, "__version__", opened.table.version)
    assert collect.empty_piece(KEYS, values["name"], machine=values["machine"], end=1, gone=gone) == data
    assert handmade.read_piece(MASTER, values["name"], data)[0][9] == struct.pack("<Q", 1) and opened.is_end


@pytest.mark.parametrize("kind", ["hold", "dead"])
def test_a_hold_and_a_dead_are_empty_pieces(monkeypatch, kind):
    from casrewind.remote import collect, piece_names

    data, values = EXAMPLES[kind]
    assert handmade.read_piece(MASTER, values["name"], data)[1:] == ([], [])
    opened = piece.PieceReader(KEYS, values["name"], len(data), lambda start, end: data[start:end])
    monkeypatch.setattr(casrewind, "__version__", opened.table.version)
    assert collect.empty_piece(KEYS, values["name"], machine=values["machine"]) == data and opened.table.machine == values["machine"]
    assert not piece_names.all_pieces_of([objects.ObjectInfo(values["name"], len(data), 7)])
    if kind == "hold":
        own, _, other = values["name"].partition("/hold-")
        assert piece_names.holds_of([objects.ObjectInfo(values["name"], len(data), 7)]) == {own: {other: 7}}
        assert piece_names.hold_name(own, other) == values["name"]


def test_the_vectors():
    vectors = dict(re.findall(r"^\| ([^|]+) \| `([0-9a-f]+)` \|$", TEXT, re.MULTILINE))
    mac = KEYS.mac([b"", b"ab", b"c"])
    key = handmade.object_key(MASTER, mac, VALUES["name"])
    laptop = names.Name(names.MACHINE, "", "laptop")
    entry = objects.ObjectInfo(names._name_of_entry(SimpleNamespace(keys=KEYS), laptop, "8235499999", VALUES["name"][:32], ""), 0, 0)
    assert {name: bytes.fromhex(value) for name, value in vectors.items()} == {
        "key for MACs": digests.derived_key("casrewind remote 2: the MAC of an object", MASTER + REMOTE),
        "key for objects": digests.derived_key("casrewind remote 2: the key of an object", MASTER + REMOTE),
        "key for digests": handmade.derived(MASTER, REMOTE, "the digest of purged content"),
        "key for names": digests.derived_key("casrewind remote 2: the digest of a name", MASTER + REMOTE),
        "digits of the hint for `2026-11-29`": bytes.fromhex(KEYS.digits_of_name("day", "2026-11-29", VALUES["name"].partition("/")[0]))[:8],
        "digest of the machine `laptop`": bytes.fromhex(KEYS.digits_of_name("machine", "", "laptop")),
        "digits of its entry": bytes.fromhex(entry.name.rpartition("-")[2]),
        "MAC of the parts": mac,
        "key of the object with this MAC": key,
        "purged `68656c6c6f0a`": KEYS.digest_of_purged(digests.of(b"hello\n")),
        "part 3, sealed": KEYS.box(mac, VALUES["name"]).seal(3, b"hello\n"),
    }
    gone = handmade.keyed(handmade.derived(MASTER, REMOTE, "the digest of purged content"), [digests.of(b"hello\n")])
    assert gone[:16].hex() == vectors["purged `68656c6c6f0a`"]
    hint = handmade.keyed(handmade.derived(MASTER, REMOTE, "the digest of a name"), [b"day", b"2026-11-29", VALUES["name"][:32].encode()])
    assert hint[:8].hex() == vectors["digits of the hint for `2026-11-29`"]
    of_names = handmade.derived(MASTER, REMOTE, "the digest of a name")
    start = f"names/{vectors['digest of the machine `laptop`']}/8235499999-{VALUES['name'][:32]}-"
    assert handmade.keyed(of_names, [b"machine", b"", b"laptop"])[:16].hex() == vectors["digest of the machine `laptop`"]
    assert f"{start}-{handmade.keyed(of_names, [b'entry', start.encode()])[:16].hex()}" == entry.name
    assert names._time_of("8235499999") == 1_764_500_000 * 10**9 and "1,764,500,000" in TEXT
    assert handmade.sealed(key, 3, b"hello\n").hex() == vectors["part 3, sealed"]


def test_the_page_has_the_limits_of_the_code():
    rows = re.findall(r"^\| (\d) \| [^|]+ \| (\d+) MiB \| (\d+) MiB( \+ 13)? \|$", TEXT, re.MULTILINE)
    assert {int(use): int(full) << 20 for use, full, _, _ in rows} == piece._FULL
    assert {int(use): (int(most) << 20) + (13 if more else 0) for use, _, most, more in rows} == piece.MOST
    assert f"at most {piece.MOST_TABLE >> 20} MiB plain" in TEXT and f"at most {piece.MOST_RECORDS >> 20} MiB." in TEXT
    assert f"At most {piece.MOST_FRAMES:,} frames" in TEXT and max(packs.MOST[packs.TREE], packs.MOST[packs.CHUNK_LIST]) < piece.MOST[piece.CONTAINER]
    assert f"at most {piece.TABLE_RATIO} bytes for each compressed one and {piece.TABLE_FLOOR:,} more" in TEXT
    assert f"{RECORDS_FLOOR >> 20} MiB, and {RECORDS_RATIO} bytes for each stored byte" in TEXT and f"payload and {RECORD_WEIGHT:,} bytes" in TEXT


@pytest.mark.parametrize("number", [piece._TABLE_NUMBER, piece._PADDING_NUMBER])
def test_the_page_has_the_number_of_the_table(number):
    assert f"{number:,}" in TEXT


def test_the_page_has_the_fields_of_the_state():
    from casrewind.model import tlv
    from casrewind.remote import sync_state

    part = TEXT.partition("| tag | field of `state` |")[2]
    rows = {int(tag): name for tag, name in re.findall(r"^\| (\d+) \| ([a-z ]+) \|", part, re.MULTILINE)}
    position = sync_state.LedgerPosition(b"l" * 16, 7, 8)
    chains = {"c": sync_state.ReadChain("m", 3, b"n" * 32)}
    data = sync_state.encode(sync_state.SyncState("own", 2, b"m" * 32, 4, (b"p" * 32, b"q" * 32), position, 9, chains, {"old": sync_state.EndedChain(5, 1, b"gone")}, 12, ("hurt",), 14, sync_state.BaseChain("b", 6, b"o" * 32), "url", 17, 18, 19, b"r" * 32, 21, b"t" * 32, ("2026-11-29",), sync_state.RemoteLists(1, 2, 3, 4), "laptop"))
    assert digests.of(data[32:]) == data[:32]
    found = tlv.Fields(data[32:], "state")
    texts, numbers = {1: "own", 16: "url", 25: "laptop"}, {2: 2, 4: 4, 7: 7, 8: 8, 9: 9, 12: 12, 14: 14, 17: 17, 18: 18, 19: 19, 21: 21}
    raw = {3: b"m" * 32, 20: b"r" * 32, 22: b"t" * 32, 6: b"l" * 16}
    assert {tag: found.text(tag) for tag in texts} == texts and {tag: found.number(tag) for tag in numbers} == numbers
    assert {tag: found.bytes_or_empty(tag) for tag in raw} == raw
    (one,), (ended,) = (tlv.decode_list(found.bytes_or_empty(tag), "list") for tag in (10, 11))
    one, ended = tlv.Fields(one, "chain"), tlv.Fields(ended, "ended")
    assert (one.text(1), one.text(2), one.number(3), one.bytes_or_empty(4)) == ("c", "m", 3, b"n" * 32) and (ended.text(1), ended.number(3), ended.number(6), ended.bytes_or_empty(7)) == ("old", 5, 1, b"gone")
    assert tlv.decode_list(found.bytes_or_empty(13), "list") == [b"hurt"] and tlv.decode_list(found.bytes_or_empty(5), "list") == [b"p" * 32, b"q" * 32]
    assert tlv.decode_list(found.bytes_or_empty(23), "list") == [b"2026-11-29"]
    listed = tlv.Fields(found.bytes_or_empty(24), "listed")
    assert [listed.number(tag) for tag in range(1, 5)] == [1, 2, 3, 4] and not listed.has_any([5])
    base = tlv.Fields(found.bytes_or_empty(15), "base")
    assert (base.text(1), base.number(3), base.bytes_or_empty(4)) == ("b", 6, b"o" * 32)
    assert rows.keys() == texts.keys() | numbers.keys() | raw.keys() | {5, 10, 11, 13, 15, 23, 24} and not found.has_any([26])


@pytest.mark.parametrize("master", [None, MASTER], ids=["plain", "sealed"])
def test_an_export_is_what_the_page_says(tmp_path, master):
    from io import BytesIO

    from casrewind.remote import archive
    from support.machines import Machine

    machine = Machine(tmp_path, "file:///nowhere")
    machine.save({"a": b"the content"})
    stream = BytesIO()
    with machine.open() as workspace:
        archive.export(workspace._context, stream, master, None, None)
    line, _, rest = stream.getvalue().partition(b"\n")
    assert line == b"casrewind export 2 " + (b"sealed" if master else b"plain") and f'"{line.decode()}"' in TEXT
    objects = []
    while rest:
        name, size = struct.unpack("<HQ", rest[:10])
        objects.append((rest[10 : 10 + name].decode(), rest[10 + name : 10 + name + size]))
        rest = rest[10 + name + size :]
    (head, first), (name, data) = objects
    assert head == "casrewind" and name.endswith("/0000000001-0000000001")
    assert handmade.read_piece(master or bytes(32), name, data, first[19:35])[2][0] == b"the content"
