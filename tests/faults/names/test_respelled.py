"""An agent respells names on a disk that folds them: no verb loses a file. With case and form (as most Macs), and with form alone (as
case-sensitive APFS)."""

import itertools
import os
import random
import shutil
import unicodedata

import pytest

from casrewind import errors
from casrewind.ops import revert as reverts
from casrewind.ops.turn_view import TurnView
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.folding_filesystem import key, mounted
from support.picture import differences, picture
from support.trees import plant

SEED = int(os.environ.get("CASREWIND_SEED", "0"))  # other walks
NFC, NFD = "caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")
FORMS = {"case": [("Readme.txt", "README.txt"), (NFC, NFD), ("Src/Main.py", "src/MAIN.py"), ("Straße", "STRASSE")], "form": [(NFC, NFD), (f"d/{NFC}/x", f"d/{NFD}/x")]}


@pytest.fixture(scope="module", params=FORMS)
def mount(request, tmp_path_factory):
    with mounted(tmp_path_factory.mktemp("fold"), folds=request.param) as (point, backing):
        yield request.param, point, backing


class Project:
    def __init__(self, mount, name, settings):
        self.folds, self.root, self.real = mount[0], mount[1] / name, mount[2] / name
        self.root.mkdir()
        self.place, self.settings = mount, settings

    def respell(self, old, new):
        """Each part of a path, as `mv` does."""
        for depth in range(1, len(new.split("/")) + 1):
            done, left = new.split("/")[: depth - 1], old.split("/")[depth - 1]
            os.rename(self.root.joinpath(*done, left), self.root.joinpath(*new.split("/")[:depth]))

    def picture(self):
        return picture(self.real)


@pytest.fixture
def project(mount, settings, numbers=itertools.count()):
    made = Project(mount, f"900{next(numbers)}", settings)  # no letters: a respelled root tells nothing
    with opened(made.root, settings) as workspace:
        made.workspace, made.agent = workspace, AgentTurns(workspace, made.root)
        yield made


def revert(project, name, **options):
    view = TurnView(project.agent.context)
    return reverts.revert(project.agent.context, view, [view.find_turn(name)], **options)


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


def test_what_was_respelled_in_a_directory_made_from_it_is_taken(project):
    pairs = FORMS[project.folds]
    plant(project.root, {old: b"content of %d" % at for at, (old, _) in enumerate(pairs)})
    there = project.root.with_name(f"{project.root.name} there")
    project.workspace.materialise(project.workspace.save().checkpoint, there)
    before = project.picture()
    other = Project.__new__(Project)
    other.root = there
    for old, new in pairs:
        other.respell(old, new)
    report = project.workspace.take(there)
    assert not report.kept and not differences(project.picture(), picture(there))
    project.workspace.undo()
    assert not differences(project.picture(), before)


NAMES = ["Readme", "README", "readme", NFC, NFD, NFC.upper(), "Src/a", "src/a", "Src/A", "SRC/b", "Straße", "STRASSE", f"Src/{NFC}", f"src/{NFD}", "1/2", "ß", "SS"]


