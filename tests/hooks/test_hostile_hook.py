"""Whatever a client, a person or the machine does to a hook: exit 0, silence, nothing lost without a line in the log.

`told` is that line: exactly one, shown once by the next command.
"""

import contextlib
import json
import os
import pty
import random
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from casrewind import agents, errors
from casrewind.agents import event as events
from casrewind.agents import settings_edit
from casrewind.agents.client import TIERS
from casrewind.model import checkpoint as checkpoints
from casrewind.model import cursor as cursors
from support import forked_command, other_users, peak_memory, unprivileged
from support.fake_client import DATA, Client
from support.sample_start import some
from support.stores import LockHolder, nth_newest
from support.trees import plant

HOOK = settings_edit.hook_command("claude")  # as an installation has it
LINE = settings_edit.make_hook_entries(agents.load_client("claude"), TIERS[-1])["Stop"]["hooks"][0]["command"]
PATIENCE = 60  # seconds after which a hook that does not end is taken for one that never will
RECORDED = [path for agent in agents.NAMES for path in sorted((DATA / f"{agent}_hooks").glob("*.json"))]


class Hooks(Client):
    """A client with a first checkpoint, and ways to call a hook that no client should have."""

    def run(self, payload=b"", *, command=HOOK, code=0, said=(b"", b""), environment=None, **how):
        """Run the hook; `payload` None leaves standard input to `how`. Only what is special about a start has one of its own."""
        environment = environment or self.environment()
        if command == HOOK and not how and payload is not None and forked_command.fits(environment):
            assert forked_command.run(["hook", "claude"], environment, stdin=payload, cwd="/", timeout=PATIENCE) == (code, *said)
            return
        if payload is not None:
            how["input"] = payload
        how = {"cwd": "/", "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        done = subprocess.run(command, env=environment, timeout=PATIENCE, **how)
        assert (done.returncode, done.stdout, done.stderr) == (code, *said)

    def start(self, payload=None, *, command=HOOK, environment=None, **how):
        how = {"cwd": "/", "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        running = subprocess.Popen(command, env=environment or self.environment(), **how)
        if payload is not None:
            running.stdin.write(payload)
            running.stdin.close()
            running.stdin = None
        return running

    def environment(self, **variables):
        return {**self.casrewind.environment, "CLAUDE_PROJECT_DIR": str(self.root), **variables}

    def stop(self, **changes):
        return self.payload("Stop.plain", **changes)

    @property
    def store(self):
        return Path(self.casrewind.json("status")["store"])

    def key(self):
        from casrewind.worktree.root import key_of

        return key_of(os.path.realpath(self.root)).hex()

    def told(self, *words):
        """Exactly one line was lost, told once, with these words in it."""
        said = self.casrewind("list", code=0).err
        assert said.count("\n") == 1 and "of these" not in said, said
        assert all(word in said for word in words), said
        self.nothing_told()

    def nothing_told(self):
        assert self.casrewind("list", code=0).err == ""

    def whole(self, count=None):
        """Verify is clean, the next event is taken, and before it there were `count` checkpoints."""
        if count is not None:
            assert len(self.points()) == count
        before = len(self.points())
        self.send(self.payload("UserPromptSubmit.prompt"))
        assert len(self.points()) == before + 1
        assert self.casrewind.json("verify")["ok"]


@pytest.fixture
def client(casrewind, root):
    plant(root, {"a": b"1", "d/b": b"2"})
    casrewind("save", code=0)
    return Hooks(casrewind, root)


# -- standard input


def test_a_client_that_keeps_its_end_open_has_its_checkpoint(client):
    running = client.start()
    running.stdin.write(client.stop())
    running.stdin.flush()
    assert running.wait(PATIENCE) == 0
    assert running.communicate() == (b"", b"")
    client.nothing_told()
    client.whole(2)


def test_nobody_is_waited_for_who_says_nothing_more(client):
    """Clients that keep their end of a pipe open, before and in the middle of a payload; a person at a terminal."""
    ours, theirs = pty.openpty()
    running = [client.start(stdin=theirs)]
    for payload in (b"", b'{"hook_event_name": "Stop", ', b'{"hook_event_name": "Stop"}}'):
        running.append(client.start())
        running[-1].stdin.write(payload)
        running[-1].stdin.flush()
    for one in running:
        assert one.wait(PATIENCE) == 0
        assert one.communicate() == (b"", b"")
    os.close(ours)
    os.close(theirs)
    said = client.casrewind("list", code=0).err
    assert "MalformedEvent" in said and "(4 of these" in said
    client.nothing_told()
    client.whole(1)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_descriptor_that_does_not_block_and_a_client_that_writes_late_and_in_pieces(client, kind):
    """A client written for Node may give its end of a socket pair."""
    ours, theirs = socket.socketpair() if kind == "socket" else map(os.fdopen, os.pipe()[::-1], ("wb", "rb"))
    os.set_blocking(theirs.fileno(), False)
    with ours, theirs:
        running = client.start(stdin=theirs)
        payload = client.stop()
        for piece in (payload[:1], payload[1:700], payload[700:]):
            time.sleep(0.3)
            os.write(ours.fileno(), piece)
    assert running.wait(PATIENCE) == 0
    assert running.communicate() == (b"", b"")
    client.nothing_told()
    client.whole(2)


@pytest.mark.parametrize("words", ["<&-", "<&- >&- 2>&-"])
def test_no_input_at_all(client, words):
    client.run(command=["/bin/sh", "-c", f"exec {shlex.join(HOOK)} {words}"])
    client.told("claude")
    client.whole(1)


@pytest.mark.parametrize("words", [">&-", "2>&-", ">&- 2>&-", "> /dev/full 2> /dev/full"])
def test_output_that_is_closed_or_full(client, words):
    client.run(client.stop(), command=["/bin/sh", "-c", f"exec {shlex.join(HOOK)} {words}"])
    client.nothing_told()
    client.whole(2)


@pytest.mark.parametrize("words", [">&-", "> /dev/full", "| true"])
def test_an_answer_that_nobody_takes(client, words):
    """It is not printed at the end, where the interpreter would say so and give another exit code."""
    payload = client.payload("UserPromptSubmit.slash-command", prompt="/casrewind status")
    command = f"exec {shlex.join(HOOK)} {words}" if words != "| true" else f"({shlex.join(HOOK)}; echo $? >&2) | sleep 0"
    client.run(payload, command=["/bin/sh", "-c", command], said=(b"", b"0\n" if words == "| true" else b""))
    client.whole(1)


# -- payloads


def argument_of(client, recorded):
    """The event's name, for a client that passes it as an argument."""
    return client.event_argument(recorded.get("event", ""))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_payload_cut_at_any_byte_is_refused(path):
    client = agents.load_client(path.parent.name.partition("_")[0])
    recorded = json.loads(path.read_text())
    whole, name = json.dumps(recorded["stdin"], ensure_ascii=False).encode(), argument_of(client, recorded)
    assert events.read_event(client, whole, {}, name)
    for end in range(len(whole)):
        with pytest.raises(errors.MalformedEvent):
            events.read_event(client, whole[:end], {}, name)


def test_a_payload_cut_off_on_its_way_is_one_line(client):
    payload = client.stop()
    chance = random.Random(5)
    for end in sorted(chance.sample(range(1, len(payload)), 3)):
        client.run(payload[:end])
        client.told("MalformedEvent", f"{end} bytes")
    client.whole(1)


DEEP = [[]]
for _ in range(200):
    DEEP = [DEEP]
WRONG = [
    None, True, 0, -7, 10**400, float("nan"), float("inf"), 1e308, "", "x", "\0", "/a\0b", "\ud800", "/\udfff", "/" * 5000,
    "/" + "x" * 70000, "../x", "\x1b[2J\r\n", [], [None], [[]], ["x"], {}, {"a": {}}, [{"tool_name": None}], DEEP,
]  # fmt: skip


@pytest.mark.turns(3)
def test_any_value_in_any_field_of_any_payload_gives_an_event_that_can_be_stored_or_is_refused():
    taken = refused = 0
    borrowed = [(agent, path) for agent in ("qwen", "generic") for path in RECORDED if path.parent.name == "claude_hooks"]
    for agent, path in [*((path.parent.name.partition("_")[0], path) for path in RECORDED), *borrowed]:
        client = agents.load_client(agent)
        recorded = json.loads(path.read_text())
        whole, name = recorded["stdin"], argument_of(client, recorded)
        for field in whole:
            for value in some(WRONG, len(WRONG) // 2):
                try:
                    event = events.read_event(client, json.dumps({**whole, field: value}).encode(), {}, name)
                except errors.MalformedEvent as error:
                    assert len(str(error)) < 300
                    refused += 1
                    continue
                taken += 1
                assert event.trigger in checkpoints.TRIGGERS | {""}
                assert all(place == "" or place.startswith("/") for place in (event.transcript, event.cwd))
                for tier in events.TIERS:
                    events.makes_checkpoint(client, event, tier)
                cursor = agents.cursor_of_event(event, event.transcript)
                back = cursors.decode(cursors.encode(cursor))
                assert back.transcript == os.fsencode(event.transcript) and back.agent == client.name
    assert taken > 1500 and refused > 300  # neither says yes to all nor no


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "\ud800 \0 \n ../x", "prompt_id": "\udfff", "transcript_path": ""},
        {"session_id": "s" * 1_000_000, "prompt_id": "p" * 1_000_000},
        {"transcript_path": "/" + "x/" * 50_000 + "y.jsonl"},
        {"last_assistant_message": "x\0\ud83d" * 1000, "background_tasks": DEEP, "session_crons": 10**4000},
        {"stop_hook_active": float("nan"), "effort": float("-inf")},
    ],
    ids=["surrogates", "long ids", "long path", "rubbish elsewhere", "not finite"],
)
def test_odd_values_cost_nothing(client, changes):
    client.run(client.stop(**changes))
    client.nothing_told()
    client.whole(2)
    assert client.casrewind("list", code=0).out and client.casrewind.json("show", "prev")


