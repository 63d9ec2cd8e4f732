"""take brings the changes of a directory that restore --to wrote back into the worktree: a merge of each path."""

import os

import pytest

from casrewind import errors
from casrewind.model import digest
from casrewind.history.compare import comparison_of_plan
from casrewind.errors import Declined
from casrewind.workspace import open as opened
from support.packfile import flip_blob
from support.picture import picture
from support.trees import Dir, Link, plant

LINES = [b"line %d\n" % number for number in range(1, 10)]


def text(**changed):
    """The lines, some of them replaced: text(l3=b"new")."""
    return b"".join(changed[f"l{number}"] + b"\n" if f"l{number}" in changed else line for number, line in enumerate(LINES, 1))


@pytest.fixture
def tried(workspace, root, tmp_path):
    """A directory that was made from a checkpoint of the project."""
    plant(root, {
        "a.py": text(), "b.py": text(), "gone.py": b"g\n", "data.bin": b"\0one", "sub/c.py": text(), "tool": b"#!/bin/sh\n",
        "link": Link("a.py"), ".gitignore": b"*.log\n",
    })  # fmt: skip
    workspace.materialise(workspace.save().checkpoint, tmp_path / "try")
    return tmp_path / "try"


def reasons(report):
    return {item.path.decode(): item.reason for item in report.kept}


def test_each_kind_of_change_comes_and_undo_gives_every_byte_back(workspace, root, tried):
    plant(tried, {"a.py": text(l1=b"theirs"), "new/x.py": b"x\n", "empty": Dir(), "data.bin": b"\0two"})
    (tried / "gone.py").unlink()
    (tried / "tool").chmod(0o755)
    (tried / "link").unlink()
    (tried / "link").symlink_to("b.py")
    plant(root, {"a.py": text(l7=b"mine"), "mine.txt": b"m\n"})
    before = picture(root, mtimes=True)
    planned = workspace.take(tried, dry_run=True)
    assert picture(root, mtimes=True) == before
    done = workspace.take(tried)
    assert [action.path for action in planned.actions] == [action.path for action in done.actions]
    assert (root / "a.py").read_bytes() == text(l1=b"theirs", l7=b"mine") and (root / "new/x.py").read_bytes() == b"x\n"
    assert (root / "data.bin").read_bytes() == b"\0two" and (root / "empty").is_dir() and not (root / "gone.py").exists()
    assert os.access(root / "tool", os.X_OK) and os.readlink(root / "link") == "b.py" and (root / "mine.txt").exists()
    assert (done.op, done.kept, done.incomplete, done.taken_from) == ("take", (), False, str(tried))
    assert [(item.path, item.taken, item.kept, item.is_taken_over) for item in done.merged] == [(b"a.py", 1, 1, True)]
    workspace.undo()
    assert picture(root, mtimes=True) == before
    workspace.redo()
    assert (root / "a.py").read_bytes() == text(l1=b"theirs", l7=b"mine")


@pytest.mark.parametrize("is_edited", [False, True], ids=["moved", "moved and edited"])
def test_a_file_that_was_moved_there_to_a_name_that_is_left_alone_here_stays(workspace, root, tried, is_edited):
    """Its old name went, and its new one did not come: the file was at neither."""
    plant(root, {".gitignore": b"*.log\nnotes/\n", "taken.py": b"mine\n"})
    (tried / "notes").mkdir()
    os.rename(tried / "b.py", tried / "notes/b.py")
    os.rename(tried / "sub/c.py", tried / "taken.py")
    if is_edited:
        plant(tried, {"notes/b.py": text(l2=b"theirs"), "taken.py": text(l8=b"theirs")})
    before = picture(root)
    plan, done = workspace.take(tried, dry_run=True), workspace.take(tried)
    assert plan.kept == done.kept and {"b.py", "sub/c.py", "taken.py"} <= reasons(done).keys() and done.incomplete
    assert picture(root) == before, "nothing else changed there"


