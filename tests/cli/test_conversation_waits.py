"""A restore of files of another machine says that its conversation is there, and how to get it."""

import json

from casrewind.remote import remote_config
from support.command_in_process import InProcess
from support.fake_client import Client
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)


def test_a_restore_of_files_says_that_the_conversation_waits_and_how_it_comes(root, home, tmp_path):
    url = f"file://{tmp_path}/bucket"
    sandbox = InProcess(root, home, CASREWIND_REMOTE_KEY=KEY)
    plant(root, {"app.py": b"one\n"})
    client = Client(sandbox, root)
    client.send(client.payload("UserPromptSubmit.prompt"))
    plant(root, {"app.py": b"two\n"})
    client.send(client.payload("Stop.plain"))
    sandbox("remote", "add", url, "--machine", "sandbox-4", code=0)
    sandbox("push", code=0)
    there = tmp_path / "laptop"
    there.mkdir()
    laptop = InProcess(there, tmp_path / "other", CASREWIND_REMOTE_KEY=KEY)
    laptop("remote", "add", url, "--machine", "laptop", code=0)
    laptop("pull", code=0)
    line = "casrewind restore sandbox-4:last --both also brings the conversation of sandbox-4\n"
    assert laptop("restore", "sandbox-4:last", "-n", code=0).out.endswith(line)
    assert laptop("restore", "sandbox-4:last", "--yes", code=0).out.endswith(line)
    assert "the conversation of" not in laptop("restore", "sandbox-4:last", "--yes", "--", "app.py", code=0).out
    json.loads(laptop("restore", "sandbox-4:last", "--yes", "--json", code=0).out)
