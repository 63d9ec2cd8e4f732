"""Purge: delete every stored byte of a path from every checkpoint, and equal bytes under any other path.

The danger prevented here: a "removed" secret that is still stored. It may have another name, or be chunks of a larger
file. It may be in an undo plan, in a pack that gc would not rewrite, or in a file that was set aside. The path remains
as an entry of kind "purged": without the entry, the path would look as if it had never existed.

Every purge, of paths or of a text, ends with `carry_out`: store new blobs, rewrite the ledger, then delete what nothing
references. Its dangers: a purge deletes what a save has just published, or leaves checkpoints that reference deleted
data. The collected changes are valid only if nothing was published since; the exclusive lock makes that check safe.
Before the ledger is replaced, nothing has changed; after it, any process can finish. docs/internals/format.md derives
the order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from .. import errors
from .._typing import Any, NamedTuple
from ..context import Context
from ..errors import Declined
from ..gitignore.rules import name_for_output
from ..history.present_scan import scan_now
from ..history.restorable import name_checkpoint_in_errors
from ..messages import printable, shell_quoted_path
from ..model import checkpoint as checkpoints
from ..model import diff as diffs
from ..model import digest as digests
from ..model import domain as domains
from ..model import manifest, manifest_edits, paths, statement, undo_history
from ..model import plan as plans
from ..model.checkpoint import Checkpoint
from ..model.directory_nodes import LOST, NodeList
from ..model.domain import Domain, RuleRef
from ..model.manifest import DIR, FILE, LINK, PURGED, Entry
from ..model.plan import Action
from ..model.undo_history import History
from ..store import chunker, ledger, packs
from ..store.dry_run_writer import DryRunWriter
from ..store.maintenance import Maintenance
from ..store.named_ignored import remove_named_ignored
from ..store.reachability import Marker, references
from ..store.shown_plans import remove_shown_plans
from . import gc
from .damage import DamageSearch

_CACHED = 4096
_TRIES = 5

Fields = dict[str, Any]
"""New values of fields for `_replace`: their types differ by field."""


class Gone(NamedTuple):
    """A path, and the number of checkpoints that lost its bytes; `safety` of these are safety checkpoints."""

    path: bytes
    checkpoints: int
    safety: int = 0


class Purged(NamedTuple):
    """The result of a purge (with `dry_run`: what it would do). `purged`: the requested paths; `equal`: other paths
    with equal bytes. `transcripts`: number of stored conversations removed with them. `blobs` of `size` bytes were
    removed. `still_there`: those paths that the worktree still has; the next save would store them again."""

    purged: tuple[Gone, ...]
    equal: tuple[Gone, ...]
    transcripts: int
    blobs: int
    size: int
    still_there: tuple[bytes, ...]
    dry_run: bool


Confirm = Callable[[Purged], bool]
"""Asks the user to confirm a purge."""
Put = Callable[[int, bytes], bytes]
"""Stores a blob of a kind (see store/packs.py) and returns its digest; in a dry run it only returns the digest."""


class LedgerRewrite(NamedTuple):
    """The changes to the ledger. `points`: {checkpoint id: changed fields}; `plans`: {plan: its replacement}; `label`:
    maps a label to its new text. `gone`: digests that nothing may reference afterwards."""

    points: dict[str, Fields]
    plans: dict[bytes, bytes]
    label: Callable[[str], str]
    gone: frozenset[bytes]


def purge(context: Context, scope: Sequence[bytes], *, confirm: Confirm | None = None, dry_run: bool = False) -> Purged:
    """Remove every stored byte of some paths, and of everything below them, from all checkpoints of the store.
    Rule files outside of the tree have the names `domain.OUTSIDE_NAMES`. `confirm` is called before any change;
    Declined is raised if it returns False.

    Raises PathNotFound (no checkpoint has them), UsageError (the root itself; bytes of a rule file that was not named),
    UnsafePath, JournalOpen, StoreBusy, StoreDamaged, StoreFull.
    """
    outside = tuple(path for path in scope if path in domains.OUTSIDE_NAMES)
    asked = (*paths.check_scope([path for path in scope if path not in outside]), *outside)
    if not asked or b"" in asked:
        raise errors.UsageError("purge needs paths below the root", "to delete everything, remove the store itself")
    maintenance = context.store.maintenance()
    if dry_run:
        with context.store.hold_shared_lock():
            refuse_open_restores(context)
            return _report_of_purge(context, _Collector(context, asked, _digest_only), dry_run=True)
    with maintenance.exclude_other_maintenance():
        finish_interrupted(context, maintenance)
    with context.store.hold_shared_lock():
        refuse_open_restores(context)
        report = _report_of_purge(context, found := _Collector(context, asked, _digest_only), dry_run=False)
    if not report.purged and not found.gone:
        return report  # already purged
    if confirm is not None and not confirm(report):  # gc runs while a person thinks; what is purged is looked up again
        raise Declined
    done: list[_Collector] = []

    def collect(put: Put) -> LedgerRewrite:
        done[:] = [_Collector(context, asked, put)]
        return done[0].ledger_changes()

    with maintenance.exclude_other_maintenance():
        finish_interrupted(context, maintenance)
        carry_out(context, maintenance, collect)
    purged, equal = done[0].count_affected()
    return report._replace(purged=purged, equal=equal, transcripts=len(done[0].without_transcript))


def _digest_only(_kind: int, data: bytes) -> bytes:
    return digests.of(data)


def _report_of_purge(context: Context, found: "_Collector", *, dry_run: bool) -> Purged:
    purged, equal = found.count_affected()
    lengths = context.store.lengths(sorted(found.gone))
    scan = scan_now(context, dry := DryRunWriter(context.store.read))
    finder = manifest.Finder(diffs.loader_with_damaged_trees_empty(dry.load_tree), scan.tree)
    here = ((path, finder.find(path)) for path in sorted({item.path for item in (*purged, *equal)} | found.seen))
    there = {path for path, entry in here if entry is not None and entry.kind in (FILE, LINK)}
    there |= {rule_path(rule) for rule in scan.domain.rules if rule.digest in found.gone}
    size = sum(lengths.values())
    return Purged(purged, equal, len(found.without_transcript), len(lengths), size, tuple(sorted(there)), dry_run)


class _Collector:
    """Collects what has to be removed, and the resulting checkpoints and plans. `put` stores new trees and plans."""

    def __init__(self, context: Context, asked: Sequence[bytes], put: Put) -> None:
        """Reads everything it needs. Raises PathNotFound, UsageError."""
        self._context, self._put = context, put
        self._scope = paths.PathScope(asked)
        self._load = lru_cache(_CACHED)(self._load_tree_or_lost)
        self.points = checkpoints_of(context)
        self.gone: set[bytes] = set()
        self.seen: set[bytes] = set()
        """Requested paths that a checkpoint has, including already purged ones."""
        self._nothing: dict[int, bytes] = {}
        self._with_content: dict[bytes, bool] = {}
        with name_checkpoint_in_errors(context.store):
            self._asked = {root: dict(self._entries_at(root, asked)) for root in {point.tree for point in self.points}}
        self._domains = {digest: context.store.domain(digest) for digest in {point.domain for point in self.points}}
        stored_plans = ((digest, self._read_blob_or_none(digest, packs.PLAN)) for digest in gc.kept_plans(context))
        self._plans = {digest: plans.decode(data) for digest, data in stored_plans if data is not None}
        self._collect_content()
        self._search = DamageSearch(context.store, self.gone, strict=True)
        self._new_domains = self._without_rules()
        with name_checkpoint_in_errors(context.store):
            self._changes = {root: self._changes_of(root) for root in self._asked}
        self.without_transcript = {point.id for point in self.points if self._search.of_transcript(point)}

    def _read_blob_or_none(self, digest: bytes, kind: int) -> bytes | None:
        """A blob; None if it is missing from the store. Raises StoreDamaged if it is damaged."""
        try:
            return self._context.store.read(digest, kind)
        except errors.BlobMissing:
            return None

    def _load_tree_or_lost(self, digest: bytes) -> manifest.Tree | NodeList:
        data = self._read_blob_or_none(digest, packs.TREE)
        return LOST if data is None else manifest.decode_node(data)

    def _entries_at(self, root: bytes, asked: Sequence[bytes]) -> Iterator[tuple[bytes, Entry]]:
        """Every file and link at or below the requested paths, in a manifest."""
        finder = manifest.Finder(self._load, root)
        for top in asked:
            entry = finder.find(top)
            below = manifest.walk(self._load, entry.digest) if entry is not None and entry.kind == DIR else ()
            inside = ((paths.join(top, path), found) for path, found in below)
            for path, found in (*([(top, entry)] if entry is not None else []), *inside):
                if found.kind != DIR:
                    self.seen.add(path)
                    if found.kind != PURGED:
                        yield path, found

    def _collect_content(self) -> None:
        entries = [entry for found in self._asked.values() for entry in found.values()]
        for action in self._requested_undo_actions():
            entries += [entry for entry in (action.before, action.after) if entry is not None and entry.kind != DIR]
        rules = self._requested_rule_files()
        if not entries and not self.seen and not rules:
            raise errors.PathNotFound(
                "no checkpoint has a file there: nothing was purged",
                "casrewind show REF lists what a checkpoint has, and casrewind list --all the checkpoints"
            )
        for entry in entries:
            if entry.kind == FILE and entry.size and (not entry.chunks or self._collect_chunks(entry.chunks)):
                self.gone.add(entry.digest)
        self.gone |= rules - {digests.of(b"")}

    def _requested_rule_files(self) -> set[bytes]:
        """The digests of the rule files at the requested paths, including rule files purged earlier."""
        every = (rule for domain in self._domains.values() for rule in (*domain.rules, *domain.unstored))
        return {rule.digest for rule in every if self._scope.covers(rule_path(rule))}

    def _requested_undo_actions(self) -> Iterator[Action]:
        """The actions of the steps of undo that are about a requested path."""
        for actions in self._plans.values():
            yield from (item for item in actions if self._scope.covers(item.path) or self._scope.covers(item.source))

    def _collect_chunks(self, digest: bytes, depth: int = 0) -> bool:
        """Collect the digests of a chunk list; `depth` is its level. Returns False if it holds only zeros: such content
        is shared by unrelated files and reveals nothing."""
        if digest not in self._with_content:
            if depth > chunker.MOST_LEVELS:
                raise errors.ManifestCorrupt("damaged chunk list: levels out of order", "run casrewind verify")
            data = self._read_blob_or_none(digest, packs.CHUNK_LIST)
            has_content = data is None
            for reference in dict.fromkeys(references(packs.CHUNK_LIST, data)) if data is not None else ():
                if reference.kind == packs.CHUNK_LIST:
                    has_content |= self._collect_chunks(reference.digest, depth + 1)
                elif reference.digest != self._digest_of_zeros(reference.size):
                    self.gone.add(reference.digest)
                    has_content = True
            if has_content:
                self.gone.add(digest)
            self._with_content[digest] = has_content
        return self._with_content[digest]

    def _digest_of_zeros(self, length: int) -> bytes:
        if length > packs.MOST[packs.CHUNK]:
            return b""  # longer than any chunk
        if length not in self._nothing:
            self._nothing[length] = digests.of(bytes(length))
        return self._nothing[length]

    def _without_rules(self) -> dict[bytes, Domain]:
        """{digest: domain without the removed rules}. Without these rules, a restore does not know what was ignored, so
        it deletes nothing below their directories. Raises UsageError if the bytes are a checkpoint's rules and that
        rule file was not named."""
        found = {}
        named = self._requested_rule_files()
        for digest, domain in self._domains.items():
            lost = tuple(rule for rule in domain.rules if rule.digest in self.gone)
            for rule in lost:
                if rule.digest not in named:
                    name, word = paths.lossy_text(rule_path(rule)), shell_quoted_path(rule_path(rule))
                    raise errors.UsageError(
                        f"nothing was purged: the bytes are those of the ignore rules {name}, too, which decide what a restore may "
                        f"delete",
                        f"casrewind purge {word} removes them, and restores of these checkpoints delete nothing then"
                    )
            if lost:
                rules = tuple(rule for rule in domain.rules if rule not in lost)
                found[digest] = domain._replace(rules=rules, unstored=(*domain.unstored, *lost))
        return found

    def _lost_rules(self, point: Checkpoint) -> set[bytes]:
        new = self._new_domains.get(point.domain)
        return set() if new is None else {rule_path(rule) for rule in new.unstored if rule not in self._domains[point.domain].unstored}

    def _changes_of(self, root: bytes) -> dict[bytes, Entry]:
        """{path: entry} of a manifest's files that become purged entries."""
        changes = dict(self._asked[root])
        finder = manifest.Finder(self._load, root)
        for path in {path for _, path in self._search.of_tree(root)} - changes.keys():
            entry = finder.find(path) if path else None
            if entry is not None and entry.kind == FILE:
                changes[path] = entry
        return changes

    def count_affected(self) -> tuple[tuple[Gone, ...], tuple[Gone, ...]]:
        """Returns (requested paths, other paths with equal bytes), sorted, with the numbers of affected checkpoints."""
        lost = {point.id: self._changes[point.tree].keys() | self._lost_rules(point) for point in self.points}
        count = Counter(path for point in self.points for path in lost[point.id])
        safety = Counter(path for point in self.points if point.trigger == checkpoints.SAFETY for path in lost[point.id])
        found = [Gone(path, number, safety[path]) for path, number in sorted(count.items())]
        asked = tuple(item for item in found if self._scope.covers(item.path))
        return asked, tuple(item for item in found if not self._scope.covers(item.path))

    def ledger_changes(self) -> LedgerRewrite:
        """The changes to the ledger. Stores all new trees and plans."""
        trees = {root: self._store_purged_tree(root) for root, changes in self._changes.items() if changes}
        points = {point.id: changes for point in self.points if (changes := self._changed_fields(point, trees))}
        new = {digest: self._store_purged_plan(actions) for digest, actions in self._plans.items()}
        return LedgerRewrite(points, {old: put for old, put in new.items() if old != put}, lambda label: label, frozenset(self.gone))

    def _changed_fields(self, point: Checkpoint, trees: dict[bytes, bytes]) -> Fields:
        """The changed fields of a checkpoint. A safety checkpoint's counts come from its scan and do not change."""
        changes: Fields = {}
        if point.tree in trees:
            changes["tree"] = trees[point.tree]
            if point.trigger != checkpoints.SAFETY:
                files = [entry for entry in self._changes[point.tree].values() if entry.kind == FILE]
                changes |= {"files": point.files - len(files), "size": point.size - sum(entry.size for entry in files)}
        if point.id in self.without_transcript:
            changes["transcript"] = None
        if point.domain in self._new_domains:
            changes["domain"] = self._put(packs.DOMAIN, domains.encode(self._new_domains[point.domain]))
        return changes

    def _store_purged_tree(self, root: bytes) -> bytes:
        changes = {path: _purged_entry_of(entry) for path, entry in self._changes[root].items()}
        return manifest_edits.with_replaced_entries(self._load, lambda data: self._put(packs.TREE, data), root, changes)

    def _store_purged_plan(self, actions: Iterable[Action]) -> bytes:
        return self._put(packs.PLAN, plans.encode([action for action in actions if not self._touches_purged_content(action)]))

    def _touches_purged_content(self, action: Action) -> bool:
        named = self._scope.covers(action.path) or self._scope.covers(action.source)
        for entry in (action.before, action.after):
            if entry is not None and entry.kind != DIR and (named or (entry.kind == FILE and self._search.of_file(entry))):
                return True
        return False


