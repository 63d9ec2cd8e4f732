"""Where the records of a save are, in as little memory as that takes: a first save writes as many as there are files."""

import struct
from collections.abc import Iterable, Iterator

from ..typed import NamedTuple

_PLACE = struct.Struct("<IQII")  # which pack; offset, length, length of the blob


class Place(NamedTuple):
    """Where a record is: the pack's id, its offset there, its length with head, the blob's length."""

    pack: str
    offset: int
    length: int
    raw: int


class Places:
    """The places of blobs, by their digests: of each the one that was added last."""

    def __init__(self) -> None:
        """None yet."""
        self._packs: list[str] = []
        self._digests: list[list[bytes]] = []  # of each pack
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

    def get(self, digest: bytes) -> Place | None:
        """Where a blob is, None when it is nowhere."""
        row = self._rows.get(digest)
        return None if row is None else self._place(row)

    def of_pack(self, pack: str) -> Iterator[tuple[bytes, Place]]:
        """(digest, place) of all that is in one pack."""
        for digest in self._digests[self._packs.index(pack)] if pack in self._packs else ():
            place = self._place(self._rows[digest])
            if place.pack == pack:
                yield digest, place

    def _place(self, row: bytes) -> Place:
        number, offset, length, raw = _PLACE.unpack(row)
        return Place(self._packs[number], offset, length, raw)


class Rows:
    """What is in one pack, as (digest, place) pairs, as often as it is asked for."""

    def __init__(self, places: Places, pack: str) -> None:
        """`places` are not added to any more."""
        self._places, self._pack = places, pack

    def __iter__(self) -> Iterator[tuple[bytes, Place]]:
        return self._places.of_pack(self._pack)
