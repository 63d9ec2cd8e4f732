"""A chain: the pieces of one store on the remote, in their order, and the search for blobs in them.

The danger prevented here: somebody who can write to the bucket, and has no key, hides a machine. One object with the name of a
long roll-up did that: its name said that it has all pieces, so nobody read the true ones. So no name is believed. A piece belongs
to a chain if it opens under its name, and names the MAC of the piece before it. What does not open is left out, and what
it hid comes back. The first place where no piece goes on ends what is read of a chain, and is named.
"""

import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from .._typing import TYPE_CHECKING, NamedTuple
from ..store.reachability import HOLDS
from .allowance import Allowance
from .arriving import KINDS
from .objects import ObjectGone
from .piece import CONTAINER, CONTENT, FIRST, MOST_EMPTY, PieceReader
from .piece_errors import PieceDamaged, PieceForeign, PieceGone, PieceMissing
from .piece_names import LAST_NUMBER, PieceInfo, all_pieces_of, holds_of, piece_name, without_replaced
from .remote_config import ObjectStore

if TYPE_CHECKING:
    from .seal import Keys

_ROWS = struct.Struct("32s")
_AHEAD = 128
"""Pieces whose ends are read at once."""
_HELD = 12 << 20
"""Bytes of the readers that are kept. Each holds the end of its piece."""
_FRAMES = 24 << 20
"""Bytes of plain container frames that are kept: each level of the trees asks for some of the same frame."""
_LISTS = 3
"""How often a reader lists a chain again, because a piece was replaced while it read."""
_LOOSE = 8
"""Pieces that open and do not go on, after which the search for the next one ends."""


def open_piece(objects: ObjectStore, keys: "Keys", name: str, size: int) -> PieceReader:
    """The reader of a piece that was listed with this size. Raises PieceDamaged, also if it was deleted since."""

    def read(start: int, end: int) -> bytes:
        data = b""
        with suppress(ObjectGone):
            data = objects.get(name, start, end, size)
        if len(data) < end - start:  # a purge has emptied it since
            raise PieceGone(f"the piece {name} of the remote was deleted just now", "pull again")
        return data

    return PieceReader(keys, name, size, read)


def find_piece(objects: ObjectStore, keys: "Keys", chain: str, number: int) -> PieceReader | None:
    """The piece with this number, or None. Raises PieceDamaged if its object cannot be opened."""
    name = piece_name(chain, number)
    listed = objects.list(chain, piece_name(chain, number - 1))
    found = next((info for info in listed if info.name == name), None)
    return None if found is None else open_piece(objects, keys, name, found.size)


def look_behind_stranger(objects: ObjectStore, keys: "Keys", chain: str, number: int) -> tuple[int, PieceReader | None]:
    """What to do if the object with this number cannot be opened: (a number that is free behind all that is listed, or 0 if there is
    none; a piece of the chain with this number or a higher one that can be opened, or None)."""
    listed = [piece for piece in all_pieces_of(objects.list(chain)).get(chain, []) if piece.last >= number]
    behind = max((piece.last for piece in listed), default=number - 1) + 1
    return behind if behind <= LAST_NUMBER else 0, ChainReader(objects, keys, listed).open_newest()


class Hole(NamedTuple):
    """Where a chain goes on and nothing follows: why, in words, the number of pieces behind it that were seen, and the piece that is
    damaged, if one is."""

    problem: str
    rest: int
    piece: PieceInfo | None = None


