"""Scans a worktree by git's ignore rules, without reading unchanged files.

The dangers prevented here. A file edited in the clock tick of the last scan looks unchanged: the racy rule
(model/stamp.py). A file is read between two writes: every file read is statted again after the walk. A skipped path
counts as absent: every skip is recorded. A directory is replaced by a link while it is entered: the scan uses
descriptors and never follows links. A tree is too deep for recursion or for a path name: the stack is explicit, with
few descriptors.
"""

import errno
import os
import time
from collections.abc import Collection, Iterable

from .. import fsio
from .._typing import NamedTuple
from ..messages import is_process_limit
from ..model import digest as digests
from ..model import domain as domains
from ..model import manifest, paths
from ..model import stamp as stamps
from ..model.at_risk import JOURNALS, may_be_of_database
from ..model.domain import Domain, RuleRef, Stop
from ..model.manifest import Entry
from .reader import CapturedFile, NotCapturable, ReadFile, ReadFiles, ScanSink, Worktree, read_until_stable
from .scan_directory import OPEN_LEVELS, DirectoryScan
from .scan_policy import ScanPolicy
from .scan_state import Report, ScanState
from .stat_index import DirRecord, StaleIndex, StatIndex

_FEW_TREES = 8
"""So many trees are read as fast when they are asked for."""


class Scan(NamedTuple):
    """The result of a scan: the root tree's digest, its domain, and numbers of entries (paths that are no directories), files
    and bytes. `records`: new records for the stat index, by directory. `life`: the life of the file system during the
    scan. `trees`: the new trees, by directory. `fresh`: the files read. `known`: the previous stat index."""

    tree: bytes
    domain: Domain
    entries: int
    files: int
    size: int
    records: dict[bytes, DirRecord]
    trees: dict[bytes, bytes]
    fresh: ReadFiles
    life: bytes
    known: StatIndex

    @property
    def read(self) -> frozenset[bytes]:
        """The paths of the files read."""
        return frozenset(paths.join(each.place, each.name) for each in self.fresh)


def scan(
    tree: Worktree,
    sink: ScanSink,
    policy: ScanPolicy,
    index: StatIndex | None = None,
    report: Report | None = None,
) -> Scan:
    """Scan a worktree into `sink`. Uses `index` for unchanged files. If the sink lacks data that the index relies on,
    everything is read. Raises OSError if the root cannot be read, and the errors of the sink."""
    tree.reopen_root_if_replaced()
    tree.update_mounts()
    index = StatIndex() if index is None else index
    shared = ScanState(tree, sink, policy, index, report)
    shared.skipped += policy.faults
    shared.rules += [RuleRef(rule.base, rule.source, sink.put_rules(rule.data)) for rule in policy.outside]
    try:
        index.compare(tree.fd, tree.mounts.device, shared.never_entered)
        if index.mark_dirty(tree.mounts.names) > _FEW_TREES:
            sink.read_trees_ahead(index.trees_with_changes())
        root = _walk_and_store_trees(tree, shared)
        if sink.lacks(shared.reused if shared.records else [root]):
            raise StaleIndex
    except StaleIndex:
        return scan(tree, sink, policy, None, report)
    root, unstable, reread = _reread_changed(tree, shared, root)
    domain = Domain(
        ignore_case=policy.ignore_case,
        default_excludes=policy.default_excludes,
        max_file_size=policy.max_file_size,
        rules=tuple(shared.rules),
        skipped=tuple(shared.skipped),
        unstable=tuple(unstable),
        ignored=shared.ignored,
        late=_files_changed_since_event(shared) if policy.as_of else (),
        unstored=tuple(RuleRef(rule.base, rule.source, digests.of(rule.data)) for rule in policy.unstored),
        stop=None if policy.stop is None else _with_files_changed_since(policy.stop, shared, (*unstable, *reread)),
    )
    counts = shared.entries, shared.files, shared.size
    return Scan(root, domain, *counts, shared.records, shared.trees, shared.fresh, tree.life, index)


def _walk_and_store_trees(tree: Worktree, shared: ScanState) -> bytes:
    """Walk all directories: their files on entry, their trees on exit. Returns the root tree's digest."""
    policy = shared.policy
    stack: list[DirectoryScan] = [DirectoryScan(shared, b"", b"", 0, os.dup(tree.fd))]
    try:
        stack[0].scan_own_files(policy.rules())
        while True:
            top = stack[-1]
            if top.children:
                name = top.children.pop()
                found = shared.index.unchanged_subtree(top.prefix + name, top.rules.digest)
                if found is not None:
                    top.add_subtree(name, found)
                    continue
                child = _open_child_if_captured(tree, shared, top, name)
                if child is not None:
                    stack.append(child)
                continue
            entry = top.finish_directory()
            stack.pop()
            if not stack:
                return entry.digest
            stack[-1].add_child(top, entry)
    finally:
        for directory in stack:
            directory.close()


def _open_child_if_captured(tree: Worktree, shared: ScanState, parent: DirectoryScan, name: bytes) -> DirectoryScan | None:
    """Open and enter a child directory; None if it is not captured."""
    path = parent.prefix + name
    if parent.depth + 1 >= paths.MAX_DEPTH:  # a restore would refuse the paths below it
        parent.record_skip(name, domains.TOO_DEEP)
        return None
    try:
        near = parent.fd >= 0
        fd = fsio.open_on_disk(name, fsio.DIRECTORY_FLAGS, parent.fd) if near else tree.open_directory(path)
        child = DirectoryScan(shared, path, name, parent.depth + 1, fd)
        try:
            reason = child.scan_own_files(parent.rules.enter(name))
        except BaseException:
            child.close()
            raise
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            parent.forget_listing()  # gone or replaced since the listing
            return None
        if is_process_limit(error):
            raise
        reason = domains.NOT_ON_DISK if isinstance(error, fsio.NotOnDisk) else domains.UNREADABLE
        child = None
    if reason is not None:
        parent.record_skip(name, reason)
        if child is not None:
            child.close()
        return None
    if child is not None and child.depth > OPEN_LEVELS:
        child.close()
    return child


