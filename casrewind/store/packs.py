"""Packs: immutable files of self-describing records that hold all blobs.

The danger prevented here: a blob that is assumed to be stored and is not. A pack gets its name only after its bytes
are synced, and never changes afterwards. Every record contains the digest of its blob, and a blob is returned only if
its bytes have that digest. The byte table is in docs/internals/format.md.
"""

import _thread
import os
import struct
import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from .. import errors, fsio
from .._typing import TYPE_CHECKING, NamedTuple, Protocol
from ..messages import is_process_limit, store_error
from ..model import digest as digests
from ..model import manifest

if TYPE_CHECKING:
    import zstandard as zstd
else:

    def _import_zstandard_in_c():  # noqa: ANN202 - the module has no type of its own
        """The C extension of zstandard, without the package around it. The package imports `platform` and `re` to
        identify the interpreter, which is slower than all index work of an unchanged save."""
        name = "zstandard.backend_c"
        try:
            if name not in sys.modules:
                finders = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder"]
                place = finders[0].find_spec("zstandard").submodule_search_locations
                spec = finders[0].find_spec(name, place)
                sys.modules[name] = found = spec.loader.create_module(spec)
                spec.loader.exec_module(found)
            return sys.modules[name]
        except (AttributeError, ImportError, IndexError):
            sys.modules.pop(name, None)
            import zstandard

            return zstandard

    try:
        zstd = _import_zstandard_in_c()
    except ImportError:  # it has no wheel for this Python, or one for another system
        from . import zstd_of_python as zstd

MAGIC = b"CRPK"
VERSION = 2
HEAD = struct.pack("<4sI", MAGIC, VERSION)
RECORD_MAGIC = b"CRB1"
RECORD = struct.Struct("<4sBBH32sIII")  # magic, kind, codec, zero, digest, raw length, stored length, crc
MAX_SIZE = 64 << 20
"""A pack is closed when it reaches this many bytes."""

FILE, CHUNK, TREE, CHUNK_LIST, DOMAIN, RULES, PLAN = range(1, 8)
"""The kind under which a record was stored, for inspecting packs by hand. The kind of a use depends on the referrer."""
MOST = {
    FILE: manifest.LARGE,
    CHUNK: manifest.LARGE,  # four times the chunker's maximum
    TREE: 2 << 20,  # the entries of one node, all with the longest names and targets
    CHUNK_LIST: 64 << 10,
    DOMAIN: 256 << 20,
    RULES: 64 << 20,  # eight times the present limit of a save: earlier saves had no limit
    PLAN: 1 << 30,
}
"""Maximum bytes of a blob, by use. A small record may expand to gigabytes, so longer blobs are refused unread."""
RAW, ZSTD = 0, 1
_LEVEL = 1
_LEVEL_TOGETHER = 3
_PARALLEL_FROM = 1 << 18  # batches from this size (bytes) are compressed on several cores
SUFFIX = ".pack"


_PLACE = struct.Struct("<IQII")  # number of the pack; offset, length, length of the blob


class BlobLocation(NamedTuple):
    """The location of a record: the pack's id, its offset there, its length with head, the blob's length."""

    pack: str
    offset: int
    length: int
    raw: int


class BlobLocations:
    """A compact table of blob locations by digest. The last location added counts. A first save adds one per file."""

    def __init__(self) -> None:
        """Starts empty."""
        self._packs: list[str] = []
        self._digests: list[list[bytes]] = []  # for each pack
        self._rows: dict[bytes, bytes] = {}

    def add(self, pack: str, records: Iterable[tuple[bytes, int, int, int]]) -> None:
        """Add (digest, offset, length with head, length of the blob) of records in a pack."""
        if self._packs[-1:] != [pack]:
            self._packs.append(pack)
            self._digests.append([])
        number = len(self._packs) - 1
        rows = [(digest, _PLACE.pack(number, *where)) for digest, *where in records]
        self._digests[number] += [digest for digest, _ in rows]
        self._rows.update(rows)

    def __contains__(self, digest: object) -> bool:
        return digest in self._rows

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, digest: bytes) -> BlobLocation | None:
        """The location of a blob, or None."""
        row = self._rows.get(digest)
        if row is None:
            return None
        number, offset, length, raw = _PLACE.unpack(row)
        return BlobLocation(self._packs[number], offset, length, raw)

    def of_pack(self, pack: str) -> Iterator[tuple[bytes, BlobLocation]]:
        """Yield (digest, location) of the blobs in one pack."""
        for digest in self._digests[self._packs.index(pack)] if pack in self._packs else ():
            place = self.get(digest)
            if place is not None and place.pack == pack:
                yield digest, place


