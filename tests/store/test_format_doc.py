"""docs/internals/format.md is true: its examples decode to the values beside them and encode to the same bytes."""

import re
import struct
import tempfile
from pathlib import Path

import pytest

from casrewind.model import checkpoint as checkpoints
from casrewind.model import digest as digests
from casrewind.model import domain as domains
from casrewind.model import manifest, plan, directory_nodes
from casrewind.model import undo_history
from casrewind.model import rewind_record as rewinds
from casrewind.model import stamp
from casrewind.store import catalog, chunker, journal, layout, ledger, packs, maintenance, stat_file
from casrewind.worktree import stat_index
from casrewind.worktree.stat_index import StatIndex
from support.zstd_frames import zstd

DOCUMENT = Path(__file__).parents[2] / "docs" / "internals" / "format.md"
_BLOCK = re.compile(r"```hex\n# example: (.+)\n((?:.*\n)+?)```\n\n```text\n((?:.*\n)+?)```\n")


def parse():
    """{name: (bytes, {what: value as text})} of the document's examples."""
    found = {}
    for name, lines, values in _BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")):
        data = bytes.fromhex("".join(line.partition("#")[0] for line in lines.splitlines()))
        pairs = [re.fullmatch(r"(.+?) =(?: (.*))?", line) for line in values.splitlines()]
        found[name] = (data, {pair[1]: pair[2] or "" for pair in pairs})
        assert len(found[name][1]) == len(pairs)
    return found


EXAMPLES = parse()


def entry_text(entry):
    if entry is None:
        return "none"
    parts = {"kind": entry.kind, "mode": oct(entry.mode)}
    if entry.kind in (manifest.FILE, manifest.PURGED):
        parts["size"] = entry.size
    if entry.kind == manifest.FILE:
        parts["mtime"] = entry.mtime_ns
    parts |= {"digest": entry.digest.hex(), "chunks": entry.chunks.hex(), "target": entry.target.decode()}
    return " ".join(f"{key}={value}" for key, value in parts.items() if value != "")


def file_format(data):
    return {"text": data.decode().rstrip("\n")}, layout.FORMAT


def pack_head(data):
    magic, version = struct.unpack("<4sI", data)
    assert (magic, version) == (packs.MAGIC, packs.VERSION)
    return {"version": version}, packs.HEAD


def pack_record(data):
    kind, codec, digest, raw, stored = packs.decode_record_head(data)
    blob = packs.checked_blob_of_record(data, digest, "example")
    values = {"kind": kind, "codec": codec, "digest": digest.hex(), "raw length": raw, "stored length": stored, "blob": blob.hex()}
    assert digests.of(blob) == digest
    return values, packs.encode_head(kind, codec, digest, raw, stored) + blob


def tree(data):
    rows = manifest.decode_tree(data)
    return {name.decode(): entry_text(entry) for name, entry in rows}, manifest.encode_tree(rows)


def list_of_nodes(data):
    found = directory_nodes.decode(data)
    return {"level": found.level} | {part.first.decode(): part.digest.hex() for part in found.parts}, directory_nodes.encode(found)


def chunk_list_node(data):
    level, items = chunker.decode_node(data)
    stored = []
    digest = chunker.encode_list(items, lambda node: stored.append(node) or digests.of(node))
    assert digest == digests.of(data)
    return {"level": level} | {f"item {n}": f"{i.digest.hex()} {i.length}" for n, i in enumerate(items)}, stored[0]


def domain(data):
    found = domains.decode(data)
    values = {
        "ignore case": int(found.ignore_case), "default excludes": int(found.default_excludes),
        "max file size": found.max_file_size, "ignored": found.ignored,
    }  # fmt: skip
    for n, rule in enumerate(found.rules):
        values[f"rule {n}"] = f"base={rule.base.decode()} source={rule.source} digest={rule.digest.hex()}"
    values |= {f"skipped {n}": f"{skip.path.decode()}: {skip.reason}" for n, skip in enumerate(found.skipped)}
    values |= {f"unstable {n}": path.decode() for n, path in enumerate(found.unstable)}
    return values, domains.encode(found)


