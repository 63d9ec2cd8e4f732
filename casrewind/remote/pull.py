"""Pull: take the checkpoints of other stores from their chains.

The danger prevented here: bytes of somebody else count as one's own, or half a checkpoint counts as one. Each blob is hashed when
it is stored, and a checkpoint counts only if all its blobs are here. Which records count, arriving.py decides.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from .._typing import TYPE_CHECKING, NamedTuple
from ..context import Context
from ..history.checkpoint_names import AFTER, REMOTE
from ..messages import plural
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..store import push_notes
from . import days
from .arriving import Arriving, Item, OwnRecords, choose_arriving, key_here, own_records
from .bucket_errors import LIST
from .chain import ChainReader, damage_in_words
from .fetch import Batch, ChainRecords
from .names import allowed_characters
from .piece import FIRST, MOST_EMPTY
from .piece_errors import PieceDamaged
from .piece_names import PieceInfo, all_pieces_of
from .remote_config import ObjectStore, Remote
from .sync_state import ReadChain, RemoteLists, StateFiles

if TYPE_CHECKING:
    from .objects import ObjectInfo

ORIGIN = 16
"""Digits of a chain's id that its checkpoints have here."""
_LISTED = 50_000
"""Objects of a list that are held at once: fifty pages."""
_AHEAD = 32
"""Chains whose newest pieces are read before they are needed."""
_UNSAVED = 64
"""Chains that a pull may read again after a kill, and one in eight of a state that has many."""


class Pulled(NamedTuple):
    """The result of a pull: {machine: number of its new checkpoints}, bytes received, requests, sentences about what could
    not be taken, the number of objects that nobody with the key put there, and other sentences for a person."""

    checkpoints: Mapping[str, int]
    size: int
    requests: int
    problems: tuple[str, ...] = ()
    strangers: int = 0
    notes: tuple[str, ...] = ()


def pull(context: Context, remote: Remote, *, newest: bool = False, everything: bool = False) -> Pulled:
    """Take all checkpoints of other machines that are not here yet, with their pins and labels; with `newest` only the newest of each.

    Lists the chains with news only, and every object once in seven days, or with `everything` (days.py).
    Damage in one chain stops only that chain, and `problems` names it. A repeated pull changes nothing. Raises RemoteError, StoreFull,
    StoreBusy while another push or pull runs.
    """
    taken, problems = dict[str, int](), list[str]()
    with context.store.hold_lock(*push_notes.PUSH_OR_PULL):
        progress = _Progress(remote.files)
        names, batch, notes = _names_given(remote), Batch(context), list[str]()

        def store_batch() -> None:
            for one, kept, trouble in batch.store():
                problems.extend(trouble)
                found, number = one.found, sum(point.trigger != checkpoints.SAFETY for point in kept)
                if number:
                    taken[found.read.machine] = number
                read = found.read if len(kept) == len(one.arriving.points) else progress.of(found.chain)
                progress.note(found.chain, read._replace(machine=found.read.machine))  # the name is given for good

        def known(identity: str) -> Checkpoint | None:
            return batch.points.get(identity) or context.store.checkpoint(identity)

        try:
            changed = _changed_chains(remote, newest=newest, everything=everything)
            problems += changed.gone
            if _leave_unknown_chain(remote, changed.own):
                changed.chains.append((changed.own[0].name.partition("/")[0], changed.own))
                notes.append(_BEHIND)
            for chain, reader in _read_ahead(remote, changed.chains):
                before = progress.of(chain)
                try:
                    found = (_read_newest if newest else _read_new)(chain, reader, before, names)
                    problems += found.problems
                    arriving = records_as_here(found.chain, found.read.machine, own_records(found.items), known, newest=newest)
                except PieceDamaged as error:
                    problems.append(error.problem)
                    continue
                finally:
                    remote.files.strangers.add(reader.strangers)
                problems += arriving.problems
                names.add(found.read.machine)
                if arriving.points or arriving.others:
                    batch.fetch(found, arriving)
                else:
                    progress.note(chain, found.read)
                if batch.is_full:
                    store_batch()
            store_batch()
            progress.listed = RemoteLists() if problems or changed.listed.requests < 2 else changed.listed
        finally:
            try:
                store_batch()
            finally:
                batch.close()
                progress.save()
                remote.files.strangers.save()
    requests = sum(remote.objects.requests.values())
    return Pulled(taken, remote.objects.received_bytes, requests, tuple(problems), len(remote.files.strangers.met), tuple(notes))


class _Progress:
    """How far the chains were read. The state of a remote has all chains, so it is not written for each of them."""

    def __init__(self, files: StateFiles) -> None:
        self._files = files
        self._unsaved: dict[str, ReadChain] = {}
        self.listed = files.state.listed

    def of(self, chain: str) -> ReadChain:
        return self._files.state.chains.get(chain, ReadChain())

    def note(self, chain: str, read: ReadChain) -> None:
        if read != self.of(chain):
            self._unsaved[chain] = read
        if len(self._unsaved) > _UNSAVED + len(self._files.state.chains) // 8:
            self.save()

    def save(self) -> None:
        if self._unsaved or self.listed != self._files.state.listed:
            self._files.save(self._files.state._replace(chains=self._files.state.chains | self._unsaved, listed=self.listed))
            self._unsaved = {}


