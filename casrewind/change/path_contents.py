"""Reads the bytes of a file that a merge needs, wherever they are.

The danger prevented here: a place is guessed. A digest that only a scan saw was looked for in the store, and a sound store
was called damaged while an agent wrote; a plan looked elsewhere than what carried it out, and was another plan. So every
place is asked in one order, a plan and its execution ask the same ones, and bytes count only if they have the digest.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from .. import errors
from ..context import Context
from ..history.compare import read_present
from ..model import digest as digests
from ..model.manifest import Entry, Finder
from ..model.merge import FileMovedOn
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter


class PathContents:
    """Contents of files, by path and digest. `elsewhere`: a directory beside the worktree whose files count, too. `chosen`:
    bytes that chosen hunks made, by digest. `merged`: those that merges made."""

    def __init__(self, context: Context, writer: StoreWriter | DryRunWriter) -> None:
        """`writer`: it is asked first. One that writes nothing has no contents."""
        self._context, self._writer = context, writer
        self.elsewhere: Context | None = None
        self.chosen: Mapping[bytes, bytes] = {}
        self.merged: dict[bytes, bytes] = {}

    def use_writer(self, writer: StoreWriter | DryRunWriter) -> None:
        """Ask this writer from now on."""
        self._writer = writer

    def read(self, path: bytes, wanted: Entry) -> bytes:
        """The bytes of a file at `path`. Raises BlobCorrupt or BlobMissing if the store should have them and has not, else FileMovedOn."""
        damage: errors.StoreDamaged | None = None
        for place in self._places(path, wanted):
            try:
                data = place()
            except (errors.BlobMissing, errors.BlobCorrupt) as error:
                damage = error
                continue
            if data is not None and digests.of(data) == wanted.digest:
                return data
        if damage is not None and (isinstance(damage, errors.BlobCorrupt) or self._is_published(path, wanted)):
            raise damage
        raise FileMovedOn

    def read_planned(self, path: bytes, wanted: Entry) -> bytes | None:
        """The bytes of a file that a plan writes, None if it changed since. Raises as `read` for damage."""
        try:
            return self.read(path, wanted)
        except FileMovedOn:
            return None

    def _places(self, path: bytes, wanted: Entry) -> Iterator[Callable[[], bytes | None]]:
        stored = self._writer.content if isinstance(self._writer, StoreWriter) else self._context.store.content
        yield lambda: b"".join(stored(wanted))
        yield partial(read_present, self._context, path, wanted)
        if self.elsewhere is not None:
            yield partial(read_present, self.elsewhere, path, wanted)
        yield lambda: self.chosen.get(wanted.digest) or self.merged.get(wanted.digest)

    def _is_published(self, path: bytes, wanted: Entry) -> bool:
        """True if a checkpoint, or what an operation wrote, has these bytes at this path. What cannot be read may have them."""
        store = self._context.store
        try:
            trees = dict.fromkeys(point.tree for point, _ in store.checkpoints())
            found = [Finder(store.load_tree, tree).find(path) for tree in trees]
            done = [store.plan(operation.plan).get(path) for operation in store.operations() if operation.plan]
        except errors.StoreDamaged:
            return True
        found += [action.after for action in done if action is not None]
        return any(entry is not None and entry.digest == wanted.digest for entry in found)
