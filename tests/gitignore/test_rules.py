"""Rules: what lines mean, who outranks whom, and that the quick answer is the slow one."""

import os
import random
import re
import shutil
import subprocess
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casrewind.gitignore import compiled_rules as ignore
from casrewind.gitignore.compiled_rules import RuleLine
from casrewind.gitignore.rules import DEFAULT_EXCLUDED_NAMES, RULE_FILES, RuleFile, Rules, RuleSet, raw_lines
from casrewind.gitignore.wildmatch import PYTHON, expression, matches_whole, parse_pattern
from support.sample_start import examples

SOURCES = ["private", "casrewindignore", "project", "gitignore", "exclude", "global"]


def git(data, base=b""):
    return RuleFile(base, "gitignore", data)


def ours(data, base=b""):
    return RuleFile(base, "casrewindignore", data)


def ignored(data, path, is_dir=False, **options):
    """Whether the root's .gitignore ignores `path` or a directory above it."""
    return not RuleSet([git(data)], **options).captured(path, is_dir)


# --- lines --------------------------------------------------------------------------------------------------

# rules, path (a trailing slash makes it a directory), ignored?
LINES = [
    (b"one", b"one", True),
    (b"one", b"a/one", True),
    (b"one", b"one/x", True),
    (b"one", b"not-one", False),
    (b"one/", b"one", False),
    (b"one/", b"one/", True),
    (b"one/", b"a/one/x", True),
    (b"/one", b"one", True),
    (b"/one", b"a/one", False),
    (b"a/one", b"a/one", True),
    (b"a/one", b"b/a/one", False),
    (b"/a/one", b"a/one", True),
    (b"a/one/", b"a/one/", True),
    (b"a/one/", b"a/one", False),
    (b"*.html", b"a/index.html", True),
    (b"*.html\n!index.html", b"a/index.html", False),
    (b"!index.html\n*.html", b"index.html", True),
    (b"a/*\n!a/keep", b"a/keep", False),
    (b"a/*\n!a/keep", b"a/other", True),
    (b"a/\n!a/keep", b"a/keep", True),
    (b"a\n!a/", b"a/x", False),
    (b"*\n!*/\n!*.c", b"deep/down/x.c", False),
    (b"*\n!*/\n!*.c", b"deep/down/x.h", True),
    (b"a/**/b", b"a/b", True),
    (b"a/**/b", b"a/x/y/b", True),
    (b"**/b", b"x/b", True),
    (b"a/**", b"a/x", True),
    (b"a/**", b"a/", False),
    (b"a**/b", b"ab", True),
    (b"a**/b", b"ax/y/b", True),
    (b"a**b", b"ax/yb", False),
    (b"a*b", b"x/a--b", True),
    (b"# one", b"# one", False),
    (b"\\#one", b"#one", True),
    (b" #one", b" #one", True),
    (b"\\!one", b"!one", True),
    (b"!!one\n", b"!one", False),
    (b"one   ", b"one", True),
    (b"one   ", b"one   ", False),
    (b"one\\ ", b"one ", True),
    (b"one\\  ", b"one ", True),
    (b"one\\ \\ ", b"one  ", True),
    (b"one\\\\ ", b"one\\", True),
    (b"one\\\\\\ ", b"one\\ ", True),
    (b"one\t", b"one", False),
    (b"one\t", b"one\t", True),
    (b"one \t", b"one \t", True),
    (b"one\\", b"one", False),
    (b"one\\", b"one\\", False),
    (b"on e", b"on e", True),
    (b"one\r\ntwo\r\n", b"one", True),
    (b"one\r\ntwo\r", b"two", True),
    (b"one\r\r\n", b"one\r", True),
    (b"one \r\n", b"one", True),
    (b"one\r ", b"one\r", True),
    (b"on\re", b"on\re", True),
    (b"\xef\xbb\xbfone", b"one", True),
    (b"\xef\xbb\xbf# one\none", b"one", True),
    (b"\xef\xbb\xbf\xef\xbb\xbfone", b"one", False),
    (b"x\n\xef\xbb\xbfone", b"one", False),
    (b"one\0two", b"one", True),
    (b"\n\n   \n\r\none", b"one", True),
    (b"!", b"a", False),
    (b"*\n!", b"a", True),
    (b"*\n!/", b"a", True),
    (b"*\n!/", b"a/", True),
    (b"/", b"a/", False),
    (b"//", b"a/", False),
    (b"//a", b"a", False),
    (b"a//", b"a/", False),
    (b"*\n[", b"a", True),
    (b"[", b"[", False),
    (b"[a", b"[a", False),
    (b"\\[a", b"[a", True),
    (b"[[:alpha:]]*", b"x9", True),
    (b"[[:bogus:]]*", b"x9", False),
    (b"[a/b]c", b"ac", True),
    (b"[a/b]c", b"x/ac", False),
    (b"\xff\xfe*", b"\xff\xfe\xfd", True),
    (b"caf\xc3\xa9", "café".encode(), True),
    (b"caf\xe9", "café".encode(), False),
    (b"*a*", b"bab", True),
    (b"f*r", b"foo-bar", True),
    (b"*", b"x", True),
    (b"**", b"x/y", True),
    (b"/*", b"x/y", True),
    (b"/*\n!/x", b"x/y", False),
    (b"\\a\\b", b"ab", True),
]


