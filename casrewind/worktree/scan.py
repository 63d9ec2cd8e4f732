"""One pass over the worktree: what is there, by git's ignore rules, without reading what did not change.

The dangers prevented here: a file edited in the same clock tick as the last scan that looks unchanged (the racy rule,
model/stamp.py); a file caught between two writes (every freshly read file is statted once more at the end of the walk);
a skipped path taken for an absent one (every skip is recorded); a directory swapped for a link while it is entered
(descriptors, never followed); a tree too deep for recursion or for a path name (an explicit stack, few descriptors).
"""

import _thread
import os
import time
from collections.abc import Callable

from ..model import digest as digests
from ..model import manifest, paths
from ..model import stamp as stamps
from ..model.domain import Domain, RuleRef
from ..model.manifest import Entry, Loader
from ..model.stamp import Stamp
from ..typed import NamedTuple
from .directory import Directory, open_child
from .files import Captured, NotCapturable, Sink, Worktree, read_stable
from .ignore import Rules
from .passes import Fresh, Options, Pass, Remember, Report
from .sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:  # no save has need of it where nobody watches
    from .beside import Beside
    from .passes import Apart
    from .watch import Watch

_WORTH_A_FORK = 600  # entries that were looked at: of fewer nobody knows that there are many more


class Scan(NamedTuple):
    """What a scan found: the manifest's root digest, its domain, how many paths, files and bytes, and what to remember.

    `stamps`: new stat-cache records by directory (None: forget it). `life`: the life of the file system in which they were made.
    `trees`: the trees made now, by directory. `read`: the paths whose bytes were read now.
    """

    tree: bytes
    domain: Domain
    entries: int
    files: int
    size: int
    stamps: dict[bytes, bytes | None]
    trees: dict[bytes, bytes]
    read: frozenset[bytes]
    life: bytes


def scan(
    tree: Worktree,
    sink: Sink,
    load: Loader,
    options: Options,
    remember: Remember = lambda path: None,  # noqa: ARG005 - remembers nothing
    report: Report | None = None,
    sheet: Sheet | None = None,
    watch: "Watch | None" = None,
    apart: "Apart | None" = None,
) -> Scan:
    """Scan a worktree into `sink`; `load` gives a tree that the sink took or that is stored already. `sheet` is that of
    what `remember` knows. With a `watch` that has no doubts, of the sheet only what may have changed is looked at. Where
    nothing is remembered, and `sink` has a part `apart`, a fork may scan some of it (options.processes).

    Raises OSError when the root itself cannot be read, and what the sink raises.
    """
    tree.follow_root()
    tree.look_for_mounts()
    if watch is not None:
        watch.meet_root(tree.status)
    shared = Pass(tree.mounts, sink, options, remember, report, watch)
    shared.skipped += options.faults
    shared.rules += [RuleRef(rule.base, rule.source, sink.put_rules(rule.data)) for rule in options.outside]
    if sheet is not None:
        excluded, root_path = options.excluded, os.fsencode(tree.root)
        sheet.look(
            tree.fd, tree.mounts.device, excluded, processes=options.processes, watch=watch, root=root_path
        )
        sheet.doubt_mounts(tree.mounts.names)
    root = _walk(tree, shared, sheet, apart if sheet is None and watch is None and options.processes > 1 else None)
    if shared.doubtful and watch is not None and not watch.full:
        watch.full = True
        return scan(tree, sink, load, options, remember, report, sheet, watch, None)
    if watch is not None and sheet is not None:
        watch.rest = sheet.doubted - shared.left
    changes, unstable = _look_again(tree, shared)
    if changes:
        root = manifest.patch(load, sink.put_tree, root, changes)
    domain = Domain(
        ignore_case=options.ignore_case,
        default_excludes=options.default_excludes,
        max_file_size=options.max_file_size,
        rules=tuple(shared.rules),
        skipped=tuple(shared.skipped),
        unstable=tuple(unstable),
        ignored=shared.ignored,
        late=_late(shared),
        unstored=tuple(RuleRef(rule.base, rule.source, digests.of(rule.data)) for rule in options.unstored),
    )
    fresh = shared.fresh if options.tells_read else ()
    read = frozenset(paths.join(each.place, each.name) for each in fresh)
    return Scan(root, domain, shared.entries, shared.files, shared.size, shared.records, shared.trees, read, tree.life)


def is_alone() -> bool:
    """Whether no other thread runs in this process: a fork of it has only the one that forks."""
    return _thread._count() == 0  # noqa: SLF001 - it has no other name


