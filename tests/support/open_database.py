"""A program that has an SQLite database open, or had it open: a process of its own, told what to do line by line."""

import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

PROGRAM = """
import os, sqlite3, sys
db = files = None
for line in sys.stdin:
    word, *more = line.split()
    if word == "open":
        db = sqlite3.connect(more[0], isolation_level=None)
        db.execute("select count(*) from rows").fetchone()
    elif word == "read":
        db = sqlite3.connect(f"file:{more[0]}?mode=ro", uri=True)
        db.execute("select count(*) from rows").fetchone()
    elif word == "add":
        db.executemany("insert into rows values (?)", [(n,) for n in range(int(more[0]))])
    elif word == "close":
        db = db.close()
    elif word == "write":
        files = [open(name, "ab", 0) for name in more]
        [file.write(b"a line\\n") for file in files]
    print("done", flush=True)
"""


class Program:
    """`tell` returns when it is done."""

    def __init__(self, directory, prefix=()):
        command = [*prefix, sys.executable, "-c", PROGRAM]
        self.process = subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self.process.pid

    def tell(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"


@contextmanager
def program(directory, *words, prefix=()):
    """A program that has done what `words` say, if there are any."""
    started = Program(directory, prefix)
    try:
        if words:
            started.tell(*words)
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def make(path, rows, mode="wal"):
    """A database with so many rows; whatever was at the path is gone."""
    for end in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(f"{path}{end}"):
            os.unlink(f"{path}{end}")
    with sqlite3.connect(path) as db:
        db.execute(f"pragma journal_mode={mode}")
        db.execute("create table rows (n)")
        db.executemany("insert into rows values (?)", [(n,) for n in range(rows)])
    db.close()


def rows_of(path):
    """The number of rows of a sound database."""
    db = sqlite3.connect(path)
    try:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        return db.execute("select count(*) from rows").fetchone()[0]
    finally:
        db.close()
