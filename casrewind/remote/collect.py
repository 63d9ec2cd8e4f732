"""Collect: the small pieces of a chain become one, and their names stay in use.

Two dangers are prevented here. A reader finds neither a piece nor what replaced it: the longer piece, a roll-up, is put first, and
has every blob and every record of the others. A name becomes free: a store that was copied from this one before its last pushes
would go on with the chain there, and no reader would look at it. So a piece is not deleted, but replaced by an empty one.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from .. import errors, heap
from .._typing import TYPE_CHECKING, NamedTuple
from ..messages import plural
from ..model import digest as digests
from .chain import ChainReader, find_piece, look_behind_stranger, open_piece
from .piece import FIRST, MOST_EMPTY, PieceBuilder, PieceReader
from .piece_errors import PieceDamaged, PieceNewer
from .piece_names import LAST_NUMBER, PieceInfo, all_pieces_of, piece_name, without_replaced
from .remote_config import Remote
from .seal import Keys

if TYPE_CHECKING:
    from .objects import ObjectInfo

EVERY = 64
"""A push rolls up when its chain has this many new pieces."""
_ROLL_UP_BYTES = 16 << 20
"""Bytes of plain data in a roll-up. Its making needs the memory of one, as a push."""
_GROWTH = 2
"""The roll-up before is taken into a new one, unless it is this many times as long as the new pieces. So a byte is written again
a few times only, and a chain has few roll-ups."""
_TRIES = 3
"""Numbers at which the end of a chain is tried, if strangers have them."""


class _OpenPiece(NamedTuple):
    """A piece of a chain with its reader."""

    info: PieceInfo
    reader: PieceReader

    @property
    def plain(self) -> int:
        """Plain bytes in the piece, with those of its table."""
        table = self.reader.table
        return sum(frame.plain for frame in table.frames) + table.blobs.table_bytes


def roll_up_when_due(remote: Remote) -> list[str]:
    """Roll up if the chain has many new pieces. Returns what a person has to know. The push is done: nothing here makes it fail."""
    state = remote.files.state
    if state.next - 1 - state.rolled_up < EVERY:
        return []
    remote.files.save(state._replace(rolled_up=state.next - 1))  # first: what fails is not tried again by each push
    try:
        return roll_up(remote)
    except errors.RemoteError as error:
        return [f"the pieces on the remote were not put together: {error.problem}"]


def roll_up(remote: Remote) -> list[str]:
    """Put the new small pieces of this store's chain together, and empty them. Returns what a person has to know.

    Nothing is dropped: each blob and each record is in a roll-up. Wherever it ends, the chain can be read, and the next one completes
    it. Raises RemoteError: without the right to delete, before anything is written.
    """
    state = remote.files.state
    chain, own = state.chain, state.next  # what is behind it may be that of a copied store
    listed = _pieces_of_chain(remote, chain, own)
    if not listed:
        return []
    check_right_to_delete(remote, chain)
    number, notes = 0, []
    reader = ChainReader(remote.objects, remote.keys, listed)
    pieces = [piece for piece, _ in reader.follow()]
    if newer := next((error for error in reader.damaged.values() if isinstance(error, PieceNewer)), None):
        return [f"nothing was put together: {newer.problem}"]
    left = [piece for piece in listed if piece not in reader.strangers]
    _empty_what_was_replaced(remote, left, pieces)
    for run in _find_runs_to_join(reader, pieces):
        try:
            mac = _put_together(remote, chain, run)
        except PieceDamaged as error:
            notes.append(f"{error.problem}; it stays as it is")
            continue
        _put_empty(remote, {one.info.name: mac for one in run})
        number += len(run)
    return [*notes, *([f"merged {plural(number, 'piece')} of this machine"] if number else [])]


def _pieces_of_chain(remote: Remote, chain: str, own: int) -> list[PieceInfo]:
    """What has the name of a piece of a chain, with a number below `own`, but for known strangers."""
    listed = all_pieces_of(remote.objects.list(chain)).get(chain, []) if chain else []
    return [piece for piece in remote.files.strangers.without(listed) if piece.last < own]


def check_right_to_delete(remote: Remote, chain: str) -> None:
    """Raises RemoteError if this machine may not delete: then it replaces nothing either."""
    remote.objects.delete([f"{chain}/none"])  # no object has this name


def count_new_pieces(remote: Remote) -> int:
    """The number of pieces of this store's chain behind its last roll-up. Raises RemoteError."""
    state = remote.files.state
    pieces = without_replaced(_pieces_of_chain(remote, state.chain, state.next))
    return next((number for number, piece in enumerate(reversed(pieces)) if piece.first < piece.last), len(pieces))


