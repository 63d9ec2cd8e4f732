"""The order in which a plan is carried out: a value, so that it can be looked at without a file system.

The danger prevented here: deletions done first and then no space for the writes. Directories are made before what goes
into them, removals come after every write, emptied directories after the removals, directory modes (which may forbid
all of that) at the very end.
"""

import stat
from collections.abc import Iterator, Sequence

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

    opens: list[Action]
    makes: list[Action]
    writes: list[Action]
    modes: list[Action]
    removes: list[Action]
    rmdirs: list[Action]
    dir_modes: list[Action]


def phases(actions: Sequence[Action]) -> Phases:
    """Sort the actions of a plan into phases."""
    found = Phases([], [], [], [], [], [], [])
    for action in actions:
        before, after = action.before, action.after
        if needs_opening(action):
            found.opens.append(action)
        if after is None:
            (found.rmdirs if before is not None and before.kind == DIR else found.removes).append(action)
        elif after.kind == DIR:
            if before is None or before.kind != DIR:
                found.makes.append(action)
            elif action.source != action.path:
                found.modes.append(action)
            found.dir_modes.append(action)
        elif content_differs(action):
            found.writes.append(action)
        else:
            found.modes.append(action)
    for downwards in (found.opens, found.makes, found.modes):
        downwards.sort(key=_depth)
    for upwards in (found.rmdirs, found.dir_modes):
        upwards.sort(key=_depth, reverse=True)
    return found


def _depth(action: Action) -> int:
    return action.path.count(b"/")


def needs_opening(action: Action) -> bool:
    """True for a directory whose own mode would keep its owner from changing what is in it."""
    before = action.before
    return before is not None and before.kind == DIR and before.mode & stat.S_IRWXU != stat.S_IRWXU


def batches(writes: Sequence[Action]) -> Iterator[list[Action]]:
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
