r"""Shell patterns as git reads them, matched in time linear in the text.

The danger: ignore files are data from strangers. A matcher that backtracks takes years over
`*a*a*a*a*b` or `**/a/**/a/**/a`, inside a hook that has milliseconds. So a pattern becomes a
nondeterministic automaton whose live states are the bits of one integer; one byte of text is a handful
of integer operations whatever the pattern says, and nothing is ever tried twice.

What a pattern means (`/` is special everywhere, as in git's path mode):

* `*` any run without `/`; `?` one byte but `/`; `[...]` one byte of a set, never `/`; `\x` the byte x.
* Two or more stars standing alone between slashes (or at the pattern's ends) cross slashes, and as
  `**/` may also stand for nothing at all. Two stars anywhere else are one star.
* A pattern with a set that does not end, a character class that does not exist, or a backslash with
  nothing behind it matches no text.
* Folding is ASCII only, and covers what git's covers: plain bytes and ranges, not an escaped capital
  nor a capital standing alone in a set.

Automaton: state i means "i one-byte tokens matched". A star adds no state; it lets the state it stands
at stay alive while it eats. `**/` adds, to the arrival at its state, the state behind its slash.
"""

from collections.abc import Iterable, Sequence

from ..typed import NamedTuple

_SLASH = 0x2F
_BACKSLASH = 0x5C
_SPECIAL = b"*?[\\"
_REMEMBERED_BITS = 1 << 22
_ONE = tuple(1 << byte for byte in range(256))
_NOT_SLASH = (1 << 256) - 1 - _ONE[_SLASH]


def _byte_set(members: Iterable[int]) -> int:
    return sum(_ONE[byte] for byte in set(members))


_UPPER = range(0x41, 0x5B)
_LOWER = range(0x61, 0x7B)
_DIGIT = range(0x30, 0x3A)
_CLASSES = {
    b"alnum": _byte_set([*_UPPER, *_LOWER, *_DIGIT]),
    b"alpha": _byte_set([*_UPPER, *_LOWER]),
    b"blank": _byte_set(b" \t"),
    b"cntrl": _byte_set([*range(0x20), 0x7F]),
    b"digit": _byte_set(_DIGIT),
    b"graph": _byte_set(range(0x21, 0x7F)),
    b"lower": _byte_set(_LOWER),
    b"print": _byte_set(range(0x20, 0x7F)),
    b"punct": _byte_set(set(range(0x21, 0x7F)) - {*_UPPER, *_LOWER, *_DIGIT}),
    b"space": _byte_set(b" \t\r\n"),  # git's own table: vertical tab and form feed are not in it
    b"upper": _byte_set(_UPPER),
    b"xdigit": _byte_set(b"0123456789abcdefABCDEF"),
}
_LOWER_SET = _CLASSES[b"lower"]
_UPPER_SET = _CLASSES[b"upper"]


class Program(NamedTuple):
    """One parsed pattern. Positions count tokens: a star at position i stands before token i."""

    tokens: tuple[int, ...]  # each the set of bytes it accepts, as 256 bits
    stars: tuple[int, ...]  # positions of stars that stop at a slash
    deep: tuple[int, ...]  # positions of stars that do not
    skips: tuple[int, ...]  # positions of a `**/` that may stand for nothing
    steps: int  # loop turns the parser took, so that tests can count


NOTHING = Program((0,), (), (), (), 0)
"""A program that matches no text: one token that accepts no byte."""


def literal_length(pattern: bytes) -> int:
    """How many leading bytes of `pattern` stand for themselves."""
    for position, byte in enumerate(pattern):
        if byte in _SPECIAL:
            return position
    return len(pattern)


def parse(pattern: bytes, *, fold: bool = False, literal: int = 0) -> Program:
    """Translate `pattern`.

    Its first `literal` bytes are taken as they are, and a `**` right behind them counts as standing at the
    pattern's beginning: git compares that prefix apart and matches only the rest.
    """
    return _Parser(pattern, literal, fold=fold).run()


class _MalformedError(Exception):
    """The pattern matches nothing. Never leaves this module."""


