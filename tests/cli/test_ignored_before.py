"""A turn changes what is captured: a path that a checkpoint did not capture is unknown there, not absent."""

import os

import pytest

from casrewind.cli.picker import picker_rows
from casrewind.cli.picker.timeline import HERE, TURN, TimelineModel
from casrewind.cli.show.changes import counts_by_kind
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.packfile import flip_blob
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


SHOWN = {"captured since": [" captured since: .env, data/"], "no longer captured": [" no longer captured: data/, keep"]}


def unclear_of(text):
    return [line for line in text.splitlines() if "captured" in line]


def test_show_diff_and_list_name_them_apart(dropped, casrewind):
    ids = casrewind.json("list")["turns"][1]
    for words in (["show", "@2"], ["show", "after:@2", "--stat"], ["diff", "@2"], ["diff", ids["before"], ids["after"]], ["diff", ids["before"]]):
        said = casrewind(*words, code=0).out
        assert unclear_of(said) == SHOWN["captured since"], (words, said)
    assert unclear_of(casrewind("diff", ids["after"], ids["before"], code=0).out) == [" no longer captured: .env, data/"]
    assert "SECRET" not in casrewind("show", "@2", "-p", code=0).out
    row = next(line for line in casrewind("list", code=0).out.splitlines() if "@2" in line)
    assert "+1 ~2" in row and "(2 captured since)" in row and ".env" not in row
    assert "SECRET" not in casrewind("log", "--patch", code=0).out
    found = casrewind.json("diff", "@2")
    assert [item["path"] for item in found["captured_since"]] == [".env", "data"] and "added" in {c["status"] for c in found["changes"]}
    since = next(row for row in casrewind.json("log", ".env")["changes"])
    assert since["reason"].startswith("captured since: ")


def test_an_added_rule_removes_nothing(added, casrewind, root):
    turn = casrewind.json("list")["turns"][0]
    assert turn["changes"] == {"added": 1, "modified": 0, "removed": 1} and turn["paths"] == [".gitignore", "app"]
    assert [item["path"] for item in turn["no_longer_captured"]] == ["data", "keep"]
    for words in (["show"], ["diff", "@1"], ["diff", turn["before"], turn["after"]], ["diff", turn["before"]]):
        assert unclear_of(casrewind(*words, code=0).out) == SHOWN["no longer captured"], words
    assert casrewind.json("log", "keep")["changes"][0]["reason"].startswith("no longer captured: ")
    assert casrewind.json("log", "data")["changes"][0]["counts"] == {"added": 0, "modified": 0, "removed": 0}


def test_against_the_worktree_the_disk_decides(added, casrewind, root):
    (root / "keep").unlink()
    found = casrewind.json("diff", "@1", "last")
    assert [item["path"] for item in found["no_longer_captured"]] == ["data", "keep"]
    found = added.workspace.diff(casrewind.json("list")["turns"][0]["before"])
    assert [change.path for change in found.unclear] == [b"data", b"data/x"]
    assert {change.path: change.status for change in found.changes} == {b".gitignore": "added", b"app": "removed", b"keep": "removed"}


def test_a_turn_that_has_no_end_is_compared_with_the_disk(agent, casrewind, root):
    plant(root, {".gitignore": b".env\n", ".env": b"SECRET", "gone": b"g", "data/x": b"1"})
    agent.prompt("a", "tidy the rules")
    plant(root, {".gitignore": b"data/\ngone\n"})
    (root / "gone").unlink()
    turn = casrewind.json("show", "@1")["turn"]
    assert turn["changes"] == {"added": 0, "modified": 1, "removed": 1} and turn["paths"] == [".gitignore", "gone"]
    assert ([item["path"] for item in turn["captured_since"]], [item["path"] for item in turn["no_longer_captured"]]) == ([".env"], ["data"])
    casrewind("revert", "@1", "--shared", "-y", code=0)
    assert on_disk(root) == {".gitignore", ".env", "gone", "data/x"}


def test_what_a_turn_made_in_a_directory_of_its_own_is_its_own(agent, casrewind, root):
    plant(root, {".gitignore": b"data/*.csv\n", "app": b"1"})
    agent.prompt("a", "make data")
    plant(root, {".gitignore": b"", "data/x.csv": b"1"})
    agent.stop("a")
    assert casrewind.json("list")["turns"][0]["changes"] == {"added": 1, "modified": 1, "removed": 0}
    casrewind("revert", "@1", "-y", code=0)
    assert on_disk(root) == {".gitignore", "app"}


def test_an_edit_of_what_was_captured_in_the_turn_is_the_turns(agent, casrewind, root):
    """Another turn runs, so the steps of the turn are compared one by one."""
    plant(root, {".gitignore": b".env\n", ".env": b"SECRET"})
    other = AgentTurns(agent.workspace, root, "s2")
    agent.prompt("a", "tidy the rules")
    plant(root, {".gitignore": b"\n"})
    other.prompt("b", "edit the secret")
    plant(root, {".env": b"edited"})
    other.stop("b")
    agent.stop("a")
    newest, older = casrewind.json("list")["turns"]
    assert newest["paths"] == [".env"] and newest["captured_since"] == []
    assert [item["path"] for item in older["captured_since"]] == [".env"]
    casrewind("revert", "@1", "--shared", "-y", code=0)
    assert (root / ".env").read_bytes() == b"SECRET"


