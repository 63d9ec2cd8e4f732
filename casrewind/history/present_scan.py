"""A scan of the worktree as it is, for which nothing is recorded."""

from ..context import Context
from ..worktree import scan as scans
from ..worktree.reader import ScanSink
from ..worktree.stat_index import StatIndex
from .stopped_turn import find_stop


def scan_now(context: Context, sink: ScanSink) -> scans.Scan:
    """Scan the worktree, using the stat index. Nothing is recorded."""
    policy = context.policy._replace(stop=find_stop(context))
    return scans.scan(context.tree, sink, policy, read_stat_index(context), context.progress)


def read_stat_index(context: Context) -> StatIndex:
    """The stat index of the worktree, from the store. Raises StoreError and others."""
    context.tree.reopen_root_if_replaced()
    key, life = context.root.key, context.tree.life
    basis, value = context.store.stat_index(key, life) or (None, b"")
    return StatIndex(value, basis)
