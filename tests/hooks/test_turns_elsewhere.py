"""Going back in a conversation that goes on in another directory: it is refused, and the command that goes there is named."""

from pathlib import Path

import pytest

from casrewind import errors
from casrewind.agents.client import dashed_project_name
from casrewind.workspace import Workspace
from support.command_in_process import InProcess
from support.fake_client import Client
from support.git_repository import add_worktree, make_repository
from support.picture import differences, picture
from support.trees import plant

from .test_back_turns import line, texts


class Wandering:
    """One session of Claude Code whose prompts are in several directories."""

    def __init__(self, casrewind, root, home, session="cccc-3"):
        self.client, self.session, self.root, self.lines = Client(casrewind, root), session, root, []
        self.projects = Path(home) / ".claude" / "projects"
        self.path = self.projects

    def move(self, place):
        """The client moves its transcript to where it works."""
        old, self.path = self.path, self.projects / dashed_project_name(str(place)) / f"{self.session}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if old.suffix and old != self.path:
            old.rename(self.path)

    def turn(self, place, prompt, *, project=None, **files):
        self.move(place)
        number = len(self.lines) + 1
        told = {"session_id": self.session, "transcript_path": str(self.path), "prompt_id": f"{self.session}-p{number}", "cwd": str(place)}
        variables = {"CLAUDE_PROJECT_DIR": str(project or self.root)}
        self.client.send(self.client.payload("UserPromptSubmit.prompt", prompt=prompt, **told), **variables)
        self.lines.append(line(self.session, number, prompt, f"{self.session}-{number - 1}" if number > 1 else None))
        self.path.write_bytes(b"".join(self.lines))
        plant(place, {name: text.encode() for name, text in files.items()})
        self.client.send(self.client.payload("Stop.plain", **told), **variables)


@pytest.fixture
def checkout(casrewind, root):
    plant(root, {"app.py": b"one\n", ".gitignore": b"/.claude/\n"})
    make_repository(root)
    casrewind("save", code=0)
    return root


@pytest.fixture
def place(checkout):
    return add_worktree(checkout)


def refused(casrewind, place, *words):
    """The command ends with 15 and names the directory and the command that goes there; nothing changes."""
    before = picture(casrewind.root), picture(Path(casrewind.home) / ".claude")
    found = casrewind(*words, code=15)
    assert f"the newest turn of claude cccc-3 is in {place}: nothing was changed" in found.err
    assert f"casrewind -C {place} back " in found.err
    assert (differences(before[0], picture(casrewind.root)), differences(before[1], picture(Path(casrewind.home) / ".claude"))) == ({}, {})


def test_a_conversation_that_goes_on_in_a_worktree_is_taken_back_there(casrewind, checkout, place, home, settings):
    session = Wandering(casrewind, checkout, home)
    session.turn(checkout, "in the checkout", one="1")
    session.turn(place, "in the worktree", two="2")
    for words in (("back", "-y"), ("back", "1", "-y"), ("back", "1", "--chat"), ("back", "1", "-n"), ("back", "--code", "-y"),
                  ("restore", "@1", "--both", "-y"), ("jump", "@1", "-y"), ("back", "1", "-y", "--session", "cccc-3")):  # fmt: skip
        refused(casrewind, place, *words)
    with Workspace(str(checkout), settings, create=False) as workspace, pytest.raises(errors.CheckpointError, match="newest turn"):
        workspace.back(1)
    inner = InProcess(place, home)
    report = inner.json("back", "-y")  # what the refusal said
    assert report["prompts"] == ["in the worktree"] and not (place / "two").exists() and (checkout / "one").exists()
    assert texts(report["fork"]["path"]) == ["in the checkout"]


def test_files_alone_go_back_by_the_number_of_their_turn(casrewind, checkout, place, home):
    session = Wandering(casrewind, checkout, home)
    session.turn(checkout, "in the checkout", one="1")
    session.turn(place, "in the worktree", two="2")
    casrewind("back", "1", "--code", "-y", code=0)
    assert not (checkout / "one").exists() and (place / "two").exists()


def test_a_turn_in_between_that_was_in_a_worktree_is_named(casrewind, checkout, place, home):
    session = Wandering(casrewind, checkout, home)
    session.turn(checkout, "in the checkout", one="1")
    session.turn(place, "in the worktree", two="2")
    session.turn(checkout, "and here again", three="3")
    stays = f"what prompts among these changed in {place} stays"
    assert stays in casrewind("back", "2", "-n", code=0).err
    assert casrewind.json("back", "1", "-n")["notes"] == []
    report = casrewind.json("back", "2", "-y")
    assert stays in report["notes"] and report["prompts"] == ["in the checkout", "in the worktree", "and here again"]
    assert (place / "two").exists() and not (checkout / "three").exists() and not (checkout / "one").exists()


def test_a_conversation_that_goes_on_in_another_project_is_taken_back_there(casrewind, checkout, home, tmp_path):
    """The other project has a store of its own."""
    other = tmp_path / "other place"
    plant(other, {"x": b"x"})
    InProcess(other, home)("save", code=0)
    session = Wandering(casrewind, checkout, home)
    session.turn(checkout, "here", one="1")
    session.turn(other, "there", project=other, two="2")
    before = picture(checkout)
    found = casrewind("back", "1", "-y", code=15)
    assert f"is in {other}: nothing was changed" in found.err and f"casrewind -C '{other}' back " in found.err
    assert differences(before, picture(checkout)) == {}
    report = InProcess(other, home).json("back", "-y")
    assert report["prompts"] == ["there"] and texts(report["fork"]["path"]) == ["here"]


def test_a_session_that_was_only_started_here_is_found_where_it_works(casrewind, checkout, place, home):
    """It is resumed from the checkout: the client tells its start there, with a transcript that is not there."""
    session = Wandering(casrewind, checkout, home)
    session.turn(place, "in the worktree", two="2")
    named = session.projects / dashed_project_name(str(checkout)) / "cccc-3.jsonl"
    session.client.send(session.client.payload("SessionStart.resume", session_id="cccc-3", transcript_path=str(named)))
    refused(casrewind, place, "back", "-y")
    refused(casrewind, place, "back", "1", "-y")


def test_what_is_typed_in_the_client_goes_back_where_the_client_works(casrewind, checkout, place, home):
    session = Wandering(casrewind, checkout, home)
    session.turn(checkout, "in the checkout", one="1")
    session.turn(place, "in the worktree", two="2")
    typed = session.client.typed("/casrewind back 1", session_id="cccc-3", transcript_path=str(session.path), cwd=str(place))
    assert "restored to" in typed, typed
    assert not (place / "two").exists() and (checkout / "one").exists()
    (fork,) = [path for path in session.path.parent.iterdir() if path != session.path]
    assert texts(fork) == ["in the checkout"]
