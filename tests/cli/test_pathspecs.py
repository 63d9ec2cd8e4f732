"""Paths behind a command are git's pathspecs: what they mean is held against `git ls-files`."""

import random
import subprocess

import pytest

from casrewind import Workspace, errors
from casrewind.model.paths import PathScope
from support.trees import plant

NAMES = [
    "a", "b.py", "a.py", "src/a.py", "src/b.txt", "src/gen/a.py", "src/gen/deep/b.py", "src2/a.py", "lib/src/a.py", "A.PY", "Src/x.py",
    "x y", "-dash", "caf\u00e9/n.py", "dot.d/.hidden", "src/.gitkeep", "deep/er/and/deeper/z.py", "ab", "abc", "back\\slash",
]  # fmt: skip
WORDS = [
    "*.py", "src", "src/", "src/*", "src/*.py", "src/**", "**/a.py", "*", "?", "a?", "a*", "[ab].py", "s*", "s*/", "*gen*", "src*/a.py", "b",
    "src/gen/", "*/a.py", "nothing", "nothing*", ".", "./src", "src/../lib", "lib/", "*[!y]", "deep/*/z.py", "*.PY", "x y", "caf*",
    ":(glob)*.py", ":(glob)src/*.py", ":(glob)**/a.py", ":(glob)src/**", ":(glob)s**/a.py", ":(glob)*/a.py", ":(literal)*.py", ":(literal)src",
    ":(icase)SRC", ":(icase)src/*.PY", ":(icase,glob)*.py", ":(top)a.py", ":/a.py", ":/*.py", ":(top,glob)*.py", ":(exclude)*.py", ":!src",
    ":^src/gen", ":!*.txt", ":(exclude,glob)src/*", ":(top,exclude)src", ":!/src", ":", "back\\\\slash", "back*", "\\a.py", "src/gen/*/b.py",
    ":(icase)src/GEN", ":/", ":(top)", "..", "../a.py", "../*.py", "../../x",
]  # fmt: skip


@pytest.fixture
def git(root):
    plant(root, dict.fromkeys(NAMES, b"x"))

    def run(*arguments, cwd=root):
        return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(root.parent)})

    run("init", "-q")
    run("add", "-A")
    return run


def listed(git, words, cwd):
    done = git("ls-files", "-z", "--full-name", "--", *words, cwd=cwd)
    return None if done.returncode else {name for name in done.stdout.split(b"\0") if name}


def meant(workspace, point, words, cwd):
    try:
        scope = workspace.paths(words, [point], cwd)
    except (errors.UnsafePath, errors.UsageError):
        return None
    except errors.PathNotFound:
        return set()
    return {entry[0] for entry in workspace.entries(point) if PathScope(scope).covers(entry[0]) and entry[1].kind != "dir"}


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(4))
def test_what_words_mean_is_what_git_lists(git, root, settings, seed):
    chance = random.Random(seed)
    with Workspace(root, settings, create=True) as workspace:
        point = workspace.save().checkpoint
        for number in range(90):
            words = [WORDS[number % len(WORDS)]] if seed == 0 else chance.sample(WORDS, chance.randrange(1, 4))
            cwd = root if seed % 2 == 0 else root / chance.choice(["src", "src/gen", "lib", "."])
            assert meant(workspace, point, words, cwd) == listed(git, words, cwd), (words, cwd)


@pytest.fixture
def saved(casrewind, root):
    plant(root, dict.fromkeys(NAMES, b"old"))
    casrewind("save", "-m", "all", code=0)
    plant(root, dict.fromkeys(NAMES, b"new"))


def changed(root):
    return sorted(name for name in NAMES if (root / name).read_bytes() == b"old")


def test_diff_takes_a_pattern(casrewind, saved):
    found = {change["path"] for change in casrewind.json("diff", "all", "--", "*.py")["changes"]}
    assert found == {name for name in NAMES if name.endswith(".py")}
    assert {change["path"] for change in casrewind.json("diff", "all", "--", ":(glob)*.py")["changes"]} == {"a.py", "b.py"}


def test_restore_takes_a_pattern_and_what_is_excluded(casrewind, root, saved):
    casrewind("restore", "all", "-y", "--", "*.py", ":!src", code=0)
    assert changed(root) == sorted(name for name in NAMES if name.endswith(".py") and not name.startswith("src/"))


def test_restore_by_a_pattern_brings_back_and_removes(casrewind, root):
    plant(root, {"a.py": b"1", "d/b.py": b"2", "c.txt": b"3"})
    casrewind("save", "-m", "one", code=0)
    for name in ("a.py", "d/b.py", "c.txt"):
        (root / name).unlink()
    (root / "new.py").write_bytes(b"4")
    (root / "new.txt").write_bytes(b"5")
    casrewind("restore", "one", "-y", "--", "*.py", code=0)
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == ["a.py", "b.py", "new.txt"]
    casrewind("undo", "--yes", code=0)
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == ["new.py", "new.txt"]


