"""A save while a program writes to an SQLite database: the database and its companion belong together, and the writer is not disturbed."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from casrewind.model import domain as domains
from casrewind.model import manifest
from casrewind.worktree import database_child
from support.scanner import Scanner

_WRITER = textwrap.dedent("""
    import sys, time
    library, path, mode, timeout = sys.argv[1:]
    if library == "apsw":
        import apsw
        connection = apsw.Connection(path)
        connection.set_busy_timeout(int(timeout) * 1000)
        execute, Error = connection.cursor().execute, apsw.Error
    else:
        import sqlite3
        connection = sqlite3.connect(path, timeout=int(timeout), isolation_level=None)
        execute, Error = connection.execute, sqlite3.Error
    number, errors = 0, 0
    execute("pragma synchronous = off")
    execute("pragma wal_autocheckpoint = 20")
    print("ready", flush=True)
    while True:
        number += 1
        try:
            execute("begin immediate")
            execute("update pair set number = number + 1, filler = randomblob(3000)")
            execute("insert into log select number from pair where id = 1")
            execute("commit")
        except Error as error:
            print(number, error, flush=True)
            try: execute("rollback")
            except Error: pass
        time.sleep(0.002)
""")
"""Each transaction adds 1 to all rows of `pair` and one row to `log`: any other state was never committed."""


def make(path, mode, rows=40):
    with sqlite3.connect(path) as made:
        made.execute(f"pragma journal_mode = {mode}")
        made.execute("create table pair (id integer primary key, number, filler)")
        made.execute("create table log (number)")
        made.executemany("insert into pair values (?, 0, randomblob(3000))", [(each,) for each in range(rows)])
    made.close()


def why_wrong(directory):
    """What is wrong with the restored database, "" if it is a committed state."""
    opened = sqlite3.connect(directory / "d.db")
    try:
        if (said := opened.execute("pragma integrity_check").fetchone()[0]) != "ok":
            return said
        numbers = {number for (number,) in opened.execute("select number from pair")}
        rows = opened.execute("select count(*) from log").fetchone()[0]
        return "" if numbers == {rows} else f"{numbers} and {rows} rows"
    except sqlite3.Error as error:
        return str(error)
    finally:
        opened.close()


class Keeping(Scanner):
    """A scanner whose contents can be read again."""

    def __init__(self, root):
        super().__init__(root)
        self.contents = {}
        put, stream = self.sink.put_file, self.sink.put_stream

        def keep(data):
            digest = put(data)
            self.contents[digest] = bytes(data)
            return digest

        def keep_stream(source, size):
            pieces, keeping = [], self

            class Copied:
                def readinto(self, into):
                    count = source.readinto(into)
                    pieces.append(bytes(into[:count]))
                    keeping.between_two_reads()
                    return count

            found = stream(Copied(), size)
            self.contents[found[1]] = b"".join(pieces)
            return found

        self.sink.put_file, self.sink.put_stream = keep, keep_stream

    def between_two_reads(self):
        """What happens while a large file is read."""

    def write_out(self, found, place):
        place.mkdir()
        for path, entry in self.entries(found).items():
            if entry.kind == manifest.FILE:
                (place / os.fsdecode(path)).write_bytes(self.contents[entry.digest])


def save_below_writer(root, place, library, mode, timeout, times):
    """Returns (what is wrong with unsaid captures, said captures, what the writer said)."""
    make(root / "d.db", mode)
    scan, wrong, said = Keeping(root), [], 0
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, library, root / "d.db", mode, str(timeout)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout.readline() == "ready\n"
        for number in range(times):
            found = scan()
            if found.domain.unstable:
                said += 1
                continue
            restored = place / str(number)
            scan.write_out(found, restored)
            assert not (restored / "d.db-shm").exists()
            if why := why_wrong(restored):
                wrong.append(why)
    finally:
        writer.send_signal(signal.SIGTERM)
        told = writer.communicate()[0]
    return wrong, said, told


@pytest.mark.parametrize("timeout", [0, 5])
@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("library", ["sqlite3", "apsw"])
def test_a_save_below_a_writer_is_a_committed_state(root, tmp_path_factory, library, mode, timeout, request):
    if library == "apsw":
        pytest.importorskip("apsw")
    times = 500 if request.config.getoption("--run-long") else 5
    wrong, said, told = save_below_writer(root, tmp_path_factory.mktemp("restored"), library, mode, timeout, times)
    print(f"{library} {mode} {timeout}: {times} saves, {len(wrong)} wrong, {said} said, {len(told.splitlines())} errors of the writer")
    assert (wrong, said, told) == ([], 0, "")


def test_a_checkpoint_of_the_writer_waits_until_all_bytes_are_handed_over(root, tmp_path):
    """Whoever ends the transaction before gets the first half of one state, the second of another, and an empty -wal."""
    make(root / "d.db", "wal", rows=1000)
    writer = sqlite3.connect(root / "d.db", isolation_level=None, timeout=0)
    writer.execute("insert into log select number from pair where id = 1")
    scan = Keeping(root)
    times = []

    def write_and_checkpoint():
        if not times:
            times.append(1)
            writer.execute("begin immediate")
            writer.execute("update pair set number = 2, filler = randomblob(3000)")
            writer.execute("insert into log values (2)")
            writer.execute("commit")
            writer.execute("pragma wal_checkpoint(truncate)")

    writer.execute("update pair set number = 1")
    scan.between_two_reads = write_and_checkpoint
    found = scan()
    writer.close()
    scan.write_out(found, tmp_path / "restored")
    assert (times, found.domain.unstable, why_wrong(tmp_path / "restored")) == ([1], (), "")


def test_the_companion_of_a_killed_program_comes_along_and_no_path_is_made(root, tmp_path):
    make(root / "d.db", "wal")
    code = f"import os, sqlite3; c = sqlite3.connect({str(root / 'd.db')!r}); c.execute('update pair set number = 1'); "
    code += "c.execute('insert into log values (1)'); c.commit(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    (root / "d.db-shm").unlink()
    before = sorted(os.listdir(root))
    scan = Keeping(root)
    found = scan()
    assert sorted(os.listdir(root)) == before == ["d.db", "d.db-wal"]
    assert found.domain.unstable == ()
    scan.write_out(found, tmp_path / "restored")
    assert why_wrong(tmp_path / "restored") == ""


def test_the_shared_memory_is_left_out_and_said(root):
    make(root / "d.db", "wal")
    opened = sqlite3.connect(root / "d.db", isolation_level=None)
    opened.execute("insert into log values (1)")
    scan = Scanner(root)
    found = scan()
    opened.close()
    assert set(scan.entries(found)) >= {b"d.db", b"d.db-wal"} and b"d.db-shm" not in scan.entries(found)
    assert domains.Skip(b"d.db-shm", domains.SHARED_MEMORY) in found.domain.skipped


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_program_that_saves_itself_keeps_its_locks(root, mode):
    """A close in this process would take them; another process then writes into the transaction."""
    make(root / "d.db", mode)
    own = sqlite3.connect(root / "d.db", isolation_level=None)
    own.execute("begin immediate")
    own.execute("insert into log values (1)")
    Scanner(root)()
    code = f"import sqlite3; sqlite3.connect({str(root / 'd.db')!r}, timeout=0).execute('insert into log values (2)')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    own.execute("rollback")
    own.close()
    assert "locked" in other.stderr


def test_what_only_has_such_names_is_read_as_any_file(root):
    (root / "notes").write_bytes(b"n" * 512)
    (root / "notes-journal").write_bytes(b"j")
    scan = Scanner(root)
    found = scan()
    assert set(scan.entries(found)) == {b"notes", b"notes-journal"}
    assert found.domain.unstable == ()


@pytest.mark.parametrize("has_sqlite", [True, False])
def test_without_sqlite3_a_living_database_is_said_to_be_of_two_moments(root, has_sqlite):
    make(root / "d.db", "wal")
    opened = sqlite3.connect(root / "d.db", isolation_level=None)
    opened.execute("insert into log values (1)")
    hidden = "" if has_sqlite else "sys.modules['sqlite3'] = None; "
    code = f"import runpy, sys; {hidden}sys.argv = ['', 'd.db']; runpy.run_path({database_child.__file__!r}, run_name='__main__')"
    directory = os.open(root, os.O_RDONLY)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, check=True, close_fds=False,
        preexec_fn=lambda: os.dup2(directory, database_child.DIRECTORY),
    )  # fmt: skip
    os.close(directory)
    opened.close()
    assert done.stdout.endswith(database_child.YES if has_sqlite else database_child.NO)
