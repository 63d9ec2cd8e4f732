"""Prompts in a transcript, and which checkpoint was made for which of them.

The danger prevented here: files of one moment with the conversation of another. A prompt and a checkpoint belong together
only when id and text agree (to the hook a prompt typed while a turn runs carries that turn's id), or, from clients that
give no ids, text and time; nothing is guessed.
"""

from collections.abc import Collection, Iterable, Sequence

from .._typing import NamedTuple

SHOWN = 200
"""Characters of a prompt that a checkpoint keeps."""
NEAR_NS = 5_000_000_000
"""Without ids: how far apart a prompt in the transcript and its checkpoint may be."""


class Prompt(NamedTuple):
    """What a person typed.

    `prompt_id` and `message_id` are the client's ids of the prompt ("" = it has none); a queued prompt has the prompt_id of
    the turn that was running. `uuid` and `parent` are its line's place in the tree of lines, `start` that line's offset
    in bytes. `time_ns`: nanoseconds since 1970, 0 = unknown. `queued`: typed while a turn was running.
    """

    text: str
    prompt_id: str
    message_id: str
    uuid: str
    parent: str
    time_ns: int
    start: int
    queued: bool


class CheckpointPrompt(NamedTuple):
    """What a checkpoint knows of the prompt that it was made for: the ids of its cursor, its text or the beginning of
    that, when it was made (nanoseconds since 1970)."""

    prompt_id: str
    message_id: str
    text: str
    at_ns: int


def is_same(prompt: Prompt, seen: CheckpointPrompt) -> bool:
    """Whether a checkpoint can have been made for a prompt."""
    if not _agree(prompt.text, seen.text):
        return False
    if seen.message_id and prompt.message_id:
        return seen.message_id == prompt.message_id
    if seen.prompt_id and prompt.prompt_id:
        return seen.prompt_id == prompt.prompt_id
    return bool(prompt.time_ns) and abs(prompt.time_ns - seen.at_ns) <= NEAR_NS


def bind(prompts: Iterable[Prompt], seen: Sequence[CheckpointPrompt]) -> list[int | None]:
    """For each prompt, in conversation order, the index of its checkpoint, None where there is none.

    `seen`: all checkpoints with trigger prompt of the session and of those that it goes on from, oldest first. Each is
    bound once.
    """
    every = list(prompts)
    found: list[int | None] = []
    taken: set[int] = set()
    for prompt in every:
        index = next((i for i, one in enumerate(seen) if i not in taken and is_same(prompt, one)), None)
        found.append(index)
        if index is not None:
            taken.add(index)
    turns: set[str] = set()
    for at, prompt in enumerate(every):
        if found[at] is None:
            after = max((index for index in found[:at] if index is not None), default=-1)
            index = next((i for i in range(after + 1, len(seen)) if i not in taken and _was_early(prompt, seen[i], turns)), None)
            found[at] = index
            if index is not None:
                taken.add(index)
        turns.add(prompt.prompt_id)
    return found


def _was_early(prompt: Prompt, seen: CheckpointPrompt, turns: Collection[str]) -> bool:
    """Whether a prompt that became a turn of its own was typed while an earlier turn came to its end: then the hook that
    told of it had that turn's id, one of `turns`, and came before the prompt did."""
    in_time = not prompt.time_ns or seen.at_ns <= prompt.time_ns + NEAR_NS
    return seen.prompt_id != "" and seen.prompt_id in turns and not prompt.queued and in_time and _agree(prompt.text, seen.text)


def resolve(prompts: Sequence[Prompt], one: CheckpointPrompt, taken: Collection[int] = ()) -> int | None:
    """The index of the prompt that a checkpoint was made for, without those in `taken`; None when there is none."""
    return next((i for i, prompt in enumerate(prompts) if i not in taken and is_same(prompt, one)), None)


def _agree(whole: str, kept: str) -> bool:
    """Whether `kept` is `whole`, or as much of its beginning as a checkpoint keeps. White space around does not count."""
    left, right = whole.strip(), kept.strip()
    is_beginning = len(kept) >= SHOWN and right != "" and left.startswith(right)
    return left == right or is_beginning or left[:SHOWN].strip() == right
