"""Checks the index's data file before LMDB maps it.

The danger prevented here: reading a damaged file kills the process. LMDB has no checksums, and follows the numbers in a page through
its memory map. In a cut file, or after a flipped bit, they lead anywhere. So LMDB maps only a file that is byte for byte what was
written last. A fifo or a device in the file's place is refused at once.
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
_STEP = 1 << 17  # bytes: of a larger buffer every page has to be given to the process first, which takes longer than filling it


class IndexUnusable(Exception):
    """The index is missing, damaged, or of another shape than expected: rebuild it. Never leaves the store rooms."""


class IndexGone(IndexUnusable):
    """A part of the index was not there, or was removed while it was used."""


GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_IRREGULAR = frozenset({errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV})  # of opening, or of fsio.read_file
NOT_A_FILE = "{} of the index is no regular file"


def unusable(error: OSError, part: str) -> IndexUnusable | None:
    """What an error at a part of the index says of all of it; None when it says something of this process or of the disk."""
    if error.errno in GONE:
        return IndexGone(f"{part} of the index is gone")
    return IndexUnusable(NOT_A_FILE.format(part)) if error.errno in _IRREGULAR else None


def _opened(path: str) -> int:
    """A descriptor of a data file. Raises IndexUnusable, at once, for what is none; OSError."""
    name = os.path.basename(path)
    try:
        fd = os.open(path, fsio.READ_FLAGS)
    except OSError as error:
        if (found := unusable(error, name)) is not None:
            raise found from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise IndexUnusable(NOT_A_FILE.format(name))
    return fd


class Copies(Protocol):
    """What can write a copy of itself without its free pages: LMDB's environment."""

    def copyfd(self, fd: int, compact: bool) -> None:  # noqa: FBT001 - LMDB's
        """Into an open file."""


def replace(path: str, environment: Copies) -> None:
    """Put a data file without free pages in the place of the one at `path`: all or nothing. Raises OSError."""
    directory = os.path.dirname(path)
    fsio.remove_orphans(directory)
    with fsio.drafted(directory) as (draft, fd):
        environment.copyfd(fd, compact=True)
        fsio.sync_fd(fd)
        os.rename(draft, path)


def fingerprint(path: str) -> str:
    """The size of a data file and the digest of all its bytes, as text with a space between. Raises IndexUnusable, OSError.

    All of it is read: about 0.3 ms for each MiB, from memory, and exact where a time stamp is a guess.
    """
    hasher = digests.Hasher()
    buffer = memoryview(bytearray(_STEP))
    size = 0
    with open(_opened(path), "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
            size += count
    return f"{size} {hasher.digest().hex()}"


def bytes_needed(path: str) -> int:
    """How long the data file must be for what its newest meta page says; reading a cut one would kill the process."""
    with open(_opened(path), "rb") as file:
        head = file.read(_PAGE_HEAD + _META.size)
        page = _page_size(head)
        file.seek(page)
        other = file.read(_PAGE_HEAD + _META.size)
    newest = max((_meta(head), _meta(other)), key=lambda meta: meta[1])
    if newest == (0, 0):
        raise IndexUnusable("the index has no meta page")
    return (newest[0] + 1) * page


def _page_size(head: bytes) -> int:
    # the page size stands in the first word of the first table descriptor of the meta page
    if len(head) < _PAGE_HEAD + _META.size:
        raise IndexUnusable("the index is cut short")
    (size,) = struct.unpack_from("<I", head, _PAGE_HEAD + 24)
    if size not in (1 << bits for bits in range(9, 17)):
        raise IndexUnusable("the index has an impossible page size")
    return int(size)


def _meta(head: bytes) -> tuple[int, int]:
    """(last page, transaction) of a meta page; (0, 0) when it is none."""
    if len(head) < _PAGE_HEAD + _META.size:
        return 0, 0
    magic, _, _, _, last, transaction = _META.unpack_from(head, _PAGE_HEAD)
    return (last, transaction) if magic == _META_MAGIC else (0, 0)
