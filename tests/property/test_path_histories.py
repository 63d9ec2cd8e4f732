"""All histories of one path with up to four events, and what revert, --keep-edits, undo and take make of each.

An event is made, edited, moved, removed or another mode. A turn does it, a person between turns, a person while a turn runs,
a turn while another one runs, or a person behind Esc, in a turn whose end nobody sees. The histories with the same makers are
in one project, so that thousands are quick.

`expected` says what has to come out. It shares no code with casrewind: it knows files as values in places, and what was there
at each checkpoint, because it made them. Beside it stand laws that need no model: the plan is what happens, undo gives back
what was there, a line of a person stays, and what turns alone did is gone.

The push takes one of the parts, another one after each change. All of them (--run-long) are 195 parts with 156,400 histories, and
take 17 minutes of processor time.
"""

import itertools
import os
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from casrewind.workspace import Workspace
from support.agent_turns import AgentTurns
from support.sample_start import by_turns

TURN, PERSON, BESIDE, TWO, ESC = "a turn", "a person", "a person while a turn runs", "two turns at once", "a person behind Esc"
MAKERS = (TURN, PERSON, BESIDE, TWO, ESC)
MADE, EDITED, MOVED, REMOVED, MODE = "made", "edited", "moved", "removed", "mode"
NAMES = ("a", "b")
PLACES = 6
"""Values in a file. Between two of them stand two lines that nobody changes: so edits of two places never touch."""
MODES = (0o755, 0o700, 0o750, 0o711)
SEQUENCES = [makers for length in (1, 2, 3, 4) for makers in itertools.product(MAKERS, repeat=length) if set(makers) != {PERSON}]
PARTS = 390


def histories(length):
    """All (is it there at the start, kinds of events) of this length."""
    for is_there in (False, True):
        for kinds in itertools.product((MADE, EDITED, MOVED, REMOVED, MODE), repeat=length):
            at = "a" if is_there else None
            for kind in kinds:
                if (kind == MADE and at == "a") or (kind != MADE and at is None):
                    break  # what is there is not made, and what is not there is nothing else
                at = {MADE: "a", REMOVED: None, MOVED: {"a": "b"}.get(at, "a")}.get(kind, at)
            else:
                yield is_there, kinds


class File(NamedTuple):
    """The lines that events change, and the word that all its other lines have: it is the same as long as nobody makes it anew."""

    values: tuple
    mode: int
    word: str


