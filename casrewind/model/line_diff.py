"""Which lines differ between two texts: Myers' algorithm in linear space, as git has it, with a bound on its work.

Lines that only one text has are set aside first: they differ for sure. Where the work exceeds the bound, the answer is
still right, but it names more lines than necessary.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from itertools import compress
from math import isqrt
from operator import sub

from .._typing import NamedTuple

_ROUNDS = 256
"""Rounds of one search, before it accepts the best place that it found."""
_HURRIED = 16
"""Rounds of one search, after the work exceeded the bound."""
_BOUND = 3_000_000
"""Steps after which searches are hurried. A step is shorter than a microsecond."""
_END = 3 * _BOUND
"""Steps after which the remaining lines count as different."""
_SLIDE = 100
"""The maximum number of lines by which a block is moved to a better place."""
_CHUNK = 64
_FAR = 1 << 60
_BINARY_HEAD = 8000


class Block(NamedTuple):
    """The old lines `old_start` to `old_end` (not included) are lines `new_start` to `new_end` of the new text."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a text with their line ends. The last line may have none."""
    # only \n ends a line: splitlines accepts more line ends, and a patch made with them does not apply
    found = [line + b"\n" for line in data.split(b"\n")]
    last = found.pop()[:-1]
    return [*found, last] if last else found


def is_binary(data: bytes) -> bool:
    """True if git takes a file for binary."""
    return b"\0" in data[:_BINARY_HEAD]


def blocks(old: Sequence[bytes], new: Sequence[bytes], *, is_lowest: bool = False) -> list[Block]:
    """The blocks of lines that differ, in order. Between two blocks both texts have the same lines.

    Some blocks can be in several places with the same result. Each is in the place that a person expects; for a merge
    (`is_lowest`) in the lowest, and in as few blocks as possible.
    """
    numbers: dict[bytes, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in old]
    right = [numbers.setdefault(line, len(numbers)) for line in new]
    return blocks_of_numbers(left, right, old, new, is_lowest=is_lowest)


def blocks_of_numbers(
    left: list[int], right: list[int], old: Sequence[bytes], new: Sequence[bytes], *, is_lowest: bool = False, keeps_unique: bool = False
) -> list[Block]:
    """As `blocks`, of lines that have numbers already: equal lines have equal numbers. `keeps_unique`: a line that both texts have
    once is the same line, also where more lines would be equal without it."""
    start = _same_start(left, right, 0, len(left), 0, len(right))
    end = _same_end(left, right, start, len(left), start, len(right))
    left_end, right_end = len(left) - end, len(right) - end
    old_lines, new_lines = left[start:left_end], right[start:right_end]
    both = set(old_lines) & set(new_lines)
    old_in_both, new_in_both = bytearray(map(both.__contains__, old_lines)), bytearray(map(both.__contains__, new_lines))
    search = _Search(list(compress(old_lines, old_in_both)), list(compress(new_lines, new_in_both)), keeps_unique=keeps_unique)
    old_same, new_same = _mark_same(old_in_both, search.old_differs), _mark_same(new_in_both, search.new_differs)
    found = []
    old_at = new_at = 0
    while old_at < len(old_same) or new_at < len(new_same):
        old_end, new_end = _end_of_run(old_same, 0, old_at), _end_of_run(new_same, 0, new_at)
        if old_end > old_at or new_end > new_at:
            found.append(Block(start + old_at, start + old_end, start + new_at, start + new_end))
        same = min(_end_of_run(old_same, 1, old_end) - old_end, _end_of_run(new_same, 1, new_end) - new_end)
        old_at, new_at = old_end + same, new_end + same
    return _merged_and_lowest(found, old, new) if is_lowest else _moved_to_expected_places(found, old, new)


def _mark_same(in_both: bytearray, differs: bytearray) -> bytearray:
    """Mark the lines of a text that are the same in the other, in place. `differs` has a mark for each line that is `in_both`."""
    places = list(compress(range(len(in_both)), in_both))
    for at in compress(places, differs):
        in_both[at] = 0
    return in_both


def _end_of_run(marks: bytearray, mark: int, at: int) -> int:
    end = marks.find(1 - mark, at)
    return len(marks) if end < 0 else end