WAYS = ["include", "info/exclude", "casrewindignore", "excludes file", "first .gitignore", "size", "unreadable", "nested .gitignore", "cache tag"]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_not_being_captured(way, casrewind, root, settings, tmp_path):
    def limit(size):
        settings_file = root / ".casrewind.toml"
        plant(root, {".casrewind.toml": f"[capture]\nmax_file_size = {size}\n".encode()})
        assert settings_file.exists()

    path = {"first .gitignore": "node_modules/m/index.js", "cache tag": "d/x"}.get(way, "d/x")
    plant(root, {path: b"X" * 3000, "app": b"1", ".gitignore": b"*.log\n"})
    if way == "include":
        plant(root, {".gitignore": b"d/x\n"})
    elif way == "info/exclude":
        plant(root, {".git/HEAD": b"ref: refs/heads/main\n", ".git/info/exclude": b"x\n"})
    elif way == "excludes file":
        plant(tmp_path, {"outside": b"x\n"})
        plant(root, {".git/HEAD": b"ref: refs/heads/main\n", ".git/config": f"[core]\nexcludesFile = {tmp_path}/outside\n".encode()})
    elif way == "casrewindignore":
        plant(root, {".casrewindignore": b"d/x\n"})
    elif way == "first .gitignore":
        (root / ".gitignore").unlink()
    elif way == "nested .gitignore":
        plant(root, {"d/.gitignore": b"x\n"})
    elif way == "cache tag":
        (root / ".gitignore").unlink()
        plant(root, {"d/CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55\n"})
    elif way == "size":
        limit(1000)
    elif way == "unreadable":
        if os.geteuid() == 0:
            pytest.skip("root reads everything")
        os.chmod(root / "d", 0)
    with opened(root, settings) as workspace:
        turns = AgentTurns(workspace, root)
        turns.prompt("a", "one")
    plant(root, {"app": b"2"})
    if way == "include":
        casrewind("include", "d/x", code=0)
    elif way == "casrewindignore":
        plant(root, {".casrewindignore": b"\n"})
    elif way == "first .gitignore":
        plant(root, {".gitignore": b"\n"})
    elif way == "info/exclude":
        plant(root, {".git/info/exclude": b"\n"})
    elif way == "excludes file":
        plant(tmp_path, {"outside": b"\n"})
    elif way == "nested .gitignore":
        (root / "d" / ".gitignore").unlink()
    elif way == "cache tag":
        (root / "d" / "CACHEDIR.TAG").unlink()
    elif way == "size":
        limit(100_000)
    elif way == "unreadable":
        os.chmod(root / "d", 0o755)
    with opened(root, settings) as workspace:
        turns = AgentTurns(workspace, root)
        turns.stop("a")
    turn = casrewind.json("list")["turns"][0]
    assert turn["captured_since"], turn
    assert path not in turn["paths"]
    casrewind("revert", "@1", "-y", code=0)
    assert (root / path).read_bytes() == b"X" * 3000 and (root / "app").read_bytes() == b"1"


def test_the_picker_names_them_apart_and_to_here_is_what_a_restore_does(dropped, casrewind, root):
    plant(root, {".gitignore": b"*.log\napp\ndata/\n", "app": b"edited"})
    model = TimelineModel(dropped.workspace._context)
    timeline = model.first_timeline()
    row = next(row for row in timeline.rows if picker_rows.number_of_turn(row) == "@2")
    own, here = (model.preview(row, what, None).found for what in (TURN, HERE))
    assert counts_by_kind(own, is_to_here=False) == "2 changed, 1 added, 2 captured since" and picker_rows.remark_on(timeline, row) == " (2 captured since)"
    assert {change.path: change.status for change in here.changes} == {b".gitignore": "modified", b"app": "modified", b"new": "removed"}
    assert [change.path for change in here.unclear] == [b".env"], "a restore keeps it"
    casrewind("restore", "@2", "-y", code=0)
    assert on_disk(root) == {".gitignore", ".env", "data/x", "data/y", "app"} and (root / "app").read_bytes() == b"1"
    rows = casrewind.json("list")["rows"]
    assert [(row["row"], row.get("paths")) for row in rows[:2]] == [("restored", [".gitignore", "app", "new"]), ("outside", [".gitignore", "app"])]


def test_a_safety_checkpoint_holds_what_its_rules_ignore_and_nobody_made_that(agent, casrewind, root):
    plant(root, {"a.txt": b"1"})
    agent.prompt("a", "one")
    agent.stop("a")
    agent.prompt("b", "ignore it")
    plant(root, {".gitignore": b"a.txt\n"})
    agent.stop("b")
    plant(root, {"a.txt": b"edited"})
    casrewind("restore", "@2", "-y", "--", "a.txt", code=0)
    agent.prompt("c", "next")
    agent.stop("c")
    rows = casrewind.json("list")["rows"]
    assert [(row["row"], row.get("paths")) for row in rows] == [("turn", None), ("restored", ["a.txt"]), ("turn", None), ("turn", None)]
    assert "captured" not in casrewind("log", code=0).out.split("@2")[0]


def test_a_damaged_record_of_the_rules_makes_no_change_known(dropped, casrewind, root):
    flip_blob(dropped.context.store.path, dropped.workspace.checkpoint("@2").domain)
    turn = casrewind.json("list", code=20)["turns"][1]
    assert turn["damaged"] and turn["changes"] == {"added": 0, "modified": 2, "removed": 0}
    casrewind("revert", "@2", "-y", code=20)
    assert (root / ".env").exists() and (root / "new").exists()
    assert "some of it is damaged" in casrewind("list").out


def test_a_file_that_was_ignored_is_no_new_name_of_a_removed_one(agent, casrewind, root):
    plant(root, {".gitignore": b".env\n", ".env": b"the same words\n", "twin": b"the same words\n"})
    agent.prompt("a", "tidy the rules")
    plant(root, {".gitignore": b"\n"})
    (root / "twin").unlink()
    agent.stop("a")
    found = casrewind.json("diff", "@1")
    assert found["renames"] == [] and [(c["path"], c["status"]) for c in found["changes"]] == [(".gitignore", "modified"), ("twin", "removed")]
