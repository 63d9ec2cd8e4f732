"""The order in which a plan is carried out: a value, so that it can be looked at without a file system.

The danger prevented here: deletions done first and then no space for the writes. Directories are made before what goes
into them, removals come after every write, emptied directories after the removals, directory modes (which may forbid
all of that) at the very end.
"""

import stat
from collections.abc import Iterable, Iterator, Sequence

from ..typed import NamedTuple
from .manifest import DIR
from .plan import Action, content_differs

_BATCH_FILES = 2000
_BATCH_BYTES = 256 << 20


class Phases(NamedTuple):
    """The actions of a plan by what has to be done, each list in the order in which it has to be done.

    `opens`: directories that their owner must be let into first. `makes`: directories. `writes`: new contents and links.
    `modes`: a mode or a spelling of a name only. `removes`: files and links. `rmdirs`: directories. `dir_modes`: the
    modes of directories that stay.
    """

    opens: "Picked"
    makes: "Picked"
    writes: "Picked"
    modes: "Picked"
    removes: "Picked"
    rmdirs: "Picked"
    dir_modes: "Picked"


class Picked:
    """Some actions of a plan, by their numbers in it, to be gone along: each is made when its turn comes."""

    __slots__ = ("_actions", "numbers")

    def __init__(self, actions: Sequence[Action]) -> None:
        """None yet."""
        self._actions, self.numbers = actions, list[int]()

    def __iter__(self) -> Iterator[Action]:
        return (self._actions[number] for number in self.numbers)

    def sort(self, *, deepest: bool) -> None:
        """Put the deepest paths first, or last."""
        self.numbers.sort(key=lambda number: self._actions[number].path.count(b"/"), reverse=deepest)


def phases(actions: Sequence[Action]) -> Phases:
    """Sort the actions of a plan into phases."""
    found = Phases._make(Picked(actions) for _ in Phases._fields)
    for number, action in enumerate(actions):
        before, after = action.before, action.after
        if needs_opening(action):
            found.opens.numbers.append(number)
        if after is None:
            (found.rmdirs if before is not None and before.kind == DIR else found.removes).numbers.append(number)
        elif after.kind == DIR:
            if before is None or before.kind != DIR:
                found.makes.numbers.append(number)
            elif action.source != action.path:
                found.modes.numbers.append(number)
            found.dir_modes.numbers.append(number)
        elif content_differs(action):
            found.writes.numbers.append(number)
        else:
            found.modes.numbers.append(number)
    for downwards in (found.opens, found.makes, found.modes):
        downwards.sort(deepest=False)
    for upwards in (found.rmdirs, found.dir_modes):
        upwards.sort(deepest=True)
    return found


def needs_opening(action: Action) -> bool:
    """True for a directory whose own mode would keep its owner from changing what is in it."""
    before = action.before
    return before is not None and before.kind == DIR and before.mode & stat.S_IRWXU != stat.S_IRWXU


def batches(writes: Iterable[Action]) -> Iterator[list[Action]]:
    """Writes in groups that are staged, synced and named together: bounded space, one sync for many files."""
    batch: list[Action] = []
    size = 0
    for action in writes:
        batch.append(action)
        size += action.after.size if action.after is not None else 0
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
