"""What patterns mean, and that no pattern makes matching slow."""

import os
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from casrewind.gitignore import compiled_rules as rules
from casrewind.gitignore.compiled_rules import compile_rules
from casrewind.gitignore.compiled_rules import RuleLine
from casrewind.gitignore.wildmatch import PYTHON, RE2, expression, literal_length, matches_whole, parse_pattern
from support.sample_start import examples

re2 = pytest.importorskip("re2")

# theme -> (pattern, texts it matches, texts it does not), bytes as latin-1
FACTS = {
    "plain": [
        ("foo", "foo", "bar fo fooo Foo foo/"),
        ("???", "foo abc", "fo fooo f/o"),
        ("??", "fo", "foo f"),
        ("*", "foo f .a", "a/b /"),
        ("f*", "foo f fx", "of"),
        ("*f", "f off", "foo"),
        ("*foo*", "foo afoo foob aafoobb", "fo fxoo a/foo"),
        ("*ob*a*r*", "foobar obar ob-a-r", "foobra bar"),
        ("*ab", "aaaaaaabababab ab", "aaaaaaabababa"),
        ("foo\\*", "foo*", "foo foobar foo\\*"),
        ("foo\\*bar", "foo*bar", "foobar fooxbar"),
        ("f\\\\oo", "f\\oo", "f\\\\oo foo"),
        ("\\a\\b", "ab", "\\a\\b"),
        ("*\\\\", "foo\\ \\", "foo foo\\x"),
        ("", "", "a"),
    ],
    "sets": [
        ("*[al]?", "ball", "bal/ all/"),
        ("[ten]", "t e n", "ten x"),
        ("**[!te]", "ten n", "te"),
        ("**[!ten]", "tea a", "ten"),
        ("t[a-g]n", "ten tan", "ton tin"),
        ("t[!a-g]n", "ton t-n", "ten t/n"),
        ("t[^a-g]n", "ton", "tan"),
        ("a[]]b", "a]b", "aab"),
        ("a[]-]b", "a-b a]b", "aab"),
        ("a[]a-]b", "aab a]b a-b", "abb"),
        ("]", "]", "a"),
        ("[!]a-]", "b", "] a -"),
        ("[\\-_]", "- _", "\\ a"),
        ("[\\]]", "]", "\\ \\] [\\]]"),
        ("[!\\]]", "a \\", "]"),
        ("[A-\\\\]", "G \\ [", "a ]"),
        ("[\\1-\\3]", "2 1 3", "4 -"),
        ("[[-\\]]", "[ \\ ]", "-"),
        ("[,-.]", ", - .", "+ /"),
        ("[--A]", "- 5 A", "+ B"),
        ("[ --]", "- $ +", "0 ~"),
        ("[---]", "-", ","),
        ("[------]", "-", "j"),
        ("[a-e-n]", "a e - n", "j f"),
        ("[!------]", "a", "-"),
        ("[]-a]", "_ ] ^ a", "[ b"),
        ("[!]-a]", "[ b", "^ ]"),
        ("[a^bc]", "^ a", "d"),
        ("[a!b]", "! a", "c"),
        ("[z-a]", "z", "a m -"),
        ("[\\\\]", "\\", "/ a"),
        ("[!\\\\]", "a", "\\"),
        ("a[a/]b", "aab", "a/b"),
        ("a[!x]b", "aab", "a/b"),
        ("a[.-0]b", "a.b a0b", "a/b"),
        ("[[]a", "[a", "a ]a"),
        ("[[:]", "[ :", "a ]"),
        ("[\xc0-\xff]", "\xe9 \xff", "\xbf a"),
    ],
    "sets that make a pattern void": [
        ("a[", "", "a a["),
        ("a[b", "", "ab a[b"),
        ("[!", "", "a ! [!"),
        ("[-", "", "- ab [-"),
        ("[]", "", "] a [] ab"),
        ("[]x", "", "] x []x"),
        ("[!]", "", "a ["),
        ("[!]a", "", "a b [!]a"),
        ("[\\", "", "\\ [\\"),
        ("[a-\\", "", "a - \\"),
        ("[[:alpha:", "", "a"),
        ("[[:alpha:]", "", "a :"),
        ("[[:spaci:]x]", "", "a x :"),
        ("[x[:ALPHA:]]", "", "a x"),
        ("[[::]]", "", ": [ ]"),
        ("a\\", "", "a a\\"),
        ("*\\", "", "a a\\ \\"),
        ("[a-c]b*[", "", "ab ab["),
        ("***[", "", "[ a"),
    ],
    "classes": [
        ("[[:alpha:]][[:digit:]][[:upper:]]", "a1B", "a1b aaB"),
        ("[[:digit:][:upper:][:space:]]", "A 1", "a ."),
        ("[[:digit:][:punct:][:space:]]", ". 7", "a"),
        ("[[:xdigit:]]", "5 f D", "g G"),
        ("[[:lower:]x]", "a x", "A 1"),
        ("[a-c[:digit:]x-z]", "5 b y", "q -"),
        ("[^[:alnum:][:xdigit:]]", "- _", "a F 7"),
        ("[[:graph:]]", "! ~ a", "\x7f \x80"),
        ("[[:print:]]", "! a", "\x1f \x7f \xe9"),
        ("[[:cntrl:]]", "\x01 \x1f \x7f", "a \x80"),
        ("[[:punct:]]", "! _ ~ @ [ `", "a 0 \xa1"),
        ("[[:blank:]]", "\t", "a \x0b"),
        ("[[:space:]]", "\t \r", "\x0b \x0c a"),
        ("[[:alpha:]-z]", "a - Z", "1"),
        ("[[:digit]", "[ : d g i t", "7 ]"),
        ("[[:x:]a]", "", "a : x"),
        ("[a[:]b]", "ab] [b] :b]", "a b"),
        ("[a-[:digit:]]", "a] d] :]", "a 5"),
    ],
    "slashes": [
        ("foo*bar", "foobar foo.bar", "foo/baz/bar foo/bar"),
        ("foo**bar", "foobar fooxbar", "foo/baz/bar foo/bar"),
        ("foo**/bar", "foo/bar foox/bar", "foobar foo/x/bar"),
        ("foo/**/bar", "foo/bar foo/baz/bar foo/b/a/z/bar", "foobar foo/barx"),
        ("foo/**/**/bar", "foo/bar foo/b/bar foo/b/a/z/bar", "foobar"),
        ("foo/**", "foo/a foo/a/b foo/", "foo fooa"),
        ("**/foo", "foo XXX/foo bar/baz/foo", "bar/baz/foox foox"),
        ("*/foo", "bar/foo", "foo bar/baz/foo"),
        ("**/bar*", "bar foo/barx foo/bar", "foo/bar/baz"),
        ("**/bar/*", "deep/foo/bar/baz bar/x", "deep/foo/bar deep/foo/bar/baz/x"),
        ("**/bar/**", "deep/foo/bar/baz deep/foo/bar/baz/x deep/foo/bar/", "deep/foo/bar"),
        ("**/bar**", "bar barx", "foo/bar/baz"),
        ("*/bar/**", "foo/bar/baz/x", "deep/foo/bar/baz/x"),
        ("foo?bar", "fooxbar", "foo/bar"),
        ("foo[/]bar", "", "foo/bar"),
        ("foo[^a-z]bar", "foo-bar", "foo/bar"),
        ("f[^eiu][^eiu][^eiu][^eiu][^eiu]r", "f-----r foo-bar", "foo/bar"),
        ("**/*", "a a/b a/b/c", ""),
        ("**", "a a/b", ""),
        ("***", "a a/b", ""),
        ("a**", "a ab", "a/b"),
        ("**a", "a ba", "b/a"),
        ("a/***/b", "a/b a/x/b a/x/y/b", "ab"),
        ("**\\/b", "a/b a/c/b", "b"),
        ("a\\/**/b", "a/b a/x/b", "ab"),
        ("a/**\\b", "a/b a/xb", "a/x/b"),
        ("**/a/**/b", "a/b x/a/b x/a/y/z/b", "a b ab x/ab"),
        ("*/*/*", "foo/bba/arr", "foo/bar foo aaa/bba/ccc/d"),
        ("**/**/**", "foo/bb/aa/rr foo", ""),
        ("*X*i", "abcXdefXghi", "ab/cXd/efXg/hi"),
        ("*/*X*/*/*i", "ab/cXd/efXg/hi", "ab/cXd/hi"),
        ("**/*X*/**/*i", "ab/cXd/efXg/hi", "abXi"),
        ("-*-*-*-*-*-*-12-*-*-*-m-*-*-*", "-adobe-courier-bold-o-normal--12-120-75-75-m-70-iso8859-1",
         "-adobe-courier-bold-o-normal--12-120-75-75-X-70-iso8859-1 -adobe-courier-bold-o-normal--12-120-75-75-/-70-iso8859-1"),
        ("XXX/*/*/*/*/*/*/12/*/*/*/m/*/*/*", "XXX/adobe/courier/bold/o/normal//12/120/75/75/m/70/iso8859/1",
         "XXX/adobe/courier/bold/o/normal//12/120/75/75/X/70/iso8859/1"),
        ("**/*a*b*g*n*t", "abcd/abcdefg/abcdefghijk/abcdefghijklmnop.txt", "abcd/abcdefg/abcdefghijk/abcdefghijklmnop.txtz"),
    ],
}  # fmt: skip
TABLE = [
    (pattern, text, expected)
    for rows in FACTS.values()
    for pattern, yes, no in rows
    for texts, expected in ((yes, True), (no, False))
    for text in (texts.split(" ") if texts else [])
] + [("", "", True), ("[[:space:]]", " ", True), ("[[:blank:]]", " ", True), ("[[:print:]]", " ", True), ("[[:graph:]]", " ", False)]

