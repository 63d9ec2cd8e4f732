"""What a turn wrote before Esc is taken back, and what a person did after it is kept, in the real client."""

from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_model import bash
from support.picker_window import Window
from support.picture import differences, picture

pytestmark = [pytest.mark.xdist_group("client-cut-short"), *real_clients.at_times("after_escape")]

NOTE = b"[Request interrupted by user"
"""What the client writes into its transcript: until then its turn may still work."""
NAMED = "(2 paths):\n    one\n    repair.txt\n"
"""What a person wrote after Esc: the client's note has its time."""


def escape(start):
    """A turn; a file of a person; a turn that Esc ends in the middle of a tool; then a file and a line of a person."""
    client = start()
    client.casrewind("install", "claude", code=0)
    end = client.project.parent / "end"
    client.model.script = {
        "number one": [[bash("echo one > one; echo two > two")], ["Did one."]],
        "takes long": [["On it.", bash(f"echo half > half; timeout 60 sh -c 'while [ ! -e {end} ]; do sleep 0.1; done'")], ["Not reached."]],
    }
    terminal = client.terminal()
    terminal.say("number one")
    (client.project / "notes.txt").write_text("mine\n")
    terminal.type("this takes long")
    terminal.until(lambda: (client.project / "half").exists())
    terminal.wait_for("esc to interrupt")
    terminal.keys("Escape")
    terminal.wait_for("Interrupted")
    terminal.until(lambda: any(NOTE in file.read_bytes() for file in client.config.glob("projects/*/*.jsonl")))  # a moment later
    (client.project / "repair.txt").write_text("mine\n")
    with open(client.project / "one", "a") as file:
        file.write("mine\n")
    yield SimpleNamespace(client=client, terminal=terminal, before=picture(client.project))
    end.touch()


escaped = pytest.fixture(scope="module")(escape)
escaped_again = pytest.fixture(escape)


def differing(escaped):
    return sorted(differences(escaped.before, picture(escaped.client.project)))


@pytest.mark.parametrize("line", ["revert @1", "restore @1 --keep-edits", "back 1 --code --keep-edits"])
def test_a_command_names_it_in_its_plan_and_leaves_it(escaped, line):
    for option in ("--dry-run", "--yes"):
        done = escaped.client.casrewind(*line.split(), option, code=3)
        said = done.out + done.err
        assert "left alone, may be yours: casrewind did not see @1 end" in said and NAMED in said, (line, option)
        assert differing(escaped) == ([] if option == "--dry-run" else [b"half"])
    escaped.client.casrewind("undo", "--yes", code=0)
    assert differing(escaped) == []


@pytest.mark.parametrize("line", ["/casrewind revert @1", "/casrewind back --keep-edits"])
def test_the_client_names_it_and_leaves_it(escaped, line):
    said = escaped.terminal.ask(line)
    assert "left alone, may be yours: casrewind did not see @1 end" in said
    assert [name for name in ("one", "repair.txt") if f"\n      {name}\n" not in said] == [] and "- half" in said
    assert differing(escaped) == []


def test_the_picker_s_plan_names_it_and_takes_back_what_turns_wrote(escaped, tmp_path):
    """The last: what both turns made and nobody touched goes away, and comes back."""
    window = Window(escaped.client.casrewind, tmp_path / "window", (80, 40))
    try:
        window.shows("@2 number one")
        window.press("Down", "Down", "c")
        window.shows("5 REMOVED", "may contain your edits", "e keep my edits")
        window.press("e")
        window.shows("2 REMOVED", "- half", "- two", "kept, yours", "notes.txt", "left alone, may be yours: casrewind did not see @1 end", "repair.txt")
        assert differing(escaped) == []
        window.press("y")
        window.shows("Not all of it was done")
    finally:
        window.end()
    assert differing(escaped) == [b"half", b"two"]
    escaped.client.casrewind("undo", "--yes", code=0)
    assert differing(escaped) == []


def test_the_next_prompt_keeps_the_moment_for_later(escaped_again):
    client = escaped_again.client
    escaped_again.terminal.say("number one")
    for file in client.config.glob("projects/*/*.jsonl"):
        file.unlink()
    done = client.casrewind("revert", "@2", "--dry-run", code=3)
    assert "  - half\n" in done.out and "remove 1\n" in done.out and "    repair.txt\n" in done.err
