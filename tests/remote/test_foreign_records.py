"""A machine with the key that speaks of what is not its own: ids, pins, labels and conversations of others, and records that no push sends.

The pieces are sound and sealed with the right key. What is not a machine's own is left out and named, and every other record of it is taken.
"""

import pytest

from casrewind import errors
from casrewind.model import checkpoint as checkpoints
from casrewind.model import digest as digests
from casrewind.model import undo_history, rewind_record
from casrewind.model.manifest import FILE, Entry
from casrewind.history import conversation
from casrewind.store import ledger
from support.handmade_points import DATA, GOOD, checkpoint_record, handmade, point
from support.machines import Machine
from support.pieces_by_hand import put_chain

pytest.importorskip("obstore")

OTHER = handmade.tree(handmade.file_row(b"f", digests.of(b"planted"), 7))
LIAR = "ab" * 16


@pytest.fixture
def machine(tmp_path):
    return Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")


@pytest.fixture
def other(tmp_path, machine):
    return Machine.with_remote(tmp_path / "two", machine.url, "laptop")


def mark(kind, identity, label="", seq=9):
    return kind, seq, undo_history.encode_mark(undo_history.Mark(identity, label))


def lie(machine, *records, trees=(GOOD, OTHER), chain=LIAR, number=1):
    put_chain(machine.url, [list(records)], trees=trees, blobs=(DATA, b"planted"), chain=chain, name="liar", first=number)


@pytest.mark.parametrize("first", ["the true one", "the liar"])
def test_an_id_with_other_contents_is_named_and_what_came_first_stays(machine, other, first):
    mine = machine.save({"f": b"true"}, "mine")
    lies = [checkpoint_record(point(OTHER, id=mine.id)), checkpoint_record(point(GOOD), 2)]
    if first == "the true one":
        machine.push()
        assert not other.pull().problems
        lie(machine, *lies)
        taken = other.pull()
        assert taken.checkpoints == {"liar": 1} and other.tree(mine.id) == {b"f": b"true"}
    else:
        lie(machine, *lies)
        assert other.pull().checkpoints == {"liar": 2}
        machine.push()
        taken = other.pull()
        assert not taken.checkpoints and other.tree(mine.id) == {b"f": b"planted"}
    (problem,) = taken.problems
    assert problem.startswith(f"checkpoint {mine.id} of {'liar' if first == 'the true one' else 'sandbox-4'} was left out: known here")
    assert not other.pull().problems, "it is said once"
    assert not other.problems()


def test_ids_of_this_store_are_named_and_stay(machine, other):
    mine = other.save({"f": b"here"}, "mine")
    lie(machine, checkpoint_record(point(OTHER, id=mine.id)))
    (problem,) = other.pull().problems
    assert mine.id in problem and other.tree(mine.id) == {b"f": b"here"} and other.points()[mine.id].more.machine == ""


@pytest.mark.parametrize("tree", [GOOD, OTHER], ids=["the same", "another"])
@pytest.mark.parametrize("way", ["pull", "clone", "clone --all"])
def test_an_id_twice_in_one_chain_counts_once(machine, other, tmp_path, tree, way):
    one, newest = point(GOOD), point(GOOD)
    lie(machine, checkpoint_record(one), checkpoint_record(one._replace(tree=digests.of(tree)), 2), checkpoint_record(newest, 3))
    reader = other
    if way == "pull":
        problems = other.pull().problems
    else:
        reader = machine.clone_to(tmp_path / "clone", everything=way == "clone --all")
        problems = reader.cloned.problems
    assert len(problems) == (tree is OTHER) and all(one.id in problem for problem in problems)
    assert reader.save({"g": b"new"}).files >= 1 and not reader.problems()
    assert newest.id in reader.points() and (one.id in reader.points()) == (way != "clone")


def test_a_clone_by_an_id_with_two_contents_names_the_machines(machine, tmp_path):
    mine = machine.save({"f": b"true"})
    machine.push()
    lie(machine, checkpoint_record(point(OTHER, id=mine.id)))
    with pytest.raises(errors.AmbiguousReference, match="different contents by (liar, sandbox-4|sandbox-4, liar)"):
        machine.clone_to(tmp_path / "clone", reference=mine.id)
    assert machine.clone_to(tmp_path / "by name", reference="sandbox-4").tree(mine.id) == {b"f": b"true"}


