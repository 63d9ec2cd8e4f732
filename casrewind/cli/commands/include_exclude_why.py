"""casrewind include, exclude and why: which paths a save captures, and which rule decides."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from ... import errors
from ..._typing import TYPE_CHECKING
from ...gitignore.rule_writing import rule_for_path
from ...gitignore.rules import SHARED_FILE, RuleFile, is_made_by_finder, name_for_output
from ...messages import age_in_words, plural, printable, shell_quoted_path
from ...model import domain as domains
from ...ops import inclusion
from ...ops import save as saves
from ...ops.inclusion import RuleChange, Word
from ...ops.rule_effects import MOST_ENTRIES, NamedEntry, RuleEffects, find_rule_effects
from ...ops.save import Moment
from ...settings import Settings, find_root, open_until_end, scan_policy, store_path
from ...store.layout import Layout
from ...worktree import ignored
from ...worktree import root as roots
from ...worktree.ignored import Verdict
from ...worktree.reader import Worktree
from ...worktree.scan_policy import ScanPolicy
from ..show import shapes
from ..show.text import SHOWN, signed_counts, skipped_lines
from ..terminal.lines import print_json, print_line, print_lines, remark
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...ops.context import Context
    from ..grammar.command_line import ParsedOptions



def include(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind include."""
    words = _words_of(context, options)
    change = inclusion.include(context, words, shared=options.shared)
    if not options.json:
        _print_rules(change)  # they count, whatever happens to the save
    try:
        context = context._replace(policy=inclusion.read_policy(context))
        saved = saves.save(context, Moment(why_changed=lambda: f"include {' '.join(options.path)}"[:200]))
        effects = find_rule_effects(context, change, words, saved)
    except (errors.CasrewindError, OSError):
        done()
        remark(f"the rules are written: the next save that succeeds captures what they include ({printable(change.file)})")
        raise
    done()
    store, point = context.store.path, saved.checkpoint
    if options.json:
        print_json({**_change_json(change, effects, store), "checkpoint": point.id, "created": saved.created})
    else:
        for verdict in effects.verdicts:
            print_line(_verdict_sentence(verdict, store, point.id if verdict.reason == ignored.CAPTURED else ""))
        for pattern, count in effects.matches:
            print_line(f"{_matches_in_words(pattern, count)} saved in {point.id}")
        _print_what_was_not_asked(effects, store, point.id)
        _print_hint(effects)
        if saved.created:
            print_line(f"saved {point.id}: {plural(point.files, 'file')} ({signed_counts(saved.changes)})")
        else:
            print_line(f"nothing else changed since {point.id}, saved {age_in_words(point.created_ns)}")
        print_lines(skipped_lines(saved.faults))
    return OK if effects.as_asked and not saved.faults else REMARKS


