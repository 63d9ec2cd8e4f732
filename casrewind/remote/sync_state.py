"""What a store knows of its remote: how far it has pushed, and how far it has read the chains of others.

The danger prevented here: a blob that is believed to be on the remote and is not. A row of `sent` counts only after the
remote has the piece, and only as far as `state` says. If either file is lost or damaged, the store begins a new chain and
pushes everything once more.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from .. import errors, fsio
from .._typing import NamedTuple
from ..messages import store_errors
from ..model import digest as digests
from ..model import tlv
from ..store import purged_digests
from ..store.maintenance import PURGED, SENT
from ..store.store import LedgerPosition
from .strangers import Strangers

STATE = "state"
_ROW = 1 + digests.SIZE
(
    _CHAIN, _NEXT, _MAC, _PENDING, _PENDING_MACS, _LEDGER, _END, _SEQ, _SENT_BYTES, _CHAINS, _ENDED, _TIME, _LEFT, _ROLLED_UP, _BASE,
    _PROBED, _LOOKED, _PENDING_SIZE, _LOOKED_LAST, _LOOKED_MAC, _LOOKED_TIME, _LOOKED_TAG, _HINTED, _LISTED, _NAMED,
) = range(1, 26)  # fmt: skip
_NAME, _MACHINE, _LAST, _LAST_MAC, _SEEN, _WHY, _GONE = range(1, 8)


class ReadChain(NamedTuple):
    """How far a chain of another store was read: the name that its machine has here, the number of its newest piece that
    was read, and the MAC of that piece, zeros if the chain has ended there. `seen`: the number of the newest piece of which only the
    newest checkpoint was taken."""

    machine: str = ""
    last: int = 0
    mac: bytes = bytes(32)
    seen: int = 0


class EndedChain(NamedTuple):
    """An own chain that has ended, and is not emptied yet: the number of its newest piece, why it ended (`piece.PURGED` and others), and
    after a purge what `Keys.digest_of_purged` gives for each purged blob that the chain had, one after the other."""

    last: int
    why: int
    gone: bytes = b""


class BaseChain(NamedTuple):
    """The chain on which the own chain will rest from its first push on: its id, the number of its newest piece when the blobs in `sent`
    were found there, and the MAC of that piece."""

    chain: str
    last: int
    mac: bytes


class RemoteLists(NamedTuple):
    """What lists said when a pull had dealt with all of them: the newest time of the server, and no later than this machine's. Of the last
    list of every object: when it was, the newest time of the server in it, and its requests, 0 = the next pull lists every object."""

    newest_ns: int = 0
    all_ns: int = 0
    all_newest_ns: int = 0
    requests: int = 0


class SyncState(NamedTuple):
    """How far a store has pushed and read.

    `chain` is the id of its own chain ("" = none yet), `next` the number of the next piece, `mac` that of the newest.
    `pending` is the number of a piece whose push was begun (0 = none), `pending_macs` has the MAC of each piece that a push began to
    put there since: one of them may be there; `pending_size` is the size of the largest. `looked`: how many they were when a push
    looked last. `position` is that of the last
    record in the ledger that was sent, `sent_bytes` the valid length of the file `sent`. `chains` has those of other
    stores by id. `ended` has the own chains that have ended, and are not emptied yet, by id.
    `pushed_ns`: the time of the last push. `left`: the ids of checkpoints that could not be sent, because the store is damaged.
    `rolled_up`: the number of the newest piece when the last roll-up was tried. `base`: the chain that has what `sent` says, until the
    first own piece is there; None afterwards, and if there is none. `looked_last`, `looked_mac`, `looked_ns`: the piece before the newest
    own one when a push last looked whether the chain is there (own_chain.py), and when that was; `looked_tag`: what the list said then of
    the pieces up to that one. `probed`: the place that was found to keep the rules of probe.py, "" = none.
    `hinted`: the last two days for which the own chain has a hint (days.py). `listed`: what was listed.
    `named`: the machine's name for which the own chain has an entry (names.py), "" = none.
    """

    chain: str = ""
    next: int = 1
    mac: bytes = bytes(32)
    pending: int = 0
    pending_macs: tuple[bytes, ...] = ()
    position: LedgerPosition = LedgerPosition()
    sent_bytes: int = 0
    chains: dict[str, ReadChain] = {}  # noqa: RUF012 - never changed
    ended: dict[str, EndedChain] = {}  # noqa: RUF012 - never changed
    pushed_ns: int = 0
    left: tuple[str, ...] = ()
    rolled_up: int = 0
    base: BaseChain | None = None
    probed: str = ""
    looked: int = 0
    pending_size: int = 0
    looked_last: int = 0
    looked_mac: bytes = bytes(32)
    looked_ns: int = 0
    looked_tag: bytes = b""
    hinted: tuple[str, ...] = ()
    listed: RemoteLists = RemoteLists()
    named: str = ""

    def settled(self) -> "SyncState":
        """This state, with no push that was begun."""
        return self._replace(pending=0, pending_macs=(), pending_size=0, looked=0)


def encode(state: SyncState) -> bytes:
    """A state as the bytes of its file: a digest, then the fields."""
    chains = (
        tlv.encode(((_NAME, name), (_MACHINE, one.machine), (_LAST, one.last), (_LAST_MAC, one.mac), (_SEEN, one.seen)))
        for name, one in state.chains.items()
    )
    ended = (
        tlv.encode(((_NAME, name), (_LAST, one.last), (_WHY, one.why), (_GONE, one.gone))) for name, one in state.ended.items()
    )
    base = b"" if state.base is None else tlv.encode(zip((_NAME, _LAST, _LAST_MAC), state.base, strict=True))
    listed = b"" if state.listed == RemoteLists() else tlv.encode(enumerate(state.listed, 1))
    body = tlv.encode(
        (
            (_CHAIN, state.chain),
            (_NEXT, state.next),
            (_MAC, state.mac),
            (_PENDING, state.pending),
            (_PENDING_MACS, tlv.encode_list(state.pending_macs)),
            (_LEDGER, state.position.ledger_id),
            (_END, state.position.end),
            (_SEQ, state.position.seq),
            (_SENT_BYTES, state.sent_bytes),
            (_CHAINS, tlv.encode_list(chains)),
            (_ENDED, tlv.encode_list(ended)),
            (_TIME, state.pushed_ns),
            (_LEFT, tlv.encode_list(identity.encode() for identity in state.left)),
            (_ROLLED_UP, state.rolled_up),
            (_BASE, base),
            (_PROBED, state.probed),
            (_LOOKED, state.looked),
            (_PENDING_SIZE, state.pending_size),
            (_LOOKED_LAST, state.looked_last),
            (_LOOKED_MAC, state.looked_mac),
            (_LOOKED_TIME, state.looked_ns),
            (_LOOKED_TAG, state.looked_tag),
            (_HINTED, tlv.encode_list(day.encode() for day in state.hinted)),
            (_LISTED, listed),
            (_NAMED, state.named),
        )
    )
    return digests.of(body) + body


def decode(data: bytes) -> SyncState:
    """The state in these bytes. Raises ManifestCorrupt."""
    body = data[digests.SIZE :]
    if digests.of(body) != data[: digests.SIZE]:
        raise errors.ManifestCorrupt("damaged state of a remote")
    got = tlv.Fields(body, "state of a remote")
    chains = {}
    for item in tlv.decode_list(got.bytes_or_empty(_CHAINS), "state of a remote"):
        one = tlv.Fields(item, "state of a remote")
        chains[one.text(_NAME)] = ReadChain(one.text(_MACHINE), one.number(_LAST), one.required_bytes(_LAST_MAC, 32), one.number(_SEEN))
    ended = [tlv.Fields(item, "state of a remote") for item in tlv.decode_list(got.bytes_or_empty(_ENDED), "state of a remote")]
    base = got.bytes_or_empty(_BASE)
    rest = tlv.Fields(base, "state of a remote")
    listed = tlv.Fields(got.bytes_or_empty(_LISTED), "state of a remote")
    return SyncState(
        chain=got.text(_CHAIN),
        next=got.number(_NEXT),
        mac=got.required_bytes(_MAC, 32),
        pending=got.number(_PENDING),
        pending_macs=tuple(tlv.decode_list(got.bytes_or_empty(_PENDING_MACS), "state of a remote")),
        position=LedgerPosition(got.bytes_or_empty(_LEDGER), got.number(_END), got.number(_SEQ)),
        sent_bytes=got.number(_SENT_BYTES),
        chains=chains,
        ended={one.text(_NAME): EndedChain(one.number(_LAST), one.number(_WHY), one.bytes_or_empty(_GONE)) for one in ended},
        pushed_ns=got.number(_TIME),
        left=tuple(item.decode("ascii", "replace") for item in tlv.decode_list(got.bytes_or_empty(_LEFT), "state of a remote")),
        rolled_up=got.number(_ROLLED_UP),
        base=BaseChain(rest.text(_NAME), rest.number(_LAST), rest.required_bytes(_LAST_MAC, 32)) if base else None,
        probed=got.text(_PROBED),
        looked=got.number(_LOOKED),
        pending_size=got.number(_PENDING_SIZE),
        looked_last=got.number(_LOOKED_LAST),
        looked_mac=got.bytes_or_empty(_LOOKED_MAC) or bytes(32),
        looked_ns=got.number(_LOOKED_TIME),
        looked_tag=got.bytes_or_empty(_LOOKED_TAG),
        hinted=tuple(day.decode("ascii", "replace") for day in tlv.decode_list(got.bytes_or_empty(_HINTED), "state of a remote")),
        listed=RemoteLists(*(listed.number(tag) for tag in range(1, 5))),
        named=got.text(_NAMED),
    )


class StateFiles:
    """The files `state` and `sent` of one remote. Used under the store's lock for pushes and pulls."""

    def __init__(self, directory: str) -> None:
        """`directory` is that of the remote in the store; it exists."""
        self.directory = directory
        self.strangers = Strangers(directory)
        self._sent: set[bytes] | None = None
        self.state = self._read()

    def _read(self) -> SyncState:
        try:
            state = decode(fsio.read_file(os.path.join(self.directory, STATE)))
        except (OSError, errors.ManifestCorrupt):
            return SyncState()
        size = 0
        with suppress(OSError):
            size = os.stat(os.path.join(self.directory, SENT)).st_size
        return state if size >= state.sent_bytes or self.is_purged() else self.without_chain(state)

    @staticmethod
    def without_chain(state: SyncState) -> SyncState:
        """The state before the first push: the next one begins a new chain. What was read of others stays."""
        return SyncState(chains=state.chains, ended=state.ended, probed=state.probed, listed=state.listed)

    def forget_purged_chain(self) -> None:
        """After a purge the next push begins a new chain, so nothing counts as sent. This writes nothing."""
        if self.is_purged():
            self.state = self.without_chain(self.state)

    def save(self, state: SyncState) -> None:
        """Replace the state, durably. Raises StoreError."""
        with store_errors("writing the state of a remote in", self.directory):
            fsio.replace_file(self.directory, STATE, encode(state))
        self.state = state

    def sent(self) -> set[bytes]:
        """The rows of `sent`: the use of a blob (one byte), and its digest."""
        if self._sent is None:
            data = b""
            if self.state.sent_bytes:
                with store_errors("reading the state of a remote in", self.directory):
                    data = fsio.read_file(os.path.join(self.directory, SENT), self.state.sent_bytes)
            self._sent = {data[at : at + _ROW] for at in range(0, len(data), _ROW)}
        return self._sent

    def add_sent(self, rows: Iterable[bytes], state: SyncState) -> None:
        """Note that these blobs are on the remote, and replace the state, durably. `sent` reads them again: a first push would hold
        all of them. Raises StoreError."""
        new = b"".join(rows)
        with store_errors("writing the state of a remote in", self.directory):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with fsio.closing(os.open(os.path.join(self.directory, SENT), flags, 0o600)) as fd:
                os.ftruncate(fd, self.state.sent_bytes)
                os.lseek(fd, 0, os.SEEK_END)
                fsio.write_all(fd, new)
                fsio.sync_fd(fd)
        self.save(state._replace(sent_bytes=self.state.sent_bytes + len(new)))
        self._sent = None

    def begin_chain_on_own(self) -> None:
        """Begin a new chain that rests on the own chain as far as it was pushed: what was sent counts as sent, and no record does."""
        state = self.state
        base = BaseChain(state.chain, state.next - 1, state.mac) if state.chain and state.next > 1 and state.base is None else state.base
        fresh = self.without_chain(state)._replace(chain=os.urandom(16).hex())
        self.save(fresh._replace(base=base, sent_bytes=state.sent_bytes) if base is not None else fresh)
        self._sent = None

    def begin_chain(self) -> None:
        """Begin a new chain: nothing counts as sent."""
        self.save(self.without_chain(self.state)._replace(chain=os.urandom(16).hex()))
        self._sent = set()

    def is_purged(self) -> bool:
        """True if a purge happened since the last push."""
        return os.path.lexists(os.path.join(self.directory, PURGED))

    def purged_matcher(self) -> Callable[[bytes], bool]:
        """A function that tells whether a digest is that of a blob which a purge removed since the last push."""
        data = b""
        with suppress(OSError):
            data = fsio.read_file(os.path.join(self.directory, PURGED))
        return purged_digests.matcher(data)

    def end_purge(self) -> None:
        """Note that nothing of before the purge is in the own chain."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.directory, PURGED))
