"""casrewind include, exclude and why: which paths a save captures, and which rule decides."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from ... import errors
from ..._typing import TYPE_CHECKING
from ...gitignore.rules import SHARED_FILE, RuleFile, name_for_output
from ...messages import age_in_words, plural, printable
from ...model import domain as domains
from ...model import manifest
from ...ops import inclusion
from ...ops import save as saves
from ...ops.inclusion import RuleChange, Word
from ...ops.save import Moment
from ...settings import Settings, find_root, open_until_end, scan_policy, store_path
from ...store.layout import Layout
from ...worktree import ignored
from ...worktree import root as roots
from ...worktree.ignored import Verdict
from ...worktree.reader import Worktree
from ...worktree.scan_policy import ScanPolicy
from ..show import shapes
from ..show.text import signed_counts, skipped_lines
from ..terminal.lines import print_json, print_line, print_lines, remark
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...ops.context import Context
    from ..grammar.command_line import ParsedOptions

_WILL_BE_CAPTURED = (ignored.CAPTURED, ignored.MISSING)


def include(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind include."""
    found = _edit_rules_and_print(context, options, inclusion.include)
    if not options.json:
        _print_rules(found)  # they count, whatever happens to the save
    try:
        context = context._replace(policy=inclusion.read_policy(context))
        saved = saves.save(context, Moment(why_changed=lambda: f"include {' '.join(options.path)}"[:200]))
    except (errors.CasrewindError, OSError):
        done()
        remark(f"the rules are written: the next save that succeeds captures what they include ({printable(found.file)})")
        raise
    done()
    if options.json:
        print_json({**_change_json(found, context.store.path), "checkpoint": saved.checkpoint.id, "created": saved.created})
    else:
        finder = manifest.Finder(context.store.load_tree, saved.checkpoint.tree)
        for verdict in found.verdicts:
            if verdict.reason == ignored.CAPTURED and finder.find(verdict.path) is None:  # a pattern
                print_line(f"{printable(verdict.path)} is captured from {saved.checkpoint.id} on")
            else:
                is_held = verdict.reason == ignored.CAPTURED
                print_line(_verdict_sentence(verdict, context.store.path, saved.checkpoint.id if is_held else ""))
        if saved.created:
            print_line(f"saved {saved.checkpoint.id}: {plural(saved.checkpoint.files, 'file')} ({signed_counts(saved.changes)})")
        else:
            print_line(f"nothing else changed since {saved.checkpoint.id}, saved {age_in_words(saved.checkpoint.created_ns)}")
        print_lines(skipped_lines(saved.faults))
    return REMARKS if saved.faults or any(verdict.reason not in _WILL_BE_CAPTURED for verdict in found.verdicts) else OK


