"""Decides which names in the worktree are ignored, exactly as git does.

The danger has two sides. A name wrongly ignored is not saved and cannot be restored. A name wrongly captured fills the
store with build output, and a later restore may delete it. So the meaning of a rule equals git's to the byte, and tests
compare with git.

The first source with a matching rule decides, in the order of `SOURCES`; of files with one name, the one in the deepest
directory. Within a file the last matching rule decides. An ignored directory is never entered, so no rule can re-include
a path below it.

Each rule becomes a regular expression with git's meaning, which does not backtrack. A few paths are tried rule by rule.
Rules that are asked about many paths are held by the library pathspec: with google-re2, all of them match at once in
linear time. Without it, pathspec tries them rule by rule, too: same verdicts, slower. Many plain rules (`name`, `a/path`,
`*.ext`) are looked up in sets. Importing pathspec costs more than a save, so only the first rules that are asked often do it.

Strangers write rule files. So each has a weight, which is what it costs to compile, and a project has a limit for it.

Line parsing also follows git to the byte and never raises: line ends, trailing spaces, a lone `!`, stray carriage
returns.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import pack

from .. import config, fsio
from .._typing import TYPE_CHECKING, NamedTuple
from ..model import digest as digests
from ..model import domain as domains

if TYPE_CHECKING:
    from .compiled_rules import Chunk

MOST_BYTES = 8 << 20
"""Size limit of a rule file in bytes. A longer file counts as unreadable: a project may contain one of 3 GB."""
MOST_WEIGHT = 10_000_000
"""Limit for the weight (`compiling_cost_of`) of all rule files of a project. A file beyond it counts as unreadable. Compiling so
much takes a second or two, and less than 200 MB."""
_WEIGHT_OF_A_RULE = 150
_WEIGHT_OF_A_BYTE = 80  # of a rule that becomes a regular expression
LONGEST_RULE = 4096
"""Length limit of a rule in bytes. No path is longer."""



class RuleSource(NamedTuple):
    """A kind of rule file."""

    name: str
    """Its name in the records of checkpoints: it never changes."""
    shown: bytes
    """The name of the file in its directory, or what output calls a file outside of the tree."""
    bit: int = 0
    """For a file that any directory may have: its bit in the records of the stat index. Nothing else has that bit there: 4 to 64
    are taken (`worktree/scan_directory.py`). 0 for all other files."""
    stops_built_in: bool = False
    """Below such a file, neither the built-in excludes nor cache tags count: its rules say what to keep."""
    is_of_git: bool = False
    """git reads it, too: what it ignores, git ignores."""
    is_named_by_git: bool = False
    """Git's directory has it, or git's configuration says where it is."""
    protects: bool = False
    """Its rules with `!` protect what git ignores. The plan of a restore that removes one says so."""


SOURCES = {
    source.name: source
    for source in (
        RuleSource("private", domains.PRIVATE_NAME),
        RuleSource("casrewindignore", b".casrewindignore", bit=2, protects=True),
        RuleSource("project", config.PROJECT_FILE.encode()),
        RuleSource("gitignore", b".gitignore", bit=1, stops_built_in=True, is_of_git=True),
        RuleSource("exclude", domains.EXCLUDE_NAME, is_of_git=True, is_named_by_git=True),
        RuleSource("global", domains.GLOBAL_NAME, is_of_git=True, is_named_by_git=True),
    )
}
"""Every kind of rule file that this casrewind knows, by name. The first one with a matching rule decides. All that is
known about a kind stands here; the rest of casrewind asks this table."""
SHARED_FILE = SOURCES["casrewindignore"].shown
"""The file in the project's root that `include --shared` changes."""
RULE_FILES = {source.shown: source for source in reversed(SOURCES.values()) if source.bit}
"""The rule files that any directory may have, by file name."""

