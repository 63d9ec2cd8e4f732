"""A stand-in for a coding agent's client, as far as a hook can see it."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import forked_command

DATA = Path(__file__).parent.parent / "agents" / "data"


def line_to_type(answer):
    """The line with which a person agrees to the plan in an answer, or None."""
    found = re.search(r"[Tt]o go ahead, type:\s+(/\S*casrewind (?:\S.* yes [0-9a-z]{1,4}-[0-9a-f]{4}|yes))$", answer, re.M)
    return found and found[1]


def unfolded(text):
    """A text in which no line is folded: what continues one is indented by four more."""
    found, indent = [], 0
    for line in text.splitlines():
        own = len(line) - len(line.lstrip())
        if found and own == indent + 4 and not found[-1].endswith(":"):
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
            indent = own
    return "\n".join(found)


class Client:
    """A stand-in for Claude Code as far as a hook can see it: its environment, its payloads, its transcript."""

    forks = True
    """Whether a hook is a fork of a process that has imported casrewind (support/forked_command.py)."""

    def __init__(self, casrewind, root):
        self.casrewind, self.root = casrewind, root
        directory = Path(casrewind.home) / ".claude" / "projects" / "-project"
        directory.mkdir(parents=True, exist_ok=True)
        recorded = DATA / "claude" / "interactive_3turn.jsonl"
        session = json.loads(recorded.read_bytes().splitlines()[0])["sessionId"]
        self.transcript = directory / f"{session}.jsonl"  # as the client names it
        shutil.copy(recorded, self.transcript)

    def payload(self, name, **changes):
        found = json.loads((DATA / "claude_hooks" / f"{name}.json").read_text())["stdin"]
        return json.dumps(found | {"transcript_path": str(self.transcript), "cwd": str(self.root)} | changes).encode()

    def prompt(self, session, prompt, **variables):
        """The prompt hook, as the client calls it for a prompt of a transcript."""
        words = {"session_id": session, "prompt": prompt.text, "prompt_id": prompt.prompt_id}
        self.send(self.payload("UserPromptSubmit.prompt", **words), **variables)

    def send(self, payload, *arguments, **variables):
        """Call the hook; nothing may be printed, and the exit code is 0."""
        done = self.call(payload, *arguments, **variables)
        assert done == (0, b"", b""), done

    def call(self, payload, *arguments, starts_forks=False, **variables):
        """Call the hook. `starts_forks`: a command that it runs is a fork, too."""
        words = ["hook", *(arguments or ["claude"])]
        environment = {**self.casrewind.environment, "CLAUDE_PROJECT_DIR": str(self.root), **variables}
        if self.forks:
            return forked_command.call(words, environment, stdin=payload, cwd="/", timeout=60, forks=starts_forks)
        done = subprocess.run([sys.executable, "-m", "casrewind", *words], input=payload, capture_output=True, env=environment, cwd="/", timeout=60)
        return done.returncode, done.stdout, done.stderr

    def typed(self, command, *, agree=True, variables=None, **changes):
        """What a person sees who types a command in the client, and who types the line that a plan says, if `agree`."""
        payload = self.payload("UserPromptSubmit.slash-command", prompt=command, **changes)
        code, out, err = self.call(payload, starts_forks=True, **(variables or {}))
        assert (code, err) == (0, b"")
        answer = json.loads(out)
        assert answer["decision"] == "block"
        line = line_to_type(answer["reason"])
        if not (agree and line):
            return answer["reason"]
        return self.typed(line, agree=False, variables=variables, **changes)

    def points(self):
        found = self.casrewind("list", "--json")
        return found.json["checkpoints"] if found.code == 0 else []

    def wait_for(self, count):
        """A child in a session of its own makes the first checkpoint: nobody waits for it but this."""
        end = time.monotonic() + 300
        while len(self.points()) < count and time.monotonic() < end:
            time.sleep(0.05)
        assert len(self.points()) == count
        return self.points()

    def told_or_made(self, count, *words):
        """After an event that something stood in the way of: True if the log says so, in one line with these words. False if
        there are `count` checkpoints: on a busy machine, a hook leaves its event to a process that waits longer."""
        end = time.monotonic() + 60
        while not (said := self.casrewind("list", code=0).err) and len(self.points()) < count and time.monotonic() < end:
            time.sleep(0.05)
        assert len(self.points()) == (count - 1 if said else count), said
        assert not said or (said.count("\n") == 1 and all(word in said for word in words)), said
        return bool(said)
