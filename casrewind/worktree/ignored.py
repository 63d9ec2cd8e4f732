"""Why a path is not captured, and which ignored files of a worktree a person may want back.

The danger prevented here: a person believes that a file is protected, but git's rules ignore it. Both functions use the
scan's own rules and read the rule files as they are now. They hash nothing and change nothing.
"""

import os
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from .. import fsio, store_detection
from .._typing import NamedTuple
from ..gitignore.rules import (
    MOST_BYTES,
    RULE_FILES,
    DecidingRule,
    RuleChooser,
    RuleFile,
    Rules,
    read_beginning_if_regular_file,
)
from ..model import domain as domains
from ..model import manifest, paths
from .reader import Worktree, means_absent_path
from .scan_directory import NAMES_THAT_STOP, is_cache
from .scan_policy import ScanPolicy

CAPTURED = "captured"
IGNORED = "ignored"
MISSING = "missing"
BEHIND_LINK = "behind a link"
_MOST_ENTRIES = 200_000
"""Directory entries that `find_ignored` reads at most, unless it is told to read all: about a second."""
_MOST_RECREATABLE = 10_000
"""Of these, entries of directories that tools make again: only their number is of interest."""
_RECREATABLE_FILES = (
    "*.pyc", "*.pyo", "*.o", "*.obj", "*.a", "*.so", "*.dylib", "*.dll", "*.class", "*.log", "*.tmp", "*.swp", "*~", "*.tsbuildinfo",
    ".DS_Store", "Thumbs.db", ".coverage", ".coverage.*", "coverage.xml",
)  # fmt: skip
_RECREATABLE_DIRECTORIES = (
    "node_modules", "bower_components", ".venv", "venv", "env", "__pycache__", "__pypackages__", ".*_cache", ".cache", "*.egg-info",
    ".tox", ".nox", ".eggs", ".pixi", ".gradle", ".dart_tool", ".parcel-cache", ".turbo", ".next", ".nuxt", ".svelte-kit", ".angular",
    ".terraform", "dist", "build", "out", "target", "htmlcov", "coverage", "tmp", "temp", "log", "logs", "Pods", "DerivedData",
    "_build", "site-packages", ".ipynb_checkpoints", ".hypothesis",
)  # fmt: skip
"""Names of ignored files and directories that tools make again. A guess: such an entry is counted apart, and never left out."""


class Verdict(NamedTuple):
    """The verdict on a path. `reason` is CAPTURED, IGNORED, MISSING or a reason of model/domain.py. `path` is the
    deciding path: the path itself or a directory above it. `rule` is the deciding rule, if there is one."""

    reason: str
    path: bytes
    rule: DecidingRule | None = None


class IgnoredEntry(NamedTuple):
    """An ignored file or directory below the root, with everything below it: `files` counts what is no directory, `size` is
    in bytes. `is_recreatable`: by its name, tools make it again."""

    path: bytes
    size: int
    is_dir: bool
    files: int = 1
    is_recreatable: bool = False


class Ignored(NamedTuple):
    """Ignored entries. `is_complete`: nothing else is ignored, and the sums are exact. `unreadable`: the first directory that
    could not be read, or None."""

    entries: list[IgnoredEntry]
    is_complete: bool
    unreadable: bytes | None = None


def explain(tree: Worktree, policy: ScanPolicy, path: bytes, *, inside: bool = False) -> Verdict:
    """Decide whether a scan captures `path` (b"" = the root), and why. For what is not there, the rules that are there
    decide, to the end of the path, as git's do. `inside`: the path is a directory's, and what is in it is meant, as git
    means by a slash at the end. Raises OSError."""
    tree.update_mounts()
    way = _Way(tree, policy)
    try:
        verdict = Verdict(CAPTURED, b"")
        parts = path.split(b"/") if path else []
        for depth, name in enumerate(parts, 1):
            verdict = way.go_on(name, as_directory=inside or depth < len(parts))
            if verdict.reason not in (CAPTURED, MISSING):
                return verdict._replace(path=path) if way.is_behind_file else verdict
        return way.explain_contents(verdict) if inside else verdict
    finally:
        way.close()


