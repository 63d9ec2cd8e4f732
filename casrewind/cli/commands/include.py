"""casrewind include, exclude and why: which paths a save captures, and which rule decides."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from ... import errors, fsio
from ..._typing import TYPE_CHECKING, Any
from ...gitignore.rules import ScanOptions
from ...model import domain as domains
from ...ops import inclusion
from ...ops.inclusion import RuleChange, Word
from ...settings import Settings, find_root
from ...settings import options as scan_options
from ...worktree import ignored
from ...worktree import root as roots
from ...worktree.ignored import IgnoredEntry, Verdict
from ...worktree.reader import Worktree
from .. import json_output
from ..output import as_json, print_line
from . import OK, REMARKS

if TYPE_CHECKING:
    from ..command_line import ParsedOptions

_SHOWN = 5
"""Ignored entries per line."""
_FILES = {"gitignore": ".gitignore", "casrewindignore": ".casrewindignore", "project": ".casrewind.toml", "exclude": ".git/info/exclude",
          "global": "core.excludesFile"}  # fmt: skip


def include(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind include."""
    return _change(settings, options, included=True)


def exclude(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind exclude."""
    return _change(settings, options, included=False)


def why(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind why."""
    root = find_root(options.directory, settings)
    tree = Worktree(root.path)
    try:
        with _opened(options, settings) as rules:
            verdicts = [ignored.explain(tree, rules or scan_options(root, settings), path) for path in _below(root.path, options)]
    finally:
        tree.close()
    if options.json:
        as_json({"paths": [_json(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            print_line(sentence(verdict))
    return OK


@contextmanager
def _opened(options: "ParsedOptions", settings: Settings) -> Iterator[ScanOptions | None]:
    """The options of a save. The rules that the newest checkpoint recorded replace a file that is refused. None without
    a store that can be read."""
    from ...workspace import Workspace, context_of

    with ExitStack() as stack:
        rules = None
        with suppress(errors.CasrewindError):
            rules = context_of(stack.enter_context(Workspace(options.directory, settings, create=False))).options
        yield rules


def _below(root: str, options: "ParsedOptions") -> list[bytes]:
    return list(roots.below(root, options.path, options.directory))


def _change(settings: Settings, options: "ParsedOptions", *, included: bool) -> int:
    root = find_root(options.directory, settings)
    tree = Worktree(root.path)
    try:
        words = [word for text in options.path for word in _words(root.path, text, options.directory)]
        rules: ScanOptions = scan_options(root, settings)
        found = (inclusion.include if included else inclusion.exclude)(tree, rules, words)
    finally:
        tree.close()
    wrong = [verdict for verdict in found.verdicts if (verdict.reason in (ignored.CAPTURED, ignored.MISSING)) != included]
    if options.json:
        as_json({
            "file": os.path.join(root.path, os.fsdecode(inclusion.FILE)),
            "added": [os.fsdecode(rule) for rule in found.added], "removed": [os.fsdecode(rule) for rule in found.removed],
            "paths": [_json(verdict) for verdict in found.verdicts],
        })  # fmt: skip
    else:
        _print(found)
    return REMARKS if wrong else OK


def _words(root: str, text: str, start: str) -> list[Word]:
    """Classify a word: an existing name is that path. Any other word with special characters is a
    .gitignore pattern.
    """
    if any(character in text for character in "*?[") and not os.path.lexists(os.path.join(start, text)):
        return [Word(os.fsencode(text), is_pattern=True)]
    return [Word(path, is_pattern=False) for path in roots.below(root, [text], start)]


def _print(found: RuleChange) -> None:
    for rule in found.added:
        print_line(f".casrewindignore: added {fsio.printable(rule)}")
    for rule in found.removed:
        print_line(f".casrewindignore: removed {fsio.printable(rule)}")
    for verdict in found.verdicts:
        print_line(sentence(verdict))


def sentence(verdict: Verdict) -> str:
    """One line that explains if a save captures the path, and why."""
    name, rule = fsio.printable(verdict.path), verdict.rule
    where = ""
    if rule is not None:
        base = f"{fsio.printable(rule.file.base)}/" if rule.file.base else ""
        where = f": {base}{_FILES.get(rule.file.source, rule.file.source)}, line {rule.line}: {fsio.printable(rule.text)}"
    if verdict.reason == ignored.CAPTURED:
        return f"{name} is captured by the next save{where}"
    if verdict.reason == ignored.MISSING:
        return f"{name} does not exist; a save would capture it{where}"
    if verdict.reason == ignored.IGNORED:
        return f"{name} is ignored{where}"
    if verdict.reason == domains.BUILT_IN:
        return f"{name} is a directory that tools make again (built-in list): casrewind include {shlex.quote(name)} captures it"
    return f"{name} is not captured: {fsio.printable(verdict.reason)}"


def unprotected(found: Sequence[IgnoredEntry], *, complete: bool) -> list[str]:
    """Lines about ignored entries that tools do not regenerate (ignored.find_ignored); [] without such entries."""
    if not found:
        return []
    shown = [fsio.printable(each.path) + ("/" if each.is_dir else "") for each in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN}{'' if complete else ' or'} more" if len(found) > _SHOWN else ""
    return [f"not protected, because git ignores it: {', '.join(shown)}{more}", f"  casrewind include {shlex.quote(shown[0])} protects it"]


def _json(verdict: Verdict) -> dict[str, Any]:
    rule = verdict.rule
    return {
        **json_output.path(verdict.path),
        "captured": verdict.reason == ignored.CAPTURED,
        "reason": verdict.reason,
        "rule": None if rule is None else {
            "file": _FILES.get(rule.file.source, rule.file.source), "line": rule.line,
            **json_output.path(rule.file.base, "directory"), **json_output.path(rule.text, "text"),
        },
    }  # fmt: skip
