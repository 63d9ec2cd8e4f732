"""What a project is, what a checkpoint of it must hold, and what a restore must make of it: dictionaries and plain Python.

Written from the documentation (docs/limits.md, docs/cli.md), and imports nothing of the project: what both get wrong in the same
way would be seen by nobody.
"""

import copy
import fcntl
import hashlib
import os
import re
import stat
import struct
from typing import NamedTuple

RULE_FILES = (b".casrewindignore", b".gitignore")  # what the first says wins over what the second says
TEMPORARY = b".casrewind-tmp-"
LATEST = 1 << 63  # nanoseconds: no checkpoint has a time beyond 2262
IMMUTABLE, APPEND = 0x10, 0x20


class Thing(NamedTuple):
    kind: str  # "file", "dir", "link", "other"
    mode: int  # all twelve bits; of links 0
    data: object  # digest of a file, target of a link
    mtime: int  # of files
    size: int
    flags: int  # IMMUTABLE, APPEND

    @property
    def what(self):
        """What a checkpoint holds of it, but for the time."""
        return self.kind, self.mode & 0o777, self.data


def look(root):
    """{path: Thing} of everything below a directory, mounts included."""
    found, waiting = {}, [b""]
    while waiting:
        place = waiting.pop()
        for entry in os.scandir(os.path.join(os.fsencode(root), place)):
            path = join(place, entry.name)
            status = entry.stat(follow_symlinks=False)
            mode, kind, data, size = stat.S_IMODE(status.st_mode), "other", None, 0
            if stat.S_ISLNK(status.st_mode):
                mode, kind, data = 0, "link", os.readlink(entry.path)
            elif stat.S_ISDIR(status.st_mode):
                kind = "dir"
                waiting.append(path)
            elif stat.S_ISREG(status.st_mode):
                kind, size = "file", status.st_size
                with open(entry.path, "rb") as file:
                    data = hashlib.blake2b(file.read(), digest_size=16).digest()
            flags = _flags(entry.path) if kind in ("file", "dir") else 0
            found[path] = Thing(kind, mode, data, status.st_mtime_ns if kind == "file" else 0, size, flags)
    return found


def _flags(path):
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return struct.unpack("l", fcntl.ioctl(fd, 0x80086601, bytes(8)))[0] & (IMMUTABLE | APPEND)
    except OSError:
        return 0
    finally:
        os.close(fd)


def mounts(root):
    """The paths below a directory that something is mounted at."""
    top, found = os.fsencode(os.path.realpath(root)) + b"/", set()
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            point = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), line.split(b" ")[4])
            if point.startswith(top):
                found.add(point[len(top) :])
    return found


def join(place, name):
    return place + b"/" + name if place else name