def _purged_entry_of(entry: Entry) -> Entry:
    return Entry(PURGED, entry.mode, entry.size)


def refuse_open_restores(context: Context) -> None:
    """Raise JournalOpen if a restore of any worktree is unfinished: it needs its plan and its bytes unchanged."""
    for operation in context.store.journals.read_all():
        point = context.store.checkpoint(operation.safety)
        where = f" in {printable(point.root)}" if point is not None else ""
        raise errors.JournalOpen(
            f"a restore is unfinished{where}; nothing was purged",
            "finish it there with casrewind restore --continue, or take it back with casrewind restore --abort"
        )


def finish_interrupted(context: Context, maintenance: Maintenance) -> None:
    """Finish an interrupted purge. Raises StoreDamaged if that fails."""
    said = gc.finish_interrupted_purge(context, maintenance)
    if maintenance.unfinished_purge():
        raise errors.StoreDamaged(said[-1])


def carry_out(context: Context, maintenance: Maintenance, collect: Callable[[Put], LedgerRewrite]) -> None:
    """Apply what `collect` returns; `collect` runs again if something was published since. The caller must hold the
    maintenance lock. Raises StoreBusy, StoreFull, StoreDamaged, JournalOpen and what `collect` raises."""
    remove_shown_plans(context.store.path)
    remove_named_ignored(context.store.path)
    for _ in range(_TRIES):
        reach, seq, found = _store_and_mark(context, maintenance, collect)
        with maintenance.hold_store_exclusively():
            if done := maintenance.newest_seq() == seq:
                refuse_open_restores(context)
                _rewrite_ledger(context, maintenance, found)
        if done:
            break
    else:
        with maintenance.hold_store_exclusively():  # block all saves: a stream of saves could delay the purge forever
            reach, seq, found = _store_and_mark(context, maintenance, collect, held=True)
            _rewrite_ledger(context, maintenance, found)
    if damaged := gc.finish_purge(context, maintenance, reach, seq):
        raise errors.StoreDamaged(gc.UNSWEPT.format(len(damaged)), gc.FINISH_PURGE)


