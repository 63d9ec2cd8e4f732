"""The one thread that uses the workspace while the screen is up: jobs go in, answers come out.

The danger prevented here: two threads in one workspace; and a cursor that runs faster than the answers, so that a person sees
one checkpoint's changes beside another's name. A job replaces the one of its kind that still waits, and an answer says whose.
"""

import functools
import threading
from collections.abc import Callable

from ..._typing import Any
from . import ProgressRelay

ACT, SHOW, PATCH, LIST, LOOK, LINES, COUNT = range(7)
"""Kinds of jobs, what is more urgent first."""


class WorkerStopped(BaseException):
    """The person has gone: whatever is going on ends here. No Exception: nobody may take it for a failure of a job."""


class Worker:
    """`put` a job from any thread; it is done in the desk's own, and what `start` was given
    is called there with what is to be done on the screen's."""

    def __init__(self, relay: ProgressRelay) -> None:
        """Start the thread. The workspace whose progress `relay` tells is the desk's until `close` has returned."""
        self._relay = relay
        self._jobs: dict[int, tuple[Callable[[], Any], Callable[[Any], None]]] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._deliver: Callable[[Callable[[], None]], None] | None = None
        self._thread = threading.Thread(target=self._run, name="casrewind desk", daemon=True)
        self._thread.start()

    def put(self, kind: int, work: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        """Have `work` done, then `answer` called on the screen's thread with what it gave, or with the exception."""
        with self._changed:
            self._jobs[kind] = (work, answer)
            self._changed.notify()

    def start(self, deliver: Callable[[Callable[[], None]], None]) -> None:
        """The screen is there: answers can be delivered."""
        with self._changed:
            self._deliver = deliver
            self._changed.notify_all()

    def close(self) -> None:
        """Stop what is going on, wait until it has stopped."""
        with self._changed:
            self._closing = True
            self._jobs.clear()
            self._changed.notify_all()
        self._thread.join()

    def check(self) -> None:
        """Raise Stopped when the desk is being closed. Called with progress."""
        if self._closing:
            raise WorkerStopped

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._jobs) or self._closing)
                if self._closing:
                    return
                work, answer = self._jobs.pop(min(self._jobs))
            try:
                found = work()
            except WorkerStopped:
                return
            except Exception as error:  # it is the screen's to say
                found = error
            with self._changed:
                self._changed.wait_for(lambda: self._deliver is not None or self._closing)
                deliver = self._deliver
            if deliver is not None:
                deliver(functools.partial(answer, found))
