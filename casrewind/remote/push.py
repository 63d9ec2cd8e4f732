"""Push: send what the remote does not have, as pieces of the store's own chain.

The danger prevented here: a checkpoint on the remote whose content is not there. Content is sent before the containers
that name it, and both before the records. A container counts as sent only from a piece with records at or after it. So a
push that was cut never leaves a tree without its content, and the next push continues it.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from .. import environment, errors, heap
from ..context import Context
from ..model import checkpoint as checkpoints
from ..model import rewind_record, undo_history
from ..model.checkpoint import Checkpoint
from ..store import ledger, push_notes
from ..store.reachability import HOLDS, Marker
from ..store.store import LedgerPosition
from ..upkeep.conversation_rest import store_rest
from ..upkeep.verify import verify
from . import collect, days, names, own_chain, probe
from .arriving import Item
from .base_chain import holders_of, rest_on_base
from .chain import ChainReader, find_piece, look_behind_stranger
from .collect import about_to_empty, delete_signs, end_chain, replace_by_empty
from .objects import ObjectGone
from .outgoing import with_receipt_facts
from .piece import ANEW, CONTAINER, CONTENT, GONE_SIZE, PURGED, REMOVED, PieceBuilder, PieceReader, reseal
from .piece_errors import PieceDamaged
from .piece_names import all_pieces_of, piece_name
from .pushed import AFTER_PURGE, BLOCKED, COPIED, ENDED_THERE, REMOVED_THERE, Pushed
from .remote_config import Remote
from .sync_state import EndedChain

MOST = 16 << 20
"""Bytes of plain data in a piece. One PUT has one piece, and a push needs the memory of one."""
_BATCH = 2000
_MOST_PENDING = 64
"""Pushes that were cut one after the other, of which it is known what they began to put."""
_SMALL = 256 << 10
"""A piece of fewer bytes is put, or read as a whole, about as fast as a question about it is answered."""
KINDS = (*ledger.MARKS, ledger.SESSION, ledger.ADOPT)  # of records that are sent besides checkpoints


class _SentBefore(Exception):
    """The remote has the piece of an earlier push that was cut: it counts now, and the present push is made anew behind it. `checkpoints`
    and `blobs` are the numbers of those in it."""

    def __init__(self, checkpoints: int, blobs: int) -> None:
        super().__init__()
        self.checkpoints, self.blobs = checkpoints, blobs


class _Copied(Exception):
    """Another store has continued or ended this store's chain. `note` says so to a person."""

    def __init__(self, piece: PieceReader | None = None) -> None:
        """`piece`: what is in the place of the next one."""
        super().__init__()
        is_end = piece is not None and piece.is_end
        self.note = COPIED if piece is None or not is_end else REMOVED_THERE if piece.table.end == REMOVED else ENDED_THERE


class _Blocked(_Copied):
    """Strangers have the numbers with which this store's chain would go on."""

    def __init__(self) -> None:
        super().__init__()
        self.note = BLOCKED


