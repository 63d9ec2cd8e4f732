"""What a session was allowed does not go with its conversation: a fork in the real client starts as a new session there.

The session is made with everything allowed, as in a sandbox. Then the client's own settings become strict, as at home.
"""

import json
import subprocess

import pytest

from support import real_clients
from support.claude_client import wait
from support.codex_client import Server
from support.command_in_process import InProcess
from support.model_server import PATIENCE
from support.resumed_clients import Claude, Codex

pytestmark = pytest.mark.xdist_group("client-settings-stay")

KEY = "crk1-" + "5a" * 32


def two_turns(kind, directory):
    """A client whose session has two turns."""
    found = kind(directory)
    found.install()
    found.client.casrewind("save", code=0)  # the first one of a project would be left to another process
    session = found.say("please note it")
    found.say("and more", session)
    return found, session


def forks_of(found, session, elsewhere):
    """{way: (the client at that place, the session's id)} of each way in which the conversation goes on."""
    here = found.client.casrewind
    made = {"back --session": here.json("back", "1", "--chat", "--yes", "--session", session)["fork"]["session_id"]}
    point = [one for one in found.client.points() if one["trigger"] == "turn_end"][-1]
    made["restore --both"] = here.json("restore", point["id"], "--both", "--yes")["fork"]["session_id"]
    made["--to --both"] = here.json("restore", point["id"], "--to", str(elsewhere / "to"), "--both")["written"][0]["fork"]["session_id"]
    return made


def cloned(found, elsewhere, **environment):
    """The session at a second place, by a remote: (its InProcess, the session's id)."""
    url = f"file://{elsewhere}/remote"
    here = found.client.casrewind
    here("remote", "add", url, "--machine", "sandbox", code=0, CASREWIND_REMOTE_KEY=KEY)
    here("push", code=0)
    (elsewhere / "work").mkdir()
    there = InProcess(elsewhere / "work", elsewhere / "home", **environment)
    return there, there.json("clone", url, str(elsewhere / "work" / "shop"), CASREWIND_REMOTE_KEY=KEY)["resume"].split()[-1]


# -- Codex


@real_clients.further("codex")
def test_codex_asks_and_stays_in_its_sandbox_as_in_a_new_session(tmp_path_factory):
    found, session = two_turns(Codex, tmp_path_factory.mktemp("x"))
    client, elsewhere = found.client, tmp_path_factory.mktemp("e")
    made = forks_of(found, session, elsewhere)
    settings = client.config / "config.toml"
    strict = settings.read_text().replace('approval_policy = "never"', 'approval_policy = "on-request"')
    settings.write_text(strict.replace('sandbox_mode = "danger-full-access"', 'sandbox_mode = "read-only"'))

    def allowed(method, **params):
        with Server(client) as server:
            answer = server.ask(method, **params)
        return {name: answer[name] for name in ("approvalPolicy", "sandbox", "approvalsReviewer")}

    new = allowed("thread/start", cwd=str(client.project))
    assert new["approvalPolicy"] == "on-request" and new["sandbox"]["type"] == "readOnly"
    kept = allowed("thread/resume", threadId=session)
    assert kept["approvalPolicy"] == "never" and kept["sandbox"]["type"] == "dangerFullAccess", "its own session goes on as it was"
    for way, fork in made.items():
        assert allowed("thread/resume", threadId=fork) == new, way
    there, session = cloned(found, elsewhere)
    (path,) = (elsewhere / "home").rglob(f"rollout-*-{session}.jsonl")
    place = client.config / "sessions" / "2020" / "01" / "01" / path.name.replace(session, "00000000-0000-4000-8000-000000000001")
    place.parent.mkdir(parents=True)
    place.write_text(path.read_text().replace(session, "00000000-0000-4000-8000-000000000001"))
    assert allowed("thread/resume", threadId="00000000-0000-4000-8000-000000000001") == new, "clone"
    client.stop()


# -- Claude Code


@pytest.mark.skipif(real_clients.claude() is None, reason="Claude Code is not here")
def test_claude_starts_a_fork_in_the_mode_of_a_new_session(tmp_path_factory):
    found, session = two_turns(Claude, tmp_path_factory.mktemp("c"))
    client, elsewhere = found.client, tmp_path_factory.mktemp("e")
    path = client.transcript(session)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line |= {"permissionMode": "bypassPermissions"} if line["type"] == "user" else {}
    for mode in ("acceptEdits", "auto", "bypassPermissions"):
        lines.append({"type": "permission-mode", "permissionMode": mode, "sessionId": session})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = forks_of(found, session, elsewhere)
    for fork in made.values():  # now: a client that goes on notes its own mode
        (file,) = client.config.glob(f"projects/*/{fork}.jsonl")
        assert '"permission' not in file.read_text() and "please note it" in file.read_text()

    def mode_of(session=None, cwd=client.project):
        resumed = ["--resume", session] if session else []
        ran = subprocess.run(
            [*client.command, "-p", "--output-format", "stream-json", "--verbose", *resumed, "--", "hello"], cwd=cwd, env=client.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        said = [json.loads(line) for line in ran.stdout.splitlines()]
        return next(one["permissionMode"] for one in said if one.get("subtype") == "init")

    new = mode_of()
    places = {"--to --both": elsewhere / "to"}
    assert {way: mode_of(fork, places.get(way, client.project)) for way, fork in made.items()} == dict.fromkeys(made, new)
    there, session = cloned(found, elsewhere)
    (file,) = (elsewhere / "home").rglob(f"{session}.jsonl")
    assert "permissionMode" not in file.read_text() and "please note it" in file.read_text()
    wait(lambda: not client.model.strangers)
    client.stop()
