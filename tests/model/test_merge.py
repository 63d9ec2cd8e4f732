"""Three-way merges, by their laws, by the table of entries, and against git."""

import random
import subprocess
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casrewind.model import digest, manifest
from casrewind.model.line_diff import lines_of
from casrewind.model.manifest import DIR, FILE, PURGED, Entry, same_for_restore
from casrewind.model.merge import BOTH, CONFLICT, CONFLICTS, IS_BINARY, IS_LARGE, IS_PURGED, REMOVED, merge, merge_lines

LINE = st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d\r\n", b"e\r\n"])
TEXT = st.builds(lambda lines, end: b"".join(lines) + end, st.lists(LINE, max_size=12), st.sampled_from([b"", b"z"])).map(lines_of)


def clean(base, ours, theirs):
    """The merged bytes, or None for a conflict."""
    found = merge_lines(base, ours, theirs)
    return None if found.conflicts else found.ours_with_theirs_in(found.clean)


@given(TEXT, TEXT)
def test_a_side_without_changes_gives_the_other_side(base, side):
    assert clean(base, side, base) == clean(base, base, side) == clean(base, side, side) == b"".join(side)


@given(TEXT, TEXT, TEXT)
def test_the_sides_can_be_exchanged(base, ours, theirs):
    assert clean(base, ours, theirs) == clean(base, theirs, ours)


@given(TEXT, TEXT, TEXT)
def test_no_line_is_lost_and_none_is_made_up(base, ours, theirs):
    found = merge_lines(base, ours, theirs)
    if found.conflicts:
        return
    merged = lines_of(found.ours_with_theirs_in(found.clean))
    for line in {*base, *ours, *theirs}:
        assert line not in merged or line in {*ours, *theirs}
        if line not in base:
            assert (line in merged) == (line in ours or line in theirs), line


@given(TEXT, TEXT, TEXT)
def test_groups_are_in_order_and_all_between_them_is_common(base, ours, theirs):
    found = merge_lines(base, ours, theirs)
    at = (0, 0, 0)
    for group in found.groups:
        starts, ends = [span.start for span in group[:3]], tuple(span.end for span in group[:3])
        assert base[at[0] : starts[0]] == ours[at[1] : starts[1]] == theirs[at[2] : starts[2]]
        at = ends
    assert base[at[0] :] == ours[at[1] :] == theirs[at[2] :]


