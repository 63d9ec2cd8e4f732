"""The traps in which tools of this kind lose data: "not in the checkpoint" is not "was not there", ignored or skipped."""

import os
import shutil
import subprocess

import pytest

from casrewind import errors
from casrewind.workspace import Workspace
from support import unprivileged
from support.command import Command
from support.picture import differences, picture
from support.trees import Dir, Fifo, Link, plant

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another user, a mount")


def held(workspace, checkpoint):
    return dict(workspace.entries(checkpoint))


def stored(workspace, checkpoint, path):
    """The bytes that a checkpoint holds of a file, read by writing the checkpoint somewhere else."""
    elsewhere = workspace.root.path + "-" + checkpoint.id
    workspace.materialise(checkpoint, elsewhere)
    with open(os.path.join(elsewhere, path), "rb") as file:
        return file.read()


def reasons(report):
    return {item.path: item.reason for item in report.kept}


# -- ignore rules that are not what they were


def test_what_was_ignored_then_and_is_not_now_is_not_deleted(workspace, root):
    plant(root, {".gitignore": b"*.env\n", "local.env": b"secret", "a": b"1"})
    then = workspace.save().checkpoint
    plant(root, {".gitignore": b"", "a": b"2"})
    assert b"local.env" in held(workspace, workspace.save().checkpoint)
    report = workspace.restore(then)
    assert (root / "local.env").read_bytes() == b"secret"
    assert "ignored" in reasons(report)[b"local.env"]
    assert not report.incomplete
    assert (root / "a").read_bytes() == b"1"
    assert (root / ".gitignore").read_bytes() == b"*.env\n"


def test_what_was_captured_then_and_is_ignored_now_is_stored_before_it_is_overwritten(workspace, root):
    plant(root, {"a.log": b"old"})
    then = workspace.save().checkpoint
    plant(root, {".gitignore": b"*.log\n", "a.log": b"new, and in no checkpoint"})
    report = workspace.restore(then)
    assert (root / "a.log").read_bytes() == b"old"
    safety = workspace.checkpoint(report.safety)
    assert stored(workspace, safety, "a.log") == b"new, and in no checkpoint"
    workspace.undo()
    assert (root / "a.log").read_bytes() == b"new, and in no checkpoint"


def test_what_is_ignored_now_and_was_not_there_then_is_not_deleted(workspace, root):
    plant(root, {"a": b"1"})
    then = workspace.save().checkpoint
    plant(root, {".gitignore": b"*.log\n", "x.log": b"precious", "build.log/deep": b"too"})
    workspace.restore(then)
    assert (root / "x.log").read_bytes() == b"precious"
    assert (root / "build.log" / "deep").read_bytes() == b"too"
    assert not (root / ".gitignore").exists()


def test_a_gitignore_that_ignores_itself_and_is_gone_does_not_cost_the_directory(workspace, root):
    """Tools put such a file into their cache directories; once it is gone, everything there looks new."""
    plant(root, {"a": b"1", "cache/.gitignore": b"*\n", "cache/data": b"hours of work"})
    then = workspace.save().checkpoint
    assert [path for path in held(workspace, then) if path.startswith(b"cache/")] == []
    os.unlink(root / "cache" / ".gitignore")
    assert b"cache/data" in held(workspace, workspace.save().checkpoint)
    workspace.restore(then)
    assert (root / "cache" / "data").read_bytes() == b"hours of work"


def test_a_path_that_a_restore_made_under_a_directory_ignored_now_is_removed_by_undo(workspace, root):
    plant(root, {"out/made": b"1", "a": b"1"})
    then = workspace.save().checkpoint
    shutil.rmtree(root / "out")
    plant(root, {".gitignore": b"out/\n"})
    before = picture(root, mtimes=True)
    workspace.restore(then, (b"out",))
    assert (root / "out" / "made").read_bytes() == b"1"
    workspace.undo()
    assert picture(root, mtimes=True) == before


