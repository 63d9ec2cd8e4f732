"""A turn changes what is captured: a path that a checkpoint did not capture is unknown there, not absent."""

import pytest

from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.trees import plant


@pytest.fixture
def agent(root, settings):
    with opened(root, settings) as workspace:
        yield AgentTurns(workspace, root)


@pytest.fixture
def dropped(agent, root):
    """@2 drops the rule for .env and data/, edits app and makes new. @1 does nothing."""
    plant(root, {".gitignore": b".env\ndata/\n*.log\n", ".env": b"SECRET", "data/x": b"1", "data/y": b"2", "app": b"1"})
    agent.prompt("a", "tidy the rules")
    plant(root, {".gitignore": b"*.log\n", "app": b"2", "new": b"n"})
    agent.stop("a")
    agent.prompt("b", "look around")
    agent.stop("b")
    return agent


@pytest.fixture
def added(agent, root):
    """@1 adds a rule for data/ and for keep, and removes app. data/x and keep are still on disk."""
    plant(root, {"app": b"1", "data/x": b"1", "keep": b"k"})
    agent.prompt("a", "ignore the data")
    plant(root, {".gitignore": b"data/\nkeep\n"})
    (root / "app").unlink()
    agent.stop("a")
    return agent


def on_disk(root):
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_revert_keeps_what_was_ignored_before_the_turn(dropped, casrewind, root):
    plan = casrewind("revert", "@2", "-n", code=0).out
    assert "would restore 2 paths and remove 1" in plan
    done = casrewind("revert", "@2", "-y", code=0).out
    assert on_disk(root) == {".gitignore", ".env", "data/x", "data/y", "app"}
    assert (root / ".env").read_bytes() == b"SECRET" and (root / "app").read_bytes() == b"1"
    for said in (plan, done):
        assert "left alone: .env: not captured before the turn" in said and "left alone: data: not captured before the turn" in said
    found = casrewind.json("undo", "-y")
    assert (found["restored"], found["removed"]) == (3, 0)
    assert on_disk(root) == {".gitignore", ".env", "data/x", "data/y", "app", "new"}


def test_revert_names_what_it_keeps_in_json_and_within_paths(dropped, casrewind, root):
    found = casrewind.json("revert", "@2", "-n")
    assert [item["path"] for item in found["skipped"]] == [".env", "data"]
    assert [change["path"] for change in found["changes"]] == [".gitignore", "app", "new"]
    only = casrewind("revert", "@2", ".env", "-y", code=0).out
    assert "left alone: .env" in only and "data" not in only and (root / ".env").exists()


def test_revert_of_an_added_rule_leaves_what_is_on_disk_and_brings_back_what_is_not(added, casrewind, root):
    plant(root, {"keep": b"edited"})
    (root / "data" / "x").unlink()
    done = casrewind("revert", "@1", "-y", code=3)
    assert on_disk(root) == {"app", "data/x", "keep"}
    assert (root / "data" / "x").read_bytes() == b"1" and (root / "keep").read_bytes() == b"edited"
    assert "left alone: keep: not captured at the end of the turn, and not as it was before" in done.err


def test_a_turn_does_not_count_what_was_not_captured(dropped, casrewind):
    turn = casrewind.json("list")["turns"][1]
    assert turn["changes"] == {"added": 1, "modified": 2, "removed": 0}
    assert turn["paths"] == [".gitignore", "app", "new"]
    assert [item["path"] for item in turn["captured_since"]] == [".env", "data"] and turn["no_longer_captured"] == []