@pytest.mark.parametrize("first", [False, True], ids=["in the hook", "in a child"])
def test_fields_that_an_event_can_do_without_cost_it_nothing_but_a_line(client, tmp_path, first):
    if first:
        client.casrewind.root = client.root = str(tmp_path / "new")
        plant(Path(client.root), {"a": b"1"})
    before = len(client.points())
    client.run(client.stop(prompt_id=7, reason=[], source={}, turn_id=True, agent_id=1.5, cwd="here"))
    client.told("prompt_id", "reason", "source", "turn_id")
    client.wait_for(before + 1)
    client.nothing_told()
    client.whole(before + 1)


@pytest.mark.parametrize(
    "payload",
    [b'{"a":' * 100_000, b"[" * 1_000_000, b'{"hook_event_name": "Stop", "x": ' + b"9" * 100_000 + b"}", b"\0" * 100_000,
     b'{"hook_event_name": "Stop", "session_id": NaN}', b'{"hook_event_name": "St\\u0000op", "transcript_path": "/a\\u0000b.jsonl"}'],
    ids=["nested", "nested lists", "huge number", "zeros", "no number", "NUL in a path"],
)  # fmt: skip
def test_bytes_that_are_no_event(client, payload):
    client.run(payload)
    client.told("MalformedEvent")
    client.whole(1)


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", ["last field", "prompt", "rubbish", "string without an end"])
def test_fifty_megabytes_cost_no_memory(client, tmp_path, kind):
    filler = b"x \\u00e9 \\n" * (50_000_000 // 11)
    payload = {
        "last field": client.stop()[:-1] + b', "last_assistant_message": "' + filler + b'"}',
        "prompt": client.payload("UserPromptSubmit.prompt", prompt="@")[:-1].replace(b'"@"', b'"@' + filler + b'"') + b"}",
        "rubbish": b"[{" * 25_000_000,
        "string without an end": b'{"hook_event_name": "' + filler,
    }[kind]
    file = tmp_path / "payload"
    file.write_bytes(payload)
    command = ["/bin/sh", "-c", f"cat {shlex.quote(str(file))} | {shlex.join(HOOK)}"]
    peak, printed = peak_memory.measured_program(command, env=client.environment())
    print(f"{kind}: {peak}")
    assert printed == "" and peak.bytes < 200 * peak_memory.MB
    if kind in ("last field", "prompt"):
        client.nothing_told()
        assert client.points()[0]["trigger"] == ("prompt" if kind == "prompt" else "turn_end")
        client.whole(2)
    else:
        client.told("MalformedEvent")
        client.whole(1)


# -- transcripts


def outside(client, tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(b'{"type":"secret of somebody else"}\n')
    return secret


def make_transcript(client, tmp_path, kind):
    """Something of a kind where a transcript should be; its path."""
    path = client.transcript.with_name("odd.jsonl")
    if kind == "link to outside":
        path.symlink_to(outside(client, tmp_path))
    elif kind == "directory link to outside":
        outside(client, tmp_path)
        path.with_suffix("").symlink_to(tmp_path)
        path = path.with_suffix("") / "secret.jsonl"
    elif kind == "dots to outside":
        outside(client, tmp_path)
        path = Path(os.path.relpath(tmp_path, client.transcript.parent))
        path = client.transcript.parent / path / "secret.jsonl"
    elif kind == "loop":
        path.symlink_to(path)
    elif kind in ("zero", "null", "full"):
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, {"zero": 5, "null": 3, "full": 7}[kind]))
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):  # the whole path is too long a name
            made.bind(path.name)
    elif kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(300 << 20)
    elif kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "other name":
        path = client.transcript.with_name("transcript.txt")
        path.write_bytes(b'{"type":"secret of somebody else"}\n')
    elif kind == "long name":
        path = path.with_name("x" * 300)
    elif kind == "below a file":
        path = client.transcript / "x.jsonl"
    return path


