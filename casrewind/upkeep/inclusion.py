"""Include and exclude: rules that protect ignored files, or stop protecting them.

The rules are private, in the store, or shared, in the project's `.casrewindignore`. A restore changes only shared ones.

The dangers prevented here. Two commands change the rules at once, and one change is lost: a lock of the store prevents
that. A rule looks right and has no effect, or it has one on something else. Git's rules cannot include a file below an
ignored directory, so each such directory needs two rules of its own. What a change did is looked up entry by entry
(`rule_effects.py`).
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence

from .. import errors, fsio, locations, locks
from .._typing import NamedTuple
from ..context import Context
from ..gitignore.rule_writing import rule_for_path, rule_for_pattern
from ..gitignore.rules import (
    MOST_BYTES,
    RULE_FILES,
    SHARED_FILE,
    RuleFile,
    can_protect_ignored_paths,
    raw_lines,
    read_beginning_if_regular_file,
    why_refused,
)
from ..messages import printable, shell_quoted_path, store_error, store_errors
from ..model import domain as domains
from ..model import manifest, paths
from ..model.plan import Action
from ..store.layout import Layout
from ..worktree import ignored
from ..worktree.reader import Worktree
from ..worktree.scan_policy import ScanPolicy

_SHARED, _PRIVATE = RULE_FILES[SHARED_FILE].name, "private"
_PolicyWith = Callable[[list[bytes]], ScanPolicy]


class Word(NamedTuple):
    """One argument: a path below the root (b"" is the root), or a pattern as in a .gitignore. `is_directory`: a path that
    does not exist is meant as a directory."""

    text: bytes
    is_pattern: bool
    is_directory: bool = False

    @property
    def rule(self) -> bytes:
        """The rule that ignores what the word means; b"" for the root. Raises UnsafePath."""
        return rule_for_pattern(self.text) if self.is_pattern else rule_for_path(self.text)


class RuleChange(NamedTuple):
    """A change of a rule file: its path, the rules `added` and `removed`, and what a save captured `before` and captures
    `after` it."""

    file: str
    added: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    before: ScanPolicy
    after: ScanPolicy


class LostRule(NamedTuple):
    """A rule that a restore would remove: the name of its file, and the rule without its sign."""

    file: bytes
    text: bytes


def include(context: Context, words: Sequence[Word], *, shared: bool = False) -> RuleChange:
    """Add rules so that a save captures each path (below the root), with all that is in a directory, and what each pattern
    matches. `shared`: to the project's file. Raises OSError, WorkspaceError, StoreError."""
    for word in words:
        _refuse_impossible_paths(context.tree, word)
    return _edit_rules(context, words, _lines_that_include, shared=shared)


def exclude(context: Context, words: Sequence[Word], *, shared: bool = False) -> RuleChange:
    """Remove the rules that include each word. If a save still captures it, add a rule that ignores it. For the root, only
    remove rules. Raises as `include`."""
    return _edit_rules(context, words, _lines_that_exclude, shared=shared)


def read_policy(context: Context) -> ScanPolicy:
    """The policy of a scan, with the private rules as they are now. Raises StoreError."""
    return _with_rules(context.policy, _PRIVATE, _read_private_rules(Layout(context.store.path)))


def private_rules(policy: ScanPolicy) -> list[bytes]:
    """The private rules among those of a scan."""
    return [line for file in policy.outside if file.source == _PRIVATE for line in raw_lines(file.data)]


