"""A client and a conversation that it told of by its hooks."""

import json
import subprocess

import pytest

from casrewind.agents.claude import CLIENT as claude
from support.fake_client import Client
from support.picture import picture
from support.trees import plant


@pytest.fixture
def told(casrewind, root):
    """A conversation of three prompts, each with a checkpoint of other files; (client, prompts, pictures)."""
    client = Client(casrewind, root)
    whole = client.transcript.read_bytes()
    prompts = claude.prompts(whole)
    session = json.loads(whole.splitlines()[0]).get("sessionId") or "s"
    pictures = []
    for number, prompt in enumerate(prompts):
        plant(root, {"f": b"before prompt %d" % number, f"only{number}": b"x"})
        pictures.append(picture(root))
        client.transcript.write_bytes(whole[: prompt.start])  # as the hook finds it: the prompt is not written yet
        client.prompt(session, prompt)
        client.wait_for(2 * number + 1)
        client.transcript.write_bytes(whole)
        client.send(client.payload("Stop.plain", session_id=session))
        assert client.points()[0]["trigger"] == "turn_end"
    plant(root, {"f": b"wrecked"})
    return client, prompts, pictures


@pytest.fixture
def ended(told):
    """The same, and the client that told all that has ended."""
    client = told[0]
    process = subprocess.Popen(["sleep", "600"])
    try:
        session = json.loads(client.transcript.read_bytes().splitlines()[0])["sessionId"]
        client.send(client.payload("SessionEnd.other", session_id=session), CLAUDE_PID=str(process.pid))
    finally:
        process.kill()
        process.wait()
    return told
