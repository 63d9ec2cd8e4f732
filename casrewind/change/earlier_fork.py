"""Finds a fork that an earlier rewind to the same moment made.

The danger prevented here: each time that a person types the same rewind again, the client's list of sessions gets one more
that looks like the one before.
"""

import os
from contextlib import suppress

from .. import errors
from ..agents import session_files
from ..context import Context
from ..history import conversation as conversations
from ..history.conversation import Conversation
from ..model import rewind_record as rewinds
from ..model.checkpoint import Checkpoint


def find_earlier_fork(context: Context, conversation: Conversation, cut: bytes, point: Checkpoint) -> tuple[str, str, bytes] | None:
    """The newest fork of a conversation at a checkpoint in which nothing was asked since: (session, path, data) or None. `cut`: the
    conversation before the checkpoint."""
    client = conversation.client
    asked = [prompt.text for prompt in client.prompts(cut)]
    same = (context.root.key, rewinds.FORK, client.name, conversation.session, point.id)
    made = [one for one in context.store.rewinds() if (one.worktree, one.mode, one.agent, one.parent, one.checkpoint) == same]
    for one in reversed(made):
        path = os.fsdecode(one.transcript)
        with suppress(errors.AgentError):
            session_files.refuse_unsafe_transcript_path(client, path, one.session, context.homes)
            data = conversations.live_transcript(client, path)
            if data and [prompt.text for prompt in client.prompts(data)] == asked:
                return one.session, path, data
    return None
