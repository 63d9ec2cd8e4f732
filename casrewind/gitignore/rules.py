"""Which names of the worktree are ignored, decided exactly as git decides.

The danger lies on both sides: a name wrongly ignored is not saved and cannot be brought back; a name wrongly
captured swells the store with build output, and a later restore may delete it. So the meaning of a rule is
git's to the byte, odd corners included, and is proven against git itself by the tests.

The first source with a matching rule decides: every .casrewindignore from the deepest directory up, the
project's configuration, every .gitignore from the deepest directory up, info/exclude, core.excludesFile.
Inside one file the last matching rule decides. An ignored directory is never entered, so nothing under it
can be re-included.

pathspec decides: a rule file is compiled into PathSpecs whose patterns are regular expressions with git's
meaning, and every name is asked of them. Where google-re2 is there it matches all rules of a file at once, in
linear time; without it pathspec asks rule by rule, with expressions that do not backtrack: the same verdicts,
slower. Importing pathspec costs more than a whole unchanged save, so it happens when the first rule file is
compiled, and building Rules and their digests compiles nothing.

A line misread by one byte ignores what should be saved. Where a line ends, which spaces belong to it, what a lone `!` or
a stray carriage return mean: all of it is as git has it, and none of it raises.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from struct import pack

from blake3 import blake3

from .. import fsio
from .._typing import TYPE_CHECKING, Any, NamedTuple
from ..model.domain import Skip

if TYPE_CHECKING:
    from pathspec import PathSpec

    from .wildmatch import RegexDialect

MOST_BYTES = 8 << 20
"""Bytes of a rule file. A longer one counts as unreadable: a project may bring one of 3 GB."""
MOST_WEIGHT = 16 << 20
"""The weight of all rules in force in a directory (`weight_of`). A rule file that goes beyond it counts as unreadable."""
_WEIGHT_OF_A_RULE = 128  # a compiled rule takes hundreds of times the memory of its bytes, if it is short
_LONGEST = 1 << 16
"""Bytes of a rule. No path is as long, and to compile a longer one takes seconds."""
_TOGETHER = 250
"""Rules in one PathSpec: with many more google-re2 makes states faster than it can use them."""

RULE_FILE_NAMES = (b".gitignore", b".casrewindignore")

DEFAULT_EXCLUDED_NAMES = frozenset(
    b"node_modules bower_components .venv __pycache__ __pypackages__ .mypy_cache .pytest_cache .ruff_cache .tox .nox"
    b" .eggs .pixi .gradle .dart_tool .parcel-cache .turbo .next .nuxt .svelte-kit".split()
)
"""Directories that a tool makes again from what is saved anyway. venv, build, dist and target are not among them:
people keep sources under these names."""

_BOM = b"\xef\xbb\xbf"
_RANK = {"casrewindignore": 0, "project": 1, "gitignore": 2, "exclude": 3, "global": 4}


class RuleLine(NamedTuple):
    """One rule. `text` is its pattern without `!` and without the slash that asks for a directory."""

    text: bytes
    negated: bool
    directory: bool  # matches directories only
    by_path: bool  # compared with the path from the rule file's directory on, else with the name alone
    literal: int  # length of the part before the first special byte

    @classmethod
    def parse(cls, raw: bytes) -> "RuleLine":
        """Take one line apart, its end and its trailing spaces already gone."""
        from .wildmatch import literal_length

        negated = raw[:1] == b"!"
        text = raw[1:] if negated else raw
        directory = text[-1:] == b"/"
        if directory:
            text = text[:-1]
        return cls(text, negated, directory, b"/" in text, literal_length(text))

    def expression(self, spelling: "RegexDialect", *, fold: bool) -> str:
        """The regular expression of the paths that match, counted from the rule file's directory on."""
        from .wildmatch import expression, parse

        if not self.by_path:
            return expression(parse(self.text, fold=fold), spelling, before="(?:.*/)?")
        anchor = int(self.text[:1] == b"/")  # a leading slash only anchors, which `by_path` says already
        # git compares the literal part of a path pattern apart, so that in `a**/b` the stars stand at a beginning.
        return expression(parse(self.text[anchor:], fold=fold, literal=self.literal - anchor), spelling)


def raw_lines(data: bytes) -> Iterator[bytes]:
    """The lines of a rule file that hold a rule, as `Line.parse` takes them."""
    for line in data.removeprefix(_BOM).split(b"\n"):
        if not line or line[:1] == b"#":
            continue
        text = line[:-1] if line[-1:] == b"\r" else line
        end = text.find(b"\0")  # a zero byte ends git's lines
        if text := _strip_spaces(text if end < 0 else text[:end]):
            yield text


