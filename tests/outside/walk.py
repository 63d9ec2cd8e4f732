"""Random histories of a project under the command line, each judged by a plain model: `python walk.py --seed 3 --steps 400`.

A step is an edit or a command. Each has a seed of its own, so that any part of a history can be done again: of one that fails, the
smallest part that still fails is printed. As root on Linux there are mounts and immutable files, too. Exits with 1 on a difference.
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

import plain
from plain import State, join, look, parents

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PAYLOADS = os.path.join(TOP, "tests", "agents", "data", "claude_hooks")
COMMAND = [sys.executable, "-I", os.path.join(os.environ.get("CASREWIND_TOP", TOP), "casrewind", "__main__.py")]
CODES = {0, 1, 3, 10, 11, 12, 13, 14, 15, 16, 17, 20, 64, 130}  # docs/cli.md; 70 is a bug wherever it comes
PATIENCE = 120
MIB = 1 << 20
NAMES = [
    b"a", b"b", b"c.log", b"keep.log", b"d", b"e", b"Case", b"case", "caf\u00e9".encode(), "cafe\u0301".encode(), b"na\xffme", b"new\nline",
    b"-x", b"build", b"tmp", b"x" * 255, b" lead", b"tail ", b"q\"uote", b"\x1b[31m", b"star*", b"link", b"deep", b"nest",
]  # fmt: skip
PATTERNS = [
    b"*.log", b"!keep.log", b"build/", b"/tmp", b"tmp", b"d/e", b"**/deep", b"deep/**", b"a*", b"!a", b"/b", b"nest/*", b"!nest/a", b"# a remark",
    b"Case", b"*", b"!d/", b"?", b"d/**/c.log",
]  # fmt: skip
MODES = [0o644, 0o600, 0o755, 0o000, 0o555, 0o444, 0o700, 0o4755, 0o2755]
DIR_MODES = [0o755, 0o700, 0o555, 0o000, 0o1777, 0o2775, 0o3777]
TIMES = [0, 1, 1_600_000_000_123_456_789, 9_223_372_036_854_775_807] + ([] if "NO_FAR" in os.environ else [9_300_000_000_000_000_000, 12_000_000_000_000_000_000])
SIZES = {"1MiB": MIB, "4MiB": 4 * MIB}
SETTINGS = [b"[capture]\nmax_file_size = \"1MiB\"\n", b"[capture]\nmax_file_size = \"4MiB\"\n", b"", b"no toml [", b"[capture]\nno_such_key = 1\n"]
EDITS = {
    "write": 16, "append": 5, "remove": 8, "make_dir": 6, "remove_tree": 2, "rename": 6, "link": 3, "fifo": 1, "mode": 6, "time": 3, "rules": 4,
    "hard_link": 3, "large": 2, "settings": 2, "mount": 2, "unmount": 2, "flag": 2, "unflag": 3, "store": 1, "nested": 1,
}  # fmt: skip
COMMANDS = {
    "save": 8, "save_labelled": 3, "run": 1, "hook": 2, "restore": 9, "restore_paths": 5, "dry_run": 2, "to": 2, "undo": 5, "redo": 4, "gc": 1,
    "pin": 1, "verify": 1, "lose_index": 1, "move": 1,
}  # fmt: skip


class Difference(Exception):
    """The command line and the model do not agree."""


class Project:
    """A project, its home, what lies around it, and what the model knows of it."""

    def __init__(self, place, seed):
        self.place, self.log = place, []
        self.chance = random.Random(seed)
        self.root, self.home, self.outside = f"{place}/project", f"{place}/home", f"{place}/outside"
        for directory in (self.root, self.home, self.outside, f"{self.outside}/far"):
            os.mkdir(directory)
        for name in ("one", "two", "far/three"):
            self._put(f"{self.outside}/{name}", name.encode() * 20)
        self.kind = self.chance.choice(["plain", "git", "git", "forged"])
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1",
            "CASREWIND_AUTO_GC": "false", "CASREWIND_MAX_FILE_SIZE": "2MiB",
        }  # fmt: skip
        self.points, self.order, self.pinned, self.stores = {}, [], set(), set()
        self.done, self.undone, self.is_sure = [], [], True
        self.general = []
        self._begin()
        self.steps = 0

    def _put(self, path, data):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def _begin(self):
        if self.kind == "git":
            for name, data in (("HEAD", b"ref: refs/heads/main\n"), ("config", b"[core]\n\tbare = false\n"), ("info/exclude", b"excluded\ntmp\n")):
                self._put(f"{self.root}/.git/{name}", data)
            os.makedirs(f"{self.root}/.git/objects")
            os.makedirs(f"{self.root}/.git/refs")
            self._put(f"{self.home}/.config/git/ignore", b"*.orig\n/link\n")
            self.general = [b"excluded\ntmp\n", b"*.orig\n/link\n"]
        self.victim = None
        if self.kind == "forged":
            self.victim = f"{self.outside}/victim"
            self._put(f"{self.victim}/precious", b"of another project")
            for name, data in (("HEAD", b"ref: refs/heads/main\n"), ("config", b""), ("worktrees/w/HEAD", b"ref: refs/heads/w\n")):
                self._put(f"{self.victim}/.git/{name}", data)
            os.makedirs(f"{self.victim}/.git/objects")
            os.makedirs(f"{self.victim}/.git/refs")
            self._put(f"{self.root}/.git", b"gitdir: " + os.fsencode(f"{self.victim}/.git/worktrees/w\n"))
            self.call("save", "-m", "theirs", "--pin", root=self.victim, codes={0})
        self.call("install", "claude", codes={0})
        with open(f"{self.home}/.claude/settings.json") as file:
            self.hook_line = json.load(file)["hooks"]["Stop"][0]["hooks"][0]["command"]
        os.makedirs(f"{self.home}/.claude/projects/p")
        self._put(f"{self.home}/.claude/projects/p/s.jsonl", b"")

    # -- what is asked of the command line

    def say(self, text):
        self.log.append(text)

    def call(self, *words, codes=CODES, root=None, store=(), **variables):
        """(exit code, the JSON or text that it printed); what is outside of the project must stay as it was."""
        before = self._around()
        command = [*COMMAND, *store, "-C", root or self.root, *words]
        done = subprocess.run(
            command, env={**self.environment, **variables}, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=PATIENCE,
        )  # fmt: skip
        shown = b" ".join(os.fsencode(word) for word in words).decode("utf-8", "backslashreplace")
        self.say(f"$ casrewind {shown}  -> {done.returncode}")
        if done.returncode not in codes or b"Traceback" in done.stderr:
            raise Difference(f"exit {done.returncode}, not {sorted(codes)}: {done.stderr.decode(errors='replace')[-600:]}")
        if words[0] != "install":
            self._compare_around(before, shown)
        out = done.stdout.decode("utf-8", "replace")
        return done.returncode, json.loads(out) if out.startswith("{") else out, done.stderr.decode("utf-8", "replace")

    def _around(self):
        around = {b"outside/" + path: thing for path, thing in look(self.outside).items()}
        home = {b"home/" + path: thing for path, thing in look_home(self.home).items()}
        return {**around, **home}

    def _compare_around(self, before, words):
        after = self._around()
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                raise Difference(f"{words}: outside of the project, {path!r} was {before.get(path)}, is {after.get(path)}")

    def state(self):
        limit, is_named, is_broken = 2 * MIB, False, False
        path = f"{self.root}/.casrewind.toml"
        if os.path.lexists(path):
            try:
                if os.path.islink(path) or not os.path.isfile(path):
                    raise ValueError("no file")
                with open(path, "rb") as file:
                    found = tomllib.load(file)
                is_named = found not in ({}, {"capture": {}}, *({"capture": {"max_file_size": size}} for size in SIZES))
                limit = min(limit, SIZES.get(found.get("capture", {}).get("max_file_size"), limit))  # a project may only lower it
            except ValueError:
                is_named = is_broken = True
        return State(self.root, self.general, self.stores, limit, is_broken=is_broken, is_named=is_named)

    # -- the model's book

    def remember(self, identity, state):
        if identity in self.points:
            return
        self.points[identity] = state
        self.order.append(identity)

    def saved(self, state, found, code, err):
        if code != (3 if state.is_named else 0):
            raise Difference(f"save ended with {code}: {err}")
        if found["created"]:
            self.remember(found["checkpoint"], state)
            if found["files"] != state.files():
                raise Difference(f"save holds {found['files']} files, the model {state.files()}: {sorted(state.holds)}; skipped {found['skipped']}")
        elif found["checkpoint"] in self.points:
            old = self.points[found["checkpoint"]]
            if {p: t.what for p, t in old.holds.items()} != {p: t.what for p, t in state.holds.items()}:
                raise Difference("save says that nothing changed")

    def remember_safety(self, found, state, seen, target):
        """The checkpoint that a restore makes of what it changes: it holds what was there, and if rules ignore it."""
        if isinstance(found, dict) and found.get("safety"):
            if not target.holds.keys() & state.now.keys() <= state.holds.keys():
                return  # which of the ignored ones it holds is nowhere said
            touched = [path for path, thing in state.now.items() if seen.get(path) != thing and thing.kind != "other"]
            changed = {place for path in touched for place in [*parents(path), path]}
            self.remember(found["safety"], state.also(changed))

    def newest(self):
        return self.call("list", "--json", "-n", "1", codes={0})[1]["checkpoints"][0]["id"]


def look_home(home):
    """What is in a home, but for casrewind's own data."""
    own = (b".local", b".cache", b".local/share/casrewind")
    return {path: thing for path, thing in look_but(home, own).items()}