class ChainReader:
    """Reads one chain of the remote."""

    def __init__(self, objects: ObjectStore, keys: "Keys", listed: Iterable[PieceInfo], allowance: Allowance | None = None) -> None:
        """`listed`: what has the name of a piece of this chain. `allowance`: of several chains together. Reads nothing yet."""
        self._objects, self._keys = objects, keys
        self._listed = list(listed)
        self._chain = self._listed[0].name.partition("/")[0] if self._listed else ""
        self.pieces = without_replaced(self._listed)
        """The pieces in order, as far as is known: without those that cannot be read, and without those that a longer one replaces."""
        self._lists = _LISTS
        self._used: list[PieceInfo] | None = None
        """The pieces of the chains whose blobs this one uses, once a blob was not found in its own."""
        self._readers: OrderedDict[PieceInfo, PieceReader] = OrderedDict()
        self._held = 0
        self._frames: OrderedDict[tuple[PieceInfo, int], bytes] = OrderedDict()
        self._digests: tuple[dict[PieceInfo, bytes], dict[PieceInfo, bytes]] = ({}, {})
        """For each use {piece: the digests of its blobs}, of all tables that were read."""
        self._tables: set[PieceInfo] = set()
        self.damaged: dict[PieceInfo, PieceDamaged] = {}
        """Why a piece cannot be read. Once the chain was followed, only what is damage."""
        self.strangers: list[PieceInfo] = []
        """Objects with the name of a piece that nobody with the key put there, as far as the chain was followed."""
        self._end = 0, b""
        """The number and the MAC at the end of what was followed."""
        self._allowance = allowance or Allowance()
        self._told: set[PieceInfo] = set()
        """What was found to be damage."""
        self._loose: list[PieceInfo] = []
        """Pieces behind this end that open and do not follow it."""

    def open_reader(self, piece: PieceInfo) -> PieceReader:
        """The reader of a piece. Raises PieceDamaged, and then it is none of `pieces`. Raises RemoteError."""
        found = self._readers.get(piece)
        if found is None:
            try:
                found = self._open_unreplaced(piece)
            except PieceDamaged as error:
                self._leave_out({piece: error})
                raise
            self._hold_reader(piece, found)
        self._readers.move_to_end(piece)
        if piece not in self._tables:
            self._tables.add(piece)
            for use in (CONTENT, CONTAINER):
                self._digests[use][piece] = found.table.blobs.digests_of(use)
        return found

    def open_newest(self) -> PieceReader | None:
        """The reader of the last piece that can be opened, or None."""
        while self.pieces:
            with suppress(PieceDamaged):
                return self.open_reader(self.pieces[-1])
            self.open_ahead(reversed(self.pieces))
        return None

    def follow(self, last: int = 0, mac: bytes = FIRST) -> Iterator[tuple[PieceInfo, PieceReader]]:
        """Yield the pieces behind number `last`, whose MAC is `mac`, each with its reader: each names the MAC of the one before it.
        Afterwards `strangers` and `damaged` are told apart, and `hole` tells why it went no further."""
        self._end, self._loose = (last, mac), []
        while (found := self._find_next(*self._end)) is not None:
            self._end = found[0].last, found[1].mac_at_end
            yield found
        self._tell_strangers_from_damage()

    def _find_next(self, last: int, mac: bytes) -> tuple[PieceInfo, PieceReader] | None:
        """The piece that follows number `last`, with its reader; None if none does."""
        loose: list[PieceInfo] = []
        while len(loose) < _LOOSE:
            behind = self.pieces[bisect_right(self.pieces, last, key=lambda piece: piece.last) :]
            info = next((piece for piece in behind if piece not in loose), None)
            if info is None:
                break
            if info not in self._readers:
                self.open_ahead(behind)
            try:
                reader = self.open_reader(info)
            except PieceDamaged:
                continue
            if not reader.is_end and (info.first <= last or reader.table.before == mac):
                return info, reader
            if reader.is_end or info.first == info.last:
                loose.append(info)
            else:  # what it covers may follow
                self._leave_out({info: PieceDamaged(f"the piece {info.name} of the remote does not follow the piece before it")})
        self._loose = [one for one in loose if not self.open_reader(one).is_end]
        return None

    def _tell_strangers_from_damage(self) -> None:
        """Behind the end that was reached, a piece that cannot be read is damage, unless it never was one; before it, it was never
        needed, so it is a stranger's. But if something is missing there, what has the missing number is damage, too."""
        last = self._end[0]
        new = [one for one in self.damaged if one not in self._told and self._is_own(one)]
        late = {one for one in new if one.first > last and not isinstance(self.damaged[one], PieceForeign)}
        if self._loose or late:
            late |= {one for one in new if one.first <= last + 1 <= one.last}
        self._told |= late
        for one in new:
            if one not in late:
                self.strangers.append(one)
                del self.damaged[one]
        if self.strangers:
            gone = set(self.strangers)
            self._listed = [one for one in self._listed if one not in gone]

    def records(self, piece: PieceInfo) -> Iterator[tuple[int, int, bytes]]:
        """Yield the records of a piece that may count here: (kind, sequence number, payload). Raises PieceDamaged, also if the chain has
        more of them than its size allows."""
        opened = self.open_reader(piece)
        self._allowance.begin(piece)
        for kind, seq, payload in opened.each_record(KINDS):
            self._allowance.add(piece, payload)
            yield kind, seq, payload

    def note_damage(self, piece: PieceInfo, error: PieceDamaged) -> None:
        """Note that a piece of the chain, which opens, has other contents than it should."""
        self.damaged.setdefault(piece, error)
        self._told.add(piece)

    def _is_own(self, piece: PieceInfo) -> bool:
        return piece.name.partition("/")[0] == self._chain

    def hole(self, machine: str) -> Hole | None:
        """Why `follow` went no further; None if there is nothing behind it but strangers. `machine` names the chain in the words."""
        number = self._end[0] + 1
        own = [one for one in self.damaged if self._is_own(one) and one.last >= number]
        if not own and not self._loose:
            return None
        here = [one for one in own if one.first <= number] or ([] if self._loose else own)
        if here:
            piece = min(here, key=lambda one: (isinstance(self.damaged[one], PieceGone | PieceMissing), one.first, -one.last))
            rest = sum(one.first > piece.last for one in (*self._loose, *own))
            return Hole(damage_in_words(piece, machine, self.damaged[piece]), rest, piece)
        first = self._loose[0]
        if first.first == number:
            return Hole(f"{names_of([first])} of {machine} does not follow the piece before it", len(self._loose) - 1)
        return Hole(missing_in_words(number, first.first - 1, machine), len(self._loose))

    def _leave_out(self, errors: "Mapping[PieceInfo, PieceDamaged]") -> None:
        """Take pieces that cannot be read out of `pieces`. What they hid comes back."""
        self.damaged.update(errors)
        self.pieces = without_replaced(one for one in self._listed if one not in self.damaged)

    def every_table(self) -> Iterator[PieceReader]:
        """Yield the reader of each piece of the chain, and of those of the chains whose blobs it uses, as far as they can be opened."""
        if self._used is None:
            self._used = self._find_used()
        for piece in (*self.pieces, *self._used):
            with suppress(PieceDamaged):
                yield self.open_reader(piece)

    def _find_used(self) -> list[PieceInfo]:
        """The pieces before those that were listed, and those of the chains whose blobs this one uses, and of the chains that they use."""
        chains, found = [self._chain], list[PieceInfo]()
        for chain in chains:  # it grows
            listed = self._objects.list(chain)
            pieces = all_pieces_of(listed).get(chain, [])
            if chain == self._chain:  # a pull may have listed the end of it only
                first = min((one.first for one in self._listed), default=0)
                pieces = [one for one in pieces if one.last < first and one.size > MOST_EMPTY]
            found += pieces
            chains += [other for other in holds_of(listed).get(chain, {}) if other not in chains]
        return found

    def _hold_reader(self, piece: PieceInfo, reader: PieceReader) -> None:
        self._readers[piece] = reader
        self._held += reader.bytes_held
        while self._held > _HELD and len(self._readers) > 1:
            self._held -= self._readers.popitem(last=False)[1].bytes_held

    def _open_unreplaced(self, piece: PieceInfo) -> PieceReader:
        """Open a piece. Raises PieceGone if a roll-up has replaced it."""
        found = open_piece(self._objects, self._keys, piece.name, piece.size)
        if found.is_replaced:  # the list did not have the roll-up yet, or it cannot be read
            raise PieceGone(f"the piece {piece.name} of the remote was replaced just now", "pull again")
        return found

    def list_again(self) -> bool:
        """If a piece could not be read, list the chain again. Returns True if it has other pieces now: then nothing of it was read. If it
        has not, what is gone was not replaced: then it is missing, and `hole` says so."""
        if not (self.damaged or self._loose) or not self._lists or not self._chain:
            return False
        self._lists -= 1
        listed = all_pieces_of(self._objects.list(self._chain)).get(self._chain, [])
        before = {(one.name, one.size) for one in (*self._listed, *self.strangers)}
        if not listed or {(one.name, one.size) for one in listed} <= before:
            gone = [piece for piece, error in self.damaged.items() if isinstance(error, PieceGone)]
            self.damaged.update((piece, PieceMissing(self.damaged[piece].problem)) for piece in gone)
            return False
        self.forget_all_read()
        self.damaged.clear()
        self._told.clear()
        self.strangers, self._loose = [], []
        self._listed, self.pieces, self._used = listed, without_replaced(listed), None
        return True

    def open_ahead(self, pieces: Iterable[PieceInfo]) -> None:
        """Read the ends of the first of these pieces, eight at a time. What cannot be opened is none of `pieces` then."""
        from concurrent.futures import ThreadPoolExecutor

        wanted = [one for one in islice(pieces, _AHEAD) if one not in self._readers and one not in self.damaged]
        if len(wanted) < 2:
            return

        held = 0  # what is opened and would not be kept is opened when it is needed

        def opened(piece: PieceInfo) -> "PieceReader | PieceDamaged | None":
            nonlocal held
            if held > _HELD:
                return None
            try:
                found = self._open_unreplaced(piece)
            except PieceDamaged as error:
                return error
            held += found.bytes_held
            return found if held <= _HELD else None

        failed = {}
        with ThreadPoolExecutor(8) as threads:
            for piece, found in zip(wanted, threads.map(opened, wanted), strict=True):
                if isinstance(found, PieceDamaged):
                    failed[piece] = found
                elif found is not None:
                    self._hold_reader(piece, found)
        if failed:
            self._leave_out(failed)

    def fetch(self, wanted: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
        """Yield (digest, bytes) of the wanted blobs ({digest: kind of its use}) that the chain has, as far as its pieces can be
        read. The bytes are not hashed yet. Reads older tables only while a blob is not found."""
        for use in (CONTAINER, CONTENT):
            by_piece = self._find_pieces(use, (digest for digest, kind in wanted.items() if (kind in HOLDS) == (use == CONTAINER)))
            if use == CONTENT and by_piece:
                self._frames.clear()  # the walk is done
            for piece in sorted(by_piece):
                try:
                    yield from self._read_blobs_of_piece(piece, use, set(by_piece.pop(piece)))
                except PieceDamaged as error:
                    self.note_damage(piece, error)
                if use == CONTENT:  # the last that is wanted of a piece
                    self._forget(piece)

    def _find_pieces(self, use: int, wanted: Iterable[bytes]) -> dict[PieceInfo, list[bytes]]:
        """{piece: the wanted blobs that it has}. Read tables, newest first, until each blob is found."""
        left = {digest: digest for digest in wanted}  # the object that is wanted is kept, and no second one of the same bytes
        found: dict[PieceInfo, list[bytes]] = {}

        def take(piece: PieceInfo) -> None:
            for (digest,) in _ROWS.iter_unpack(self._digests[use][piece]) if left else ():
                if digest in left:
                    found.setdefault(piece, []).append(left.pop(digest))

        def look(pieces: Sequence[PieceInfo]) -> None:
            for start in range(0, len(pieces), 32):
                unread = [one for one in pieces[start : start + 32] if one not in self._tables and one not in self.damaged]
                if not left:
                    break
                self.open_ahead(unread)
                for piece in unread:
                    with suppress(PieceDamaged):
                        self.open_reader(piece)
                        take(piece)

        for piece in self._digests[use]:
            take(piece)
        seen: list[PieceInfo] = []
        while left and seen != self.pieces:  # what cannot be read gives back what it hid
            seen = self.pieces
            look(seen[::-1])
        if left:
            if self._used is None:
                self._used = self._find_used()
            look(self._used[::-1])
        return found

    def _read_blobs_of_piece(self, piece: PieceInfo, use: int, wanted: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
        reader = self.open_reader(piece)
        if use == CONTENT:
            yield from ((digest, data) for digest, found, data in reader.blobs(wanted) if found == CONTENT)
            return
        for blob in reader.table.blobs:
            if blob.use == CONTAINER and blob.digest in wanted:
                yield blob.digest, self._frame(piece, reader, blob.frame)[blob.offset : blob.offset + blob.length]

    def _forget(self, piece: PieceInfo) -> None:
        """Forget one piece. It is read again if it is needed."""
        if piece in self._readers:
            self._held -= self._readers.pop(piece).bytes_held
        self._tables.discard(piece)
        for digests in self._digests:
            digests.pop(piece, None)

    def forget_all_read(self) -> None:
        """Forget what was read. It is read again if it is needed."""
        self._readers.clear()
        self._held = 0
        self._frames.clear()
        self._tables.clear()
        self._digests = ({}, {})

    def _frame(self, piece: PieceInfo, reader: PieceReader, number: int) -> bytes:
        """The plain bytes of a container frame."""
        data = self._frames.get((piece, number))
        if data is None:
            data = self._frames[piece, number] = reader.frame(number)
            while sum(map(len, self._frames.values())) > _FRAMES and len(self._frames) > 1:
                self._frames.popitem(last=False)
        return data


def names_of(numbers: Sequence[PieceInfo | tuple[int, int]]) -> str:
    """Piece numbers in words: `piece 4`, `pieces 4 to 6`."""
    first, last = numbers[0][0], numbers[-1][1]
    return f"piece {first}" if first == last else f"pieces {first} to {last}"


def missing_in_words(first: int, last: int, machine: str) -> str:
    """That the pieces from one number to another one are missing."""
    return f"{names_of([(first, last)])} of {machine} {'is' if first == last else 'are'} missing"


def damage_in_words(piece: PieceInfo, machine: str, error: PieceDamaged) -> str:
    """What is wrong with a piece: its numbers, its machine, and why it cannot be read."""
    detail = f" ({error.problem})" if type(error) is PieceDamaged else ""
    state = error.state if piece.first == piece.last else error.state.replace("is ", "are ", 1).replace("was ", "were ", 1)
    return f"{names_of([piece])} of {machine} {state}{detail}"
