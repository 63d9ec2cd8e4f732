"""The JSON shapes of what is said of all stores, as those in shapes.py are of one."""

import os

from ..ops.adopt import Adopted
from ..ops.prune import Pruned
from ..ops.stores import Found
from . import shapes


def store(found: Found) -> shapes.Shape:
    """One store as in stores --json."""
    root = os.fsencode(found.root) if found.root is not None else None
    return {
        **({"root": None} if root is None else shapes.path(root, "root")),
        "exists": found.exists,
        **shapes.path(os.fsencode(found.path), "store"),
        "checkpoints": found.checkpoints,
        "bytes": found.size,
        "used_at": shapes.time_of(found.used_ns) if found.used_ns else None,
        "worktrees": [
            {**shapes.path(os.fsencode(line.root), "root"), "exists": line.exists, "checkpoints": line.checkpoints}
            for line in found.worktrees
        ],
        "problem": found.problem,
    }


def adopted(found: Adopted) -> shapes.Shape:
    """adopt --json."""
    return {
        **shapes.path(os.fsencode(found.old), "old"),
        **shapes.path(os.fsencode(found.root), "root"),
        **shapes.path(os.fsencode(found.store), "store"),
        "checkpoints": found.checkpoints,
    }


def pruned(found: Pruned) -> shapes.Shape:
    """stores --prune-missing --json."""
    return {
        "removed": [store(item) for item in found.removed],
        "kept": [{**store(item.store), "reason": item.reason} for item in found.kept],
        "bytes_freed": found.freed,
        "dry_run": found.dry_run,
    }
