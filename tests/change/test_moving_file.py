"""A file that goes on changing beside a command stops nobody: it is left alone and named, and all the rest is done.

Nothing here depends on the clock: what is said has to be so for every moment at which the file changes.
"""

import subprocess
import sys

import pytest

from casrewind.workspace import open as opened
from support.changes import edit_before_execution
from support.agent_turns import AgentTurns
from support.command_in_process import InProcess
from support.picture import picture
from support.trees import plant

LINES = [b"line %d\n" % number for number in range(40)]
EVERY = 0.02
"""Seconds between two changes of the file."""


WRITER = """
import os, sys, time
path, place, every = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(path, "rb") as stream:
    lines = stream.read()
number = 0
while True:
    number += 1
    try:
        with open(place, "wb") as stream:
            stream.write(lines + b"tick %d\\n" % number)
        os.replace(place, path)
    except OSError:
        pass
    print(number, flush=True)
    time.sleep(every)
"""


class MovingFile:
    """Another process writes a file again and again, each time with another last line."""

    def __init__(self, path, *, in_place):
        self.line = [sys.executable, "-I", "-S", "-c", WRITER, str(path), str(path if in_place else path.with_name("new~")), str(EVERY)]
        self.written = 0

    def __enter__(self):
        self.process = subprocess.Popen(self.line, stdout=subprocess.PIPE)
        self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.written = 1 + len(self.process.stdout.read().splitlines())
        self.process.stdout.close()
        self.process.wait()


def make_project(place, settings):
    """A project with two turns, of which the second still runs, and a directory to take from. All changed the file that will move."""
    root = place / "project"
    plant(root, {"moving.log": b"".join(LINES), "still.py": b"".join(LINES), ".gitignore": b"*~\n"})
    with opened(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        first = agent.prompt("one", "one")
        workspace.materialise(first, place / "try")
        plant(root, {"moving.log": b"one\n" + b"".join(LINES), "still.py": b"one\n" + b"".join(LINES)})
        agent.stop("one")
        agent.prompt("two", "two")
        plant(root, {"moving.log": b"one\ntwo\n" + b"".join(LINES), "still.py": b"one\ntwo\n" + b"".join(LINES)})
        agent.run_in_this_process()
    changed = [*LINES[:20], b"theirs\n", *LINES[20:]]
    plant(place / "try", {"moving.log": b"".join(changed), "still.py": b"".join(changed)})
    return root


COMMANDS = {
    "revert": ("revert", "@1", "--running"), "revert of both": ("revert", "@2..@1", "--running"),
    "keep edits": ("restore", "@2", "--keep-edits"), "take": ("take", "DIR"),
}  # fmt: skip


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "by its name"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.long)])
def test_a_file_that_goes_on_changing_is_left_alone_or_merged_and_the_store_is_sound(tmp_path, settings, home, command, in_place, rounds):
    named = changes = 0
    for number in range(rounds):
        project = make_project(tmp_path / str(number), settings)
        run, words = InProcess(project, home), [str(project.parent / "try") if word == "DIR" else word for word in COMMANDS[command]]
        still = (project / "still.py").read_bytes()
        with MovingFile(project / "moving.log", in_place=in_place) as moving:
            plan, done = run(*words, "-n"), run(*words, "-y")
            for result in (plan, done):
                assert result.code in (0, 3), result
                assert result.code == 0 or "moving.log" in result.out + result.err
                named += result.code == 3
            assert (project / "still.py").read_bytes() != still, "the file that stands still is done"
            back = run("undo", "-y")
            assert back.code in (0, 3) and (project / "still.py").read_bytes() == still, back
        changes += moving.written
        assert run("verify").code == 0
    print(f"{command}: {changes} changes of the file beside {2 * rounds} commands; {named} of them left it alone and named it")


def test_a_file_that_went_before_its_mode_was_changed_is_named(workspace, root, monkeypatch):
    """It was in the answer as done."""
    plant(root, {"gone": b"g\n", "stays": b"s\n"})
    point = workspace.save().checkpoint
    for name in ("gone", "stays"):
        (root / name).chmod(0o700)

    edit_before_execution(monkeypatch, (root / "gone").unlink)
    done = workspace.restore(point)
    monkeypatch.undo()
    assert [action.path for action in done.actions] == [b"stays"] and done.incomplete
    assert {item.path: item.reason for item in done.kept} == {b"gone": "changed while the restore ran"}
    workspace.undo()
    assert not (root / "gone").exists() and (root / "stays").stat().st_mode & 0o777 == 0o700


def test_undo_brings_back_a_directory_that_got_a_file_before_another_file_took_its_place(workspace, root, monkeypatch):
    """What was in `d/sub` stayed away: the plan that undo reverses had left out `d/sub`, as "not empty", though it was gone from there."""
    plant(root, {"d": b"a file\n"})
    point = workspace.save().checkpoint
    (root / "d").unlink()
    plant(root, {"d/sub/a": b"a\n", "d/sub/deep/b": b"b\n"})
    before = picture(root)

    edit_before_execution(monkeypatch, lambda: plant(root, {"d/sub/deep/late": b"late\n"}))
    done = workspace.restore(point)
    monkeypatch.undo()
    assert (root / "d").read_bytes() == b"a file\n"
    assert (root / "d.casrewind-kept/sub/deep/late").read_bytes() == b"late\n"
    assert [item.path for item in done.kept] == [b"d.casrewind-kept"] and done.incomplete
    assert not workspace.undo().kept
    assert {path: entry for path, entry in picture(root).items() if b"casrewind-kept" not in path} == before