def test_conflicts_stay_as_they_are_and_say_who_did_what(workspace, root, tried):
    plant(tried, {"a.py": text(l3=b"theirs"), "b.py": text(l1=b"theirs"), "data.bin": b"\0two", "sub/c.py": text(l1=b"x"), "new": b"theirs\n"})
    (tried / "gone.py").unlink()
    plant(root, {"a.py": text(l3=b"mine"), "data.bin": b"\0three", "gone.py": b"mine\n", "new": b"mine\n"})
    (root / "b.py").unlink()
    before = picture(root)
    name = str(tried)
    done = workspace.take(tried, [b"a.py", b"b.py", b"data.bin", b"gone.py", b"new"])
    assert reasons(done) == {
        "a.py": f"line 3 was edited since by you, and in {name}",
        "b.py": f"removed here by you, and changed in {name}",
        "data.bin": f"edited here by you, and changed in {name} (binary)",
        "gone.py": f"edited here by you, and removed in {name}",
        "new": f"made here by you, and in {name}",
    }
    assert picture(root) == before and done.incomplete and not done.actions
    assert [item.path for item in workspace.take(tried).actions] == [b"sub/c.py"]


def test_what_either_side_ignores_is_not_touched(workspace, root, tried):
    plant(tried, {"note.log": b"ignored there\n", ".gitignore": b"*.log\nb.py\n", "b.py": text(l1=b"theirs"), "dist/app.js": b"1\n"})
    (tried / "sub/c.py").unlink()
    (tried / "sub/.gitignore").write_bytes(b"c.py\n")
    plant(root, {"sub2/.gitignore": b"", ".git/info/exclude": b"dist/\n"})
    done = workspace.take(tried)
    assert {item.path: (item.reason, item.benign, item.why) for item in done.kept} == {
        b"b.py": (f"ignored in {tried}", True, "not_captured"), b"sub/c.py": (f"ignored in {tried}", True, "not_captured"),
    }  # fmt: skip
    assert (root / "b.py").read_bytes() == text() and (root / "sub/c.py").exists() and not (root / "note.log").exists()
    assert (root / "dist/app.js").exists(), "the rules here were read when the workspace was opened"
    assert not done.incomplete and workspace.take(tried).actions == ()


def test_a_path_that_is_ignored_here_since_is_named(workspace, root, tried):
    (root / ".gitignore").write_bytes(b"*.log\ndist/\n")
    plant(tried, {"dist/a.js": b"1\n", "dist/b.js": b"1\n", "c.py": b"1\n"})
    done = workspace.take(tried)
    assert reasons(done) == {"dist": "ignored here"} and not done.incomplete
    assert (root / "c.py").exists() and not (root / "dist").exists()


def test_a_plan_that_is_declined_changes_nothing_and_a_file_that_changes_meanwhile_is_not_merged(workspace, root, tried):
    plant(tried, {"a.py": text(l1=b"theirs")})
    plant(root, {"a.py": text(l7=b"mine")})
    before = picture(root, mtimes=True)
    with pytest.raises(Declined):
        workspace.take(tried, confirm=lambda plan: False)
    assert picture(root, mtimes=True) == before
    done = workspace.take(tried, confirm=lambda plan: plant(root, {"a.py": text(l9=b"later")}) or True)
    assert reasons(done) == {"a.py": "it changed just now"} and not done.actions and not done.safety and done.incomplete
    assert (root / "a.py").read_bytes() == text(l9=b"later")


