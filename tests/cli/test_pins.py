"""pin and unpin: what a person says of a checkpoint, kept in the ledger, and never in a way that makes one unreachable."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from casrewind.store.catalog import Marked
from casrewind import errors
from casrewind.model.retention import Limits
from support.command_in_process import InProcess
from support.trees import plant


def saved(casrewind, root, content, *arguments):
    plant(root, {"f": content})
    return casrewind.json("save", *arguments)["checkpoint"]


def points(casrewind, *arguments):
    return {point["id"]: point for point in casrewind.json("list", *arguments)["checkpoints"]}


def named(casrewind, reference):
    return casrewind.json("show", reference)["checkpoint"]["id"]


def ledger(casrewind):
    return (Path(casrewind.json("status")["store"]) / "ledger").read_bytes()


def test_a_pin_with_a_label_names_the_checkpoint_and_shows_everywhere(casrewind, root):
    one, two = (saved(casrewind, root, b"%d" % n) for n in range(2))
    assert points(casrewind)[one]["pinned"] is False
    found = casrewind("pin", "prev", "before lunch", code=0)
    assert found.out == f"pinned {one}, its label is 'before lunch'\n" and found.err == ""
    assert (points(casrewind)[one]["pinned"], points(casrewind)[one]["label"]) == (True, "before lunch")
    assert points(casrewind)[two]["pinned"] is False
    assert named(casrewind, "before lunch") == one
    assert "* saved: before lunch" in casrewind("list", code=0).out
    shown = casrewind("show", one, code=0).out
    assert "pinned" in shown and "label     before lunch" in shown
    assert casrewind.json("restore", "before lunch", "--yes")["target"] == one
    assert (root / "f").read_bytes() == b"0"


def test_the_json_is_the_checkpoint_as_in_list(casrewind, root):
    saved(casrewind, root, b"1", "-m", "first")
    saved(casrewind, root, b"2")
    for command in (("pin", "last"), ("pin", "last"), ("pin", "prev", "named"), ("unpin", "last"), ("unpin", "last")):
        said = casrewind.json(*command)
        assert set(said) == {"checkpoint"}
        assert said["checkpoint"] == points(casrewind)[said["checkpoint"]["id"]]


def test_a_pin_without_a_label_leaves_the_one_there_is(casrewind, root):
    one = saved(casrewind, root, b"1", "-m", "made with it")
    assert "its label is 'made with it'" in casrewind("pin", "last", code=0).out
    assert (points(casrewind)[one]["pinned"], points(casrewind)[one]["label"]) == (True, "made with it")


def test_a_new_label_takes_the_place_of_the_old_one(casrewind, root):
    one = saved(casrewind, root, b"1", "-m", "first")
    two = saved(casrewind, root, b"2")
    assert "its label is 'second' (it was 'first')" in casrewind("pin", "first", "second", code=0).out
    assert named(casrewind, "second") == one
    casrewind("show", "first", code=15)
    casrewind("pin", two, "first", code=0)  # free again
    assert (named(casrewind, "first"), named(casrewind, "second")) == (two, one)


def test_status_shows_the_label_that_stands(casrewind, root):
    saved(casrewind, root, b"1", "-m", "old")
    casrewind("pin", "last", "new", code=0)
    said = casrewind("status", code=0).out
    assert "'new'" in said and "'old'" not in said
    assert casrewind.json("status")["last"]["label"] == "new"


def test_pinning_what_is_pinned_so_says_so_and_writes_nothing(casrewind, root):
    one = saved(casrewind, root, b"1")
    casrewind("pin", "last", "x", code=0)
    before = ledger(casrewind)
    for command in (("pin", "last"), ("pin", one, "x"), ("pin", "x", "x")):
        assert f"{one} is pinned already, its label is 'x'" in casrewind(*command, code=0).out
    assert ledger(casrewind) == before
    two = saved(casrewind, root, b"2", "--pin")
    before = ledger(casrewind)
    assert casrewind("pin", two, code=0).out == f"{two} is pinned already\n"
    assert ledger(casrewind) == before
    casrewind("pin", two, "y", code=0)
    assert ledger(casrewind) != before


def test_an_unpin_takes_the_pin_and_leaves_the_label_as_a_name(casrewind, root):
    one = saved(casrewind, root, b"1", "--pin")
    two = saved(casrewind, root, b"2", "-m", "named")
    assert casrewind("unpin", one, code=0).out == f"unpinned {one}\n"
    casrewind("pin", two, code=0)
    assert "its label 'named' stays, and does not keep it any more" in casrewind("unpin", two, code=0).out
    found = points(casrewind)
    assert (found[one]["pinned"], found[two]["pinned"], found[two]["label"]) == (False, False, "named")
    before = ledger(casrewind)
    assert casrewind("unpin", one, code=0).out == f"{one} is not pinned, and no label keeps it\n"
    assert ledger(casrewind) == before


@pytest.mark.parametrize(
    "label",
    ["", " ", "\t", "1", "007", "99999999999999999999999", "１２", "²", "last", "prev", " x", "x ", "a\nb", "a\tb", "a\rb",
     "\x1b[31m", "a\x7fb", "a\x85b", "a\u2028b", b"not \xff utf-8"],
)  # fmt: skip
def test_what_cannot_be_a_label_is_64_and_changes_nothing(casrewind, root, label):
    saved(casrewind, root, b"1")
    before = ledger(casrewind)
    found = casrewind("pin", "last", label, code=64)
    assert "cannot be a label" in found.err and "give another LABEL" in found.err
    assert "\x1b" not in found.err and found.out == ""
    assert ledger(casrewind) == before


REFS = [
    "@1", "@007", "after:@1", "after:1", "after:last", "after:", "remote:@1", "remote:x", "laptop:@2", "laptop:after:@2", "last", "prev", "3", "10m",
    "2 hours ago", "14:30", "yesterday", "yesterday 18:00", "2026-11-20", "2026-11-20 18:00",
]  # fmt: skip


@pytest.mark.parametrize("label", REFS)
def test_a_label_that_reads_as_another_ref_is_64_wherever_one_is_given(casrewind, root, workspace, label):
    """It could never be named, or would hide what the form means."""
    point = saved(casrewind, root, b"1")
    before = ledger(casrewind)
    plant(root, {"f": b"2"})
    for words in (("save", "-m", label), ("save", label), ("run", "-m", label, "--", "true"), ("pin", point, label)):
        refused = casrewind(*words, code=64)
        assert f"{label!r} cannot be a label: it would be taken for " in refused.err and "give another LABEL" in refused.err, words
        assert ledger(casrewind) == before, words
    for attempt in (lambda: workspace.save(label), lambda: workspace.pin(point, label)):
        with pytest.raises(errors.UsageError, match="cannot be a label"):
            attempt()
    assert ledger(casrewind) == before


@pytest.mark.parametrize("label", ["after: the move", "before: lunch", "last one", "at @1", "10 apples", "remote", "v10m", "today's", "pi:done", "mail:a@b"])
def test_a_label_that_only_begins_like_another_ref_is_one(casrewind, root, label):
    point = saved(casrewind, root, b"1", "-m", label)
    assert named(casrewind, label) == point


def test_a_store_that_holds_such_labels_is_read_as_ever(casrewind, root, workspace):
    """An older version took them."""
    from casrewind.upkeep import save

    points = {}
    for number, label in enumerate(REFS):
        plant(root, {"f": b"%d" % number})
        points[label] = save.save(workspace._context, save.Moment(label=label)).checkpoint.id
    assert {point["label"]: point["id"] for point in casrewind.json("list")["checkpoints"]} == points
    for label, point in points.items():
        assert repr(label)[1:-1] in casrewind("show", point, code=0).out
        casrewind("pin", point, label, code=0)  # it has that label
    casrewind("verify", code=0)
    assert named(casrewind, "10m") == points["10m"], "a label that looks like a time stays a label"


@pytest.mark.parametrize("label", ["v1.0", "1.0", "1st", "a:b", ":", "Last", "previous", "über 🎉 x", "a b", "/", "x" * 3000])
def test_any_other_label_is_a_reference_from_then_on(casrewind, root, label):
    one = saved(casrewind, root, b"1")
    saved(casrewind, root, b"2")
    casrewind("pin", "prev", label, code=0)
    assert named(casrewind, label) == one
    assert points(casrewind)[one]["label"] == label


def test_a_label_of_a_newer_checkpoint_is_64_and_says_which(casrewind, root):
    """It would name the newer one."""
    one = saved(casrewind, root, b"1")
    two = saved(casrewind, root, b"2")
    three = saved(casrewind, root, b"3", "-m", "by save")
    casrewind("pin", two, "by pin", code=0)
    before = ledger(casrewind)
    for label, owner in (("by save", three), ("by pin", two)):
        found = casrewind("pin", one, label, code=64)
        assert repr(label) in found.err and owner in found.err
    assert ledger(casrewind) == before
    assert (named(casrewind, "by save"), named(casrewind, "by pin")) == (three, two)


def test_a_label_of_an_older_checkpoint_names_the_newer_one_from_then_on(casrewind, root):
    one = saved(casrewind, root, b"1", "-m", "by save")
    two = saved(casrewind, root, b"2")
    three = saved(casrewind, root, b"3")
    casrewind("pin", two, "by pin", code=0)
    for label in ("by save", "by pin"):
        casrewind("pin", three, label, code=0)
        assert named(casrewind, label) == three
    assert [points(casrewind)[point]["label"] for point in (one, two)] == ["by save", "by pin"]
    assert (named(casrewind, "by save"), named(casrewind, "by pin")) == (one, three)


def test_a_label_that_would_hide_an_id_is_64_and_says_whose(casrewind, root):
    one, two = (saved(casrewind, root, b"%d" % n) for n in range(2))
    before = ledger(casrewind)
    for label in (one, one[:-1]):
        assert one in casrewind("pin", two, label, code=64).err
    assert ledger(casrewind) == before
    casrewind("pin", one, one, code=0)  # hides nothing
    assert named(casrewind, one) == one


def test_one_that_shares_its_label_already_can_still_be_pinned_under_it(casrewind, root):
    one, two = (saved(casrewind, root, b"%d" % n, "-m", "twice") for n in range(2))
    casrewind("pin", one, "twice", code=0)
    casrewind("pin", two, "another", code=0)
    assert named(casrewind, "twice") == one


def test_references_that_name_nothing_are_15_and_change_nothing(casrewind, root):
    for n in range(2):
        saved(casrewind, root, b"%d" % n)
    before = ledger(casrewind)
    for command in ("pin", "unpin"):
        assert "casrewind list" in casrewind(command, "nope", code=15).err
        assert "no turn '3'" in casrewind(command, "3", code=15).err
        casrewind(command, "", code=15)
    assert ledger(casrewind) == before


def test_without_a_store_it_is_10_and_makes_none(casrewind, home):
    for command in (("pin", "last"), ("unpin", "last")):
        assert "casrewind save" in casrewind(*command, code=10).err
    assert not (home / "data").exists()


def test_arguments_that_do_not_fit_are_64(casrewind, root):
    saved(casrewind, root, b"1")
    for command in (("pin",), ("unpin",), ("pin", "last", "a", "b"), ("unpin", "last", "a")):
        casrewind(*command, code=64)


def test_safety_checkpoints_can_be_pinned_by_id(casrewind, root):
    saved(casrewind, root, b"1")
    plant(root, {"f": b"2"})
    safety = casrewind.json("restore", "last", "--yes")["safety"]
    casrewind("pin", safety, "what was there", code=0)
    found = points(casrewind, "--all")[safety]
    assert (found["trigger"], found["pinned"], found["label"]) == ("safety", True, "what was there")
    assert named(casrewind, "what was there") == safety
    casrewind("unpin", safety, code=0)
    assert points(casrewind, "--all")[safety]["pinned"] is False


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_another_worktrees_checkpoint_can_be_pinned_by_id_and_each_may_have_its_own_of_a_label(casrewind, root, home):
    identity = [item for key in ("AUTHOR", "COMMITTER") for item in ((f"GIT_{key}_NAME", "a"), (f"GIT_{key}_EMAIL", "a@b"))]
    other = root.parent / "linked"
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(other)]):
        subprocess.run(["git", *command], cwd=root, env={**os.environ, **dict(identity)}, check=True, capture_output=True)
    here, there = casrewind, InProcess(other, home)
    mine, its = saved(here, root, b"mine"), saved(there, other, b"its")
    here("pin", its, "shared", code=0)
    assert points(there)[its]["pinned"] is True
    assert named(here, "shared") == its
    here("pin", mine, "shared", code=0)
    assert (named(here, "shared"), named(there, "shared")) == (mine, its)


def test_without_its_index_the_store_tells_the_same(casrewind, root):
    ids = [saved(casrewind, root, b"%d" % n, *(("-m", "made with") if n == 1 else ())) for n in range(5)]
    plant(root, {"f": b"x"})
    safety = casrewind.json("restore", casrewind.row(3), "--yes")["safety"]
    for command in (
        ("pin", ids[0]), ("pin", ids[1], "named later"), ("unpin", ids[0]), ("pin", ids[2], "a:b"), ("pin", ids[2], "ü"),
        ("pin", safety, "s"), ("unpin", ids[2]), ("unpin", safety), ("pin", ids[4]),
    ):  # fmt: skip
        casrewind(*command, code=0)
    before = casrewind("list", "--all", "--json", code=0).out
    shutil.rmtree(os.path.join(casrewind.json("status")["store"], "index"))
    assert casrewind("list", "--all", "--json", code=0).out == before
    assert [p["label"] for p in casrewind.json("list")["checkpoints"]] == [None, None, "ü", "named later", None]


def test_gc_keeps_what_is_pinned_and_lets_go_of_what_was_unpinned(casrewind, root):
    ids = [saved(casrewind, root, b"%d" % n) for n in range(5)]
    for one in ids[:3]:
        casrewind("pin", one, code=0)
    casrewind("unpin", ids[1], code=0)
    casrewind("gc", "--max-count", "1", code=0)
    assert set(points(casrewind)) == {ids[0], ids[2], ids[4]}
    casrewind("restore", ids[0], "--yes", code=0)
    assert (root / "f").read_bytes() == b"0"


def test_gc_lets_go_of_a_labelled_checkpoint_that_was_unpinned_until_it_is_pinned_again(casrewind, root):
    ids = [saved(casrewind, root, b"%d" % n, "-m", f"label {n}") for n in range(4)]
    casrewind("unpin", ids[0], code=0)
    casrewind("unpin", ids[1], code=0)
    casrewind("pin", ids[1], code=0)
    before = casrewind("list", "--json", code=0).out
    shutil.rmtree(os.path.join(casrewind.json("status")["store"], "index"))
    assert casrewind("list", "--json", code=0).out == before
    casrewind("gc", "--max-count", "1", code=0)
    assert set(points(casrewind)) == {ids[1], ids[2], ids[3]}


def test_a_checkpoint_that_gc_forgot_meanwhile_is_not_said_to_be_pinned(workspace, root):
    made = []
    for n in range(3):
        plant(root, {"f": b"%d" % n})
        made.append(workspace.save().checkpoint)
    workspace.gc(Limits(max_age=None, max_count=1))
    book = Path(workspace.store_path) / "ledger"
    before = book.read_bytes()
    for work in (workspace.pin, workspace.unpin, lambda point: workspace.pin(point, "x")):
        with pytest.raises(errors.CheckpointNotFound, match="forgotten"):
            work(made[0])
    assert book.read_bytes() == before


def test_the_python_doors(workspace, root):
    plant(root, {"f": b"1"})
    point = workspace.save().checkpoint
    done = workspace.pin(point, "named")
    assert (done.checkpoint.id, done.marked.pinned, done.label, done.before, done.changed) == (point.id, True, "named", "", True)
    assert workspace.marks(point.id) == done.marked
    assert workspace.pin(point).changed is False
    with pytest.raises(errors.UsageError):
        workspace.pin(point, "")
    back = workspace.unpin(workspace.checkpoint("named"))
    assert (back.marked, back.label, back.changed) == (Marked(pinned=False, label="named", released=True), "named", True)
    assert workspace.marks(point.id) == back.marked
    assert workspace.unpin(point).changed is False