def a_plan(data):
    found = plan.decode(data)
    values = {}
    for action in found:
        path = action.path.decode()
        values |= {f"{path} before": entry_text(action.before), f"{path} after": entry_text(action.after)}
        values[f"{path} source"] = action.source.decode()
    return values, plan.encode(found)


def ledger_head(data):
    magic, version, identity = ledger.HEAD.unpack(data)
    return {"version": version, "id": identity.hex()}, ledger.HEAD.pack(ledger.MAGIC, version, identity)


def ledger_record(data):
    record = ledger.decode(data, 0)
    assert record.end == len(data)
    values = {"kind": record.kind, "sequence number": record.seq, "payload": record.payload.hex()}
    return values, ledger.encode(record.kind, record.seq, record.payload)


def checkpoint(data):
    found = checkpoints.decode(0, data)
    values = found._asdict() | found.changes._asdict()
    for old, new in (("created_ns", "created"), ("size", "bytes")):
        values[new] = values.pop(old)
    del values["seq"], values["changes"]
    assert (values.pop("cursor"), values.pop("transcript"), values.pop("elapsed_ms")) == (b"", None, 0)  # left out here
    assert values.pop("more") == checkpoints.NOTHING_ELSE  # left out, too
    values |= {"root": found.root.decode()} | {name: values[name].hex() for name in ("worktree", "tree", "domain")}
    return values, checkpoints.encode(found)


def mark(data):
    found = undo_history.decode_mark(data)
    return found._asdict(), undo_history.encode_mark(found)


def operation_values(found):
    return {
        "operation": found.op, "created": found.created_ns, "worktree": found.worktree.hex(), "target": found.target,
        "safety": found.safety, "plan": found.plan.hex(), "current": found.current,
    }  # fmt: skip


def operation(data):
    found = undo_history.decode_operation(data)
    return operation_values(found), undo_history.encode_operation(found)


def rewind(data):
    found = rewinds.decode(data)
    values = found._asdict() | {"created": found.created_ns, "worktree": found.worktree.hex()}
    values |= {"transcript": found.transcript.decode(), "original": found.original.decode()}
    del values["created_ns"]
    return values, rewinds.encode(found)


def forgotten(data):
    found = undo_history.decode_forgotten(data)
    return {"checkpoints": " ".join(found)}, undo_history.encode_forgotten(found)


def standing_history(data):
    worktree, found = undo_history.decode_history_record(data)
    values = {"worktree": worktree.hex(), "undo": len(found.undo), "redo": len(found.redo), "current": found.current}
    # the key stands first in what is written; the order of fields means nothing to a reader
    return values, undo_history.encode_history_record(worktree, found)


def adoption(data):
    found = undo_history.decode_adoption(data)
    values = {"old": found.old.hex(), "new": found.new.hex(), "root": found.root.decode()}
    return values, undo_history.encode_adoption(found)


def a_journal(data):
    found = journal.decode(data)
    return operation_values(found), journal.encode(found)


def a_note_of_a_purge(data):
    found = maintenance.decode_purge_marker(data)
    return {"ledger id": found.hex()}, maintenance.encode_purge_marker(found)


class Row:
    """One table with one row, as the product's own readers and writers see it."""

    def __init__(self, value=None):
        self.value = value

    def get(self, key):
        return self.value

    def overwrite(self, key, value):
        self.value = value


def index_state(data):
    found = catalog.read_catalog_state({b"meta": Row(data)})
    written = Row()
    catalog.write_state({b"meta": written}, found)
    names = ("ledger id", "offset", "sequence number", "checkpoints", "packs", "marks", "worktrees", "statement")
    return dict(zip(names, (found.ledger_id.hex(), *found[1:-1], found.statement.hex()), strict=True)), written.value


def index_pack_row(data):
    number, size = catalog._PACK.unpack(data)
    return {"number": number, "size": size}, catalog._PACK.pack(number, size)


def index_blob_row(data):
    found = catalog._ROW.unpack(data)
    return dict(zip(("pack number", "offset", "length", "raw length"), found, strict=True)), catalog._ROW.pack(*found)


