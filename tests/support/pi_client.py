"""The real Pi in a scratch home, with a scripted model: over its RPC mode, in print mode, and on a terminal that tmux gives it."""

import json
import os
import subprocess
from pathlib import Path

from support import real_clients
from support.claude_client import Terminal, wait
from support.claude_model import Model
from support.command_in_process import InProcess
from support.model_server import PATIENCE
from support.offline_client import JsonProcess


class PiClient:
    """A home, a project, a model and a client. `directory` must be the test's own and have a short path."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.home, self.project, self._scratch = (self.directory / name for name in ("home", "project", "tmp"))
        self.config = self.home / ".pi" / "agent"
        self.programs = self.directory / "bin"
        for place in (self.config, self.project, self._scratch, self.programs):
            place.mkdir(parents=True)
        (self.programs / "pi").write_text(f'#!/bin/sh\nexec {" ".join(real_clients.pi())} "$@"\n')
        (self.programs / "pi").chmod(0o755)
        told = {"PATH": f"{self.programs}:{os.environ['PATH']}", "TMPDIR": str(self._scratch)}  # doctor runs the client, too
        self.casrewind = InProcess(self.project, self.home, **told)
        self.model = Model()
        self.environment = {
            **self.casrewind.environment,
            "SHELL": "/bin/sh", "TERM": "xterm-256color",
            "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0",
        }  # fmt: skip
        known = {
            "id": "mock-model", "name": "Mock", "reasoning": False, "input": ["text"], "contextWindow": 100000, "maxTokens": 8000,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        }  # fmt: skip
        provider = {"baseUrl": self.model.address, "api": "anthropic-messages", "apiKey": "x", "models": [known]}
        settings = {"defaultProvider": "mock", "defaultModel": "mock-model", "compaction": {"keepRecentTokens": 10}}
        (self.config / "models.json").write_text(json.dumps({"providers": {"mock": provider}}))
        (self.config / "settings.json").write_text(json.dumps(settings))
        self._running = []
        self.terminals = []

    def stop(self):
        for front in self._running:
            front.kill()
        for terminal in self.terminals:
            terminal.kill()
        self.model.stop()
        assert self.model.strangers == [], "the client wanted something else than its model"

    @property
    def command(self):
        """What starts the client, where possible in a network that has loopback only."""
        return [*self.model.inside, str(self.programs / "pi")]

    def front(self, *more, **how):
        """The client over RPC, with a new session or as `more` says."""
        self._running.append(PiFront(self, more, **how))
        return self._running[-1]

    def print(self, prompt, *more, **variables):
        """A prompt in print mode, to its end; what the client printed."""
        done = subprocess.run(
            [*self.command, *more, "-p", prompt], cwd=self.project, env={**self.environment, **variables},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, (prompt, done.stdout, done.stderr)
        return done.stdout

    def resume(self, command, prompt):
        """The same by the very command line that casrewind printed."""
        program, *rest = command.split()
        assert program == "pi"
        return self.print(prompt, *rest)

    def terminal(self, *more):
        """The client on a terminal."""
        self.terminals.append(PiTerminal(self, more))
        self.terminals[-1].wait_for(" checkpoint")  # the footer: before that Pi takes no prompt
        return self.terminals[-1]

    def transcript(self, session):
        (found,) = self.config.glob(f"sessions/*/*_{session}.jsonl")
        return found

    def points(self):
        """The checkpoints, oldest first, as `list --json` has them."""
        found = self.casrewind("list", "--json")
        return found.json["checkpoints"][::-1] if found.code == 0 else []


class PiTerminal(Terminal):
    """The client as a person has it."""

    def __init__(self, client, more):
        super().__init__(client, more, mode=())

    def say(self, prompt):
        """Type a prompt, and wait until its turn's checkpoint is made."""
        before = len(self._client.points())
        self.type(prompt)
        wait(self._client.points, lambda found: len(found) >= before + 2 and found[-1]["trigger"] == "turn_end", self.screen)


class PiFront(JsonProcess):
    """One process of the client over RPC. `asked` are the questions of extensions, answered by `answers` (None: cancelled;
    a function: of the options)."""

    def __init__(self, client, more=(), **variables):
        super().__init__(client, "--mode", "rpc", *more, **variables)
        self._number = 0
        self.asked, self.answers, self.notes, self.status = [], [], [], {}

    def next(self):
        """The next line of the client's; a question of an extension is answered."""
        line = self.receive()
        if line.get("type") == "extension_ui_request":
            if line["method"] == "notify":
                self.notes.append(line["message"])
            elif line["method"] == "setStatus":
                self.status[line["statusKey"]] = line.get("statusText")
            elif line["method"] == "select":
                self.asked.append(line)
                answer = self.answers.pop(0) if self.answers else None
                answer = answer(line["options"]) if callable(answer) else answer
                said = {"cancelled": True} if answer is None else {"value": answer}
                self.transmit({"type": "extension_ui_response", "id": line["id"], **said})
        return line

    def send(self, command, **fields):
        """Send a command; its id."""
        self._number += 1
        self.transmit({"type": command, "id": str(self._number), **fields})
        return str(self._number)

    def ask(self, command, **fields):
        """A command, and the data of its answer."""
        number = self.send(command, **fields)
        while (line := self.next()).get("type") != "response" or line.get("id") != number:
            pass
        assert line.get("success"), line
        return line.get("data") or {}

    def until(self, kind):
        while self.next().get("type") != kind:
            pass

    def say(self, prompt):
        """A prompt, to the end of its run."""
        self.ask("prompt", message=prompt)
        self.until("agent_settled")

    def order(self, command, *, ends=""):
        """A command of an extension's, to what it says in the end, which has `ends` in it; all that it says."""
        before = len(self.notes)
        self.send("prompt", message=command)
        while not any(ends in note for note in self.notes[before:]):
            self.next()
        return "\n".join(self.notes[before:])

    def state(self):
        return self.ask("get_state")

    def session(self):
        return self.state()["sessionId"]

    def prompts(self):
        """[(id, text)] of the prompts that /fork offers."""
        return [(one["entryId"], one["text"]) for one in self.ask("get_fork_messages")["messages"]]