def test_what_was_damaged_when_the_directory_was_made_is_not_removed_here(workspace, root, tmp_path):
    plant(root, {"lost.py": b"soon damaged\n", "kept.py": b"k\n"})
    point = workspace.save().checkpoint
    flip_blob(workspace.store_path, digest.of(b"soon damaged\n"))
    assert len(workspace.materialise(point, tmp_path / "try", skip_damaged=True).kept) == 1
    plant(tmp_path / "try", {"kept.py": b"theirs\n"})
    done = workspace.take(tmp_path / "try")
    assert list(reasons(done)) == ["lost.py"] and "damaged in the store" in reasons(done)["lost.py"] and done.incomplete
    assert (root / "lost.py").read_bytes() == b"soon damaged\n" and (root / "kept.py").read_bytes() == b"theirs\n"


def test_what_was_damaged_when_the_directory_was_made_is_not_removed_here_when_it_is_mended(workspace, root, tmp_path):
    plant(root, {"lost.py": b"soon damaged\n", "gone.py": b"g\n", "kept.py": b"k\n"})
    point = workspace.save().checkpoint
    flip_blob(workspace.store_path, digest.of(b"soon damaged\n"))
    workspace.materialise(point, tmp_path / "try", skip_damaged=True)
    flip_blob(workspace.store_path, digest.of(b"soon damaged\n"))  # as a repair does that finds the bytes again
    workspace.materialise(point, tmp_path / "whole")
    (tmp_path / "try" / "gone.py").unlink()
    plant(tmp_path / "try", {"kept.py": b"theirs\n"})
    done = workspace.take(tmp_path / "try")
    assert reasons(done) == {name: f"not in {tmp_path / 'try'}, which was made without damaged files" for name in ("gone.py", "lost.py")}
    assert done.incomplete and (root / "lost.py").exists() and (root / "gone.py").exists() and (root / "kept.py").read_bytes() == b"theirs\n"
    assert [action.path for action in workspace.take(tmp_path / "try", base=point, dry_run=True).actions] == [b"gone.py", b"lost.py"]


def test_what_was_purged_is_not_taken_for_removed_there_nor_brought_back(workspace, root, tmp_path):
    plant(root, {"early": b"1\n", "late": b"2\n", "b": b"3\n"})
    point = workspace.save().checkpoint
    workspace.purge([b"early"])
    workspace.materialise(workspace.checkpoint(point.id), tmp_path / "try")
    workspace.purge([b"late"])
    plant(tmp_path / "try", {"b": b"theirs\n", "late": b"again\n"})
    done = workspace.take(tmp_path / "try")
    assert reasons(done) == {"late": "its content was purged"} and (root / "early").read_bytes() == b"1\n"
    assert (root / "late").read_bytes() == b"2\n" and (root / "b").read_bytes() == b"theirs\n"


def test_a_large_file_comes_whole(workspace, root, tried):
    data = os.urandom(9 << 20)
    plant(tried, {"big.bin": data})
    assert [action.path for action in workspace.take(tried, dry_run=True).actions] == [b"big.bin"]
    workspace.take(tried)
    assert (root / "big.bin").read_bytes() == data
    workspace.undo()
    workspace.redo()
    assert (root / "big.bin").read_bytes() == data


def test_a_file_over_the_limit_is_named(root, settings, tmp_path):
    plant(root, {"a": b"1\n"})
    with opened(root, settings._replace(max_file_size=1000)) as workspace:
        workspace.materialise(workspace.save().checkpoint, tmp_path / "try")
        plant(tmp_path / "try", {"a": b"2\n", "big": bytes(2000)})
        done = workspace.take(tmp_path / "try")
    assert reasons(done) == {"big": f"too large in {tmp_path / 'try'}"} and done.incomplete and (root / "a").read_bytes() == b"2\n"


def test_what_is_taken_is_new_to_a_build_here(workspace, root, tried):
    plant(tried, {"a.py": text(l1=b"theirs"), "new": b"n\n"})
    for name in ("a.py", "new"):
        os.utime(tried / name, (1_000_000_000, 1_000_000_000))
    plant(root, {"built": b"from a.py\n"})
    workspace.take(tried)
    assert all((root / name).stat().st_mtime >= (root / "built").stat().st_mtime for name in ("a.py", "new"))


