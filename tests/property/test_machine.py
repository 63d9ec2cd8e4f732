"""Random work on real files against a plain model: whatever is done between, a restore is exact and an undo takes back.

`CASREWIND_EXAMPLES` sets how many runs are made, `CASREWIND_STEPS` how long they are, `CASREWIND_RANDOM=1` lets them
differ from call to call, `CASREWIND_SHRINK=0` shows a failure as it came. What is expected is computed by support/reference_model.py from pictures alone.
"""

import collections
import hashlib
import os
import random
import shutil
import stat
import tempfile
import time

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from casrewind import errors
from casrewind.workspace import Settings, Workspace
from support import reference_model as model
from support.picture import differences, picture

EXAMPLES = int(os.environ.get("CASREWIND_EXAMPLES", "60"))
STEPS = int(os.environ.get("CASREWIND_STEPS", "25"))
PHASES = (Phase.generate, Phase.shrink)[: 1 if os.environ.get("CASREWIND_SHRINK") == "0" else 2]
SHM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

NAMES = [b"a", b"b", b"d", b"e", b"ign.txt", b"x.log", b"keep.log", b"igdir", b"node_modules", b"n\xff\n"]
CONTENTS = [b"", b"one\n", b"two\n", b"x" * 4000, random.Random(1).randbytes(70_000), random.Random(2).randbytes(1_300_000)]
TOO_LARGE = model.LIMIT + 1
MODES = [0o644, 0o600, 0o755, 0o640, 0o444]
DIRECTORY_MODES = [0o755, 0o700, 0o750]

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(b"/".join)
places = st.one_of(st.just(b""), st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map(b"/".join))
which = st.sampled_from([*range(4), *range(4), *range(5), *range(4), 5])  # of CONTENTS; large ones are rare
number = st.integers(0, 9999)

