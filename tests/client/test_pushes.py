"""Claude Code with automatic push on: the client ends while the server hangs, and what it did is on another machine after that."""

import pytest

from casrewind.remote import remote_config
from support import real_clients
from support.claude_client import wait
from support.claude_model import bash
from support.command_in_process import InProcess
from support.held_proxy import HeldProxy
from support.picture import differences, picture
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-pushes"), *real_clients.at_times("pushes")]

KEY = remote_config.key_as_text(b"k" * 32)


def test_two_turns_are_pushed_and_none_waits_for_the_server(start, s3, tmp_path):
    client, url = start(), s3.bucket()
    client.casrewind.environment |= {**s3.variables, "CASREWIND_REMOTE_KEY": KEY}
    plant(client.casrewind.home, {".config/casrewind/config.toml": b"[remote]\nfrom_environment = true\n"})
    client.casrewind("install", "claude", code=0)
    client.casrewind("save", code=0)  # the first one of a project would be left to another process
    client.casrewind("remote", "add", url, "--machine", "sandbox-4", code=0)
    client.model.script = {
        "note it": [[bash("echo one > note.txt")], ["Noted."]], "and more": [[bash("echo two >> note.txt")], ["More."]],
    }  # fmt: skip
    with HeldProxy(s3.endpoint, client.model.network) as proxy:
        client.environment |= {
            **s3.variables, "AWS_ENDPOINT_URL": proxy.endpoint, "CASREWIND_REMOTE_KEY": KEY, "CASREWIND_REMOTE_PUSH": "turns",
            "CASREWIND_REMOTE_INTERVAL": "0s",
        }  # fmt: skip
        session = client.say("please note it")["session_id"]
        proxy.wait_for_client()
        assert client.say("and more", "--resume", session)["result"] == "More."
        assert client.casrewind.json("status")["remote"]["pushed_at"] is None, "nothing was answered yet"
        client.wait_for_more(8)  # four of each turn, and the first one
        proxy.open()
        wait(lambda: client.casrewind.json("status")["remote"]["not_pushed"], lambda number: number == 0)
    other = InProcess(tmp_path, tmp_path / "home", **s3.variables, CASREWIND_REMOTE_KEY=KEY)
    found = other.json("clone", url, "copy", "--all")
    assert differences(picture(client.project), picture(tmp_path / "copy")) == {}
    assert found["resume"] == f"claude --resume {session}" and found["problems"] == []
    assert other("-C", str(tmp_path / "copy"), "list", code=0).out.count("and more") == 1
