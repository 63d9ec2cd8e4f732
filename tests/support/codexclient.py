"""The real Codex CLI in a scratch home, with a scripted model, in a network that has loopback only."""

import json
import os
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
        self.casrewind = Command(self.project, self.home)
        (self.config / "config.toml").write_text(CONFIG.format(address=self.model.address))
        self.environment = {**self.casrewind.environment, "SHELL": "/bin/sh", "TERM": "xterm-256color", "TMPDIR": str(directory / "tmp")}

    def stop(self):
        self.model.stop()

    @property
    def command(self):
        """What starts the client in the model's network."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.model.network}", "--", self.binary]

    def start(self, prompt, *more, trusted=True):
        """Start `codex exec` with a prompt: a Popen with its output in pipes. `more`: "resume" and a session's id."""
        trust = ["--dangerously-bypass-hook-trust"] if trusted else []
        return subprocess.Popen(
            [*self.command, "exec", "--json", *trust, "--skip-git-repo-check", *more, prompt], cwd=self.project, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def say(self, prompt, session=None, **options):
        """A prompt to its end; the session's id."""
        running = self.start(prompt, *([] if session is None else ["resume", session]), **options)
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