def test_a_gitignore_edited_in_place_is_seen_at_once(workspace, root):
    plant(root, {".gitignore": b"aaa\n", "aaa": b"1", "bbb": b"2", "d/.gitignore": b"ccc\n", "d/ccc": b"3", "d/ddd": b"4"})
    assert set(held(workspace, workspace.save().checkpoint)) == {b".gitignore", b"bbb", b"d", b"d/.gitignore", b"d/ddd"}
    for name, data in ((".gitignore", b"bbb\n"), ("d/.gitignore", b"ddd\n")):
        status = os.stat(root / name)
        with open(root / name, "r+b") as file:  # the same size, inode, and mtime
            file.write(data)
        os.utime(root / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert set(held(workspace, workspace.save().checkpoint)) == {b".gitignore", b"aaa", b"d", b"d/.gitignore", b"d/ccc"}


@pytest.mark.parametrize("where", ["info/exclude", "core.excludesFile", "core.ignoreCase"])
def test_rules_outside_the_tree_that_changed_since_delete_nothing(root, home, settings, where):
    plant(root, {".git/HEAD": b"", ".git/config": b"", ".gitignore": b"UPPER\n", "local.env": b"secret", "upper": b"kept"})
    config = home / ".gitconfig"
    if where == "info/exclude":
        plant(root, {".git/info/exclude": b"*.env\n"})
    elif where == "core.excludesFile":
        plant(home, {"excludes": b"*.env\n"})
        config.write_text("[core]\nexcludesFile = ~/excludes\n")
    else:
        config.write_text("[core]\nignoreCase = true\n")
    hidden = b"upper" if where == "core.ignoreCase" else b"local.env"
    with Workspace(str(root), settings, create=True) as workspace:
        then = workspace.save().checkpoint
        assert hidden not in held(workspace, then)
    if where == "info/exclude":
        os.unlink(root / ".git" / "info" / "exclude")
    else:
        config.write_text("")
    plant(root, {"new": b"made since"})
    with Workspace(str(root), settings, create=True) as workspace:
        assert hidden in held(workspace, workspace.save().checkpoint)
        report = workspace.restore(workspace.checkpoint(then.id))
    assert {action.path for action in report.actions} == {b"new"}
    assert hidden in reasons(report)
    assert (root / "local.env").read_bytes() == b"secret"
    assert (root / "upper").read_bytes() == b"kept"


def test_casrewindignore_opts_an_ignored_file_in_and_another_one_out(workspace, root):
    plant(root, {".gitignore": b".env\n", ".casrewindignore": b"!.env\nbig.bin\n", ".env": b"1", "big.bin": b"2"})
    assert set(held(workspace, workspace.save().checkpoint)) == {b".gitignore", b".casrewindignore", b".env"}


# -- what was skipped then


def restore_keeps(workspace, root, then, expected):
    """A restore to a checkpoint that skipped `expected` leaves that alone, whatever it is by now."""
    before = picture(root, mtimes=True, inodes=True)
    report = workspace.restore(then)
    assert expected in reasons(report), report
    assert not report.incomplete
    after = picture(root, mtimes=True, inodes=True)
    mine = [path for path in before if path == expected or path.startswith(expected + b"/")]
    assert mine
    assert {path: after.get(path) for path in mine} == {path: before[path] for path in mine}


def test_a_special_file_then_is_never_deleted(workspace, root):
    plant(root, {"a": b"1", "pipe": Fifo()})
    saved = workspace.save()
    assert [(skip.path, skip.reason) for skip in saved.skipped] == [(b"pipe", "special file")]
    os.unlink(root / "pipe")
    plant(root, {"pipe": b"a file by now", "a": b"2"})
    restore_keeps(workspace, root, saved.checkpoint, b"pipe")


def test_a_special_file_now_where_the_checkpoint_has_a_file_refuses_and_changes_nothing(casrewind, root):
    plant(root, {"a": b"1", "b": b"1"})
    then = casrewind.json("save")["checkpoint"]
    os.unlink(root / "a")
    plant(root, {"a": Fifo(), "b": b"2"})
    before = picture(root, mtimes=True, inodes=True)
    result = casrewind("restore", then, "-y", code=14)
    assert "a is a special file" in result.err
    assert picture(root, mtimes=True, inodes=True) == before


def small(settings, limit=1000):
    return settings._replace(max_file_size=limit)


def test_a_file_too_large_then_is_never_deleted(root, settings):
    plant(root, {"a": b"1", "big": b"x" * 2000})
    with Workspace(str(root), small(settings), create=True) as workspace:
        saved = workspace.save()
        assert [(skip.path, skip.reason) for skip in saved.skipped] == [(b"big", "too large")]
        plant(root, {"big": b"small by now", "a": b"2"})
        assert b"big" in held(workspace, workspace.save().checkpoint)
        restore_keeps(workspace, root, saved.checkpoint, b"big")


def test_a_file_larger_than_the_limit_then_is_not_deleted_because_the_limit_is_higher_now(root, settings):
    plant(root, {"a": b"1"})
    with Workspace(str(root), small(settings), create=True) as workspace:
        then = workspace.save().checkpoint
    plant(root, {"big": b"x" * 2000})
    with Workspace(str(root), settings, create=True) as workspace:
        assert b"big" in held(workspace, workspace.save().checkpoint)
        restore_keeps(workspace, root, workspace.checkpoint(then.id), b"big")


def test_a_file_that_grew_over_the_limit_is_stored_before_it_is_overwritten(root, settings):
    plant(root, {"grows": b"x" * 10})
    with Workspace(str(root), small(settings), create=True) as workspace:
        then = workspace.save().checkpoint
        plant(root, {"grows": b"y" * 5000})
        assert [skip.path for skip in workspace.save().skipped] == [b"grows"]
        before = picture(root, mtimes=True)
        report = workspace.restore(then)
        assert (root / "grows").read_bytes() == b"x" * 10
        assert stored(workspace, workspace.checkpoint(report.safety), "grows") == b"y" * 5000
        workspace.undo()
    assert picture(root, mtimes=True) == before


def test_a_project_file_may_lower_the_limit_but_not_raise_it(root, settings):
    limited = b'ignore = ["*.tmp"]\n[capture]\nmax_file_size = "1MiB"\n'
    plant(root, {"big": b"x" * ((1 << 20) + 1), ".casrewind.toml": limited, "t.tmp": b""})
    with Workspace(str(root), settings, create=True) as workspace:
        assert [(s.path, s.reason) for s in workspace.save().skipped] == [(b"big", "too large")]
        assert b"t.tmp" not in held(workspace, workspace.checkpoint("last"))
    plant(root, {".casrewind.toml": b'[capture]\nmax_file_size = "1TiB"\n'})
    with Workspace(str(root), small(settings), create=True) as workspace:
        assert [skip.path for skip in workspace.save().skipped] == [b"big"]


def test_what_could_not_be_read_then_is_never_deleted():
    unprivileged.require()
    with unprivileged.open_directory() as place:
        root, home = place / "project", place / "home"
        home.mkdir()
        plant(root, {"a": b"1", "private": b"bytes", "closed/inside": b"bytes", "rules/.gitignore": b"*.o\n", "rules/x.o": b"o"})
        unprivileged.give(place)
        os.chmod(root / "private", 0)
        os.chmod(root / "closed", 0)
        os.chmod(root / "rules" / ".gitignore", 0)
        casrewind = Command(root, home)
        saved = casrewind("save", "--json", code=3, prefix=unprivileged.PREFIX).json
        assert {(skip["path"], skip["reason"]) for skip in saved["skipped"]} == {
            ("private", "unreadable"), ("closed", "unreadable"),
            ("rules/.gitignore", "unreadable ignore rules"), ("rules/.gitignore", "unreadable"),
        }  # fmt: skip
        os.chmod(root / "private", 0o644)
        os.chmod(root / "closed", 0o755)
        os.chmod(root / "rules" / ".gitignore", 0o644)
        plant(root, {"rules/.gitignore": b"", "rules/y": b"made since", "new": b"made since"})
        unprivileged.give(root)
        before = picture(root, mtimes=True, inodes=True)
        casrewind("restore", saved["checkpoint"], "-y", code=0, prefix=unprivileged.PREFIX)
        after = picture(root, mtimes=True, inodes=True)
        assert set(differences(before, after)) == {b"new"}, "under a rule file that could not be read nothing is deleted"


@as_root
def test_another_file_system_then_is_never_deleted(workspace, root):
    plant(root, {"a": b"1", "mounted": Dir()})
    done = subprocess.run(["mount", "-t", "tmpfs", "casrewind-test", root / "mounted"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("cannot mount here: " + done.stderr.decode())
    try:
        plant(root, {"mounted/there": b"1"})
        saved = workspace.save()
        assert [(skip.path, skip.reason) for skip in saved.skipped] == [(b"mounted", "other file system")]
        assert not workspace.restore(saved.checkpoint).actions
        assert (root / "mounted" / "there").read_bytes() == b"1"
    finally:
        subprocess.run(["umount", root / "mounted"], check=True)
    plant(root, {"mounted/here": b"on the same device now", "a": b"2"})
    assert b"mounted/here" in held(workspace, workspace.save().checkpoint)
    restore_keeps(workspace, root, saved.checkpoint, b"mounted")


CACHEDIR = b"Signature: 8a477f597d28d172789f06886806bc55\n# made by a tool\n"


def test_directories_that_tools_make_again_are_skipped_shown_and_never_deleted(casrewind, root, settings):
    """Only where no .gitignore says what to keep."""
    plant(root, {"a.py": b"1", "node_modules/m/index.js": b"1", "sub/.venv/bin/python": Link("/usr/bin/python3"),
                 "tool/CACHEDIR.TAG": CACHEDIR, "tool/data": b"1", "venv/kept.py": b"1", "node_modules.txt": b"1"})  # fmt: skip
    saved = casrewind.json("save")
    skipped = {(skip["path"], skip["reason"]) for skip in saved["skipped"]}
    wanted = {("node_modules", "built-in exclude"), ("sub/.venv", "built-in exclude"), ("tool", "cache directory")}
    assert skipped == wanted
    for line in ("node_modules", "sub/.venv", "tool"):
        assert line in casrewind("save", "-m", "again", code=0).out
    assert {(skip["path"], skip["reason"]) for skip in casrewind.json("status")["skipped"]} == wanted
    assert {(skip["path"], skip["reason"]) for skip in casrewind.json("show", "last")["skipped"]} == wanted
    entries = {entry["path"] for entry in casrewind.json("show", "last")["entries"]}
    assert entries == {"a.py", "sub", "venv", "venv/kept.py", "node_modules.txt"}
    plant(root, {".gitignore": b"*.o\n"})  # from now on they are captured
    with Workspace(str(root), settings, create=True) as workspace:
        assert b"node_modules/m/index.js" in held(workspace, workspace.save().checkpoint)
        then = workspace.checkpoint(saved["checkpoint"])
        for place in (b"node_modules", b"sub/.venv", b"tool"):
            plant(root, {".gitignore": b"*.o\n"})
            restore_keeps(workspace, root, then, place)


def test_a_cache_tag_that_came_later_hides_nothing_that_was_captured(workspace, root):
    plant(root, {"tool/data": b"1", "a": b"1"})
    then = workspace.save().checkpoint
    plant(root, {"tool/CACHEDIR.TAG": CACHEDIR, "tool/data": b"2", "tool/more": b"3"})
    assert b"tool/data" not in held(workspace, workspace.save().checkpoint)
    before = picture(root, mtimes=True)
    workspace.restore(then)
    assert (root / "tool" / "data").read_bytes() == b"1"
    assert (root / "tool" / "more").read_bytes() == b"3"
    workspace.undo()
    assert picture(root, mtimes=True) == before


# -- what stands in the way


def test_a_directory_that_holds_ignored_files_is_not_removed(workspace, root):
    plant(root, {".gitignore": b"*.o\n", "a": b"1"})
    then = workspace.save().checkpoint
    plant(root, {"new/x.c": b"1", "new/x.o": b"object", "new/empty": Dir()})
    report = workspace.restore(then)
    assert picture(root / "new") == {b"x.o": picture(root / "new")[b"x.o"]}
    assert (root / "new" / "x.o").read_bytes() == b"object"
    assert b"new" in reasons(report)
    assert not report.incomplete


def test_a_directory_with_ignored_files_that_has_to_become_a_file_refuses_with_its_names(casrewind, root):
    plant(root, {".gitignore": b"*.o\n", "thing": b"a file", "a": b"1"})
    then = casrewind.json("save")["checkpoint"]
    os.unlink(root / "thing")
    plant(root, {"thing/x.c": b"1", "thing/x.o": b"object", "a": b"2"})
    before = picture(root, mtimes=True, inodes=True)
    for command in (("restore", then, "--dry-run"), ("restore", then, "-y"), ("restore", then, "-y", "--", "thing")):
        result = casrewind(*command, code=14)
        assert "thing/x.o" in result.err
        assert "thing has to become a file, but " in result.err
        assert "nothing was changed" in result.err
        assert picture(root, mtimes=True, inodes=True) == before
    assert casrewind.json("list", "--all")["checkpoints"][0]["id"] == then, "a refusal published something"
    casrewind("restore", then, "-y", "--", "a", code=0)
    assert (root / "a").read_bytes() == b"1"


def test_a_directory_whose_whole_content_is_stored_gives_way_to_a_file(workspace, root):
    plant(root, {"thing": b"a file"})
    then = workspace.save().checkpoint
    os.unlink(root / "thing")
    plant(root, {"thing/deep/er/x.c": b"1", "thing/l": Link("x"), "thing/empty": Dir(0o700)})
    before = picture(root, mtimes=True)
    workspace.restore(then)
    assert (root / "thing").read_bytes() == b"a file"
    workspace.undo()
    assert picture(root, mtimes=True) == before


def test_what_the_checkpoint_ignored_gives_way_where_it_had_a_file_because_nothing_could_be_under_that(workspace, root):
    plant(root, {".gitignore": b"*.o\n", "thing": b"a file"})
    then = workspace.save().checkpoint
    os.unlink(root / "thing")
    plant(root, {".gitignore": b"", "thing/x.o": b"captured by now"})
    before = picture(root, mtimes=True)
    report = workspace.restore(then)
    assert (root / "thing").read_bytes() == b"a file"
    assert stored(workspace, workspace.checkpoint(report.safety), "thing/x.o") == b"captured by now"
    workspace.undo()
    assert picture(root, mtimes=True) == before


def test_version_controls_own_files_stay_as_they_are_nested_ones_too(workspace, root):
    git = {f"{place}.git/{name}": b"x" + name.encode() for place in ("", "nested/", "module/deep/") for name in ("HEAD", "index")}
    plant(root, {**git, "nested/a": b"1", "module/deep/b": b"1", "worktree/.git": b"gitdir: /nowhere\n", "worktree/c": b"1",
                 "hg/.hg/store": b"1", "jj/.jj/op": b"1", "svn/.svn/wc.db": b"1"})  # fmt: skip
    then = workspace.save().checkpoint
    names = held(workspace, then)
    assert {b"nested/a", b"module/deep/b", b"worktree/c", b"hg", b"jj", b"svn"} <= set(names)
    assert not [path for path in names if {b".git", b".hg", b".jj", b".svn"} & set(path.split(b"/"))]
    before = {path: entry for path, entry in picture(root, mtimes=True, inodes=True).items() if b"/." in b"/" + path}
    plant(root, {"nested/a": b"2", "module/deep/b": b"2", "worktree/c": b"2", "late/.git/HEAD": b"made since", "late/d": b"1"})
    before |= {p: e for p, e in picture(root, mtimes=True, inodes=True).items() if p.startswith(b"late/.git")}
    for operation, content in ((lambda: workspace.restore(then), b"1"), (workspace.undo, b"2"), (workspace.redo, b"1")):
        operation()
        assert (root / "nested" / "a").read_bytes() == content
        assert (root / "late" / "d").exists() == (content == b"2")
        assert {p: e for p, e in picture(root, mtimes=True, inodes=True).items() if b"/." in b"/" + p} == before


def test_a_link_in_the_place_of_a_directory_leads_nowhere(workspace, root, tmp_path):
    plant(tmp_path / "outside", {"a": b"not yours", "b": b"not yours either"})
    plant(root, {"d/a": b"1"})
    then = workspace.save().checkpoint
    shutil.rmtree(root / "d")
    plant(root, {"d": Link(str(tmp_path / "outside"))})
    outside, before = picture(tmp_path / "outside", inodes=True), picture(root)
    workspace.restore(then)
    assert (root / "d" / "a").read_bytes() == b"1"
    assert not os.path.islink(root / "d")
    workspace.undo()
    assert picture(root) == before
    assert picture(tmp_path / "outside", inodes=True) == outside


def test_a_checkpoint_of_another_root_is_refused(workspace, root, tmp_path, settings):
    plant(tmp_path / "other", {"a": b"1"})
    with Workspace(str(tmp_path / "other"), settings, create=True) as other:
        foreign = other.save().checkpoint
    plant(root, {"a": b"2"})
    with pytest.raises(errors.RootRefused):
        workspace.restore(foreign)
    assert (root / "a").read_bytes() == b"2"
