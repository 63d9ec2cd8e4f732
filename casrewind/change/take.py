"""Take: brings the changes of a directory that `restore --to` wrote back into the worktree, by a merge of each path.

The base of the merge is the checkpoint that the directory was made from. Ours is the worktree now, theirs the directory now.

The danger prevented here: a path that a side did not capture is taken for one that was removed, or that never was. So a
path that the rules or limits of either side leave out is not touched, and what cannot be read there is unknown. A path
that both sides changed differently stays as it is here, as a whole.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .. import errors, locations
from .._typing import NamedTuple
from ..context import Context
from ..history import present_scan
from ..history.provenance import Provenance
from ..history.restorable import Coverage, name_checkpoint_in_errors
from ..history.turn_view import TurnView
from ..messages import printable, shell_quoted_path
from ..model import diff as diffs
from ..model import digest as digests
from ..model import domain as domains
from ..model import manifest, merge, paths
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.diff import Change
from ..model.domain import Domain, all_skips
from ..model.manifest import FILE, PURGED, Entry
from ..model.plan import Action, Actions, Kept, Plan
from ..model.undo_history import RESTORE, TAKE, Operation
from ..store.dry_run_writer import DryRunWriter
from ..store.writer import StoreWriter
from ..upkeep import save
from ..upkeep.directory_origins import has_strange_id, origin_of
from ..worktree import root as roots
from ..worktree.reader import Worktree
from ..worktree.scan import Scan
from ..worktree.spelling import with_other_spellings
from . import preflight
from .edits import Edits, PathEdit, edits_taken_over
from .moved_files import keep_moved_files
from .path_merger import DAMAGED, PathMerger
from .possible_actions import prepare_actions
from .result import Restored
from .safety_capture import CapturedState
from .worktree_change import ChangeRecord, WorktreeChange

NOT_CAPTURED = "not_captured"
"""The word for why a path is left alone that a side does not capture."""
_BY_DESIGN = frozenset({
    domains.IGNORED, domains.BUILT_IN, domains.CACHE, domains.PROTECTED, domains.STORE, domains.LINKED_WORKTREE, domains.TEMPORARY,
    domains.SHARED_MEMORY,
})  # fmt: skip
"""What a scan leaves out on purpose. Anything else that it leaves out may be a change that is missing here."""
_NAMED = domains.FAULTS | {domains.TOO_LARGE, domains.TOO_DEEP}
"""What the directory's scan could not capture, and is named even if the checkpoint has no such path."""
_BY_HAND = "git diff --no-index"
_ALSO = {merge.IS_BINARY: " (binary)", merge.IS_LARGE: " (too large to merge)"}


class MadeDirectory(NamedTuple):
    """A directory that was made from the checkpoint `base`, as a `context` of its own. `name`: as the person wrote it. `is_whole`:
    no file of the checkpoint was left out for damage in the store."""

    context: Context
    base: Checkpoint
    name: str
    is_whole: bool


@contextmanager
def open_made_directory(context: Context, directory: str, name: str = "", base: Checkpoint | None = None) -> Iterator[MadeDirectory]:
    """Open a directory that `restore --to` wrote. `name`: as the person wrote it. `base`: the checkpoint that it was made from, if
    a person knows it. The rules outside of the tree are those of the worktree. Raises CheckpointNotFound if the directory was
    not made so, or the checkpoint is not of this worktree, UnsafePath if the worktree lies in the directory."""
    name = printable(name or directory)
    if not os.path.isdir(directory):
        raise errors.CheckpointNotFound(f"{name} is not a directory", "casrewind restore REF --to DIR makes one to work in")
    if base is not None and locations.is_in(context.root.path, locations.real_path(directory)):
        raise errors.UnsafePath(f"refused: {name} is the project, or has it in it", "take brings changes of another directory here")
    is_whole = True
    if base is None:
        base, is_whole = _base_checkpoint_of(context, directory, name)
    _refuse_other_worktree(context, base, directory, name)
    with Worktree(locations.real_path(directory)) as tree:
        root = context.root._replace(path=tree.root, key=roots.key_of(tree.root))
        there = context._replace(tree=tree, root=root, policy=context.policy._replace(faults=(), last_tree=lambda: base.tree))
        yield MadeDirectory(there, base, name, is_whole)


