"""An agent respells names on a disk that folds them: no verb loses a file. With case and form (as most Macs), and with form alone (as
case-sensitive APFS)."""

import itertools
import os
from collections import Counter

import pytest

from casrewind.history.turn_view import TurnView
from casrewind.worktree import safe_rename
from casrewind.worktree.apply import Applier
from support import changes
from support import path_kinds
from support.folding_filesystem import mounted
from support.picture import differences, picture
from support.respelling_walk import NFC, NFD, VERBS, Project, Walk
from support.sample_start import by_turns, start_below
from support.trees import Exec, Link, plant

SEED = int(os.environ.get("CASREWIND_SEED", "0"))  # other walks
STEPS = 200
FORMS = {"case": [("Readme.txt", "README.txt"), (NFC, NFD), ("Src/Main.py", "src/MAIN.py"), ("Straße", "STRASSE")], "form": [(NFC, NFD), (f"d/{NFC}/x", f"d/{NFD}/x")]}


MOUNTS = ["case, no flags", "form, flags", "case, flags", "form, no flags"]


@pytest.fixture(scope="module", params=by_turns(MOUNTS, 1))
def mount(request, tmp_path_factory):
    """(what it folds, the mount point, where its files lie, these in words)."""
    folds, flags = request.param.split(", ")
    with mounted(tmp_path_factory.mktemp("fold"), folds=folds, flags="yes" if flags == "flags" else "no") as (point, backing):
        yield folds, point, backing, request.param


@pytest.fixture
def project(mount, settings, numbers=itertools.count()):
    made = Project(mount[:3], f"900{next(numbers)}").open(settings)  # no letters: a respelled root tells nothing
    with made.workspace:
        yield made


def revert(project, name, **options):
    view = TurnView(project.agent.context)
    return changes.revert(project.agent.context, view, [view.find_turn(name)], **options)


@pytest.fixture
def respelled(project):
    """A turn that respelled names: the picture before it, and after it."""
    pairs = FORMS[project.folds]
    plant(project.root, {old: b"content of %d" % at for at, (old, _) in enumerate(pairs)} | {"1": b"1"})
    project.agent.prompt("p", "p")
    before = project.picture()
    for old, new in pairs:
        project.respell(old, new)
    project.agent.stop("p")
    after = project.picture()
    assert before != after and len(before) == len(after)
    return before, after


def test_a_turn_that_respelled_names_is_taken_back_and_again(project, respelled):
    before, after = respelled
    report = revert(project, "@1")
    assert not report.kept and not differences(project.picture(), before)
    assert not project.workspace.undo().kept and not differences(project.picture(), after)
    assert not project.workspace.redo().kept and not differences(project.picture(), before)


def test_what_was_edited_under_the_new_name_stays_and_is_named(project, respelled):
    _, new = FORMS[project.folds][0]
    plant(project.root, {new: b"edited since"})
    report = revert(project, "@1")
    assert report.kept and (project.root / new).read_bytes() == b"edited since"
    assert len(picture(project.real)) == len(respelled[1]), "none is gone"


def test_a_restore_to_before_it_renames(project, respelled):
    before, after = respelled
    points = [point for point, _ in project.workspace.checkpoints() if point.trigger != "safety"]
    assert not project.workspace.restore(points[1]).kept and not differences(project.picture(), before)
    assert not project.workspace.restore(points[0]).kept and not differences(project.picture(), after)


@pytest.mark.parametrize("spelling", [0, 1], ids=["the old spelling", "the new spelling"])
def test_a_scope_takes_in_every_spelling(project, respelled, spelling):
    before, after = respelled
    pair = FORMS[project.folds][0]
    point = [point for point, _ in project.workspace.checkpoints() if point.trigger != "safety"][1]
    for act in (lambda: project.workspace.restore(point, [os.fsencode(pair[spelling])]), lambda: revert(project, "@1", scope=[os.fsencode(pair[spelling])])):
        report = act()
        assert not report.kept
        now = project.picture()
        assert os.fsencode(pair[0]) in now and os.fsencode(pair[1]) not in now and len(now) == len(before)
        project.workspace.undo()
        assert not differences(project.picture(), after)


