"""Why a path is not captured, and which ignored files of a worktree a person may want back.

The danger prevented here: a person believes that a file is protected, but git's rules ignore it. Both functions use the
scan's own rules and read the rule files as they are now. They hash nothing and change nothing.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping
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
from .scan_directory import is_cache
from .scan_policy import ScanPolicy

CAPTURED = "captured"
IGNORED = "ignored"
MISSING = "missing"
BEHIND_LINK = "behind a link"
_MOST_ENTRIES = 200_000
"""Directory entries that `find_ignored` reads at most: about a second."""
_RECREATABLE = (
    "*.pyc", "*.pyo", "*.o", "*.obj", "*.a", "*.class", "*.log", "*.tmp", "*.swp", "*~", "*.egg-info", "*.tsbuildinfo", ".DS_Store",
    "Thumbs.db", "node_modules", "bower_components", ".venv", "venv", "env", "__pycache__", "__pypackages__", ".*_cache", ".cache",
    ".tox", ".nox", ".eggs", ".pixi", ".gradle", ".dart_tool", ".parcel-cache", ".turbo", ".next", ".nuxt", ".svelte-kit", ".angular",
    ".terraform", "dist", "build", "out", "target", "htmlcov", "coverage", ".coverage", ".coverage.*", "coverage.xml", "tmp", "temp",
    "log", "logs", "Pods", "DerivedData", "_build", "site-packages", ".ipynb_checkpoints", ".hypothesis", "*.so", "*.dylib", "*.dll",
)  # fmt: skip
"""Names of ignored files and directories that tools make again."""


class Verdict(NamedTuple):
    """The verdict on a path. `reason` is CAPTURED, IGNORED, MISSING or a reason of model/domain.py. `path` is the
    deciding path: the path itself or a directory above it. `rule` is the deciding rule, if there is one."""

    reason: str
    path: bytes
    rule: DecidingRule | None = None


class IgnoredEntry(NamedTuple):
    """An ignored file or directory below the root. `size` is in bytes: of a directory the sum of its first files."""

    path: bytes
    size: int
    is_dir: bool


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
                return verdict
        return way.explain_contents(verdict) if inside else verdict
    finally:
        way.close()


class _Way:
    """The way from the root to a path, name by name, with the rules in force where it has come to."""

    def __init__(self, tree: Worktree, policy: ScanPolicy) -> None:
        self._tree, self._policy = tree, policy
        self._never_entered, self._chooser = policy.never_entered(tree.root), policy.new_rule_chooser()
        self._where = b""
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
            status = None  # nothing can be behind it, so what is asked for is not there
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
            child = os.open(name, fsio.DIRECTORY_FLAGS, dir_fd=self._fd)
        except PermissionError:
            return domains.UNREADABLE
        self.close()
        self._fd, rules = child, rules.enter(name)
        reason = _why_directory_is_not_captured(child, rules, default_excludes=self._policy.default_excludes)
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
    if is_dir and rules.default_excluded(name):
        return domains.BUILT_IN
    if status is None:
        return MISSING
    if is_dir and (status.st_dev, status.st_ino) in never_entered:
        return never_entered[status.st_dev, status.st_ino]
    if stat.S_ISREG(status.st_mode):
        return domains.TOO_LARGE if status.st_size > limit else CAPTURED
    return CAPTURED if is_dir or stat.S_ISLNK(status.st_mode) else domains.SPECIAL


def _why_directory_is_not_captured(directory: int, rules: Rules, *, default_excludes: bool) -> str:
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


def is_recreatable(name: bytes) -> bool:
    """True if tools usually make a file or directory of this name again."""
    text = os.fsdecode(name)
    return any(fnmatchcase(text, pattern) for pattern in _RECREATABLE)


def find_ignored(
    tree: Worktree, policy: ScanPolicy, places: Collection[bytes] | None = None
) -> tuple[list[IgnoredEntry], bool]:
    """Find ignored entries that tools do not make again, smallest first. `places`: only in these directories (as
    `StatIndex.directories_with_ignored` returns them right after a scan), None for the whole worktree.

    Returns (entries, True if everything was read). Enters no ignored directory, except to add up its size.
    """
    found: list[IgnoredEntry] = []
    entered = None if places is None else {path for place in places for path in (*paths.parents(place), place)}
    left = _MOST_ENTRIES
    pending, chooser = [(b"", policy.rules())], policy.new_rule_chooser()
    never_entered = policy.never_entered(tree.root)
    while pending and left > 0:
        where, rules = pending.pop()
        try:
            fd = tree.open_directory(where)
        except OSError:
            continue
        with fsio.closing(fd):
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) in never_entered or status.st_dev != tree.status.st_dev:
                continue
            rules = rules.extend(rule_files_of(fd, where, chooser))
            for entry in scan_entries_or_nothing(fd):
                left -= 1
                name = os.fsencode(entry.name)
                if paths.is_protected(name) or name.startswith(manifest.TEMPORARY_PREFIX):
                    continue
                path = where + b"/" + name if where else name
                is_dir = entry.is_dir(follow_symlinks=False)
                if rules.ignored(name, is_dir):
                    if not is_recreatable(name):
                        size, used = _add_up_directory(tree, path, left, never_entered) if is_dir else (_size_of_regular_file(entry), 0)
                        left -= used
                        if size is not None:
                            found.append(IgnoredEntry(path, size, is_dir))
                elif is_dir and (entered is None or path in entered) and not rules.default_excluded(name):
                    pending.append((path, rules.enter(name)))
    found.sort(key=lambda each: (each.size, each.path))
    return found, left > 0


def scan_entries_or_nothing(fd: int) -> Iterator["os.DirEntry[str]"]:
    """The entries of an open directory; none if it cannot be read."""
    try:
        with os.scandir(fd) as listing:
            yield from listing
    except OSError:
        return


def _size_of_regular_file(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _add_up_directory(
    tree: Worktree, path: bytes, most: int, never_entered: Mapping[tuple[int, int], str]
) -> tuple[int | None, int]:
    """Add up a directory's files. Returns (bytes, entries read); stops after `most` entries. None for bytes: it holds
    nothing but linked worktrees, which have roots of their own."""
    total = used = files = worktrees = 0
    pending = [path]
    while pending and used < most:
        where = pending.pop()
        try:
            fd = tree.open_directory(where)
        except OSError:
            files += 1
            continue
        with fsio.closing(fd):
            status = os.fstat(fd)
            if never_entered.get((status.st_dev, status.st_ino)) == domains.LINKED_WORKTREE:
                worktrees += 1
                continue
            for entry in scan_entries_or_nothing(fd):
                used += 1
                if entry.is_dir(follow_symlinks=False):
                    pending.append(where + b"/" + os.fsencode(entry.name))
                else:
                    files += 1
                    total += _size_of_regular_file(entry)
    return None if worktrees and not files else total, used
