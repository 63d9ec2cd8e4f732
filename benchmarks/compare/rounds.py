"""What is measured, and in what order: every round of an operation goes through all contenders, A B A B ..."""

import itertools
import math
import os
import time
from typing import NamedTuple

from .. import trees
from . import contenders, inputs, measure

OPERATIONS = {
    "first": "first save",
    "disk": "disk after the first save",
    "memory": "peak memory of the first save",
    "unchanged": "save, nothing changed",
    "edited": "save after {edits} edits",
    "edited-many": "save after {many:,} edits",
    "restore": "restore of {edits} edits",
    "restore-many": "restore of {many:,} edits",
    "diff": "diff of {edits} edits",
    "session": "disk after a session of {checkpoints:,} saves",
    "list": "list of {checkpoints:,}",
    "list-many": "list of {history:,}",
    "large": "1 MB put into a file of {large:,} MB",
    "large-disk": "disk that this takes",
    "sqlite": "40 pages of a database of {sqlite:,} MB",
    "sqlite-disk": "disk that these take",
    "transcript": "0.17 MB more of a transcript of {transcript:,} MB",
    "transcript-disk": "disk that it takes",
}
BYTES = frozenset({"disk", "memory", "session", "large-disk", "sqlite-disk", "transcript-disk"})
"""The operations whose values are bytes; the others are seconds."""

QUICK = frozenset({"first", "disk", "unchanged", "edited", *(name + end for name in inputs.MAKERS for end in ("", "-disk"))})
"""The operations that a quick run asks of slow tools."""

EDITS = 10
_CHEAP = frozenset({"list", "list-many"})
"""Operations that take long before the first round only: patience has nothing to gain there."""
_SETTLE = 0.05
"""Seconds between an edit and a timed command: stamps as young as the save itself make every tool read more."""
_WORKED_ON = 40
"""Files that a simulated session works on."""


class Sizes(NamedTuple):
    """How much of everything: edits, checkpoints, and MB of the single files."""

    edits: int = EDITS
    many: int = 1000
    checkpoints: int = 200
    history: int = 10_000
    large: int = 500
    sqlite: int = 64
    transcript: int = 10


def title(operation, sizes):
    """What an operation is, for people."""
    return OPERATIONS[operation].format(**sizes._asdict())


class Sample(NamedTuple):
    """One value. `number` counts all samples of a run in the order they were taken; `extra` says more about this one."""

    number: int
    operation: str
    round: int
    tool: str
    value: float
    extra: dict