class Walk:
    """Random steps of a person and an agent on a project, and after each the law: no answer without a word of what stays, after which
    a path of the target is missing."""

    def __init__(self, project, some):
        self.project, self.some, self.done = project, some, 0
        self.states, self.turns = [], 0

    def names(self):
        return [os.fsdecode(path) for path, entry in self.project.picture().items() if entry[0] == "file"]

    def edit(self):
        root, some = self.project.root, self.some
        name = some.choice(NAMES)
        found = self.names()
        match some.choice(["write", "write", "respell", "respell", "respell directory", "remove"]):
            case "write":
                path = root / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"%d" % some.randrange(5))
            case "respell" if found:
                old = some.choice(found)
                twins = [other for other in NAMES if key(other, self.project.folds) == key(old, self.project.folds)]
                if twins:
                    self.project.respell(old, some.choice(twins))
            case "respell directory":
                for each in ("Src", "src", "SRC"):
                    if (root / each).exists() and self.project.folds == "case":
                        os.rename(root / each, root / some.choice(["Src", "src", "SRC"]))
                        break
            case "remove" if found:
                (root / some.choice(found)).unlink()

    def save(self):
        for _ in range(self.some.randrange(1, 4)):
            self.edit()
        found = self.project.workspace.save()
        self.states.append((found.checkpoint, self.project.picture()))

    def turn(self):
        before = self.project.picture()
        self.turns += 1
        self.project.agent.prompt(f"p{self.turns}", f"p{self.turns}")
        for _ in range(self.some.randrange(1, 4)):
            self.edit()
        self.project.agent.stop(f"p{self.turns}")
        if self.project.picture() != before and self.some.random() < 0.7:
            after = self.project.picture()
            report = revert(self.project, "@1")
            if not report.kept:
                assert not differences(files_of(self.project.picture()), files_of(before))
            self.lost_nothing(report, after, before)
            self.back(after)

    def revert_older(self):
        view = TurnView(self.project.agent.context)
        if not view.turns:
            return
        turn = self.some.choice(view.turns)
        now = self.project.picture()
        point = self.project.workspace.checkpoint(turn.before) if turn.before else None
        before = {path: entry for path, entry in self.project.workspace.entries(point)} if point else {}
        report = reverts.revert(self.project.agent.context, view, [turn], skip_damaged=True)
        self.lost_nothing(report, now, {path: entry for path, entry in before.items()})
        if report.actions:
            self.back(now)

    def restore(self):
        if not self.states:
            return
        point, wanted = self.some.choice(self.states)
        now = self.project.picture()
        scope = [os.fsencode(self.some.choice(NAMES))] if self.some.random() < 0.4 else []
        try:
            report = self.project.workspace.restore(point, scope)
        except errors.PathNotFound:
            return
        found = self.project.picture()
        if not scope:
            assert report.kept or not differences(found, wanted)
        self.lost_nothing(report, now, wanted)
        if report.actions:
            self.back(now)
            if self.some.random() < 0.5:
                self.project.workspace.redo()
                assert not differences(self.project.picture(), found)

    def take(self):
        if not self.states:
            return
        point, _ = self.some.choice(self.states)
        there = self.project.root.with_name(f"{self.project.root.name} try")
        self.project.workspace.materialise(point, there)
        here, self.project.root = self.project.root, there
        real, self.project.real = self.project.real, self.project.real.with_name(there.name)
        try:
            for _ in range(self.some.randrange(1, 4)):
                self.edit()
            wanted = self.project.picture()
        finally:
            self.project.root, self.project.real = here, real
        now = self.project.picture()
        report = self.project.workspace.take(there)
        self.lost_nothing(report, now, wanted)
        shutil.rmtree(there)
        if report.actions:
            self.back(now)

    def back(self, wanted):
        report = self.project.workspace.undo()
        assert not report.kept and not differences(self.project.picture(), wanted)

    def lost_nothing(self, report, now, wanted):
        """A file that is gone without a word is not in the target under any name that is this file here."""
        folds = self.project.folds
        found = {key(os.fsdecode(path), folds) for path in self.project.picture()}
        gone = {key(os.fsdecode(path), folds) for path, entry in now.items() if entry[0] == "file"} - found
        in_target = {key(os.fsdecode(path), folds) for path in wanted}
        assert report.kept or not gone & in_target, (gone & in_target, report)


def files_of(found):
    return {path: entry for path, entry in found.items() if entry[0] == "file"}


@pytest.mark.parametrize("steps", [60, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_step_loses_a_path_of_the_target_without_a_word(project, steps):
    some = random.Random(SEED + steps)
    walk = Walk(project, some)
    for _ in range(steps):
        getattr(walk, some.choice(["save", "save", "turn", "turn", "revert_older", "restore", "restore", "take"]))()
