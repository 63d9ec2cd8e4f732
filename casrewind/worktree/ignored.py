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
from .reader import Worktree
from .scan_directory import is_cache
from .scan_policy import ScanPolicy

CAPTURED = "captured"
IGNORED = "ignored"
MISSING = "missing"
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


def explain(tree: Worktree, policy: ScanPolicy, path: bytes) -> Verdict:
    """Decide whether a scan captures `path`, and why. Raises OSError."""
    rules, chooser = policy.rules(), policy.new_rule_chooser()
    where, never_entered = b"", policy.never_entered(tree.root)
    tree.update_mounts()
    fd = os.dup(tree.fd)
    try:
        parts = path.split(b"/")
        for depth, name in enumerate(parts):
            rules = rules.extend(rule_files_of(fd, where, chooser))
            where = where + b"/" + name if where else name
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                status = None
            is_last = depth == len(parts) - 1
            is_dir = not is_last if status is None else stat.S_ISDIR(status.st_mode)
            reason = _why_not_captured(rules, name, status, is_dir=is_dir, limit=policy.max_file_size, never_entered=never_entered)
            if reason == CAPTURED and status is not None and tree.mounts.is_mount_point(where, status):
                reason = domains.OTHER_DEVICE
            rule = rules.deciding_rule(name, is_dir=is_dir) if reason in (CAPTURED, IGNORED, MISSING) else None
            if reason == CAPTURED and not is_dir and not is_last:
                return Verdict(MISSING, path)
            if reason != CAPTURED or not is_dir:
                return Verdict(reason, where, rule)
            try:
                child = os.open(name, fsio.DIRECTORY_FLAGS, dir_fd=fd)
            except PermissionError:
                return Verdict(domains.UNREADABLE, where)
            os.close(fd)
            fd = child
            rules = rules.enter(name)
            reason = _why_directory_is_not_captured(fd, rules, default_excludes=policy.default_excludes)
            if reason != CAPTURED or is_last:
                return Verdict(reason, where, rule if reason == CAPTURED else None)
        raise AssertionError("a path has a last component")
    finally:
        os.close(fd)


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
