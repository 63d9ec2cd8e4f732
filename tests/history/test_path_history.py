"""Log on real stores: each row against what the pictures of the worktree say, and how little is read for it."""

import os
import random
import shutil

import pytest

from casrewind import errors
from casrewind.model import manifest
from casrewind.model.retention import Limits
from casrewind.workspace import Workspace
from casrewind.workspace import open as opened
from support.packfile import flip_blob
from support.agent_turns import AgentTurns
from support.trees import Link, plant


def rows(workspace, path, *arguments, **options):
    """[(label, status)] of what log finds."""
    return [(row.checkpoint.label, row.change.status) for row in workspace.log(path, *arguments, **options).changes]


def saved(workspace, label):
    return workspace.save(label).checkpoint


@pytest.fixture
def told(workspace, root):
    """A workspace in whose checkpoints d/f was everything that a path can be."""
    plant(root, {"d/f": b"1", "g": b"g", "other/x": b"x"})
    saved(workspace, "first")
    plant(root, {"g": b"another g"})
    saved(workspace, "not f")
    plant(root, {"d/f": b"22"})
    saved(workspace, "bytes")
    os.chmod(root / "d/f", 0o700)
    saved(workspace, "mode")
    os.utime(root / "d/f", (1, 1))
    saved(workspace, "only touched")
    os.unlink(root / "d/f")
    plant(root, {"d/f": Link("../g")})
    saved(workspace, "link")
    os.unlink(root / "d/f")
    plant(root, {"d/f/below": b"b"})
    saved(workspace, "directory")
    shutil.rmtree(root / "d")
    saved(workspace, "gone")
    plant(root, {"d": b"a file where the directory was"})
    saved(workspace, "in its place")
    os.unlink(root / "d")
    plant(root, {"d/f": b"1"})
    saved(workspace, "again")
    return workspace


def test_every_way_of_changing_is_a_row_and_nothing_else_is(told):
    assert rows(told, b"d/f") == [
        ("again", "added"), ("gone", "removed"), ("directory", "type"), ("link", "type"), ("mode", "modified"),
        ("bytes", "modified"), ("first", "added"),
    ]  # fmt: skip
    assert rows(told, b"d/f/below") == [("gone", "removed"), ("directory", "added")]
    assert rows(told, b"other/x") == [("first", "added")]


def test_a_row_has_both_sides_and_the_checkpoint_before(told):
    found = {row.checkpoint.label: row for row in told.log(b"d/f").changes}
    was = found["bytes"]
    assert (was.change.path, was.change.old.size, was.change.new.size, was.before.label) == (b"d/f", 1, 2, "not f")
    assert (found["mode"].change.old.mode, found["mode"].change.new.mode) == (0o644, 0o700)
    assert found["first"].before is None and found["first"].reason == ""
    assert found["directory"].counts == (1, 1, 0)  # d/f itself became another thing, d/f/below came


def test_a_directory_changes_when_anything_under_it_does(told):
    assert rows(told, b"d") == [
        ("again", "type"), ("in its place", "added"), ("gone", "removed"), ("directory", "modified"), ("link", "modified"),
        ("mode", "modified"), ("bytes", "modified"), ("first", "added"),
    ]  # fmt: skip
    everything = [label for label, _ in rows(told, b"")]
    assert "only touched" not in everything and {"first", "not f", "gone", "again"} <= set(everything)
    top = {row.checkpoint.label: row.counts for row in told.log(b"").changes}
    assert top["not f"] == (0, 1, 0) and top["gone"] == (0, 0, 1) and top["first"] == (3, 0, 0)


def test_compare_gives_what_a_row_changed_and_its_bytes(told):
    logged = told.log(b"d")
    by_label = {row.checkpoint.label: row for row in logged.changes}
    found = logged.compare(by_label["bytes"])
    (change,) = found.changes
    assert change.path == b"d/f"
    assert (found.old(b"d/f", change.old), found.new(b"d/f", change.new)) == (b"1", b"22")
    gone = logged.compare(by_label["gone"]).changes
    assert [change.path for change in gone] == [b"d", b"d/f", b"d/f/below"]
    first = logged.compare(by_label["first"]).changes
    assert [(change.path, change.status) for change in first] == [(b"d", "added"), (b"d/f", "added")]


