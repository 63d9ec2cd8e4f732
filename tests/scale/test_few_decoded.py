"""What a person and a hook ask of a store all day decodes as many checkpoints of a long timeline as of a short one."""

import json
import subprocess
import sys

import pytest

from casrewind import errors
from casrewind import open as open_workspace
from casrewind.store import catalog
from support.fake_client import Client
from support.trees import plant

SHORT, LONG = 6, 60
COUNTED = """
import sys
from casrewind.store import catalog, packs
read, trees, first = [], [], []
real, real_record = catalog.checkpoints.decode, packs.checked_blob_of_record
catalog.checkpoints.decode = lambda *given: read.append(given) or real(*given)
packs.checked_blob_of_record = lambda *given: trees.append(given) or real_record(*given)


class Stream:
    written = False

    def __getattr__(self, name):
        return getattr(sys.__stdout__, name)

    def write(self, text):
        self.written = True
        return sys.__stdout__.write(text)

    def flush(self):
        if self.written and not first:
            first.append((len(read), len(trees)))
        sys.__stdout__.flush()

sys.stdout = Stream()
from casrewind.cli import main
try:
    main.main(sys.argv[1:])
finally:
    print(*first[0] if first else (0, 0), file=sys.__stderr__)
    print(len(read), file=sys.__stderr__)
"""
"""Runs the command line, then prints how many checkpoints were decoded, and how many blobs read, before the first rows, and how
many checkpoints in all."""


@pytest.fixture
def timeline(casrewind, root, settings):
    """So many checkpoints by hand behind one of an agent's; the client."""
    plant(root, {"f": b"1"})
    client = Client(casrewind, root)

    def make(number):
        client.send(client.payload("SessionStart.startup"))
        client.wait_for(1)
        with open_workspace(str(root), settings) as workspace:
            for step in range(number - 1):
                workspace.save(f"by hand {step}")
        return client

    return make


def decoded(client, *words, payload=b""):
    """(how many checkpoints a command decodes, what it prints)."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *words], input=payload, capture_output=True, cwd=client.root, timeout=60,
        env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root)},
    )  # fmt: skip
    return int(done.stderr.splitlines()[-1]), done.stdout


@pytest.mark.parametrize("number", [SHORT, LONG])
def test_status_decodes_the_newest_checkpoints_and_counts_the_others(timeline, number):
    client = timeline(number)
    read, printed = decoded(client, "status", "--json")
    found = json.loads(printed)
    assert found["checkpoints"] == number and found["last"]["label"] == f"by hand {number - 2}"
    assert found["agents"]["claude"]["last_checkpoint"] == client.points()[-1]["id"]
    assert read <= 4


@pytest.mark.parametrize("number", [SHORT, LONG])
@pytest.mark.parametrize("name", ["UserPromptSubmit.prompt", "Stop.plain", "SessionStart.resume"])
def test_an_event_decodes_no_more_of_a_long_timeline(timeline, number, name):
    client = timeline(number)
    for turn in ("earlier", "before"):
        client.send(client.payload("UserPromptSubmit.prompt", prompt_id=turn))
        client.send(client.payload("Stop.plain", prompt_id=turn))
    plant(client.root, {"f": b"other"})
    read, printed = decoded(client, "hook", "claude", payload=client.payload(name, prompt_id="now"))
    client.wait_for(number + 5)
    assert printed == b"" and read <= 12


@pytest.mark.parametrize("number", [SHORT, LONG])
def test_the_marks_of_one_checkpoint_are_found_without_the_others(timeline, root, settings, number, monkeypatch):
    timeline(number)
    with open_workspace(str(root), settings) as workspace:
        workspace.pin("last", "kept")
        point = workspace.checkpoint("last")
        gone = workspace.checkpoint("prev")
        real, read = catalog.checkpoints.decode, []
        monkeypatch.setattr(catalog.checkpoints, "decode", lambda *given: read.append(given) or real(*given))
        assert workspace.marks(point).pinned and workspace.marks(point).label == "kept"
        assert len(read) <= 2
        with pytest.raises(errors.CheckpointNotFound, match="deleted by gc"):
            workspace.marks(gone._replace(id="c0123456789abcd"))


class CountedRows:
    """A transaction or a cursor of LMDB that counts the rows which are read."""

    def __init__(self, real, read):
        self.real, self.read = real, read

    def __getattr__(self, name):
        return getattr(self.real, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.real.close()

    def __iter__(self):
        return (self.read.append(row) or row for row in iter(self.real))

    def iterprev(self):
        return (self.read.append(row) or row for row in self.real.iterprev())

    def cursor(self, **named):
        return CountedRows(self.real.cursor(**named), self.read)


@pytest.mark.parametrize("number", [SHORT, LONG])
def test_no_row_of_the_index_is_read_that_nobody_asked_for(timeline, root, settings, number):
    timeline(number)
    with open_workspace(str(root), settings) as workspace, workspace._context.store.index.view() as tables:
        for asked, expected in (({"most": 1}, 1), ({"farthest": 3}, 3), ({"most": 2, "before": number}, 3), ({}, number)):
            tables[b"points"]._transaction = CountedRows(tables[b"marks"]._transaction, [])
            assert catalog.checkpoints_with_marks(tables, **asked)
            assert len(tables[b"points"]._transaction.read) == expected, asked


def test_the_first_rows_wait_for_no_more_of_a_long_timeline(casrewind, root, settings):
    """A list in a pipe gets its newest rows when the newest checkpoints are read. All others follow."""
    plant(root, {"f": b""})
    casrewind("run", "--", "true", code=0)
    found = []
    for first, last in ((0, 300), (300, 400)):
        with open_workspace(str(root), settings) as workspace:
            for step in range(first, last):
                plant(root, {"f": b"edit %d" % step})
                workspace.save(f"edit {step}")
        for words in (("list",), ("log", "f")):
            done = subprocess.run([sys.executable, "-c", COUNTED, *words], capture_output=True, cwd=root, timeout=60, env=casrewind.environment)
            assert done.returncode == 0, done.stderr
            (decoded, blobs), (whole,) = (map(int, line.split()) for line in done.stderr.splitlines()[-2:])
            assert whole > last and done.stdout.count(b"saved: edit") == last, "all of them are listed"
            found.append((decoded, blobs))
    assert found[:2] == found[2:]
    assert max(map(max, found)) < 600