@pytest.mark.parametrize("is_edited", [False, True])
def test_of_two_spellings_of_one_file_that_turns_took_away_one_is_named(project, is_edited):
    """The first turn took the first one, and the second turn the second one, to which a person had respelled the file."""
    first, second, third = NFC + NFC, NFD + NFD, NFC + NFD
    plant(project.root, {first: b"1", "other": b"2"})
    point = project.workspace.save().checkpoint
    project.agent.prompt("p", "p")
    project.respell(first, third)
    project.agent.stop("p")
    project.respell(third, second)
    if is_edited:
        plant(project.root, {second: b"edited"})
    project.agent.prompt("q", "q")
    project.respell(second, third)
    project.agent.stop("q")
    report = project.workspace.restore(point, keep_edits=True)
    made = {action.path for action in report.actions if action.after is not None}
    assert len(made) == 1 and project.picture().keys() == {*made, b"other"}
    assert report.incomplete == is_edited, "they would have other contents: then one of them is missing"


def test_of_two_spellings_of_one_directory_that_turns_took_away_one_is_made(project):
    """What would go into the other one is named: no undo would find it under its path."""
    first, second = f"{NFC} d", f"{NFD} d"
    plant(project.root, {f"{first}/one": b"1", "other": b"2"})
    project.agent.prompt("p", "p")
    path_kinds.clear(project.root / first)
    project.agent.stop("p")
    plant(project.root, {f"{second}/two": b"2"})
    project.agent.prompt("q", "q")
    path_kinds.clear(project.root / second)
    project.agent.stop("q")
    before = project.picture()
    report = project.workspace.revert(["@1", "@2"])
    made = {action.path for action in report.actions}
    assert project.picture().keys() == {*made, b"other"} and len(made) == 2
    assert {item.path for item in report.kept} | made == {os.fsencode(name) for name in (first, second, f"{first}/one", f"{second}/two")}
    assert not project.workspace.undo().kept and not differences(project.picture(), before)
    assert project.workspace.redo().actions and project.picture().keys() == {*made, b"other"}


@pytest.mark.parametrize("is_edited", [False, True])
def test_what_goes_into_a_directory_that_is_there_by_another_spelling_goes_there_once(project, is_edited):
    """The first turn took the directory and what was in it, and the second turn one file of the directory that a person made again."""
    first, second = f"{NFC} d", f"{NFD} d"
    plant(project.root, {f"{first}/one": b"1", f"{first}/two": b"2", "other": b"3"})
    project.agent.prompt("p", "p")
    path_kinds.clear(project.root / first)
    project.agent.stop("p")
    plant(project.root, {f"{second}/one": b"edited" if is_edited else b"1", f"{second}/stays": b"4"})
    project.agent.prompt("q", "q")
    (project.root / second / "one").unlink()
    project.agent.stop("q")
    before = project.picture()
    report = project.workspace.revert(["@1", "@2"])
    assert {action.path for action in report.actions} == {os.fsencode(f"{second}/{name}") for name in ("one", "two")}
    assert (project.root / second / "one").read_bytes() == (b"edited" if is_edited else b"1")
    assert {item.path for item in report.kept} == ({os.fsencode(f"{first}/one")} if is_edited else set())
    assert not project.workspace.undo().kept and not differences(project.picture(), before)


def every_pair(root, which, accent):
    for pair in itertools.product(path_kinds.KINDS, repeat=2):
        path_kinds.clear(root / f"{NFC} {'-'.join(pair)}")
        path_kinds.make(root / f"{accent} {'-'.join(pair)}", pair[which], f"version {which}")


@pytest.mark.parametrize("verb", ["restore", "revert"])
def test_every_kind_becomes_every_other_under_another_spelling(project, verb):
    every_pair(project.root, 0, NFC)
    before = project.picture()
    point = project.agent.prompt("p", "p")
    every_pair(project.root, 1, NFD)
    project.agent.stop("p")
    after = project.picture()
    report = revert(project, "@1") if verb == "revert" else project.workspace.restore(point)
    assert not report.kept and not differences(project.picture(), before)
    assert not project.workspace.undo().kept and not differences(project.picture(), after)
    assert not project.workspace.redo().kept and not differences(project.picture(), before)


