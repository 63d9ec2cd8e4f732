"""The sheet of a first save is made by a fork while its files are looked at once more, and says what one made here says."""

import os
import signal

import pytest

from casrewind import Workspace
from casrewind.ops import first
from casrewind.worktree import aside, sheetmaker
from casrewind.worktree import scan as scans
from support.residents import state
from support.scanner import settle
from support.trees import Link, plant

TREE = {
    **{f"d{n % 5}/e{n % 7}/f{n}": b"%d" % n for n in range(200)},
    ".gitignore": b"*.o\n", "d1/x.o": b"1", "d2/.gitignore": b"f1*\n", "link": Link("d1"), "d3/e3/link": Link("nowhere"),
}  # fmt: skip


@pytest.fixture
def forked(monkeypatch):
    """The sheets that forks have made, None for one that came to nothing."""
    made, real = [], aside.Maker.made
    monkeypatch.setattr(first, "_LEAST", 1)
    monkeypatch.setattr(scans, "is_alone", lambda: True)  # who runs the tests in several processes has a thread, which does nothing

    def keep(self):
        found = real(self)
        if not isinstance(self, aside.Aside):
            made.append(found)
        return found

    monkeypatch.setattr(aside.Maker, "made", keep)
    return made


def save(root, settings):
    with Workspace(str(root), settings._replace(processes=2), create=True) as workspace:
        workspace.save()
        remembered = workspace._site.remembered()
        sheet = remembered.sheet
        here = sheetmaker.build(remembered.get)
        again = workspace.save()
        return (None if sheet is None else sheet.data), here, again.created


def test_it_is_the_sheet_that_would_be_made_here(root, settings, forked):
    plant(root, TREE)
    settle()
    sheet, here, created = save(root, settings)
    assert sheet == here == forked[0] and len(forked) == 1 and not created


def test_where_a_file_moves_meanwhile_it_is_made_anew(root, settings, forked, monkeypatch):
    plant(root, TREE)
    settle()
    real = scans._look_again

    def look_again(tree, shared):
        plant(root, {"d4/e4/f4": b"moved"})
        return real(tree, shared)

    monkeypatch.setattr(scans, "_look_again", look_again)
    sheet, here, created = save(root, settings)
    assert forked == [] and sheet == here


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_fork_that_is_killed_or_stopped_costs_time_and_nothing_else(root, settings, forked, monkeypatch, number):
    plant(root, TREE)
    settle()
    parent, real, pids = os.getpid(), sheetmaker.build, []

    def build(remember):
        if os.getpid() != parent:
            os.kill(os.getpid(), number)
        return real(remember)

    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: pids.append(pid := fork()) or pid)
    monkeypatch.setattr(sheetmaker, "build", build)
    sheet, here, created = save(root, settings)
    assert forked == [None] and sheet == here and not created
    assert [state(pid) for pid in pids if pid] == [""] * len([pid for pid in pids if pid])


def test_with_one_process_or_a_thread_none_is_forked(root, settings, forked, monkeypatch):
    plant(root, TREE)
    settle()
    monkeypatch.setattr(scans, "is_alone", lambda: False)
    sheet, here, created = save(root, settings)
    assert forked == [] and sheet == here and not created
