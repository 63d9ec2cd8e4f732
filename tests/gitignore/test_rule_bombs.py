"""Rule files that are made to cost time and memory: the file is refused and named, the checkpoint is made, cheaply.

A cost is processor time and address space of a whole process, compared with what `git status` takes for the same files.
"""

import glob
import os
import resource
import shutil
import subprocess
import sys

import pytest

from support import absent_packages, real_trees
from support.hostile_files import limited
from support.sample_start import by_turns
from support.trees import Dir, plant

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")
MOST_KIB = 500_000
BESIDE_GIT = 2.0
"""Seconds of processor time that a save may take beside three times what git takes."""


def lines(make):
    """One .gitignore with `count` rules."""
    return lambda count: {".gitignore": b"\n".join(make(number) for number in range(count))}


def levels(count):
    """Rules in each of twenty directories, one below the other."""
    found, place = {}, ""
    for level in range(20):
        rules = (b"*%d?*a%d*b" % (level * count + number, number % 7) for number in range(count // 20))
        found[place + ".gitignore"] = b"\n".join(rules)
        place += "d/"
    return found


def directories(count):
    """Twenty rules in each of many directories."""
    found = {}
    for at in range(count // 20):
        found[f"{at % 40}/{at}/.gitignore"] = b"\n".join(b"*a" + b"?" * 30 + b"%db" % (at * 20 + number) for number in range(20))
        found[f"{at % 40}/{at}/file"] = b"x"
    return found


def small(count):
    """Twelve rules that reverse each other in each of very many directories."""
    found = {}
    for at in range(count // 12):
        found[f"{at % 60}/{at}/.gitignore"] = b"".join(b"a%d\n!b%d\nc%d*d\n!*e%d?\n" % ((at * 3 + n,) * 4) for n in range(3))
        found[f"{at % 60}/{at}/file"] = b"x"
    return found


def names(count):
    """Many rules and many names that begin as all of them. More of the letter a, and git itself takes minutes."""
    found = lines(lambda number: b"*a?*%db" % number)(count)
    return found | {f"src/{'a' * 8}{number}": b"x" for number in range(300)}


def excluded(count):
    return {".git/info/exclude": lines(lambda number: b"[a-f]*?[!x]%d*y" % number)(count)[".gitignore"]}


def own(count):
    return {".casrewindignore": lines(lambda number: b"[a-f]*?[!x]%d*y" % number)(count)[".gitignore"]}


FAMILIES = {  # a name: the rules, and how many of them a stranger sends
    "stars and questions": (lines(lambda number: b"*a" + b"?" * 100 + b"%db" % number), 20_000),
    "rules of 20 KB": (lines(lambda number: b"*a" * 10_000 + b"%d" % number), 60),
    "rules of 4 KB": (lines(lambda number: b"*a" * 2_000 + b"%d" % number), 1_000),
    "7 MB": (lines(lambda number: b"*a" + b"?" * 100 + b"%d" % number), 66_000),
    "sets": (lines(lambda number: b"*" + b"[!a-cx-z0-3]" * 20 + b"%d" % number), 20_000),
    "classes": (lines(lambda number: b"[[:alpha:][:digit:]_-]*[![:upper:]]%d" % number), 60_000),
    "deep": (lines(lambda number: b"**/a/**/b/**/c%d/**/d" % number), 40_000),
    "stars": (lines(lambda number: b"*a" * 30 + b"%d" % number), 20_000),
    "reversed": (lines(lambda number: b"%sname%d" % (b"!" if number % 2 else b"", number)), 200_000),
    "reversed directories": (lines(lambda number: b"%s*d%d*x/" % (b"!" if number % 2 else b"", number)), 60_000),
    "plain": (lines(lambda number: b"name%d" % number), 200_000),
    "long names": (lines(lambda number: b"x" * 250 + b"%d" % number), 100_000),
    "escapes": (lines(lambda number: b"\\a\\b\\%d*" % (number % 10) + b"%d" % number), 60_000),
    "levels": (levels, 40_000),
    "many directories": (directories, 20_000),
    "very many directories": (small, 32_000),
    "many names": (names, 20_000),
    "info/exclude": (excluded, 60_000),
    "own rules": (own, 60_000),
}
assert len(FAMILIES) >= 13


@pytest.fixture
def without_re2():
    """The variables for a process that has no google-re2."""
    return {"PYTHONPATH": absent_packages.search_path("re2")}


def spent(work):
    """The seconds of processor time of the processes that `work` waits for, and its result."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result


def planted(root, files):
    subprocess.run(["git", "init", "-q", "--template=", "."], cwd=root, check=True, env={"PATH": os.environ["PATH"], "HOME": str(root)})
    plant(root, {"kept.txt": b"1", "sub/kept.txt": b"1", "node_modules/m.js": b"x", **files})


def cost_of(casrewind, root, *words, **variables):
    """(what the command takes beside three times `git status`, its result). It has little memory."""
    git = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    theirs, _ = spent(lambda: subprocess.run(status, cwd=root, env=git, capture_output=True, check=True))
    ours, found = spent(lambda: casrewind(*words, prefix=limited(MOST_KIB), **variables))
    print(f"{' '.join(words[:1])}: {ours:.2f} s, git status {theirs:.2f} s")
    return ours - 3 * theirs, found


def save_of(casrewind, root, **variables):
    cost, found = cost_of(casrewind, root, "save", "--json", **variables)
    assert found.code in (0, 3) and "re2" not in found.err, found
    return cost, found.json


PUSHED = ("deep", "sets", "many directories", "reversed")


@pytest.mark.parametrize(
    ("family", "with_re2"),
    [
        *by_turns([(name, with_re2) for with_re2 in (True, False) for name in PUSHED], 4),
        *(pytest.param(name, with_re2, marks=pytest.mark.long) for name in FAMILIES if name not in PUSHED for with_re2 in (True, False)),
    ],
)
def test_a_bomb_is_refused_and_named_and_the_checkpoint_is_made(casrewind, root, without_re2, family, with_re2):
    make, count = FAMILIES[family]
    planted(root, make(count))
    cost, saved = save_of(casrewind, root, **({} if with_re2 else without_re2))
    refused = [skip for skip in saved["skipped"] if skip["reason"].startswith("unreadable ignore rules: ")]
    assert refused and cost < BESIDE_GIT
    assert casrewind("cat", "last:kept.txt", code=0).out == "1"
    if family not in ("many directories", "levels", "very many directories"):
        assert "node_modules/m.js" not in {entry["path"] for entry in casrewind.json("show", "last")["entries"]}, "built-in excludes stay"


@pytest.mark.long
@pytest.mark.parametrize("with_re2", [True, False], ids=["re2", "re"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_most_that_is_accepted_is_cheap_too(casrewind, root, without_re2, family, with_re2):
    make, count = FAMILIES[family]
    variables = {} if with_re2 else without_re2
    while True:
        planted(root, make(count))
        cost, saved = save_of(casrewind, root, **variables)
        if not any("ignore rules" in skip["reason"] for skip in saved["skipped"]):
            break
        count = count * 9 // 10
        shutil.rmtree(root)
        shutil.rmtree(os.path.join(casrewind.home, "data"))
        root.mkdir()
    print(f"{family}: {count} rules are accepted")
    assert cost < BESIDE_GIT
    for words in (("status",), ("diff",)):
        plant(root, {"kept.txt": os.urandom(8), "new.txt": b"1"})
        cost, _ = cost_of(casrewind, root, *words, **variables)
        assert cost < BESIDE_GIT


# --- what a refused file means -------------------------------------------------------------------------------------------

BOMB = b"\n".join(b"*a" + b"?" * 100 + b"%db" % number for number in range(2_000))


def held(casrewind):
    return {entry["path"] for entry in casrewind.json("show", "last")["entries"] if entry["kind"] == "file"}


@pytest.mark.parametrize("path", by_turns([".gitignore", ".git/info/exclude", ".casrewindignore", "sub/.gitignore"], 2))
def test_what_the_last_accepted_rules_ignored_is_not_captured_by_surprise(casrewind, root, path):
    planted(root, {path: b"secret\n*.log\n", "sub/secret": b"key", "sub/a.log": b"x"})
    casrewind("save", code=0)
    before = held(casrewind)
    assert not before & {"sub/secret", "sub/a.log"}
    (root / path).write_bytes(BOMB)
    for number in (1, 2):  # each goes on from the one before
        plant(root, {"kept.txt": b"%d" % number, "sub/b.log": b"x"})
        saved = casrewind("save", "--json", code=3).json
        (why,) = [skip["reason"] for skip in saved["skipped"] if skip["path"] == path]
        assert "too many ignore rules" in why
        assert path.startswith(".git/") or "the rules of the newest checkpoint count" in why
        assert held(casrewind) == before
        found = casrewind("status", code=0)
        assert path in found.out + found.err
    assert "sub/secret is ignored" in casrewind("why", "sub/secret").out
    assert "secret" not in casrewind("diff", "prev", "last").out
    (root / path).write_bytes(b"*.log\n")
    casrewind("save", code=0)
    assert held(casrewind) == before | {"sub/secret"}


def test_a_restore_from_under_refused_rules_deletes_nothing(casrewind, root):
    planted(root, {".gitignore": BOMB, "sub/.gitignore": b""})
    casrewind("save", "-m", "one", code=3)
    plant(root, {".gitignore": b"", "made since": b"x", "kept.txt": b"2"})
    casrewind("restore", "one", "-y")
    assert (root / "made since").exists() and (root / "kept.txt").read_bytes() == b"1"


def test_a_hook_names_it_too(casrewind, root):
    from support.fake_client import Client

    planted(root, {".gitignore": b"secret\n", "secret": b"key"})
    casrewind("save", code=0)
    plant(root, {".gitignore": BOMB, "kept.txt": b"2"})
    client = Client(casrewind, root)
    cost, _ = spent(lambda: client.send(client.payload("UserPromptSubmit.prompt")))
    assert cost < BESIDE_GIT
    point = client.wait_for(2)[0]
    assert (point["trigger"], "secret" in held(casrewind)) == ("prompt", False)
    assert ".gitignore" in {skip["path"] for skip in casrewind.json("show", point["id"])["skipped"]}


# --- what is no bomb -------------------------------------------------------------------------------------------------------

VISUAL_STUDIO = b"".join(b"[%c%c]ebug%d/\n*.%dcache\n!?*.[Cc]ache%d/\n**/packages%d/*\nname%d\n# a comment\n" % (
    68, 100, number, number, number, number, number) for number in range(60))  # fmt: skip


def test_many_honest_rules_are_accepted(casrewind, root):
    planted(root, {
        ".gitignore": b"\n".join(b"/src/generated/name%d.py" % number for number in range(20_000)) + b"\n*.o\n[Dd]ebug/\n!keep.o\n",
        "src/generated/name19999.py": b"x", "src/generated/other.py": b"x", "a.o": b"x", "keep.o": b"x",
    })  # fmt: skip
    casrewind("save", code=0)
    assert held(casrewind) >= {"src/generated/other.py", "keep.o"}
    assert not held(casrewind) & {"src/generated/name19999.py", "a.o"}


def test_the_same_template_in_every_package_of_a_repository_is_accepted(casrewind, root):
    packages = {f"packages/{number}/{name}": data for number in range(400) for name, data in ((".gitignore", VISUAL_STUDIO), ("f.9cache", b"x"))}
    planted(root, packages)
    cost, saved = save_of(casrewind, root)
    assert cost < BESIDE_GIT and not [skip for skip in saved["skipped"] if "rules" in skip["reason"]]
    assert not [path for path in held(casrewind) if path.endswith("cache")]
    plant(root, {f"packages/{number}/g.9cache": b"x" for number in range(400)})
    (root / "packages" / "7" / "f.txt").write_bytes(b"x")
    casrewind("save", code=0)
    assert not [path for path in held(casrewind) if path.endswith("cache")]


PROJECTS = ("attrs==26.1.0 click==8.5.1 flask==3.1.3 httpx==0.28.1 jinja2==3.1.6 pytest==9.2.0 requests==2.34.2 rich==15.0.0").split()


@pytest.mark.long
def test_the_rule_files_of_real_projects_are_accepted(casrewind, root, tmp_path):
    """Those of sources on PyPI, of Django and of Linux: together they are far from the limit."""
    import tarfile

    def fetch(directory):
        for wanted in (*PROJECTS, "Django==5.2"):
            name = wanted.partition("=")[0]
            real_trees.run(sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps", "--no-binary", name, wanted, cwd=directory)
        with tarfile.open(os.path.join(directory, "rule-files.tar"), "w") as made:
            for path in sorted(glob.glob(os.path.join(directory, "*.tar.gz"))):
                with tarfile.open(path) as archive:
                    for member in archive:
                        if member.isfile() and member.name.endswith("/.gitignore"):
                            made.addfile(member, archive.extractfile(member))
        return os.path.join(directory, "rule-files.tar")

    planted(root, {"pypi": Dir()})
    real_trees.unpack(real_trees.once("rule-files-1.tar", fetch), str(root / "pypi"))
    (tmp_path / "kernel").mkdir()
    kernel = real_trees.kernel(str(tmp_path / "kernel"))
    for place, _, names in os.walk(kernel):
        if ".gitignore" in names:
            below = root / "linux" / os.path.relpath(place, kernel)
            below.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.join(place, ".gitignore"), below)
    count = sum(".gitignore" in names for _, _, names in os.walk(root))
    cost, saved = save_of(casrewind, root)
    print(f"{count} rule files")
    assert count > 200 and not [skip for skip in saved["skipped"] if "rules" in skip["reason"]]