def _reread_changed(  # noqa: C901 - one loop over what was read
    tree: Worktree, shared: ScanState, root: bytes
) -> tuple[bytes, list[bytes], Collection[bytes]]:
    """Stat every file read again, and reread changed files. Returns (new root tree, paths that kept changing, paths read again)."""
    changes: dict[bytes, Entry | None] = {}
    unstable = [path for path, is_whole in shared.pairs.items() if not is_whole]
    place: bytes | None = None
    fd = -1
    try:
        for fresh in shared.fresh.stat_again_for_changes(tree.fd, shared.start):
            path = paths.join(fresh.place, fresh.name)
            if path in shared.pairs:
                continue
            if fresh.place != place:
                if fd >= 0:
                    os.close(fd)
                place, fd = fresh.place, _try_open_directory(tree, fresh.place)
            again = _reread_if_changed(fd, fresh, shared) if fd >= 0 else None
            if again is None:
                if fresh.stamp == stamps.NONE:
                    unstable.append(path)  # it kept changing, and is gone now
                continue
            changes[path] = again.entry
            more = again.entry.size - fresh.size
            old = shared.records[fresh.place].forgetting(fresh.name)
            shared.size += more
            shared.records[fresh.place] = old._replace(size=old.size + more)
            if not again.stable:
                unstable.append(path)
    finally:
        if fd >= 0:
            os.close(fd)
    if not changes:
        return root, unstable, ()
    from ..model.manifest_edits import with_changed_paths

    root = with_changed_paths(shared.sink.load_tree, shared.sink.put_tree, root, changes)
    finder = manifest.Finder(shared.sink.load_tree, root)
    for path in sorted({place for change in changes for place in paths.parents(change)}):  # their records have old trees
        record, entry = shared.records.get(path) or shared.index.record_of_directory(path), finder.find(path)
        if record is not None and entry is not None:
            shared.records[path] = record._replace(tree=entry.digest)
    record = shared.records.get(b"") or shared.index.record_of_directory(b"")
    if record is not None:
        shared.records[b""] = record._replace(tree=root)
    return root, unstable, changes.keys()


def _files_changed_since_event(shared: ScanState) -> tuple[bytes, ...]:
    """The files read that changed after the event of this scan. The next scan reads them again. A stamp from the future
    does not count: it only shows that the clock was set back."""
    now = time.time_ns()
    late = [fresh for fresh in shared.fresh if 0 < shared.policy.as_of < fresh.stamp.ctime_ns <= now]
    for fresh in late:
        shared.records[fresh.place] = shared.records[fresh.place].forgetting(fresh.name)
    return tuple(sorted(paths.join(fresh.place, fresh.name) for fresh in late))


def _with_files_changed_since(stop: Stop, shared: ScanState, reread: Iterable[bytes]) -> Stop:
    """The stop with the files that changed after it: their contents or names, by the two times of each. `reread` changed in this scan."""
    times = ((fresh, max(fresh.stamp.mtime_ns, fresh.stamp.ctime_ns)) for fresh in shared.fresh)
    later = {paths.join(fresh.place, fresh.name) for fresh, at in times if at > stop.at_ns or fresh.stamp == stamps.NONE}
    return stop._replace(changed_since=tuple(sorted(later.union(reread))))


def _try_open_directory(tree: Worktree, place: bytes) -> int:
    """A descriptor of the directory, or -1."""
    try:
        return tree.open_directory(place)
    except OSError:
        return -1


def _may_have_companion(fd: int, name: bytes, size: int) -> bool:
    """True if a file of so many bytes may be an SQLite database in whose transaction it was read."""
    if not may_be_of_database(name, size):
        return False
    return any(os.access(name + end, os.F_OK, dir_fd=fd, follow_symlinks=False) for end in JOURNALS)


def _reread_if_changed(fd: int, fresh: ReadFile, shared: ScanState) -> CapturedFile | None:
    """None if a file is as it was read, or is gone; otherwise its new content. `stable` is False if it keeps changing.
    With a racy stamp, the bytes are compared: a second write in the same clock tick would not change the stamp."""
    try:
        stamp = stamps.of(os.stat(fresh.name, dir_fd=fd, follow_symlinks=False))
        if stamp == fresh.stamp and not stamps.is_racy(stamp, shared.start):
            return None
        if _may_have_companion(fd, fresh.name, stamp.size):
            from .database_pair import capture_pair

            pair = capture_pair(fd, fresh.name, shared.sink, shared.policy.max_file_size)
            if pair is not None and fresh.name in pair:  # a companion that came after the list of names is not in the tree
                return pair[fresh.name]._replace(stable=pair[fresh.name].stable and len(pair) == 1)
        again = read_until_stable(fresh.name, fd, shared.sink, shared.policy.max_file_size)
        if again.stable and again.stamp == fresh.stamp and again.entry.digest == fresh.digest:
            return None
        still = stamps.of(os.stat(fresh.name, dir_fd=fd, follow_symlinks=False)) == again.stamp
        return again._replace(stable=again.stable and still)
    except (OSError, NotCapturable):
        return None  # deleted after the read: the checkpoint keeps the bytes read
