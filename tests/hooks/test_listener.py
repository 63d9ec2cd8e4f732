"""`install --http`: hooks start the listener and tell it of their sessions; what is posted to it is saved, by the helper or without;
what is not for it does nothing; and doctor says how it is."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from casrewind import door
from casrewind.agents import ours, trap
from casrewind.agents.profiles import CLAUDE
from casrewind.cli import ask, hook
from support.client import Client
from support.picture import differences, picture
from support.realclient import wait
from support.residents import end_all, helpers, listeners
from support.scanner import settle
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the helper is for Linux only")
WORDS = ("claude", "--resident", "--http")
as_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
POSTS = "import sys, socket; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.sendall(sys.stdin.buffer.read()); print(s.recv(99))"


class Posting(Client):
    """A project, and a client that posts its hooks."""

    def __init__(self, casrewind, root):
        super().__init__(casrewind, root)
        self.data = casrewind.environment["CASREWIND_HOME"]
        self.watch = os.path.join(self.data, "watch")
        self.process = subprocess.Popen(["sleep", "6000"])  # the client's

    def command(self, name, **changes):
        """An event of which a command hook tells."""
        self.send(self.payload(name, **changes), *WORDS, CLAUDE_PID=str(self.process.pid))

    def start(self, session="s1", other_than=None):
        """A session starts; the listener's process, once it listens."""
        self.command("SessionStart.startup", session_id=session)
        return self.listener(other_than)

    def listener(self, other_than=None):
        return wait(lambda: next((pid for pid in listeners(self.data) if pid != other_than and self.said()[0] == str(pid)), None))

    def said(self):
        """What the listener has said of itself: its process, its port."""
        try:
            with open(os.path.join(self.watch, ask.listener() + ".lock")) as file:
                return [*file.read().split("\n"), ""]
        except OSError:
            return ["", ""]

    def address(self):
        with open(os.path.join(self.watch, "address")) as file:
            port, secret = file.read().split()
        return int(port), secret

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.address()[0], timeout=60)

    def fields(self):
        return {"X-Casrewind": self.address()[1], "Content-Type": "application/json"}

    def post(self, name="Stop.plain", session="s1", connection=None, path="/casrewind/claude", **changes):
        """The status of the answer to an event that is posted."""
        there = connection or self.connection()
        try:
            there.request("POST", path, self.payload(name, session_id=session, **changes), self.fields())
            answer = there.getresponse()
            assert answer.read() == b""
            return answer.status
        finally:
            if connection is None:
                there.close()

    def triggers(self):
        return [point["trigger"] for point in self.points()]

    def log(self):
        try:
            with open(os.path.join(self.data, "log")) as file:
                return [line.partition(" ")[2].rstrip() for line in file if "posted hooks: " in line]
        except OSError:
            return []

    def doctor(self, **variables):
        done = self.casrewind("doctor", "claude", "--json", **variables)
        return done.code, done.json["listener"], done.json["agents"]["claude"]["problems"]

    def end(self):
        end_all(*listeners(self.data), *helpers(self.root), self.process.pid)
        self.process.wait()


@pytest.fixture
def posting(casrewind, root):
    plant(root, {"f": b"1", "d/g": b"2"})
    settle()
    casrewind("save", code=0)
    casrewind("install", "claude", "--http", "--tier", "aggressive", code=0)
    found = Posting(casrewind, root)
    yield found
    found.end()


def test_the_words_are_the_same_everywhere():
    assert hook._HTTP == ours.HTTP
    assert ours.is_ours({"command": " ".join([*ours.hook_command("claude"), ours.RESIDENT, ours.HTTP])}, "claude")


TELLS = {"casrewind", "casrewind.cli", "casrewind.cli.hook", "casrewind.cli.places", "casrewind.cli.ask", "casrewind.door"}
TELLS |= {"casrewind.agents", "casrewind.agents.pipe", "_socket"}
"""What the hook of a prompt imports that tells the listener and asks the helper: ours, and what is known to be dear."""
DEAR = {"socket", "_socket", "subprocess", "threading", "json", "re", "enum", "typing", "argparse", "selectors", "signal", "lmdb"}


def imported(posting):
    """Those that it does import."""
    python, *rest = door.command()
    environment = {**posting.casrewind.environment, "CLAUDE_PROJECT_DIR": str(posting.root), "CLAUDE_PID": str(posting.process.pid)}
    payload = posting.payload("UserPromptSubmit.prompt", session_id="s1", prompt="x")
    done = subprocess.run(
        [python, "-X", "importtime", *rest, "hook", *WORDS], input=payload, capture_output=True, cwd="/", env=environment, timeout=60
    )
    found = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    return {name for name in found if name in DEAR or name.partition(".")[0] == "casrewind"}


