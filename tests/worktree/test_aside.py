"""Half of a job in a fork: what it finds is what would have been found here, and whatever happens to it costs time only."""

import fcntl
import os
import signal

import pytest

from casrewind.worktree import aside as asides
from casrewind.worktree.aside import Aside
from support.residents import children


def answer(work, keep=()):
    aside = Aside(work, keep)
    try:
        return aside.numbers()
    finally:
        aside.close()


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
    monkeypatch.setattr(asides.fsio, "write_all", lambda fd, data: usual(fd, data[:length]))
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


def test_one_that_nobody_asked_is_gone_when_it_is_closed():
    me = os.getpid()
    aside = Aside(lambda: signal.pause() if os.getpid() != me else [], ())
    pid = aside._pid
    aside.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_is_of_no_matter_that_children_are_reaped_unasked():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert answer(lambda: [1, 2]) == [1, 2]
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_one_that_is_stopped_never_comes_and_one_that_works_does():
    me = os.getpid()

    def stopped():
        if os.getpid() != me:
            os.kill(os.getpid(), signal.SIGSTOP)
        return [1]

    others = children()
    for work, comes in ((stopped, False), (lambda: [1], True)):
        aside = Aside(work, ())
        try:
            assert aside.comes() == comes
        finally:
            aside.close()
        assert children() <= others
