"""`casrewind watch`: a hook that finds a helper need not do its own work, and whatever becomes of the helper every event has
its checkpoint, once."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from casrewind import launch
from casrewind.hook import protocol
from support import helper_processes
from support.command import Command
from support.fake_client import Client
from support.helper_processes import Helper
from support.scanner import settle
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the helper is for Linux only")
WIDE = {f"d{n}/e{m}/f{k}": b"%d" % (n * m * k) for n in range(4) for m in range(3) for k in range(3)}
ASKING = """
casrewind casrewind.agents casrewind.agents.payload casrewind.environment
casrewind.hook casrewind.hook.handler casrewind.hook.protocol
"""
"""Our modules in a hook whose work a helper does."""


@pytest.fixture
def client(casrewind, root):
    plant(root, {**WIDE, ".gitignore": b"*.o\n"})
    settle()
    casrewind("save", code=0)
    found = Client(casrewind, root)
    found.send(found.payload("Stop.plain"))
    return found


@pytest.fixture
def helper(client):
    found = Helper(client)
    assert "watching" in found.said and "not its files" not in found.said
    yield found
    if found.process.returncode is None:
        found.end()


def place(client):
    return os.path.join(client.casrewind.environment["CASREWIND_HOME"], "watch", protocol.socket_name(os.fsencode(client.root)))


def turn(client, number):
    """An edit, and the end of a turn: there must be one checkpoint more, and it must be of what is there."""
    before = len(client.points())
    plant(client.root, {f"d{number % 4}/e1/f1": os.urandom(9)})
    client.send(client.payload("Stop.plain", prompt_id=f"turn {number}"))
    client.wait_for(before + 1)
    right(client)


def right(client):
    """The newest checkpoint is what a save that knows nothing would make."""
    assert client.casrewind("diff", "last", "--name-status", code=0).out == ""


def imported(client, payload):
    python, *rest = launch.own_command()
    done = subprocess.run(
        [python, "-X", "importtime", *rest, "hook", "claude"], input=payload, capture_output=True, cwd="/", timeout=60,
        env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"")
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}


def asked(client, name="Stop.plain", **changes):
    """The modules of a hook whose work the helper has done: it may be too slow for some on a busy machine."""
    for _ in range(40):
        found = imported(client, client.payload(name, **changes))
        if "lmdb" not in found:
            return found
        time.sleep(0.1)
    raise AssertionError("the helper was never ready")


def test_the_helper_does_the_work_and_the_hook_imports_next_to_nothing(client, helper, root):
    for number in range(3):
        before = len(client.points())
        plant(root, {f"d1/e{number}/f1": b"edit %d" % number, f"new{number}/deep/er": b"1"})
        found = asked(client)
        assert {name for name in found if name.partition(".")[0] == "casrewind"} == set(ASKING.split())
        assert found & {"json", "typing", "re", "socket", "enum", "collections"} == set()
        right(client)
        point = client.points()[::-1][before]  # on a busy machine there may be more
        assert (point["trigger"], point["agent"]) == ("turn_end", "claude") and point["changes"]["modified"] == 1
    assert client.casrewind.json("verify")["ok"]
    assert client.casrewind("list", code=0).err == "", "nothing was written into the log"


def test_a_store_that_comes_into_the_project_is_not_captured(client, helper, root, home):
    inner = Command(root / "d1", home)
    inner("--store", str(root / "d2/e1/store"), "save", code=0)
    for number in range(2):
        turn(client, number)
        (skipped,) = client.casrewind.json("show", "last")["skipped"]
        assert (skipped["path"], skipped["reason"]) == ("d2/e1/store", "casrewind store")
    shutil.rmtree(root / "d2/e1/store")
    turn(client, 2)
    assert client.casrewind.json("show", "last")["skipped"] == []


def test_the_next_event_sees_changed_private_rules(client, helper, root):
    """They are outside of the watched tree."""
    plant(root, {"d1/e1/my.o": b"1"})
    turn(client, 0)
    rules = client.casrewind.json("status")["private_rules"]["file"]
    with open(rules, "wb") as file:  # as an editor does it: no command saves
        file.write(b"!*.o\nd2/e1/f1\n")
    turn(client, 1)
    held = {entry["path"] for entry in client.casrewind.json("show", "last")["entries"]}
    assert "d1/e1/my.o" in held and "d2/e1/f1" not in held


def test_before_a_tool_the_helper_makes_a_checkpoint_only_of_a_change(client, helper, root):
    """What was only looked at and not saved must not count as saved afterwards."""

    def send():
        client.send(client.payload("PreToolUse.Bash"), CASREWIND_TIER="aggressive")
        return len(client.points())

    before = len(client.points())
    for number in range(3):
        os.utime(root / "d1/e1/f1", ns=(number, number))
        assert send() == before, "other times are no change"
        plant(root, {"d2/e2/f2": b"edit %d" % number, f"d3/new{number}": b"n"})
        assert send() == before + 1
        right(client)
        assert send() == before + 1
        before += 1


@pytest.mark.long
def test_a_command_in_a_prompt_is_answered_by_the_hook_itself(client, helper):
    payload = client.payload("UserPromptSubmit.prompt", prompt="/casrewind list")
    code, out, err = client.call(payload)
    assert (code, err) == (0, b"") and json.loads(out)["decision"] == "block"


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.long), signal.SIGSTOP])
def test_a_helper_that_is_killed_or_stopped_costs_no_turn_its_checkpoint(client, helper, number):
    turn(client, 0)
    helper.process.send_signal(number)
    if number != signal.SIGSTOP:
        helper.wait()
    turn(client, 1)
    turn(client, 2)
    if number == signal.SIGSTOP:
        helper.process.send_signal(signal.SIGCONT)
        turn(client, 3)
    time.sleep(0.2)
    assert len(client.points()) == 2 + 3 + (number == signal.SIGSTOP), "what the hook has done itself the helper does not do again"


@pytest.mark.long
def test_a_new_helper_takes_the_place_of_a_dead_one_and_of_no_other(client, helper):
    again = client.casrewind("watch")
    assert again.code != 0 and "a helper watches" in again.err
    helper.end()
    assert os.path.exists(place(client))
    another = Helper(client)
    try:
        asked(client)
        right(client)
    finally:
        code, said = another.end(signal.SIGTERM)
    assert code == 0 and "a signal asked it to end" in said and not os.path.exists(place(client))


@pytest.mark.long
def test_it_ends_by_itself(client, root):
    idle = Helper(client, "--idle", "1s")
    code, said = idle.wait()
    assert code == 0 and "idle timeout" in said
    moved = Helper(client)
    os.rename(root, str(root) + "-moved")
    code, said = moved.wait()
    assert code == 0 and "moved or removed" in said


@pytest.mark.long
@pytest.mark.parametrize("what", ["a file", "a directory", "a dangling link", "a dead socket"])
def test_what_is_no_helper_is_not_asked(client, what):
    os.makedirs(os.path.dirname(place(client)), mode=0o700)
    if what == "a file":
        plant(os.path.dirname(place(client)), {os.path.basename(place(client)): b""})
    elif what == "a directory":
        os.mkdir(place(client))
    elif what == "a dangling link":
        os.symlink("nowhere", place(client))
    else:
        listening(client).close()
    turn(client, 0)


def listening(client, listen=True):
    os.makedirs(os.path.dirname(place(client)), mode=0o700, exist_ok=True)
    found = socket.socket(socket.AF_UNIX)
    there = os.open(os.path.dirname(place(client)), os.O_RDONLY)
    try:
        found.bind(f"/proc/self/fd/{there}/{os.path.basename(place(client))}")
    finally:
        os.close(there)
    if listen:
        found.listen()
    return found


def false_helper(client, work):
    """A helper that is ready, is told to go on, does `work` and is gone without a word."""
    server = listening(client)

    def serve():
        talk, _ = server.accept()
        server.close()
        with talk:
            talk.recv(1 << 20)
            talk.sendall(protocol.READY + (20_000).to_bytes(4, "big"))
            assert talk.recv(1) == protocol.GO
            work()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.long
def test_a_helper_that_dies_at_work_has_its_work_done(client):
    thread = false_helper(client, lambda: None)
    turn(client, 0)
    thread.join()


def test_a_helper_that_dies_when_the_work_is_done_does_not_have_it_done_twice(client, root):
    plant(root, {"d1/e1/f1": b"edit"})
    before, at_ns = len(client.points()), str(time.time_ns())
    payload = client.payload("Stop.plain", prompt_id="this")
    thread = false_helper(client, lambda: client.send(payload, "claude", "Stop", "--child", at_ns))
    client.send(payload)
    thread.join()
    time.sleep(0.5)
    assert len(client.points()) == before + 1


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_the_socket_of_another_user_is_not_asked(client, tmp_path):
    server = listening(client, listen=False)
    script = (
        "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.listen(); print('there', flush=True); t, _ = s.accept(); "
        "print(len(t.recv(1)), flush=True); t.close()"
    )
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-I", "-S", "-c", script]
    other = subprocess.Popen([*words, str(server.fileno())], pass_fds=[server.fileno()], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"there\n"
        turn(client, 0)
        assert other.stdout.readline() == b"0\n", "not a byte was told to somebody else"
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
        server.close()


@pytest.mark.long
def test_a_directory_that_others_may_write_into_is_not_looked_into(client, helper):
    asked(client)
    os.chmod(os.path.dirname(place(client)), 0o777)
    assert "lmdb" in imported(client, client.payload("Stop.plain"))
    right(client)


@pytest.mark.long
def test_two_hooks_at_a_time_are_both_served(client, helper, root):
    before = len(client.points())
    plant(root, {"d1/e1/f1": b"edit"})
    threads = [threading.Thread(target=client.send, args=(client.payload("Stop.plain", prompt_id=str(n)),)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.wait_for(before + 3)
    right(client)


@pytest.mark.long
def test_a_flood_of_events_while_it_sleeps(client, helper, root):
    turn(client, 0)
    helper.process.send_signal(signal.SIGSTOP)
    for number in range(20_000):
        os.utime(root / "d3" / f"e{number % 2}" / "f0")
    plant(root, {"d2/e2/f2": b"behind the last event that was kept"})
    helper.process.send_signal(signal.SIGCONT)
    asked(client)
    right(client)
    turn(client, 1)


@pytest.mark.long
def test_a_flood_of_a_hundred_thousand_files(client, helper, root):
    turn(client, 0)
    helper.process.send_signal(signal.SIGSTOP)
    for number in range(50_000):
        (root / f"d{number % 4}" / f"new{number}").write_bytes(b"")
    helper.process.send_signal(signal.SIGCONT)
    for number in range(3):
        turn(client, number)