def test_pins_and_labels_of_others_stay_and_the_own_ones_are_taken(machine, other):
    theirs, here = machine.save({"f": b"true"}, "theirs"), other.save({"f": b"here"}, "here")
    with machine.open() as workspace:
        workspace.pin(theirs.id)
    machine.push()
    other.pull()
    made = point(GOOD)
    others = [mark(kind, identity, "stolen") for identity in (theirs.id, here.id) for kind in (ledger.LABEL, ledger.UNPIN)]
    lie(machine, checkpoint_record(made), *others, mark(ledger.LABEL, made.id, "good"), mark(ledger.PIN, made.id), mark(ledger.PIN, "cnowhere"))
    (problem,) = other.pull().problems
    assert problem.startswith("2 checkpoints, which liar pinned or labelled, were left as before")
    with other.open() as workspace:
        assert workspace.marks(theirs.id) == (True, "", False) and workspace.marks(here.id) == (False, "", False)
        assert workspace.marks(made.id) == (True, "good", False)


def test_a_pin_that_comes_later_is_that_of_the_chain_also_after_the_state_is_lost(machine, other):
    theirs = machine.save({"f": b"true"})
    machine.push()
    other.pull()
    with machine.open() as workspace:
        workspace.pin(theirs.id)
    machine.push()
    assert not other.pull().problems
    with other.open() as workspace:
        assert workspace.marks(theirs.id).pinned
        files = other.remote(workspace).files
        files.save(files.state._replace(chains={}))
    with machine.open() as workspace:
        workspace.pin(theirs.id, "later")
    machine.push()
    assert not other.pull().problems
    with other.open() as workspace:
        assert workspace.marks(theirs.id) == (True, "later", False)


def test_a_machine_in_a_new_chain_speaks_of_what_it_pushed_there(machine, other, tmp_path):
    """What it pushed in its old chain is not of the new one: its label is left out, and named; new ones are taken."""
    old = machine.save({"f": b"1"}, "first")
    machine.push()
    other.pull()
    with machine.open() as workspace:
        machine.remote(workspace).files.begin_chain()
        workspace.pin(old.id, "renamed")
    new = machine.save({"f": b"2"}, "second")
    with machine.open() as workspace:
        workspace.pin(new.id)
    machine.push()
    taken = other.pull()
    (problem,) = taken.problems
    assert list(taken.checkpoints.values()) == [1] and problem.startswith("1 checkpoint, which sandbox-4.")
    with other.open() as workspace:
        assert workspace.marks(old.id).label == "" and workspace.marks(new.id).pinned
    with machine.clone_to(tmp_path / "clone", everything=True).open() as workspace:
        assert workspace.marks(old.id).label == "renamed"


KINDS = {
    "a restore": ledger.RESTORE, "an undo": ledger.UNDO, "a redo": ledger.REDO, "a history": ledger.HISTORY, "what is forgotten": ledger.FORGET,
    "an interrupted restore": ledger.FINISH, "a kind of later": 99, "a kind of much later": 255,
}