def test_touching_changes_are_a_conflict_and_a_line_between_them_is_enough():
    base = [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert clean(base, [b"one\n", *base[1:]], [base[0], b"two\n", *base[2:]]) is None
    assert clean(base, [b"one\n", *base[1:]], [*base[:2], b"three\n", base[3]]) == b"one\n2\nthree\n4\n"


def test_lines_that_repeat_are_put_where_git_puts_them(tmp_path):
    """Two additions around an empty line are one addition, if they can be moved to each other."""
    base = [b"78\n", b"\n", b"\n", b"83\n"]
    ours = [b"78\n", b"124\n", b"\n", b"\n", b"146\n", b"\n", b"\n", b"83\n"]
    theirs = [b"78\n", b"\n", b"80\n", b"\n", b"83\n"]
    assert len(merge_lines(base, ours, base).groups) == 1
    assert (False, clean(base, ours, theirs)) == git_merge(tmp_path, *map(b"".join, (base, ours, theirs)))


def test_one_of_the_groups_can_be_taken():
    base = [b"%d\n" % number for number in range(9)]
    theirs = [b"first\n", *base[1:-1], b"last\n"]
    found = merge_lines(base, [*base[:4], b"mine\n", *base[5:]], theirs)
    assert found.ours_with_theirs_in(found.clean[1:]) == b"0\n1\n2\n3\nmine\n5\n6\n7\nlast\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_markers_are_those_of_git(end, tmp_path):
    base, ours, theirs = ([line + end for line in text] for text in ([b"1", b"2", b"3"], [b"1", b"x"], [b"0", b"1", b"y", b"3"]))
    marked = merge_lines(base, ours, theirs).with_conflict_markers(b"now", b"after @2", b"before @2")
    assert marked == git_merge(tmp_path, *map(b"".join, (base, ours, theirs)), names=("now", "after @2", "before @2"))[1]


def git_merge(place, base, ours, theirs, names=("ours", "base", "theirs")):
    """Returns (whether git finds a conflict, its bytes)."""
    for name, data in zip(("base", "ours", "theirs"), (base, ours, theirs), strict=True):
        (place / name).write_bytes(data)
    options = [word for name in names for word in ("-L", name)]
    done = subprocess.run(["git", "merge-file", "-p", "--diff3", *options, "ours", "base", "theirs"], cwd=place, capture_output=True)
    assert done.returncode >= 0 and done.returncode < 128, done.stderr
    return done.returncode != 0, done.stdout


class Triples:
    """Three texts each: a base and two sides made of it by a few edits. Some have no line twice."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = 0

    def line(self):
        self.made += 1
        number = self.made if not self.words else self.random.randrange(self.words)
        return b"line %d" % number + self.end if number % 8 else self.end if self.words else b"}%d" % number + self.end

    def edited(self, lines):
        lines = list(lines)
        for _ in range(self.random.randint(0, 2 + len(lines) // 20)):
            at, count = self.random.randint(0, len(lines)), self.random.randint(1, 4)
            kind = self.random.random()
            lines[at : at + (0 if kind < 0.35 else count)] = [] if kind > 0.75 else [self.line() for _ in range(self.random.randint(1, 4))]
        return lines

    def __call__(self):
        self.end = b"\r\n" if self.random.random() < 0.15 else b"\n"
        size = self.random.choice([0, 1, 2, 5, 10, 30, 100, 400])
        self.words = self.random.choice([0, 0, max(8, size // 4), 40, 400])
        base = [self.line() for _ in range(size)]
        ours, theirs = self.edited(base), self.edited(base)
        kind = self.random.random()
        if kind < 0.04:
            ours = base
        elif kind < 0.08:
            theirs = base
        elif kind < 0.1:
            theirs = ours
        elif kind < 0.12:
            ours = []
        elif kind < 0.14:
            theirs = []
        texts = [b"".join(lines) for lines in (base, ours, theirs)]
        return [text.rstrip(b"\r\n") if self.random.random() < 0.12 else text for text in texts]


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_generated_merges_against_git(count, tmp_path):
    """Where lines repeat, several alignments of two texts are equally short, and git does not search for the shortest.
    So a change can touch one of the other side in one alignment only. Without repeated lines there is no difference."""
    triples, conflicts, differences = Triples(count), 0, []
    for _ in range(count):
        base, ours, theirs = triples()
        is_conflict, expected = git_merge(tmp_path, base, ours, theirs)
        merged = clean(*map(lines_of, (base, ours, theirs)))
        conflicts += is_conflict
        if (merged is None) != is_conflict:
            differences.append((base, ours, theirs))
        elif merged is not None:
            assert merged == expected, (base, ours, theirs)
    print(f"{count} merges, {conflicts} conflicts in git, {len(differences)} in one of the two only")
    assert conflicts > count / 10
    assert len(differences) <= count / 500
    assert all(any(len(set(lines)) < len(lines) for lines in map(lines_of, texts)) for texts in differences)


# -- entries


def file(text, mode=0o644):
    return Entry(FILE, mode, len(text), digest=digest.of(text)), text


A, B, C = (file(text)[0] for text in (b"1\n2\n3\n", b"1\n2\nthree\n", b"one\n2\n3\n"))
FAR = file(b"one\n2\nthree\n")[0]
TEXTS = {digest.of(text): text for text in (b"1\n2\n3\n", b"1\n2\nthree\n", b"one\n2\n3\n", b"3\n2\n1\n", b"\0one", b"\0two", b"\0three")}
RUN = A._replace(mode=0o755)
LINKS = [manifest.link_entry(target) for target in (b"a", b"b", b"c")]
DIRS = [Entry(DIR, mode) for mode in (0o755, 0o700, 0o711)]


def read(entry):
    return TEXTS[entry.digest]


def test_every_case_of_one_side_without_changes():
    for base, ours, theirs in product([None, A, B, C, RUN, *LINKS, *DIRS], repeat=3):
        found = merge(base, ours, theirs, read)
        if same_for_restore(base, theirs) or same_for_restore(ours, theirs):
            assert found == (ours, 0, None, "", "")
        elif same_for_restore(ours, base):
            assert found == (theirs, 0, None, "", "")
        elif not found.why and found.lines is None:
            assert {base.kind, ours.kind, theirs.kind} == {FILE}


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "why", "reason"),
    [
        (A, B, None, CONFLICTS, "the turn made it, and it was edited since"),
        (None, B, A, CONFLICTS, "made again since"),
        (A, None, B, REMOVED, "removed since"),
        (LINKS[0], LINKS[1], LINKS[2], CONFLICTS, "edited since"),
        (DIRS[0], DIRS[1], DIRS[2], CONFLICTS, "its mode was changed since"),
        (A, LINKS[0], B, CONFLICTS, "what it is was changed since"),
        (A, B, DIRS[0], CONFLICTS, "what it is was changed since"),
        (A, B, Entry(PURGED, 0, 1), IS_PURGED, "its content was purged"),
        (Entry(PURGED, 0, 1), B, A, IS_PURGED, "its content was purged"),
        (Entry(PURGED, 0, 1), None, A, IS_PURGED, "its content was purged"),
        (A._replace(mode=0o600), A._replace(mode=0o640), A._replace(mode=0o644), CONFLICTS, "its mode was changed since"),
        (file(b"\0one")[0], file(b"\0two")[0], file(b"\0three")[0], IS_BINARY, "edited since, and binary"),
        (A, B, C._replace(size=5 << 20), IS_LARGE, "edited since, and too large to merge"),
    ],
)
def test_what_is_left_alone(base, ours, theirs, why, reason):
    assert merge(base, ours, theirs, read) == (ours, 0, None, why, reason)


def test_content_and_mode_are_merged_on_their_own():
    found = merge(A, B._replace(mode=0o755), C, read)
    assert found.mode == 0o755 and found.lines.ours_with_theirs_in(found.lines.clean) == b"one\n2\nthree\n"
    assert merge(RUN, B._replace(mode=0o755), A, read).entry == B  # the turn set the mode
    assert merge(A, RUN, B, read).entry == B._replace(mode=0o755)
    found = merge(A, B, file(b"3\n2\n1\n")[0], read)
    assert [group.side for group in found.lines.groups] == [group.side for group in found.lines.conflicts] != []
    assert {CONFLICT, BOTH}.isdisjoint(group.side for group in found.lines.clean)


def test_a_file_of_very_many_lines_is_left_alone():
    long = {digest.of(text): text for text in (b"a\n" * 50_000, b"b\n" * 50_000, b"c\n")}
    entries = [Entry(FILE, 0o644, len(text), digest=digest.of(text)) for text in long.values()]
    assert merge(*entries, lambda entry: long[entry.digest]).why == IS_LARGE
