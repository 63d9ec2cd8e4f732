"""Include and exclude: rules of `.casrewindignore` that protect an ignored file, or stop protecting one.

The danger prevented here: a rule that looks right and has no effect. Git's rules cannot include a file below an ignored
directory, so each such directory needs two rules of its own. After each change the verdict is computed again with the
new rules.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from .. import errors, fsio
from .._typing import NamedTuple
from ..gitignore.rules import MOST_BYTES, ScanOptions, read_regular
from ..model import domain as domains
from ..model import manifest, paths
from ..model.plan import Action
from ..worktree import ignored
from ..worktree.ignored import Verdict
from ..worktree.reader import Worktree
from .context import Context

FILE = b".casrewindignore"
_SPECIAL = b"*?[\\"


class Word(NamedTuple):
    """One argument: a path below the root, or a pattern as in a .gitignore."""

    text: bytes
    is_pattern: bool


class RuleChange(NamedTuple):
    """A change of `.casrewindignore`: the rules `added` and `removed`, and the new verdicts on the named paths."""

    added: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    verdicts: tuple[Verdict, ...]


def include(tree: Worktree, options: ScanOptions, words: Sequence[Word]) -> RuleChange:
    """Add rules so that a save captures each path (below the root) or pattern. Raises OSError, WorkspaceError."""
    lines = _read(tree)
    before = list(lines)
    for word in words:
        for rule in _including(tree, options, word):
            lines = [*(line for line in lines if line != rule), rule]
            _write(tree, lines)
    return _changed(tree, options, before, lines, words)


def exclude(tree: Worktree, options: ScanOptions, words: Sequence[Word]) -> RuleChange:
    """Remove the rules that include each word. If a save still captures it, add a rule that ignores it."""
    lines = _read(tree)
    before = list(lines)
    for word in words:
        lines = _without(lines, word)
        _write(tree, lines)
        rule = word.text if word.is_pattern else b"/" + _escaped(word.text)
        if word.is_pattern or ignored.explain(tree, options, word.text).reason in (ignored.CAPTURED, ignored.MISSING):
            lines = [*lines, rule]
            _write(tree, lines)
    return _changed(tree, options, before, lines, words)


def taken_away(context: Context, actions: Iterable[Action]) -> tuple[bytes, ...]:
    """The rules that include something now, and that these actions would remove. Each rule is without its sign."""
    found: list[bytes] = []
    for action in actions:
        if action.path.rpartition(b"/")[2] != FILE or action.before is None or action.before == action.after:
            continue
        data = read_regular(action.path, context.tree.fd, MOST_BYTES) or b""
        kept: list[bytes] = []
        if action.after is not None and action.after.kind == manifest.FILE and action.after.size <= MOST_BYTES:
            kept = b"".join(context.store.content(action.after)).split(b"\n")
        lines = data.split(b"\n")
        for line in lines:
            opens_directory = line.endswith(b"/") and line[1:] + b"*" in lines  # a rule that only the next ones need
            if line.startswith(b"!") and line not in kept and not opens_directory:
                found.append(line[1:].removeprefix(b"/"))
    return tuple(dict.fromkeys(found))


def _changed(tree: Worktree, options: ScanOptions, before: list[bytes], after: list[bytes], words: Sequence[Word]) -> RuleChange:
    verdicts = [verdict for word in words for verdict in _verdicts(tree, options, word)]
    added, removed = [line for line in after if line not in before], [line for line in before if line not in after]
    return RuleChange(tuple(added), tuple(removed), tuple(verdicts))


def _verdicts(tree: Worktree, options: ScanOptions, word: Word) -> list[Verdict]:
    """The verdict on a path. For a pattern: on each entry that matches it and is still ignored, else one CAPTURED."""
    if not word.is_pattern:
        return [ignored.explain(tree, options, word.text)]
    pattern = os.fsdecode(word.text.rpartition(b"/")[2])
    left = [each.path for each in ignored.find_ignored(tree, options)[0]]
    matching = [path for path in left if fnmatchcase(os.fsdecode(path.rpartition(b"/")[2]), pattern)]
    return [ignored.explain(tree, options, path) for path in matching] or [Verdict(ignored.CAPTURED, word.text)]


def _escaped(path: bytes) -> bytes:
    """A path as a pattern that matches it alone."""
    found = b"".join(b"\\" + bytes((byte,)) if byte in _SPECIAL else bytes((byte,)) for byte in path)
    return found[:-1] + b"\\ " if found.endswith(b" ") else found


def _including(tree: Worktree, options: ScanOptions, word: Word) -> list[bytes]:
    if word.is_pattern:
        return [b"!" + word.text]
    for part in word.text.split(b"/"):
        if paths.is_protected(part):
            raise errors.UnsafePath(f"{fsio.printable(word.text)}: no rule can include {fsio.printable(part)}, a name of version control")
    rules: list[bytes] = []
    for above in sorted(paths.parents(word.text)):
        verdict = ignored.explain(tree, options, above)
        if rules or (verdict.path == above and verdict.reason in (ignored.IGNORED, domains.BUILT_IN)):
            name = b"/" + _escaped(above)
            rules += [b"!" + name + b"/", name + b"/*"]
    verdict = ignored.explain(tree, options, word.text)
    if rules or verdict.reason in (ignored.IGNORED, domains.BUILT_IN):
        status = tree.status_of(word.text)
        is_dir = status is not None and stat.S_ISDIR(status.st_mode)
        rules.append(b"!/" + _escaped(word.text) + (b"/" if is_dir else b""))
    return rules


def _without(lines: list[bytes], word: Word) -> list[bytes]:
    """The rules without those that include `word`, and without the rules for directories that only it needed."""
    if word.is_pattern:
        return [line for line in lines if line != b"!" + word.text]
    name = b"!/" + _escaped(word.text)
    lines = [line for line in lines if line not in (name, name + b"/")]
    for above in sorted(paths.parents(word.text), reverse=True):
        rule = b"/" + _escaped(above) + b"/"
        pair = (b"!" + rule, rule + b"*")
        if any(line.startswith(b"!" + rule) and line not in pair for line in lines):
            break
        lines = [line for line in lines if line not in pair] if pair[1] in lines else lines
    return lines


def _read(tree: Worktree) -> list[bytes]:
    try:
        status = os.stat(FILE, dir_fd=tree.fd, follow_symlinks=False)
    except FileNotFoundError:
        return []
    data = read_regular(FILE, tree.fd, MOST_BYTES) if stat.S_ISREG(status.st_mode) else None
    if data is None:
        raise errors.UnsafePath(f"{fsio.printable(FILE)} is not a regular file: replace it by one, then try again")
    return data.removesuffix(b"\n").split(b"\n") if data else []


def _write(tree: Worktree, lines: list[bytes]) -> None:
    path = os.path.join(tree.root, os.fsdecode(FILE))
    old = os.stat(path, follow_symlinks=False).st_mode if os.path.lexists(path) else None
    if not lines and old is not None:
        os.unlink(path)
        return
    fsio.replace_file(tree.root, os.fsdecode(FILE), b"".join(line + b"\n" for line in lines))
    if old is None:
        fsio.undo_umask(path)
    else:
        os.chmod(path, stat.S_IMODE(old))
