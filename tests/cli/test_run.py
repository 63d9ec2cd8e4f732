"""run: a checkpoint before a command and one after it, and the command's own exit code and output."""

import os
import signal
import subprocess
import sys

import pytest

from support import unprivileged
from support.command import Command
from support.trees import Dir, plant


def run(process, *arguments, **more):
    return process("run", *arguments, **more)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 1", 1), ("exit 2", 2), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -INT $$", 130)],
)
def test_the_exit_code_is_the_commands(process, root, script, code):
    found = run(process, "--", "sh", "-c", script)
    assert found.code == code and found.out == ""


def test_a_command_that_is_missing_is_127_and_one_that_cannot_be_run_126(process, root):
    found = run(process, "--", "no-such\x1b[31m-command", code=127)
    assert "no-such\\x1b[31m-command" in found.err and "No such file" in found.err
    plant(root, {"data": b"not a program"})
    assert run(process, "--", str(root / "data"), code=126).err.count("Permission denied") == 1


def test_a_command_is_missing_too_where_a_directory_of_path_may_not_be_searched():
    """As after `su`, which leaves the other user's directories on PATH: the system says "Permission denied" then."""
    unprivileged.require()
    with unprivileged.open_directory() as place:
        plant(place / "project", {"f": b"1", "bin/data": b"not a program"})
        plant(place, {"home": Dir(), "closed": Dir()})
        unprivileged.give(place)
        os.chmod(place / "closed", 0)
        process = Command(place / "project", place / "home", PATH=f"{place}/closed:{place}/project/bin:{os.environ['PATH']}")
        found = run(process, "--", "no-such-command", code=127, prefix=unprivileged.PREFIX)
        assert "cannot run no-such-command: No such file" in found.err
        assert run(process, "--", "data", code=126, prefix=unprivileged.PREFIX).err.count("Permission denied") == 1
        assert run(process, "--", "true", prefix=unprivileged.PREFIX).code == 0


def test_it_saves_before_and_after(process, casrewind, root):
    plant(root, {"f": b"before"})
    found = run(process, "--", "sh", "-c", f"echo after > '{root}/f'; echo new > '{root}/new'", code=0)
    after, before = casrewind.json("list")["checkpoints"]
    assert before["id"] in found.err and after["id"] in found.err
    assert after["label"].startswith("after: sh -c echo after") and before["label"].startswith("before: sh -c echo")
    assert after["changes"] == {"added": 1, "modified": 1, "removed": 0}
    assert "1 added, 1 modified, 0 removed" in found.err and f"casrewind restore {before['id']}" in found.err
    casrewind.json("restore", before["id"], "--yes")
    assert (root / "f").read_bytes() == b"before" and not (root / "new").exists()


def test_a_command_that_changes_nothing_and_one_that_fails_are_saved_too(process, casrewind, root):
    plant(root, {"f": b"x"})
    assert "nothing changed" in run(process, "-m", "tests", "--", "true", code=0).err
    assert [p["label"] for p in casrewind.json("list")["checkpoints"]] == ["after: tests", "before: tests"]
    run(process, "-m", "broken", "--", "sh", "-c", f"rm '{root}/f'; exit 9", code=9)
    assert casrewind.json("list")["checkpoints"][0]["changes"]["removed"] == 1
    run(process, "-m", "missing", "--", "/no/such/command", code=127)
    assert [p["label"] for p in casrewind.json("list", "-n", "2")["checkpoints"]] == ["after: missing", "before: missing"]


def test_the_commands_output_and_input_are_its_own(process, root, tmp_path):
    data = bytes(range(256)) * 100
    plant(tmp_path, {"input": data})
    with open(tmp_path / "input", "rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "casrewind", "-C", process.root, "run", "--", "cat"],
            env=process.environment, stdin=stdin, capture_output=True,
        )  # fmt: skip
    assert done.stdout == data and done.returncode == 0
    quiet = process("-q", "run", "--", "sh", "-c", "echo out; echo err >&2", code=0)
    assert (quiet.out, quiet.err) == ("out\n", "err\n")


def test_the_command_gets_its_arguments_and_its_directory_as_they_are(process, root):
    arguments = ["-m", "--", "--json", "", " ", "*", "$HOME", "ä", "a\nb"]
    script = "import sys, os; print(sys.argv[1:], os.getcwd())"
    found = run(process, "--", sys.executable, "-c", script, *arguments, code=0)
    assert found.out == f"{arguments} {os.getcwd()}\n"


@pytest.mark.parametrize("arguments", [["run"], ["run", "--"], ["run", "-m", "x"]])
def test_without_a_command_it_is_64_and_nothing_is_saved(casrewind, home, arguments):
    found = casrewind(*arguments, code=64)
    assert "missing COMMAND" in found.err
    assert not list((home / "data").glob("stores/*/packs/*"))


def test_an_interrupt_is_the_commands_to_answer_and_the_save_after_it_is_made(process, casrewind, root):
    plant(root, {"f": b"x"})
    script = (
        "import signal, sys, time\n"
        "def ended(*_):\n    time.sleep(0.6); open(sys.argv[1], 'w').write('cleaned up'); sys.exit(7)\n"
        "signal.signal(signal.SIGINT, ended)\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "casrewind", "-C", process.root, "run", "--", sys.executable, "-c", script, str(root / "f")],
        env=process.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert child.stdout.readline() == b"ready\n"
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    out, err = child.communicate(timeout=60)
    assert child.returncode == 7, err
    assert b"1 modified" in err
    assert casrewind.json("list")["checkpoints"][0]["changes"]["modified"] == 1


def test_the_command_does_not_inherit_an_ignored_interrupt(process, root):
    script = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert run(process, "--", sys.executable, "-c", script, code=0).out == "True\n"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_the_command_inherits_no_descriptor_and_no_lock(process, root):
    """A command that leaves something running behind it must not keep the store locked."""
    found = run(process, "--", "sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!; ls /proc/self/fd | wc -l", code=0)
    pid, descriptors = found.out.split()
    try:
        assert int(descriptors) == 4  # 0, 1, 2 and the one that ls reads the list with
        assert process("save", "-m", "next", code=0)
    finally:
        os.kill(int(pid), signal.SIGKILL)
