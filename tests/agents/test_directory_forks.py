"""`restore --to --both`: a fork of the conversation for each new directory, where its client looks for it, in the client's own format."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from casrewind.agents import session_files
from casrewind.agents.transcript import is_session_id
from casrewind.workspace import open as opened
from support import known_clients
from support.agent_turns import AgentTurns
from support.command import Command
from support.other_machine import bring, settings_of, take_away
from support.recorded_session import RECORDED, Session, rows
from support.trees import plant

STORED = [agent for agent in RECORDED if agent != "opencode"]
NAMED = [agent for agent in STORED if known_clients.CONVERSATIONS[agent].says_root or agent == "claude"]
"""Clients whose transcripts say where the session runs."""


@pytest.fixture
def work(root, casrewind):
    """Plays a recorded session of a client in the project: two checkpoints of its last turn, and the session."""

    def make(agent, below=""):
        session = Session(agent, casrewind, root)
        found = json.loads(json.dumps(rows(agent)).replace("/home/dev/proj", f"{os.path.realpath(root)}{below}"))
        session.write(found)
        plant(root, {"f": b"1", "sub/g": b"2"})
        casrewind("save", code=0)
        whole, asked = session.read(), session.client.prompts(session.read())[-1]
        named = {
            "opencode": {"turn_id": asked.message_id}, "claude": {"prompt_id": asked.prompt_id},
            "pi": {"leaf_id": asked.uuid, "prompt_id": asked.uuid},
        }  # fmt: skip
        turn = named.get(agent, {})
        if agent != "opencode":
            session.path.write_bytes(session.client.cut_before_prompt(whole, asked))
        session.event("prompt", prompt=asked.text, **turn)
        plant(root, {"f": b"after"})
        if agent != "opencode":
            session.path.write_bytes(whole)
        session.event("turn_end", **turn)
        return session

    return make


def texts(session, path):
    return [one.text for one in session.client.prompts(Path(path).read_bytes())]


@pytest.mark.parametrize("agent", STORED)
def test_each_directory_has_a_fork_where_the_client_looks_for_it(agent, work, casrewind, root, tmp_path):
    session = work(agent)
    before, files = session.read(), session.files()
    made = [tmp_path / "try1", tmp_path / "it's 2"]
    report = casrewind.json("restore", "@1", *(word for place in made for word in ("--to", str(place))), "--both")
    prompts = texts(session, session.path)
    assert (report["agent"], report["session"], report["prompts"]) == (agent, session.id, prompts[-1:]) and report["notes"] == []
    ids = set()
    for row, place in zip(report["written"], made, strict=True):
        fork = row["fork"]
        assert row["directory"] == str(place) and (place / "f").read_bytes() == b"1"
        assert re.fullmatch(known_clients.place(agent, fork["session_id"], place), os.path.relpath(fork["path"], casrewind.home)), fork["path"]
        assert texts(session, fork["path"]) == prompts[:-1] and is_session_id(fork["session_id"])
        assert (fork["mode"], fork["backup"], os.stat(fork["path"]).st_mode & 0o777) == ("fork", None, 0o600)
        known = known_clients.CONVERSATIONS[agent]
        assert fork["resume"] == (known.resume_there or known.resume).format(fork["session_id"])
        assert fork["command"] == f"cd {shlex.quote(str(place))} && {fork['resume']}"
        ids.add(fork["session_id"])
    assert len(ids | {session.id}) == 3 and session.read() == before and set(files) < set(session.files())
    assert (root / "f").read_bytes() == b"after"


@pytest.mark.parametrize("agent", STORED)
def test_what_the_model_is_told_stays_and_where_it_runs_is_the_directory(agent, work, casrewind, tmp_path):
    session = work(agent, "/sub" if agent == "claude" else "")
    old = session.read()
    fork = casrewind.json("restore", "@1", "--to", str(tmp_path / "try1"), "--both")["written"][0]["fork"]
    known = [json.loads(line) for line in old.splitlines()]
    lines = [json.loads(line) for line in Path(fork["path"]).read_bytes().splitlines() if line.strip()]
    places = {line["cwd"] for line in lines if "cwd" in line}
    assert places == ({str(tmp_path / "try1") + ("/sub" if agent == "claude" else "")} if agent in NAMED else set())
    for line in lines:
        known_line = next((one for one in known if one.get("uuid", one.get("id", one)) == line.get("uuid", line.get("id", line))), None)
        if agent == "claude" and known_line is not None:
            known_line = {name: one for name, one in known_line.items() if name not in ("permissionMode", "permissionDecision", "sandboxed")}
            assert {**line, "cwd": 0} == {**known_line, "cwd": 0}
    if agent == "copilot":
        assert f'cwd: "{tmp_path}/try1"' in Path(fork["path"]).with_name("workspace.yaml").read_text().splitlines()
    if agent == "gemini":
        assert (Path(fork["path"]).parent.parent / ".project_root").read_text() == str(tmp_path / "try1")


@pytest.mark.parametrize("agent", STORED)
def test_in_a_project_that_moved_a_fork_lies_where_the_client_looks_for_it(agent, work, casrewind, root):
    """Clients that run a session where it says look for its file there, too. The others find it by its id, beside the original."""
    session, moved = work(agent), root.with_name("moved")
    root.rename(moved)
    casrewind.root = str(moved)
    fork = casrewind.json("restore", "@1", "--chat")["fork"]
    if known_clients.CONVERSATIONS[agent].says_root:
        assert re.fullmatch(known_clients.place(agent, fork["session_id"], moved), os.path.relpath(fork["path"], casrewind.home)), fork["path"]
        assert json.loads(Path(fork["path"]).read_bytes().splitlines()[0])["cwd"] == str(moved)
    else:
        assert session.path.parent in (Path(fork["path"]).parent, session.directory / session.id)
    assert texts(session, fork["path"]) == texts(session, session.path)[:-1]


def test_the_fork_belongs_to_the_directory_and_not_to_the_project(work, casrewind, root, tmp_path):
    """The names of both directories of sessions begin alike."""
    session = work("claude")
    place = Path(f"{root}-try1")
    fork = casrewind.json("restore", "@1", "--to", str(place), "--both")["written"][0]["fork"]
    homes = session_files.Homes(casrewind.home, {})
    assert session_files.find_newest_transcript(homes, str(place)).session == fork["session_id"]
    found = session_files.find_newest_transcript(homes, str(root))
    assert found is None or found.session == session.id


def test_two_directories_of_one_name_do_not_share_gemini_s_directory(work, casrewind, tmp_path):
    work("gemini")
    report = casrewind.json("restore", "@1", "--to", str(tmp_path / "a/try"), "--to", str(tmp_path / "b/try"), "--both")
    roots = [(Path(row["fork"]["path"]).parent.parent / ".project_root").read_text() for row in report["written"]]
    assert roots == [str(tmp_path / "a/try"), str(tmp_path / "b/try")]


def test_the_lines_say_how_to_go_on_in_each_directory(work, casrewind, tmp_path):
    work("claude")
    done = casrewind("restore", "@1", "--to", "../try1", "--to", "../try 2", "--both", code=0)
    lines = done.out.splitlines()
    assert [line.split(" in ")[0] for line in lines[:2]] == ["wrote 2 files to ../try1", "wrote 2 files to ../try 2"]
    assert lines[2].startswith('  restored to before "')
    for line, name in zip(lines[3:5], ("try1", "try 2"), strict=True):
        quoted = shlex.quote(os.path.normpath(os.path.join(casrewind.root, "..", name)))
        assert re.fullmatch(f"forked: cd {re.escape(quoted)} && claude --resume [-0-9a-f]{{36}}", line)
    assert lines[5].startswith("  taken back: ") and len(lines) == 6


def test_a_dry_run_names_it_and_writes_nothing(work, casrewind, tmp_path):
    session = work("claude")
    files = session.files()
    done = casrewind("restore", "@1", "--to", "../try1", "--to", "../try2", "--both", "-n", code=0)
    assert done.out.splitlines()[:2] == ["would write 2 files to ../try1", "would write 2 files to ../try2"]
    assert f"would fork the conversation claude {session.id[:8]} for " in done.out and "forked:" not in done.out
    report = casrewind.json("restore", "@1", "--to", "../try1", "--both", "-n")
    assert report["dry_run"] and [row["fork"] for row in report["written"]] == [None] and report["written"][0]["files"] == 2
    assert session.files() == files and not (tmp_path / "try1").exists()
    assert casrewind("restore", "@1", "--to", "../try1", "--dry-run", code=0).out.startswith(
        'would write 2 files to ../try1\n  would be restored to before "'
    )
    (tmp_path / "try1").mkdir()
    (tmp_path / "try1/full").touch()
    assert "not empty" in casrewind("restore", "@1", "--to", "../try1", "--both", "-n", code=14).err


def test_without_a_conversation_it_is_16_and_the_files_are_there(work, casrewind, tmp_path):
    session = work("claude")
    casrewind("save", "-m", "by hand", code=0)
    files = session.files()
    failed = casrewind("restore", "by hand", "--to", "../try1", "--to", "../try2", "--both", code=16)
    assert failed.err.startswith("casrewind: the files are in ../try1 and ../try2, but not the conversation: ")
    assert "belongs to no conversation" in failed.err and failed.err.endswith("; start a new session there\n") and failed.err.count("\n") == 1
    assert (tmp_path / "try1/f").read_bytes() == (tmp_path / "try2/f").read_bytes() == b"after" and session.files() == files
    failed = casrewind("restore", "by hand", "--to", "../try3", "--both", "-n", code=16)
    assert "the files would be in ../try3, but not the conversation" in failed.err and not (tmp_path / "try3").exists()


def test_a_client_without_conversations_is_16(casrewind, root, tmp_path):
    """A checkpoint of Cursor's hooks: casrewind knows no conversations of it."""
    plant(root, {"f": b"1"})
    with opened(root, settings_of(casrewind)) as workspace:
        agent = AgentTurns(workspace, root, agent="cursor")
        agent.prompt("p", "try it")
        agent.stop("p")
    failed = casrewind("restore", "@1", "--to", "../try1", "--both", code=16)
    assert "the files are in ../try1, but not the conversation: the conversations of Cursor are not known" in failed.err
    assert (tmp_path / "try1/f").read_bytes() == b"1"


