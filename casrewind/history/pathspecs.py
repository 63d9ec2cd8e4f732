"""Resolves path arguments of commands: git pathspecs become the paths that they match.

The danger prevented here: a pattern read as a name. Then `diff` finds no difference and `restore` restores nothing. The
opposite is as bad: a name such as `app/[id]/page.tsx` read as a pattern restores other files. So if a path of exactly
that name exists in a checkpoint or the worktree, the word means only this path. Otherwise it is a pattern.

As in git, a path covers everything below it and `*` matches slashes. These prefixes are supported: `:(glob)`,
`:(literal)`, `:(icase)`, `:(exclude)` or `:!`, `:(top)` or `:/`. Source: gitglossary(7), "pathspec".
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..gitignore.wildmatch import PYTHON, expression, literal_length, parse_pattern
from ..messages import printable
from ..model import diff as diffs
from ..model import manifest, paths
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, Entry, Loader
from ..worktree import root as roots
from ..worktree.reader import EMPTY_TREE
from .compare import is_anywhere, scan_worktree

_MAGIC = frozenset(("top", "literal", "icase", "glob", "exclude"))
_PATTERNS = frozenset(("glob", "icase"))  # magic that makes every word a pattern
_SHORT = {"/": "top", "!": "exclude", "^": "exclude"}


class _Pathspec(NamedTuple):
    """One argument. `path` is relative to the root; its first `plain` bytes are the current directory. `ends_open`: the
    word ended in a slash."""

    path: bytes
    plain: int
    ends_open: bool
    magic: frozenset[str]

    @property
    def is_pattern(self) -> bool:
        return "literal" not in self.magic and self.plain + literal_length(self.path[self.plain :]) < len(self.path)


def resolve_words(
    context: Context, points: Iterable[Checkpoint], words: Sequence[str], start: str, *, worktree: bool = True
) -> tuple[bytes, ...]:
    """The paths below the root that `words` match in the checkpoints `points` (and, with `worktree`, in the worktree),
    sorted.

    Relative words start at the directory `start`. A word without a match is returned unchanged, so that the command can
    report it. Raises UnsafePath for a path outside the root, UsageError for unknown magic, PathNotFound if everything
    was excluded.
    """
    specs = [_path_with_colon(context, points, word, start) or _parse_pathspec(context.root.path, word, start) for word in words]
    wanted = [_literal_if_exists(context, points, spec) for spec in specs if "exclude" not in spec.magic]
    refused = [_make_matcher(spec) for spec in specs if "exclude" in spec.magic]
    if not refused and not any(spec.is_pattern or spec.magic & _PATTERNS for spec in wanted):
        return tuple(sorted({spec.path for spec in wanted}))
    if not wanted:
        (top,) = roots.paths_below_root(context.root.path, ["."], start)
        wanted = [_Pathspec(top, len(top), ends_open=False, magic=frozenset(("literal",)))]
    chosen = [_make_matcher(spec) for spec in wanted]
    found: set[bytes] = set()
    matched_specs: set[int] = set()
    for path in _all_paths(context, points, worktree=worktree):
        matched = [number for number, matches in enumerate(chosen) if matches(path)]
        matched_specs.update(matched)
        if matched and path not in found and not any(matches(path) for matches in refused):
            found.add(path)
    unmatched = {spec.path for number, spec in enumerate(wanted) if number not in matched_specs and spec.path}
    if not found and not unmatched:
        raise errors.PathNotFound(f"nothing is left of {' '.join(map(printable, words))}: what is not excluded matches no path")
    return tuple(sorted(found | unmatched))


def _literal_if_exists(context: Context, points: Iterable[Checkpoint], spec: _Pathspec) -> _Pathspec:
    """The same pathspec, made literal if a path of exactly this name exists and no magic asks for a pattern."""
    if spec.is_pattern and not spec.magic & _PATTERNS and is_anywhere(context, points, spec.path):
        return spec._replace(magic=spec.magic | {"literal"})
    return spec


def _path_with_colon(context: Context, points: Iterable[Checkpoint], word: str, start: str) -> _Pathspec | None:
    """The pathspec of a path that exists and has a name as magic words have it, such as `:(top)z`."""
    if not word.startswith(":"):
        return None
    try:
        (path,) = roots.paths_below_root(context.root.path, [word], start)
    except errors.UnsafePath:
        return None
    return _Pathspec(path, len(path), word.endswith("/"), frozenset(("literal",))) if is_anywhere(context, points, path) else None


def _parse_pathspec(root: str, word: str, start: str) -> _Pathspec:
    """Parse a word. Raises UnsafePath, UsageError."""
    magic, rest = _split_magic_words(word)
    start = root if "top" in magic else start
    ends_open = rest.endswith("/")
    if literal_length(os.fsencode(rest)) == len(os.fsencode(rest)) or "literal" in magic:
        (path,) = roots.paths_below_root(root, [rest or "."], start)
        return _Pathspec(path, len(path), ends_open, magic)
    (here,) = roots.paths_below_root(root, ["."], start)
    if os.path.isabs(rest):
        rest, here = os.path.relpath(rest, root), b""
    parts = here.split(b"/") if here else []
    depth = len(parts)
    for part in os.fsencode(rest).split(b"/"):
        if part == b".." and not parts:
            raise errors.UnsafePath(f"{printable(word)} lies outside the root {printable(root)}")
        if part == b"..":
            parts.pop()
            depth = min(depth, len(parts))
        elif part not in (b"", b"."):
            parts.append(part)
    path = b"/".join(parts)
    return _Pathspec(path and paths.check_path(path), len(b"/".join(parts[:depth])), ends_open, magic)


def _split_magic_words(word: str) -> tuple[frozenset[str], str]:
    """Returns (the magic words before a path, the path)."""
    if word.startswith(":("):
        names, closed, rest = word[2:].partition(")")
        found = frozenset(name for name in names.split(",") if name)
        if not closed or found - _MAGIC or found >= {"glob", "literal"}:
            known = ", ".join(sorted(_MAGIC))
            raise errors.UsageError(f"{printable(word)}: the words behind : are {known}, and glob and literal exclude each other")
        return found, rest
    if not word.startswith(":"):
        return frozenset(), word
    at = 1
    while word[at : at + 1] in _SHORT and at < len(word):
        at += 1
    rest = word[at + 1 :] if word[at : at + 1] == ":" else word[at:]
    if at == 1 and rest and rest == word[1:]:
        raise errors.UsageError(f"{printable(word)}: a path that begins with a colon is written :(literal){printable(word)}")
    return frozenset(_SHORT[character] for character in word[1:at]), rest


def _make_matcher(spec: _Pathspec) -> Callable[[bytes], bool]:
    import re

    fold = "icase" in spec.magic
    own = spec.path.lower() if fold else spec.path
    below = own + b"/" if own else b""
    compiled = None
    if spec.is_pattern and not spec.ends_open:
        glob = parse_pattern(own, fold=fold, literal=max(spec.plain, literal_length(own)), path_mode="glob" in spec.magic)
        compiled = re.compile(expression(glob, PYTHON))

    here = spec.path[: spec.plain] if spec.is_pattern else b""

    def matches(path: bytes) -> bool:
        if not path.startswith(here):  # the current directory is compared with case
            return False
        text = path.lower() if fold else path
        if text.startswith(below) or text == own:
            return True
        return compiled is not None and compiled.match(text.decode("latin-1")) is not None

    return matches


def _all_paths(context: Context, points: Iterable[Checkpoint], *, worktree: bool) -> Iterator[bytes]:
    """All files, links and empty directories of all sides. Paths may repeat."""
    load, before = context.store.load_tree, b""
    for point in points:
        if not before:
            yield from (path for path, entry in manifest.walk(load, point.tree) if _is_leaf(entry))
        elif point.tree != before:
            yield from _added_paths(load, before, point.tree)
        before = point.tree
    if worktree:
        now = scan_worktree(context)
        yield from _added_paths(now.load, before, now.tree)


def _added_paths(load: Loader, before: bytes, tree: bytes) -> Iterator[bytes]:
    """At least the paths of the second manifest that the first one lacks."""
    return (change.path for change in diffs.diff(load, before, tree) if change.new is not None and _is_leaf(change.new))


def _is_leaf(entry: Entry) -> bool:
    """True for what has nothing below it: a file, a link or an empty directory."""
    return entry.kind != DIR or entry.digest == EMPTY_TREE
