"""Lines and JSON about a path: whether a save captures it, and which rule decides."""

import os

from ...gitignore.rules import RuleFile, is_made_by_finder, name_for_output
from ...messages import printable, shell_quoted_path
from ...model import domain as domains
from ...store.layout import Layout
from ...worktree import ignored
from ...worktree.ignored import Verdict
from . import shapes


def verdict_sentence(verdict: Verdict, store: str, saved: str = "") -> str:
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
        return f"the next save captures {name}{where}"
    if verdict.reason == ignored.MISSING:
        return f"{name} does not exist; a save would capture it{where}"
    if verdict.reason == ignored.IGNORED:
        if rule is not None and (verdict.path == b"." or verdict.path.endswith(b"/")):
            what = f"each directory in {name}" if rule.text.endswith(b"/") else f"what is in {name}"
            return f"{what} is ignored, unless another rule includes it{where}"
        return f"{name} is ignored{where}"
    if verdict.reason == ignored.BEHIND_LINK:
        return f"{name} is a link: a save captures the link, and not its target"
    if verdict.reason == domains.NOT_ON_DISK:
        return f"{name} is not on this disk, but in a cloud: a save keeps a file that did not change as the newest checkpoint has it"
    if verdict.reason == domains.BUILT_IN:
        hint = f"casrewind include {shell_quoted_path(verdict.path)} captures it"
        what = "file that Finder makes" if is_made_by_finder(verdict.path.rpartition(b"/")[2]) else "directory that tools make again"
        return f"{name} is a {what} (built-in list): {hint}"
    return f"{name} is not captured: {printable(verdict.reason)}"


def verdict_json(verdict: Verdict, store: str) -> shapes.Shape:
    """A verdict and its rule as JSON."""
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


def _path_of_rules(rules: RuleFile, store: str) -> str:
    """The path of a rule file, in its directory. The file that git's core.excludesFile names has that name."""
    if rules.source == "private":
        return Layout(store).rules
    return "core.excludesFile" if rules.source == "global" else os.fsdecode(name_for_output(rules.source))