def encode_head(kind: int, codec: int, digest: bytes, raw: int, stored: int) -> bytes:
    """A record's head as bytes."""
    head = struct.pack("<4sBBH32sII", RECORD_MAGIC, kind, codec, 0, digest, raw, stored)
    return head + struct.pack("<I", zlib.crc32(head))


def decode_record_head(head: bytes) -> tuple[int, int, bytes, int, int] | None:
    """Returns (kind, codec, digest, raw length, stored length) of a record's head, or None for other bytes."""
    if len(head) < RECORD.size:
        return None
    magic, kind, codec, _, digest, raw, stored, crc = RECORD.unpack(head[: RECORD.size])
    if magic != RECORD_MAGIC or crc != zlib.crc32(head[: RECORD.size - 4]):
        return None
    return kind, codec, digest, raw, stored


def compress(blobs: Sequence[bytes], *, beside: bool = False) -> list[bytes]:
    """Compress every blob to one zstd frame, on several cores if worthwhile; `beside` leaves one core free."""
    compressor = zstd.ZstdCompressor(level=_LEVEL)
    cores = min(os.cpu_count() or 1, 4)
    if beside:
        cores = max(1, cores - 1)
    if (cores > 1 or beside) and len(blobs) > 1 and hasattr(compressor, "multi_compress_to_buffer"):
        some: list[bytes | bytearray | memoryview[int]] = [blob for blob in blobs if blob]
        if sum(map(len, some)) >= _PARALLEL_FROM:
            with suppress(zstd.ZstdError, MemoryError):  # too little memory or too few threads
                done = iter(compressor.multi_compress_to_buffer(some, threads=cores))
                return [next(done).tobytes() if blob else compressor.compress(blob) for blob in blobs]
    try:
        return [compressor.compress(blob) for blob in blobs]
    except zstd.ZstdError as error:  # the only possible cause without threads
        raise MemoryError(str(error)) from error


def compress_together(parts: Sequence[bytes]) -> bytes:
    """Compress these bytes to one zstd frame, the same for the same bytes."""
    try:
        return zstd.ZstdCompressor(level=_LEVEL_TOGETHER).compress(b"".join(parts))
    except zstd.ZstdError as error:  # as in compress
        raise MemoryError(str(error)) from error


def decompress(frame: bytes, most: int, length: int | None = None) -> bytes:
    """The bytes of one zstd frame. Raises BlobCorrupt for other bytes, and for a frame that declares more bytes than
    `most`, or not exactly `length`. Such a frame is refused before anything is allocated."""
    try:
        size = zstd.frame_content_size(frame)
        if not 0 <= size <= most or length not in (None, size):
            raise errors.BlobCorrupt(f"a compressed frame declares {size:,} bytes" if size >= 0 else "a compressed frame declares no size")
        data = zstd.ZstdDecompressor().decompress(frame, max_output_size=size, allow_extra_data=False) if size else b""
    except zstd.ZstdError as error:
        if "memory" in str(error):  # a lack of memory in this process, not damage
            raise MemoryError(str(error)) from error
        raise errors.BlobCorrupt("a compressed frame does not decompress") from error
    if len(data) != size:
        raise errors.BlobCorrupt("a compressed frame does not have the length that it declares")
    return data


