"""Temporary files of dead processes are removed by the next save and by gc; those of living ones stay: their locks tell."""

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
from casrewind.agents import fork_files, session_files
from casrewind.agents.claude import CLIENT as claude
from casrewind.store import scratch
from casrewind.store.store import Store

TOP = Path(__file__).resolve().parent.parent.parent


def orphan(directory):
    """The name of a new draft in a directory, as of a process that died."""
    path, fd = fsio.create_draft(str(directory))
    os.close(fd)
    return os.path.basename(path)


def test_what_a_dead_process_left_is_removed_by_the_next_session(tmp_path):
    with Store(str(tmp_path / "store"), create=True) as store:
        place = tmp_path / "store" / "tmp"
        orphan(place)
        (place / "not-one-of-ours").write_bytes(b"kept")
        with store.writing() as session:
            session.put_file(b"x")
        assert sorted(os.listdir(place)) == ["not-one-of-ours"]


def test_what_this_process_writes_stays(tmp_path):
    path, fd = fsio.create_draft(str(tmp_path))
    fsio.remove_orphans(str(tmp_path))
    assert os.path.exists(path)
    os.close(fd)


def test_a_draft_stays_while_any_process_holds_it(tmp_path):
    """Its owner may live in another pid namespace: only the lock tells."""
    path, fd = fsio.create_draft(str(tmp_path), ".pack")
    holder = subprocess.Popen(["sleep", "600"], pass_fds=[fd])
    os.close(fd)
    try:
        holder.send_signal(signal.SIGSTOP)
        fsio.remove_orphans(str(tmp_path))
        assert os.path.exists(path)
    finally:
        holder.kill()
        holder.wait()
    fsio.remove_orphans(str(tmp_path))
    assert not os.path.exists(path)


def test_a_draft_that_was_taken_for_an_orphan_is_made_again(tmp_path, monkeypatch):
    """Between its creation and its lock, another process may lock it and remove it."""
    real, taken = fcntl.flock, []

    def slowly(fd, kind):
        if not taken:
            taken.append(fd)
            fsio.remove_orphans(str(tmp_path))
        real(fd, kind)

    monkeypatch.setattr(fcntl, "flock", slowly)
    path, fd = fsio.create_draft(str(tmp_path))
    assert taken and os.listdir(tmp_path) == [os.path.basename(path)]
    os.close(fd)


OTHERS = (
    "12345678-1234-1234-1234-123456789012.jsonl", "12345678-1234-4abc-8def-1234567890ab", "123-456-abcdef.jsonl", "casrewind-",
    "casrewind.log", "draft-abcdef012345", "123-456-abcdef012345", ".casrewind-draft-abcdef012345",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_another_kind_are_nobodys_orphans(tmp_path, name):
    (tmp_path / name).write_bytes(b"somebody's")
    fsio.remove_orphans(str(tmp_path))
    assert os.listdir(tmp_path) == [name]


# -- what is not in a store


def test_a_rewind_that_was_killed_leaves_nothing_in_the_clients_directory_for_long(tmp_path):
    """There, names of others that look like ours would be conversations."""
    theirs = "12345678-1234-1234-1234-123456789012.jsonl"
    (tmp_path / theirs).write_bytes(b"{}\n")
    orphan(tmp_path)
    new = "12345678-1234-1234-1234-123456789013"
    path = fork_files.write_fork(str(tmp_path / theirs), new, b"", str(tmp_path / f"{new}.jsonl"))
    assert sorted(os.listdir(tmp_path)) == [theirs, os.path.basename(path)]
    ours = orphan(tmp_path)
    session_files.replace_with_backup(claude, path, b"{}\n{}\n", "now")
    assert ours not in os.listdir(tmp_path)


OWNER = """
import sys, time
from casrewind.store import scratch
print(scratch.make_scratch(sys.argv[1]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("kind", scratch.KINDS)
def test_a_scratch_directory_goes_with_its_owner_however_that_goes(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"casrewind-{kind}-mine").mkdir()
    (tmp_path / f"casrewind-{kind}-abcdef012345").write_bytes(b"no directory")
    others = sorted(os.listdir(tmp_path))
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(TOP)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, kind], env=environment, stdout=subprocess.PIPE)
    try:
        path = owner.stdout.readline().decode().strip()
        assert os.stat(path).st_mode & 0o777 == 0o700
        Path(path, "data.mdb").write_bytes(b"x")
        owner.send_signal(signal.SIGSTOP)
        mine = scratch.make_scratch(kind)
        assert os.path.exists(f"{path}/data.mdb")
        scratch.remove_scratch(mine)
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    scratch.remove_dead_scratch()
    assert sorted(os.listdir(tmp_path)) == others


def test_the_index_of_one_who_may_only_read_is_such_a_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    Store(str(tmp_path / "store"), create=True).close()
    shutil.rmtree(tmp_path / "store" / "packs")  # nobody can write there
    (tmp_path / "tmp" / "casrewind-index-abcdef012345").mkdir()
    with Store(str(tmp_path / "store")):
        (name,) = os.listdir(tmp_path / "tmp")
        assert name.startswith("casrewind-index-") and name != "casrewind-index-abcdef012345"
    assert os.listdir(tmp_path / "tmp") == []


def test_without_any_temporary_directory_nothing_is_cleared(monkeypatch):
    def nowhere():
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    scratch.remove_dead_scratch()
