"""The real Codex CLI in a scratch home, with a scripted model, in a network that has loopback only."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support import clients
from support.anthropic import PATIENCE
from support.command import Command
from support.scripted import ScriptedModel

CONFIG = """model = "gpt-5.5"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "{address}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""


class CodexClient:
    """A home, a project, a model and a client. `directory` must be the test's own and have a short path."""

    def __init__(self, directory):
        self.binary = clients.codex()
        self.model = ScriptedModel()
        if self.model.network is None or shutil.which("nsenter") is None:
            self.model.stop()
            missed = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            missed("Codex calls home: it is run only where it can have a network of its own (root on Linux, nsenter)")
        directory = Path(directory)
        self.home, self.project = directory / "home", directory / "project"
        self.config = self.home / ".codex"
        for place in (self.config, self.project / ".git", directory / "tmp"):
            place.mkdir(parents=True)
        (directory / "bin").mkdir()
        program = directory / "bin" / "codex"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n')
        program.chmod(0o755)
        self.casrewind = Command(self.project, self.home, PATH=f"{directory / 'bin'}:{os.environ['PATH']}")
        (self.config / "config.toml").write_text(CONFIG.format(address=self.model.address))
        self.settings = (self.config / "config.toml").read_bytes()
        self.environment = {**self.casrewind.environment, "SHELL": "/bin/sh", "TERM": "xterm-256color", "TMPDIR": str(directory / "tmp")}

    def stop(self):
        self.model.stop()

    @property
    def command(self):
        """What starts the client in the model's network."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.model.network}", "--", self.binary]

    def trust(self):
        """Trust the hooks of now, as the client notes it when the user chooses so."""
        listed = self.ask("hooks/list", cwds=[str(self.project)])["data"][0]["hooks"]
        told = "".join(f'[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in listed)
        (self.config / "config.toml").write_bytes(self.settings + told.encode())

    def ask(self, method, **params):
        """A question to the client's own server, in a process of its own, and what it is answered."""
        with Server(self) as server:
            return server.ask(method, **params)

    def start(self, prompt, *more):
        """Start `codex exec` with a prompt: a Popen with its output in pipes. `more`: "resume" and a session's id."""
        return subprocess.Popen(
            [*self.command, "exec", "--json", "--skip-git-repo-check", *more, prompt], cwd=self.project, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def say(self, prompt, session=None):
        """A prompt to its end; the session's id."""
        running = self.start(prompt, *([] if session is None else ["resume", session]))
        out, err = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, (prompt, out, err)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return next(line["thread_id"] for line in lines if line["type"] == "thread.started")

    def transcript(self, session):
        (found,) = self.config.glob(f"sessions/*/*/*/rollout-*-{session}.jsonl")
        return found

    def points(self):
        """The checkpoints, oldest first, as `list --json` has them."""
        found = self.casrewind("list", "--json")
        return found.json["checkpoints"][::-1] if found.code == 0 else []


class Server:
    """The client's server on pipes (`codex app-server`): what its front ends talk to."""

    def __init__(self, client):
        self._process = subprocess.Popen(
            [*client.command, "app-server"], cwd=client.project, env=client.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._asked = 0
        self.told = []
        """Everything that it said."""
        name = {"name": "test", "title": "test", "version": "0"}
        self.ask("initialize", clientInfo=name, capabilities={"experimentalApi": True})
        self._send({"method": "initialized"})

    def _send(self, message):
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ask(self, method, **params):
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        answer = self.until(lambda message: message.get("id") == self._asked and "method" not in message)
        assert "result" in answer, answer
        return answer["result"]

    def until(self, good):
        """Read until a message is good; that message."""
        while True:
            line = self._process.stdout.readline()
            assert line, "the server ended"
            self.told.append(json.loads(line))
            if good(self.told[-1]):
                return self.told[-1]

    def say(self, session, prompt):
        """A prompt in a session, to the end of its turn; what was said meanwhile."""
        before = len(self.told)
        self.ask("turn/start", threadId=session, input=[{"type": "text", "text": prompt, "text_elements": []}])
        self.until(lambda message: message.get("method") == "turn/completed")
        return self.told[before:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()
