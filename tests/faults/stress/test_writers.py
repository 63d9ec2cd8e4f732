"""Somebody writes to the project while a restore runs: nothing that was written whole is ever lost.

Every version is afterwards in the worktree (under its name, or under a visible kept name that the report tells of), or
in a checkpoint of the store.
"""

import collections
import json
import os
import subprocess
import sys

import pytest

from casrewind import errors
from support.picture import picture
from support.store_checks import leftovers
from support.two_states import build

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = range(8)
ONE = {
    **{f"edited/{n}": b"one %d\n" % n for n in NAMES},
    **{f"replaced/{n}": b"one %d\n" % n for n in NAMES},
    **{f"appended/{n}": b"one %d\n" % n for n in NAMES},
    **{f"going/{n}": b"only in one %d\n" % n for n in NAMES},
    "going/deep/er/0": b"only in one\n",
    "turning": b"a file in one\n",
    "other/0": b"a directory in one\n",
    "other/1": b"a directory in one\n",
}
TWO = {
    **{name: data.replace(b"one", b"two") for name, data in ONE.items() if not name.startswith(("going", "turning", "other"))},
    "coming/0": b"only in two\n",
    "turning/0": b"a directory in two\n",
    "other": b"a file in two\n",
}
CHANGES = {
    "edit": [*(f"edited/{n}" for n in NAMES), "going/0", "going/1", "other/0"],
    "replace": [*(f"replaced/{n}" for n in NAMES), "going/2", "going/3", "other/1", "turning"],
    "append": [*(f"appended/{n}" for n in NAMES), "going/4", "going/deep/er/0"],
    "create": ["new", "edited/new", "going/new", "going/deep/new", "other/new", "coming/0", "coming/new", "turning/new"],
}


@pytest.fixture
def writer():
    """writer(order) starts a round; writer() gives what was written in it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.race_writer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": TESTS},
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"

    def work(order=None):
        if order is None:
            return json.loads(process.stdout.readline())
        process.stdin.write(json.dumps(order) + "\n")
        return None

    yield work
    process.stdin.close()
    process.wait()
    process.stdout.close()


def texts(root):
    """{path: bytes} of every regular file that is there."""
    found = {}
    for path, what in picture(root).items():
        if what[0] == "file":
            with open(os.path.join(os.fsencode(root), path), "rb") as file:
                found[path] = file.read()
    return found


def stored(workspace, since):
    """The bytes of every file of every checkpoint after the first `since`."""
    content = workspace._context.store.content
    for point, _ in workspace.checkpoints():
        if point.seq > since:
            for _, entry in workspace.entries(point):
                if entry.kind == "file":
                    yield b"".join(content(entry))


def races(workspace, root, writer, rounds):
    build(root, ONE)
    one = workspace.save("one").checkpoint
    build(root, TWO)
    two = workspace.save("two").checkpoint
    tally = collections.Counter()
    for number in range(rounds):
        present, target = (ONE, two) if number % 2 else (TWO, one)
        build(root, present)
        since = workspace.checkpoints()[0][0].seq
        writer({"root": str(root), "seed": number, "within": (0.004, 0.02, 0.05)[number % 3], **CHANGES})
        kept, refused = set(), None
        try:
            report = workspace.restore(target)
            kept = {item.path for item in report.kept}
            tally["restores with kept paths"] += report.incomplete
        except errors.ContentInTheWay as error:  # somebody's file in a directory that has to become a file
            refused = str(error)
            tally["refused"] += 1
        written = writer()
        assert not workspace.is_interrupted()
        there = texts(root)
        left = {name for name in there if b".casrewind-kept" in name}
        assert not [name for name in leftovers(root) if b".casrewind-tmp-" in name], leftovers(root)
        unnamed = {name for name in left if not any(name == path or name.startswith(path + b"/") for path in kept)}
        assert not unnamed, f"round {number}: kept, but not named: {unnamed}"
        tally["kept under another name"] += len(left)
        here = b"\n".join(there.values())
        missing = [item for item in written if item[2].encode() not in here]
        if missing:
            in_store = b"\n".join(stored(workspace, since))
            lost = [item for item in missing if item[2].encode() not in in_store]
            tally["lost behind an open descriptor"] += sum(not item[3] for item in lost)
            assert not [item for item in lost if item[3]], f"round {number}: lost {lost} ({refused})"
        tally["written"] += len(written)
        tally["only in the store"] += len(missing)
    return tally


@pytest.mark.turns(3)
def test_nothing_written_during_a_restore_is_lost(workspace, root, writer):
    tally = races(workspace, root, writer, 60)
    print(dict(tally))
    assert tally["restores with kept paths"] > 3, "the writer hardly ever met the restore"
    assert tally["only in the store"] > 10


@pytest.mark.long
def test_nothing_written_during_a_thousand_restores_is_lost(workspace, root, writer):
    print(dict(races(workspace, root, writer, 1000)))
