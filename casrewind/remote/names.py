"""Names: which chains have the name of a machine, a base, or a pair of key and value, so that nobody lists every object to find one.

The danger prevented here: a name leads to another chain than it should. So an entry only tells which chains to look at, and what a chain
says itself counts (clone.py). Of two entries the server's time tells the newer one. What was put without the key never counts, nor what
is older by its own time than the server says. A machine's entry is on the remote before the first piece of its chain.
"""

import re
from collections.abc import Sequence

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..history.checkpoint_names import LEAST_PREFIX, full_name, is_listed
from ..messages import plural
from ..model.checkpoint import Checkpoint
from . import days
from .objects import ObjectInfo
from .piece_names import PieceInfo, all_pieces_of
from .remote_config import Remote

MACHINE, BASE, META = "machine", "base", "meta"
TRIED = 8
"""Entries of a name that a reader follows."""
_ONE_PAGE = 1000
_BEHIND_NS = 600 * 10**9
"""How far an entry's own time may be behind the server's."""
_LAST_SECOND = 9_999_999_999
_ENTRY = re.compile(r"names/[0-9a-f]{32}/([0-9]{10})-([0-9a-f]{32})-([0-9a-z]{0,64})-[0-9a-f]{32}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class Name(NamedTuple):
    """What a chain or a checkpoint is called. Only a pair has a key."""

    kind: str
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}" if self.key else self.value


class NameEntry(NamedTuple):
    """That a chain has a name: when that was put, by the server's clock, the checkpoint that is meant, "" = the newest, and the object."""

    put_ns: int
    chain: str
    checkpoint: str
    object: str


class Entries(NamedTuple):
    """The entries of a name that count, the newest first, and sentences about the others."""

    found: Sequence[NameEntry]
    left_out: Sequence[str] = ()


def allowed_characters(name: str) -> str:
    """The characters of a name that a reference may have."""
    return _NOT_IN_NAMES.sub("-", name)[:64].strip("-.")


def base_of(text: str) -> Name:
    """The name of a base. Raises UsageError."""
    if not text or allowed_characters(text) != text:
        raise errors.UsageError(f"{text!r} cannot be the name of a base", "it has at most 64 letters, digits, dots, - and _")
    return Name(BASE, "", text)


def pair_of(text: str) -> Name:
    """The pair in KEY=VALUE. Raises UsageError."""
    key, _, value = text.partition("=")
    if not key or not value:
        raise errors.UsageError(f"{text!r} is no pair", "write KEY=VALUE, as in run=123")
    return Name(META, key, value)


def put_machine(remote: Remote) -> None:
    """Put the entry of this machine, if the own chain has none, and note it at once, as a hint (days.py)."""
    state, name = remote.files.state, allowed_characters(remote.config.machine) or "machine"
    if name == state.named or not remote.objects.place:  # an export has no entries
        return
    _put(remote, Name(MACHINE, "", name))
    remote.files.save(state._replace(named=name))


def put_names(context: Context, remote: Remote, names: Sequence[Name]) -> list[str]:
    """Name the newest checkpoint of this project that was pushed. Returns sentences about names that do not count. Raises RemoteError."""
    state, said = remote.files.state, list[str]()

    def is_meant(point: Checkpoint) -> bool:
        return is_listed(point, context.root.key) and point.is_saved and point.seq <= state.position.seq and point.id not in state.left

    point = next((point for point, _ in context.store.checkpoints(1, is_meant) if is_meant(point)), None)
    if point is None:
        raise errors.RemoteError("nothing of this project was pushed that could have a name", "save something, then push again")
    for name in names:
        put = _put(remote, name, point.id)
        if put not in {entry.object for entry in find_entries(remote, name).found}:
            said.append(f"{name} does not count: this machine's clock is more than ten minutes behind the server's; set it, and push again")
    return said


def find_entries(remote: Remote, name: Name) -> Entries:
    """What the remote has of a name: one page of it, or all if newer ones may be behind the page. Raises RemoteError."""
    place = _place_of(remote, name)
    listed = remote.objects.list(place, "", _ONE_PAGE)
    entries = _those_that_count(remote, name, listed)
    if len(listed) == _ONE_PAGE:
        last = listed[-1].name[len(place) + 1 :][:10]
        newest = entries.found[0].put_ns if entries.found else 0
        if not newest or (last.isdecimal() and newest <= _time_of(last) + _BEHIND_NS):
            return _those_that_count(remote, name, remote.objects.list(place))
    return entries


def find_machine(remote: Remote, name: str) -> Entries:
    """The entries of a machine, by its plain name or by one that no other has."""
    found = find_entries(remote, Name(MACHINE, "", name))
    plain, _, start = name.rpartition(".")
    if found.found or not plain or len(start) < LEAST_PREFIX:
        return found
    of_all = find_entries(remote, Name(MACHINE, "", plain))
    return of_all._replace(found=[entry for entry in of_all.found if entry.chain.startswith(start)])


def pieces_of(remote: Remote, entries: Sequence[NameEntry]) -> dict[str, Sequence[PieceInfo]]:
    """The chains of these entries, each with what has the names of its pieces, but for known strangers. Raises RemoteError."""
    chains = dict.fromkeys(entry.chain for entry in entries)
    listed = ((chain, all_pieces_of(remote.objects.list(chain)).get(chain, [])) for chain in chains)
    return {chain: left for chain, pieces in listed if (left := remote.files.strangers.without(pieces))}


def _those_that_count(remote: Remote, name: Name, listed: Sequence[ObjectInfo]) -> Entries:
    found, late, foreign = list[NameEntry](), list[str](), 0
    for info in listed:
        match = _ENTRY.fullmatch(info.name)
        if match is None or info.name != _name_of_entry(remote, name, match[1], match[2], match[3]):
            foreign += 1
        elif _time_of(match[1]) + _BEHIND_NS < info.modified_ns:
            late.append(full_name(f"{name}", match[2]))
        else:
            found.append(NameEntry(info.modified_ns, match[2], match[3], info.name))
    said = [f"{plural(foreign, 'object')} below the name {name} left out: not put by who has the key"] if foreign else []
    if late:
        shown = ", ".join(late[:TRIED]) + (", ..." if len(late) > TRIED else "")
        said.append(f"left out: {shown}: put by a clock that is more than ten minutes behind the server's, or copied later")
    return Entries(sorted(found, reverse=True), said)


def _put(remote: Remote, name: Name, checkpoint: str = "") -> str:
    second = f"{_LAST_SECOND - days.now_ns() // 10**9:010}"
    entry = _name_of_entry(remote, name, second, remote.files.state.chain, checkpoint)
    remote.objects.put_new(entry, b"")
    return entry


def _time_of(inverted: str) -> int:
    return (_LAST_SECOND - int(inverted)) * 10**9


def _place_of(remote: Remote, name: Name) -> str:
    return f"names/{remote.keys.digits_of_name(*name)}"


def _name_of_entry(remote: Remote, name: Name, inverted: str, chain: str, checkpoint: str) -> str:
    start = f"{_place_of(remote, name)}/{inverted}-{chain}-{checkpoint}"
    return f"{start}-{remote.keys.digits_of_name('entry', start)}"
