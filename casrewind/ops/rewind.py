"""Rewind: the conversation as it was before a prompt, as a session of its own, and on request the files of that moment.

The danger prevented here: files of one moment with the conversation of another. The checkpoint of a prompt is the one that
was made for that very prompt; where there is none, nothing is touched unless the nearest one was asked for. The original
conversation is never changed.
"""

import os
import stat
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from .. import agents, errors, fsio
from ..agents import lines
from ..agents.agent import Agent
from ..agents.prompts import Prompt, Seen, bind
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model.checkpoint import Checkpoint
from .carry import Restored
from .restore import Confirm, restore
from .site import Site


class Fork(NamedTuple):
    """A new session: its id, the path of its transcript, the command that opens it, and what to type in the client ("" =
    there is nothing)."""

    session: str
    path: str
    resume: str
    inside: str


class Rewound(NamedTuple):
    """What a rewind did. `fork` is None when nothing was said before the prompt: that is a new session. `prompts` are the
    texts that were taken back, the oldest first. `restored` is what was done to the files, None when they were not asked
    for; `note` says which checkpoint was taken when it was not the prompt's own."""

    fork: Fork | None
    prompts: tuple[str, ...]
    restored: Restored | None
    note: str


class _Conversation(NamedTuple):
    """The newest conversation of a worktree: its agent, session, path and bytes, and its checkpoints, oldest first."""

    agent: Agent
    session: str
    path: str
    data: bytes
    points: list[Checkpoint]


def back(
    site: Site, number: int = 1, *, both: bool = False, nearest: bool = False, confirm: Confirm | None = None
) -> Rewound:
    """Go to before the `number`-th most recent prompt of the newest conversation: a fork of it, and with `both` the files.

    Files first: when they cannot be restored nothing is forked. Raises AgentError (no conversation, too few prompts),
    CheckpointNotFound (the prompt has no checkpoint, and not `nearest`), and what `restore` raises.
    """
    conversation = _conversation(site)
    agent, data = conversation.agent, conversation.data
    prompts = agent.prompts(data)
    if not 1 <= number <= len(prompts):
        raise errors.AgentError(f"the conversation has {len(prompts)} prompts of a person: there is none to go back {number} to")
    target = len(prompts) - number
    cut = agent.cut(data, prompts[target])
    restored, note = None, ""
    if both:
        point, note = _checkpoint_of(conversation, prompts, target, nearest=nearest)
        restored = restore(site, point, confirm=confirm)
    fork = None
    if cut is not None:
        session = str(uuid.uuid4())
        path = agent.write_fork(conversation.path, session, agent.fork(data, cut, session))
        fork = Fork(session, path, agent.resume_command(session), agent.resume_inside(session))
    return Rewound(fork, tuple(prompt.text for prompt in prompts[target:]), restored, note)


def _conversation(site: Site) -> _Conversation:
    mine = [point for point, _ in site.store.checkpoints() if point.worktree == site.root.key and point.session and point.cursor]
    if not mine:
        raise errors.AgentError("no agent's conversation is known here: casrewind install AGENT connects one")
    newest = mine[0]
    points = [point for point in reversed(mine) if point.session == newest.session and point.agent == newest.agent]
    path = next((name for point in reversed(points) if (name := os.fsdecode(cursors.decode(point.cursor).transcript))), "")
    data = _live(path) or _stored(site, points)
    if not data:
        raise errors.AgentError(f"the transcript {fsio.show(path)} is gone, and none of its bytes were stored")
    return _Conversation(agents.get(newest.agent), newest.session, path, data, points)


def _live(path: str) -> bytes:
    """The transcript as it is now, up to the end of its last whole line, b"" when it is not to be had."""
    try:
        if not path or not stat.S_ISREG(os.stat(path).st_mode):
            return b""
        data = fsio.read_file(os.path.realpath(path))
    except (OSError, ValueError):
        return b""
    return data[: lines.whole(data)]


def _stored(site: Site, points: Sequence[Checkpoint]) -> bytes:
    """The transcript as the newest of these checkpoints has it."""
    entry = next((point.transcript for point in reversed(points) if point.transcript is not None), None)
    return b"" if entry is None else b"".join(site.store.content(entry))


def _checkpoint_of(
    conversation: _Conversation, prompts: Sequence[Prompt], target: int, *, nearest: bool
) -> tuple[Checkpoint, str]:
    """(the checkpoint of a prompt, what there is to say about it)."""
    made = [point for point in conversation.points if point.trigger == checkpoints.PROMPT]
    seen = []
    for point in made:
        cursor = cursors.decode(point.cursor)
        seen.append(Seen(cursor.prompt_id, cursor.message_id, point.prompt, point.created_ns))
    bound = bind(prompts, seen)
    index = bound[target]
    if index is not None:
        return made[index], ""
    before = next((made[i] for i in (bound[at] for at in range(target - 1, -1, -1)) if i is not None), None)
    limit = prompts[target].time_ns
    later = [p for p in conversation.points if (before is None or p.seq > before.seq) and limit and p.created_ns <= limit]
    choice = later[-1] if later else before
    if choice is None:
        raise errors.CheckpointNotFound("no checkpoint was made for that prompt, and none before it: leave --both out")
    what = f"no checkpoint was made for that prompt; the nearest before it is {choice.id}"
    if not nearest:
        raise errors.CheckpointNotFound(f"{what}: say --nearest to take it, or leave --both out; nothing was touched")
    return choice, what
