"""Path rules: one validator for the scan, the tree codec and the restore.

The danger prevented here: a restore writes outside the root or into version control's directories. Its manifest may
be hostile, damaged, or from another file system. A path is relative, made of bytes, split by "/". No component is
empty, "." or "..", or contains a NUL. No component is an alias of `.git`, `.hg`, `.jj` or `.svn` on some file system,
or of the directory that holds the id of a directory that restore --to wrote.

Each of these file systems has aliases:

- HFS+ and ext4 with casefold drop ignorable code points.
- NTFS drops trailing dots and spaces, cuts at a colon and has short names such as `GIT~1`.
- Windows splits at a backslash.
- ZFS can fold compatibility forms (fullwidth letters).
- All of these fold case; ZFS compares capitals (a dotless i is an I).
"""

from collections.abc import Iterable
from functools import lru_cache

from .. import errors

MAX_NAME = 255
"""Longest component in bytes, on every supported file system."""
MAX_DEPTH = 2048
"""Maximum components of a path."""

ORIGIN = b".casrewind-origin"
"""Holds the id of a directory that restore --to wrote, on a file system without attributes (worktree/origin_id.py)."""
KEPT_NAMES = frozenset((b".git", b".hg", b".jj", b".svn", ORIGIN))
"""The protected names as they are written. A scan leaves them out and does not name them."""
_KEPT = frozenset(name.decode() for name in KEPT_NAMES)
_SHORT_NAMES = frozenset({"git~1", "hg~1", "jj~1", "svn~1"})
# Code points that file systems ignore when they compare names: Unicode's Default_Ignorable_Code_Point, as in ext4,
# including those of HFS+. The last 4,096 fill a block of their own and are handled separately.
_IGNORED_RANGES = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
)  # fmt: skip
_IGNORED = {point: None for first, last in _IGNORED_RANGES for point in range(first, last + 1)}
_FIRST_TAG, _LAST_TAG = chr(0xE0000), chr(0xE0FFF)
_REMEMBERED = 4096  # cached verdicts: the same names recur


@lru_cache(maxsize=_REMEMBERED)
def is_protected(name: bytes) -> bool:
    """True if some file system treats `name` as a private directory of version control, or as casrewind's own."""
    if name in KEPT_NAMES:
        return True
    if name.isascii() and b"~" not in name and b"\\" not in name and not name.startswith(b"."):
        return False  # nearly every name: no alias is possible
    text = name.decode("utf-8", "surrogateescape").translate(_IGNORED)
    if not text.isascii():
        import unicodedata

        text = "".join(c for c in text if not _FIRST_TAG <= c <= _LAST_TAG)
        text = unicodedata.normalize("NFKD", text).upper()
    for part in text.casefold().split("\\"):
        bare = part.split(":", 1)[0].rstrip(". ")
        if bare in _KEPT or bare in _SHORT_NAMES:
            return True
    return False


@lru_cache(maxsize=_REMEMBERED)
def why_bad_name(name: bytes) -> str | None:
    """The reason why `name` may not be a component of a path, or None if it may."""
    if not name:
        return "an empty component"
    if name in (b".", b".."):
        return "a '.' or '..' component"
    if b"/" in name or b"\0" in name:
        return "a slash or NUL inside a component"
    if len(name) > MAX_NAME:
        return f"a component of more than {MAX_NAME} bytes"
    if is_protected(name):
        return "a name that version control or casrewind keeps for itself"
    return None


def check_path(path: bytes) -> bytes:
    """Return `path` if it is valid. Raises UnsafePath."""
    if path.startswith(b"/"):
        raise errors.UnsafePath(f"refused path {lossy_text(path)!r}: it is absolute")
    parts = path.split(b"/")
    if len(parts) > MAX_DEPTH:
        raise errors.UnsafePath(f"refused path {lossy_text(path[:80])!r}...: more than {MAX_DEPTH} levels")
    for part in parts:
        why = why_bad_name(part)
        if why is not None:
            raise errors.UnsafePath(f"refused path {lossy_text(path)!r}: it has {why}")
    return path


def join(parent: bytes, name: bytes) -> bytes:
    """The path of `name` inside `parent` (b"" is the root)."""
    return parent + b"/" + name if parent else name


def parents(path: bytes) -> list[bytes]:
    """The directories above `path`, outermost first, without the root."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


class PathScope:
    """A set of paths that limits an operation (empty = everything), with fast tests for other paths."""

    __slots__ = ("_paths",)

    def __init__(self, chosen: Iterable[bytes]) -> None:
        """b"" is the root."""
        self._paths = frozenset(chosen)

    def covers(self, path: bytes) -> bool:
        """True if `path` is in the set or below a path of the set."""
        if not self._paths or path in self._paths or b"" in self._paths:
            return True
        return any(above in self._paths for above in parents(path))

    def paths_without_any(self, found: Iterable[bytes]) -> list[bytes]:
        """The paths of the set without any path of `found` at or below them."""
        if not self._paths:
            return []
        met = {above for path in found for above in (path, *parents(path)) if above in self._paths}
        return sorted(self._paths - met - {b""})


def check_scope(given: Iterable[object]) -> tuple[bytes, ...]:
    """Validate the paths that a program passed; b"" is the root. Raises TypeError for text, which never equals a
    path, and for a single path, which would be read as a sequence. Raises UnsafePath for a path that cannot be below
    the root."""
    listed = tuple(given)
    checked = tuple(path and check_path(path) for path in listed if isinstance(path, bytes))
    if isinstance(given, bytes | str) or len(checked) != len(listed):
        raise TypeError(f"paths are a sequence of bytes, as in [b'src/a.py'], not {given!r}; Workspace.scope converts text")
    return checked


def case_folded_key(path: bytes) -> str:
    """The key of `path` on a file system that folds case and normalisation."""
    if path.isascii():
        return path.decode().lower()
    import unicodedata

    return unicodedata.normalize("NFD", path.decode("utf-8", "surrogateescape")).casefold()


def lossy_text(path: bytes) -> str:
    """A path as text, lossy if it is not UTF-8."""
    return path.decode("utf-8", "replace")
