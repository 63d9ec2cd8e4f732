r"""Translates git's shell patterns into regular expressions.

The danger: strangers write ignore files. A backtracking matcher would take years for `*a*a*a*a*b` or `**/a/**/a/**/a`,
inside a hook that has milliseconds. So every expression has two dialects, both with linear or almost linear time: `RE2`
for google-re2, which never backtracks, and `PYTHON` for the module `re`, where atomic groups keep the first match of
each part.

The meaning of a pattern (`/` is always special, as in git's path mode):

* `*` matches any run without `/`; `?` one byte except `/`; `[...]` one byte of a set, never `/`; `\x` the byte x.
* Two or more stars alone between slashes (or at the pattern's ends) cross slashes; `**/` also matches nothing.
* Two stars elsewhere equal one star.
* A pattern with an unterminated set, an unknown character class or a trailing backslash matches nothing.
* Case folding is ASCII only and has git's extent: plain bytes and ranges, but not an escaped capital nor a single
  capital in a set.
* To match with case folding, the text must be folded already.

Texts are bytes decoded as latin-1: one character is one byte, whatever the encoding of a name.

Why the first match suffices in `PYTHON`: a pattern is split at `**` into blocks, and a block at stars into chunks.
After each chunk follows a star, which also matches anything that a later match of the chunk would have left over. The
same holds for blocks and `**`. Only the last block and the last chunk are anchored at the end.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from .._typing import NamedTuple

_SLASH = 0x2F
_BACKSLASH = 0x5C
_SPECIAL = b"*?[\\"
_ONE = tuple(1 << byte for byte in range(256))
_ANY = (1 << 256) - 1
_NOT_SLASH = _ANY - _ONE[_SLASH]


def _bit_set_of_bytes(members: Iterable[int]) -> int:
    return sum(_ONE[byte] for byte in set(members))


_UPPER = range(0x41, 0x5B)
_LOWER = range(0x61, 0x7B)
_DIGIT = range(0x30, 0x3A)
_CLASSES = {
    b"alnum": _bit_set_of_bytes([*_UPPER, *_LOWER, *_DIGIT]),
    b"alpha": _bit_set_of_bytes([*_UPPER, *_LOWER]),
    b"blank": _bit_set_of_bytes(b" \t"),
    b"cntrl": _bit_set_of_bytes([*range(0x20), 0x7F]),
    b"digit": _bit_set_of_bytes(_DIGIT),
    b"graph": _bit_set_of_bytes(range(0x21, 0x7F)),
    b"lower": _bit_set_of_bytes(_LOWER),
    b"print": _bit_set_of_bytes(range(0x20, 0x7F)),
    b"punct": _bit_set_of_bytes(set(range(0x21, 0x7F)) - {*_UPPER, *_LOWER, *_DIGIT}),
    b"space": _bit_set_of_bytes(b" \t\r\n"),  # as in git's own table, without vertical tab and form feed
    b"upper": _bit_set_of_bytes(_UPPER),
    b"xdigit": _bit_set_of_bytes(b"0123456789abcdefABCDEF"),
}
_LOWER_SET = _CLASSES[b"lower"]
_UPPER_SET = _CLASSES[b"upper"]


class Glob(NamedTuple):
    """One parsed pattern: byte sets as 256-bit integers, with STAR, DEEP and SKIP between them."""

    parts: tuple[int | str, ...]
    steps: int  # iterations of the parser, for tests


STAR, DEEP, SKIP = "*", "**", "**/"
"""STAR stops at a slash, DEEP does not. SKIP is DEEP with a final slash, or nothing."""
NOTHING = Glob((0,), 0)
"""A pattern that matches no text: one byte of an empty set."""


def literal_length(pattern: bytes) -> int:
    """The number of leading bytes of `pattern` without special meaning."""
    for position, byte in enumerate(pattern):
        if byte in _SPECIAL:
            return position
    return len(pattern)


def parse_pattern(pattern: bytes, *, fold: bool = False, literal: int = 0, path_mode: bool = True) -> Glob:
    """Parse `pattern`. Without `path_mode`, as in git's pathspecs, `/` is an ordinary byte. The first `literal` bytes
    are literal. A `**` right after them counts as at the start: git compares that prefix separately."""
    return _GlobParser(pattern, literal, fold=fold, path_mode=path_mode).parse()


class _MalformedError(Exception):
    """The pattern matches nothing. Never leaves this module."""


class _GlobParser:
    def __init__(self, pattern: bytes, literal: int, *, fold: bool, path_mode: bool) -> None:
        self.pattern = pattern
        self.path_mode = path_mode
        self.any = _NOT_SLASH if path_mode else _ANY
        self.fold = fold
        self.start = literal
        self.parts: list[int | str] = [self._parse_plain_byte(byte) for byte in pattern[:literal]]
        self.steps = literal
        self._bracket = -1  # position of the next `]`, so that a set full of `[:` is searched once

    def parse(self) -> Glob:
        pattern, at = self.pattern, self.start
        try:
            while at < len(pattern):
                self.steps += 1
                byte = pattern[at]
                if byte == 0x2A:
                    at = self._parse_stars(at)
                elif byte == 0x3F:
                    self.parts.append(self.any)
                    at += 1
                elif byte == 0x5B:
                    at = self._parse_set(at + 1)
                elif byte == _BACKSLASH:
                    self.parts.append(_ONE[self._byte(at + 1)])
                    at += 2
                else:
                    self.parts.append(self._parse_plain_byte(byte))
                    at += 1
        except _MalformedError:
            return NOTHING._replace(steps=self.steps)
        return Glob(tuple(self.parts), self.steps)

    def _parse_plain_byte(self, byte: int) -> int:
        return _ONE[byte + 32] if self.fold and 0x41 <= byte <= 0x5A else _ONE[byte]

    def _byte(self, at: int) -> int:
        if at >= len(self.pattern):
            raise _MalformedError
        return self.pattern[at]

    def _parse_stars(self, at: int) -> int:
        pattern = self.pattern
        end = at + 1
        while pattern[end : end + 1] == b"*":
            end += 1
        self.steps += end - at
        opens = at == self.start or pattern[at - 1] == _SLASH
        closes = end == len(pattern) or pattern[end] == _SLASH or pattern[end : end + 2] == b"\\/"
        if not self.path_mode:
            self.parts.append(DEEP)
            return end
        if end - at == 1 or not (opens and closes):
            self.parts.append(STAR)
            return end
        if pattern[end : end + 1] != b"/":
            self.parts.append(DEEP)
            return end
        if self.parts[-1:] != [SKIP]:  # `**/**/` equals `**/`
            self.parts.append(SKIP)
        return end + 1

    def _parse_set(self, at: int) -> int:
        """Parse a set after its `[`. Returns the position after its `]`."""
        negated = self._byte(at) in b"!^"
        at += negated
        first, before, accepted = at, 0, 0
        while (byte := self._byte(at)) != 0x5D or at == first:
            self.steps += 1
            if byte == _BACKSLASH:
                at += 1
                before = self._byte(at)
                accepted |= _ONE[before]
            elif byte == 0x2D and before and self._byte(at + 1) != 0x5D:
                at += 1
                if (last := self.pattern[at]) == _BACKSLASH:
                    at += 1
                    last = self._byte(at)
                if last >= before:
                    accepted |= self._bytes_in_range(before, last)
                before = 0
            elif byte == 0x5B and (end := self._find_class_end(at)) >= 0:
                accepted |= self._bytes_of_class(self.pattern[at + 2 : end - 1])
                at, before = end, 0
            else:
                accepted |= _ONE[byte]
                before = byte
            at += 1
        self.parts.append((self.any & ~accepted) if negated else (accepted & self.any))
        return at + 1

    def _bytes_in_range(self, low: int, high: int) -> int:
        members = (_ONE[high] << 1) - _ONE[low]
        if self.fold:  # the text is in lower case: a letter matches if its capital is in the range
            members |= (members & _UPPER_SET) << 32
        return members

    def _find_class_end(self, at: int) -> int:
        """The position of the `]` that ends a `[:name:]` started at `at`; -1 if the `[` is only a member of the set."""
        if self._byte(at + 1) != 0x3A:
            return -1
        if self._bracket < at + 2:
            self._bracket = self.pattern.find(b"]", at + 2)
            if self._bracket < 0:
                raise _MalformedError
            self.steps += self._bracket - at
        return self._bracket if self._bracket > at + 2 and self.pattern[self._bracket - 1] == 0x3A else -1

    def _bytes_of_class(self, name: bytes) -> int:
        if name not in _CLASSES:
            raise _MalformedError
        return _LOWER_SET | _UPPER_SET if self.fold and name == b"upper" else _CLASSES[name]


class RegexDialect(NamedTuple):
    """How to write a regular expression for one library. `atomic`: it supports atomic groups."""

    begin: str
    end: str
    atomic: bool


RE2 = RegexDialect(r"(?s)\A", r"\z", atomic=False)
PYTHON = RegexDialect(r"(?s)\A", r"\Z", atomic=True)


def expression(glob: Glob, spelling: RegexDialect, *, before: str = "") -> str:
    """The regular expression for exactly the texts that `glob` matches, prefixed with the expression `before`."""
    build = _backtracking_expression if spelling.atomic else _set_expression
    return f"{spelling.begin}{before}{build(glob.parts)}{spelling.end}"


def exactly(text: bytes, spelling: RegexDialect, *, before: str = "") -> str:
    """The regular expression for one text without special bytes, prefixed with the expression `before`."""
    return f"{spelling.begin}{before}{''.join(map(_byte, text))}{spelling.end}"


_PLAIN = {STAR: "[^/]*", DEEP: ".*", SKIP: "(?:.*/)?"}
_FIRST = {STAR: "[^/]*?", DEEP: ".*?", SKIP: "(?:.*?/)??"}


def _set_expression(parts: Sequence[int | str]) -> str:
    """For an engine that follows all alternatives at once."""
    return "".join([_PLAIN[part] if isinstance(part, str) else _expression_for_byte_set(part) for part in parts])


def _backtracking_expression(parts: Sequence[int | str]) -> str:
    """For a backtracking engine: each part keeps its first match."""
    return _join_parts_at_stars(parts, (DEEP, SKIP), lambda block: _join_parts_at_stars(block, (STAR,), _set_expression))


def _join_parts_at_stars(parts: Sequence[int | str], stars: tuple[str, ...], build: Callable[[Sequence[int | str]], str]) -> str:
    """One expression: the parts between these stars, each joined to the star before it."""
    cuts = [number for number, part in enumerate(parts) if part in stars]
    built = [build(parts[: cuts[0]] if cuts else parts)]
    for cut, following in zip(cuts, [*cuts[1:], len(parts)], strict=False):
        star, chunk = str(parts[cut]), build(parts[cut + 1 : following])
        built.append(f"(?>{_FIRST[star]}{chunk})" if following < len(parts) else f"{_PLAIN[star]}{chunk}")
    return "".join(built)


@cache
def _expression_for_byte_set(accepted: int) -> str:
    """A regular expression for one byte of a set."""
    if accepted == _NOT_SLASH:
        return "[^/]"
    if accepted and not accepted & (accepted - 1):
        return _byte(accepted.bit_length() - 1)
    ranges, byte = [], 0
    while accepted >> byte:
        first = byte = byte + ((accepted >> byte) & -(accepted >> byte)).bit_length() - 1
        while accepted >> byte & 1:
            byte += 1
        ranges.append(rf"\x{first:02x}-\x{byte - 1:02x}")
    return f"[{''.join(ranges)}]" if ranges else r"[^\x00-\xff]"


@cache
def _byte(byte: int) -> str:
    character = chr(byte)
    return character if character.isascii() and (character.isalnum() or character in "/_-") else rf"\x{byte:02x}"


def matches_whole(pattern: bytes, text: bytes, *, fold: bool = False) -> bool:
    """True if `pattern` matches all of `text`."""
    import re

    found = re.compile(expression(parse_pattern(pattern, fold=fold), PYTHON))
    return found.match((text.lower() if fold else text).decode("latin-1")) is not None