@pytest.mark.parametrize(
    "kind",
    ["link to outside", "directory link to outside", "dots to outside", "loop", "zero", "null", "full", "socket", "sparse",
     "directory", "fifo", "other name", "below a file", "long name"],
)  # fmt: skip
def test_what_is_no_transcript_costs_the_conversation_and_says_so(client, tmp_path, kind):
    path = make_transcript(client, tmp_path, kind)
    client.run(client.stop(transcript_path=str(path)))
    client.told("conversation")
    for pack in (client.store / "packs").iterdir():
        assert b"secret of somebody else" not in pack.read_bytes()
    client.whole(2)


def test_a_transcript_that_is_not_there_yet_is_nothing_to_tell_of(client):
    client.run(client.payload("UserPromptSubmit.prompt", transcript_path=str(client.transcript.with_name("new.jsonl"))))
    client.nothing_told()
    client.whole(2)


def stored(client, number=1):
    """The transcript that a checkpoint has."""
    from casrewind.settings import Settings
    from casrewind.workspace import Workspace

    home = client.casrewind.home
    with Workspace(str(client.root), Settings(home=home, data=os.path.join(home, "data")), create=False) as workspace:
        entry = nth_newest(workspace, number).transcript
        return None if entry is None else b"".join(workspace._context.store.content(entry))