def test_what_is_posted_is_saved_with_and_without_the_helper(posting, root, tmp_path):
    pid = posting.start()
    assert os.getsid(pid) != os.getsid(0) and [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (1, 2)] == [os.devnull] * 2
    assert all(os.stat(os.path.join(posting.watch, name)).st_mode & 0o077 == 0 for name in os.listdir(posting.watch))
    posting.command("UserPromptSubmit.prompt", session_id="s1", prompt="one")
    (helper,) = wait(lambda: helpers(root), lambda found: len(found) == 1)  # two may have been started, of which one ends
    wait(lambda: imported(posting), lambda found: found == TELLS)  # a helper that is busy leaves the hook its work
    there, wanted = posting.connection(), {}
    for number in range(4):
        if number == 2:
            os.kill(helper, signal.SIGSTOP)
        if number == 3:
            os.kill(helper, signal.SIGKILL)
        plant(root, {"f": b"%d" % number, f"new{number}": b"x"})
        before = len(posting.points())
        assert posting.post(connection=there) == 200
        found = posting.points()
        assert len(found) == before + 1 and found[0]["trigger"] == "turn_end" and found[0]["session"] == "s1"
        wanted[found[0]["id"]] = picture(root)
    there.close()
    for point, files in wanted.items():
        posting.casrewind("restore", point, "--to", str(tmp_path / point), code=0)
        assert differences(picture(tmp_path / point), files) == {}
    assert posting.log() == [] and posting.casrewind.json("verify")["ok"]
    found = posting.casrewind.json("status")["agents"]["claude"]
    assert found["last_event"] == "Stop" and found["running"], "whose process the client is was told, too"


def test_who_may_not_or_means_something_else_changes_nothing(posting, root):
    posting.start()
    before, there = posting.triggers(), picture(root)
    assert posting.post(session="nobody's") == 200
    command = {"prompt": "/casrewind restore 1 --yes", "session": "s1"}
    assert posting.post("UserPromptSubmit.prompt", **command) == 403, "a restore is nothing that is posted"
    assert posting.post("SessionEnd.other") == 403
    assert posting.post(path="/casrewind/droid") == 404
    assert posting.post(path="/casrewind/trial") == 200
    connection = posting.connection()
    for body in (b"", b"[]", b"no JSON", b'{"hook_event_name": 3}', b'{"session_id": "s1"}'):
        connection.request("POST", "/casrewind/claude", body, posting.fields())
        assert connection.getresponse().status in (400, 403)
        connection.close()
    connection.request("POST", "/casrewind/claude", posting.payload("Stop.plain", session_id="s1"), {**posting.fields(), "X-Casrewind": "x"})
    assert connection.getresponse().status == 403
    connection.close()
    assert posting.triggers() == before and picture(root) == there
    said = posting.log()
    assert len(said) == len(set(said)) and any("session nobody's was posted" in line for line in said)
    assert posting.post(session="nobody's") == 200 and posting.log() == said, "each is said once"


