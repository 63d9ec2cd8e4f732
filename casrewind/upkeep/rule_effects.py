"""What a change of rules did: which of the entries that a person meant are as was asked, and what else is captured now, or
no longer is.

The danger prevented here: "protected" is said of a file that no checkpoint holds. A verdict on a directory says nothing about
the files in it, and a pattern says nothing about a file in an ignored directory. So a walk looks at each entry, also in
ignored directories where a pattern may match. After an include it looks the entry up in the checkpoint that was made.
"""

import os
from collections.abc import Sequence

from .. import fsio
from .._typing import NamedTuple
from ..context import Context
from ..gitignore.rules import RuleFile, Rules, is_captured
from ..model import domain as domains
from ..model import manifest, paths
from ..worktree import ignored
from ..worktree.ignored import Verdict
from .inclusion import RuleChange, Word
from .save import Saved

MOST_ENTRIES = 1_000_000
"""Directory entries that are looked at. 100,000 take about 1.5 seconds of one core."""
_MOST_NAMED = 1_000
"""Entries that are explained. Each costs about a millisecond."""


class NamedEntry(NamedTuple):
    """An entry, and the verdict on it, which may be that on a directory above it."""

    path: bytes
    verdict: Verdict


class RuleEffects(NamedTuple):
    """`verdicts`: on the paths that were given and are as was asked. `matches`: of each pattern, how many entries the
    checkpoint holds, or how many of captured directories are left out now. `left`: what is not as was asked. `also`: what
    nobody asked for: captured now, or no longer. Nothing is named below an entry of the last two. `complete`: False if there
    is more than the limits allow."""

    verdicts: tuple[Verdict, ...]
    matches: tuple[tuple[bytes, int], ...]
    left: tuple[NamedEntry, ...]
    also: tuple[NamedEntry, ...]
    complete: bool

    @property
    def as_asked(self) -> bool:
        """True if all of what was asked happened, and nothing else."""
        return self.complete and not self.left and not self.also


def find_rule_effects(context: Context, change: RuleChange, words: Sequence[Word], saved: Saved | None = None) -> RuleEffects:
    """What a change by `words` did. `saved`: the save after an include, None after an exclude."""
    walk = _Walk(context, change, words, saved)
    verdicts = walk.verdicts_on_paths()
    walk.run()
    left, also = (tuple(sorted(entries, key=lambda entry: entry.path)) for entries in (walk.left, walk.also))
    return RuleEffects(tuple(verdicts), tuple(walk.matches.items()), left, also, walk.complete)


class _RuledPlace(NamedTuple):
    """A directory to look into. `rules`: those before and after, None where no scan enters it. `meant`: with all that is in it.
    `told`: its own change of verdict is named."""

    path: bytes
    rules: tuple[Rules | None, Rules | None]
    meant: bool
    told: bool


