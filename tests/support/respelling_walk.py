"""A person and an agent who respell, edit and take back at random, on a disk that folds names; and the laws that hold after each step.

The danger watched for: an answer that says that all was done, after which a path of the target is gone, because it was there under
another spelling.
"""

import os
import random
import shutil
from collections import Counter

from casrewind import errors
from casrewind.workspace import open as opened
from support.agent_turns import AgentTurns
from support.folding_filesystem import key
from support.picture import differences, picture

NFC, NFD = "caf\u00e9", "cafe\u0301"
MIXED = [
    "Readme", "README", "readme", NFC, NFD, NFC.upper(), "Src/a", "src/a", "Src/A", "SRC/b", "Straße", "STRASSE", f"Src/{NFC}", f"src/{NFD}",
    f"{NFC}s/x", f"{NFD}s/x", f"{NFC}s/X", "1/2", "ß", "SS", "ss",
]  # fmt: skip
NO_LETTERS_AT_THE_TOP = [
    "1/Readme", "1/README", f"2/{NFC}", f"2/{NFD}", "2/3/a", "2/3/A", "4/Dir/a", "4/dir/a", "4/DIR/b", "5/ß", "5/SS", "5/sS", "7", "8/9",
]  # fmt: skip
VERBS = {
    "save": 3, "turn": 4, "revert_older": 2, "restore": 4, "keep_edits": 2, "take": 1, "make_directory": 1, "undo_after_edits": 1,
}  # fmt: skip
REFUSALS = (errors.PathNotFound, errors.UsageError, errors.ContentInTheWay, errors.UnsafePath, errors.CheckpointNotFound)


class Project:
    """A directory on a folding mount, with a store, an agent in it, and its picture taken from where the files lie."""

    def __init__(self, mount, name):
        self.folds, point, backing = mount
        self.root, self.real = point / name, backing / name

    def open(self, settings):
        self.root.mkdir()
        self.workspace = opened(self.root, settings)
        self.agent = AgentTurns(self.workspace, self.root)
        return self

    def respell(self, old, new):
        """Respell each part of a path, as `mv` does."""
        for depth in range(1, len(new.split("/")) + 1):
            done, left = new.split("/")[: depth - 1], old.split("/")[depth - 1]
            os.rename(self.root.joinpath(*done, left), self.root.joinpath(*new.split("/")[:depth]))

    def picture(self):
        return picture(self.real)

    def beside(self, name):
        return Project((self.folds, self.root.parent, self.real.parent), name)


