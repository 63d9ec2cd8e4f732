"""Ignored files that a person may want back: which of them the person was told of, and which of these are gone.

The danger prevented here: an agent deletes a file that git ignores, no checkpoint has it, and the person learns it too late. So a client
names such files once, before they are lost, and `status` goes on to name those that are.
"""

import time
from collections.abc import Iterable, Mapping

from ..context import Context
from ..history.present_scan import read_stat_index
from ..model import digest as digests
from ..store.named_ignored import Named, NamedIgnored, NamingRecord
from ..worktree.ignored import IGNORED, IgnoredEntry, explain, find_ignored

_ENTRIES_IN_HOOK = 20_000
"""Directory entries that are read while a client waits: a tenth of a second."""
_NEVER = Named(0, in_client=False)
_FRESH_NS = 3600 * 1_000_000_000
"""A path that was seen in this time is not recorded anew."""


def name_new(context: Context) -> list[IgnoredEntry]:
    """The unprotected entries that no client named before in this worktree, smallest first. They count as named now. Raises OSError
    and CasrewindError."""
    places, searched = None, ""  # nothing was scanned yet
    if context.store.head(context.root.key) is not None:
        places = read_stat_index(context).directories_with_ignored()
        searched = digests.of(repr(sorted(places.items())).encode()).hex()
        if searched == NamedIgnored(context.store.path, context.root.key).read().searched:
            return []
    found = find_ignored(context.tree, context.policy, places, with_recreatable=False, most=_ENTRIES_IN_HOOK).entries
    before = record_named(context, found, searched)
    return [entry for entry in found if not before.get(name_of(entry), _NEVER).in_client]


def find_unprotected(context: Context) -> list[IgnoredEntry]:
    """The ignored entries that tools do not make again, smallest first, as far as a short look finds them. Raises OSError."""
    return find_ignored(context.tree, context.policy, with_recreatable=False, most=_ENTRIES_IN_HOOK).entries


def record_named(context: Context, entries: Iterable[IgnoredEntry], searched: str | None = None) -> Mapping[bytes, Named]:
    """Record that a person was told of those entries that tools do not make again. `searched`: as of NamingRecord, if a client told
    it. Returns what was recorded before."""
    rows, now_ns, in_client = NamedIgnored(context.store.path, context.root.key), time.time_ns(), searched is not None
    before, earlier = rows.read()
    fresh = {}
    for name in (name_of(entry) for entry in entries if not entry.is_recreatable):
        row = before.get(name, _NEVER)
        if abs(now_ns - row.seen_ns) > _FRESH_NS or in_client > row.in_client:
            fresh[name] = Named(now_ns, in_client or row.in_client)
    if fresh or searched not in (None, earlier):
        rows.write(NamingRecord({**before, **fresh}, earlier if searched is None else searched))
    return before


def find_gone(context: Context) -> list[tuple[bytes, int]]:
    """The entries that a person was told of, that are gone, and that would not be captured today either: each with the time at which it
    was seen last (nanoseconds since 1970), newest first. Older ones than checkpoints may be are left out. Raises OSError."""
    rows, age = NamedIgnored(context.store.path, context.root.key).read().named, context.limits.max_age
    since_ns = 0 if age is None else time.time_ns() - int(age * 1e9)
    gone = []
    for name, (seen_ns, _) in sorted(rows.items(), key=lambda pair: pair[1].seen_ns, reverse=True):
        path = name.removesuffix(b"/")
        if seen_ns < since_ns or context.tree.may_exist(path):
            continue
        if explain(context.tree, context.policy, path, inside=name.endswith(b"/")).reason == IGNORED:
            gone.append((name, seen_ns))
    return gone


def name_of(entry: IgnoredEntry) -> bytes:
    """The path of an entry; that of a directory ends in a slash."""
    return entry.path + b"/" * entry.is_dir