@pytest.mark.long
def test_sessions_that_start_at_once_have_one_listener_that_knows_them_all(posting):
    threads = [threading.Thread(target=posting.start, args=(f"s{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (pid,) = wait(lambda: listeners(posting.data), lambda found: len(found) == 1)  # the others have told it, and ended
    before = len(posting.points())
    assert [posting.post(session=f"s{number}") for number in range(4)] == [200] * 4
    assert len(posting.points()) == before + 4 and posting.log() == [] and posting.listener() == pid


@pytest.mark.long
def test_one_that_was_killed_is_replaced_at_the_next_prompt(posting):
    first = posting.start()
    os.kill(first, signal.SIGKILL)
    wait(lambda: listeners(posting.data) == [])
    with pytest.raises(OSError):
        posting.post()
    assert posting.doctor()[:2] == (0, {"process": None, "port": posting.address()[0], "problems": []})
    posting.command("UserPromptSubmit.prompt", session_id="s1", prompt="next")
    assert posting.listener(first) != first
    assert posting.post() == 200 and posting.triggers()[:2] == ["turn_end", "prompt"]
    assert posting.doctor()[0] == 0 and listeners(posting.data) == [posting.listener()], "doctor's own hooks start none"


@pytest.mark.long
def test_connections_that_say_nothing_are_in_nobody_s_way(posting):
    posting.start()
    port, _ = posting.address()
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    try:
        assert posting.post() == 200 and posting.triggers()[0] == "turn_end"
        idle += [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        wait(lambda: any("connections at once" in line for line in posting.log()))
    finally:
        for one in idle:
            one.close()
    wait(lambda: _answers(posting))


def _answers(posting):
    try:
        return posting.post(path="/casrewind/trial") == 200
    except (OSError, http.client.HTTPException):
        return False


@pytest.mark.long
def test_a_client_whose_posts_go_to_a_proxy_is_told_of(posting):
    variables = {"CLAUDE_PID": str(posting.process.pid), "HTTP_PROXY": "http://proxy:3128"}
    for number in range(2):
        posting.send(posting.payload("SessionStart.startup", session_id=f"s{number}"), *WORDS, **variables)
        posting.listener()
    said = wait(posting.log)
    assert len(said) == 1 and "HTTP_PROXY is set" in said[0] and "add 127.0.0.1 to NO_PROXY" in said[0]
    posting.send(posting.payload("SessionStart.startup", session_id="s3"), *WORDS, **variables, NO_PROXY="127.0.0.1")
    assert posting.post(session="s3") == 200 and posting.log() == said


@pytest.mark.long
def test_what_was_told_is_on_no_disk(posting):
    words = {"CLAUDE_PID": str(posting.process.pid), "MY_TOKEN": "hunter2hunter2"}
    posting.send(posting.payload("SessionStart.startup", session_id="s1"), *WORDS, **words)
    posting.listener()
    assert posting.post() == 200
    for place, _, names in os.walk(posting.casrewind.home):
        for name in names:
            path = Path(place, name)
            assert not path.is_file() or b"hunter2hunter2" not in path.read_bytes(), path


@as_root
def test_another_user_who_knows_the_secret_is_turned_away(posting):
    posting.start()
    before = posting.triggers()
    port, secret = posting.address()
    body = posting.payload("Stop.plain", session_id="s1")
    head = f"POST /casrewind/claude HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Casrewind: {secret}\r\nContent-Type: application/json\r\n"
    said = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    done = subprocess.run([*user, sys.executable, "-I", "-S", "-c", POSTS, str(port)], input=said, capture_output=True, cwd="/", timeout=60)
    assert b"200" not in done.stdout and posting.triggers() == before
    assert posting.log() == ["posted hooks: a connection of user 65534 was closed"]
    ours_ = subprocess.run([sys.executable, "-I", "-S", "-c", POSTS, str(port)], input=said, capture_output=True, cwd="/", timeout=60)
    assert b" 200 " in ours_.stdout and len(posting.triggers()) == len(before) + 1


@pytest.mark.long
def test_it_stays_while_a_client_lives_and_ends_by_itself(posting):
    words = ask.request((str(posting.root), "", "claude"), posting.payload("SessionStart.startup", session_id="s1"), 1, 0, {
        b"CLAUDE_PID": str(posting.process.pid).encode(),
    })  # fmt: skip
    environment = {**posting.casrewind.environment, "CASREWIND_HOME": posting.data}
    running = subprocess.Popen(
        [*door.command(), "watch", "--auto", "--listener", "--idle", "1s"], env=environment, stdin=subprocess.PIPE, cwd="/",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        running.stdin.write(words)
        running.stdin.close()
        posting.listener()
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(2.5)  # longer than it would without a client
        posting.process.kill()
        posting.process.wait()
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.wait()
    assert not os.path.exists(os.path.join(posting.watch, ask.listener())) and posting.log() == []


@pytest.mark.long
def test_a_port_that_somebody_else_has_is_told_of_and_another_one_is_chosen(posting):
    port, _ = posting.address()
    with socket.create_server(("127.0.0.1", port)):
        code, found, _ = posting.doctor()
        assert code != 0 and found["process"] is None and "another port" in found["problems"][0]
        pid = posting.start()
        code, found, _ = posting.doctor()
        assert code != 0 and found["process"] == pid and "casrewind install claude chooses another port" in found["problems"][0]
        assert len(posting.log()) == 1 and f"port {port} cannot be had" in posting.log()[0]
        posting.casrewind("install", "claude", code=0)
        assert posting.address()[0] != port
        posting.command("UserPromptSubmit.prompt", session_id="s1", prompt="next")
        wait(lambda: posting.said()[1] == str(posting.address()[0]))
        assert posting.post() == 200 and posting.listener() == pid, "it has gone to the new port"
    assert posting.doctor() == (0, {"process": pid, "port": posting.address()[0], "problems": []}, [])


@pytest.mark.long
def test_doctor_finds_one_that_does_not_answer_and_what_the_settings_have_wrong(posting):
    pid = posting.start()
    assert posting.doctor() == (0, {"process": pid, "port": posting.address()[0], "problems": []}, [])
    assert "Listener\n  process     " in posting.casrewind("doctor", "claude", code=0).out
    os.kill(pid, signal.SIGSTOP)
    code, found, _ = posting.doctor()
    assert code != 0 and f"(process {pid}) does not answer" in found["problems"][0] and f"kill -KILL {pid}" in found["problems"][0]
    os.kill(pid, signal.SIGCONT)
    place = os.path.join(posting.casrewind.home, ".claude", "settings.json")
    with open(place) as file:
        text = file.read()
    for old, new in ((posting.address()[1], "y" * 43), (str(posting.address()[0]), "20000")):
        with open(place, "w") as file:
            file.write(text.replace(old, new))
        code, _, problems = posting.doctor()
        assert code != 0 and len(problems) == 1 and "another port than the listener's, or with another secret" in problems[0]
        assert "y" * 43 not in posting.casrewind("doctor", "claude").out, "no secret is shown"
    posting.casrewind("install", "claude", code=0)
    assert posting.doctor()[0] == 0
    os.chmod(os.path.join(posting.watch, "address"), 0o644)
    code, found, _ = posting.doctor()
    assert code != 0 and "install claude --http writes both anew" in found["problems"][0]
    posting.casrewind("install", "claude", "--http", code=0)
    wait(lambda: posting.doctor()[0] == 0)  # the listener has heard of it, or looked
    assert os.stat(os.path.join(posting.watch, "address")).st_mode & 0o777 == 0o600


@pytest.mark.long
def test_doctor_finds_a_proxy_that_would_take_the_posts(posting):
    code, _, problems = posting.doctor(HTTP_PROXY="http://proxy:3128")
    assert code != 0 and "HTTP_PROXY is set (the environment here)" in problems[0] and "NO_PROXY" in problems[0]
    assert posting.doctor(HTTP_PROXY="http://proxy:3128", NO_PROXY="localhost,127.0.0.1")[0] == 0


URL = "http://127.0.0.1:20001/casrewind/claude"
PROXIES = {
    "none": ({}, {}, None),
    "empty": ({"HTTP_PROXY": ""}, {}, None),
    "small letters": ({"http_proxy": "http://p"}, {}, "http_proxy is set (the environment here)"),
    "of which the client knows nothing": ({"ALL_PROXY": "socks5://p"}, {}, None),
    "for TLS": ({"HTTPS_PROXY": "http://p"}, {}, "HTTPS_PROXY is set"),
    "in the settings": ({}, {"HTTP_PROXY": "http://p"}, 'HTTP_PROXY is set ("env" in '),
    "switched off in the settings": ({"HTTP_PROXY": "http://p"}, {"HTTP_PROXY": ""}, None),
    "all excepted": ({"HTTP_PROXY": "http://p", "NO_PROXY": "*"}, {}, None),
    "excepted": ({"HTTP_PROXY": "http://p", "no_proxy": "example.com, 127.0.0.1"}, {}, None),
    "excepted with its port": ({"HTTP_PROXY": "http://p", "NO_PROXY": "127.0.0.1:20001"}, {}, None),
    "excepted in the settings": ({"HTTP_PROXY": "http://p"}, {"NO_PROXY": "127.0.0.1"}, None),
    "a network excepted": ({"HTTPS_PROXY": "http://p", "NO_PROXY": "127.0.0.0/8"}, {}, "HTTPS_PROXY is set"),
    "another name excepted": ({"HTTP_PROXY": "http://p", "NO_PROXY": "localhost,127.0.0.10"}, {}, "HTTP_PROXY is set"),
    "another port excepted": ({"HTTP_PROXY": "http://p", "NO_PROXY": "127.0.0.1:1"}, {}, "HTTP_PROXY is set"),
}


@pytest.mark.parametrize("environ, settings, said", PROXIES.values(), ids=PROXIES)
def test_a_proxy_is_one_unless_this_machine_is_excepted(tmp_path, environ, settings, said):
    place = tmp_path / "settings.json"
    place.write_text(json.dumps({"env": settings}))
    found = trap.obstacles(CLAUDE._replace(managed=""), URL, [str(place)], environ)
    assert found == [] if said is None else len(found) == 1 and found[0].startswith(said)


@pytest.mark.parametrize(
    "user, managed, well",
    [
        (None, None, True),
        (None, [], False),
        (None, ["https://example.com/*"], False),
        (["http://127.0.0.1:*"], ["https://example.com/*"], True),
        (None, ["http://127.0.0.1:20001/casrewind/claude"], True),
        (None, ["http://127x0x0x1:*"], False),
        ("odd", None, False),
    ],
)
def test_a_list_of_urls_has_to_name_ours(tmp_path, user, managed, well):
    for name, value in (("settings.json", user), ("managed.json", managed)):
        (tmp_path / name).write_text(json.dumps({} if value is None else {"allowedHttpHookUrls": value}))
    profile = CLAUDE._replace(managed=str(tmp_path / "managed.json"))
    found = trap.obstacles(profile, URL, [str(tmp_path / "settings.json"), str(tmp_path / "none.json")], {})
    assert found == [] if well else len(found) == 1 and "allowedHttpHookUrls" in found[0] and "--no-http" in found[0]
