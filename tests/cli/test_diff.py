"""diff in its forms; the patch is what `git apply` and `patch` take, byte for byte, and nothing is published."""

import os
import shutil
import subprocess
import sys

import pytest

from support.picture import differences, picture
from support.pictures import unchanged
from support.trees import Exec, Link, plant

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
    # patch leaves an empty file behind where git removes one, and knows no links: those are git's alone
    skip = {"empty-gone", "new-empty"}
    old, new = ({name: data for name, data in tree.items() if name not in skip} for tree in (OLD, NEW))
    first, second, copy = two(old, new)
    done = subprocess.run(["patch", "-p1", "-s", "--binary", "-u"], cwd=copy, input=patch_of(process, first, second), capture_output=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert differences(picture(copy), picture(root)) == {}


def test_what_is_no_text_and_what_is_a_directory_is_said_in_words(casrewind, root):
    plant(root, {"bin": b"a\0b", "d/f": b"x", "big": b"x" * (5 << 20)})
    casrewind.json("save")
    plant(root, {"bin": b"a\0c", "big": b"y" * (5 << 20), "many": b"\n" * 30000})
    shutil.rmtree(root / "d")
    said = casrewind("diff", "--patch", code=0).out
    assert "Binary files a/bin and b/bin differ" in said and "Binary files a/big and b/big differ" in said
    assert "directory removed: dir 0755 -> absent" in said
    assert "0 lines became 30000 lines; too many to show" in said


def test_stat_and_name_status(casrewind, root):
    plant(root, {"a": b"1", "b": b"22", "c": b"3", "run": b"#!", "odd\x1b[31m\nname": b"x", "turn": b"f"})
    casrewind.json("save")
    become(root, {"c": b"", "turn": b""}, {"a": b"4444", "b": b"33", "run": Exec(b"#!"), "odd\x1b[31m\nname": b"yy", "new": b"", "turn": Link("x")})
    expected = [
        ("M", "a", "(1 -> 4 bytes)"), ("M", "b", ""), ("D", "c", ""), ("A", "new", ""), ("M", "odd\\x1b[31m\\nname", "(1 -> 2 bytes)"),
        ("M", "run", "(mode 0644 -> 0755)"), ("T", "turn", "(mode 0644 -> 0777, file -> link)"),
    ]  # fmt: skip
    stat = casrewind("diff", code=0)
    assert stat.out == casrewind("diff", "--stat", code=0).out
    *lines, last = stat.out.splitlines()
    assert lines == [f"{sign}  {path}" + (f"  {more}" if more else "") for sign, path, more in expected]
    assert last == "1 added, 5 modified, 1 removed"
    assert casrewind("diff", "--name-status", code=0).out.splitlines() == [f"{sign}  {path}" for sign, path, _ in expected]
    casrewind.json("save")
    assert casrewind("diff", code=0).out == "no difference\n"
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
        for form in ((), ("--stat",), ("--patch",), ("--name-status",), ("--json",)):
            casrewind("diff", *form, code=0)
            casrewind("diff", *form, first, code=0)
        casrewind("restore", first, "--dry-run", code=0)
        for other in (["list"], ["show", "1"], ["status"], ["list", "--all", "--json"]):
            casrewind(*other, code=0)
