"""The private rules of include and exclude: they are in the store, count for the project and its linked worktrees, stay when the
project moves or goes back, and each checkpoint records them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind.model import domain as domains
from casrewind.history.restorable import Coverage
from casrewind.workspace import Workspace
from support.command import Command
from support.secret_search import hits
from support.trees import plant


@pytest.fixture
def project(casrewind, root):
    plant(root, {".gitignore": b".env\n*.key\n", ".env": b"SECRET=1", "app": b"1"})
    casrewind("save", "-m", "before", code=0)
    return root


def place_of(casrewind):
    return Path(casrewind.json("status")["private_rules"]["file"])


def newest(casrewind):
    return {entry["path"] for entry in casrewind.json("show", "last")["entries"]}


def test_a_restore_to_before_takes_no_private_rule_away(casrewind, project):
    casrewind("include", ".env", code=0)
    found = casrewind("restore", "before", "-y")
    assert "NOTE" not in found.err and (project / ".env").read_bytes() == b"SECRET=1" and place_of(casrewind).exists()
    plant(project, {".env": b"SECRET=2", "app": b"2"})
    casrewind("save", "-m", "after", code=0)
    plant(project, {".env": b"wrong"})
    casrewind("restore", "after", "-y", code=0)
    assert (project / ".env").read_bytes() == b"SECRET=2"


def test_nothing_is_written_into_the_project(casrewind, project):
    before = sorted(os.listdir(project))
    casrewind("include", ".env", code=0)
    casrewind("exclude", "app", code=0)
    assert sorted(os.listdir(project)) == before
    assert newest(casrewind) >= {".env", "app"}, "a checkpoint keeps what it holds"
    casrewind("save", code=0)
    assert ".env" in newest(casrewind) and "app" not in newest(casrewind)


def test_why_and_status_name_the_rule_and_where_it_is(casrewind, project):
    casrewind("include", ".env", "*.key", code=0)
    place = place_of(casrewind)
    assert casrewind("why", ".env").out == f"the next save captures .env: private rules ({place}), line 1: !/.env\n"
    (found,) = casrewind.json("why", "new.key")["paths"]
    assert found["rule"] == {"file": str(place), "line": 2, "directory": "", "text": "!*.key"}
    said = casrewind("status", code=0).out
    assert f"2 private rules of casrewind include and exclude: !/.env, !*.key\n               in {place}\n" in said


def test_private_rules_win_over_those_of_the_project(casrewind, project):
    plant(project, {"d/.casrewindignore": b"x\n!y\n", "d/x": b"1", "d/y": b"1"})
    casrewind("include", "d/x", code=0)
    casrewind("exclude", "d/y", code=0)
    casrewind("save", code=0)
    assert "d/x" in newest(casrewind) and "d/y" not in newest(casrewind)


def test_a_checkpoint_records_the_private_rules_of_its_time(casrewind, project):
    """What an excluded path was like at a checkpoint is not known, so a restore of it deletes nothing."""
    casrewind("exclude", "big", code=0)
    casrewind("save", "-m", "without big", code=0)
    casrewind("include", "big", code=0)
    assert casrewind("exclude", "--json", "other", code=0)
    plant(project, {"big": b"made since"})
    casrewind("save", code=0)
    casrewind("restore", "without big", "-y")
    assert (project / "big").read_bytes() == b"made since"
    casrewind("restore", "before", "-y", code=0)
    assert not (project / "big").exists(), "that checkpoint knew all paths"


def test_linked_worktrees_share_the_private_rules(casrewind, root, home):
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b"]
    plant(root, {".gitignore": b".env\n", "a": b"1", ".env": b"main"})
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], ["worktree", "add", "-q", str(home / "linked")]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    casrewind("include", ".env", code=0)
    (home / "linked" / ".env").write_bytes(b"linked")
    linked = Command(home / "linked", home)
    linked("save", code=0)
    assert ".env" in newest(linked) and linked.json("status")["private_rules"] == casrewind.json("status")["private_rules"]


def test_private_rules_stay_after_the_project_has_moved(casrewind, project, home):
    casrewind("include", ".env", code=0)
    old = place_of(casrewind)
    os.rename(project, home / "moved")
    moved = Command(home / "moved", home)
    plant(home / "moved", {".env": b"SECRET=2"})
    moved("save", code=0)
    place = place_of(moved)
    assert place != old and not old.exists() and place.read_bytes() == b"!/.env\n"
    assert moved("cat", "last:.env", code=0).out == "SECRET=2"


def test_an_empty_store_with_private_rules_is_no_place_for_a_moved_project(casrewind, project, home):
    """adopt removes a store without checkpoints; what a person excluded is kept."""
    other = home / "other"
    other.mkdir()
    new = Command(other, home)
    new("exclude", "big", code=0)
    shutil.rmtree(project)
    done = new("adopt", str(project))
    assert done.code != 0 and "holds private rules" in done.err and place_of(new).read_bytes() == b"/big\n"


def test_rules_of_commands_at_the_same_time_are_all_there(root, home):
    plant(root, {".gitignore": b"*.key\n", **{f"{n}.key": b"%d" % n for n in range(6)}})
    command = Command(root, home)
    command("save", code=0)
    running = [
        subprocess.Popen([sys.executable, "-m", "casrewind", "-C", str(root), "include", f"{n}.key"], env=command.environment,
                         stdout=subprocess.DEVNULL) for n in range(6)
    ]  # fmt: skip
    assert [process.wait(120) for process in running] == [0] * 6
    assert sorted(command.json("status")["private_rules"]["rules"]) == [f"!/{n}.key" for n in range(6)]
    command("save", code=0)
    assert {f"{n}.key" for n in range(6)} <= newest(command)


def test_purge_of_an_included_file_and_of_the_rules(casrewind, project, home):
    casrewind("include", ".env", code=0)
    said = casrewind("purge", ".env", "-y", code=0)
    assert "casrewind exclude .env first" in said.err
    casrewind("exclude", ".env", code=0)
    casrewind("save", code=0)
    assert hits(home, b"SECRET=1") == {}
    casrewind("exclude", "word-in-a-rule", code=0)
    casrewind("save", code=0)
    said = casrewind("purge", "(private rules)", "-y", code=0)
    assert "(private rules) in 2 checkpoints" in said.out and "casrewind exclude takes rules out of it" in said.err
    assert casrewind.json("verify")["ok"]
    plant(project, {"made since": b"1"})
    casrewind("restore", "last", "-y")
    assert (project / "made since").exists(), "nobody knows what was ignored"


def test_private_rules_that_cannot_be_read_are_named_and_those_of_the_newest_checkpoint_count(casrewind, project):
    casrewind("exclude", "secret", code=0)
    casrewind("save", code=0)
    place = place_of(casrewind)
    place.unlink()
    place.mkdir()
    plant(project, {"secret": b"1", "app": b"2"})
    done = casrewind("save", code=3)
    assert "(private rules)" in done.out + done.err and str(place) in done.out + done.err
    assert "secret" not in newest(casrewind)
    assert casrewind("include", "secret").code not in (0, 70)


def test_more_rules_than_a_save_accepts_are_refused(casrewind, project):
    place = place_of(casrewind)
    place.write_bytes(b"x\n" * 140_000)
    done = casrewind("include", ".env", code=64)
    assert "nothing was changed: the private rules would have too many ignore rules" in done.err
    assert place.stat().st_size == 280_000


def test_rules_of_a_kind_that_is_not_known_make_nothing_known(root, settings):
    """A store may come from a later casrewind."""
    plant(root, {"a": b"1"})
    with Workspace(str(root), settings, create=True) as workspace:
        point = workspace.save().checkpoint
        domain = workspace.domain(point)
        (entry,) = (entry for path, entry in workspace.entries(point) if path == b"a")
        known = Coverage(lambda *_: b"", domain)
        later = Coverage(lambda *_: b"", domain._replace(rules=(domains.RuleRef(b"", "of 2030", bytes(32)),)))
    assert known.why_not_captured(b"b", entry) is None
    assert later.why_not_captured(b"b", entry) == "not known to the checkpoint: ignore rules of an unknown kind then"


def test_json_names_the_file_and_the_checkpoint(casrewind, project):
    found = casrewind.json("include", ".env")
    assert found["file"] == str(place_of(casrewind)) and found["added"] == ["!/.env"] and found["created"] is True
    assert found["checkpoint"] == casrewind.json("list", "--all")["checkpoints"][0]["id"]
    found = casrewind.json("include", ".env")
    assert found["added"] == [] and found["created"] is False
    assert json.loads(casrewind("exclude", "--shared", "--json", "app", code=0).out)["file"] == str(project / ".casrewindignore")
