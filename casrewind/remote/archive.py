"""Export and import: the pieces of a push as one stream.

The danger prevented here: a stream that looks private and is not. Its first bytes say whether a key is needed.
"""

import struct
import tempfile
from collections.abc import Sequence
from typing import BinaryIO

from .. import errors
from ..context import Context
from ..model import digest as digests
from ..model.checkpoint import Checkpoint
from .connect import HEAD, machine_name
from .object_directory import SMALL
from .objects import ObjectGone, ObjectInfo
from .pull import Pulled, pull
from .push import push
from .pushed import Pushed
from .remote_config import Remote, RemoteConfig
from .seal import Keys, check_head, remote_head
from .sync_state import StateFiles, SyncState

SEALED, PLAIN = b"casrewind export 2 sealed\n", b"casrewind export 2 plain\n"
"""The first bytes of a stream. A plain one is sealed with a key of zeros, so everybody can read it."""
PLAIN_KEY = bytes(32)
_ENTRY = struct.Struct("<HQ")  # bytes of the name, bytes of the object
_MOST_NAME = 200
_MOST_OBJECTS = 10_000
"""Objects in a stream. An export of more would have some 160 GB."""


class StreamWriter:
    """An object store that writes each object to a stream: lengths, name, bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        """Writes at the stream's present position."""
        self._stream = stream
        self.place, self.gives_ranges = "", True
        self.requests: dict[str, int] = {}
        self.sent_bytes = self.received_bytes = 0

    def put_new(self, name: str, data: bytes) -> bool:
        """True: written."""
        self._stream.write(_ENTRY.pack(len(name), len(data)) + name.encode() + data)
        self._stream.flush()
        self.sent_bytes += len(data)
        return True

    def get(self, name: str, start: int = 0, end: int | None = None, size: int | None = None) -> bytes:  # noqa: ARG002 - as ObjectStore
        """Nothing can be read back."""
        raise ObjectGone(name)

    def list(self, prefix: str = "", after: str = "", most: int | None = None) -> list[ObjectInfo]:  # noqa: ARG002 - as ObjectStore
        """Nothing is listed."""
        return []

    def replace(self, name: str, data: bytes) -> None:
        """Nothing can be replaced."""

    def delete(self, names: Sequence[str]) -> None:
        """Nothing can be deleted."""


class StreamReader:
    """The objects in a stream, which is copied to a temporary file as it is read."""

    def __init__(self, stream: BinaryIO, copy: BinaryIO) -> None:
        """Reads the stream to its end. Raises RemoteError."""
        self.place, self.gives_ranges = "", True
        self.requests: dict[str, int] = {}
        self.sent_bytes = self.received_bytes = 0
        self._copy = copy
        self._places: dict[str, tuple[int, int]] = {}
        while head := _read_exactly(stream, _ENTRY.size):
            if len(head) < _ENTRY.size:
                raise _cut_short_error()
            length, size = _ENTRY.unpack(head)
            if length > _MOST_NAME or len(self._places) == _MOST_OBJECTS:
                raise errors.RemoteError("this is not an export of casrewind", "give the output of casrewind export")
            name = _read_exactly(stream, length).decode("ascii", "replace")
            self._places[name] = copy.tell(), size
            while size:
                piece = stream.read(min(size, 1 << 20))
                if not piece:
                    raise _cut_short_error()
                copy.write(piece)
                size -= len(piece)
                self.received_bytes += len(piece)

    def put_new(self, name: str, data: bytes) -> bool:  # noqa: ARG002 - as ObjectStore
        """Nothing can be put."""
        return False

    def get(self, name: str, start: int = 0, end: int | None = None, size: int | None = None) -> bytes:
        """Raises ObjectGone."""
        if name not in self._places:
            raise ObjectGone(name)
        at, size = self._places[name]
        self._copy.seek(at + start)
        return self._copy.read(min(size, SMALL if end is None else end) - start)

    def list(self, prefix: str = "", after: str = "", most: int | None = None) -> list[ObjectInfo]:  # noqa: ARG002 - as ObjectStore
        """Sorted by name."""
        return sorted(ObjectInfo(name, size, 0) for name, (_, size) in self._places.items() if name.startswith(prefix) and name > after)

    def replace(self, name: str, data: bytes) -> None:
        """Nothing can be replaced."""

    def delete(self, names: Sequence[str]) -> None:
        """Nothing can be deleted."""


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _cut_short_error() -> errors.RemoteError:
    return errors.RemoteError("the export ends too early: it was cut on its way", "export again; nothing was imported")


def export(
    context: Context, stream: BinaryIO, master: bytes | None, points: Sequence[Checkpoint] | None, config: RemoteConfig | None
) -> Pushed:
    """Write checkpoints as a stream, all or only these. `master` None: everybody can read it. `config` is that of the project's
    remote: its settings count, and the reader sees the same machine. Raises StoreDamaged, OSError."""
    master_or_plain = PLAIN_KEY if master is None else master
    stream.write(PLAIN if master is None else SEALED)
    chain = digests.of(b"casrewind export" + context.root.key + machine_name().encode())[:16].hex()
    with tempfile.TemporaryDirectory(prefix="casrewind-export-") as place:
        files = StateFiles(place)
        files.save(SyncState(chain=chain))
        writer = StreamWriter(stream)
        writer.put_new(HEAD, remote_head(master_or_plain, bytes.fromhex(chain)))
        keys = Keys(master_or_plain, bytes.fromhex(chain))
        return push(context, Remote(config or RemoteConfig("the export", machine_name()), writer, keys, files), points=points)


def import_stream(context: Context, stream: BinaryIO, master: bytes | None, config: RemoteConfig | None) -> Pulled:
    """Take the checkpoints in a stream, as rows of another machine. `master`: the key, if there is one. Raises RemoteError."""
    head = _read_exactly(stream, len(PLAIN))
    rest = b"" if head == PLAIN else _read_exactly(stream, len(SEALED) - len(PLAIN))
    if head != PLAIN and head + rest != SEALED:
        raise errors.RemoteError("this is not an export of casrewind, or one of a later version", "give the output of casrewind export")
    if head != PLAIN and master is None:
        raise errors.RemoteError("the export needs its key", "set CASREWIND_REMOTE_KEY, or give --key-file FILE")
    master = PLAIN_KEY if head == PLAIN or master is None else master
    with tempfile.TemporaryFile(prefix="casrewind-import-") as copy, tempfile.TemporaryDirectory(prefix="casrewind-import-") as place:
        objects = StreamReader(stream, copy)
        try:
            keys = Keys(master, check_head(master, objects.get(HEAD), "the export"))
        except ObjectGone:
            raise _cut_short_error() from None
        return pull(context, Remote(config or RemoteConfig("the export", machine_name()), objects, keys, StateFiles(place)))
