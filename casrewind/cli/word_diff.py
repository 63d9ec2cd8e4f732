"""The words that differ between two texts, marked [-so-] where they go and {+so+} where they come. As git's --word-diff."""

import re
from collections.abc import Iterator, Sequence

from ..model.line_diff import Block, blocks

_WORD = re.compile(rb"\S+")
REMOVED, ADDED = (b"[-", b"-]"), (b"{+", b"+}")


def body(old: Sequence[bytes], new: Sequence[bytes], start: int, end: int, found: Sequence[Block]) -> Iterator[bytes]:
    """The lines of a hunk, without line ends and without signs."""
    for block in found:
        yield from (line.removesuffix(b"\n") for line in old[start : block.old_start])
        before = b"".join(old[block.old_start : block.old_end])
        after = b"".join(new[block.new_start : block.new_end])
        yield from _lines(marked(before, after))
        start = block.old_end
    yield from (line.removesuffix(b"\n") for line in old[start:end])


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return parts[:-1] if parts[-1] == b"" else parts


def marked(before: bytes, after: bytes) -> bytes:
    """The new text, with the words that came marked in it, and those that went. Spaces are those of the new text."""
    old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    parts = []
    at = 0
    for block in blocks([word[0] for word in old], [word[0] for word in new]):
        gone = _span(before, old[block.old_start : block.old_end])
        come = _span(after, new[block.new_start : block.new_end])
        if come:
            start, end = new[block.new_start].start(), new[block.new_end - 1].end()
        else:
            start = end = new[block.new_start - 1].end() if block.new_start else 0
        parts.append(after[at:start])
        if gone and not come:
            gone = _with_space(before, old, block, is_first=start == 0)
        parts += [_wrapped(gone, *REMOVED), _wrapped(come, *ADDED)]
        at = end
    parts.append(after[at:])
    return b"".join(parts)


def _span(text: bytes, words: Sequence["re.Match[bytes]"]) -> bytes:
    return text[words[0].start() : words[-1].end()] if words else b""


def _with_space(text: bytes, words: Sequence["re.Match[bytes]"], block: Block, *, is_first: bool) -> bytes:
    """Words that go without any in their place: with the space in front of them, or behind them at the start."""
    start, end = words[block.old_start].start(), words[block.old_end - 1].end()
    if is_first:
        return text[start : words[block.old_end].start() if block.old_end < len(words) else len(text)]
    return text[words[block.old_start - 1].end() if block.old_start else 0 : end]


def _wrapped(text: bytes, opening: bytes, closing: bytes) -> bytes:
    """A text between marks, each of its lines by itself."""
    return b"\n".join(_marked_line(line, opening, closing) for line in text.split(b"\n"))


def _marked_line(line: bytes, opening: bytes, closing: bytes) -> bytes:
    core = line.strip()
    if not core:
        return line
    before, _, after = line.partition(core)
    return before + opening + core + closing + after
