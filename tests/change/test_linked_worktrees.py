"""A linked worktree inside a checkout: no verb in the checkout changes it, and no verb in it changes the checkout."""

import os
import shutil

import pytest

from casrewind.worktree import linked_worktrees, protected_places, scan_policy
from casrewind.worktree.apply import Applier
from support.command_in_process import InProcess
from support.git_repository import add_worktree, git, make_repository
from support.picture import differences, picture
from support.trees import plant

W1 = ".claude/worktrees/w1"
LEFT = f"left alone: {W1}: another worktree, with its own root"


@pytest.fixture
def checkout(root):
    plant(root, {"app.py": b"one\n", "src/main.py": b"main\n"})
    return make_repository(root)


def without(pictured, *left):
    """A picture without these directories and all that is in them, and without times."""
    inside = tuple(os.fsencode(path) + b"/" for path in left)
    return {path: entry for path, entry in pictured.items() if not (path + b"/").startswith(inside)}


@pytest.fixture
def as_earlier(monkeypatch):
    """Inside of it casrewind does what it did before it knew linked worktrees."""
    from contextlib import contextmanager

    @contextmanager
    def run():
        with monkeypatch.context() as patched:
            for module in (linked_worktrees, scan_policy):
                patched.setattr(module, "find_inside", lambda root: ())
            yield

    return run


@pytest.mark.parametrize("is_ignored", [False, True])
def test_verbs_in_one_touch_no_path_of_the_other(casrewind, checkout, home, is_ignored):
    if is_ignored:
        plant(checkout, {".gitignore": b"/.claude/worktrees/\n"})
    casrewind("save", "-m", "base", code=0)
    place = add_worktree(checkout)
    inner = InProcess(place, home)
    inner("save", "-m", "inner base", code=0)
    plant(checkout, {"app.py": b"two\n", "new.py": b"x"})
    plant(place, {"app.py": b"other\n", "src/w1.py": b"only there\n"})
    casrewind("save", "-m", "outer work", code=0)
    inner("save", "-m", "inner work", code=0)

    def touches_nothing_in(other, left, run, *words):
        before = without(picture(other), *left)
        run(*words, code=0)
        assert differences(before, without(picture(other), *left)) == {}

    for words in (("restore", "base", "-y"), ("undo", "-y"), ("redo", "-y"), ("gc",), ("status",)):
        touches_nothing_in(place, (), casrewind, *words)
    assert (checkout / "app.py").read_text() == "one\n"
    assert not (checkout / "new.py").exists()
    for words in (("restore", "inner base", "-y"), ("undo", "-y"), ("redo", "-y"), ("gc",), ("status",)):
        touches_nothing_in(checkout, (W1,), inner, *words)
    assert not (place / "src/w1.py").exists()
    touches_nothing_in(place, (), casrewind, "restore", "outer work", "-y")
    touches_nothing_in(place, (), casrewind, "restore", "outer work", "--to", str(checkout.parent / "try"))
    assert not (checkout.parent / "try" / ".claude" / "worktrees" / "w1").exists()
    plant(checkout.parent / "try", {"app.py": b"three\n"})
    touches_nothing_in(place, (), casrewind, "take", str(checkout.parent / "try"), "-y")
    assert (checkout / "app.py").read_text() == "three\n"


def test_a_restore_to_before_the_worktree_says_nothing_of_it_and_removes_nothing(casrewind, checkout):
    """The directories above it are those of the first worktree: they stay as long as it is there."""
    casrewind("save", "-m", "base", code=0)
    place = add_worktree(checkout)
    plant(checkout, {"new.py": b"x", ".claude/settings.json": b"{}"})
    before = picture(place)
    done = casrewind.json("restore", "base", "-y")
    assert (done["skipped"], done["removed"], done["exact"]) == ([], 2, True)
    assert differences(before, picture(place)) == {}
    assert not (checkout / ".claude/settings.json").exists()
    assert casrewind.json("restore", "base", "-n")["removed"] == 0


# -- what an earlier version captured


@pytest.fixture
def captured(casrewind, checkout, as_earlier):
    """A checkpoint of an earlier version, with the worktree in it as it was then."""
    place = add_worktree(checkout)
    plant(place, {"old.py": b"old\n"})
    with as_earlier():
        casrewind("save", "-m", "captured", code=0)
    plant(checkout, {"app.py": b"two\n"})
    plant(place, {"app.py": b"other\n", "new.py": b"new\n"})
    (place / "old.py").unlink()
    return place


def test_a_live_worktree_is_not_changed_by_a_restore_to_an_older_checkpoint(casrewind, checkout, captured):
    before = picture(captured)
    planned = casrewind("restore", "captured", "-n", code=3)
    assert LEFT in planned.err
    assert "w1" not in planned.out
    assert LEFT in casrewind("restore", "captured", "-y", code=3).err
    assert differences(before, picture(captured)) == {}
    assert (checkout / "app.py").read_text() == "one\n"


def test_a_worktree_that_is_no_longer_captured_did_not_lose_its_files(casrewind, captured):
    """Not captured is not absent: nothing says that the files were removed."""
    saved = casrewind.json("save", "-m", "now")
    assert [skip["path"] for skip in saved["skipped"]] == [W1]
    shown = casrewind("diff", "captured", "now").out
    assert f"- {W1}" not in shown
    assert "old.py" not in shown.split("not known")[0]


