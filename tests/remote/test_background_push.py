"""A hook with automatic push on starts one process and waits for none, whatever the server does; what it started ends by itself and is heard of."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from casrewind import launch
from casrewind.hook import background_push
from casrewind.remote import push_process, remote_config
from casrewind.remote.sync_state import StateFiles
from casrewind.remote.pushed import count_unsent
from casrewind.settings import from_environment, open_until_end
from casrewind.store import push_notes
from support.command_in_process import InProcess
from support.fake_client import Client
from support.held_proxy import HeldProxy
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)
PATIENCE = 120


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


class Pushing:
    """A project with a remote on a server, and a client of it whose hooks push by themselves."""

    def __init__(self, root, home, server, url):
        self.root = root
        self.casrewind = InProcess(root, home, CASREWIND_REMOTE_KEY=KEY, CASREWIND_REMOTE_PUSH="turns", CASREWIND_REMOTE_INTERVAL="0s")
        plant(home, {".config/casrewind/config.toml": b"[remote]\nfrom_environment = true\n"})
        self.casrewind.environment |= server.variables
        plant(root, {"f": b"1"})
        self.casrewind("save", code=0)
        self.casrewind("remote", "add", url, "--machine", "sandbox-4", code=0)
        self.client = Client(self.casrewind, root)
        self.url, self._number = url, 1
        self.remote = push_notes.remote_directory(os.path.join(self.casrewind.json("status")["store"], "remotes"))

    def event(self, name="Stop.plain", session="s", **variables):
        """An edit, and the hook of an event: the checkpoint is there, nothing is printed."""
        self._number += 1
        plant(self.root, {"f": b"%d" % self._number})
        before = len(self.client.points())
        self.client.send(self.client.payload(name, session_id=session), **variables)
        until(lambda: len(self.client.points()) > before)

    def processes(self):
        """The processes that push in the background, or wait to do it."""
        found = subprocess.run(["pgrep", "-f", "--", f"-C {self.root} push --auto"], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def has_ended(self):
        until(lambda: not self.processes())

    @property
    def notes(self):
        return push_notes.read_push_notes(self.remote)

    def not_pushed(self):
        return self.casrewind.json("status")["remote"]["not_pushed"]


@pytest.fixture
def url(s3):
    return s3.bucket()


FIRST = {"GET": 2, "LIST": 1, "PUT": 4}
"""The four requests of a store's first push, the hint of a day, and a piece."""


@pytest.fixture
def pushing(root, home, s3, url):
    made = Pushing(root, home, s3, url)
    s3.reset()
    yield made
    for pid in made.processes():
        os.kill(pid, signal.SIGKILL)
    made.has_ended()


@pytest.mark.turns(3)
def test_a_turn_is_pushed_and_a_prompt_starts_nothing(pushing, s3):
    pushing.event("UserPromptSubmit.prompt")
    assert pushing.processes() == [] and pushing.not_pushed() == 2 and s3.counts().requests == {}
    assert pushing.casrewind("statusline", code=0).out.endswith(", not pushed yet\n")
    pushing.event()
    pushing.has_ended()
    found = pushing.casrewind.json("status")["remote"]
    assert found["not_pushed"] == 0 and found["since"] is None and found["problem"] is None and found["pushed_at"] and found["pushes"] == "turns"
    assert s3.counts().requests == FIRST
    assert "not pushed" not in pushing.casrewind("statusline", code=0).out
    pushing.event("UserPromptSubmit.prompt")
    assert pushing.casrewind("statusline", code=0).out.endswith(", 1 not pushed\n")
    pushing.event(CASREWIND_REMOTE_PUSH="off")
    pushing.event(CASREWIND_REMOTE_PUSH="session_end")
    assert pushing.processes() == [] and pushing.not_pushed() == 3


