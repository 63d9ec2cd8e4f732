"""An image that was made hands-free: variables name the remote and its key, and the first save joins it. No hook waits for that."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from casrewind.remote import connect, remote_config
from casrewind.store import push_notes
from support.command_in_process import InProcess
from support.fake_client import Client
from support.held_proxy import HeldProxy
from support.trees import plant

KEY, OTHER = (remote_config.key_as_text(letter * 32) for letter in (b"k", b"x"))


def until(condition):
    while not (found := condition()):
        time.sleep(0.02)
    return found


class Sandbox:
    """A project of a new machine, with the variables of a hands-free image, and a client in it."""

    def __init__(self, root, home, s3):
        self.root, self.s3, self.url, self.number = root, s3, s3.bucket(), 0
        variables = {**s3.variables, "CASREWIND_REMOTE_KEY": KEY, "CASREWIND_REMOTE_URL": self.url, "CASREWIND_REMOTE_PUSH": "turns"}
        self.casrewind = InProcess(root, home, **variables, CASREWIND_REMOTE_INTERVAL="0s")
        plant(root, {"f": b"1"})
        self.client = Client(self.casrewind, root)

    def make_remote(self, at):
        maker = InProcess(at / "home project", at / "maker", **self.s3.variables, CASREWIND_REMOTE_KEY=KEY)
        plant(at / "home project", {"f": b""})
        maker("remote", "add", "--new", self.url, code=0)
        self.s3.reset()

    def event(self, name="Stop.plain", **variables):
        self.number += 1
        plant(self.root, {"f": b"%d" % self.number})
        before = len(self.client.points())
        answer = self.client.call(self.client.payload(name, session_id=self.client.transcript.stem), **variables)
        until(lambda: len(self.client.points()) > before)
        while subprocess.run(["pgrep", "-f", "--", f"casrewind.*{self.root}"], capture_output=True, check=False).stdout:
            time.sleep(0.02)  # the child that saves, and the push that it starts
        return answer

    def status(self):
        return self.casrewind.json("status")


@pytest.fixture
def sandbox(root, home, s3, tmp_path):
    made = Sandbox(root, home, s3)
    made.make_remote(tmp_path)
    return made


def free(sandbox):
    sandbox.casrewind("install", "claude", "--hands-free", code=0)


def test_the_first_save_joins_and_pushes_and_a_laptop_has_it(sandbox, tmp_path):
    free(sandbox)
    sandbox.event("SessionStart.startup")
    found = until(lambda: (sandbox.status()["remote"] or {}).get("pushed_at") and sandbox.status())
    assert found["remote"]["url"] == sandbox.url and found["remote"]["not_pushed"] == 0 and found["remote_not_joined"] is None
    sandbox.event()
    assert sandbox.status()["remote"]["not_pushed"] == 0
    laptop = InProcess(tmp_path, tmp_path / "laptop", **sandbox.s3.variables, CASREWIND_REMOTE_KEY=KEY)
    laptop("clone", sandbox.url, "copy", code=0)
    assert (tmp_path / "copy" / "f").read_bytes() == b"2"


def test_without_the_line_in_the_users_file_nothing_is_asked_and_status_says_why(sandbox):
    sandbox.event("SessionStart.startup")
    sandbox.event()
    assert sandbox.s3.counts().requests == {} and sandbox.status()["remote"] is None
    assert "CASREWIND_REMOTE_URL does not count: " in sandbox.casrewind("status", code=0).out
    assert "no remote" in sandbox.casrewind("push", code=17).err


@pytest.mark.parametrize("key, why", [(OTHER, "this is not the key of"), ("", "CASREWIND_REMOTE_KEY is empty"), ("nonsense", "has no key of a remote")])
def test_with_a_key_that_does_not_open_it_nothing_is_sent_and_that_is_said(sandbox, key, why):
    free(sandbox)
    sandbox.casrewind.environment["CASREWIND_REMOTE_KEY"] = key
    sandbox.event()
    assert set(sandbox.s3.counts().requests) <= {"GET"}, "the head alone"
    assert why in sandbox.status()["remote_not_joined"] and why in sandbox.casrewind.json("remote")["not_joined"]
    assert why in sandbox.casrewind("status", code=0).out and why in sandbox.casrewind("remote", code=0).out
    assert f", remote not joined: {why}" in sandbox.casrewind("statusline", code=0).out.replace("CASREWIND_REMOTE_KEY has", "has")
    told = json.loads(sandbox.event("SessionStart.startup", CLAUDE_PID=str(os.getpid()))[1])["systemMessage"]
    assert f", remote not joined: {why}" in told.replace("CASREWIND_REMOTE_KEY has", "has"), "the first line of a session"
    assert why in sandbox.casrewind("push", code=17).err
    sandbox.casrewind.environment["CASREWIND_REMOTE_KEY"] = KEY
    sandbox.event()
    assert sandbox.status()["remote"]["not_pushed"] == 0 and "not joined" not in sandbox.casrewind("statusline", code=0).out


def test_a_key_that_was_refused_is_not_sent_for_at_each_turn_and_another_one_at_once(sandbox):
    free(sandbox)
    sandbox.casrewind.environment["CASREWIND_REMOTE_KEY"] = OTHER
    for _ in range(3):
        sandbox.event()
    assert sandbox.s3.counts().requests == {"GET": 1}
    assert "this is not the key of" in (told := sandbox.status()["remote_not_joined"]) and "again after an hour, casrewind push does at once" in told
    (notes,) = Path(sandbox.casrewind.home).rglob("remotes/joining/notes.json")
    found = push_notes.read_push_notes(notes.parent)
    assert OTHER not in notes.read_text() and OTHER[5:] not in notes.read_text()
    push_notes.write_push_notes(str(notes.parents[2]), notes.parent, found._replace(failed_ns=found.failed_ns - int(3601e9)))
    sandbox.event()
    assert sandbox.s3.counts().requests == {"GET": 2}, "an hour later"
    assert "this is not the key of" in sandbox.casrewind("push", code=17).err and sandbox.s3.counts().requests == {"GET": 3}, "a person asks"
    sandbox.casrewind.environment["CASREWIND_REMOTE_KEY"] = KEY
    sandbox.event()
    assert sandbox.status()["remote"]["not_pushed"] == 0


def test_the_machine_has_the_name_of_its_job_else_of_the_host(sandbox, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "guides" / "cloud-sandbox.md").read_text("utf-8")
    assert [name for name in re.findall(r"`([A-Z0-9_]+)`", page) if name in connect.JOBS] == [*connect.JOBS], "the page has them in this order"
    for variable in connect.JOBS:
        monkeypatch.delenv(variable, raising=False)
    assert connect.machine_name() == socket.gethostname().partition(".")[0]
    monkeypatch.setenv("E2B_SANDBOX_ID", "  ")
    monkeypatch.setenv("MODAL_TASK_ID", "ta-1")
    assert connect.machine_name() == "ta-1"
    free(sandbox)
    sandbox.casrewind("save", code=0)
    sandbox.casrewind("push", code=0, GITHUB_RUN_ID="77", MODAL_TASK_ID="ta-1")
    assert sandbox.casrewind.json("remote")["machine"] == "77"


def test_it_never_makes_a_remote(root, home, s3):
    made = Sandbox(root, home, s3)
    free(made)
    s3.reset()
    made.event()
    assert "there is no remote at" in made.status()["remote_not_joined"] and set(s3.counts().requests) <= {"GET"}


def test_a_store_that_has_a_remote_changes_it_by_no_variable(sandbox, tmp_path):
    free(sandbox)
    sandbox.casrewind("save", code=0)
    sandbox.casrewind("remote", "add", "--new", f"file://{tmp_path}/own", code=0)
    sandbox.event()
    assert sandbox.status()["remote"]["url"] == f"file://{tmp_path}/own" and sandbox.s3.counts().requests == {}


def test_the_last_line_of_a_container_joins_what_no_hook_has(sandbox):
    free(sandbox)
    sandbox.casrewind("save", code=0)
    assert f"joined the remote {sandbox.url}" in sandbox.casrewind("push", "--wait", "20s", code=0).out
    assert sandbox.status()["remote"]["not_pushed"] == 0


def test_a_push_that_is_not_yet_joined_names_what_remove_forgets_and_a_purge_passes(sandbox):
    free(sandbox)
    sandbox.casrewind.environment["CASREWIND_REMOTE_KEY"] = OTHER
    sandbox.event()
    sandbox.casrewind("purge", "f", "-y", code=0)
    sandbox.casrewind.environment["CASREWIND_REMOTE_KEY"] = KEY
    sandbox.casrewind("push", code=0)
    assert f"the next push joins {sandbox.url}" in sandbox.casrewind("remote", "remove", "-y", code=0).out


@pytest.mark.parametrize("trouble", ["none", "wrong key", "server down", "server silent"])
def test_a_hook_waits_for_none_of_it(sandbox, trouble):
    """Counted by what it connects to: a hook opens no socket of the network, whatever is the matter; and one process is started."""
    free(sandbox)
    sandbox.event()
    with HeldProxy(sandbox.s3.endpoint) as silent:
        ways = {"none": {}, "wrong key": {"CASREWIND_REMOTE_KEY": OTHER}, "server down": {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
                "server silent": {"AWS_ENDPOINT_URL": silent.endpoint}}
        log = sandbox.root.parent / "calls"
        words = ["strace", "-qq", "-e", "trace=connect,wait4,clone,clone3,vfork,nanosleep,clock_nanosleep", "-o", str(log), sys.executable, "-m", "casrewind"]
        plant(sandbox.root, {"f": trouble.encode()})
        environment = {**sandbox.casrewind.environment, "CLAUDE_PROJECT_DIR": str(sandbox.root), **ways[trouble]}
        payload = sandbox.client.payload("Stop.plain", session_id="s")
        done = subprocess.run([*words, "hook", "claude"], input=payload, capture_output=True, env=environment, cwd="/", timeout=60, check=True)
        assert done.stdout == b""
        calls = [line.partition("(")[0] for line in log.read_text().splitlines() if "(" in line]
        print(trouble, calls)
        assert "connect" not in calls and "wait4" not in calls and not any("sleep" in call for call in calls)
        assert sum(call in ("clone", "clone3", "vfork") for call in calls) <= 2, calls


def test_a_pull_joins_as_a_push_does(sandbox, tmp_path):
    other = InProcess(tmp_path / "home project", tmp_path / "maker", **sandbox.s3.variables, CASREWIND_REMOTE_KEY=KEY)
    other("save", code=0)
    other("push", code=0)
    sandbox.casrewind("save", code=0)
    assert "no remote" in sandbox.casrewind("pull", code=17).err
    free(sandbox)
    assert f"casrewind push or pull joins {sandbox.url}, which CASREWIND_REMOTE_URL names" in sandbox.casrewind("remote", "machines", code=17).err
    said = sandbox.casrewind("pull", code=0).out
    assert f"joined the remote {sandbox.url}; this machine is " in said and "pulled 1 checkpoint of " in said
    assert "joined" not in sandbox.casrewind("pull", code=0).out


def test_a_clone_needs_no_url_where_a_variable_that_counts_names_it(sandbox, tmp_path):
    other = InProcess(tmp_path / "home project", tmp_path / "maker", **sandbox.s3.variables, CASREWIND_REMOTE_KEY=KEY)
    other("save", code=0)
    other("push", code=0)
    sandbox.s3.reset()
    refused = sandbox.casrewind("clone", code=64).err
    assert "clone: missing URL" in refused and "CASREWIND_REMOTE_URL does not count: " in refused and sandbox.s3.counts().requests == {}
    free(sandbox)
    assert sandbox.casrewind.json("clone", "--list")["machines"]
    found = sandbox.casrewind.json("clone")
    assert found["root"] == str(sandbox.root / "shop") and (sandbox.root / "shop" / "f").exists()
    assert "clone: missing URL" in sandbox.casrewind("clone", code=64, CASREWIND_REMOTE_URL="").err
