"""A pull of many chains: what it syncs grows with the records, not with the chains; and a cut in between loses nothing."""

import os
import resource
import shutil
import subprocess
import sys

import pytest

from casrewind.remote import fetch
from support.machines import Machine, Requests, Stop, stopping


def many_chains(place, url, number):
    """The checkpoints of that many machines of one name, each with a file of its own, in a chain each."""
    machine = Machine.with_remote(place, url)
    saved = []
    for count in range(number):
        saved.append(machine.save({"f": b"%d" % count}))
        with machine.open() as workspace:
            machine.remote(workspace).files.begin_chain()
        machine.push(points=saved[-1:])
    return machine, saved


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


def syncs_of_pull(reader, log):
    """(Syncs of the ledger, other syncs) of a pull."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    strace = ["strace", "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync,syncfs,sync,msync", "-o", str(log)]
    command = [*strace, sys.executable, "-m", "casrewind", "-C", str(reader.root), "pull"]
    environment = {**reader.environ, "CASREWIND_HOME": reader.settings.data, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    lines = [line for line in log.read_text(errors="replace").splitlines() if "sync(" in line or "syncfs(" in line]
    of_ledger = sum("/ledger>" in line for line in lines)
    return of_ledger, len(lines) - of_ledger


@pytest.mark.parametrize("number", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_a_pull_syncs_each_record_once_and_little_else(tmp_path, url, number):
    """1,000 chains on 2026-11-28: see the figure that this prints."""
    machine, saved = many_chains(tmp_path / "one", url, number)
    reader = Machine.with_remote(tmp_path / "two", url, "reader")
    of_ledger, others = syncs_of_pull(reader, tmp_path / "log")
    print(f"{number} chains: {of_ledger} syncs of the ledger, {others} others")
    assert len(reader.points()) == number and reader.tree(saved[0].id) == machine.tree(saved[0].id) and not reader.problems()
    assert of_ledger <= number + 2 and others <= 20 + 12 * (-(-number // fetch.MOST_CHAINS))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_pull_of_several_batches_that_is_cut_at_each_request_goes_on(tmp_path, url, after, monkeypatch):
    monkeypatch.setattr(fetch, "MOST_CHAINS", 4)
    machine, saved = many_chains(tmp_path / "one", url, 11)
    reader = Machine.with_remote(tmp_path / "two", url, "reader")
    number, cuts = 1, 0
    while True:
        reader.tampered = lambda objects, number=number: Requests(objects, stopping(number, after=after))
        try:
            reader.pull()
        except Stop:
            cuts += 1
            assert not reader.problems() and cuts < 100
            number += 1
            continue
        break
    assert cuts > 3
    reader.tampered = lambda objects: objects
    for point in saved:
        assert reader.tree(point.id) == machine.tree(point.id)
    assert len(reader.points()) == 11 and reader.pull().requests == 1


def test_a_pull_that_cannot_store_notes_nothing_and_the_next_one_takes_it(tmp_path, url):
    machine = Machine.with_remote(tmp_path / "one", url)
    point = machine.save({"large": os.urandom(3_000_000)})
    machine.push()
    reader = Machine.with_remote(tmp_path / "two", url, "reader")
    environment = {**reader.environ, "CASREWIND_HOME": reader.settings.data, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "casrewind", "-C", str(reader.root), "pull"], env=environment, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)),
    )  # fmt: skip
    assert done.returncode not in (0, 3), done
    assert reader.pull().checkpoints == {"sandbox-4": 1} and reader.tree(point.id) == machine.tree(point.id)
