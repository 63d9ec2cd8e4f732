"""The only thread that uses the open project while the screen is open. It runs jobs and delivers results.

The dangers prevented here: two threads in one store, and results that arrive after the cursor has moved. Such a
result would show one checkpoint's changes beside another checkpoint's name. A new job replaces a waiting job of its
kind, and each result names its checkpoint.
"""

import functools
import threading
from collections.abc import Callable

from ..._typing import TypeVar

ACT, SHOW, PATCH, LIST, LOOK, FILL, LINES, MORE = range(8)
"""The kinds of jobs, most urgent first."""
_Result = TypeVar("_Result")


class WorkerStopped(BaseException):
    """Raised to stop the current job after the person exits. It is not an Exception, so no code handles it as a failed
    job.
    """


class Worker:
    """Runs jobs on its own thread. `put` accepts a job from any thread.

    `start` sets the function that runs a callback on the screen's thread.
    """

    def __init__(self) -> None:
        """Start the thread. It owns the open project until `close` returns."""
        self._jobs: dict[int, Callable[[], Callable[[], None]]] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._deliver: Callable[[Callable[[], None]], None] | None = None
        self._thread = threading.Thread(target=self._run_jobs_until_closed, name="casrewind worker", daemon=True)
        self._thread.start()

    def put_job(self, kind: int, work: Callable[[], _Result], answer: "Callable[[_Result | Exception], None]") -> None:
        """Run `work`, then call `answer` on the screen's thread with the result or the exception."""

        def job() -> Callable[[], None]:
            try:
                return functools.partial(answer, work())
            except Exception as error:  # the screen reports it
                return functools.partial(answer, error)

        with self._changed:
            self._jobs[kind] = job
            self._changed.notify()

    def start(self, deliver: Callable[[Callable[[], None]], None]) -> None:
        """The screen is open: results can be delivered."""
        with self._changed:
            self._deliver = deliver
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the current job, and wait for the thread to end."""
        with self._changed:
            self._closing = True
            self._jobs.clear()
            self._changed.notify_all()
        self._thread.join()

    def raise_if_closing(self) -> None:
        """Raise WorkerStopped if the worker is closing. Called with each progress report."""
        if self._closing:
            raise WorkerStopped

    def _run_jobs_until_closed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._jobs) or self._closing)
                if self._closing:
                    return
                job = self._jobs.pop(min(self._jobs))
            try:
                answer = job()
            except WorkerStopped:
                return
            with self._changed:
                self._changed.wait_for(lambda: self._deliver is not None or self._closing)
                deliver = self._deliver
            if deliver is not None:
                deliver(answer)