def _strip_spaces(raw: bytes) -> bytes:
    """Drop trailing spaces (never tabs), but keep one that a backslash protects."""
    bare = raw.rstrip(b" ")
    backslashes = len(bare) - len(bare.rstrip(b"\\"))
    # Backslashes protect each other in pairs; one left over protects the space behind it.
    return raw[: len(bare) + 1] if backslashes % 2 else bare


class RuleFile(NamedTuple):
    """One rule file as it was read."""

    base: bytes  # the directory that the rules are relative to, itself relative to the root; b"" is the root
    source: str  # casrewindignore, project, gitignore, exclude or global
    data: bytes


def weight_of(data: bytes) -> int:
    """What a rule file costs when it is compiled, in bytes and rules."""
    return len(data) + _WEIGHT_OF_A_RULE * (data.count(b"\n") + 1)


def why_not(data: bytes, weight: int) -> str:
    """Why a rule file is not taken where rules of this weight are in force, "" when it is."""
    if len(data) > MOST_BYTES:
        return f"more than {MOST_BYTES >> 20} MiB"
    if weight + weight_of(data) > MOST_WEIGHT:
        return "more rules than are read"
    if len(data) > _LONGEST and any(len(raw) > _LONGEST for raw in raw_lines(data)):
        return f"a rule of more than {_LONGEST >> 10} KiB"
    return ""


class _Expression:
    """A regular expression that pathspec hands to google-re2 as text, or that `re` compiles when it is first asked."""

    __slots__ = ("_compiled", "_fold", "_line", "pattern")

    def __init__(self, line: RuleLine, *, fold: bool) -> None:
        from .wildmatch import RE2

        self._line, self._fold = line, fold
        self.pattern = line.expression(RE2, fold=fold)
        self._compiled: Any = None

    def search(self, path: str) -> Any:
        if self._compiled is None:
            import re

            from .wildmatch import PYTHON

            self._compiled = re.compile(self._line.expression(PYTHON, fold=self._fold))
        return self._compiled.match(path)


@cache
def _pattern_class() -> Callable[[RuleLine, bool], Any]:
    from pathspec.pattern import RegexPattern

    class GitPattern(RegexPattern):
        """One rule with git's meaning. A path is its bytes in latin-1, without a slash at its end."""

        __slots__ = ()

        def __init__(self, line: RuleLine, fold: bool) -> None:  # noqa: FBT001
            self.include = not line.negated
            self.pattern = line.text.decode("latin-1")
            self.regex = _Expression(line, fold=fold)  # type: ignore[assignment]

    return GitPattern


