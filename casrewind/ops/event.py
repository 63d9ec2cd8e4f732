"""An event of a coding agent becomes a checkpoint: the files as they are, and where the conversation is.

The danger prevented here: somebody else's file in the store because a client named it as its transcript. Only a regular
file of lines below the home directory, or below the directory that the client keeps its files in, is taken for one.
"""

import os
import stat

from .. import agents, fsio
from ..agents import lines
from ..agents.event import Event
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from .save import Moment, Saved, save
from .site import Site

_MOST = 256 << 20
"""Bytes of a transcript that are stored. A longer one is left where it is; the cursor still names its place."""
_SINCE = "changed since the last checkpoint"
_OUTSIDE = f"{_SINCE} by something else than this turn"
_CUT_SHORT = f"{_SINCE} by a turn that was cut short, or by something else"
_UNSEEN = f"{_SINCE} by a command typed in the client (!), or by something else than a prompt"
_BACKGROUND = f"{_SINCE} by work in the background, or by something else"


def record(site: Site, event: Event, at_ns: int, homes: tuple[str, ...], *, transcripts: bool) -> Saved:
    """Make the checkpoint of an event that happened at `at_ns` (nanoseconds since 1970).

    A transcript is looked for below `homes` only; its bytes are stored with `transcripts`. Raises as `save` does.
    """
    agent = agents.get(event.agent)
    path, lack = _transcript(event.transcript, homes)
    cursor = agent.cursor_at(path or b"", event)
    data = b""
    if path and transcripts:
        data, lack = _bytes_of(path)
    moment = Moment(
        trigger=event.trigger,
        prompt=event.prompt.strip(),
        agent=event.agent,
        session=event.session,
        cursor=cursors.encode(cursor),
        transcript=data,
        at_ns=at_ns,
        if_changed=_story(site, event),
    )
    saved = save(site, moment)
    if lack and transcripts:
        from ..store.log import Log

        Log(site.store.path).add(f"{event.agent} {event.name}: made, but without the conversation: {event.transcript} {lack}")
    return saved


def _story(site: Site, event: Event) -> str:
    """What is known of why files changed before an event, where it is not the turn that the event belongs to."""
    head = site.store.head(site.root.key, listed=True)
    if event.subagent or event.source == "task_notification":
        return _BACKGROUND
    own = head if head is not None and head.session == event.session else None
    running = own is not None and own.trigger in (checkpoints.PROMPT, "tool_batch")
    if event.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START):
        return _CUT_SHORT if running else _OUTSIDE
    if event.trigger == "turn_end" and event.prompt_id and own is not None and not running:
        return _UNSEEN if cursors.decode(own.cursor).prompt_id != event.prompt_id else ""
    return ""


def _transcript(path: str, homes: tuple[str, ...]) -> tuple[str, str]:
    """(the real path of a transcript, "" when it is not to be read; what is wrong with it, "" when nothing is)."""
    if not path:
        return "", ""
    try:
        real = os.path.realpath(path, strict=True)
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return "", ""  # the client writes it a moment later
    except OSError as error:
        return "", f"cannot be read: {error.strerror or error}"
    if not real.endswith(".jsonl") or not stat.S_ISREG(mode):
        return "", "is no .jsonl file"
    if not any(real.startswith(os.path.realpath(home).rstrip("/") + "/") for home in homes if home):
        return "", "is neither in the home directory nor where the client keeps its files"
    return real, ""


def _bytes_of(path: str) -> tuple[bytes, str]:
    """(a transcript up to the end of its last whole line, what is wrong with it)."""
    try:
        if os.stat(path).st_size > _MOST:
            return b"", f"has more than {_MOST >> 20} MiB"
        data = fsio.read_file(path, _MOST)
    except OSError as error:
        return b"", f"cannot be read: {error.strerror or error}"
    return data[: lines.whole(data)], ""
