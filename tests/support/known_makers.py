"""Histories of one worktree, made at random from a seed, in which it is known who wrote each line.

Half of the files begin with the lines of real files, those of Python's library. The makers are turns of two
sessions, which may run at once, and a person between turns, while a turn runs and behind Esc. The client may be killed then, and
its session begun anew. Texts are edited in place, made, renamed, removed and made executable; a file becomes a directory, and a
directory a file; links are made, changed and removed; the ignore rules change, and ignored files do.

Each edit writes a line of its own that no other has, with real lines beside it; a third of all edits are near the edit before them.
So `makers` knows whose a line is, wherever it stands. All else is looked up in `states`: what was there at each checkpoint.
Nothing here asks casrewind for anything but checkpoints.
"""

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from casrewind.store.agent_sessions import AgentSession

from .agent_turns import AgentTurns
from .picture import picture
from .trees import Link, plant

PERSON, START, BACKGROUND = "a person", "the start", "a command that outlived its client"
RULES = (b"*.log\nout/\n", b"*.log\nout/\n*.tmp\n", b"*.log\nout/\nnotes/\n", b"# nothing of logs\nout/\n")
PLACES = ("", "src/", "src/deep/", "doc/", "notes/")
_MOST_LINES = 240


def real_sources():
    """The lines of real files, of middle size. They are the library's: a seed makes the same history after a change of casrewind."""
    paths = [path for path in sorted(Path(subprocess.__file__).parent.glob("*.py")) if 2000 < path.stat().st_size < 60_000]
    return [path.read_bytes().splitlines(keepends=True) for path in paths]


class Line(NamedTuple):
    """Who wrote a line that no other file has, and after which checkpoint (its place in `states`)."""

    maker: object
    after: int


class Turn:
    """A turn: the ids and places of the checkpoints before it and at its end. `is_open`: nobody saw an end so far."""

    def __init__(self, session, identity, first):
        self.session, self.id, self.first, self.last = session, identity, first, None
        self.is_open, self.is_stopped, self.is_gone_back = True, False, False

    def __repr__(self):
        return f"turn {self.id} of {self.session} ({self.first} to {self.last})"


class Session:
    def __init__(self, workspace, root, name):
        self.name, self.turn, self.count = name, None, 0
        self.agent = AgentTurns(workspace, root, name)
        self.is_alive = False  # its client's process is known to live

    def note_process(self, *, lives):
        """The store knows the process of the client, or that it is gone."""
        self.is_alive = lives
        if lives:
            self.agent.run_in_this_process()
        else:
            context = self.agent.context
            made = (str(self.agent.root), context.root.key.hex(), 0, "UserPromptSubmit", True, 0, 0, "", "")
            context.store.sessions.record(AgentSession("claude", self.name, "", *made))


def read(root):
    """What is there: {path: ("dir", mode), ("file", mode, bytes) or ("link", target)}."""
    return {os.fsdecode(path): (*entry[:2], (root / os.fsdecode(path)).read_bytes()) if entry[0] == "file" else entry
            for path, entry in sorted(picture(root).items())}  # fmt: skip


def is_ignored(path, rules):
    """Whether these rules leave a file out: git's meaning of the kinds of line in RULES."""
    names = path.split("/")
    for line in rules.decode().splitlines():
        if line.startswith("*") and any(name.endswith(line[1:]) for name in names):
            return True
        if line.endswith("/") and line[:-1] in names[:-1]:
            return True
    return False


def rules_of(state):
    return state[".gitignore"][2] if ".gitignore" in state else b""


