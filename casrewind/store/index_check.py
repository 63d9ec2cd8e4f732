"""Checks the index's data file before LMDB maps it.

The danger prevented here: reading a damaged file kills the process. LMDB has no checksums and follows the numbers in
a page through its memory map. In a cut file, or after a flipped bit, they lead anywhere. So LMDB maps only a file
that equals our last write byte for byte. A fifo or a device in the file's place is refused at once.
"""

import errno
import os
import stat
import struct

from .. import fsio
from .._typing import Protocol
from ..model import digest as digests

_PAGE_HEAD = 16
_META = struct.Struct("<IIQQ48x48xQQ")  # magic, version, address, map size, two table descriptors, last page, txn id
_META_MAGIC = 0xBEEFC0DE
_CHECK_BYTES = 1 << 17  # bytes: page faults make a larger buffer slower than the read itself


class IndexUnusable(Exception):
    """The index is missing, damaged or malformed: rebuild it. Never raised outside of store/."""


class IndexGone(IndexUnusable):
    """A part of the index was missing, or was removed during use."""


GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_IRREGULAR = frozenset({errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV})  # of open and fsio.read_file
NOT_A_FILE = "{} of the index is not a regular file"


def index_error_for(error: OSError, part: str) -> IndexUnusable | None:
    """The verdict on the index for an error at a part of it; None if the error concerns this process or the disk."""
    if error.errno in GONE:
        return IndexGone(f"{part} of the index is gone")
    return IndexUnusable(NOT_A_FILE.format(part)) if error.errno in _IRREGULAR else None


def _open_regular_file(path: str) -> int:
    """Open a data file. Returns its descriptor. Raises IndexUnusable at once if it is not a regular file; OSError."""
    name = os.path.basename(path)
    try:
        fd = os.open(path, fsio.READ_FLAGS)
    except OSError as error:
        if (found := index_error_for(error, name)) is not None:
            raise found from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise IndexUnusable(NOT_A_FILE.format(name))
    return fd


class Copies(Protocol):
    """An LMDB environment, which can write a copy of itself without free pages."""

    def copyfd(self, fd: int, compact: bool) -> None:  # noqa: FBT001 - LMDB's
        """Copy into an open file."""


def replace_by_compact_copy(path: str, environment: Copies) -> None:
    """Replace the data file at `path` atomically by a copy without free pages. Raises OSError."""
    directory = os.path.dirname(path)
    fsio.remove_orphans(directory)
    with fsio.draft_file(directory) as (draft, fd):
        environment.copyfd(fd, compact=True)
        fsio.sync_fd(fd, is_followed=True)  # a power cut may leave the old file, never a part of this one
        os.rename(draft, path)


def fingerprint(path: str) -> str:
    """The size of a data file and the digest of its bytes, as text with a space between. Raises IndexUnusable,
    OSError. Reads the whole file: about 0.3 ms per MiB from memory, and exact where a time stamp is a guess."""
    hasher = digests.Hasher()
    buffer = memoryview(bytearray(_CHECK_BYTES))
    size = 0
    with open(_open_regular_file(path), "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
            size += count
    return f"{size} {hasher.digest().hex()}"


def bytes_needed(path: str) -> int:
    """The minimum length of the data file by its newest meta page. Reading a shorter file would kill the process."""
    with open(_open_regular_file(path), "rb") as file:
        head = file.read(_PAGE_HEAD + _META.size)
        page = _page_size_or_raise(head)
        file.seek(page)
        other = file.read(_PAGE_HEAD + _META.size)
    newest = max((_parse_meta(head), _parse_meta(other)), key=lambda meta: meta[1])
    if newest == (0, 0):
        raise IndexUnusable("the index has no meta page")
    return (newest[0] + 1) * page


def _page_size_or_raise(head: bytes) -> int:
    # the page size is the first word of the first table descriptor of the meta page
    if len(head) < _PAGE_HEAD + _META.size:
        raise IndexUnusable("the index is cut short")
    (size,) = struct.unpack_from("<I", head, _PAGE_HEAD + 24)
    if size not in (1 << bits for bits in range(9, 17)):
        raise IndexUnusable("the index has an impossible page size")
    return int(size)


def _parse_meta(head: bytes) -> tuple[int, int]:
    if len(head) < _PAGE_HEAD + _META.size:
        return 0, 0
    magic, _, _, _, last, transaction = _META.unpack_from(head, _PAGE_HEAD)
    return (last, transaction) if magic == _META_MAGIC else (0, 0)
