"""Verify: does the store have everything that checkpoints need, unchanged? Also repair, which fixes what is fixable.

Checks every record of the ledger, decodes every tree, reads and hashes every blob once. A quick check reads only
metadata; for content it checks that a pack contains the blob and is long enough.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..model import directory_nodes, manifest, path_count, paths
from ..model.checkpoint import Checkpoint
from ..model.directory_nodes import LOST, NodeList, Rows
from ..store import packs
from ..store.maintenance import BEFORE
from ..store.reachability import Reference, reference_of_file, references
from .damage import Place, places_affected
from .gc import NOT_BEGUN, kept_plans, step_plans, unfinished_purge

LEDGER, BLOB, TREE, DOMAIN, PLAN, JOURNAL, STORE = "ledger", "blob", "tree", "domain", "plan", "journal", "store"
_BATCH = 2000
_PLACES_NAMED = 5
"""Checkpoints and paths that a problem names."""


class Problem(NamedTuple):
    """Something wrong: its kind, its id (a digest in hex, or a name), the detail, and every checkpoint and path that it
    affects."""

    kind: str
    id: str
    detail: str
    affects: tuple[Place, ...] = ()


class Verified(NamedTuple):
    """The result: numbers of intact `blobs` and of `checkpoints`, and `problems` (empty = the store is intact).
    `repaired`: what a repair fixed first, one sentence each. `notes`: unfinished work that is no damage."""

    problems: tuple[Problem, ...]
    blobs: int
    checkpoints: int
    repaired: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def verify(context: Context, *, quick: bool = False) -> Verified:
    """Check the whole store, including other worktrees' checkpoints. Read-only. Raises StoreBusy."""
    with context.store.hold_shared_lock():
        return _Check(context, quick=quick).check_all()


def find_unsound(context: Context, points: Sequence[Checkpoint]) -> set[str]:
    """The ids of those of these checkpoints in which `verify` would find something wrong. They need not be in the ledger; lengths of
    content are compared, and no content is read."""
    affected = _Check(context, quick=True).find_affected(points)
    alone = [point for point in points if point.id in affected] if len(affected) > 1 else []  # one lie about a blob, and others need it
    return {point.id for point in alone if _Check(context, quick=True).find_affected([point])} if alone else affected


def needed_plans(context: Context) -> tuple[set[bytes], list[Problem]]:
    """Returns (the plans that undo, redo and open restores need, a problem for each unreadable journal)."""
    wanted, problems = set(step_plans(context)), list[Problem]()
    with suppress(errors.LedgerCorrupt):  # the ledger is a problem of its own
        wanted.update(kept_plans(context))
    journals = context.store.journals
    for name in journals.names():
        try:
            journal = journals.read(bytes.fromhex(name))
        except errors.StoreDamaged as error:
            problems.append(Problem(JOURNAL, name, error.problem))
        else:
            wanted.update([journal.plan] if journal is not None else [])
    return wanted, problems


