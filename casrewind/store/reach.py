"""What is reachable: every blob that something which stays has need of. All else is garbage.

The danger prevented here: a blob that is taken for garbage because what names it could not be read. Whatever cannot be
read while marking is reported, and nothing is swept as long as it is damaged.
"""

from collections.abc import Callable, Iterable, Iterator

from .. import errors
from ..model.manifest import Entry
from .packs import CHUNK_LIST, DOMAIN, PLAN, TREE
from .references import HOLDS, Reference, of_file, references

Reader = Callable[[list[bytes], int], Iterator[tuple[bytes, bytes | errors.StoreDamaged]]]
"""Gives every blob asked for once, for use as something of a kind (store/packs.py), or why it cannot be had."""
_BATCH = 1000


class Reach:
    """The digests that are reachable from what was added so far."""

    def __init__(self, read: Reader, report: Callable[[int], None] | None = None) -> None:
        """`read` gives blobs; `report` is told how many are marked."""
        self._read, self._report = read, report
        self.marked: set[bytes] = set()
        # what was followed, apart from what is marked: a file may hold the very bytes of a tree
        self._followed: set[tuple[int, bytes]] = set()
        self.missing: dict[bytes, errors.StoreDamaged] = {}

    def add(
        self,
        trees: Iterable[bytes],
        domain_digests: Iterable[bytes],
        plan_digests: Iterable[bytes],
        files: Iterable[Entry] = (),
    ) -> None:
        """Mark what these trees, domains and plans name, however far down, themselves, and the content of files."""
        pending = {DOMAIN: [*domain_digests], PLAN: [*plan_digests], TREE: [*trees], CHUNK_LIST: list[bytes]()}
        self._mark(map(of_file, files), pending)
        while kind := next((kind for kind, waiting in pending.items() if waiting), 0):
            batch, pending[kind] = pending[kind][-_BATCH:], pending[kind][:-_BATCH]
            for data in self._new(kind, batch):
                self._mark(references(kind, data), pending)

    def _mark(self, found: Iterable[Reference], pending: dict[int, list[bytes]]) -> None:
        """Mark content; what names others is marked when it is followed."""
        for reference in found:
            if reference.kind in HOLDS:
                pending[reference.kind].append(reference.digest)
            else:
                self.marked.add(reference.digest)

    def fresh(self, add: Callable[[], None]) -> set[bytes]:
        """The digests that were not marked before `add`, which calls the method of that name, and are now."""
        before, self.marked = self.marked, set()
        try:
            add()
        finally:
            new = self.marked - before
            before |= new
            self.marked = before
        return new

    def _new(self, kind: int, digests: Iterable[bytes]) -> Iterator[bytes]:
        """The bytes of those that were not followed as this kind yet; they are marked now."""
        wanted = [digest for digest in dict.fromkeys(digests) if (kind, digest) not in self._followed]
        self._followed.update((kind, digest) for digest in wanted)
        self.marked.update(wanted)
        if self._report is not None and wanted:
            self._report(len(self.marked))
        for digest, data in self._read(wanted, kind):
            if isinstance(data, bytes):
                yield data
            else:
                self.missing[digest] = data