def _edit_rules(
    context: Context, words: Sequence[Word], change: Callable[[Worktree, _PolicyWith, list[bytes], Word], list[bytes]], *, shared: bool
) -> RuleChange:
    """Change the rules, word by word, and write them at the end. Shared ones are judged without the private rules, which
    other people do not have."""
    for word in words:
        word.rule  # noqa: B018 - refuses what is no rule, before anything is written
    layout, source = Layout(context.store.path), _SHARED if shared else _PRIVATE
    with context.store.hold_shared_lock(), locks.locked(layout.lock_path("rules"), exclusive=True, deadline=context.store.deadline):
        private = _read_private_rules(layout)
        before = _read_shared_rules(context.tree) if shared else _split_lines(private)
        without = _with_rules(context.policy, _PRIVATE, b"")
        lines = list(before)
        for word in words:
            lines = change(context.tree, lambda lines: _with_rules(without, source, _join_lines(lines)), lines, word)
        if why := why_refused(_join_lines(lines), 0):
            raise errors.UsageError(f"nothing was changed: the {'shared' if shared else 'private'} rules would have {why}")
        if lines != before:
            _write_shared_rules(context.tree, lines) if shared else _write_private_rules(layout, lines)
    policy = _with_rules(context.policy, _PRIVATE, private)
    return RuleChange(
        file=os.path.join(context.root.path, os.fsdecode(SHARED_FILE)) if shared else layout.rules,
        added=tuple(line for line in lines if line not in before),
        removed=tuple(line for line in before if line not in lines),
        before=_with_rules(policy, source, _join_lines(before)),
        after=_with_rules(policy, source, _join_lines(lines)),
    )


def _lines_that_include(tree: Worktree, policy_with: _PolicyWith, lines: list[bytes], word: Word) -> list[bytes]:
    rules = [b"!" + word.rule] if word.is_pattern else _rules_that_include_path(tree, policy_with(lines), word)
    return [*(line for line in lines if line not in rules), *rules]


def _lines_that_exclude(tree: Worktree, policy_with: _PolicyWith, lines: list[bytes], word: Word) -> list[bytes]:
    kept, rule = _without_rules_for(lines, word), word.rule
    if not rule:
        if kept == lines:
            raise errors.UsageError("nothing was changed: no rule includes the whole project, and none can exclude it", "name a path in it")
        return kept
    if not word.is_pattern:
        verdict = ignored.explain(tree, policy_with(kept), word.text)
        if verdict.reason in (ignored.IGNORED, domains.BUILT_IN):
            return kept
    return kept if kept[-1:] == [rule] else [*(line for line in kept if line != rule), rule]


def find_lost_protections(
    context: Context, actions: Iterable[Action], read: Callable[[bytes, manifest.Entry], bytes | None] | None = None
) -> tuple[LostRule, ...]:
    """The rules that include something now, and that these actions would remove. `read`: see Restored."""
    found: list[LostRule] = []
    for action in actions:
        file = action.path.rpartition(b"/")[2]
        if not can_protect_ignored_paths(action.path) or action.before is None or action.before == action.after:
            continue
        data = read_beginning_if_regular_file(action.path, context.tree.fd, MOST_BYTES) or b""
        kept: list[bytes] = []
        if action.after is not None and action.after.kind == manifest.FILE and action.after.size <= MOST_BYTES:
            after = b"".join(context.store.content(action.after)) if read is None else read(action.path, action.after)
            kept = (after or b"").split(b"\n")
        lines = data.split(b"\n")
        for line in lines:
            is_part = line.endswith(b"/") and line[1:] + b"*" in lines  # it opens a directory for the next ones
            is_part |= line.endswith(b"/**") and line[:-2] in lines  # it goes with the directory that is named already
            if line.startswith(b"!") and line not in kept and not is_part:
                found.append(LostRule(file, line[1:].removeprefix(b"/")))
    return tuple(dict.fromkeys(found))


def _with_rules(policy: ScanPolicy, source: str, data: bytes) -> ScanPolicy:
    """The policy with other private rules, or with shared ones that stand for those in the tree."""
    outside = [file for file in policy.outside if file.source != source]
    new = [RuleFile(b"", source, data)] if data or source == _SHARED else []
    return policy._replace(outside=(*new, *outside))


