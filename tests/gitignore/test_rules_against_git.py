"""Our verdicts against git's own, over generated trees and rules.

CASREWIND_GIT_TREES sets how many trees (480 unless told), CASREWIND_GIT_SEED where the generator starts.
"""

import os
import random
import shutil
import subprocess

import pytest

from casrewind.gitignore.rules import RuleFile, Rules, RuleSet

TREES = int(os.environ.get("CASREWIND_GIT_TREES", "480"))
SEED = int(os.environ.get("CASREWIND_GIT_SEED", "1"))
PER_REPOSITORY = 40

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")

PLAIN = [b"a", b"b", b"c", b"ab", b"abc", b"foo", b"bar", b"foobar", b"a.o", b"b.o", b"a.c", b"x.tar.gz", b"A", b"Foo", b"B.O"]
ODD = [b"a ", b" a", b"a  ", b"a\t", b"a b", b"a\\", b"\\a", b"[a]", b"[", b"]", b"!a", b"!", b"#a", b"a*", b"*", b"?",
       b"**", b"-", b"^", b"a-b", b"\xff", b"\xffa", "é".encode(), "É".encode(), b"a\x0b", b"\x01", b"a\r", b"_", b"7", b"Z9",
       b"a\x7f", b".a", b".a.o", b"a.", b":", b"[:x:]", b"\xef\xbb\xbfa"]  # fmt: skip
SETS = [b"[ab]", b"[!a]", b"[^a]", b"[a-c]", b"[A-Z]", b"[A]", b"[z-a]", b"[]a]", b"[!]a]", b"[]-a]", b"[a-]", b"[-a]", b"[\\]]",
        b"[\\a-\\c]", b"[a", b"[", b"[!", b"[]", b"[!]", b"[a-", b"[\\", b"[a\\", b"[/]", b"[a/b]", b"[!b]", b"[--9]", b"[[]",
        b"[[:alpha:]]", b"[[:upper:]]", b"[[:lower:]]", b"[[:digit:]]", b"[[:alnum:]]", b"[[:punct:]]", b"[[:space:]]",
        b"[[:blank:]]", b"[[:cntrl:]]", b"[[:graph:]]", b"[[:print:]]", b"[[:xdigit:]]", b"[![:alpha:]]", b"[^[:upper:]]",
        b"[[:bogus:]]", b"[[:ALPHA:]]", b"[[:]", b"[[::]]", b"[[:alpha]", b"[[:alpha:", b"[[:alpha:]-z]", b"[a-[:digit:]]",
        b"[x[:digit:]a]", b"[[:x:]a]", b"[a[:]b]", b"[\xc0-\xff]", b"[!\xff]", b"[\\-a]", b"[a\\-c]", b"[B-b]", b"[!A-Z]"]  # fmt: skip
CLASSES = [b"[:%s:]" % name for name in (b"alnum", b"alpha", b"blank", b"cntrl", b"digit", b"graph", b"lower", b"print", b"punct",
                                         b"space", b"upper", b"xdigit", b"word", b"Alpha", b"")]  # fmt: skip
GLUE = [b"*", b"**", b"***", b"?", b"\\", b"\\\\", b"\\*", b"\\?", b"\\[", b"\\ ", b" ", b"\t", b".", b"!", b"#", b"\r"]
TAILS = [b" ", b"  ", b"\\ ", b"\\  ", b"\\\\ ", b"\t", b" \t", b"\\", b"\\\\", b"\r", b" \r", b"\r\r", b"\\\r", b"/", b"//", b"/ ", b"\x00b"]
WHOLE = [b"!", b"!/", b"/", b"//", b"*", b"!*", b"**", b"!**", b"/*", b"!/*", b"*/", b"!*/", b"**/", b"/**", b"**/**", b"", b"#", b"\\",
         b"!\\", b"\\#a", b"\\!a", b"#a", b"!#a", b"!!a", b"/**/", b"a/**", b"**/a", b"a/**/b", b"foo**/bar", b"foo**", b"*foo*", b" ",
         b"/a*", b"!a", b"!a/", b"a/", b"a/*", b"!a/b", b"*.o", b"!a.o", b"/\\", b"\xef\xbb\xbfa", b"**foo/bar", b"**/*a", b"*/**/b",
         b"**\\/b", b"a/**\\/b", b"\\a", b"\\A", b"a[.-0]b", b"/a[!x]b"]  # fmt: skip


class Dice(random.Random):
    """A generator with a palette: few names per tree, so that rules and names meet."""

    palette = PLAIN

    def mix(self):
        self.palette = self.sample(PLAIN, 4) + self.sample(ODD, 2)


def name(rng):
    return rng.choice(rng.palette)