def look_but(home, own):
    found = {}
    for name in os.listdir(os.fsencode(home)):
        if name in own:
            continue
        path = os.path.join(os.fsencode(home), name)
        if os.path.isdir(path) and not os.path.islink(path):
            found |= {join(name, inner): thing for inner, thing in look(path).items()}
        found[name] = os.lstat(path).st_mode
    return found


# -- steps


def pick(chance, weights):
    return chance.choices(list(weights), list(weights.values()))[0]


def history(seed, steps, only=None):
    """[(what, seed)]: edits in bunches, and a command behind each."""
    chance, found = random.Random(seed), []
    while len(found) < steps:
        for _ in range(chance.choice((1, 2, 3, 5, 8))):
            found.append(("edit " + pick(chance, EDITS), chance.random()))
        if chance.random() < 0.5:
            found.append(("save", chance.random()))
        found.append((pick(chance, COMMANDS), chance.random()))
    return found[:steps]


def play(seed, steps, place):
    """Do a history in a new directory; None, or (number of the step, what was different, the log)."""
    import commands
    import edits

    os.umask(0o022)
    project = Project(place, seed)
    number = -1
    try:
        project.call("save", codes={0})
        project.remember(project.newest(), project.state())
        for number, (what, chance) in enumerate(steps):
            kind, _, name = what.partition(" ")
            room = edits if kind == "edit" else commands
            getattr(room, name or kind)(project, random.Random(chance))
        commands.end(project)
    except Difference as error:
        return number, str(error), project.log
    except subprocess.TimeoutExpired as error:
        return number, f"it took more than {PATIENCE} s: {error}", project.log
    finally:
        clear(place)
    return None


