"""A plan is shown without a lock, and a yes covers what was shown: the rest is left alone and named."""

import itertools
import os
import shutil
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind import Declined
from casrewind.model import plan as plans
from casrewind.change import worktree_change
from support.command import Command
from support.picture import picture
from support.sample_start import examples
from support.scanner import settle
from support.trees import plant

NOW, APPEARED = "it changed just now", "it appeared just now"


@pytest.fixture
def edited(workspace, root):
    """The checkpoint before a few edits."""
    plant(root, {"log": b"0\n", "a": b"1", "d/b": b"1", "d/e/c": b"1", "gone/x": b"1"})
    point = workspace.save("then").checkpoint
    plant(root, {"log": b"1\n", "a": b"2", "new/n": b"2"})
    shutil.rmtree(root / "gone")
    return point


def reasons(report):
    return {os.fsdecode(item.path): item.reason for item in report.kept}


def test_while_a_person_thinks_others_save_collect_and_restore_and_the_question_is_asked_again(workspace, edited, root, home):
    asked, other = [], Command(root, home)

    def think(plan):
        asked.append((plan.why_again, {os.fsdecode(action.path) for action in plan.actions}))
        if len(asked) == 1:
            plant(root, {"saved": b"1"})
            other("save", code=0)
            other("gc", code=0)
            other("restore", "then", "a", "-y", code=0)
        return True

    done = workspace.restore(edited, confirm=think)
    assert [why for why, _ in asked] == ["", "another restore, undo or redo was made here since that plan was shown"]
    assert "a" in asked[0][1] and "a" not in asked[1][1] and "saved" in asked[1][1]
    assert not done.incomplete and not (root / "saved").exists() and (root / "log").read_bytes() == b"0\n"


def test_a_save_and_a_gc_alone_ask_nothing_again(workspace, edited, root, home):
    asked, other = [], Command(root, home)

    def think(plan):
        asked.append(plan)
        other("save", code=0)
        other("gc", code=0)
        return True

    workspace.restore(edited, confirm=think)
    assert len(asked) == 1 and (root / "a").read_bytes() == b"1"


def writing(root, stop):
    """Writes a captured file every 20 ms, and now and then a new one."""
    for number in itertools.count():
        (root / "log").write_bytes(b"%d\n" % number)
        if number % 10 == 0:
            (root / f"made {number}").write_bytes(b"made\n")
        if stop.wait(0.02):
            return


def test_with_a_file_that_never_rests_one_answer_is_enough_and_nothing_that_was_not_shown_is_lost(workspace, edited, root):
    stop = threading.Event()
    writer = threading.Thread(target=writing, args=(root, stop))
    asked, shown = [], []

    def agree(plan):
        asked.append(plan)
        shown.extend(os.fsdecode(action.path) for action in plan.actions)
        if not writer.is_alive():
            writer.start()
        made = sum(name.startswith("made") for name in os.listdir(root))
        while sum(name.startswith("made") for name in os.listdir(root)) < made + 2:
            stop.wait(0.01)
        return True

    try:
        done = workspace.restore(edited, confirm=agree)
    finally:
        stop.set()
        writer.join()
    assert len(asked) == 1 and (root / "a").read_bytes() == b"1" and (root / "gone/x").exists() and not (root / "new").exists()
    assert reasons(done)["log"] == NOW and done.incomplete
    made = [name for name in os.listdir(root) if name.startswith("made")]
    assert made and not set(made) & set(shown) and len(set(made) & reasons(done).keys()) >= 2
    log = (root / "log").read_bytes()
    workspace.undo()
    assert (root / "a").read_bytes() == b"2" and (root / "new/n").exists() and (root / "log").read_bytes() == log


def test_what_needs_nothing_any_more_is_dropped(workspace, edited, root):
    def agree(_plan):
        plant(root, {"a": b"1"})
        return True

    done = workspace.restore(edited, confirm=agree)
    assert not done.kept and b"a" not in {action.path for action in done.actions}


def test_what_appears_while_an_empty_plan_is_read_stays(workspace, root):
    plant(root, {"a": b"1"})
    point = workspace.save().checkpoint
    assert not workspace.plan_restore(point).actions
    done = workspace.restore(point, confirm=lambda _: pytest.fail("nothing to ask"))
    assert not done.actions and not done.safety


def test_a_new_file_in_a_directory_that_goes_keeps_it(workspace, edited, root):
    def agree(_plan):
        plant(root, {"new/mine": b"mine"})
        return True

    done = workspace.restore(edited, confirm=agree)
    assert (root / "new/mine").read_bytes() == b"mine" and not (root / "new/n").exists()
    assert reasons(done)["new/mine"] == APPEARED and reasons(done)["new"] == "holds kept paths"


def test_a_directory_in_which_something_appears_becomes_no_file(workspace, root):
    plant(root, {"place": b"a file", "other": b"1"})
    point = workspace.save().checkpoint
    (root / "place").unlink()
    plant(root, {"place/x": b"1", "other": b"2"})

    def agree(_plan):
        plant(root, {"place/mine": b"mine"})
        return True

    before = picture(root / "place")
    done = workspace.restore(point, confirm=agree)
    after = picture(root / "place")
    assert after.pop(b"mine") and after == before and (root / "other").read_bytes() == b"1"
    assert reasons(done) == {"place": NOW, "place/mine": APPEARED, "place/x": NOW}


