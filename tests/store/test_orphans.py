"""Temporary files of dead processes are removed by the next save; those of living ones stay, in any pid namespace."""

import os
import subprocess
import sys

from casrewind import fsio
from casrewind.store.store import Store


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