def test_only_the_newest_when_so_many_are_asked_for(told):
    assert rows(told, b"d/f", 2) == [("again", "added"), ("gone", "removed")]
    assert rows(told, b"d/f", 0) == []


def test_safety_checkpoints_count_only_when_asked_for(workspace, root):
    plant(root, {"f": b"1"})
    first = saved(workspace, "first")
    plant(root, {"f": b"nowhere else", "only there": b"x"})
    workspace.restore(first)
    saved(workspace, "after")
    assert rows(workspace, b"f") == [("first", "added")]
    assert [row.checkpoint.trigger for row in workspace.log(b"f", safety=True).changes] == ["manual", "safety", "manual"]
    with pytest.raises(errors.PathNotFound, match="only safety checkpoints ever held only there; casrewind log --all"):
        workspace.log(b"only there")
    assert len(workspace.log(b"only there", safety=True).changes) == 2


def test_a_removal_that_may_be_none_says_so(workspace, root):
    plant(root, {"f.log": b"1", "big": b"1", "gone": b"1"})
    saved(workspace, "first")
    plant(root, {".gitignore": b"*.log\n"})
    os.unlink(root / "gone")
    saved(workspace, "ignored")
    assert [row.reason for row in workspace.log(b"f.log").changes] == ["no longer captured: not known to the checkpoint: ignored by its rules", ""]
    assert [row.reason for row in workspace.log(b"gone").changes] == ["", ""]


def test_the_oldest_says_when_older_ones_were_forgotten(workspace, root):
    for number in range(4):
        plant(root, {"f": b"%d" % number, "same": b"s"})
        workspace.save()
    assert workspace.log(b"f").changes[-1].reason == ""
    workspace.gc(Limits(max_age=None, max_count=2))
    changes = workspace.log(b"f").changes
    assert len(changes) == 2 and changes[-1].reason == "checkpoints before it were forgotten"
    assert changes[0].reason == "" and workspace.log(b"same").changes[0].reason == changes[-1].reason


def test_the_timeline_is_that_of_this_worktree(workspace, root, settings, tmp_path):
    plant(root, {"f": b"1"})
    saved(workspace, "here")
    (tmp_path / "elsewhere").mkdir()
    plant(tmp_path / "elsewhere", {"f": b"2"})
    with opened(tmp_path / "elsewhere", settings._replace(store=workspace.store_path)) as other:
        other.save("there")
        assert rows(other, b"f") == [("there", "added")]
    assert rows(workspace, b"f") == [("here", "added")]


@pytest.mark.parametrize(
    ("asked", "near"),
    [(b"src/cli/parse.py", "src/cli/parser.py"), (b"parser.py", "src/cli/parser.py"), (b"srd/cli/main.py", "src"), (b"old/note", "old/notes")],
)
def test_an_unknown_path_names_the_nearest_that_is_known(workspace, root, asked, near):
    plant(root, {"src/cli/parser.py": b"p", "src/cli/main.py": b"m", "old/notes": b"n"})
    saved(workspace, "first")
    shutil.rmtree(root / "old")
    saved(workspace, "second")
    with pytest.raises(errors.PathNotFound, match=f"nearest known name is {near}, in c"):
        workspace.log(asked)


@pytest.mark.parametrize(("path", "why"), [("node_modules/m", "built-in exclude"), ("f.o", "ignored by its rules")])
def test_what_would_never_be_captured_says_why(workspace, root, path, why):
    plant(root, {"f": b"1", path: b"m", **({} if "/" in path else {".gitignore": b"*.o\n"})})
    saved(workspace, "first")
    with pytest.raises(errors.PathNotFound, match=f"the newest, would not have: {why}"):
        workspace.log(path.encode())


