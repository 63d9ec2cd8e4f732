"""Compiles the rules of ignore files, for the verdicts of rules.py.

The danger prevented here: a stranger's rules make a save take minutes and gigabytes. No rule is compiled twice without
need, plain rules are not compiled at all, and what google-re2 refuses is asked rule by rule. google-re2 is an extra: a
missing one, or one that cannot be loaded here, changes the time and no verdict.

pathspec holds the rules that are asked often. It is imported only then: that takes 30 ms, more than a save of one new file.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby

from .._typing import TYPE_CHECKING, NamedTuple
from .wildmatch import PYTHON, RE2, exactly, expression, literal_length, parse_pattern

if TYPE_CHECKING:
    import re

    from pathspec.pattern import RegexPattern

    from .wildmatch import RegexDialect

Verdict = Callable[[str], bool | None]
"""For a path relative to the rule file, bytes decoded as latin-1 without a trailing slash: True if the last rule that matches
ignores it, False if that one re-includes it, None without a match."""


class _Re2(NamedTuple):
    """`error`: what google-re2 raises for a rule set that is too large; None without it. `problem`: as in re2_problem."""

    error: type[Exception] | None
    problem: str


@cache
def _load_re2() -> _Re2:
    try:
        import re2

        re2.Options()
    except ModuleNotFoundError as error:
        return _Re2(None, "" if error.name in ("re2", None) else str(error))
    except Exception as error:  # made for another system, or another library of this name
        sys.modules.setdefault("re2", None)  # type: ignore[arg-type] # pathspec imports it, too, and knows only a missing one
        return _Re2(None, f"{type(error).__name__}: {error}")
    return _Re2(re2.error, "")


_MANY = 32
"""Plain rules in a row that are worth one pattern for all of them."""
_TOGETHER = 250
"""Rules in one PathSpec. With many more, google-re2 builds automaton states faster than it can use them."""
_OFTEN = 5000
"""How often the rules of a group are asked, all together, before a PathSpec holds them. One rule answers in 0.25 µs."""
_BEFORE_END = (b"*", b"?", b"[", b"]", b"\\", b"/")
"""What stands behind the last of these bytes of a rule is the end of each path that it matches."""


class RuleLine(NamedTuple):
    """One rule. `text` is its pattern without `!` and without a trailing slash."""

    text: bytes
    negated: bool
    directory: bool  # matches directories only
    by_path: bool  # matched against the path below the rule file's directory, else against the name
    literal: int  # length of the part before the first special byte

    @property
    def can_be_looked_up(self) -> bool:
        """True for a name or a path without special bytes, and for a name that begins with its only star."""
        return self.literal == len(self.text) or (self.text[:1] == b"*" and not self.by_path and not _has_special_bytes(self.text[1:]))

    @classmethod
    def parse(cls, raw: bytes) -> "RuleLine":
        """Parse one line, already without its line end and trailing spaces."""
        negated = raw[:1] == b"!"
        text = raw[1:] if negated else raw
        directory = text[-1:] == b"/"
        if directory:
            text = text[:-1]
        return cls(text, negated, directory, b"/" in text, literal_length(text))

    def expression(self, spelling: "RegexDialect", *, fold: bool) -> str:
        """The regular expression for matching paths, relative to the rule file's directory."""
        if self.literal == len(self.text):
            text = self.text.lower() if fold else self.text
            return exactly(text.removeprefix(b"/"), spelling, before="" if self.by_path else "(?:.*/)?")
        if not self.by_path:
            return expression(parse_pattern(self.text, fold=fold), spelling, before="(?:.*/)?")
        anchor = int(self.text[:1] == b"/")  # a leading slash only anchors, as `by_path` does
        # git compares the literal prefix separately, so the stars of `a**/b` count as a beginning.
        return expression(parse_pattern(self.text[anchor:], fold=fold, literal=self.literal - anchor), spelling)


def _has_special_bytes(text: bytes) -> bool:
    return len(text.translate(None, b"*?[\\")) < len(text)


class _Rule:
    """One rule: google-re2 receives its expression as text; `re` compiles it on first use."""

    __slots__ = ("_by_path", "_compiled", "_end", "_fold", "_line", "_start", "ignores")

    def __init__(self, line: RuleLine, *, fold: bool) -> None:
        self.ignores = not line.negated
        self._line, self._fold, self._by_path = line, fold, line.by_path
        self._compiled: re.Pattern[str] | None = None
        start = line.text[line.text[:1] == b"/" : line.literal]
        end = line.text[max(map(line.text.rfind, _BEFORE_END)) + 1 :]
        # lowered as bytes: git folds ASCII alone
        self._start = (start.lower() if fold else start).decode("latin-1")
        self._end = (end.lower() if fold else end).decode("latin-1")

    @property
    def pattern(self) -> str:
        """The text for google-re2."""
        return self._line.expression(RE2, fold=self._fold)

    def matches(self, path: str) -> bool:
        if not path.endswith(self._end) or not (path if self._by_path else path.rpartition("/")[2]).startswith(self._start):
            return False  # most rules are never compiled
        if self._compiled is None:
            import re

            self._compiled = re.compile(self._line.expression(PYTHON, fold=self._fold))
        return self._compiled.match(path) is not None


def rule_matches(line: RuleLine, path: str, *, fold: bool) -> bool:
    """True if one rule matches a path, which is relative to the rule file."""
    return _Rule(line, fold=fold).matches(path)


