"""A change as a patch in git's format, for people, `git apply` and `patch -p1`.

With marked words, [-removed-] and {+added+} as in git's --word-diff, the patch is for people only.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

from ..._typing import TYPE_CHECKING, NamedTuple
from ...model import manifest
from ...model.diff import Change
from ...model.line_diff import Block, blocks, is_binary, lines_of
from ...model.manifest import Entry
from .text import CONTEXT

if TYPE_CHECKING:
    from ...history.compare import Comparison
    from ...history.rename_detection import Rename

_MAX_BYTES = 32 << 20
"""Maximum size of a file for a comparison of lines."""
_MOST_HEADING = 80
"""Maximum bytes of a hunk's heading line."""
_TYPE = {manifest.FILE: 0o100000, manifest.LINK: 0o120000}
_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
_PLACES = {
    (b".py", b".pyi", b".pyx"): re.compile(rb"[ \t]*(class|(async[ \t]+)?def)[ \t]"),
    (b".md", b".markdown"): re.compile(rb" {0,3}#{1,6}[ \t]"),
    (b".rb",): re.compile(rb"[ \t]*(class|module|def)[ \t]"),
    (b".rs",): re.compile(rb"[ \t]*(pub(\([^)]*\))?[ \t]+)?((async|const|unsafe|extern)[ \t]+)*(struct|enum|union|mod|trait|fn|impl)\b"),
    (b".go",): re.compile(rb"[ \t]*(func|type)[ \t]"),
    (b".js", b".jsx", b".ts", b".tsx", b".mjs"): re.compile(
        rb"[ \t]*(export[ \t]+)?(default[ \t]+)?(async[ \t]+)?(function\b|class[ \t]|interface[ \t])|[A-Za-z_$]"
    ),
}
_ANY_PLACE = re.compile(rb"[A-Za-z_$]")
"""The heading line of a hunk in other files: as in git, a line that begins with a letter."""


_WORD = re.compile(rb"\S+")
REMOVED, ADDED = (b"[-", b"-]"), (b"{+", b"+}")
"""The marks around changed words."""


class Texts(NamedTuple):
    """The lines of both sides of a change."""

    old: list[bytes]
    new: list[bytes]


class Hunk(NamedTuple):
    """Blocks in one hunk: lines `start` to `end` of the old text, `new_start` to `new_end` of the new text. `place`: the
    line above it that says where it is, with a space before it, or b""."""

    start: int
    end: int
    new_start: int
    new_end: int
    blocks: list[Block]
    place: bytes


def patch_of_change(
    found: "Comparison", change: Change, rename: "Rename | None" = None, *, context: int = CONTEXT, words: bool = False
) -> Iterator[bytes]:
    """The patch of one change, as lines of bytes without line ends: content and names need not be text.

    A `rename` contains the old path. With `words` the lines of a block are merged and the changed words are marked; no
    program can apply that form.
    """
    old, new = _entry_with_content(change.old), _entry_with_content(change.new)
    if old is not None and new is not None and old.kind != new.kind:  # git applies this as a removal and an addition
        yield from patch_of_change(found, change._replace(new=None), context=context, words=words)
        yield from patch_of_change(found, change._replace(old=None), context=context, words=words)
        return
    source = change.path if rename is None else rename.source
    left_name, right_name = git_quoted(b"a/" + source), git_quoted(b"b/" + change.path)
    if old is None and new is None:
        yield b"diff --casrewind " + left_name + b" " + right_name
        purged = any(entry is not None and entry.kind == manifest.PURGED for entry in (change.old, change.new))
        what = "purged" if purged else "directory"
        yield f"{what} {change.status}: {_mode_in_octal(change.old)} -> {_mode_in_octal(change.new)}".encode()
        return
    is_same = old is not None and new is not None and (old.digest, old.target) == (new.digest, new.target)
    before, after = (b"", b"") if is_same else _bytes_of_both_sides(found, change, source)
    if before == after == b"":  # `patch` requires quotes around a name with spaces if no other line names the file
        left_name, right_name = (git_quoted(name, also=b" ") for name in (b"a/" + source, b"b/" + change.path))
    yield b"diff --git " + left_name + b" " + right_name
    yield from _lines_about_modes(old, new)
    if rename is not None:
        yield b"similarity index %d%%" % rename.similarity
        yield b"rename from " + git_quoted(rename.source)
        yield b"rename to " + git_quoted(change.path)
    if is_same or (before == after and before is not None and old is not None and new is not None):
        return
    if before is not None and after is not None:
        yield _index_line(before, after, old, new)
        if not before and not after:
            return
    left_name, right_name = left_name if old else b"/dev/null", right_name if new else b"/dev/null"
    if before is None or after is None or is_binary(before) or is_binary(after):
        yield b"Binary files " + left_name + b" and " + right_name + b" differ"
        return
    for sign, name in ((b"--- ", left_name), (b"+++ ", right_name)):
        yield sign + (name + b"\t" if b" " in name else name)  # patch ends a name at a space
    both = Texts(lines_of(before), lines_of(after))
    for hunk in hunks(both, change.path, context):
        yield from hunk_lines(both, hunk, words=words)


