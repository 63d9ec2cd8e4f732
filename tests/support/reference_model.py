"""A plain model of what save, restore, undo and redo have to do: dictionaries, and a few lines of ignore rules.

It knows nothing of the project: it is told pictures (support/picture.py) and says which paths a checkpoint must hold and
what a tree must look like after an operation. Its ignore rules are git's for the few kinds of pattern in VARIANTS.
"""

import hashlib
import os
from typing import NamedTuple

VARIANTS = {
    hashlib.sha256(data).hexdigest(): data
    for data in (
        b"",
        b"*\n",
        b"ign.txt\n",
        b"igdir/\n",
        b"*.log\n!keep.log\n",
        b"ign.txt\nigdir/\n*.log\n",
        b"/a\n",
        b"!ign.txt\n!x.log\n",
        b"# only a remark\nd\n!d/\n",
    )
}
"""Every content that a rule file may have, by the digest that a picture shows."""
RULE_FILES = (b".casrewindignore", b".gitignore")  # the first one wins
BUILT_IN = b"node_modules"
LIMIT = 2 << 20


def parent_of(path):
    return path.rpartition(b"/")[0]


def name_of(path):
    return path.rpartition(b"/")[2]


def parents(path):
    """The directories above a path, outermost first, without the root."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def is_below(path, place):
    return place == b"" or path.startswith(place + b"/")


def join(place, name):
    return place + b"/" + name if place else name


class Thing(NamedTuple):
    """What a picture shows of a path, in parts that may be compared apart."""

    what: tuple  # ("file", mode, digest), ("dir", mode), ("link", target), ("other", type)
    mtime: int | None  # of a file
    size: int | None  # of a file
    inode: int

    @property
    def kind(self):
        return self.what[0]


def things(picture, root):
    """A picture taken with mtimes and inodes, as {path: Thing}."""
    found = {}
    for path, entry in picture.items():
        inode = entry[-2]
        if entry[0] == "file":
            size = os.lstat(os.path.join(os.fsencode(root), path)).st_size
            found[path] = Thing(entry[:3], entry[3], size, inode)
        else:
            found[path] = Thing(entry[:-2], None, None, inode)
    return found


class Rules:
    """The rule files in force, by (directory, name), and what they say."""

    def __init__(self, files):
        self.files = files  # {(directory, file name): bytes}

    @classmethod
    def of(cls, now):
        """The rules in force in a tree: rule files that are regular files in directories that are not ignored."""
        rules = cls({})
        for place in [b"", *sorted((p for p in now if now[p].kind == "dir"), key=lambda p: p.count(b"/"))]:
            if place and not rules.captures(place, is_dir=True):
                continue
            for name in RULE_FILES:
                thing = now.get(join(place, name))
                if thing is not None and thing.kind == "file":
                    rules.files[place, name] = VARIANTS[thing.what[2]]
        return rules

    def verdict(self, path, *, is_dir):
        """True: ignored; False: re-included; None: nobody said anything."""
        places = [b"", *parents(path)][::-1]
        for file in RULE_FILES:
            for place in places:
                for line in reversed(self.files.get((place, file), b"").split(b"\n")):
                    if line and not line.startswith(b"#") and _matches(line.removeprefix(b"!"), place, path, is_dir):
                        return not line.startswith(b"!")
        return None

    def captures(self, path, *, is_dir):
        """Whether a path is captured as far as rules decide."""
        for place in [*parents(path), path]:
            directory = is_dir if place == path else True
            if name_of(place) == b".git" or self.verdict(place, is_dir=directory) is True:
                return False
            if directory and self.leaves_out(place):
                return False
        return True

    def leaves_out(self, path):
        """Whether a directory is on the built-in list, no .gitignore saying otherwise."""
        told = any((above, b".gitignore") in self.files for above in [b"", *parents(path)])
        return name_of(path) == BUILT_IN and not told and self.verdict(path, is_dir=True) is not True


def _matches(pattern, place, path, is_dir):
    if pattern.endswith(b"/"):
        if not is_dir:
            return False
        pattern = pattern[:-1]
    if pattern.startswith(b"/"):
        return path == join(place, pattern[1:])
    if pattern.startswith(b"*"):
        return name_of(path).endswith(pattern[1:])
    return name_of(path) == pattern


def captured(now, rules):
    """The paths of a tree that a checkpoint must hold, with what is there."""
    return {
        path: thing
        for path, thing in now.items()
        if thing.kind != "other"
        and not (thing.kind == "file" and thing.size > LIMIT)
        and rules.captures(path, is_dir=thing.kind == "dir")
    }


class Point(NamedTuple):
    """What a checkpoint must hold, and what it must know that it does not hold."""

    holds: dict
    rules: Rules
    skipped: frozenset  # special, too large, or a directory of the built-in list then

    @classmethod
    def of(cls, now):
        rules = Rules.of(now)
        holds = captured(now, rules)
        skipped = {p for p, thing in now.items() if p not in holds and rules.captures(p, is_dir=thing.kind == "dir")}
        skipped |= {p for p, thing in now.items() if thing.kind == "dir" and rules.leaves_out(p)}
        return cls(holds, rules, frozenset(skipped))

    def is_same_state(self, other):
        """True when a bare save has nothing to say that is new."""
        whats = [{path: thing.what for path, thing in point.holds.items()} for point in (self, other)]
        return whats[0] == whats[1] and self.rules.files == other.rules.files

    def would_know(self, path, thing):
        """Whether the checkpoint would hold this path had it been there then."""
        if any(place in self.skipped for place in [path, *parents(path)]):
            return False
        return self.rules.captures(path, is_dir=thing.kind == "dir")


def is_known(place, now, point):
    """Whether a path that was asked for means anything: to the checkpoint, or to one made now."""
    return any(p == place or is_below(p, place) for p in [*point.holds, *captured(now, Rules.of(now))])


class Refused(Exception):
    """The operation must refuse and change nothing."""


def after_restore(now, point, scope=()):
    """What the tree must be after a restore, {path: Thing}; raises Refused."""

    def chosen(path):
        return not scope or any(path == place or is_below(path, place) for place in scope)

    held = captured(now, Rules.of(now))
    target = {path: thing for path, thing in point.holds.items() if chosen(path)}
    for path in target:
        for place in [*parents(path), path]:
            there = now.get(place)
            if there is None:
                break
            if there.kind == "other":
                raise Refused(place)
            if place != path and not chosen(place) and there.kind != "dir":
                raise Refused(place)
    solid = [path for path in target if target[path].kind != "dir"]
    for path in solid:
        if path in now and now[path].kind == "dir" and any(is_below(p, path) and p not in held for p in now):
            raise Refused(path)
    final = dict(now)
    for path in sorted(target):
        for place in parents(path):
            if place not in final:
                final[place] = point.holds[place]
        if path not in final or final[path].what != target[path].what:
            if target[path].kind != "dir":
                for below in [p for p in final if is_below(p, path)]:
                    del final[below]
            final[path] = target[path]
    for path in sorted(now, key=lambda p: p.count(b"/"), reverse=True):
        if path not in final or path in point.holds or path not in held or not chosen(path):
            continue
        beyond = any(place in point.holds and point.holds[place].kind != "dir" for place in parents(path))
        if not beyond and not point.would_know(path, now[path]):
            continue
        if now[path].kind != "dir" or not any(is_below(p, path) for p in final):
            del final[path]
    return final


def after_taking_back(before, after, now, *, everything=False):
    """What the tree must be when the step from `before` to `after` is taken back, and the paths that must be named
    because they are kept: ({path: Thing}, {path}). Raises Refused when edited content stands in the way of a file."""
    touched = {p for p in before.keys() | after.keys() if what(before, p) != what(after, p)}
    going, kept = {}, set()
    for path in touched:
        if what(now, path) == what(before, path):
            continue
        if everything or what(now, path) == what(after, path):
            going[path] = before.get(path)
        else:
            kept.add(path)
    if everything and any(now[p].kind == "other" for p in going if p in now):
        raise Refused
    final = dict(now)
    for path in sorted(going, key=lambda p: p.count(b"/"), reverse=True):
        is_dir = path in now and now[path].kind == "dir"
        if going[path] is not None and going[path].kind == "dir" and is_dir:
            continue
        if is_dir and any(is_below(p, path) for p in final):
            if going[path] is not None:
                raise Refused(path)
            kept.add(path)
            going.pop(path)
        elif path in final:
            del final[path]
    for path in sorted(going):
        if going[path] is None:
            continue
        if any(place not in final or final[place].kind != "dir" for place in parents(path)):
            kept.add(path)
            continue
        final[path] = going[path]
    return final, kept


def what(tree, path):
    thing = tree.get(path)
    return None if thing is None else thing.what