def all_objects(objects: ObjectStore) -> "Iterator[ObjectInfo]":
    """All objects of a remote in order, and no more than some of them in memory."""
    after = ""
    while found := objects.list("", after, _LISTED):
        yield from found
        if len(found) != _LISTED:
            return
        after = found[-1].name


def chains_listed(remote: Remote) -> Iterator[tuple[str, Sequence[PieceInfo]]]:
    """Each chain of a remote with what has the names of its pieces, but for known strangers. One chain at a time."""
    for _, together in itertools.groupby(all_objects(remote.objects), key=lambda info: info.name.partition("/")[0]):
        for chain, pieces in all_pieces_of(together).items():
            if left := remote.files.strangers.without(pieces):
                yield chain, left


_BEHIND = (
    "the remote has more of this machine than this store knows (it was put back from a backup, or a copy of it pushed): that came as "
    "another machine's, and this one continues in a new chain"
)


def _leave_unknown_chain(remote: Remote, pieces: Sequence[PieceInfo]) -> bool:
    """If the own chain has pieces that this store does not know, let the next push begin a new chain, which rests on it, and read the old
    one as another machine's. False: it has none."""
    files, state = remote.files, remote.files.state
    if state.next == 1 or all(piece.last < state.next for piece in pieces):
        return False
    reader = ChainReader(remote.objects, remote.keys, pieces)
    opened = next(reader.follow(state.next - 1, state.mac), (None, None))[1]
    if opened is None and reader.list_again():  # a copy may have made a roll-up
        opened = next(reader.follow(state.next - 1, state.mac), (None, None))[1]
    if opened is None or opened.mac in state.pending_macs:
        return False
    files.begin_chain_on_own()
    files.save(files.state._replace(chains=files.state.chains | {state.chain: ReadChain("", state.next - 1, state.mac)}))
    return True


class _Changed(NamedTuple):
    """The chains of other stores that have pieces which were not read, that with the newest piece last: a plain name that several machines
    have means the newest, by the order in the ledger. `own`: what has the names of own pieces. `gone`: sentences about what was read here
    and is gone, if every object was listed. `listed`: what the state is to say of these lists."""

    chains: list[tuple[str, Sequence[PieceInfo]]]
    own: Sequence[PieceInfo]
    gone: list[str]
    listed: RemoteLists


def _changed_chains(remote: Remote, *, newest: bool, everything: bool) -> _Changed:
    """List what is new. A chain that was removed has its end there, so nothing of it is missing."""
    state, now = remote.files.state, days.now_ns()
    hinted, latest = (None, 0) if everything else days.find_hinted(remote, newest=newest)
    before = remote.objects.requests.get(LIST, 0)
    found, gone = [], {chain: read for chain, read in state.chains.items() if read.last and hinted is None}
    own: Sequence[PieceInfo] = ()
    for chain, pieces in chains_listed(remote) if hinted is None else days.unread_pieces(remote, hinted):
        own = pieces if chain == state.chain else own
        read = state.chains.get(chain, ReadChain())
        last = max(piece.last for piece in pieces)
        if hinted is None:
            latest = max(latest, *(piece.modified_ns for piece in pieces))
        if last > max(read.last, read.seen if newest else 0) and chain != state.chain and chain not in state.ended:
            found.append((chain, pieces))
        has_it = any(piece.first <= read.last <= piece.last and (piece.size > MOST_EMPTY or read.mac == FIRST) for piece in pieces)
        if has_it or last > read.last:  # what is behind tells whether it has ended
            gone.pop(chain, None)
    if hinted is None:
        listed = RemoteLists(min(latest, now), now, latest, remote.objects.requests.get(LIST, 0) - before)
    else:
        listed = state.listed._replace(newest_ns=min(max(latest, state.listed.newest_ns), now))
    found.sort(key=lambda one: (max(piece.modified_ns for piece in one[1]), one[0]))
    problems = [
        f"what {read.machine or chain[:8]} pushed is no longer on the remote, up to piece {read.last} at least: what was pulled is here"
        for chain, read in gone.items()
    ]
    return _Changed(found, own, problems, listed)


def _read_ahead(remote: Remote, chains: Sequence[tuple[str, Sequence[PieceInfo]]]) -> Iterator[tuple[str, ChainReader]]:
    """Yield each chain with a reader. The newest pieces of the next chains are opened eight at a time."""
    from concurrent.futures import ThreadPoolExecutor

    def opened(one: tuple[str, Sequence[PieceInfo]]) -> tuple[str, ChainReader]:
        reader = ChainReader(remote.objects, remote.keys, one[1])
        reader.open_newest()
        return one[0], reader

    with ThreadPoolExecutor(8) as threads:
        for start in range(0, len(chains), _AHEAD):
            yield from threads.map(opened, chains[start : start + _AHEAD])


