"""How much of casrewind a usual command goes through: the files and the functions of ours that it calls.

The danger prevented here: a save that comes through one more module with each change, until no reader follows it. What is counted is
what is called at least once, at import or after it; the bodies of modules and classes, lambdas and comprehensions are not. Other
threads do not count.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import casrewind as package
from support.command import Command
from support.scanner import settle

FILES = 600
CODE = """
import json, os, sys
top, told = sys.argv[1:3]
del sys.argv[1:3]
entered, leave = set(), os._exit
def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_name[0] != "<" and code.co_filename.startswith(top):
        entered.add((code.co_filename[len(top):], code.co_qualname))
def end(code):
    sys.setprofile(None)
    with open(told, "w") as file:
        json.dump(sorted(entered), file)
    leave(code)
os._exit = end
from casrewind.__main__ import main
sys.setprofile(note)
main()
"""
"""The flag is that of a function: bodies of modules and classes do not have it."""


@pytest.fixture
def project(root, home):
    """A project whose stat index is warm: its second save has found what the first one had to leave open."""
    for number in range(FILES):
        place = root / f"d{number % 30}"
        place.mkdir(exist_ok=True)
        (place / f"f{number}").write_bytes(b"%d\n" % number * 20)
    (root / ".gitignore").write_bytes(b"*.o\n")
    settle()
    command = Command(root, home)
    command("save", code=0)
    (root / "d3" / "f3").write_bytes(b"once\n")
    settle()
    command("save", code=0)
    return command


def entered(project, tmp_path, *words):
    """(the files, the functions) of ours that a command enters, each with its file in front."""
    top, told = os.path.dirname(os.path.realpath(package.__file__)) + "/", tmp_path / "entered"
    environment = {**project.environment, "PYTHONPATH": str(Path(top).parent)}
    done = subprocess.run(
        [sys.executable, "-c", CODE, top, str(told), "-C", project.root, *words], env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    functions = [tuple(pair) for pair in json.loads(told.read_bytes())]
    assert ("__main__.py", "main") in functions
    return {file for file, _ in functions}, functions


def edit(project, name, data):
    Path(project.root, name).write_bytes(data)
    settle()


def test_a_save_after_an_edit(project, tmp_path):
    edit(project, "d4/f4", b"edited\n")
    files, functions = entered(project, tmp_path, "save")
    assert {"ops/save.py", "store/packs.py"} <= files
    assert len(files) <= 45, sorted(files)
    assert len(functions) <= 336, functions  # three weigh the rules of strangers and limit the memory, one reads private rules


def test_a_save_in_which_nothing_changed(project, tmp_path):
    files, functions = entered(project, tmp_path, "save")
    assert "ops/save.py" in files
    assert len(files) <= 40, sorted(files)


def test_a_restore(project, tmp_path):
    edit(project, "d5/f5", b"edited\n")
    files, functions = entered(project, tmp_path, "restore", "last", "--yes")
    assert {"ops/restore.py", "worktree/apply.py"} <= files
    assert len(files) <= 64, sorted(files)  # two more than the rest: the question, and when it is asked


def test_a_diff_without_a_patch(project, tmp_path):
    """It compares no lines: neither these nor what makes a table or a patch of them is imported."""
    edit(project, "d6/f6", b"edited\n")
    files, _ = entered(project, tmp_path, "diff", "last")
    assert {"ops/compare.py", "cli/show/changes.py"} <= files
    assert len(files) <= 54, sorted(files)
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "casrewind", "-C", project.root, "diff", "last"],
        env={**project.environment, "PYTHONPATH": str(Path(package.__file__).parent.parent)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert loaded.returncode == 0 and "d6/f6" in loaded.stdout
    modules = {line.rpartition("|")[2].strip() for line in loaded.stderr.splitlines()}
    assert not modules & {"casrewind.cli.show.patch", "casrewind.cli.show.diffstat", "casrewind.model.line_diff", "re", "hashlib", "signal"}