FOLDED = [
    ("a", "A", True),
    ("A", "a", True),
    ("FOO*", "fooBAR", True),
    ("[a-z]", "Q", True),
    ("[A-Z]", "q", True),
    ("[A-Z]", "Q", True),
    ("[B-b]", "a", True),
    ("[B-b]", "c", True),
    ("[!A-Z]", "a", False),
    ("[a]", "A", True),
    ("[A]", "a", False),
    ("[A]", "A", False),
    ("[!A]", "A", True),
    ("\\A", "A", False),
    ("\\A", "a", False),
    ("\\a", "A", True),
    ("[\\A]", "A", False),
    ("[[:upper:]]", "a", True),
    ("[[:upper:]]", "A", True),
    ("[[:lower:]]", "A", True),
    ("[![:upper:]]", "a", False),
    ("\xe9", "\xc9", False),
    ("[\xe0-\xff]", "\xc9", False),
    ("*.TXT", "a.txt", True),
]


def by_re2(pattern, text, *, fold=False, **options):
    options = re2.Options()
    options.log_errors = False
    found = re2.compile(expression(parse_pattern(pattern, fold=fold), RE2), options)
    return found.match((text.lower() if fold else text).decode("latin-1")) is not None


BOTH = pytest.mark.parametrize("match", [matches_whole, by_re2], ids=["re", "re2"])


