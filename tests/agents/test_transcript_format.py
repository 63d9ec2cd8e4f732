"""A transcript of an unknown format: it is told from every recorded one, `doctor` names it, and `back` writes no fork of it."""

import json
import sqlite3

import pytest

from casrewind import agents
from casrewind.agents import session_format
from support.picture import differences, picture
from support.recorded_session import DATA, NAMES, RECORDED, Session, named, rows
from support.sample_start import by_turns
from support.trees import plant

def put(value, path, new):
    """A copy of a value with another member."""
    return {**value, path[0]: put(value[path[0]], path[1:], new) if len(path) > 1 else new}


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


def test_every_client_whose_transcripts_are_read_is_in_the_tables():
    read = {client.name for client in agents.load_conversation_clients()}
    assert set(RECORDED) == set(NAMES) == read == {agent for agent, change in CHANGES if change is other_kinds}


@pytest.mark.parametrize("path", sorted(path for agent in RECORDED for path in (DATA / agent).glob("*.jsonl")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recorded_transcript_has_a_known_format(path):
    if not path.stem.startswith("subagent"):
        assert session_format.find_problem(agents.load_conversation_client(path.parent.name), path.read_bytes()) == ""


@pytest.mark.parametrize("agent, change", by_turns(CHANGES, 6), ids=lambda value: getattr(value, "__name__", value))
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
    for words, hint in ((["1", "--chat"], "casrewind restore REF"), (["1", "--yes"], "casrewind back 1 --code")):
        refused = casrewind("back", *words, code=16)
        assert hint in refused.err and "nothing was changed" in refused.err
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
