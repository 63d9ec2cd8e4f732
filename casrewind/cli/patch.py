"""A change as a patch that a person reads (and `git apply` or `patch -p1` takes, for text)."""

import difflib
import re
from collections.abc import Iterator

from ..model import manifest, paths
from ..model.diff import Change
from ..model.manifest import Entry
from ..ops.compare import Comparison

_MAX_LINES = 20_000
_MAX_BYTES = 4 << 20
_TYPE = {manifest.FILE: 0o100000, manifest.LINK: 0o120000}


def lines(found: Comparison, change: Change) -> Iterator[str]:
    """The patch of one change, line by line, without line ends."""
    name = paths.display(change.path)
    old, new = _content_side(change.old), _content_side(change.new)
    if old is None and new is None:
        yield f"diff --casrewind a/{name} b/{name}"
        yield f"directory {change.status}: {_mode(change.old)} -> {_mode(change.new)}"
        return
    yield f"diff --git a/{name} b/{name}"
    yield from _modes(old, new)
    before = _bytes(found, change, old, of_new=False)
    after = _bytes(found, change, new, of_new=True)
    if before == after and before is not None:
        return
    if before is None or after is None or _is_binary(before) or _is_binary(after):
        yield f"Binary files {f'a/{name}' if old else '/dev/null'} and {f'b/{name}' if new else '/dev/null'} differ"
        return
    left, right = _split(before), _split(after)
    if len(left) + len(right) > _MAX_LINES:
        yield f"{name}: {len(left)} lines became {len(right)} lines; too many to show"
        return
    yield from _unified(left, right, f"a/{name}" if old else "/dev/null", f"b/{name}" if new else "/dev/null")


def _content_side(entry: Entry | None) -> Entry | None:
    return entry if entry is not None and entry.kind in _TYPE else None


def _mode(entry: Entry | None) -> str:
    return "absent" if entry is None else f"{entry.kind} {entry.mode & 0o777:04o}"


def _modes(old: Entry | None, new: Entry | None) -> Iterator[str]:
    if old is None and new is not None:
        yield f"new file mode {_octal(new)}"
    elif new is None and old is not None:
        yield f"deleted file mode {_octal(old)}"
    elif old is not None and new is not None and _octal(old) != _octal(new):
        yield f"old mode {_octal(old)}"
        yield f"new mode {_octal(new)}"


def _octal(entry: Entry) -> str:
    return f"{_TYPE[entry.kind] | (entry.mode & 0o777 if entry.kind == manifest.FILE else 0):06o}"


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
    return [line.decode("utf-8", "surrogateescape") for line in re.findall(rb"[^\n]*\n|[^\n]+", data)]


def _unified(left: list[str], right: list[str], old_name: str, new_name: str) -> Iterator[str]:
    for line in difflib.unified_diff(left, right, old_name, new_name):
        body = line.removesuffix("\n")
        yield body
        if body == line and line[:1] in " +-":
            yield "\\ No newline at end of file"
