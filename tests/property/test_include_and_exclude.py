"""Generated trees and rules: what `include` says is captured is in the next checkpoint, what `exclude` leaves out is in none, and
whatever else changes is named. All is held against real saves, and against a walk of the test's own.

Figure of `long`, seen on 2 shared cores: 500 trees, 1,500 commands, 84 seconds.
"""

import base64
import os
import random

import pytest

from casrewind.gitignore.rules import RuleFile, RuleSet
from support.command_in_process import InProcess
from support.output_schema import schema_faults
from support.trees import Fifo, Link, plant

NAMES = [
    b"a", b"b", b"x.db", b"y.db", b"z.log", b".env", b"data", b"build", b"sub", b"node_modules", b".venv", b".casrewindignore ", b"\xff",
    b"l\nsrc", b"r\r", b"s ", b"!n", b"#c", b"[b]", b"st*r", b"q?", b"back\\", b"\xef\xbb\xbfm", b"-o", b":(top)z", b"d\t", b"A",
]  # fmt: skip
RULES = [
    b"*", b"*.db", b"!*.db", b"data/", b"/data/*", b"sub", b"!sub/", b"build/", b"*.log", b".env", b"!.env", b"a", b"!a", b"/b", b"**/x.db",
    b"data/**", b"!data/sub/", b"*/", b"!*/", b"![[]b]", b".*", b"!.gitignore", b"A", b"l*", b"!s\\ ", b"node_modules", b"!node_modules",
]  # fmt: skip
PATTERNS = [b"*.db", b"*", b".*", b"data/*", b"**/x.db", b"s*", b"*/", b"[ab]", b"l*", b"*.log", b"nothing*", b"sub/**", b"?", b"**/sub/*.db", b"/d*"]
CACHE = b"Signature: 8a477f597d28d172789f06886806bc55\n"


class Project:
    """A generated project, and what a save of it holds."""

    def __init__(self, seed, root, home):
        self.chance, self.root = random.Random(seed), os.fsencode(root)
        self.run = InProcess(root, home)
        self.palette = self.chance.sample(NAMES, 8)

    def plant_tree(self):
        chance, directories = self.chance, [b""]
        for _ in range(chance.randrange(3, 9)):
            directories.append(os.path.join(chance.choice(directories), chance.choice(self.palette)))
        tree = {}
        for place in dict.fromkeys(directories):
            for _ in range(chance.randrange(4)):
                tree[os.path.join(place, chance.choice(self.palette))] = b"1"
            for name in (b".gitignore", b".casrewindignore"):
                if chance.random() < 0.4:
                    tree[os.path.join(place, name)] = b"\n".join(chance.choices(RULES, k=chance.randrange(1, 4))) + b"\n"
            special = {b"pipe": Fifo(), b"big": b"x" * 3000, b"link": Link("a"), b".git/HEAD": b"ref: x\n", b"CACHEDIR.TAG": CACHE}
            name = chance.choice([*special, *[b""] * 20])
            if name and (place or not name.startswith(b".git")):
                tree[os.path.join(place, name)] = special[name]
        taken = {b"/".join(path.split(b"/")[:count]) for path in (*tree, *(it + b"/x" for it in directories)) for count in range(1, path.count(b"/") + 1)}
        plant(self.root, {b".casrewind.toml": b'[capture]\nmax_file_size = "2KiB"\n', **{path: what for path, what in tree.items() if path not in taken}})

    def entries(self):
        """{path: is a directory} of all that is there."""
        found = {}
        for place, directories, files in os.walk(self.root):
            for name in (*directories, *files):
                path = os.path.join(place, name)
                found[os.path.relpath(path, self.root)] = os.path.isdir(path) and not os.path.islink(path)
        return found

    def held(self):
        return {decoded(entry) for entry in self.run.json("show", "last", "--files")["entries"]}

    def rules(self):
        """The private rules, and the shared ones."""
        path = os.path.join(self.root, b".casrewindignore")
        with open(path if os.path.isfile(path) else os.devnull, "rb") as file:
            return self.run.json("status")["private_rules"], file.read()

    def save_and_held(self):
        self.run("save")
        return self.held()

    def words(self, entries):
        """1 to 3 arguments: {the argument: its meaning}, a path and whether it is a pattern."""
        chance, found = self.chance, {}
        for _ in range(chance.choice([1, 1, 2, 3])):
            if chance.random() < 0.3:
                pattern = chance.choice(PATTERNS)
                found[pattern] = (pattern if b"/" not in pattern.rstrip(b"/") or pattern[:1] == b"/" else b"/" + pattern, True)
            elif chance.random() < 0.1:
                path = os.path.join(chance.choice([b"", b"data", b"new"]), b"missing.db")
                found[path + chance.choice([b"", b"/"])] = (path, False)
            elif chance.random() < 0.05:
                found[b"."] = (b"", False)
            else:
                path = chance.choice(sorted(entries))
                form = chance.choice([b"%s", b"./%s", b"%s/" if entries[path] else b"%s"])
                found[form % path] = (path, False)
        return found


