"""A real client in a scratch home, with a scripted model, in a network that has loopback only: these clients call home."""

import json
import os
import queue
import shlex
import subprocess
import threading
from pathlib import Path

import pytest

from support.claude_client import Terminal, wait
from support.command_in_process import InProcess
from support.model_server import PATIENCE


class OfflineClient:
    """A home, a project, a model and a client. `directory` must be the test's own and have a short path. `words` are what starts
    the client, which is called `name` on the PATH; `model` is the kind of its server; `config` is its directory below the home."""

    def __init__(self, directory, name, words, model, config):
        self.model = model()
        if self.model.network is None:
            self.model.stop()
            missed = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            missed(f"{name} is run only where it can have a network of its own (root on Linux, nsenter)")
        directory = Path(directory)
        self.home, self.project, programs, self._scratch = (directory / part for part in ("home", "project", "bin", "tmp"))
        self.config = self.home / config
        for place in (self.config, self.project, programs, self._scratch):
            place.mkdir(parents=True)
        self.command = [*self.model.inside, *words]
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n')
        (programs / name).chmod(0o755)
        self.casrewind = InProcess(self.project, self.home, PATH=f"{programs}:{os.environ['PATH']}", TMPDIR=str(self._scratch))  # doctor runs it
        self.environment = {**self.casrewind.environment, "SHELL": "/bin/sh", "TERM": "dumb"}
        self.terminals = []

    def stop(self):
        for terminal in self.terminals:
            terminal.kill()
        self.model.stop()

    def terminal(self, *words):
        """The client on a terminal."""
        self.environment["TERM"] = "xterm-256color"
        self.terminals.append(Terminal(self, words, mode=()))
        return self.terminals[-1]

    def start(self, *words):
        """Start the client: a Popen with its output in pipes."""
        return subprocess.Popen(
            [*self.command, *words], cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def finish(self, running, code=0):
        """Wait for the end of a client; what it printed."""
        out, err = running.communicate(timeout=PATIENCE)
        assert code is None or running.returncode == code, (running.args, out, err)
        return out, err

    def points(self):
        """The checkpoints, oldest first, as `list --json` has them."""
        found = self.casrewind("list", "--json")
        return found.json["checkpoints"][::-1] if found.code == 0 else []

    def prompts(self):
        """The prompts with a checkpoint, oldest first."""
        return [point["prompt"] for point in self.points() if point["trigger"] == "prompt"]

    def wait_for(self, trigger, count):
        """Wait until that many checkpoints were made for that reason."""
        return wait(lambda: [point for point in self.points() if point["trigger"] == trigger], lambda found: len(found) >= count)


class JsonProcess:
    """A process of a client that reads and writes JSON on its pipes, a line for each message."""

    def __init__(self, client, *words, **variables):
        self._process = subprocess.Popen(
            [*client.command, *words], cwd=client.project, env={**client.environment, **variables},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(json.loads(line))
        self._lines.put(None)

    @property
    def is_open(self):
        return not self._process.stdout.closed

    def receive(self):
        """The client's next message."""
        message = self._lines.get(timeout=PATIENCE)
        assert message is not None, "the client ended"
        return message

    def transmit(self, message):
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def close(self):
        """Quit, as a front end does, and wait for the end of the process."""
        self._process.stdin.close()
        assert self._process.wait(PATIENCE) == 0
        self._end()

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._end()

    def _end(self):
        self._reader.join(PATIENCE)
        self._process.stdout.close()
        if not self._process.stdin.closed:
            self._process.stdin.close()