def _base_checkpoint_of(context: Context, directory: str, name: str) -> tuple[Checkpoint, bool]:
    """The checkpoint that a directory was made from, and whether all of it was written. Raises CheckpointNotFound."""
    found = origin_of(context, directory)
    if found is None:
        raise _not_made_error(context, directory, name)
    base = context.store.checkpoint(found.checkpoint)
    if base is None:
        what = f"{found.checkpoint}, which {name} was made from, was forgotten: what changed there cannot be told"
        raise errors.CheckpointNotFound(what, f"compare by hand: {_BY_HAND} {shell_quoted_path(name)} .")
    return base, found.is_whole


def _refuse_other_worktree(context: Context, base: Checkpoint, directory: str, name: str) -> None:
    """Raise CheckpointNotFound if a checkpoint is of another worktree of the store."""
    if base.worktree != context.root.key and not base.more.machine:
        what = f"{name} was made from a checkpoint of {printable(base.root)}, not of {printable(context.root.path)}"
        hint = f"casrewind -C {shell_quoted_path(os.fsdecode(base.root))} take {shell_quoted_path(os.path.realpath(directory))}"
        raise errors.CheckpointNotFound(what, hint)


def _not_made_error(context: Context, directory: str, name: str) -> errors.CheckpointNotFound:
    """The error for a directory whose origin is not known. It names one above that `restore --to` made."""
    real = os.path.realpath(directory)
    above = os.path.dirname(real)
    while above != os.path.dirname(above):
        if origin_of(context, above) is not None:
            hint = f"casrewind take {shell_quoted_path(above)} {shell_quoted_path(os.path.relpath(real, above))}"
            return errors.CheckpointNotFound(f"{name} is a part of a directory that casrewind restore --to made", hint)
        above = os.path.dirname(above)
    if has_strange_id(context, directory):
        what = f"{name} has an origin that this store does not know"
    else:
        what = f"nothing on {name} says which checkpoint it was made from: restore --to did not finish there, or it is a plain copy"
    shown = shell_quoted_path(name)
    hint = f"if you know the checkpoint: casrewind take {shown} --base REF; to compare by hand: {_BY_HAND} {shown} ."
    return errors.CheckpointNotFound(what, hint)


def prepare_take(context: Context, made: MadeDirectory, scope: Sequence[bytes] = ()) -> WorktreeChange:
    """The change that brings the changes of a directory here, at the paths in `scope` or everywhere. `undo` reverses it.

    Raises PathNotFound if the directory changed nothing in `scope`, StoreDamaged if a tree of the checkpoint cannot be read, else as
    a restore, when it looks.
    """

    def look(writer: StoreWriter | DryRunWriter) -> tuple[Restored, CapturedState]:
        merger = _Merger(context, made, scope, writer)
        report, now = prepare_actions(
            context, writer, merger.actions, TAKE, made.base.id, "", merger.resolve, made=merger.made, skip_damaged=True
        )
        plan, read = Plan(report.actions, tuple(sorted((*report.kept, *merger.kept)))), merger.files.contents.read_planned
        plan = keep_moved_files(plan, merger.what_directory_did(), now, merger.files.contents, only_removed=True)
        merged = tuple(item._replace(is_taken_over=True) for item in merger.files.merged_by(plans.sort_and_pack(plan.actions)))
        where = made.context.root.path
        return report._replace(actions=plan.actions, kept=plan.kept, merged=merged, taken_from=where, read=read), now

    def save_state_after(report: Restored) -> Restored:
        return report._replace(kept=(*report.kept, *_save_state_after(context, made)))

    operation = Operation(RESTORE, 0, context.root.key, made.base.id, "", b"", "")
    return WorktreeChange(context, look, ChangeRecord(operation, made.base, finish=save_state_after))


def _save_state_after(context: Context, made: MadeDirectory) -> list[Kept]:
    """Save the state behind a take: no other checkpoint has it. Returns what prevented that: the take itself is done."""
    try:
        save.save(context, save.Moment(label=f"after take from {made.name}", described=True))
    except (errors.CasrewindError, OSError) as error:
        return [Kept(b".", f"the state after it was not saved: {error}", benign=False)]
    return []


