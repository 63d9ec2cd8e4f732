"""What a path may be: one validator for the scan, the tree codec and the restore.

The danger prevented here: a manifest (hostile, damaged, or made on another file system) that makes a restore write
outside the root or into version control's own directories. A path is relative, made of bytes, split by "/"; no
component is empty, "." or "..", none holds a NUL, and none is a spelling that some file system takes for `.git`,
`.hg`, `.jj` or `.svn`: HFS+ drops ignorable code points, NTFS drops trailing dots and spaces, cuts at a colon and knows
`GIT~1` (and likewise the others), and both fold case.
"""

import unicodedata
from collections.abc import Iterable

from .. import errors

MAX_NAME = 255
"""Longest component in bytes, as on every file system that casrewind meets."""
MAX_DEPTH = 2048
"""Most components of a path."""

_VCS = frozenset({".git", ".hg", ".jj", ".svn"})
_SHORT_NAMES = frozenset({"git~1", "hg~1", "jj~1", "svn~1"})
# Code points that HFS+ leaves out when it compares names.
_IGNORED_POINTS = frozenset([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_IGNORED = dict.fromkeys(_IGNORED_POINTS)


def is_protected(name: bytes) -> bool:
    """True when some file system takes `name` for a directory that version control keeps for itself."""
    if name[:1] == b"." and name in (b".git", b".hg", b".jj", b".svn"):
        return True
    if name.isascii() and b"~" not in name and not name.startswith(b"."):
        return False  # nearly every name: none of the aliases is possible
    text = name.decode("utf-8", "surrogateescape").translate(_IGNORED)
    text = text.split(":", 1)[0].rstrip(". ")
    folded = unicodedata.normalize("NFD", text).casefold()
    return folded in _VCS or folded in _SHORT_NAMES


def why_bad_name(name: bytes) -> str | None:
    """Why `name` may not be one component of a path, or None when it may."""
    if not name:
        return "an empty component"
    if name in (b".", b".."):
        return "a '.' or '..' component"
    if b"/" in name or b"\0" in name:
        return "a slash or NUL inside a component"
    if len(name) > MAX_NAME:
        return f"a component of more than {MAX_NAME} bytes"
    if is_protected(name):
        return "a name that version control keeps for itself"
    return None


def check(path: bytes) -> bytes:
    """Return `path` when it is valid; raise UnsafePath otherwise."""
    if path.startswith(b"/"):
        raise errors.UnsafePath(f"refused path {display(path)!r}: it is absolute")
    parts = path.split(b"/")
    if len(parts) > MAX_DEPTH:
        raise errors.UnsafePath(f"refused path {display(path[:80])!r}...: more than {MAX_DEPTH} levels")
    for part in parts:
        why = why_bad_name(part)
        if why is not None:
            raise errors.UnsafePath(f"refused path {display(path)!r}: it has {why}")
    return path


def join(parent: bytes, name: bytes) -> bytes:
    """The path of `name` inside `parent` (b"" is the root)."""
    return parent + b"/" + name if parent else name


def parents(path: bytes) -> list[bytes]:
    """The directories above `path`, the outermost first, the root left out."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


class Places:
    """Some paths that were asked for (none = everything), made for being asked about many others."""

    __slots__ = ("_places",)

    def __init__(self, places: Iterable[bytes]) -> None:
        """b"" is the root."""
        self._places = frozenset(places)

    def cover(self, path: bytes) -> bool:
        """True when `path` is one of the places or lies under one."""
        if not self._places or path in self._places or b"" in self._places:
            return True
        return any(above in self._places for above in parents(path))

    def missed(self, found: Iterable[bytes]) -> list[bytes]:
        """The places that none of the paths `found` is at or under."""
        if not self._places:
            return []
        met = {place for path in found for place in (path, *parents(path)) if place in self._places}
        return sorted(self._places - met - {b""})


def scope(given: Iterable[object]) -> tuple[bytes, ...]:
    """The paths that a program asked for, none of them wrong; b"" is the root.

    One path alone is a mistake that would be taken for many, and text never equals a path. Raises TypeError for these,
    UnsafePath for what cannot be a path below the root.
    """
    places = tuple(given)
    checked = tuple(place and check(place) for place in places if isinstance(place, bytes))
    if isinstance(given, bytes | str) or len(checked) != len(places):
        raise TypeError(f"paths are a sequence of bytes, as in [b'src/a.py'], not {given!r}; Workspace.scope makes them of text")
    return checked


def fold(path: bytes) -> str:
    """The key under which a file system that folds case and normalisation sees `path`."""
    return unicodedata.normalize("NFD", path.decode("utf-8", "surrogateescape")).casefold()


def display(path: bytes) -> str:
    """A path as text, lossy where it is not UTF-8."""
    return path.decode("utf-8", "replace")
