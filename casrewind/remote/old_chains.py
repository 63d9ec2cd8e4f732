"""Remove the chains of machines that have not pushed for long or that cannot be read, and find what a store pushed and has forgotten since.

Two dangers are prevented here. A chain is removed whose blobs another chain uses: that one has put a hold before, and looks then
whether the chain is about to go; who removes says first that it is about to go, and looks for holds then. Each writes before it
reads, so one of them sees the other, however long it sleeps between two steps. A machine goes on with a chain that is removed: an
empty piece behind its last one ends it first, so that the machine's next push finds its number in use, and begins anew. So where the
last pieces are gone, the end comes behind the number that this store knows, and not behind what is left.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from .. import errors
from .._typing import TYPE_CHECKING, NamedTuple
from ..context import Context
from ..model import checkpoint as checkpoints
from ..model import undo_history
from ..store import ledger
from .arriving import decode_point
from .base_chain import holders_of
from .chain import ChainReader
from .collect import about_to_empty, check_right_to_delete, delete_signs, end_chain, replace_by_empty
from .piece import MOST_EMPTY, REMOVED
from .piece_errors import PieceDamaged
from .piece_names import LAST_NUMBER, PieceInfo, all_pieces_of, holds_of
from .pull import read_chain
from .remote_config import Remote
from .sync_state import ReadChain, StateFiles
from .verify_chains import ChainReport, chains_read, check_chains, check_head_on_remote

if TYPE_CHECKING:
    from .objects import ObjectInfo


class OldChain(NamedTuple):
    """A chain that may go: its id, its machine, its checkpoints, the bytes of its pieces, the time of the newest one by the server, and its
    number. `kept`: why it stays, "" if it may go. `damage`: why it cannot be read, "" if it can: then nothing was pushed to it for long.
    `taken_back`: what this store has read of it and is no longer there: then it stays as it is, and the store forgets that."""

    chain: str
    machine: str
    checkpoints: int
    size: int
    newest_ns: int
    last: int
    kept: str = ""
    damage: str = ""
    taken_back: str = ""


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
    """The chains of other stores whose newest piece is more than `keep` seconds older than the newest piece of all (0 = none is old), the
    oldest first, those whose removal was cut, those that cannot be read, and those of which something is gone that this store has read.

    All times are the server's: no clock of a machine counts. The newest chain of all is never old. Raises RemoteError, also if a piece
    is of a newer casrewind or a newer key: what it says of the others, and uses of them, is not known here.
    """
    check_head_on_remote(remote)
    state, listed = remote.files.state, remote.objects.list()
    every, holds = all_pieces_of(listed), holds_of(listed)
    newest = {chain: max(others.values()) for chain, others in holds.items()}
    chains = {chain: left for chain, pieces in every.items() if (left := remote.files.strangers.without(pieces))}
    for chain, pieces in chains.items():
        newest[chain] = max(newest.get(chain, 0), *(one.modified_ns for one in pieces if one.size > MOST_EMPTY), 0)
    limit = max(newest.values(), default=0) - int(keep * 1e9) if keep else 0
    reports = _check_chains_of_others(remote, chains)
    found = []
    for chain in sorted({*newest, *reports} - {state.chain, *state.ended}, key=lambda one: (newest.get(one, 0), one)):
        pieces, put, report = chains.get(chain, []), newest.get(chain, 0), reports.get(chain)
        is_old = put and (put < limit or (any(piece.size <= MOST_EMPTY for piece in pieces) and _number_of_newest(remote, pieces)[1]))
        if pieces and report is not None and (report.damage or is_old):
            one = _describe_chain(remote, report, pieces)
        elif is_old:
            one = OldChain(chain, "a clone that never pushed", 0, 0, 0, 0)
        elif report is not None and report.taken_back:
            one = OldChain(chain, report.machine or chain[:8], 0, 0, 0, 0, "what is there can be read", taken_back=report.taken_back)
        else:
            continue
        size = sum(piece.size for piece in every.get(chain, ()))
        found.append(one._replace(size=size, newest_ns=put, kept=why_held(remote, listed, chain) or one.kept))
    return found


def _check_chains_of_others(remote: Remote, chains: Mapping[str, Sequence[PieceInfo]]) -> dict[str, ChainReport]:
    """{chain: what a check of it finds} of these chains, and of those that were read. Raises RemoteError if a piece is newer."""
    state = remote.files.state
    others = {chain: chains.get(chain, ()) for chain in (*chains, *chains_read(remote)) if chain not in (state.chain, *state.ended)}
    reports = {report.chain: report for report in check_chains(remote, others)}
    if newer := next((report for report in reports.values() if report.is_newer), None):
        raise errors.RemoteError(
            f"nothing is removed from {remote.config.url}: {newer.problems[0]}", "upgrade casrewind, or ask for the newer key"
        )
    return reports


def why_held(remote: Remote, listed: "list[ObjectInfo]", chain: str) -> str:
    """That clones use a chain, with the names of their machines; "" if none does."""
    users = holders_of(remote, listed, chain)
    return f"a clone uses it ({', '.join(users.values())})" if users else ""


def _number_of_newest(remote: Remote, pieces: Sequence[PieceInfo]) -> tuple[int, bool]:
    """(The number of the newest piece of a chain that can be opened, 0 for none; whether it is the chain's end)."""
    reader = ChainReader(remote.objects, remote.keys, pieces)
    newest = reader.open_newest()
    return (0, False) if newest is None else (reader.pieces[-1].last, newest.is_end)


def _describe_chain(remote: Remote, report: ChainReport, pieces: Sequence[PieceInfo]) -> OldChain:
    """What a person has to know of a chain that is old or cannot be read. A pin in any of its pieces keeps it."""
    reader, items = ChainReader(remote.objects, remote.keys, pieces), list[tuple[int, int, bytes]]()
    full = [piece for piece in pieces if piece.size > MOST_EMPTY]
    reader.open_ahead(full)
    for piece in full:
        with suppress(PieceDamaged):
            items += reader.records(piece)
    kept, unread = "", [problem for problem in report.problems if problem != report.taken_back]
    try:
        kept = _why_kept(items)
    except PieceDamaged as error:
        unread.append(error.problem)
    if unread and not kept and not report.damage:  # a piece was replaced just now
        kept = f"it cannot be read: {unread[0]}"
    last = _number_of_newest(remote, pieces)[0]
    return OldChain(report.chain, report.machine or report.chain[:8], report.checkpoints, 0, 0, last, kept, report.damage)


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
                mark = undo_history.decode_mark(payload)
            except errors.ManifestCorrupt as error:
                raise PieceDamaged(str(error)) from error
            if kind == ledger.PIN:
                pinned.add(mark.checkpoint)
            elif kind == ledger.UNPIN:
                pinned.discard(mark.checkpoint)
    return "it has pinned checkpoints" if pinned else ""


def remove(remote: Remote, chains: Sequence[OldChain]) -> Removed:
    """Remove these chains: their pieces are emptied, and their names stay in use. One that could not be read stays if it can be read now.
    Raises RemoteError: without the right to delete, before anything is written. What was begun is completed by the next removal."""
    for one in chains[:1]:
        check_right_to_delete(remote, one.chain)
    gone, spared, left = list[OldChain](), list[OldChain](), list[str]()
    with about_to_empty(remote, {one.chain: one.last for one in chains}, REMOVED) as listed:
        every = all_pieces_of(listed)
        for one in chains:
            last, is_ended = _number_of_newest(remote, every.get(one.chain, ()))
            if kept := why_held(remote, listed, one.chain):
                spared.append(one._replace(kept=kept))
            elif one.damage and not is_ended and not check_chains(remote, {one.chain: every.get(one.chain, ())})[0].damage:
                spared.append(one._replace(kept="it can be read again"))
            elif last != one.last or not (is_ended or end_chain(remote, one.chain, _number_of_end(remote, one, every), REMOVED)):
                spared.append(one._replace(kept="its machine has just pushed"))
            else:
                full = [piece.name for piece in every.get(one.chain, ()) if piece.size > MOST_EMPTY]
                left += replace_by_empty(remote, dict.fromkeys(full, b""), REMOVED)
                delete_signs(remote, listed, one.chain)
                gone.append(one)
    return Removed(tuple(gone), tuple(spared), tuple(left))


def _number_of_end(remote: Remote, one: OldChain, every: Mapping[str, Sequence[PieceInfo]]) -> int:
    """The number of the end of a chain. If its last pieces may be gone, it is behind all that was read or is listed."""
    known = [one.last]
    if one.damage:
        read = remote.files.state.chains.get(one.chain, ReadChain())
        singles = (piece.last for piece in remote.files.strangers.without(every.get(one.chain, ())) if piece.first == piece.last)
        known += [read.last, read.seen, *(number for number in singles if number < LAST_NUMBER)]
    return max(known) + 1


def forget_taken_back(remote: Remote, chains: Sequence[OldChain]) -> None:
    """Forget of these chains what this store has read: the next pull reads from its beginning what is there. What it took is here, and
    stays. Used under the store's lock for pushes and pulls. Raises StoreError."""
    files = StateFiles(remote.files.directory)  # as it is now: a person has thought about a question since
    read = dict(files.state.chains)
    for one in chains:
        before = read.pop(one.chain, None)
        if before is not None and one.size:
            read[one.chain] = ReadChain(before.machine)
    if read != files.state.chains:
        files.save(files.state._replace(chains=read))