def clear(place):
    """Unmount and remove everything below a directory."""
    for _ in range(3):
        for point in sorted(plain.mounts(place), reverse=True):
            subprocess.run([b"umount", b"-l", os.path.join(os.fsencode(place), point)], stderr=subprocess.DEVNULL, check=False)
    if os.geteuid() == 0:
        subprocess.run(["chattr", "-R", "-f", "-i", "-a", place], stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(place, ignore_errors=True)


def shrink(seed, steps, failure, seconds):
    """The smallest part of a history that was found to fail in the same way."""
    end, size = time.monotonic() + seconds, max(len(steps) // 2, 1)
    steps = steps[: failure[0] + 1]
    same = lambda one, other: one is not None and one[1][:25] == other[1][:25]
    while size and time.monotonic() < end:
        at = 0
        while at < len(steps) and time.monotonic() < end:
            fewer = steps[:at] + steps[at + size :]
            found = play(seed, fewer, tempfile.mkdtemp(prefix="outside-", dir=PLACE)) if fewer else None
            if same(found, failure):
                steps, failure = fewer[: found[0] + 1], found
            else:
                at += size
        size //= 2
    return steps, failure


def own_mounts():
    """Mounts that nobody else sees, and that go when this process does."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.unshare(0x20000) == 0 and libc.mount(None, b"/", None, 0x4000 | 1 << 18, None) == 0


def main():
    global PLACE
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300, help="in all, in histories of at most --each")
    parser.add_argument("--each", type=int, default=120)
    parser.add_argument("--place", default=None)
    parser.add_argument("--shrink", type=float, default=120, help="seconds to look for a smaller history")
    parser.add_argument("--go-on", action="store_true", help="after a difference, too")
    options = parser.parse_args()
    if sys.platform.startswith("linux") and os.geteuid() == 0:
        own_mounts()
    PLACE, failed, done = options.place, 0, 0
    while done < options.steps:
        size = min(options.each, options.steps - done)
        steps = history(options.seed, size)
        failure = play(options.seed, steps, tempfile.mkdtemp(prefix="outside-", dir=PLACE))
        if failure is not None:
            failed += 1
            print(f"DIFFERENCE with --seed {options.seed} --steps {size} --each {size} at step {failure[0]}: {failure[1]}", flush=True)
            smaller, failure = shrink(options.seed, steps, failure, options.shrink)
            print(f"  the same with {len(smaller)} steps: {failure[1]}")
            print("".join(f"    {line}\n" for line in failure[2][-60:]), flush=True)
            if not options.go_on:
                break
        done += size
        options.seed += 1
    print(f"{done} steps, {failed} differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.modules["walk"] = sys.modules["__main__"]
    sys.exit(main())
