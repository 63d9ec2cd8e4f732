"""diff in its forms; the patch is what `git apply` and `patch` take, byte for byte, and nothing is published."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from support.picture import differences, picture
from support.trees import Dir, Exec, Link, plant
from support.unchanged import unchanged

OLD = {
    "plain": b"one\ntwo\nthree\n", "end": b"no newline", "gains": b"a\nb", "crlf": b"a\r\nb\r\nc\r\n", "cr": b"a\rb\rc",
    "feed": b"a\x0cb\x0b\x1c\x85\xe2\x80\xa8\nc\n", "latin": b"caf\xe9\n", "gone": b"x\ny\n", "empty-gone": b"", "with space": b"s\n",
    "run.sh": b"#!/bin/sh\n", "both": b"1\n", "long": b"".join(b"line %d\n" % n for n in range(500)), "-dash": b"d\n", "--- a": b"m\n",
    "minus": b"-- x\n++ y\n", "utf\u00e9": b"u\n", "tab\there": b"t\n", 'quo"te\\': b"q\n", "d/e/f": b"deep\n",
}  # fmt: skip
NEW = {
    "plain": b"one\n2\nthree\nfour\n", "end": b"still no newline", "gains": b"a\nb\n", "crlf": b"a\r\nB\r\nc", "cr": b"a\rb\rC\n",
    "feed": b"a\x0cB\x0b\x1c\x85\xe2\x80\xa8\nc\n\x0c", "latin": b"caf\xe8\n\xff", "with space": b"S\n", "run.sh": Exec(b"#!/bin/sh\n"),
    "both": Exec(b"2\n"), "long": b"".join(b"line %d\n" % n for n in range(500) if n % 97), "-dash": b"D\n", "--- a": b"M\n",
    "minus": b"-- z\n++ y\n", "utf\u00e9": b"U\n", "tab\there": b"T\n", 'quo"te\\': b"Q\n", "d/e/f": b"DEEP\n", "new/one": b"n\n",
    "new-empty": b"", "new-script": Exec(b"#!x"), "new-no-end": b"z",
}  # fmt: skip


def become(root, old, new):
    for name in old.keys() - new.keys():
        os.unlink(os.path.join(os.fsencode(root), os.fsencode(name)))
    plant(root, new)


@pytest.fixture
def two(casrewind, root, tmp_path):
    """Make two states of the project, a checkpoint of each, and a copy of the older one: (diff to patch bytes, copy)."""

    def make(old, new):
        plant(root, old)
        first = casrewind.json("save")["checkpoint"]
        copy = tmp_path / "copy"
        shutil.copytree(root, copy, symlinks=True)
        become(root, old, new)
        second = casrewind.json("save")["checkpoint"]
        return first, second, copy

    return make


def patch_of(process, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "casrewind", "-C", process.root, "diff", "--patch", *arguments],
        env=process.environment, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == b"", done
    return done.stdout


def git_apply(copy, data, *options):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    done = subprocess.run(
        ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", *options, "-"],
        cwd=copy, input=data, env=environment, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
def test_git_apply_makes_the_other_state_of_it_and_back(process, two, root):
    first, second, copy = two(OLD, NEW)
    before = picture(copy)
    data = patch_of(process, first, second)
    git_apply(copy, data)
    assert differences(picture(copy), picture(root)) == {}
    git_apply(copy, data, "-R")
    assert differences(picture(copy), before) == {}
    git_apply(root, patch_of(process, second, first))
    assert differences(picture(root), before) == {}


@needs_git
def test_git_apply_takes_links_and_changes_of_type(process, two, root):
    old = {"l": Link("target"), "f": b"a file\n", "link": Link("a"), "x/y": b"in a directory\n", "z": b"a file\n", b"l\xff": Link(b"\xfe")}
    new = {"l": Link("else where"), "f": Link("a link"), "link": b"a file now\n", "x/y": b"changed\n", "made": Link("new"), b"l\xff": Link(b"\xfd")}
    first, second, copy = two(old, new)
    git_apply(copy, patch_of(process, first, second))
    assert differences(picture(copy), picture(root)) == {}


@needs_git
def test_git_apply_takes_a_file_that_becomes_a_directory_and_back(process, two, root, casrewind):
    first, _, copy = two({"x": b"a file\n", "keep": b"k\n"}, {"keep": b"k\n"})
    plant(root, {"x/y": b"now below\n"})
    second = casrewind.json("save")["checkpoint"]
    git_apply(copy, patch_of(process, first, second))
    assert differences(picture(copy), picture(root)) == {}
    git_apply(copy, patch_of(process, second, first))
    assert (copy / "x").read_bytes() == b"a file\n"


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
def test_patch_takes_it_too(process, two, root):
    first, second, copy = two(OLD, NEW)
    done = subprocess.run(["patch", "-p1", "-s", "--binary", "-u"], cwd=copy, input=patch_of(process, first, second), capture_output=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert differences(picture(copy), picture(root)) == {}


def test_what_is_no_text_and_what_is_a_directory_is_said_in_words(casrewind, root):
    plant(root, {"bin": b"a\0b", "d": Dir(), "big": b"x" * (33 << 20), "folder/f": b"f"})
    casrewind.json("save")
    plant(root, {"bin": b"a\0c", "big": b"y" * (33 << 20), "many": b"\n" * 30000})
    shutil.rmtree(root / "folder")
    shutil.rmtree(root / "d")
    said = casrewind("diff", "--patch", code=0).out
    assert "Binary files a/bin and b/bin differ" in said and "Binary files a/big and b/big differ" in said
    assert "directory removed: dir 0755 -> absent" in said
    assert said.count("\n+") == 30002 and "a/folder b/folder" not in said


def test_stat_and_name_status(casrewind, root):
    plant(root, {"a": b"1", "b": b"22", "c": b"3", "run": b"#!", "odd\x1b[31m\nname": b"x", "turn": b"f"})
    casrewind.json("save")
    become(root, {"c": b"", "turn": b""}, {"a": b"4444", "b": b"33", "run": Exec(b"#!"), "odd\x1b[31m\nname": b"yy", "new": b"", "turn": Link("x")})
    expected = [
        ("M", "a", "(1 B -> 4 B)"), ("M", "b", ""), ("D", "c", ""), ("A", "new", ""), ("M", "odd\\x1b[31m\\nname", "(1 B -> 2 B)"),
        ("M", "run", "(mode 0644 -> 0755)"), ("T", "turn", "(mode 0644 -> 0777, file -> link)"),
    ]  # fmt: skip
    signs = {"A": "+", "M": "~", "T": "~", "D": "-"}
    heading, *lines, last = casrewind("diff", code=0).out.splitlines()
    assert re.fullmatch(r"from c[0-9a-f]{14} \(\d+ s ago\) to the files now", heading)
    assert lines == [f"{signs[letter]} {path}" + (f" {more}" if more else "") for letter, path, more in expected]
    assert last == "1 added, 5 modified, 1 removed"
    assert casrewind("diff", "--name-status", code=0).out.splitlines() == [f"{letter}\t{path}" for letter, path, _ in expected]
    assert casrewind("diff", "--name-only", code=0).out.splitlines() == [path for _, path, _ in expected]
    casrewind.json("save")
    assert casrewind("diff", "last", code=0).out == "no difference\n" == casrewind("diff", code=0).out.partition("\n")[2]
    assert casrewind("diff", "--name-status", code=0).out == casrewind("diff", "--patch", code=0).out == ""


def test_paths_limit_it(casrewind, root):
    plant(root, {"d/a": b"1", "d/b": b"2", "d-": b"3", "e": b"4"})
    casrewind.json("save")
    plant(root, {"d/a": b"x", "d/b": b"x", "d-": b"x", "e": b"x"})
    def changed(*arguments, start="."):
        found = casrewind("-C", str(root / start), "diff", "--json", *arguments, code=0).json
        return [change["path"] for change in found["changes"]]
    assert changed("--", "d") == changed("last", "--", "d/") == changed("--", "e/../d") == changed("--", ".", start="d") == ["d/a", "d/b"]
    assert changed("--", str(root / "d/a"), "e") == ["d/a", "e"]
    assert changed("--", "b", start="d") == ["d/b"]
    assert changed("--", ".") == changed() == changed("--") == ["d-", "d/a", "d/b", "e"]


def test_it_publishes_nothing(casrewind, root, home):
    plant(root, OLD)
    first = casrewind.json("save")["checkpoint"]
    become(root, OLD, NEW)
    with unchanged(root, home / "data"):
        for form in ((), ("--stat",), ("-p",), ("-U", "1"), ("--word-diff",), ("--name-status",), ("--name-only",), ("--json",)):
            casrewind("diff", *form, code=0)
            casrewind("diff", *form, first, code=0)
        casrewind("restore", first, "--dry-run", code=0)
        for other in (["list"], ["show", "last"], ["status"], ["list", "--all", "--json"]):
            casrewind(*other, code=0)


LINES = [b"    line %d\n" % number for number in range(40)]


def text(*changed, end=b""):
    lines = list(LINES)
    for at in changed:
        lines[at] = b"    changed %d\n" % at
    return b"def first():\n" + b"".join(lines) + b"class Second:\n    def method(self):\n" + b"".join(lines) + end


@pytest.fixture
def moved(casrewind, root):
    """A project in which files got other names: alone, edited, with their directory."""
    tree = {f"pkg/sub/{name}.py": b"# %s\n" % name.encode() + text() for name in "abc"}
    plant(root, {**tree, "cli.py": text(), "notes": b"same\n", "gone/1": b"1\n", "gone/2": b"2\n", "AUTHORS": b"a\n" * 600, "same": b"x"})
    casrewind.json("save")
    os.rename(root / "pkg", root / "lib")
    os.rename(root / "notes", root / "lib/notes")
    os.unlink(root / "cli.py")
    shutil.rmtree(root / "gone")
    plant(root, {"commands.py": text(5), "AUTHORS": Exec(b"a\n" * 700), "same": Exec(b"y"), "new/x": b"x", "new/y": b"y", "only/one": b"1"})
    plant(root, {"lib/sub/b.py": b"# b\n" + text(7)})


def test_renames_and_whole_directories_are_one_line_each(casrewind, root, moved):
    assert casrewind("diff", "last", code=0).out.splitlines() == [
        "~ AUTHORS (mode 0644 -> 0755, 1.2 KiB -> 1.4 KiB)",
        "R cli.py -> commands.py (97% the same, 989 B -> 995 B)",
        "- gone/ (2 files)",
        "R pkg/ -> lib/ (3 files, 1 of them changed)",
        "R notes -> lib/notes",
        "+ new/ (2 files)",
        "+ only/one",
        "~ same (mode 0644 -> 0755, other content, 1 B as before)",
        "3 added, 2 modified, 2 removed, 5 renamed",
    ]
    names = casrewind("diff", "--name-status", code=0).out.splitlines()
    assert "R097\tcli.py\tcommands.py" in names and "R100\tpkg/sub/a.py\tlib/sub/a.py" in names and len(names) == 12
    assert "R" not in {line[0] for line in casrewind("diff", "--name-status", "--no-renames", code=0).out.splitlines()}
    found = casrewind.json("diff")
    assert {"from": "notes", "to": "lib/notes", "similarity": 100} in found["renames"] and len(found["renames"]) == 5
    assert "renames" not in found["changes"][0] and casrewind.json("diff", "--no-renames")["renames"] == []


def test_signs_mean_the_same_in_a_plan(casrewind, root, moved):
    plan = casrewind("restore", "last", "--dry-run", code=0).out.splitlines()
    assert "  - new/ (2 files)" in plan and "  + gone/ (2 files)" in plan and "  + notes" in plan
    assert "  ~ AUTHORS (mode 0755 -> 0644, 1.4 KiB -> 1.2 KiB)" in plan


def test_a_patch_of_a_rename_is_what_git_says(casrewind, root, moved):
    said = casrewind("diff", "-p", code=0).out
    assert "diff --git a/notes b/lib/notes\nsimilarity index 100%\nrename from notes\nrename to lib/notes\ndiff" in said
    assert "similarity index 97%\nrename from cli.py\nrename to commands.py\nindex " in said
    assert "rename" not in casrewind("diff", "-p", "--no-renames", code=0).out


def test_context_and_the_place_of_a_hunk(casrewind, root):
    plant(root, {"f.py": text(), "f.txt": text()})
    casrewind.json("save")
    plant(root, {"f.py": text(10), "f.txt": text(10)})
    said = casrewind("diff", "-p", code=0).out
    assert said.count("@@ def first():\n") == 2 and said.count("@@     def method(self):\n") == 1 and said.count("@@ class Second:\n") == 1
    assert casrewind("diff", "-U0", code=0).out.count("\n     line") == 0
    assert casrewind("diff", "-U", "1", "--", "f.py", code=0).out.count("\n     line") == 4
    assert casrewind("diff", "-U99", "--", "f.py", code=0).out.count("\n@@") == 1
    for bad in ("-1", "x", "1.5", ""):
        casrewind("diff", "-U", bad, code=64)


def test_words_that_differ(casrewind, root):
    plant(root, {"f": b"one two three\nkept line\n"})
    casrewind.json("save")
    plant(root, {"f": b"one 2 three four\nkept line\n"})
    assert casrewind("diff", "--word-diff", code=0).out.splitlines()[-2:] == ["one [-two-]{+2+} three {+four+}", "kept line"]


def test_stat_has_bars_that_fit(casrewind, root):
    deep = "a/very/long/name/of/a/directory/that/goes/on/and/on/until/no/terminal/has/room/for/it/file.py"
    plant(root, {"few": b"1\n", deep: b"x\n" * 400, "bin": b"\0", "src/old/f": text()})
    casrewind.json("save")
    os.renames(root / "src/old/f", root / "src/new/f")
    plant(root, {"few": b"1\n2\n", deep: b"y\n" * 300, "bin": b"\0\0", "empty": Dir()})
    said = casrewind("diff", "--stat", code=0).out.splitlines()
    assert max(map(len, said)) <= 80, said and said[-1] == " 5 files changed, 301 insertions(+), 400 deletions(-)"
    assert any(re.fullmatch(r" \.\.\./.*/file\.py +\| 700 \++-+", line) for line in said)
    assert any(line.split() == ["bin", "|", "Bin", "1", "->", "2", "bytes"] for line in said)
    assert any(line.startswith(" src/{old => new}/f ") for line in said)
    assert any(line.startswith(" few ") and line.endswith("|   1 +") for line in said)


def test_lines_that_repeat_make_no_long_patch(casrewind, root):
    lines = [b"{\n", b"}\n", b"\n", b"  x\n"] * 5000
    plant(root, {"f": b"".join(lines)})
    casrewind.json("save")
    for at in range(100, 19000, 1000):
        lines[at] = b"changed\n"
    plant(root, {"f": b"".join(lines)})
    said = casrewind("diff", "-p", code=0).out.splitlines()
    assert sum(line[:1] in ("+", "-") for line in said) == 2 + 2 * 19


def test_the_patch_of_a_large_file_of_the_worktree_has_only_what_differs(casrewind, root):
    lines = [b"%060d\n" % number for number in range(20_000)]
    plant(root, {"large": b"".join(lines)})
    casrewind.json("save")
    plant(root, {"large": b"".join([*lines[:7], b"seven\n", *lines[8:]])})
    said = casrewind("diff", "-p", code=0).out.splitlines()
    assert [line for line in said[4:] if line[:1] in "+-"] == ["-" + "7".zfill(60), "+seven"]


def test_show_says_what_a_checkpoint_changed(casrewind, root):
    plant(root, {"f": b"1\n"})
    first = casrewind.json("save")["checkpoint"]
    plant(root, {"f": b"2\n"})
    casrewind.json("save")
    assert "\n-1\n+2\n" in casrewind("show", "last", "-p", code=0).out
    assert " f | 2 +-\n" in casrewind("show", "last", "--stat", code=0).out
    assert casrewind("show", first, "-U", "0", code=0).out.endswith("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+1\n")
