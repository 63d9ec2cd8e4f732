"""Counts the paths of a manifest before they are listed.

The danger prevented here: a manifest of a few kilobytes with more paths than a computer can list. Equal directories
share one tree. So forty trees, each containing the next one twice, make a million million paths. Honest manifests
share trees too, so a repeated tree is no reason to refuse. The walk of a manifest counts repeated trees. If there are
many, every tree is read once, and paths are counted from the bottom up.
"""

from collections.abc import Callable, Hashable, Iterable

from .. import errors
from .._typing import NamedTuple, TypeVar
from .paths import MAX_DEPTH

Tree = TypeVar("Tree", bound=Hashable)
Below = Callable[[Tree], tuple[int, Iterable[Tree]]]
"""Returns, for a tree, its number of entries and its subtrees. A subtree with two names is listed twice."""

_ALWAYS = 1_000_000
_FOR_EACH = 100
"""The maximum number of paths: `_ALWAYS`, plus `_FOR_EACH` for each entry of the manifest's distinct trees."""


class PathCount(NamedTuple):
    """The number of paths below a tree, and of directory levels."""

    paths: int
    levels: int


def refuse_too_many(below: "Below[bytes]", root: bytes) -> None:
    """Raise ManifestRefused when a manifest has too many paths. Reads each of its trees once."""
    if why := _reason_to_refuse(below, root):
        raise errors.ManifestRefused(why, (root,))


def reasons_to_refuse(below: "Below[Tree]", roots: Iterable[Tree]) -> dict[Tree, str]:
    """{root tree: reason} for the refused manifests among `roots`. Reads each tree a few times."""
    found, _ = count(below, roots := list(roots))
    doubtful = [root for root in roots if found[root].paths > _ALWAYS or found[root].levels > MAX_DEPTH]
    return {root: why for root in doubtful if (why := _reason_to_refuse(below, root))}


def _reason_to_refuse(below: "Below[Tree]", root: Tree) -> str:
    found, entries = count(below, [root])
    paths, levels = found[root]
    if levels > MAX_DEPTH:
        return f"more than {MAX_DEPTH} levels"
    if paths <= _ALWAYS + _FOR_EACH * entries:
        return ""
    return f"it unfolds into {f'{paths:,}' if paths < 1 << 60 else 'more than 2^60'} paths out of {entries:,} entries"


def count(below: "Below[Tree]", roots: Iterable[Tree]) -> tuple[dict[Tree, PathCount], int]:
    """Returns ({tree: PathCount} for these trees and all below them, the entries of all distinct trees together)."""
    found: dict[Tree, PathCount] = {}
    waiting: dict[Tree, tuple[int, dict[Tree, int]]] = {}
    entries, stack = 0, list(roots)
    while stack:
        tree = stack[-1]
        if tree in found:
            stack.pop()
        elif tree in waiting:
            own, times = waiting.pop(tree)
            paths = own + sum(number * found[child].paths for child, number in times.items())
            found[tree] = PathCount(paths, max((found[child].levels + 1 for child in times), default=0))
        else:
            own, children = below(tree)
            times = {}
            for child in children:
                times[child] = times.get(child, 0) + 1
            entries += own
            waiting[tree] = own, times
            stack += [child for child in times if child not in found]
    return found, entries
