"""What is reachable: every blob that something which stays has need of. All else is garbage.

The danger prevented here: a blob that is taken for garbage because what names it could not be read. Whatever cannot be
read while marking is reported, and nothing is swept as long as it is damaged.
"""

from collections.abc import Callable, Iterable, Iterator

from .. import errors
from ..model import domain as domains
from ..model import manifest
from ..model import plan as plans
from ..model.manifest import FILE, Entry
from . import chunker, packs

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
        lists: list[bytes] = []
        more: list[bytes] = list(trees)
        wanted = list(files)
        for data in self._new(packs.DOMAIN, domain_digests):
            self.marked.update(rule.digest for rule in domains.decode(data).rules)
        for data in self._new(packs.PLAN, plan_digests):
            for action in plans.decode(data):
                wanted += [e for e in (action.before, action.after) if e is not None and e.kind == FILE]
        for entry in wanted:
            if entry.chunks:
                lists.append(entry.chunks)
            else:
                self.marked.add(entry.digest)
        while more:
            batch, more = more[-_BATCH:], more[:-_BATCH]
            for data in self._new(packs.TREE, batch):
                whole, below, deeper = manifest.references(data)
                self.marked.update(whole)
                lists += below
                more += deeper
        while lists:
            batch, lists = lists[-_BATCH:], lists[:-_BATCH]
            for data in self._new(packs.CHUNK_LIST, batch):
                level, items = chunker.decode_node(data)
                if level:
                    lists += [item.digest for item in items]
                else:
                    self.marked.update(item.digest for item in items)

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

    def is_tree(self, digest: bytes) -> bool:
        """True when all that this tree names is marked, too: its own bytes may be marked because a file holds them."""
        return (packs.TREE, digest) in self._followed and digest not in self.missing

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