class History:
    """One path: the file at each of its two names, or None, and the values that persons gave it."""

    def __init__(self, name, is_there, kinds):
        self.name, self.kinds, self.is_there = name, kinds, is_there
        self.files = {"a": self.new("start") if is_there else None, "b": None}
        self.start = dict(self.files)
        self.at = "a" if is_there else None
        self.seen = [dict(self.files)]  # at each checkpoint
        self.of_person = set()  # values that must not be lost

    def new(self, word):
        word = f"{self.name} {word}"
        return File(tuple(f"{word} {place}" for place in range(PLACES)), 0o644, word)

    def happen(self, number, maker):
        """The event of this number."""
        kind = self.kinds[number]
        if kind == MADE:
            self.files["a"], self.at = self.new(f"made {number}"), "a"
            if maker in (PERSON, ESC):
                self.of_person.update(self.files["a"].values)
        elif kind == EDITED:
            self.edit(number // 2, f"edited {number}", is_of_person=maker in (PERSON, ESC))
        elif kind == MOVED:
            other = "b" if self.at == "a" else "a"
            self.files[other], self.files[self.at], self.at = self.files[self.at], None, other
        elif kind == REMOVED:
            self.files[self.at], self.at = None, None
        else:
            self.files[self.at] = self.files[self.at]._replace(mode=MODES[number])

    def edit(self, place, value, *, is_of_person=False):
        """Replace the value in one place, if the file is there."""
        if self.at is not None:
            value, file = f"{self.name} {value}", self.files[self.at]
            self.files[self.at] = file._replace(values=(*file.values[:place], value, *file.values[place + 1 :]))
            if is_of_person:
                self.of_person.add(value)

    def write(self, root):
        for name in NAMES:
            write_file(os.path.join(root, f"{self.name}.{name}"), self.files[name])


def write_file(path, file):
    if file is None:
        if os.path.lexists(path):
            os.unlink(path)
        return
    with open(path, "w") as stream:
        stream.write("".join(f"{value}\n{file.word} below {place}\n{file.word}\n" for place, value in enumerate(file.values)))
    os.chmod(path, file.mode)


def read_file(path):
    try:
        with open(path) as stream:
            lines = stream.read().split("\n")
    except FileNotFoundError:
        return None
    return File(tuple(lines[0:-1:3]), os.stat(path).st_mode & 0o777, lines[2])


class Turn:
    """A turn of the model: the checkpoints (by their numbers) between which it ran, whether its end was seen, and at which of
    its steps others ran, too. `number`: as in @3, counted when all is done."""

    def __init__(self, first):
        self.first, self.last, self.is_unseen, self.beside, self.number = first, None, False, None, 0


class Project:
    """A project in which these makers made all histories of their number of events."""

    def __init__(self, root, settings, makers):
        self.root, self.makers = str(root), makers
        self.workspace = Workspace(self.root, settings._replace(store=self.root + ".store"), create=True)
        self.histories = [History(f"h{at:03}", *one) for at, one in enumerate(histories(len(makers)))]
        self.turns, self.checkpoints, self.esc = [], 0, 0
        self.write()
        self.base = self.workspace.save("start").checkpoint
        self.one, self.other = AgentTurns(self.workspace, self.root, "s1"), AgentTurns(self.workspace, self.root, "s2")
        for number, maker in enumerate(makers):
            self.happen(number, maker)
        for number, turn in enumerate(reversed(self.turns), 1):
            turn.number = number
            turn.last = self.checkpoints + 1 if turn.last is None else turn.last
        self.see()  # what is there now

    def write(self):
        for history in self.histories:
            history.write(self.root)

    def see(self):
        self.checkpoints += 1
        for history in self.histories:
            history.seen.append(dict(history.files))
        return self.checkpoints

    def prompt(self, agent, number):
        agent.prompt(f"p{number}", f"prompt {number}")
        turn = Turn(self.see())
        for open_turn in self.turns:
            open_turn.last = turn.first if open_turn.last is None else open_turn.last
        self.turns.append(turn)
        return turn

    def stop(self, agent, number, turn):
        agent.stop(f"p{number}")
        turn.last = self.see()

    def happen(self, number, maker):
        if maker == PERSON:
            return self.all_happen(number, maker)
        turn = self.prompt(self.one, number)
        if maker == TWO:
            turn.last = -1  # it runs on
            other = self.prompt(self.other, f"{number}-2")
            turn.beside, other.beside = other, turn
        elif maker in (BESIDE, ESC):
            for history in self.histories:
                history.edit(4 if maker == BESIDE else 5, f"agent {number}")
        self.all_happen(number, maker)
        if maker == ESC:
            turn.is_unseen = True
            return None
        self.stop(self.one, number, turn)
        if maker == TWO:
            self.stop(self.other, f"{number}-2", other)
        return None

    def all_happen(self, number, maker):
        for history in self.histories:
            history.happen(number, maker)
        self.write()

    def files(self):
        """What is there now, by history and name."""
        return {history.name: {name: read_file(os.path.join(self.root, f"{history.name}.{name}")) for name in NAMES} for history in self.histories}


def merged(base, ours, theirs):
    """(what three files become, is it a conflict), None for an absent one."""
    if base == theirs or ours == theirs:
        return ours, False
    if ours == base:
        return theirs, False
    if None in (base, ours, theirs):
        return ours, True
    mode, word = one_of(base.mode, ours.mode, theirs.mode), one_of(base.word, ours.word, theirs.word)
    values = [one_of(*three) for three in zip(base.values, ours.values, theirs.values, strict=True)]
    if None in (mode, word, *values):
        return ours, True
    return File(tuple(values), mode, word), False


def one_of(base, ours, theirs):
    """What one value becomes, None for a conflict."""
    if base == theirs or ours == theirs:
        return ours
    return theirs if ours == base else None


def moved_by_others(history, turns, name):
    """The name to which somebody else moved a file since, None if it was not moved so."""
    other = "b" if name == "a" else "a"
    went = [at for at, (old, new) in enumerate(zip(history.seen, history.seen[1:])) if old[name] is not None and new[name] is None]
    if history.files[name] is not None or history.files[other] is None or not went:
        return None
    old, new = history.seen[went[-1]], history.seen[went[-1] + 1]
    is_of_turns = any(turn.first <= went[-1] < turn.last for turn in turns)
    return other if not is_of_turns and old[other] is None and new[other] is not None and new[other].word == old[name].word else None


def expected(history, turns, *, shared=False):
    """(what is there when these turns were taken back, newest first; the names that are left alone)."""
    taken, left, result, steps = set(turns), set(), dict(history.files), {}
    for name in NAMES:
        found = [(turn, history.seen[turn.first][name], history.seen[turn.last][name]) for turn in turns]
        found = steps[name] = [step for step in found if step[1] != step[2]]
        if not shared and any(turn.is_unseen or (turn.beside is not None and turn.beside not in taken) for turn, _, _ in found):
            is_only_unseen = not any(turn.beside is not None and turn.beside not in taken for turn, _, _ in found)
            if not (is_only_unseen and len(found) == 1 and found[0][1] == history.files[name]):
                left.add(name)
            continue
        place, other = name, moved_by_others(history, turns, name)
        is_touched = any(history.seen[turn.first][other] != history.seen[turn.last][other] for turn in turns) if other else False
        if other and found and not is_touched and all(old and new for _, old, new in found):
            place = other
        file = history.files[place]
        for _, old, new in found:
            file, is_conflict = merged(new, file, old)
            if is_conflict:
                left.add(place)
                break
        else:
            if found:
                result[place] = file
    now, homeless = history.files, set()
    for name in left:
        had = {old.word for _, old, _ in steps[name] if old is not None}
        if had:  # and what it had while these turns ran
            had |= {file.word for turn, _, _ in steps[name] for seen in history.seen[turn.first : turn.last + 1] if (file := seen[name])}
        homeless |= {word for word in had if now[name] is None or now[name].word != word}
    for name in NAMES:
        is_put_there = any(new is not None and (old is None or old.word != new.word) for _, old, new in steps[name])
        is_homeless = name not in left and now[name] is not None and now[name].word in homeless
        if is_put_there and is_homeless and (result[name] is None or result[name].values != now[name].values):
            left.add(name)
            result[name] = now[name]
    return result, left


def outline(report):
    """A plan without its times."""
    def side(entry):
        return entry and entry._replace(mtime_ns=0, chunks=b"")

    return [(one.path, side(one.before), side(one.after)) for one in report.actions], report.kept, report.merged


def names_left_alone(report):
    """{history: {name: why it was left alone}}. What no turn changed stays by design."""
    found = defaultdict(dict)
    for item in report.kept:
        if not item.benign:
            history, _, name = item.path.decode().partition(".")
            found[history][name] = item.reason
    return found


class Trial:
    """Carries out each verb in a project, compares with what is expected, and takes it back."""

    def __init__(self, project):
        self.project, self.workspace, self.counts = project, project.workspace, Counter()
        self.before = project.files()
        self.counts["histories"] = len(project.histories)

    def of_turns(self, verb, turns, planned, carry_out, *, shared=False, stays):
        """A verb that takes these turns back. `stays`: what it promises stays."""
        done = self.plan_and_carry_out(verb, planned, carry_out)
        after, kept = self.project.files(), names_left_alone(done)
        for history in self.project.histories:
            result, left = expected(history, turns, shared=shared)
            told = (self.project.makers, history.is_there, history.kinds, verb)
            assert (after[history.name], set(kept[history.name])) == (result, left), repr((told, history.seen, history.files, kept[history.name]))
            self.counts[f"{verb}: left alone"] += len(left)
            self.counts[f"{verb}: changed"] += sum(result[name] != history.files[name] for name in NAMES)
            if stays:
                self.check_laws(history, after[history.name], left, told)
        self.counts[f"{verb}: merged by lines"] += len(done.merged)
        self.undo_exactly(verb, bool(done.actions))

    def check_laws(self, history, after, left, told):
        """What has to be so whatever a model says."""
        was = {value for file in self.before[history.name].values() if file is not None for value in file.values}
        stands = {value for file in after.values() if file is not None for value in file.values}
        lost = (was & history.of_person) - stands
        assert not lost, (told, lost)
        self.counts["values of persons that stay"] += len(was & history.of_person)
        if set(self.project.makers) <= {TURN, TWO}:
            assert after == history.start and not left, told
            self.counts["histories of turns alone, all taken back"] += 1

    def of_take(self, there):
        """`there`: what stands in the other directory, by history and name."""
        done = self.plan_and_carry_out("take", lambda: self.workspace.take(self.place, dry_run=True), lambda: self.workspace.take(self.place))
        after, kept = self.project.files(), names_left_alone(done)
        for history in self.project.histories:
            for name in NAMES:
                ours = history.files[name]
                result, is_conflict = merged(history.start[name], ours, there[history.name][name])
                assert after[history.name][name] == result and (name in kept[history.name]) == is_conflict, (history.kinds, name)
                self.counts["take: left alone"] += is_conflict
                self.counts["take: changed"] += result != ours
        self.counts["take: merged by lines"] += len(done.merged)
        self.undo_exactly("take", bool(done.actions))

    def plan_and_carry_out(self, verb, planned, carry_out):
        plan = planned()
        assert self.project.files() == self.before, "a plan changes nothing"
        done = carry_out()
        assert outline(plan) == outline(done), (verb, self.project.makers)
        self.counts[f"{verb}: plans that were what happened"] += 1
        return done

    def undo_exactly(self, verb, is_done):
        if is_done:
            plan = self.workspace.undo(dry_run=True) if verb in ("--keep-edits", "take") else None
            done = self.workspace.undo()
            assert plan is None or outline(plan)[0] == outline(done)[0]
            assert self.project.files() == self.before, (verb, "undo")
            self.counts["undone exactly"] += 1

    def run(self):
        """All verbs."""
        turns, point = list(reversed(self.project.turns)), None
        numbers = [turn.number for turn in turns]
        point = self.workspace.checkpoint(f"@{numbers[-1]}").id
        ids = {turn.n: turn.id for turn in self.workspace.turns()}
        sets = {"revert @1": turns[:1], "revert the oldest": turns[-1:], "revert all": turns}
        for verb, some in sets.items():
            chosen = [ids[turn.number] for turn in some]
            for shared in (False, True) if verb == "revert all" else (False,):
                name = f"{verb} --shared" if shared else verb
                self.of_turns(
                    name, some, lambda chosen=chosen, shared=shared: self.workspace.plan_revert(chosen, shared=shared),
                    lambda chosen=chosen, shared=shared: self.workspace.revert(chosen, shared=shared), shared=shared,
                    stays=not shared and verb == "revert all",
                )  # fmt: skip
        self.of_turns(
            "--keep-edits", turns, lambda: self.workspace.plan_restore(point, keep_edits=True),
            lambda: self.workspace.restore(point, keep_edits=True), stays=True,
        )  # fmt: skip
        self.place = self.project.root + ".try"
        self.workspace.materialise(self.project.base, self.place)
        self.of_take(self.change_there())
        return self.counts

    def change_there(self):
        """Change the other directory: each history in another way."""
        there = {}
        for at, history in enumerate(self.project.histories):
            files = dict(history.start)
            way = at % 6
            if files["a"] is None:
                files["a"] = history.new("there") if way < 4 else None
            elif way == 0:
                files["a"], files["b"] = None, files["a"]
            elif way == 1:
                files["a"] = None
            elif way < 5:
                values = files["a"].values
                values = (*values[: way - 2], f"{history.name} there", *values[way - 1 :])
                files["a"] = files["a"]._replace(values=values, mode=0o755 if way == 2 else 0o644)
            for name in NAMES:
                write_file(os.path.join(self.place, f"{history.name}.{name}"), files[name])
            there[history.name] = files
        return there


SHORT = {
    "a person between two turns": (TURN, PERSON, TURN), "a person after two turns": (TURN, TURN, PERSON),
    "a person behind Esc between two turns": (TURN, ESC, TURN),
}  # fmt: skip


def try_all_verbs(makers, root, settings):
    """The counts of what was tried and held."""
    root.mkdir()
    project = Project(root, settings, makers)
    try:
        return Trial(project).run()
    finally:
        project.workspace.close()


@pytest.mark.parametrize("makers", SHORT.values(), ids=SHORT)
def test_what_is_made_of_three_events(makers, tmp_path, settings):
    counts = try_all_verbs(makers, tmp_path / "three", settings)
    assert counts["histories"] == 65 and counts["--keep-edits: changed"] and counts["--keep-edits: left alone"]


@pytest.mark.parametrize("part", by_turns(range(PARTS), 1))
def test_what_is_made_of_each_history_of_one_path(part, tmp_path, settings):
    sequences, counts = SEQUENCES[part::PARTS], Counter()
    for at, makers in enumerate(sequences):
        counts += try_all_verbs(makers, tmp_path / f"p{at}", settings)
    print("; ".join(f"{what} = {number}" for what, number in sorted(counts.items())), "; violations = 0")
    assert counts["histories"] and counts["--keep-edits: plans that were what happened"] == len(sequences)