class Compressor:
    """Runs `compress`, and the use of its frames, in a thread until `finish`."""

    def __init__(self, blobs: Sequence[bytes], use: Callable[[list[bytes]], None]) -> None:
        """Start the thread. If the process may not start threads, `finish` does the work."""
        self._blobs, self._use = blobs, use
        self._failed: BaseException | None = None
        self._busy = _thread.allocate_lock()
        self._busy.acquire()
        self._begun = True
        try:
            _thread.start_new_thread(self._compress_in_thread, ())  # not threading's: its import costs each save a millisecond
        except RuntimeError:
            self._begun = False
            self._busy.release()

    def _compress_in_thread(self) -> None:
        try:
            self._use(compress(self._blobs, beside=True))
        except BaseException as error:  # raised by finish
            self._failed = error
        finally:
            self._busy.release()

    def wait_and_raise_error(self) -> None:
        """Wait for the work. Raises its error."""
        self.wait_until_ended()
        if self._failed is not None:
            raise self._failed
        if not self._begun:
            self._use(compress(self._blobs))

    def wait_until_ended(self) -> None:
        """Wait until the thread has ended."""
        with self._busy:
            pass


class FinishedPacks(NamedTuple):
    """Packs under their final names: {id: bytes}, and the locations of the blobs in them."""

    sizes: dict[str, int]
    places: BlobLocations


NO_PACKS = FinishedPacks({}, BlobLocations())


class ReadBlob(Protocol):
    """Reads a blob by its digest, for use as a kind. Raises BlobMissing, and BlobCorrupt also if it
    exceeds the kind's limit."""

    def __call__(self, digest: bytes, kind: int | None = None, /) -> bytes:
        """Returns the blob; `kind` None: the kind in its record."""


Ask = Callable[[int, int], None]
"""Called before bytes are written, with (bytes written so far, bytes to write). Raises if they exceed the limit."""


class PackWriter:
    """Writes the new packs of one save under temporary names. `sync_and_name_packs` renames them, `remove_unfinished` removes them."""

    def __init__(self, packs: str, temporary: str, ask: Ask | None = None) -> None:
        """`temporary` is a directory on the file system of `packs`, for drafts. `ask` is called before each append."""
        self._packs, self._temporary, self._ask = packs, temporary, ask
        self._fd = -1
        self._size = 0
        self._drafts: list[tuple[str, str, int]] = []  # id, temporary path, open descriptor
        self.places = BlobLocations()
        self.written = 0

    def append(self, kind: int, blobs: Sequence[tuple[bytes, bytes]], frames: Sequence[bytes] | None = None) -> None:
        """Add (digest, bytes) pairs as records. `frames`: the compressed bytes. Raises OSError, and
        the errors of `ask`."""
        if frames is None:
            frames = compress([data for _, data in blobs])
        records = []
        for (digest, data), frame in zip(blobs, frames, strict=True):
            codec, body = (ZSTD, frame) if len(frame) < len(data) else (RAW, data)
            records.append((encode_head(kind, codec, digest, len(data), len(body)) + body, digest, len(data)))
        if self._ask is not None:
            self._ask(self.written, sum(len(record) for record, _, _ in records))
        self._write_records(records)

    def copy(self, record: bytes, digest: bytes, raw: int) -> None:
        """Add a record of another pack unchanged, given its digest and its blob's length. Raises OSError."""
        self._write_records([(record, digest, raw)])

    def _write_records(self, records: Sequence[tuple[bytes, bytes, int]]) -> None:
        """Write (record, digest, length of the blob) triples, one write per pack. No record starts beyond MAX_SIZE."""
        start = 0
        while start < len(records):
            if self._fd < 0 or self._size >= MAX_SIZE:
                draft, self._fd = fsio.create_draft(self._temporary, SUFFIX)
                self._drafts.append((os.urandom(10).hex(), draft, self._fd))
                fsio.write_all(self._fd, HEAD)
                self._size = len(HEAD)
            end, size, places = start, self._size, []
            while end < len(records) and size < MAX_SIZE:
                record, digest, raw = records[end]
                places.append((digest, size, len(record), raw))
                size += len(record)
                end += 1
            fsio.write_all(self._fd, b"".join([record for record, _, _ in records[start:end]]))
            self.places.add(self._drafts[-1][0], places)
            self.written += size - self._size
            self._size, start = size, end

    def read(self, digest: bytes, kind: int | None = None) -> bytes | None:
        """A blob written by this writer and not finished yet, or None. `kind`: as for ReadBlob."""
        place = self.places.get(digest)
        if place is None:
            return None
        fd = next(fd for name, _, fd in self._drafts if name == place.pack)
        return checked_blob_of_record(os.pread(fd, place.length, place.offset), digest, place.pack, kind)

    def sync(self) -> None:
        """Sync the drafts without renaming them, so that `sync_and_name_packs` has less to do."""
        for _, _, fd in self._drafts:
            fsio.sync_fd(fd, is_followed=True)

    def sync_and_name_packs(self, *, is_followed: bool = False) -> FinishedPacks:
        """Make every pack durable under its name. A failed sync raises before any pack is renamed. `is_followed`: see fsio.sync_fd."""
        done = FinishedPacks({}, self.places)
        for name, _, fd in self._drafts:
            fsio.sync_fd(fd, is_followed=True)
            done.sizes[name] = os.fstat(fd).st_size
        for name, draft, _ in self._drafts:
            os.rename(draft, os.path.join(self._packs, name + SUFFIX))
        if self._drafts:
            fsio.sync_directory(self._packs, is_followed=is_followed)
        for _, _, fd in self._drafts:
            os.close(fd)
        self._drafts, self._fd, self.places = [], -1, BlobLocations()
        return done

    def remove_unfinished(self) -> None:
        """Remove unfinished packs. A renamed pack remains as garbage for gc: other processes may have seen it, and
        removing packs requires the exclusive store lock."""
        for _, draft, fd in self._drafts:
            with suppress(OSError):
                os.close(fd)
            with suppress(OSError):
                os.unlink(draft)
        self._drafts, self._fd, self.places = [], -1, BlobLocations()


