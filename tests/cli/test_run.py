"""run: a command is a turn, with a checkpoint before it and one after it, and the command's own exit code and output."""

import os
import signal
import subprocess
import sys

import pytest

from casrewind.workspace import open as opened
from support import unprivileged
from support.agent_turns import AgentTurns
from support.command import Command
from support.trees import Dir, plant

CLAUDE = "01c243ca-0000-4000-8000-000000000001"


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
    assert after["prompt"] == before["prompt"] and before["prompt"].startswith("sh -c 'echo after >")
    assert (before["trigger"], after["trigger"]) == ("prompt", "turn_end") and before["label"] is None and after["label"] is None
    assert after["changes"] == {"added": 1, "modified": 1, "removed": 0}
    assert "1 added, 1 modified, 0 removed" in found.err and f"casrewind revert {before['id']}" in found.err
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


@pytest.fixture
def agent(root, settings):
    """An agent that works beside the commands."""
    plant(root, {"a": b"1", "gone": b"g"})
    with opened(root, settings) as workspace:
        yield AgentTurns(workspace, root, CLAUDE)


@pytest.fixture
def waiting(process):
    """Starts `casrewind run` of a command that says "ready", waits for its input's end, and writes a file."""
    started = []

    def start(name):
        script = f"echo ready; cat >&2; echo 1 > {name}"
        child = subprocess.Popen(
            [sys.executable, "-m", "casrewind", "-C", process.root, "run", "--", "sh", "-c", script, f"make {name}"],
            env=process.environment, cwd=process.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(child)
        assert child.stdout.readline() == b"ready\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def turns(casrewind):
    """Of each turn: its agent, the end of its prompt, whether it runs, whether it was cut short."""
    return [(turn["agent"], turn["prompt"].rpartition("'make ")[2].strip("'"), turn["running"], turn["cut_short"]) for turn in casrewind.json("list")["turns"]]


def test_a_command_is_a_turn_that_every_command_takes(process, casrewind, root):
    plant(root, {"f": b"before\n", "gone": b"g"})
    run(process, "--", "sh", "-c", f"cd '{root}'; echo after > f; echo 1 > new; rm gone", code=0)
    (turn,) = casrewind.json("list")["turns"]
    assert (turn["n"], turn["agent"], turn["session"], turn["running"], turn["cut_short"]) == (1, "run", None, False, False)
    assert turn["changes"]["added"], turn
    (row,) = (line for line in casrewind("list", code=0).out.splitlines() if "@1" in line)
    assert row.split()[:3] == ["@1", "sh", "-c"] and row.rstrip().endswith("  run") and "+1 ~1 -1" in row
    assert "saved" not in casrewind("list", code=0).out
    shown = casrewind("show", "@1", code=0).out
    assert shown.startswith("turn @1 of run\n") and "session" not in shown and "new" in shown
    assert "+after" in casrewind("diff", "@1", "-p", code=0).out
    assert "@1 sh -c" in casrewind("log", "f", code=0).out
    plant(root, {"mine": b"m"})
    casrewind("revert", "@1", "-y", code=0)
    assert (root / "f").read_bytes() == b"before\n" and (root / "gone").exists() and not (root / "new").exists()
    assert (root / "mine").exists() and casrewind.json("list")["turns"][0]["taken_back"]
    casrewind("undo", "-y", code=0)
    assert 'restored to before "sh -c' in casrewind("restore", "@1", "-y", code=0).out
    assert (root / "f").read_bytes() == b"before\n" and not (root / "mine").exists()


def test_its_prompt_is_the_command_line_for_a_shell_or_the_message(process, casrewind, root):
    run(process, "--", "echo", "two words", "$HOME", "it's", "", code=0)
    run(process, "-m", "the clean-up", "--", "true", code=0)
    assert [turn["prompt"] for turn in casrewind.json("list")["turns"]] == ["the clean-up", """echo 'two words' '$HOME' 'it'"'"'s' ''"""]
    everything = casrewind("list", "--all", code=0).out
    assert "after: the clean-up " in everything and everything.count("the clean-up") == 2  # each row names it once
    casrewind("restore", "before: the clean-up", "-y", code=0)


def test_what_is_edited_between_two_commands_is_outside_of_a_turn(process, casrewind, root):
    plant(root, {"f": b"1"})
    run(process, "-m", "one", "--", "true", code=0)
    plant(root, {"f": b"22", "mine": b"1"})
    run(process, "-m", "two", "--", "sh", "-c", f"rm '{root}/f'", code=0)
    rows = casrewind.json("list")["rows"]
    assert [(row["row"], row.get("kind")) for row in rows] == [("turn", None), ("outside", "edited"), ("turn", None)]
    assert [turn["prompt"] for turn in casrewind.json("list")["turns"]] == ["two", "one"]


def test_in_the_shell_of_an_agent_it_belongs_to_the_agents_turn(agent, process, casrewind, root):
    agent.prompt("a", "clean up")
    run(process, "--", "sh", "-c", f"rm '{root}/gone'", code=0, CASREWIND_AGENT="claude", CASREWIND_SESSION=CLAUDE)
    agent.stop("a")
    assert turns(casrewind) == [("claude", "clean up", False, False)]
    labels = [point["label"] for point in casrewind.json("list", "--all")["checkpoints"]]
    assert [label.split(":")[0] for label in labels if label] == ["after", "before"]


def test_a_command_that_runs_is_running_and_a_killed_one_was_cut_short(waiting, casrewind, root):
    child = waiting("new")
    assert turns(casrewind) == [("run", "new", True, False)]
    plant(root, {"so-far": b"1"})
    assert "so far +1" in casrewind("list", code=0).out
    assert "  running: what it changed so far\n" in casrewind("show", "@1", code=0).out
    assert "@1 has not ended: its command still runs; wait" in casrewind("revert", "@1", "-y", code=11).err
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert turns(casrewind) == [("run", "new", False, True)]
    assert "(cut short)" in casrewind("list", code=0).out
    casrewind("revert", "@1", "-y", code=3)
    assert (root / "so-far").exists(), "a person may have made it, after the command was killed"
    casrewind("revert", "@1", "-y", "--shared", code=0)
    assert not (root / "so-far").exists()


def test_two_commands_at_the_same_time_are_two_turns(waiting, casrewind, root):
    first, second = waiting("one"), waiting("two")
    assert turns(casrewind) == [("run", "two", True, False), ("run", "one", True, False)]
    for child in (first, second):
        child.communicate()
        assert child.returncode == 0
    assert turns(casrewind) == [("run", "two", False, False), ("run", "one", False, False)]
    assert (root / "one").exists() and (root / "two").exists()
    assert "shared" in casrewind("list", code=0).out


def test_gc_keeps_both_sides_of_a_command_that_runs(waiting, casrewind, root):
    child = waiting("new")
    for number in range(3):
        plant(root, {"f": b"%d" % number})
        casrewind("save", code=0)
    casrewind("gc", "--max-count", "1", "--max-age", "0s", code=0)
    assert turns(casrewind) == [("run", "new", True, False)]
    child.communicate()
    assert turns(casrewind) == [("run", "new", False, False)] and casrewind.json("list")["turns"][0]["before"]


def test_no_conversation_is_looked_for_in_a_run(agent, process, casrewind, root):
    run(process, "-m", "alone", "--", "true", code=0)
    assert "no agent's conversation is known here" in casrewind("back", "1", "-y", code=16).err
    agent.prompt("a", "work")
    agent.stop("a")
    run(process, "-m", "tidy", "--", "true", code=0)
    for words in (("back", "1", "-y"), ("back", "@1", "--chat", "-y")):
        refused = casrewind(*words, code=16).err
        assert '@1 "tidy" is a command of casrewind run, and no prompt of a conversation: nothing was changed' in refused, refused
    assert "belongs to no conversation" in casrewind("restore", "@1", "--chat", "-y", code=16).err
    assert set(casrewind.json("status")["agents"]) == {"claude"}
    assert "run" not in casrewind.json("doctor", code=None)["agents"]
    assert {row["agent"] for row in casrewind.json("du")["sessions"]} == {"claude", None}


def test_its_row_is_listed_inside_of_a_client_too(agent, process, casrewind, root):
    agent.prompt("a", "work")
    agent.stop("a")
    run(process, "-m", "tidy", "--", "true", code=0)
    inside = casrewind("list", code=0, CASREWIND_INSIDE=CLAUDE).out
    assert "@1  tidy" in inside and "@2  work" in inside and "other sessions" not in inside


def test_a_command_of_an_earlier_version_is_listed_as_its_saves(casrewind, root, settings):
    plant(root, {"f": b"1"})
    with opened(root, settings) as workspace:
        workspace.save("before: make all", described=True)
        plant(root, {"f": b"22"})
        workspace.save("after: make all", described=True)
    found = casrewind.json("list")
    assert found["turns"] == [] and [point["label"] for point in found["checkpoints"]] == ["after: make all", "before: make all"]
    assert "after: make all" in casrewind("list", code=0).out