@pytest.mark.parametrize("reason, begins", [("other", True), ("clear", False)])
def test_in_an_interval_one_process_waits_and_the_end_of_a_session_hurries_it(pushing, s3, reason, begins):
    pushing.event()
    pushing.has_ended()
    pushing.casrewind.environment["CASREWIND_REMOTE_INTERVAL"] = "1h"
    for session in ("one", "two", "one"):
        pushing.event(session=session)
    (waiting,) = until(pushing.processes)
    assert pushing.not_pushed() == 3 and s3.counts().requests == FIRST
    pushing.event(f"SessionEnd.{reason}", session="one")
    if begins:
        until(lambda: pushing.not_pushed() == 0)
        assert s3.counts().requests == FIRST | {"PUT": 5}
    else:  # a person goes on in the client
        assert pushing.processes() == [waiting] and pushing.not_pushed() == 4


def test_two_sessions_at_once_push_once(pushing, s3):
    with HeldProxy(s3.endpoint) as proxy:
        known = StateFiles(pushing.remote)
        known.save(known.state._replace(probed=f"{pushing.url} {proxy.endpoint}"))  # so that the piece is the first request
        pushing.casrewind.environment["AWS_ENDPOINT_URL"] = proxy.endpoint
        pushing.event(session="one")
        proxy.wait_for_client()
        pushing.event(session="two")
        pushing.event(session="one")
        assert len(pushing.processes()) == 1
        proxy.open()
        pushing.has_ended()
    assert pushing.not_pushed() == 0
    assert s3.counts().requests == {"PUT": 4}, "the hint, the name, and two pieces: the second has what came while the first one was sent"