class _Parser:
    def __init__(self, pattern: bytes, literal: int, *, fold: bool) -> None:
        self.pattern = pattern
        self.fold = fold
        self.start = literal
        self.tokens: list[int] = [self._plain(byte) for byte in pattern[:literal]]
        self.stars: list[int] = []
        self.deep: list[int] = []
        self.skips: list[int] = []
        self.steps = literal
        self._bracket = -1  # where the next `]` is, so that a set full of `[:` is not searched again and again

    def run(self) -> Program:
        pattern, at = self.pattern, self.start
        try:
            while at < len(pattern):
                self.steps += 1
                byte = pattern[at]
                if byte == 0x2A:
                    at = self._star(at)
                elif byte == 0x3F:
                    self.tokens.append(_NOT_SLASH)
                    at += 1
                elif byte == 0x5B:
                    at = self._set(at + 1)
                elif byte == _BACKSLASH:
                    self.tokens.append(_ONE[self._byte(at + 1)])
                    at += 2
                else:
                    self.tokens.append(self._plain(byte))
                    at += 1
        except _MalformedError:
            return NOTHING._replace(steps=self.steps)
        return Program(tuple(self.tokens), tuple(self.stars), tuple(self.deep), tuple(self.skips), self.steps)

    def _plain(self, byte: int) -> int:
        return _ONE[byte + 32] if self.fold and 0x41 <= byte <= 0x5A else _ONE[byte]

    def _byte(self, at: int) -> int:
        if at >= len(self.pattern):
            raise _MalformedError
        return self.pattern[at]

    def _star(self, at: int) -> int:
        pattern = self.pattern
        end = at + 1
        while pattern[end : end + 1] == b"*":
            end += 1
        self.steps += end - at
        position = len(self.tokens)
        opens = at == self.start or pattern[at - 1] == _SLASH
        closes = end == len(pattern) or pattern[end] == _SLASH or pattern[end : end + 2] == b"\\/"
        if end - at == 1 or not (opens and closes):
            self.stars.append(position)
            return end
        if pattern[end : end + 1] != b"/":
            self.deep.append(position)
            return end
        # `**/**/` says no more than `**/`. One skip only means that no skip leads to another, which is what
        # lets a step follow them with a single shift.
        if self.skips[-1:] != [position - 1]:
            self.deep.append(position)
            self.skips.append(position)
            self.tokens.append(_ONE[_SLASH])
        return end + 1

    def _set(self, at: int) -> int:
        """Parse a set from behind its `[`; returns the position behind its `]`."""
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
                    accepted |= self._range(before, last)
                before = 0
            elif byte == 0x5B and (end := self._class_end(at)) >= 0:
                accepted |= self._class(self.pattern[at + 2 : end - 1])
                at, before = end, 0
            else:
                accepted |= _ONE[byte]
                before = byte
            at += 1
        self.tokens.append((_NOT_SLASH & ~accepted) if negated else (accepted & _NOT_SLASH))
        return at + 1

    def _range(self, low: int, high: int) -> int:
        members = (_ONE[high] << 1) - _ONE[low]
        if self.fold:  # the text is folded down: a small letter is in the range if its capital is
            members |= (members & _UPPER_SET) << 32
        return members

    def _class_end(self, at: int) -> int:
        """Position of the `]` that ends a `[:name:]` begun at `at`; -1 if the `[` is just a member of the set."""
        if self._byte(at + 1) != 0x3A:
            return -1
        if self._bracket < at + 2:
            self._bracket = self.pattern.find(b"]", at + 2)
            if self._bracket < 0:
                raise _MalformedError
            self.steps += self._bracket - at
        return self._bracket if self._bracket > at + 2 and self.pattern[self._bracket - 1] == 0x3A else -1

    def _class(self, name: bytes) -> int:
        if name not in _CLASSES:
            raise _MalformedError
        return _LOWER_SET | _UPPER_SET if self.fold and name == b"upper" else _CLASSES[name]


