"""Matches the prompts in a transcript with the checkpoints that were made for them.

The danger prevented here: files of one moment with the conversation of another. A prompt and a checkpoint match only if
id and text agree (a hook reports a prompt typed during a turn with that turn's id). For clients without ids, text and
time must agree. Nothing is guessed.
"""

from collections.abc import Collection, Iterable, Sequence

from .._typing import NamedTuple
from .transcript import Prompt

SHOWN = 200
"""Number of a prompt's characters that a checkpoint stores."""
NEAR_NS = 5_000_000_000
"""Without ids: maximum time between a prompt in the transcript and its checkpoint, in nanoseconds."""


class CheckpointPrompt(NamedTuple):
    """The prompt of a checkpoint as recorded: the ids of its cursor, its text (maybe truncated), and the checkpoint's
    time (nanoseconds since 1970)."""

    prompt_id: str
    message_id: str
    text: str
    at_ns: int


def may_belong_to(prompt: Prompt, seen: CheckpointPrompt) -> bool:
    """True if a checkpoint can belong to a prompt."""
    marked = '"' + prompt.text.replace('"', '\\"') + '"'  # an older casrewind recorded OpenCode's marks, see as_typed
    if not _is_same_text(prompt.text, seen.text) and not _is_same_text(marked, seen.text):
        return False
    if seen.message_id and prompt.message_id:
        return seen.message_id == prompt.message_id
    if seen.prompt_id and prompt.prompt_id:
        return seen.prompt_id == prompt.prompt_id
    return bool(prompt.time_ns) and abs(prompt.time_ns - seen.at_ns) <= NEAR_NS


def match_with_checkpoints(prompts: Iterable[Prompt], seen: Sequence[CheckpointPrompt]) -> list[int | None]:
    """The index of each prompt's checkpoint, or None. Prompts are in conversation order. `seen`: all prompt checkpoints
    of the session and of its ancestors, oldest first. Each is used at most once."""
    every = list(prompts)
    found: list[int | None] = []
    taken: set[int] = set()
    for prompt in every:
        index = next((i for i, one in enumerate(seen) if i not in taken and may_belong_to(prompt, one)), None)
        found.append(index)
        if index is not None:
            taken.add(index)
    turns: set[str] = set()
    for at, prompt in enumerate(every):
        if found[at] is None:
            after = max((index for index in found[:at] if index is not None), default=-1)
            index = next((i for i in range(after + 1, len(seen)) if i not in taken and _was_typed_early(prompt, seen[i], turns)), None)
            found[at] = index
            if index is not None:
                taken.add(index)
        turns.add(prompt.prompt_id)
    return found


def _was_typed_early(prompt: Prompt, seen: CheckpointPrompt, turns: Collection[str]) -> bool:
    """True if a prompt with its own turn was typed at the end of an earlier turn. Its hook then ran before the prompt's
    turn began and reported the earlier turn's id, one of `turns`."""
    in_time = not prompt.time_ns or seen.at_ns <= prompt.time_ns + NEAR_NS
    return (
        seen.prompt_id != ""
        and seen.prompt_id in turns
        and not prompt.queued
        and in_time
        and _is_same_text(prompt.text, seen.text)
    )


def prompt_of_checkpoint(prompts: Sequence[Prompt], one: CheckpointPrompt, taken: Collection[int] = ()) -> int | None:
    """The index of the prompt that a checkpoint was made for, or None. Ignores the prompts in `taken`."""
    return next((i for i, prompt in enumerate(prompts) if i not in taken and may_belong_to(prompt, one)), None)


def _is_same_text(whole: str, kept: str) -> bool:
    """True if `kept` is `whole`, or the part of it that a checkpoint stores. Surrounding white space is ignored."""
    left, right = whole.strip(), kept.strip()
    is_beginning = len(kept) >= SHOWN and right != "" and left.startswith(right)
    return left == right or is_beginning or left[:SHOWN].strip() == right