@pytest.mark.turns(3)
@BOTH
@pytest.mark.parametrize(("pattern", "text", "expected"), TABLE)
def test_facts(match, pattern, text, expected):
    assert matches_whole(pattern.encode("latin-1"), text.encode("latin-1")) is expected


@BOTH
@pytest.mark.parametrize(("pattern", "text", "expected"), FOLDED)
def test_facts_when_folding(match, pattern, text, expected):
    assert matches_whole(pattern.encode("latin-1"), text.encode("latin-1"), fold=True) is expected


def test_stars_behind_a_literal_part_stand_at_a_beginning():
    """git compares the literal part apart, so that here `**/` does what it does in front."""
    texts = [b"foobar", b"foo/bar", b"foox/y/bar", b"fooxbar"]
    for module, spelling in ((re, PYTHON), (re2, RE2)):
        found = module.compile(expression(parse_pattern(b"foo**/bar", literal=3), spelling))
        assert {text for text in texts if found.match(text.decode())} == {b"foobar", b"foo/bar", b"foox/y/bar"}


def test_literal_length():
    assert [literal_length(text) for text in (b"", b"abc", b"*", b"ab?", b"a\\b", b"a[", b"]!")] == [0, 3, 0, 2, 1, 1, 2]


# --- a slow and obvious matcher to compare with -------------------------------------------------------------


def slow(pattern, text):
    """Backtracking over patterns of plain bytes, `?`, `*` and `**`, for short texts only."""

    def at(p, t):
        if p == len(pattern):
            return t == len(text)
        if pattern[p] == "*":
            end = p
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            whole = end - p > 1 and (p == 0 or pattern[p - 1] == "/") and (end == len(pattern) or pattern[end] == "/")
            if whole and end < len(pattern) and at(end + 1, t):
                return True
            return any(at(end, stop) for stop in range(t, len(text) + 1) if whole or "/" not in text[t:stop])
        return t < len(text) and (pattern[p] == text[t] or (pattern[p] == "?" and text[t] != "/")) and at(p + 1, t + 1)

    return at(0, 0)


