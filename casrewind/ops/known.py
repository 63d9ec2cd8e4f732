"""Would a checkpoint have known of a path? Decided by what it recorded, never by today's rules.

The danger prevented here: a restore that deletes what its target never spoke for. `.gitignore` changes between
checkpoints, files grow over a limit, a directory could not be read: none of that makes a path "absent then".
"""

from ..model import domain as domains
from ..model import paths
from ..model.domain import Domain
from ..model.manifest import DIR, FILE, Entry
from ..store.store import Store
from ..worktree.ignore import RuleFile, RuleSet


class Known:
    """What one checkpoint would have captured."""

    def __init__(self, store: Store, domain: Domain) -> None:
        """`store` gives the bytes of the recorded rule files."""
        self._domain = domain
        files = [RuleFile(rule.base, rule.source, store.read(rule.digest)) for rule in domain.rules]
        self._rules = RuleSet(files, ignore_case=domain.ignore_case, default_excludes=domain.default_excludes)
        self._skipped: dict[bytes, str] = {}
        for skip in domain.skipped:
            place = skip.path.rpartition(b"/")[0] if skip.reason == domains.UNREADABLE_RULES else skip.path
            self._skipped[place] = skip.reason

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
