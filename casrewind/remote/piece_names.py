"""The names of pieces and holds on a remote: what a name says, as long as nobody has opened the object."""

import re
from collections.abc import Iterable

from .._typing import TYPE_CHECKING, NamedTuple

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
        match = _NAME.fullmatch(info.name)
        if match is not None and 1 <= int(match[2]) <= int(match[3]):
            piece = PieceInfo(int(match[2]), int(match[3]), info.name, info.size, info.modified_ns, info.etag)
            found.setdefault(match[1], []).append(piece)
    return found


def holds_of(listed: "Iterable[ObjectInfo]") -> dict[str, dict[str, int]]:
    """{chain: {chain whose blobs it uses: when it said so}} of a list of all objects. A time is the server's, in ns."""
    found: dict[str, dict[str, int]] = {}
    for info in listed:
        match = _HOLD.fullmatch(info.name)
        if match is not None:
            found.setdefault(match[1], {})[match[2]] = info.modified_ns
    return found


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