@pytest.mark.parametrize("how", ["a link", "CLAUDE_CONFIG_DIR", "FACTORY_HOME_OVERRIDE"])
def test_a_client_may_keep_its_files_out_of_the_home_directory(client, tmp_path, how):
    away = tmp_path / "away"
    place = Path(client.casrewind.home) / ".claude"
    place.rename(away)
    command, environment, path = HOOK, client.environment(), away / client.transcript.relative_to(place)
    if how == "a link":
        place.symlink_to(away)
        path = client.transcript
    else:
        environment = client.environment(**{how: str(away)})
    if how == "FACTORY_HOME_OVERRIDE":
        command = settings_edit.hook_command("droid")
    client.run(client.stop(transcript_path=str(path)), command=command, environment=environment)
    client.nothing_told()
    assert stored(client) == path.read_bytes()


@pytest.mark.parametrize("tail", [b"\xff\xfe{\n{torn", b"\0" * 5000, b"\n\n\n", b'{"type":"user","uuid":"\xc3', b"\r\n" * 3 + b"x" * 2_000_000])
def test_a_torn_transcript_is_stored_to_its_last_whole_line(client, tail):
    data = client.transcript.read_bytes() + tail
    client.transcript.write_bytes(data)
    client.run(client.stop())
    client.nothing_told()
    assert stored(client) == data[: data.rfind(b"\n") + 1]
    client.whole(2)


def test_a_transcript_with_a_name_that_is_no_utf8_is_not_mistaken_for_another(client):
    """JSON has no way to say such a name: clients write U+FFFD, and there is no such file."""
    path = os.fsencode(client.transcript.parent) + b"/caf\xe9.jsonl"
    Path(os.fsdecode(path)).write_bytes(client.transcript.read_bytes())
    client.run(client.stop(transcript_path="@").replace(b"@", path))
    client.nothing_told()
    assert stored(client) is None
    client.whole(2)


