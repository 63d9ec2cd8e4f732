"""bisect: the turn since which a command fails; the command's exit codes, what it may do, and what is left after it."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from casrewind.model.retention import Limits
from casrewind.change import bisect as bisects
from casrewind.workspace import Settings, Workspace
from support.agent_turns import AgentTurns
from support.output_schema import schema_faults
from support.trees import Dir, Link, plant


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The directory in which bisect makes its own."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


@pytest.fixture
def bisect(process, root, scratch):
    """bisect("--", "sh", "-c", "...", code=0): the real command."""

    def run(*words, **more):
        return process("bisect", *words, TMPDIR=str(scratch), **more)

    return run


@pytest.fixture
def turns(process, root):
    """Seven turns; `price` is 1 to 7 after them. The oldest state is a save, with 0."""
    plant(root, {"price": b"0\n", "d/keep": b"kept\n"})
    process("save", "-m", "start", code=0)
    with opened_in(process) as workspace:
        agent = AgentTurns(workspace, root)
        for number in range(1, 8):
            agent.prompt(f"p{number}", f"set the price to {number}")
            plant(root, {"price": b"%d\n" % number, f"note{number}": b"n%d\n" % number})
            agent.stop(f"p{number}")
    return root


def opened_in(process):
    settings = Settings(home=process.home, data=os.path.join(process.home, "data"), environ=process.environment)
    return Workspace(process.root, settings, create=False)


BELOW_5 = ["sh", "-c", 'echo "price $(cat price)"; test "$(cat price)" -lt 5']


def stamps(root):
    """The stamps of everything in a worktree, but for the times at which something was read."""
    found = {}
    for base, directories, files in os.walk(root):
        for name in (".", *directories, *files):
            status = os.lstat(os.path.join(base, name))
            found[os.path.join(base, name)] = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_the_turn_that_broke_it_is_named_with_its_change_and_the_way_back(bisect, process, turns, scratch):
    before = stamps(turns)
    found = bisect("--", *BELOW_5, code=0)
    lines = [re.sub(r"\d+ (s|min) ago", "AGO", line) for line in found.out.splitlines()]
    ours = [line for line in lines if not line.startswith("price ")]
    assert ours == [
        'first bad: @3 "set the price to 5" (AGO)', " note5 | 1 +", " price | 2 +-", " 2 files changed, 2 insertions(+), 1 deletion(-)",
        "casrewind revert @3 takes it back", "5 runs in 8 states",
    ]  # fmt: skip
    told = [re.sub(r"\d+ (s|min) ago|\bc[0-9a-f]{14,}", "...", line) for line in found.err.splitlines()]
    assert told[:4] == [
        "run 1, about 4 more, the bad end: the files now (...)", "  bad (exit code 1)", "run 2, about 3 more, the good end: 'start' (..., ...)", "  good",
    ], told  # fmt: skip
    assert re.fullmatch(r'run 5, the last one: (before|after) @\d "set the price to \d" \(\.\.\.\)', told[-2])
    assert stamps(turns) == before and os.listdir(scratch) == []
    assert "1 removed" in process("revert", "@3", "note5", "--yes", code=0).out and not (turns / "note5").exists()


def test_json_has_the_turn_the_runs_and_nothing_of_the_command(bisect, turns, process):
    result = bisect("--json", "--", *BELOW_5, code=0)
    found = result.json
    assert schema_faults(found, "bisect") == [] and "price 7" in result.err
    first = found["first_bad"]
    assert (first["n"], first["prompt"], first["paths"]) == (3, "set the price to 5", ["note5", "price"])
    assert first["after"] == found["bad"] and found["skipped"] == [] and {"checkpoint": found["good"], "exit_code": 0} in found["runs"]
    assert [run["exit_code"] for run in found["runs"]][:2] == [1, 0] and {"checkpoint": found["bad"], "exit_code": 1} in found["runs"]


def test_an_edit_outside_of_a_turn_is_named_as_such(bisect, turns, process):
    plant(turns, {"price": b"99\n"})
    found = bisect("--", "sh", "-c", 'test "$(cat price)" -lt 50', code=0)
    assert "first bad: edited outside of a turn (" in found.out and " price | 2 +-" in found.out
    assert re.search(r"^casrewind diff \w+ \w+ -p shows the change$", found.out, re.MULTILINE)
    command = re.search(r"^casrewind (diff .*) shows", found.out, re.MULTILINE)[1].split()
    assert "+99" in process(*command, code=0).out
    shape = bisect("--json", "--", "sh", "-c", 'test "$(cat price)" -lt 50', code=0).json
    assert shape["first_bad"] == {"row": "outside", "seen_at": shape["first_bad"]["seen_at"], "checkpoint": shape["bad"]}
    assert schema_faults(shape, "bisect") == []


def test_skipped_neighbours_are_all_named(bisect, turns):
    script = 'p="$(cat price)"; if [ "$p" -ge 3 ] && [ "$p" -le 5 ]; then exit 125; fi; test "$p" -lt 5'
    found = bisect("--", "sh", "-c", script, code=3)
    lines = [re.sub(r" \(.*", "", line) for line in found.out.splitlines()]
    assert lines[0].startswith("one of these 4 is the first bad one; the command skipped what lies between:")
    assert lines[1:5] == [f'  @{8 - number} "set the price to {number}"' for number in (6, 5, 4, 3)]
    assert found.err.count("skipped (exit code 125)") == 3
    shape = bisect("--json", "--", "sh", "-c", script, code=3).json
    assert shape["first_bad"] is None and len(shape["skipped"]) == 3 and schema_faults(shape, "bisect") == []
    assert set(shape["skipped"]) == {run["checkpoint"] for run in shape["runs"] if run["exit_code"] == 125}


def test_a_skipped_state_elsewhere_does_not_matter(bisect, turns):
    found = bisect("--", "sh", "-c", 'p="$(cat price)"; [ "$p" = 3 ] && exit 125; test "$p" -lt 5', code=0)
    assert 'first bad: @3 "set the price to 5"' in found.out


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "the command fails at the good end {oldest}, too (exit code 1)"), ("exit 124", "too (exit code 124)"),
        ("exit 0", "the command succeeds at the bad end"), ("exit 125", "the bad end"), ("exit 126", "(exit code 126)"),
        ("exit 127", "(exit code 127: no such command)"), ("exit 200", "(killed by signal 72)"), ("kill -KILL $$", "(killed by signal 9)"),
        ("no-such-command", "(exit code 127: no such command)"), ('[ "$(cat price)" = 7 ] || exit 130; exit 1', "(killed by signal 2)"),
    ],
)  # fmt: skip
def test_ends_that_are_not_good_and_bad_and_codes_that_stop_are_16(bisect, turns, process, scratch, script, words):
    found = bisect("--", "sh", "-c", script, code=16)
    oldest = process.json("list")["checkpoints"][-1]["id"]
    assert words.format(oldest=oldest) in found.err and "first bad" not in found.out and os.listdir(scratch) == []
    if "good end" in words:
        assert "--with .venv links what checkpoints leave out" in found.err and "--good REF" in found.err


def test_what_checkpoints_leave_out_is_named_and_linked(bisect, turns, process):
    plant(turns, {".gitignore": b"node_modules/\nprice.py\n", "node_modules/left-pad/index.js": b"pad"})
    script = 'test -e node_modules/left-pad/index.js || exit 1; test "$(cat price)" -lt 5'
    refused = bisect("--", "sh", "-c", script, code=16)
    assert "; try --with node_modules: checkpoints leave it out; --good REF is another end\n" in refused.err
    before = stamps(turns)
    assert 'first bad: @3 "set the price to 5"' in bisect("--with", "node_modules", "--", "sh", "-c", script, code=0).out
    assert stamps(turns) == before, "the link led to a removal"
    plant(turns, {"price.py": b"5"})
    script = 'test -L price.py -a -L d/keep && test "$(cat price)" -lt "$(cat price.py)"'
    assert "first bad: @3" in bisect("--with", "price.py", "--with", "d/keep", "--", "sh", "-c", script, code=0).out
    assert bisect("--with", "absent", "--", "true", code=15).err == f"casrewind: --with absent: no such path below {turns}\n"
    assert bisect("--with", ".", "--", "true", code=15).code and bisect("--with", "..", "--", "true", code=14).code


def test_a_missing_program_is_said_with_the_way_to_link_it(bisect, turns, scratch):
    assert "cannot run no-such-program: No such file or directory" in bisect("--", "no-such-program", code=16).err
    (turns / ".gitignore").write_bytes(b"check.sh\n")
    plant(turns, {"check.sh": b'#!/bin/sh\ntest "$(cat price)" -lt 5\n'})
    os.chmod(turns / "check.sh", 0o755)
    found = bisect("--", "./check.sh", code=16)
    assert "cannot run ./check.sh" in found.err and "--with ./check.sh links the project's" in found.err
    assert "first bad: @3" in bisect("--with", "./check.sh", "--", "./check.sh", code=0).out
    os.chmod(turns / "check.sh", 0o644)
    assert "Permission denied" in bisect("--with", "check.sh", "--", "./check.sh", code=16).err and os.listdir(scratch) == []
    assert "bisect: missing COMMAND" in bisect(code=64).err and "missing COMMAND" in bisect("--", code=64).err


def test_ends_are_any_states(bisect, turns, process):
    assert "first bad: @3" in bisect("--good", "@5", "--bad", "@1", "--", *BELOW_5, code=0).out
    assert "first bad: @3" in bisect("--good", "start", "--bad", "after:@3", "--", *BELOW_5, code=0).out
    assert "is newer than the bad end" in bisect("--good", "@1", "--bad", "@5", "--", *BELOW_5, code=64).err
    assert "is the only state" in bisect("--good", "@1", "--bad", "@1", "--", *BELOW_5, code=64).err
    assert bisect("--good", "@99", "--", "true", code=15).code
    assert process.json("list")["rows"], "the project is as it was"


def test_the_files_now_are_saved_as_the_bad_end_and_only_if_they_changed(bisect, turns, process):
    count = len(process.json("list")["checkpoints"])
    bisect("--", *BELOW_5, code=0)
    assert len(process.json("list")["checkpoints"]) == count
    plant(turns, {"price": b"8\n"})
    bisect("--", *BELOW_5, code=0)
    assert len(process.json("list")["checkpoints"]) == count + 1


def test_what_was_taken_back_gets_no_blame(bisect, turns, process, root):
    """@3 broke it and was undone; another turn broke it again."""
    process("restore", "@3", "--yes", code=0)  # the price is 4
    with opened_in(process) as workspace:
        agent = AgentTurns(workspace, root, "s2")
        agent.prompt("q1", "set it to 50")
        plant(root, {"price": b"50\n"})
        agent.stop("q1")
    found = bisect("--", *BELOW_5, code=0)
    assert 'first bad: @1 "set it to 50"' in found.out and "in 6 states" in found.out


def test_the_command_runs_where_it_was_called_and_new_files_stay_for_the_next_run(process, turns, scratch, tmp_path):
    (turns / "sub").mkdir()
    script = f'pwd >> {tmp_path}/places; test "$PWD" = "$(pwd)" || exit 126; ls -a >> {tmp_path}/seen; echo x > built; test "$(cat ../price)" -lt 5'
    found = subprocess.run(
        [sys.executable, "-m", "casrewind", "bisect", "sh", "-c", script], cwd=turns / "sub", env={**process.environment, "TMPDIR": str(scratch)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert found.returncode == 0 and "first bad: @3" in found.stdout, found
    places = set((tmp_path / "places").read_text().split())
    (place,) = places
    assert re.fullmatch(rf"{scratch}/casrewind-bisect-[0-9a-f]+/sub", place) and (tmp_path / "seen").read_text().count("built") == 4


def test_a_compiled_file_of_another_state_does_not_pass_for_this_ones(bisect, process, root, scratch):
    """Python compares the size and the second: all of these states have files of one size, and each run is quick."""
    plant(root, {"m.py": b"x = 0\n"})
    process("save", code=0)
    for number in range(1, 9):
        plant(root, {"m.py": b"x = %d\n" % number})
        process("save", "-m", f"v{number}", code=0)
    found = bisect("--", sys.executable, "-c", "import m; raise SystemExit(m.x >= 6)", code=0, PYTHONDONTWRITEBYTECODE="")
    assert "-x = 5" in process(*re.search(r"casrewind (diff .*) shows", found.out)[1].split(), code=0).out


def start_and_wait(process, root, scratch, ready, work=""):
    """A bisect whose command does its `work`, writes its process id to `ready` and sleeps."""
    child = subprocess.Popen(
        [sys.executable, "-m", "casrewind", "-C", str(root), "bisect", "--", "sh", "-c", f"{work}echo $$ > {ready}; exec sleep 600"],
        env={**process.environment, "TMPDIR": str(scratch)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not (ready.exists() and ready.read_text().strip()):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_an_interrupt_or_a_kill_leaves(bisect, process, turns, scratch, tmp_path, number):
    ready = tmp_path / "ready"
    child = start_and_wait(process, turns, scratch, ready, "mkdir closed; echo x > closed/f; chmod 0 closed; ")
    (left,) = os.listdir(scratch)
    with opened_in(process) as workspace:
        context = workspace._context
        (row,) = context.store.bisects.all()
        assert row.pid == child.pid and row.pid_start
        # no lock is held while the command runs: gc runs, and keeps what the bisect looks at
        workspace.gc(Limits(max_age=0.0, max_count=1, keep_last=0))
        assert len(workspace.checkpoints()) >= 8
        workspace.save("meanwhile")
    child.send_signal(number)
    sleeping = int(ready.read_text())
    if number == signal.SIGINT:
        _, err = child.communicate(timeout=60)
        assert child.returncode == 130 and b"interrupted" in err and os.listdir(scratch) == []
        with pytest.raises(ProcessLookupError):
            os.kill(sleeping, 0)
    else:
        child.wait()
        os.kill(sleeping, signal.SIGKILL)
        child.communicate()
        assert os.listdir(scratch) == [left]
    with opened_in(process) as workspace:
        context = workspace._context
        assert len(context.store.bisects.all()) == (number == signal.SIGKILL)
    if number == signal.SIGKILL:
        assert "first bad: @3" in bisect("--", *BELOW_5, code=0).out
    with opened_in(process) as workspace:
        assert os.listdir(scratch) == []
        workspace.gc(Limits(max_age=0.0, max_count=1, keep_last=0))
        assert workspace._context.store.bisects.all() == [] and len(workspace.checkpoints()) < 8


def test_gc_removes_what_a_killed_bisect_left(process, turns, scratch, tmp_path):
    ready = tmp_path / "ready"
    child = start_and_wait(process, turns, scratch, ready)
    child.kill()
    child.wait()
    os.kill(int(ready.read_text()), signal.SIGKILL)
    child.communicate()
    assert len(os.listdir(scratch)) == 1
    process("gc", code=0, TMPDIR=str(scratch))
    assert os.listdir(scratch) == []
    with opened_in(process) as workspace:
        assert workspace._context.store.bisects.all() == []


def test_a_scratch_directory_in_the_project_is_refused(process, turns):
    (turns / "tmp").mkdir()
    before = stamps(turns / "price")
    refused = process("bisect", "--", "true", TMPDIR=str(turns / "tmp"), code=14)
    assert "lies in the project; set TMPDIR to a directory outside of it" in refused.err and os.listdir(turns / "tmp") == []
    assert stamps(turns / "price") == before


def test_purged_paths_are_named_and_missing(bisect, turns, process):
    process("purge", "note5", "--yes", code=0)
    found = bisect("--good", "@4", "--bad", "after:@2", "--", "sh", "-c", 'test -e note5 && exit 126; test "$(cat price)" -lt 5', code=0)
    assert "  without purged files: note5" in found.err and "first bad: @3" in found.out


def test_links_and_modes_and_empty_directories_are_in_each_state(bisect, process, root):
    plant(root, {"run.sh": b"#!/bin/sh\nexit 0\n", "link": Link("run.sh"), "empty": Dir(0o700), "n": b"0"})
    os.chmod(root / "run.sh", 0o755)
    process("save", code=0)
    for number in range(1, 5):
        plant(root, {"n": b"%d" % number})
        process("save", "-m", f"s{number}", code=0)
    os.chmod(root / "run.sh", 0o644)
    process("save", "-m", "mode", code=0)
    plant(root, {"n": b"9"})
    found = bisect("--", "sh", "-c", "test -L link -a -d empty || exit 126; test -x run.sh", code=0)
    assert "first bad: edited outside of a turn" in found.out and "run.sh" in found.out


@pytest.mark.parametrize("states, most", [(200, 10), pytest.param(1000, 12, marks=pytest.mark.long)])
def test_a_thousand_checkpoints_take_at_most_twelve_runs(workspace, root, scratch, states, most):
    """The planted break is found; nothing but the command's own reading is done in the worktree."""
    plant(root, {"n": b"0", "same": b"x" * 1000})
    ids = []
    for number in range(states):
        plant(root, {"n": b"%d" % number})
        ids.append(workspace.save(f"s{number}").checkpoint.id)
    before = stamps(root)
    for planted in (1, states * 437 // 1000, states - 1):
        told = []

        def run(directory, planted=planted):
            with open(os.path.join(directory, "n"), "rb") as file:
                return int(int(file.read()) >= planted)

        found = bisects.bisect(workspace._context, None, None, (), run, told.append)
        assert [state.first.id for state in found.suspects] == [ids[planted]] and found.good.last.id == ids[planted - 1]
        assert len(found.runs) <= most and found.states == states and [step.number for step in told] == list(range(1, len(found.runs) + 1))
        assert all(len(found.runs) <= step.number + step.most_left for step in told)
    assert stamps(root) == before and os.listdir(scratch) == []
