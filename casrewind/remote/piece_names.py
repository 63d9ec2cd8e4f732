"""The names of pieces and holds on a remote: what a name says, as long as nobody has opened the object."""

import re
from collections.abc import Iterable, Sequence

from .._typing import TYPE_CHECKING, NamedTuple
from .piece import MOST_EMPTY

if TYPE_CHECKING:
    from .objects import ObjectInfo

_NAME = re.compile(r"([0-9a-f]{32})/(\d{10})-(\d{10})")
_HOLD = re.compile(r"([0-9a-f]{32})/hold-([0-9a-f]{32})")
LAST_NUMBER = 10**10 - 1
"""The highest number that a piece may have."""


def piece_name(chain: str, number: int) -> str:
    """The name of the piece with one number."""
    return f"{chain}/{number:010}-{number:010}"


class PieceInfo(NamedTuple):
    """A piece in a list of the remote: the numbers of its first and last push, its name, its bytes, when it was put, by the server,
    and the server's tag of its contents."""

    first: int
    last: int
    name: str
    size: int
    modified_ns: int
    etag: str = ""


def all_pieces_of(listed: "Iterable[ObjectInfo]") -> dict[str, list[PieceInfo]]:
    """{chain: what has the name of a piece} of a list of all objects."""
    found: dict[str, list[PieceInfo]] = {}
    for info in listed:
        if (match := _NAME.fullmatch(info.name)) and 1 <= (first := int(match[2])) <= (last := int(match[3])):
            found.setdefault(match[1], []).append(PieceInfo(first, last, info.name, info.size, info.modified_ns, info.etag))
    return found


def holds_of(listed: "Iterable[ObjectInfo]") -> dict[str, dict[str, int]]:
    """{chain: {chain whose blobs it uses: when it said so}} of a list of all objects. A time is the server's, in ns."""
    found: dict[str, dict[str, int]] = {}
    for info in listed:
        if match := _HOLD.fullmatch(info.name):
            found.setdefault(match[1], {})[match[2]] = info.modified_ns
    return found


def newest_time(pieces: Sequence[PieceInfo]) -> int:
    """When the newest of a chain's pieces was put, by the server, in ns; 0 if all are so short that they are emptied. `remote gc` puts
    empty pieces in place of old ones: by their times, what it removed last would be looked at before what was pushed last."""
    return max(piece.modified_ns for piece in pieces) if any(piece.size > MOST_EMPTY for piece in pieces) else 0


def hold_name(chain: str, other: str) -> str:
    """The name of the object that says that a chain uses blobs of another one."""
    return f"{chain}/hold-{other}"


def without_replaced(pieces: Iterable[PieceInfo]) -> list[PieceInfo]:
    """The pieces of a chain in order, without those whose name is within that of a longer one: a roll-up replaces them."""
    kept: list[PieceInfo] = []
    for piece in sorted(pieces, key=lambda one: (one.first, -one.last)):
        if not kept or piece.last > kept[-1].last:
            kept.append(piece)
    return kept