@pytest.mark.parametrize(("data", "path", "expected"), LINES)
def test_lines(data, path, expected):
    assert ignored(data, path.rstrip(b"/"), path.endswith(b"/")) is expected


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")
def test_git_agrees_with_the_table(tmp_path):
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q", "--template=", "r"], cwd=tmp_path, env=environ, check=True)
    asked = []
    for number, (data, path, _) in enumerate(LINES):
        base = os.fsencode(tmp_path / "r" / str(number))
        os.makedirs(base + b"/" + os.path.dirname(path))
        if not path.endswith(b"/"):
            open(base + b"/" + path, "wb").close()
        with open(base + b"/.gitignore", "wb") as file:
            file.write(data)
        asked.append(b"%d/%s" % (number, path.rstrip(b"/")))  # git would take the slash for a part of the name
    words = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    done = subprocess.run(words, cwd=tmp_path / "r", env=environ, input=b"\0".join(asked), capture_output=True, check=True)
    answered = set(done.stdout.split(b"\0"))
    assert [row for row, path in zip(LINES, asked, strict=True) if row[2] is not (path in answered)] == []


@pytest.mark.parametrize(
    ("data", "path", "expected"),
    [
        (b"one", b"ONE", True),
        (b"ONE", b"one", True),
        (b"*.HTML", b"a.html", True),
        (b"*a.B.html", b"xA.b.HTML", True),
        (b"Pre*", b"PREfix", True),
        (b"a*B*c", b"AxbxC", True),
        (b"/A/b", b"a/B", True),
        (b"a/*.O", b"A/x.o", True),
        (b"\\One", b"one", False),
        (b"[O]ne", b"one", False),
        (b"[o]ne", b"One", True),
        ("É".encode(), "é".encode(), False),
    ],
)
def test_folding_is_gits(data, path, expected):
    assert ignored(data, path, ignore_case=True) is expected


def test_without_folding_capitals_count():
    assert not ignored(b"one\n*.html\nPre*", b"ONE")
    assert not ignored(b"*.html", b"a.HTML")
    assert not ignored(b"Pre*", b"prefix")


def test_long_lines_and_many_lines():
    name = b"n" * 255
    assert ignored(b"x" * 200_000 + b"\n" + name, name)
    assert ignored(b"*a" * 100_000 + b"\n*n*n*", name)
    assert ignored(b"\n".join(b"name%d" % n for n in range(20_000)), b"name19999")


# --- precedence ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stronger", "weaker"), [(a, b) for n, a in enumerate(SOURCES) for b in SOURCES[n + 1 :]])
def test_sources_outrank_each_other(stronger, weaker):
    for first, second in permutations([RuleFile(b"", stronger, b"!x"), RuleFile(b"", weaker, b"x")]):
        assert not Rules.top([first, second]).ignored(b"x", False)
        assert not Rules.top([first]).extend([second]).ignored(b"x", False)
    for first, second in permutations([RuleFile(b"", stronger, b"x"), RuleFile(b"", weaker, b"!x")]):
        assert Rules.top([first, second]).ignored(b"x", False)
        assert Rules.top([first]).extend([second]).ignored(b"x", False)


def test_a_stronger_source_that_says_nothing_leaves_it_to_the_weaker():
    rules = Rules.top([RuleFile(b"", "global", b"x")]).extend([ours(b"!y"), git(b"!z")])
    assert rules.ignored(b"x", False)


