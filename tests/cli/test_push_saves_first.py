"""A push that a person types saves the files of now first, and names the new files; so does an export of the newest state."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind.remote import remote_config
from support.command_in_process import InProcess
from support.fake_client import Client
from support.picture import differences, picture
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def machine(root, home, url):
    made = InProcess(root, home, CASREWIND_REMOTE_KEY=KEY)
    plant(root, {"app.py": b"one\n"})
    made("save", code=0)
    made("remote", "add", url, "--machine", "sandbox-4", code=0)
    made("push", code=0)
    return made


def points(machine):
    return machine.json("list", "--all")["checkpoints"]


def elsewhere(machine, tmp_path, url):
    """The files that a clone has."""
    other = InProcess(tmp_path, tmp_path / "other", CASREWIND_REMOTE_KEY=KEY)
    other("clone", url, "copy", code=0)
    return tmp_path / "copy"


def test_the_files_of_now_are_on_the_remote_after_a_push_and_the_new_ones_are_named(machine, root, tmp_path, url):
    plant(root, {"app.py": b"two\n", "key.pem": b"k", "d/new.py": b"n"})
    said = machine("push", code=0).out.splitlines()
    assert said[0] == f"saved {points(machine)[0]['id']} first (+2 ~1 -0)"
    assert said[1].startswith("pushed 1 checkpoint (") and said[2] == "  2 files new to the remote: d/new.py, key.pem"
    assert differences(picture(root), picture(elsewhere(machine, tmp_path, url))) == {}


def test_a_state_that_is_saved_gets_no_second_checkpoint(machine, root, url):
    plant(root, {"app.py": b"two\n"})
    machine("save", code=0)
    before = points(machine)
    assert machine("push", code=0).out.startswith("pushed 1 checkpoint (")
    assert machine("push", code=0).out == f"nothing to push: all files are saved, and all checkpoints are on {url}\n"
    assert points(machine) == before


def test_a_dry_run_names_what_would_leave_the_machine_and_saves_nothing(machine, root):
    plant(root, {"saved": b"1"})
    machine("save", code=0)
    plant(root, {f"a{number}": b"%d" % number for number in range(7)} | {"app.py": b"two\n", "n" * 90: b"long"})
    before = points(machine)
    said = machine("push", "-n", code=0).out.splitlines()
    assert said[0] == "would save the current files first (+8 ~1 -0)" and said[1].startswith("would push 1 checkpoint (")
    assert said[2] == "  9 files new to the remote: saved, a0, a1, a2, a3, a4, a5, a6 and 1 more"
    found = machine.json("push", "-n")
    assert [one["path"] for one in found["new_files"]] == ["saved", *(f"a{number}" for number in range(7)), "n" * 90] and found["saved"] is None
    assert points(machine) == before
    for name in os.listdir(root):
        if name != "n" * 90:
            os.unlink(root / name)
    assert machine("push", code=0).out.splitlines()[-1] == f"  2 files new to the remote: saved, {'n' * 59}…"


def test_what_only_an_earlier_turn_had_leaves_the_machine_and_is_named(machine, root):
    plant(root, {"token": b"t"})
    machine("save", code=0)
    os.unlink(root / "token")
    assert machine("push", code=0).out.splitlines()[-1] == "  1 file new to the remote: token"


@pytest.mark.parametrize("words", [("push",), ("push", "-n"), ("push", "--wait", "100s")])
def test_while_a_turn_runs_nothing_is_saved_and_that_is_said(machine, root, words):
    client = Client(machine, root)
    client.send(client.payload("UserPromptSubmit.prompt"))
    plant(root, {"half": b"written"})
    before = points(machine)
    assert machine(*words, code=0).out.startswith("a turn of claude is running, so the current files are not saved: this sends what is saved already\n")
    assert points(machine) == before
    client.send(client.payload("Stop.plain"))
    plant(root, {"half": b"and half"})
    assert "saved " in machine("push", code=0).out and len(points(machine)) > len(before) + 1


def test_a_command_in_casrewind_run_is_a_turn(machine, root):
    push = f"echo 1 > made; {sys.executable} -m casrewind push"
    done = subprocess.run([sys.executable, "-m", "casrewind", "run", "--", "sh", "-c", push], cwd=root, env=machine.environment, capture_output=True, text=True, check=True)
    assert "a turn of run is running" in done.stdout and "saved" not in done.stdout.replace("what is saved already", "").replace("are not saved", "")


def test_a_save_that_fails_stops_no_push_and_is_said(machine, root, tmp_path, url):
    plant(root, {"app.py": b"two\n"})
    machine("save", code=0)
    plant(root, {"large": os.urandom(3_000_000)})  # more than a file of this process may have
    done = subprocess.run(
        [sys.executable, "-m", "casrewind", "push"], cwd=root, env=machine.environment, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)),
    )  # fmt: skip
    assert done.returncode == 3 and done.stdout.startswith("pushed 1 checkpoint (") and "large" not in done.stdout
    assert done.stderr.startswith("casrewind: the current files were not saved: ")
    assert (elsewhere(machine, tmp_path, url) / "app.py").read_bytes() == b"two\n"


def test_the_automatic_push_saves_nothing(machine, root):
    plant(root, {"app.py": b"two\n"})
    before = points(machine)
    machine("push", "--auto", code=0)
    assert points(machine) == before


def test_after_a_purge_a_push_saves_nothing_first(machine, root, url, tmp_path):
    plant(root, {"secret": b"hunter2"})
    machine("push", code=0)
    machine("purge", "secret", "-y", code=0)
    plant(root, {"secret": b"hunter2 again"})
    before = points(machine)
    assert machine("push", code=0).out.startswith("after a purge the current files are not saved first: they may have what was purged\n")
    assert points(machine) == before
    assert machine("push", code=0).out.startswith("saved "), "the purge is done there"


def test_pins_and_labels_alone_are_no_checkpoints(machine):
    machine("pin", "last", "good", code=0)
    said = machine("push", code=0).out
    assert said == "pushed pins, labels and other notes of earlier checkpoints in 1 request; no checkpoint is new\n"


@pytest.mark.parametrize("words", [(), ("last",)])
def test_an_export_of_the_newest_state_has_the_files_of_now(machine, root, tmp_path, words):
    plant(root, {"app.py": b"two\n"})
    line = [sys.executable, "-m", "casrewind", "-C", str(root), "export", *words]
    done = subprocess.run(line, env=machine.environment, capture_output=True, check=True)
    newest = points(machine)[0]
    said = done.stderr.decode().splitlines()
    assert said[0] == f"saved {newest['id']} first (+0 ~1 -0)" and (not words or f"exported 1 checkpoint {newest['id']}, " in said[1])
    other = InProcess(tmp_path / "there", tmp_path / "other", CASREWIND_REMOTE_KEY=KEY)
    Path(other.root).mkdir()
    (tmp_path / "stream").write_bytes(done.stdout)
    other("import", str(tmp_path / "stream"), code=0)
    other("restore", "remote:last", "--yes", code=0)
    assert (Path(other.root) / "app.py").read_bytes() == b"two\n"


def test_an_export_of_an_earlier_checkpoint_saves_nothing(machine, root):
    first = points(machine)[0]["id"]
    plant(root, {"app.py": b"two\n"})
    line = [sys.executable, "-m", "casrewind", "-C", str(root), "export", first]
    done = subprocess.run(line, env=machine.environment, capture_output=True, check=True)
    assert done.stderr.decode().startswith(f"exported 1 checkpoint {first}, ") and len(points(machine)) == 1


@pytest.fixture
def killed(machine, root):
    """A client that was killed in the middle of a turn: files and its transcript have what no hook was told of."""
    client, process = Client(machine, root), subprocess.Popen(["sleep", "1000"])
    lines = client.transcript.read_bytes().splitlines(keepends=True)
    client.transcript.write_bytes(b"".join(lines[: len(lines) // 2]))
    client.send(client.payload("UserPromptSubmit.prompt", session_id=client.transcript.stem), CLAUDE_PID=str(process.pid))
    client.transcript.write_bytes(b"".join(lines))
    plant(root, {"app.py": b"half of it\n"})
    assert "a turn of claude is running" in machine("push", code=0).out
    process.kill()
    process.wait()
    return client


@pytest.mark.parametrize("words", [("push",), ("push", "--wait", "100s")])
def test_what_a_killed_client_left_goes_along_with_its_conversation(machine, killed, tmp_path, url, words):
    assert machine(*words, code=0).out.startswith("saved ")
    last = points(machine)[0]
    assert (last["trigger"], last["agent"], last["session"]) == ("session_end", "claude", killed.transcript.stem)
    other = InProcess(tmp_path, tmp_path / "other", CASREWIND_REMOTE_KEY=KEY)
    found = other.json("clone", url, "copy")
    assert found["problems"] == [] and found["resume"] == f"claude --resume {killed.transcript.stem}" and found["receipt"]["conversation"]["exact"]
    (there,) = (tmp_path / "other").rglob(f"{killed.transcript.stem}.jsonl")
    last_message = json.loads(killed.transcript.read_bytes().splitlines()[-1])["uuid"]
    assert last_message.encode() in there.read_bytes()
    assert (tmp_path / "copy" / "app.py").read_text() == "half of it\n"
    assert "saved" not in machine("push", code=0).out.replace("all files are saved", ""), "it is saved once"


def test_what_a_killed_client_left_is_saved_without_its_conversation_where_none_is_wanted(machine, killed):
    machine("push", code=0, CASREWIND_TRANSCRIPTS="no")
    assert points(machine)[0]["trigger"] == "session_end"
