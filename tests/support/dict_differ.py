"""A differ over dicts {path: content}, for tests of the turn view without a store."""

from casrewind.model.diff import Change
from casrewind.model.manifest import DIR, FILE, PURGED, Entry, same_for_restore
from casrewind.model.turn_records import Difference, State
from casrewind.model.composed_changes import changes_beyond_plans


def entry(content):
    """The entry of a path: "dir", "purged" or a file of this content; None for none."""
    if content is None:
        return None
    if content == "dir":
        return Entry(DIR, 0o755)
    if content == "purged":
        return Entry(PURGED, 0o644, 1)
    return Entry(FILE, 0o644, 1, 0, content.encode().ljust(32, b"\0"), b"", b"")


def compared(old, new):
    """The changes from one dict to another."""
    paths = sorted(set(old) | set(new))
    found = (Change(path.encode(), entry(old.get(path)), entry(new.get(path))) for path in paths)
    return tuple(change for change in found if not same_for_restore(change.old, change.new))


class DictDiffer:
    """`trees`: {tree: dict}. `plans`: {plan: (dict before, {path: content or None})}. `now`: the worktree."""

    def __init__(self, trees, plans, now=None):
        self.trees, self.plans, self.now, self.asked = trees, plans, now, 0

    def between(self, old, new):
        assert isinstance(old, State)
        self.asked += 1
        target = self.now if new is None else self.trees[new.tree]
        return Difference(changes_beyond_plans(compared(self.trees[old.tree], target), [self.plan(plan).changes for plan in old.plans]))

    def stop(self, state):
        return None

    def plan(self, plan):
        before, wrote = self.plans[plan]
        after = {path: content for path, content in {**before, **wrote}.items() if content is not None}
        return Difference(compared(before, after))


def letters(changes):
    """{path: A, M or D}, None for unknown changes."""
    if changes is None:
        return None
    kinds = {"added": "A", "modified": "M", "type": "M", "removed": "D"}
    return {change.path.decode(): kinds[change.status] for change in changes}