class Run:
    """The samples of one run, the tools that failed in it: {name: (operation, message)}, and what single tools could not
    do beside: [(name, operation, message)]."""

    def __init__(self, contestants, paths, *, sizes, beside, say, patience=None, quick=False):
        """`paths`: the files that may be edited, relative to a tree. `beside(name, kind)` makes a contender with an empty
        tree of its own, `say` is called with one line per operation. A tool that has taken `patience` seconds in an
        operation takes part in no further round of it, in a quick run a slow one that has taken a third of that."""
        self.samples = []
        self.failures = {}
        self.unable = []
        self._contestants = contestants
        self._paths = trees.pick(paths, EDITS)
        self._many = trees.pick(paths, sizes.many)
        self._worked_on = trees.pick(paths, min(_WORKED_ON, len(paths)))
        self._sizes = sizes
        self._beside = beside
        self._say = say
        self._patience = patience
        self._quick = quick
        self._marks = itertools.count(1)
        self._files = {}

    def measure(self, operations, rounds):
        """Take all samples of the given operations."""
        plan = [
            (("first", "disk"), self._first, rounds if "first" in operations else 1),
            (("memory",), self._memory, 1),
            (("unchanged",), self._unchanged, rounds),
            (("edited",), self._edited(self._paths, "edited"), rounds),
            (("edited-many",), self._edited(self._many, "edited-many"), rounds),
            (("restore",), self._restored(self._paths, "restore"), rounds),
            (("restore-many",), self._restored(self._many, "restore-many"), rounds),
            (("diff",), self._diff, rounds),
            (("session", "list"), self._session, rounds if "list" in operations else 1),
        ]
        if any(name in operations for names, *_ in plan for name in names):
            for names, take, number in plan:
                wanted = [name for name in names if name in operations]
                if wanted or take == self._first:
                    self._turns(number, take, names, wanted)
        if "list-many" in operations:
            self._turns(rounds, self._alone(self._history), ["list-many"], ["list-many"])
        for kind in inputs.MAKERS:
            wanted = [name for name in (kind, f"{kind}-disk") if name in operations]
            if wanted:
                self._turns(rounds, self._alone(self._single, kind), wanted, wanted)

    def _turns(self, rounds, take, names, wanted):
        taking_part = [one for one in self._alive() if take == self._first or any(self._does(one, name) for name in names)]
        label = " and ".join(title(name, self._sizes) for name in wanted or names) + ("" if wanted else " (not measured)")
        self._say(f"{label}: {rounds} round{'s' if rounds > 1 else ''} of {', '.join(one.name for one in taking_part)}")
        spent = {one.name: 0.0 for one in taking_part}
        for number, one in itertools.product(range(rounds), taking_part):
            recorded = [name for name in wanted if self._does(one, name)]
            if one.name in self.failures or (number and not recorded):
                continue
            if number and spent[one.name] >= self._patience_with(one) and names[-1] not in _CHEAP:
                continue
            began = time.perf_counter()
            try:
                for operation, value, extra in take(one, number):
                    if operation in recorded:
                        self.samples.append(Sample(len(self.samples), operation, number, one.name, value, extra))
            except measure.Failed as error:
                self.failures[one.name] = (names[0], str(error))
                self._say(f"{one.name} is out: {error}")
            spent[one.name] += time.perf_counter() - began

    def _patience_with(self, one):
        if self._patience is None:
            return math.inf
        return self._patience / 3 if self._quick and one.slow else self._patience

    def _alive(self):
        return [one for one in self._contestants if one.name not in self.failures]

    def _does(self, one, operation):
        return one.does(operation) and not (self._quick and one.slow and operation not in QUICK)

    # -- the operations: each yields (operation, value, extra)

    def _first(self, one, _number):
        self._fresh(one)
        yield from self._timed(one, "first", one.first or one.save)
        allocated, size = measure.disk(one.stores())
        yield "disk", allocated, {"bytes_in_files": size}

    def _memory(self, one, _number):
        self._fresh(one)
        done = self._run(one, one.first or one.save, watched=True)
        if done.together is None:
            yield "memory", done.largest, {"method": "resident size of the largest process"}
        else:
            yield "memory", done.together, {"method": "proportional size of all processes", "largest_process": done.largest}

    def _unchanged(self, one, number):
        if number == 0:
            self._run(one, one.save)  # no round is the first look at a tree that was just saved
        yield from self._timed(one, "unchanged", one.save)

    def _edited(self, paths, operation):
        def take(one, number):
            if number == 0:
                self._run(one, one.save)
            self._edit(one, paths)
            yield from self._timed(one, operation, one.save)

        return take

    def _restored(self, paths, operation):
        def take(one, _number):
            self._run(one, one.save)
            before = trees.contents(one.place.tree, paths)
            name = self._run(one, one.reference).out if one.reference else ""
            self._edit(one, paths)
            yield from self._timed(one, operation, [part.replace(contenders.REFERENCE, name) for part in one.restore])
            after = trees.contents(one.place.tree, paths)
            wrong = sum(old != new for old, new in zip(before, after, strict=True))
            if wrong:
                raise measure.Failed(f"{one.name}: {wrong} of {len(paths)} files are not what they were after its restore")

        return take

    def _diff(self, one, _number):
        self._run(one, one.save)
        self._edit(one, self._paths)
        yield from self._timed(one, "diff", one.diff)

    def _session(self, one, number):
        if number == 0:
            self._fresh(one)
            self._run(one, one.first or one.save)
            for step in range(self._sizes.checkpoints):
                trees.work(one.place.tree, self._worked_on, step)
                time.sleep(_SETTLE)
                self._run(one, one.save)
            allocated, size = measure.disk(one.stores())
            yield "session", allocated, {"bytes_in_files": size}
        yield from self._timed(one, "list", _listing(one, self._sizes.checkpoints))

    # -- beside the tree: each begins with a contender of its own

    def _alone(self, take, *kind):
        others = {}

        def taken(one, number):
            try:
                if number == 0:
                    others[one.name] = self._beside(one.name, kind[0] if kind else "history")
                if one.name in others:
                    yield from take(others[one.name], number, *kind)
            except measure.Failed as error:
                others.pop(one.name, None)
                self.unable.append((one.name, kind[0] if kind else "list-many", str(error)))
                self._say(f"{one.name} cannot: {error}")

        return taken

    def _history(self, one, number):
        if number == 0:
            for name in range(EDITS):
                with open(os.path.join(one.place.tree, f"f{name}.txt"), "w", encoding="utf-8") as file:
                    file.write(f"{name}\n")
            self._fresh(one)
            self._run(one, [part.replace("{number}", str(self._sizes.history)) for part in one.fill])
        yield from self._timed(one, "list-many", _listing(one, self._sizes.history))

    def _single(self, one, number, kind):
        if number == 0:
            size = getattr(self._sizes, kind) * inputs.MB
            self._files[kind, one.name] = inputs.MAKERS[kind](one.place.tree, size)
            self._fresh(one)
            self._run(one, one.first or one.save)
            if measure.disk(one.stores())[1] < inputs.LEAST[kind] * size:
                raise measure.Failed(f"{one.name} did not save a file of {size / 1e6:.0f} MB")
        before, _ = measure.disk(one.stores())
        self._files[kind, one.name].change(number)
        time.sleep(_SETTLE)
        yield from self._timed(one, kind, one.save)
        yield f"{kind}-disk", measure.disk(one.stores())[0] - before, {}

    # -- their parts

    def _fresh(self, one):
        one.forget()
        if one.make is not None:
            self._run(one, one.make)

    def _edit(self, one, paths):
        trees.edit(one.place.tree, paths, next(self._marks))
        time.sleep(_SETTLE)

    def _timed(self, one, operation, command):
        os.sync()  # nobody waits for what another has left to be written
        done = self._run(one, command)
        yield operation, done.seconds, {"processor_seconds": done.processor}

    def _run(self, one, command, *, watched=False):
        return measure.run(command, one.place.tree, one.environ, watched=watched)


def _listing(one, number):
    return [part.replace("{number}", str(number)) for part in one.lists]
