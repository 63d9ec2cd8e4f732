"""Packs and ledgers read with bare eyes: where a blob's record lies, so that a test can damage just that one.

Written from docs/internals/format.md, not from the project's own reader.
"""

import os
import struct

from blake3 import blake3

HEAD = struct.Struct("<4sBBH32sIII")


def digest(data):
    return blake3(data).digest()


def records(store):
    """{digest: [(path of the pack, offset of the record, length of the record)]} of all packs."""
    found = {}
    place = os.path.join(store, "packs")
    for name in sorted(os.listdir(place)):
        path = os.path.join(place, name)
        with open(path, "rb") as file:
            data = file.read()
        at = 8
        while at < len(data):
            magic, _, _, _, name_of_it, _, stored, _ = HEAD.unpack_from(data, at)
            assert magic == b"CRB1", (path, at)
            found.setdefault(name_of_it, []).append((path, at, HEAD.size + stored))
            at += HEAD.size + stored
    return found


def kinds(store):
    """{kind: [digests]} of all records: 1 file, 2 chunk, 3 tree, 4 chunk list, 5 domain, 6 rules, 7 plan."""
    found = {}
    for name_of_it, places in records(store).items():
        for path, at, _ in places:
            with open(path, "rb") as file:
                file.seek(at)
                found.setdefault(file.read(5)[4], []).append(name_of_it)
    return found


def body(place):
    """The stored bytes of a record."""
    path, at, length = place
    with open(path, "rb") as file:
        file.seek(at + HEAD.size)
        return file.read(length - HEAD.size)


def flip(path, at, mask=0x10):
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ mask]))


def flip_blob(store, name_of_it):
    """Flip a bit in the last byte of every record of a blob."""
    places = records(store)[name_of_it]
    for path, at, length in places:
        flip(path, at + length - 1)
    return name_of_it.hex()


def ledger_records(store):
    """[(kind, offset, end)] of the ledger's records."""
    with open(os.path.join(store, "ledger"), "rb") as file:
        data = file.read()
    found, at = [], 24
    while at < len(data):
        magic, kind, _, _, _, length = struct.unpack_from("<4sBBHQI", data, at)
        assert magic == b"CRE1"
        end = at + 20 + length + 16
        found.append((kind, at, end))
        at = end
    return found
