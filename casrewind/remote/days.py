"""Hints that a chain has news on a day: a reader lists the chains that have some, and not every object of the remote.

The danger prevented here: a hint that is missing, or lies, hides a chain. So a hint is on the remote before the piece that it tells of.
The day from which a reader looks is that of the server, and two days earlier. And once in seven days it lists every object.
"""

import re
import time
from collections.abc import Iterator, Sequence

from .piece_names import PieceInfo, all_pieces_of, piece_name
from .remote_config import Remote
from .sync_state import ReadChain

_DAY = 86_400_000_000_000
_OVERLAP, _WEEK = 2 * _DAY, 7 * _DAY
_HINTS = 10_000
"""Hints from one day on, above which a list of every object is read instead."""
_NAME = re.compile(r"days/([0-9-]{10})/([0-9a-f]{32})-[0-9a-f]{16}")


def now_ns() -> int:
    """The clock by which hints and looks are due."""
    return time.time_ns()


def is_within(passed_ns: int, days: int) -> bool:
    """True if less time has passed than so many days. A clock that was set back counts as all of them."""
    return 0 <= passed_ns < days * _DAY


def put_hint(remote: Remote, time_ns: int) -> None:
    """Put the hint that the own chain has news on the day of this time, if it has none, and note it at once: a push that is always cut
    after one answer gets on."""
    state, day = remote.files.state, _day_of(time_ns)
    if day in state.hinted or not remote.objects.place:  # an export has no hints
        return
    remote.objects.put_new(_name_of_hint(remote, day, state.chain), b"")
    remote.files.save(state._replace(hinted=(*state.hinted, day)[-2:]))


def find_hinted(remote: Remote, *, newest: bool) -> tuple[set[str] | None, int]:
    """Returns (the chains to list, None for every object; the newest time that the server gave a hint). `newest`: what `pull --newest`
    leaves unread may stay so."""
    state, listed = remote.files.state, remote.files.state.listed
    if listed.requests < 2 or not is_within(now_ns() - listed.all_ns, 7):
        return None, 0
    found = remote.objects.list("days", f"days/{_day_of(listed.newest_ns - _OVERLAP)}", _HINTS)
    latest = max((info.modified_ns for info in found), default=0)
    named = (_NAME.fullmatch(info.name) for info in found)
    chains = {match[2] for match in named if match is not None and match[0] == _name_of_hint(remote, match[1], match[2])}
    chains |= {chain for chain, read in state.chains.items() if read.seen > read.last and not newest}
    is_dearer = len(found) >= _HINTS or len(chains) >= listed.requests
    return (None if is_dearer or latest - listed.all_newest_ns >= _WEEK else chains), latest


def unread_pieces(remote: Remote, chains: set[str]) -> Iterator[tuple[str, Sequence[PieceInfo]]]:
    """Each of these chains that has names of pieces behind the one that was read last, with those of them that are no known strangers."""
    state = remote.files.state
    for chain in sorted(chains - state.ended.keys()):
        last = state.next - 1 if chain == state.chain else state.chains.get(chain, ReadChain()).last
        listed = remote.objects.list(chain, piece_name(chain, last))
        if left := remote.files.strangers.without(all_pieces_of(listed).get(chain, [])):
            yield chain, left


def _day_of(time_ns: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time_ns // 1_000_000_000))


def _name_of_hint(remote: Remote, day: str, chain: str) -> str:
    return f"days/{day}/{chain}-{remote.keys.digits_of_name('day', day, chain)[:16]}"
