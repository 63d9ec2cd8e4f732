"""Remove the chains of machines that have not pushed for long, and find what a store pushed and has forgotten since.

Two dangers are prevented here. A chain is removed whose blobs another chain uses: that one has put a hold before, and looks then
whether the chain is about to go; who removes says first that it is about to go, and looks for holds then. Each writes before it
reads, so one of them sees the other, however long it sleeps between two steps. A machine goes on with a chain that is removed: an
empty piece behind its last one ends it first, so that the machine's next push finds its number in use, and begins anew.
"""

from collections.abc import Iterable, Sequence

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple
from ..model import checkpoint as checkpoints
from ..model import history
from ..ops.context import Context
from ..store import ledger
from .arriving import decode_point
from .base_chain import holders_of
from .chain import ChainReader
from .collect import about_to_empty, check_right_to_delete, end_chain, replace_by_empty
from .piece import MOST_EMPTY, REMOVED
from .piece_errors import PieceDamaged
from .piece_names import PieceInfo, all_pieces_of, holds_of
from .pull import read_chain
from .remote_config import Remote
from .sync_state import ReadChain

if TYPE_CHECKING:
    from .objects import ObjectInfo


class OldChain(NamedTuple):
    """A chain to which nothing was pushed for long: its id, its machine, its checkpoints, the bytes of its pieces, the time of the
    newest one by the server, and its number. `kept`: why it stays, "" if it may go."""

    chain: str
    machine: str
    checkpoints: int
    size: int
    newest_ns: int
    last: int
    kept: str = ""


class Removed(NamedTuple):
    """The result of a removal: the chains that are gone, those that stay, and the objects that could not be emptied."""

    chains: tuple[OldChain, ...]
    spared: tuple[OldChain, ...]
    left: tuple[str, ...]


class ForgottenPushes(NamedTuple):
    """Of what this store pushed: the number of its checkpoints that its gc has forgotten since, when the newest of them was made, how many
    it still has, and the bytes of all pieces. `kept`: why it stays, "" if it may be pushed anew."""

    forgotten: int
    newest_ns: int
    checkpoints: int
    size: int
    kept: str = ""


def find_forgotten(context: Context, remote: Remote) -> ForgottenPushes | None:
    """What this store pushed and has forgotten since; None if that is nothing. Raises RemoteError."""
    chain, listed = remote.files.state.chain, remote.objects.list()
    pieces = all_pieces_of(listed).get(chain, []) if chain else []
    try:
        items = read_chain(remote, chain, pieces, ReadChain(remote.config.machine)).items
        made = {point.id: point.created_ns for point in (decode_point(payload) for kind, _, payload in items if kind == ledger.CHECKPOINT)}
    except PieceDamaged as error:
        return ForgottenPushes(0, 0, 0, 0, f"it cannot be read: {error.problem}")
    gone = made.keys() - context.store.identities()
    if not gone:
        return None
    kept = why_held(remote, listed, chain)
    size = sum(piece.size for piece in all_pieces_of(listed)[chain])
    return ForgottenPushes(len(gone), max(made[one] for one in gone), len(made) - len(gone), size, kept)


def find_old(remote: Remote, keep: float) -> list[OldChain]:
    """The chains of other stores whose newest piece is more than `keep` seconds older than the newest piece of all, the oldest first,
    and those whose removal was cut.

    All times are the server's: no clock of a machine counts. The newest chain of all is never old. Raises RemoteError.
    """
    state, listed = remote.files.state, remote.objects.list()
    every, holds = all_pieces_of(listed), holds_of(listed)
    newest = {chain: max(others.values()) for chain, others in holds.items()}
    chains = {chain: left for chain, pieces in every.items() if (left := remote.files.strangers.without(pieces))}
    for chain, pieces in chains.items():
        newest[chain] = max(newest.get(chain, 0), *(one.modified_ns for one in pieces if one.size > MOST_EMPTY), 0)
    limit = max(newest.values(), default=0) - int(keep * 1e9)
    found = []
    for chain in sorted(newest, key=lambda one: (newest[one], one)):
        pieces = chains.get(chain, [])
        if chain == state.chain or chain in state.ended or not newest[chain]:
            continue
        if newest[chain] < limit or (any(piece.size <= MOST_EMPTY for piece in pieces) and _has_ended(remote, pieces)):
            one = _describe_old_chain(remote, chain, pieces) if pieces else OldChain(chain, "a clone that never pushed", 0, 0, 0, 0)
            size = sum(piece.size for piece in every.get(chain, ()))
            found.append(one._replace(size=size, newest_ns=newest[chain], kept=why_held(remote, listed, chain) or one.kept))
    return found