class _Walk:
    """One walk with the rules of before and after. Enters no directory where nothing can have changed or be meant."""

    def __init__(self, context: Context, change: RuleChange, words: Sequence[Word], saved: Saved | None) -> None:
        self._tree, self._policies = context.tree, (change.before, change.after)
        self._finder = None if saved is None else manifest.Finder(context.store.load_tree, saved.checkpoint.tree)
        self._skips = {} if saved is None else {skip.path: skip.reason for skip in saved.skipped}
        self._given = [word.text for word in words if not word.is_pattern]
        self._above = {above for path in self._given for above in paths.parents(path)}
        fold = change.after.ignore_case
        self._patterns = {
            word.text: Rules.top([RuleFile(b"", "private", word.rule)], ignore_case=fold) for word in words if word.is_pattern
        }  # fmt: skip
        self._choosers = [policy.new_rule_chooser() for policy in self._policies]
        self._never_entered = change.after.never_entered(self._tree.root)
        self._entries, self._named = MOST_ENTRIES, _MOST_NAMED
        self.matches = dict.fromkeys(self._patterns, 0)
        self.left: list[NamedEntry] = []
        self.also: list[NamedEntry] = []

    @property
    def complete(self) -> bool:
        """False if there were more entries, or more to name, than the limits allow."""
        return self._entries >= 0 and self._named >= 0

    def verdicts_on_paths(self) -> list[Verdict]:
        """The verdicts on the given paths. Those that are not as was asked go to `left`."""
        found = []
        for path in self._given:
            verdict = self._verdict_on(path)
            will_be_captured = verdict.reason in (ignored.CAPTURED, ignored.MISSING)
            if path and will_be_captured == (self._finder is None):
                self.left.append(NamedEntry(verdict.path, verdict))
            elif path or self._finder is not None:
                found.append(verdict)
        return found

    def run(self) -> None:
        """Look into every directory that counts."""
        before, after = (policy.rules() for policy in self._policies)
        pending = [_RuledPlace(b"", (before, after), b"" in self._given and self._finder is not None, told=False)]
        while pending and self._entries >= 0:
            pending += self._look_into(pending.pop())

    def _look_into(self, place: _RuledPlace) -> list[_RuledPlace]:
        """Judge the entries of a directory. Returns the directories among them to look into."""
        try:
            fd = self._tree.open_directory(place.path)
        except OSError:
            return []
        with fsio.closing(fd):
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) in self._never_entered or status.st_dev != self._tree.status.st_dev:
                return []
            before, after = (self._rules_inside(fd, place, side) for side in (0, 1))
            entries = _names_in(fd)
        self._entries -= len(entries)
        inside, found = place._replace(rules=(before, after)), []
        patterns = {text: rules.at(place.path) for text, rules in self._patterns.items()}
        for name, is_dir in sorted(entries):
            if name == paths.ORIGIN or name.startswith(manifest.TEMPORARY_PREFIX) or (not place.path and name in paths.KEPT_NAMES):
                continue  # no scan names these
            child = self._judge(inside, name, [text for text, rules in patterns.items() if rules.ignored(name, is_dir)], is_dir=is_dir)
            if is_dir and child is not None:
                found.append(child)
        return found

    def _rules_inside(self, fd: int, place: _RuledPlace, side: int) -> Rules | None:
        rules, policy = place.rules[side], self._policies[side]
        if rules is None:
            return None
        if place.path and ignored.why_directory_skipped(fd, rules, default_excludes=policy.default_excludes) != ignored.CAPTURED:
            return None
        return rules.extend(ignored.rule_files_of(fd, place.path, self._choosers[side]))

    def _judge(self, place: _RuledPlace, name: bytes, matched: Sequence[bytes], *, is_dir: bool) -> _RuledPlace | None:
        """Judge one entry, which these patterns match. Returns it as a directory to look into, or None."""
        path, is_kept = paths.join(place.path, name), paths.is_protected(name)
        was, now = (rules is not None and not is_kept and is_captured(rules, name, is_dir=is_dir) for rules in place.rules)
        meant = place.meant or bool(matched) or path in self._given
        if meant and (now if self._finder is None else self._finder.find(path) is None):
            if path not in self._given:
                self._name_left(path)
            return None  # nothing is named below
        for text in matched:
            self.matches[text] += self._finder is not None or was
        changed = was != now and not meant and path not in self._above
        if changed and not place.told:
            self._name_also(path, captured=now)
        look = now or (was and path in self._above) or (self._finder is not None and (meant or bool(self._patterns)))
        if is_kept or not look:
            return None
        before, after = (rules.enter(name) if rules is not None and it else None for rules, it in zip(place.rules, (was, now), strict=True))
        return _RuledPlace(path, (before, after), meant, place.told or changed)

    def _name_left(self, path: bytes) -> None:
        self._named -= 1
        if self._named < 0:
            return
        verdict = self._verdict_on(path)
        if verdict.reason != ignored.MISSING and (self._finder is not None or verdict.reason == ignored.CAPTURED):
            self.left.append(NamedEntry(path, verdict))

    def _name_also(self, path: bytes, *, captured: bool) -> None:
        """Name an entry about which not only the rules decide otherwise than before, but a scan."""
        self._named -= 1
        if self._named < 0:
            return
        before, after = ignored.explain(self._tree, self._policies[0], path), self._verdict_on(path)
        if (after if captured else before).reason == ignored.CAPTURED:
            self.also.append(NamedEntry(path, after))

    def _verdict_on(self, path: bytes) -> Verdict:
        """The verdict on a path. After an include, what the checkpoint does not hold is not captured."""
        if not path:
            return Verdict(ignored.CAPTURED, b".")
        verdict = ignored.explain(self._tree, self._policies[1], path)
        if verdict.reason != ignored.CAPTURED or self._finder is None or self._finder.find(path) is not None:
            return verdict
        skipped = next((place for place in (*paths.parents(path), path) if place in self._skips), None)
        return Verdict(domains.LATE, path) if skipped is None else Verdict(self._skips[skipped], skipped)


def _names_in(fd: int) -> list[tuple[bytes, bool]]:
    """The names in an open directory, and whether each is one of a directory; none if it cannot be read."""
    try:
        with os.scandir(fd) as listing:
            return [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in listing]
    except OSError:
        return []
