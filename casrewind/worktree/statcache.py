"""The stat cache: what a scan remembers of one directory, so that the next one need not list or read it.

The danger prevented here: believing a memory of other circumstances. A record holds the directory's own stamp and the
digest of all ignore rules that were in force there; when both match, the names are the same names and every verdict
stands. A record is disposable: one that cannot be decoded is no record. Racy stamps are stored as stamps.NONE, which
matches no file, so those entries are looked at again.
"""

import struct

from ..model.stamp import Stamp
from ..typed import NamedTuple

_VERSION = 3
_STAMP = struct.Struct("<QqqQI")
_HEAD = struct.Struct("<BBII32s32sQIIII")
OTHER, DIRECTORY, LINKED = 0, 1, 2


class Record(NamedTuple):
    """One directory as the last scan left it.

    `rules`: digest of the rules in force. `tree`: digest of its tree, whose bytes are `tree_bytes`. `rule_files`: bit
    mask of the names there that are rule files, or those of a store. `names`, `kinds` and `stamps` go
    together: DIRECTORY (no stamp of its own here), OTHER, or LINKED:
    one that has more names than this, or had them. `skipped` are (name, reason) pairs.
    """

    stamp: Stamp
    rules: bytes
    tree: bytes
    tree_bytes: bytes
    rule_files: int
    files: int
    size: int
    ignored: int
    names: list[bytes]
    kinds: bytes
    stamps: list[tuple[int, ...]]
    skipped: list[tuple[bytes, str]]


def encode(record: Record) -> bytes:
    """A record as bytes."""
    names = b"\0".join(record.names)
    skipped = b"\0".join(name + b"\0" + reason.encode() for name, reason in record.skipped)
    return b"".join(
        (
            _HEAD.pack(
                _VERSION, record.rule_files, record.files, record.ignored, record.rules, record.tree, record.size,
                len(record.names), len(names), len(skipped), len(record.tree_bytes),
            ),
            _STAMP.pack(*record.stamp),
            b"".join([_STAMP.pack(*stamp) for stamp in record.stamps]),
            record.kinds,
            names,
            skipped,
            record.tree_bytes,
        )
    )  # fmt: skip


def decode(data: bytes | None) -> Record | None:
    """The record in these bytes, or None."""
    if data is None or len(data) < _HEAD.size + _STAMP.size:
        return None
    (version, rule_files, files, ignored, rules, tree, size, count, names_length, skipped_length, tree_length) = (
        _HEAD.unpack_from(data)
    )
    start = _HEAD.size
    stamps_end = start + _STAMP.size * (count + 1)
    kinds_end = stamps_end + count
    names_end = kinds_end + names_length
    skipped_end = names_end + skipped_length
    if version != _VERSION or skipped_end + tree_length != len(data):
        return None
    stamps = list(_STAMP.iter_unpack(data[start:stamps_end]))
    names = data[kinds_end:names_end].split(b"\0") if count else []
    parts = data[names_end:skipped_end].split(b"\0") if skipped_length else []
    try:
        skipped = [(parts[i], parts[i + 1].decode()) for i in range(0, len(parts), 2)]
    except (IndexError, UnicodeDecodeError):
        return None
    if len(names) != count:
        return None
    return Record(
        stamp=Stamp(*stamps[0]),
        rules=rules,
        tree=tree,
        tree_bytes=data[skipped_end:],
        rule_files=rule_files,
        files=files,
        size=size,
        ignored=ignored,
        names=names,
        kinds=data[stamps_end:kinds_end],
        stamps=stamps[1:],
        skipped=skipped,
    )


def kinds(names: list[bytes], directories: list[bool], linked: set[bytes]) -> bytes:
    """What a record says of its names, of which some are directories, and some have more names."""
    if not linked:
        return bytes(directories)  # DIRECTORY is 1, OTHER 0
    return bytes(LINKED if name in linked else is_dir for name, is_dir in zip(names, directories, strict=True))


def was_linked(record: Record | None, name: bytes, inode: int) -> bool:
    """Whether a record knows the file of this name and inode as one with more names."""
    if record is None or name not in record.names:
        return False
    at = record.names.index(name)
    return record.kinds[at] == LINKED and record.stamps[at][3] == inode


def tree_of(data: bytes) -> bytes:
    """The digest of the tree that a record relies on, b"" when the bytes are no record of this version."""
    if len(data) < _HEAD.size or data[0] != _VERSION:
        return b""
    return bytes(_HEAD.unpack_from(data)[5])


def tree_in(data: bytes) -> tuple[bytes, bytes]:
    """The digest and the bytes of the tree in a record, as they stand there; (b"", b"") when it is none of this version."""
    if not tree_of(data):
        return b"", b""
    *_, length = _HEAD.unpack_from(data)
    return tree_of(data), data[len(data) - length :]
