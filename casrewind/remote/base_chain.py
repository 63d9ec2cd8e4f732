"""The base of a new chain: the chain whose blobs it uses instead of sending them again.

Two dangers are prevented here. A new chain rests on pieces that somebody has emptied, or is about to: so it says first that it uses
them, and looks then whether every blob that it counts on is there. A secret that was purged comes back: a drill clones a
project, the project is purged elsewhere, and the drill's first push sends everything once more. So a push that finds a purged
base sends nothing, and names what to purge here.
"""

from collections.abc import Iterator
from contextlib import suppress

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import printable, shell_quoted_path
from ..model import manifest
from ..model.manifest import FILE
from ..store.reachability import reference_of_file
from .chain import ChainReader, open_piece
from .collect import empty_piece
from .objects import ObjectInfo
from .piece import CONTAINER, CONTENT, PURGED
from .piece_errors import PieceDamaged, PieceForeign, PieceNewer
from .piece_names import all_pieces_of, hold_name, holds_of
from .remote_config import Remote
from .sync_state import BaseChain

_NAMED = 8
"""Purged paths that an error names."""


class BasePurged(errors.RemoteError):
    """The chain on which a first push would rest was purged: nothing is sent."""

    exit_code = 15


class _Ending(NamedTuple):
    """Why a chain ends or has ended, 0 = it does not, who ends it, and of a purge the digests of what went."""

    why: int = 0
    machine: str = ""
    gone: frozenset[bytes] = frozenset()


def rest_on_base(context: Context, remote: Remote, base: BaseChain, *, keep_purged: bool = False) -> bool:
    """Say on the remote that the own chain uses its base, then look whether all that counts as sent is there. False: it is not, and
    the own chain must send everything; the remote is as before. Raises BasePurged, RemoteError.

    First it says so, then it looks. Who empties a chain does the same the other way round (see old_chains.py)."""
    objects, keys, files = remote.objects, remote.keys, remote.files
    name = hold_name(files.state.chain, base.chain)
    objects.put_new(name, empty_piece(keys, name, machine=remote.config.machine))
    listed = objects.list(base.chain)
    reader = ChainReader(objects, keys, all_pieces_of(listed).get(base.chain, []))
    ending = _find_ending(remote, reader, [info for info in listed if info.name.startswith(f"{base.chain}/dead-")])
    if not ending.why and _has_all(reader, base, files.sent()):
        return True
    with suppress(errors.RemoteError):  # a machine that may not delete: this hold keeps nothing that is there
        objects.delete([name])
    if ending.why == PURGED and not keep_purged:
        _refuse_purged_content(context, remote, ending)
    return False


def _find_ending(remote: Remote, reader: ChainReader, dead: list[ObjectInfo]) -> _Ending:
    newest = reader.open_newest()
    if newest is None:
        return _Ending(why=-1)
    found = _Ending(newest.table.end, newest.table.machine, newest.table.gone)
    for info in dead if not found.why else ():
        try:
            table = open_piece(remote.objects, remote.keys, info.name, info.size).table
            found = _Ending(table.end or -1, table.machine, table.gone)
        except PieceForeign:
            continue
        except PieceDamaged:
            found = _Ending(-1)
        if found.why == PURGED:
            break
    return found


def _has_all(reader: ChainReader, base: BaseChain, wanted: set[bytes]) -> bool:
    """True if the chain still has the piece that was read last, with the MAC that it had, and with the chains that it uses all blobs
    of these rows of `sent`. A piece counts if it is whole: as long as its table says."""
    left, is_there = set(wanted), base.last == 0
    for piece, opened in reader.follow():
        is_there = is_there or piece.first <= base.last < piece.last or (piece.last == base.last and opened.mac_at_end == base.mac)
    for opened in reader.every_table():
        for use in (CONTENT, CONTAINER):
            digests = opened.table.blobs.digests_of(use)
            left.difference_update(bytes((use,)) + digests[at : at + 32] for at in range(0, len(digests), 32))
    return is_there and not left


def _refuse_purged_content(context: Context, remote: Remote, ending: _Ending) -> None:
    """Raises BasePurged if something that was purged is in a checkpoint of here, or may be."""
    who = printable(ending.machine) or "its machine"
    if not ending.gone:
        raise BasePurged(
            f"{who} has purged what this project was cloned from, and what it removed is not known here: nothing was pushed",
            "purge it here, too: casrewind purge PATH; casrewind push --keep-purged sends everything"
        )
    found = sorted(set(_paths_with(context, remote, ending.gone)))
    if not found:
        return
    shown = " ".join(map(shell_quoted_path, found[:_NAMED]))
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    raise BasePurged(
        f"{who} has purged what is still in checkpoints here: {shown}{more}: nothing was pushed",
        f"casrewind purge {shown} removes it here, too; casrewind push --keep-purged sends it again"
    )


def _paths_with(context: Context, remote: Remote, gone: frozenset[bytes]) -> Iterator[bytes]:
    """The paths of own checkpoints whose content was purged elsewhere. The end of a chain names the chunk list of a large file."""
    seen: dict[bytes, bool] = {}
    for tree in {point.tree for point, _ in context.store.checkpoints() if not point.more.machine}:
        for path, entry in manifest.walk(context.store.load_tree, tree):
            if entry.kind != FILE:
                continue
            digest = reference_of_file(entry).digest
            if digest not in seen:
                seen[digest] = remote.keys.digest_of_purged(digest) in gone
            if seen[digest]:
                yield path


def holders_of_own(remote: Remote) -> list[str]:
    """The machines that use the chains of this store which have ended, or end with its next push after a purge."""
    state = remote.files.state
    chains = [*state.ended, *([state.chain] if state.chain and remote.files.is_purged() else [])]
    listed = remote.objects.list() if chains else []
    return [name for chain in chains for name in holders_of(remote, listed, chain).values()]


def holders_of(remote: Remote, listed: list[ObjectInfo], chain: str) -> dict[str, str]:
    """{chain: the name of its machine} of those that use a chain. What has the name of a hold and never was an object of casrewind does
    not count; what cannot be opened for another reason does."""
    holders: dict[str, str] = {}
    sizes = {info.name: info.size for info in listed}
    for other, used in holds_of(listed).items():
        if chain not in used:
            continue
        name, known = hold_name(other, chain), remote.files.state.chains.get(other)
        try:
            machine = open_piece(remote.objects, remote.keys, name, sizes[name]).table.machine
            holders[other] = (known.machine if known is not None else "") or machine or other[:8]
        except PieceForeign:
            continue
        except PieceNewer as error:
            holders[other] = f"{other[:8]}, whose hold {error.state}"
        except PieceDamaged:
            holders[other] = f"{other[:8]}, whose hold cannot be read"
    return holders