class _Merger:
    """Decides for each path that the directory changed what it becomes here. `kept`: the paths that are not touched.
    `made`: the digests of contents of the directory that the store need not have."""

    def __init__(self, context: Context, made: MadeDirectory, scope: Sequence[bytes], writer: StoreWriter | DryRunWriter) -> None:
        """Scans the directory."""
        self._context, self._made, self._scope, self._writer = context, made, scope, writer
        self._there = present_scan.scan_now(made.context, writer)
        provenance = None if made.base.more.machine else Provenance(context, TurnView(context), made.base.seq)
        self._edits: dict[bytes, list[PathEdit]] = {}
        self._left: dict[bytes, list[PathEdit]] = {}
        self.kept: list[Kept] = []
        self.files = PathMerger(context, self._edits, provenance, is_one=True, skip_damaged=True, hint="")
        self.files.set_writer_of_new_contents(writer)
        self.files.contents.elsewhere = made.context
        self.made = self.files.made
        self._now_ns = time.time_ns()

    def actions(self, here: Scan) -> Actions:
        """What changed in the directory since it was made. `here`: the scan of the worktree."""
        with name_checkpoint_in_errors(self._context.store):
            changes = list(diffs.diff(self._writer.load_tree, self._made.base.tree, self._there.tree))
        covered = paths.PathScope(with_other_spellings(self._context.tree, self._scope, (each.path for each in changes))).covers
        changes = [each for each in changes if covered(each.path)]
        self.kept += (item for item in self._kept_because_not_captured() if covered(item.path))
        is_faulty = paths.PathScope([item.path for item in self.kept]).covers if self.kept else lambda _: False
        changes = [each for each in changes if not is_faulty(each.path) and not _was_purged(each)]
        if self._scope and not changes and not self.kept:
            what = f"nothing changed in {self._made.name} at {', '.join(map(printable, self._scope))}"
            raise errors.PathNotFound(what, f"casrewind take {shell_quoted_path(self._made.name)} --dry-run lists what changed")
        chosen = self._captured_by_both(self._without_mixed_directories(changes, here), here)
        chosen = self._with_missing_parents(self._without_damaged(chosen), here)
        self._edits.update(edits_taken_over(chosen))
        self._left.update(edits_taken_over(each for each in changes if each.path not in self._edits))
        self.made.update(self._new_contents(chosen))
        return plans.sort_and_pack(Action(each.path, None if _is_purged(each.old) else each.old, each.new, each.path) for each in chosen)

    def what_directory_did(self) -> Edits:
        """What changed in the directory, as if a turn had done it."""
        return Edits(self._edits, (), self._left)

    def _kept_because_not_captured(self) -> Iterator[Kept]:
        """What the scan of the directory could not capture, though it should."""
        for skip in all_skips(self._there.domain):
            reason = domains.reason_without_detail(skip.reason)
            if reason in _NAMED and reason != domains.UNREADABLE_RULES:
                yield Kept(skip.path, f"{skip.reason} in {self._made.name}", benign=False, why=NOT_CAPTURED)

    def _without_mixed_directories(self, changes: Sequence[Change], here: Scan) -> list[Change]:
        """The changes without each directory that became something else there, and in which anything was edited here."""
        replaced = {
            each.path: each.new for each in changes
            if manifest.is_directory(each.old) and each.new is not None and not manifest.is_directory(each.new)
        }  # fmt: skip
        if not replaced:
            return list(changes)
        load, finder = self._writer.load_tree, manifest.Finder(self._writer.load_tree, here.tree)
        edited = [each.path for each in diffs.diff(load, self._made.base.tree, here.tree)]
        mixed = [
            path for path, new in replaced.items()
            if any(paths.PathScope([path]).covers(each) for each in edited) and not manifest.same_for_restore(finder.find(path), new)
        ]  # fmt: skip
        self.kept += (Kept(path, f"edited here, and replaced in {self._made.name}", benign=False, why=merge.CONFLICTS) for path in mixed)
        is_mixed = paths.PathScope(mixed).covers
        return [each for each in changes if not (mixed and is_mixed(each.path))]

    def _with_missing_parents(self, changes: Sequence[Change], here: Scan) -> list[Change]:
        """The changes, and the directories of new paths that are gone here: they are made again."""
        load, found = self._writer.load_tree, {each.path: each for each in changes}
        ours, theirs = manifest.Finder(load, here.tree), manifest.Finder(load, self._there.tree)
        for path in sorted({parent for each in changes if each.old is None for parent in paths.parents(each.path)}):
            if ours.find(path) is None:
                found[path] = Change(path, None, theirs.find(path))
        return list(found.values())

    def _captured_by_both(self, changes: Sequence[Change], here: Scan) -> list[Change]:
        """The changes of paths that both sides capture. The others are kept; a directory stands for what is in it."""
        if not changes:
            return []
        sides = [(self._coverage(self._there.domain), f"in {self._made.name}"), (self._coverage(here.domain), "here")]
        found: list[Change] = []
        for change in changes:
            entry = change.new or change.old
            assert entry is not None
            asked = ((side.kind_of_skip(change.path, entry), where) for side, where in sides)
            kind, where = next(((kind, where) for kind, where in asked if kind is not None), ("", ""))
            if not kind:
                found.append(change)
            elif not (self.kept and change.path.startswith(self.kept[-1].path + b"/")):
                self.kept.append(Kept(change.path, f"{kind} {where}", benign=kind in _BY_DESIGN, why=NOT_CAPTURED))
        return found

    def _coverage(self, domain: Domain) -> Coverage:
        """The rules and limits of a scan that was made just now: also of the rule files that are not stored."""
        unstored = {digests.of(file.data): file.data for file in self._context.policy.unstored}

        def read(digest: bytes, kind: int | None = None) -> bytes:
            return unstored[digest] if digest in unstored else self._writer.read(digest, kind)

        return Coverage(read, domain._replace(rules=(*domain.rules, *domain.unstored), unstored=()))

    def _without_damaged(self, changes: Sequence[Change]) -> list[Change]:
        """The changes without removals of files that may never have been in the directory: they are damaged in the store, or were
        when the directory was made and something was left out."""
        gone = [Action(each.path, None, each.old, each.path) for each in changes if each.new is None and each.old is not None]
        damaged = {item.path: item for item in preflight.unreadable_content(self._context, gone)}
        if not self._made.is_whole:
            why = f"not in {self._made.name}, which was made without damaged files"
            damaged = {each.path: Kept(each.path, why, benign=False) for each in gone} | damaged
        self.kept += (item._replace(why=DAMAGED) for item in damaged.values())
        return [each for each in changes if each.path not in damaged]

    def _new_contents(self, changes: Sequence[Change]) -> set[bytes]:
        """The digests of contents that only the directory and this writer have, checked."""
        files = [each.new for each in changes if each.new is not None and each.new.kind == FILE]
        if not isinstance(self._writer, StoreWriter):
            stored = self._context.store.lengths([entry.digest for entry in files])
            return {entry.digest for entry in files if entry.digest not in stored}
        written = self._writer.unpublished()
        for entry in files:
            if entry.chunks in written and sum(map(len, self._writer.content(entry))) != entry.size:
                raise errors.StoreDamaged("a file that was just stored has another size", "casrewind verify shows what is damaged")
        return {entry.digest for entry in files if (entry.chunks or entry.digest) in written}

    def resolve(self, action: Action, present: Entry | None) -> Entry | Kept | None:
        """What a path becomes, given its present entry, or why it is left alone."""
        found = self.files.resolve(action, present)
        if isinstance(found, Kept):
            return self._conflict_in_words(found, action, present)
        if found is not None and found.kind == FILE and (present is None or found.digest != present.digest):
            return found._replace(mtime_ns=self._now_ns)  # to a build here, it is new now
        return found

    def _conflict_in_words(self, found: Kept, action: Action, present: Entry | None) -> Kept:
        """A conflict in words that name both sides."""
        name = self._made.name
        if found.lines:
            return found._replace(reason=f"{found.reason}, and in {name}")
        if found.why not in (merge.CONFLICTS, merge.REMOVED, *_ALSO):
            return found
        by = self.files.makers_of(action.path, present)
        who = f" by {by}" if str(by) else ""
        deed = "removed" if present is None else "made" if action.before is None else "edited"
        theirs = "" if action.before is None else "removed " if action.after is None else "changed "
        return found._replace(reason=f"{deed} here{who}, and {theirs}in {name}{_ALSO.get(found.why, '')}", by=by.turns)


def _is_purged(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == PURGED


def _was_purged(change: Change) -> bool:
    """True if the directory lacks a path because it was purged from the checkpoint."""
    return _is_purged(change.old) and change.new is None
