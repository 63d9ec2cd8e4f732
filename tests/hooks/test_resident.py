"""`install --resident`: hooks start the helper where there is none, one for each project; whatever is done to it, every turn has
the checkpoint that it would have without it; and doctor says how it is."""

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from casrewind import launch
from casrewind.agents import settings_edit
from casrewind.hook import handler, helper_process, protocol
from support.fake_client import Client
from support.helper_processes import helpers
from support.picture import differences, picture
from support.scanner import settle
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the helper is for Linux only")
PATIENCE = 60
WIDE = {f"d{n}/e{m}/f{k}": b"%d" % (n * m * k) for n in range(4) for m in range(3) for k in range(3)}
as_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")


class Project(Client):
    """A project, and a client that has hooks with the helper in it."""

    def __init__(self, casrewind, root):
        super().__init__(casrewind, root)
        self.watch = os.path.join(casrewind.environment["CASREWIND_HOME"], "watch")
        self.place = os.path.join(self.watch, protocol.socket_name(os.fsencode(root)))
        self.turns, self.pictures = 0, {}

    def session(self):
        self.send(self.payload("SessionStart.startup"), "claude", "--resident")

    def pid(self):
        """The process of the helper, None where it has not said so."""
        try:
            with open(self.place + ".lock") as file:
                return int(file.readline())
        except (OSError, ValueError):
            return None

    def helper(self, other_than=None):
        """Wait for the helper; its process."""
        return until(lambda: self.pid() if self.lives() and os.path.exists(self.place) and self.pid() != other_than else None)

    def lives(self):
        return self.pid() in helpers(self.root)

    def end(self, number=signal.SIGKILL):
        pid = self.helper()
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, number)
        until(lambda: pid not in helpers(self.root))

    def turn(self, between=lambda: None):
        """A prompt, edits, the end of the turn; what there is at both is remembered."""
        self.turns += 1
        for name, prompt in (("UserPromptSubmit.prompt", f"prompt {self.turns}"), ("Stop.plain", None)):
            more, word = ({}, []) if prompt is None else ({"prompt": prompt}, ["--resident"])  # as it is installed
            before = len(self.points())
            self.send(self.payload(name, prompt_id=f"turn {self.turns}", **more), "claude", *word)
            self.wait_for(before + 1)
            self.pictures[self.points()[0]["id"]] = picture(self.root)
            if prompt is not None:
                plant(self.root, {f"d{self.turns % 4}/e1/f1": os.urandom(9), f"new{self.turns}/deep/er": b"1"})
                between()

    def everything_is_right(self, directory):
        """Each checkpoint, written elsewhere, is what there was; and nothing was said."""
        for number, (point, wanted) in enumerate(self.pictures.items()):
            self.casrewind("restore", point, "--to", str(directory / str(number)), code=0)
            assert differences(picture(directory / str(number)), wanted) == {}, point
        assert self.casrewind.json("verify")["ok"]

    def doctor(self):
        done = self.casrewind("doctor", "claude", "--json")
        return done.code, done.json["helper"]


def until(look, good=bool):
    end = time.monotonic() + PATIENCE
    while not good(found := look()):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


@pytest.fixture
def project(casrewind, root):
    plant(root, {**WIDE, ".gitignore": b"*.o\n"})
    settle()
    casrewind("save", code=0)
    casrewind("install", "claude", "--resident", code=0)
    found = Project(casrewind, root)
    yield found
    for pid in helpers(root):
        os.kill(pid, signal.SIGKILL)


def test_the_word_is_the_same_everywhere():
    assert handler._RESIDENT == settings_edit.RESIDENT
    assert settings_edit.is_ours({"command": shlex.join([*settings_edit.hook_command("claude"), settings_edit.RESIDENT])}, "claude")


def test_a_hook_without_the_word_starts_nothing(project):
    project.send(project.payload("SessionStart.startup"))
    project.send(project.payload("Stop.plain"))
    assert not os.path.lexists(project.watch) and helpers(project.root) == []


def test_sessions_that_start_at_once_have_one_helper_which_the_client_does_not_wait_for(project):
    threads = [threading.Thread(target=project.session) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # to the end of what the hooks' pipes say, and the helper lives
    pid = project.helper()
    until(lambda: helpers(project.root), lambda found: found == [pid])
    assert os.stat(project.watch).st_mode & 0o077 == 0
    for fd in range(3):
        assert os.readlink(f"/proc/{pid}/fd/{fd}") == os.devnull
    assert os.getsid(pid) != os.getsid(0)
    code, found = project.doctor()
    assert (code, found) == (0, {"process": pid, "watching": True, "reason": None, "problems": []})
    assert project.helper() == pid and helpers(project.root) == [pid], "doctor's own hooks start none"
    project.end(signal.SIGTERM)
    assert not os.path.exists(project.place)
    assert project.doctor()[1]["process"] is None
    assert project.casrewind("list", code=0).err == "", "nothing was written into the log"


def test_a_helper_that_is_killed_in_a_turn_costs_nothing_and_the_next_prompt_has_another(project, tmp_path):
    project.session()
    first = project.helper()
    project.turn(project.end)
    assert helpers(project.root) == [], "the end of a turn starts none"
    project.turn()
    assert project.helper(first) != first
    project.everything_is_right(tmp_path / "restored")


@pytest.mark.long
def test_doctor_says_what_keeps_hooks_from_the_helper(project):
    project.session()
    pid = project.helper()
    os.kill(pid, signal.SIGSTOP)
    code, found = project.doctor()
    assert code != 0 and found["process"] == pid and not found["watching"]
    assert "does not answer" in found["problems"][0] and f"kill -KILL {pid}" in found["problems"][0]
    os.unlink(project.place)  # one that is awake would notice, and end
    plant(project.watch, {os.path.basename(project.place): b""})
    code, found = project.doctor()
    assert code != 0 and "its socket was replaced" in found["problems"][0]
    assert "Helper\n  ! the helper of this project" in project.casrewind("doctor", "claude").out
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in helpers(project.root))
    code, found = project.doctor()
    assert (code, found["process"], found["problems"]) == (0, None, []), "the lock of a dead one is nobody's"
    os.chmod(project.watch, 0o777)
    code, found = project.doctor()
    assert code != 0 and "only you may write" in found["problems"][0]


