"""A chain: the pieces of one store on the remote, in their order, and the search for blobs in them.

The danger prevented here: a piece that is missing or belongs elsewhere is not noticed. Each piece names the MAC of the piece
before it. The first piece that does not fit ends what is read of its chain, and is named.
"""

import re
import struct
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from .._typing import TYPE_CHECKING, NamedTuple
from ..store.reachability import HOLDS
from .objects import ObjectGone
from .piece import CONTAINER, CONTENT, PieceDamaged, PieceGone, PieceReader
from .remote_config import ObjectStore

if TYPE_CHECKING:
    from .objects import ObjectInfo
    from .seal import Keys

_NAME = re.compile(r"([0-9a-f]{32})/(\d{10})-(\d{10})")
_HOLD = re.compile(r"([0-9a-f]{32})/hold-([0-9a-f]{32})")
_ROWS = struct.Struct("32s")
_AHEAD = 128
"""Pieces whose ends are read at once."""
_HELD = 12 << 20
"""Bytes of the readers that are kept. Each holds the end of its piece."""
_FRAMES = 24 << 20
"""Bytes of plain container frames that are kept: each level of the trees asks for some of the same frame."""
_LISTS = 3
"""How often a reader lists a chain again, because a piece was replaced while it read."""


def piece_name(chain: str, number: int) -> str:
    """The name of the piece with one number."""
    return f"{chain}/{number:010}-{number:010}"


class PieceInfo(NamedTuple):
    """A piece in a list of the remote: the numbers of its first and last push, its name, its bytes, and when it was put, by the server."""

    first: int
    last: int
    name: str
    size: int
    modified_ns: int


def all_pieces_of(listed: "Iterable[ObjectInfo]") -> dict[str, list[PieceInfo]]:
    """{chain: its pieces} of a list of all objects."""
    found: dict[str, list[PieceInfo]] = {}
    for info in listed:
        match = _NAME.fullmatch(info.name)
        if match is not None and int(match[2]) <= int(match[3]):
            found.setdefault(match[1], []).append(PieceInfo(int(match[2]), int(match[3]), info.name, info.size, info.modified_ns))
    return found


def holds_of(listed: "Iterable[ObjectInfo]") -> dict[str, dict[str, int]]:
    """{chain: {chain whose blobs it uses: when it said so}} of a list of all objects. A time is the server's, in ns."""
    found: dict[str, dict[str, int]] = {}
    for info in listed:
        match = _HOLD.fullmatch(info.name)
        if match is not None:
            found.setdefault(match[1], {})[match[2]] = info.modified_ns
    return found


def hold_name(chain: str, other: str) -> str:
    """The name of the object that says that a chain uses blobs of another one."""
    return f"{chain}/hold-{other}"


def chains_of(listed: "Iterable[ObjectInfo]") -> dict[str, list[PieceInfo]]:
    """{chain: its pieces in order} of a list of all objects. A piece within a longer one is left out: a roll-up replaces it."""
    return {chain: without_replaced(pieces) for chain, pieces in all_pieces_of(listed).items()}


def without_replaced(pieces: list[PieceInfo]) -> list[PieceInfo]:
    """The pieces of a chain in order, without those within a longer one."""
    kept: list[PieceInfo] = []
    for piece in sorted(pieces, key=lambda one: (one.first, -one.last)):
        if not kept or piece.last > kept[-1].last:
            kept.append(piece)
    return kept


def open_piece(objects: ObjectStore, keys: "Keys", name: str, size: int) -> PieceReader:
    """The reader of a piece that was listed with this size. Raises PieceDamaged, also if it was deleted since."""

    def read(start: int, end: int) -> bytes:
        data = b""
        with suppress(ObjectGone):
            data = objects.get(name, start, end)
        if len(data) < end - start:  # a purge has emptied it since
            raise PieceGone(f"the piece {name} of the remote was deleted just now", "pull again")
        return data

    return PieceReader(keys, name, size, read)


def find_piece(objects: ObjectStore, keys: "Keys", chain: str, number: int) -> PieceReader | None:
    """The piece with this number, or None."""
    name = piece_name(chain, number)
    listed = objects.list(chain, piece_name(chain, number - 1))
    found = next((info for info in listed if info.name == name), None)
    return None if found is None else open_piece(objects, keys, name, found.size)


