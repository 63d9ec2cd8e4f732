"""The stat file: the stored stat index of one worktree (worktree/stat_index.py), and the conditions for trusting it.

The danger prevented here: a save names a tree or a blob that is no longer stored. A stat file is valid only if all of
this is true:

- Its checksum over all of it matches: a flipped bit could make a changed file look unchanged.
- It is of this worktree, and of this life of the file system (worktree/root.py).
- Its checkpoint still exists, in this worktree and with that tree: so gc has removed nothing that it names.
- Its epoch is the index's. A rebuilt index has a new epoch, because packs may be gone. Repair and purge start a new
  epoch before they change a blob.

A lost, old or torn stat file costs only time. It is never synced, and is replaced by a rename.
"""

import os
import struct
from contextlib import suppress

from .. import fsio
from .._typing import NamedTuple
from ..model import digest as digests
from . import catalog
from .index import Tables

_HEAD = struct.Struct("<4s32s16s8s32sQBB")  # magic, checksum, worktree, epoch, tree; three lengths
_MAGIC = b"CRS1"
_SEALED = 36  # offset at which the checksummed part starts
_MOST_HEAD = _HEAD.size + 2 * 255
_VALUE_BYTES = 1 << 32  # bytes of a value: fifty million files
_LARGE = 64 << 20  # bytes of a value from which it is checked before it is read
_DIGEST_BYTES = 1 << 20
_PREFIX = "stat-"


class Basis(NamedTuple):
    """The state that a stat index describes: a checkpoint's id and tree, the index's epoch, the file system's life."""

    checkpoint: str
    tree: bytes
    epoch: bytes
    life: bytes


def stat_file_path(directory: str, worktree: bytes) -> str:
    """The path of a worktree's stat file, in the directory of the index."""
    return os.path.join(directory, _PREFIX + worktree.hex())


def replace_stat_file(directory: str, worktree: bytes, basis: Basis, value: bytes) -> None:
    """Replace the stat file of a worktree. Errors are ignored."""
    identity = basis.checkpoint.encode()
    head = _HEAD.pack(_MAGIC, bytes(32), worktree, basis.epoch, basis.tree, len(value), len(identity), len(basis.life))
    head += identity + basis.life
    seal = digests.Hasher()
    seal.update(head[_SEALED:])
    seal.update(value)
    with suppress(OSError), fsio.draft_file(directory) as (draft, fd):
        fsio.write_all(fd, head[:4] + seal.digest() + head[_SEALED:])
        fsio.write_all(fd, value)
        os.rename(draft, stat_file_path(directory, worktree))


def read_basis(directory: str, worktree: bytes) -> Basis | None:
    """The basis of a worktree's stat file, or None. Its checksum is not verified."""
    with suppress(OSError):
        found = _parse_basis(fsio.read_file(stat_file_path(directory, worktree), _MOST_HEAD), worktree)
        return None if found is None else found[0]
    return None


def read_stat_file(directory: str, worktree: bytes) -> tuple[Basis, bytes] | None:
    """The basis and the value in a worktree's stat file, None if it is missing or damaged."""
    with suppress(OSError):
        with fsio.closing(fsio.open_regular(stat_file_path(directory, worktree))) as fd:
            head = fsio.read_fd(fd, _MOST_HEAD)
            found = _parse_basis(head, worktree)
            if found is None:
                return None
            basis, start = found
            _, seal, _, _, _, length, _, _ = _HEAD.unpack_from(head)
            if length > _VALUE_BYTES or os.fstat(fd).st_size != start + length:
                return None
            if length > _LARGE and _digest_of(fd, start) != seal:  # a file of gigabytes that nobody wrote needs no memory
                return None
            value = os.pread(fd, length, start)
        whole = digests.Hasher()
        whole.update(head[_SEALED:start])
        whole.update(value)
        return (basis, value) if len(value) == length and whole.digest() == seal else None
    return None


def _digest_of(fd: int, start: int) -> bytes:
    """The digest of an open stat file with a value from offset `start`, read in pieces."""
    whole = digests.Hasher()
    whole.update(os.pread(fd, start - _SEALED, _SEALED))
    while part := os.pread(fd, _DIGEST_BYTES, start):
        whole.update(part)
        start += len(part)
    return whole.digest()


def _parse_basis(data: bytes, worktree: bytes) -> tuple[Basis, int] | None:
    if len(data) < _HEAD.size:
        return None
    magic, _, owner, epoch, tree, _, identity, life = _HEAD.unpack_from(data)
    start, end = _HEAD.size + identity, _HEAD.size + identity + life
    if (magic, owner) != (_MAGIC, worktree) or len(data) < end:
        return None
    return Basis(data[_HEAD.size : start].decode("ascii", "replace"), tree, epoch, data[start:end]), end


def is_valid(tables: Tables, worktree: bytes, basis: Basis, life: bytes) -> bool:
    """True if a stat index with this basis is valid in this life of the file system."""
    if not life or basis.life != life or not basis.epoch or basis.epoch != catalog.epoch(tables):
        return False
    point = catalog.point(tables, basis.checkpoint)
    return point is not None and (point.worktree, point.tree) == (worktree, basis.tree)


def remove_invalid_stat_files(directory: str, tables: Tables) -> None:
    """Remove the invalid stat files. Errors are ignored."""
    fsio.remove_orphans(directory)
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(_PREFIX):
                with suppress(OSError, ValueError):
                    worktree = bytes.fromhex(name.removeprefix(_PREFIX))
                    basis = read_basis(directory, worktree)
                    if basis is None or not is_valid(tables, worktree, basis, basis.life):
                        os.unlink(os.path.join(directory, name))
