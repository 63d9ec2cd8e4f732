"""Bisect: runs a command in states between a good and a bad one, and finds the first bad one.

The danger prevented here: an edit of the worktree. Every state is written into a directory of its own, and no lock is held
while the command runs. The states stay in the store until the end.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from .. import errors, locations
from .._typing import NamedTuple
from ..context import Context
from ..history.restorable import name_checkpoint_in_errors, readable_entries
from ..history.turn_view import TurnView
from ..messages import printable, reason_of
from ..model import bisection, paths
from ..model.bisection import Bisection, Candidate
from ..model.checkpoint import MANUAL, SAFETY, Checkpoint
from ..model.manifest import DIR, PURGED, Entry, link_entry
from ..model.plan import Kept
from ..store import scratch
from ..store.reading import TreeCache
from ..upkeep import bisect_pins, save
from ..worktree.scratch_tree import ScratchTree
from . import preflight, restore_to
from .execute import Contents

SKIP, FIRST_STOP = 125, 126
"""Exit codes of the command: the state cannot be tested; the least one that ends the search. 0 is good, the others are bad."""
_PRIVATE = 0o700


class NextRun(NamedTuple):
    """A state that the command runs in next. `number` counts from 1. `most_left`: the runs after it, at most, if none is skipped. `name`:
    "bad" or "good" for an end, else "". `purged`: paths that it lacks."""

    number: int
    most_left: int
    name: str
    point: Checkpoint
    purged: tuple[bytes, ...]


class CommandRun(NamedTuple):
    """A run of the command in the state of a checkpoint."""

    checkpoint: str
    exit_code: int


class FirstBad(NamedTuple):
    """What a search found. `good`: the last good state. `suspects`: the states that may be the first bad one, oldest first;
    all but the last one were skipped. `states`: how many there were."""

    good: Candidate
    suspects: tuple[Candidate, ...]
    runs: tuple[CommandRun, ...]
    states: int


Runner = Callable[[str], int]
"""Runs the command in a directory. Returns its exit code; 128 and N after signal N."""


def states_between(view: TurnView, good: Checkpoint | None, bad: Checkpoint) -> list[Candidate]:
    """The states before and after turns, and those of saves, from `good` (None: the oldest one) to `bad`. Raises UsageError if
    there is nothing to search."""
    points = sorted((point for point in view.points.values() if point.seq <= bad.seq), key=lambda point: point.seq)
    sides = {identity for turn in view.turns for identity in (turn.before, turn.after)}
    ends = {bad.id} if good is None else {good.id, bad.id}

    def is_state(point: Checkpoint) -> bool:
        if point.id in ends:
            return True
        is_side = point.id in sides or point.trigger == MANUAL or view.turn_of(point.id) is None
        return is_side and point.is_saved and point.trigger != SAFETY and (good is None or point.seq > good.seq)

    found = bisection.candidate_states(filter(is_state, points))
    if len(found) < 2:
        one = found[0].first.id if good is None else good.id
        what = f"{one} is the only state" if one == bad.id else f"{one} and {bad.id} have the same files"
        raise errors.UsageError(f"nothing to search: {what}", "--good REF names an older state")
    return found


def bisect(
    context: Context, good: Checkpoint | None, bad: Checkpoint | None, links: Sequence[bytes], run: Runner, tell: Callable[[NextRun], None]
) -> FirstBad:
    """Find the first bad state after `good` (None: the oldest state), up to `bad` (None: the files now, which are saved).

    `links`: paths of the worktree that every state gets as a link. `tell` is called before each run. Raises BisectError if the
    ends are not good and bad, or the command ends the search; UsageError, CheckpointNotFound, and as `materialise`.
    """
    _refuse_unusable_ends(context, good, bad)
    _refuse_unusable_links(context, links)
    newest = save.save(context).checkpoint if bad is None else bad
    found = states_between(TurnView(context), good, newest)
    search, runs = Bisection(len(found)), list[CommandRun]()
    with (
        bisect_pins.keep_from_gc(context, [point for state in found for point in (state.first, state.last)]),
        _open_state_place(context, links) as place,
    ):
        for at in _positions_to_try(search):
            name = {len(found) - 1: "bad", 0: "good"}.get(at, "")
            point = found[at].first
            purged = place.change_files_to(point)
            tell(NextRun(len(runs) + 1, search.most_left + {"bad": 1, "good": 0}.get(name, -1), name, point, purged))
            runs.append(CommandRun(point.id, run(place.directory)))
            is_good = _is_good(runs[-1])
            if not name:
                search.record(at, is_good=is_good)
            elif is_good is not (name == "good"):
                raise _wrong_end_error(context, name, runs[-1], links)
    return FirstBad(found[search.good], tuple(found[at] for at in search.suspects), tuple(runs), len(found))


def _positions_to_try(search: Bisection) -> Iterator[int]:
    """The bad end, the good end, and then what tells most. The caller notes each result before it asks again."""
    yield search.bad
    yield search.good
    while (at := search.next_position()) is not None:
        yield at


def _is_good(run: CommandRun) -> bool | None:
    """What the command says of a state; None: it cannot tell. Raises BisectError for an exit code that ends the search."""
    code = run.exit_code
    if code >= FIRST_STOP:
        why = f"killed by signal {code - 128}" if code > 128 else "exit code 127: no such command" if code == 127 else f"exit code {code}"
        what = f"stopped: the command did not tell good from bad in the state of {run.checkpoint} ({why})"
        raise errors.BisectError(what, "it exits with 0 for good, with 1 to 124 for bad, with 125 for neither")
    return None if code == SKIP else code == 0


def _wrong_end_error(context: Context, name: str, run: CommandRun, links: Sequence[bytes]) -> errors.BisectError:
    """The error for an end that is not what it has to be."""
    if run.exit_code == SKIP:
        return errors.BisectError(f"the {name} end {run.checkpoint} cannot be tested (exit code {SKIP})", f"--{name} REF is another end")
    if name == "bad":
        what = f"the command succeeds at the bad end {run.checkpoint}: there is nothing to find"
        return errors.BisectError(what, "--bad REF names a state in which it fails")
    there = [] if links else [f"--with {name}" for name in ("node_modules", ".venv") if context.tree.may_exist(os.fsencode(name))]
    more = f"try {' '.join(there)}: checkpoints leave it out" if there else "--with .venv links what checkpoints leave out"
    what = f"the command fails at the good end {run.checkpoint}, too (exit code {run.exit_code})"
    return errors.BisectError(what, f"{more}; --good REF is another end")


def _refuse_unusable_ends(context: Context, good: Checkpoint | None, bad: Checkpoint | None) -> None:
    for name, point in (("--good", good), ("--bad", bad)):
        if point is not None and point.worktree != context.root.key:
            where = printable(point.more.machine or point.root)
            raise errors.UsageError(f"{name}: {point.id} is a checkpoint of {where}", "bisect looks at the states of this worktree")
    if good is not None and bad is not None and good.seq > bad.seq:
        raise errors.UsageError(f"the good end {good.id} is newer than the bad end {bad.id}", "bisect finds what became bad")


def _refuse_unusable_links(context: Context, links: Sequence[bytes]) -> None:
    for path in links:
        if not path or context.tree.status_of(path) is None:
            raise errors.PathNotFound(f"--with {printable(path or b'.')}: no such path below {printable(context.root.path)}")


class _StatePlace:
    """The directory that has one state after the other."""

    def __init__(self, context: Context, directory: str, links: Sequence[bytes]) -> None:
        self._context, self.directory, self._links = context, directory, links
        self._tree: ScratchTree | None = None
        self._load = TreeCache(context.store.load_tree)

    def close(self) -> None:
        if self._tree is not None:
            self._tree.close()

    def change_files_to(self, point: Checkpoint) -> tuple[bytes, ...]:
        """Make the files those of a checkpoint. Returns the purged paths, which are not there. Raises as `materialise`."""
        context = self._context
        try:
            if self._tree is None:
                restore_to.materialise(context, point, self.directory, is_published=False, is_synced=False)
            with context.store.hold_shared_lock():
                preflight.refuse_forgotten(context, point)
                lost: list[Kept] = []
                with name_checkpoint_in_errors(context.store):
                    rows = list(readable_entries(self._load, point.tree, lost))
                preflight.refuse_lost_content(lost, "")
                there = {path: entry for path, entry in rows if entry.kind != PURGED}
                if self._tree is None:
                    self._tree = ScratchTree(self.directory)
                    self._tree.stat_and_note_paths(there.items())
                self._tree.make_equal_to(self._with_links(there), self._contents)
        except errors.StoreDamaged as error:
            raise errors.StoreDamaged(error.problem, "casrewind verify shows what is damaged") from error
        except OSError as error:
            path = f" at {printable(error.filename)}" if error.filename else ""
            what = f"cannot write the state of {point.id} into {printable(self.directory)}{path}: {reason_of(error)}"
            raise errors.WorkspaceError(what) from error
        return tuple(path for path, entry in rows if entry.kind == PURGED)

    def _contents(self, files: Sequence[Entry]) -> Callable[[Entry], Iterable[bytes]]:
        return Contents(self._context.store, files)

    def _with_links(self, there: dict[bytes, Entry]) -> dict[bytes, Entry]:
        """A state with the links in place of what it has there."""
        if not self._links:
            return there
        is_linked = paths.PathScope(self._links).covers
        there = {path: entry for path, entry in there.items() if not is_linked(path)}
        for path in self._links:
            for parent in paths.parents(path):
                if parent not in there or there[parent].kind != DIR:
                    there[parent] = Entry(DIR, _PRIVATE)
            there[path] = link_entry(os.path.join(os.fsencode(self._context.root.path), path))
        return there


@contextmanager
def _open_state_place(context: Context, links: Sequence[bytes]) -> Iterator[_StatePlace]:
    """An empty directory below $TMPDIR, which is removed at the end. After a kill the next bisect or gc removes it."""
    directory = scratch.make_scratch("bisect")
    place = _StatePlace(context, directory, links)
    try:
        if locations.is_in(locations.real_path(directory), context.root.path):
            raise errors.UnsafePath(f"refused: {printable(directory)} lies in the project", "set TMPDIR to a directory outside of it")
        yield place
    finally:
        place.close()
        scratch.remove_scratch(directory)