def test_without_checkpoints_and_with_a_path_that_cannot_be_one(workspace):
    with pytest.raises(errors.PathNotFound, match="casrewind save"):
        workspace.log(b"f")
    for bad in (b"../f", b"/f", b".git/config"):
        with pytest.raises(errors.UnsafePath):
            workspace.log(bad)
    with pytest.raises(TypeError):
        workspace.log("f")


def test_purged_paths_keep_their_rows(workspace, root):
    for number in range(3):
        plant(root, {"key": b"a secret of some length %d" % number})
        workspace.save()
    workspace.purge([b"key"])
    found = workspace.log(b"key").changes
    assert [(row.change.status, row.change.new.kind) for row in found] == [("added", "purged")]


def test_a_damaged_checkpoint_is_passed_over_and_named(workspace, root, settings):
    points = []
    for number in range(3):
        plant(root, {"d/f": b"%d" % number, "d/same": b"s", "e": b"e"})
        points.append(workspace.save().checkpoint)
    (tree,) = [entry.digest for path, entry in workspace.entries(points[1]) if path == b"d"]
    flip_blob(workspace.store_path, tree)
    with Workspace(str(root), settings, create=False) as again:
        found = again.log(b"d/f")
        assert [row.checkpoint.id for row in found.changes] == [points[2].id, points[0].id]
        assert found.changes[0].before.id == points[0].id and found.damaged == (points[1].id,)
        assert again.log(b"e").damaged == ()
        with pytest.raises(errors.StoreDamaged, match="1 are damaged"):
            again.log(b"d/nothing")


def test_one_entry_of_a_tree_is_what_decoding_all_of_it_gives():
    source = random.Random(4)

    def entry(number):
        content, chunks = source.randbytes(32), source.randbytes(32)
        made = [
            lambda: manifest.Entry(manifest.FILE, 0o644, 5, -1, content), lambda: manifest.Entry(manifest.FILE, 0o600, 5 << 20, 7, content, chunks=chunks),
            lambda: manifest.Entry(manifest.DIR, 0o755, digest=content), lambda: manifest.link_entry(source.randbytes(9).replace(b"\0", b"x")),
            lambda: manifest.Entry(manifest.PURGED, 0o644, 77),
        ]  # fmt: skip
        return made[number % 5]()

    for count in (0, 1, 40):
        tree = [(b"n%d" % number * (number % 9 + 1), entry(number)) for number in range(count)]
        data = manifest.encode_tree(tree)
        for name, found in tree:
            assert manifest.entry_or_node_in(data, name) == found
        assert manifest.entry_or_node_in(data, b"n") is None and manifest.entry_or_node_in(data, b"") is None
    with pytest.raises(errors.ManifestCorrupt):
        manifest.entry_or_node_in(data[:8] + b"\xff" + data[9:], b"n1")


def test_what_a_turn_removed_that_was_stopped_and_then_taken_back_is_told_with_its_turn(workspace, root, casrewind):
    """Its end is the safety checkpoint of the restore."""
    plant(root, {"a": b"1"})
    agent = AgentTurns(workspace, root)
    before = agent.prompt("one", "remove a")
    (root / "a").unlink()
    workspace.restore(before)
    agent.prompt("two", "go on")
    plant(root, {"b": b"2"})
    agent.stop("two")
    assert [(row.change.status, row.checkpoint.trigger) for row in workspace.log(b"a").changes] == [
        ("added", "prompt"), ("removed", "safety"), ("added", "prompt"),
    ]  # fmt: skip
    workspace.close()
    back, removed, made = casrewind("log", "a", code=0).out.splitlines()[1:]
    assert back.startswith("+") and "restored" in back
    assert removed.startswith("-") and "@2 remove a" in removed
    (listed,) = [line for line in casrewind("list", "--all", code=0).out.splitlines() if "before the restore to @2: remove a" in line]
    assert "@2" in listed.split()
