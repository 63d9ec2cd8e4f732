"""Does the work of one hook in a fork of the helper (helper.py), when the hook asks for it (protocol.py).

The danger prevented here: the helper does something else than the hook would do. So the fork runs the hook's own code,
with the hook's environment, directory and payload. A request about another project or store is refused, and the hook
does the work itself.
"""

import os
import socket
import time
from contextlib import suppress

from ... import errors
from ..._typing import NamedTuple
from ...ops import agent_event, save
from ...settings import find_root, store_of
from ...workspace import Workspace, context_of
from ...worktree import root as roots
from ...worktree.change_set import ChangeSet
from . import command, limits, protocol

_MOST = 64 << 20  # bytes of a request
HURRY = 2.0
"""Seconds in which a hook must send its whole request."""


class HelperRequest(NamedTuple):
    """A decoded request: a hook's arguments, event time, parent, directory, root identity, environment and payload."""

    words: list[str]
    at_ns: int
    parent: int
    directory: str
    identity: str
    variables: dict[bytes, bytes]
    payload: bytes


def read(talk: socket.socket) -> HelperRequest | None:
    """Read a request, or None if it was not complete in time. Raises OSError."""
    end = time.monotonic() + HURRY
    head = protocol.receive(talk, 8, end)
    size = sum(_lengths(head))
    if len(head) < 8 or size > _MOST:
        return None
    data = head + protocol.receive(talk, size, end)
    told, carried = _lengths(head)
    if len(data) != 8 + told + carried:
        return None
    texts = data[8 : 8 + told].split(b"\0")
    count = int(texts[2])
    words = [os.fsdecode(text) for text in texts[3 : 3 + count]]
    variables = dict(text.split(b"=", 1) for text in texts[3 + count :])
    return HelperRequest(words[2:], int(texts[0]), int(texts[1]), words[0], words[1], variables, data[8 + told :])


def _lengths(head: bytes) -> tuple[int, int]:
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")


def run(talk: socket.socket, root: roots.Root, store: str, watch: ChangeSet | None) -> None:
    """Do the work of the hook that sent a request through `talk`, with the hook's environment.

    After any failure before the hook's GO, the hook does the work itself.
    """
    request = read(talk)
    if request is None or request.identity != protocol.identity(root.path):
        return
    os.environb.clear()
    os.environb.update(request.variables)
    os.chdir(request.directory)
    job = command.HookJob(request.words, request.payload, request.at_ns)
    if job.event.command is not None:
        return  # the hook answers it, because the client reads the hook's output
    if not job.is_wanted():
        if _wait_for_go(talk, job.event.budget):
            _report_done(talk)
        return
    job.prepare(job.event.budget)
    theirs = find_root(job.place, job.settings)
    if theirs.path != root.path or store_of(theirs, job.settings) != store:
        return
    limits.begin()
    limits.allow_index(store)
    with suppress(errors.CasrewindError, OSError), agent_event.one_at_a_time(store, theirs.key, 0.0):
        if not _wait_for_go(talk, job.event.budget):
            return
        log = command.HookLog()
        try:
            _save(talk, request.parent, job, watch, log)
        except (Exception, limits.CpuLimitReached) as error:  # the hook was not told "done": it tries the save itself
            log.add(f"{' '.join(request.words[:2])} (casrewind watch): {command.reason(error)}")


def _wait_for_go(talk: socket.socket, budget: float) -> bool:
    """Report that this process is ready. True if the hook answers "go"."""
    try:
        talk.settimeout(HURRY)
        talk.sendall(protocol.READY + int(budget * 1000).to_bytes(4, "big"))
        return protocol.receive(talk, 1, time.monotonic() + HURRY) == protocol.GO
    except OSError:
        return False  # the hook does it itself


def _report_done(talk: socket.socket, notice: bytes = b"") -> None:
    with suppress(OSError):  # the hook no longer waits
        talk.sendall(protocol.DONE + len(notice).to_bytes(4, "big") + notice)


def _save(talk: socket.socket, parent: int, job: command.HookJob, watch: ChangeSet | None, log: command.HookLog) -> None:
    with Workspace(job.place, job.settings, create=True, watch=watch) as workspace:
        log.directory = workspace.store_path
        context = context_of(workspace)
        seen = agent_event.seen(context, job.event, job.at_ns, parent)
        agent_event.write_shell_variables(context, job.event)
        notice = job.notice(context, None)
        try:
            if not agent_event.is_too_soon(context, job.event, job.at_ns):
                notice += job.notice(context, job.save(context))
            _report_done(talk, notice)
        finally:  # the hook no longer waits: the rest of the bookkeeping
            context.store.sessions.note(seen)
            command.log_oddities(job.event, log)
            if watch is not None:
                with suppress(errors.CasrewindError, OSError):  # then the next save compares everything
                    save.finish_watch(context, watch)