def compile_rules(lines: Sequence[RuleLine], *, ignore_case: bool) -> "list[PathSpec[Any]]":
    """The rules as pathspec has them, in order: of several PathSpecs the last one that knows a path decides."""
    from pathspec import PathSpec

    pattern = _pattern_class()
    patterns = [pattern(line, ignore_case) for line in lines]
    specs: list[PathSpec[Any]] = []
    pending = [patterns[at : at + _TOGETHER] for at in range(0, len(patterns), _TOGETHER)][::-1]
    error = re2_error()
    while pending:
        group = pending.pop()
        if error is None or not group:
            specs.append(PathSpec(group, backend="simple"))
            continue
        try:
            specs.append(PathSpec(group, backend="re2"))
        except error:  # too much for one automaton
            if len(group) == 1:
                specs.append(PathSpec(group, backend="simple"))
            else:
                pending += [group[len(group) // 2 :], group[: len(group) // 2]]
    return specs


@cache
def re2_error() -> type[Exception] | None:
    """What google-re2 raises where a set of rules is too large for it; None without google-re2."""
    try:
        import re2
    except ModuleNotFoundError:
        return None
    return getattr(re2, "error", None)  # other libraries of this name have none, and pathspec does not take them


class _CompiledFile:
    """One rule file, compiled when first asked; all directories below share it."""

    __slots__ = ("_fold", "_lines", "_specs", "file")

    def __init__(self, file: RuleFile, *, fold: bool) -> None:
        self.file = file
        self._fold = fold
        self._lines: list[RuleLine] | None = None
        self._specs: dict[bool, list[PathSpec[Any]]] = {}

    def verdict(self, path: str, *, is_dir: bool) -> bool | None:
        """True: the last rule that matches ignores the path; False: it re-includes it. `path` is relative to the rule file, and folded."""
        specs = self._specs.get(is_dir)
        if specs is None:
            if self._lines is None:
                self._lines = [RuleLine.parse(raw) for raw in raw_lines(self.file.data)]
            lines = [line for line in self._lines if is_dir or not line.directory]
            specs = self._specs[is_dir] = compile_rules(lines, ignore_case=self._fold)[::-1]
        for spec in specs:
            found = spec.check_file(path, ()).include
            if found is not None:
                return found
        return None


class _DirectoryScope:
    """What is in force in a directory, whatever its name: children without rule files of their own share it. Immutable."""

    __slots__ = ("default_excludes", "digest", "ignore_case", "nearest", "outer", "trivial", "under_git", "weight")

    def __init__(
        self, digest: bytes, nearest: _CompiledFile | None, outer: "_DirectoryScope | None", *,
        ignore_case: bool, default_excludes: bool, trivial: bool, under_git: bool,
    ) -> None:  # fmt: skip
        self.digest, self.nearest, self.outer = digest, nearest, outer
        self.weight: int = (0 if outer is None else outer.weight) + (0 if nearest is None else weight_of(nearest.file.data))
        self.ignore_case, self.default_excludes = ignore_case, default_excludes
        self.trivial, self.under_git = trivial, under_git

    def compiled(self) -> Iterator[_CompiledFile]:
        """The rule files in force, nearest first."""
        scope: _DirectoryScope | None = self
        while scope is not None:
            if scope.nearest is not None:
                yield scope.nearest
            scope = scope.outer

    def extend(self, file: RuleFile) -> "_DirectoryScope":
        source = file.source.encode()
        sizes = pack("<3Q", len(file.base), len(source), len(file.data))
        return _DirectoryScope(
            blake3(self.digest + sizes + file.base + source + file.data).digest(),
            _CompiledFile(file, fold=self.ignore_case),
            self,
            ignore_case=self.ignore_case,
            default_excludes=self.default_excludes,
            trivial=self.trivial and next(raw_lines(file.data), None) is None,
            under_git=self.under_git or file.source == "gitignore",
        )


class Rules:
    """The rules in force in one directory. Immutable; what `extend` and `enter` give shares what is compiled."""

    __slots__ = ("_layers", "_scope", "digest", "path", "trivial")

    path: bytes
    """This directory, relative to the root; b"" is the root."""
    digest: bytes
    """BLAKE3 over everything that decides here. Equal digest and equal path: equal verdicts."""
    trivial: bool
    """No rule at all is in force: nothing is ever ignored here."""

    def __init__(self, path: bytes, scope: _DirectoryScope) -> None:
        """Private: begin with `top`."""
        self.path = path
        self.digest = scope.digest
        self.trivial = scope.trivial
        self._scope = scope
        self._layers: list[tuple[_CompiledFile, str]] | None = None

    @classmethod
    def top(
        cls, outside: Sequence[RuleFile] = (), *, ignore_case: bool = False, default_excludes: bool = False, max_file_size: int = 0
    ) -> "Rules":
        """The rules in force at the root before the root's own rule files. `max_file_size`, in bytes, is part of the digest only: no
        verdict of this module depends on it, but what a scan remembers of a directory does."""
        seed = blake3(b"casrewind rules 2 %d %d %d" % (ignore_case, default_excludes, max_file_size)).digest()
        scope = _DirectoryScope(
            seed, None, None, ignore_case=ignore_case, default_excludes=default_excludes, trivial=True, under_git=False
        )
        return cls(b"", scope).extend(outside)

    def extend(self, files: Sequence[RuleFile]) -> "Rules":
        """These rules plus the rule files found in this very directory."""
        if not files:
            return self
        scope = self._scope
        for file in sorted(files, key=lambda file: -_RANK[file.source]):
            if file.base != self.path:
                raise ValueError(f"a rule file of {file.base!r} has no place in {self.path!r}")
            scope = scope.extend(file)
        return Rules(self.path, scope)

    def enter(self, name: bytes) -> "Rules":
        """The rules for the child directory `name`, before its own rule files."""
        return Rules(self.path + b"/" + name if self.path else name, self._scope)

    def at(self, path: bytes) -> "Rules":
        """The same rules in another directory, which has to be below all of their own."""
        return Rules(path, self._scope)

    @property
    def files(self) -> tuple[RuleFile, ...]:
        """All rule files in force, outermost first."""
        return tuple(compiled.file for compiled in self._scope.compiled())[::-1]

    @property
    def weight(self) -> int:
        """The weight of all rules in force: see MOST_WEIGHT."""
        return self._scope.weight

    def ignored(self, name: bytes, is_dir: bool) -> bool:  # noqa: FBT001
        """Whether the entry `name` directly inside this directory is ignored. A link is no directory."""
        return not self.trivial and self._verdict(name, is_dir=is_dir) is True

    def default_excluded(self, name: bytes) -> bool:
        """Whether directory `name` can be made again and nobody has said what to ignore.

        Only where no .gitignore is in force, and never against a rule that re-includes it.
        """
        scope = self._scope
        if name not in DEFAULT_EXCLUDED_NAMES or not scope.default_excludes or scope.under_git:
            return False
        return self.trivial or self._verdict(name, is_dir=True) is not False

    def _verdict(self, name: bytes, *, is_dir: bool) -> bool | None:
        """Ignored (True), re-included (False), or no rule matches."""
        if self._layers is None:
            self._layers = self._in_order()
        text = (name.lower() if self._scope.ignore_case else name).decode("latin-1")
        for compiled, directory in self._layers:
            found = compiled.verdict(directory + text, is_dir=is_dir)
            if found is not None:
                return found
        return None

    def _in_order(self) -> "list[tuple[_CompiledFile, str]]":
        """The rule files in force, the one that decides first in front, each with this directory as it sees it."""
        layers = []
        for compiled in sorted(self._scope.compiled(), key=lambda compiled: _RANK[compiled.file.source]):
            base = compiled.file.base
            directory = self.path[len(base) + 1 :] if base else self.path
            directory = directory.lower() if self._scope.ignore_case else directory
            layers.append((compiled, directory.decode("latin-1") + "/" if directory else ""))
        return layers


class RuleSet:
    """The rule files recorded with a checkpoint, asked about paths that need not exist."""

    def __init__(self, files: Sequence[RuleFile], *, ignore_case: bool = False, default_excludes: bool = False) -> None:
        """`files` in any order, each with the directory it was in force from."""
        self._at: dict[bytes, list[RuleFile]] = {}
        for file in files:
            self._at.setdefault(file.base, []).append(file)
        top = Rules.top(self._at.get(b"", ()), ignore_case=ignore_case, default_excludes=default_excludes)
        self._known: dict[bytes, Rules | None] = {b"": top}

    def captured(self, path: bytes, is_dir: bool) -> bool:  # noqa: FBT001
        """Whether `path` would have been captured had it existed then."""
        if not path:
            return True
        parent, _, name = path.rpartition(b"/")
        rules = self._enter(parent)
        return rules is not None and _wanted(rules, name, is_dir=is_dir)

    def _enter(self, directory: bytes) -> Rules | None:
        """The rules in force in `directory`; None where the scan would never have come."""
        pending = []
        while directory not in self._known:
            pending.append(directory)
            directory = directory.rpartition(b"/")[0]
        rules = self._known[directory]
        for below in reversed(pending):
            name = below.rpartition(b"/")[2]
            if rules is not None:
                wanted = _wanted(rules, name, is_dir=True)
                rules = rules.enter(name).extend(self._at.get(below, ())) if wanted else None
            self._known[below] = rules
        return rules


def _wanted(rules: Rules, name: bytes, *, is_dir: bool) -> bool:
    return not rules.ignored(name, is_dir) and not (is_dir and rules.default_excluded(name))


def read_regular(name: bytes, directory: int, most: int) -> bytes | None:
    """The first `most` bytes of a rule file; None when it is no regular file (git follows no link to one either)."""
    try:
        fd = os.open(name, fsio.READ_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):
            return None
        raise
    try:
        return fsio.read_fd(fd, most) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


class ScanOptions(NamedTuple):
    """What decides a scan besides the tree itself.

    `outside`: rule files that lie outside the tree. `unstored`: further ones, whose bytes must not get into the store. `excluded`:
    (device, inode) of directories that are never entered (stores). `max_file_size` in bytes. `as_of`: the time of the event
    (nanoseconds since 1970; 0 = now); a file that changed after it is late. `processes`: the most that look at once.
    `faults`: settings and rules for the whole tree that could not be read. `rules_lost`: the project's own rules are among these, and
    the rules that the newest checkpoint recorded stay in force.
    """

    outside: tuple[RuleFile, ...] = ()
    ignore_case: bool = False
    default_excludes: bool = True
    max_file_size: int = 1 << 30
    excluded: frozenset[tuple[int, int]] = frozenset()
    as_of: int = 0
    processes: int = 1
    faults: tuple[Skip, ...] = ()
    rules_lost: bool = False
    unstored: tuple[RuleFile, ...] = ()

    def rules(self, outside: tuple[RuleFile, ...] = ()) -> Rules:
        """The rules at the root, before the rule files of the tree. `outside` are the rule files in force from outside the tree."""
        return Rules.top(
            outside, ignore_case=self.ignore_case, default_excludes=self.default_excludes, max_file_size=self.max_file_size
        )
