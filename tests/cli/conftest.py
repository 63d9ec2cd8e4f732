"""Most tests of the command line call it in this process; `process` is the real command in a process of its own."""

import sys

import pytest

from support.command import Command
from support.inside import Inside
from support.terminal import Session


@pytest.fixture
def casrewind(root, home):
    """The command, called in this process."""
    return Inside(root, home)


@pytest.fixture
def process(root, home):
    """The command, in a process of its own."""
    return Command(root, home)


@pytest.fixture
def terminal(process):
    """Start the command on a terminal: terminal("restore", "last"). `environment` is added to the command's own."""
    started = []

    def start(*arguments, environment=None, **streams):
        command = [sys.executable, "-m", "casrewind", "-C", process.root, *arguments]
        session = Session(command, {**process.environment, **(environment or {})}, **streams)
        started.append(session)
        return session

    yield start
    for session in started:
        if session.process.poll() is None:
            session.process.kill()
            session.process.wait()