DEFAULT_EXCLUDED_NAMES = frozenset(
    b"node_modules bower_components .venv __pycache__ __pypackages__ .mypy_cache .pytest_cache .ruff_cache .tox .nox"
    b" .eggs .pixi .gradle .dart_tool .parcel-cache .turbo .next .nuxt .svelte-kit"
    b" .Spotlight-V100 .Trashes .fseventsd".split()
)
"""Directories that tools regenerate. Not venv, build, dist and target: people keep sources under these names. The last three are
those that macOS makes in the root of a disk."""


def is_made_by_finder(name: bytes) -> bool:
    """True for the name of a file that Finder makes beside others: how it shows a directory, and on a disk without attributes
    those of each file. Finder's files come along in archives and shared directories, so this holds on every system."""
    return name == b".DS_Store" or name[:2] == b"._"


_SPECIAL = b"*?[\\"
_BOM = b"\xef\xbb\xbf"
_RANK = {name: rank for rank, name in enumerate(SOURCES)}


def raw_lines(data: bytes) -> Iterator[bytes]:
    """The lines of a rule file that contain a rule, as input for `RuleLine.parse`."""
    for line in data.removeprefix(_BOM).split(b"\n"):
        if not line or line[:1] == b"#":
            continue
        text = line[:-1] if line[-1:] == b"\r" else line
        end = text.find(b"\0")  # for git, a zero byte ends the line
        text = text if end < 0 else text[:end]
        # Trailing spaces are dropped, but never tabs. Backslashes escape each other in pairs; a remaining backslash
        # escapes the space after it.
        bare = text.rstrip(b" ")
        backslashes = len(bare) - len(bare.rstrip(b"\\"))
        if text := text[: len(bare) + backslashes % 2]:
            yield text


class RuleFile(NamedTuple):
    """The content of one rule file."""

    base: bytes  # the directory that the rules are relative to, itself relative to the root; b"" is the root
    source: str  # a name in SOURCES
    data: bytes


def compiling_cost_of(data: bytes) -> int:
    """The cost of compiling a rule file: its bytes, an amount for each rule, and one for each byte of an expression."""
    weight = len(data) + _WEIGHT_OF_A_RULE * (data.count(b"\n") + 1)
    if weight > MOST_WEIGHT or len(data.translate(None, _SPECIAL)) == len(data):
        return weight
    for raw in raw_lines(data):
        text = raw[1:] if raw[:1] == b"!" else raw
        plain = text[1:] if text[:1] == b"*" and b"/" not in text[:-1] else text  # as RuleLine.can_be_looked_up
        if len(plain.translate(None, _SPECIAL)) < len(plain):
            weight += _WEIGHT_OF_A_BYTE * len(raw)
    return weight


def why_refused(data: bytes, weight: int) -> str:
    """Why a rule file is refused, if rules of this weight are already in force; "" if it is accepted."""
    if len(data) > MOST_BYTES:
        return f"more than {MOST_BYTES >> 20} MiB"
    if weight + compiling_cost_of(data) > MOST_WEIGHT:
        return "too many ignore rules"
    if len(data) > LONGEST_RULE and any(len(raw) > LONGEST_RULE for raw in raw_lines(data)):
        return f"a rule of more than {LONGEST_RULE >> 10} KiB"
    return ""


def name_for_output(source: str) -> bytes:
    """What output calls a rule file of this source; for a source that this casrewind does not know, its name."""
    return SOURCES[source].shown if source in SOURCES else source.encode("utf-8", "surrogateescape")


def can_protect_ignored_paths(path: bytes) -> bool:
    """True if a path is one of a rule file whose rules protect what git ignores."""
    name = path.rpartition(b"/")[2]
    return name in RULE_FILES and RULE_FILES[name].protects


