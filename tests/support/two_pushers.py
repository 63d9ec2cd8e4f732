"""Two copies of one store that put their next piece at the same moment, each from a process of its own.

    with TwoPushers() as pushers:
        first, second = pushers.race(tmp_path / "1", url)      # a Raced for each
"""

import multiprocessing
import shutil
from typing import NamedTuple

from casrewind import errors

from .machines import Machine, Requests

PATIENCE = 120


class Raced(NamedTuple):
    """A copy, its checkpoint that was pushed in the race, and what the push said, or the error in words."""

    machine: Machine
    point: str
    notes: tuple
    error: str


class TwoPushers:
    def __init__(self):
        start = multiprocessing.get_context("spawn")  # a fork would have dead threads of the library
        self._barrier = start.Barrier(2)  # it is gone when nobody here has it
        self._pipes, self._processes = [], []
        for _ in range(2):
            ours, theirs = start.Pipe()
            self._pipes.append(ours)
            self._processes.append(start.Process(target=_work, args=(theirs, self._barrier), daemon=True))
            self._processes[-1].start()
            theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pipe in self._pipes:
            pipe.send(None)
            pipe.close()
        for process in self._processes:
            process.join(PATIENCE)
            process.close()

    def race(self, place, url):
        """A new store that pushes to `url`, two copies of it with a checkpoint more, and their pushes."""
        base = Machine.with_remote(place / "base", url)
        base.save({"a": b"1"})
        base.push()
        copies, points = [], []
        for name in ("one", "two"):
            copies.append(Machine(place / name, url, root=base.root))
            shutil.rmtree(copies[-1].home)
            shutil.copytree(base.home, copies[-1].home)
            points.append(copies[-1].save({"a": f"of {name}".encode() * 100, name: name.encode()}).id)
        for pipe, copy in zip(self._pipes, copies, strict=True):
            pipe.send((copy.place, url, copy.name, copy.root))
        said = []
        for pipe in self._pipes:
            assert pipe.poll(PATIENCE), "a push does not end"
            said.append(pipe.recv())
        return [Raced(copy, point, *one) for copy, point, one in zip(copies, points, said, strict=True)]


def _work(pipe, barrier):
    while (asked := pipe.recv()) is not None:
        place, url, name, root = asked
        machine = Machine(place, url, name, root=root)

        def meet(number, after):
            if number == 1 and not after:
                barrier.wait(PATIENCE)

        machine.tampered = lambda objects, meet=meet: Requests(objects, meet)
        try:
            pipe.send((machine.push().notes, ""))
        except errors.CasrewindError as error:
            pipe.send(((), str(error)))
