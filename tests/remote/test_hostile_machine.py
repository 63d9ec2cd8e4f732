"""A machine that has the key and lies: its records and trees are what no save makes. Each pull ends in words, and nothing of it counts here.

The pieces are sound and sealed with the right key, so only what is in them can be refused.
"""

import os

import pytest

from casrewind import errors
from casrewind.model import checkpoint as checkpoints
from casrewind.model import digest as digests
from casrewind.model import undo_history, rewind_record, tlv
from casrewind.model.checkpoint import Circumstances
from casrewind.remote.piece_names import piece_name
from casrewind.remote.objects import Objects
from casrewind.remote.piece import CONTAINER, CONTENT, FIRST, PieceBuilder
from casrewind.store import ledger
from support import handmade_checkpoints as handmade
from support.command_in_process import InProcess
from support.handmade_points import DATA, DOMAIN, GOOD, checkpoint_record, point
from support.machines import Machine, keys_of

def deep(levels):
    """Trees in trees, as blobs, the root last."""
    found = [GOOD]
    for _ in range(levels):
        found.append(handmade.tree(handmade.dir_row(b"d", digests.of(found[-1]))))
    return found


def doubled(levels):
    found = [GOOD]
    for _ in range(levels):
        found.append(handmade.tree(*(handmade.dir_row(name, digests.of(found[-1])) for name in (b"a", b"b"))))
    return found


TREES = {
    "a name that leaves the root": [handmade.tree(handmade.file_row(b"..", digests.of(DATA), 7))],
    "a name with a slash": [handmade.tree(handmade.file_row(b"../../etc/x", digests.of(DATA), 7))],
    "an absolute name": [handmade.tree(handmade.file_row(b"/tmp/casrewind-hostile", digests.of(DATA), 7))],
    "an empty name": [handmade.tree(handmade.file_row(b"", digests.of(DATA), 7))],
    "version control": [GOOD, handmade.tree(handmade.dir_row(b".git", digests.of(GOOD)))],
    "a link out": [handmade.tree(handmade.link_row(b"l", b"../../../../etc/passwd"))],
    "a cut tree": [GOOD[:-3]],
    "no tree": [b"nonsense"],
    "a wrong count": [handmade.tree(handmade.file_row(b"f", digests.of(DATA), 7), count=1 << 31)],
    "names twice": [handmade.tree(*[handmade.file_row(b"f", digests.of(DATA), 7)] * 2)],
    "a wrong size": [handmade.tree(handmade.file_row(b"f", digests.of(DATA), 1 << 50))],
    "too deep": deep(2100),
    "a million million files": doubled(40),
    "a blob that is nowhere": [handmade.tree(handmade.file_row(b"f", digests.of(b"nowhere"), 7))],
    "a tree that is nowhere": [handmade.tree(handmade.dir_row(b"d", digests.of(b"nowhere")))],
}
RECORDS = {
    "no record": [(ledger.CHECKPOINT, 1, b"nonsense")],
    "an empty record": [(ledger.CHECKPOINT, 1, b"")],
    "an id that is a path": [checkpoint_record(point(GOOD, id="../../../etc"))],
    "an id with control characters": [checkpoint_record(point(GOOD, id="c\x1b[2J"))],
    "a short key of the worktree": [checkpoint_record(point(GOOD, worktree=b"abc"))],
    "a kind that nobody knows": [(99, 1, b"x")],
    "a mark that is none": [(ledger.PIN, 1, b"\xff" * 30)],
    "a rewind that is none": [(ledger.SESSION, 1, b"\xff" * 30)],
    "a move that is none": [(ledger.ADOPT, 1, b"\xff" * 30)],
    "forgets": [(ledger.FORGET, 1, undo_history.encode_forgotten(["mine"]))],
    "a text that is no text": [(ledger.CHECKPOINT, 1, checkpoints.encode(point(GOOD)) + tlv.encode(((999, b"\xff"),)))],
    "a machine of its own": [checkpoint_record(point(GOOD, more=Circumstances(machine="trusted")))],
    "a number that is none": [checkpoint_record(point(GOOD, created_ns=-(1 << 62), files=-5, size=-1))],
    "numbers twice": [checkpoint_record(point(GOOD)), checkpoint_record(point(GOOD))],
}


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def victim(tmp_path, url):
    made = Machine(tmp_path / "victim", url, "laptop")
    made.add_remote()
    made.mine = made.save({"f": b"mine", ".env": b"secret"}, "mine")
    return made