def test_deeper_files_outrank_those_above():
    root = Rules.top().extend([git(b"x\n!y\n")])
    below = root.enter(b"d").extend([git(b"!x\ny\n", b"d")])
    assert (root.ignored(b"x", False), root.ignored(b"y", False)) == (True, False)
    assert (below.ignored(b"x", False), below.ignored(b"y", False)) == (False, True)


def test_ours_above_outranks_gits_below():
    rules = Rules.top().extend([ours(b"!.env")]).enter(b"d").extend([git(b".env", b"d")])
    assert not rules.ignored(b".env", False)


def test_a_rule_that_names_a_path_counts_from_its_own_directory():
    rules = Rules.top().extend([git(b"/d/x\n")]).enter(b"d").extend([git(b"/d/x\n/y\n", b"d")])
    assert rules.ignored(b"x", False)
    assert rules.ignored(b"y", False)
    assert not rules.enter(b"d").ignored(b"y", False)
    assert rules.enter(b"d").ignored(b"x", False)
    assert not rules.enter(b"e").ignored(b"x", False)


def test_siblings_do_not_see_each_others_rules():
    root = Rules.top()
    assert root.enter(b"a").extend([git(b"x", b"a")]).ignored(b"x", False)
    assert not root.enter(b"b").ignored(b"x", False)
    assert not root.ignored(b"x", False)


def test_an_env_file_is_opted_in():
    assert not RuleSet([git(b".env\n*.log"), ours(b"!.env\n")]).captured(b"sub/a.log", False)
    assert RuleSet([git(b".env\n*.log"), ours(b"!.env\n")]).captured(b"sub/.env", False)


def test_a_rule_file_of_another_directory_is_refused():
    with pytest.raises(ValueError, match="has no place"):
        Rules.top().extend([git(b"x", b"d")])


def test_rule_file_names():
    assert set(RULE_FILES) == {b".gitignore", b".casrewindignore"}


# --- trivial, digest ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\n", b"# only\n#words", b"  \n\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf# x"])
def test_a_file_without_rules_is_trivial(data):
    rules = Rules.top().extend([git(data)])
    assert rules.trivial
    assert rules.enter(b"d").trivial
    assert rules.digest != Rules.top().digest, "but its bytes are recorded, so they count"


def test_one_rule_is_enough_to_be_not_trivial():
    rules = Rules.top().extend([git(b"#\n\nx")])
    assert not rules.trivial
    assert not rules.enter(b"d").extend([git(b"", b"d")]).trivial
    assert Rules.top().trivial


def test_the_digest_covers_everything_that_decides():
    digests = [
        Rules.top(ignore_case=case, default_excludes=short).extend(files).digest
        for case in (False, True)
        for short in (False, True)
        for files in ([], [git(b"")], [git(b"x")], [git(b"x\n")], [ours(b"x")], [git(b"x"), ours(b"x")], [RuleFile(b"", "project", b"x")])
    ]
    assert len(set(digests)) == len(digests)
    assert {len(digest) for digest in digests} == {32}
    assert Rules.top().enter(b"d").extend([git(b"x", b"d")]).digest != Rules.top().extend([git(b"x")]).digest


def test_the_digest_does_not_run_fields_together():
    one = Rules.top().extend([git(b"ab"), git(b"c")])
    other = Rules.top().extend([git(b"a"), git(b"bc")])
    assert one.digest != other.digest


def test_the_digest_does_not_hang_on_how_the_rules_came_together():
    first, second = git(b"x"), ours(b"y")
    assert Rules.top().extend([first, second]).digest == Rules.top().extend([second, first]).digest
    assert Rules.top().extend([first]).extend([second]).digest == Rules.top().extend([first, second]).digest
    assert Rules.top([first]).digest == Rules.top().extend([first]).digest
    assert Rules.top().enter(b"d").digest == Rules.top().digest, "where nothing is added nothing changes"
    assert Rules.top().extend([]).digest == Rules.top().digest


# --- directories that can be made again ---------------------------------------------------------------------


def test_default_excludes_only_where_nobody_wrote_a_gitignore():
    rules = Rules.top(default_excludes=True)
    assert rules.default_excluded(b"node_modules")
    assert not rules.default_excluded(b"src")
    assert not Rules.top().default_excluded(b"node_modules")
    assert not rules.extend([git(b"")]).default_excluded(b"node_modules")
    assert not rules.extend([git(b"")]).enter(b"d").default_excluded(b"node_modules")
    assert rules.extend([ours(b"x")]).enter(b"d").default_excluded(b"node_modules")
    assert Rules.top([RuleFile(b"", "exclude", b"x")], default_excludes=True).default_excluded(b".venv")


