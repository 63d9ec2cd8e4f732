"""Verify: is everything that a checkpoint needs in the store, and is it what was written?

Every record of the ledger is checked, every tree of every checkpoint decoded, every blob read and hashed, each once.
"""

from typing import NamedTuple

from .. import errors
from ..model import paths
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, FILE, Entry
from .site import Site

LEDGER, BLOB, TREE, DOMAIN, PLAN, JOURNAL = "ledger", "blob", "tree", "domain", "plan", "journal"


class Problem(NamedTuple):
    """Something wrong: what kind of thing, its id (a digest in hex, or a name), and whom it concerns."""

    kind: str
    id: str
    detail: str


class Verified(NamedTuple):
    """What was looked at, and what is wrong."""

    problems: tuple[Problem, ...]
    blobs: int
    checkpoints: int


def verify(site: Site) -> Verified:
    """Read the whole store of a site, other worktrees' checkpoints included. Changes nothing."""
    check = _Check(site)
    try:
        site.store.check_ledger()
    except errors.StoreDamaged as error:
        check.wrong(LEDGER, "ledger", str(error))
    points = [point for point, _ in site.store.checkpoints()]
    report = site.say_of("verifying")
    for number, point in enumerate(points):
        check.checkpoint(point)
        if report is not None:
            report(number + 1, len(points))
    check.history(points)
    return Verified(tuple(check.problems), len(check.sound), len(points))


class _Check:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._done: set[tuple[bytes, bytes]] = set()
        self.sound: set[bytes] = set()
        self.problems: list[Problem] = []

    def wrong(self, kind: str, identity: str, detail: str) -> None:
        self.problems.append(Problem(kind, identity, detail))

    def checkpoint(self, point: Checkpoint) -> None:
        stack = [(b"", point.tree)]
        while stack:
            place, digest = stack.pop()
            if (digest, b"") in self._done:
                continue
            self._done.add((digest, b""))
            try:
                rows = self._site.store.load_tree(digest)
            except errors.CasrewindError as error:
                where = paths.display(place) or "the root"
                self.wrong(TREE, digest.hex(), f"checkpoint {point.id}, {where}: {error}")
                continue
            self.sound.add(digest)
            for name, entry in rows:
                path = paths.join(place, name)
                if entry.kind == DIR:
                    stack.append((path, entry.digest))
                elif entry.kind == FILE:
                    self._file(point, path, entry)
        self._domain(point)

    def _file(self, point: Checkpoint, path: bytes, entry: Entry) -> None:
        if (entry.digest, entry.chunks) in self._done:
            return
        self._done.add((entry.digest, entry.chunks))
        try:
            length = sum(len(piece) for piece in self._site.store.content(entry))
            if length != entry.size:
                raise errors.ManifestCorrupt(f"it has {length} bytes instead of {entry.size}")
        except errors.CasrewindError as error:
            self.wrong(BLOB, entry.digest.hex(), f"checkpoint {point.id}, {paths.display(path)}: {error}")
            return
        self.sound.add(entry.digest)

    def _domain(self, point: Checkpoint) -> None:
        if point.domain in self.sound:
            return
        try:
            for rule in self._site.store.domain(point.domain).rules:
                self._site.store.read(rule.digest)
                self.sound.add(rule.digest)
        except errors.CasrewindError as error:
            self.wrong(DOMAIN, point.domain.hex(), f"checkpoint {point.id}: {error}")
            return
        self.sound.add(point.domain)

    def history(self, points: list[Checkpoint]) -> None:
        """The plans that undo and redo would need, and open journals."""
        for worktree in sorted({point.worktree for point in points}):
            try:
                journal = self._site.store.journals.read(worktree)
                if journal is not None:
                    self._plan(journal.plan)
            except errors.StoreDamaged as error:
                self.wrong(JOURNAL, worktree.hex(), str(error))
            history = self._site.store.history(worktree)
            for step in (*history.undo, *history.redo):
                self._plan(step.plan)

    def _plan(self, digest: bytes) -> None:
        try:
            self._site.store.plan(digest)
            self.sound.add(digest)
        except errors.CasrewindError as error:
            self.wrong(PLAN, digest.hex(), str(error))