def _store_and_mark(
    context: Context, maintenance: Maintenance, collect: Callable[[Put], LedgerRewrite], *, held: bool = False
) -> tuple[Marker, int, LedgerRewrite]:
    """Returns (marks of what will be reachable, the sequence number they cover, the changes). Stores the new blobs."""
    seq = maintenance.newest_seq()
    refuse_open_restores(context)
    with context.store.writing(held=held) as writer:
        found = collect(writer.put)
        context.store.add_blobs(writer)
    return _mark_reachable(context, found), seq, found


def _mark_reachable(context: Context, found: LedgerRewrite) -> Marker:
    """Mark everything that is reachable after the rewrite."""
    reach = Marker(context.store.read_many, context.counter("marking"))
    points = [point._replace(**found.points.get(point.id, {})) for point, _ in context.store.checkpoints()]
    gc.mark_points(reach, points, [found.plans.get(plan, plan) for plan in gc.kept_plans(context)])
    gc.refuse_damaged_marking(reach)
    if needed := sum(1 for digest in found.gone if digest in reach.marked):
        raise errors.StoreError(f"nothing was purged: {needed} blobs of it are needed by what checkpoints rest on themselves")
    return reach


def _rewrite_ledger(context: Context, maintenance: Maintenance, found: LedgerRewrite) -> None:
    def convert(kind: int, seq: int, payload: bytes) -> bytes:
        if kind == ledger.CHECKPOINT:
            point = checkpoints.decode(seq, payload)
            if point.id not in found.points:
                return payload
            return checkpoints.encode(statement.with_statement_kept(point, point._replace(**found.points[point.id])))
        if kind in ledger.OPERATIONS:
            operation = undo_history.decode_operation(payload)
            return undo_history.encode_operation(operation._replace(plan=found.plans.get(operation.plan, operation.plan)))
        if kind in ledger.MARKS:
            mark = undo_history.decode_mark(payload)
            label = found.label(mark.label)
            return payload if label == mark.label else undo_history.encode_mark(mark._replace(label=label))
        return payload

    histories = {key: _with_new_plans(history, found) for key, history in context.store.histories().items()}
    maintenance.rewrite_ledger_for_purge(convert, histories, found.gone, sorted(found.points))


def _with_new_plans(history: History, found: LedgerRewrite) -> History:
    def steps(old: Iterable[undo_history.Step]) -> tuple[undo_history.Step, ...]:
        return tuple(step._replace(plan=found.plans.get(step.plan, step.plan)) for step in old)

    return history._replace(undo=steps(history.undo), redo=steps(history.redo))


def rule_path(rule: RuleRef) -> bytes:
    """The path of a rule file. A rule file outside the worktree gets a fixed name."""
    return paths.join(rule.base, name_for_output(rule.source))


def checkpoints_of(context: Context) -> list[Checkpoint]:
    """Every checkpoint of the store, newest first."""
    return [point for point, _ in context.store.checkpoints()]
