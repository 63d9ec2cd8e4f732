"""The fork that scans some of a worktree, seen from itself: worktree/beside.py says what for.

The danger prevented here: work that is lost, or done twice, because it was broken off. Each directory that is being scanned has a
pass of its own, and what its children came to is added only when it is done itself; so at any moment everything that is done
can be told of, and only the directories on the way to where the scan is are scanned again.
"""

import marshal
import os
import select
import struct
from contextlib import suppress

from .. import errors, fsio
from ..model.manifest import Entry
from ..typed import Any
from .aside import keep_only
from .directory import Directory, open_child
from .files import Worktree
from .ignore import RuleFile, Rules
from .passes import Apart, Pass, Passing

SHARE, BREAK_OFF = 0, 1
"""What the fork is told: (SHARE, path of a directory, digest of the rules there, their files where they are new, names of
directories in it), and to give back what it has not begun of that."""
RECORDS, PARTS, FINISHED = 0, 1, 2
"""What it tells: (RECORDS, records), (PARTS, parts as _Level.part makes them), (FINISHED, None): nothing is left to do."""
FRAME = struct.Struct("<Q")
"""In front of each message: its length."""
_TOGETHER = 1000  # entries of directories that are told of together
_SELDOM = 4  # steps from one look at the pipe to the next
_LIGHT = 64  # entries that are scanned again without a thought, when their directory is broken off


def serve(tree: Worktree, shared: Pass, rules: Rules, apart: Apart, reader: int, writer: int) -> None:
    """What the fork does; it does not return."""
    try:
        keep = {tree.fd, reader, writer}
        keep_only(keep)
        for fd in {0, 1, 2} - keep:  # a client waits for the end of what it reads from, not for this one
            with suppress(OSError):
                os.close(fd)
        _Fork(tree, shared, rules, apart, reader, writer).serve()
    finally:
        os._exit(0)


class _Level:
    """A directory that the fork is scanning: its own pass, and the parts of those of its children that are done."""

    def __init__(self, directory: Directory, own: Pass) -> None:
        self.directory, self.own = directory, own
        self.parts: list[tuple[Any, ...]] = []
        self.weight = 0  # entries of these
        self.told: list[bytes] = []  # the children that were told of

    def add(self, part: tuple[Any, ...]) -> None:
        self.parts.append(part)
        self.weight += part[3]

    def part(self, entry: Entry) -> tuple[Any, ...]:
        """What the directory and all that is under it come to."""
        own, path = self.own, self.directory.path
        sums = [own.entries, own.files, own.size, own.ignored]
        skips, rules = [tuple(skip) for skip in own.skipped], [tuple(rule) for rule in own.rules]
        fresh, records, trees, told = own.fresh.packed(), own.records, own.trees, self.told
        for _, _, _, *more, other_skips, other_rules, other_fresh, other_records, other_trees, other_told in self.parts:
            sums = [one + other for one, other in zip(sums, more, strict=True)]
            skips += other_skips
            rules += other_rules
            fresh += other_fresh
            records.update(other_records)
            trees.update(other_trees)
            told += other_told
        return path, entry.mode, entry.digest, *sums, skips, rules, fresh, records, trees, told


class _Fork:
    """The fork, seen from itself."""

    def __init__(self, tree: Worktree, shared: Pass, rules: Rules, apart: Apart, reader: int, writer: int) -> None:
        self._tree, self._shared = tree, shared
        self._rules = {rules.digest: rules}
        self._reader, self._writer = reader, writer
        self._sink: Passing = apart.sink(lambda records: self._send(RECORDS, records))
        self._poll = select.poll()
        self._poll.register(reader, select.POLLIN)
        self._wanted, self._turns = False, 0  # wanted by the other process: the rest of what it has given

    def serve(self) -> None:
        """Do what is asked until nobody is there to ask."""
        while True:
            command = self._next()
            if command[0] == SHARE:
                _, place, digest, files, names = command
                self._share(place, self._rules_of(digest, files), names)
                self._send(FINISHED, None)

    def _next(self) -> tuple[Any, ...]:
        command: tuple[Any, ...] = marshal.loads(self._read(*FRAME.unpack(self._read(FRAME.size))))  # noqa: S302 - who forked us
        return command

    def _read(self, length: int) -> bytes:
        parts = []
        while length:
            part = os.read(self._reader, length)
            if not part:
                os._exit(0)
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _send(self, kind: int, told: Any) -> None:
        data = marshal.dumps((kind, told))
        fsio.write_all(self._writer, FRAME.pack(len(data)))
        fsio.write_all(self._writer, data)

    def _rules_of(self, digest: bytes, files: list[tuple[bytes, str, bytes]] | None) -> Rules:
        """The rules that have this digest, made of the very bytes that were told where they are new."""
        if files is not None:
            rules = self._shared.options.rules()
            for file in files:
                found = RuleFile(*file)
                rules = rules.at(found.base).extend([found])
                rules = self._rules.setdefault(rules.digest, rules)  # what is compiled already
        return self._rules[digest]

    def _share(self, place: bytes, rules: Rules, names: list[bytes]) -> None:
        """Scan some directories in one place, until the rest is asked for. What is not as it should be is left to the other."""
        self._wanted = False
        levels: list[_Level] = []
        try:
            with suppress(OSError):
                above = self._new()
                fd = self._tree.open_directory(place)
                directory = Directory(above, place, place.rpartition(b"/")[2], place.count(b"/") + 1 if place else 0, fd)
                directory.rules, directory.children = rules.at(place), names
                levels.append(_Level(directory, above))
            with suppress(errors.StoreFull):  # a file that is too large to be decided on here
                self._scan(levels)
        finally:
            for level in levels:
                level.directory.close()
        for level in levels:
            self._tell_of(level)

    def _scan(self, levels: list[_Level]) -> None:
        """Scan the children of the directory on the first level; the levels that are there in the end are not done."""
        while levels and not self._is_enough(levels):
            top = levels[-1]
            if top.directory.children:
                own = self._new()
                child = open_child(self._tree, own, top.directory, top.directory.children.pop())
                if child is not None:
                    levels.append(_Level(child, own))
                continue
            if len(levels) == 1:
                return
            entry = top.directory.leave()
            levels.pop()
            levels[-1].directory.take(top.directory, entry)
            levels[-1].add(top.part(entry))
            if levels[-1].weight >= _TOGETHER:
                self._tell_of(levels[-1])

    def _tell_of(self, level: _Level) -> None:
        """Tell of the children that are done, and before that all that is in them."""
        if level.parts:
            self._sink.flush()
            self._send(PARTS, level.parts)
            level.told += [part[0] for part in level.parts]
            level.parts, level.weight = [], 0

    def _is_enough(self, levels: list[_Level]) -> bool:
        """Whether it is time to break off: the other process has nothing to do, and not much would be done twice."""
        self._turns += 1
        if not self._wanted and self._turns % _SELDOM == 0 and self._poll.poll(0):
            self._wanted = self._next()[0] == BREAK_OFF
        if not self._wanted or not any(level.directory.children for level in levels):
            return False
        return sum(level.own.seen for level in levels) <= _LIGHT

    def _new(self) -> Pass:
        shared = self._shared
        fresh = Pass(shared.mounts, self._sink, shared.options, lambda _: None, None)  # what is remembered is in the index
        fresh.start = shared.start
        return fresh
