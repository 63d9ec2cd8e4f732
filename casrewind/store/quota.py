"""What the last gc left behind: a few numbers, so that a save can tell whether it is time for the next one; and what of a budget
no save takes.

The numbers may be lost: then there is one gc too many, or one a day late.
"""

import os
from contextlib import suppress

from .. import fsio
from .._typing import NamedTuple
from .layout import Layout
from .packs import MAX_SIZE

_NAME = "gc"
_VERSION = 1
_HOUR_NS = 3600 * 1_000_000_000
_DAY_NS = 24 * _HOUR_NS
_MANY = 200
"""New packs after which merging them pays."""
_SLACK = 8 << 20
"""Bytes for what a save writes beside packs: its record, rows of the index."""


class GcState(NamedTuple):
    """`at_ns`: when it began, or else the store was made (nanoseconds since 1970); `size` and `packs`: bytes of the store and
    number of packs when it was done, `beside` those bytes that are in no pack; `floor`: bytes that it could not get below,
    more than the budget; 0 = the budget is kept."""

    at_ns: int = 0
    size: int = 0
    packs: int = 0
    beside: int = 0
    floor: int = 0

    @classmethod
    def read(cls, store: str) -> "GcState":
        """What is known of the store at that path."""
        with suppress(OSError, ValueError):
            version, *numbers = fsio.read_file(os.path.join(store, _NAME), 200).decode().split()
            if version == str(_VERSION) and len(numbers) == len(cls._fields):
                return cls(*(int(number[:20]) for number in numbers))
        with suppress(OSError):
            return cls(at_ns=os.lstat(Layout(store).format).st_mtime_ns)  # there was nothing to collect before that
        return cls()

    def write(self, layout: Layout) -> None:
        """Remember it. Failing here is nobody's business."""
        with suppress(OSError):
            text = " ".join(map(str, (_VERSION, *self))) + "\n"
            with fsio.drafted(layout.temporary) as (draft, fd):
                fsio.write_all(fd, text.encode())
                os.rename(draft, os.path.join(layout.root, _NAME))

    def why_again(self, now_ns: int, packs: int, packed: int, budget: int | None) -> str:
        """Why it is time for the next one, "" when it is not. `packs` is how many packs there are now, `packed` their bytes,
        `budget` is the store's in bytes."""
        size = packed + self.beside
        if not -_HOUR_NS <= now_ns - self.at_ns <= _DAY_NS:
            return "a day has passed"
        if packs > self.packs + _MANY:
            return "there are many small packs"
        if budget is not None and size > high_water(budget) and size > self.size + budget // 16:
            return "the store has grown to its budget"
        return ""


def reserve(budget: int) -> int:
    """Bytes of a budget that no save takes: gc needs them, for one pack at a time, to free others."""
    return min(MAX_SIZE + _SLACK, budget // 4)


def high_water(budget: int) -> int:
    """Bytes of a store from which gc has to come: so that the next save still fits."""
    return budget - reserve(budget) - budget // 16


def low_water(budget: int) -> int:
    """Bytes that gc brings a store down to which has grown to its budget: so that it need not come at every save."""
    return high_water(budget) - budget // 16


def most_together(budget: int | None) -> int:
    """Bytes that gc may copy before it removes what they were copied from."""
    return MAX_SIZE if budget is None else min(MAX_SIZE, budget // 8)
