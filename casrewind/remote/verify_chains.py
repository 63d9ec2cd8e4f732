"""Check what is on a remote: that each chain is whole, and with `read_blobs` each byte of it.

The danger prevented here: damage is found on the day when the remote is needed. Nothing is changed. A piece that cannot be
read stops nothing: the pieces behind it are checked, too, and each that is wrong is named.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import plural
from ..model import checkpoint as checkpoints
from ..model import digest as digests
from ..model.manifest import Entry
from ..store import ledger
from ..store.reachability import HOLDS, Marker
from .allowance import Allowance
from .arriving import decode_point
from .chain import ChainReader, damage_in_words, missing_in_words, names_of
from .connect import KEYS, read_head
from .own_chain import missing_of_bases
from .piece import CONTAINER, CONTENT, FIRST, PieceReader
from .piece_errors import PieceDamaged, PieceGone, PieceMissing, PieceNewer
from .piece_names import PieceInfo, all_pieces_of, holds_of
from .remote_config import Remote, identity_of
from .seal import check_locked_key, identity_of_head, open_head

_IF_RIGHT = "check the address; if it is right, casrewind push --anew makes it again"
_AT_ONCE = 64
"""Pieces of a chain that are opened at once."""
_CHAINS = 8
"""Chains that are checked at once, if only their tables and records are read."""


class ChainReport(NamedTuple):
    """What was found in one chain: the machine that pushes it ("" = unknown), whether that is this store, numbers of pieces,
    checkpoints (without those for safety) and blobs, bytes, when its newest piece was put (ns since 1970, by the server), and
    sentences about what is wrong.

    `damage`: the first of them that every reader meets, "" if none does, or if a piece was replaced meanwhile. `is_newer`: some piece is of
    a newer casrewind or a newer key. `taken_back`: that something which this store read, or pushed, is no longer there: a reader that
    never saw it misses nothing; "" if all is there."""

    chain: str
    machine: str
    is_own: bool
    pieces: int
    checkpoints: int
    blobs: int
    size: int
    newest_ns: int
    problems: tuple[str, ...]
    damage: str = ""
    is_newer: bool = False
    taken_back: str = ""


class VerifiedRemote(NamedTuple):
    """The result of a check: each chain, what else is wrong, bytes received, the number of requests, and the names of objects that nobody
    with the key put there."""

    chains: tuple[ChainReport, ...]
    problems: tuple[str, ...]
    size: int
    requests: int
    strangers: tuple[str, ...] = ()

    @property
    def damage(self) -> int:
        """The number of problems."""
        return len(self.problems) + sum(len(chain.problems) for chain in self.chains)


def verify_remote(context: Context, remote: Remote, *, read_blobs: bool = False) -> VerifiedRemote:
    """Check the tables and records of all chains, and how each piece names the one before it. With `read_blobs` read each
    blob, compare it with its digest, and look whether each checkpoint has all that it needs. Changes nothing. Raises
    RemoteError if the remote cannot be read, or was made with another key."""
    check_head_on_remote(remote)
    listed = remote.objects.list()
    problems = []
    for info in listed:
        if info.name.startswith(KEYS):
            try:
                check_locked_key(remote.objects.get(info.name))
            except errors.RemoteError as error:
                problems.append(f"{info.name}: {error.problem}")
    strangers = remote.files.strangers
    pieces = {chain: strangers.without(found) for chain, found in all_pieces_of(listed).items()}
    pieces = {chain: found for chain, found in pieces.items() if found}
    state = remote.files.state
    for expected in (*([state.chain] if state.next > 1 else []), *chains_read(remote)):
        pieces.setdefault(expected, [])  # this store pushed or read it
    allowance = Allowance()  # one for all: what is kept of each chain is kept to the end
    chains = [_ChainCheck(remote, chain, found, allowance if read_blobs else None) for chain, found in pieces.items()]
    _read_pieces_of_all(remote, chains, read_blobs=read_blobs)
    if read_blobs:
        there = {use: set[bytes]().union(*(chain.digests[use] for chain in chains)) for use in (CONTENT, CONTAINER)}
        for chain in chains:
            chain.note_checkpoints_without_content(context, there)
    requests = sum(remote.objects.requests.values())
    reports = tuple(chain.report() for chain in chains if chain.has_pieces or chain.is_expected)
    problems += filter(None, [missing_of_bases(remote, [base for base in holds_of(listed).get(state.chain, ()) if base not in pieces])])
    return VerifiedRemote(reports, tuple(problems), remote.objects.received_bytes, requests, tuple(sorted(strangers.met)))


def check_head_on_remote(remote: Remote) -> None:
    """Raises RemoteError if what is at the remote's address is no remote, or another one than that of this store: an empty directory, where
    a disk is not mounted, lacks every chain."""
    head = read_head(remote.objects)
    if head is None:
        raise errors.RemoteError(f"there is no casrewind remote at {remote.config.url}", _IF_RIGHT)
    if identity_of_head(head, remote.config.url) != identity_of(remote.files.directory):
        raise errors.RemoteError(f"{remote.config.url} is not the remote that this project pushes to", _IF_RIGHT)
    open_head(remote.keys, head, remote.config.url)


def chains_read(remote: Remote) -> list[str]:
    """The chains of other stores of which this store has read a piece."""
    return [chain for chain, read in remote.files.state.chains.items() if read.last]


def check_chains(remote: Remote, pieces: Mapping[str, Sequence[PieceInfo]]) -> list[ChainReport]:
    """Check the tables and records of these chains {id: what has the name of a piece}. Changes nothing. Raises RemoteError if the remote
    cannot be read."""
    chains = [_ChainCheck(remote, chain, found, None) for chain, found in pieces.items()]
    _read_pieces_of_all(remote, chains, read_blobs=False)
    return [chain.report() for chain in chains]


def _read_pieces_of_all(remote: Remote, chains: "Sequence[_ChainCheck]", *, read_blobs: bool) -> None:
    with ThreadPoolExecutor(1 if read_blobs else _CHAINS) as threads:  # to read blobs takes the memory of a piece for each thread
        for _ in threads.map(lambda chain: chain.read_pieces(read_blobs=read_blobs), chains):
            pass
    for chain in chains:
        remote.files.strangers.add(chain.strangers)
    remote.files.strangers.save()


class _Needs(NamedTuple):
    """What a checkpoint needs: its tree, its domain, its conversation."""

    tree: bytes
    domain: bytes
    transcript: Entry | None


def _runs(pieces: Iterable[PieceInfo]) -> list[tuple[int, int]]:
    """The numbers of these pieces, neighbours together: (first, last)."""
    runs: list[tuple[int, int]] = []
    for piece in sorted(pieces):
        if runs and piece.first <= runs[-1][1] + 1:
            runs[-1] = runs[-1][0], max(runs[-1][1], piece.last)
        else:
            runs.append((piece.first, piece.last))
    return runs


class _ChainCheck:
    """The check of one chain."""

    def __init__(self, remote: Remote, chain: str, pieces: Sequence[PieceInfo], allowance: Allowance | None) -> None:
        """Reads nothing yet."""
        state = remote.files.state
        known = state.chains.get(chain)
        self._is_own = chain == state.chain
        self._chain, self._machine = chain, remote.config.machine if self._is_own else "" if known is None else known.machine
        self._last_known = state.next - 1 if self._is_own else 0 if known is None else known.last
        self._mac_known = state.mac if self._is_own else FIRST if known is None else known.mac
        self._not_the_known = "is not the one that was pushed" if self._is_own else "is not the one that was read here"
        self._reader = ChainReader(remote.objects, remote.keys, pieces, allowance)
        self._listed = 0
        self._needs: list[_Needs] = []
        self._problems: list[str] = []
        self._taken_back = ""
        self._blobs = 0
        self.digests: dict[int, set[bytes]] = {CONTENT: set(), CONTAINER: set()}
        """{use: the digests of blobs that are there, and sound}, if blobs are read."""

    @property
    def _machine_or_chain(self) -> str:
        return self._machine or self._chain[:8]

    @property
    def strangers(self) -> list[PieceInfo]:
        """What has the name of a piece, and nobody with the key put there."""
        return self._reader.strangers

    @property
    def has_pieces(self) -> bool:
        """True if it has a piece, or damage."""
        return bool(self._reader.pieces or self._problems or self._taken_back)

    @property
    def is_expected(self) -> bool:
        """True if this store pushed to it, or read it."""
        return self._last_known > 0

    def read_pieces(self, *, read_blobs: bool) -> None:
        """Check each piece, and how it follows the one before."""
        while True:
            self._listed, self._needs, self._problems, self._taken_back, self._blobs = 0, [], [], "", 0
            self._read_pieces_in_order(read_blobs=read_blobs)
            gone = self._missing
            if not self._reader.list_again() and self._missing == gone:  # else a roll-up came between, or none has taken their place
                break
        if not read_blobs:  # else it is needed once more
            self._reader.forget_all_read()  # there may be thousands of chains

    @property
    def _missing(self) -> list[PieceInfo]:
        return [piece for piece, error in self._reader.damaged.items() if isinstance(error, PieceMissing)]

    def _read_pieces_in_order(self, *, read_blobs: bool) -> None:
        newest = self._reader.open_newest()
        if newest is not None and newest.is_end:  # its other pieces are emptied
            return
        last, mac, named = 0, FIRST, set[PieceInfo | None]()
        while True:
            for piece, opened in self._reader.follow(last, mac):
                self._machine = self._machine or opened.table.machine
                self._count_or_note_damage(piece, opened, read_blobs=read_blobs)
                last = piece.last
                if last == self._last_known and opened.mac_at_end != self._mac_known:
                    self._taken_back = f"{names_of([piece])} of {self._machine_or_chain} {self._not_the_known}"
            hole = self._reader.hole(self._machine_or_chain)
            if hole is not None and hole.piece not in self._missing:
                self._problems.append(hole.problem)
                named |= {hole.piece}
            behind = next((piece for piece in self._reader.pieces if piece.first > last), None)
            if behind is None:
                break
            last, mac = behind.first - 1, self._reader.open_reader(behind).table.before
        damaged = {piece: error for piece, error in self._reader.damaged.items() if piece not in named}
        missing = set(self._missing)
        self._problems += [missing_in_words(*run, self._machine_or_chain) for run in _runs(missing)]
        self._problems += [damage_in_words(piece, self._machine_or_chain, damaged[piece]) for piece in sorted(damaged.keys() - missing)]
        if last < self._last_known and not self._problems:  # it was there when this store pushed or pulled
            self._taken_back = missing_in_words(last + 1, self._last_known, self._machine_or_chain)

    def _count_or_note_damage(self, piece: PieceInfo, opened: PieceReader, *, read_blobs: bool) -> None:
        try:
            self._count_and_check_piece(piece, opened, read_blobs=read_blobs)
        except PieceDamaged as error:
            self._reader.note_damage(piece, error)

    def _count_and_check_piece(self, piece: PieceInfo, opened: PieceReader, *, read_blobs: bool) -> None:
        """Count what is in a piece. Raises PieceDamaged."""
        self._blobs += len(opened.table.blobs)
        for kind, _, payload in self._reader.records(piece):
            if kind == ledger.CHECKPOINT:
                point = decode_point(payload)
                self._listed += point.trigger != checkpoints.SAFETY
                if read_blobs:
                    self._needs.append(_Needs(point.tree, point.domain, point.transcript))
        if read_blobs:
            opened.check_padding()
        for digest, use, data in opened.every_blob() if read_blobs else ():
            if digests.of(data) != digest:
                raise PieceDamaged(f"its blob {digest.hex()[:16]} does not match its digest")
            self.digests[use].add(digest)

    def note_checkpoints_without_content(self, context: Context, there: dict[int, set[bytes]]) -> None:
        """Find the checkpoints that lack something. `there`: {use: the digests of blobs on the remote}."""
        if self._is_content_missing(context, self._needs, there):
            lacking = sum(self._is_content_missing(context, [point], there) for point in self._needs)
            self._problems.append(f"{plural(lacking, 'checkpoint')} of {self._machine_or_chain} cannot be restored: content is missing")

    def _is_content_missing(self, context: Context, points: "Sequence[_Needs]", there: dict[int, set[bytes]]) -> bool:
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
        left = dict.fromkeys(wanted, kind)
        for digest, data in self._reader.fetch(dict(left)):
            if digest in left and digests.of(data) == digest:
                del left[digest]
                yield digest, data
        for digest in left:
            yield digest, errors.BlobMissing(f"blob {digest.hex()[:16]} is not on the remote")

    def report(self) -> ChainReport:
        """What was found."""
        pieces = self._reader.pieces
        size, newest = sum(piece.size for piece in pieces), max((piece.modified_ns for piece in pieces), default=0)
        numbers = len(pieces), self._listed, self._blobs, size, newest
        wrong = self._reader.damaged.values()
        damage = "" if any(isinstance(error, PieceGone) for error in wrong) else next(iter(self._problems), "")
        is_newer = any(isinstance(error, PieceNewer) for error in wrong)
        problems = (*self._problems, *filter(None, (self._taken_back,)))
        return ChainReport(self._chain, self._machine, self._is_own, *numbers, problems, damage, is_newer, self._taken_back)