class _RuleGroup:
    """Rules whose order matters. It asks them one by one; once they are asked often, it imports pathspec."""

    __slots__ = ("_asked", "_last_first", "verdict")

    verdict: Verdict

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._last_first, self._asked = rules[::-1], 0
        self.verdict = self._ask_one_by_one

    def _ask_one_by_one(self, path: str) -> bool | None:
        self._asked += len(self._last_first)
        if self._asked > _OFTEN:
            self.verdict = _hold_in_pathspec(self._last_first[::-1])
            return self.verdict(path)
        for rule in self._last_first:
            if rule.matches(path):
                return rule.ignores
        return None


@cache
def _make_pattern_class() -> "Callable[[_Rule], RegexPattern]":
    from pathspec.pattern import RegexPattern

    class GitPattern(RegexPattern):
        """One rule with git's meaning."""

        __slots__ = ("_matches",)

        def __init__(self, rule: _Rule) -> None:
            self.include = rule.ignores
            self.regex, self._matches = rule, rule.matches  # type: ignore[assignment]

        def match_file(self, file: str) -> bool | None:
            """True if the rule matches, None if not. Without google-re2, each rule is asked about each path."""
            return True if self._matches(file) else None

    return GitPattern


def _hold_in_pathspec(rules: Sequence[_Rule]) -> Verdict:
    error = re2_error()  # before pathspec is imported: see _load_re2
    from pathspec import PathSpec

    patterns = list(map(_make_pattern_class(), rules))
    errors = () if error is None else (error,)
    try:
        spec = PathSpec(patterns, backend="simple" if error is None else "re2")
    except errors:  # too large for one automaton
        spec = PathSpec(patterns, backend="simple")
    return lambda path: spec.check_file(path, ()).include


class _PlainRules:
    """Many plain rules, all negated or none. Their order does not matter."""

    __slots__ = ("_ends", "_ignore", "_names", "_paths")

    def __init__(self, lines: Sequence[RuleLine], *, fold: bool) -> None:
        self._ignore = not lines[0].negated
        self._names, self._paths = set[str](), set[str]()
        self._ends: dict[int, set[str]] = {}
        for line in lines:
            text = (line.text.lower() if fold else line.text).decode("latin-1")
            if line.by_path:
                self._paths.add(text.removeprefix("/"))
            elif line.literal == len(text):
                self._names.add(text)
            else:
                self._ends.setdefault(len(text) - 1, set()).add(text[1:])

    def verdict(self, path: str) -> bool | None:
        name = path.rpartition("/")[2]
        if name in self._names or path in self._paths:
            return self._ignore
        length = len(name)
        return self._ignore if any(count <= length and name[length - count :] in ends for count, ends in self._ends.items()) else None


Groups = list[_PlainRules | _RuleGroup]


def compile_rules(lines: Sequence[RuleLine], *, ignore_case: bool) -> Groups:
    """Compile rules into groups, in order: the last group that matches a path decides."""
    found: Groups = []
    plain = [line for line in lines if line.can_be_looked_up] if _all_ignore_or_all_include(lines) else []
    if plain and (len(plain) >= _MANY or len(plain) == len(lines)):
        found.append(_PlainRules(plain, fold=ignore_case))
        lines = [line for line in lines if not line.can_be_looked_up]
    for at in range(0, len(lines), _TOGETHER):
        found.append(_RuleGroup([_Rule(line, fold=ignore_case) for line in lines[at : at + _TOGETHER]]))
    return found


def _all_ignore_or_all_include(lines: Sequence[RuleLine]) -> bool:
    """True if no rule reverses another one, so that their order does not matter."""
    return all(line.negated == lines[0].negated for line in lines)


def re2_error() -> type[Exception] | None:
    """The exception that google-re2 raises for a rule set that is too large; None without google-re2."""
    return _load_re2().error


def re2_problem() -> str:
    """Why a google-re2 that is installed cannot be loaded; "" if it can be, or if there is none."""
    return _load_re2().problem


class Chunk:
    """Successive rules of a file, compiled on first use."""

    __slots__ = ("_fold", "_for_directories", "_for_files", "_lines")

    def __init__(self, lines: Sequence[RuleLine], *, fold: bool) -> None:
        """`fold`: the letters of a path are in lower case, so rules ignore case."""
        self._lines, self._fold = lines, fold
        self._for_files: Groups | None = None
        self._for_directories: Groups | None = None

    def groups(self, *, is_dir: bool) -> Groups:
        """The groups for files or for directories, the one that decides first. A rule is compiled twice only if the
        order of the rules requires it."""
        if self._for_files is None:
            self._for_files = self._compiled([line for line in self._lines if not line.directory])
        if not is_dir:
            return self._for_files
        if self._for_directories is None:
            more = [line for line in self._lines if line.directory]
            if not more:
                self._for_directories = self._for_files
            elif _all_ignore_or_all_include(self._lines):
                self._for_directories = self._for_files + self._compiled(more)
            else:
                self._for_directories = self._compiled(self._lines)
        return self._for_directories

    def _compiled(self, lines: Sequence[RuleLine]) -> Groups:
        return compile_rules(lines, ignore_case=self._fold)[::-1]


def compile_in_chunks(lines: Iterable[bytes], *, fold: bool) -> list[Chunk]:
    """The rules in the lines of a file, the last ones first. Many rules in a row that do not reverse each other are a chunk."""
    found: list[Chunk] = []
    others: list[RuleLine] = []
    for _, run in groupby(map(RuleLine.parse, lines), lambda line: line.negated):
        rules = list(run)
        if len(rules) < _MANY:
            others += rules
            continue
        found += [Chunk(some, fold=fold) for some in (others, rules) if some]
        others = []
    found += [Chunk(others, fold=fold)] if others else []
    return found[::-1]
