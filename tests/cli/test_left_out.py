"""status names or counts everything that ignore rules leave out: what tools make again is a guess by its name, and is counted apart."""

import os
import random
import re
import shutil
import subprocess

import pytest

from casrewind.worktree import ignored
from support import unprivileged
from support.command import Command
from support.command_in_process import InProcess
from support.left_out import check_that_all_is_accounted_for
from support.trees import Dir, Fifo, Link, plant

CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n"


@pytest.fixture
def project(root):
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    plant(root, {"app.py": b"1"})
    return root


def lines_of(casrewind, *options):
    """What status says of ignored entries."""
    lines = casrewind("status", *options, code=0).out.splitlines()
    first = next((number for number, line in enumerate(lines) if "not protected, because" in line or "also left out" in line), len(lines))
    return [line.removeprefix("  ") for line in lines[first:]]


def test_a_file_is_named_although_a_directory_of_its_name_would_be_made_again(casrewind, project):
    plant(project, {".gitignore": b"build\nenv\ntmp\nlogs\n", "build": b"#!/bin/sh\n", "env": b"TOKEN=1", "x/tmp": b"mine", "x/logs/a": b"1"})
    casrewind("save", code=0)
    assert lines_of(casrewind) == [
        "not protected, because git ignores it: x/tmp, env, build",
        "  casrewind include x/tmp protects it",
        "also left out: x/logs/ (1 file); status --ignored lists them",
    ]