def _find_runs_to_join(reader: ChainReader, pieces: Sequence[PieceInfo]) -> Iterator[list[_OpenPiece]]:
    """Yield neighbours that become one: the pieces behind the last roll-up, and the roll-ups before them that are not much longer."""
    start = 1 + max((at for at, piece in enumerate(pieces) if piece.first < piece.last), default=-1)
    size = sum(piece.size for piece in pieces[start:])
    while start and pieces[start - 1].size <= _GROWTH * size:
        start -= 1
        size += pieces[start].size
    run: list[_OpenPiece] = []
    for at, info in enumerate(pieces[start:], start):
        reader.open_ahead(pieces[at : at + 32] if at % 32 == start % 32 else ())  # those that it did not keep
        try:
            one = _OpenPiece(info, reader.open_reader(info))
        except PieceDamaged:
            one = None
        if run and (
            one is None
            or one.reader.table.before != run[-1].reader.mac_at_end
            or sum(piece.plain for piece in run) + one.plain > _ROLL_UP_BYTES
        ):
            if len(run) > 1:
                yield run
            run = []
        if one is not None:
            run.append(one)
    if len(run) > 1:
        yield run


def _put_together(remote: Remote, chain: str, run: Sequence[_OpenPiece]) -> bytes:
    """Put a roll-up of these pieces. Returns its MAC. Raises PieceDamaged, RemoteError."""
    builder, rows = PieceBuilder(remote.keys), set[bytes]()
    for one in run:
        for digest, use, data in one.reader.blobs({blob.digest for blob in one.reader.table.blobs}):
            row = bytes((use,)) + digest
            if digests.of(data) != digest:
                raise PieceDamaged(f"the piece {one.info.name} of the remote has a blob whose content does not match its name")
            if row not in rows:
                rows.add(row)
                builder.add(digest, use, data)
        builder.add_records(one.reader.each_record())
        one.reader.forget_read_bytes()
    first, last = run[0], run[-1]
    name = f"{chain}/{first.info.first:010}-{last.info.last:010}"
    machine = last.reader.table.machine
    data, mac = builder.finish(name, first.reader.table.before, os.urandom(16), machine, last.reader.mac_at_end)
    size, is_new = len(data), remote.objects.put_new(name, data)
    del builder, data
    heap.return_freed_memory()
    if not is_new:
        return _equal_roll_up_mac(remote, name, rows)
    try:  # the server said that it has it: what it replaces is emptied only if it has
        is_there = open_piece(remote.objects, remote.keys, name, size).mac == mac
    except PieceDamaged:
        is_there = False
    if not is_there:
        raise PieceDamaged(f"the roll-up {name} was put, and is not on the remote as it was put")
    return mac


def _uses_and_digests_in(reader: PieceReader) -> set[bytes]:
    """The use and the digest of each blob in a piece."""
    return {bytes((blob.use,)) + blob.digest for blob in reader.table.blobs}


def _equal_roll_up_mac(remote: Remote, name: str, rows: set[bytes]) -> bytes:
    """The MAC of a roll-up that a copy of this store has put, with these blobs. Raises RemoteError if one is missing."""
    found = next((info for info in remote.objects.list(name.partition("/")[0]) if info.name == name), None)
    if found is not None:
        reader = open_piece(remote.objects, remote.keys, name, found.size)
        if rows <= _uses_and_digests_in(reader):
            return reader.mac
    raise errors.RemoteError(f"{remote.config.url} has another object {name} than this store makes", "nothing was replaced")


def _empty_what_was_replaced(remote: Remote, listed: Sequence[PieceInfo], pieces: Sequence[PieceInfo]) -> None:
    """Empty the pieces that a roll-up has, if an earlier roll-up was cut. Raises RemoteError."""
    kept = {piece.name for piece in pieces}
    for late in listed:
        if late.name in kept or late.size <= MOST_EMPTY:
            continue
        whole = next((piece for piece in pieces if piece.first <= late.first and late.last <= piece.last), None)
        if whole is None:  # it is behind a damaged one
            continue
        try:
            reader = open_piece(remote.objects, remote.keys, whole.name, whole.size)
            old = open_piece(remote.objects, remote.keys, late.name, late.size)
        except PieceDamaged:
            continue
        if _uses_and_digests_in(old) <= _uses_and_digests_in(reader):
            _put_empty(remote, {late.name: reader.mac})


