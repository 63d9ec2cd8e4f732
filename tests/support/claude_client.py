"""The real Claude Code in a scratch home, with a scripted model: in print mode, and on a terminal that tmux gives it."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import real_clients
from support.claude_model import Model
from support.command_in_process import InProcess
from support.fake_client import line_to_type
from support.model_server import PATIENCE

_END = "Original prompt: {}\n"
"""What the client shows below the answer to a command."""
TOOLS = "Write,Edit,Read,Bash"
MODE = ("--permission-mode", "acceptEdits")  # the usual one asks a server whether a command is harmless


class ClaudeClient:
    """A home, a project, a model and a client. `directory` must be the test's own and have a short path.

    `moved`: the client keeps its files where CLAUDE_CONFIG_DIR says instead of in the home directory.
    """

    def __init__(self, directory, *, moved=False):
        self.binary = real_clients.claude()
        directory = Path(directory)
        self.home, self.project, self._scratch = (directory / name for name in ("home", "project", "tmp"))
        for place in (self.home, self.project, self._scratch):
            place.mkdir()
        self.config = directory / "config" if moved else self.home / ".claude"
        self.config.mkdir()
        told = {"CLAUDE_CONFIG_DIR": str(self.config)} if moved else {}
        self.casrewind = InProcess(self.project, self.home, **told)
        self.model = Model()
        self.environment = {
            **self.casrewind.environment,
            "SHELL": "/bin/sh", "TERM": "xterm-256color",
            "ANTHROPIC_BASE_URL": self.model.address, "ANTHROPIC_API_KEY": "dummy", "NO_PROXY": "*",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_TMPDIR": str(self._scratch),
        }  # fmt: skip
        # what its first start would ask: not about this project, and not about a key that is none
        answers = {
            "hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
            "projects": {os.path.realpath(self.project): {"hasTrustDialogAccepted": True}},
        }  # fmt: skip
        (self.config if moved else self.home).joinpath(".claude.json").write_text(json.dumps(answers))
        self.terminals = []

    @property
    def command(self):
        """What starts the client, where possible in a network that has loopback only."""
        return [*self.model.inside, self.binary, "--allowedTools", TOOLS]

    def install_command(self):
        """Put the command where uv and pipx put it; its path."""
        program = self.home / ".local" / "bin" / "casrewind"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m casrewind "$@"\n')
        program.chmod(0o755)
        return program

    def stop(self):
        for terminal in self.terminals:
            terminal.kill()
        self.model.stop()
        assert self.model.strangers == [], "the client wanted something else than its model"

    def start(self, prompt, *more):
        """Start the client in print mode: a Popen with its output in pipes."""
        return subprocess.Popen(
            [*self.command, "-p", "--output-format", "json", *more, "--", prompt], cwd=self.project, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def say(self, prompt, *more):
        """A prompt in print mode, to its end; the client's answer as JSON."""
        running = self.start(prompt, *more)
        out, err = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, (prompt, out, err)
        return json.loads(out)

    def resume(self, command, prompt):
        """The same by the very command line that casrewind printed."""
        program, *rest = command.split()
        assert program == "claude"
        return self.say(prompt, *rest)

    def terminal(self, *more):
        """The client on a terminal, its session's first checkpoint made."""
        before = len(self.points())
        self.terminals.append(Terminal(self, more))
        self.terminals[-1].wait_for("accept edits on")
        self.wait_for_more(before)
        return self.terminals[-1]

    def transcript(self, session):
        (found,) = self.config.glob(f"projects/*/{session}.jsonl")
        return found

    def points(self):
        """The checkpoints, oldest first, as `list --json` has them."""
        found = self.casrewind("list", "--json")
        return found.json["checkpoints"][::-1] if found.code == 0 else []

    def wait_for_more(self, before, number=1, trigger=""):
        """Wait until there are that many checkpoints more than `before`, and the last of these or one behind it was made for that reason; all
        of them. The start of a subagent may be recorded behind the end of the turn."""
        return wait(self.points, lambda found: any(point["trigger"].startswith(trigger) for point in found[before + number - 1 :]))

    def restored(self, point, directory):
        """The files of a checkpoint, written elsewhere."""
        self.casrewind("restore", point["id"], "--to", str(directory), code=0)
        return directory


def wait(look, good=bool, shown=None):
    """Look until it is good; what was seen. `shown()` is what to say if it never is."""
    end, pause = time.monotonic() + PATIENCE, 0.02
    while True:
        seen = look()
        if good(seen):
            return seen
        assert time.monotonic() < end, seen if shown is None else f"{seen}\n{shown()}"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.3)  # a look costs as much as a client that waits: longer waits have fewer of them


class Terminal:
    """The client as a person has it, on a terminal of its own."""

    def __init__(self, client, more, mode=MODE, columns=180, lines=150):
        if shutil.which("tmux") is None:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("tmux is not installed")
        self._socket = str(client._scratch / f"t{len(client.terminals)}")
        self._client, self._environment = client, client.environment
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "-c", str(client.project), *client.command, *mode, *more)

    def _tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self._socket, *words], env=self._environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def screen(self):
        """What is shown; the client draws its screen itself, and what was scrolled away is gone."""
        return self._tmux("capture-pane", "-p", "-J")

    def wait_for(self, text, *, times=1):
        return wait(self.screen, lambda shown: shown.count(text) >= times)

    def keys(self, *names):
        self._tmux("send-keys", *names)

    def type(self, text):
        """Type a line and send it off. It is not sent with the same breath: that would be a paste."""
        before = self.screen().count(text)
        self._tmux("send-keys", "-l", text)
        self.wait_for(text, times=before + 1)
        self.keys("Enter")

    def say(self, prompt):
        """Type a prompt, and wait until its turn and the turn's hooks have ended."""
        before = len(self._client.points())
        self.type(prompt)
        self._client.wait_for_more(before, 2, "turn_end")
        self.wait_until_idle()

    def until(self, look, good=bool):
        return wait(look, good, self.screen)

    def wait_until_idle(self):
        self.until(lambda: "esc to interrupt" not in self.screen())

    def ask(self, command):
        """Type a /casrewind command; what the client shows as the answer to it."""
        before = self._answers(command)
        self.type(command)
        return self.answer_to(command, before + 1)

    def order(self, command):
        """Type a /casrewind command, and the line that its plan says; what the client shows in the end."""
        answer = self.ask(command)
        line = line_to_type(answer)
        return answer if line is None else self.ask(line)

    def answer_to(self, command, times=1):
        self.until(lambda: self._answers(command) >= times)
        return self._lines().rpartition(_END.format(command))[0].rpartition("blocked by hook:")[2].strip()

    def _answers(self, command):
        return self._lines().count(_END.format(command))

    def _lines(self):
        return "".join(f"{line.rstrip()}\n" for line in self.screen().splitlines())

    def kill(self):
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, timeout=PATIENCE)