def exclude(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind exclude."""
    words = _words_of(context, options)
    change = inclusion.exclude(context, words, shared=options.shared)
    effects = find_rule_effects(context, change, words)
    done()
    if options.json:
        print_json({**_change_json(change, effects, context.store.path), "checkpoint": None, "created": False})
    else:
        _print_rules(change)
        for verdict in effects.verdicts:
            print_line(_verdict_sentence(verdict, context.store.path))
        for pattern, count in effects.matches:
            found = f"{_matches_in_words(pattern, count)} left out from now on"
            print_line(found if count else f"{printable(pattern)}: nothing that it matches changes")
        _print_what_was_not_asked(effects, context.store.path)
    return OK if effects.as_asked else REMARKS


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


def _words_of(context: "Context", options: "ParsedOptions") -> list[Word]:
    return [_path_or_pattern(context.root.path, text, options.directory) for text in options.path]


def _change_json(change: RuleChange, effects: RuleEffects, store: str) -> shapes.Shape:
    named = [*(NamedEntry(verdict.path, verdict) for verdict in effects.verdicts), *effects.left]
    return {
        "file": change.file,
        "added": [os.fsdecode(rule) for rule in change.added], "removed": [os.fsdecode(rule) for rule in change.removed],
        "paths": [_entry_json(entry, store) for entry in named],
        "patterns": [{**shapes.path(pattern, "pattern"), "matches": count} for pattern, count in effects.matches],
        "also": [_entry_json(entry, store) for entry in effects.also],
        "complete": effects.complete,
    }  # fmt: skip


def _path_or_pattern(root: str, text: str, start: str) -> Word:
    """Classify a word: an existing name is that path. Any other word with special characters is a .gitignore pattern; with a
    slash in it, it begins where the person is."""
    if not any(character in text for character in "*?[") or os.path.lexists(os.path.join(start, text)):
        (path,) = roots.paths_below_root(root, [text], start)
        return Word(path, is_pattern=False, is_directory=text.endswith("/"))
    if "/" in text.rstrip("/") and not text.startswith("/"):
        here, path = roots.paths_below_root(root, [".", text], start)
        is_below = here and path.startswith(here + b"/")  # a directory's own name is no pattern
        pattern = rule_for_path(here) + path[len(here) :] if is_below else b"/" + path
        return Word(pattern + b"/" if text.endswith("/") else pattern, is_pattern=True)
    return Word(os.fsencode(text), is_pattern=True)


def _print_rules(found: RuleChange) -> None:
    is_shared = os.path.basename(found.file) == os.fsdecode(SHARED_FILE)
    name = os.path.basename(found.file) if is_shared else f"private rules ({printable(found.file)})"
    for rule in found.added:
        print_line(f"{name}: added {printable(rule)}")
    for rule in found.removed:
        print_line(f"{name}: removed {printable(rule)}")


def _matches_in_words(pattern: bytes, count: int) -> str:
    return f"{printable(pattern)}: {plural(count, 'path') if count else 'no path'} that it matches {'are' if count > 1 else 'is'}"


def _print_what_was_not_asked(effects: RuleEffects, store: str, saved: str = "") -> None:
    """What is not as it was asked, and what nobody asked for. `saved`: the checkpoint of an include, which holds what is captured."""
    for start, entries in (("", effects.left), ("not asked for: ", effects.also)):
        for entry in entries[:SHOWN]:
            name = "" if entry.path == entry.verdict.path else f"{printable(entry.path)}: "
            is_held = entry.verdict.reason == ignored.CAPTURED
            print_line(start + name + _verdict_sentence(entry.verdict, store, saved if is_held else ""))
        if len(entries) > SHOWN:
            print_line(f"{start}... and {len(entries) - SHOWN:,} more; --json lists them")
    if not effects.complete:
        print_line(f"this is not all: more than {MOST_ENTRIES:,} entries to look at, or too many to name")


def _print_hint(effects: RuleEffects) -> None:
    """How to protect what a pattern did not reach."""
    reached = next((entry.path for entry in effects.left if entry.verdict.reason == ignored.IGNORED and b"\n" not in entry.path), None)
    if reached is not None:
        print_line(f"  casrewind include {shell_quoted_path(reached)} protects it")


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
    if verdict.reason == domains.NOT_ON_DISK:
        return f"{name} is not on this disk, but in a cloud: a save keeps a file that did not change as the newest checkpoint has it"
    if verdict.reason == domains.BUILT_IN:
        hint = f"casrewind include {shell_quoted_path(verdict.path)} captures it"
        what = "file that Finder makes" if is_made_by_finder(verdict.path.rpartition(b"/")[2]) else "directory that tools make again"
        return f"{name} is a {what} (built-in list): {hint}"
    return f"{name} is not captured: {printable(verdict.reason)}"


def _path_of_rules(rules: RuleFile, store: str) -> str:
    """The path of a rule file, in its directory. The file that git's core.excludesFile names has that name."""
    if rules.source == "private":
        return Layout(store).rules
    return "core.excludesFile" if rules.source == "global" else os.fsdecode(name_for_output(rules.source))


def _entry_json(entry: NamedEntry, store: str) -> shapes.Shape:
    return {**_verdict_json(entry.verdict, store), **shapes.path(entry.path)}


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
