"""A revert takes back what turns did and keeps what was done since; a path with a conflict stays as it is, as a whole."""

import os

import pytest

from casrewind import errors
from casrewind.model import digest
from casrewind.model.retention import Limits
from casrewind.change.path_merger import MARKERS, THEIRS
from casrewind.history.turn_view import TurnView
from casrewind.errors import Declined
from casrewind.workspace import open as opened
from support import changes
from support.agent_turns import AgentTurns
from support.packfile import flip_blob
from support.picture import picture
from support.trees import Dir, Link, plant

LINES = [b"line %d\n" % number for number in range(1, 10)]


def text(**changed):
    """The lines, some of them replaced: text(l3=b"new") or removed: text(l3=None)."""
    lines = {f"l{number}": line for number, line in enumerate(LINES, 1)}
    return b"".join(line if isinstance(line, bytes) else b"" for line in {**lines, **{at: line and line + b"\n" for at, line in changed.items()}}.values())


@pytest.fixture
def agent(root, settings):
    plant(root, {"a.py": text(), "b.py": text()})
    with opened(root, settings) as workspace:
        found = AgentTurns(workspace, root)
        found.settings = settings
        yield found


def turn(agent, name, edits, modes=None):
    """One turn of the agent. An edit to None removes the file."""
    agent.prompt(name, name)
    write(agent.root, edits)
    for path, mode in (modes or {}).items():
        (agent.root / path).chmod(mode)
    agent.stop(name)


def write(root, edits):
    plant(root, {path: data for path, data in edits.items() if data is not None})
    for path, data in edits.items():
        if data is None:
            (root / path).unlink()


def revert(agent, *numbers, **options):
    view = TurnView(agent.context)
    return changes.revert(agent.context, view, [view.find_turn(f"@{number}") for number in numbers], **options)


def read(agent, path="a.py"):
    return (agent.root / path).read_bytes()


def reasons(report):
    return {item.path: item.explanation for item in report.kept}


