"""Check what is on a remote: that each chain is whole, and with `read_blobs` each byte of it.

The danger prevented here: damage is found on the day when the remote is needed. Nothing is changed. A piece that cannot be
read stops nothing: the pieces behind it are checked, too, and each that is wrong is named.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from .. import errors
from .._typing import NamedTuple
from ..messages import plural
from ..model import checkpoint as checkpoints
from ..model import digest as digests
from ..model.checkpoint import Checkpoint
from ..ops.context import Context
from ..store import ledger
from ..store.reachability import HOLDS, Marker
from .chain import ChainReader, PieceInfo, chains_of, damage_in_words, names_of
from .connect import KEYS, read_head
from .piece import CONTAINER, CONTENT, FIRST, PieceDamaged, PieceReader
from .pull import decode_point
from .remote_config import Remote
from .seal import check_head, check_locked_key

_AT_ONCE = 64
"""Pieces of a chain that are opened at once."""
_CHAINS = 8
"""Chains that are checked at once, if only their tables and records are read."""


class ChainReport(NamedTuple):
    """What was found in one chain: the machine that pushes it ("" = unknown), whether that is this store, numbers of pieces,
    checkpoints (without those for safety) and blobs, bytes, when its newest piece was put (ns since 1970, by the server), and
    sentences about what is wrong."""

    chain: str
    machine: str
    is_own: bool
    pieces: int
    checkpoints: int
    blobs: int
    size: int
    newest_ns: int
    problems: tuple[str, ...]


class VerifiedRemote(NamedTuple):
    """The result of a check: each chain, what else is wrong, bytes received, and the number of requests."""

    chains: tuple[ChainReport, ...]
    problems: tuple[str, ...]
    size: int
    requests: int

    @property
    def damage(self) -> int:
        """The number of problems."""
        return len(self.problems) + sum(len(chain.problems) for chain in self.chains)


def verify_remote(context: Context, remote: Remote, *, read_blobs: bool = False) -> VerifiedRemote:
    """Check the tables and records of all chains, and how each piece names the one before it. With `read_blobs` read each
    blob, compare it with its digest, and look whether each checkpoint has all that it needs. Changes nothing. Raises
    RemoteError if the remote cannot be read, or was made with another key."""
    head = read_head(remote.objects)
    if head is None:
        raise errors.RemoteError(f"there is no casrewind remote at {remote.config.url}", "check the address")
    check_head(remote.keys, head, remote.config.url)
    listed = remote.objects.list()
    problems = []
    for info in listed:
        if info.name.startswith(KEYS):
            try:
                check_locked_key(remote.objects.get(info.name))
            except errors.RemoteError as error:
                problems.append(f"{info.name}: {error.problem}")
    pieces = chains_of(listed)
    if (state := remote.files.state).next > 1:
        pieces.setdefault(state.chain, [])  # it has to be there; whoever owns the bucket may delete the chains of others
    chains = [_ChainCheck(remote, chain, found) for chain, found in pieces.items()]
    with ThreadPoolExecutor(1 if read_blobs else _CHAINS) as threads:  # to read blobs takes the memory of a piece for each thread
        for _ in threads.map(lambda chain: chain.read_pieces(read_blobs=read_blobs), chains):
            pass
    if read_blobs:
        there = {use: set[bytes]().union(*(chain.digests[use] for chain in chains)) for use in (CONTENT, CONTAINER)}
        for chain in chains:
            chain.note_checkpoints_without_content(context, there)
    requests = sum(remote.objects.requests.values())
    return VerifiedRemote(tuple(chain.report() for chain in chains), tuple(problems), remote.objects.received_bytes, requests)


class _ChainCheck:
    """The check of one chain."""

    def __init__(self, remote: Remote, chain: str, pieces: Sequence[PieceInfo]) -> None:
        """Reads nothing yet."""
        state = remote.files.state
        known = state.chains.get(chain)
        self._is_own = chain == state.chain
        self._chain, self._machine = chain, remote.config.machine if self._is_own else "" if known is None else known.machine
        self._last_known = state.next - 1 if self._is_own else 0 if known is None else known.last
        self._reader = ChainReader(remote.objects, remote.keys, pieces)
        self._points: list[Checkpoint] = []
        self._problems: list[str] = []
        self._blobs = 0
        self.digests: dict[int, set[bytes]] = {CONTENT: set(), CONTAINER: set()}
        """{use: the digests of blobs that are there, and sound}, if blobs are read."""

    @property
    def _machine_or_chain(self) -> str:
        return self._machine or self._chain[:8]

    def read_pieces(self, *, read_blobs: bool) -> None:
        """Check each piece, and how it follows the one before."""
        self._read_pieces_in_order(read_blobs=read_blobs)
        if self._reader.list_again():  # a roll-up came between
            self._points, self._problems, self._blobs = [], [], 0
            self._read_pieces_in_order(read_blobs=read_blobs)

    def _read_pieces_in_order(self, *, read_blobs: bool) -> None:
        pieces, last, mac = self._reader.pieces, 0, FIRST
        if pieces and self._is_ended(len(pieces) - 1):
            return
        for at, piece in enumerate(pieces):
            if at % _AT_ONCE == 0:
                self._reader.open_ahead(range(at, min(at + _AT_ONCE, len(pieces))))
            if piece.first > last + 1:
                self._add_missing(last + 1, piece.first - 1)
                mac = b""
            try:
                opened = self._reader.open_reader(at)
                self._machine = self._machine or opened.table.machine
                if mac and piece.first == last + 1 and opened.table.before != mac:
                    self._problems.append(f"{names_of([piece])} of {self._machine_or_chain} does not follow the piece before it")
                mac = opened.mac_at_end
                self._count_and_check_piece(opened, read_blobs=read_blobs)
            except PieceDamaged as error:
                self._reader.damaged[at] = error
                self._problems.append(damage_in_words(piece, self._machine_or_chain, error))
                mac = b""
            last = piece.last
        if last < self._last_known:  # it was there when this store pushed or pulled
            self._add_missing(last + 1, self._last_known)

    def _add_missing(self, first: int, last: int) -> None:
        self._problems.append(f"{names_of([(first, last)])} of {self._machine_or_chain} {'is' if first == last else 'are'} missing")

    def _is_ended(self, at: int) -> bool:
        """True if the piece is the end of a chain, whose other pieces are emptied."""
        try:
            return self._reader.open_reader(at).is_end
        except PieceDamaged:
            return False

    def _count_and_check_piece(self, opened: PieceReader, *, read_blobs: bool) -> None:
        """Count what is in a piece. Raises PieceDamaged."""
        self._blobs += len(opened.table.blobs)
        for kind, _, payload in opened.records() if opened.table.records >= 0 else ():
            if kind == ledger.CHECKPOINT:
                self._points.append(decode_point(payload))
        for digest, use, data in opened.every_blob() if read_blobs else ():
            if digests.of(data) != digest:
                raise PieceDamaged(f"its blob {digest.hex()[:16]} has another content than its digest says")
            self.digests[use].add(digest)

    def note_checkpoints_without_content(self, context: Context, there: dict[int, set[bytes]]) -> None:
        """Find the checkpoints that lack something. `there`: {use: the digests of blobs on the remote}."""
        if self._is_content_missing(context, self._points, there):
            lacking = sum(self._is_content_missing(context, [point], there) for point in self._points)
            self._problems.append(f"{plural(lacking, 'checkpoint')} of {self._machine_or_chain} cannot be restored: content is missing")

    def _is_content_missing(self, context: Context, points: Sequence[Checkpoint], there: dict[int, set[bytes]]) -> bool:
        marker = Marker(
            self._fetch_containers,
            context.counter("looking for what is missing"),
            skip=lambda kind, digest: kind not in HOLDS and digest in there[CONTENT],
        )
        files = [point.transcript for point in points if point.transcript is not None]
        try:
            marker.mark_with_references([point.tree for point in points], [point.domain for point in points], (), files)
        except errors.CasrewindError:  # a tree that no save makes
            return True
        return bool(marker.missing or marker.content)

    def _fetch_containers(self, wanted: list[bytes], kind: int) -> Iterator[tuple[bytes, bytes | errors.StoreDamaged]]:
        """A Reader of containers (store/reachability.py)."""
        found = dict(self._reader.fetch(dict.fromkeys(wanted, kind)))
        for digest in wanted:
            data = found.get(digest)
            if data is None or digests.of(data) != digest:
                yield digest, errors.BlobMissing(f"blob {digest.hex()[:16]} is not on the remote")
            else:
                yield digest, data

    def report(self) -> ChainReport:
        """What was found."""
        pieces = self._reader.pieces
        listed = sum(point.trigger != checkpoints.SAFETY for point in self._points)
        size, newest = sum(piece.size for piece in pieces), max((piece.modified_ns for piece in pieces), default=0)
        return ChainReport(self._chain, self._machine, self._is_own, len(pieces), listed, self._blobs, size, newest, tuple(self._problems))