def decoded(entry, name="path"):
    return base64.b64decode(entry[f"{name}_b64"]) if f"{name}_b64" in entry else entry[name].encode()


def above(path):
    parts = path.split(b"/")
    return {b"/".join(parts[:count]) for count in range(1, len(parts))}


def is_under(path, places):
    return path in places or b"" in places or not above(path).isdisjoint(places)


class Meaning:
    """What the words of a command mean, by a walk of the test's own."""

    def __init__(self, words, entries):
        self.given = {path for path, is_pattern in words.values() if not is_pattern}
        self.matches = {}
        for pattern in (text for text, is_pattern in words.values() if is_pattern):
            rules = RuleSet([RuleFile(b"", "private", pattern + b"\n")])  # it ignores what the pattern matches, and all below
            self.matches[pattern] = {path for path, is_dir in entries.items() if not rules.captured(path, is_dir)}
        self.meant = {path for path in entries if is_under(path, self.given)}.union(*self.matches.values())
        self.needed = {place for path in self.given for place in above(path)}


def check_step(project):
    """Run one command, and hold all that it says against the saves before and after it."""
    before, words = project.save_and_held(), project.words(project.entries())
    command = project.chance.choice(["include", "include", "exclude"])
    options = ["--shared"] if project.chance.random() < 0.4 else []
    rules = project.rules()
    done = project.run(command, "--json", *options, "--", *words)
    told = command, options, words, done
    assert done.code in (0, 3, 14, 64), told
    if done.code in (14, 64):  # refused
        assert (project.rules(), project.save_and_held()) == (rules, before), told
        return done.code
    found = done.json
    assert schema_faults(found, command) == [] and found["complete"], told
    if command == "include":
        after = project.held()  # in the checkpoint that the command made
        assert project.save_and_held() == after, told
    else:
        after = project.save_and_held()
    entries = {path: is_dir for path, is_dir in project.entries().items() if path.split(b"/")[0] != b".git"}
    named = check_what_was_meant(command, found, Meaning(words, entries), entries, before, after, told)
    named += check_what_was_not_meant(found, Meaning(words, entries) if command == "include" or b"." not in words else None, entries, before, after, told)
    assert (done.code == 3) == (named > 0), told
    return done.code


def check_what_was_meant(command, found, meaning, entries, before, after, told):
    """How many paths the command names as not as they were asked. Each of the others is as it was asked."""
    wanted = command == "include"
    left = {decoded(entry) for entry in found["paths"] if (entry["captured"] or entry["reason"] == "missing") != wanted}
    if wanted or b"" not in meaning.given:
        wrong = {path for path in meaning.meant if (path in after) != wanted}
        assert all(is_under(path, left) for path in wrong), (told, wrong)
    for entry in found["paths"]:
        path = decoded(entry)
        if entry["captured"]:
            assert entry["path"] == "." or path in after, (told, entry)
        elif path in entries:
            assert path not in after, (told, entry)
    counted = {decoded(each, "pattern"): each["matches"] for each in found["patterns"]}
    for pattern, matched in meaning.matches.items():
        top = {path for path in matched if above(path).isdisjoint(meaning.meant)}  # it counts none below an excluded directory
        least, most = (top & after, matched & after) if wanted else (top & before - after, matched - after)
        assert len(least) <= counted[pattern] <= len(most), (told, pattern)
    return len(left)


def check_what_was_not_meant(found, meaning, entries, before, after, told):
    """How many paths the command names that nobody asked for. `meaning`: None if nothing was meant. All that changed is named."""
    meant = set() if meaning is None else meaning.meant | meaning.needed | {b".casrewindignore"}
    also = {decoded(entry): entry["captured"] for entry in found["also"]}
    changed = {path for path in entries.keys() - meant if (path in before) != (path in after)}
    assert all(is_under(path, also) for path in changed), (told, changed)
    assert all((path in after) == captured != (path in before) for path, captured in also.items()), (told, also)
    return len(also)


@pytest.mark.parametrize("trees", [12, pytest.param(500, marks=pytest.mark.long)])
def test_whatever_is_said_to_be_captured_is_and_whatever_else_changes_is_named(root, home, trees):
    codes = []
    for seed in range(trees):
        place, mine = root / str(seed), home / str(seed)
        place.mkdir(parents=True)
        mine.mkdir(parents=True)
        project = Project(seed, place, mine)
        project.plant_tree()
        codes += [check_step(project) for _ in range(3)]
    assert min(codes.count(0), codes.count(3)) > trees / 3 and 14 in codes, "each end is met"
