"""Objects of a remote made and opened by docs/internals/remote-format.md alone, without the product: also those that no push makes."""

import struct

from blake3 import blake3
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .zstd_frames import zstd

PADDING, TABLE = 2**32 - 2, 2**32 - 1
IDENTITY = bytes.fromhex("00112233445566778899aabbccddeeff")
"""The id of the remote in the document's examples."""


def keyed(key, parts):
    hasher = blake3(key=key)
    hasher.update(struct.pack("<Q", len(parts)))
    for part in parts:
        hasher.update(struct.pack("<Q", len(part)) + part)
    return hasher.digest()


def derived(master, identity, purpose):
    return blake3(master + identity, derive_key_context=f"casrewind remote 2: {purpose}").digest()


def mac_of(master, parts, identity=IDENTITY):
    return keyed(derived(master, identity, "the MAC of an object"), parts)


def object_key(master, mac, name, identity=IDENTITY):
    return keyed(derived(master, identity, "the key of an object"), [mac, name.encode()])


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


def padding_of(frames, table):
    """Bytes of padding for sealed frames and a sealed table of so many bytes, by the document."""
    size = 8 + frames + 16 + table + 40
    if not frames:
        return 0
    if size <= 65536:
        return -(-size // 4096) * 4096 - size
    e = size.bit_length() - 1
    low = (1 << (e - e.bit_length())) - 1
    return ((size + low) & ~low) - size


def piece_of(master, name, frames, table, magic=b"CRR2", plain_table=False, identity=IDENTITY, key_number=1, padding=None):
    """A piece of compressed `frames` and a table. All is sealed as it should be."""
    packed = table if plain_table else compressed(table)
    packed = struct.pack("<I", len(packed)) + packed
    packed += bytes(-len(packed) % 256)
    size = sum(len(frame) + 16 for frame in frames)
    pad = bytes(padding_of(size, len(packed) + 16) if padding is None else padding)
    parts = [*frames, pad, packed]
    mac = mac_of(master, parts, identity)
    key = object_key(master, mac, name, identity)
    done = [sealed(key, number, part) for number, part in enumerate(frames)] + [sealed(key, PADDING, pad), sealed(key, TABLE, packed)]
    return magic + struct.pack("<I", key_number) + b"".join(done) + mac + struct.pack("<I", len(done[-1])) + magic


def read_piece(master, name, data, identity=IDENTITY):
    """(fields of the table, rows of its frames, plain frames) of a piece, by the document."""
    assert data[:4] == data[-4:] == b"CRR2" and data[4:8] == b"\1\0\0\0"
    (length,) = struct.unpack("<I", data[-8:-4])
    mac, end = data[-40:-8], len(data) - 40 - length
    key = object_key(master, mac, name, identity)
    packed = opened(key, TABLE, data[end:-40])
    (size,) = struct.unpack("<I", packed[:4])
    assert len(packed) % 256 == 0 and not any(packed[4 + size :])
    table, fields = zstd.decompress(packed[4 : 4 + size]), {}
    while table:
        tag, size = struct.unpack("<HI", table[:6])
        fields[tag], table = table[6 : 6 + size], table[6 + size :]
    rows = list(struct.iter_unpack("<IIIB", fields[1]))
    position, parts = 8, []
    for number, row in enumerate(rows):
        parts.append(opened(key, number, data[position : position + row[0] + 16]))
        position += row[0] + 16
    padding = opened(key, PADDING, data[position:end])
    assert padding == bytes(padding_of(position - 8, len(data) - 40 - end))
    assert mac == mac_of(master, [*parts, padding, packed], identity)
    return fields, rows, [zstd.decompress(part) for part in parts]