def test_default_excludes_give_way_to_a_rule_that_re_includes():
    rules = Rules.top(default_excludes=True).extend([ours(b"!node_modules/\n!/.venv")])
    assert not rules.default_excluded(b"node_modules")
    assert not rules.default_excluded(b".venv")
    assert rules.enter(b"d").default_excluded(b".venv")
    assert rules.default_excluded(b"__pycache__")


def test_default_excludes_are_not_ignored_by_rules():
    assert not Rules.top(default_excludes=True).ignored(b"node_modules", True)


def test_the_short_list_holds_no_name_people_give_to_sources():
    assert not DEFAULT_EXCLUDED_NAMES & {b"build", b"dist", b"target", b"out", b"bin", b"lib", b"vendor", b"venv", b"env", b"deps"}
    assert {b"node_modules", b".venv", b"__pycache__", b".tox", b".mypy_cache"} <= DEFAULT_EXCLUDED_NAMES


# --- the quick answer is the slow one -----------------------------------------------------------------------

NAMES = [b"a", b"b", b"ab", b"a.o", b"b.o", b"a.b.o", b".o", b".a", b"A", b"A.O", b"a b", b"[a]", b"\xff", b"*", b"ba", b"aab", b"a."]
PATTERNS = NAMES + [b"*", b"**", b"*.o", b"*.b.o", b"a*", b"*a", b"*a*", b"a*b", b"?", b"??", b"[ab]", b"[!a]*", b"\\a", b"*\\", b"[", b"",
                    b"/", b"a/b", b"/a", b"a/*", b"*/b", b"**/b", b"a/**", b"a**/b", b"/*", b"a/**/b", b"**/", b"b/", b"a/*/", b"*.o/"]  # fmt: skip
rule_lines = st.builds(lambda bang, pattern: bang + pattern, st.sampled_from([b"", b"!"]), st.sampled_from(PATTERNS))
rule_data = st.lists(rule_lines, max_size=8).map(b"\n".join)


def one_by_one(data, path, is_dir, fold):
    """What the last rule of a file says that matches, asked one by one: True, False, or None."""
    verdict = None
    for line in map(RuleLine.parse, raw_lines(data)):
        if line.directory and not is_dir:
            continue
        if line.by_path:
            anchored = line.text.removeprefix(b"/")
            literal = line.literal - (len(line.text) - len(anchored))
            matched = re.compile(expression(parse_pattern(anchored, fold=fold, literal=literal), PYTHON)).match((path.lower() if fold else path).decode("latin-1"))
        else:
            matched = matches_whole(line.text, path.rpartition(b"/")[2], fold=fold)
        verdict = not line.negated if matched else verdict
    return verdict


@pytest.fixture(params=["asked seldom", "asked often", "asked often without google-re2", "asked more and more often"])
def asked(request, monkeypatch):
    """How often rules are asked, which decides whether pathspec holds them."""
    monkeypatch.setattr(ignore, "_OFTEN", 100 if "more and more" in request.param else 0 if "often" in request.param else 1 << 62)
    if "without" in request.param:
        monkeypatch.setattr(ignore, "re2_error", lambda: None)


@pytest.mark.turns(3)
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=rule_data, fold=st.booleans())
def test_all_rules_at_once_equal_one_rule_at_a_time(asked, data, fold):
    rules = Rules.top(ignore_case=fold).extend([git(data)])
    for directory in (b"", b"a", b"a/b"):
        inside = rules.at(directory)
        for name in NAMES:
            path = directory + b"/" + name if directory else name
            for is_dir in (False, True):
                assert inside.ignored(name, is_dir) is (one_by_one(data, path, is_dir, fold) is True), path


def test_many_rules_are_told_apart(asked):
    rules = b"\n".join(b"%sname%d" % (b"!" if n % 3 == 0 else b"", n % 700) for n in range(2000))
    said = Rules.top().extend([git(b"*\n" + rules)])
    for number in (0, 1, 2, 299, 300, 301, 698, 699):
        last = next(n for n in reversed(range(2000)) if n % 700 == number)
        assert said.ignored(b"name%d" % number, False) is (last % 3 != 0), number
    assert said.ignored(b"other", False)