def test_where_a_file_appears_no_directory_is_made(workspace, root):
    plant(root, {"place/x": b"1", "other": b"1"})
    point = workspace.save().checkpoint
    shutil.rmtree(root / "place")
    plant(root, {"other": b"2"})

    def agree(_plan):
        plant(root, {"place": b"mine"})
        return True

    done = workspace.restore(point, confirm=agree)
    assert (root / "place").read_bytes() == b"mine" and (root / "other").read_bytes() == b"1"
    assert reasons(done) == {"place": APPEARED, "place/x": NOW}


def test_undo_is_asked_again_about_the_step_that_is_the_newest_now(workspace, edited, root, home):
    workspace.restore(edited)
    asked, other = [], Command(root, home)

    def think(plan):
        asked.append({os.fsdecode(action.path) for action in plan.actions})
        if len(asked) == 1:
            plant(root, {"late": b"1"})
            other("restore", "then", "-y", code=0)
            return True
        return False

    with pytest.raises(Declined):
        workspace.undo(confirm=think)
    assert "a" in asked[0] and asked[1] == {"late"} and not (root / "late").exists()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("verb", [("restore", "then"), ("undo",), ("revert", "@1")], ids=lambda verb: verb[0])
def test_with_yes_there_is_one_look(casrewind, agent_turn, root, tmp_path, verb):
    """Counted: how often a file is looked at that the change does not concern. A save looks at it once, too."""
    settle()
    casrewind("save", code=0)
    counts = []
    for command in (("save",), (*verb, "--yes")):
        log = tmp_path / "log"
        prefix = ("strace", "-f", "-y", "-qq", "-s", "64", "-e", "signal=none", "-e", "trace=%stat,%lstat,%fstat,statx", "-o", str(log))
        casrewind(*command, prefix=prefix, code=0)
        counts.append(log.read_text("utf-8", "replace").count('"quiet/a"'))
    assert counts[0] == counts[1] > 0


@pytest.fixture
def agent_turn(casrewind, root):
    """A turn, and a restore after it."""
    from support.agent_turns import AgentTurns
    from casrewind.workspace import open as open_workspace

    plant(root, {"quiet/a": b"1", "quiet/b": b"1", "f": b"1", "g": b"1"})
    casrewind("save", "-m", "then", code=0)
    with open_workspace(str(root), store=casrewind.json("status")["store"]) as workspace:
        turns = AgentTurns(workspace, root)
        turns.prompt("one", "do it")
        plant(root, {"f": b"2"})
        turns.stop("one")
    casrewind("restore", "then", "g", "-y", code=0)
    plant(root, {"g": b"2"})
    casrewind("restore", "then", "g", "-y", code=0)


# -- the law of what is left of a plan

NAMES = [b"a", b"b"]
PATHS = [b"/".join(parts) for size in (1, 2, 3) for parts in itertools.product(NAMES, repeat=size)]


def tree(kinds):
    """A tree without files that have something below them: {path: entry}."""
    found = {}
    for path, kind in zip(PATHS, kinds, strict=True):
        above = path.rpartition(b"/")[0]
        if kind and (not above or found.get(above, "") == "dir"):
            found[path] = kind
    return found


TREES = st.lists(st.sampled_from(["", "dir", "dir", "1", "2", "3"]), min_size=len(PATHS), max_size=len(PATHS)).map(tree)


def entry(kind):
    from casrewind.model.manifest import DIR, FILE, Entry

    return None if kind is None else Entry(DIR, 0o755, 0, 0, b"", b"", b"") if kind == "dir" else Entry(FILE, 0o644, 1, 0, kind.encode() * 32, b"", b"")


def actions_between(old, new):
    return [
        plans.Action(path, entry(old.get(path)), entry(new.get(path)), path)
        for path in sorted(old.keys() | new.keys()) if old.get(path) != new.get(path)
    ]  # fmt: skip


@settings(max_examples=examples(1200), deadline=None)
@given(shown_from=TREES, target=TREES, now=TREES)
def test_what_is_left_of_a_plan_was_shown_and_leaves_a_tree(shown_from, target, now):
    from casrewind.change.result import Restored

    shown = actions_between(shown_from, target)
    report = Restored("restore", "", "", plans.sort_and_pack(actions_between(now, target)), (), 0, dry_run=False)
    found = worktree_change.as_shown(shown, report)
    agreed = {action.path: action for action in shown}
    assert all(agreed[action.path][1:3] == action[1:3] for action in found.actions)
    kept = {item.path for item in found.kept}
    assert {action.path for action in report.actions} == {action.path for action in found.actions} | kept
    after = dict(now)
    for action in found.actions:
        if action.after is None:
            del after[action.path]
        else:
            after[action.path] = target[action.path]
    for path in after:  # a file or a directory, and below a file nothing
        above = path.rpartition(b"/")[0]
        assert not above or after.get(above) == "dir", (path, after)
    if shown_from == now:
        assert not kept and after == target
