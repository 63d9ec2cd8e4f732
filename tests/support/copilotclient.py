"""The real GitHub Copilot CLI in a scratch home, with a scripted model, in a network that has loopback only."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import clients
from support.anthropic import PATIENCE
from support.chatmodel import ChatModel
from support.command import Command
from support.realclient import wait


class OfflineClient:
    """A home, a project, a model and a client that is called with prompts. `directory` must be the test's own."""

    def __init__(self, directory, binary, name):
        self.model = ChatModel()
        if self.model.network is None or shutil.which("nsenter") is None:
            self.model.stop()
            missed = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            missed("this client is run only where it can have a network of its own (root on Linux, nsenter)")
        directory = Path(directory)
        self.home, self.project, programs, scratch = (directory / part for part in ("home", "project", "bin", "tmp"))
        for place in (self.home, self.project, programs, scratch):
            place.mkdir()
        (programs / name).symlink_to(binary)
        self.casrewind = Command(self.project, self.home, PATH=f"{programs}:{os.environ['PATH']}", TMPDIR=str(scratch))  # doctor runs it, too
        self.environment = {**self.casrewind.environment, "SHELL": "/bin/sh", "TERM": "dumb"}
        self._name = name

    def stop(self):
        self.model.stop()

    @property
    def network(self):
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.model.network}", "--"]

    def start(self, *words, cwd=None):
        return subprocess.Popen(
            [*self.network, self._name, *words], cwd=cwd or self.project, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *words, code=0, cwd=None):
        running = self.start(*words, cwd=cwd)
        out, err = running.communicate(timeout=PATIENCE)
        assert code is None or running.returncode == code, (words, out, err)
        return out + err

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


class CopilotClient(OfflineClient):
    """The client in its mode for scripts; `say` is one prompt."""

    def __init__(self, directory):
        super().__init__(directory, clients.copilot(), "copilot")
        self.config = self.home / ".copilot"
        self.environment |= {
            "COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{self.model.address}/v1", "COPILOT_MODEL": "mock-model",
            "COPILOT_PROVIDER_API_KEY": "dummy", "COPILOT_AUTO_UPDATE": "false",
        }  # fmt: skip

    def say(self, prompt, *more, code=0):
        return self.run("--allow-all-tools", *more, "-p", prompt, code=code)

    def resume(self, line, prompt):
        """The same by the very command line that casrewind printed."""
        program, *rest = line.split()
        assert program == "copilot"
        return self.say(prompt, *rest)

    def transcript(self, session):
        return self.config / "session-state" / session / "events.jsonl"
