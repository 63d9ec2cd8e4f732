"""Checkpoints of other machines in a store: they are restored as those that were made here, and change nothing else.

The danger prevented here: a restore deletes a file that the other machine never captured, or a pull changes what `last`,
`undo`, gc or a hook mean here.
"""

import os
import time

import pytest

from casrewind import adopt, errors
from casrewind.model import retention
from casrewind.model.manifest import PURGED
from casrewind.model.plan import OUTSIDE
from casrewind.model.retention import Limits
from casrewind.change import rewind
from casrewind.upkeep import agent_event, all_stores, gc
from casrewind.history import lookup
from casrewind.history.provenance import OtherSessions, edited_outside
from casrewind.change.restore import prepare_restore
from casrewind.store import registry
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.packfile import flip_blob
from support.picture import differences, picture
from support.trees import Link, plant


@pytest.fixture
def here(workspace, root):
    """The project on this machine, with a saved file of a person."""
    plant(root, {"print.py": b"old\n", "mine": b"m"})
    workspace.save("mine")
    return workspace


def alive(agent):
    """The agent's client is seen now."""
    event = agent.event("UserPromptSubmit", "z", prompt="one more")
    agent.context.store.sessions.record(agent_event.session_record(agent.context, event, time.time_ns())._replace(pid=0))


def took_over(here, machine):
    """Pull, and restore the newest checkpoint of the machine. Returns the report."""
    point = machine.pull_into(here)[-1]
    return prepare_restore(here._context, here._context.store.checkpoint(point.id)).carry_out()


# -- a restore


def test_the_files_become_those_of_the_machine_and_undo_brings_everything_back(here, root, machines):
    sandbox = machines()
    plant(sandbox.root, {"print.py": b"new\n", "lib/a": b"a" * 3_000_000, "link": Link("print.py"), "lib/x": b"x"})
    (sandbox.root / "lib/x").chmod(0o755)
    sandbox.workspace.save("theirs")
    plant(root, {"unsaved": b"u"})
    before = picture(root)
    report = took_over(here, sandbox)
    assert differences(picture(root), picture(sandbox.root)) == {}
    assert report.exact and here._context.store.checkpoint(report.safety).worktree == here.root.key
    here.undo()
    assert differences(picture(root), before) == {}
    here.redo()
    assert differences(picture(root), picture(sandbox.root)) == {}
    assert here.verify().problems == ()


def test_a_plan_changes_nothing_and_a_checkpoint_of_another_worktree_here_stays_refused(here, root, machines, tmp_path, settings):
    sandbox = machines()
    plant(sandbox.root, {"f": b"f"})
    sandbox.workspace.save()
    point = sandbox.pull_into(here)[-1]
    before = picture(root)
    assert here.plan_restore(point).actions
    assert differences(picture(root), before) == {}
    other = tmp_path / "other"
    plant(other, {"f": b"f"})
    with opened(str(other), settings, store=here.store_path) as second:
        own = second.save().checkpoint
    with pytest.raises(errors.RootRefused, match="belongs to"):
        prepare_restore(here._context, own).carry_out()


