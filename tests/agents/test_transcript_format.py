"""A transcript of an unknown format: it is told from every recorded one, `doctor` names it, and `back` writes no fork of it."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind import agents
from casrewind.agents import hook_trial, session_format
from support import opencode_database
from support.picture import differences, picture
from support.trees import plant

DATA = Path(__file__).parent / "data"
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


def put(value, path, new):
    """A copy of a value with another member."""
    return {**value, path[0]: put(value[path[0]], path[1:], new) if len(path) > 1 else new}


def named(found, path):
    for key in path:
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found


def later_version(agent):
    """The recording, with a later version of its format."""
    client = agents.load_conversation_client(agent)
    first, *rest = rows(agent)
    return [put(first, client.sessions.version_path, "2.0.1" if agent == "opencode" else client.sessions.version + 1), *rest]


def other_kinds(agent):
    """The recording, with other names for what a person and the model said."""
    paths = {"claude": ("type",), "droid": ("message", "role"), "pi": ("message", "role"), "codex": ("type",), "gemini": ("type",),
             "copilot": ("type",), "opencode": ("info", "role")}  # fmt: skip
    path = paths[agent]
    said = {"user", "assistant", "response_item", "gemini", "user.message", "assistant.message"}
    found = [put(row, path, "v2-" + name) if isinstance(name := named(row, path), str) and name in said else row for row in rows(agent)]
    return [{**row, "$set": {}} if agent == "gemini" and "messages" in named(row, ("$set",)) else row for row in found]


def other_header(agent):
    """The recording, with another name for the session's id in its first line."""
    first, *rest = rows(agent)
    header = agents.load_conversation_client(agent).sessions.header
    return [put(first, header, {"v2": named(first, header)}), *rest]


def other_answers(agent):
    """The recording, with another name for what the model said."""
    return [{**row, "type": "answer"} if row.get("type") == "assistant" else row for row in rows(agent)]


CHANGES = [
    *((agent, other_kinds) for agent in RECORDED),
    *((agent, other_header) for agent in RECORDED if agent not in ("claude", "opencode")),
    *((agent, later_version) for agent in ("droid", "pi", "copilot", "opencode")),
    ("claude", other_answers),
]


class Session:
    """A session of a client in a project: its transcript is where the client keeps it, and its hooks are called."""

    def __init__(self, agent, casrewind, root):
        self.agent, self.casrewind, self.root = agent, casrewind, root
        self.client = agents.load_conversation_client(agent)
        first = rows(agent)[0]
        self.id = named(first, self.client.sessions.header or ("sessionId",))
        self.directory = Path(self.client.find_sessions(casrewind.home, {}))
        self.path = self.directory / NAMES[agent].format(session=self.id, short=self.id[:8])

    def write(self, found):
        if self.agent == "opencode":
            self.directory.mkdir(parents=True, exist_ok=True)
            (self.directory / "opencode.db").unlink(missing_ok=True)
            opencode_database.write(self.directory, DATA, found)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found))

    def event(self, trigger):
        name = next(name for name, own in self.client.events.triggers.items() if own == trigger)
        payload = hook_trial.payload(self.client, name, self.id, str(self.root), str(self.path))
        arguments = [word for word in (self.agent, self.client.argument_for(name)) if word]
        done = subprocess.run(
            [sys.executable, "-m", "casrewind", "hook", *arguments], input=payload, capture_output=True, cwd="/", timeout=60,
            env={**self.casrewind.environment, **dict.fromkeys(self.client.events.root_variables, str(self.root))},
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def files(self):
        return sorted(path for path in self.directory.rglob("*") if path.is_file())


def test_every_client_whose_transcripts_are_read_is_in_the_tables():
    read = {client.name for client in agents.load_conversation_clients()}
    assert set(RECORDED) == set(NAMES) == read == {agent for agent, change in CHANGES if change is other_kinds}


@pytest.mark.parametrize("path", sorted(path for agent in RECORDED for path in (DATA / agent).glob("*.jsonl")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recorded_transcript_has_a_known_format(path):
    if not path.stem.startswith("subagent"):
        assert session_format.find_problem(agents.load_conversation_client(path.parent.name), path.read_bytes()) == ""


@pytest.mark.parametrize("agent, change", CHANGES, ids=lambda value: getattr(value, "__name__", value))
def test_files_are_saved_doctor_says_it_and_back_writes_nothing(agent, change, casrewind, root):
    plant(root, {"f": b"at first"})
    session = Session(agent, casrewind, root)
    session.write(change(agent))
    casrewind("save", code=0)
    session.event("session_start")
    session.event("prompt")
    before = picture(root)
    plant(root, {"f": b"wrecked"})
    session.event("turn_end")
    kept = {path: path.read_bytes() for path in session.files()}
    report = casrewind("doctor", agent, "--json", code=16).json["agents"][agent]
    (said,) = [problem for problem in report["problems"] if "files are still saved and restored" in problem]
    assert "conversations of" in said and "may not go back" in said
    for words in (["1", "--chat"], ["1", "--yes"]):
        refused = casrewind("back", *words, code=16)
        assert "casrewind restore REF" in refused.err and "nothing was changed" in refused.err
        assert (root / "f").read_bytes() == b"wrecked" and {path: path.read_bytes() for path in session.files()} == kept
    point = [point for point in casrewind.json("list", "--all")["checkpoints"] if point["agent"] == agent][-1]
    assert "nothing was changed" in casrewind("restore", point["id"], "--chat", code=16).err
    assert {path: path.read_bytes() for path in session.files()} == kept
    casrewind("restore", point["id"], "--yes", code=0)
    assert differences(picture(root), before) == {}


def test_a_database_with_other_tables_is_of_an_unknown_format(casrewind, root):
    plant(root, {"f": b"at first"})
    session = Session("opencode", casrewind, root)
    session.write(rows("opencode"))
    casrewind("save", code=0)
    session.event("prompt")
    with sqlite3.connect(session.directory / "opencode.db") as database:
        database.execute("alter table session rename to session_v2")
    (said,) = casrewind("doctor", "opencode", "--json", code=16).json["agents"]["opencode"]["problems"]
    assert "opencode.db cannot be read" in said and "files are still saved and restored" in said
    assert "cannot be read" in casrewind("back", "1", "--chat", code=16).err


@pytest.mark.parametrize("agent", RECORDED)
def test_of_a_known_format_nothing_is_said(agent, casrewind, root):
    plant(root, {"f": b"at first"})
    session = Session(agent, casrewind, root)
    session.write(rows(agent))
    casrewind("save", code=0)
    session.event("prompt")
    session.event("turn_end")
    assert "files are still saved" not in str(casrewind("doctor", agent, "--json").json["agents"][agent]["problems"])


@pytest.mark.parametrize("agent", RECORDED)
def test_unknown_lines_among_known_ones_are_no_problem(agent):
    first, *rest = rows(agent)
    found = [first, {"type": "news", "uuid": "u", "message": {"role": "news"}}, *rest, {"type": "more"}]
    data = "".join(json.dumps(row) + "\n" for row in found).encode() + b"\0\0\n{torn"
    assert session_format.find_problem(agents.load_conversation_client(agent), data) == ""


@pytest.mark.parametrize("version", ["4", 4, 10**30, "next", -1, True, 3.5, [3], {}, ""])
def test_only_a_version_that_is_a_number_up_to_the_known_one_is_known(version):
    first, *rest = rows("pi")
    data = "".join(json.dumps(row) + "\n" for row in [{**first, "version": version}, *rest]).encode()
    assert "of Pi's format" in session_format.find_problem(agents.load_conversation_client("pi"), data)
