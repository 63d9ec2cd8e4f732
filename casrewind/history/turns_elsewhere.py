"""The turns of a conversation that are in another project or worktree than the one at hand.

The danger prevented here: a conversation goes on in another directory, and going back here takes its newest prompts out of
the conversation while their files stay there.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from .. import errors
from ..agents.transcript import Prompt
from ..context import Context
from ..messages import printable, session_in_words, shell_quoted
from ..model import checkpoint as checkpoints
from ..model.checkpoint import Checkpoint
from ..store import registry
from ..store.agent_sessions import AgentSessions
from ..store.store import Store
from . import conversation as conversations
from .conversation import Conversation

_WAIT = 0.5
"""Seconds to wait for the lock of another project's store."""


def refuse_or_note(
    context: Context, conversation: Conversation, prompts: Sequence[Prompt], points: Sequence[Checkpoint | None], at: int = 0
) -> tuple[str, ...]:
    """Raise CheckpointError if the newest turn of a conversation is in another root. `points`: the checkpoint here of each prompt, or None.
    Returns notes for the user about prompts from `at` on that were in another root."""
    if conversation.stored:  # what the client wrote since is not in these bytes
        _refuse_foreign_newest(context, conversation.client.name, conversation.session, conversation.points)
    if None not in points[at:]:
        return ()
    made = _prompts_elsewhere(context, conversation.client.name, conversation.session)
    found = conversations.checkpoints_of_prompts(conversation._replace(points=tuple(made)), prompts)
    there = [(index, one) for index, one in enumerate(found) if index >= at and one is not None and points[index] is None]
    if there and not any(points[there[-1][0] :]):
        raise _error_for_newest(conversation.client.name, conversation.session, there[-1][1])
    return tuple(f"what prompts among these changed in {printable(root)} stays" for root in sorted({one.root for _, one in there}))


def refuse_if_of_session(context: Context, session: str, preferred: str) -> None:
    """Raise CheckpointError if the newest prompt of a session is in another root. For a conversation that cannot be read here. Both
    arguments are those of conversation.find_prompt."""
    mine = [point for point, _ in context.store.checkpoints() if point.worktree == context.root.key and point.session and point.agent]
    wanted = conversations.whole_session(context, session) or (preferred if any(point.session == preferred for point in mine) else "")
    newest = next((point for point in mine if not wanted or point.session == wanted), None)
    if newest is not None:
        _refuse_foreign_newest(context, newest.agent, newest.session, mine)


def _refuse_foreign_newest(context: Context, agent: str, session: str, points: Sequence[Checkpoint]) -> None:
    """Raise CheckpointError unless the newest prompt of a session is one of this root's, `points`."""
    there = [one for one in _prompts_elsewhere(context, agent, session) if one.session == session]
    here = max((point.created_ns for point in points if point.session == session and point.trigger == checkpoints.PROMPT), default=0)
    if there and here < there[-1].created_ns:
        raise _error_for_newest(agent, session, there[-1])


def _prompts_elsewhere(context: Context, agent: str, session: str) -> list[Checkpoint]:
    """The checkpoints of an agent's prompts in other worktrees of this store, and of the session's in other stores, oldest first.
    A store that cannot be read is left out."""
    found = [point for point, _ in context.store.checkpoints() if point.worktree != context.root.key]
    with suppress(errors.StoreError):
        own = os.path.realpath(context.store.path)
        places = (registry.store_directory(context.data, name) for name in registry.store_names(context.data))
        for path in (path for path in places if os.path.realpath(path) != own and AgentSessions(path).find(agent, session) is not None):
            with suppress(errors.CasrewindError, OSError), Store(path, deadline=_WAIT) as store:
                found += [point for point, _ in store.checkpoints() if point.session == session]
    mine = (point for point in found if point.trigger == checkpoints.PROMPT and point.agent == agent and not point.more.machine)
    return sorted(mine, key=lambda point: point.created_ns)


def _error_for_newest(agent: str, session: str, newest: Checkpoint) -> errors.CheckpointError:
    root = os.fsdecode(newest.root)
    return errors.CheckpointError(
        f"the newest turn of {session_in_words(agent, session)} is in {printable(root)}: nothing was changed",
        f"casrewind -C {shell_quoted(root)} back takes it back there",
    )
