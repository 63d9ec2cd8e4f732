"""What each machine pushed to a remote: its newest checkpoint, how many there are, and their size.

It changes nothing and needs no project: who wants to clone looks here first.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from .._typing import NamedTuple
from ..history.checkpoint_names import full_name
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from .arriving import own_records
from .chain import ChainReader
from .names import allowed_characters
from .piece_names import PieceInfo, newest_time
from .pull import chains_listed, read_chain
from .remote_config import Remote
from .sync_state import ReadChain

NEWEST_SHOWN = 20
"""Machines that are shown if nothing else was asked for."""
_ASKED_TOGETHER = 8
"""Chains that are asked for at once."""


class PushedMachine(NamedTuple):
    """What a machine pushed in one chain."""

    name: str
    """What clone and restore take: with the start of the chain where another machine has the same name."""
    chain: str
    is_own: bool
    """This store pushes it."""
    newest: Checkpoint | None
    """None = none could be read."""
    checkpoints: int
    """Those that can be read, without those for safety."""
    size: int
    """Bytes on the remote."""
    pushed_ns: int
    """When its newest piece was put, in nanoseconds since 1970, by the server's clock."""
    problems: tuple[str, ...]


class PushedMachines(NamedTuple):
    """The machines that pushed to a remote."""

    shown: tuple[PushedMachine, ...]
    """The one that pushed last first."""
    rest: int
    """Chains that are not shown, and mostly not looked at: some may have ended."""
    unreadable: int
    """Chains that cannot be read at all. Their machines are unknown."""


def list_machines(remote: Remote, most: int | None = NEWEST_SHOWN, text: str = "") -> PushedMachines:
    """The machines that pushed last, at most `most` (None = all), only those with `text` in their name. Costs a list of the remote, and
    some requests for each chain that is shown or, with `text`, looked at. Raises RemoteError."""
    chains = [(chain, pieces, newest_time(pieces)) for chain, pieces in chains_listed(remote)]
    chains.sort(key=lambda one: (-one[2], one[0]))
    end = len(chains) if most is None else min(len(chains), most + sum(at > 0 for _, _, at in chains))  # emptied ones may be very many
    found, looked, unreadable = list[tuple[str, str, Sequence[PieceInfo], int]](), 0, 0
    with ThreadPoolExecutor(_ASKED_TOGETHER) as threads:
        while looked < end and (most is None or len(found) < most):
            together = chains[looked : min(looked + _ASKED_TOGETHER, end)]
            names = [*threads.map(lambda one: name_of_chain(remote, one[1]), together)]
            found += [(name, *one) for name, one in zip(names, together, strict=True) if name and text in name]
            looked, unreadable = looked + len(together), unreadable + names.count(None)
        shown = found[:most]
        plain = [name for name, *_ in shown]
        described = tuple(threads.map(lambda one: _describe(remote, *one, is_alone=plain.count(one[0]) < 2), shown))
    return PushedMachines(described, len(chains) - looked + len(found) - len(shown), unreadable)


def name_of_chain(remote: Remote, pieces: Sequence[PieceInfo]) -> str | None:
    """The name of the machine that pushed a chain; "" if the chain has ended, None if nothing of it can be read."""
    newest = ChainReader(remote.objects, remote.keys, pieces).open_newest()
    if newest is None:
        return None
    return "" if newest.is_end else allowed_characters(newest.table.machine) or "machine"


def _describe(
    remote: Remote, name: str, chain: str, pieces: Sequence[PieceInfo], pushed_ns: int, *, is_alone: bool
) -> PushedMachine:
    found = read_chain(remote, chain, pieces, ReadChain())
    points = [point for _, point in own_records(found.items).points if point.trigger != checkpoints.SAFETY and point.is_saved]
    size = sum(piece.size for piece in pieces if piece not in found.reader.strangers)
    called = name if is_alone else full_name(name, chain)
    newest = points[-1] if points else None
    return PushedMachine(called, chain, chain == remote.files.state.chain, newest, len(points), size, pushed_ns, tuple(found.problems))