def piece(rng):
    kind = rng.random()
    if kind < 0.5:
        return name(rng)
    if kind < 0.65:
        return rng.choice(SETS)
    if kind < 0.9:
        return rng.choice(GLUE)
    return bytes(rng.choice(b"ab*?[]!^-\\/: .o") for _ in range(rng.randint(1, 6)))


def component(rng):
    kind = rng.random()
    if kind < 0.35:
        return name(rng)
    if kind < 0.5:
        return rng.choice([b"*", b"**", b"?", b"*.o", b"a*", b"*b", b"f*r", b"***"])
    return b"".join(piece(rng) for _ in range(rng.randint(1, 3)))


def rule(rng):
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(WHOLE)
    if kind < 0.26:
        return bytes(rng.choice(b"ab*?[]!^-\\/: .#\xff") for _ in range(rng.randint(1, 9)))
    text = b"/".join(component(rng) for _ in range(rng.choice([1, 1, 1, 2, 2, 3])))
    if rng.random() < 0.15:
        text = b"/" + text
    if rng.random() < 0.25:
        text = b"!" + text
    if rng.random() < 0.2:
        text += b"/"
    if rng.random() < 0.12:
        text += rng.choice(TAILS)
    return text


def rules(rng, most=5):
    lines = [rule(rng) for _ in range(rng.randint(1, most))]
    ending = b"\r\n" if rng.random() < 0.15 else b"\n"
    data = ending.join(lines) + (ending if rng.random() < 0.8 else b"")
    if rng.random() < 0.1:
        data = b"\xef\xbb\xbf" + data
    return data


def grow(rng, depth=0):
    """A directory as {name: None (file), bytes (link target) or dict}."""
    directory = {}
    for _ in range(rng.randint(3, 6)):
        kind = rng.random()
        if kind < 0.45 and depth < 3:
            directory[name(rng)] = grow(rng, depth + 1)
        elif kind < 0.5:
            directory[name(rng)] = b"."
        else:
            directory[name(rng)] = None
    if rng.random() < (0.9 if depth == 0 else 0.35):
        directory[b".gitignore"] = RuleFile(b"", "gitignore", rules(rng))
    return directory


def plant(directory, path):
    """Make it on disk; returns how many files and links there are."""
    os.mkdir(path)
    count = 0
    for entry, what in directory.items():
        where = os.path.join(path, entry)
        count += 0 if isinstance(what, dict) else 1
        if isinstance(what, dict):
            count += plant(what, where)
        elif isinstance(what, bytes):
            os.symlink(what, where)
        else:
            with open(where, "wb") as file:
                file.write(what.data if what else b"")
    return count


def walk(rules, path):
    """What a scan would capture, files and links only, as git lists them."""
    found = []
    entries = list(os.scandir(path))
    for entry in entries:
        if entry.name == b".gitignore":
            with open(entry.path, "rb") as file:
                rules = rules.extend([RuleFile(rules.path, "gitignore", file.read())])
    for entry in entries:
        is_dir = entry.is_dir(follow_symlinks=False)
        if (is_dir and entry.name == b".git") or rules.ignored(entry.name, is_dir):
            continue
        if is_dir:
            found += walk(rules.enter(entry.name), entry.path)
        else:
            found.append(rules.path + b"/" + entry.name if rules.path else entry.name)
    return found


@pytest.fixture
def git(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "config").write_bytes(b"")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": str(home / "config"),
               "LC_ALL": "C.UTF-8", "GIT_CEILING_DIRECTORIES": str(tmp_path)}  # fmt: skip

    def run(where, *words, stdin=b"", codes=(0,)):
        done = subprocess.run(["git", *words], cwd=where, env=environ, input=stdin, capture_output=True, check=False)
        assert done.returncode in codes, done.stderr
        return done.stdout

    return run


def repository(git, where, exclude=b"", everywhere=b"", ignore_case=False):
    git(os.path.dirname(where), "init", "-q", "--template=", os.fsdecode(where))
    os.mkdir(os.path.join(where, b".git", b"info"))
    with open(os.path.join(where, b".git", b"info", b"exclude"), "wb") as file:
        file.write(exclude)
    with open(where + b".global", "wb") as file:
        file.write(everywhere)
    git(where, "config", "core.excludesFile", os.fsdecode(where) + ".global")
    git(where, "config", "core.ignoreCase", "true" if ignore_case else "false")
    return Rules.top([RuleFile(b"", "exclude", exclude), RuleFile(b"", "global", everywhere)], ignore_case=ignore_case)


def gentle(rng, trees):
    """Rules for a whole repository that leave most of its trees alone."""
    lines = []
    for _ in range(rng.randint(2, 6)):
        line = rule(rng).lstrip(b"!/")
        lines.append(line if rng.random() < 0.2 else b"t%d/**/%s" % (rng.randrange(trees), line))
    return lines