class Walk:
    """One walk of `steps` random steps in a new project. `counts`: how many of each kind were made, and how many were refused."""

    def __init__(self, mount, name, settings, seed):
        self.some = random.Random(seed)
        self.names = self.some.choice([MIXED, MIXED, NO_LETTERS_AT_THE_TOP])
        self.project = Project(mount, name).open(settings)
        self.states, self.turns, self.counts, self.log = [], 0, Counter(), [f"{seed}:"]
        self.undone_to = []  # the pictures before the operations that an undo would take back, oldest first

    @property
    def workspace(self):
        return self.project.workspace

    def run(self, steps):
        verbs, weights = list(VERBS), list(VERBS.values())
        try:
            for _ in range(steps):
                verb = self.some.choices(verbs, weights)[0]
                self.log.append(verb)
                getattr(self, verb)()
                self.counts[verb] += 1
        except BaseException as error:
            error.add_note("; ".join([self.log[0], *self.log[-40:], str(sorted(self.project.picture()))]))
            raise
        finally:
            self.workspace.close()
        shutil.rmtree(self.project.root)

    # -- edits

    def edit(self, project=None):
        project, some = project or self.project, self.some
        found = project.picture()
        ways = ["write", "write", "write", "respell", "respell", "respell", "directory", "directory", "remove", "remove all", "mode", "link", "kind"]
        way, name = some.choice(ways), some.choice(self.names)
        files = [os.fsdecode(path) for path, entry in found.items() if entry[0] != "dir"]
        places = [os.fsdecode(path) for path, entry in found.items() if entry[0] == "dir"]
        old = some.choice(files) if files else ""
        path, there = project.root / name, project.root / old
        twins = [other for other in self.names if old and key(other, project.folds) == key(old, project.folds)]
        self.log.append(f"{way} {name if way in ('write', 'link', 'kind') else old}")
        match way:
            case "write":
                if _has_room(path) and not path.is_dir():
                    path.parent.mkdir(exist_ok=True, parents=True)
                    path.unlink(missing_ok=True)
                    path.write_text("\n".join(str(some.randrange(3)) for _ in range(some.randrange(5))))
            case "respell" if twins:
                new = some.choice(twins)
                self.log[-1] += f" as {new}"
                project.respell(old, new)
            case "directory" if places:
                self.respell_directory(project, some.choice(places))
            case "remove" if files:
                there.unlink()
            case "remove all" if places and some.random() < 0.5:
                shutil.rmtree(project.root / some.choice(places))
            case "mode" if old and not there.is_symlink():
                there.chmod(some.choice([0o644, 0o755, 0o600]))
            case "link":
                if _has_room(path) and not path.is_dir():
                    path.parent.mkdir(exist_ok=True, parents=True)
                    path.unlink(missing_ok=True)
                    path.symlink_to(some.choice(self.names))
            case "kind":  # a file in the place of a directory, and the other way round
                top = project.root / name.split("/")[0]
                if top.is_dir() and not top.is_symlink() and some.random() < 0.3:
                    shutil.rmtree(top)
                    top.write_text("was a directory")
                elif "/" in name and os.path.lexists(top) and not top.is_dir():
                    top.unlink()
                    path.parent.mkdir(parents=True)
                    path.write_text("was a file")

    def respell_directory(self, project, old):
        names = {name.rsplit("/", 1)[0] for name in self.names if "/" in name}
        twins = sorted(name for name in names if key(name, project.folds) == key(old, project.folds))
        if twins:
            new = self.some.choice(twins)
            self.log[-1] += f"{old} as {new}"
            project.respell(old, new)

    def edit_some(self, project=None):
        for _ in range(self.some.randrange(1, 4)):
            self.edit(project)

    # -- steps

    def save(self):
        self.edit_some()
        found = self.workspace.save()
        self.states.append((found.checkpoint, self.project.picture()))

    def turn(self):
        if self.some.random() < 0.3:
            self.edit_some()  # a person
        before = self.project.picture()
        self.turns += 1
        self.project.agent.prompt(f"p{self.turns}", f"p{self.turns}")
        self.edit_some()
        self.project.agent.stop(f"p{self.turns}")
        after = self.project.picture()
        if after == before or self.some.random() > 0.7:
            return
        scope = self.some_scope(0.3)
        report = self.operate(f"revert the turn {scope}", lambda: self.workspace.revert(["@1"], scope), before)
        if report is not None and not report.kept:
            self.as_wanted(after, before, scope, self.project.picture())

    def revert_older(self):
        turns = self.workspace.turns()
        if not turns:
            return
        chosen = self.some.sample(turns, min(len(turns), self.some.choice([1, 1, 1, 2, 3])))
        scope, conflicts = self.some_scope(0.3), self.some.choice(["", "", "theirs"])
        # what one of several turns makes, another may have removed before: no state is the target of them together
        before = dict(self.workspace.entries(chosen[0].before)) if len(chosen) == 1 and chosen[0].before else {}
        names = [f"@{turn.n}" for turn in chosen]
        self.operate(f"revert {names} {scope} {conflicts}", lambda: self.workspace.revert(names, scope, conflicts=conflicts), before)

    def restore(self):
        if not self.states:
            return
        point, wanted = self.some.choice(self.states[-12:])
        now, scope = self.project.picture(), self.some_scope(0.4)
        report = self.operate(f"restore {scope}", lambda: self.workspace.restore(point, scope), wanted)
        if report is not None and not report.kept:
            self.as_wanted(now, wanted, scope, self.project.picture())

    def keep_edits(self):
        if not self.states:
            return
        point, wanted = self.some.choice(self.states[-6:])
        scope = self.some_scope(0.3)
        self.operate(f"restore --keep-edits {scope}", lambda: self.workspace.restore(point, scope, keep_edits=True), wanted, is_exact=False)

    def make_directory(self):
        if not self.states:
            return
        point, wanted = self.some.choice(self.states[-12:])
        there = self.project.beside(f"{self.project.root.name} new")
        report = self.workspace.materialise(point, there.root)
        assert report.kept or not differences(there.picture(), wanted)
        shutil.rmtree(there.root)

    def take(self):
        if not self.states:
            return
        point, made = self.some.choice(self.states[-12:])
        there = self.project.beside(f"{self.project.root.name} try")
        self.workspace.materialise(point, there.root)
        self.edit_some(there)
        now, wanted, scope = self.project.picture(), there.picture(), self.some_scope(0.3)
        report = self.operate(f"take {scope}", lambda: self.workspace.take(there.root, scope), wanted)
        if report is not None and not report.kept and now == made:
            self.as_wanted(now, wanted, scope, self.project.picture())
        shutil.rmtree(there.root)

    def undo_after_edits(self):
        """An undo keeps what was edited since, and may go back further."""
        if not self.undone_to:
            return
        if self.some.random() < 0.5:
            self.edit_some()
        now, wanted = self.project.picture(), self.undone_to.pop()
        try:
            report = self.workspace.undo(everything=self.some.random() < 0.2)
        except REFUSALS:
            self.refused("undo", now)
            self.undone_to.append(wanted)
            return
        self.did_as_it_says(report, now, wanted)
        if not report.actions and report.kept:
            self.undone_to.append(wanted)

    # -- what holds

    def some_scope(self, chance):
        if self.some.random() >= chance:
            return []
        name = self.some.choice(self.names)
        return [os.fsencode(self.some.choice([name, name, name.split("/")[0]]))]

    def operate(self, words, act, wanted, *, is_exact=True):
        """Do something that has a target: the report, or None if it was refused. It holds the laws. At times it is undone and redone."""
        now = self.project.picture()
        self.log.append(words)
        try:
            report = act()
        except REFUSALS as error:
            self.refused(f"{words.split()[0]}: {type(error).__name__}", now)
            return None
        self.did_as_it_says(report, now, wanted if is_exact else {})
        if not report.actions:
            return report
        found = self.project.picture()
        if self.some.random() < 0.6:
            self.log.append("undo")
            undone = self.workspace.undo()
            assert not undone.kept
            assert not differences(self.project.picture(), now)
            self.counts["undo"] += 1
            if self.some.random() < 0.6:
                self.log.append("redo")
                redone = self.workspace.redo()
                assert not redone.kept
                assert not differences(self.project.picture(), found)
                self.counts["redo"] += 1
            else:
                return None
        self.undone_to.append(now)
        return report

    def refused(self, words, now):
        assert not differences(self.project.picture(), now), "a refusal changed something"
        self.counts[f"refused {words}"] += 1

    def key(self, path):
        return key(os.fsdecode(path), self.project.folds)

    def did_as_it_says(self, report, now, wanted):
        """Each action is done, nothing else is touched, and no path of the target is gone unless it is named."""
        found = self.project.picture()
        self.log += (f"{_kind(each.before)} {each.source!r} -> {_kind(each.after)} {each.path!r}" for each in report.actions)
        self.log += (f"kept {each.path!r}: {each.reason}" for each in report.kept)
        here, before = self.by_key(found), self.by_key(now)
        for action in report.actions:
            assert action.after is None or action.path in found, (action.path, sorted(found))
        touched = {self.key(path) for action in report.actions for path in (action.path, action.source)}
        made = {self.key(action.path) for action in report.actions if action.after is not None}
        kept = {self.key(item.path) for item in report.kept}
        for name in touched - made - kept:
            assert name not in here or here[name][0] == "dir", f"{name} was to be removed"
        for name, entry in before.items():
            if entry[0] != "dir" and name not in touched:
                assert here.get(name) == entry, f"{name} was not in the plan"
        gone = {name for name, entry in before.items() if entry[0] != "dir" and name not in here}
        missing = gone & {self.key(path) for path in wanted}
        assert not missing or report.incomplete, f"{missing} of the target are gone, and nothing is said"
        assert all(any(name == other or name.startswith(f"{other}/") for other in kept) for name in missing), f"{missing} are gone and not named"

    def by_key(self, found):
        return {self.key(path): entry for path, entry in found.items()}

    def as_wanted(self, now, wanted, scope, found):
        """What is in the scope is as in the target, in its spelling if there is no scope; all else is as before."""
        if not scope:
            assert not differences(_without_directories(found), _without_directories(wanted))
            return
        keys = tuple(map(self.key, scope))

        def is_in_scope(name):
            return any(name == each or name.startswith(f"{each}/") for each in keys)

        here, target, before = (self.by_key(_without_directories(each)) for each in (found, wanted, now))
        for name in {*here, *target, *before}:
            assert here.get(name) == (target if is_in_scope(name) else before).get(name), name


def _has_room(path):
    """True if no file is where a directory above the path has to be."""
    return not any(os.path.lexists(above) and not above.is_dir() for above in path.parents)


def _kind(entry):
    return "nothing" if entry is None else f"{entry.kind} {entry.mode:o} {entry.digest.hex()[:4]}"


def _without_directories(found):
    return {path: entry for path, entry in found.items() if entry[0] != "dir"}