def test_while_a_server_hangs_each_hook_returns_and_holds_nothing_of_its_client(pushing, s3):
    """The client's pipes end with the hook, and the push lives on in a session of its own, stopped and continued, until the server answers."""
    ours, theirs = os.pipe()
    python, *rest = launch.own_command()
    with HeldProxy(s3.endpoint) as proxy:
        variables = {**pushing.casrewind.environment, "AWS_ENDPOINT_URL": proxy.endpoint, "CLAUDE_PROJECT_DIR": str(pushing.root)}
        for number in range(2):
            plant(pushing.root, {"f": b"edit %d" % number})
            hook = subprocess.Popen(
                [python, *rest, "hook", "claude"], env=variables, cwd="/", pass_fds=(theirs,),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            out, err = hook.communicate(pushing.client.payload("Stop.plain", session_id="s"), timeout=PATIENCE)  # until both pipes end
            assert (hook.returncode, out, err) == (0, b"", b"")
            if number == 0:
                proxy.wait_for_client()
        os.close(theirs)
        assert select.select([ours], [], [], PATIENCE)[0] and os.read(ours, 1) == b"", "every process that had the other end of this pipe has closed it"
        os.close(ours)
        (process,) = pushing.processes()
        assert os.getsid(process) == process and os.getpgid(process) == process
        assert {os.readlink(f"/proc/{process}/fd/{fd}") for fd in (1, 2)} == {"/dev/null"} and os.readlink(f"/proc/{process}/cwd") == "/"
        pushing.event("UserPromptSubmit.prompt")
        os.kill(process, signal.SIGSTOP)
        pushing.event("UserPromptSubmit.prompt")
        os.kill(process, signal.SIGCONT)
        proxy.open()
        pushing.has_ended()
    assert pushing.not_pushed() == 0


def test_a_killed_push_is_completed_by_the_next(pushing, s3, tmp_path):
    with HeldProxy(s3.endpoint) as proxy:
        pushing.event(AWS_ENDPOINT_URL=proxy.endpoint)
        proxy.wait_for_client()
        (process,) = pushing.processes()
        os.kill(process, signal.SIGKILL)
        pushing.has_ended()
    assert pushing.not_pushed() == 2 and pushing.notes.pushed_ns == 0
    pushing.event()
    pushing.has_ended()
    assert pushing.not_pushed() == 0
    reader = InProcess(tmp_path, tmp_path / "other home", **s3.variables, CASREWIND_REMOTE_KEY=KEY)
    assert reader.json("clone", pushing.url, "copy", "--all", code=3)["checkpoints"] == 3  # the transcript has no name of this session


def test_without_a_network_status_says_why_and_the_next_push_is_complete(pushing):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
        pushing.event(AWS_ENDPOINT_URL=nowhere)
        pushing.has_ended()
    said = pushing.casrewind("status", code=0)
    assert "2 checkpoints not pushed (since " in said.out and said.err == ""
    assert re.search(rf"! the automatic push failed \d+ \w+ ago: {pushing.url} cannot be reached: connection refused", said.out)
    assert pushing.casrewind("statusline", code=0).out.endswith(", not pushed yet, push failed\n")
    found = pushing.casrewind.json("remote")
    assert found["problem"].startswith(f"{pushing.url} cannot be reached") and found["failed_at"] and found["not_pushed"] == 2
    pushing.event()
    pushing.has_ended()
    assert pushing.notes.problem == "" and pushing.not_pushed() == 0
    assert "failed" not in pushing.casrewind("status", code=0).out


def in_store(pushing, monkeypatch):
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in pushing.casrewind.environment.items():
        monkeypatch.setenv(name, value)
    return open_until_end(str(pushing.root), from_environment()[0], create=False)


def test_a_push_that_takes_too_long_ends_by_its_own_limit(pushing, s3, monkeypatch):
    before = signal.getsignal(signal.SIGALRM)
    with HeldProxy(s3.endpoint) as proxy, in_store(pushing, monkeypatch) as context:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        push_process.run_push_process(context, 0.0, limit=0.3, environ={})
    assert signal.getsignal(signal.SIGALRM) == before
    assert pushing.notes.problem == "it was not done within 0.3 seconds; the next push continues" and pushing.not_pushed() == 1
    with in_store(pushing, monkeypatch) as context:
        push_process.run_push_process(context, 0.0, environ={})
    assert pushing.notes.problem == "" and pushing.not_pushed() == 0


@pytest.mark.long
def test_a_silent_server_ends_the_process_after_its_one_try(pushing, s3):
    with HeldProxy(s3.endpoint) as proxy:
        began = time.monotonic()
        pushing.event(AWS_ENDPOINT_URL=proxy.endpoint)
        pushing.has_ended()
        assert 8 < time.monotonic() - began < 60
    assert "cannot be reached" in pushing.notes.problem


def test_a_push_by_hand_goes_first_and_the_process_in_the_background_finds_nothing_left(pushing, s3, monkeypatch):
    with in_store(pushing, monkeypatch) as context:
        with context.store.hold_lock(*push_notes.PUSH_OR_PULL):
            pushing.event()
            (process,) = until(pushing.processes)
            assert s3.counts().requests == {}
        pushing.has_ended()
        assert count_unsent(context).number == 0 and s3.counts().requests == FIRST


def test_push_wait_and_push_background_say_how_it_went(pushing, s3):
    assert pushing.casrewind("push", "--wait", "110s", code=0).out == f"all checkpoints are on {pushing.url}\n"
    assert pushing.not_pushed() == 0
    with HeldProxy(s3.endpoint) as proxy:
        pushing.event(CASREWIND_REMOTE_PUSH="off")
        goes_on = "the push continues in the background; casrewind status says how far it is\n"
        assert pushing.casrewind("push", "--wait", "10ms", code=3, AWS_ENDPOINT_URL=proxy.endpoint).out == goes_on
        proxy.wait_for_client()
        assert pushing.casrewind("push", "--background", code=0, AWS_ENDPOINT_URL=proxy.endpoint).out == goes_on
        found = json.loads(pushing.casrewind("push", "--wait", "10ms", "--json", code=3, AWS_ENDPOINT_URL=proxy.endpoint).out)
        assert (found["url"], found["done"], found["not_pushed"]) == (pushing.url, False, 1)
        proxy.open()
        pushing.has_ended()
    assert pushing.not_pushed() == 0
    pushing.event(CASREWIND_REMOTE_PUSH="off")
    refused = pushing.casrewind("push", "--wait", "1s", code=17, AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert f"{pushing.url} cannot be reached" in refused.err and refused.err.endswith("casrewind push tries again\n")
    assert "'soon' is not a length of time" in pushing.casrewind("push", "--wait", "soon", code=64).err


def test_push_wait_tries_again_until_the_remote_is_there(root, home, tmp_path):
    casrewind = InProcess(root, home, CASREWIND_REMOTE_KEY=KEY)
    url, bucket, away = f"file://{tmp_path}/bucket", tmp_path / "bucket", tmp_path / "away"
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    casrewind("remote", "add", url, code=0)
    os.rename(bucket, away)
    bucket.write_bytes(b"no directory")
    remote = push_notes.remote_directory(os.path.join(casrewind.json("status")["store"], "remotes"))

    def mend():
        until(lambda: push_notes.read_push_notes(remote).problem)
        bucket.unlink()
        os.rename(away, bucket)

    mending = threading.Thread(target=mend)
    mending.start()
    assert casrewind("push", "--wait", "110s", code=0).out == f"all checkpoints are on {url}\n"
    mending.join()
    assert casrewind.json("remote")["problem"] is None


def test_the_end_of_a_session_waits_for_what_a_push_that_runs_has_not(pushing, s3):
    """The push that runs began before the session's last checkpoint: the end of the session waits for that, too."""
    with HeldProxy(s3.endpoint) as proxy:
        pushing.event(AWS_ENDPOINT_URL=proxy.endpoint)
        proxy.wait_for_client()
        opening = threading.Timer(0.3, proxy.open)
        opening.start()
        pushing.event("SessionEnd.other", AWS_ENDPOINT_URL=proxy.endpoint, CASREWIND_REMOTE_WAIT="4s", CASREWIND_REMOTE_INTERVAL="1h")
        opening.join()
        pushing.has_ended()
    assert pushing.not_pushed() == 0


def test_without_a_remote_nothing_is_started(casrewind, root, home):
    plant(root, {"f": b"1"})
    plant(home, {".config/casrewind/config.toml": b'[remote]\npush = "turns"\n'})
    casrewind("save", code=0)
    client = Client(casrewind, root)
    client.send(client.payload("Stop.plain"))
    store = casrewind.json("status")["store"]
    assert not background_push.start_push(str(root), os.path.join(store, "remotes"), from_environment()[0], wait=1.0)
    found = subprocess.run(["pgrep", "-f", "--", f"-C {root} push --auto"], capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert casrewind("push", "--background", code=17).err == "casrewind: this project has no remote; casrewind remote add URL gives it one\n"


def test_what_the_hook_does_for_a_push_by_counts(pushing, tmp_path):
    """It starts one process, waits for none, and opens no socket."""
    python, *rest = launch.own_command()
    audited = {}
    for setting in ("off", "turns"):
        plant(pushing.root, {"f": setting.encode()})
        told = tmp_path / f"told-{setting}"
        environment = {
            **pushing.casrewind.environment, "CLAUDE_PROJECT_DIR": str(pushing.root), "CASREWIND_REMOTE_PUSH": setting,
            "CASREWIND_BUDGET": "60s",
        }  # fmt: skip
        code = AUDIT.format(told=str(told), script=os.path.dirname(os.path.dirname(rest[-1])))
        for _ in range(20):  # a hook leaves its work to a child where the machine is busy
            plant(pushing.root, {"f": os.urandom(8)})
            done = subprocess.run(
                [python, "-c", code, "hook", "claude"], env=environment, input=pushing.client.payload("Stop.plain", session_id="s"), cwd="/",
                capture_output=True, timeout=PATIENCE,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (0, b""), done
            found = json.loads(told.read_text())
            pushing.has_ended()
            if not found["left_to_a_child"]:
                break
        audited[setting] = found["events"]
    assert audited["off"] == [] and audited["turns"] == ["os.posix_spawn"]


AUDIT = """
import json, os, sys
sys.path.insert(0, {script!r})
events = []
def note(event, arguments):
    if event.split(".")[0] == "socket" or event in ("os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "subprocess.Popen", "os.system"):
        events.append(event)
sys.addaudithook(note)
leave, wait = os._exit, os.waitpid
def waited(*arguments):
    events.append("os.waitpid")
    return wait(*arguments)
def end(code):
    with open({told!r}, "w") as file:
        json.dump({{"left_to_a_child": "subprocess" in sys.modules, "events": events}}, file)
    leave(code)
os._exit, os.waitpid = end, waited
from casrewind.__main__ import main
main()
"""