def checked_blob_of_record(record: bytes, digest: bytes, pack: str, kind: int | None = None) -> bytes:
    """The blob in a record's bytes. Raises BlobCorrupt unless the bytes have this digest and fit the limit of `kind`.
    `kind` None: the kind in the record."""
    head = decode_record_head(record)
    if head is None or head[2] != digest or len(record) != RECORD.size + head[4]:
        raise errors.BlobCorrupt(f"damaged record of blob {digest.hex()[:16]} in pack {pack}", "run casrewind verify")
    stored_as, codec, _, raw, _ = head
    _raise_if_too_long(raw, digest, pack, stored_as if kind is None else kind)
    body = record[RECORD.size :]
    try:
        if codec == ZSTD and zstd.frame_content_size(body) != raw:  # the frame's size decides how much is allocated
            raise errors.BlobCorrupt(f"blob {digest.hex()[:16]} in pack {pack} has another length", "run casrewind verify")
        data = zstd.ZstdDecompressor().decompress(body, max_output_size=raw) if codec == ZSTD and raw else body
    except zstd.ZstdError as error:
        if "memory" in str(error):  # a lack of memory in this process, not damage
            raise MemoryError(str(error)) from error
        raise errors.BlobCorrupt(f"blob {digest.hex()[:16]} in pack {pack} does not decompress", "run casrewind verify") from error
    if codec not in (RAW, ZSTD) or len(data) != raw or digests.of(data) != digest:
        del data, body, record  # the error would keep these alive while another copy is searched
        raise errors.BlobCorrupt(f"blob {digest.hex()[:16]} in pack {pack} is not what was written", "run casrewind verify")
    return data


def _raise_if_too_long(size: int, digest: bytes, pack: str, kind: int) -> None:
    most = MOST.get(kind, 0)
    if size > most:
        raise errors.BlobCorrupt(
            f"refused blob {digest.hex()[:16]} in pack {pack}: it has {size:,} bytes, the limit for its use is {most:,}",
            "run casrewind verify",
        )