def test_the_state_behind_a_take_is_saved(workspace, root, tried):
    plant(tried, {"a.py": text(l1=b"theirs")})
    workspace.take(tried)
    newest = workspace.checkpoints()[0][0]
    assert newest.label == f"after take from {tried}" and workspace.diff(newest).changes == ()


def test_a_directory_of_another_worktree_says_where_to_take_it(workspace, root, tried, settings, tmp_path):
    (tmp_path / "second").mkdir()
    with opened(tmp_path / "second", settings, store=workspace.store_path) as second:
        second.save()
        with pytest.raises(errors.CheckpointNotFound, match="was made from a checkpoint of") as found:
            second.take(tried)
    assert found.value.hint == f"casrewind -C {root} take {tried}"


def test_a_store_and_a_project_in_the_directory_do_not_matter(workspace, root, tried, settings):
    plant(tried, {"a.py": text(l1=b"theirs"), ".git/HEAD": b"ref: refs/heads/main\n", ".git/config": b""})
    with opened(tried, settings) as other:
        other.save("there")
    with opened(tried, settings, store=tried / "kept") as other:
        other.save("there")
    done = workspace.take(tried)
    assert [action.path for action in done.actions] == [b"a.py"] and not done.kept and not (root / "kept").exists()


def test_the_plan_is_what_happens_where_a_file_there_has_what_another_one_had(workspace, root, tried):
    (tried / "a.py").rename(tried / "moved.py")
    plant(tried, {"a.py": text(l1=b"theirs")})
    plant(root, {"a.py": text(l7=b"mine")})
    planned = workspace.take(tried, dry_run=True)
    done = workspace.take(tried)
    assert (planned.kept, [item.data for item in planned.merged]) == (done.kept, [text(l1=b"theirs", l7=b"mine")])
    assert (root / "a.py").read_bytes() == text(l1=b"theirs", l7=b"mine") and (root / "moved.py").read_bytes() == text()


def test_a_conflict_names_its_maker_where_a_file_there_has_what_another_one_had(workspace, root, tried):
    (tried / "a.py").rename(tried / "moved.py")
    plant(tried, {"a.py": text(l3=b"theirs")})
    plant(root, {"a.py": text(l3=b"mine")})
    planned, done = workspace.take(tried, dry_run=True), workspace.take(tried)
    assert planned.kept == done.kept and reasons(done)["a.py"] == f"line 3 was edited since by you, and in {tried}"


def test_a_conflict_names_its_maker_where_a_file_there_has_what_was_here_before(workspace, root, tried):
    plant(root, {"a.py": text(l7=b"mine 1")})
    workspace.save()
    plant(tried, {"copy.py": text(l7=b"mine 1"), "a.py": text(l3=b"theirs")})
    plant(root, {"a.py": text(l3=b"mine", l7=b"mine 1")})
    planned, done = workspace.take(tried, dry_run=True), workspace.take(tried)
    assert planned.kept == done.kept and reasons(done) == {"a.py": f"line 3 was edited since by you, and in {tried}"}


def test_the_lines_of_a_plan_are_shown_also_of_files_that_only_the_directory_has(workspace, root, tried):
    plant(tried, {"new.py": b"new\n", "a.py": text(l1=b"theirs"), ".casrewindignore": b"!/.env\n"})
    plant(root, {"a.py": text(l7=b"mine"), "b.py": text()})

    def shown(plan):
        found = comparison_of_plan(workspace._context, plan.actions, plan.merged, read=plan.read)
        return {change.path: found.new(change.path, change.new) for change in found.changes}

    expected = {b"new.py": b"new\n", b"a.py": text(l1=b"theirs", l7=b"mine"), b".casrewindignore": b"!/.env\n"}
    seen = []
    workspace.take(tried, confirm=lambda plan: seen.append(shown(plan)) or True)
    assert seen == [expected]