def put(url, trees, records, chain="ab" * 16, name="sandbox-4"):
    """A sound piece with these blobs and records, the first of its chain."""
    builder = PieceBuilder(keys_of(url))
    builder.add(digests.of(DATA), CONTENT, DATA)
    builder.add(digests.of(DOMAIN), CONTAINER, DOMAIN)
    for data in dict.fromkeys(trees):
        builder.add(digests.of(data), CONTAINER, data)
    builder.add_records(records)
    object_name = piece_name(chain, 1)
    data, _ = builder.finish(object_name, FIRST, bytes(16), name)
    assert Objects(url).put_new(object_name, data)


def assert_unharmed(victim, capfd=None):
    """The own checkpoint, the files and the store are what they were; every command still answers."""
    assert {point.id: point.tree for point in victim.points().values() if not point.more.machine} == {victim.mine.id: victim.mine.tree}
    with victim.open() as workspace:
        assert not workspace.marks(victim.mine.id).pinned
    assert (victim.root / "f").read_bytes() == b"mine" and (victim.root / ".env").read_bytes() == b"secret"
    casrewind = InProcess(victim.root, victim.home)
    casrewind.environment["CASREWIND_HOME"] = victim.settings.data
    for line in ("list", "list --all", "list --remote", "list --remote --all", "status", "diff last", "restore last -n", "gc -n"):
        found = casrewind(*line.split())
        assert found.code in (0, 3) and "Traceback" not in found.err and "\x1b[2J" not in found.out, (line, found)


def pulled(victim):
    """The problems that a pull names. Any exception but a RemoteError in words is an error of the test."""
    try:
        return victim.pull().problems
    except errors.RemoteError as error:
        return (error.problem,)


def test_an_honest_piece_made_in_the_same_way_is_taken(victim, url):
    put(url, [GOOD], [checkpoint_record(point(GOOD))])
    assert pulled(victim) == ()
    (foreign,) = [one for one in victim.points().values() if one.more.machine]
    assert victim.tree(foreign.id) == {b"f": DATA}
    assert_unharmed(victim)


@pytest.mark.parametrize("case", TREES)
def test_a_tree_that_no_save_makes(victim, url, tmp_path, case):
    made = point(TREES[case][-1])
    put(url, TREES[case], [checkpoint_record(made)])
    problems = pulled(victim)
    here = victim.points()
    assert problems or made.id in here
    assert_unharmed(victim)
    if made.id in here:
        casrewind = InProcess(victim.root, victim.home)
        casrewind.environment["CASREWIND_HOME"] = victim.settings.data
        for line in ("restore {} -y", "restore {} --to {}/out", "show {}", "diff {}"):
            found = casrewind(*line.format(made.id, tmp_path).split())
            assert "Traceback" not in found.err and found.code != 70, (line, found)
        assert not os.path.lexists("/tmp/casrewind-hostile") and not (victim.root / ".git").exists()
        assert not any(path.name not in ("bucket", "victim", "out") for path in tmp_path.iterdir())


@pytest.mark.parametrize("case", RECORDS)
def test_a_record_that_no_save_makes(victim, url, case):
    put(url, [GOOD], RECORDS[case])
    pulled(victim)
    assert_unharmed(victim)
    assert pulled(victim) is not None, "a second pull ends in words, too"


def test_records_about_another_machines_checkpoints_count_nothing(victim, url):
    mine = victim.mine
    records = [
        (ledger.PIN, 1, undo_history.encode_mark(undo_history.Mark(mine.id, "stolen"))),
        (ledger.LABEL, 2, undo_history.encode_mark(undo_history.Mark(mine.id, "stolen"))),
        (ledger.ADOPT, 3, undo_history.encode_adoption(undo_history.Adoption(mine.worktree, bytes(16), b"/elsewhere"))),
        (ledger.SESSION, 4, rewind_record.encode(rewind_record.Rewind(1, mine.worktree, "claude", "fork", "s", "p", b"/etc/passwd", b"", mine.id))),
        checkpoint_record(point(GOOD, id=mine.id), 5),
    ]
    put(url, [GOOD], records)
    pulled(victim)
    assert_unharmed(victim)
    with victim.open() as workspace:
        assert workspace.marks(mine.id).label == "" and workspace.checkpoint("last").id == mine.id