def test_a_transcript_that_grows_meanwhile_is_stored_as_far_as_it_was_whole(client):
    line = json.dumps({"type": "assistant", "uuid": "x", "message": {"content": "y" * 3000}}).encode() + b"\n"
    done = threading.Event()

    def write():
        with open(client.transcript, "ab", buffering=0) as file:
            while not done.is_set():
                file.write(line[:1500])
                file.write(line[1500:])
                time.sleep(0.0005)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(6):
            client.run(client.stop())
    finally:
        done.set()
        writer.join()
    client.nothing_told()
    whole = client.transcript.read_bytes()
    kept = [stored(client, number) for number in range(1, 7)]
    for one in kept:
        is_beginning = whole.startswith(one) and one.endswith(b"\n")
        assert is_beginning
    assert sorted(kept, key=len, reverse=True) == kept and len(kept[0]) > len(kept[-1])
    client.whole(7)


def test_a_transcript_that_may_not_be_read(casrewind):
    unprivileged.require()
    with unprivileged.open_directory() as place:
        home, root = place / "home", place / "project"
        for directory in (home, root):
            directory.mkdir()
        plant(root, {"a": b"1"})
        casrewind.root, casrewind.home = str(root), str(home)
        casrewind.environment |= {"HOME": str(home), "CASREWIND_HOME": str(home / "data")}
        client = Hooks(casrewind, root)
        os.chmod(client.transcript, 0)
        unprivileged.give(home, root)
        own = [*unprivileged.PREFIX, *HOOK]
        run = casrewind("save", code=0, prefix=unprivileged.PREFIX)
        assert run.err == ""
        client.run(client.stop(), command=own)
        said = casrewind("list", code=0, prefix=unprivileged.PREFIX)
        assert said.err.count("\n") == 1 and "conversation" in said.err
        os.chmod(client.transcript.parent, 0)
        client.run(client.stop(), command=own)
        assert "conversation" in casrewind("list", code=0, prefix=unprivileged.PREFIX).err
        assert len(casrewind("list", "--json", code=0, prefix=unprivileged.PREFIX).json["checkpoints"]) == 3


# -- where the project is


@pytest.mark.parametrize("value", [None, "", "d", ".", "a\nb", "../project"])
def test_without_a_root_that_can_be_one_it_is_where_the_client_says_that_it_is(client, value):
    environment = client.environment()
    environment.pop("CLAUDE_PROJECT_DIR")
    if value is not None:
        environment["CLAUDE_PROJECT_DIR"] = value
    client.run(client.stop(), environment=environment)
    client.nothing_told()
    client.whole(2)


@pytest.mark.parametrize("kind", ["gone", "a file", "too long", "/", "home", "above home", pytest.param("proc", marks=pytest.mark.linux_only("/proc")), "loop"])
def test_a_root_that_is_none_is_one_line(client, tmp_path, kind):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    place = {
        "gone": tmp_path / "gone", "a file": client.root / "a", "too long": "/" + "x" * 300, "/": "/", "home": client.casrewind.home,
        "above home": tmp_path, "proc": "/proc/self", "loop": loop,
    }[kind]  # fmt: skip
    client.run(client.stop(), environment=client.environment(CLAUDE_PROJECT_DIR=str(place)))
    client.told("RootRefused" if kind in ("/", "home", "above home", "proc") else "WorkspaceNotFound")
    assert len(list((Path(client.casrewind.home) / "data" / "stores").iterdir())) == 1, "no store was made for it"
    client.whole(1)


def test_a_root_with_a_name_that_is_no_utf8(client, tmp_path):
    root = os.fsencode(tmp_path) + b"/caf\xe9 \n\x1b"
    plant(Path(os.fsdecode(root)), {"a": b"1"})
    client.casrewind.root = os.fsdecode(root)
    client.casrewind("save", code=0)
    client.run(client.stop(), environment=client.environment(CLAUDE_PROJECT_DIR=os.fsdecode(root)))
    client.nothing_told()
    assert [point["trigger"] for point in client.points()] == ["turn_end", "manual"]


