"""casrewind include."""

import os

from ... import errors
from ..._typing import TYPE_CHECKING
from ...gitignore.rule_writing import rule_for_path
from ...gitignore.rules import SHARED_FILE
from ...messages import age_in_words, plural, printable, shell_quoted_path
from ...upkeep import inclusion
from ...upkeep import save as saves
from ...upkeep.inclusion import RuleChange, Word
from ...upkeep.rule_effects import MOST_ENTRIES, NamedEntry, RuleEffects, find_rule_effects
from ...upkeep.save import Moment
from ...worktree import ignored
from ...worktree import root as roots
from ..grammar.options import JSON, Command, Option, flag
from ..show import shapes
from ..show.text import SHOWN, signed_counts, skipped_lines
from ..show.verdicts import verdict_json, verdict_sentence
from ..terminal.lines import print_json, print_line, print_lines, remark
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

RULE_WORDS = Option(
    ("path",),
    "a file, a directory with all that is in it, or a pattern as in a .gitignore, which without a slash applies in "
    "every directory that is not ignored",
    "PATH",
    nargs="+",
)
SHARED = flag("--shared", "change .casrewindignore in the project instead, so that everyone who has this file shares its rules")
COMMAND = Command(
    examples=("casrewind include .env", "casrewind include data/x.db '*.sqlite3'"),
    options=(
        RULE_WORDS, SHARED, JSON,
    ),
    more=(
        "Adds private rules, which casrewind keeps with the checkpoints, and saves at once. Checks that the checkpoint contains each "
        "path. If something is still not captured, or the rules also change other paths, include names these paths and exits with 3."
    ),
    creates=True, saves=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind include."""
    words = words_of(context, options)
    change = inclusion.include(context, words, shared=options.shared)
    if not options.json:
        print_rules(change)  # they count, whatever happens to the save
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
        print_json({**change_json(change, effects, store), "checkpoint": point.id, "created": saved.created})
    else:
        for verdict in effects.verdicts:
            print_line(verdict_sentence(verdict, store, point.id if verdict.reason == ignored.CAPTURED else ""))
        for pattern, count in effects.matches:
            print_line(f"{matches_in_words(pattern, count)} saved in {point.id}")
        print_unasked(effects, store, point.id)
        _print_hint(effects)
        if saved.created:
            print_line(f"saved {point.id}: {plural(point.files, 'file')} ({signed_counts(saved.changes)})")
        else:
            print_line(f"nothing else changed since {point.id}, saved {age_in_words(point.created_ns)}")
        print_lines(skipped_lines(saved.faults))
    return OK if effects.as_asked and not saved.faults else REMARKS


def words_of(context: "Context", options: "ParsedOptions") -> list[Word]:
    """The words of include and exclude: paths, and patterns."""
    return [_path_or_pattern(context.root.path, text, options.directory) for text in options.path]


def change_json(change: RuleChange, effects: RuleEffects, store: str) -> shapes.Shape:
    """The changed rules, and what they do, as JSON."""
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


def print_rules(found: RuleChange) -> None:
    """Print the lines that were added to a file of rules, and removed from it."""
    is_shared = os.path.basename(found.file) == os.fsdecode(SHARED_FILE)
    name = os.path.basename(found.file) if is_shared else f"private rules ({printable(found.file)})"
    for rule in found.added:
        print_line(f"{name}: added {printable(rule)}")
    for rule in found.removed:
        print_line(f"{name}: removed {printable(rule)}")


def matches_in_words(pattern: bytes, count: int) -> str:
    """The start of a sentence about the paths that a pattern matches."""
    return f"{printable(pattern)}: {plural(count, 'path') if count else 'no path'} that it matches {'are' if count > 1 else 'is'}"


def print_unasked(effects: RuleEffects, store: str, saved: str = "") -> None:
    """Print the paths that did not become what the person asked for, and those that changed unasked. `saved`: the checkpoint of an
    include, which has the captured ones."""
    for start, entries in (("", effects.left), ("not asked for: ", effects.also)):
        for entry in entries[:SHOWN]:
            name = "" if entry.path == entry.verdict.path else f"{printable(entry.path)}: "
            is_held = entry.verdict.reason == ignored.CAPTURED
            print_line(start + name + verdict_sentence(entry.verdict, store, saved if is_held else ""))
        if len(entries) > SHOWN:
            print_line(f"{start}... and {len(entries) - SHOWN:,} more; --json lists them")
    if not effects.complete:
        print_line(f"this list is incomplete: there are more than {MOST_ENTRIES:,} entries to look at, or too many to name")


def _print_hint(effects: RuleEffects) -> None:
    """How to protect what a pattern did not reach."""
    reached = next((entry.path for entry in effects.left if entry.verdict.reason == ignored.IGNORED and b"\n" not in entry.path), None)
    if reached is not None:
        print_line(f"  casrewind include {shell_quoted_path(reached)} protects it")


def _entry_json(entry: NamedEntry, store: str) -> shapes.Shape:
    return {**verdict_json(entry.verdict, store), **shapes.path(entry.path)}