def _same_start(left: list[int], right: list[int], left_at: int, left_end: int, right_at: int, right_end: int) -> int:
    """How many items are the same from the start on."""
    most = min(left_end - left_at, right_end - right_at)
    count = 0
    while count + _CHUNK <= most and (
        left[left_at + count : left_at + count + _CHUNK] == right[right_at + count : right_at + count + _CHUNK]
    ):
        count += _CHUNK
    while count < most and left[left_at + count] == right[right_at + count]:
        count += 1
    return count


def _same_end(left: list[int], right: list[int], left_at: int, left_end: int, right_at: int, right_end: int) -> int:
    """How many items are the same up to the end."""
    most = min(left_end - left_at, right_end - right_at)
    count = 0
    while count + _CHUNK <= most and (
        left[left_end - count - _CHUNK : left_end - count] == right[right_end - count - _CHUNK : right_end - count]
    ):
        count += _CHUNK
    while count < most and left[left_end - count - 1] == right[right_end - count - 1]:
        count += 1
    return count


def _find_single(lines: list[int]) -> set[int]:
    """The lines that a text has once."""
    every = set(lines)
    return every if len(every) == len(lines) else {line for line, count in Counter(lines).items() if count == 1}


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest row of pairs in which the places on the right ascend, too."""
    tails: list[int] = []  # by length: the least place on the right at which a row of that length ends
    rows: list[int] = []  # the pair that ends it
    before: list[int] = []
    for number, (_, at) in enumerate(pairs):
        length = bisect_left(tails, at)
        tails[length : length + 1] = [at]
        rows[length : length + 1] = [number]
        before.append(rows[length - 1] if length else -1)
    found = []
    number = rows[-1] if rows else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


class _Search:
    """The search for the common part of two lists of numbers. `old_differs` and `new_differs` mark the rest."""

    def __init__(self, left: list[int], right: list[int], *, keeps_unique: bool) -> None:
        self.old_differs, self.new_differs = bytearray(len(left)), bytearray(len(right))
        self._left, self._right = left, right
        size = len(left) + len(right) + 3
        self._forward, self._backward = [0] * size, [0] * size
        self._zero = len(right) + 1  # the index of diagonal 0
        self._steps = 0
        self._is_bounded = False  # whether the last search was given up
        whole = 0, len(left), 0, len(right)
        self._mark_differences(self._boxes_between(self._unique_common_lines(*whole), *whole) if keeps_unique else [whole])

    def _mark_differences(self, stack: list[tuple[int, int, int, int]]) -> None:
        while stack:
            left_at, left_end, right_at, right_end = stack.pop()
            same = _same_start(self._left, self._right, left_at, left_end, right_at, right_end)
            left_at, right_at = left_at + same, right_at + same
            same = _same_end(self._left, self._right, left_at, left_end, right_at, right_end)
            left_end, right_end = left_end - same, right_end - same
            if left_at == left_end or right_at == right_end or self._steps > _END:
                self.old_differs[left_at:left_end] = b"\1" * (left_end - left_at)
                self.new_differs[right_at:right_end] = b"\1" * (right_end - right_at)
                continue
            cuts = [self._find_middle(left_at, left_end, right_at, right_end)]
            if self._is_bounded and self._steps < _BOUND:
                cuts = self._unique_common_lines(left_at, left_end, right_at, right_end) or cuts
            stack += self._boxes_between(cuts, left_at, left_end, right_at, right_end)

    @staticmethod
    def _boxes_between(
        cuts: list[tuple[int, int]], left_at: int, left_end: int, right_at: int, right_end: int
    ) -> list[tuple[int, int, int, int]]:
        """The parts of a box between these places."""
        found = []
        for left_cut, right_cut in [*cuts, (left_end, right_end)]:
            found.append((left_at, left_cut, right_at, right_cut))
            left_at, right_at = left_cut, right_cut
        return found

    def _find_middle(self, left_at: int, left_end: int, right_at: int, right_end: int) -> tuple[int, int]:
        """A place on the shortest way through a box, or on the shortest way that the limited rounds found.

        A diagonal is the difference of the two indexes. Per diagonal, `_forward` has the farthest index that a way from
        the start reaches. `_backward` has the nearest index from which a way reaches the end.
        """
        forward, backward, zero = self._forward, self._backward, self._zero
        least, most = left_at - right_end, left_end - right_at
        f_low = f_high = left_at - right_at
        b_low = b_high = left_end - right_end
        is_odd = (f_low - b_low) & 1
        forward[zero + f_low], backward[zero + b_low] = left_at, left_end
        self._is_bounded = False
        rounds = _HURRIED if self._steps > _BOUND else max(_ROUNDS, isqrt(most - least))
        for _ in range(rounds):
            if f_low > least:
                f_low -= 1
                forward[zero + f_low - 1] = -1
            else:
                f_low += 1
            if f_high < most:
                f_high += 1
                forward[zero + f_high + 1] = -1
            else:
                f_high -= 1
            met = self._round_from_start(f_low, f_high, left_end, right_end, (b_low, b_high) if is_odd else (1, 0))
            if met is not None:
                return met
            if b_low > least:
                b_low -= 1
                backward[zero + b_low - 1] = _FAR
            else:
                b_low += 1
            if b_high < most:
                b_high += 1
                backward[zero + b_high + 1] = _FAR
            else:
                b_high -= 1
            met = self._round_from_end(b_low, b_high, left_at, right_at, (1, 0) if is_odd else (f_low, f_high))
            if met is not None:
                return met
        self._is_bounded = True
        return self._farther_place(range(f_low, f_high + 1, 2), range(b_low, b_high + 1, 2), left_at, left_end, right_at, right_end)

    def _unique_common_lines(self, left_at: int, left_end: int, right_at: int, right_end: int) -> list[tuple[int, int]]:
        """Places in a box of lines that both sides have once: the longest row of them that is in order on both."""
        left, right = self._left[left_at:left_end], self._right[right_at:right_end]
        both = _find_single(left) & _find_single(right)
        self._steps += (len(left) + len(right)) // 4
        is_in_both = list(map(both.__contains__, left))
        left_places = list(compress(range(left_at, left_end), is_in_both))
        place_of = dict(zip(right, range(right_at, right_end), strict=True))
        right_places = list(map(place_of.__getitem__, compress(left, is_in_both)))
        pairs = list(zip(left_places, right_places, strict=True))
        if right_places != sorted(right_places):
            pairs = _longest_ascending(pairs)
        sums = list(map(sum, pairs))
        inner = compress(pairs[1:], map((4).__ne__, map(sub, sums[2:], sums)))  # of a run of lines, the first and the last are enough
        return [*pairs[:1], *inner, *pairs[1:][-1:]]

    def _round_from_start(self, low: int, high: int, left_end: int, right_end: int, others: tuple[int, int]) -> tuple[int, int] | None:
        """One round from the start: the place where it meets the ways from the end, on the diagonals `others`."""
        forward, backward, zero, left, right = self._forward, self._backward, self._zero, self._left, self._right
        others_low, others_high = others
        for diagonal in range(high, low - 1, -2):
            at = zero + diagonal
            below, above = forward[at - 1], forward[at + 1]
            x = below + 1 if below >= above else above
            y = x - diagonal
            if x < left_end and y < right_end and left[x] == right[y]:
                same = _same_start(left, right, x, left_end, y, right_end)
                self._steps += same // 8
                x, y = x + same, y + same
            forward[at] = x
            if others_low <= diagonal <= others_high and backward[at] <= x:
                return x, y
        self._steps += (high - low) // 2 + 1
        return None

    def _round_from_end(self, low: int, high: int, left_at: int, right_at: int, others: tuple[int, int]) -> tuple[int, int] | None:
        """One round from the end: the place where it meets the ways from the start, on the diagonals `others`."""
        forward, backward, zero, left, right = self._forward, self._backward, self._zero, self._left, self._right
        others_low, others_high = others
        for diagonal in range(high, low - 1, -2):
            at = zero + diagonal
            below, above = backward[at - 1], backward[at + 1]
            x = below if below < above else above - 1
            y = x - diagonal
            if x > left_at and y > right_at and left[x - 1] == right[y - 1]:
                same = _same_end(left, right, left_at, x, right_at, y)
                self._steps += same // 8
                x, y = x - same, y - same
            backward[at] = x
            if others_low <= diagonal <= others_high and x <= forward[at]:
                return x, y
        self._steps += (high - low) // 2 + 1
        return None

    def _farther_place(
        self, ahead: range, back: range, left_at: int, left_end: int, right_at: int, right_end: int
    ) -> tuple[int, int]:
        """The place that is farthest from the start, or from the end if that is farther."""
        best_ahead, best_back = (left_at, right_at), (left_end, right_end)
        for diagonal in ahead:
            x = min(self._forward[self._zero + diagonal], left_end, right_end + diagonal)
            if x >= left_at and x - diagonal >= right_at and 2 * x - diagonal > sum(best_ahead):
                best_ahead = x, x - diagonal
        for diagonal in back:
            x = max(self._backward[self._zero + diagonal], left_at, right_at + diagonal)
            if x <= left_end and x - diagonal <= right_end and 2 * x - diagonal < sum(best_back):
                best_back = x, x - diagonal
        is_ahead = sum(best_ahead) - left_at - right_at > left_end + right_end - sum(best_back)
        return best_ahead if is_ahead else best_back


def _moved_to_expected_places(found: list[Block], old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """Move each block that only adds or only removes lines to the place that a person expects.

    A block can move up if the line before it equals its last line. It can move down if the line after it equals its
    first line. Adjacent blocks are merged.
    """
    made: list[Block] = []
    for index, block in enumerate(found):
        after = found[index + 1] if index + 1 < len(found) else Block(len(old), len(old), len(new), len(new))
        if block.old_start == block.old_end or block.new_start == block.new_end:
            is_new = block.old_start == block.old_end
            start, end = (block.new_start, block.new_end) if is_new else (block.old_start, block.old_end)
            low = 0 if not made else made[-1].new_end if is_new else made[-1].old_end
            high = after.new_start if is_new else after.old_start
            by = _lines_to_move(new if is_new else old, start, end, low, high)
            block = Block(*(at + by for at in block))
        if made and (made[-1].old_end, made[-1].new_end) == (block.old_start, block.new_start):
            block = Block(made[-1].old_start, block.old_end, made[-1].new_start, block.new_end)
            made.pop()
        made.append(block)
    return made


def _merged_and_lowest(found: list[Block], old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """Merge all blocks that can be moved to each other, as git does, and move each to its lowest place. A block that only
    adds or only removes lines can be moved."""
    made: list[Block] = []
    waiting = deque(found)
    while waiting:
        block = waiting.popleft()
        low = made[-1] if made else Block(0, 0, 0, 0)
        high = waiting[0] if waiting else Block(len(old), len(old), len(new), len(new))
        up = _room_to_move(block, old, new, low, -1)
        if made and block.old_start - up == low.old_end and block.new_start - up == low.new_end:
            made.pop()
            waiting.appendleft(Block(low.old_start, block.old_end - up, low.new_start, block.new_end - up))
            continue
        down = _room_to_move(block, old, new, high, 1)
        block = Block(*(at + down for at in block))
        if waiting and block.old_end == high.old_start and block.new_end == high.new_start:
            waiting[0] = Block(block.old_start, high.old_end, block.new_start, high.new_end)
            continue
        made.append(block)
    return made


def _room_to_move(block: Block, old: Sequence[bytes], new: Sequence[bytes], to: Block, by: int) -> int:
    """By how many lines a block can be moved up (`by` -1) or down (1), at most up to the block `to`."""
    if block.old_start < block.old_end and block.new_start < block.new_end:
        return 0
    is_new = block.old_start == block.old_end
    lines, start, end = (new, block.new_start, block.new_end) if is_new else (old, block.old_start, block.old_end)
    count = 0
    if by < 0:
        least = to.new_end if is_new else to.old_end
        while start - count > least and lines[start - count - 1] == lines[end - count - 1]:
            count += 1
    else:
        most = to.new_start if is_new else to.old_start
        while end + count < most and lines[start + count] == lines[end + count]:
            count += 1
    return count


def _lines_to_move(lines: Sequence[bytes], start: int, end: int, low: int, high: int) -> int:
    """By how many lines a block is to be moved to the place that a person expects."""
    up = down = 0
    while up < _SLIDE and start - up > low and lines[start - up - 1] == lines[end - up - 1]:
        up += 1
    while down < _SLIDE and end + down < high and lines[start + down] == lines[end + down]:
        down += 1
    if not up and not down:
        return 0
    return min(range(-up, down + 1), key=lambda by: (_roughness(lines, start + by), -by))


def _roughness(lines: Sequence[bytes], start: int) -> tuple[int, int]:
    """How badly a block begins at a line: best at the least indented one, behind an empty line."""
    text = lines[start].expandtabs()
    indent = len(text) - len(text.lstrip()) if text.strip() else _SLIDE
    return indent, int(start > 0 and bool(lines[start - 1].strip()))
