"""take as a person meets it: the plan, the question, the result, the rows of list, and what a wrong DIR says."""

import os
import re
import shutil
import subprocess

import pytest

from casrewind import errors
from casrewind.workspace import open as opened
from support import unprivileged
from support.agent_turns import AgentTurns
from support.terminal_in_process import on_terminal
from support.trees import plant

LINES = [b"line %d\n" % number for number in range(1, 10)]


def text(**changed):
    """The lines, some of them replaced: text(l3=b"new")."""
    return b"".join(changed[f"l{number}"] + b"\n" if f"l{number}" in changed else line for number, line in enumerate(LINES, 1))


@pytest.fixture
def tried(casrewind, root, settings, tmp_path):
    """../try1 was made from before @1, and changed. Here @1 and a person changed files, too."""
    plant(root, {"a.py": text(), "till.py": text(), "notes.md": text(), "prices.csv": b"1\n", "old.py": b"o\n"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.prompt("p", "rename one")
        plant(root, {"a.py": text(l1=b"one")})
        agent.stop("p")
    made = tmp_path / "try1"
    casrewind("restore", "@1", "--to", "../try1", code=0)
    plant(made, {"a.py": text(l5=b"five", l7=b"seven"), "till.py": text(l1=b"one"), "notes.md": text(l3=b"theirs"), "new.py": b"n\n", "big/a": b"1" * 3000, "big/b": b"2"})
    (made / "old.py").unlink()
    plant(root, {"till.py": text(l5=b"mine"), "notes.md": text(l3=b"mine")})
    return made


def without_colours(shown):
    return re.sub("\x1b\\[[0-9;]*m", "", shown).replace("\r\n", "\n")


PLAN = [
    "take ../try1: 5 written (2 merged with later edits), 1 REMOVED",
    "  takes over only what changed there since @1; edits here stay",
    "  - old.py",
    "  ~ a.py (60 B -> 57 B)  merged: 2 places taken over, 1 line of @1 kept",
    "  + big/ (2 files, 2.9 KiB)",
    "  + new.py (2 B)",
    "  ~ till.py (61 B -> 58 B)  merged: 1 place taken over, 1 line of yours kept",
    "  left alone: notes.md: line 3 was edited since by you, and in ../try1",
]


def test_the_plan_has_removals_first_and_conflicts_last_and_no_changes_nothing(tried, casrewind, root):
    shown = without_colours(on_terminal(casrewind, ["take", "../try1"], typed="n\n").out)
    assert [line for line in shown.splitlines() if line.startswith(("  ", "take ../try1:"))][: len(PLAN)] == PLAN
    assert "nothing was changed" in shown and (root / "old.py").exists()


def test_the_result_says_how_to_go_back_and_list_has_a_row(tried, casrewind, root):
    done = casrewind("take", "../try1", "-y", code=3)
    assert re.fullmatch(
        r"taken from \.\./try1\n  5 paths written \(2 merged with later edits\), 1 removed, 0 unchanged\n"
        r"  the agent will be told \(hooks.tell_agent\)\n  casrewind undo takes this back\n", done.out
    )
    assert done.err == PLAN[-1] + "\n"
    assert (root / "a.py").read_bytes() == text(l1=b"one", l5=b"five", l7=b"seven")
    assert "taken from try1" in casrewind("list", code=0).out
    again = casrewind("take", "../try1", "a.py", "-y", code=0).out
    assert again == "nothing to do: the worktree has it already (1 path unchanged)\n  asked for: take from ../try1\n"
    assert f"what was taken from {tried.name} (" in casrewind("undo", "--list", code=0).out
    assert f"undone: what was taken from {tried.name} (" in casrewind("undo", "-y", code=0).out
    assert (root / "a.py").read_bytes() == text(l1=b"one") and (root / "old.py").exists()
    shown = casrewind("list", code=0).out
    assert "undone: taken from try1" in shown


def test_a_dry_run_has_the_lines_of_the_plan(tried, casrewind):
    done = casrewind("take", "../try1", "-n", code=3)
    assert done.out.splitlines() == ["take ../try1:", PLAN[1], "would take 5 paths and remove 1", *PLAN[2:-1]]
    assert done.err == PLAN[-1] + "\n"


def test_json_has_the_shape_of_a_revert_and_the_directory(tried, casrewind):
    found = casrewind.json("take", "../try1", "-n", code=3)
    how = {change["path"]: (change["how"], change["merged"]) for change in found["changes"]}
    assert how["a.py"] == ("merged", {"taken": 2, "kept": 1, "conflicts": 0}) and how["new.py"] == ("written", None)
    assert how["old.py"] == ("removed", None) and (found["directory"], found["turn"], found["dry_run"]) == (str(tried), 1, True)
    assert [(item["path"], item["why"], item["lines"], item["by"]) for item in found["skipped"]] == [("notes.md", "conflict", [[3, 3]], [])]


def test_paths_and_patterns_are_those_of_the_project_and_new_files_match(tried, casrewind, root):
    plant(root, {"sub/here": b"1\n"})
    plant(tried, {"sub/there.py": b"1\n"})
    planned = casrewind("-C", str(root / "sub"), "take", "../../try1", "there.py", "-n", "--json", code=0).json
    assert [change["path"] for change in planned["changes"]] == ["sub/there.py"]
    planned = casrewind.json("take", "../try1", "-n", "--", "n*.py", ":!old.py", code=0)
    assert [change["path"] for change in planned["changes"]] == ["new.py"]
    wrong = casrewind("take", "../try1", "prices.csv", "-y", code=15).err
    assert wrong == "casrewind: nothing changed in ../try1 at prices.csv; casrewind take ../try1 --dry-run lists what changed\n"


def test_what_was_not_made_by_restore_to_is_15_and_says_what_to_do(tried, casrewind, tmp_path):
    (tmp_path / "other").mkdir()
    said = casrewind("take", "../other", "-y", code=15).err
    assert said == (
        "casrewind: nothing on ../other says which checkpoint it was made from: restore --to did not finish there, or it is a plain copy; "
        "if you know the checkpoint: casrewind take ../other --base REF; to compare by hand: git diff --no-index ../other .\n"
    )
    assert casrewind("take", "../none", "-y", code=15).err.startswith("casrewind: ../none is not a directory; ")
    (tried / "sub").mkdir()
    assert casrewind("take", "../try1/sub", "-y", code=15).err.endswith(f"; casrewind take {tried} sub\n")
    assert casrewind("take", ".", "-y", code=15).err.startswith("casrewind: nothing on . says which checkpoint")
    casrewind("take", "-y", code=64)


def test_a_directory_that_was_moved_or_copied_with_its_attributes_is_known(tried, casrewind, root, tmp_path):
    """Two directories with one id were made from the same checkpoint: what each of them changed since comes from it."""
    subprocess.run(["cp", "-a", str(tried), str(tmp_path / "copied")], check=True)
    subprocess.run(["cp", "-r", str(tried), str(tmp_path / "plain")], check=True)
    tried.rename(tmp_path / "moved")
    plant(tmp_path / "copied", {"prices.csv": b"2\n"})
    assert "1 REMOVED" in without_colours(on_terminal(casrewind, ["take", "../moved"], typed="n\n").out)
    casrewind("take", "../copied", "prices.csv", "-y", code=0)
    assert (root / "prices.csv").read_bytes() == b"2\n"
    if hasattr(os, "getxattr") and "user.casrewind.origin" in os.listxattr(tmp_path / "moved"):
        casrewind("take", "../plain", "-y", code=15)
        packed = subprocess.run(["tar", "-C", str(tmp_path), "-c", "moved"], check=True, capture_output=True).stdout
        (tmp_path / "unpacked").mkdir()
        subprocess.run(["tar", "-C", str(tmp_path / "unpacked"), "-x"], input=packed, check=True)
        casrewind("take", "../unpacked/moved", "-y", code=15)
        casrewind("take", "../unpacked/moved", "--base", "@1", "-n", code=3)


def test_what_a_person_knows_of_a_directory_is_believed_and_its_plan_has_removals_first(tried, casrewind, root, tmp_path):
    subprocess.run(["cp", "-r", str(tried), str(tmp_path / "try2")], check=True)
    shutil.rmtree(tmp_path / "try2" / ".casrewind-origin", ignore_errors=True)
    assert "--base REF" in casrewind("take", "../try2", "-y", code=15).err
    plan = [line.replace("../try1", "../try2") for line in PLAN]
    shown = without_colours(on_terminal(casrewind, ["take", "../try2", "--base", "@1"], typed="n\n").out)
    assert [line for line in shown.splitlines() if line.startswith(("  ", "take ../try2:"))][: len(plan)] == plan
    casrewind("take", "../try2", "--base", "@1", "-y", code=3)
    assert (root / "a.py").read_bytes() == text(l1=b"one", l5=b"five", l7=b"seven") and not (root / "old.py").exists()
    casrewind("undo", "-y", code=0)
    assert (root / "old.py").exists()
    assert "no checkpoint" in casrewind("take", "../try2", "--base", "nothing", "-y", code=15).err
    assert "is not a directory" in casrewind("take", "../none", "--base", "@1", "-y", code=15).err
    for around in (".", "..", "../project"):
        assert "is the project, or has it in it" in casrewind("take", around, "--base", "@1", "-y", code=14).err


def test_the_api_takes_a_base(tried, root, settings, tmp_path):
    with opened(root, settings) as workspace:
        point = workspace.checkpoint("@1")
        for copied in (tmp_path / "try2", tmp_path / "try3"):
            subprocess.run(["cp", "-r", str(tried), str(copied)], check=True)
            shutil.rmtree(copied / ".casrewind-origin", ignore_errors=True)
        with pytest.raises(errors.CheckpointNotFound):
            workspace.take(tmp_path / "try2")
        planned = [workspace.take(tmp_path / "try2", base=base, dry_run=True) for base in ("@1", point)]
        assert [action.path for action in planned[0].actions] == [action.path for action in planned[1].actions] != []


def test_nothing_to_do_and_no_terminal(casrewind, root, tried, tmp_path):
    casrewind("restore", "last", "--to", "../same", code=0)
    assert casrewind("take", "../same", "-y", code=0).out.startswith("nothing to do: nothing changed there since it was made\n")
    assert "take asks before it changes files, and there is no terminal; add --yes" in casrewind("take", "../try1", code=64).err


def test_a_real_git_worktree_is_a_directory_to_take_from(casrewind, root, tmp_path):
    """As the page of restore --to shows it: git makes the worktree, casrewind the files."""

    def git(*words, at=root):
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
        return subprocess.run(["git", *who, *words], cwd=at, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    plant(root, {"a.py": text(), "b.py": b"b\n"})
    git("add", ".")
    git("commit", "-qm", "one")
    casrewind("save", code=0)
    git("worktree", "add", "-q", "--detach", "--no-checkout", "../try1")
    casrewind("restore", "last", "--to", "../try1", code=0)
    git("reset", "-q", at=tmp_path / "try1")
    assert git("status", "--porcelain", at=tmp_path / "try1") == ""
    plant(tmp_path / "try1", {"a.py": text(l1=b"there")})
    git("commit", "-qam", "two", at=tmp_path / "try1")
    before = git("rev-parse", "HEAD") + git("worktree", "list")
    casrewind("take", "../try1", "-y", code=0)
    assert (root / "a.py").read_bytes() == text(l1=b"there") and git("status", "--porcelain") == " M a.py\n"
    assert git("rev-parse", "HEAD") + git("worktree", "list") == before and (tmp_path / "try1/.git").is_file()


@pytest.fixture
def user():
    """The command run by a user who is not root."""
    from support.command import Command

    unprivileged.require()
    with unprivileged.open_directory() as base:
        for place in (base / "project", base / "home"):
            place.mkdir()
        plant(base / "project", {"a": b"1\n", "closed/in": b"1\n", "secret": b"1\n", "rules/x": b"1\n"})
        unprivileged.give(base)
        command = Command(base / "project", base / "home")

        def run(*words, **more):
            return command(*words, prefix=unprivileged.PREFIX, **more)

        run.root, run.made = base / "project", base / "try1"
        yield run


def test_what_cannot_be_read_there_is_unknown_and_never_removed_here(user):
    user("save", code=0)
    user("restore", "last", "--to", "../try1", code=0)
    plant(user.made, {"a": b"2\n", "fresh": b"1\n", "rules/.gitignore": b"y\n", "rules/y": b"1\n", "rules/x": b"2\n"})
    unprivileged.give(user.made)
    for name in ("closed", "secret", "fresh", "rules/.gitignore"):
        (user.made / name).chmod(0)
    done = user("take", "../try1", "-y", code=3)
    assert sorted(line.strip() for line in done.err.splitlines()) == [
        "left alone: closed: unreadable in ../try1",
        "left alone: fresh: unreadable in ../try1",
        "left alone: rules/.gitignore: unreadable in ../try1",
        "left alone: rules/x: unreadable ignore rules in ../try1",
        "left alone: rules/y: unreadable ignore rules in ../try1",
        "left alone: secret: unreadable in ../try1",
    ]
    assert (user.root / "a").read_bytes() == b"2\n" and (user.root / "closed/in").exists() and (user.root / "secret").exists()
    assert (user.root / "rules/x").read_bytes() == b"1\n" and not (user.root / "rules/y").exists()


def test_what_was_taken_counts_as_a_persons_edit_in_a_later_restore(tried, casrewind, root):
    casrewind("take", "../try1", "a.py", "new.py", "-y", code=0)
    plan = casrewind("restore", "@1", "-n", code=0).out
    assert "  4 of these paths were edited since then, outside of a turn. Those edits will be lost:\n    a.py, new.py, notes.md and 1 more\n" in plan
    casrewind("restore", "@1", "--keep-edits", "-y", code=0)
    assert (root / "a.py").read_bytes() == text(l5=b"five", l7=b"seven") and (root / "new.py").exists()
    casrewind("undo", "-y", code=0)
    plan = casrewind("revert", "@1", "-n", code=0).out
    assert "  ~ a.py  merged: 1 place taken back, 2 lines of yours kept\n" in plan
