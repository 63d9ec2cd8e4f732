"""casrewind watch: a real process, and real writers beside it."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from casrewind.upkeep.watch import ProjectWatch, WatchOptions
from casrewind.workspace import Settings, Workspace
from casrewind.worktree.directory_watch import DirectoryWatch, OutOfWatches
from support import output_schema
from support.agent_turns import AgentTurns
from support.sample_start import examples
from support.shim import seconds
from support.trees import plant

PATIENCE = 120
"""Seconds for what happens at once on an idle machine."""


class Watching:
    """A watch that runs. `lines` are what it printed so far."""

    def __init__(self, command, *options):
        words = [sys.executable, "-m", "casrewind", "-C", command.root, "watch", "--settle", "300ms", *options]
        self.lines, self._command = [], command
        self.process = subprocess.Popen(words, env=command.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.until(lambda: any(" watching " in line or line.startswith("{") for line in self.lines))

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def until(self, holds):
        """Wait until something holds."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.lines
            time.sleep(0.05)

    def until_saved(self):
        """Wait until the newest checkpoint has the files of now."""
        self.until(lambda: self._command.json("diff", "last")["changes"] == [])

    def end(self, number=signal.SIGTERM):
        """End it; its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self._reader.join()
        self.process.stdout.close()
        return code


@pytest.fixture
def watching(process):
    made = []

    def start(*options):
        made.append(Watching(process, *options))
        return made[-1]

    yield start
    for one in made:
        one.end(signal.SIGKILL)


def bursts(command):
    """The rows of edits outside of turns, newest first."""
    return [row for row in command.json("list")["rows"] if row["row"] == "outside"]


def test_a_burst_is_one_checkpoint_and_one_line_and_the_end_says_how_many(watching, process, root):
    plant(root, {"a.txt": b"1", "src/b.py": b"b"})
    watch = watching()
    (root / "a.txt").write_text("2")
    (root / "src/b.py").unlink()
    watch.until(lambda: len(watch.lines) == 2)
    assert watch.lines[1].endswith(" +0 ~1 -1  a.txt and 1 more")
    (root / "a.txt").write_text("3")  # the end does not wait until it is still
    assert watch.end() == 0
    assert watch.lines[2].endswith(" +0 ~1 -0  a.txt") and "3 checkpoints" in watch.lines[3]
    assert len(bursts(process)) == 2


def test_json_is_one_object_for_each_save_as_it_is_made(watching, process, root):
    plant(root, {"a.txt": b"1"})
    watch = watching("--json", "-q")
    (root / "a.txt").write_text("2")
    watch.until(lambda: len(watch.lines) == 2)
    assert watch.end() == 0 and len(watch.lines) == 2
    first, second = map(json.loads, watch.lines)
    for found in (first, second):
        assert found["format"] == 1 and list(output_schema.schema_faults(found, "watch")) == []
    points = process.json("list", "--all")["checkpoints"]
    assert [second["checkpoint"], first["checkpoint"]] == [point["id"] for point in points]
    assert second["changes"] == {"added": 0, "modified": 1, "removed": 0}


def test_nothing_is_saved_while_nothing_changes_and_ignored_files_change(watching, process, root):
    plant(root, {".gitignore": b"*.log\nbuild/\n", "a.txt": b"1", "build/x": b"", "x.log": b""})
    watch = watching()
    for number in range(20):
        (root / "x.log").write_text(str(number))
        (root / "build/x").write_text(str(number))
        time.sleep(0.05)
    assert watch.end() == 0 and "1 checkpoint;" in watch.lines[-1]
    assert len(process.json("list", "--all")["checkpoints"]) == 1


def test_two_watches_of_one_project_are_one_too_many(watching, process, root):
    plant(root, {"a.txt": b"1"})
    watching()
    found = process("watch", code=11)
    assert "already runs in this project" in found.err


@pytest.mark.parametrize("way", ["removed", "renamed", "replaced"])
def test_the_watch_ends_with_words_when_the_root_is_gone(watching, root, way):
    plant(root, {"a.txt": b"1"})
    watch = watching()
    root.rename(root.with_name("moved"))
    if way == "replaced":
        root.mkdir()
    elif way == "removed":
        for path in sorted(root.with_name("moved").rglob("*"), reverse=True):
            path.unlink()
        root.with_name("moved").rmdir()
    watch.until(lambda: watch.process.poll() is not None)
    assert watch.end() == 3
    said = "another directory is at" if way == "replaced" else "is gone: "
    assert any(said in line for line in watch.lines), watch.lines


def test_a_link_to_a_large_tree_outside_is_not_watched(watching, root, tmp_path):
    plant(tmp_path / "large", {f"d{number}/x": b"" for number in range(50)})
    plant(root, {"a.txt": b"1"})
    (root / "data").symlink_to(tmp_path / "large")
    watch = watching()
    assert len(watches_of(watch.process.pid)) == 1


def watches_of(pid):
    """The watches of a process, as the kernel lists them."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/fdinfo/{name}") as file:
            found += [line for line in file if line.startswith("inotify wd")]
    return found