class _Check:
    def __init__(self, context: Context, *, quick: bool) -> None:
        self._context, self._quick = context, quick
        self._bad: dict[bytes, tuple[str, str]] = {}
        self._sizes: dict[bytes, int] = {}
        self._lists: dict[bytes, int] = {}
        self._sound = 0
        self._problems: list[Problem] = []

    def check_all(self) -> Verified:
        store = self._context.store
        try:
            store.verify_records()
        except errors.StoreDamaged as error:
            self._add_problem(LEDGER, "ledger", error.problem)
        try:
            points = [point for point, _ in store.checkpoints()]
        except errors.StoreDamaged as error:  # without the ledger nothing else can be checked
            self._problems = self._problems or [Problem(LEDGER, "ledger", error.problem)]
            return Verified(tuple(self._problems), 0, 0)
        self._check_plans()
        self._check_points(points)
        self._report_bad_blobs(points)
        unfinished = unfinished_purge(self._context)
        return Verified(tuple(self._problems), self._sound, len(points), notes=(unfinished,) if unfinished else ())

    def find_affected(self, points: Sequence[Checkpoint]) -> set[str]:
        """The ids of those of these checkpoints that need a blob which is not what they say."""
        self._check_points(points)
        places = places_affected(self._context.store, points, set(self._bad)) if self._bad else {}
        return {place.checkpoint for affected in places.values() for place in affected}

    def _check_points(self, points: Sequence[Checkpoint]) -> None:
        self._check_domains(points)
        for point in points:
            if point.transcript is not None:
                self._expect_content(reference_of_file(point.transcript))
        self._check_trees(points)
        self._check_chunk_lists()
        self._check_content()

    def _add_problem(self, kind: str, identity: str, detail: str) -> None:
        self._problems.append(Problem(kind, identity, detail))

    def _read_blobs(self, kind: str, wanted_as: int, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield (digest, bytes) of every readable blob; record unreadable blobs as bad."""
        wanted = list(digests)
        for start in range(0, len(wanted), _BATCH):
            for digest, data in self._context.store.read_many(wanted[start : start + _BATCH], wanted_as):
                if isinstance(data, bytes):
                    self._sound += 1
                    yield digest, data
                else:
                    self._bad[digest] = (kind, data.problem)

    def _check_domains(self, points: Sequence[Checkpoint]) -> None:
        rules: set[bytes] = set()
        for digest, data in self._read_blobs(DOMAIN, packs.DOMAIN, {point.domain for point in points}):
            try:
                rules.update(reference.digest for reference in references(packs.DOMAIN, data))
            except errors.StoreDamaged as error:
                self._bad[digest] = (DOMAIN, error.problem)
        for _ in self._read_blobs(DOMAIN, packs.RULES, rules):
            pass

    def _check_plans(self) -> None:
        """Check the plans that undo and redo need, and open journals."""
        wanted, damaged = needed_plans(self._context)
        self._problems += damaged
        for digest, data in self._read_blobs(PLAN, packs.PLAN, wanted):
            try:
                for reference in references(packs.PLAN, data):
                    self._expect_content(reference)
            except errors.CasrewindError as error:
                self._bad[digest] = (PLAN, error.problem)
        for digest, (kind, why) in self._bad.items():
            if kind == PLAN:
                self._add_problem(PLAN, digest.hex(), f"an undo or redo step, or an open restore, cannot be carried out: {why}")

    def _expect_content(self, file: Reference) -> None:
        known = self._lists if file.kind == packs.CHUNK_LIST else self._sizes
        if known.setdefault(file.digest, file.size) != file.size:
            self._bad[file.digest] = (BLOB, "two entries record different sizes for it")

    def _check_trees(self, points: Sequence[Checkpoint]) -> None:
        roots = {point.tree for point in points}
        wanted, seen = roots, set(roots)
        trees: dict[bytes, tuple[int, list[bytes]]] = {}
        large = _NodeCheck()
        report = self._context.counter("verifying trees")
        while wanted:
            below: set[bytes] = set()
            for digest, data in self._read_blobs(TREE, packs.TREE, wanted):
                try:
                    node = manifest.decode_node(data)  # also checks names and modes
                except errors.CasrewindError as error:
                    self._bad[digest] = (TREE, error.problem)
                    continue
                large.add(digest, node)
                trees[digest] = len(node) if isinstance(node, list) else 0, []
                for reference in references(packs.TREE, data):
                    if reference.kind == packs.TREE:
                        trees[digest][1].append(reference.digest)
                    else:
                        self._expect_content(reference)
                below.update(trees[digest][1])
            wanted = below - seen
            seen |= wanted
            if report is not None:
                report(len(seen))
        self._bad.update((digest, (TREE, why)) for digest, why in large.find_refused(trees))
        for root, why in path_count.reasons_to_refuse(lambda digest: trees.get(digest, (0, [])), roots).items():
            self._bad[root] = (TREE, f"refused manifest: {why}")

    def _check_chunk_lists(self) -> None:
        wanted = dict(self._lists)
        while wanted:
            below: dict[bytes, int] = {}
            for digest, data in self._read_blobs(BLOB, packs.CHUNK_LIST, wanted):
                try:
                    found = list(references(packs.CHUNK_LIST, data))
                    if sum(reference.size for reference in found) != wanted[digest]:
                        raise errors.ManifestCorrupt("damaged chunk list: lengths that do not add up")
                except errors.StoreDamaged as error:
                    self._bad[digest] = (BLOB, error.problem)
                    continue
                for reference in found:
                    (below if reference.kind == packs.CHUNK_LIST else self._sizes)[reference.digest] = reference.size
            wanted = {digest: size for digest, size in below.items() if digest not in self._lists}
            self._lists.update(wanted)

    def _check_content(self) -> None:
        report = self._context.progress_bar("verifying content")
        wanted = list(self._sizes)
        for start in range(0, len(wanted), _BATCH):
            part = wanted[start : start + _BATCH]
            lengths = self._context.store.lengths(part) if self._quick else self._read_and_measure(part)
            for digest in part:
                if lengths.get(digest, 0) > packs.MOST[packs.CHUNK]:
                    self._bad[digest] = (BLOB, f"refused: it has {lengths[digest]:,} bytes, more than any stored piece of a file")
                elif digest in lengths and lengths[digest] != self._sizes[digest]:
                    self._bad[digest] = (BLOB, f"it has {lengths[digest]} bytes instead of {self._sizes[digest]}")
                elif digest not in lengths and digest not in self._bad:
                    self._bad[digest] = (BLOB, f"blob {digest.hex()[:16]} is in no pack")
            if self._quick:
                self._sound += len(lengths)
            if report is not None:
                report(min(start + _BATCH, len(wanted)), len(wanted))

    def _read_and_measure(self, digests: list[bytes]) -> dict[bytes, int]:
        return {digest: len(data) for digest, data in self._read_blobs(BLOB, packs.CHUNK, digests)}

    def _report_bad_blobs(self, points: list[Checkpoint]) -> None:
        """Report every bad blob with the checkpoints and paths that it affects."""
        places = places_affected(self._context.store, points, set(self._bad)) if self._bad else {}
        for digest, (kind, why) in sorted(self._bad.items()):
            if kind != PLAN:
                needed = tuple(places.get(digest, ()))
                self._problems.append(Problem(kind, digest.hex(), why + _needed_by_in_words(needed), needed))


class _NodeCheck:
    """Checks that the nodes of each large directory fit together, after each was read alone."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, Rows | NodeList] = {}  # a leaf node has only its first and last entry here
        self._parts: set[bytes] = set()

    def add(self, digest: bytes, node: Rows | NodeList) -> None:
        """Record a tree or node."""
        if isinstance(node, NodeList):
            self._parts.update(part.digest for part in node.parts)
        self._nodes[digest] = node if isinstance(node, NodeList) else [(name, None) for name, _ in (*node[:1], *node[1:][-1:])]

    def find_refused(self, trees: dict[bytes, tuple[int, list[bytes]]]) -> Iterator[tuple[bytes, str]]:
        """Yields (top list, why it is refused). `trees`: {node: (number of entries, references)}; this adds up the
        whole directory for each top list."""
        for top, node in self._nodes.items():
            if not isinstance(node, NodeList) or top in self._parts:
                continue
            entries, below = 0, list[bytes]()
            try:
                for digest, part in directory_nodes.nodes_below(lambda digest: self._nodes.get(digest, LOST), node):
                    if not isinstance(part, NodeList):
                        found = trees.get(digest, (0, ()))
                        entries += found[0]
                        below += found[1]
                if entries > directory_nodes.MOST_ENTRIES:
                    raise directory_nodes.damage_error("more entries than a directory can have")
            except errors.ManifestCorrupt as error:
                entries, below = 0, []
                yield top, error.problem
            trees[top] = entries, below


def _needed_by_in_words(places: Sequence[Place]) -> str:
    shown = [f"{place.checkpoint}: {paths.lossy_text(place.path)}" if place.path else place.checkpoint for place in places[:_PLACES_NAMED]]
    more = f" and {len(places) - _PLACES_NAMED} more" if len(places) > _PLACES_NAMED else ""
    return f"; needed by {', '.join(shown)}{more}" if places else ""


def repair(context: Context) -> Verified:
    """Repair packs, ledger and journals, rebuild the index, then verify everything. Raises StoreBusy, StoreFull."""
    maintenance = context.store.maintenance()
    done = list(context.store.repaired)
    with maintenance.exclude_other_maintenance():
        with suppress(errors.StoreDamaged):  # unreadable head: the progress of the purge is unknown
            if maintenance.unfinished_purge() == BEFORE:  # the ledger to be replaced is still in place
                maintenance.remove_purge_marker()
                done.append(NOT_BEGUN)
        salvage = maintenance.salvage()
        with maintenance.hold_store_exclusively():
            done += salvage.repair_ledger()
        done += salvage.repair_packs(maintenance.hold_store_exclusively, context.progress_bar("checking packs"))
        with maintenance.hold_store_exclusively():
            done += salvage.set_bad_journals_aside(context.store.journals)
            salvage.rebuild_index()
    return verify(context)._replace(repaired=tuple(done))