def read_chain(remote: Remote, chain: str, pieces: Sequence[PieceInfo], read: ReadChain) -> ChainRecords:
    """The records in a chain behind what was read of it. Raises RemoteError if the remote cannot be read."""
    return _read_new(chain, ChainReader(remote.objects, remote.keys, pieces), read, _names_given(remote))


def _names_given(remote: Remote) -> set[str]:
    """The names that machines have here."""
    return {one.machine for one in remote.files.state.chains.values()} | {remote.config.machine}


def _read_newest(chain: str, reader: ChainReader, read: ReadChain, names: set[str]) -> ChainRecords:
    """The records of a chain from its end back to the newest checkpoint. All that is new if a piece is damaged."""
    items: list[Item] = []
    name, after = read.machine, None
    reader.open_newest()
    if reader.damaged:
        return _read_new_for_newest(chain, reader, read, names)
    seen = reader.pieces[-1].last
    for info in reversed(reader.pieces):
        try:
            opened = reader.open_reader(info)
            if opened.is_end:
                break
            if after not in (None, opened.mac_at_end):
                raise PieceDamaged(f"the piece {info.name} of the remote is not the one before its next one")
            name, after = name or name_of_machine(names, chain, opened.table.machine), opened.table.before
            new = list(reader.records(info))
        except PieceDamaged:
            return _read_new_for_newest(chain, reader, read, names)
        items[:0] = new
        if any(point.trigger != checkpoints.SAFETY for _, point in own_records(new).points):
            break
    return ChainRecords(chain, reader, items, read._replace(machine=name, seen=seen), [])


def _read_new_for_newest(chain: str, reader: ChainReader, read: ReadChain, names: set[str]) -> ChainRecords:
    """As _read_new, but what is older than the newest checkpoint counts as unread."""
    found = _read_new(chain, reader, read, names)
    return found._replace(read=read._replace(machine=found.read.machine))


def _read_new(chain: str, reader: ChainReader, read: ReadChain, names: set[str]) -> ChainRecords:
    """As read_chain. `names` are those that machines have here."""
    found = ChainRecords(chain, reader, [], read, [])
    if _is_ended(reader):
        return found._replace(read=read._replace(last=reader.pieces[-1].last, mac=FIRST))
    shown = read.machine or chain[:8]
    problem = ""
    for piece, opened in reader.follow(read.last, read.mac):
        shown = read.machine or name_of_machine(names, chain, opened.table.machine)
        try:
            found.items.extend(list(reader.records(piece)))  # all of a piece, or nothing
        except PieceDamaged as error:
            reader.note_damage(piece, error)
            problem = damage_in_words(piece, shown, error) + _behind(sum(one.first > piece.last for one in reader.pieces))
            break
        found = found._replace(read=ReadChain(shown, piece.last, opened.mac_at_end))
    if (problem or reader.hole(shown) is not None) and reader.list_again():
        if _is_ended(reader):
            found.problems.append(f"what {shown} pushed was deleted just now: pull again")
            return found
        return _read_new(chain, reader, read, names)
    if not problem and (hole := reader.hole(shown)) is not None:
        problem = hole.problem + _behind(hole.rest)
    if problem:
        found.problems.append(problem)
    return found


def _is_ended(reader: ChainReader) -> bool:
    newest = reader.open_newest()
    return newest is not None and newest.is_end


def _behind(rest: int) -> str:
    return f"; {plural(rest, 'piece')} after it cannot be taken either" if rest else ""


def name_of_machine(names: set[str], chain: str, name: str) -> str:
    """The name that a chain's machine gets here: none of `names`, which others have, and no word that a reference begins with."""
    name = allowed_characters(name) or "machine"
    if name not in names and f"{name}:" not in (REMOTE, AFTER):
        return name
    longer = (f"{name}.{chain[:digits]}" for digits in range(4, len(chain)))
    return next((one for one in longer if one not in names), f"{name}.{chain}")


def records_as_here(
    chain: str, machine: str, own: OwnRecords, known: Callable[[str], Checkpoint | None], *, newest: bool = False
) -> Arriving:
    """What of a chain is new here, as it will be here. `known` gives a checkpoint that is here."""
    names: dict[bytes, str] = {}
    for _, point in own.points:
        names.setdefault(point.worktree, _machine_and_directory_name(machine, point.root) if names else machine)
    if newest:
        listed = [one for one in own.points if one[1].trigger != checkpoints.SAFETY]
        own = own._replace(points=(listed or own.points)[-1:], others=[])

    def place(point: Checkpoint) -> Checkpoint:
        more = point.more._replace(machine=names[point.worktree], origin=chain[:ORIGIN])
        return point._replace(worktree=key_here(chain, point.worktree), more=more)

    return choose_arriving(own, machine, known, place, lambda worktree: key_here(chain, worktree))


def _machine_and_directory_name(machine: str, root: bytes) -> str:
    base = root.rstrip(b"/").rpartition(b"/")[2].decode("ascii", "replace")
    return f"{machine}/{allowed_characters(base) or 'worktree'}"
