"""The real Factory Droid in a scratch home, with a scripted model: driven as its own front ends do it, by JSON-RPC, and in
print mode, always in a network that has loopback only: it calls home, and nothing switches that off."""

import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from support import clients
from support.anthropic import PATIENCE, Model
from support.command import Command

MODEL = "custom:mock-model"


class DroidClient:
    """A home, a project, a model and a client. `directory` must be the test's own and have a short path."""

    def __init__(self, directory):
        self.binary = clients.droid()
        self.model = Model()
        if self.model.network is None or shutil.which("nsenter") is None:
            self.model.stop()
            missed = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            missed("Droid calls home: it is run only where it can have a network of its own (root on Linux, nsenter)")
        self.home, self.project = Path(directory) / "home", Path(directory) / "project"
        self.config = self.home / ".factory"
        for place in (self.config, self.project, Path(directory) / "tmp"):
            place.mkdir(parents=True)
        self.casrewind = Command(self.project, self.home)
        # its API is this model's server, too, which knows nothing of it: a session is only resumed when somebody says no
        self.environment = {
            **self.casrewind.environment,
            "SHELL": "/bin/sh", "TERM": "dumb", "TMPDIR": str(Path(directory) / "tmp"),  # in which it leaves things
            "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
            "FACTORY_API_BASE_URL": self.model.address, "FACTORY_TELEMETRY_INGEST_BASE_URL": self.model.address,
        }  # fmt: skip
        known = {"model": "mock-model", "displayName": "Mock", "baseUrl": self.model.address, "apiKey": "dummy",
                 "provider": "anthropic", "maxOutputTokens": 8192}  # fmt: skip
        self.settings = json.dumps({"customModels": [known], "cloudSessionSync": False}).encode()
        (self.config / "settings.json").write_bytes(self.settings)
        self._running = []

    def stop(self):
        for front in self._running:
            front.kill()
        self.model.stop()

    @property
    def command(self):
        """What starts the client in the model's network."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.model.network}", "--", self.binary]

    def front(self, session=None):
        """A front end of the client with a new session, or with one that is resumed."""
        self._running.append(Front(self, session))
        return self._running[-1]

    def print(self, prompt, *more):
        """A prompt in print mode, to its end; the client's answer as JSON."""
        done = subprocess.run(
            [*self.command, "exec", "-m", MODEL, "--auto", "high", "-o", "json", *more, "--", prompt], cwd=self.project,
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, (prompt, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def transcript(self, session):
        (found,) = self.config.glob(f"sessions/*/{session}.jsonl")
        return found

    def points(self):
        """The checkpoints, oldest first, as `list --json` has them."""
        found = self.casrewind("list", "--json")
        return found.json["checkpoints"][::-1] if found.code == 0 else []


class Front:
    """One process of the client, asked by JSON-RPC; `session` is the id of its session."""

    def __init__(self, client, session):
        self._process = subprocess.Popen(
            [*client.command, "exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc"],
            cwd=client.project, env=client.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._asked = 0
        if session is None:
            chosen = {"modelId": MODEL, "interactionMode": "auto", "autonomyLevel": "high"}
            answer = self.ask("initialize_session", machineId="test", cwd=str(client.project), **chosen)
            self.session = answer["sessionId"]
        else:
            self.ask("load_session", sessionId=session)
            self.session = session

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def _next(self):
        line = self._lines.get(timeout=PATIENCE)
        assert line is not None, "the client ended"
        return line

    def send(self, method, **params):
        """Send a request; its id."""
        self._asked += 1
        message = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "type": "request", "id": str(self._asked), "params": params}
        self._process.stdin.write(json.dumps({**message, "method": f"droid.{method}"}) + "\n")
        self._process.stdin.flush()
        return str(self._asked)

    def ask(self, method, **params):
        """A request, and what it is answered."""
        number = self.send(method, **params)
        while (line := self._next()).get("id") != number:
            pass
        assert "error" not in line, line
        return line["result"]

    def say(self, prompt, until="idle"):
        """A prompt; all that the client says until it is idle again (or until its state is another one)."""
        self.send("add_user_message", text=prompt)
        told = []
        while True:
            told.append(self._next().get("params", {}).get("notification", {}))
            if (told[-1].get("type"), told[-1].get("newState")) == ("droid_working_state_changed", until):
                return told

    def close(self):
        """End the session as a front end does that is left, and wait for the end of the process."""
        self.ask("close_session", reason="prompt_input_exit")
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