def test_paths_of_a_worktree_that_are_named_come_back_where_nothing_is(casrewind, captured):
    casrewind("restore", "captured", "-y", "--", f"{W1}/old.py", code=0)
    assert (captured / "old.py").read_bytes() == b"old\n"
    done = casrewind("restore", "captured", "-y", "--", f"{W1}/app.py", code=3)
    assert LEFT in done.err
    assert done.out.startswith("nothing was restored\n")
    assert (captured / "app.py").read_bytes() == b"other\n"
    (captured / "old.py").unlink()
    shutil.rmtree(captured / "src")
    casrewind("restore", "captured", "-y", "--", W1, code=3)
    assert (captured / "app.py").read_bytes() == b"other\n"
    assert (captured / "new.py").exists()
    assert {(captured / path).read_bytes() for path in ("old.py", "src/main.py")} == {b"old\n", b"main\n"}


def test_a_directory_above_names_no_worktree(casrewind, captured):
    before = picture(captured)
    for scope in (".claude", "."):
        casrewind("restore", "captured", "-n", "--", scope, code=3)
        casrewind("restore", "captured", "-y", "--", scope)
    assert differences(before, picture(captured)) == {}


def test_undo_of_a_restore_of_an_earlier_version_changes_no_live_worktree(casrewind, checkout, captured, as_earlier):
    with as_earlier():
        casrewind("restore", "captured", "-y", code=0)
    assert (captured / "old.py").exists()
    plant(captured, {"since.py": b"since\n"})
    before = picture(captured)
    assert LEFT in casrewind("undo", "-y", code=3).err
    assert differences(before, picture(captured)) == {}
    assert (checkout / "app.py").read_text() == "two\n"


@pytest.mark.parametrize("way", ["--continue", "--abort"])
def test_the_journal_of_an_earlier_version_changes_no_live_worktree(casrewind, checkout, captured, as_earlier, way, monkeypatch):
    with as_earlier(), monkeypatch.context() as patched:
        patched.setattr(Applier, "carry_out_plan", lambda self: (_ for _ in ()).throw(OSError(5, "pulled out")))
        assert casrewind("restore", "captured", "-y").code != 0
    before = picture(captured)
    assert W1 in casrewind("restore", way).err
    assert differences(before, picture(captured)) == {}
    assert (checkout / "app.py").read_text() == {"--continue": "one\n", "--abort": "two\n"}[way]


def test_a_plan_that_is_carried_out_late_changes_no_worktree_that_came_meanwhile(casrewind, checkout, as_earlier, monkeypatch):
    """The person answers late: a directory that was captured when the plan was made is a worktree now."""
    place = add_worktree(checkout)
    with as_earlier():
        casrewind("save", "-m", "captured", code=0)
        plant(place, {"app.py": b"other\n", "new.py": b"x"})
        monkeypatch.setattr(protected_places.ProtectedPlaces, "split_off_protected", lambda self, actions: (actions, ()))
    before = picture(place)
    real = Applier.carry_out_plan
    with as_earlier(), monkeypatch.context() as patched:
        def late(self):
            with pytest.MonkeyPatch.context() as now:
                now.setattr(linked_worktrees, "find_inside", FIND)
                return real(self)

        patched.setattr(Applier, "carry_out_plan", late)
        assert W1 in casrewind("restore", "captured", "-y", code=3).err
    assert differences(before, picture(place)) == {}


FIND = linked_worktrees.find_inside


def test_a_worktree_that_is_gone_comes_back_from_a_checkpoint_that_has_it(casrewind, checkout, captured):
    git(checkout, "worktree", "remove", "--force", W1)
    casrewind("restore", "captured", "-y", code=0)
    assert (captured / "old.py").read_bytes() == b"old\n"


# -- what stays captured


def test_nested_repositories_and_submodules_stay_captured(casrewind, checkout, tmp_path, home):
    other = tmp_path / "library"
    plant(other, {"lib.py": b"lib\n"})
    make_repository(other)
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", other, "vendor/lib")
    git(tmp_path, "clone", "-q", other, checkout / "nested")
    InProcess(checkout / "nested", home)("save", code=0)
    casrewind("save", "-m", "base", code=0)
    plant(checkout, {"vendor/lib/lib.py": b"edited\n", "nested/lib.py": b"edited\n"})
    casrewind("restore", "base", "-y", code=0)
    assert [(checkout / path).read_bytes() for path in ("vendor/lib/lib.py", "nested/lib.py")] == [b"lib\n", b"lib\n"]


def test_why_names_a_linked_worktree(casrewind, checkout):
    add_worktree(checkout)
    assert "worktree with its own root" in casrewind("why", f"{W1}/app.py").out


def test_an_ignored_directory_of_worktrees_is_not_named_as_unprotected(casrewind, checkout):
    """Its worktrees are saved as roots of their own."""
    plant(checkout, {".gitignore": b"/.claude/\n/secrets/\n", "secrets/key": b"k"})
    add_worktree(checkout)
    casrewind("save", code=0)
    ignored = [each["path"] for each in casrewind.json("status")["ignored"]]
    assert ignored == ["secrets"]
    plant(checkout, {".claude/settings.local.json": b"{}"})
    assert {each["path"] for each in casrewind.json("status")["ignored"]} == {".claude", "secrets"}