def _walk(tree: Worktree, shared: Pass, sheet: Sheet | None, apart: "Apart | None" = None) -> bytes:
    """Every directory: its files on the way in, its tree on the way out. The root tree's digest."""
    options = shared.options
    stack: list[Directory] = [Directory(shared, b"", b"", 0, os.dup(tree.fd))]
    beside: Beside | None = None
    try:
        stack[0].enter(options.rules((*options.outside, *options.unstored)))
        while True:
            top = stack[-1]
            if beside is not None:
                beside.meet(stack)
            elif apart is not None and shared.seen >= _WORTH_A_FORK and is_alone():
                beside, apart = _begin(tree, shared, stack[0].rules, apart), None
            if top.away and not top.children and beside is not None:
                beside.wait()
            if top.children:
                name = top.children.pop()
                path = paths.join(top.path, name)
                part = None if sheet is None else sheet.take(path, top.rules.digest)
                if beside is not None:
                    part = beside.take(path)
                if part is not None:
                    top.take_part(name, part)
                    continue
                child = open_child(tree, shared, top, name)
                if child is not None:
                    stack.append(child)
                continue
            entry = top.leave()
            stack.pop()
            if not stack:
                return entry.digest
            stack[-1].take(top, entry)
    finally:
        if beside is not None:
            beside.close()
        for directory in stack:
            directory.close()


def _begin(tree: Worktree, shared: Pass, rules: Rules, apart: "Apart") -> "Beside | None":
    """A fork that scans some of it; None where there can be none."""
    from .beside import Beside

    try:
        return Beside(tree, shared, rules, apart)
    except OSError:
        return None


def _look_again(tree: Worktree, shared: Pass) -> tuple[dict[bytes, Entry | None], list[bytes]]:
    """Stat every freshly read file once more and read again what moved: (changes, paths that never held still)."""
    changes: dict[bytes, Entry | None] = {}
    unstable = []
    place: bytes | None = None
    fd = -1
    try:
        for fresh in shared.fresh.other_than(_as_read(tree.fd, shared.start)):
            if fresh.place != place:
                if fd >= 0:
                    os.close(fd)
                place, fd = fresh.place, _reopen(tree, fresh.place)
            again = _settled(fd, fresh, shared) if fd >= 0 else None
            path = paths.join(fresh.place, fresh.name)
            if again is None:
                if fresh.stamp == stamps.NONE:
                    unstable.append(path)  # it never held still, and now it is gone
                continue
            changes[path] = again.entry
            shared.size += again.entry.size - fresh.size
            shared.records[fresh.place] = None
            if not again.stable:
                unstable.append(path)
    finally:
        if fd >= 0:
            os.close(fd)
    return changes, unstable


def _as_read(root: int, start: int) -> Callable[[bytes, list[int]], bool]:
    """Whether what stands at a path has the stamp of the file that was read there, and that proves it. Nothing is read: a path
    that leads elsewhere by now leads to another stamp, and what is in doubt is reached with more care."""
    old = start - stamps.COARSE_MARGIN_NS

    def is_as_read(path: bytes, stamp: list[int]) -> bool:
        try:
            now = os.stat(path, dir_fd=root, follow_symlinks=False)
        except OSError:
            return False
        if stamp != [now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_mode]:
            return False
        return (stamp[1] <= old and stamp[2] <= old) or not stamps.is_racy(Stamp(*stamp), start)

    return is_as_read


def _late(shared: Pass) -> tuple[bytes, ...]:
    """The freshly read files that changed after what the scan is made for. They are looked at again next time. A stamp from
    the future tells nothing of when that was, but that the clock was set back since."""
    now = time.time_ns()
    if not shared.options.as_of:
        return ()
    late = [fresh for fresh in shared.fresh if 0 < shared.options.as_of < fresh.stamp.ctime_ns <= now]
    for fresh in late:
        shared.records[fresh.place] = None
    return tuple(sorted(paths.join(fresh.place, fresh.name) for fresh in late))


def _reopen(tree: Worktree, place: bytes) -> int:
    try:
        return tree.open_directory(place)
    except OSError:
        return -1


def _settled(fd: int, fresh: Fresh, shared: Pass) -> Captured | None:
    """None when a file is as it was read, or is gone; else what it is now, `stable` False when it moves on and on.

    A racy stamp proves nothing, since the second half of a write may have come in the same clock tick: then the bytes
    are compared.
    """
    try:
        stamp = stamps.of(os.stat(fresh.name, dir_fd=fd, follow_symlinks=False))
        if stamp == fresh.stamp and not stamps.is_racy(stamp, shared.start):
            return None
        again = read_stable(fresh.name, fd, shared.sink, shared.options.max_file_size)
        if again.stable and again.stamp == fresh.stamp and again.entry.digest == fresh.digest:
            return None
        still = stamps.of(os.stat(fresh.name, dir_fd=fd, follow_symlinks=False)) == again.stamp
        return again._replace(stable=again.stable and still)
    except (OSError, NotCapturable):
        return None  # it went away after it was read: the checkpoint holds it as it was