def exclude(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind exclude."""
    found = _edit_rules_and_print(context, options, inclusion.exclude)
    done()
    if options.json:
        print_json({**_change_json(found, context.store.path), "checkpoint": None, "created": False})
    else:
        _print_rules(found)
        for verdict in found.verdicts:
            print_line(_verdict_sentence(verdict, context.store.path))
    return REMARKS if any(verdict.reason in _WILL_BE_CAPTURED for verdict in found.verdicts) else OK


def why(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind why."""
    root = find_root(options.directory, settings)
    store = store_path(root, settings)
    tree = Worktree(root.path)
    try:
        with _policy_of_next_save(options, settings) as policy:
            given = roots.paths_below_root(root.path, options.path, options.directory)
            policy = policy or scan_policy(root, settings)
            verdicts = [
                ignored.explain(tree, policy, path, inside=_means_contents(path, item))
                for path, item in zip(given, options.path, strict=True)
            ]
    finally:
        tree.close()
    if options.json:
        print_json({"paths": [_verdict_json(verdict, store) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            print_line(_verdict_sentence(verdict, store))
    return OK


def _means_contents(path: bytes, given: str) -> bool:
    """True if a path as it was typed means what is in a directory: the root, or with a slash at its end."""
    return not path or given.rpartition("/")[2] in ("", ".", "..")


@contextmanager
def _policy_of_next_save(options: "ParsedOptions", settings: Settings) -> Iterator[ScanPolicy | None]:
    """What a save captures. The rules that the newest checkpoint recorded replace a file that is refused. None without
    a store that can be read."""
    with ExitStack() as stack:
        policy = None
        with suppress(errors.CasrewindError):
            policy = stack.enter_context(open_until_end(options.directory, settings, create=False)).policy
        yield policy


def _edit_rules_and_print(context: "Context", options: "ParsedOptions", change: Callable[..., RuleChange]) -> RuleChange:
    words = [word for text in options.path for word in _path_or_pattern(context.root.path, text, options.directory)]
    return change(context, words, shared=options.shared)


def _change_json(found: RuleChange, store: str) -> shapes.Shape:
    return {
        "file": found.file,
        "added": [os.fsdecode(rule) for rule in found.added], "removed": [os.fsdecode(rule) for rule in found.removed],
        "paths": [_verdict_json(verdict, store) for verdict in found.verdicts],
    }  # fmt: skip


def _path_or_pattern(root: str, text: str, start: str) -> list[Word]:
    """Classify a word: an existing name is that path. Any other word with special characters is a
    .gitignore pattern.
    """
    if any(character in text for character in "*?[") and not os.path.lexists(os.path.join(start, text)):
        return [Word(os.fsencode(text), is_pattern=True)]
    return [Word(path, is_pattern=False) for path in roots.paths_below_root(root, [text], start)]


def _print_rules(found: RuleChange) -> None:
    is_shared = os.path.basename(found.file) == os.fsdecode(SHARED_FILE)
    name = os.path.basename(found.file) if is_shared else f"private rules ({printable(found.file)})"
    for rule in found.added:
        print_line(f"{name}: added {printable(rule)}")
    for rule in found.removed:
        print_line(f"{name}: removed {printable(rule)}")


def _verdict_sentence(verdict: Verdict, store: str, saved: str = "") -> str:
    """One line that explains if a save captures the path, and why. `saved`: the checkpoint that holds it, "" = none."""
    name, rule = printable(verdict.path), verdict.rule
    where = ""
    if rule is not None:
        base = f"{printable(rule.file.base)}/" if rule.file.base else ""
        file = _path_of_rules(rule.file, store)
        if rule.file.source == "private":
            file = f"private rules ({printable(file)})"
        where = f": {base}{file}, line {rule.line}: {printable(rule.text)}"
    if saved:
        return f"{name} is saved in {saved}{where}"
    if verdict.reason == ignored.CAPTURED:
        return f"{name} is captured by the next save{where}"
    if verdict.reason == ignored.MISSING:
        return f"{name} does not exist; a save would capture it{where}"
    if verdict.reason == ignored.IGNORED:
        if rule is not None and (verdict.path == b"." or verdict.path.endswith(b"/")):
            what = f"each directory in {name}" if rule.text.endswith(b"/") else f"what is in {name}"
            return f"{what} is ignored, unless another rule includes it{where}"
        return f"{name} is ignored{where}"
    if verdict.reason == ignored.BEHIND_LINK:
        return f"{name} is a link: a save captures the link, and not what is behind it"
    if verdict.reason == domains.BUILT_IN:
        return f"{name} is a directory that tools make again (built-in list): casrewind include {shlex.quote(name)} captures it"
    return f"{name} is not captured: {printable(verdict.reason)}"


def _path_of_rules(rules: RuleFile, store: str) -> str:
    """The path of a rule file, in its directory. The file that git's core.excludesFile names has that name."""
    if rules.source == "private":
        return Layout(store).rules
    return "core.excludesFile" if rules.source == "global" else os.fsdecode(name_for_output(rules.source))


def _verdict_json(verdict: Verdict, store: str) -> shapes.Shape:
    rule = verdict.rule
    return {
        **shapes.path(verdict.path),
        "captured": verdict.reason == ignored.CAPTURED,
        "reason": verdict.reason,
        "rule": None if rule is None else {
            "file": _path_of_rules(rule.file, store),
            "line": rule.line,
            **shapes.path(rule.file.base, "directory"), **shapes.path(rule.text, "text"),
        },
    }  # fmt: skip