def _read_private_rules(layout: Layout) -> bytes:
    try:
        return fsio.read_file(layout.rules, MOST_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise store_error(error, "reading", layout.rules) from error


def _join_lines(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _split_lines(data: bytes) -> list[bytes]:
    return data.removesuffix(b"\n").split(b"\n") if data else []


def _refuse_impossible_paths(tree: Worktree, word: Word) -> None:
    """Raises UnsafePath."""
    if word.is_pattern:
        return
    for part in word.text.split(b"/"):
        if paths.is_protected(part):
            raise errors.UnsafePath(f"{printable(word.text)}: no rule can include {printable(part)}: no checkpoint may have that name")
    for above in paths.parents(word.text):
        status = tree.status_of(above)
        if status is not None and stat.S_ISLNK(status.st_mode):
            where = os.fsencode(os.path.relpath(locations.real_path(os.path.join(tree.root, os.fsdecode(above))), tree.root))
            behind = paths.join(where, word.text[len(above) + 1 :])
            raise errors.UnsafePath(
                f"{printable(above)} is a link: a save captures the link, and not its target",
                "" if where.startswith(b"..") else f"name what it leads to: {shell_quoted_path(behind)}",
            )


def _rules_that_include_path(tree: Worktree, policy: ScanPolicy, word: Word) -> list[bytes]:
    rules: list[bytes] = []
    for above in paths.parents(word.text):
        if rules or _is_ignored_itself(tree, policy, above):
            name = rule_for_path(above)
            rules += [b"!" + name + b"/", name + b"/*"]
    status, name = tree.status_of(word.text) if word.text else tree.status, b"!" + word.rule
    if word.is_directory if status is None else stat.S_ISDIR(status.st_mode):
        return [*rules, *([name + b"/"] if word.text else []), name + b"/**"]
    return [*rules, name] if rules or _is_ignored_itself(tree, policy, word.text) else []


def _is_ignored_itself(tree: Worktree, policy: ScanPolicy, path: bytes) -> bool:
    """True if a rule ignores a path, and not only a directory above it."""
    verdict = ignored.explain(tree, policy, path)
    return verdict.path == path and verdict.reason in (ignored.IGNORED, domains.BUILT_IN)


def _without_rules_for(lines: list[bytes], word: Word) -> list[bytes]:
    """The rules without those that include `word`, and without the rules for directories that only it needed."""
    name = b"!" + word.rule
    if word.is_pattern:
        return [line for line in lines if line != name]
    lines = [line for line in lines if line not in (name, name + b"/", name + b"/**")]
    for above in reversed(paths.parents(word.text)):
        rule = rule_for_path(above) + b"/"
        pair = (b"!" + rule, rule + b"*")
        if any(line not in pair and _may_need_open_directory(line, rule) for line in lines):
            break
        lines = [line for line in lines if line not in pair] if pair[1] in lines else lines
    return lines


def _may_need_open_directory(line: bytes, rule: bytes) -> bool:
    """True for a rule that includes something below a directory: by its path, or by a pattern."""
    return line.startswith(b"!") and (line.startswith(b"!" + rule) or not line.startswith(b"!/"))


def _read_shared_rules(tree: Worktree) -> list[bytes]:
    try:
        status = os.stat(SHARED_FILE, dir_fd=tree.fd, follow_symlinks=False)
    except FileNotFoundError:
        return []
    data = read_beginning_if_regular_file(SHARED_FILE, tree.fd, MOST_BYTES) if stat.S_ISREG(status.st_mode) else None
    if data is None:
        raise errors.UnsafePath(f"{printable(SHARED_FILE)} is not a regular file", "replace it by one, then try again")
    return _split_lines(data)


def _write_private_rules(layout: Layout, lines: list[bytes]) -> None:
    """Raises StoreFull, StoreNotWritable."""
    with store_errors("writing", layout.rules):
        if lines:
            fsio.replace_file(layout.root, os.path.basename(layout.rules), _join_lines(lines), temporary=layout.temporary)
        elif os.path.lexists(layout.rules):
            os.unlink(layout.rules)
            fsio.sync_directory(layout.root)


def _write_shared_rules(tree: Worktree, lines: list[bytes]) -> None:
    path = os.path.join(tree.root, os.fsdecode(SHARED_FILE))
    old = os.stat(path, follow_symlinks=False).st_mode if os.path.lexists(path) else None
    if not lines and old is not None:
        os.unlink(path)
        return
    fsio.replace_file(tree.root, os.fsdecode(SHARED_FILE), _join_lines(lines))
    if old is None:
        fsio.undo_umask(path)
    else:
        os.chmod(path, stat.S_IMODE(old))