class _CompiledFile:
    """One rule file, compiled on first use and shared by all directories below it."""

    __slots__ = ("_chunks", "_fold", "_known", "file")

    def __init__(self, file: RuleFile, known: "dict[bytes, list[Chunk] | None]", *, fold: bool) -> None:
        """`known`: the compiled files of the project. Many directories may have equal ones."""
        self.file, self._known, self._fold = file, known, fold
        self._chunks: list[Chunk] | None = None

    def verdict(self, path: str, *, is_dir: bool) -> bool | None:
        """True if the last matching rule ignores the path, False if it re-includes it, None without a match. `path` is
        relative to the rule file, and already case-folded if required."""
        if self._chunks is None:
            self._chunks = self._compiled()
        for chunk in self._chunks:
            for group in chunk.groups(is_dir=is_dir):
                found = group.verdict(path)
                if found is not None:
                    return found
        return None

    def _compiled(self) -> "list[Chunk]":
        """The rules of the file. They are kept for equal files from their second use on."""
        from .compiled_rules import compile_in_chunks

        data = self.file.data
        found = self._known.get(data)
        if found is None:
            found = compile_in_chunks(raw_lines(data), fold=self._fold)
            self._known[data] = found if data in self._known else None
        return found


class DecidingRule(NamedTuple):
    """The rule that decides about a name: its file, its line number (from 1), its text, and its verdict."""

    file: RuleFile
    line: int
    text: bytes
    ignored: bool


class _DirectoryScope(NamedTuple):
    """The rules in force in a directory, independent of its path, so that child directories can share it."""

    digest: bytes
    ignore_case: bool
    default_excludes: bool
    known: "dict[bytes, list[Chunk] | None]"
    compiled: tuple[_CompiledFile, ...] = ()  # nearest first
    trivial: bool = True
    built_in_stopped: bool = False