def push(
    context: Context, remote: Remote, *, dry_run: bool = False, points: Sequence[Checkpoint] | None = None, anew: bool = False,
    keep_purged: bool = False, purge_held: bool = False, by_hand: bool = False,
) -> Pushed:
    """Send all checkpoints of this store that were made here and are not on the remote yet, and their pins and labels.

    With `dry_run`, only counts. With `points`, sends these and nothing else. With `anew`, sends all of them again, into a new chain, and
    then empties what this store pushed before, unless a clone uses it. Raises StoreDamaged before that if the store is not intact: the
    remote may have what is lost here. Raises RemoteError; then the next push continues. Raises BasePurged if the first push of a clone
    finds that its base was purged, unless `keep_purged`. With `purge_held` a purge empties what clones use, too. A push `by_hand` looks
    whether all that was pushed is there, and raises RemoteError if not; another one does so after a day or 64 pieces.
    A checkpoint whose content cannot be read is left out, and tried again by the next push. Raises StoreBusy while another push or
    pull runs.
    """
    if points is None and not dry_run and remote.config.conversations:
        store_rest(context, transcripts=environment.configuration().transcripts)
    if anew and verify(context).problems:
        raise errors.StoreDamaged("this store is damaged, and the remote may have what is lost here", "casrewind verify names it")
    with context.store.hold_lock(*push_notes.PUSH_OR_PULL), context.store.hold_shared_lock():
        pushing = _Push(context, remote)
        if dry_run:
            return pushing.count_outgoing()
        if anew:
            own_chain.put_head_back(remote)
        probe.require(remote)
        notes = pushing.settle_earlier_push(anew=anew)
        pushing.settle_base(keep_purged=keep_purged)
        try:
            try:
                done = pushing.send_all_or_only(points)
            except _SentBefore as before:
                made, blobs = _Push(context, remote).send_all_or_only(points)
                done = before.checkpoints + made, before.blobs + blobs
        except _Copied as error:
            remote.files.begin_chain_on_own()
            notes.append(error.note)
            pushing = _Push(context, remote)
            pushing.settle_base(keep_purged=keep_purged)
            done = pushing.send_all_or_only()
        left = pushing.empty_ended_chains(notes, purge_held=purge_held)
        looks = 0
        if points is None and (by_hand or own_chain.is_due(remote.files.state)):
            done, looks = _resume_or_begin_anew(context, remote, done, notes)
        size, requests = remote.objects.sent_bytes, sum(remote.objects.requests.values()) - looks
        _note_success(context, remote)
        notes += collect.roll_up_when_due(remote) if points is None else []
        return Pushed(*done, size, requests, tuple(notes), left, damaged=remote.files.state.left)


def _resume_or_begin_anew(
    context: Context, remote: Remote, done: tuple[int, int], notes: list[str]
) -> tuple[tuple[int, int], int]:
    """Look whether the remote has what was pushed. If somebody has ended the chain, send all into a new one. `done`: the numbers of
    checkpoints and blobs that were sent. Returns (these numbers, the requests of looks). Raises RemoteError if something is gone."""
    seen = own_chain.look(remote)
    looks = seen.requests
    if seen.end_piece is not None:
        remote.files.begin_chain()
        notes.append(_Copied(seen.end_piece).note)
        done = _Push(context, remote).send_all_or_only()
        seen = own_chain.look(remote)
        looks += seen.requests
    own_chain.raise_if_lost(remote, seen)
    return done, looks


def _note_success(context: Context, remote: Remote) -> None:
    """Note for hooks and `status` that everything is pushed."""
    directory = remote.files.directory
    if os.path.dirname(directory) != context.store.remotes:  # an export
        return
    notes = push_notes.read_push_notes(directory)
    with suppress(OSError):  # nothing depends on it
        now = notes._replace(seq=remote.files.state.position.seq, pushed_ns=time.time_ns(), problem="", failed_ns=0)
        push_notes.write_push_notes(context.store.path, directory, now)


