"""Which ignored files come along when a checkpoint is written into a new directory, by `.worktreeinclude`.

The danger prevented here: a file of the checkpoint is replaced, or gigabytes are copied that nobody expected. So a path of the
checkpoint stays as it is there, and above 1 GiB in all no ignored file is copied.
"""

from collections.abc import Iterable

from .._typing import NamedTuple
from ..context import Context
from ..messages import printable
from ..model import paths
from ..model.manifest import DIR
from ..model.plan import Kept
from ..worktree import worktreeinclude_files
from ..worktree.worktreeinclude_files import CarriedFile

MOST = 1 << 30
"""Bytes of all carried files together."""


class Carried(NamedTuple):
    """The files to copy, their bytes, the directories that they need and the checkpoint does not have, and what is not
    copied."""

    files: tuple[CarriedFile, ...]
    size: int
    directories: tuple[bytes, ...]
    kept: tuple[Kept, ...]


NOTHING = Carried((), 0, (), ())


def find_within_limit(context: Context, kinds: Iterable[tuple[bytes, str]]) -> Carried:
    """What comes along with a checkpoint of these paths and kinds."""
    found, why = worktreeinclude_files.find_listed_ignored(context.tree, context.policy)
    if why:
        return NOTHING._replace(kept=(Kept(worktreeinclude_files.LIST, f"{why}: no ignored file was copied", benign=False),))
    if not found:
        return NOTHING
    there = dict(kinds)
    chosen: list[CarriedFile] = []
    directories: set[bytes] = set()
    for file in found:
        above = paths.parents(file.path)
        if file.path in there or any(there.get(parent, DIR) != DIR for parent in above):
            continue
        chosen.append(file)
        directories.update(parent for parent in above if parent not in there)
    size = sum(file.status.st_size for file in chosen)
    if size > MOST:
        largest = max(chosen, key=lambda file: file.status.st_size)
        what = f"the ignored files that it lists have {size:,} bytes, more than 1 GiB"
        why = f"{what}: none was copied; the largest is {printable(largest.path)}"
        return NOTHING._replace(kept=(Kept(worktreeinclude_files.LIST, why, benign=False),))
    return Carried(tuple(chosen), size, tuple(sorted(directories)), ())