def test_two_turns_change_line_1_and_line_7_and_the_older_one_is_taken_back(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    turn(agent, "second", {"a.py": text(l1=b"first", l7=b"second")})
    before = picture(agent.root)
    report = revert(agent, 2)
    assert read(agent) == text(l7=b"second") and not report.kept
    assert [(item.path, item.taken, item.kept, item.data) for item in report.merged] == [(b"a.py", 1, 1, text(l7=b"second"))]
    agent.workspace.undo()
    assert picture(agent.root) == before


def test_an_edit_by_hand_that_no_checkpoint_has_is_kept_and_the_plan_knows_the_result(agent):
    turn(agent, "first", {"a.py": text(l1=b"first"), "b.py": text(l2=b"x")})
    write(agent.root, {"a.py": text(l1=b"first", l9=None)})
    plan = revert(agent, 1, dry_run=True)
    assert [item.data for item in plan.merged] == [text(l9=None)] and len(plan.actions) == 2
    assert read(agent) == text(l1=b"first", l9=None)
    report = revert(agent, 1)
    assert read(agent) == text(l9=None) and read(agent, "b.py") == text()
    assert [item[:4] for item in report.merged] == [item[:4] for item in plan.merged]


def test_a_merged_file_gets_the_time_of_the_merge(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    write(agent.root, {"a.py": text(l1=b"first", l9=b"x")})
    os.utime(agent.root / "a.py", ns=(0, 10**18))
    revert(agent, 1)
    assert (agent.root / "a.py").stat().st_mtime_ns > 10**18  # so that make builds again


def test_a_conflict_leaves_the_whole_file_alone_and_names_the_lines(agent):
    turn(agent, "first", {"a.py": text(l1=b"first", l5=b"fifth"), "b.py": text(l1=b"x")})
    write(agent.root, {"a.py": text(l1=b"first", l5=b"mine\nmine", l9=b"mine")})
    report = revert(agent, 1)
    assert read(agent) == text(l1=b"first", l5=b"mine\nmine", l9=b"mine") and read(agent, "b.py") == text()
    assert reasons(report) == {b"a.py": "lines 5-6 were edited since by you"} and report.incomplete
    assert [(item.why, item.lines, item.by) for item in report.kept] == [("conflict", ((5, 6),), ())]


def test_a_conflict_names_the_turn_that_edited_these_lines_last(agent):
    turn(agent, "first", {"a.py": text(l5=b"first")})
    turn(agent, "second", {"a.py": text(l5=b"second")})
    turn(agent, "third", {"a.py": text(l1=b"a\nb\nthird", l5=b"second")})
    write(agent.root, {"a.py": text(l1=b"a\nb\nthird", l5=b"second", l9=b"mine")})
    report = revert(agent, 3)
    assert [(item.reason, item.lines, item.by) for item in report.kept] == [("line 7 was edited since by @2", ((7, 7),), (2,))]
    write(agent.root, {"a.py": text(l1=b"a\nb\nthird", l5=b"mine")})
    assert reasons(revert(agent, 3)) == {b"a.py": "line 7 was edited since by you"}
    turn(agent, "fourth", {"b.py": text(l1=b"x")})
    assert reasons(revert(agent, 4)) == {b"a.py": "line 7 was edited since by you"}


@pytest.mark.parametrize("second, third, says", [
    ({"l5": b"second"}, {"l5": b"second", "l6": b"third"}, "lines 5-6 were edited since by @1 and @2"),
    ({"l6": b"second"}, {"l5": b"third", "l6": b"second"}, "lines 5-6 were edited since by @1 and @2"),
    ({"l5": b"second", "l6": b"second"}, {"l5": b"third", "l6": b"second"}, "lines 5-6 were edited since by @1 and @2"),
    ({"l5": b"second", "l6": b"second"}, {"l5": b"third", "l6": b"third"}, "lines 5-6 were edited since by @1"),
    ({"l5": b"second", "l6": None}, {"l5": b"second", "l6": None, "l1": b"a\nb"}, "line 6 was edited since by @2"),
    ({"l5": b"second"}, {"l5": b"second", "l6": None}, "line 5 was edited since by @1 and @2"),
])  # fmt: skip
def test_a_conflict_in_lines_of_several_turns_names_each_of_them(agent, second, third, says):
    turn(agent, "first", {"a.py": text(l5=b"first", l6=b"first")})
    turn(agent, "second", {"a.py": text(**{"l5": b"first", "l6": b"first"} | second)})
    turn(agent, "third", {"a.py": text(**{"l5": b"first", "l6": b"first"} | third)})
    assert reasons(revert(agent, 3)) == {b"a.py": says}


def test_a_merge_names_all_who_edited_the_file_since(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    turn(agent, "second", {"a.py": text(l1=b"first", l3=b"second")})
    write(agent.root, {"a.py": text(l1=b"first", l3=b"second", l5=b"mine")})
    turn(agent, "third", {"a.py": text(l1=b"first", l3=b"second", l5=b"mine", l7=b"third"), "b.py": None})
    turn(agent, "fourth", {"b.py": b"\n"})
    plan = revert(agent, 4, dry_run=True)
    assert [(item.by, item.is_yours, item.kept) for item in plan.merged] == [((2, 3), True, 3)]
    plan = revert(agent, 3, 4, dry_run=True)
    assert [(item.by, item.is_yours, item.kept) for item in plan.merged] == [((2,), True, 2)]


def test_a_turn_that_still_runs_is_named_too(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    agent.prompt("second", "second")
    write(agent.root, {"a.py": text(l1=b"second")})
    assert reasons(revert(agent, 2)) == {b"a.py": "line 1 was edited since by @1 or you"}, "nobody saw its end"


def test_with_theirs_the_lines_in_conflict_are_those_before_the_turn(agent):
    turn(agent, "first", {"a.py": text(l1=b"first", l5=b"fifth")})
    write(agent.root, {"a.py": text(l1=b"first", l5=b"mine", l9=b"mine")})
    report = revert(agent, 1, conflicts=THEIRS)
    assert read(agent) == text(l9=b"mine") and not report.incomplete
    assert [(item.taken, item.kept) for item in report.merged] == [(2, 1)]


def test_with_markers_the_file_has_all_three_and_counts_as_incomplete(agent):
    turn(agent, "first", {"a.py": text(l1=b"first", l5=b"fifth")})
    write(agent.root, {"a.py": text(l1=b"first", l5=b"mine")})
    report = revert(agent, 1, conflicts=MARKERS)
    marks = b"<<<<<<< now\nmine\n||||||| after @1\nfifth\n=======\nline 5\n>>>>>>> before @1"
    assert read(agent) == text(l5=marks) and report.incomplete
    assert [(item.taken, item.conflicts) for item in report.merged] == [(1, 1)]


def test_several_turns_are_taken_back_newest_first_as_one_operation(agent):
    turn(agent, "first", {"a.py": text(l1=b"first"), "new": b"1\n"})
    turn(agent, "second", {"a.py": text(l1=b"second"), "new": b"2\n"})
    turn(agent, "third", {"a.py": text(l1=b"second", l5=b"third")})
    write(agent.root, {"a.py": text(l1=b"second", l5=b"third", l9=b"mine")})
    before = picture(agent.root)
    report = revert(agent, 2, 3)  # and not @1
    assert read(agent) == text(l5=b"third", l9=b"mine") and not (agent.root / "new").exists()
    assert [(item.path, item.taken, item.kept) for item in report.merged] == [(b"a.py", 2, 2)]
    agent.workspace.undo()
    assert picture(agent.root) == before
    revert(agent, 1, 2, 3)
    assert read(agent) == text(l9=b"mine") and not (agent.root / "new").exists()


def test_the_first_conflict_of_a_path_leaves_it_where_it_was_at_the_start(agent):
    turn(agent, "first", {"a.py": text(l1=b"first"), "b.py": text(l1=b"first")})
    write(agent.root, {"a.py": text(l1=b"mine")})
    turn(agent, "second", {"a.py": text(l1=b"mine", l5=b"second"), "b.py": text(l1=b"first", l5=b"second")})
    report = revert(agent, 1, 2)
    assert read(agent) == text(l1=b"mine", l5=b"second") and read(agent, "b.py") == text()
    assert reasons(report) == {b"a.py": "@2: edited since"}


def test_all_turns_are_taken_back_exactly_if_nothing_was_edited_between(agent):
    before = picture(agent.root)
    turn(agent, "first", {"a.py": text(l1=b"1"), "new/x": b"1\n", "b.py": None}, {"a.py": 0o755})
    turn(agent, "second", {"a.py": text(l1=b"2"), "new/x": b"2\n", "b.py": b"other\n"})
    turn(agent, "third", {"a.py": None, "new/y": b"\0"})
    report = revert(agent, 1, 2, 3)
    assert picture(agent.root) == before and not report.kept and not report.merged


@pytest.mark.parametrize(
    ("made", "since", "why", "reason"),
    [
        ({"new": b"1\n"}, {"new": b"2\n"}, "conflict", "the turn made it, and it was edited since"),
        ({"a.py": None}, {"a.py": b"again\n"}, "conflict", "made again since"),
        ({"a.py": text(l1=b"1")}, {"a.py": None}, "removed_since", "removed since"),
        ({"a.py": b"\0one\n"}, {"a.py": b"\0two\n"}, "binary", "edited since, and binary"),
    ],
)
def test_a_path_that_cannot_be_merged_is_left_alone(agent, made, since, why, reason):
    turn(agent, "first", made)
    write(agent.root, since)
    before = picture(agent.root)
    report = revert(agent, 1)
    assert [(item.reason, item.why) for item in report.kept] == [(reason, why)] and picture(agent.root) == before


def test_the_mode_is_taken_back_on_its_own(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")}, {"a.py": 0o755, "b.py": 0o600})
    write(agent.root, {"a.py": text(l1=b"first", l9=b"mine"), "b.py": text(l9=b"mine")})
    (agent.root / "a.py").chmod(0o755)
    report = revert(agent, 1)
    assert not report.kept and read(agent) == text(l9=b"mine") and read(agent, "b.py") == text(l9=b"mine")
    assert [(agent.root / path).stat().st_mode & 0o777 for path in ("a.py", "b.py")] == [0o644, 0o644]


def test_reverting_twice_changes_nothing(agent):
    turn(agent, "first", {"a.py": text(l1=b"first"), "new": b"1\n"})
    write(agent.root, {"a.py": text(l1=b"first", l9=b"mine")})
    assert len(revert(agent, 1).actions) == 2
    again = revert(agent, 1)
    assert not again.actions and not again.kept and again.unchanged == 2


def test_a_file_of_a_megabyte_is_merged_too(agent):
    lines = [b"%d %s\n" % (number, b"x" * 60) for number in range(20_000)]
    write(agent.root, {"large": b"".join(lines)})
    turn(agent, "first", {"large": b"".join([*lines[:10], b"first\n", *lines[11:]])})
    write(agent.root, {"large": b"".join([*lines[:10], b"first\n", *lines[11:-1]])})
    assert len(revert(agent, 1, dry_run=True).merged) == 1
    revert(agent, 1)
    assert read(agent, "large") == b"".join(lines[:-1])
    agent.workspace.undo()
    assert read(agent, "large") == b"".join([*lines[:10], b"first\n", *lines[11:-1]])


def test_if_a_file_changes_behind_the_question_it_is_left_alone_and_the_rest_is_done(agent):
    turn(agent, "first", {"a.py": text(l1=b"first"), "b.py": text(l1=b"first")})
    write(agent.root, {"a.py": text(l1=b"first", l9=b"mine")})

    def edit_and_agree(_plan):
        write(agent.root, {"a.py": b"quite another text\n"})
        return True

    done = revert(agent, 1, confirm=edit_and_agree)
    assert reasons(done) == {b"a.py": "line 1 was edited since by you"} and done.incomplete and not done.merged
    assert read(agent) == b"quite another text\n" and read(agent, "b.py") == text()
    agent.workspace.undo()
    assert read(agent) == b"quite another text\n" and read(agent, "b.py") == text(l1=b"first")


def test_who_declines_changes_nothing(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    write(agent.root, {"a.py": text(l1=b"first", l9=b"mine")})
    before = picture(agent.root)
    with pytest.raises(Declined):
        revert(agent, 1, confirm=lambda plan: bool(plan.merged) and False)
    assert picture(agent.root) == before


def test_a_path_outside_of_the_turns_is_named(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    with pytest.raises(errors.PathNotFound, match="@1 changed nothing at b.py"):
        revert(agent, 1, scope=(b"b.py",))


@pytest.mark.parametrize(
    ("before", "made", "since", "reason"),
    [
        (Link("a"), Link("b"), Link("c"), "edited since"),
        (b"1\n", Link("b"), b"2\n", "what it is was changed since"),
        (Dir(0o755), Dir(0o700), Dir(0o711), "its mode was changed since"),
        (b"", b"1\n", b"2\n", "line 1 was edited since by you"),
        (None, b"", b"1\n", "the turn made it, and it was edited since"),
        (Dir(), b"file\n", b"other\n", "what it is was changed since"),
    ],
)
def test_kinds_are_all_or_nothing(agent, before, made, since, reason):
    """The first value without an edit since, the last one with it."""
    become(agent.root, before)
    turn_at(agent, made)
    after = picture(agent.root)
    become(agent.root, since)
    edited = picture(agent.root)
    assert reasons(revert(agent, 1)) == {b"x": reason} and picture(agent.root) == edited
    become(agent.root, made)
    assert picture(agent.root) == after
    report = revert(agent, 1)
    assert not report.kept
    expected = picture(agent.root)
    become(agent.root, before)
    assert picture(agent.root) == expected


def become(root, what):
    path = root / "x"
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    elif os.path.lexists(path):
        path.unlink()
    if what is not None:
        plant(root, {"x": what})


def turn_at(agent, what):
    agent.prompt("it", "it")
    become(agent.root, what)
    agent.stop("it")


def test_a_directory_of_the_turn_stays_with_what_was_put_into_it_since(agent):
    turn(agent, "first", {"new/one": b"1\n", "new/two": b"2\n"})
    write(agent.root, {"new/mine": b"mine\n"})
    report = revert(agent, 1)
    assert os.listdir(agent.root / "new") == ["mine"] and reasons(report) == {b"new": "still holds mine"}


def test_rule_files_are_merged_as_any_text(agent):
    write(agent.root, {".casrewindignore": text()})
    turn(agent, "first", {".casrewindignore": text(l1=b"*.first")})
    write(agent.root, {".casrewindignore": text(l1=b"*.first", l9=b"!mine")})
    revert(agent, 1)
    assert read(agent, ".casrewindignore") == text(l9=b"!mine")


def test_what_was_purged_meanwhile_is_left_alone(agent):
    turn(agent, "first", {"a.py": text(l1=b"secret"), "secret": text(l1=b"secret"), "b.py": text(l1=b"first")})
    write(agent.root, {"a.py": text(l1=b"secret", l9=b"mine"), "secret": None})
    agent.workspace.purge([b"secret"])
    report = revert(agent, 1)
    assert [(item.path, item.why) for item in report.kept] == [(b"a.py", "purged")] and read(agent, "b.py") == text()
    assert read(agent) == text(l1=b"secret", l9=b"mine")


def test_a_turn_between_two_forgotten_ones_is_taken_back(agent):
    for number in range(5):
        turn(agent, f"turn {number}", {"a.py": text(**{f"l{n * 2 + 1}": b"turn" for n in range(number + 1)})})
    view = TurnView(agent.context)
    for identity in (view.find_turn("@3").before, view.find_turn("@3").after, view.find_turn("@1").after):
        agent.workspace.pin(identity)
    agent.workspace.gc(Limits(None, 1))
    number = next(one.n for one in TurnView(agent.context).turns if one.prompt == "turn 2")
    revert(agent, number)
    assert read(agent) == text(l1=b"turn", l3=b"turn", l7=b"turn", l9=b"turn")


def test_content_that_is_damaged_is_refused_or_skipped(agent):
    turn(agent, "first", {"a.py": text(l1=b"first"), "b.py": text(l1=b"other")})
    write(agent.root, {"a.py": text(l1=b"first", l9=b"mine")})
    flip_blob(agent.context.store.path, digest.of(text(l1=b"first")))
    agent.workspace.close()
    with opened(agent.root, agent.settings) as workspace:
        again = AgentTurns(workspace, agent.root)
        for is_dry in (True, False):
            with pytest.raises(errors.StoreDamaged, match=r"a.py: damaged in the store"):
                revert(again, 1, dry_run=is_dry)
        report = revert(again, 1, skip_damaged=True)
        assert [(item.path, item.why) for item in report.kept] == [(b"a.py", "damaged")] and read(again, "b.py") == text()


def test_of_a_renamed_file_that_was_edited_since_the_new_path_is_left_alone(agent):
    turn(agent, "first", {"a.py": None, "c.py": text()})
    write(agent.root, {"c.py": text(l5=b"mine")})
    report = revert(agent, 1)
    assert reasons(report) == {b"c.py": "the turn made it, and it was edited since"}
    assert read(agent) == text() and read(agent, "c.py") == text(l5=b"mine")


# -- where the bytes are


def test_a_plan_is_what_happens_where_a_mode_changed_in_between(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    turn(agent, "second", {}, modes={"a.py": 0o755})
    write(agent.root, {"a.py": text(l1=b"first", l7=b"mine")})
    before = agent.workspace.checkpoint("@2")
    plan = revert(agent, 1, 2, dry_run=True)
    assert [item.data for item in plan.merged] == [text(l7=b"mine")]
    kept = agent.workspace.plan_restore(before.id, keep_edits=True)
    assert [item.data for item in kept.merged] == [text(l7=b"mine")]
    done = revert(agent, 1, 2)
    assert done.actions[0].after._replace(mtime_ns=0) == plan.actions[0].after._replace(mtime_ns=0) == kept.actions[0].after._replace(mtime_ns=0)
    assert read(agent) == text(l7=b"mine")


def test_a_file_that_is_merged_where_a_directory_stands_is_written_as_planned(agent):
    turn(agent, "one", {"a.py": text(l2=b"one")})
    write(agent.root, {"a.py": text(l2=b"one", l8=b"mine")})
    agent.prompt("two", "two")
    (agent.root / "a.py").unlink()
    plant(agent.root, {"a.py/part": b"p\n"})
    agent.stop("two")
    before = picture(agent.root)
    plan, done = revert(agent, 1, 2, dry_run=True), revert(agent, 1, 2)
    assert [action.path for action in plan.actions] == [action.path for action in done.actions] and not done.kept
    assert read(agent) == text(l8=b"mine")
    agent.workspace.undo()
    assert picture(agent.root) == before


@pytest.mark.parametrize("is_dry", [True, False])
def test_a_file_that_moved_on_after_the_turn_was_compared_is_left_alone_and_the_store_is_not_called_damaged(agent, is_dry):
    agent.prompt("first", "first")
    write(agent.root, {"a.py": text(l1=b"1"), "b.py": text(l1=b"other")})
    view = TurnView(agent.context)
    view.scan_worktree()
    write(agent.root, {"a.py": text(l1=b"1", l7=b"2")})  # the first content is nowhere any more
    done = changes.revert(agent.context, view, [view.find_turn("@1")], running=True, shared=True, dry_run=is_dry)
    assert reasons(done) == {b"a.py": "it changed just now"} and [action.path for action in done.actions] == [b"b.py"]
    assert read(agent) == text(l1=b"1", l7=b"2") and read(agent, "b.py") == (text(l1=b"other") if is_dry else text())


# -- a turn whose end nobody saw


def test_what_may_have_come_behind_esc_is_left_alone_and_an_option_takes_it_back(agent):
    agent.prompt("first", "first")
    write(agent.root, {"a.py": text(l1=b"first"), "repair.txt": b"mine\n"})
    turn(agent, "second", {"b.py": text(l2=b"x")})
    before = picture(agent.root)
    for is_dry in (True, False):
        done = revert(agent, 2, dry_run=is_dry)
        assert reasons(done) == dict.fromkeys([b"a.py", b"repair.txt"], "may be yours: casrewind did not see @2 end; --shared takes it back")
        assert picture(agent.root) == before and done.incomplete
    revert(agent, 2, shared=True)
    assert read(agent) == text() and not (agent.root / "repair.txt").exists() and read(agent, "b.py") == text(l2=b"x")


def test_a_file_that_only_looks_like_one_that_is_left_alone_is_taken_back(agent):
    turn(agent, "first", {"a.py": text(l1=b"first"), "b.py": text(l1=b"first")})
    write(agent.root, {"a.py": None})
    done = revert(agent, 1)
    assert reasons(done) == {b"a.py": "removed since"} and read(agent, "b.py") == text()


def test_a_file_that_a_turn_moved_and_edited_stays_where_its_old_name_was_taken(agent):
    turn(agent, "first", {"a.py": None, "moved.py": text(l1=b"first")})
    write(agent.root, {"a.py": b"another file\n"})
    done = revert(agent, 1)
    assert reasons(done) == {b"a.py": "made again since", b"moved.py": "it has what a.py had, which is left alone"}
    assert read(agent) == b"another file\n" and read(agent, "moved.py") == text(l1=b"first")


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_file_that_one_agent_made_and_another_one_moved_stays_when_the_other_is_taken_back(agent, is_shared):
    """It was at neither name: it came and went while both turns ran or the other one did, so only its new name was known."""
    other = AgentTurns(agent.workspace, agent.root, "s2")
    agent.prompt("one", "one")
    other.prompt("theirs", "theirs")
    plant(agent.root, {"new.py": text(l2=b"theirs")})
    other.stop("theirs")
    os.rename(agent.root / "new.py", agent.root / "moved.py")
    plant(agent.root, {"own.py": b"own\n"})
    agent.stop("one")
    done = revert(agent, 2, shared=is_shared)
    assert not (agent.root / "own.py").exists()
    assert (agent.root / "moved.py").exists() != is_shared
    assert is_shared or [(item.path, item.why) for item in done.kept] == [(b"moved.py", "moved")]


# -- steps of a file, where turns ran at the same time, and files that moved since


@pytest.fixture
def beside(agent):
    """@2 writes line 1 alone, then both turns run, and line 5 is somebody's; @1 is of another session."""
    other = AgentTurns(agent.workspace, agent.root, "s2")
    agent.prompt("first", "first")
    write(agent.root, {"a.py": text(l1=b"first")})
    other.prompt("second", "second")
    write(agent.root, {"a.py": text(l1=b"first", l5=b"whose")})
    agent.stop("first")
    write(agent.root, {"a.py": text(l1=b"first", l5=b"whose", l9=b"second")})
    other.stop("second")
    return agent


@pytest.mark.parametrize("number, left", [(2, {"l5": b"whose", "l9": b"second"}), (1, {"l1": b"first", "l5": b"whose"})])
def test_of_a_file_that_two_turns_edited_at_once_the_steps_of_one_alone_are_taken_back(beside, number, left):
    before = picture(beside.root)
    report = revert(beside, number)
    assert read(beside) == text(**left)
    assert reasons(report) == {b"a.py": f"in part: changed while @{3 - number} ran, too; --shared takes it back as well"} and report.incomplete
    beside.workspace.undo()
    assert picture(beside.root) == before
    assert reasons(revert(beside, 1, 2)) == {} and read(beside) == text()


def test_where_a_later_edit_touches_such_a_step_the_file_is_left_alone(beside):
    write(beside.root, {"a.py": text(l1=b"mine", l5=b"whose", l9=b"second")})
    before = picture(beside.root)
    report = revert(beside, 2)
    assert picture(beside.root) == before and reasons(report) == {b"a.py": "changed while @1 ran, too; --shared takes it back as well"}


@pytest.mark.parametrize("is_saved", [True, False])
def test_lines_are_taken_back_where_a_person_moved_the_file(agent, is_saved):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    (agent.root / "a.py").rename(agent.root / "moved.py")
    write(agent.root, {"moved.py": text(l1=b"first", l7=b"mine")})
    if is_saved:
        agent.workspace.save()
    before = picture(agent.root)
    report = revert(agent, 1)
    assert read(agent, "moved.py") == text(l7=b"mine") and not (agent.root / "a.py").exists() and not report.kept
    agent.workspace.undo()
    assert picture(agent.root) == before


def test_lines_are_taken_back_where_a_person_moved_the_file_after_an_undo(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    (agent.root / "a.py").rename(agent.root / "moved.py")
    revert(agent, 1)
    agent.workspace.undo()
    agent.workspace.restore("@1")
    agent.workspace.undo()
    revert(agent, 1)
    assert read(agent, "moved.py") == text() and not (agent.root / "a.py").exists()


def test_a_conflict_in_a_file_that_was_moved_names_who_wrote_the_lines(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    write(agent.root, {"a.py": text(l1=b"mine")})
    turn(agent, "second", {"a.py": None, "moved.py": text(l1=b"mine")})
    assert reasons(revert(agent, 2)) == {b"moved.py": "line 1 was edited since by you"}


def test_lines_are_not_taken_back_outside_of_the_paths_that_are_named(agent):
    turn(agent, "first", {"a.py": text(l1=b"first")})
    (agent.root / "a.py").rename(agent.root / "moved.py")
    report = revert(agent, 1, scope=[b"a.py"])
    assert read(agent, "moved.py") == text(l1=b"first") and reasons(report) == {b"a.py": "removed since"}
