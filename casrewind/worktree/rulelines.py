"""The lines of one rule file, and an index that answers for all of them at once.

The danger: a line misread by one byte ignores what should be saved. Where a line ends, which spaces belong to
it, what a lone `!` or a stray carriage return mean: all of it is as git has it, and none of it raises.

The index sorts rules by the cheapest way to test them: names and simple extensions are looked up, plain
prefixes and suffixes compared in one call each, and only the rest runs through an automaton, all of it at
once. Rules that name a path are run up to the directory once, and go on from there for each name; mostly
nothing is left alive by then, and they cost nothing.
"""

from collections.abc import Iterator, Sequence

from casrewind.worktree.wildmatch import Bank, Program, State, literal_length, parse

from ..typed import NamedTuple

_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One rule. `text` is its pattern without `!` and without the slash that asks for a directory."""

    text: bytes
    negated: bool
    directory: bool  # matches directories only
    by_path: bool  # compared with the path from the rule file's directory on, else with the name alone
    literal: int  # length of the part before the first special byte

    @classmethod
    def parse(cls, raw: bytes) -> "Line":
        """Take one line apart, its end and its trailing spaces already gone."""
        negated = raw[:1] == b"!"
        text = raw[1:] if negated else raw
        directory = text[-1:] == b"/"
        if directory:
            text = text[:-1]
        return cls(text, negated, directory, b"/" in text, literal_length(text))

    def program(self, *, fold: bool) -> Program:
        """The pattern for the automaton. A leading slash only anchors, which `by_path` says already."""
        if not self.by_path:
            return parse(self.text, fold=fold)
        anchor = int(self.text[:1] == b"/")
        # git compares the literal part of a path pattern apart, so that in `a**/b` the stars stand at a beginning.
        return parse(self.text[anchor:], fold=fold, literal=self.literal - anchor)


def raw_lines(data: bytes) -> Iterator[bytes]:
    """The lines of a rule file that hold a rule, as `Line.parse` takes them."""
    for line in data.removeprefix(_BOM).split(b"\n"):
        if not line or line[:1] == b"#":
            continue
        text = line[:-1] if line[-1:] == b"\r" else line
        end = text.find(b"\0")  # a zero byte ends git's lines
        if text := _strip_spaces(text if end < 0 else text[:end]):
            yield text


def _strip_spaces(raw: bytes) -> bytes:
    """Drop trailing spaces (never tabs), but keep one that a backslash protects."""
    bare = raw.rstrip(b" ")
    backslashes = len(bare) - len(bare.rstrip(b"\\"))
    # Backslashes protect each other in pairs; one left over protects the space behind it.
    return raw[: len(bare) + 1] if backslashes % 2 else bare


class Index:
    """The rules of one file that apply to one kind of entry. A rule is known by its number in the file."""

    __slots__ = ("_extensions", "_glob_bank", "_globs", "_names", "_path_bank", "_paths", "_prefixes", "_starts",
                 "_suffixes", "_tails", "by_name", "ignores")  # fmt: skip

    by_name: bool
    """Whether any rule looks at the name alone, and so has a say in every directory."""
    ignores: tuple[bool, ...]
    """For each rule of the file: does a match ignore (True) or re-include (False)?"""

    def __init__(self, lines: Sequence[Line], *, is_dir: bool, fold: bool) -> None:
        """`lines` are all rules of the file, so that numbers mean the same for either kind of entry."""
        self._names: dict[bytes, int] = {}
        self._extensions: dict[bytes, int] = {}
        self._prefixes: dict[bytes, int] = {}
        self._suffixes: dict[bytes, int] = {}
        self._globs: list[int] = []
        self._paths: list[int] = []
        for number, line in enumerate(lines):
            if is_dir or not line.directory:
                self._sort(number, line, line.text.lower() if fold else line.text)
        self._starts = tuple(self._prefixes)
        self._tails = tuple(self._suffixes)
        self._glob_bank = Bank([lines[number].program(fold=fold) for number in self._globs], fold=fold)
        self._path_bank = Bank([lines[number].program(fold=fold) for number in self._paths], fold=fold)
        self.by_name = bool(self._names or self._extensions or self._starts or self._tails or self._globs)
        self.ignores = tuple(not line.negated for line in lines)

    def _sort(self, number: int, line: Line, text: bytes) -> None:
        """Put a rule where it is cheapest to test. Of two equal ones the later counts."""
        if line.by_path:
            self._paths.append(number)
        elif line.literal == len(text):
            self._names[text] = number
        elif text[:1] == b"*" and literal_length(text[1:]) == len(text) - 1:
            simple = text[1:2] == b"." and text.rfind(b".") == 1
            (self._extensions if simple else self._suffixes)[text[1:]] = number
        elif text[-1:] == b"*" and line.literal == len(text) - 1:
            self._prefixes[text[:-1]] = number
        else:
            self._globs.append(number)

    @property
    def steps(self) -> int:
        """Bytes that the automata have looked at so far."""
        return self._glob_bank.steps + self._path_bank.steps

    def descend(self, directory: bytes) -> State:
        """What the rules that name a path can still say in `directory`, for `last`; false if nothing."""
        bank = self._path_bank
        return bank.advance(bank.start, directory + b"/" if directory else b"")

    def last(self, name: bytes, state: State) -> int:
        """The last rule that matches `name` (folded already) in the directory that `descend` gave `state` for.

        -1 if none does.
        """
        best = self._names.get(name, -1)
        if self._extensions and (dot := name.rfind(b".")) >= 0:
            best = max(best, self._extensions.get(name[dot:], -1))
        if self._tails and name.endswith(self._tails):
            best = max(best, *(number for tail, number in self._suffixes.items() if name.endswith(tail)))
        if self._starts and name.startswith(self._starts):
            best = max(best, *(number for start, number in self._prefixes.items() if name.startswith(start)))
        if self._globs and self._globs[-1] > best:
            found = self._glob_bank.advance(self._glob_bank.start, name).last
            best = max(best, self._globs[found]) if found >= 0 else best
        if state.live and self._paths[-1] > best:
            found = self._path_bank.advance(state, name).last
            best = max(best, self._paths[found]) if found >= 0 else best
        return best