def a_stat_file(data):
    worktree = bytes(range(16))
    basis, at = stat_file._parse_basis(data, worktree)
    values = {"checkpoint": basis.checkpoint, "tree": basis.tree.hex(), "epoch": basis.epoch.hex(), "life": basis.life.decode()}
    index, records = StatIndex(data[at:]), {}

    def shown(packed):
        *numbers, mode = stamp.PACKED.unpack(packed)
        return " ".join([*map(str, numbers), oct(mode)])

    for path, label in ((b"", "root"), (b"d", "d")):
        found = records[path] = index.record_of_directory(path)
        values |= {label: shown(found.stamp), f"{label} rules": found.rules.hex(), f"{label} tree": found.tree.hex()}
        values[f"{label} sums"] = f"{found.files} files {found.size} bytes {found.ignored} ignored, special {found.special}, weight {found.weight}"
        for at_name, name in enumerate(stat_index.split_names(found.names)):
            values[f"{label} {name.decode()}"] = shown(found.stamps[at_name * 36 : at_name * 36 + 36])
        values |= {f"{label} skipped {name.decode()}": reason for name, reason in found.skipped}
        for name, digest, packed in found.rule_files:
            values[f"{label} rule file {name.decode()}"] = f"{digest.hex()} {shown(packed)}"
    with tempfile.TemporaryDirectory() as directory:
        stat_file.replace_stat_file(directory, worktree, basis, StatIndex().updated_value(records))
        assert stat_file.read_stat_file(directory, worktree) == (basis, data[at:])
        return values, Path(stat_file.stat_file_path(directory, worktree)).read_bytes()


READERS = {
    "FORMAT": file_format,
    "pack head": pack_head,
    "pack record": pack_record,
    "tree": tree,
    "list of nodes": list_of_nodes,
    "chunk list node": chunk_list_node,
    "domain": domain,
    "plan": a_plan,
    "ledger head": ledger_head,
    "ledger record": ledger_record,
    "checkpoint": checkpoint,
    "mark": mark,
    "operation": operation,
    "finish": operation,
    "rewind": rewind,
    "forgotten": forgotten,
    "standing history": standing_history,
    "adoption": adoption,
    "journal": a_journal,
    "purging": a_note_of_a_purge,
    "index state": index_state,
    "index pack row": index_pack_row,
    "index blob row": index_blob_row,
    "stat file": a_stat_file,
}


def test_every_record_has_an_example():
    assert list(EXAMPLES) == list(READERS)
    assert DOCUMENT.read_text(encoding="utf-8").count("```hex") == len(READERS)


@pytest.mark.parametrize("name", READERS)
def test_an_example_is_what_the_product_reads_and_writes(name):
    data, stated = EXAMPLES[name]
    values, encoded = READERS[name](data)
    assert {key: str(value) for key, value in values.items()} == stated
    assert encoded == data


def test_the_tree_example_has_every_kind_of_entry():
    rows = dict(manifest.decode_tree(EXAMPLES["tree"][0]))
    kinds = [(entry.kind, bool(entry.chunks)) for entry in rows.values()]
    assert sorted(kinds) == [("dir", False), ("file", False), ("file", True), ("link", False), ("purged", False)]


def test_the_tables_name_every_magic_and_every_number_that_the_code_has():
    text = DOCUMENT.read_text(encoding="utf-8")
    for magic in (packs.MAGIC, packs.RECORD_MAGIC, manifest.MAGIC, directory_nodes.MAGIC, chunker.MAGIC, plan.MAGIC, ledger.MAGIC,
                  ledger.RECORD_MAGIC, journal.MAGIC, maintenance.MAGIC):  # fmt: skip
        assert f"magic `{magic.decode()}`" in text
    kinds = ["file", "chunk", "tree", "chunk list node", "domain", "rule file", "plan"]
    assert ", ".join(f"{n} {kind}" for n, kind in enumerate(kinds, 1)) in text
    assert [packs.FILE, packs.CHUNK, packs.TREE, packs.CHUNK_LIST, packs.DOMAIN, packs.RULES, packs.PLAN] == list(range(1, 8))
    kinds = ["checkpoint", "pin", "unpin", "label", "forget", "restore", "undo", "redo", "session", "history", "adopt"]
    assert ", ".join(f"{n} {kind}" for n, kind in enumerate(kinds, 1)) in text
    for kind in kinds:
        assert getattr(ledger, kind.upper()) == kinds.index(kind) + 1
    assert f"{packs.MAX_SIZE:,} bytes" in text
    for trigger in checkpoints.TRIGGERS:
        assert trigger in text