def test_files_that_git_tracks_below_an_ignored_directory_are_counted(casrewind, project):
    plant(project, {".gitignore": b"build/\ndist/\n", **{f"build/part{n}.c": b"1" for n in range(46)}, "dist/a/b": b"22"})
    for words in (["add", "-Af"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    casrewind("save", code=0)
    assert lines_of(casrewind) == ["also left out: build/, dist/ (47 files); status --ignored lists them"]
    assert lines_of(casrewind, "--ignored") == [
        "also left out, because tools make them again (47 files):", "  build/  46 files, 46 B", "  dist/  1 file, 2 B",
    ]
    assert check_that_all_is_accounted_for(casrewind, project) == (2, 47, 0)


def test_the_list_has_each_entry_and_the_line_only_five(casrewind, project):
    plant(project, {".gitignore": b"*.pyc\nnode_modules/\n*.db\n", "node_modules/m/i.js": b"1", "node_modules/m/j.js": b"1",
                    **{f"p{n}/m.pyc": b"1" for n in range(7)}, **{f"d{n}.db": b"1" * n for n in range(6)}})  # fmt: skip
    casrewind("save", code=0)
    assert lines_of(casrewind) == [
        "not protected, because git ignores it: d0.db, d1.db, d2.db, d3.db, d4.db and 1 more",
        "  casrewind include d0.db protects it",
        "also left out: node_modules/ and 7 more (9 files); status --ignored lists them",
    ]
    found = lines_of(casrewind, "--ignored")
    assert found[0] == "not protected, because git ignores it:" and found[6] == "  d5.db  5 B"
    assert found[7] == "also left out, because tools make them again (9 files):"
    assert found[8:] == ["  node_modules/  2 files, 2 B", *(f"  p{n}/m.pyc  1 B" for n in range(7))]


def test_with_nothing_left_out_the_list_says_so(casrewind, project):
    casrewind("save", code=0)
    assert lines_of(casrewind) == [] and casrewind("status", "--ignored").out.endswith("\n  nothing is left out by ignore rules\n")
    found = casrewind.json("status")
    assert (found["ignored"], found["ignored_complete"]) == ([], True)


def test_what_a_save_does_not_enter_is_skipped_and_not_ignored_as_well(casrewind, project):
    (project / ".git" / "info" / "exclude").write_text("*.log\n")
    plant(project, {"cache/CACHEDIR.TAG": CACHE_TAG, "cache/below/a.log": b"1", "node_modules/b.log": b"1", "c.log": b"1", "pipe": Fifo()})
    other = project / "other"
    other.mkdir()
    casrewind("-C", str(other), "--store", str(project / "inner"), "--force", "save", code=0)
    plant(project / "inner", {"d.log": b"1"})
    captured, left, _ = check_that_all_is_accounted_for(casrewind, project)
    assert (captured, left) == (1, 1)
    assert [entry["path"] for entry in casrewind.json("status")["ignored"]] == ["c.log"]


def test_links_empty_directories_and_odd_names_are_accounted_for(casrewind, project):
    plant(project, {".gitignore": b"node_modules\nout/\n*.d\nkeep/*\n!keep/me\n", "node_modules": Link("elsewhere"), "out": Dir(), "a.d": Dir(),
                    "a.d/x": Fifo(), "b/out/y\n.pyc": b"1", "b/c.d": Link("/dev/null"), "keep/me": b"1", "keep/other": b"1",
                    "keep/build/z": b"1", "é/out/ ": b"1"})  # fmt: skip
    assert check_that_all_is_accounted_for(casrewind, project) == (3, 7, 0)
    found = {entry["path"]: (entry["files"], entry["recreatable"]) for entry in casrewind.json("status")["ignored"]}
    assert found["node_modules"] == (1, False), "a link is no directory: nobody makes it again"
    assert found["out"] == (0, True) and found["keep/build"] == (1, True)


@pytest.fixture
def in_process(root, home):
    """The command, always in this process: its limits can be set."""
    return InProcess(root, home)


def test_a_count_with_an_end_says_so_and_the_option_has_none(in_process, project, monkeypatch):
    casrewind = in_process
    plant(project, {".gitignore": b"node_modules/\ndata/\n", "data/x": b"1", **{f"node_modules/m{n}/{i}.js": b"1" for n in range(9) for i in range(9)}})
    casrewind("save", code=0)
    monkeypatch.setattr(ignored, "_MOST_RECREATABLE", 40)
    assert lines_of(casrewind)[2:] == ["also left out: node_modules/ (at least 27 files); status --ignored lists all"]
    found = casrewind.json("status")
    assert found["ignored_complete"] is False and [entry["path"] for entry in found["ignored"]] == ["data", "node_modules"]
    found = casrewind.json("status", "--ignored")
    assert found["ignored_complete"] is True and [entry["files"] for entry in found["ignored"]] == [1, 81]
    monkeypatch.setattr(ignored, "_MOST_ENTRIES", 4)
    assert casrewind.json("status")["ignored_complete"] is False
    assert "  node_modules/  81 files, 81 B" in lines_of(casrewind, "--ignored")


def test_a_search_that_ended_before_it_found_anything_says_so(in_process, project, monkeypatch):
    casrewind = in_process
    plant(project, {".gitignore": b"*.db\n", **{f"p{n}/q/plain": b"1" for n in range(4)}, "p0/q/x.db": b"1"})
    casrewind("save", code=0)
    monkeypatch.setattr(ignored, "_MOST_ENTRIES", 3)
    assert casrewind("status").out.endswith("\n  more may be left out; casrewind status --ignored looks everywhere\n")
    assert casrewind("status", "--ignored").out.endswith("\n  not protected, because git ignores it:\n    p0/q/x.db  1 B\n")


def test_a_directory_that_cannot_be_read_is_no_empty_one():
    unprivileged.require()
    with unprivileged.open_directory() as place:
        project = place / "project"
        plant(project, {".gitignore": b"data/\n", "data/x": b"1", "data/locked/y": b"1", "a": b"1"})
        subprocess.run(["chown", "-R", f"{unprivileged.NOBODY}:{unprivileged.NOBODY}", str(place)], check=os.geteuid() == 0)
        casrewind = Command(project, place / "home")
        casrewind("save", code=0, prefix=unprivileged.PREFIX)
        (project / "data" / "locked").chmod(0)
        found = casrewind.json("status", prefix=unprivileged.PREFIX)
        assert found["ignored_complete"] is False and [entry["files"] for entry in found["ignored"]] == [1]
        listed = casrewind("status", "--ignored", prefix=unprivileged.PREFIX).out
        assert listed.endswith("\n    data/  1 file, 1 B\n  data/locked cannot be read: more may be left out\n")
        (project / "data" / "locked").chmod(0o700)


RULES = ["*.pyc", "build", "build/", "env", "/data/*", "!/data/keep", "tmp/*", "*.log", "!*.log", "node_modules", "*", "!*/", "!*.py", "dist/a"]
NAMES = ["build", "env", "data", "keep", "tmp", "a.pyc", "b.log", "node_modules", "dist", "a", "m.py", ".venv", "x.so"]


@pytest.mark.parametrize("seed", range(12))
def test_of_generated_trees_everything_is_captured_or_accounted_for(casrewind, project, seed):
    rng = random.Random(seed)
    for _ in range(120):
        place = project.joinpath(*(rng.choice(NAMES) for _ in range(rng.randint(1, 4))))
        if not os.path.lexists(place) and not any(above.is_file() or above.is_symlink() for above in place.parents):
            plant(place.parent, {place.name: rng.choice([b"x" * rng.randint(0, 9), b"1", b"1", Dir(), Link("nowhere")])})
    for place in rng.sample([each for each in project.rglob("*") if each.is_dir() and ".git" not in each.parts], 3):
        plant(place, {".gitignore": "".join(rule + "\n" for rule in rng.sample(RULES, 3)).encode()})
    if seed % 4:
        plant(project, {".gitignore": "".join(rule + "\n" for rule in rng.sample(RULES[:10], 5)).encode()})
    captured, left, skipped = check_that_all_is_accounted_for(casrewind, project)
    print(captured, left, skipped)
    assert captured and left + skipped


def gone(casrewind):
    return [line.strip() for line in casrewind("status", code=0).out.splitlines() if "gone, and was not protected" in line]


def test_an_ignored_file_that_was_named_stays_named_when_it_is_gone(casrewind, project):
    plant(project, {".gitignore": b".env\ndata/\n*.pyc\n", ".env": b"KEY=1", "data/a.db": b"1" * 9, "m.pyc": b"1"})
    casrewind("save", code=0)
    assert gone(casrewind) == []
    (project / ".env").unlink()
    shutil.rmtree(project / "data")
    (project / "m.pyc").unlink()
    assert [re.sub(r"\d+ s ago", "AGE", line) for line in sorted(gone(casrewind))] == [
        "gone, and was not protected: .env, last seen AGE", "gone, and was not protected: data/, last seen AGE",
    ]  # fmt: skip
    assert sorted(each["path"] for each in casrewind.json("status")["ignored_gone"]) == [".env", "data/"]
    plant(project, {".env": b"KEY=2"})
    assert [line.split()[5] for line in gone(casrewind)] == ["data/,"]
    casrewind("include", "data/", code=0)  # it would be captured now: whoever deletes it again can have it back
    (project / ".env").unlink()
    assert [line.split()[5] for line in gone(casrewind)] == [".env,"]


def test_what_is_gone_for_longer_than_checkpoints_are_kept_is_named_no_more(casrewind, project):
    plant(project, {".gitignore": b".env\n", ".env": b"KEY=1"})
    casrewind("status", code=10)
    casrewind("save", code=0)
    (project / ".env").unlink()
    assert len(gone(casrewind)) == 1
    assert "gone, and" not in casrewind("status", code=0, CASREWIND_MAX_AGE="0s").out


def test_a_record_of_names_that_is_damaged_or_cannot_be_written_stops_nothing(casrewind, project, home):
    plant(project, {".gitignore": b".env\n", ".env": b"KEY=1"})
    casrewind("save", code=0)
    (file,) = home.rglob("ignored/*.json")
    for damage in (b"", b"{", b"[]", b'{"version": 1, "named": 3}', b'{"version": 1, "named": {"a": "b"}}',
                   b'{"version": 1, "searched": "", "named": {"a": [1]}}', b'{"version": 2, "searched": "", "named": {"a": [1, true]}}'):  # fmt: skip
        plant(project, {".env": b"KEY=1"})
        file.write_bytes(damage)
        (project / ".env").unlink()
        assert gone(casrewind) == []
    shutil.rmtree(file.parent)
    file.parent.write_bytes(b"")
    plant(project, {".env": b"KEY=1"})
    assert ".env" in casrewind("status", code=0).out


def test_a_purge_forgets_the_names(casrewind, project, home):
    plant(project, {".gitignore": b".env\n", ".env": b"KEY=1", "secret": b"s3cr3t-words"})
    casrewind("save", code=0)
    assert list(home.rglob("ignored/*.json"))
    casrewind("purge", "secret", "-y")
    assert not list(home.rglob("ignored/*.json"))