class Rules:
    """The rules in force in one directory. Immutable; the results of `extend` and `enter` share compiled files."""

    __slots__ = ("_layers", "_scope", "digest", "path", "trivial")

    path: bytes
    """This directory, relative to the root; b"" is the root."""
    digest: bytes
    """BLAKE3 of all inputs of a verdict. Equal digest and equal path mean equal verdicts."""
    trivial: bool
    """No rule is in force: nothing is ignored here."""

    def __init__(self, path: bytes, scope: _DirectoryScope) -> None:
        """Private: use `top`."""
        self.path = path
        self.digest = scope.digest
        self.trivial = scope.trivial
        self._scope = scope
        self._layers: list[tuple[_CompiledFile, str]] | None = None

    @classmethod
    def top(
        cls, outside: Sequence[RuleFile] = (), *, ignore_case: bool = False, default_excludes: bool = False, max_file_size: int = 0
    ) -> "Rules":
        """The rules at the root, before its own rule files. `max_file_size` (bytes) is part of the digest for scan
        records."""
        seed = digests.of(b"casrewind rules 3 %d %d %d" % (ignore_case, default_excludes, max_file_size))
        return cls(b"", _DirectoryScope(seed, ignore_case, default_excludes, {})).extend(outside)

    def extend(self, files: Sequence[RuleFile]) -> "Rules":
        """These rules plus the rule files of this directory."""
        if not files:
            return self
        scope = self._scope
        for file in sorted(files, key=lambda file: -_RANK[file.source]):
            if file.base != self.path:
                raise ValueError(f"a rule file of {file.base!r} has no place in {self.path!r}")
            source = file.source.encode()
            sizes = pack("<3Q", len(file.base), len(source), len(file.data))
            scope = scope._replace(
                digest=digests.of(scope.digest + sizes + file.base + source + file.data),
                compiled=(_CompiledFile(file, scope.known, fold=scope.ignore_case), *scope.compiled),
                trivial=scope.trivial and next(raw_lines(file.data), None) is None,
                built_in_stopped=scope.built_in_stopped or SOURCES[file.source].stops_built_in,
            )
        return Rules(self.path, scope)

    def enter(self, name: bytes) -> "Rules":
        """The rules for the child directory `name`, without its own rule files."""
        return Rules(self.path + b"/" + name if self.path else name, self._scope)

    def at(self, path: bytes) -> "Rules":
        """The same rules for another directory, which must be below the directories of all rule files."""
        return Rules(path, self._scope)

    @property
    def built_in_stopped(self) -> bool:
        """True if neither the built-in excludes nor cache tags count here."""
        return self._scope.built_in_stopped


    def ignored(self, name: bytes, is_dir: bool) -> bool:  # noqa: FBT001
        """True if the entry `name` directly inside this directory is ignored. A link is not a directory."""
        return not self.trivial and self._is_ignored_by_rules(name, is_dir=is_dir) is True

    def default_excluded(self, name: bytes, *, is_dir: bool = True) -> bool:
        """True if `name` is excluded by default. Never against a re-including rule."""
        scope = self._scope
        is_listed = name in DEFAULT_EXCLUDED_NAMES if is_dir else is_made_by_finder(name)
        if not is_listed or not scope.default_excludes or scope.built_in_stopped:
            return False
        return self.trivial or self._is_ignored_by_rules(name, is_dir=is_dir) is not False

    def _is_ignored_by_rules(self, name: bytes, *, is_dir: bool) -> bool | None:
        """True if ignored, False if re-included, None if no rule matches."""
        if self._layers is None:
            self._layers = self._files_from_deciding_one()
        text = (name.lower() if self._scope.ignore_case else name).decode("latin-1")
        for compiled, directory in self._layers:
            found = compiled.verdict(directory + text, is_dir=is_dir)
            if found is not None:
                return found
        return None

    def deciding_rule(self, name: bytes, *, is_dir: bool) -> DecidingRule | None:
        """The rule that decides about `name`, or None if no rule matches. Slow: it compiles rules one by one."""
        from .compiled_rules import RuleLine, rule_matches

        if self._layers is None:
            self._layers = self._files_from_deciding_one()
        fold = self._scope.ignore_case
        text = (name.lower() if fold else name).decode("latin-1")
        for compiled, directory in self._layers:
            if compiled.verdict(directory + text, is_dir=is_dir) is None:
                continue
            lines = enumerate(compiled.file.data.removeprefix(_BOM).split(b"\n"), 1)
            for number, raw in reversed([(number, raw) for number, text in lines for raw in raw_lines(text)]):
                line = RuleLine.parse(raw)
                if line.directory and not is_dir:
                    continue
                if rule_matches(line, directory + text, fold=fold):
                    return DecidingRule(compiled.file, number, raw, not line.negated)
        return None

    def _files_from_deciding_one(self) -> "list[tuple[_CompiledFile, str]]":
        """Returns (rule file, this directory relative to it), the deciding file first."""
        layers = []
        for compiled in sorted(self._scope.compiled, key=lambda compiled: _RANK[compiled.file.source]):
            base = compiled.file.base
            directory = self.path[len(base) + 1 :] if base else self.path
            directory = directory.lower() if self._scope.ignore_case else directory
            layers.append((compiled, directory.decode("latin-1") + "/" if directory else ""))
        return layers


class RuleSet:
    """The rule files of a checkpoint, for verdicts on paths that need not exist."""

    def __init__(self, files: Sequence[RuleFile], *, ignore_case: bool = False, default_excludes: bool = False) -> None:
        """`files` may be in any order; each applies from its `base` down."""
        self._at: dict[bytes, list[RuleFile]] = {}
        for file in files:
            self._at.setdefault(file.base, []).append(file)
        top = Rules.top(self._at.get(b"", ()), ignore_case=ignore_case, default_excludes=default_excludes)
        self._known: dict[bytes, Rules | None] = {b"": top}

    def captured(self, path: bytes, is_dir: bool) -> bool:  # noqa: FBT001
        """True if a scan with these rules would have captured `path`."""
        if not path:
            return True
        parent, _, name = path.rpartition(b"/")
        rules = self._enter(parent)
        return rules is not None and is_captured(rules, name, is_dir=is_dir)

    def _enter(self, directory: bytes) -> Rules | None:
        """The rules in force in `directory`; None if a scan would not enter it."""
        pending = []
        while directory not in self._known:
            pending.append(directory)
            directory = directory.rpartition(b"/")[0]
        rules = self._known[directory]
        for below in reversed(pending):
            name = below.rpartition(b"/")[2]
            if rules is not None:
                wanted = is_captured(rules, name, is_dir=True)
                rules = rules.enter(name).extend(self._at.get(below, ())) if wanted else None
            self._known[below] = rules
        return rules


