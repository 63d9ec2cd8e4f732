"""Claude Code with hooks that `casrewind install claude --http` put there, so that it posts those of turns and tools: whatever is done
to who takes them, every turn has its right checkpoint."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from casrewind.cli import ask
from support.anthropic import PATIENCE, Held, bash
from support.picture import differences, picture
from support.realclient import wait
from support.residents import end_all, helpers, listeners
from support.trees import plant

pytestmark = [
    pytest.mark.xdist_group("client-http"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the helper is for Linux only"),
]
LISTENS = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('', flush=True); time.sleep(600)"

TAKES = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
print("", flush=True)
while True:
    s.accept()[0].sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
"""

PROXY = """
import socket, sys, threading
s = socket.create_server(("127.0.0.1", 7777))
print("", flush=True)
def pump(one, other):
    try:
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(1)
    except OSError:
        pass
def serve(there):
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += there.recv(1 << 16)
    method, url, _ = head.split(b"\\r\\n")[0].decode().split(" ")
    place = url if method == "CONNECT" else url.split("/")[2]
    if place != sys.argv[1]:  # it leads to the model only
        return there.close()
    model = socket.create_connection(place.split(":"))
    if method == "CONNECT":
        there.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
    else:
        model.sendall(head.replace(b"http://" + place.encode(), b"", 1))
    threading.Thread(target=pump, args=(there, model), daemon=True).start()
    pump(model, there)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


class Story:
    """A session of several turns, each in a process of the client's of its own, in one project."""

    def __init__(self, client):
        self.client, self.session, self.turns, self.strangers = client, None, [], []
        self.data = client.casrewind.environment["CASREWIND_HOME"]
        self.watch = os.path.join(self.data, "watch")
        plant(client.project, {"kept.txt": b"kept", "gone.txt": b"to be removed", **{f"d{n}/f": b"%d" % n for n in range(9)}})
        client.casrewind("install", "claude", "--http", "--tier", "aggressive", code=0)

    def turn(self, attack=None, look=lambda: True):
        """A prompt, two batches of tools with the attack (or a look) between them, the end; what there is at the prompt and at the end."""
        number = len(self.turns) + 1
        gate = threading.Event()
        first = bash(f"mkdir t{number}; echo {number} > t{number}/file; rm -f gone.txt")
        second = bash(f"echo more >> kept.txt; mv t{number}/file t{number}/moved; echo {number} > d{number % 9}/f")
        prompt = f"please do turn {number} now"
        self.client.model.script[f"turn {number} now"] = [[first], Held(gate, (second,)), ["Made."]]
        before, at_prompt = len(self.client.points()), picture(self.client.project)
        running = self.client.start(prompt, *(["--resume", self.session] if self.session else []))
        try:
            wait(lambda: (self.client.project / f"t{number}" / "file").exists() and not (self.client.project / "gone.txt").exists())
            self.ready()
            wait(look)
            if attack is not None:
                attack(self)
            gate.set()
            out, err = running.communicate(timeout=PATIENCE)
        finally:
            gate.set()
            if running.poll() is None:
                running.kill()
                running.communicate()
        assert running.returncode == 0, (out, err)
        self.session = json.loads(out)["session_id"]
        # each turn is a session of the client's own in print mode: its end is told by a command, and is the last
        wait(self.client.points, lambda found: len(found) > before and found[-1]["trigger"] == "session_end")
        self.turns.append(SimpleNamespace(prompt=prompt, before=at_prompt, after=picture(self.client.project), attack=attack))
        self.mend()

    def ready(self):
        """Wait for the helper and the listener that the hooks of the start have started."""
        wait(lambda: helpers(self.client.project) and listeners(self.data))
        wait(lambda: os.path.exists(self.helper_socket()) and self.listener_sockets())

    def last_event(self):
        """The name of the last event of which something was noted."""
        return self.client.casrewind("doctor", "claude", "--json").json["agents"]["claude"]["last_event"]["name"]

    def helper_socket(self):
        return os.path.join(self.watch, ask.name_of(os.fsencode(os.path.realpath(self.client.project))))

    def listener_sockets(self):
        names = os.listdir(self.watch)
        return [os.path.join(self.watch, name) for name in names if name.startswith("listener-") and "." not in name]

    def mend(self):
        """End what was stopped, and take away what is a stranger's: what a person would do whom doctor has told."""
        if not (self.strangers or self.turns[-1].attack):
            return
        while self.strangers:
            stranger = self.strangers.pop()
            stranger.kill()
            stranger.wait()
            stranger.stdout.close()
        end_all(*helpers(self.client.project), *listeners(self.data))
        wait(lambda: helpers(self.client.project) + listeners(self.data) == [])
        os.chmod(self.watch, 0o700)
        for place in (self.helper_socket(), *self.listener_sockets()):
            if os.path.lexists(place):
                os.unlink(place)

    def everything_is_right(self, directory):
        """Each prompt has one checkpoint with the files of its moment; so has each end of a turn that was not lost, and where it was
        the end of the session, which no client posts, has them."""
        points = self.client.points()
        prompts = [at for at, point in enumerate(points) if point["trigger"] == "prompt"]
        assert [points[at]["prompt"] for at in prompts] == [turn.prompt for turn in self.turns]
        made = []
        for number, (turn, at) in enumerate(zip(self.turns, prompts, strict=True)):
            found = picture(self.client.restored(points[at], directory / f"{number}-before"))
            assert differences(found, turn.before) == {}, (turn, points[at])
            rest = points[at + 1 : prompts[number + 1] if number + 1 < len(prompts) else None]
            ends = [point for point in rest if point["trigger"] == "turn_end"]
            assert len(ends) <= 1
            made.append(len(ends))
            for point in (*ends, next(point for point in rest if point["trigger"] == "session_end")):
                found = picture(self.client.restored(point, directory / f"{number}-{point['trigger']}"))
                assert differences(found, turn.after) == {}, (turn, point)
        assert self.client.casrewind.json("verify")["ok"]
        return made