def test_a_working_directory_that_is_gone(client, tmp_path):
    gone = tmp_path / "gone"
    command = ["/bin/sh", "-c", f"mkdir {gone}; cd {gone}; rmdir {gone}; exec {shlex.join(HOOK)}"]
    client.run(client.stop(cwd=str(gone)), command=command)
    client.nothing_told()
    environment = client.environment()
    del environment["CLAUDE_PROJECT_DIR"]
    client.run(client.stop(cwd=None), command=command, environment=environment)
    client.told("FileNotFoundError")
    client.whole(2)


# -- the environment


def test_no_variable_but_the_project(client):
    """A home directory is found without HOME; nothing is looked for on the PATH."""
    keep = ("CLAUDE_PROJECT_DIR", "CASREWIND_HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in client.environment(PATH="").items() if name in keep}
    client.run(client.stop(), environment=environment)
    client.told("conversation")  # where the client keeps its files cannot be known
    client.whole(2)


def test_somebody_without_a_home_is_left_alone(client):
    other_users.require()  # nobody has none; who runs the tests has one
    unprivileged.require()
    with unprivileged.open_directory() as place:
        root = place / "project"
        plant(root, {"a": b"1"})
        unprivileged.give(root)
        environment = client.environment(CLAUDE_PROJECT_DIR=str(root), HOME="/nonexistent", CASREWIND_HOME="")
        for changes in ({}, {"HOME": ""}):
            client.run(client.stop(), command=[*unprivileged.PREFIX, *HOOK], environment={**environment, **changes})
        assert [path.name for path in place.iterdir()] == ["project"] and [path.name for path in root.iterdir()] == ["a"]


@pytest.mark.parametrize("variable, value", [("CASREWIND_TIER", "maximal"), ("CASREWIND_MAX_AGE", "x"), ("CASREWIND_HOME", "/proc/none")])
def test_a_configuration_that_cannot_be_understood(client, variable, value):
    client.run(client.stop(), environment=client.environment(**{variable: value}))
    if variable != "CASREWIND_HOME":
        client.told("UsageError" if variable == "CASREWIND_TIER" else "")
    client.whole(1)


# -- the store


def test_a_store_that_may_not_be_written(casrewind, tmp_path):
    unprivileged.require()
    with unprivileged.open_directory() as place:
        home, root = place / "home", place / "project"
        home.mkdir()
        plant(root, {"a": b"1"})
        casrewind.root, casrewind.home = str(root), str(home)
        casrewind.environment |= {"HOME": str(home), "CASREWIND_HOME": str(home / "data")}
        client = Hooks(casrewind, root)
        unprivileged.give(home, root)
        casrewind("save", code=0, prefix=unprivileged.PREFIX)
        store = Path(casrewind("status", "--json", prefix=unprivileged.PREFIX).json["store"])
        subprocess.run(["chmod", "-R", "a-w", str(store)], check=True)
        client.run(client.stop(), command=[*unprivileged.PREFIX, *HOOK])
        said = casrewind("list", code=0, prefix=unprivileged.PREFIX)
        assert said.err.count("\n") == 1 and "StoreNotWritable" in said.err
        assert casrewind("list", code=0, prefix=unprivileged.PREFIX).err == ""
        subprocess.run(["chmod", "-R", "u+w", str(store)], check=True)
        client.run(client.stop(), command=[*unprivileged.PREFIX, *HOOK])
        assert len(casrewind("list", "--json", code=0, prefix=unprivileged.PREFIX).json["checkpoints"]) == 2
        assert casrewind("verify", "--json", code=0, prefix=unprivileged.PREFIX).json["ok"]


@contextmanager
def mounted(place, *arguments):
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("only root may mount")
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *arguments, str(place)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_file_system_that_is_read_only(client):
    data = Path(client.casrewind.home) / "data"
    with mounted(data, "--bind", str(data)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(data)], check=True)
        client.run(client.stop())
    client.nothing_told()  # there was nowhere to write it
    client.whole(1)


