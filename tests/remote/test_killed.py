"""SIGKILL at each request of push, pull and clone, before the server gets it and after it has answered: a real process, a real server."""

import os
import signal
import subprocess
import sys

import pytest

from support.machines import KEY, Machine
from support.s3_server import S3Server

PROGRAM = """
import itertools, os, signal, sys
from casrewind.remote import push
from casrewind.remote.objects import Objects
number, when = int(sys.argv[1]), sys.argv[2]
push.MOST = 1 << 19
count = itertools.count(1)

def dying(call):
    def asked(*arguments):
        is_last = next(count) == number
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = call(*arguments)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return asked

for name in ("put_new", "get", "list", "delete"):
    setattr(Objects, name, dying(getattr(Objects, name)))
from casrewind.cli.main import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def server():
    with S3Server() as started:
        yield started


@pytest.fixture
def url(server, monkeypatch):
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    return server.bucket()


def made(tmp_path, url, name="sandbox-4"):
    machine = Machine(tmp_path / name, url, name)
    machine.add_remote()
    return machine


def run(machine, number, when, *words, cwd=None):
    """The exit code of a command that is killed at its Nth request."""
    environment = {**os.environ, "HOME": str(machine.home), "CASREWIND_HOME": machine.settings.data, "CASREWIND_REMOTE_KEY": KEY}
    line = [sys.executable, "-c", PROGRAM, str(number), when, "-C", str(cwd or machine.root), *words]
    done = subprocess.run(line, env=environment, capture_output=True, timeout=120)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


def until_it_ends(machine, when, *words, **options):
    """Run a command again and again, each time killed one request later, until it ends by itself; how often it was killed."""
    number = 1
    while run(machine, number, when, *words, **options) != 0:
        number += 1
        assert number < 60
    return number - 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_each_kill_leaves_what_the_next_command_completes(tmp_path, url, when):
    first = made(tmp_path, url)
    random = os.urandom(1_200_000)
    saved = [first.save({"a": b"1", "large": random, "d/b": b"2"}), first.save({"a": b"2", "large": random + b"x"})]
    assert until_it_ends(first, when, "push") >= (3 if when == "before" else 1)
    reader = made(tmp_path, url, "laptop")
    assert until_it_ends(reader, when, "pull") >= 2
    for point in saved:
        assert reader.tree(point.id) == first.tree(point.id)
        assert reader.points()[point.id].more.machine == "sandbox-4"
    assert len(reader.points()) == 2 and not reader.problems() and not first.problems()
    assert first.push().requests == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_clone_can_be_made_again(tmp_path, url, when):
    first = made(tmp_path, url)
    point = first.save({"a": b"1", "large": os.urandom(1_200_000), "d/b": b"2"})
    first.push()
    place = tmp_path / "clones"
    place.mkdir()
    machine = Machine(tmp_path / "two", url, "two")
    number = 1
    while run(machine, number, when, "clone", url, f"try{number}", "--machine", "two", cwd=place) != 0:
        number += 1
        assert number < 60
    assert number > 2
    machine.root = place / f"try{number}"
    assert machine.tree(point.id) == first.tree(point.id) and not machine.problems()
    assert (machine.root / "large").read_bytes() == (first.root / "large").read_bytes()