@pytest.fixture
def story(start):
    found = Story(start())
    yield found
    end_all(*helpers(found.client.project), *listeners(found.data))


def test_three_turns_with_tools_each_have_their_checkpoints(story, tmp_path):
    story.turn()
    story.turn(look=lambda: story.last_event() == "PostToolBatch")
    story.turn()
    assert story.everything_is_right(tmp_path / "restored") == [1, 1, 1], "no post was lost"
    assert len(helpers(story.client.project)) == len(listeners(story.data)) == 1
    assert story.client.casrewind("list", code=0).err == "", "nothing was written into the log"
    client = story.client
    client.casrewind("back", "2", "--both", "--yes", code=0)
    assert differences(picture(client.project), story.turns[1].before) == {}
    client.casrewind("uninstall", "claude", code=0)
    end_all(*helpers(client.project), *listeners(story.data))
    client.say("is anybody there")
    assert helpers(client.project) + listeners(story.data) == []


def listener_killed(story):
    end_all(*listeners(story.data))


def helper_killed(story):
    end_all(*helpers(story.client.project))


def listener_stopped(story):
    for pid in listeners(story.data):
        os.kill(pid, signal.SIGSTOP)


def helper_stopped(story):
    for pid in helpers(story.client.project):
        os.kill(pid, signal.SIGSTOP)


def flooded(story):
    """More events than the kernel keeps for the helper, and a change behind them."""
    (pid,) = helpers(story.client.project)
    os.kill(pid, signal.SIGSTOP)
    for number in range(100_000):
        os.utime(story.client.project / f"d{number % 9}" / "f")
    plant(story.client.project, {"d8/f": os.urandom(5)})
    os.kill(pid, signal.SIGCONT)