def empty_piece(
    keys: Keys, name: str, rolled_up: bytes = b"", *, machine: str = "", end: int = 0, gone: Collection[bytes] = ()
) -> bytes:
    """The bytes of a piece that holds nothing: with the MAC of the roll-up one that was replaced, with `end` the end of a chain or a piece
    that was emptied then (see `Table`), otherwise a sign, which has the name of the machine that puts it."""
    return PieceBuilder(keys).finish(name, FIRST, bytes(16), machine, rolled_up, end, gone)[0]



def end_chain(remote: Remote, chain: str, number: int, why: int, gone: Collection[bytes] = ()) -> bool:
    """Put the end behind the last piece of a chain, with the reason. A store cannot go on with the chain then: its next push begins a new
    one. `gone`: of a purge, the digests of `Table`. Returns False if the chain has another piece with this number."""
    for _ in range(_TRIES):
        name = piece_name(chain, number)
        if remote.objects.put_new(name, empty_piece(remote.keys, name, machine=remote.config.machine, end=why, gone=gone)):
            return True
        try:
            found = find_piece(remote.objects, remote.keys, chain, number)
        except PieceDamaged:
            behind, found = look_behind_stranger(remote.objects, remote.keys, chain, number)
            if found is None:
                number = behind or _find_free_number(remote, chain, number)
                continue
        return found is not None and found.is_end
    return False


def _find_free_number(remote: Remote, chain: str, number: int) -> int:
    """The highest number behind this one for which no single piece is named. If strangers take the last number, the end of a chain needs
    another one: without it, they keep purged content on the remote."""
    listed = all_pieces_of(remote.objects.list(chain)).get(chain, ())
    taken = {piece.first for piece in listed if piece.first == piece.last}
    return next(free for free in range(LAST_NUMBER, number, -1) if free not in taken)


@contextmanager
def about_to_empty(
    remote: Remote, chains: Mapping[str, int], why: int, gone: Collection[bytes] = ()
) -> Iterator["list[ObjectInfo]"]:
    """Say on the remote that the chains {id: number of the last piece} are about to be emptied, and why, while this lasts. Yields the
    objects of the remote, listed afterwards: a chain with a hold among them is not emptied. Raises RemoteError."""
    collector = os.urandom(8).hex()
    marks = [f"{chain}/dead-{collector}-{last:010}" for chain, last in chains.items()]
    try:
        for name in marks:
            remote.objects.put_new(name, empty_piece(remote.keys, name, machine=remote.config.machine, end=why, gone=gone))
        yield remote.objects.list() if marks else []
    finally:
        with suppress(errors.RemoteError):  # what stays keeps others from a new hold, and harms nothing else
            remote.objects.delete(marks)


def delete_signs(remote: Remote, listed: "Sequence[ObjectInfo]", chain: str) -> None:
    """Delete what goes with a chain that was emptied: its holds, and its entries below `names/`, which harm nothing if they stay. Raises
    RemoteError for a hold."""
    entry = re.compile(rf"names/[0-9a-f]+/[0-9]+-{chain}-.*")
    remote.objects.delete([info.name for info in listed if info.name.startswith(f"{chain}/hold-")])
    with suppress(errors.RemoteError):
        remote.objects.delete([info.name for info in listed if entry.fullmatch(info.name)])


def replace_by_empty(remote: Remote, names: Mapping[str, bytes], end: int = 0) -> dict[str, errors.RemoteError]:
    """Replace the pieces {name: MAC of the roll-up that has what they had, b"" for none} by empty ones, eight at a time. `end`: why their
    chain has ended. Returns why some could not be replaced."""
    failed: dict[str, errors.RemoteError] = {}

    def empty(name: str) -> None:
        try:
            remote.objects.replace(name, empty_piece(remote.keys, name, names[name], end=end))
        except errors.RemoteError as error:
            failed[name] = error

    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(empty, names):
            pass
    return failed


def _put_empty(remote: Remote, names: Mapping[str, bytes]) -> None:
    """As replace_by_empty. Raises RemoteError."""
    for error in replace_by_empty(remote, names).values():
        raise error
