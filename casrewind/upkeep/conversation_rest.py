"""Stores what a client wrote of a conversation after the hook of a turn's end.

The danger prevented here: another machine goes on without the last answer. A client writes the end of a turn after the
hook, and a hook cannot wait for that: the client waits for the hook. So before checkpoints leave this machine, the rest
is stored with one more checkpoint, which has the files of the turn's end.
"""

import io
import os
from functools import partial

from .. import agents, errors
from ..agents import session_files, transcript_position
from ..context import Context
from ..history import conversation as conversations
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..model.diff import Counts
from .save import PROMPT, redraft

_ENDS = frozenset({"turn_end", "session_end"})


def store_rest(context: Context, *, transcripts: bool) -> Checkpoint | None:
    """Store the rest of a conversation, if the root's newest checkpoint is the end of its turn. None if there is nothing to store,
    if the conversation has gone on since, or if no `transcripts` are wanted. Raises StoreError and others."""
    head = context.store.head(context.root.key)
    if not transcripts or head is None or head.trigger not in _ENDS or not head.cursor:
        return None
    cursor = cursors.decode(head.cursor)
    data = _read_if_newer(context, head, cursor)
    if not data:
        return None
    if os.path.isfile(cursor.transcript):  # a session in a database has no offsets
        cursor = transcript_position.moved_to_end(agents.load_client(head.agent), cursor, data)
    with context.store.writing() as writer:
        count, digest, chunks = writer.put_append_only(io.BytesIO(data), len(data))
        draft = head._replace(
            seq=0,
            id="c" + os.urandom(7).hex(),
            parent=head.id,
            label="",
            changes=Counts(0, 0, 0),
            flags=head.flags & checkpoints.NOT_SAVED,
            cursor=cursors.encode(cursor),
            transcript=manifest.Entry(manifest.FILE, 0o600, count, 0, digest, chunks=chunks),
        )
        return context.store.publish(writer, draft, partial(redraft, context, writer, draft, None))


def _read_if_newer(context: Context, head: Checkpoint, cursor: cursors.Cursor) -> bytes:
    """The live transcript; b"" if it has nothing new, cannot be read, is another one, or has a prompt that no hook reported."""
    path, stored = os.fsdecode(cursor.transcript), 0 if head.transcript is None else head.transcript.size
    try:
        client = agents.load_conversation_client(head.agent)
        session_files.refuse_unsafe_transcript_path(client, path, head.session, context.homes)
        if os.path.isfile(path) and os.path.getsize(path) <= stored:
            return b""
        data = conversations.live_transcript(client, path)
        prompts = client.prompts(data) if len(data) > stored else []
    except (errors.AgentError, errors.UnknownAgent, OSError):
        return b""
    if not prompts:
        return b""
    own = (point.own_prompt for point, _ in context.store.checkpoints() if point.session == head.session)
    return data if prompts[-1].text.strip()[:PROMPT] == next(filter(None, own), "") else b""
