"""An event of a coding agent becomes a checkpoint: the files as they are, and where the conversation is.

The danger prevented here: somebody else's file in the store because a client named it as its transcript. Only a regular
file of lines below the home directory, or below the directory that the client keeps its files in, is taken for one.
"""

import os

from .. import agents, fsio
from ..agents import lines
from ..agents.event import Event
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from .save import Moment, Saved, save
from .site import Site

_MOST = 256 << 20
"""Bytes of a transcript that are stored. A longer one is left where it is; the cursor still names its place."""
_OUTSIDE = "changed since the last checkpoint by something else than this turn"


def record(site: Site, event: Event, at_ns: int, homes: tuple[str, ...], *, transcripts: bool) -> Saved:
    """Make the checkpoint of an event that happened at `at_ns` (nanoseconds since 1970).

    A transcript is looked for below `homes` only; its bytes are stored with `transcripts`. Raises as `save` does.
    """
    agent = agents.get(event.agent)
    path = event.transcript if _may_read(event.transcript, homes) else ""
    cursor = agent.cursor_at(path or b"", event)
    moment = Moment(
        trigger=event.trigger,
        prompt=event.prompt.strip(),
        agent=event.agent,
        session=event.session,
        cursor=cursors.encode(cursor),
        transcript=_bytes_of(path) if path and transcripts else b"",
        at_ns=at_ns,
        if_changed=_OUTSIDE if event.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START) else "",
    )
    return save(site, moment)


def _may_read(path: str, homes: tuple[str, ...]) -> bool:
    real = os.path.realpath(path) if path else ""
    return real.endswith(".jsonl") and any(real.startswith(os.path.realpath(home).rstrip("/") + "/") for home in homes if home)


def _bytes_of(path: str) -> bytes:
    """A transcript up to the end of its last whole line, b"" when it cannot be had."""
    try:
        if os.stat(path).st_size > _MOST:
            return b""
        data = fsio.read_file(os.path.realpath(path), _MOST)
    except (OSError, ValueError):
        return b""
    return data[: lines.whole(data)]
