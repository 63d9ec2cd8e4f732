"""What a chain may say here: which of its records count, and which are left out and named.

The danger prevented here: a machine with the key speaks of what is not its own. It replaces another machine's checkpoint by one with
the same id, moves pins and labels of others, or writes a record that no later save can read. So a chain speaks of its own
checkpoints only, an id that is known stands for what came first, and only kinds of records that a push sends are taken.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..messages import plural
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model import digest as digests
from ..model import rewind_record, undo_history
from ..model.checkpoint import Checkpoint
from ..store import ledger
from ..store.catalog import UNMARKED, Marked, marks_after
from .piece_errors import PieceDamaged

_ID = re.compile(r"[0-9a-z]{4,64}")
_OF_CHAIN = 10
"""Bytes of a worktree's key here that tell its chain. The others tell the worktree."""
_NAMED = 3
"""Ids that a sentence names."""
_MOST_MOVES = 100
"""Moves of a project that are taken at once."""


Item = tuple[int, int, bytes]
"""A record: its kind, its sequence number in the store of its machine, its payload."""


class OwnRecords(NamedTuple):
    """The records of a chain that can be its own: (sequence number, checkpoint), and (kind, record, sequence number) of others. Of two
    checkpoints with one id, the first counts. `clashing`: the ids of which another one had other contents. `unreadable`: how many
    records cannot be decoded."""

    points: list[tuple[int, Checkpoint]]
    others: "list[tuple[int, undo_history.Mark | undo_history.Adoption | rewind_record.Rewind, int]]"
    clashing: list[str]
    unreadable: int


class Arriving(NamedTuple):
    """The checkpoints of a chain that are to be stored, with their worktrees renamed, and its other records. Of two with one
    sequence number, the first is first. `problems`: sentences about what was left out."""

    points: list[tuple[int, Checkpoint]]
    others: list[Item]
    problems: tuple[str, ...] = ()


def key_here(chain: str, worktree: bytes) -> bytes:
    """The key that a worktree of another machine has here. `is_of_chain` tells its chain."""
    return _mark_of_chain(chain) + digests.of(bytes.fromhex(chain) + worktree)[: len(worktree) - _OF_CHAIN]


def is_of_chain(chain: str, key: bytes) -> bool:
    """True if this is the key that a worktree of the chain has here. Whoever chooses a chain's id needs 2^80 tries to meet another's."""
    return key.startswith(_mark_of_chain(chain))


def _mark_of_chain(chain: str) -> bytes:
    return digests.of(b"the worktrees of " + bytes.fromhex(chain))[:_OF_CHAIN]


def decode_point(payload: bytes) -> Checkpoint:
    """A checkpoint of another machine. Raises PieceDamaged."""
    try:
        point = checkpoints.decode(0, payload)
        cursors.decode(point.cursor)
    except errors.ManifestCorrupt as error:
        raise PieceDamaged(str(error)) from error
    if _ID.fullmatch(point.id) is None:
        raise PieceDamaged("a checkpoint of another machine has an id that no save makes")
    return point


def have_equal_contents(one: Checkpoint, other: Checkpoint) -> bool:
    """True if two checkpoints with one id are the same. A clone has another worktree and paths, a pull another machine's name, and a push
    may leave the conversation out: these do not count, but for two different conversations."""
    transcripts = {point.transcript.digest for point in (one, other) if point.transcript is not None}
    return len(transcripts) < 2 and _what_counts(one) == _what_counts(other)


def _what_counts(point: Checkpoint) -> Checkpoint:
    return point._replace(seq=0, worktree=b"", root=b"", cursor=b"", transcript=None, more=checkpoints.NOTHING_ELSE)


def own_records(items: Iterable[Item]) -> OwnRecords:
    """Of the records in a chain, those that can be its own. A push sends no other kinds, and no checkpoint of another machine."""
    found = OwnRecords([], [], [], 0)
    first: dict[str, Checkpoint] = {}
    unreadable = 0
    for kind, seq, payload in items:
        try:
            if kind == ledger.CHECKPOINT:
                point = decode_point(payload)
                if point.more.machine:
                    continue
                known = first.setdefault(point.id, point)
                if known is point:
                    found.points.append((seq, point))
                elif not have_equal_contents(known, point):
                    found.clashing.append(point.id)
            elif kind in _DECODERS:
                found.others.append((kind, _DECODERS[kind](payload), seq))
        except (errors.ManifestCorrupt, PieceDamaged):
            unreadable += 1
    return found._replace(unreadable=unreadable)


_DECODERS: "dict[int, Callable[[bytes], undo_history.Mark | undo_history.Adoption | rewind_record.Rewind]]" = {
    **dict.fromkeys(ledger.MARKS, undo_history.decode_mark),
    ledger.SESSION: rewind_record.decode,
    ledger.ADOPT: undo_history.decode_adoption,
}


KINDS = frozenset((ledger.CHECKPOINT, *_DECODERS))
"""The kinds of records that a push sends. All others are dropped as they come."""


def choose_arriving(
    own: OwnRecords, machine: str, known: Callable[[str], Checkpoint | None], place: Callable[[Checkpoint], Checkpoint],
    key_of: Callable[[bytes], bytes],
) -> Arriving:  # fmt: skip
    """What of a chain's own records is to be stored. `known` gives a checkpoint that is here, `place` a checkpoint as it will be here,
    `key_of` the key of a worktree here. `machine` names the chain in the sentences."""
    points, clashing = [], list(own.clashing)
    for seq, point in own.points:
        here = known(point.id)
        if here is None:
            points.append((seq, place(point)))
        elif not have_equal_contents(here, point):
            clashing.append(point.id)
    others: list[Item] = []
    for kind, record, seq in own.others:
        if isinstance(record, undo_history.Mark):
            others.append((kind, seq, undo_history.encode_mark(record)))
        elif isinstance(record, undo_history.Adoption):
            moved = record._replace(old=key_of(record.old), new=key_of(record.new))
            others.append((kind, seq, undo_history.encode_adoption(moved)))
        else:
            others.append((kind, seq, rewind_record.encode(record._replace(worktree=key_of(record.worktree)))))
    return Arriving(points, others, tuple(_left_out_in_words(machine, clashing, own.unreadable)))