def is_captured(rules: Rules, name: bytes, *, is_dir: bool) -> bool:
    """True if these rules, and the built-in excludes, let a scan capture the entry `name` of their directory."""
    return not rules.ignored(name, is_dir) and not rules.default_excluded(name, is_dir=is_dir)


def read_beginning_if_regular_file(name: bytes, directory: int, most: int) -> bytes | None:
    """The first `most` bytes of a rule file; None if it is not a regular file. Like git, follows no link. Raises OSError,
    NotOnDisk if only a cloud has it."""
    try:
        fd = fsio.open_on_disk(name, directory=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):
            return None
        raise
    with fsio.closing(fd):
        return fsio.read_fd(fd, most) if stat.S_ISREG(os.fstat(fd).st_mode) else None


Accepted = Callable[[bytes, str], bytes | None]
"""For (base, source): the bytes of the rule file that the newest checkpoint recorded, or None."""
LoadAccepted = Callable[[], Accepted]


class ChosenRules(NamedTuple):
    """The rules that a scan uses for one rule file. `file`: None = none. `why`: why its own bytes are not used, or "".
    `weight`: what they add to the weight of all rules."""

    file: RuleFile | None
    why: str
    weight: int = 0


class RuleChooser:
    """Decides for one walk over a project which rule files count. Equal files are weighed once."""

    def __init__(self, outside: Sequence[RuleFile] = (), load: LoadAccepted | None = None) -> None:
        """The rules `outside` of the tree are accepted already. `load` loads the rules that the newest checkpoint
        recorded."""
        self._load = load
        self._accepted: Accepted | None = None
        self._outside = {(file.base, file.source) for file in outside}
        self._known = {digests.of(file.data) for file in outside}
        self._weight = sum(compiling_cost_of(file.data) for file in outside)

    def accept_or_replace(self, file: RuleFile) -> ChosenRules:
        """The file itself, or what replaces it."""
        digest = digests.of(file.data)
        is_known = digest in self._known
        why = why_refused(file.data, 0 if is_known else self._weight)
        if why:
            return self.replacement_for(file.base, file.source, why)
        weight = 0 if is_known else compiling_cost_of(file.data)
        self._known.add(digest)
        self._weight += weight
        return ChosenRules(file, "", weight)

    def has_stand_in(self, base: bytes, source: str) -> bool:
        """True if rules from outside of the tree stand for this file: for verdicts on what a change of it would do."""
        return (base, source) in self._outside

    def replacement_for(self, base: bytes, source: str, why: str) -> ChosenRules:
        """What replaces a rule file that cannot be used: the rules that the newest checkpoint recorded, or nothing."""
        if self._accepted is None and self._load is not None:
            self._accepted = self._load()
        data = None if self._accepted is None else self._accepted(base, source)
        if data is None or why_refused(data, 0):
            return ChosenRules(None, why)
        why = f"{why}; the rules of the newest checkpoint count" if why else ""
        weight = 0 if (digest := digests.of(data)) in self._known else compiling_cost_of(data)
        self.count_rules_of_unwalked_subtree(weight, (digest,))
        return ChosenRules(RuleFile(base, source, data), why, weight)

    def count_rules_of_unwalked_subtree(self, weight: int, digests: Iterable[bytes]) -> None:
        """Count the rule files of a subtree that is not walked."""
        self._weight += weight
        self._known.update(digests)
