"""The real Gemini CLI in a scratch home, with a scripted model, in a network that has loopback only."""

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

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
}


class GeminiClient:
    """A home, a project, a model and a client. `directory` must be the test's own and have a short path."""

    def __init__(self, directory):
        self.program = clients.gemini()
        self.model = ScriptedModel()
        if self.model.network is None or shutil.which("nsenter") is None:
            self.model.stop()
            missed = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            missed("Gemini calls home: it is run only where it can have a network of its own (root on Linux, nsenter)")
        directory = Path(directory)
        self.home, self.project = directory / "home", directory / "project"
        self.config = self.home / ".gemini"
        for place in (self.config, self.project / ".git", directory / "tmp"):
            place.mkdir(parents=True)
        (directory / "bin").mkdir()
        program = directory / "bin" / "gemini"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.command)} "$@"\n')
        program.chmod(0o755)
        self.casrewind = Command(self.project, self.home, PATH=f"{directory / 'bin'}:{os.environ['PATH']}")
        self.settings = json.dumps(SETTINGS, indent=1).encode()
        (self.config / "settings.json").write_bytes(self.settings)
        self.environment = {
            **self.casrewind.environment, "SHELL": "/bin/sh", "TERM": "xterm-256color", "TMPDIR": str(directory / "tmp"),
            "GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": self.model.address, "GEMINI_CLI_NO_RELAUNCH": "true",
            "GEMINI_CLI_TRUST_WORKSPACE": "true", "NO_PROXY": "*",
        }  # fmt: skip

    def stop(self):
        self.model.stop()

    @property
    def command(self):
        """What starts the client in the model's network."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.model.network}", "--", *self.program]

    def start(self, prompt, *more):
        """Start the client in print mode: a Popen with its output in pipes. `more`: "-r" and a session's id."""
        return subprocess.Popen(
            [*self.command, "-y", "-m", "gemini-2.5-flash", "-o", "json", *more, "-p", prompt], cwd=self.project, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def say(self, prompt, session=None):
        """A prompt to its end; the session's id."""
        return self.answer(prompt, session)["session_id"]

    def answer(self, prompt, session=None):
        """A prompt to its end; what the client says, as JSON."""
        running = self.start(prompt, *([] if session is None else ["-r", session]))
        out, err = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, (prompt, out, err)
        return json.loads(out)

    def transcript(self, session):
        """A resume in a later minute leaves a second file with a header and no message."""
        return max(self.config.glob(f"tmp/*/chats/session-*-{session[:8]}.jsonl"), key=lambda path: path.stat().st_size)

    def points(self):
        """The checkpoints, oldest first, as `list --json` has them."""
        found = self.casrewind("list", "--json")
        return found.json["checkpoints"][::-1] if found.code == 0 else []