BEFORE = {
    f"{NFC} edited": b"old", f"{NFC} mode": b"m", f"{NFC} name": b"n", f"{NFC} to directory": b"f", f"{NFC} to file/x/y": b"z",
    f"{NFC} link": Link("old"), f"{NFC} d/edited": b"1", f"{NFC} d/gone": b"2", f"{NFC} link to file": Link("old"),
}  # fmt: skip
AFTER = {
    f"{NFD} edited": b"new", f"{NFD} mode": Exec(b"m"), f"{NFD} name": b"n", f"{NFD} to directory/x/y": b"z", f"{NFD} to file": b"f",
    f"{NFD} link": Link("new"), f"{NFD} d/edited": b"2", f"{NFD} d/new": b"3", f"{NFD} link to file": b"l",
}  # fmt: skip
CALLS = ("rename", "unlink", "rmdir", "mkdir", "open", "fchmod", "utime", "symlink")


class Stop(BaseException):
    pass


def restore_until(project, point, calls, monkeypatch):
    """Restore, and die before one more than this many calls that change the worktree. False if there were fewer."""
    left, real = [calls], Applier.carry_out_plan

    def dying(call):
        def wrapped(*arguments, **more):
            if left[0] == 0:
                raise Stop
            left[0] -= 1
            return call(*arguments, **more)

        return wrapped

    def carry_out(self):
        with monkeypatch.context() as patch:
            for where, names in ((os, CALLS), (safe_rename, ("exchange_names", "rename_without_replacing"))):
                for name in names:
                    patch.setattr(where, name, dying(getattr(where, name)))
            return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Applier, "carry_out_plan", carry_out)
        try:
            assert not project.workspace.restore(point).kept
        except Stop:
            return True
    return False


@pytest.mark.parametrize("step", [24, pytest.param(1, marks=pytest.mark.long)])
def test_a_restore_that_died_is_finished_and_taken_back_in_the_right_spelling(project, monkeypatch, step):
    plant(project.root, BEFORE)
    before, point = project.picture(), project.workspace.save().checkpoint
    for name in os.listdir(project.root):
        path_kinds.clear(project.root / name)
    plant(project.root, AFTER)
    after, calls = project.picture(), start_below(step)
    while restore_until(project, point, calls, monkeypatch):
        calls += step
        for forward in (False, True):
            assert not project.workspace.finish_restore(forward=forward).kept
            assert not differences(project.picture(), before if forward else after), calls
            if not forward:
                assert restore_until(project, point, calls - step, monkeypatch)
        assert not project.workspace.undo().kept
        assert not differences(project.picture(), after)
    assert calls > 60


def test_what_was_respelled_in_a_directory_made_from_it_is_taken(project):
    pairs = FORMS[project.folds]
    plant(project.root, {old: b"content of %d" % at for at, (old, _) in enumerate(pairs)})
    there = project.root.with_name(f"{project.root.name} there")
    project.workspace.materialise(project.workspace.save().checkpoint, there)
    before = project.picture()
    other = project.beside(there.name)
    for old, new in pairs:
        other.respell(old, new)
    report = project.workspace.take(there)
    assert not report.kept and not differences(project.picture(), picture(there))
    project.workspace.undo()
    assert not differences(project.picture(), before)


@pytest.mark.parametrize("steps", [60, pytest.param(2_500, marks=[pytest.mark.long, pytest.mark.timeout(3_000)])])
def test_no_step_loses_a_path_of_the_target_without_a_word(mount, settings, steps, numbers=itertools.count()):
    counts = Counter()
    for done in range(0, steps, STEPS):  # a project that grew would take longer and longer
        walk = Walk(mount[:3], f"90{next(numbers)}", settings, f"{mount[3]} {SEED} {steps} {done}")
        walk.run(min(STEPS, steps - done))
        counts += walk.counts
    print(f"\n{mount[3]}, seed {SEED}:", dict(sorted(counts.items())))
    assert steps < STEPS or all(counts[verb] for verb in [*VERBS, "undo", "redo"])