def test_opencode_itself_has_to_write_its_session(work, casrewind, tmp_path):
    work("opencode")
    casrewind.environment["PATH"] = "/nowhere"
    failed = casrewind("restore", "@1", "--to", "../try1", "--both", code=16)
    assert "the files are in ../try1" in failed.err and "opencode is not on the PATH" in failed.err and (tmp_path / "try1/f").exists()


def test_a_fork_that_cannot_be_written_names_the_ones_that_are(work, casrewind, tmp_path):
    session = work("claude")
    (session.directory / re.sub("[^A-Za-z0-9]", "-", str(tmp_path / "try2"))).write_text("in the way")
    failed = casrewind("restore", "@1", *("--to", "../try1", "--to", "../try2", "--both"), code=16)
    assert re.search(r"; forked: \S*try1: claude --resume [-0-9a-f]{36}; start a new session there$", failed.err), failed.err
    assert (tmp_path / "try1/f").exists() and (tmp_path / "try2/f").exists()


def test_before_the_first_prompt_there_is_nothing_to_fork(casrewind, root, tmp_path):
    session = Session("claude", casrewind, root)
    session.write(rows("claude"))
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    first = session.client.prompts(session.read())[0]
    session.event("prompt", prompt=first.text, prompt_id=first.prompt_id)
    files = session.files()
    done = casrewind("restore", "@1", "--to", "../try1", "--both", code=0)
    assert "there is nothing before that: start a new session there\n" in done.out and "forked" not in done.out
    assert casrewind.json("restore", "@1", "--to", "../try2", "--both")["written"][0]["fork"] is None and session.files() == files


def test_the_conversation_of_another_machine_is_forked_too(work, casrewind, tmp_path):
    session = work("claude")
    store, old = take_away(casrewind, tmp_path / "sent"), session.read()
    places = tmp_path / "b" / "work", tmp_path / "b" / "home"
    for place in places:
        place.mkdir(parents=True)
    here = Command(*places)
    here("save", code=0)
    point = bring(store, here, machine="sandbox-4")[-1]
    fork = here.json("restore", point.id, "--to", str(tmp_path / "b/try1"), "--both")["written"][0]["fork"]
    assert fork["session_id"] != session.id and texts(session, fork["path"]) == [one.text for one in session.client.prompts(old)]
    assert {json.loads(line).get("cwd") for line in Path(fork["path"]).read_bytes().splitlines()} - {None} == {str(tmp_path / "b/try1")}


@pytest.mark.parametrize("words", [["--chat"], ["--both", "--keep-edits"], ["--both", "--", "f"]])
def test_what_does_not_go_together_is_a_usage_error(work, words, casrewind, tmp_path):
    work("claude")
    assert "--to" in casrewind("restore", "@1", "--to", "../try1", *words, code=64).err and not (tmp_path / "try1").exists()