def test_a_name_that_exists_is_no_pattern(casrewind, root):
    plant(root, {"app/[id]/page.tsx": b"1", "app/i/page.tsx": b"1", "x*": b"1", "xy": b"1"})
    casrewind("save", "-m", "one", code=0)
    plant(root, {"app/[id]/page.tsx": b"2", "app/i/page.tsx": b"2", "x*": b"2", "xy": b"2"})
    assert [change["path"] for change in casrewind.json("diff", "one", "--", "app/[id]/page.tsx")["changes"]] == ["app/[id]/page.tsx"]
    assert [change["path"] for change in casrewind.json("diff", "one", "--", "app/[id]")["changes"]] == ["app/[id]/page.tsx"]
    casrewind("restore", "one", "-y", "--", "x*", code=0)
    assert ((root / "x*").read_bytes(), (root / "xy").read_bytes()) == (b"1", b"2")
    (root / "x*").unlink()
    assert [change["path"] for change in casrewind.json("diff", "one", "--", "x*")["changes"]] == ["x*"], "the checkpoint has it"
    assert [change["path"] for change in casrewind.json("diff", "one", "--", ":(glob)x*")["changes"]] == ["x*", "xy"]


def test_the_directory_that_one_is_in_is_no_pattern(root, settings):
    plant(root, {"app/[id]/page.tsx": b"1", "app/i/page.tsx": b"1"})
    with Workspace(root, settings, create=True) as workspace:
        point = workspace.save().checkpoint
        assert workspace.paths(["*.tsx"], [point], root / "app/[id]") == (b"app/[id]/page.tsx",)


def test_a_pattern_that_matches_nothing_is_an_error(casrewind, root, saved):
    for command in (("diff", "all"), ("restore", "all", "-y")):
        done = casrewind(*command, "--", "*.rs", code=15)
        assert "*.rs" in done.err
    done = casrewind("restore", "all", "-y", "--", "*.rs", "a.py", code=3)
    assert "*.rs" in done.err and changed(root) == ["a.py"]
    done = casrewind("diff", "all", "--", "src", ":!src", code=15)
    assert "nothing is left" in done.err


@pytest.mark.parametrize("word", [":(attr:x)a", ":(glob", ":(glob,literal)a", ":x"])
def test_magic_that_is_not_known_is_refused(casrewind, saved, word):
    assert word in casrewind("diff", "all", "--", word, code=64).err


def test_an_empty_directory_matches_too(casrewind, root):
    (root / "logs/empty").mkdir(parents=True)
    casrewind("save", "-m", "one", code=0)
    (root / "logs/empty").rmdir()
    casrewind("restore", "one", "-y", "--", "log*", code=0)
    assert (root / "logs/empty").is_dir()


@pytest.fixture
def three(casrewind, root):
    plant(root, {"a.py": b"1", "keep.txt": b"kept"})
    casrewind("save", "-m", "one", code=0)
    (root / "a.py").unlink()
    plant(root, {"d/b.py": b"2", "c[1].py": b"3"})
    casrewind("save", "-m", "two", code=0)
    plant(root, {"d/b.py": b"22"})
    casrewind("save", "-m", "three", code=0)


def test_log_of_a_pattern_finds_files_of_all_checkpoints(casrewind, three):
    found = casrewind.json("log", "*.py")
    assert [item["path"] for item in found["paths"]] == ["a.py", "c[1].py", "d/b.py"]
    rows = [(row["path"], row["checkpoint"]["label"], row["status"]) for row in found["changes"]]
    assert rows == [
        ("d/b.py", "three", "modified"), ("a.py", "two", "removed"), ("c[1].py", "two", "added"), ("d/b.py", "two", "added"), ("a.py", "one", "added"),
    ]  # fmt: skip
    shown = casrewind("log", "*.py", code=0).out
    assert "a.py: 2 changes" in shown and "d/b.py: 2 changes" in shown
    assert casrewind.json("log", "c[1].py")["path"] == "c[1].py", "one path has the shape that it always had"
    assert casrewind.json("log", "*.txt")["path"] == "keep.txt"
    casrewind("log", "*.rs", code=15)


def test_log_shows_no_more_paths_than_can_be_read(casrewind, root):
    plant(root, {f"f{number}": b"x" for number in range(101)})
    casrewind("save", code=0)
    assert "matches 101 paths" in casrewind("log", "f*", code=64).err


def test_purge_takes_a_pattern_only_when_it_is_told_so(casrewind, three):
    assert "no checkpoint has a file there" in casrewind("purge", "*.py", "--yes", code=15).err
    gone = casrewind.json("purge", "--glob", "*.py", "--yes")
    assert sorted(item["path"] for item in gone["purged"]) == ["a.py", "c[1].py", "d/b.py"]
    assert casrewind("cat", "one:keep.txt", code=0).out == "kept"
    casrewind("cat", "one:a.py", code=15)
    casrewind("purge", "--glob", "--text", "-", code=64)


@pytest.mark.parametrize("name", [":(top)z", ":!z", ":/z", ":(exclude)z", ":(nonsense)z", ":z"])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_path_that_is_called_as_magic_words_are_is_meant_alone(casrewind, root, name, is_gone):
    plant(root, {name: b"old", "z": b"old z"})
    casrewind("save", "-m", "it", code=0)
    plant(root, {name: b"new", "z": b"new z"})
    if is_gone:
        (root / name).unlink()
    assert [change["path"] for change in casrewind.json("diff", "it", "--", name)["changes"]] == [name]
    assert name in casrewind("log", "--", name, code=0).out
    casrewind("restore", "it", "-y", "--", name, code=0)
    assert (root / name).read_bytes() == b"old" and (root / "z").read_bytes() == b"new z"
    assert casrewind("cat", "--", f"it:{name}", code=0).out == "old"
    plant(root, {name: b"a secret"})
    casrewind("save", code=0)
    casrewind("purge", "-y", "--", name, code=0)
    assert casrewind("cat", "last:z", code=0).out == "new z"
    casrewind("cat", "--", f"last:{name}", code=15)
