"""The ignored files of a worktree that each new directory of a checkpoint gets, too: those of `.worktreeinclude`.

That file is a convention of several tools, and means the same here: rules as in a .gitignore, in the root. A file that they
match comes along if git ignores it. The danger prevented here: a copy of what nobody meant. So a file that git does not
ignore is never one of them, no link is followed, and nothing outside of the worktree is read.
"""

import os
import stat
from collections.abc import Iterator

from .. import fsio, store_detection
from .._typing import NamedTuple
from ..gitignore.rules import MOST_BYTES, SOURCES, RuleFile, Rules, read_beginning_if_regular_file, why_refused
from ..model import manifest, paths
from .ignored import rule_files_of
from .reader import Worktree
from .scan_policy import ScanPolicy

LIST = b".worktreeinclude"


class CarriedFile(NamedTuple):
    """A file or link to copy: its path, and its status when it was found."""

    path: bytes
    status: os.stat_result


class _Place(NamedTuple):
    """A directory to read, with git's rules and those of the list there. None: they match the directory, and so all of it."""

    path: bytes
    ignoring: Rules | None
    listing: Rules | None


def find_listed_ignored(tree: Worktree, policy: ScanPolicy) -> tuple[list[CarriedFile], str]:
    """Returns (the files and links, sorted by path, why the list cannot be used or "")."""
    try:
        data = read_beginning_if_regular_file(LIST, tree.fd, MOST_BYTES + 1)
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"it cannot be read ({error.strerror})"
    why = "it is not a regular file" if data is None else why_refused(data, 0)
    if data is None or why:
        return [], why
    listing = Rules.top(ignore_case=policy.ignore_case).extend([RuleFile(b"", "gitignore", data)])
    return sorted(_find_in_directories(tree, policy, listing), key=lambda found: found.path), ""


def _find_in_directories(tree: Worktree, policy: ScanPolicy, listing: Rules) -> Iterator[CarriedFile]:
    chooser, never_entered = policy.new_rule_chooser(), policy.never_entered(tree.root)
    gits = policy._replace(outside=_rule_files_of_git(policy.outside), unstored=_rule_files_of_git(policy.unstored))
    pending = [] if listing.trivial else [_Place(b"", gits.rules(), listing)]
    while pending:
        place = pending.pop()
        try:
            fd = tree.open_directory(place.path)
        except OSError:
            continue  # removed just now, or not readable
        with fsio.closing(fd):
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) in never_entered or status.st_dev != tree.status.st_dev:
                continue
            if store_detection.is_store(fd) or store_detection.is_data_directory(fd):
                continue
            if place.ignoring is not None:
                place = place._replace(ignoring=place.ignoring.extend(_rule_files_of_git(rule_files_of(fd, place.path, chooser))))
            for entry in _entries_or_nothing(fd):
                name = os.fsencode(entry.name)
                if paths.is_protected(name) or name.startswith(manifest.TEMPORARY_PREFIX):
                    continue
                is_dir = entry.is_dir(follow_symlinks=False)
                ignoring, listing_it = _rules_within(place.ignoring, name, is_dir=is_dir), _rules_within(place.listing, name, is_dir=is_dir)
                path = paths.join(place.path, name)
                if is_dir:
                    pending.append(_Place(path, ignoring, listing_it))
                elif ignoring is None and listing_it is None:
                    yield from _file_or_link_at(fd, path, name)


def _entries_or_nothing(fd: int) -> Iterator["os.DirEntry[str]"]:
    """The entries of an open directory; none if it cannot be read."""
    try:
        with os.scandir(fd) as listing:
            yield from listing
    except OSError:
        return


def _rule_files_of_git(files: "tuple[RuleFile, ...] | list[RuleFile]") -> tuple[RuleFile, ...]:
    """The rule files that git reads, too: what casrewind includes is ignored by git all the same."""
    return tuple(file for file in files if SOURCES[file.source].is_of_git)


def _rules_within(rules: Rules | None, name: bytes, *, is_dir: bool) -> Rules | None:
    """The rules in a directory, or those in force at a file. None if they match it, or what it is in."""
    if rules is None or rules.ignored(name, is_dir) or (is_dir and rules.default_excluded(name)):
        return None
    return rules.enter(name) if is_dir else rules


def _file_or_link_at(fd: int, path: bytes, name: bytes) -> Iterator[CarriedFile]:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        yield CarriedFile(path, status)