def test_new_directories_are_followed_and_removed_ones_forgotten(watching, root):
    plant(root, {"a.txt": b"1"})
    watch = watching()
    plant(root, {f"new/d{number}/x": b"" for number in range(5)})
    watch.until(lambda: len(watches_of(watch.process.pid)) == 7)
    watch.until_saved()
    (root / "new/d3/x").write_text("later")
    watch.until_saved()
    (root / ".gitignore").write_text("new/\n")
    watch.until(lambda: len(watches_of(watch.process.pid)) == 1)


def test_no_turn_of_an_agent_is_cut(watching, workspace, process, root):
    """A client with hooks works, and the watch saves nothing of its turn: its own checkpoints do."""
    plant(root, {"a.txt": b"1"})
    agent = AgentTurns(workspace, root)
    watch = watching()
    agent.prompt("p1", "change it")
    agent.run_in_this_process()
    (root / "a.txt").write_text("2")
    time.sleep(1)
    assert len(process.json("list", "--all")["checkpoints"]) == 2
    agent.stop("p1")
    agent.context.store.sessions.forget("claude", "s1")
    (root / "a.txt").write_text("by hand")
    watch.until_saved()
    assert [row["row"] for row in process.json("list")["rows"]] == ["outside", "turn"]


def test_who_edits_is_named_beside_you(watching, process, root):
    plant(root, {"a.txt": b"1\n"})
    watch = watching("--agent", "aider")
    (root / "a.txt").write_text("1\n2\n")
    watch.until(lambda: len(watch.lines) == 2)
    assert "edited by aider or you" in process("list").out and bursts(process)[0]["by"] == "aider"
    assert [line.split()[0] for line in process("blame", "a.txt").out.splitlines()] == ["older", "aider?"]
    first = process.json("list", "--all")["checkpoints"][-1]["id"]
    assert "a.txt" in process("restore", "-n", first).out