class State(dict[int, "State"]):
    """What the automaton may have matched so far. As a dictionary it remembers where each byte led from here."""

    __slots__ = ("last", "live")

    live: int
    """The live positions, one bit each; 0 is dead for good."""
    last: int
    """The highest-numbered program that matches the text eaten so far; -1 if none does."""

    def __bool__(self) -> bool:
        """Whether any text that follows can still lead to a match."""
        return self.live != 0


class Bank:
    """Many programs run side by side over the same bytes, as one automaton.

    One byte costs one look-up in the state, or, the first time, a fixed number of operations on integers of
    `width` bits; `width` is at most the length of all the patterns together plus one for each. `steps` counts
    both, and never grows by more than two for a byte of text.
    """

    def __init__(self, programs: Sequence[Program], *, fold: bool = False) -> None:
        """With `fold`, capitals of the text are taken as small; the programs must have been parsed so too."""
        self._fold = fold
        self._literals: dict[int, list[int]] = {}
        self._sets: list[tuple[int, int]] = []
        self._table: dict[int, tuple[int, int]] = {}
        starts: list[int] = []
        stars: list[int] = []
        deep: list[int] = []
        skips: list[int] = []
        self._ranks: dict[int, int] = {}  # where a program ends -> which it is
        base = 0
        for rank, program in enumerate(programs):
            starts.append(base)
            stars += [base + position for position in program.stars]
            deep += [base + position for position in program.deep]
            skips += [base + position for position in program.skips]
            for position, accepted in enumerate(program.tokens, base + 1):
                if accepted & (accepted - 1):
                    self._sets.append((position, accepted))
                elif accepted:
                    self._literals.setdefault(accepted.bit_length() - 1, []).append(position)
            base += len(program.tokens)
            self._ranks[base] = rank
            base += 1
        self.width = base
        self.steps = 0
        self._ends = self._bits(self._ranks)
        self._deep = self._bits(deep)
        self._stars = self._bits(stars) | self._deep
        self._skips = self._bits(skips)
        self._states: dict[int, State] = {}
        self._most_states = max(16, _REMEMBERED_BITS // (base + 1))
        first = self._bits(starts)
        self.start = self._state(first | ((first & self._skips) << 1))

    def _bits(self, positions: Iterable[int]) -> int:
        # Built in a buffer: setting bits one by one in an integer is quadratic for a very long pattern.
        buffer = bytearray((self.width + 7) // 8)
        for position in positions:
            buffer[position >> 3] |= 1 << (position & 7)
        return int.from_bytes(buffer, "little")

    def _state(self, live: int) -> State:
        state = self._states.get(live)
        if state is None:
            # A hostile pattern can have more states than memory; forgetting them costs nothing but time saved.
            if len(self._states) >= self._most_states:
                self._states.clear()
            state = State()
            state.live = live
            state.last = self._ranks.get((live & self._ends).bit_length() - 1, -1)
            self._states[live] = state  # when it is complete: scan workers share banks
        return state

    def _masks(self, byte: int) -> tuple[int, int]:
        """The positions that `byte` leads to, and those that a star holds alive over it."""
        taken = [position for position, accepted in self._sets if accepted >> byte & 1]
        masks = (self._bits(taken + self._literals.get(byte, [])), self._deep if byte == _SLASH else self._stars)
        self._table[byte] = masks
        return masks

    def _step(self, state: State, byte: int) -> State:
        self.steps += 1
        into, held = self._table.get(byte) or self._masks(byte)
        moved = (state.live << 1) & into
        following = self._state(moved | ((moved & self._skips) << 1) | (state.live & held))
        state[byte] = following
        return following

    def advance(self, state: State, text: bytes) -> State:
        """The state after eating `text` in `state`."""
        self.steps += len(text)
        for byte in text.lower() if self._fold else text:
            following = state.get(byte)
            if following is None:
                if not state.live:
                    break
                following = self._step(state, byte)
            state = following
        return state


def match(pattern: bytes, text: bytes, *, fold: bool = False) -> bool:
    """Whether `pattern` matches all of `text`."""
    bank = Bank([parse(pattern, fold=fold)], fold=fold)
    return bank.advance(bank.start, text).last == 0