def lines_of_both_sides(found: "Comparison", change: Change, source: bytes | None = None) -> Texts | None:
    """The lines of both sides of a change. None for a binary file, a large file, or another kind."""
    before, after = _bytes_of_both_sides(found, change, change.path if source is None else source)
    if before is None or after is None or is_binary(before) or is_binary(after):
        return None
    return Texts(lines_of(before), lines_of(after))


def git_quoted(name: bytes, *, also: bytes = b"") -> bytes:
    """A name as git writes it: in double quotes, with escapes, if it contains special characters.

    Characters in `also` require quotes, too.
    """
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' + also for byte in name):
        return name
    plain = (bytes((c,)) if 0x20 <= c < 0x7F and c not in _ESCAPES else _ESCAPES.get(c, b"\\%03o" % c) for c in name)
    return b'"' + b"".join(plain) + b'"'


def _entry_with_content(entry: Entry | None) -> Entry | None:
    return entry if entry is not None and entry.kind in _TYPE else None


def _mode_in_octal(entry: Entry | None) -> str:
    return "absent" if entry is None else f"{entry.kind} {entry.mode & 0o777:04o}"


def _lines_about_modes(old: Entry | None, new: Entry | None) -> Iterator[bytes]:
    if old is None and new is not None:
        yield b"new file mode " + _octal(new)
    elif new is None and old is not None:
        yield b"deleted file mode " + _octal(old)
    elif old is not None and new is not None and _octal(old) != _octal(new):
        yield b"old mode " + _octal(old)
        yield b"new mode " + _octal(new)


def _octal(entry: Entry) -> bytes:
    return b"%06o" % (_TYPE[entry.kind] | (entry.mode & 0o777 if entry.kind == manifest.FILE else 0))


def _index_line(before: bytes, after: bytes, old: Entry | None, new: Entry | None) -> bytes:
    """The line with git's ids of both contents. `patch` uses it to detect an empty file that is added or removed."""
    names = [
        b"0000000" if entry is None else hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()[:7].encode()
        for data, entry in ((before, old), (after, new))
    ]
    mode = b" " + _octal(new) if old is not None and new is not None and _octal(old) == _octal(new) else b""
    return b"index " + b"..".join(names) + mode


def _bytes_of_both_sides(found: "Comparison", change: Change, source: bytes) -> tuple[bytes | None, bytes | None]:
    """The bytes of both sides: b"" for a missing side, None if the content is too large or unavailable."""
    sides = (found.old, source, _entry_with_content(change.old)), (found.new, change.path, _entry_with_content(change.new))
    before, after = (
        b"" if entry is None else entry.target if entry.kind == manifest.LINK else
        None if entry.size > _MAX_BYTES else read(path, entry)
        for read, path, entry in sides
    )  # fmt: skip
    return before, after


def hunks(texts: Texts, path: bytes, context: int = CONTEXT) -> Iterator[Hunk]:
    """The hunks of a file: two blocks are in one hunk if all lines between them are context."""
    groups: list[list[Block]] = []
    for block in blocks(texts.old, texts.new):
        if groups and block.old_start - groups[-1][-1].old_end <= 2 * context:
            groups[-1].append(block)
        else:
            groups.append([block])
    searched, place = 0, b""
    is_place = next((pattern for ends, pattern in _PLACES.items() if path.endswith(ends)), _ANY_PLACE)
    for group in groups:
        start = max(group[0].old_start - context, 0)
        for line in reversed(texts.old[searched:start]):
            if is_place.match(line):
                place = b" " + line[:_MOST_HEADING].rstrip()
                break
        searched = start
        yield _make_hunk(group, start, min(group[-1].old_end + context, len(texts.old)), place)


def split_hunk(hunk: Hunk) -> list[Hunk]:
    """The hunk in parts of one block each. As in git, the lines between two blocks are context of both."""
    starts = [hunk.start, *(block.old_end for block in hunk.blocks[:-1])]
    ends = [*(block.old_start for block in hunk.blocks[1:]), hunk.end]
    return [_make_hunk([block], start, end, hunk.place) for block, start, end in zip(hunk.blocks, starts, ends, strict=True)]