def _left_out_in_words(machine: str, clashing: Sequence[str], unreadable: int) -> "list[str]":
    said = []
    if clashing := list(dict.fromkeys(clashing)):
        more = f" and {len(clashing) - _NAMED:,} more" if len(clashing) > _NAMED else ""
        what = f"{'checkpoints' if len(clashing) > 1 else 'checkpoint'} {', '.join(clashing[:_NAMED])}{more}"
        verb = "were" if len(clashing) > 1 else "was"
        said.append(f"{what} of {machine} {verb} left out: known here with other contents (after a purge there, purge here, too)")
    if unreadable:
        verb = "were" if unreadable > 1 else "was"
        said.append(f"{plural(unreadable, 'record')} of {machine} {verb} left out: no save writes such records")
    return said


class Here:
    """What a store has of checkpoints, their marks and rewinds, looked up once for all chains that arrive together."""

    def __init__(self, context: Context) -> None:
        """Looks nothing up yet."""
        self._context = context
        self.root = context.root.key

    @cached_property
    def rewinds(self) -> set[bytes]:
        """The records of rewinds."""
        return {rewind_record.encode(one) for one in self._context.store.rewinds()}

    @cached_property
    def marks(self) -> dict[str, Marked]:
        """{id: the marks of the checkpoint}."""
        return dict(self._found[0])

    @cached_property
    def worktrees(self) -> dict[str, bytes]:
        """{id: the key of the checkpoint's worktree}."""
        return dict(self._found[1])

    @cached_property
    def _found(self) -> tuple[dict[str, Marked], dict[str, bytes]]:
        rows = list(self._context.store.checkpoints())
        return {point.id: marks for point, marks in rows}, {point.id: point.worktree for point, _ in rows}


def records_to_store(here: Here, chain: str, machine: str, arrived: Arriving) -> tuple[list[tuple[int, bytes]], list[str]]:
    """Returns (the records of a chain for the ledger, in the order of their machine; sentences about pins and labels that are left out:
    those of checkpoints that are not the chain's)."""
    items = [*((seq, ledger.CHECKPOINT, checkpoints.encode(point)) for seq, point in arrived.points)]
    items += [(seq, kind, payload) for kind, seq, payload in arrived.others]
    owned = _Owned(here, chain, arrived)
    chosen = [
        (kind, payload)
        for _, kind, payload in sorted(items, key=lambda item: item[0])
        if kind == ledger.CHECKPOINT or owned.has(kind, payload)
    ]
    number = owned.count_marks_left_out()
    verb = "were" if number > 1 else "was"
    what = f"{plural(number, 'checkpoint')}, which {machine} pinned or labelled,"
    left = [f"{what} {verb} left as before: {'they are' if number > 1 else 'it is'} not of that chain"] if number else []
    return chosen, left


class _Owned:
    """Tells which records of a chain are about its own checkpoints, and keeps count of pins and labels that are not."""

    def __init__(self, here: Here, chain: str, arrived: Arriving) -> None:
        """Looks into the store only if there are records to tell."""
        self._chain, self._root = chain, here.root
        self._worktrees = {point.id: point.worktree for _, point in arrived.points}
        self._new = set(self._worktrees.values())
        self._here: dict[str, Marked] = {}
        self._now: dict[str, Marked] = {}
        self._left: dict[str, Marked] = {}
        self._rewinds = set[bytes]()
        self._moves = 0
        if arrived.others:
            self._rewinds, self._here = here.rewinds, here.marks
            self._worktrees = here.worktrees | self._worktrees

    def has(self, kind: int, payload: bytes) -> bool:
        """True if a record besides checkpoints is to be stored."""
        if kind in ledger.MARKS:
            return self._has_mark(kind, undo_history.decode_mark(payload))
        if kind == ledger.SESSION:
            rewind = rewind_record.decode(payload)
            is_own = self._is_own_checkpoint(rewind.checkpoint) if rewind.checkpoint else rewind.worktree == self._root
            return is_own and payload not in self._rewinds
        self._moves += 1  # each reads every checkpoint, also when an index is rebuilt
        return self._moves <= _MOST_MOVES and undo_history.decode_adoption(payload).old in self._worktrees.values()

    def _has_mark(self, kind: int, mark: undo_history.Mark) -> bool:
        """True for a pin or label of an own checkpoint that changes something: a chain that is not whole is read again by each pull."""
        is_own = self._is_own_checkpoint(mark.checkpoint)
        changed = self._now if is_own else self._left
        before = changed.get(mark.checkpoint) or self._here.get(mark.checkpoint) or UNMARKED
        changed[mark.checkpoint] = marks_after(before, kind, mark)
        return is_own and changed[mark.checkpoint] != before

    def _is_own_checkpoint(self, identity: str) -> bool:
        key = self._worktrees.get(identity, b"")
        return key in self._new or is_of_chain(self._chain, key)

    def count_marks_left_out(self) -> int:
        """The number of checkpoints that would have other pins and labels."""
        return sum(marks != self._here.get(identity, marks) for identity, marks in self._left.items())
