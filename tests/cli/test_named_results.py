"""The result of a restore, back or revert names the turn, its age and its id; numbers that moved are asked about."""

import re
import time

import pytest

from support.agent_turns import AgentTurns
from support.fake_client import Client
from support.picture import picture
from support.terminal import Session, with_patience
from support.trees import plant


@pytest.fixture
def clock(monkeypatch):
    """Sets how far the clock of this process is from the real one (seconds)."""
    real = time.time_ns

    def set_to(seconds):
        monkeypatch.setattr(time, "time_ns", lambda: real() + seconds * 10**9)

    yield set_to
    monkeypatch.undo()


class Story:
    """Turns that change "f", each at a time of its own."""

    def __init__(self, workspace, root, clock):
        self.agent, self.root, self._clock, self._number = AgentTurns(workspace, root), root, clock, 0
        plant(root, {"f": b"0"})
        clock(-9000)
        workspace.save()

    def turn(self, prompt, seconds):
        """A turn that began so many seconds from now."""
        self._clock(seconds)
        self._number += 1
        self.agent.prompt(f"p{self._number}", prompt)
        plant(self.root, {"f": b"%d" % self._number, f"new{self._number}": b"n"})
        self.agent.stop(f"p{self._number}")
        self._clock(0)


@pytest.fixture
def story(workspace, root, clock):
    """@2 began two hours ago, @1 one hour ago."""
    found = Story(workspace, root, clock)
    found.turn("round to cents", -7200)
    found.turn("clean up", -3600)
    return found


def before(casrewind, number):
    return casrewind.json("list")["turns"][number - 1]["before"]


@pytest.mark.parametrize("reference", ["2", "@2", "id"])
def test_the_result_of_a_restore_names_the_turn_its_age_and_its_id(story, casrewind, reference):
    point = before(casrewind, 2)
    shown = casrewind("restore", point if reference == "id" else reference, "-y", code=0).out.splitlines()
    assert shown[0] == f'restored to before "round to cents" (@2, 2 h ago, {point})'
    assert shown[1] == "  1 path written, 2 removed, 0 unchanged" and shown[-1] == "  casrewind undo takes this back"
    again = casrewind("restore", "@2", "-y", code=0).out
    assert "nothing to do" in again and f'to before "round to cents" (@2, taken back, 2 h ago, {point})' in again


def test_the_state_after_a_turn_and_a_label_are_named_too(story, casrewind):
    after = casrewind.json("list")["turns"][1]["after"]
    assert casrewind("restore", "after:@2", "-y", code=0).out.startswith(f'restored to after "round to cents" (after:@2, 2 h ago, {after})\n')
    point = casrewind.json("save", "-m", "it works")["checkpoint"]
    plant(story.root, {"f": b"edited"})
    assert re.match(rf"restored to 'it works' \([^,]* ago, {point}\)\n", casrewind("restore", "it works", "-y", code=0).out)


def test_the_plan_has_the_same_words(story, casrewind):
    point = before(casrewind, 2)
    assert casrewind("restore", "2", "-n", code=0).out.startswith(f'restore to before "round to cents" (@2, 2 h ago, {point}):\n')


def test_json_has_the_turn_and_the_id_in_a_plan_and_in_a_result(story, casrewind):
    point = before(casrewind, 2)
    for words, code in ((("restore", "2", "-n"), 0), (("revert", "@2", "-n"), 3), (("restore", "2", "-y"), 0)):
        found = casrewind.json(*words, code=code)
        assert (found["turn"], found["target"]) == (2, point) and found["target_made_at"] is not None
    casrewind("undo", "-y", code=0)
    assert casrewind.json("restore", "after:2", "-y")["turn"] == 2
    found = casrewind.json("undo", "-y")
    assert found["turn"] is None and found["target_made_at"] is None


def test_the_result_of_a_revert_names_the_turn(story, casrewind):
    point = before(casrewind, 1)
    shown = casrewind("revert", "@1", "-y", code=0).out
    assert shown.startswith(f'reverted @1 "clean up" (1 h ago, {point})\n  1 path written, 1 removed, 0 unchanged\n')


def test_the_result_of_back_has_one_name_and_no_id(root, casrewind):
    from hooks.test_back_turns import Conversation

    plant(root, {"f": b"0"})
    casrewind("save", code=0)
    told = Conversation(Client(casrewind, root), "aaaa-1")
    for number in range(3):
        told.turn(f"make {number}", **{f"new{number}": "n"})
    shown = casrewind("back", "2", "--yes", code=0).out.splitlines()
    assert re.fullmatch(r'restored to before "make 1" \(@2, [^,]* ago\)', shown[0])
    assert [line for line in shown if re.search("c[0-9a-f]{14}|aaaa", line) and "claude --resume " not in line] == []
    casrewind("undo", "-y", code=0)
    shown = casrewind("back", "2", "--chat", "--yes", code=0).out
    assert re.search(r'^back to before "make 1" \(@2, [^,]* ago\)$', shown, re.MULTILINE)


def on_terminal(casrewind, *words):
    """A command on a terminal, until it asks or ends."""
    return Session(with_patience(casrewind, 3600, *words), casrewind.environment)


@pytest.mark.parametrize("words", [("restore", "2", "-y"), ("restore", "after:@2", "-y"), ("revert", "2", "-y"), ("restore", "@3", "-y")])
def test_a_number_that_a_prompt_just_moved_is_asked_about_with_yes_too(story, casrewind, words):
    """What is "just" does not depend on how busy this machine is: the prompt's time is still to come."""
    story.turn("yet another", 3600)
    seen = picture(story.root)
    session = on_terminal(casrewind, *words)
    session.read_until(b"Go on?")
    assert b'the numbers changed in the last minute: @1 is now "yet another"' in session.shown
    session.type("n\n")
    code, shown = session.end()
    assert code == 0 and b"nothing was changed" in shown and picture(story.root) == seen
    session = on_terminal(casrewind, *words)
    session.read_until(b"Go on?")
    session.type("y\n")
    assert session.end()[0] in (0, 3) and picture(story.root) != seen


def test_numbers_that_did_not_move_and_other_names_are_not_asked_about(story, casrewind):
    code, shown = on_terminal(casrewind, "restore", "2", "-y").end()
    assert code == 0 and b"Go on?" not in shown and b'restored to before "round to cents" (@2, ' in shown
    story.turn("yet another", 3600)
    code, shown = on_terminal(casrewind, "restore", before(casrewind, 2), "-y").end()
    assert code == 0 and b"Go on?" not in shown and b'(@2, ' in shown


def test_where_nobody_can_be_asked_the_result_names_the_turn(story, casrewind):
    story.turn("yet another", 3600)
    assert casrewind("restore", "2", "-y", code=0).out.startswith('restored to before "clean up" (@2, 1 h ago, ')


def test_the_first_prompt_moved_no_number(workspace, root, clock, casrewind):
    Story(workspace, root, clock).turn("round to cents", 3600)
    code, shown = on_terminal(casrewind, "restore", "1", "-y").end()
    assert code == 0 and b"Go on?" not in shown and b"(@1, " in shown
