"""Files that are large or grow: made alone in a directory, and changed a little before every save.

Everything is the same for every tool and at every run: random numbers have fixed seeds.
"""

import contextlib
import os
import random
import sqlite3

from ..hooks import TURN, Transcript

MB = 1_000_000
PAGES = 40
"""Pages of the database that change before a save."""
GROWTH = 170_000
"""Bytes that the transcript grows by before a save, about."""
LEAST = {"large": 0.9, "sqlite": 0.2, "transcript": 0.05}
"""What a store must hold after the first save, as a part of the file's size: a tool with less has left the file out."""

_PAGE = 4096
_ROW = 3500
"""Characters of a row: so many that a page has room for one."""


class Large:
    """A file of random bytes, into which 1 MB of others is inserted at the middle."""

    def __init__(self, root, size):
        """Make it. `size` in bytes."""
        self.path = os.path.join(root, "large.bin")
        chance = random.Random("large")
        with open(self.path, "wb") as file:
            while file.tell() < size:
                file.write(chance.randbytes(min(MB, size - file.tell())))

    def change(self, step):
        """Insert, for the `step`th time."""
        with open(self.path, "r+b") as file:
            file.seek(os.path.getsize(self.path) // 2)
            tail = file.read()
            file.seek(-len(tail), os.SEEK_END)
            file.write(random.Random(f"large {step}").randbytes(MB))
            file.write(tail)


class Sqlite:
    """A database of one table with a row to a page, of which 40 get another text of the same length."""

    def __init__(self, root, size):
        """Make it, of about `size` bytes."""
        self.path = os.path.join(root, "data.sqlite")
        self._rows = max(PAGES, size // _PAGE)
        chance = random.Random("sqlite")
        with self._open() as base:
            base.execute(f"pragma page_size = {_PAGE}")
            base.execute("create table notes (id integer primary key, body text)")
            base.executemany("insert into notes values (?, ?)", ((row, _text(chance)) for row in range(self._rows)))
            base.commit()

    def change(self, step):
        """Other texts in 40 rows that lie anywhere."""
        chance = random.Random(f"sqlite {step}")
        with self._open() as base:
            for row in chance.sample(range(self._rows), PAGES):
                base.execute("update notes set body = ? where id = ?", (_text(chance), row))
            base.commit()

    def _open(self):
        return contextlib.closing(sqlite3.connect(self.path))


class Conversation:
    """A transcript that goes on by 170 KB."""

    def __init__(self, root, size):
        """Make it, of about `size` bytes."""
        self.path = os.path.join(root, "transcript.jsonl")
        self._transcript = Transcript(self.path, "benchmark", size)

    def change(self, _step):
        """Some turns more."""
        for _ in range(GROWTH // TURN):
            self._transcript.go_on()


MAKERS = {"large": Large, "sqlite": Sqlite, "transcript": Conversation}


def _text(chance):
    return chance.randbytes(_ROW // 2).hex()
