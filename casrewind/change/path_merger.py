"""Decides what a path becomes: the present file, without or with given edits. Every verb but restore, undo and redo asks it.

The danger prevented here: a path is left in a state that never was. So a path is merged or left alone, as a whole and for all edits at
once: one conflict leaves it where it is.

The bytes that a merge needs may be in several places, and a place must not be guessed. A digest that only a scan saw was looked for in
the store, and a sound store was called damaged while an agent wrote; a plan looked elsewhere than what carried it out, and was another
plan. So PathContents asks every place in one order, for a plan and for its execution, and bytes count only if they have the digest.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from .. import errors
from ..context import Context
from ..history.compare import read_present
from ..history.provenance import Makers, Provenance
from ..messages import plural
from ..model import digest as digests
from ..model import manifest, merge
from ..model import plan as plans
from ..model.manifest import FILE, Entry, Finder
from ..model.merge import FileMovedOn, LineMerge
from ..model.plan import Action, Actions, Kept, Merged
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from . import preflight
from .chosen_edits import entry_of_stored_bytes
from .edits import PathEdit

ASIDE, THEIRS, MARKERS = "", "theirs", "markers"
"""What becomes of a file with conflicts: it is left alone, it gets the lines of before the turn, or markers."""
DAMAGED = "damaged"
"""The word for why a path is left alone whose content is damaged in the store."""
_UNCLEAR = "not captured at the end of the turn, and not as it was before"
_RANGES_NAMED = 3  # ranges of lines


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


class PathMerger:
    """Decides for each path what it becomes. `contents`: where the bytes of a file are. `merged`: the files that
    were merged by lines. `made`: the digests of contents that the operation itself has made."""

    def __init__(
        self, context: Context, edits: Mapping[bytes, Sequence[PathEdit]], provenance: Provenance | None, conflicts: str = ASIDE, *,
        is_one: bool, skip_damaged: bool, hint: str,
    ) -> None:  # fmt: skip
        """`provenance`: None if all edits here are a person's. `is_one`: there is one turn, which no reason names.
        `hint`: the hint of the error for damaged content."""
        self._context, self._edits, self._provenance, self._conflicts = context, edits, provenance, conflicts
        self._is_one, self._skip_damaged, self._hint = is_one, skip_damaged, hint
        self._writer: StoreWriter | DryRunWriter = DryRunWriter(context.store.read)
        self.contents = PathContents(context, self._writer)
        self.merged: list[Merged] = []
        self.made: set[bytes] = set()

    def set_writer_of_new_contents(self, writer: StoreWriter | DryRunWriter) -> None:
        """New contents go into this writer."""
        self._writer = writer
        self.contents.use_writer(writer)

    def resolve(self, action: Action, there: Entry | None) -> Entry | Kept | None:
        """What a path becomes, given its present entry, or why it is left alone."""
        path, entry = action.path, there
        result: Merged | None = None
        contents: dict[bytes, bytes] = {}

        def read(wanted: Entry) -> bytes:
            if wanted.digest not in contents:
                contents[wanted.digest] = self.contents.read(path, wanted)
            return contents[wanted.digest]

        for edit in self._edits[path]:
            try:
                found = merge.merge(edit.change.new, entry, edit.change.old, read)
            except FileMovedOn:
                return self._note_kept_path(path, edit, plans.CHANGED_NOW, merge.CONFLICTS)
            except (errors.BlobMissing, errors.BlobCorrupt) as error:
                damaged = self._note_kept_path(path, edit, f"damaged in the store: {error}", DAMAGED)
                preflight.refuse_lost_content([] if self._skip_damaged else [damaged], self._hint)
                return damaged
            if found.why:
                return self._note_kept_path(path, edit, _UNCLEAR if edit.is_unclear else found.reason, found.why)
            if found.lines is None:
                entry = found.entry
                continue
            if found.lines.conflicts and self._conflicts == ASIDE:
                return self._note_conflict(path, edit, found.lines, there if entry is there else None, read)
            result = self._merge_one_turn_more(path, edit.turn, found.lines, result)
            digest = digests.of(result.data)
            contents[digest] = result.data
            entry = Entry(FILE, found.mode, len(result.data), 0 if there is None else there.mtime_ns, digest)
        if result is None and entry is not None and entry.digest in self.contents.chosen:
            self.made.add(entry.digest)
            return entry_of_stored_bytes(entry._replace(mtime_ns=time.time_ns()), self.contents.chosen[entry.digest], self._writer)
        if result is None or entry is None or manifest.same_for_restore(entry, there) or entry.digest != digests.of(result.data):
            return entry
        by = self.makers_of(path, there)
        self.merged.append(result._replace(by=by.turns, is_yours=by.is_person))
        self.contents.merged[entry.digest] = result.data
        self.made.add(entry.digest)
        return entry_of_stored_bytes(entry, result.data, self._writer)

    def makers_of(self, path: bytes, there: Entry | None) -> Makers:
        """Who made edits that the present entry of a path has."""
        return Makers(is_person=True) if self._provenance is None else self._provenance.makers_of(path, there)

    def merged_by(self, actions: Actions) -> tuple[Merged, ...]:
        """The merged files that these actions write."""
        found = ((item, actions.get(item.path)) for item in self.merged)
        return tuple(
            item for item, action in found
            if action is not None and action.after is not None and action.after.digest == digests.of(item.data)
        )  # fmt: skip

    def _merge_one_turn_more(self, path: bytes, turn: int, lines: LineMerge, before: Merged | None) -> Merged:
        """The file after one more turn was taken back."""
        if self._conflicts == MARKERS:
            data = lines.with_conflict_markers(b"now", b"after @%d" % turn, b"before @%d" % turn)
        else:
            data = lines.ours_with_theirs_in([*lines.clean, *lines.conflicts])
        marks = len(lines.conflicts) if self._conflicts == MARKERS else 0
        taken = len(lines.clean) + len(lines.conflicts) - marks
        kept = sum(max(group.ours.size, group.base.size) for group in lines.groups if group.side == merge.OURS)
        if before is None:
            return Merged(path, data, taken, kept, marks)
        return Merged(path, data, before.taken + taken, max(before.kept, kept), before.conflicts + marks)

    def _note_kept_path(self, path: bytes, edit: PathEdit, reason: str, why: str) -> Kept:
        return Kept(path, reason if self._is_one else f"@{edit.turn}: {reason}", benign=False, why=why)

    def _note_conflict(self, path: bytes, edit: PathEdit, lines: LineMerge, present: Entry | None, read: merge.Reader) -> Kept:
        """Why a file with conflicts is left alone. Its lines are named if they are those of the file `present`."""
        if present is None:
            return self._note_kept_path(path, edit, plans.EDITED, merge.CONFLICTS)
        found = tuple((group.ours.start + 1, max(group.ours.end, group.ours.start + 1)) for group in lines.conflicts)
        by = Makers()
        if self._provenance is not None:
            ranges = [(group.ours.start, group.ours.end) for group in lines.conflicts]
            by = self._provenance.makers_of_lines(path, present, lines.ours, ranges, read)
        were = "was" if len(found) == 1 and found[0][0] == found[0][1] else "were"
        reason = f"{lines_in_words(found)} {were} edited since{f' by {by}' if str(by) else ''}"
        return self._note_kept_path(path, edit, reason, merge.CONFLICTS)._replace(lines=found, by=by.turns)


def lines_in_words(found: Sequence[tuple[int, int]]) -> str:
    """Ranges of lines: "lines 3-5, 9"."""
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found[:_RANGES_NAMED])
    more = f" and {plural(len(found) - _RANGES_NAMED, 'more place')}" if len(found) > _RANGES_NAMED else ""
    return f"line{'' if shown.isdigit() else 's'} {shown}{more}"