DONE = collections.Counter()
"""What all runs together did."""


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.top = tempfile.mkdtemp(prefix="casrewind-machine-", dir=SHM)
        self.root = os.path.join(self.top, "project")
        self.victim = os.path.join(self.top, "victim")
        for place in (os.path.join(self.root, ".git"), os.path.join(self.victim, "d")):
            os.makedirs(place)
        for place in (os.path.join(self.root, ".git", "HEAD"), os.path.join(self.victim, "a"),
                      os.path.join(self.victim, "d", "b")):  # fmt: skip
            with open(place, "wb") as file:
                file.write(b"not yours\n")
        self.outside = picture(self.victim, mtimes=True, inodes=True)
        self.git = picture(os.path.join(self.root, ".git"), mtimes=True, inodes=True)
        self.workspace = None
        self.points = []  # (checkpoint, model.Point)
        self.newest = None  # index of the newest one that is no safety checkpoint
        self.undoable, self.redoable = [], []  # (before, after)
        self.count = 0
        self.open()

    # -- plumbing

    def open(self):
        if self.workspace is not None:
            self.workspace.close()
        home = os.path.join(self.top, "home")
        os.makedirs(home, exist_ok=True)
        environ = {"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}
        chosen = Settings(home=home, data=os.path.join(home, "data"), environ=environ, max_file_size=model.LIMIT, force=True)
        self.workspace = Workspace(self.root, chosen, create=True)

    def teardown(self):
        try:
            self.every_checkpoint_is_readable()
        finally:
            self.workspace.close()
            shutil.rmtree(self.top)

    def at(self, path):
        return os.path.join(os.fsencode(self.root), path)

    def look(self):
        """The tree as it is, without the root's own .git; that and what lies outside must be as ever."""
        assert picture(self.victim, mtimes=True, inodes=True) == self.outside
        found = picture(self.root, mtimes=True, inodes=True)
        git = {p.removeprefix(b".git/"): found.pop(p) for p in list(found) if p.startswith(b".git/")}
        assert git == self.git
        del found[b".git"]
        return model.things(found, self.root)

    def clear(self, path):
        """Remove whatever stands at a path or above it without being a directory."""
        for place in model.parents(path):
            if os.path.lexists(self.at(place)) and not os.path.isdir(self.at(place)) or os.path.islink(self.at(place)):
                os.unlink(self.at(place))
            if not os.path.lexists(self.at(place)):
                os.mkdir(self.at(place))
        self.remove(path)

    def remove(self, path):
        full = self.at(path)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        elif os.path.lexists(full):
            os.unlink(full)

    def some(self, pick, *kinds):
        """One of the paths that are there, or None."""
        found = sorted(p for p, thing in self.look().items() if not kinds or thing.kind in kinds)
        return found[pick % len(found)] if found else None

    # -- work

    @initialize(trees=st.lists(st.tuples(paths, which), max_size=5))
    def begin(self, trees):
        DONE["steps"] -= 1  # the first call of `count_steps` is for this
        DONE["runs"] += 1
        for path, number in trees:
            self.write(path=path, which=number, mode=0o644, in_place=False)

    @invariant()
    def count_steps(self):
        DONE["steps"] += 1

    @rule(path=paths, which=which, mode=st.sampled_from(MODES), in_place=st.booleans())
    def write(self, path, which, mode, in_place):
        self.put(path, CONTENTS[which], mode, in_place=in_place)

    def put(self, path, data, mode, *, in_place):
        full = self.at(path)
        if not (in_place and os.path.isfile(full) and not os.path.islink(full) and os.access(full, os.W_OK)):
            self.clear(path)
        with open(full, "wb") as file:
            file.write(data)
        os.chmod(full, mode)

    @rule(pick=number)
    def edit_unseen(self, pick):
        """Other bytes of the same length, and the old mtime put back."""
        path = self.some(pick, "file")
        if path is None or model.name_of(path) in model.RULE_FILES:
            return
        status = os.lstat(self.at(path))
        os.chmod(self.at(path), 0o644)
        with open(self.at(path), "r+b") as file:
            file.write(b"%04d" % (self.count % 10_000) if status.st_size >= 4 else b"")
        os.utime(self.at(path), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.chmod(self.at(path), stat.S_IMODE(status.st_mode))
        self.count += 1

    @rule(pick=number, seconds=st.integers(0, 2_000_000_000))
    def touch(self, pick, seconds):
        path = self.some(pick, "file")
        if path is not None:
            os.utime(self.at(path), ns=(seconds * 10**9 + 7, seconds * 10**9 + 7))

    @rule(pick=number)
    def grow(self, pick):
        """A file over the limit."""
        path = self.some(pick, "file")
        if path is not None and model.name_of(path) not in model.RULE_FILES:
            mode = stat.S_IMODE(os.lstat(self.at(path)).st_mode)
            os.chmod(self.at(path), 0o644)
            os.truncate(self.at(path), TOO_LARGE)
            os.chmod(self.at(path), mode)

    @rule(path=paths, to=st.sampled_from(["a", "d", "../../x", "nowhere", "/victim", "/victim/d", "."]))
    def link(self, path, to):
        self.clear(path)
        os.symlink(self.victim + to.removeprefix("/victim") if to.startswith("/victim") else to, self.at(path))

    @rule(path=paths, mode=st.sampled_from(DIRECTORY_MODES))
    def make_directory(self, path, mode):
        if not (os.path.isdir(self.at(path)) and not os.path.islink(self.at(path))):
            self.clear(path)
            os.mkdir(self.at(path))
        os.chmod(self.at(path), mode)

    @rule(path=paths)
    def make_fifo(self, path):
        self.clear(path)
        os.mkfifo(self.at(path))

    @rule(path=paths)
    def make_nested_repository(self, path):
        self.clear(path)
        os.makedirs(os.path.join(self.at(path), b".git"))
        with open(os.path.join(self.at(path), b".git", b"HEAD"), "wb") as file:
            file.write(b"nested\n")

    @rule(pick=number)
    def delete(self, pick):
        path = self.some(pick)
        if path is not None:
            self.remove(path)

    @rule(pick=number, path=paths)
    def rename(self, pick, path):
        source = self.some(pick)
        if source is None or path == source or model.is_below(path, source) or model.is_below(source, path):
            return
        if model.name_of(source) in (*model.RULE_FILES, b".git"):
            return
        self.clear(path)
        if os.path.lexists(self.at(source)):  # else making room for it took it away
            os.rename(self.at(source), self.at(path))

    @rule(pick=number, mode=number)
    def change_mode(self, pick, mode):
        path = self.some(pick, "file", "dir")
        if path is not None:
            modes = DIRECTORY_MODES if os.path.isdir(self.at(path)) else MODES
            os.chmod(self.at(path), modes[mode % len(modes)])

    @rule(place=places, name=st.sampled_from(model.RULE_FILES), data=st.sampled_from(sorted(model.VARIANTS.values())))
    def set_rules(self, place, name, data):
        if place and (os.path.islink(self.at(place)) or not os.path.isdir(self.at(place))):
            place = b""
        self.put(model.join(place, name), data, 0o644, in_place=True)

    @rule(pick=number)
    def drop_rules(self, pick):
        found = sorted(p for p in self.look() if model.name_of(p) in model.RULE_FILES)
        if found:
            self.remove(found[pick % len(found)])

    @rule()
    def pause(self):
        """Long enough for stamps to be believed."""
        time.sleep(0.021)

    @rule()
    def lose_index(self):
        shutil.rmtree(os.path.join(self.workspace.store_path, "index"), ignore_errors=True)

    @rule()
    def reopen(self):
        self.open()

    # -- casrewind

    @rule(message=st.sampled_from(["", "", "", "label"]))
    def save(self, message):
        now = self.look()
        point = model.Point.of(now)
        before = self.newest
        same = before is not None and self.points[before][1].is_same_state(point)
        report = self.workspace.save(message)
        DONE["saves"] += 1
        assert self.look() == now, "a save changed the tree"
        assert report.created == (bool(message) or not same), (report, point, before)
        if report.created:
            self.points.append((report.checkpoint, point))
            self.newest = len(self.points) - 1
        else:
            assert report.checkpoint == self.points[before][0]
        self.holds_exactly(*self.points[self.newest])
        assert not report.faults

    def holds_exactly(self, checkpoint, point):
        entries = dict(self.workspace.entries(checkpoint))
        found = {path: (self.as_what(entry), entry.mtime_ns if entry.kind == "file" else None) for path, entry in entries.items()}
        wanted = {path: (self.without_digest(thing), thing.mtime) for path, thing in point.holds.items()}
        assert found == wanted, differences(found, wanted)

    @staticmethod
    def as_what(entry):
        if entry.kind == "link":
            return "link", entry.target
        return (entry.kind, entry.mode & 0o777, entry.size) if entry.kind == "file" else (entry.kind, entry.mode & 0o777)

    @staticmethod
    def without_digest(thing):
        return (*thing.what[:2], thing.size) if thing.kind == "file" else thing.what

    @rule(path=paths, special=st.booleans(), later=st.sampled_from(["file", "directory", "mode of its directory"]))
    def skip_something(self, path, special, later):
        """What chance alone seldom brings together: a path that a checkpoint skips, and what becomes of it."""
        self.clear(path)
        if special:
            os.mkfifo(self.at(path))
        else:
            self.put(path, b"", 0o644, in_place=False)
            os.truncate(self.at(path), TOO_LARGE)
        time.sleep(0.021)
        self.save("")
        if later == "mode of its directory":
            place = self.at(model.parent_of(path))
            if place != self.at(b""):
                os.chmod(place, 0o711 if os.stat(place).st_mode & 0o777 != 0o711 else 0o755)
        else:
            self.clear(path)
            if later == "directory":
                os.mkdir(self.at(path))
                path = model.join(path, b"a")
            self.put(path, b"small\n", 0o644, in_place=False)
        self.save("")

    @precondition(lambda self: self.points)
    @rule(pick=number)
    def restore(self, pick):
        self.go_back(pick, ())

    @precondition(lambda self: self.points)
    @rule(pick=number, scope=st.lists(paths, min_size=1, max_size=2, unique=True))
    def restore_paths(self, pick, scope):
        self.go_back(pick, tuple(scope))

    def go_back(self, pick, scope):
        now = self.look()
        checkpoint, point = self.points[pick % len(self.points)]
        if scope and not any(place in now or place in point.holds for place in scope):
            for attempt in (self.workspace.plan_restore, self.workspace.restore, self.workspace.diff):
                with pytest.raises(errors.PathNotFound):
                    attempt(checkpoint, scope=scope)
                assert self.look() == now, "a refused restore changed something"
            return
        try:
            wanted = model.after_restore(now, point, scope)
        except model.Refused:
            DONE["refused"] += 1
            for attempt in (self.workspace.plan_restore, self.workspace.restore):
                with pytest.raises(errors.ContentInTheWay):
                    attempt(checkpoint, scope)
                assert self.look() == now, "a refused restore changed something"
            return
        unknown = {place for place in scope if not model.is_known(place, now, point)}
        DONE["restores"] += 1
        planned = self.workspace.plan_restore(checkpoint, scope)
        assert self.look() == now, "a dry run changed something"
        report = self.workspace.restore(checkpoint, scope)
        self.is_as_wanted(report, now, wanted)
        assert {item.path for item in report.kept if item.reason == "not in the checkpoint"} == unknown, report.kept
        assert {item.path for item in report.kept if not item.benign} <= unknown, report.kept
        assert [a.path for a in planned.actions] == [a.path for a in report.actions]
        if report.safety:
            self.undoable.append((now, self.look()))
            self.redoable.clear()

    def is_as_wanted(self, report, before, wanted):
        """The tree is what the model says, was changed only there, tells the truth, and lost nothing."""
        after = self.look()
        whats = [{path: thing.what for path, thing in tree.items()} for tree in (after, wanted)]
        assert whats[0] == whats[1], differences(*whats)
        changed = {p for p in before.keys() | after.keys() if model.what(before, p) != model.what(after, p)}
        assert {action.path for action in report.actions} == changed
        assert bool(report.safety) == bool(changed), report
        for path, thing in after.items():
            if path not in changed:
                assert thing == before[path], f"{path!r} was rewritten although it did not differ"
            elif thing.kind == "file" and (before.get(path) is None or before[path].what[::2] != thing.what[::2]):
                assert thing.mtime == wanted[path].mtime, f"{path!r} has another mtime than was recorded"
        if changed:
            held = dict(self.workspace.entries(self.workspace.checkpoint(report.safety)))
            for path in changed & before.keys():
                assert self.as_what(held[path]) == self.without_digest(before[path]), f"{path!r} is not safe"

    @precondition(lambda self: self.undoable)
    @rule()
    def undo(self):
        self.take_back(self.workspace.undo, self.undoable, self.redoable, everything=False)

    @precondition(lambda self: self.undoable)
    @rule()
    def undo_everything(self):
        self.take_back(lambda: self.workspace.undo(everything=True), self.undoable, self.redoable, everything=True)

    @precondition(lambda self: self.redoable)
    @rule()
    def redo(self):
        self.take_back(self.workspace.redo, self.redoable, self.undoable, everything=False)

    @precondition(lambda self: self.points)
    @rule(pick=number)
    def restore_and_undo(self, pick):
        """With nothing between: bit-identical."""
        before = self.look()
        steps = len(self.undoable)
        self.go_back(pick, ())
        if len(self.undoable) > steps:
            self.undo()
            pictures = [{path: thing._replace(inode=0) for path, thing in tree.items()} for tree in (before, self.look())]
            assert pictures[0] == pictures[1], differences(*pictures)

    def take_back(self, operation, source, destination, *, everything):
        now = self.look()
        before, after = source[-1]
        try:
            wanted, kept = model.after_taking_back(before, after, now, everything=everything)
        except model.Refused:
            DONE["refused"] += 1
            with pytest.raises(errors.ContentInTheWay):
                operation()
            assert self.look() == now, "a refused undo changed something"
            return
        report = operation()
        DONE["undos and redos"] += 1
        self.is_as_wanted(report, now, wanted)
        assert {item.path for item in report.kept} == kept
        assert report.incomplete == bool(kept)
        if report.safety or not kept:
            source.pop()
            destination.append((now, self.look()))
        status = self.workspace.status()
        assert (status.undo, status.redo) == (len(self.undoable), len(self.redoable))

    # -- at the end

    def every_checkpoint_is_readable(self):
        for number, (checkpoint, point) in enumerate(self.points):
            self.holds_exactly(checkpoint, point)
            elsewhere = os.path.join(self.top, f"copy-{number}")
            self.workspace.materialise(checkpoint, elsewhere)
            found = picture(elsewhere, mtimes=True)
            wanted = {p: (*t.what, t.mtime) if t.kind == "file" else t.what for p, t in point.holds.items()}
            assert found == wanted, differences(found, wanted)
        listed = [point.id for point, _ in self.workspace.checkpoints() if point.trigger != "safety"]
        assert listed == [checkpoint.id for checkpoint, _ in self.points[::-1]]


@pytest.mark.timeout(0)
@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(4000, marks=pytest.mark.long)])
def test_any_sequence_of_work_and_restores_agrees_with_the_model(examples):
    DONE.clear()
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples, stateful_step_count=STEPS, deadline=None, database=None, print_blob=False,
            derandomize=not os.environ.get("CASREWIND_RANDOM"), suppress_health_check=list(HealthCheck),
            phases=PHASES,
        ),
    )  # fmt: skip
    print(", ".join(f"{number} {what}" for what, number in DONE.items()))
    assert DONE["runs"] >= examples
    assert DONE["steps"] > examples * STEPS / 2
    assert min(DONE["restores"], DONE["undos and redos"], DONE["saves"]) > examples / 10


def test_the_model_knows_its_rules():
    """The judge is judged, too: a few verdicts written down by hand."""
    rules = model.Rules({(b"", b".gitignore"): b"ign.txt\nigdir/\n*.log\n", (b"d", b".gitignore"): b"*.log\n!keep.log\n"})
    captured = {
        b"a": True, b"ign.txt": False, b"d/ign.txt": False, b"x.log": False, b"keep.log": False, b"d/keep.log": True,
        b"d/x.log": False, b"e/keep.log": False, b"igdir": True, b"igdir/a": False, b"node_modules/a": True,
    }  # fmt: skip
    assert {path: rules.captures(path, is_dir=False) for path in captured} == captured
    assert not rules.captures(b"igdir", is_dir=True)
    assert not model.Rules({}).captures(b"d/node_modules/a", is_dir=False)
    assert model.Rules({}).captures(b"node_modules", is_dir=False)
    wins = model.Rules({(b"", b".casrewindignore"): b"!ign.txt\n!x.log\n", (b"d", b".gitignore"): b"*\n"})
    assert wins.captures(b"d/ign.txt", is_dir=False)
    assert not wins.captures(b"d/a", is_dir=False)
    assert hashlib.sha256(b"*\n").hexdigest() in model.VARIANTS
