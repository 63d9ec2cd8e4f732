"""Include and exclude: rules that protect an ignored file, or stop protecting one.

The rules are private, in the store, or shared, in the project's `.casrewindignore`. A restore changes only shared ones.

The dangers prevented here. Two commands change the rules at once, and one change is lost: a lock of the store prevents
that. A rule looks right and has no effect. Git's rules cannot include a file below an ignored
directory, so each such directory needs two rules of its own. After each change the verdict is computed again with the
new rules.
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from .. import errors, fsio, locks
from .._typing import NamedTuple
from ..gitignore.rules import (
    MOST_BYTES,
    SHARED_FILE,
    RuleFile,
    can_protect_ignored_paths,
    raw_lines,
    read_beginning_if_regular_file,
    why_refused,
)
from ..messages import printable, store_error, store_errors
from ..model import domain as domains
from ..model import manifest, paths
from ..model.plan import Action
from ..store.layout import Layout
from ..worktree import ignored
from ..worktree.ignored import Verdict
from ..worktree.reader import Worktree
from ..worktree.scan_policy import ScanPolicy
from .context import Context

_SPECIAL = b"*?[\\"


class Word(NamedTuple):
    """One argument: a path below the root, or a pattern as in a .gitignore."""

    text: bytes
    is_pattern: bool


class RuleChange(NamedTuple):
    """A change of a rule file: its path, the rules `added` and `removed`, and the new verdicts on the named paths."""

    file: str
    added: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    verdicts: tuple[Verdict, ...]


class LostRule(NamedTuple):
    """A rule that a restore would remove: the name of its file, and the rule without its sign."""

    file: bytes
    text: bytes


class _RuleEditor:
    """The rules of one file while they change. `policy` count them as they are now."""

    def __init__(self, context: Context, *, shared: bool) -> None:
        """Reads the rules. The caller must hold the lock. Raises UnsafePath, StoreError."""
        self._context, self._layout, self.shared = context, Layout(context.store.path), shared
        if shared:  # judged without the private rules: other people do not have these
            self.policy = _with_private_rules(context.policy, b"")
            self.lines = _read_shared_rules(context.tree)
        else:
            data = _read_private_rules(self._layout)
            self.policy = _with_private_rules(context.policy, data)
            self.lines = data.removesuffix(b"\n").split(b"\n") if data else []
        self.before = tuple(self.lines)

    def put(self, lines: list[bytes]) -> None:
        self.lines = lines
        if self.shared:
            _write_shared_rules(self._context.tree, lines)  # the next verdict reads them
        else:
            self.policy = _with_private_rules(self.policy, _join_lines(lines))

    def write_private_rules(self, words: Sequence[Word]) -> RuleChange:
        """Write private rules. Raises UsageError for more rules than a scan accepts, StoreFull, StoreNotWritable."""
        policy, file = self.policy, os.path.join(self._context.root.path, os.fsdecode(SHARED_FILE))
        if self.shared:
            policy = _with_private_rules(policy, _read_private_rules(self._layout))
        else:
            file, data = self._layout.rules, _join_lines(self.lines)
            if why := why_refused(data, 0):
                raise errors.UsageError(f"nothing was changed: the private rules would have {why}")
            with store_errors("writing", file):
                if data:
                    fsio.replace_file(self._layout.root, os.path.basename(file), data, temporary=self._layout.temporary)
                elif os.path.lexists(file):
                    os.unlink(file)
                    fsio.sync_directory(self._layout.root)
        added = tuple(line for line in self.lines if line not in self.before)
        removed = tuple(line for line in self.before if line not in self.lines)
        tree = self._context.tree
        return RuleChange(file, added, removed, tuple(it for word in words for it in _verdicts_on_path_or_matches(tree, policy, word)))


def include(context: Context, words: Sequence[Word], *, shared: bool = False) -> RuleChange:
    """Add rules so that a save captures each path (below the root) or pattern. `shared`: to the project's file. Raises
    OSError, WorkspaceError, StoreError."""
    return _edit_rules(context, words, _add_including, shared=shared)


def exclude(context: Context, words: Sequence[Word], *, shared: bool = False) -> RuleChange:
    """Remove the rules that include each word. If a save still captures it, add a rule that ignores it."""
    return _edit_rules(context, words, _add_ignoring, shared=shared)


def read_policy(context: Context) -> ScanPolicy:
    """The policy of a scan, with the private rules as they are now. Raises StoreError."""
    return _with_private_rules(context.policy, _read_private_rules(Layout(context.store.path)))


def private_rules(policy: ScanPolicy) -> list[bytes]:
    """The private rules among those of a scan."""
    return [line for file in policy.outside if file.source == "private" for line in raw_lines(file.data)]


def _edit_rules(
    context: Context, words: Sequence[Word], change: Callable[[Context, _RuleEditor, Word], None], *, shared: bool
) -> RuleChange:
    lock = Layout(context.store.path).lock_path("rules")
    with context.store.hold_shared_lock(), locks.locked(lock, exclusive=True, deadline=context.store.deadline):
        editor = _RuleEditor(context, shared=shared)
        for word in words:
            change(context, editor, word)
        return editor.write_private_rules(words)


def _add_including(context: Context, editor: _RuleEditor, word: Word) -> None:
    for rule in _rules_that_include(context.tree, editor.policy, word):
        editor.put([*(line for line in editor.lines if line != rule), rule])


def _add_ignoring(context: Context, editor: _RuleEditor, word: Word) -> None:
    editor.put(_without_rules_for(editor.lines, word))
    rule = word.text if word.is_pattern else b"/" + _pattern_of_path_alone(word.text)
    is_captured = word.is_pattern or ignored.explain(context.tree, editor.policy, word.text).reason in (ignored.CAPTURED, ignored.MISSING)
    if is_captured and rule not in editor.lines[-1:]:
        editor.put([*(line for line in editor.lines if line != rule), rule])


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
            opens_directory = line.endswith(b"/") and line[1:] + b"*" in lines  # a rule that only the next ones need
            if line.startswith(b"!") and line not in kept and not opens_directory:
                found.append(LostRule(file, line[1:].removeprefix(b"/")))
    return tuple(dict.fromkeys(found))


def _with_private_rules(policy: ScanPolicy, data: bytes) -> ScanPolicy:
    outside = [file for file in policy.outside if file.source != "private"]
    return policy._replace(outside=(*([RuleFile(b"", "private", data)] if data else []), *outside))


def _read_private_rules(layout: Layout) -> bytes:
    try:
        return fsio.read_file(layout.rules, MOST_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise store_error(error, "reading", layout.rules) from error


def _join_lines(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _verdicts_on_path_or_matches(tree: Worktree, policy: ScanPolicy, word: Word) -> list[Verdict]:
    """The verdict on a path. For a pattern: on each entry that matches it and is still ignored, else one CAPTURED."""
    if not word.is_pattern:
        return [ignored.explain(tree, policy, word.text)]
    pattern = os.fsdecode(word.text.rpartition(b"/")[2])
    left = [each.path for each in ignored.find_ignored(tree, policy).entries]
    matching = [path for path in left if fnmatchcase(os.fsdecode(path.rpartition(b"/")[2]), pattern)]
    return [ignored.explain(tree, policy, path) for path in matching] or [Verdict(ignored.CAPTURED, word.text)]


def _pattern_of_path_alone(path: bytes) -> bytes:
    """A path as a pattern that matches it alone."""
    found = b"".join(b"\\" + bytes((byte,)) if byte in _SPECIAL else bytes((byte,)) for byte in path)
    return found[:-1] + b"\\ " if found.endswith(b" ") else found


def _rules_that_include(tree: Worktree, policy: ScanPolicy, word: Word) -> list[bytes]:
    if word.is_pattern:
        return [b"!" + word.text]
    for part in word.text.split(b"/"):
        if paths.is_protected(part):
            raise errors.UnsafePath(f"{printable(word.text)}: no rule can include {printable(part)}: no checkpoint may have that name")
    rules: list[bytes] = []
    for above in sorted(paths.parents(word.text)):
        verdict = ignored.explain(tree, policy, above)
        if rules or (verdict.path == above and verdict.reason in (ignored.IGNORED, domains.BUILT_IN)):
            name = b"/" + _pattern_of_path_alone(above)
            rules += [b"!" + name + b"/", name + b"/*"]
    verdict = ignored.explain(tree, policy, word.text)
    if rules or verdict.reason in (ignored.IGNORED, domains.BUILT_IN):
        status = tree.status_of(word.text)
        is_dir = status is not None and stat.S_ISDIR(status.st_mode)
        rules.append(b"!/" + _pattern_of_path_alone(word.text) + (b"/" if is_dir else b""))
    return rules


def _without_rules_for(lines: list[bytes], word: Word) -> list[bytes]:
    """The rules without those that include `word`, and without the rules for directories that only it needed."""
    if word.is_pattern:
        return [line for line in lines if line != b"!" + word.text]
    name = b"!/" + _pattern_of_path_alone(word.text)
    lines = [line for line in lines if line not in (name, name + b"/")]
    for above in sorted(paths.parents(word.text), reverse=True):
        rule = b"/" + _pattern_of_path_alone(above) + b"/"
        pair = (b"!" + rule, rule + b"*")
        if any(line.startswith(b"!" + rule) and line not in pair for line in lines):
            break
        lines = [line for line in lines if line not in pair] if pair[1] in lines else lines
    return lines


def _read_shared_rules(tree: Worktree) -> list[bytes]:
    try:
        status = os.stat(SHARED_FILE, dir_fd=tree.fd, follow_symlinks=False)
    except FileNotFoundError:
        return []
    data = read_beginning_if_regular_file(SHARED_FILE, tree.fd, MOST_BYTES) if stat.S_ISREG(status.st_mode) else None
    if data is None:
        raise errors.UnsafePath(f"{printable(SHARED_FILE)} is not a regular file", "replace it by one, then try again")
    return data.removesuffix(b"\n").split(b"\n") if data else []


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