def of_another_user(story, place):
    """Somebody else listens where a socket was."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    os.unlink(place)
    os.chmod(story.watch, 0o777)
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-I", "-S", "-c", LISTENS]
    there = os.open(story.watch, os.O_RDONLY)
    try:  # the directories above are not his to enter
        stranger = subprocess.Popen([*words, os.path.basename(place)], cwd=f"/proc/self/fd/{there}", stdout=subprocess.PIPE)
    finally:
        os.close(there)
    story.strangers.append(stranger)
    assert stranger.stdout.readline() == b"\n"
    os.chmod(story.watch, 0o700)


def helper_replaced(story):
    of_another_user(story, story.helper_socket())


def listener_replaced(story):
    (place,) = story.listener_sockets()
    of_another_user(story, place)


def port_taken(story):
    """The listener is gone, and another user's program has its port before another one comes."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    with open(os.path.join(story.watch, "address")) as file:
        port = int(file.readline())
    end_all(*listeners(story.data))
    network = story.client.command[: story.client.command.index("--") + 1] if story.client.model.network is not None else []
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-I", "-S", "-c", TAKES, str(port)]
    story.strangers.append(subprocess.Popen([*network, *words], cwd="/", stdout=subprocess.PIPE))
    assert story.strangers[-1].stdout.readline() == b"\n"


@pytest.mark.long
def test_whatever_is_done_to_helper_and_listener_every_turn_has_its_checkpoint(story, tmp_path):
    attacks = [listener_killed, helper_killed, listener_stopped, helper_stopped, flooded, helper_replaced, listener_replaced, port_taken]
    for attack in (None, *attacks, None):
        story.turn(attack)
    made = story.everything_is_right(tmp_path / "restored")
    lost = [turn.attack for turn, count in zip(story.turns, made, strict=True) if not count]
    assert set(lost) <= {listener_killed, listener_stopped, listener_replaced, port_taken}, "only who takes the posts can lose one"
    assert {listener_killed, listener_stopped, port_taken} <= set(lost), "else this test does not do what it says"
    client = story.client
    for number in (1, 4, len(attacks) + 2):  # by the command, too, as a person would
        client.casrewind("back", str(number), "--both", "--yes", code=0)
        assert differences(picture(client.project), story.turns[-number].before) == {}
        client.casrewind("undo", code=0)


OBSTACLES = {
    "a list without ours": ({"allowedHttpHookUrls": ["https://example.com/*"]}, {}, True),
    "a list with ours": ({"allowedHttpHookUrls": ["http://127.0.0.1:*/casrewind/*"]}, {}, False),
    "a proxy": ({}, {"HTTP_PROXY": "http://127.0.0.1:7777"}, True),
    "a proxy for TLS": ({}, {"HTTPS_PROXY": "http://127.0.0.1:7777", "NO_PROXY": "localhost,127.0.0.0/8"}, True),
    "a proxy for everything": ({}, {"ALL_PROXY": "http://127.0.0.1:7777"}, False),
    "a proxy in the settings": ({"env": {"http_proxy": "http://127.0.0.1:7777"}}, {}, True),
    "a proxy but for us": ({"env": {"HTTP_PROXY": "http://127.0.0.1:7777"}}, {"NO_PROXY": "127.0.0.1"}, False),
}


@pytest.mark.long
@pytest.mark.parametrize("settings, variables, lost", OBSTACLES.values(), ids=OBSTACLES)
def test_what_doctor_says_of_proxies_and_lists_is_what_the_client_does(start, settings, variables, lost):
    client = start()
    plant(client.project, {"f": b"1"})
    client.casrewind("install", "claude", "--http", code=0)
    place = client.config / "settings.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **settings}))
    client.environment.pop("NO_PROXY")
    client.environment.update(variables)
    network = client.command[: client.command.index("--") + 1] if client.model.network is not None else []
    words = [*network, sys.executable, "-I", "-S", "-c", PROXY, client.model.address.removeprefix("http://")]
    proxy = subprocess.Popen(words, cwd="/", stdout=subprocess.PIPE)
    try:
        assert proxy.stdout.readline() == b"\n"
        client.say("hello")
        points = wait(client.points, lambda found: found and found[-1]["trigger"] == "session_end")
        assert ("turn_end" in [point["trigger"] for point in points]) is not lost
        found = client.casrewind("doctor", "claude", "--json", **variables).json["agents"]["claude"]["problems"]
        assert bool(found) is lost, found
    finally:
        end_all(*helpers(client.project), *listeners(client.casrewind.environment["CASREWIND_HOME"]))
        proxy.kill()
        proxy.wait()
        proxy.stdout.close()
        client.model.strangers.clear()  # what it asks for through a proxy is not all for the model
