"""The one validator of paths: what it must refuse, and what it must let through."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind import errors
from casrewind.model import paths
from support.sample_start import examples

RUN = settings(derandomize=True, deadline=None, max_examples=examples(150))

IGNORED_BY_HFS = [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
IGNORED_BY_EXT4 = [
    0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180E, 0x180F, 0x200B, 0x2060, 0x2061,
    0x2064, 0x2065, 0x2069, 0x3164, 0xFE00, 0xFE0E, 0xFE0F, 0xFFA0, 0xFFF0, 0xFFF8, 0x1BCA0, 0x1BCA3, 0x1D173, 0x1D17A,
    0xE0000, 0xE0001, 0xE0020, 0xE007F, 0xE0100, 0xE01EF, 0xE0FFF,
]  # fmt: skip
PROTECTED = [".git", ".hg", ".jj", ".svn"]
ALIASES = [
    alias
    for name in PROTECTED
    for alias in (
        name, name.upper(), name.title(), name[:2] + name[2:].upper(),
        name + ".", name + "..", name + " ", name + " .", name.upper() + ". .",
        name + ":", name + "::$INDEX_ALLOCATION", name + ":stream", name.upper() + ".:x", name + " ::$DATA",
        name[1:] + "~1", name[1:].upper() + "~1", name[1:] + "~1.", name[1:] + "~1:x",
        "\u200c" + name, name + "\u200d", name.upper() + "\ufeff", "\ufeff" + name + "\u202e.",
        name + "\\config", "a\\" + name, "..\\" + name.upper() + "\\x", name[1:] + "~1\\x", name + ".\\x", name + "\\",
        "\uff0e" + name[1:], "\u2024" + name[1:], name + "\uff0e", name + "\uff1ax", name + "\uff3cx",
        "." + "".join(chr(ord(letter) + 0xFEE0) for letter in name[1:]),
    )
]  # fmt: skip
ALIASES += [".g\u0131t", ".G\u0131T", "g\u0131t~1", ".\u017fvn", ".\u017fVN", ".s\u1d5bn", ".\U0001d420it", ".g\u2139t\ufe0f"]
ALIASES += [".casrewind-origin", ".CASREWIND-Origin", ".casrewind-origin.", ".casrewind-origin:x", "\u200c.casrewind-origin"]
ORDINARY = [
    ".gitignore", ".gitattributes", ".gitmodules", ".github", ".gitkeep", ".git-blame-ignore-revs", ".gitlab-ci.yml",
    "git", "GIT", "hg", "svn", "jj", ".hgignore", ".hgtags", ".svnignore", ".gitx", ".gi", ".g", "x.git", "repo.git",
    "a~1", "git~", "git~10", "agit~1", "file~", "~", "~1", "#git~1#", ".git~1", "...", "..a", "a..", "....", " ", "a ",
    "a.", "a:b", "con", "nul", "-rf", "*", "?", "\\", "a\\b", "\n", "\t", "é", "e\u0301", "\u200cgit", "中文", "🙂",
    "\u202egpj.exe", ".İgit", ".gi\u0307t", ".ｇｉｔｅ", ".gita\\x", "a\\.gitx\\b", "git\\x", ".gitz", "\ufe0fgit", ".casrewindignore", "casrewind-origin", ".casrewind-origins", "node_modules",
]  # fmt: skip


@pytest.mark.parametrize("alias", ALIASES, ids=ascii)
def test_every_spelling_of_a_kept_name_is_refused_at_every_depth(alias):
    name = alias.encode()
    assert paths.is_protected(name)
    for path in (name, b"a/" + name, name + b"/config", b"a/b/" + name + b"/hooks/pre-commit"):
        with pytest.raises(errors.UnsafePath):
            paths.check_path(path)


@pytest.mark.parametrize("name", PROTECTED)
@pytest.mark.parametrize("point", [*IGNORED_BY_HFS, *IGNORED_BY_EXT4], ids=hex)
def test_a_code_point_that_a_file_system_leaves_out_hides_nothing_wherever_it_stands(name, point):
    for at in range(len(name) + 1):
        assert paths.is_protected((name[:at] + chr(point) + name[at:]).encode())


@pytest.mark.parametrize("name", ORDINARY, ids=ascii)
def test_ordinary_names_are_let_through(name):
    data = name.encode()
    assert paths.why_bad_name(data) is None
    assert paths.check_path(b"dir/" + data + b"/x") == b"dir/" + data + b"/x"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xff.git", b".git\xff", b"a\xc3", b".\xffgit", b"n" * 255])
def test_names_that_are_no_text_are_let_through(name):
    assert paths.check_path(name) == name


@pytest.mark.parametrize(
    "path",
    [b"", b"/", b"/etc/passwd", b"//x", b"..", b"../x", b"a/..", b"a/../b", b"a/../../b", b".", b"./a", b"a/.", b"a/./b",
     b"a//b", b"a/", b"a\0b", b"\0", b"a/\0", b"n" * 256, b"a/" + b"n" * 256 + b"/b"],
)  # fmt: skip
def test_paths_that_could_lead_elsewhere_are_refused(path):
    with pytest.raises(errors.UnsafePath):
        paths.check_path(path)


def test_a_path_may_be_deep_but_not_without_end():
    deep = b"/".join([b"d"] * paths.MAX_DEPTH)
    assert paths.check_path(deep) == deep
    with pytest.raises(errors.UnsafePath):
        paths.check_path(deep + b"/d")


@RUN
@given(st.binary(max_size=40))
def test_any_bytes_are_either_returned_or_refused(path):
    try:
        assert paths.check_path(path) == path
    except errors.UnsafePath:
        return
    parts = path.split(b"/")
    assert not {b"", b".", b".."} & set(parts)
    assert b"\0" not in path
    for part in parts:  # the judge: what is left of a name when everything that some file system drops is dropped
        text = "".join(c for c in part.decode("utf-8", "replace") if ord(c) not in IGNORED_BY_HFS)
        assert unicodedata.normalize("NFKD", text).split(":")[0].rstrip(". ").lower() not in PROTECTED or not text.isascii()


def test_parents_and_join_agree():
    assert paths.parents(b"a/b/c") == [b"a", b"a/b"]
    assert paths.parents(b"a") == []
    assert paths.join(b"", b"a") == b"a"
    assert paths.join(b"a", b"b") == b"a/b"


short = st.lists(st.sampled_from([b"a", b"b", b"ab"]), min_size=1, max_size=3).map(b"/".join)


@RUN
@given(st.lists(short, max_size=3), short)
def test_places_cover_what_lies_in_them_and_nothing_else(places, path):
    def within(one, other):
        return (one + b"/").startswith(other + b"/")

    made = paths.PathScope(places)
    assert made.covers(path) == (not places or any(within(path, place) for place in places))
    assert made.paths_without_any([path]) == sorted({place for place in places if not within(path, place)})
    assert paths.PathScope([*places, b""]).covers(path)


def test_names_that_a_folding_file_system_confuses_have_one_key():
    for one, other in (("A", "a"), ("É", "e\u0301"), ("straße", "STRASSE")):
        assert paths.case_folded_key(one.encode()) == paths.case_folded_key(other.encode())
    assert paths.case_folded_key(b"\xff") != paths.case_folded_key(b"\xfe")
