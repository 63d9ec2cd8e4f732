"""Stores what a client wrote of a conversation and no hook was told of: after the hook of a turn's end, or in a turn that a kill cut short.

The danger prevented here: another machine goes on without the last answer. A client writes the end of a turn after the
hook, and a hook cannot wait for that: the client waits for the hook. So before checkpoints leave this machine, the rest
is stored with one more checkpoint, which has the files of the turn's end. A client that is killed calls no hook: what it left is saved
as the end of its session.
"""

import io
import os
import time
from functools import partial

from .. import agents, errors
from ..agents import client_process, session_files, transcript_position
from ..agents.event import event_without_payload
from ..context import Context
from ..history import conversation as conversations
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..model.diff import Counts
from . import agent_event
from .save import PROMPT, Saved, redraft

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


def save_killed_session(context: Context, *, transcripts: bool) -> Saved | None:
    """Make the checkpoint that the client of the newest session would have made at its end, if it died in the middle of a turn. None if
    none did, or if a later one of its session is there. Raises as a save does."""
    found = next((one for one in context.store.sessions.all() if one.worktree == context.root.key.hex()), None)
    if found is None or not found.running or found.pid <= 0:
        return None
    newest = context.store.newest_of_agents(context.root.key).get(found.agent)
    is_its_own = newest is not None and newest.session == found.session and newest.trigger not in _ENDS
    if not is_its_own or client_process.is_alive_or_unknown(client_process.ClientProcess(found.pid, found.pid_start)):
        return None
    client = agents.load_client(found.agent)
    name = next((name for name, trigger in client.events.triggers.items() if trigger == "session_end"), "")
    event = event_without_payload(found.agent, name, "session_end", found.session, found.transcript)
    homes = client.accepted_transcript_homes(context.homes.home, context.homes.environ)
    saved = agent_event.record_event(context, event, time.time_ns(), homes, transcripts=transcripts)
    context.store.sessions.record(found._replace(running=False, event=name, updated_ns=time.time_ns()))
    return saved


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
