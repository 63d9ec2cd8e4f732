"""One prompt that a client's hooks tell of more than once is one turn: hooks that are registered twice, and a prompt hook that comes again.

The danger prevented here: a list in which each prompt stands twice, the real ones "cut short", so that `back 1` takes half of a turn back.
"""

import json
import subprocess
import sys

import pytest

from casrewind import agents
from casrewind.agents import trial_event
from support.sample_start import by_turns
from support.trees import plant

IDS = {
    "claude": {"prompt": {"prompt_id": "p{}"}, "tool_batch": {"prompt_id": "p{}"}, "turn_end": {"prompt_id": "p{}"}},
    "codex": dict.fromkeys(("prompt", "tool_batch", "turn_end"), {"turn_id": "t{}"}),
    "pi": {"prompt": {"prompt_id": "e{}", "leaf_id": "e{}"}, "tool_batch": {"prompt_id": "e{}"}, "turn_end": {"prompt_id": "e{}"}},
    "droid": {"prompt": {"message_id": "m{}"}, "turn_end": {"message_id": "n{}"}},
    "opencode": {"prompt": {"message_id": "m{}", "turn_id": "m{}"}},
    "cursor": dict.fromkeys(("prompt", "tool_batch", "turn_end"), {"generation_id": "g{}"}),
    "qwen": dict.fromkeys(("prompt", "tool_batch", "turn_end"), {"prompt_id": "s########{}"}),
    "gemini": {}, "copilot": {}, "generic": {},
}  # fmt: skip
"""The ids that each client has in its events; {} is the number of the turn."""


class Told:
    """A client in a project whose hooks are called `times` times for each event, at the same time."""

    def __init__(self, agent, casrewind, root, times):
        self.client, self.casrewind, self.root, self.times = agents.load_client(agent), casrewind, root, times
        plant(root, {"f": b"at first"})
        casrewind("save", code=0)  # then each hook makes its checkpoint by itself

    def event(self, trigger, turn, **fields):
        name = next(name for name, own in self.client.events.triggers.items() if own == trigger)
        payload = json.loads(trial_event.trial_payload(self.client, name, "s1", str(self.root), ""))
        for field in ("prompt_id", "message_id", "turn_id"):
            for key in self.client.events.fields[field]:
                payload.pop(key, None)
        ids = {key: value.format(turn) for key, value in IDS[self.client.name].get(trigger, {}).items()}
        data = json.dumps({**payload, **ids, **fields}).encode()
        words = [word for word in (self.client.name, self.client.event_argument(name)) if word]
        environment = {**self.casrewind.environment, **dict.fromkeys(self.client.events.root_variables, str(self.root))}
        command = [sys.executable, "-m", "casrewind", "hook", *words]
        hooks = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=environment) for _ in range(self.times)]
        for hook in hooks:
            hook.stdin.write(data)
            hook.stdin.close()
        for hook in hooks:
            assert (hook.stdout.read(), hook.wait(60)) == (b"", 0)
            hook.stdout.close()

    def turns(self):
        return [(one["prompt"], one["also"], one["cut_short"], one["paths"]) for one in self.casrewind.json("list")["turns"]]


def test_every_client_is_asked():
    assert set(IDS) == set(agents.NAMES)


@pytest.mark.parametrize("agent", by_turns(agents.NAMES, 2))
def test_hooks_that_are_registered_twice_make_one_turn_of_a_prompt(agent, casrewind, root):
    told = Told(agent, casrewind, root, 2)
    told.event("session_start", 0)
    for turn in (1, 2):
        told.event("prompt", turn, prompt="go on")
        plant(root, {f"made{turn}": b"x"})
        told.event("turn_end", turn)
    assert told.turns() == [("go on", [], False, ["made2"]), ("go on", [], False, ["made1"])]
    casrewind("back", "1", "--code", "--yes", code=0)
    assert sorted(path.name for path in root.iterdir() if path.name.startswith("made")) == ["made1"]


def test_a_prompt_hook_that_comes_again_after_a_tool_is_the_same_prompt(casrewind, root):
    """Qwen Code calls it again after each tool, with the same id and an empty text."""
    told = Told("qwen", casrewind, root, 1)
    for turn in (1, 2):
        told.event("prompt", turn, prompt=f"prompt {turn}")
        for tool in "ab":
            plant(root, {f"made{turn}{tool}": b"x"})
            told.event("prompt", turn, prompt="")
        told.event("turn_end", turn)
    assert told.turns() == [("prompt 2", [], False, ["made2a", "made2b"]), ("prompt 1", [], False, ["made1a", "made1b"])]
    assert "cut short" not in casrewind("list", code=0).out
    casrewind("back", "2", "--code", "--yes", code=0)
    assert [path.name for path in root.iterdir() if path.name.startswith("made")] == []


def test_prompts_with_other_words_or_ids_stay_prompts_of_their_own(casrewind, root):
    """Claude Code's hook tells of a prompt that is typed while a turn runs with the id of that turn."""
    told = Told("claude", casrewind, root, 1)
    told.event("prompt", 1, prompt="go on")
    told.event("prompt", 1, prompt="and this")
    told.event("turn_end", 1)
    told.event("prompt", 2, prompt="go on")
    told.event("prompt", 3, prompt="go on")
    told.event("turn_end", 3)
    assert [(prompt, also, cut) for prompt, also, cut, _ in told.turns()] == [("go on", [], False), ("go on", [], True), ("go on", ["and this"], False)]