def some(rng, lines):
    """The same rules with and without `!`, so that the sources contradict each other."""
    return b"\n".join(rng.choice([b"", b"", b"!"]) + line for line in rng.sample(lines, rng.randint(1, len(lines)))) + b"\n"


def test_generated_trees(git, tmp_path):
    compared = planted = captured = 0
    while compared < TREES:
        number = compared // PER_REPOSITORY
        rng = Dice(f"{SEED} {number}")
        where = os.fsencode(tmp_path / f"r{number}")
        lines = gentle(rng, PER_REPOSITORY)
        settings = {"exclude": some(rng, lines), "everywhere": some(rng, lines), "ignore_case": rng.random() < 0.4}
        top = repository(git, where, **settings)
        for tree in range(PER_REPOSITORY):
            rng.mix()
            planted += plant(grow(rng), os.path.join(where, b"t%d" % tree))
        if rng.random() < 0.5:
            with open(os.path.join(where, b".gitignore"), "wb") as file:
                file.write(some(rng, lines))
        theirs = git(where, "ls-files", "-co", "--exclude-standard", "-z").split(b"\0")[:-1]
        ours = walk(top, where)
        assert sorted(ours) == sorted(theirs), (number, settings)
        compared += PER_REPOSITORY
        captured += len(ours)
        shutil.rmtree(where)
    print(f"trees {compared}, files {planted}, captured {captured}")
    assert planted * 0.1 < captured < planted * 0.9, "the generator has become one-sided"


def compare(git, where, files, paths, ignore_case):
    """Ask git and ourselves about paths, none of which exists; returns how many are ignored."""
    repository(git, where, ignore_case=ignore_case)
    for file in files:
        os.mkdir(os.path.join(where, file.base))
        with open(os.path.join(where, file.base, b".gitignore"), "wb") as written:
            written.write(file.data)
    paths = [file.base + b"/" + path for file in files for path in paths]
    answer = git(where, "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin", stdin=b"\0".join(paths) + b"\0", codes=(0, 1))
    fields = answer.split(b"\0")[:-1]
    assert fields[3::4] == paths
    theirs = [pattern != b"" and pattern[:1] != b"!" for pattern in fields[2::4]]
    ours = RuleSet(files, ignore_case=ignore_case)
    data = {file.base: file.data for file in files}
    differ = [(path, data[path.partition(b"/")[0]]) for path, expected in zip(paths, theirs, strict=True)
              if ours.captured(path, False) is expected]  # fmt: skip
    assert differ == []
    return f"paths {len(paths)}, ignored {sum(theirs)}"


@pytest.mark.turns(3)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_single_rules_over_many_paths(git, tmp_path, ignore_case):
    rng = Dice(f"{SEED} dense {ignore_case}")
    names = PLAIN + ODD
    paths = sorted({b"/".join(rng.choice(names) for _ in range(rng.choice([1, 1, 2, 2, 3]))) for _ in range(150)})
    files = []
    for number in range(TREES):
        rng.mix()
        files.append(RuleFile(b"d%d" % number, "gitignore", rules(rng, 2)))
    print(compare(git, os.fsencode(tmp_path / "r"), files, paths, ignore_case))


def random_set(rng):
    members = [rng.choice([b"a", b"A", b"b", b"z", b"Z", b"0", b"9", b"-", b"^", b"!", b"[", b"]", b":", b"\\-", b"\\]", b"\\A", b"_", b".",
                           b"\xff", b"\x01", b"a-", b"A-", b"0-", b"!-", b"[:", b":]", *CLASSES]) for _ in range(rng.randint(1, 6))]  # fmt: skip
    return b"[" + rng.choice([b"", b"", b"!", b"^"]) + b"".join(members) + b"]"


@pytest.mark.parametrize("ignore_case", [False, True])
def test_sets_over_every_byte(git, tmp_path, ignore_case):
    rng = Dice(f"{SEED} sets {ignore_case}")
    sets = SETS + CLASSES + [b"[%s]" % name for name in CLASSES] + [random_set(rng) for _ in range(TREES // 3)]
    sets += [b"\\" + bytes([byte]) for byte in range(1, 256) if byte not in b"/\n"]
    files = [RuleFile(b"d%d" % number, "gitignore", text + b"\n/p" + text + b"q") for number, text in enumerate(sets)]
    every = [bytes([byte]) for byte in range(1, 256) if byte not in b"/."]
    print(compare(git, os.fsencode(tmp_path / "r"), files, [*every, b"p/q", b"paq", b"pAq", b"p.q", b"a]", b"]]"], ignore_case))