def test_a_reader_of_the_document_alone_finds_a_file(root, workspace):
    """Written from the tables, with no decoder of the project: ledger -> checkpoint -> tree -> blob."""
    from blake3 import blake3

    (root / "src").mkdir()
    (root / "src" / "main.py").write_bytes(b"print('hello')\n" * 40)
    (root / "flat").mkdir()
    for number in range(1000):
        (root / "flat" / f"{number:04d}").write_bytes(b"%d" % number)
    workspace.save("by hand")
    store = Path(workspace.store_path)
    assert (store / "FORMAT").read_text() == "casrewind store 2\n"

    blobs = {}
    for pack in (store / "packs").glob("*.pack"):
        data, at = pack.read_bytes(), 8
        assert data[:8] == b"CRPK\2\0\0\0"
        while at < len(data):
            assert data[at : at + 4] == b"CRB1"
            codec, digest = data[at + 5], data[at + 8 : at + 40]
            raw, stored = struct.unpack_from("<II", data, at + 40)
            body = data[at + 52 : at + 52 + stored]
            blob = zstd.decompress(body) if codec else body
            assert len(blob) == raw
            assert blake3(blob).digest() == digest
            blobs[digest] = blob
            at += 52 + stored

    data, at, last = (store / "ledger").read_bytes(), 24, None
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 16)[0]
        assert data[at + 20 + length : at + 36 + length] == blake3(data[at : at + 20 + length]).digest()[:16]
        if data[at + 4] == 1:
            last = data[at + 20 : at + 20 + length]
        at += 36 + length

    def fields(record):
        found, position = {}, 0
        while position < len(record):
            tag, length = struct.unpack_from("<HI", record, position)
            found[tag] = record[position + 6 : position + 6 + length]
            position += 6 + length
        return found

    def entries(blob):
        if blob[:4] == b"CRN1":
            found = {}
            for _, digest in listed(blob):
                found |= entries(blobs[digest])
            return found
        assert blob[:4] == b"CRT1"
        position, found = 8, {}
        for _ in range(struct.unpack_from("<I", blob, 4)[0]):
            kind, length = blob[position], blob[position + 1]
            name = blob[position + 4 : position + 4 + length]
            position += 4 + length
            size = {1: 48, 2: 80, 3: 32, 5: 8}.get(kind) or 2 + struct.unpack_from("<H", blob, position)[0]
            found[name] = (kind, blob[position : position + size])
            position += size
        return found

    def listed(blob):
        position, found = 9, []
        for _ in range(struct.unpack_from("<I", blob, 5)[0]):
            end = position + 1 + blob[position]
            found.append((blob[position + 1 : end], blob[end : end + 32]))
            position = end + 32
        return found

    def cut(names):
        starts = [0]
        while len(names) - starts[-1] > 256:
            may_end = range(starts[-1] + 64, min(starts[-1] + 256, len(names) - 64) + 1)
            starts.append(min(may_end, key=lambda position: blake3(names[position]).digest()))
        return starts

    point = fields(last)
    assert point[7] == b"by hand"
    kind, below = entries(blobs[point[11]])[b"src"]
    assert kind == 3
    kind, rest = entries(blobs[below])[b"main.py"]
    assert (kind, blobs[rest[16:48]]) == (1, b"print('hello')\n" * 40)

    kind, top = entries(blobs[point[11]])[b"flat"]
    assert (kind, blobs[top][:5]) == (3, b"CRN1\1")
    flat = entries(blobs[top])
    assert {name: blobs[rest[16:48]] for name, (_, rest) in flat.items()} == {b"%04d" % number: b"%d" % number for number in range(1000)}
    assert [first for first, _ in listed(blobs[top])] == [sorted(flat)[start] for start in cut(sorted(flat))]
    assert [first for first, _ in listed(blobs[top])] == [min(entries(blobs[digest])) for _, digest in listed(blobs[top])]