RULES = {
    "in the tree": {".gitignore": b".env\nbuild/\n*.log\n"},
    "outside of the tree": {".git/info/exclude": b".env\nbuild/\n*.log\n", ".git/HEAD": b"ref: refs/heads/main\n", ".git/objects/x": b""},
    "of casrewind": {".casrewindignore": b".env\nbuild/\n*.log\n"},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_what_the_rules_of_the_machine_ignored_is_not_deleted_here(here, root, machines, rules):
    """Here nothing ignores these files, so they are captured here. There they were not, so nobody knows whether they existed."""
    sandbox = machines()
    plant(sandbox.root, {**rules, ".env": b"theirs", "build/out": b"theirs", "a.log": b"theirs", "f": b"f"})
    sandbox.open()
    sandbox.workspace.save()
    plant(root, {".env": b"mine", "build/out": b"mine", "build/deep/more": b"mine", "b.log": b"mine", "kept/c.log": b"mine", "goes": b"g"})
    here.save()
    report = took_over(here, sandbox)
    for path in (".env", "build/out", "build/deep/more", "b.log", "kept/c.log"):
        assert (root / path).read_bytes() == b"mine", path
    assert not (root / "goes").exists() and not (root / "a.log").exists()
    reasons = {item.path: item.reason for item in report.kept}
    assert "ignored by its rules" in reasons[b".env"] and "ignored by its rules" in reasons[b"b.log"]


def test_what_is_ignored_here_stays_as_it_is_if_the_machine_does_not_have_it(here, root, machines):
    plant(root, {".gitignore": b".env\ncache/\n", ".env": b"secret", "cache/deep/x": b"x", "old/.env": b"e"})
    here.save()
    sandbox = machines()
    plant(sandbox.root, {"f": b"f"})
    sandbox.workspace.save()
    report = took_over(here, sandbox)
    assert not (root / ".gitignore").exists(), "it is captured here, and the machine has none"
    assert (root / ".env").read_bytes() == b"secret" and (root / "cache/deep/x").exists() and (root / "old/.env").exists()
    assert all(b".env" not in action.path and b"cache" not in action.path for action in report.actions)


def test_an_ignored_file_that_the_machine_captured_is_named_in_the_plan_and_undo_has_it(here, root, machines):
    plant(root, {".gitignore": b".env\n", ".env": b"mine"})
    here.save()
    sandbox = machines()
    plant(sandbox.root, {".env": b"theirs"})
    sandbox.workspace.save()
    point = sandbox.pull_into(here)[-1]
    assert b".env" in [action.path for action in here.plan_restore(point).actions]
    here.restore(point)
    assert (root / ".env").read_bytes() == b"theirs"
    here.undo()
    assert (root / ".env").read_bytes() == b"mine"


def test_files_above_the_size_limit_of_the_machine_are_not_deleted_here(here, root, machines):
    sandbox = machines()
    plant(sandbox.root, {"f": b"f", ".casrewind.toml": b'[capture]\nmax_file_size = "1KiB"\n'})
    sandbox.open()
    sandbox.workspace.save()
    plant(root, {"large": b"l" * 5000, "small": b"s"})
    here.save()
    took_over(here, sandbox)
    assert (root / "large").exists() and not (root / "small").exists()


def test_a_record_of_rules_that_is_damaged_deletes_nothing(here, root, machines):
    sandbox = machines()
    plant(sandbox.root, {"f": b"f"})
    sandbox.workspace.save()
    point = sandbox.pull_into(here)[-1]
    flip_blob(here.store_path, point.domain)
    with pytest.raises(errors.StoreDamaged):
        here.restore(point)
    report = here.restore(point, skip_damaged=True)
    assert (root / "mine").exists() and (root / "f").exists() and not report.exact


def test_edits_of_a_person_are_named_from_the_first_on(here, root, machines):
    """The time of a pulled checkpoint says nothing about what was done here: an edit before the pull counts, too."""
    agent = AgentTurns(here, root)
    agent.prompt("a", "work")
    plant(root, {"agents": b"1\n"})
    agent.stop("a")
    plant(root, {"mine": b"edited\n"})
    agent.prompt("b", "more")
    plant(root, {"agents": b"2\n"})
    agent.stop("b")
    sandbox = machines()
    plant(sandbox.root, {"mine": b"theirs\n", "agents": b"theirs\n"})
    sandbox.workspace.save()
    point = sandbox.pull_into(here)[-1]
    actions = here.plan_restore(point).actions
    found = edited_outside(here._context, point, actions)
    assert found.proved == (b"mine",) and found.is_of_machine and not found.can_stay


# -- a merge with what was done here

LINES = [b"%d\n" % number for number in range(20)]


def text(**changed):
    return b"".join(changed.get(f"l{number}", line) for number, line in enumerate(LINES))


def parted(here, root, machines):
    """Both machines had the same files, and went on. Returns (the machine, its newest checkpoint)."""
    sandbox = machines()
    plant(sandbox.root, {
        "both": text(), "clash": text(), "theirs": b"t", "mine": b"m", "goes": b"g", "gone here": b"g", "gone there": b"g", "bin": b"\0a", "d/x": b"x",
    })  # fmt: skip
    sandbox.workspace.save()
    took_over(here, sandbox)
    plant(sandbox.root, {
        "both": text(l2=b"sandbox\n"), "clash": text(l9=b"sandbox\n", l2=b"s\n"), "theirs": b"T", "new there": b"n", "gone here": b"G",
        "bin": b"\0sandbox",
    })  # fmt: skip
    for name in ("goes", "gone there", "d/x"):
        (sandbox.root / name).unlink()
    sandbox.workspace.save()
    plant(root, {
        "both": text(l17=b"laptop\n"), "clash": text(l9=b"laptop\n"), "mine": b"M", "new here": b"n", "bin": b"\0laptop", "gone there": b"edited",
    })  # fmt: skip
    (root / "gone here").unlink()
    return sandbox, sandbox.pull_into(here)[-1]


def test_what_both_did_since_they_had_the_same_files_is_merged(here, root, machines):
    _, point = parted(here, root, machines)
    before = picture(root)
    report = here.restore(point, keep_edits=True)
    found = {name: (root / name).read_bytes() if (root / name).exists() else None for name in (
        "both", "clash", "theirs", "mine", "new there", "new here", "goes", "gone here", "gone there", "bin", "d/x",
    )}  # fmt: skip
    assert found == {
        "both": text(l2=b"sandbox\n", l17=b"laptop\n"), "clash": text(l9=b"laptop\n"), "theirs": b"T", "mine": b"M", "new there": b"n",
        "new here": b"n", "goes": None, "gone here": None, "gone there": b"edited", "bin": b"\0laptop", "d/x": None,
    }  # fmt: skip
    reasons = {item.path: item.reason for item in report.kept if item.why != OUTSIDE}
    assert reasons == {
        b"clash": "line 10 changed here and on sandbox-4", b"gone here": "removed here, and changed on sandbox-4",
        b"gone there": "changed here and on sandbox-4", b"bin": "changed here and on sandbox-4, and binary",
    }  # fmt: skip
    assert {item.path for item in report.kept if item.why == OUTSIDE} == {b"mine", b"new here"}
    assert [(item.path, item.machine, item.is_yours) for item in report.merged] == [(b"both", "sandbox-4", True)]
    assert not report.exact
    again = here.restore(point, keep_edits=True)
    assert not again.actions, "what was merged is not merged twice"
    here.undo()
    assert differences(picture(root), before) == {}
    assert here.verify().problems == ()


def test_a_merge_of_a_path_touches_nothing_else(here, root, machines):
    _, point = parted(here, root, machines)
    here.restore(point, [b"both"], keep_edits=True)
    assert (root / "both").read_bytes() == text(l2=b"sandbox\n", l17=b"laptop\n") and (root / "theirs").read_bytes() == b"t"


def test_without_a_common_state_there_is_no_merge(here, root, machines):
    sandbox = machines()
    plant(sandbox.root, {"f": b"f"})
    sandbox.workspace.save()
    point = sandbox.pull_into(here)[-1]
    before = picture(root)
    with pytest.raises(errors.CheckpointNotFound, match="never were those of sandbox-4") as refused:
        here.restore(point, keep_edits=True)
    assert f"--exact {point.id}" in str(refused.value)
    here.restore(point)
    here.undo()
    plant(sandbox.root, {"f": b"2"})
    sandbox.workspace.save()
    with pytest.raises(errors.CheckpointNotFound):  # the restore was undone
        here.restore(sandbox.pull_into(here)[-1], keep_edits=True)
    assert differences(picture(root), before) == {}


def test_a_restore_of_some_paths_makes_no_common_state(here, root, machines):
    sandbox = machines()
    plant(sandbox.root, {"f": b"f", "g": b"g"})
    sandbox.workspace.save()
    point = sandbox.pull_into(here)[-1]
    here.restore(point, [b"f"])
    with pytest.raises(errors.CheckpointNotFound):
        here.restore(point, keep_edits=True)


def test_a_merge_goes_back_on_the_other_machine_s_line_too(here, root, machines):
    sandbox = machines()
    plant(sandbox.root, {"f": text(), "g": b"g"})
    first = sandbox.workspace.save().checkpoint
    plant(sandbox.root, {"f": text(l2=b"sandbox\n"), "later": b"l"})
    sandbox.workspace.save()
    took_over(here, sandbox)
    plant(root, {"f": text(l2=b"sandbox\n", l9=b"laptop\n"), "mine": b"m"})
    here.restore(here._context.store.checkpoint(first.id), keep_edits=True)
    assert (root / "f").read_bytes() == text(l9=b"laptop\n") and (root / "mine").exists() and not (root / "later").exists()


def test_a_file_that_the_machine_captures_since_is_taken_over_unless_one_is_here(here, root, machines):
    sandbox = machines()
    plant(sandbox.root, {".gitignore": b".env\nkeys\n", ".env": b"theirs", "keys": b"k"})
    sandbox.workspace.save()
    took_over(here, sandbox)
    plant(sandbox.root, {".gitignore": b"#\n"})
    sandbox.workspace.save()
    plant(root, {".env": b"mine"})
    here.restore(sandbox.pull_into(here)[-1], keep_edits=True)
    assert (root / ".env").read_bytes() == b"mine" and (root / "keys").read_bytes() == b"k"


def test_a_common_state_is_found_by_equal_files(here, root, machines):
    """A clone is no restore: its checkpoint has the files of the machine's."""
    sandbox = machines()
    plant(sandbox.root, {"f": text()})
    first = sandbox.workspace.save().checkpoint
    sandbox.pull_into(here)
    for name in list(root.iterdir()):
        name.unlink()
    here.materialise(first.id, str(root.parent / "clone"))
    os.rename(root.parent / "clone" / "f", root / "f")
    assert here.save().checkpoint.tree == first.tree
    plant(root, {"f": text(l2=b"laptop\n")})
    plant(sandbox.root, {"f": text(l9=b"sandbox\n")})
    sandbox.workspace.save()
    here.restore(sandbox.pull_into(here)[-1], keep_edits=True)
    assert (root / "f").read_bytes() == text(l2=b"laptop\n", l9=b"sandbox\n")


@pytest.mark.parametrize("is_ignored_here", [False, True], ids=["captured here", "ignored here, too"])
def test_what_the_machine_stopped_capturing_is_not_deleted_by_a_merge(here, root, machines, is_ignored_here):
    sandbox = machines()
    plant(sandbox.root, {"f": b"f", "data": b"d"})
    sandbox.workspace.save()
    took_over(here, sandbox)
    plant(sandbox.root, {".gitignore": b"data\n"})
    sandbox.workspace.save()
    if is_ignored_here:
        plant(root, {".gitignore": b"data\n"})
    here.restore(sandbox.pull_into(here)[-1], keep_edits=True)
    assert (root / "data").read_bytes() == b"d" and (root / ".gitignore").exists()


def test_paths_of_sessions_that_run_now_are_named(here, root, machines):
    agent = AgentTurns(here, root)
    agent.prompt("a", "work")
    plant(root, {"agents": b"1\n"})
    agent.tell("PostToolBatch", "a")
    sandbox = machines()
    plant(sandbox.root, {"f": b"f"})
    sandbox.workspace.save()
    point = sandbox.pull_into(here)[-1]
    actions = here.plan_restore(point).actions
    assert OtherSessions(here._context, point, ()).among(actions) == ()
    agent.run_in_this_process()
    assert b"agents" in OtherSessions(here._context, point, ()).among(actions)


# -- everything that looks at all checkpoints of a store


def busy(machine, count=3):
    """Turns of a machine."""
    for number in range(count):
        machine.turn(str(number), f"prompt {number}", {f"new{number}": b"%d" % number})


def test_a_pull_changes_no_name_no_parent_and_no_count_here(here, root, machines):
    agent = AgentTurns(here, root)
    agent.prompt("a", "work")
    plant(root, {"x": b"1"})
    agent.stop("a")
    context = here._context

    def told():
        store, key = context.store, here.root.key
        return (
            [lookup.checkpoint(context, word).id for word in ("last", "prev", "@1", "after:@1", "mine", "today")],
            lookup.current_id(context), store.newest_and_newest_listed(key), store.count_listed_checkpoints(key), store.oldest(key), store.newest_of_agents(key),
            [turn.prompt for turn in here.turns()], here.status(), len(lookup.checkpoints_of(context)),
            store.has_stat_file(key, context.tree.life),
        )  # fmt: skip

    before = told()
    sandbox = machines(session=agent.session)
    busy(sandbox)
    sandbox.workspace.pin(sandbox.workspace.checkpoints()[0][0], "mine too")
    sandbox.pull_into(here)
    assert told()[:7] == before[:7] and told()[8:] == before[8:]
    plant(root, {"x": b"2"})
    saved = here.save().checkpoint
    assert saved.parent == before[2][0].id and saved.changes == (0, 1, 0)


def test_a_time_stays_a_time(here, machines):
    sandbox = machines("23")
    plant(sandbox.root, {"f": b"f"})
    sandbox.workspace.save()
    sandbox.pull_into(here)
    assert lookup.checkpoint(here._context, "today 23:59").worktree == here.root.key
    assert lookup.machine_place(here._context, "23:59").machine == "" and lookup.machine_place(here._context, "23:@1").machine == "23"


def test_a_label_names_a_checkpoint_here_or_says_where_it_is(here, machines):
    sandbox = machines()
    plant(sandbox.root, {"f": b"f"})
    sandbox.workspace.save("mine")
    theirs = sandbox.workspace.save("works").checkpoint
    sandbox.pull_into(here)
    assert lookup.checkpoint(here._context, "mine").worktree == here.root.key
    with pytest.raises(errors.CheckpointNotFound, match="sandbox-4:works"):
        lookup.checkpoint(here._context, "works")
    assert lookup.checkpoint(here._context, "remote:works").id == theirs.id
    assert lookup.checkpoint(here._context, theirs.id).id == theirs.id


def test_a_prefix_of_an_id_stays_that_of_a_checkpoint_here(here, machines):
    own = here.checkpoints()[0][0]
    sandbox = machines()
    plant(sandbox.root, {"f": b"f"})
    point = sandbox.workspace.save().checkpoint
    theirs = point._replace(id=own.id[:6] + "ffffffff")
    store = sandbox.workspace._context.store
    with store.writing() as writer:
        store.publish(writer, theirs, lambda _: theirs)
    sandbox.pull_into(here)
    assert lookup.checkpoint(here._context, own.id[:6]).id == own.id
    assert lookup.checkpoint(here._context, own.id[:6] + "ff").id == theirs.id


def test_gc_needs_the_clock_and_the_checkpoints_of_this_machine_only(here, machines):
    sandbox = machines()
    busy(sandbox)
    sandbox.pull_into(here)
    points = [point for point, _ in here.checkpoints(every_worktree=True)]
    now = time.time_ns()
    day = 86400 * 10**9

    def moved(point, days):
        return point._replace(created_ns=now + days * day)

    old = [moved(point, -40 if not point.more.machine else 3) for point in points]
    limits = Limits(30 * 86400.0, None, keep_last=1)
    decided = retention.decide(old, limits, now, frozenset(), {})
    assert not any("future" in note for note in decided.notes) and any("newest checkpoint is 40 days old" in note for note in decided.notes)
    weighed = retention.kept_by_priority(retention.decide(points, limits, now, frozenset(), {}))
    assert not weighed[0].more.machine and all(point.more.machine for point in weighed[1:])
    many = [points[-1]._replace(id=f"c{number}", seq=100 - number) for number in range(retention.FLOOR + 5)]
    theirs = [point._replace(seq=200) for point in points if point.more.machine]
    decision = retention.decide([*theirs, *many], limits, now, frozenset(), {})
    kept = retention.fit_into_budget(decision, {point.id: 10 for point in [*theirs, *many]}, 0, 10 * len(many)).kept
    assert {point.id for point in kept} == {point.id for point in many}, "all of this machine's are worth more than any other"
    fitted = retention.fit_into_budget(decision := retention.decide(points, limits, now, frozenset(), {}), {p.id: 10 for p in points}, 0, 15)
    assert [point.id for point in fitted.kept] == [point.id for point in decision.kept if not point.more.machine]


def test_gc_keeps_what_was_restored_and_forgets_old_ones_of_a_machine(here, root, machines):
    sandbox = machines()
    busy(sandbox, 6)
    points = sandbox.pull_into(here)
    here.restore(points[0])
    collected = gc.collect(here._context, Limits(None, 1))
    left = {point.id for point, _ in here.checkpoints(every_worktree=True)}
    assert points[0].id in left and points[-1].id in left and points[4].id not in left
    assert here.verify().problems == ()
    here.undo()
    assert (root / "mine").exists()


def test_a_live_session_keeps_its_checkpoint_of_this_machine(here, root, machines):
    agent = AgentTurns(here, root)
    agent.prompt("a", "work")
    agent.stop("a")
    own = here.checkpoints()[0][0]
    sandbox = machines(session=agent.session)
    busy(sandbox)
    sandbox.pull_into(here)
    alive(agent)
    assert gc._what_needs_each_checkpoint(here._context)[own.id] == "a live session"


def test_an_event_is_found_behind_what_was_pulled(here, root, machines):
    sandbox = machines()
    busy(sandbox, 1)
    agent = AgentTurns(here, root)
    at = time.time_ns()
    event = agent.event("UserPromptSubmit", "a", prompt="work")
    agent_event.record_event(here._context, event, at, (), transcripts=False)
    sandbox.pull_into(here)  # these are older, and come behind it in the ledger
    assert agent_event.has_record_of_time(here._context, event, at)


def test_a_tool_that_follows_another_makes_no_checkpoint_although_something_was_pulled(here, root, machines):
    sandbox = machines()
    busy(sandbox, 1)
    agent = AgentTurns(here, root)
    agent.prompt("a", "work")
    plant(root, {"x": b"1"})
    event = agent.event("PostToolBatch", "a")
    made = agent_event.record_event(here._context, event, time.time_ns(), (), transcripts=False).checkpoint
    almost = made.created_ns + agent_event._BETWEEN_TOOLS_NS - 1
    assert agent_event.is_too_soon(here._context, event, almost)
    points = sandbox.pull_into(here)
    assert points[-1].created_ns < made.created_ns, "these are old enough"
    assert agent_event.is_too_soon(here._context, event, almost)


def test_prompts_that_waited_are_seen_behind_the_same_session_of_another_machine(here, root, machines):
    def told(session, pulled):
        agent = AgentTurns(here, root, session=session)
        for _ in range(2):
            agent.prompt("a", "work")
        agent.stop("a")
        if pulled:
            other = machines(session=session)
            other.turn("other", "their work", {"f": b"f"})
            other.pull_into(here)
        plant(root, {"x": session.encode()})
        return agent.stop("b").label

    assert told("s1", False) == told("s2", True) == ""


def test_a_root_of_another_machine_is_no_project_here(here, root, machines, tmp_path):
    sandbox = machines()
    busy(sandbox)
    sandbox.pull_into(here)
    found = all_stores.report_on_store(registry.inspect(here.store_path))
    assert [line.root for line in found.worktrees] == [str(root)] and found.checkpoints == 1
    assert [point.worktree for point in registry.newest_of_each_worktree(here._context.store)] == [here.root.key]


def test_a_moved_project_takes_its_own_checkpoints_along(here, root, machines, tmp_path, settings):
    sandbox = machines()
    busy(sandbox)
    pulled = sandbox.pull_into(here)
    here.close()
    moved = tmp_path / "moved"
    os.rename(root, moved)
    adopted = adopt(str(moved), str(root), settings)
    assert adopted.checkpoints == 1
    with opened(str(moved), settings) as again:
        assert [point.label for point, _ in again.checkpoints()] == ["mine"]
        kept = [point for point, _ in again.checkpoints(every_worktree=True) if point.more.machine]
        assert [(point.id, point.worktree, point.root) for point in kept[::-1]] == [(point.id, point.worktree, point.root) for point in pulled]


def test_verify_du_and_purge_count_what_was_pulled(here, machines):
    sandbox = machines()
    plant(sandbox.root, {"secret.pem": b"very secret indeed " * 10, "f": b"f"})
    sandbox.workspace.save()
    points = sandbox.pull_into(here)
    assert {row.checkpoint.id for row in here.usage().checkpoints} >= {point.id for point in points}
    here.purge([b"secret.pem"])
    assert here.verify().problems == ()
    left = here._context.store.checkpoint(points[-1].id)
    assert left.more.machine == "sandbox-4" and left.tree != points[-1].tree
    assert dict(here.entries(left))[b"secret.pem"].kind == PURGED
