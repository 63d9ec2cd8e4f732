"""A change as a patch that a person reads (and `git apply` or `patch -p1` takes, for text)."""

import difflib
import itertools
import re
from collections.abc import Iterator

from ..model import manifest
from ..model.diff import Change
from ..model.manifest import Entry
from ..ops.compare import Comparison

_MAX_LINES = 20_000
_MAX_BYTES = 4 << 20
_TYPE = {manifest.FILE: 0o100000, manifest.LINK: 0o120000}


def lines(found: Comparison, change: Change) -> Iterator[bytes]:
    """The patch of one change, line by line, without line ends: bytes, because content and names need not be text."""
    old, new = _content_side(change.old), _content_side(change.new)
    if old is not None and new is not None and old.kind != new.kind:  # git applies this as a removal and an addition
        yield from lines(found, change._replace(new=None))
        yield from lines(found, change._replace(old=None))
        return
    left_name, right_name = _quoted(b"a/" + change.path), _quoted(b"b/" + change.path)
    if old is None and new is None:
        yield b"diff --casrewind " + left_name + b" " + right_name
        purged = any(entry is not None and entry.kind == manifest.PURGED for entry in (change.old, change.new))
        what = "purged" if purged else "directory"
        yield f"{what} {change.status}: {_mode(change.old)} -> {_mode(change.new)}".encode()
        return
    yield b"diff --git " + left_name + b" " + right_name
    yield from _modes(old, new)
    before = _bytes(found, change, old, of_new=False)
    after = _bytes(found, change, new, of_new=True)
    if before == after and before is not None:
        return
    left_name, right_name = left_name if old else b"/dev/null", right_name if new else b"/dev/null"
    if before is None or after is None or _is_binary(before) or _is_binary(after):
        yield b"Binary files " + left_name + b" and " + right_name + b" differ"
        return
    left, right = _split(before), _split(after)
    if len(left) + len(right) > _MAX_LINES:
        yield right_name + f": {len(left)} lines became {len(right)} lines; too many to show".encode()
        return
    yield from _unified(left, right, left_name, right_name)


def _quoted(name: bytes) -> bytes:
    """A name as git writes it: in double quotes, with octal escapes, when it holds anything but plain characters."""
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in name):
        return name
    return b'"' + b"".join(bytes((c,)) if 0x20 <= c < 0x7F and c not in b'"\\' else b"\\%03o" % c for c in name) + b'"'


def _content_side(entry: Entry | None) -> Entry | None:
    return entry if entry is not None and entry.kind in _TYPE else None


def _mode(entry: Entry | None) -> str:
    return "absent" if entry is None else f"{entry.kind} {entry.mode & 0o777:04o}"


def _modes(old: Entry | None, new: Entry | None) -> Iterator[bytes]:
    if old is None and new is not None:
        yield b"new file mode " + _octal(new)
    elif new is None and old is not None:
        yield b"deleted file mode " + _octal(old)
    elif old is not None and new is not None and _octal(old) != _octal(new):
        yield b"old mode " + _octal(old)
        yield b"new mode " + _octal(new)


def _octal(entry: Entry) -> bytes:
    return b"%06o" % (_TYPE[entry.kind] | (entry.mode & 0o777 if entry.kind == manifest.FILE else 0))


def _bytes(found: Comparison, change: Change, entry: Entry | None, *, of_new: bool) -> bytes | None:
    if entry is None:
        return b""
    if entry.kind == manifest.LINK:
        return entry.target
    if entry.size > _MAX_BYTES:
        return None
    return (found.new if of_new else found.old)(change.path, entry)


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:8000]


def _split(data: bytes) -> list[str]:
    # only \n ends a line: splitlines knows more ends, and a patch made with them applies to nothing
    return [line.decode("latin-1") for line in re.findall(rb"[^\n]*\n|[^\n]+", data)]


def _unified(left: list[str], right: list[str], old_name: bytes, new_name: bytes) -> Iterator[bytes]:
    names = (name + b"\t" if b" " in name else name for name in (old_name, new_name))  # patch ends a name at a space
    for sign, name in zip((b"--- ", b"+++ "), names, strict=True):
        yield sign + name
    hunks = difflib.unified_diff(left, right)
    for line in itertools.islice(hunks, 2, None):
        body = line.removesuffix("\n")
        yield body.encode("latin-1")
        if body == line:
            yield b"\\ No newline at end of file"
