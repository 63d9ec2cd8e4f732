"""Which checkpoint was made for which prompt: by id and text, without ids by text and time, and never by a guess."""

import json
from pathlib import Path

from casrewind import agents
from casrewind.agents import event as events
from casrewind.agents.prompt_matching import SHOWN, CheckpointPrompt, match_with_checkpoints, prompt_of_checkpoint
from casrewind.agents.transcript import Prompt
from support import transcripts

HOOKS = Path(__file__).parent / "data" / "claude_hooks"
SECOND = 1_000_000_000
NOW = 1_795_217_466 * SECOND


def prompt(text, prompt_id="", at=NOW, *, queued=False, message_id=""):
    return Prompt(text, prompt_id, message_id, text, "", at, 0, queued)


def test_the_recorded_hooks_find_their_prompts_in_the_recorded_transcripts():
    for agent, folder, name, data, text in (
        ("claude", "claude_hooks", "UserPromptSubmit.prompt", transcripts.claude(transcripts.PRINTED), "please create alpha"),
        ("claude", "claude_hooks", "UserPromptSubmit.queued-mid-turn", transcripts.claude(transcripts.QUEUED), "queued prompt while busy"),
        ("droid", "droid_hooks", "UserPromptSubmit", transcripts.droid(), "please create alpha"),
    ):
        stdin = json.loads((HOOKS.parent / folder / f"{name}.json").read_text())["stdin"]
        event = events.read_event(agents.load_conversation_client(agent), json.dumps(stdin).encode(), {})
        found = agents.load_conversation_client(agent).prompts(data)
        index = prompt_of_checkpoint(found, CheckpointPrompt(event.prompt_id, event.message_id, event.prompt, 0))
        assert index is not None and found[index].text == text
        late = CheckpointPrompt("", "", event.prompt, found[index].time_ns + 300_000_000)  # an older client gives no ids
        assert prompt_of_checkpoint(found, late) == index


def test_a_queued_prompt_is_not_taken_for_the_turn_whose_id_it_carries():
    found = agents.load_conversation_client("claude").prompts(transcripts.claude(transcripts.QUEUED))
    running, queued = found
    seen = [CheckpointPrompt(running.prompt_id, "", "slow bash", 0), CheckpointPrompt(running.prompt_id, "", "queued prompt while busy", 0)]
    assert match_with_checkpoints(found, seen) == [0, 1] and match_with_checkpoints(found, seen[1:]) == [None, 0] and match_with_checkpoints(found, seen[:1]) == [0, None]


def test_a_prompt_typed_while_a_turn_ended_is_found_by_that_turns_id():
    """It becomes a turn of its own, with an id that the hook could not know."""
    found = [prompt("make it", "p1"), prompt("go", "p2", NOW + 20 * SECOND), prompt("go", "p3", NOW + 30 * SECOND)]
    make, early, own = CheckpointPrompt("p1", "", "make it", NOW), CheckpointPrompt("p1", "", "go", NOW + 9 * SECOND), CheckpointPrompt("p3", "", "go", NOW + 30 * SECOND)
    assert match_with_checkpoints(found, [make, early, own]) == [0, 1, 2]
    assert match_with_checkpoints(found[1:], [make, early, own]) == [None, 2], "the turn whose id that was is not known"
    assert match_with_checkpoints(found, [early, make, own]) == [1, None, 2], "typed before the prompt in front of it"
    assert match_with_checkpoints(found[:2], [make, early._replace(at_ns=NOW + 26 * SECOND)]) == [0, None], "seen after it had become a turn"
    assert match_with_checkpoints(found[:2], [make, early._replace(text="went")]) == [0, None]
    both = [make, early, early._replace(at_ns=NOW + 10 * SECOND)]
    assert match_with_checkpoints(found, both) == [0, 1, 2], "two of them, one after the other"
    assert match_with_checkpoints([found[0], found[1]._replace(queued=True)], both) == [0, None], "such a prompt has that id itself"


def test_ids_that_differ_are_two_prompts_however_alike():
    assert prompt_of_checkpoint([prompt("go", "p1")], CheckpointPrompt("p2", "", "go", NOW)) is None
    assert prompt_of_checkpoint([prompt("go", message_id="m1")], CheckpointPrompt("", "m2", "go", NOW)) is None
    assert prompt_of_checkpoint([prompt("go", "p1")], CheckpointPrompt("p1", "", "went", NOW)) is None
    assert prompt_of_checkpoint([prompt("go", message_id="m1")], CheckpointPrompt("", "m1", "go", 0)) == 0


def test_without_ids_text_and_time_decide():
    for apart, is_near in ((0, True), (5 * SECOND, True), (-5 * SECOND, True), (5 * SECOND + 1, False), (-6 * SECOND, False)):
        assert (prompt_of_checkpoint([prompt("go")], CheckpointPrompt("", "", "go", NOW + apart)) == 0) == is_near
    assert prompt_of_checkpoint([prompt("go", at=0)], CheckpointPrompt("", "", "go", 0)) is None  # two unknown times are not the same time
    assert prompt_of_checkpoint([prompt("go")], CheckpointPrompt("", "", "stop", NOW)) is None


def test_each_checkpoint_is_bound_once_in_order():
    found = [prompt("go"), prompt("go", at=NOW + SECOND), prompt("go", at=NOW + 2 * SECOND)]
    seen = [CheckpointPrompt("", "", "go", NOW), CheckpointPrompt("", "", "go", NOW + SECOND)]
    assert match_with_checkpoints(found, seen) == [0, 1, None]
    assert prompt_of_checkpoint(found, seen[1], taken={0}) == 1
    assert match_with_checkpoints([], seen) == [] and match_with_checkpoints(found, []) == [None, None, None]


def test_the_first_of_several_checkpoints_for_a_prompt_is_its_own():
    assert match_with_checkpoints([prompt("go", "p")], [CheckpointPrompt("x", "", "go", 0), CheckpointPrompt("p", "", "go", 0), CheckpointPrompt("p", "", "go", 0)]) == [1]


def test_a_checkpoint_keeps_only_the_beginning_of_a_long_prompt():
    for text in ("x" * 500, "  " + "word " * 100, "x" * (SHOWN - 1) + " y", "x" * SHOWN, "\n" + "ä😀" * 150, " " * 300 + "x"):
        for kept in (text[:SHOWN], text.strip()[:SHOWN], text):
            assert prompt_of_checkpoint([prompt(text, "p")], CheckpointPrompt("p", "", kept, 0)) == 0 or not kept.strip()
    assert prompt_of_checkpoint([prompt("x" * 500, "p")], CheckpointPrompt("p", "", "x" * (SHOWN - 1), 0)) is None  # short, and not the same
    assert prompt_of_checkpoint([prompt("x" * 500, "p")], CheckpointPrompt("p", "", "x" * (SHOWN - 1) + "y", 0)) is None