@settings(max_examples=examples(1500), deadline=None)
@given(st.text("ab/*?", max_size=9), st.text("ab/", max_size=9))
@example("**/**/a", "a")
@example("a/**/**", "a/")
@example("**/a/**/b", "x/a/a/b")
def test_equals_a_slow_matcher(pattern, text):
    assert matches_whole(pattern.encode(), text.encode()) is by_re2(pattern.encode(), text.encode()) is slow(pattern, text)


@settings(max_examples=examples(1500), deadline=None)
@given(st.text("aB/*?[]!-\\:", max_size=12), st.text("abB/-]", max_size=9), st.booleans())
@example("**/a*/**/*b", "a/ab/b/ab", False)
@example("a*/**/*[!b]*/**", "aa/b/a/", False)
def test_both_spellings_mean_the_same(pattern, text, fold):
    assert matches_whole(pattern.encode(), text.encode(), fold=fold) is by_re2(pattern.encode(), text.encode(), fold=fold)


@settings(max_examples=examples(500), deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=20), st.booleans())
def test_no_bytes_raise(pattern, text, fold):
    assert matches_whole(pattern, text, fold=fold) is by_re2(pattern, text, fold=fold)


# --- no pattern is slow -------------------------------------------------------------------------------------

# Each builds a pattern that grows with its argument, and the text it is hardest on.
HOSTILE = {
    "stars and a letter": lambda n: (b"*a" * n + b"b", b"a" * n),
    "stars and a letter, answered by the end": lambda n: (b"*a" * n, b"a" * n),
    "stars and letters": lambda n: (b"*ab" * n + b"*c", b"ab" * n),
    "stars only": lambda n: (b"*" * n + b"b", b"a" * n),
    "stars and question marks": lambda n: (b"*?" * n + b"b", b"a" * n),
    "question marks and a star": lambda n: (b"?" * n + b"*" + b"?" * n + b"b", b"a" * 2 * n),
    "stars and sets": lambda n: (b"*[ab]" * n + b"c", b"ab" * n),
    "stars and negated sets": lambda n: (b"*[!c]" * n + b"c", b"ab" * n),
    "stars and classes": lambda n: (b"*[[:alpha:]]" * n + b"1", b"ab" * n),
    "stars and ranges": lambda n: (b"*[a-y]" * n + b"z", b"ab" * n),
    "stars and escapes": lambda n: (b"*\\a" * n + b"b", b"a" * n),
    "double stars in a name": lambda n: (b"a**" * n + b"c", b"ab" * n),
    "a**b**c": lambda n: (b"a" + b"**b" * n + b"**c", b"a" + b"b" * n),
    "double stars and a letter": lambda n: (b"**a" * n + b"b", b"a" * n),
    "any depth, then a": lambda n: (b"**/a/" * n + b"b", b"a/" * n),
    "any depth, then a, without end": lambda n: (b"**/a/" * n + b"**/c", b"a/" * n + b"b"),
    "any depth, then stars": lambda n: (b"**/*a*/" * n + b"b", b"aa/" * n),
    "any depth, any name": lambda n: (b"**/*/" * n + b"b", b"a/" * n),
    "any depth again and again": lambda n: (b"**/" * n + b"b", b"a/" * n),
    "any depth below": lambda n: (b"a/**/" * n + b"b", b"a/" * n),
    "any depth, sets": lambda n: (b"**/[a-z]/" * n + b"1", b"a/" * n),
    "any depth, escaped slash": lambda n: (b"**\\/a" * n + b"/b", b"/a" * n),
    "names with stars": lambda n: (b"*/" * n + b"b", b"a/" * n),
    "names with stars around": lambda n: (b"*a*/" * n + b"b", b"aaa/" * n),
    "triple stars": lambda n: (b"***/a" * n + b"b", b"/a" * n),
    "star, long literal": lambda n: (b"*" + b"a" * n + b"b", b"a" * 2 * n),
    "star, long almost literal": lambda n: (b"*" + b"a" * n + b"?b", b"a" * 2 * n),
    "stars, long literals": lambda n: ((b"*" + b"a" * 50) * (n // 50 + 1) + b"b", b"a" * 2 * n),
    "many states": lambda n: (b"*a" + b"?" * n + b"b", b"ab" * n),
    "many states in folders": lambda n: (b"**/*a" + b"?" * n, (b"ab" * 40 + b"/") * (n // 40 + 1)),
    "one set repeated": lambda n: (b"[ab]" * n + b"c", b"ab" * (n // 2)),
    "a long set": lambda n: (b"*[" + b"ab" * n + b"]*c", b"ab" * n),
    "a long negated set": lambda n: (b"*[!" + b"xy" * n + b"]*c", b"ab" * n),
    "a set of ranges": lambda n: (b"*[" + b"a-z" * n + b"]*1", b"ab" * n),
    "a set of classes": lambda n: (b"*[" + b"[:alpha:]" * n + b"]*1", b"ab" * n),
    "a set of escapes": lambda n: (b"*[" + b"\\a" * n + b"]*1", b"ab" * n),
    "a set of dashes": lambda n: (b"*[" + b"-" * n + b"]*1", b"-" * n),
    "open sets": lambda n: (b"[" * n, b"[" * n),
    "stars and open sets": lambda n: (b"*[" * n, b"[" * n),
    "open classes": lambda n: (b"[[:" * n, b"[:" * n),
    "classes that are none, one set": lambda n: (b"*[" + b"[:a" * n + b"]*b", b"[:a" * n),
    "classes that do not end": lambda n: (b"*[" + b"[:alpha:" * n, b"a" * n),
    "a very long class name": lambda n: (b"*[[:" + b"a" * n + b":]]", b"a" * n),
    "closed sets in a row": lambda n: (b"*[]" * n + b"]", b"]" * n),
    "backslashes": lambda n: (b"\\" * (2 * n + 1), b"\\" * n),
    "stars and backslashes": lambda n: (b"*\\\\" * n + b"a", b"\\" * n),
    "every byte": lambda n: (bytes(set(range(1, 256)) - {0x5B, 0x5C}) * (n // 100 + 1) + b"*b", bytes(range(1, 256)) * (n // 100 + 1)),
    "mixed": lambda n: (b"*a?[bc]**d\\*" * n, b"aabd*" * n),
}
SIZES = (30, 100, 300, 1000) + ((10000,) if os.environ.get("CASREWIND_LONG") else ())


def seconds(ask):
    """The processor time that a question takes, and its answer."""
    before = time.process_time()
    answer = ask()
    return time.process_time() - before, answer


@pytest.mark.parametrize("build", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("fold", [False, True])
def test_hostile_patterns_end(build, fold, monkeypatch):
    """The parser looks at each byte a few times; what backtracks would not end before the sun does. A limit of a minute is a
    thousand times what is needed."""
    assert len(HOSTILE) >= 48
    for size in SIZES:
        pattern, text = build(size)
        assert parse_pattern(pattern, fold=fold).steps <= 4 * len(pattern)
        line = RuleLine.parse(pattern)
        answers = set()
        for error, often in ((rules.re2_error(), 0), (None, 0), (None, 1)):
            monkeypatch.setattr(rules, "re2_error", lambda error=error: error)
            monkeypatch.setattr(rules, "_OFTEN", often)
            spent, answer = seconds(lambda: compile_rules([line], ignore_case=fold)[0].verdict(text.decode("latin-1")))
            assert spent < 60
            answers.add(answer)
        assert len(answers) == 1


@pytest.mark.parametrize("often", [0, 1 << 62])
def test_hostile_patterns_together(monkeypatch, often):
    monkeypatch.setattr(rules, "_OFTEN", often)
    built = [build(200) for build in HOSTILE.values()]
    lines = [RuleLine.parse(b"!" * (number % 2) + pattern) for number, (pattern, _) in enumerate(built)]
    together, *each = (compile_rules(some, ignore_case=False)[0] for some in (lines, *([line] for line in lines)))
    for number, (_, text) in enumerate(built):
        spent, found = seconds(lambda: together.verdict(text.decode("latin-1")))
        alone = [group.verdict(text.decode("latin-1")) for group in each]
        assert found is next((verdict for verdict in reversed(alone) if verdict is not None), None), number
        assert spent < 60
