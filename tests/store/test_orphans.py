"""Temporary files of dead processes are removed by the next save and by gc; those of living ones stay, in any pid namespace."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from casrewind import fsio
from casrewind.agents import profiles, session_files
from casrewind.store import scratch
from casrewind.store.store import Store

TOP = Path(__file__).resolve().parent.parent.parent


def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_a_dead_process_left_is_removed_by_the_next_session(tmp_path):
    with Store(str(tmp_path / "store"), create=True) as store:
        place = tmp_path / "store" / "tmp"
        (place / f"{dead_pid()}-12345-abcdef.pack").write_bytes(b"half")
        (place / "not-one-of-ours").write_bytes(b"kept")
        with store.session() as session:
            session.put_file(b"x")
        assert sorted(os.listdir(place)) == ["not-one-of-ours"]


def test_what_this_process_writes_stays(tmp_path):
    path, fd = fsio.create_draft(str(tmp_path))
    fsio.remove_orphans(str(tmp_path))
    assert os.path.exists(path)
    os.close(fd)


def test_a_draft_whose_pid_means_nothing_here_stays_while_it_is_held(tmp_path):
    path, fd = fsio.create_draft(str(tmp_path))
    foreign = str(tmp_path / f"{dead_pid()}-12345-abcdef")
    os.rename(path, foreign)  # as a process of another pid namespace would have named it
    fsio.remove_orphans(str(tmp_path))
    assert os.path.exists(foreign)
    os.close(fd)
    fsio.remove_orphans(str(tmp_path))
    assert not os.path.exists(foreign)


def test_a_pid_that_another_process_has_by_now_is_not_taken_for_the_owner(tmp_path):
    mine, start = os.getpid(), fsio.process_start(os.getpid())
    if not start:
        pytest.skip("when a process started is not to be had here")
    (tmp_path / f"{mine}-{int(start) - 1}-abcdef012345.pack").write_bytes(b"of who had the number before")
    (tmp_path / f"{mine}-{start}-abcdef012345.pack").write_bytes(b"of this process")
    fsio.remove_orphans(str(tmp_path))
    assert os.listdir(tmp_path) == [f"{mine}-{start}-abcdef012345.pack"]


def test_without_a_start_time_the_lock_alone_decides(tmp_path):
    """As on macOS, and where /proc is hidden: that somebody has the pid says nothing."""
    name = f"{os.getpid()}--abcdef012345"
    (tmp_path / name).write_bytes(b"")
    with open(tmp_path / name) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fsio.remove_orphans(str(tmp_path))
        assert os.listdir(tmp_path) == [name]
    fsio.remove_orphans(str(tmp_path))
    assert os.listdir(tmp_path) == []


OTHERS = (
    "12345678-1234-1234-1234-123456789012.jsonl", "12345678-1234-4abc-8def-1234567890ab", "123-456-abcdef.jsonl", "123-456-xyzxyz",
    "123-456-abc", "-456-abcdef012345", "1-2", "99999999999", "²-3-abcdef012345", "123-456-abcdef012345.pack.old",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_another_kind_are_nobodys_orphans(tmp_path, name):
    (tmp_path / name).write_bytes(b"somebody's")
    fsio.remove_orphans(str(tmp_path))
    assert os.listdir(tmp_path) == [name]


# -- what is not in a store


def test_a_rewind_that_was_killed_leaves_nothing_in_the_clients_directory_for_long(tmp_path):
    """There, names of others that look like ours would be conversations."""
    ours, theirs = f"{dead_pid()}-12345-abcdef012345", "12345678-1234-1234-1234-123456789012.jsonl"
    for name in (ours, theirs):
        (tmp_path / name).write_bytes(b"{}\n")
    profile = profiles.CLAUDE
    path = session_files.write_fork(profile, str(tmp_path / theirs), "12345678-1234-1234-1234-123456789013", b"")
    assert sorted(os.listdir(tmp_path)) == [theirs, os.path.basename(path)]
    (tmp_path / ours).write_bytes(b"{}\n")
    session_files.replace(profile, path, b"{}\n{}\n", "now")
    assert ours not in os.listdir(tmp_path)


OWNER = """
import sys, time
from casrewind.store import scratch
print(scratch.make(sys.argv[1]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", scratch.KINDS)
def test_a_scratch_directory_goes_with_its_owner_however_that_goes(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"casrewind-{kind}-mine").mkdir()
    (tmp_path / f"casrewind-{kind}-{dead_pid()}-1-abcdef012345").write_bytes(b"no directory")
    others = sorted(os.listdir(tmp_path))
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(TOP)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, kind], env=environment, stdout=subprocess.PIPE)
    try:
        path = owner.stdout.readline().decode().strip()
        assert os.stat(path).st_mode & 0o777 == 0o700
        Path(path, "data.mdb").write_bytes(b"x")
        owner.send_signal(signal.SIGSTOP)
        mine = scratch.make(kind)
        assert os.path.exists(f"{path}/data.mdb")
        scratch.remove(mine)
        # as it looks from another pid namespace: the name says nothing, the lock does
        foreign = f"{tmp_path}/casrewind-{kind}-{dead_pid()}-12345-abcdef012345"
        os.rename(path, foreign)
        scratch.clear()
        assert os.path.exists(f"{foreign}/data.mdb")
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    scratch.clear()
    assert sorted(os.listdir(tmp_path)) == others


def test_the_index_of_one_who_may_only_read_is_such_a_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    Store(str(tmp_path / "store"), create=True).close()
    shutil.rmtree(tmp_path / "store" / "packs")  # nobody can write there
    (tmp_path / "tmp" / f"casrewind-index-{dead_pid()}-12345-abcdef012345").mkdir()
    with Store(str(tmp_path / "store")):
        (name,) = os.listdir(tmp_path / "tmp")
        assert name.startswith(f"casrewind-index-{os.getpid()}-")
    assert os.listdir(tmp_path / "tmp") == []


def test_without_any_temporary_directory_nothing_is_cleared(monkeypatch):
    def nowhere():
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    scratch.clear()