class History:
    """A history that grows by `step`. `steps` counts the edits and events so far."""

    def __init__(self, root, workspace, seed, *, sources):
        self.root, self.workspace, self.random, self.sources = root, workspace, random.Random(seed), sources
        self.states, self.points, self.turns = [], [], []  # `points`: (place in `states`, checkpoint)
        self.operations = []  # the places in `states` behind which an operation changed the files
        self.makers, self.last, self.made, self.steps = {}, {}, 0, 0
        self.moved = set()  # the lines that an edit moved, or moved others past: to a comparison, some of them are new
        self.sessions = [Session(workspace, root, name) for name in ("s1", "s2")]

    def begin(self):
        """The files at the start, and a checkpoint of them."""
        some = self.random
        plant(self.root, {".gitignore": RULES[0], "out/made.bin": b"built\n", "own.log": b"a log\n"})
        for number in range(10):
            lines = self.real_lines(_MOST_LINES) if number % 2 else [self.new_line(START) for _ in range(some.randint(20, 150))]
            plant(self.root, {f"{some.choice(PLACES)}f{number}.{some.choice(['py', 'md', 'tmp'])}": b"".join(lines)})
        self.know_real_lines()
        self.save()

    def know_real_lines(self):
        """The lines that stand once in all files are the start's."""
        files = (entry for path, entry in read(self.root).items() if entry[0] == "file" and path != ".gitignore")
        every = Counter(line for entry in files for line in entry[2].splitlines(keepends=True))
        for line, number in every.items():
            if number == 1 and line.strip() and line not in self.makers:
                self.makers[line] = Line(START, 0)

    # -- what is there, and whose it is

    def now(self):
        return read(self.root)

    def tell(self, event):
        """Tell casrewind an event, and note what its checkpoint has. Returns (its place in `states`, what the event gave). A save after
        which nothing differs makes no checkpoint: then the place is -1."""
        state, newest = self.now(), self._newest_checkpoint()
        found = event()
        if self._newest_checkpoint() == newest:
            return -1, found
        self.states.append(state)
        return len(self.states) - 1, found

    def _newest_checkpoint(self):
        context = self.workspace._context
        return context.store.head(context.root.key)

    def end_of(self, turn):
        """The place of the state in which a turn ended, None: the files as they are now."""
        if turn.last is not None:
            return turn.last
        if self.is_running(turn) or turn.first + 1 >= len(self.states):
            return None
        return turn.first + 1

    def is_running(self, turn):
        session = next(one for one in self.sessions if one.name == turn.session)
        return turn.is_open and session.turn is turn and session.is_alive and not turn.is_gone_back

    def go_back_to(self, at):
        """A restore to this place in `states`. Who goes back to before a turn does not wait for its end."""
        for session in self.sessions:
            if session.turn is not None and at <= session.turn.first:
                session.turn.is_gone_back = True

    def is_unseen(self, turn):
        """Whether nobody saw the end of a turn, and its client does not live any more."""
        return turn.last is None and not self.is_running(turn)

    def covers(self, turn, line):
        """Whether a line was written while a turn ran, as far as checkpoints tell."""
        end = self.end_of(turn)
        return turn.first <= line.after and (end is None or line.after < end)

    def own_steps(self, given):
        """The steps (state before, state behind) in which one or more of these turns ran, and no other one, newest first."""
        states, found = [*self.states, self.now()], []
        for at in reversed(range(len(states) - 1)):
            covering = [turn for turn in self.turns if self.covers(turn, Line(None, at))]
            if covering and all(turn in given and not self.is_unseen(turn) for turn in covering):
                found.append((states[at], states[at + 1]))
        return found

    def lines_to_keep(self, given, *, shared=False):
        """The lines that stand somewhere and that none of the turns `given` made. What a person wrote while a turn ran counts as that
        turn's; not so with two turns at once and behind an end that nobody saw, unless `shared`."""
        found = set()
        for entry in self.now().values():
            if entry[0] == "file":
                found.update(line for line in entry[2].splitlines(keepends=True) if line in self.makers)
        return {line for line in found if not self._may_go(self.makers[line], given, shared=shared)}

    def _may_go(self, line, given, *, shared):
        if line.maker == START:
            return False
        if line.maker in given or line.maker == BACKGROUND:
            return True
        covering = [turn for turn in self.turns if self.covers(turn, line)]
        if not any(turn in given for turn in covering):
            return False
        return shared or not any(self.is_unseen(turn) or turn not in given for turn in covering)

    def came_out_of_ignored(self, line):
        """Whether a line was moved out of ignored files, or these were no longer ignored: nobody can tell who wrote it."""
        was_ignored = False
        for state in (*self.states, self.now()):
            places = [path for path, entry in state.items() if entry[0] == "file" and line in entry[2].splitlines(keepends=True)]
            is_seen = any(not is_ignored(path, rules_of(state)) for path in places)
            if is_seen and was_ignored:
                return True
            was_ignored = bool(places) and not is_seen
        return False

    # -- one step

    def step(self):
        """One event or one edit."""
        some, self.steps = self.random, self.steps + 1
        session = some.choice(self.sessions)
        working = session.turn is not None and not session.turn.is_stopped
        kinds = {
            "prompt": 0 if working else 5, "agent": 22 if working else 0, "stop": 6 if working else 0, "stop by Esc": 1 if working else 0,
            "person": 9, "save": 2, "begin anew": 2 if session.turn is not None and session.turn.is_stopped else 0,
        }  # fmt: skip
        match some.choices(list(kinds), list(kinds.values()))[0]:
            case "prompt":
                self.prompt(session)
            case "agent":
                self.edit(session.turn)
            case "stop":
                self.stop(session)
            case "stop by Esc":
                session.turn.is_stopped = True
                if some.random() < 0.5:  # the client is gone, or nobody knows
                    session.note_process(lives=False)
                    if some.random() < 0.3:
                        self.edit(BACKGROUND)
            case "person":
                self.edit(PERSON)
            case "save":
                self.save()
            case "begin anew":
                session.note_process(lives=False)
                self.tell(lambda: session.agent.tell("SessionStart", source="resume"))
                session.turn.is_open = False
                session.turn = None

    def save(self):
        at, point = self.tell(lambda: self.workspace.save().checkpoint)
        if at >= 0:
            self.points.append((at, point))

    def prompt(self, session):
        if session.turn is not None:
            session.turn.is_open = False
        session.count += 1
        at, point = self.tell(lambda: session.agent.prompt(f"{session.name}-{session.count}", f"prompt {session.count} of {session.name}"))
        session.turn = Turn(session.name, point.id, at)
        session.note_process(lives=self.random.random() < 0.5)
        self.turns.append(session.turn)
        self.points.append((at, point))

    def stop(self, session):
        turn, session.turn = session.turn, None
        turn.last, _ = self.tell(lambda: session.agent.stop(f"{session.name}-{session.count}"))
        turn.is_open = False

    def finish_turns(self):
        """End what runs, so that no turn is open."""
        for session in self.sessions:
            if session.turn is not None and not session.turn.is_stopped:
                self.stop(session)

    # -- edits

    def new_line(self, maker):
        self.made += 1
        who = maker.id if isinstance(maker, Turn) else str(maker).replace(" ", "_")
        line = b"    value_%d = made_by('%s', %d)\n" % (self.made, who.encode(), self.random.randrange(1000))
        self.makers[line] = Line(maker, len(self.states) - 1)
        return line

    def real_lines(self, most):
        lines = self.random.choice(self.sources)
        at = self.random.randrange(len(lines))
        return lines[at : at + self.random.randint(1, most)]

    def new_lines(self, maker):
        """At least one line that no other has, and real ones beside it in half of all cases."""
        lines = [self.new_line(maker) for _ in range(self.random.randint(1, 3))]
        return lines if self.random.random() < 0.5 else self.new_at_random(lines, [*self.real_lines(3)])

    def new_at_random(self, lines, more):
        at = self.random.randint(0, len(lines))
        return [*lines[:at], *[line if line.endswith(b"\n") else line + b"\n" for line in more if line not in self.makers], *lines[at:]]

    def edit(self, maker):
        """One edit of one maker, somewhere."""
        some, state = self.random, self.now()
        files = [path for path, entry in state.items() if entry[0] == "file" and not is_ignored(path, RULES[0]) and path != ".gitignore"]
        if not files:
            return self.make_file(maker)
        hot = files[:6]
        path = some.choice(hot if some.random() < 0.7 else files)
        kinds = {
            self.edit_lines: 60, self.make_file: 5, self.remove: 4, self.rename: 5, self.change_mode: 3, self.replace_kind: 3,
            self.write_ignored: 3, self.change_rules: 1, self.edit_link: 3,
        }  # fmt: skip
        return some.choices(list(kinds), list(kinds.values()))[0](maker, path)

    def edit_lines(self, maker, path, times=None):
        """Insert, remove, replace or move lines, once or twice."""
        some, place = self.random, self.root / path
        lines = place.read_bytes().splitlines(keepends=True)
        for _ in range(times or some.randint(1, 2)):
            near = self.last.get(path, 0) + some.randint(-8, 8) if some.random() < 0.3 else some.randint(0, len(lines))
            at = max(0, min(near, len(lines)))
            self.last[path] = at
            if lines and not lines[-1].endswith(b"\n") and at == len(lines):
                at -= 1
            match some.choices(["insert", "remove", "replace", "move"], [4, 2, 4, 1])[0]:
                case "insert":
                    lines[at:at] = self.new_lines(maker)
                case "remove":
                    del lines[at : at + some.randint(1, 4)]
                case "replace":
                    lines[at : at + some.randint(1, 4)] = self.new_lines(maker)
                case "move":
                    part = lines[at : at + some.randint(1, 4)]
                    if part and part[-1].endswith(b"\n"):
                        del lines[at : at + len(part)]
                        to = some.randint(0, max(0, len(lines) - 1))
                        self.moved.update(part, lines[min(at, to) : max(at, to)])
                        lines[to:to] = part
        write(place, b"".join(lines))

    def make_file(self, maker, _path=None):
        some = self.random
        name = f"{some.choice(PLACES)}n{some.randrange(30)}.{some.choice(['py', 'md', 'tmp'])}"
        lines = [line for _ in range(some.randint(1, 6)) for line in self.new_lines(maker)]
        if self.has_room_for(name):
            plant(self.root, {name: b"".join(lines)})

    def has_room_for(self, name):
        """Whether nothing is at a path, and its parents are directories or can be made."""
        place = self.root / name
        above = [parent for parent in place.parents if self.root in parent.parents]
        return not os.path.lexists(place) and all(parent.is_dir() or not os.path.lexists(parent) for parent in above)

    def remove(self, _maker, path):
        (self.root / path).unlink()
        if self.random.random() < 0.3:
            self.remove_empty_above(path)

    def remove_empty_above(self, path):
        for parent in (self.root / path).parents:
            if parent == self.root or any(parent.iterdir()):
                break
            parent.rmdir()

    def rename(self, _maker, path):
        some = self.random
        new = f"{some.choice(PLACES)}r{some.randrange(30)}{os.path.splitext(path)[1]}"
        if self.has_room_for(new):
            (self.root / new).parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.root / path, self.root / new)

    def change_mode(self, _maker, path):
        (self.root / path).chmod(self.random.choice([0o644, 0o755, 0o700]))

    def replace_kind(self, maker, path):
        """A file becomes a directory with files; or a directory of files one file; or a file that was removed is made anew."""
        some, place = self.random, self.root / path
        if some.random() < 0.4 and place.parent.name.startswith(("f", "n", "r")):
            gone = place.parent
            shutil.rmtree(gone)
            write(gone, b"".join(self.new_lines(maker)))
        elif some.random() < 0.6:
            place.unlink()
            plant(self.root, {f"{path}/{name}.py": b"".join(self.new_lines(maker)) for name in some.sample("abc", some.randint(1, 2))})
        else:
            write(place, b"".join(line for _ in range(some.randint(1, 5)) for line in self.new_lines(maker)))

    def edit_link(self, _maker, _path=None):
        """Make a symbolic link, or remove one, or change its target."""
        some, links = self.random, [path for path, entry in self.now().items() if entry[0] == "link"]
        path = some.choice(links) if links and some.random() < 0.5 else f"{some.choice(PLACES)}l{some.randrange(5)}.py"
        if path in links:
            (self.root / path).unlink()
        if (path not in links or some.random() < 0.6) and self.has_room_for(path):
            plant(self.root, {path: Link(some.choice(["nowhere", "src", "../f0.py"]))})

    def write_ignored(self, maker, _path=None):
        path = self.random.choice(["out/made.bin", "own.log", "src/x.log", "out/deep/y"])
        if self.has_room_for(path) or (self.root / path).is_file():
            plant(self.root, {path: b"".join(self.new_lines(BACKGROUND))})

    def change_rules(self, _maker, _path=None):
        plant(self.root, {".gitignore": self.random.choice(RULES)})


def write(place, data):
    """Write a file in place: its mode stays."""
    with open(place, "wb") as file:
        file.write(data)
