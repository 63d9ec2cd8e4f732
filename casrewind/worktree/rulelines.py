"""The lines of one rule file.

The danger: a line misread by one byte ignores what should be saved. Where a line ends, which spaces belong to
it, what a lone `!` or a stray carriage return mean: all of it is as git has it, and none of it raises.
"""

from collections.abc import Iterator

from casrewind.worktree.wildmatch import Spelling, expression, literal_length, parse

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

    def expression(self, spelling: Spelling, *, fold: bool) -> str:
        """The regular expression of the paths that match, counted from the rule file's directory on."""
        if not self.by_path:
            return expression(parse(self.text, fold=fold), spelling, before="(?:.*/)?")
        anchor = int(self.text[:1] == b"/")  # a leading slash only anchors, which `by_path` says already
        # git compares the literal part of a path pattern apart, so that in `a**/b` the stars stand at a beginning.
        return expression(parse(self.text[anchor:], fold=fold, literal=self.literal - anchor), spelling)


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