class PackReader:
    """Reads records from packs; keeps a few packs open."""

    _MOST_OPEN = 8

    def __init__(self, packs: str) -> None:
        """`packs` is the directory of the packs."""
        self._packs = packs
        self._open: OrderedDict[str, int] = OrderedDict()

    def read(self, place: BlobLocation, digest: bytes, kind: int | None = None) -> bytes:
        """The blob at a location. Raises BlobMissing if the pack is missing, BlobCorrupt for wrong or too many bytes.
        `kind` sets the limit (None: the kind in the record)."""
        return checked_blob_of_record(self.read_unverified_record(place, digest, kind), digest, place.pack, kind)

    def read_unverified_record(self, place: BlobLocation, digest: bytes, kind: int | None = None) -> bytes:
        """The record at a location, unverified. Raises as read does."""
        try:
            fd = self._open.pop(place.pack, -1)
            if fd < 0:
                fd = os.open(os.path.join(self._packs, place.pack + SUFFIX), fsio.READ_FLAGS)
                if len(self._open) >= self._MOST_OPEN:
                    os.close(self._open.popitem(last=False)[1])
            self._open[place.pack] = fd
            if place.offset + place.length > os.fstat(fd).st_size:
                raise errors.BlobCorrupt(f"pack {place.pack} ends before blob {digest.hex()[:16]}", "run casrewind verify")
            if kind is None:
                head = decode_record_head(os.pread(fd, RECORD.size, place.offset))
                kind = CHUNK if head is None else head[0]
            _raise_if_too_long(max(place.raw, place.length - RECORD.size), digest, place.pack, kind)
            return os.pread(fd, place.length, place.offset)
        except FileNotFoundError as error:
            raise errors.BlobMissing(f"pack {place.pack} with blob {digest.hex()[:16]} is gone", "run casrewind verify") from error
        except OSError as error:
            if is_process_limit(error):
                raise store_error(error, "opening the pack", place.pack) from error
            raise errors.BlobCorrupt(f"pack {place.pack} cannot be read: {error.strerror}", "run casrewind verify") from error

    def close(self) -> None:
        """Close every pack."""
        while self._open:
            os.close(self._open.popitem()[1])


def pack_sizes(packs: str, seen: Mapping[str, int]) -> dict[str, int]:
    """{id: bytes} of every pack on disk. The sizes in `seen` are believed and stand first; only other packs are looked at."""
    with fsio.closing(os.open(packs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        disk = {name[: -len(SUFFIX)] for name in os.listdir(directory) if name.endswith(SUFFIX)}
        found = {pack: size for pack, size in seen.items() if pack in disk}
        for pack in disk - found.keys():
            found[pack] = os.stat(pack + SUFFIX, dir_fd=directory, follow_symlinks=False).st_size
        return found


def pack_names(packs: str) -> set[str]:
    """The ids of the packs on disk: much cheaper than their sizes if there are many."""
    return {name[: -len(SUFFIX)] for name in os.listdir(packs) if name.endswith(SUFFIX)}


def pack_path(packs: str, pack: str) -> str:
    """The path of a pack."""
    return os.path.join(packs, pack + SUFFIX)


def records_of_pack(packs: str, pack: str) -> Iterator[tuple[bytes, BlobLocation]]:
    """Yield (digest, location) of every record of a pack, in order, from the records' heads alone. A damaged head
    does not hide later records: the next sound head is searched."""
    with fsio.closing(os.open(os.path.join(packs, pack + SUFFIX), fsio.READ_FLAGS)) as fd:
        end = os.fstat(fd).st_size
        position = len(HEAD)
        while position < end:
            head = decode_record_head(os.pread(fd, RECORD.size, position))
            if head is None:
                position = _find_next_sound_head(fd, position + 1, end)
                continue
            _, _, digest, raw, stored = head
            length = RECORD.size + stored
            if position + length <= end:
                yield digest, BlobLocation(pack, position, length, raw)
            position += length


def _find_next_sound_head(fd: int, position: int, end: int) -> int:
    step = 1 << 20
    while position < end:
        part = os.pread(fd, step + len(RECORD_MAGIC), position)
        found = part.find(RECORD_MAGIC)
        while found >= 0:
            if decode_record_head(os.pread(fd, RECORD.size, position + found)) is not None:
                return position + found
            found = part.find(RECORD_MAGIC, found + 1)
        position += step
    return end