@pytest.mark.parametrize("payload", [b"", b"abc", b"\xff" * 40], ids=["empty", "short", "long"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_takes_no_record_of_a_kind_that_no_push_sends(machine, tmp_path, kind, payload):
    made = point(GOOD)
    lie(machine, checkpoint_record(made), (KINDS[kind], 2, payload), mark(ledger.PIN, made.id))
    clone = machine.clone_to(tmp_path / "clone", everything=True)
    assert not clone.cloned.problems and clone.save({"g": b"new"}).files == 2 and not clone.problems()
    with clone.open() as workspace:
        assert workspace.marks(made.id).pinned and workspace.gc()


@pytest.mark.parametrize("way", ["pull", "clone --all"])
def test_a_record_that_cannot_be_decoded_is_named_and_the_others_are_taken(machine, other, tmp_path, way):
    made = point(GOOD)
    broken = [(kind, 2, b"abc") for kind in (ledger.CHECKPOINT, ledger.PIN, ledger.UNPIN, ledger.LABEL, ledger.SESSION, ledger.ADOPT)]
    odd = [checkpoint_record(point(GOOD, **fields)) for fields in ({"id": "../../x"}, {"worktree": b"abc"}, {"cursor": b"abc"})]
    lie(machine, checkpoint_record(made), *broken, *odd, mark(ledger.LABEL, made.id, "good"))
    if way == "pull":
        reader, problems = other, other.pull().problems
    else:
        reader = machine.clone_to(tmp_path / "clone", everything=True)
        problems = reader.cloned.problems
    assert problems == ("9 records of liar were left out: no save writes such records",)
    with reader.open() as workspace:
        assert workspace.marks(made.id).label == "good"
    assert reader.save({"g": b"new"}) and not reader.problems()
    assert not reader.pull().problems if way == "pull" else True


def test_no_other_machine_says_what_a_session_of_here_continues(machine, other):
    made, mine = point(GOOD), other.save({"f": b"1"})
    fork = rewind_record.Rewind(5, bytes(range(16)), "claude", rewind_record.FORK, "session-of-here", "planted", b"/etc/passwd", b"", made.id)
    forks = [fork, fork._replace(checkpoint=""), fork._replace(checkpoint=mine.id), fork._replace(session="theirs", parent="theirs-before")]
    lie(machine, checkpoint_record(made), *((ledger.SESSION, 2, rewind_record.encode(one)) for one in forks))
    assert not other.pull().problems
    with other.open() as workspace:
        context = workspace._context
        assert list(conversation.session_and_ancestors(context, "session-of-here")) == ["session-of-here"]
        there = context.store.checkpoint(made.id).worktree
        assert list(conversation.session_and_ancestors(context, "theirs", there)) == ["theirs", "theirs-before"]
        assert {one.checkpoint for one in context.store.rewinds()} == {made.id}
        assert context.store.seq_of_rewind(context.root.key, "session-of-here") is None


def test_moves_of_a_project_without_end_are_not_taken(machine, other):
    one, two = bytes(range(16)), bytes(range(1, 17))
    moves = [(ledger.ADOPT, number, undo_history.encode_adoption(undo_history.Adoption(*((one, two) if number % 2 else (two, one)), b"/x"))) for number in range(2, 400)]
    lie(machine, checkpoint_record(point(GOOD)), *moves)
    other.pull()
    with other.open() as workspace:
        assert len(workspace._context.store.adoptions()) <= 100


def test_checkpoints_that_name_another_machine_are_not_taken(machine, other, tmp_path):
    made, planted = point(GOOD), point(GOOD, more=checkpoints.Circumstances(machine="sandbox-4"))
    lie(machine, checkpoint_record(planted), checkpoint_record(made, 2))
    other.pull()
    assert set(other.points()) == {made.id}
    assert set(machine.clone_to(tmp_path / "clone", everything=True).points()) == {made.id}


@pytest.mark.parametrize("what", ["a file", "a conversation"])
def test_a_size_that_is_a_lie_makes_no_checkpoint_of_others_look_damaged(machine, other, what):
    """It named a blob of the victim with another size: verify said that the victim's own checkpoint was damaged."""
    mine = other.save({"f": DATA})
    entry = handmade.file_row(b"f", digests.of(DATA), 1 << 50)
    tree = handmade.tree(entry) if what == "a file" else GOOD
    transcript = Entry(FILE, 0o600, 1 << 50, 0, digests.of(DATA)) if what == "a conversation" else None
    lie(machine, checkpoint_record(point(tree, transcript=transcript)), checkpoint_record(point(GOOD), 2), trees=(GOOD, tree))
    taken = other.pull()
    assert taken.checkpoints == {"liar": 1} and len(taken.problems) == 1
    assert not other.problems() and other.tree(mine.id) == {b"f": DATA}


@pytest.mark.parametrize("way", ["pull", "clone --all"])
def test_a_chain_with_more_records_than_its_size_allows_is_named_and_others_are_taken(machine, other, tmp_path, way):
    mine = machine.save({"f": b"true"})
    machine.push()
    made = point(GOOD)
    labels = [[mark(ledger.LABEL, made.id, f"{at}" + "x" * (6 << 20))] for at in range(7)]
    put_chain(machine.url, [[checkpoint_record(made)], *labels], chain=LIAR)
    if way == "pull":
        taken = other.pull()
        assert taken.checkpoints == {"sandbox-4": 1, "liar": 1} and other.tree(mine.id) == {b"f": b"true"}
        problems = taken.problems
    else:
        problems = machine.clone_to(tmp_path / "clone", everything=True, reference="liar").cloned.problems
    assert len(problems) == 1 and "has more records than" in problems[0]
