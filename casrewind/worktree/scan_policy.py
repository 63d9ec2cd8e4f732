"""What a scan captures: the ignore rules outside of the tree, and limits.

The danger prevented here: rules that cannot be read count as no rules, so that a save captures what nobody wants in a
store. `faults`, `lost` and `accepted` say what is unknown, and what counts instead.
"""

from collections.abc import Callable

from .._typing import NamedTuple
from ..gitignore.rules import LoadAccepted, RuleChooser, RuleFile, Rules
from ..model import domain as domains
from ..model.domain import Skip, Stop
from .linked_worktrees import find_inside


class ScanPolicy(NamedTuple):
    """The rules and limits of a scan."""

    outside: tuple[RuleFile, ...] = ()
    """The rule files outside of the tree."""
    ignore_case: bool = False
    """Rules match names of any case, as git decides for a file system that folds them."""
    default_excludes: bool = True
    """Directories that tools make again, and files that Finder makes, are left out, where no rules say what to keep."""
    max_file_size: int = 1 << 30
    """Bytes. A larger file is skipped."""
    excluded: frozenset[tuple[int, int]] = frozenset()
    """(device, inode) of directories that are never entered: stores. `never_entered` has all."""
    as_of: int = 0
    """The time of the event in nanoseconds since 1970, 0 = now. A file that changed after it is late."""
    stop: Stop | None = None
    """The turn that was stopped before this scan. The scan adds the files that changed since."""
    faults: tuple[Skip, ...] = ()
    """The unreadable settings and rules for the whole tree."""
    lost: frozenset[str] = frozenset()
    """The sources of these rules. The rules that the newest checkpoint recorded for them remain in force."""
    unstored: tuple[RuleFile, ...] = ()
    """Further rule files outside of the tree, which must not be copied to the store."""
    accepted: LoadAccepted | None = None
    """Loads the rule files that the newest checkpoint recorded. They replace a file that is refused, so that nothing is
    captured by surprise."""
    last_tree: Callable[[], bytes | None] | None = None
    """Gives the root tree of the newest checkpoint. Its entries count for files that are not on the disk and have not changed."""

    def rules(self) -> Rules:
        """The rules at the root, before the tree's rule files."""
        outside = (*self.outside, *self.unstored)
        return Rules.top(
            outside, ignore_case=self.ignore_case, default_excludes=self.default_excludes, max_file_size=self.max_file_size
        )

    def never_entered(self, root: str) -> dict[tuple[int, int], str]:
        """{(device, inode): reason} of the directories that a scan of the directory `root` never enters: stores, and the
        linked worktrees of now."""
        stores = dict.fromkeys(self.excluded, domains.STORE)
        return stores | {each.identity: domains.LINKED_WORKTREE for each in find_inside(root)}

    def new_rule_chooser(self) -> RuleChooser:
        """Decides which rule files of the tree count."""
        return RuleChooser((*self.outside, *self.unstored), self.accepted)
