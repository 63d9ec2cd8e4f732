"""A recorded session of each client whose conversations casrewind reads, put where the client keeps it, with hooks that are called."""

import json
import subprocess
import sys
from pathlib import Path

from casrewind import agents
from casrewind.agents import trial_event
from support import opencode_database

DATA = Path(__file__).parent.parent / "agents" / "data"
RECORDED = {
    "claude": "claude/interactive_3turn", "droid": "droid/session_3turn", "pi": "pi/three-turns", "codex": "codex/three_turns",
    "gemini": "gemini/three_turns", "copilot": "copilot/events", "opencode": "opencode/session",
}  # fmt: skip
NAMES = {  # below the client's directory of sessions
    "claude": "-project/{session}.jsonl", "droid": "-project/{session}.jsonl", "pi": "--project--/2026-11-22T03-55-44-398Z_{session}.jsonl",
    "codex": "2026/11/20/rollout-2026-11-20T23-27-30-{session}.jsonl", "gemini": "project/chats/session-2026-11-20T23-32-{short}.jsonl",
    "copilot": "{session}/events.jsonl", "opencode": "opencode.db.sessions/{session}.jsonl",
}  # fmt: skip


def rows(agent):
    return [json.loads(line) for line in (DATA / f"{RECORDED[agent]}.jsonl").read_text().splitlines()]


def named(found, path):
    for key in path:
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found


class Session:
    """A session of a client in a project: its transcript is where the client keeps it, and its hooks are called."""

    def __init__(self, agent, casrewind, root):
        self.agent, self.casrewind, self.root = agent, casrewind, root
        self.client = agents.load_conversation_client(agent)
        first = rows(agent)[0]
        self.id = named(first, self.client.sessions.header or ("sessionId",))
        self.directory = Path(self.client.usual_sessions_directory(casrewind.home, {}))
        self.path = self.directory / NAMES[agent].format(session=self.id, short=self.id[:8])

    def write(self, found):
        if self.agent == "opencode":
            self.directory.mkdir(parents=True, exist_ok=True)
            (self.directory / "opencode.db").unlink(missing_ok=True)
            opencode_database.write(self.directory, DATA, found)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found))

    def read(self):
        found = self.client.read_stored_transcript(str(self.path))
        return self.path.read_bytes() if found is None else found

    def event(self, trigger, **fields):
        """Call the hook of an event, with other values for some fields of its payload."""
        name = next(name for name, own in self.client.events.triggers.items() if own == trigger)
        payload = trial_event.trial_payload(self.client, name, self.id, str(self.root), str(self.path))
        payload = json.dumps(json.loads(payload) | fields).encode() if fields else payload
        arguments = [word for word in (self.agent, self.client.event_argument(name)) if word]
        done = subprocess.run(
            [sys.executable, "-m", "casrewind", "hook", *arguments], input=payload, capture_output=True, cwd="/", timeout=60,
            env={**self.casrewind.environment, **dict.fromkeys(self.client.events.root_variables, str(self.root))},
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def files(self):
        return sorted(path for path in self.directory.rglob("*") if path.is_file())