FILES = st.lists(st.builds(RuleFile, st.sampled_from([b"", b"a", b"b", b"a/b"]), st.sampled_from(SOURCES), rule_data), max_size=5)


def by_hand(files, path, is_dir, fold):
    """The precedence spelled out: for each level, each source in order, deepest first, the file's last match."""
    parts = path.split(b"/")
    for depth in range(len(parts)):
        at = b"/".join(parts[: depth + 1])
        verdict = None
        for source in SOURCES:
            bases = [b"/".join(parts[:n]) for n in range(depth, -1, -1)]
            for file in (file for base in bases for file in reversed(files) if file.source == source and file.base == base):
                inside = at[len(file.base) + 1 :] if file.base else at
                found = one_by_one(file.data, inside, is_dir or depth < len(parts) - 1, fold)
                verdict = found if verdict is None else verdict
        if verdict:
            return False
    return True


@settings(max_examples=examples(200), deadline=None)
@given(FILES, st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join), min_size=1, max_size=6), st.booleans())
def test_captured_is_the_precedence_spelled_out(files, paths, fold):
    rules = RuleSet(files, ignore_case=fold)
    for path in paths:
        for is_dir in (False, True):
            assert rules.captured(path, is_dir) is by_hand(files, path, is_dir, fold), path


# --- RuleSet ------------------------------------------------------------------------------------------------


def walked(files, path, is_dir, **options):
    """The verdict reached step by step with Rules, as a scan reaches it."""
    at = {base: [file for file in files if file.base == base] for base in {file.base for file in files}}
    rules = Rules.top(**options).extend(at.get(b"", []))
    *above, name = path.split(b"/")
    for part in above:
        if rules.ignored(part, True) or rules.default_excluded(part):
            return False
        rules = rules.enter(part)
        rules = rules.extend(at.get(rules.path, []))
    return not rules.ignored(name, is_dir) and not (is_dir and rules.default_excluded(name))


@settings(max_examples=examples(200), deadline=None)
@given(FILES, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_captured_is_what_a_scan_would_find_in_any_order(files, fold, short, rng):
    options = {"ignore_case": fold, "default_excludes": short}
    names = [*NAMES[:6], b"node_modules"]
    paths = [b"/".join(rng.choice(names) for _ in range(rng.randint(1, 4))) for _ in range(20)]
    rules = RuleSet(rng.sample(files, len(files)) if len({file[:2] for file in files}) == len(files) else files, **options)
    for path in paths:
        is_dir = rng.random() < 0.5
        assert rules.captured(path, is_dir) is walked(files, path, is_dir, **options)


def test_nothing_below_what_is_not_captured_is_captured():
    rng = random.Random(11)
    for _ in range(200):
        files = [RuleFile(b"", "gitignore", b"\n".join(rng.choice([b"", b"!"]) + rng.choice(PATTERNS) for _ in range(5)))]
        rules = RuleSet(files)
        path = b"/".join(rng.choice(NAMES) for _ in range(4))
        verdicts = [rules.captured(b"/".join(path.split(b"/")[:n]), True) for n in range(1, 4)] + [rules.captured(path, False)]
        assert verdicts == sorted(verdicts, reverse=True)


def test_captured_follows_the_rules_of_directories_that_are_gone():
    rules = RuleSet([git(b"*.log"), git(b"!keep.log", b"gone/deep")])
    assert rules.captured(b"gone/deep/keep.log", False)
    assert not rules.captured(b"gone/keep.log", False)
    assert rules.captured(b"gone/deep/further/keep.log", False)


def test_rules_inside_an_ignored_directory_do_not_count():
    assert not RuleSet([git(b"gone/"), git(b"!*", b"gone")]).captured(b"gone/x", False)


def test_default_excludes_hide_what_is_below():
    rules = RuleSet([], default_excludes=True)
    assert not rules.captured(b"a/node_modules", True)
    assert not rules.captured(b"a/node_modules/x/y", False)
    assert rules.captured(b"a/node_modules", False), "a file of that name is no such directory"


def test_the_root_is_captured():
    assert RuleSet([git(b"*")]).captured(b"", True)


def test_very_deep_paths():
    """No recursion, however deep."""
    path = b"/".join([b"d"] * 5000)
    assert RuleSet([git(b"x")]).captured(path + b"/y", False)
    assert not RuleSet([git(b"x")]).captured(path + b"/x", False)
    assert not RuleSet([git(b"**/d/x")]).captured(path + b"/x", False)