def _make_hunk(group: list[Block], start: int, end: int, place: bytes) -> Hunk:
    first, last = group[0], group[-1]
    return Hunk(start, end, first.new_start - (first.old_start - start), last.new_end + (end - last.old_end), group, place)


def hunk_lines(found: Texts, hunk: Hunk, *, words: bool = False) -> Iterator[bytes]:
    """The patch of one hunk, as lines of bytes without line ends."""
    yield b"@@ " + hunk_ranges(hunk) + b" @@" + hunk.place
    yield from _lines_with_marked_words(found, hunk) if words else _lines_of_hunk(found, hunk)


def hunk_ranges(hunk: Hunk) -> bytes:
    """The lines of a hunk on both sides, as its first line has them."""
    return b"-" + _range_as_in_patch(hunk.start, hunk.end) + b" +" + _range_as_in_patch(hunk.new_start, hunk.new_end)


def _range_as_in_patch(start: int, end: int) -> bytes:
    """A range of lines in a patch: counted from 1. An empty range names the line before it."""
    count = end - start
    return b"%d" % (start + 1) if count == 1 else b"%d,%d" % (start + (count > 0), count)


def _lines_of_hunk(found: Texts, hunk: Hunk) -> Iterator[bytes]:
    at = hunk.start
    for block in hunk.blocks:
        for line in found.old[at : block.old_start]:
            yield from _line_with_sign(b" ", line)
        for line in found.old[block.old_start : block.old_end]:
            yield from _line_with_sign(b"-", line)
        for line in found.new[block.new_start : block.new_end]:
            yield from _line_with_sign(b"+", line)
        at = block.old_end
    for line in found.old[at : hunk.end]:
        yield from _line_with_sign(b" ", line)


def _line_with_sign(sign: bytes, line: bytes) -> Iterator[bytes]:
    if line.endswith(b"\n"):
        yield sign + line[:-1]
    else:
        yield sign + line
        yield b"\\ No newline at end of file"

# -- changed words


def _lines_with_marked_words(found: Texts, hunk: Hunk) -> Iterator[bytes]:
    """The lines of a hunk with marked words, without line ends and without signs."""
    at = hunk.start
    for block in hunk.blocks:
        yield from (line.removesuffix(b"\n") for line in found.old[at : block.old_start])
        before = b"".join(found.old[block.old_start : block.old_end])
        after = b"".join(found.new[block.new_start : block.new_end])
        yield from _lines_of(_mark_words(before, after))
        at = block.old_end
    yield from (line.removesuffix(b"\n") for line in found.old[at : hunk.end])


def _lines_of(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return parts[:-1] if parts[-1] == b"" else parts


def _mark_words(before: bytes, after: bytes) -> bytes:
    """The new text, with added and removed words marked. Spaces are those of the new text."""
    old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    parts = []
    at = 0
    for block in blocks([word[0] for word in old], [word[0] for word in new]):
        gone = _text_of_words(before, old[block.old_start : block.old_end])
        come = _text_of_words(after, new[block.new_start : block.new_end])
        if come:
            start, end = new[block.new_start].start(), new[block.new_end - 1].end()
        else:
            start = end = new[block.new_start - 1].end() if block.new_start else 0
        parts.append(after[at:start])
        if gone and not come:
            gone = _removed_words_with_space(before, old, block, is_first=start == 0)
        parts += [_put_marks_around_lines(gone, *REMOVED), _put_marks_around_lines(come, *ADDED)]
        at = end
    parts.append(after[at:])
    return b"".join(parts)


def _text_of_words(text: bytes, words: Sequence["re.Match[bytes]"]) -> bytes:
    return text[words[0].start() : words[-1].end()] if words else b""


def _removed_words_with_space(text: bytes, words: Sequence["re.Match[bytes]"], block: Block, *, is_first: bool) -> bytes:
    """Removed words without a replacement, with the space before them, or after them at the start."""
    start, end = words[block.old_start].start(), words[block.old_end - 1].end()
    if is_first:
        return text[start : words[block.old_end].start() if block.old_end < len(words) else len(text)]
    return text[words[block.old_start - 1].end() if block.old_start else 0 : end]


def _put_marks_around_lines(text: bytes, opening: bytes, closing: bytes) -> bytes:
    """The text between marks, each line separately."""
    return b"\n".join(_put_marks_around_line(line, opening, closing) for line in text.split(b"\n"))


def _put_marks_around_line(line: bytes, opening: bytes, closing: bytes) -> bytes:
    core = line.strip()
    if not core:
        return line
    before, _, after = line.partition(core)
    return before + opening + core + closing + after