def parents(path):
    """The directories above a path, outermost first, without the root."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def below(path, places):
    """Whether a path is one of the places, or lies in one."""
    return any(place in places for place in [path, *parents(path)])


# -- ignore rules, as gitignore(5) has them


def _translate(pattern):
    out, at = b"", 0
    while at < len(pattern):
        if pattern.startswith(b"**/", at) and (at == 0 or pattern[at - 1 : at] == b"/"):
            out, at = out + b"(?:.*/)?", at + 3
        elif pattern[at:] == b"**" and pattern[at - 1 : at] == b"/":
            out, at = out + b".+", at + 2
        elif pattern[at : at + 1] == b"*":
            out, at = out + b"[^/]*", at + 1
        elif pattern[at : at + 1] == b"?":
            out, at = out + b"[^/]", at + 1
        else:
            out, at = out + re.escape(pattern[at : at + 1]), at + 1
    return re.compile(out, re.DOTALL)


def _lines(text):
    """[(negated, only directories, only names, pattern)] of a rule file, the last first: that is the one that counts."""
    found = []
    for line in text.split(b"\n"):
        if not line or line.startswith(b"#"):
            continue
        negated, line = line.startswith(b"!"), line.removeprefix(b"!")
        only_dirs, line = line.endswith(b"/"), line.rstrip(b"/")
        only_names = b"/" not in line
        found.append((negated, only_dirs, only_names, _translate(line.removeprefix(b"/"))))
    return found[::-1]


class Rules:
    """The rules in force in a project. `general`: texts that count for all of it, the strongest first."""

    def __init__(self, root, now, general, blind):
        self.files, self.general = {}, [_lines(text) for text in general]
        for place in [b"", *sorted((path for path in now if now[path].kind == "dir"), key=lambda path: path.count(b"/"))]:
            if place and (below(place, blind) or not self.captures(place, is_dir=True)):
                continue
            for name in RULE_FILES:
                if (thing := now.get(join(place, name))) is not None and thing.kind == "file":
                    with open(os.path.join(os.fsencode(root), place, name), "rb") as file:
                        text = file.read()
                    self.files[place, name] = text

    def __eq__(self, other):
        return self.files == other.files

    __hash__ = None

    def _is_ignored(self, path, *, is_dir):
        above = [b"", *parents(path)][::-1]
        sources = [(place, _lines(self.files[place, name])) for name in RULE_FILES for place in above if (place, name) in self.files]
        for place, lines in [*sources, *((b"", lines) for lines in self.general)]:
            inner = path[len(place) + 1 :] if place else path
            for negated, only_dirs, only_names, pattern in lines:
                if (is_dir or not only_dirs) and pattern.fullmatch(inner.rpartition(b"/")[2] if only_names else inner):
                    return not negated
        return False

    def captures(self, path, *, is_dir):
        """Whether a path is captured, as far as names and rules decide."""
        for place in [*parents(path), path]:
            name = place.rpartition(b"/")[2]
            if name.lower() == b".git" or name.startswith(TEMPORARY):
                return False
            if self._is_ignored(place, is_dir=is_dir if place == path else True):
                return False
        return True


# -- checkpoints


class State:
    """A project at a moment: what there is (`now`), what a checkpoint of it holds, what it leaves out with a reason.

    `blind`: places that are left out whole (mounts, stores); `limit`: the largest file in bytes; `is_named`: the project's settings
    are not as they should be, `is_broken`: nothing of them can be read.
    """

    def __init__(self, root, general, stores, limit, *, is_broken=False, is_named=False):
        self.now = look(root)
        self.mounts = mounts(root)
        self.stores = {place for place in stores if place in self.now}
        self.blind, self.limit, self.is_broken, self.is_named = self.mounts | self.stores, limit, is_broken, is_named
        self.rules = Rules(root, self.now, general, self.blind)
        in_force = lambda path: self.rules.captures(path, is_dir=self.now[path].kind == "dir")
        seen = {path: thing for path, thing in self.now.items() if not below(path, self.blind) and in_force(path)}
        self.holds = {path: thing for path, thing in seen.items() if thing.kind != "other" and thing.size <= limit}
        self.skipped = self.blind | (seen.keys() - self.holds.keys())

    def also(self, paths):
        """The same state with paths held that are not captured otherwise."""
        more = copy.copy(self)
        more.holds = {**self.holds, **{path: self.now[path] for path in paths if path in self.now}}
        return more

    def files(self):
        return sum(thing.kind == "file" for thing in self.holds.values())

    def would_know(self, path, thing):
        """Whether a checkpoint of this state would hold the path, had it been there. None: the documentation leaves it open."""
        if below(path, self.skipped) or not self.rules.captures(path, is_dir=thing.kind == "dir"):
            return False
        return None if thing.size > self.limit else not self.is_broken


class Plan:
    """What a restore of a state must do. `final`: {path: Thing} afterwards; `either`: paths that may stay or go; `written`: of
    which the time and mode are the checkpoint's; `may_refuse` and `must_refuse`: the reasons for exit code 14."""

    def __init__(self, present, target, scope=()):
        self.present, self.target = present, target
        now = present.now
        chosen = lambda path: not scope or any(path == place or path.startswith(place + b"/") for place in scope)
        self.wanted = {path: thing for path, thing in target.holds.items() if chosen(path)}
        self.either, self.may_refuse, self.must_refuse = set(), [], []
        self._write(now, chosen)
        self._remove(now, chosen)
        self._judge(now)

    def _write(self, now, chosen):
        self.final, self.written = dict(now), set()
        for path in sorted(self.wanted):
            for place in parents(path):
                there = now.get(place)
                if there is not None and there.kind != "dir" and (not chosen(place) or there.kind == "other"):
                    self.must_refuse.append((place, "no directory"))
                if place not in self.final:
                    self.final[place] = self.target.holds[place]
                    self.written.add(place)
            wanted, there = self.wanted[path], now.get(path)
            if there is not None and there.what == wanted.what:
                continue
            if below(path, self.present.stores):
                self.either.add(path)  # named, and left alone
                continue
            if path in self.present.mounts and there is not None and there.kind == wanted.kind == "dir":
                continue  # "a directory that something is mounted over is named and stays"
            if there is not None and there.kind == "other":
                self.must_refuse.append((path, "special file"))
            if there is not None and there.kind == "dir" and wanted.kind != "dir":
                inner = [place for place in self.final if place.startswith(path + b"/")]
                if any(place in now and place not in self.present.holds for place in inner):
                    self.must_refuse.append((path, "holds what is not captured"))
                for place in inner:
                    del self.final[place]
            elif there is not None and path not in self.present.holds and there.kind != "dir":
                self.may_refuse.append((path, "not captured"))
            self.final[path] = wanted
            self.written.add(path)

    def _remove(self, now, chosen):
        self.removed = set()
        for path in sorted(now, key=lambda path: path.count(b"/"), reverse=True):
            if path not in self.final or path in self.target.holds or path not in self.present.holds or not chosen(path):
                continue
            beyond = any(place in self.target.holds and self.target.holds[place].kind != "dir" for place in parents(path))
            knows = True if beyond else self.target.would_know(path, now[path])
            if self.present.is_broken:
                knows = knows and None  # what could not be read may have ignored it
            inner = [place for place in self.final if place.startswith(path + b"/")] if now[path].kind == "dir" else []
            if knows is False or any(place not in self.either for place in inner):
                continue
            if knows is None or inner:
                self.either.add(path)
                continue
            del self.final[path]
            self.removed.add(path)

    def _judge(self, now):
        gone = {path for path in now if path not in self.final}
        for path in self.written | gone | self.either:
            there = now.get(path)
            firm = path not in self.either
            if below(path, self.present.mounts):
                (self.must_refuse if firm else self.may_refuse).append((path, "mount"))
            if there is not None and there.flags:
                (self.must_refuse if firm else self.may_refuse).append((path, "flag"))
            above = path.rpartition(b"/")[0]
            if above in now and now[above].flags:
                self.may_refuse.append((path, "flag of its directory"))
        for path in self.wanted:
            if below(path, self.present.mounts):
                self.may_refuse.append((path, "mount"))

    @property
    def changes(self):
        return bool(self.written or any(path not in self.final for path in self.present.now))

    def differences(self, seen):
        """What is not as it must be, of a tree seen after the restore."""
        found = []
        now = self.present.now
        for path in sorted(self.final.keys() | seen.keys()):
            wanted, there, before = self.final.get(path), seen.get(path), now.get(path)
            if path in self.either and there in (None, before):
                continue
            if path in self.either and path in self.wanted:
                wanted = self.wanted[path]
            if wanted is None or there is None:
                found.append((path, "should be gone" if there else "is missing", before, there))
            elif path not in self.written:
                times = {wanted.mtime, self.target.holds[path].mtime if path in self.target.holds else wanted.mtime}
                if there._replace(mtime=0) != wanted._replace(mtime=0) or there.mtime not in times:
                    found.append((path, "was touched", wanted, there))
            else:
                found += self._compare(path, wanted, there, before)
        return found

    @staticmethod
    def _compare(path, wanted, there, before):
        if there.what != wanted.what:
            return [(path, "is not as it was saved", wanted, there)]
        times = {wanted.mtime}
        if before is not None and (before.kind, before.data) == (wanted.kind, wanted.data):
            times.add(before.mtime)  # only its mode differs: it is not written anew
        if wanted.kind == "file" and wanted.mtime < LATEST and there.mtime not in times:
            return [(path, "has another time than was saved", wanted, there)]
        if wanted.kind == "dir" and before is not None and before.kind == "dir" and (there.mode ^ before.mode) & 0o7000:
            return [(path, "has other special bits than before", before, there)]
        if wanted.kind == "file" and there.mode & 0o7000:
            return [(path, "has special bits", wanted, there)]
        return []


def taken_back(before, after, now, seen, named):
    """What is wrong with a tree `seen` when the step from `before` to `after` was taken back in `now`. `named`: paths that were said
    to be left alone."""
    what = lambda tree, path: tree[path].what if path in tree else None
    found = []
    for path in sorted(before.keys() | after.keys() | now.keys() | seen.keys()):
        old, new, here, there = (what(tree, path) for tree in (before, after, now, seen))
        excused = any(path == name or path.startswith(name + b"/") or name.startswith(path + b"/") for name in named)
        needed = here is None and there and there[0] == "dir" and any(other.startswith(path + b"/") for other in seen)
        if old == new:
            if there != here and not needed:
                found.append((path, "was touched, though the step had not", here, there))
        elif here == old:
            if there != here:
                found.append((path, "was touched, though it is as before already", here, there))
        elif here != new:
            if there != here and not needed:
                found.append((path, "was edited since, and is gone", here, there))
        elif there != old and not (excused and there == here):
            found.append((path, "was not taken back", old, there))
        elif old and old[0] == "file" and there == old and (not here or here[2] != old[2]) and before[path].mtime < LATEST and seen[path].mtime != before[path].mtime:
            found.append((path, "has another time than before", before[path], seen[path]))
    return found
