"""What is measured, and in what order: every round of an operation goes through all contenders, A B A B ..."""

import itertools
import os
import time
from typing import NamedTuple

from .. import trees
from . import contenders, measure

OPERATIONS = {
    "first": "first save",
    "disk": "disk after the first save",
    "memory": "peak memory of the first save",
    "unchanged": "save, nothing changed",
    "edited": "save after 10 edits",
    "restore": "restore of 10 edits",
    "list": "list of {checkpoints}",
}
BYTES = frozenset({"disk", "memory"})
"""The operations whose values are bytes; the others are seconds."""

EDITS = 10
_SETTLE = 0.05
"""Seconds between an edit and a timed command: stamps as young as the save itself make every tool read more."""


class Sample(NamedTuple):
    """One value. `number` counts all samples of a run in the order they were taken; `extra` says more about this one."""

    number: int
    operation: str
    round: int
    tool: str
    value: float
    extra: dict


class Run:
    """The samples of one run, and the tools that failed in it: {name: (operation, message)}."""

    def __init__(self, contestants, paths, *, checkpoints, say):
        """`paths`: the files that may be edited, relative to a tree. `say` is called with one line per operation."""
        self.samples = []
        self.failures = {}
        self._contestants = contestants
        self._paths = trees.pick(paths, EDITS)
        self._checkpoints = checkpoints
        self._say = say
        self._marks = itertools.count(1)

    def measure(self, operations, rounds):
        """Take all samples of the given operations."""
        firsts = rounds if "first" in operations else 1
        wanted = [name for name in ("first", "disk") if name in operations]
        self._turns(firsts, self._first, wanted or ["first"], record=bool(wanted))
        if "memory" in operations:
            self._turns(1, self._memory, ["memory"])
        for name, take in (("unchanged", self._unchanged), ("edited", self._edited), ("restore", self._restore), ("list", self._list)):
            if name in operations:
                self._turns(rounds, take, [name])

    def _turns(self, rounds, take, names, *, record=True):
        label = " and ".join(OPERATIONS[name].format(checkpoints=self._checkpoints) for name in names)
        label += "" if record else " (not measured)"
        self._say(f"{label}: {rounds} round{'s' if rounds > 1 else ''} of {', '.join(one.name for one in self._alive())}")
        for number in range(rounds):
            for one in self._alive():
                try:
                    for operation, value, extra in take(one, number):
                        if record and operation in names:
                            self.samples.append(Sample(len(self.samples), operation, number, one.name, value, extra))
                except measure.Failed as error:
                    self.failures[one.name] = (names[0], str(error))
                    self._say(f"{one.name} is out: {error}")

    def _alive(self):
        return [one for one in self._contestants if one.name not in self.failures]

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

    def _edited(self, one, number):
        if number == 0:
            self._run(one, one.save)
        self._edit(one, self._paths)
        yield from self._timed(one, "edited", one.save)

    def _restore(self, one, _number):
        self._run(one, one.save)
        before = trees.contents(one.place.tree, self._paths)
        name = self._run(one, one.reference).out if one.reference else ""
        self._edit(one, self._paths)
        yield from self._timed(one, "restore", [part.replace(contenders.REFERENCE, name) for part in one.restore])
        after = trees.contents(one.place.tree, self._paths)
        wrong = sum(old != new for old, new in zip(before, after, strict=True))
        if wrong:
            raise measure.Failed(f"{one.name}: {wrong} of {EDITS} files are not what they were after its restore")

    def _list(self, one, number):
        if one.lists is None:
            return
        if number == 0:
            for _ in range(self._checkpoints):
                self._edit(one, self._paths[:1])
                self._run(one, one.save)
        yield from self._timed(one, "list", [part.replace("{number}", str(self._checkpoints)) for part in one.lists])

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
