"""A test that runs out of time is reported as failed, by name, and the others go on: a plugin for pytest.

The danger prevented here: a run of nine thousand tests that ends without their results because of one that was late on a busy
machine. pytest-timeout raises in the middle of a test, and four things can go wrong with that. The exception has a frame without a
line, which pytest cannot print. It is raised in pytest's own code between two phases of a test, where nobody catches it. The process
is stopped or deaf, so that nothing is raised, and the run waits for ever. The process ends: pytest-xdist gives the same test to the
next one, and then waits for ever, too.

Each worker notes which test it runs, and until when. The process that started them continues a worker that is late and stopped: its
own timer then ends the test. It kills a worker that still says nothing: pytest-xdist reports that, with the test, and starts another.
"""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType

import pytest

GRACE = float(os.environ.get("CASREWIND_TEST_GRACE", "60"))
"""Seconds that a late worker may take to report its test; then as many again, after it was continued, before it is killed."""

# -- the process in which a test runs


class Raising:
    """Where pytest-timeout may raise: in a phase of a test. Elsewhere the same signal comes again a moment later."""

    def __init__(self, config):
        self.is_in_phase, self.seconds = False, 0.0
        place, worker = getattr(config, "workerinput", {}).get("late_tests", ("", ""))
        self.note = Path(place, worker) if place else None

    def write_note(self, test):
        if self.note is not None:
            self.note.write_text(json.dumps({"process": os.getpid(), "test": test, "until": time.monotonic() + self.seconds}))

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(self, item, settings):
        self.seconds = settings.timeout
        self.write_note(item.nodeid)
        done = yield
        late = signal.getsignal(signal.SIGALRM)

        def raise_in_phase(number, frame):
            __tracebackhide__ = True
            if self.is_in_phase:
                late(number, frame)
            else:
                signal.setitimer(signal.ITIMER_REAL, 0.1)

        if callable(late):
            signal.signal(signal.SIGALRM, raise_in_phase)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_cancel_timer(self):
        done = yield
        self.write_note("")
        return done

    def _in_phase(self):
        self.is_in_phase = True
        try:
            return (yield)
        finally:
            self.is_in_phase = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self):
        return (yield from self._in_phase())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self):
        return (yield from self._in_phase())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self):
        return (yield from self._in_phase())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, call):
        if call.excinfo is not None and give_lines(call.excinfo.value):
            call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)
        return (yield)


def give_lines(error):
    """Give the first line of its function to each frame of an exception, and of those it came of, that has no line. True if there was one.

    Some instructions have none (the end of an except clause, among others), and a signal may come at any.
    """
    seen, left, had_none = set(), [error], False
    while left:
        error = left.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        left += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
        entries, at = [], error.__traceback__
        while at is not None:
            entries.append(at)
            at = at.tb_next
        for entry in reversed(entries):
            had_none |= entry.tb_lineno is None
            at = TracebackType(at, entry.tb_frame, entry.tb_lasti, entry.tb_lineno or entry.tb_frame.f_code.co_firstlineno)
        error.__traceback__ = at
    return had_none


def read_notes(place):
    """The notes of all workers, those that are gone among them: a list of {"worker", "process", "test", "until"}."""
    found = []
    for path in place.iterdir():
        with contextlib.suppress(OSError, ValueError):  # just being written
            found.append({"worker": path.name, **json.loads(path.read_text())})
    return found


# -- the process that started the workers


class Watching:
    """Looks after the workers in a thread of its own: pytest-xdist asks nothing while no worker says anything."""

    def __init__(self, _):
        self.place = Path(tempfile.mkdtemp(prefix="casrewind-late-"))
        self.is_over, self.continued, self.killed, self.gone = threading.Event(), {}, {}, set()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["late_tests"] = str(self.place), node.workerinput["workerid"]
        if not self.thread.is_alive():
            self.thread.start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.gone.add(node.workerinput["workerid"])

    def pytest_unconfigure(self):
        self.is_over.set()
        if self.thread.is_alive():
            self.thread.join()
        shutil.rmtree(self.place, ignore_errors=True)

    def watch(self):
        while not self.is_over.wait(GRACE / 10):
            for note in read_notes(self.place):
                worker, process, now = note["worker"], note["process"], time.monotonic()
                is_waiting = not note["test"] and not is_stopped(process)  # for its next test, or for the others
                if worker in self.gone or worker in self.killed or is_waiting or now < note["until"] + GRACE:
                    self.continued.pop(worker, None)
                elif worker not in self.continued:
                    self.continued[worker] = now
                    send(process, signal.SIGCONT)
                elif now > self.continued[worker] + GRACE:
                    self.killed[worker] = note["test"]
                    for number in [*descendants(process), process]:  # they hold the pipe by which the end of the worker is seen
                        send(number, signal.SIGKILL)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config, log):
        return make_scheduler(config, log) if config.getoption("dist") == "loadgroup" else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem, report):
        if crashitem in self.killed.values():
            report.longrepr += "\nit ran out of time, and its worker said nothing more: the worker was killed"


def make_scheduler(config, log):
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        """What xdist 3.8 does wrong where a worker ends in the middle."""

        def remove_node(self, node):
            """The test that ran there is not run again: it may end the next one, too."""
            units = self.assigned_work[node]
            lost = next((test for unit in units.values() for test, is_done in unit.items() if not is_done), None)
            for scope, unit in list(units.items()):
                unit.update({lost: True} if lost in unit else {})
                if all(unit.values()):
                    del units[scope]
            super().remove_node(node)
            return lost

        def _reschedule(self, node):
            """A worker begins a test when it knows the next one, or that there is none: one alone is never begun."""
            if node in self.registered_collections:  # else it is new, and is asked again when it knows its tests
                super()._reschedule(node)
                if self._pending_of(self.assigned_work[node]) == 1:
                    super()._reschedule(node)

    return Scheduling(config, log)


def send(process, number):
    with contextlib.suppress(OSError):
        os.kill(process, number)


def is_stopped(process):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def descendants(process):
    """The numbers of the processes below this one. None where there is no /proc."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for number in map(int, path.read_text().split()):
                found += [*descendants(number), number]
    return found


def pytest_configure(config):
    has_workers = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    kind = Watching if has_workers else Raising
    config.pluginmanager.register(kind(config), "late-tests")