def why_held(remote: Remote, listed: "list[ObjectInfo]", chain: str) -> str:
    """That clones use a chain, with the names of their machines; "" if none does."""
    users = holders_of(remote, listed, chain)
    return f"a clone uses it ({', '.join(users.values())})" if users else ""


def _has_ended(remote: Remote, pieces: Sequence[PieceInfo]) -> bool:
    return _number_of_newest(remote, pieces)[1]


def _number_of_newest(remote: Remote, pieces: Sequence[PieceInfo]) -> tuple[int, bool]:
    """(The number of the newest piece of a chain that can be opened, 0 for none; whether it is the chain's end)."""
    reader = ChainReader(remote.objects, remote.keys, pieces)
    newest = reader.open_newest()
    return (0, False) if newest is None else (reader.pieces[-1].last, newest.is_end)


def _describe_old_chain(remote: Remote, chain: str, pieces: Sequence[PieceInfo]) -> OldChain:
    """What a person has to know of a chain that is old."""
    machine, number, why = remote.files.state.chains.get(chain, ReadChain()).machine, 0, ""
    try:
        found = read_chain(remote, chain, pieces, ReadChain(machine))
        machine = found.read.machine
        number = sum(kind == ledger.CHECKPOINT for kind, _, _ in found.items)
        why = f"it cannot be read: {found.problems[0]}" if found.problems else _why_kept(found.items)
    except PieceDamaged as error:
        why = f"it cannot be read: {error.problem}"
    return OldChain(chain, machine or chain[:8], number, 0, 0, _number_of_newest(remote, pieces)[0], why)


def _why_kept(items: Iterable[tuple[int, int, bytes]]) -> str:
    """Why a chain with these records stays, "" if it may go: a pin keeps it. A label does not: each sandbox that begins with
    `save -m` would stay for ever. Raises PieceDamaged."""
    pinned = set()
    for kind, _, payload in items:
        if kind == ledger.CHECKPOINT:
            point = decode_point(payload)
            pinned |= {point.id} if point.flags & checkpoints.PINNED else set()
        elif kind in ledger.MARKS:
            try:
                mark = history.decode_mark(payload)
            except errors.ManifestCorrupt as error:
                raise PieceDamaged(str(error)) from error
            if kind == ledger.PIN:
                pinned.add(mark.checkpoint)
            elif kind == ledger.UNPIN:
                pinned.discard(mark.checkpoint)
    return "it has pinned checkpoints" if pinned else ""


def remove(remote: Remote, chains: Sequence[OldChain]) -> Removed:
    """Remove these chains: their pieces are emptied, and their names stay in use. Raises RemoteError: without the right to delete,
    before anything is written. What was begun is completed by the next removal."""
    for one in chains[:1]:
        check_right_to_delete(remote, one.chain)
    gone, spared, left = list[OldChain](), list[OldChain](), list[str]()
    with about_to_empty(remote, {one.chain: one.last for one in chains}, REMOVED) as listed:
        every = all_pieces_of(listed)
        for one in chains:
            last, is_ended = _number_of_newest(remote, every.get(one.chain, ()))
            if kept := why_held(remote, listed, one.chain):
                spared.append(one._replace(kept=kept))
            elif last != one.last or not (is_ended or end_chain(remote, one.chain, last + 1, REMOVED)):
                spared.append(one._replace(kept="its machine has just pushed"))
            else:
                full = [piece.name for piece in every.get(one.chain, ()) if piece.size > MOST_EMPTY]
                left += replace_by_empty(remote, dict.fromkeys(full, b""), REMOVED)
                remote.objects.delete([info.name for info in listed if info.name.startswith(f"{one.chain}/hold-")])
                gone.append(one)
    return Removed(tuple(gone), tuple(spared), tuple(left))