class ChainReader:
    """Reads one chain of the remote."""

    def __init__(self, objects: ObjectStore, keys: "Keys", pieces: Sequence[PieceInfo]) -> None:
        """Reads nothing yet."""
        self.pieces = pieces
        self._objects, self._keys = objects, keys
        self._lists = _LISTS
        self._used: list[PieceInfo] | None = None
        """The pieces of the chains whose blobs this one uses, once a blob was not found in its own."""
        self._readers: OrderedDict[int, PieceReader] = OrderedDict()
        self._held = 0
        self._frames: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._digests: tuple[dict[int, bytes], dict[int, bytes]] = ({}, {})
        """For each use {number of the piece in `pieces`: the digests of its blobs}, of all tables that were read."""
        self._tables: set[int] = set()
        self.damaged: dict[int, PieceDamaged] = {}
        """{number of the piece in `pieces`: why it cannot be read}."""

    def open_reader(self, at: int) -> PieceReader:
        """The reader of a piece, by its place in `pieces`. Raises PieceDamaged, RemoteError."""
        found = self._readers.get(at)
        if found is None:
            found = self._open_or_raise_if_damaged(at)
            self._hold_reader(at, found)
        self._readers.move_to_end(at)
        if at not in self._tables:
            self._tables.add(at)
            for use in (CONTENT, CONTAINER):
                self._digests[use][at] = found.table.blobs.digests_of(use)
        return found

    def info_of_piece(self, at: int) -> PieceInfo:
        """The piece at this place: behind the chain's own pieces are those of the chains whose blobs it uses."""
        return self.pieces[at] if at < len(self.pieces) else (self._used or ())[at - len(self.pieces)]

    def _find_used(self) -> list[PieceInfo]:
        """The pieces of the chains whose blobs this one uses, and those of the chains that they use."""
        own = self.pieces[0].name.partition("/")[0]
        chains, found = [own], list[PieceInfo]()
        for chain in chains:  # it grows
            listed = self._objects.list(chain)
            found += chains_of(listed).get(chain, []) if chain != own else []
            chains += [other for other in holds_of(listed).get(chain, {}) if other not in chains]
        return found

    def _hold_reader(self, at: int, reader: PieceReader) -> None:
        self._readers[at] = reader
        self._held += reader.bytes_held
        while self._held > _HELD and len(self._readers) > 1:
            self._held -= self._readers.popitem(last=False)[1].bytes_held

    def _open_or_raise_if_damaged(self, at: int) -> PieceReader:
        info = self.info_of_piece(at)
        found = open_piece(self._objects, self._keys, info.name, info.size)
        if found.is_replaced:  # the list did not have the roll-up yet
            raise PieceGone(f"the piece {info.name} of the remote was replaced just now", "pull again")
        return found

    def list_again(self) -> bool:
        """If a piece could not be read, list the chain again. Returns True if it has other pieces now: then nothing of it was read."""
        if not self.damaged or not self._lists:
            return False
        self._lists -= 1
        chain = self.pieces[0].name.partition("/")[0]
        pieces = chains_of(self._objects.list(chain)).get(chain, [])
        if not pieces or [(one.name, one.size) for one in pieces] == [(one.name, one.size) for one in self.pieces]:
            return False
        self.forget_all_read()
        self.damaged.clear()
        self.pieces, self._used = pieces, None
        return True

    def open_ahead(self, places: Iterable[int]) -> None:
        """Read the ends of these pieces, eight at a time. Damage is named when the piece is read."""
        from concurrent.futures import ThreadPoolExecutor

        wanted = [at for at in places if at not in self._readers][:_AHEAD]
        if len(wanted) < 2:
            return

        def opened(at: int) -> "tuple[int, PieceReader | None]":
            try:
                return at, self._open_or_raise_if_damaged(at)
            except PieceDamaged:
                return at, None

        with ThreadPoolExecutor(8) as threads:
            for at, found in threads.map(opened, wanted):
                if found is not None:
                    self._hold_reader(at, found)

    def fetch(self, wanted: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
        """Yield (digest, bytes) of the wanted blobs ({digest: kind of its use}) that the chain has, as far as its pieces can be
        read. The bytes are not hashed yet. Reads older tables only while a blob is not found."""
        for use in (CONTAINER, CONTENT):
            by_piece = self._find_pieces(use, (digest for digest, kind in wanted.items() if (kind in HOLDS) == (use == CONTAINER)))
            if use == CONTENT and by_piece:
                self._frames.clear()  # the walk is done
            for at in sorted(by_piece):
                try:
                    yield from self._read_blobs_of_piece(at, use, set(by_piece.pop(at)))
                except PieceDamaged as error:
                    self.damaged[at] = error
                if use == CONTENT:  # the last that is wanted of a piece
                    self._forget(at)

    def _find_pieces(self, use: int, wanted: Iterable[bytes]) -> dict[int, list[bytes]]:
        """{place in `pieces`: the wanted blobs that this piece has}. Read tables, newest first, until each blob is found."""
        left = {digest: digest for digest in wanted}  # the object that is wanted is kept, and no second one of the same bytes
        found: dict[int, list[bytes]] = {}

        def take(at: int) -> None:
            for (digest,) in _ROWS.iter_unpack(self._digests[use][at]) if left else ():
                if digest in left:
                    found.setdefault(at, []).append(left.pop(digest))

        for at in self._digests[use]:
            take(at)
        def look(places: Iterable[int]) -> None:
            unread = [at for at in places if at not in self._tables and at not in self.damaged]
            for start in range(0, len(unread), 32):
                if not left:
                    break
                self.open_ahead(unread[start : start + 32])
                for at in unread[start : start + 32]:
                    try:
                        self.open_reader(at)
                        take(at)
                    except PieceDamaged as error:
                        self.damaged[at] = error

        look(reversed(range(len(self.pieces))))
        if left:
            if self._used is None:
                self._used = self._find_used()
            look(reversed(range(len(self.pieces), len(self.pieces) + len(self._used))))
        return found

    def _read_blobs_of_piece(self, at: int, use: int, wanted: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        reader = self.open_reader(at)
        if use == CONTENT:
            yield from ((digest, data) for digest, found, data in reader.blobs(wanted) if found == CONTENT)
            return
        for blob in reader.table.blobs:
            if blob.use == CONTAINER and blob.digest in wanted:
                yield blob.digest, self._frame(at, reader, blob.frame)[blob.offset : blob.offset + blob.length]

    def _forget(self, at: int) -> None:
        """Forget one piece. It is read again if it is needed."""
        if at in self._readers:
            self._held -= self._readers.pop(at).bytes_held
        self._tables.discard(at)
        for digests in self._digests:
            digests.pop(at, None)

    def forget_all_read(self) -> None:
        """Forget what was read. It is read again if it is needed."""
        self._readers.clear()
        self._held = 0
        self._frames.clear()
        self._tables.clear()
        self._digests = ({}, {})

    def _frame(self, at: int, reader: PieceReader, number: int) -> bytes:
        """The plain bytes of a container frame."""
        data = self._frames.get((at, number))
        if data is None:
            data = self._frames[at, number] = reader.frame(number)
            while sum(map(len, self._frames.values())) > _FRAMES and len(self._frames) > 1:
                self._frames.popitem(last=False)
        return data


def names_of(numbers: Sequence[PieceInfo | tuple[int, int]]) -> str:
    """Piece numbers in words: `piece 4`, `pieces 4 to 6`."""
    first, last = numbers[0][0], numbers[-1][1]
    return f"piece {first}" if first == last else f"pieces {first} to {last}"


def damage_in_words(piece: PieceInfo, machine: str, error: PieceDamaged) -> str:
    """What is wrong with a piece: its numbers, its machine, and why it cannot be read."""
    detail = f" ({error.problem})" if type(error) is PieceDamaged else ""
    state = error.state if piece.first == piece.last else error.state.replace("is ", "are ", 1).replace("was ", "were ", 1)
    return f"{names_of([piece])} of {machine} {state}{detail}"