def test_a_burst_and_a_writer_at_random_speed_lose_nothing(watching, process, root):
    plant(root, {f"d{number}/f": b"0" for number in range(4)})
    watch, dice = watching(), random.Random(20261130)
    for number in range(examples(500) // 20):
        for _ in range(dice.randrange(1, 20)):
            path = root / f"d{dice.randrange(6)}" / f"f{dice.randrange(4)}"
            path.parent.mkdir(exist_ok=True)
            if dice.random() < 0.2 and path.exists():
                path.unlink()
            else:
                path.write_text(str(number))
            time.sleep(dice.choice((0, 0, 0.01, 0.2)))
        watch.until_saved()


def _program(name):
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    return name


EDITORS = {
    "vim in place": lambda path: [_program("vim"), "-Nu", "NONE", "-n", "-es", "-c", "set backupcopy=yes", "-c", "normal ggonew", "-c", "wq", path],
    "vim by rename": lambda path: [_program("vim"), "-Nu", "NONE", "-n", "-es", "-c", "set backupcopy=no", "-c", "normal ggonew", "-c", "wq", path],
    "sed by rename": lambda path: [_program("sed"), "-i", "1a new", path],
}


@pytest.mark.parametrize("editor", EDITORS)
def test_what_an_editor_saves_is_a_checkpoint_and_the_one_before_comes_back(watching, process, root, editor):
    plant(root, {"a.txt": b"old\n"})
    watch = watching()
    subprocess.run(EDITORS[editor](str(root / "a.txt")), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    watch.until(lambda: any(line.endswith(" +0 ~1 -0  a.txt") for line in watch.lines))
    assert (root / "a.txt").read_text() == "old\nnew\n"
    first = process.json("list", "--all")["checkpoints"][-1]["id"]
    process("restore", first, "--yes", code=0)
    assert (root / "a.txt").read_text() == "old\n"


def test_a_client_that_was_killed_in_its_turn_holds_nothing_up(watching, workspace, process, root):
    plant(root, {"a.txt": b"1"})
    agent, client = AgentTurns(workspace, root), subprocess.Popen(["sleep", "1000"])
    agent.prompt("p1", "change it")
    agent.run_in_process(client.pid)
    watch = watching()
    (root / "a.txt").write_text("2")
    client.kill()
    client.wait()
    watch.until_saved()
    assert process.json("list")["turns"][0]["prompt"] == "change it"


@pytest.mark.parametrize("jump", ["-3d", "+3d"])
def test_a_clock_that_jumps_loses_no_burst(watching, process, root, clock, tmp_path, jump):
    now = tmp_path / "now"
    now.write_text("0")
    process.environment.update(clock(file=now))
    plant(root, {"a.txt": b"1"})
    watch = watching()
    now.write_text(str(seconds(jump)))
    (root / "a.txt").write_text("2")
    watch.until_saved()
    now.write_text("0")
    (root / "a.txt").write_text("3")
    watch.until_saved()


@pytest.mark.linux_only("bindfs")
def test_where_the_system_tells_of_nothing_the_files_are_looked_at(watching, process, root, tmp_path):
    """The files change below the mount: no event comes."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no access to /dev/fuse")
    below = tmp_path / "below"
    plant(below, {"a.txt": b"1"})
    made = subprocess.run([_program("bindfs"), str(below), str(root)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"bindfs does not mount here: {made.stderr.decode(errors='replace')[-200:]}")
    watch = None
    try:
        watch = watching("--every", "300ms")
        assert any("looks every 0.3 s: changes on fuse may come from elsewhere" in line for line in watch.lines), watch.lines
        (below / "a.txt").write_text("22")
        watch.until_saved()
    finally:
        if watch is not None:
            watch.end()
        subprocess.run(["fusermount3", "-u", str(root)], check=False)


def test_out_of_watches_it_says_the_number_and_looks(process, root, monkeypatch, capsys):
    """The limit is the user's, for all processes: a test cannot lower it for one."""
    plant(root, {f"d{number}/x": b"" for number in range(5)})
    with Workspace(str(root), Settings(home=process.home, data=process.environment["CASREWIND_HOME"], environ={}), create=True) as workspace:
        monkeypatch.setattr(DirectoryWatch, "_watch", lambda _self, _path: (_ for _ in ()).throw(OutOfWatches()))
        watch = ProjectWatch(workspace._context, WatchOptions(settle=0.01, every=0.01))
        bursts = watch.bursts()
        next(bursts)
        assert "the project has 6 directories, and this user may watch " in watch.why_looking and "max_user_watches" in watch.why_looking
        (root / "d0/x").write_text("new")
        assert next(bursts).changes.modified == 1
        bursts.close()