class _Way:
    """The way from the root to a path, name by name, with the rules in force where it has come to."""

    def __init__(self, tree: Worktree, policy: ScanPolicy) -> None:
        self._tree, self._policy = tree, policy
        self._never_entered, self._chooser = policy.never_entered(tree.root), policy.new_rule_chooser()
        self._where, self.is_behind_file = b"", False
        self._fd: int | None = os.dup(tree.fd)  # None: there is no such directory
        self._rules = policy.rules().extend(rule_files_of(self._fd, b"", self._chooser))

    def close(self) -> None:
        """Close the directory that the way has come to."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def go_on(self, name: bytes, *, as_directory: bool) -> Verdict:
        """Decide about an entry of this directory, and go into it if it is a directory that a scan enters. `as_directory`:
        the path goes on behind it."""
        rules, self._where = self._rules, paths.join(self._where, name)
        status = self._status_of(name)
        is_link = status is not None and stat.S_ISLNK(status.st_mode)
        if as_directory and status is not None and not is_link and not stat.S_ISDIR(status.st_mode):
            status, self.is_behind_file = None, True  # what is asked for is not there, and nothing is said of the file
        is_dir = as_directory and not is_link if status is None or is_link else stat.S_ISDIR(status.st_mode)
        limit = self._policy.max_file_size
        reason = _why_not_captured(rules, name, status, is_dir=is_dir, limit=limit, never_entered=self._never_entered)
        if reason == CAPTURED and status is not None and self._tree.mounts.is_mount_point(self._where, status):
            reason = domains.OTHER_DEVICE
        rule = rules.deciding_rule(name, is_dir=is_dir) if reason in (CAPTURED, IGNORED, MISSING) else None
        if reason == CAPTURED and as_directory and is_link:
            return Verdict(BEHIND_LINK, self._where)
        if is_dir and reason in (CAPTURED, MISSING):
            reason = self._enter(name, rules) if status is not None else self._enter_missing(name, rules)
        return Verdict(reason, self._where, rule if reason in (CAPTURED, IGNORED, MISSING) else None)

    def _status_of(self, name: bytes) -> os.stat_result | None:
        try:
            return None if self._fd is None else os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            if means_absent_path(error):
                return None
            raise

    def _enter(self, name: bytes, rules: Rules) -> str:
        """Go into a directory. Returns CAPTURED, or why a scan does not."""
        try:
            child = fsio.open_on_disk(name, fsio.DIRECTORY_FLAGS, self._fd)
        except PermissionError:
            return domains.UNREADABLE
        except fsio.NotOnDisk:
            return domains.NOT_ON_DISK
        self.close()
        self._fd, rules = child, rules.enter(name)
        reason = why_directory_skipped(child, rules, default_excludes=self._policy.default_excludes)
        self._rules = rules.extend(rule_files_of(child, self._where, self._chooser)) if reason == CAPTURED else rules
        return reason

    def _enter_missing(self, name: bytes, rules: Rules) -> str:
        self.close()
        self._rules = rules.enter(name)
        return MISSING

    def explain_contents(self, verdict: Verdict) -> Verdict:
        """Decide about what is in this directory. `verdict`: on itself. As git does it: about an empty name in it."""
        is_dir = self._fd is not None and bool(self._where)
        rule = self._rules.deciding_rule(b"", is_dir=is_dir)
        where = self._where + b"/" if self._where else b"."
        return Verdict(IGNORED if rule is not None and rule.ignored else verdict.reason, where, rule)


def _why_not_captured(
    rules: Rules, name: bytes, status: os.stat_result | None, *, is_dir: bool, limit: int, never_entered: Mapping[tuple[int, int], str]
) -> str:
    if paths.is_protected(name):
        return domains.PROTECTED
    if name.startswith(manifest.TEMPORARY_PREFIX):
        return domains.TEMPORARY
    if rules.ignored(name, is_dir):
        return IGNORED
    if rules.default_excluded(name, is_dir=is_dir):
        return domains.BUILT_IN
    if status is None:
        return MISSING
    if is_dir and (status.st_dev, status.st_ino) in never_entered:
        return never_entered[status.st_dev, status.st_ino]
    if stat.S_ISREG(status.st_mode):
        here = CAPTURED if fsio.is_on_disk(status) else domains.NOT_ON_DISK
        return domains.TOO_LARGE if status.st_size > limit else here
    return CAPTURED if is_dir or stat.S_ISLNK(status.st_mode) else domains.SPECIAL


def why_directory_skipped(directory: int, rules: Rules, *, default_excludes: bool) -> str:
    """The reason why an open directory is not captured, from its contents; CAPTURED if it is captured."""
    if store_detection.is_store(directory) or store_detection.is_data_directory(directory):
        return domains.STORE
    names = os.listdir(directory) if default_excludes else []
    own = any(source.stops_built_in for name, source in RULE_FILES.items() if os.fsdecode(name) in names)
    return domains.CACHE if default_excludes and not own and is_cache(directory, rules) else CAPTURED


def rule_files_of(fd: int, where: bytes, chooser: RuleChooser) -> list[RuleFile]:
    """The rule files of a directory, as a scan uses them."""
    found: list[RuleFile] = []
    for name, source in RULE_FILES.items():
        if chooser.has_stand_in(where, source.name):
            continue
        try:
            data = read_beginning_if_regular_file(name, fd, MOST_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError:
            chosen = chooser.replacement_for(where, source.name, "")
        else:
            if data is None:
                continue
            chosen = chooser.accept_or_replace(RuleFile(where, source.name, data))
        if chosen.file is not None:
            found.append(chosen.file)
    return found


def is_recreatable(name: bytes, *, is_dir: bool) -> bool:
    """True if tools usually make a file, or a directory, of this name again."""
    text = os.fsdecode(name)
    return any(fnmatchcase(text, pattern) for pattern in (_RECREATABLE_DIRECTORIES if is_dir else _RECREATABLE_FILES))


def find_ignored(
    tree: Worktree, policy: ScanPolicy, places: Collection[bytes] | None = None, *, reads_all: bool = False,
    with_recreatable: bool = True, most: int | None = None,
) -> Ignored:
    """Find the ignored entries, smallest first, those that tools make again last. `places`: only in these directories (as
    `StatIndex.directories_with_ignored` returns them right after a scan), None for the whole worktree. `reads_all`: without
    a limit; `most`: with that one, in entries of directories. Without `with_recreatable`, those that tools make again are left out.

    Enters no ignored directory, except to add up what is below it.
    """
    walk = _IgnoredWalk(tree, policy)
    walk.left = sys.maxsize if reads_all else most or _MOST_ENTRIES
    found = list(walk.find_entries(places))
    added = [walk.add_up(each) for each in found if not each.is_recreatable]  # what a person may want back comes first
    walk.left = walk.left if reads_all else min(walk.left, _MOST_RECREATABLE)
    added += [walk.add_up(each) for each in found if each.is_recreatable and with_recreatable]
    entries = [each for each in added if each is not None]
    entries.sort(key=lambda each: (each.is_recreatable, each.size, each.path))
    return Ignored(entries, walk.is_complete, walk.unreadable)


class _IgnoredWalk:
    """A walk through what a scan enters now, and then through the ignored directories. Reads `left` entries at most, and
    the rest of the last directory. `is_complete` is False from the moment on when something was left out."""

    def __init__(self, tree: Worktree, policy: ScanPolicy) -> None:
        tree.update_mounts()
        self._tree, self._policy = tree, policy
        self._never_entered = policy.never_entered(tree.root)
        self.left, self.is_complete = 0, True
        self.unreadable: bytes | None = None

    def find_entries(self, places: Collection[bytes] | None) -> Iterator[IgnoredEntry]:
        """The ignored entries, directories without their sums."""
        entered = None if places is None else {path for place in places for path in (*paths.parents(place), place)}
        pending, chooser = [(b"", self._policy.rules())], self._policy.new_rule_chooser()
        while pending:
            where, rules = pending.pop()
            for fd, listed in self._open_and_list(where):
                if where and not self._is_entered(where, fd, rules, listed):
                    continue
                rules = rules.extend(rule_files_of(fd, where, chooser))
                for entry in listed:
                    name = os.fsencode(entry.name)
                    if paths.is_protected(name) or name.startswith(manifest.TEMPORARY_PREFIX):
                        continue
                    path = where + b"/" + name if where else name
                    is_dir = entry.is_dir(follow_symlinks=False)
                    if rules.ignored(name, is_dir):
                        size = 0 if is_dir else _size_of_regular_file(entry)
                        yield IgnoredEntry(path, size, is_dir, int(not is_dir), is_recreatable(name, is_dir=is_dir))
                    elif is_dir and (entered is None or path in entered) and not rules.default_excluded(name):
                        pending.append((path, rules.enter(name)))

    def _is_entered(self, path: bytes, fd: int, rules: Rules, listed: "Sequence[os.DirEntry[str]]") -> bool:
        """True if a scan enters the open directory. The checkpoint names one that it does not enter as skipped."""
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) in self._never_entered or self._tree.mounts.is_mount_point(path, status):
            return False
        if path.count(b"/") + 1 >= paths.MAX_DEPTH:
            return False
        is_plain = NAMES_THAT_STOP.isdisjoint(entry.name for entry in listed)
        return is_plain or why_directory_skipped(fd, rules, default_excludes=self._policy.default_excludes) == CAPTURED

    def add_up(self, entry: IgnoredEntry) -> IgnoredEntry | None:
        """The entry, a directory with its sums. None for one that holds nothing but linked worktrees, which have roots of
        their own."""
        total = files = worktrees = 0
        pending = [entry.path] if entry.is_dir else []
        while pending:
            where = pending.pop()
            for fd, listed in self._open_and_list(where):
                status = os.fstat(fd)
                if self._never_entered.get((status.st_dev, status.st_ino)) == domains.LINKED_WORKTREE:
                    worktrees += 1
                    continue
                for each in listed:
                    if each.is_dir(follow_symlinks=False):
                        pending.append(where + b"/" + os.fsencode(each.name))
                    else:
                        files += 1
                        total += _size_of_regular_file(each)
        if worktrees and not files and self.is_complete:
            return None
        return entry._replace(size=total, files=files) if entry.is_dir else entry

    def _open_and_list(self, path: bytes) -> "Iterator[tuple[int, list[os.DirEntry[str]]]]":
        """A directory, open until the next step, and its entries; nothing if it is gone, if it cannot be read, or beyond
        the limit."""
        if self.left <= 0:
            self.is_complete = False
            return
        try:
            fd = self._tree.open_directory(path)
        except OSError as error:
            if not means_absent_path(error):
                self._note_unreadable(path)
            return
        with fsio.closing(fd):
            try:
                with os.scandir(fd) as listing:
                    listed = list(listing)
            except OSError:
                self._note_unreadable(path)
                return
            self.left -= len(listed) + 1
            yield fd, listed

    def _note_unreadable(self, path: bytes) -> None:
        self.is_complete = False
        self.unreadable = path if self.unreadable is None else self.unreadable


def _size_of_regular_file(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
