"""Objects of a remote made and opened by docs/internals/remote-format.md alone, without the product: also those that no push makes."""

import struct

from blake3 import blake3
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .zstd_frames import zstd

TABLE = 2**32 - 1


def keyed(key, parts):
    hasher = blake3(key=key)
    hasher.update(struct.pack("<Q", len(parts)))
    for part in parts:
        hasher.update(struct.pack("<Q", len(part)) + part)
    return hasher.digest()


def mac_of(master, parts):
    return keyed(blake3(master, derive_key_context="casrewind remote 1: the MAC of an object").digest(), parts)


def object_key(master, mac, name):
    return keyed(blake3(master, derive_key_context="casrewind remote 1: the key of an object").digest(), [mac, name.encode()])


def sealed(key, number, data):
    return ChaCha20Poly1305(key).encrypt(number.to_bytes(12, "little"), data, None)


def opened(key, number, data):
    return ChaCha20Poly1305(key).decrypt(number.to_bytes(12, "little"), data, None)


def compressed(data):
    return zstd.compress(data, 3)


def fields_of(pairs):
    return b"".join(struct.pack("<HI", tag, len(value)) + value for tag, value in pairs)


def table_of(frames, digests=b"", lengths=(), before=bytes(32), push=bytes(16), machine=b"a", version=b"1", more=(), without=()):
    """`frames`: (bytes compressed, bytes plain, blobs, use). `more` are further (tag, value), `without` left-out tags."""
    rows = b"".join(struct.pack("<IIIB", *row) for row in frames)
    values = (rows, digests, struct.pack(f"<{len(lengths)}I", *lengths), before, push, machine, version)
    return fields_of([pair for pair in enumerate(values, 1) if pair[0] not in without] + list(more))


def piece_of(master, name, frames, table, magic=b"CRR1", plain_table=False):
    """A piece of compressed `frames` and a table. All is sealed as it should be."""
    parts = [*frames, table if plain_table else compressed(table)]
    mac = mac_of(master, parts)
    key = object_key(master, mac, name)
    done = [sealed(key, number, part) for number, part in enumerate(frames)] + [sealed(key, TABLE, parts[-1])]
    return magic + b"".join(done) + mac + struct.pack("<I", len(done[-1])) + magic


def read_piece(master, name, data):
    """(fields of the table, rows of its frames, plain frames) of a piece, by the document."""
    assert data[:4] == data[-4:] == b"CRR1"
    (length,) = struct.unpack("<I", data[-8:-4])
    mac, end = data[-40:-8], len(data) - 40 - length
    key = object_key(master, mac, name)
    packed = opened(key, TABLE, data[end:-40])
    table, fields = zstd.decompress(packed), {}
    while table:
        tag, size = struct.unpack("<HI", table[:6])
        fields[tag], table = table[6 : 6 + size], table[6 + size :]
    rows = list(struct.iter_unpack("<IIIB", fields[1]))
    position, parts = 4, []
    for number, row in enumerate(rows):
        parts.append(opened(key, number, data[position : position + row[0] + 16]))
        position += row[0] + 16
    assert position == end and mac == mac_of(master, [*parts, packed])
    return fields, rows, [zstd.decompress(part) for part in parts]
