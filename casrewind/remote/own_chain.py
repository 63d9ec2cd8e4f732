"""Look whether the remote still has what this store pushed.

The danger prevented here: "pushed" is said of what nobody can read. A rule of the bucket deleted the first pieces, somebody emptied the
bucket, or a server that looks and then puts let a copied machine put another piece in the place of one. A push that only puts its next
piece meets none of that. So each push of a person looks, and one by itself after a day or 64 pieces.

A look reads the end of the newest piece at the last look, and of each one since: each has to name the one before it, and the last one
has to be what was put. Older pieces are not read, as long as the list says the same of them as then: names, sizes, the server's tags.
The own chain may rest on another one. There the list has to have every number up to the highest one that it has, or that was read.
"""

import os
from collections.abc import Iterable, Sequence

from .. import errors, fsio
from .._typing import NamedTuple
from ..messages import store_errors
from ..model import digest as digests
from . import days
from .chain import ChainReader, missing_in_words
from .objects import ObjectGone
from .piece import FIRST, MOST_EMPTY, PieceReader
from .piece_names import PieceInfo, all_pieces_of, holds_of, without_replaced
from .remote_config import HEAD, Remote
from .seal import HEAD_NAME
from .strangers import row_of
from .sync_state import ReadChain, SyncState

MOST_PIECES = 64
"""Pieces after which a push by itself looks."""
ANEW = "casrewind push --anew sends everything again"


class Look(NamedTuple):
    """The result of a look: what is gone or changed, in words, "" for nothing; the end of the chain if somebody else has ended it: then
    it has nothing, and that is no damage; the number and the MAC of the piece before the newest one; what the list says of the pieces up to
    that one; and the number of its requests."""

    problem: str = ""
    end_piece: PieceReader | None = None
    before: tuple[int, bytes] = 0, FIRST
    tag: bytes = b""
    requests: int = 0


def is_due(state: SyncState) -> bool:
    """True if a push by itself has to look. A clock that was set back counts as a day."""
    return not days.is_within(days.now_ns() - state.looked_ns, 1) or state.next - 1 - state.looked_last >= MOST_PIECES


def look(remote: Remote) -> Look:
    """Look at the remote's head and at the own chain, and note what is there. Raises RemoteError if the remote cannot be read."""
    state, objects, before = remote.files.state, remote.objects, sum(remote.objects.requests.values())
    pieces: list[PieceInfo] = []
    head = f"its object {HEAD_NAME} is not what was put there"
    try:
        if objects.get(HEAD_NAME, 0, 1024) == _own_head(remote):
            head = ""
    except ObjectGone:
        head = f"its object {HEAD_NAME} is gone"
    found = Look()
    if state.chain and state.next > 1:
        listed = objects.list(state.chain)
        pieces = remote.files.strangers.without(all_pieces_of(listed).get(state.chain, []))
        found = _follow_own_pieces(remote, pieces)
        if not found.problem and found.end_piece is None:
            found = found._replace(problem=missing_of_bases(remote, holds_of(listed).get(state.chain, ())))
    problem = "; ".join(filter(None, (head, found.problem)))
    if not problem and found.end_piece is None:
        number, mac = found.before
        if pieces:
            days.put_hint(remote, max(piece.modified_ns for piece in pieces))  # the server's day
        state = remote.files.state
        remote.files.save(state._replace(looked_last=number, looked_mac=mac, looked_tag=found.tag, looked_ns=days.now_ns()))
    return found._replace(problem=problem, requests=sum(objects.requests.values()) - before)


def raise_if_lost(remote: Remote, seen: Look) -> None:
    """Raises RemoteError if a look found something gone or changed."""
    if seen.problem:
        mount = "mount its disk, if it is not; " if remote.config.url.startswith("file:") else ""
        raise errors.RemoteError(f"not all that was pushed is on {remote.config.url}: {seen.problem}", f"{mount}{ANEW}")


def put_head_back(remote: Remote) -> None:
    """Put the very bytes of the remote's head where they are gone or changed. Raises RemoteError."""
    head = _own_head(remote)
    if not remote.objects.put_new(HEAD_NAME, head) and remote.objects.get(HEAD_NAME, 0, 1024) != head:
        remote.objects.replace(HEAD_NAME, head)


def _own_head(remote: Remote) -> bytes:
    """The head as it was put, which the store keeps."""
    with store_errors("reading the remote in", remote.files.directory):
        return fsio.read_file(os.path.join(remote.files.directory, HEAD))


def _follow_own_pieces(remote: Remote, pieces: Sequence[PieceInfo]) -> Look:
    """Follow the own pieces from the last look on; from the first one if the list says something else of those before."""
    state, last = remote.files.state, remote.files.state.next - 1
    reader = ChainReader(remote.objects, remote.keys, pieces)
    start = (state.looked_last, state.looked_mac) if _tag_of(pieces, state.looked_last) == state.looked_tag else (0, FIRST)
    machine = f"{remote.config.machine} (this machine)"
    while True:
        newest, end, before = reader.open_newest(), start, start
        if newest is not None and newest.is_end:
            return Look(end_piece=newest)
        for piece, opened in reader.follow(*start):
            if piece.first > last:  # another store went on with the chain
                break
            end, before = (piece.last, opened.mac_at_end), end
        if end[0] > last or end == (last, state.mac):
            return Look(before=before, tag=_tag_of(pieces, before[0]))
        if reader.list_again():
            continue
        if end[0] == last:
            return Look(f"piece {last} of {machine} is not the one that was pushed")
        hole = reader.hole(machine)
        return Look(missing_in_words(end[0] + 1, last, machine) if hole is None else hole.problem)


def _tag_of(pieces: Sequence[PieceInfo], last: int) -> bytes:
    """A digest of what a list says of the pieces up to number `last`."""
    return digests.of(b"".join(sorted(row_of(piece) for piece in pieces if piece.last <= last)))


def missing_of_bases(remote: Remote, bases: Iterable[str]) -> str:
    """What is gone of these chains, whose blobs the own one uses, by the names of their pieces; "" for nothing. Raises RemoteError if the
    remote cannot be read."""
    for chain in bases:
        read = remote.files.state.chains.get(chain, ReadChain())
        listed = remote.files.strangers.without(all_pieces_of(remote.objects.list(chain)).get(chain, []))
        needed = max(read.seen, 1 if read.mac == FIRST else read.last)  # one that has ended has its end there
        reached = 0
        for piece in without_replaced(piece for piece in listed if piece.size > MOST_EMPTY):
            if piece.first > reached + 1:
                needed = piece.first - 1
                break
            reached = piece.last
        if reached < needed:
            return missing_in_words(reached + 1, needed, read.machine or chain[:8])
    return ""
