"""Would a checkpoint have known of a path? Decided by what it recorded, never by today's rules.

The danger prevented here: a restore that deletes what its target never spoke for. `.gitignore` changes between
checkpoints, files grow over a limit, a directory could not be read: none of that makes a path "absent then".
"""

from collections.abc import Iterable, Iterator
from functools import cache

from .. import errors
from ..model import domain as domains
from ..model import paths
from ..model.domain import Domain, RuleRef
from ..model.manifest import DIR, FILE, Entry
from ..store import packs
from ..store.store import Store
from ..worktree.ignore import RuleFile, RuleSet
from ..worktree.passes import Options

_BYTES, _LINES = 64 << 20, 1_000_000
"""Of all rule files of a checkpoint: more take minutes and gigabytes to understand."""


class Known:
    """What one checkpoint would have captured."""

    def __init__(self, store: Store, domain: Domain) -> None:
        """`store` gives the bytes of the recorded rule files."""
        self._domain = domain
        files = list(_rule_files(store, domain.rules))
        self._rules = RuleSet(files, ignore_case=domain.ignore_case, default_excludes=domain.default_excludes)
        self._skipped = {rule.base: "ignore rules that are not stored" for rule in domain.unstored}
        for skip in domain.skipped:
            kind = domains.kind_of(skip.reason)
            if kind == domains.UNREADABLE_RULES:
                self._skipped[_base_of(skip.path)] = kind
            elif kind != domains.SETTINGS:  # of such a file everything is known but what the project asked for
                self._skipped[skip.path] = kind

    def why_not(self, path: bytes, entry: Entry) -> str | None:
        """The reason why the checkpoint may not have known of `path`, had it existed then as `entry`; None = it would."""
        for place in (path, *reversed(paths.parents(path)), b""):
            reason = self._skipped.get(place)
            if reason is not None:
                return f"not known to the checkpoint: {reason} then"
        if entry.kind == FILE and entry.size > self._domain.max_file_size:
            return "not known to the checkpoint: larger than what it captured"
        if not self._rules.captured(path, entry.kind == DIR):
            return "not known to the checkpoint: ignored by its rules"
        return None


def with_recorded_rules(store: Store, worktree: bytes, options: Options) -> Options:
    """Options of a scan where the project's own file cannot be read, with the rules that the newest checkpoint recorded of it."""
    newest = store.head(worktree)
    try:
        rules = () if newest is None else store.domain(newest.domain).rules
        found = list(_rule_files(store, (rule for rule in rules if rule.source == "project")))
    except (errors.BlobMissing, errors.BlobCorrupt):
        return options  # more is captured, and nothing is deleted
    return options._replace(outside=(*options.outside, *found))


def _base_of(path: bytes) -> bytes:
    """The directory that the rules of a rule file are relative to. What git keeps in `.git` speaks of the whole worktree."""
    return b"" if path.startswith(b".git/") else path.rpartition(b"/")[0]


def _rule_files(store: Store, rules: Iterable[RuleRef]) -> Iterator[RuleFile]:
    read = cache(store.read)  # a thousand directories may have the same rules
    size = count = 0
    for rule in rules:
        data = read(rule.digest, packs.RULES)
        size, count = size + len(data), count + data.count(b"\n")
        if size > _BYTES or count > _LINES:  # a domain may name the same bytes any number of times
            raise errors.BlobCorrupt(f"refused rules of a checkpoint: {size:,} bytes and {count:,} lines are more than rule files have")
        yield RuleFile(rule.base, rule.source, data)