class _Push:
    """One push into one chain."""

    def __init__(self, context: Context, remote: Remote) -> None:
        """Sends nothing yet."""
        self._context, self._store, self._remote, self._files = context, context.store, remote, remote.files
        self._push = os.urandom(16)
        self._builder = PieceBuilder(remote.keys)
        self._containers: list[bytes] = []
        """The rows of containers in pieces without records behind them."""
        self._piece: list[bytes] = []
        """The rows of blobs in the piece that is being built."""
        self._blobs = 0

    def settle_earlier_push(self, *, anew: bool) -> list[str]:
        """Settle what an earlier push left. With `anew`, end the chain. Returns what a person has to know."""
        files, notes = self._files, []
        if anew or files.is_purged():
            self._count_piece_begun_before()
            state, last = files.state, files.state.next - 1
            ended = EndedChain(last, *((PURGED, self._digests_of_purged()) if files.is_purged() else (ANEW, b"")))
            files.save(state._replace(chain="", ended=state.ended | ({state.chain: ended} if last else {})))
            notes += [AFTER_PURGE] if last and files.is_purged() else []
        if not files.state.chain:
            files.begin_chain()
            files.end_purge()
        elif self._must_look():
            try:
                self._count_sent()
            except PieceDamaged:  # a stranger's object is there, so the piece is not
                pass
            except _Copied as error:
                files.begin_chain_on_own()
                notes.append(error.note)
            files.save(files.state._replace(looked=len(files.state.pending_macs)))
        return notes

    def _must_look(self) -> bool:
        """True if this push looks what became of an earlier one before it puts: one request tells that. After two pushes that
        were cut, one of them may have arrived. And what rests on another chain does so from its first piece on."""
        state = self._files.state
        return bool(state.pending) and (state.base is not None or state.looked < len(state.pending_macs) != 1)

    def settle_base(self, *, keep_purged: bool) -> None:
        """Before the first piece of a new chain that rests on another one: look whether it can. Otherwise everything is sent. The next
        push looks again if no piece arrives. Raises BasePurged, RemoteError."""
        files = self._files
        base = files.state.base
        if base is not None and not rest_on_base(self._context, self._remote, base, keep_purged=keep_purged):
            files.begin_chain()

    def _digests_of_purged(self) -> bytes:
        """Of each blob that the own chain has and a purge has removed here since the last push, what the chain's end says of it."""
        remote, is_purged = self._remote, self._files.purged_matcher()
        listed = all_pieces_of(remote.objects.list(self._files.state.chain)).get(self._files.state.chain, [])
        gone = set[bytes]()
        for opened in ChainReader(remote.objects, remote.keys, listed).every_table():
            gone |= {remote.keys.digest_of_purged(blob.digest) for blob in opened.table.blobs if is_purged(blob.digest)}
        return b"".join(sorted(gone))

    def _count_piece_begun_before(self) -> None:
        """Before the chain ends: count the piece whose push was begun, if the remote has it."""
        state = self._files.state
        if state.chain and state.pending:
            piece = None
            with suppress(PieceDamaged):
                piece = self._find_begun()
            if piece is not None and piece.mac in state.pending_macs:
                self._files.save(state.settled()._replace(next=state.pending + 1))

    def _find_begun(self) -> PieceReader | None:
        """The piece whose push was begun, or what has its name; None if nothing has. One request, if what was put is small: a push that is
        always cut after one gets on, too. Raises PieceDamaged if the object cannot be opened."""
        objects, keys, state = self._remote.objects, self._remote.keys, self._files.state
        name = piece_name(state.chain, state.pending)
        if state.pending_size <= _SMALL:
            try:
                data = objects.get(name, 0, _SMALL + 1)
            except ObjectGone:
                return None
            if len(data) <= _SMALL:
                return PieceReader(keys, name, len(data), lambda start, end: data[start:end])
        return find_piece(objects, keys, state.chain, state.pending)

    def _count_sent(self) -> tuple[bytes, _SentBefore] | None:
        """If the remote has a piece whose push was begun, count it as sent. Returns its MAC and what is in it, None if
        there is none. Raises _Copied if it is another store's, PieceDamaged if the object with its name cannot be opened."""
        state = self._files.state
        piece = self._find_begun()
        if piece is None:
            return None
        if piece.mac not in state.pending_macs:
            raise _Copied(piece)
        records = piece.records() if piece.table.records >= 0 else []
        rows = [bytes((blob.use,)) + blob.digest for blob in piece.table.blobs if records or blob.use == CONTENT]
        last = max((seq for _, seq, _ in records), default=0)
        position = LedgerPosition(b"", 0, last) if last > state.position.seq else state.position
        done = state.settled()._replace(next=state.pending + 1, mac=piece.mac, position=position, base=None)
        self._files.add_sent(rows, done._replace(looked_ns=state.looked_ns or days.now_ns()))
        return piece.mac, _SentBefore(sum(kind == ledger.CHECKPOINT for kind, _, _ in records), len(piece.table.blobs))

    def _records_to_send(self) -> tuple[list[Checkpoint], list[Item], LedgerPosition]:
        """The checkpoints and the other records to send, and the position behind them."""
        since = self._files.state.position
        records, now = self._store.records_after(since, *KINDS)
        if now.seq < since.seq:  # the ledger lost its end, and numbers come again: readers skip what they know
            since = LedgerPosition()
            records, now = self._store.records_after(since, *KINDS)
        points = [point for point in self._store.checkpoints_after(since.seq) if point.seq <= now.seq]
        again = [self._store.checkpoint(identity) for identity in self._files.state.left if identity not in {one.id for one in points}]
        own = [point for point in (*again, *points) if point is not None and not point.more.machine]
        own = with_receipt_facts(self._context, own) if self._remote.config.conversations else own
        return own, [(one.kind, one.seq, one.payload) for one in self._records_of_own_checkpoints(records)], now

    def _records_of_own_checkpoints(self, records: Sequence[ledger.Record]) -> Iterator[ledger.Record]:
        """The records that are about this machine's checkpoints."""
        if not records:
            return
        own: dict[str, bool] = {}
        foreign = set()
        for point, _ in self._store.checkpoints():
            own[point.id] = not point.more.machine
            foreign |= {point.worktree} if point.more.machine else set()
        for record in records:
            if record.kind in ledger.MARKS:
                is_own = own.get(undo_history.decode_mark(record.payload).checkpoint, False)
            elif record.kind == ledger.SESSION:
                rewind = rewind_record.decode(record.payload)
                is_own = rewind.worktree not in foreign and own.get(rewind.checkpoint, not rewind.checkpoint)
                is_own = is_own and self._remote.config.conversations
            else:
                is_own = undo_history.decode_adoption(record.payload).old not in foreign
            if is_own:
                yield record

    def _payload_to_send(self, point: Checkpoint) -> bytes:
        return checkpoints.encode(point if self._remote.config.conversations else point._replace(cursor=b"", transcript=None))

    def _unsent_blobs(self, points: Sequence[Checkpoint]) -> Marker:
        """The blobs of these checkpoints that the remote does not have. Raises StoreDamaged."""
        sent = self._files.sent()
        marker = Marker(
            self._store.read_many,
            self._context.counter("looking for what is new"),
            skip=lambda kind, digest: bytes((CONTAINER if kind in HOLDS else CONTENT,)) + digest in sent,
        )
        with_transcripts = points if self._remote.config.conversations else []
        files = [point.transcript for point in with_transcripts if point.transcript is not None]
        marker.mark_with_references([point.tree for point in points[:1]], [point.domain for point in points], (), files)
        marker.names = {}
        marker.mark_with_references([point.tree for point in points[1:]], (), ())
        for error in marker.missing.values():
            raise error
        return marker

    def _readable_points(self, points: Sequence[Checkpoint]) -> list[Checkpoint]:
        """The checkpoints whose unsent blobs can all be read."""
        is_sound: dict[bytes, bool] = {}
        whole = []
        for point in points:
            try:
                content = list(self._unsent_blobs([point]).content)
            except errors.StoreDamaged:
                continue
            unread = [digest for digest in content if digest not in is_sound]
            for start in range(0, len(unread), _BATCH):
                found = self._store.read_many(unread[start : start + _BATCH])
                is_sound.update((digest, isinstance(data, bytes)) for digest, data in found)
            whole += [point] if all(is_sound[digest] for digest in content) else []
        return whole

    def count_outgoing(self) -> Pushed:
        """What a push would send, in plain bytes."""
        self._files.forget_purged_chain()
        points, _, _ = self._records_to_send()
        marker = self._unsent_blobs(points)
        blobs = [*marker.content, *(digest for _, digest in marker.followed)]
        return Pushed(len(points), len(blobs), sum(self._store.lengths(blobs).values()), 0, dry_run=True)

    def send_all_or_only(self, only: Sequence[Checkpoint] | None = None) -> tuple[int, int]:
        """Send everything, or only these checkpoints. Returns the numbers of checkpoints and blobs."""
        points, others, now = self._records_to_send()
        if only is not None:
            points, others = list(only), []
        try:
            done = self._send_in_pieces(points, others, now)
            left: tuple[str, ...] = ()
        except errors.StoreDamaged:
            whole = self._readable_points(points)
            left = tuple(point.id for point in points if point not in whole)
            if not left:
                raise  # it could be read now
            self._files.save(self._files.state._replace(left=left))  # first: the position behind them is sent with the others
            self._builder, self._piece, self._containers, self._blobs = PieceBuilder(self._remote.keys), [], [], 0
            done = self._send_in_pieces(whole, others, now)
        if self._files.state.left != left:
            self._files.save(self._files.state._replace(left=left))
        return done

    def _send_in_pieces(self, points: Sequence[Checkpoint], others: Sequence[Item], now: LedgerPosition) -> tuple[int, int]:
        """Send these checkpoints and records. Returns the numbers of checkpoints and blobs. Raises StoreDamaged."""
        if not points and not others:
            if now.seq > self._files.state.position.seq:
                self._files.save(self._files.state._replace(position=now))
            return 0, 0
        marker = self._unsent_blobs(points)
        progress, total = self._context.progress_bar("pushing"), len(marker.content) + len(marker.followed)
        for data, row in self._read_unsent_blobs(marker):
            if self._builder.size and self._builder.size + len(data) > MOST:
                self._send_piece()
            self._builder.add(row[1:], row[0], data)
            self._piece.append(row)
            self._blobs += 1
            if progress is not None and self._blobs % 100 == 0:
                progress(self._blobs, total)
        if progress is not None:
            progress(total, total)
        items = [(ledger.CHECKPOINT, point.seq, self._payload_to_send(point)) for point in points]
        self._send_records(sorted((*items, *others), key=lambda item: item[1]), now)
        return len(points), self._blobs

    def _read_unsent_blobs(self, marker: Marker) -> Iterator[tuple[bytes, bytes]]:
        """Yield (data, row of `sent`) of each blob, content before containers. Raises StoreDamaged.

        The content of the first checkpoint is in the order of the tree, that of later ones by name: versions of a file are
        compressed together."""
        names = marker.names or {}
        content = [digest for digest in marker.content if digest not in names]
        for start in range(0, len(content), _BATCH):
            for digest, data in self._store.read_many(content[start : start + _BATCH]):
                yield _raise_if_damaged(data), bytes((CONTENT,)) + digest
        for digest in sorted(names, key=lambda digest: names[digest].rpartition(b".")[::-1]):
            yield self._store.read(digest), bytes((CONTENT,)) + digest
        for kind in sorted({kind for kind, _ in marker.followed}):
            containers = [digest for one, digest in marker.followed if one == kind]
            for start in range(0, len(containers), _BATCH):
                for digest, data in self._store.read_many(containers[start : start + _BATCH], kind):
                    yield _raise_if_damaged(data), bytes((CONTAINER,)) + digest

    def _send_records(self, items: Iterable[Item], now: LedgerPosition) -> None:
        """Send the records, in one piece with what is left of the blobs if they fit. They are the last to be sent."""
        records: list[Item] = []
        size = self._builder.size
        for item in items:
            if records and size + len(item[2]) > MOST:
                self._send_piece(records, LedgerPosition(b"", 0, records[-1][1]))
                records, size = [], 0
            records.append(item)
            size += len(item[2])
        self._send_piece(records, now)

    def _send_piece(self, records: Sequence[Item] = (), position: LedgerPosition | None = None) -> None:
        """Finish the present piece with these records, and send it. Raises _Copied, RemoteError."""
        files, state = self._files, self._files.state
        if records:
            self._builder.add_records(records)
        name = piece_name(state.chain, state.next)
        data, mac = self._builder.finish(name, state.mac, self._push, self._remote.config.machine)
        number = self._put_piece(data, mac)
        rows = [row for row in self._piece if row[0] == CONTENT or records]
        self._containers += [row for row in self._piece if row[0] == CONTAINER]
        if records:
            rows, self._containers = [*rows, *self._containers], []
        done = files.state.settled()._replace(next=number + 1, mac=mac, base=None, pushed_ns=days.now_ns())
        done = done._replace(looked_ns=state.looked_ns or done.pushed_ns)
        files.add_sent(rows, done if position is None else done._replace(position=position))
        self._builder, self._piece = PieceBuilder(self._remote.keys), []
        heap.return_freed_memory()

    def _put_piece(self, data: bytes, mac: bytes) -> int:
        """Put a piece that was made for the next number. Returns the number that it has: a higher one if a stranger has the next.

        It puts first, and reads only if the name is taken. Where time is short, as in a container that ends with its agent, a look first
        would leave none for the put, and each push would only find out what became of the one before. A large piece is not sent twice.
        Raises _SentBefore, _Copied, RemoteError."""
        objects, keys, files = self._remote.objects, self._remote.keys, self._files
        chain, number = files.state.chain, files.state.next
        for _ in range(2):
            name, begun = piece_name(chain, number), files.state.pending_macs if files.state.pending == number else ()
            try:
                if begun and len(data) > _SMALL and (found := self._count_sent()) is not None:
                    raise found[1]
                self._note_begun(number, (*begun, mac)[-_MOST_PENDING:], len(data))
                if objects.put_new(name, data):
                    return number
                # it is there already if the answer to this or an earlier push was lost, or another store has put another one
                found = self._count_sent()
                if found is None:
                    raise errors.RemoteError(f"{self._remote.config.url} has the object {name}, and does not list it", "push again")
                if found[0] != mac:
                    raise found[1]
                return number
            except PieceDamaged:
                behind, piece = look_behind_stranger(objects, keys, chain, number)
                if piece is not None:
                    raise _Copied(piece) from None
                if not behind:
                    break
            data, number = reseal(keys, data, name, piece_name(chain, behind)), behind
        raise _Blocked

    def _note_begun(self, number: int, macs: tuple[bytes, ...], size: int) -> None:
        """Note that the put of a piece begins, behind what leads to it. `macs`: its MAC, and those of others with this number."""
        days.put_hint(self._remote, days.now_ns())
        names.put_machine(self._remote)
        state = self._files.state
        looked, largest = (min(state.looked, len(macs) - 1), state.pending_size) if len(macs) > 1 else (0, 0)
        self._files.save(state._replace(next=number, pending=number, pending_macs=macs, pending_size=max(largest, size), looked=looked))

    def empty_ended_chains(self, notes: list[str], *, purge_held: bool) -> tuple[str, ...]:
        """Replace each piece of the own chains that have ended by an empty one. Returns the objects that were not replaced. `notes`
        receives the machines whose chains use them.

        No name becomes free: a store that was copied from this one before its last pushes would go on with the chain there."""
        left: list[str] = []
        for chain, ended in self._files.state.ended.items():
            gone = [ended.gone[at : at + GONE_SIZE] for at in range(0, len(ended.gone), GONE_SIZE)]
            if not end_chain(self._remote, chain, ended.last + 1, ended.why, gone):  # a copied store has gone on with it, and has it now
                left += [info.name for info in self._remote.objects.list(chain)]
            else:
                failed = self._empty_unless_held(chain, ended, gone, notes, purge_held=purge_held)
                if failed:
                    left += failed
                    continue  # the next push tries again
            state = self._files.state
            self._files.save(state._replace(ended={one: number for one, number in state.ended.items() if one != chain}))
        return tuple(left)

    def _empty_unless_held(
        self, chain: str, ended: EndedChain, gone: Collection[bytes], notes: list[str], *, purge_held: bool
    ) -> list[str]:
        """Empty a chain that has ended, unless a clone uses it and not `purge_held`. Returns the objects that were not replaced."""
        with about_to_empty(self._remote, {chain: ended.last}, ended.why, gone) as listed:
            full = [piece.name for piece in all_pieces_of(listed).get(chain, ()) if piece.last <= ended.last]
            users = ", ".join(holders_of(self._remote, listed, chain).values())
            if users and not purge_held:
                notes.append(f"what was pushed before is still used by {users}: after a purge, purge and push there, too")
                return full
            if users:
                notes.append(f"what was pushed before is emptied: what {users} pushed lacks it now")
            failed = [*replace_by_empty(self._remote, dict.fromkeys(full, b""), ended.why)]
            if not failed:
                delete_signs(self._remote, listed, chain)
            return failed


def _raise_if_damaged(data: bytes | errors.StoreDamaged) -> bytes:
    if isinstance(data, errors.StoreDamaged):
        raise data
    return data