def test_a_full_disk(client, tmp_path):
    """Nothing is half there, and once there is space again everything is as it was."""
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=4m", "none") as place:
        client.casrewind.environment["CASREWIND_HOME"] = str(place)
        client.casrewind("save", code=0)
        plant(client.root, {"noise": random.Random(3).randbytes(3_000_000)})
        with open(place / "ballast", "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while file.write(b"x" * 4096):
                pass
        for _ in range(3):
            client.run(client.stop())
        assert len(client.points()) == 1
        os.truncate(place / "ballast", 3_800_000)
        client.run(client.stop())  # there is room for a line, and none for the file
        assert "StoreFull" in client.casrewind("list", code=0).err
        assert len(client.points()) == 1
        (place / "ballast").unlink()
        client.run(client.stop())
        assert [point["trigger"] for point in client.points()] == ["turn_end", "manual"]
        client.whole(2)


def test_a_limit_on_the_size_of_files(client):
    plant(client.root, {"noise": random.Random(3).randbytes(300_000)})
    client.run(client.stop(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    client.told("File too large")
    client.whole(1)


def test_few_descriptors_and_little_memory(client):
    client.run(client.stop(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    client.nothing_told()
    client.run(client.stop(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20)))
    client.nothing_told()  # the index makes do with a smaller map
    client.whole(3)


@pytest.mark.parametrize(
    "lock, stopped",
    [("gate", False), ("store", True), ("publish", False), ("index", False), ("index", True), ("gc", False), ("restore", True)],
)
def test_a_lock_that_somebody_holds(client, lock, stopped):
    name = f"restore-{client.key()}" if lock == "restore" else lock
    with LockHolder(client.store / "locks" / name, stopped=stopped):
        client.run(client.payload("SessionEnd.other"))
    told = client.told_or_made(2, "StoreBusy", lock)
    assert not (told and lock in ("gc", "restore"))
    client.nothing_told()
    client.whole()


# -- interruptions, and several at once


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_hook_that_is_stopped_anywhere_leaves_nothing_behind(client, number):
    """As it stands in the settings, run by a shell, and both of them are stopped."""
    plant(client.root, {f"many/{n}": random.Random(n).randbytes(3000) for n in range(300)})
    chance = random.Random(int(number))
    ended = []
    for attempt in range(12):
        plant(client.root, {f"many/{n}": random.Random(n + attempt).randbytes(3000) for n in range(50)})
        running = client.start(client.stop(), command=["sh", "-c", LINE], start_new_session=True)
        time.sleep(chance.uniform(0, 0.25))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, number)
        assert running.communicate(timeout=PATIENCE) == (b"", b"")
        ended.append(running.returncode)
        assert running.returncode in (0, -number)
    print(f"{number.name}: {ended.count(0)} of 12 had ended by then, or ended well")
    client.casrewind("list", code=0)
    client.whole()
    assert not list((client.store / "tmp").iterdir())


def children_of(running):
    return [int(pid) for pid in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()]


def caught_saving(client, payload):
    """A hook that was stopped (SIGSTOP) while it saves, how many checkpoints there were, and the store. On a busy machine one may
    have left the save to a child by then: a stop would not reach that."""
    store = client.store
    for attempt in range(20):
        plant(client.root, {f"new/{n}": random.Random(n + attempt).randbytes(100_000) for n in range(500)})
        before = len(client.points())
        running = client.start(payload)
        while running.poll() is None and not list((store / "tmp").glob("*.pack*")):
            time.sleep(0.002)
        running.send_signal(signal.SIGSTOP)
        if running.poll() is None and not children_of(running) and len(client.points()) == before:
            return running, before, store
        running.send_signal(signal.SIGCONT)
        running.communicate(timeout=PATIENCE)
    raise AssertionError("it was never there when we looked")


def test_more_to_save_than_there_is_time_for_is_left_to_a_child(client):
    """The save before was a short one; this one takes longer than the client waits (it is stopped for a while)."""
    running, before, store = caught_saving(client, client.payload("SessionEnd.other"))
    time.sleep(1.2)
    with LockHolder(store / "locks" / "publish"):  # so that it is seen who has more patience than a hook
        running.send_signal(signal.SIGCONT)
        assert running.communicate(timeout=PATIENCE) == (b"", b"") and running.returncode == 0
        assert len(client.points()) == before
    point = client.wait_for(before + 1)[0]
    assert (point["trigger"], point["files"]) == ("session_end", 502)
    client.nothing_told()
    client.whole(before + 1)


def test_a_client_that_has_enough_of_a_hook_is_obeyed_and_it_is_told_of(client):
    running, before, _ = caught_saving(client, client.stop())
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGCONT)
    assert running.communicate(timeout=PATIENCE) == (b"", b"") and running.returncode == 0
    client.told("stopped by its client")
    client.whole(before)


def test_a_child_that_is_killed_is_told_of(client, tmp_path):
    other = tmp_path / "other"
    plant(other, {f"{n}": random.Random(n).randbytes(100_000) for n in range(600)})
    client.casrewind.root = str(other)
    client.root = other
    running = client.start(client.payload("UserPromptSubmit.prompt"), environment=client.environment())
    end = time.monotonic() + PATIENCE
    while not (found := children_of(running)) and time.monotonic() < end:
        time.sleep(0.005)
    os.kill(found[0], signal.SIGKILL)
    assert running.communicate(timeout=PATIENCE) == (b"", b"") and running.returncode == 0
    said = client.casrewind("save", code=0).err
    assert said.count("\n") == 1 and ("ended with -9" in said or "BrokenPipeError" in said)  # before it had its payload
    client.nothing_told()


@pytest.mark.turns(3)
@pytest.mark.parametrize("first", [True, False], ids=["no store yet", "a store"])
def test_eight_hooks_of_two_sessions_at_once_are_eight_checkpoints(client, tmp_path, first):
    if first:
        client.casrewind.root = client.root = str(tmp_path / "new")
        plant(Path(client.root), {f"d{n % 7}/{n}": b"%d" % n for n in range(200)})
    before = len(client.points())
    wanted = []
    running = []
    for number in range(8):
        session = f"session-{number % 2}"
        prompt = number < 4
        name = "UserPromptSubmit.prompt" if prompt else "Stop.plain"
        changes = {"prompt": f"prompt {number}"} if prompt else {}
        running.append(client.start(client.payload(name, session_id=session, cwd=str(client.root), **changes)))
        wanted.append(("prompt" if prompt else "turn_end", session, f"prompt {number}" if prompt else None))
    for one in running:
        assert one.communicate(timeout=PATIENCE) == (b"", b"") and one.returncode == 0
    points = client.wait_for(before + 8)
    own = [{**point, "prompt": point["prompt"] if point["trigger"] == "prompt" else None} for point in points[:8]]
    found = [(point["trigger"], point["session"], point["prompt"]) for point in own]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert len({point["id"] for point in points}) == before + 8
    client.nothing_told()
    client.whole(before + 8)


def test_first_saves_that_nobody_waits_for_store_everything_once(client, tmp_path):
    client.casrewind.root = client.root = str(tmp_path / "new")
    plant(Path(client.root), {f"d{n % 7}/{n}": random.Random(n).randbytes(100_000) for n in range(400)})
    running = [client.start(client.payload("UserPromptSubmit.prompt", cwd=client.root)) for _ in range(4)]
    for one in running:
        assert one.communicate(timeout=PATIENCE) == (b"", b"") and one.returncode == 0
    assert {point["files"] for point in client.wait_for(4)} == {400}
    assert sum(pack.stat().st_size for pack in (client.store / "packs").iterdir()) < 1.2 * 40_000_000
    client.nothing_told()


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "link", "in no directory", "rubbish in it"])
def test_an_environment_file_that_is_none_costs_nothing(client, tmp_path, kind):
    place = tmp_path / "env.sh"
    target = tmp_path / "somebody's"
    target.write_bytes(b"kept")
    if kind == "directory":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(target)
    elif kind == "in no directory":
        place = tmp_path / "none" / "env.sh"
    elif kind == "rubbish in it":
        place.write_bytes(b"export A=1\n\xff\0")
    session = "s'\"$(touch pwned)`touch pwned`\\ \u00e9"
    client.run(client.payload("SessionStart.startup", session_id=session), environment=client.environment(CLAUDE_ENV_FILE=str(place)))
    assert target.read_bytes() == b"kept"
    client.wait_for(2)
    client.nothing_told()
    if kind == "missing":
        shown = subprocess.run(["/bin/sh", "-c", f". {place}; printf %s \"$CASREWIND_SESSION\""], capture_output=True, cwd=tmp_path)
        assert (shown.stdout.decode(), shown.stderr) == (session, b"") and not (tmp_path / "pwned").exists()
    client.whole(2)
