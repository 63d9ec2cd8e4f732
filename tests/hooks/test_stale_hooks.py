"""Hooks whose files are gone: every command that a person types in a terminal names them, and how to mend them."""

from pathlib import Path

from support.fake_client import Client
from support.terminal import Session, with_patience
from support.trees import plant


def shown(casrewind, *words):
    session = Session(with_patience(casrewind, 3600, "--no-pager", *words), casrewind.environment, size=(24, 300))
    return session.end()[1].decode()


def test_commands_on_a_terminal_name_hooks_that_no_longer_run(casrewind, root):
    plant(root, {"f": b"1"})
    casrewind("install", "claude", code=0)
    client = Client(casrewind, root)
    client.send(client.payload("UserPromptSubmit.prompt"))
    client.wait_for(1)
    assert "NOT PROTECTED" not in shown(casrewind, "list")
    settings = Path(casrewind.home) / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace("/__main__.py", "/gone/__main__.py"))
    for words in (("list",), ("diff",), ("save",)):
        assert "NOT PROTECTED: the hooks in" in shown(casrewind, *words) and "casrewind install claude" in shown(casrewind, *words)
    assert "NOT PROTECTED" not in casrewind("list", code=0).err, "a script is told by status and doctor"
