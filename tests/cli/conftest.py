"""Most tests of the command line call it in this process. `process` is the real command in a process of its own: a fork, with its own
arguments, environment, descriptors and pid. Tests in which the start of the interpreter matters start it themselves."""

import pytest

from support.terminal import Session, with_patience


@pytest.fixture
def terminal(process):
    """Start the command on a terminal: terminal("restore", "last"). `environment` is added to the command's own. It shows no
    progress, however slow the machine is."""
    started = []

    def start(*arguments, environment=None, **streams):
        session = Session(with_patience(process, 3600, *arguments), {**process.environment, **(environment or {})}, **streams)
        started.append(session)
        return session

    yield start
    for session in started:
        if session.process.poll() is None:
            session.process.kill()
            session.process.wait()
