"""Half of a job in a fork: what it finds is what would have been found here, and whatever happens to it costs time only."""

import fcntl
import os
import signal
import struct
import time

import pytest

from casrewind.worktree import fork_worker
from casrewind.worktree.fork_worker import ForkWorker, in_two_processes
from support.helper_processes import children


def answer(work, keep=()):
    """The numbers of a fork; made here when nothing came of it."""
    fork = ForkWorker(lambda: struct.pack(f"<{len(found := work())}I", *found), keep)
    try:
        data = fork.result()
    finally:
        fork.kill()
    return work() if data is None else list(struct.unpack(f"<{len(data) // 4}I", data))


@pytest.mark.parametrize("numbers", [[], [0], [0, 5, 2], list(range(100_000))])
def test_its_numbers_come_back_from_another_process(numbers):
    me, calls = os.getpid(), []

    def work():
        calls.append(os.getpid())
        return numbers

    assert answer(work) == numbers
    assert calls == [] and os.getpid() == me


@pytest.mark.parametrize("end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os._exit(0), lambda: 1 / 0])
def test_a_fork_that_comes_to_nothing_is_made_up_for(end):
    me = os.getpid()

    def work():
        if os.getpid() != me:
            end()
        return [3, 4]

    assert answer(work) == [3, 4]


@pytest.mark.parametrize("length", range(20))
def test_half_an_answer_is_none(monkeypatch, length):
    usual = os.write
    me = os.getpid()
    monkeypatch.setattr(fork_worker.fsio, "write_all", lambda fd, data: usual(fd, data[:length]))
    assert answer(lambda: [0, 0] if os.getpid() != me else [7]) == [7]


def test_without_a_fork_it_is_done_here(monkeypatch):
    def fork():
        raise BlockingIOError(11, "too many processes")

    monkeypatch.setattr(os, "fork", fork)
    assert answer(lambda: [os.getpid()]) == [os.getpid()]


def test_it_holds_no_descriptor_and_no_lock_but_what_it_was_given(tmp_path):
    with open(tmp_path / "kept", "w") as kept, open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def work():
            return [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]

        held = answer(work, [kept.fileno()])
        assert kept.fileno() in held and lock.fileno() not in held and len(held) == 3  # itself, the pipe, the listing


def test_one_that_was_not_asked_is_gone_when_it_is_closed():
    others = children()
    fork = ForkWorker(lambda: signal.pause() or b"")
    [pid] = children() - others
    fork.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_is_of_no_matter_that_children_are_reaped_unasked():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert answer(lambda: [1, 2]) == [1, 2]
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_one_that_is_stopped_has_no_result():
    me, others = os.getpid(), children()

    def stopped():
        if os.getpid() != me:
            os.kill(os.getpid(), signal.SIGSTOP)
        return [1]

    assert answer(stopped) == [1]
    assert children() <= others


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 10_000, 40_000_000])
def test_two_processes_do_every_entry_once(count):
    """More entries than a pipe holds shares of are done as well."""

    def work(start, end):
        return [number for number in (start, min(end, count) - 1) if number < (1 << 30)]

    found = in_two_processes(count, work, ())
    shares = range(0, count, 256)
    assert sorted(found) == sorted([*shares, *(min(start + 256, count) - 1 for start in shares)])


def test_a_slow_process_takes_fewer_shares():
    me = os.getpid()

    def work(start, end):
        if os.getpid() == me:
            time.sleep(0.2)
            return []
        return [start]

    assert len(in_two_processes(256 * 40, work, ())) > 20