@pytest.mark.long
def test_a_helper_says_why_it_looks_at_everything(project, root):
    """There may be fewer watches left than a project has directories: here by what it says, for the limit is everybody's."""
    project.session()
    project.helper()
    found = helper_process.HelperState(1, "no space left on device", "")
    lock = os.open(project.place + ".lock", os.O_RDWR)
    try:
        helper_process.write_helper_state(lock, found.unwatched)
        code, shown = project.doctor()
    finally:
        os.close(lock)
    assert code == 0 and (shown["watching"], shown["reason"]) == (False, found.unwatched)


@pytest.mark.long
def test_a_helper_that_cannot_be_is_told_of(project):
    os.makedirs(project.watch, mode=0o700)
    os.mkdir(project.place + ".lock")
    project.session()
    said = until(lambda: project.casrewind("list").err)
    assert "the helper (casrewind watch)" in said


def replaced_by(make):
    """An attack: the socket goes, and something else comes into its place."""
    def attack(project):
        project.helper()
        os.unlink(project.place)
        make(project.place)

    return attack


def of_nobody(place):
    """A socket of another user's, who listens and would read what hooks say."""
    script = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(600)"
    shown = os.path.dirname(place)
    os.chmod(shown, 0o777)
    os.chown(shown, 65534, 65534)
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-I", "-S", "-c", script, place]
    LISTENING.append(subprocess.Popen(words))
    time.sleep(0.5)
    os.chown(shown, 0, 0)
    os.chmod(shown, 0o700)


LISTENING = []


def flooded(project):
    """More events than the kernel keeps, and a change behind them."""
    pid = project.helper()
    os.kill(pid, signal.SIGSTOP)
    for number in range(100_000):
        os.utime(project.root / "d3" / f"e{number % 2}" / "f0")
    plant(project.root, {"d2/e2/f2": os.urandom(5)})
    os.kill(pid, signal.SIGCONT)


def killed_soon(project):
    """In the middle of something: the hook that comes now has asked it, or is about to."""
    pid = project.helper()
    threading.Timer(random.Random(project.turns).uniform(0.0, 0.06), lambda: os.kill(pid, signal.SIGKILL)).start()


def stopped(project):
    os.kill(project.helper(), signal.SIGSTOP)


def given_away(project):
    project.helper()
    os.chown(project.watch, 65534, 65534)


def open_to_all(project):
    project.helper()
    os.chmod(project.watch, 0o777)


ATTACKS = {
    "flooded": flooded,
    "killed in the middle": killed_soon,
    "stopped": stopped,
    "a file": replaced_by(lambda place: open(place, "w").close()),
    "a link": replaced_by(lambda place: os.symlink("/dev/null", place)),
    "a socket of another user": pytest.param(replaced_by(of_nobody), marks=as_root),
    "a directory of another user": pytest.param(given_away, marks=as_root),
    "a directory open to all": open_to_all,
}


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_whatever_is_done_to_it_every_turn_has_its_checkpoint(project, tmp_path, attack):
    project.session()
    project.helper()
    project.turn()
    try:
        for _ in range(2):
            project.turn(lambda: attack(project))
            mended(project)
        project.turn()
    finally:
        while LISTENING:
            LISTENING[-1].kill()
            LISTENING.pop().wait()
    project.everything_is_right(tmp_path / "restored")


def mended(project):
    """What a person would do who was told by doctor; then there is a helper again at the next prompt."""
    for pid in helpers(project.root):
        os.kill(pid, signal.SIGKILL)
    until(lambda: helpers(project.root) == [])
    if os.geteuid() == 0:
        os.chown(project.watch, 0, 0)
    os.chmod(project.watch, 0o700)
    if os.path.lexists(project.place):
        os.unlink(project.place)
    project.session()
    project.helper()


@pytest.mark.long
def test_a_helper_that_is_killed_at_any_time_costs_no_checkpoint(project, tmp_path):
    project.session()
    for _ in range(12):
        project.turn(lambda: killed_soon(project) if project.lives() else None)
    project.everything_is_right(tmp_path / "restored")


@pytest.mark.long
def test_it_runs_by_the_command_line_that_is_installed(project):
    """As the client runs it: by a shell, with nothing of this environment but what the client has."""
    line = shlex.join([*settings_edit.hook_command("claude"), settings_edit.RESIDENT])
    done = subprocess.run(
        ["/bin/sh", "-c", line], input=project.payload("SessionStart.startup"), capture_output=True, timeout=60, cwd=project.root,
        env={"HOME": project.casrewind.environment["HOME"], "CLAUDE_PROJECT_DIR": str(project.root), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    until(lambda: helpers(project.root))
    assert launch.own_command()[0] in line
