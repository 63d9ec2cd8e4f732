"""`casrewind hook AGENT`: called by a client at its events, with JSON on standard input.

The danger prevented here: a tool that is in the agent's way. Whatever happens, nothing is printed (it would become part of
the conversation), the exit code is 0, and the client waits no longer than the event's budget. What could not be done is
written into the store's log and shown by the next command. Nothing is imported before it is known that there is work.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..agents.event import Event

_CHILD = "--child"
_SLICE = 4
"""A save that took longer than the budget divided by this is done by a child, which the hook does not have to wait for."""
_UNHURRIED = 120.0
"""Seconds that a child, which nobody waits for, may take for twice as long as it waits for a lock."""
_SPARE = 0.2
"""Seconds of the budget that are kept for coming to an end."""


def main(argv: list[str]) -> int:
    """Handle one event; always 0."""
    at_ns = time.time_ns()
    log = _Log()
    try:
        _handle(argv, at_ns, log)
    except (Exception, KeyboardInterrupt) as error:
        log.add(f"{' '.join(argv[:2])}: {type(error).__name__}: {error}")
    return 0


class _Log:
    """Where to complain: in the store once it is known, before that in the data directory."""

    directory = ""

    def add(self, text: str) -> None:
        from contextlib import suppress

        from ..store.log import Log

        with suppress(Exception):
            if not self.directory:
                from . import environment

                self.directory = environment.data_directory()
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
            Log(self.directory).add(text)


def _handle(argv: list[str], at_ns: int, log: _Log) -> None:
    from .. import agents
    from ..agents import event as events

    payload = events.drain(0)  # to its end, whatever it is worth: the client's write must not fail
    words = argv[: argv.index(_CHILD)] if _CHILD in argv else argv
    profile = agents.profile_of(words[0] if words else "")
    event = events.read(profile, payload, os.environ, words[1] if len(words) > 1 else "")
    if not event.trigger and event.command is None:
        return
    root = event.root or event.cwd or os.getcwd()
    if event.command is not None:
        from . import inside

        inside.answer(event, profile, root)
        return
    from .. import hooks
    from ..workspace import Workspace
    from . import environment

    found = environment.read(store=None, force=False)
    if not events.wanted(profile, event, found.config.tier):
        return
    budget = _UNHURRIED if _CHILD in argv else event.budget
    if _CHILD in argv:
        at_ns = int(argv[argv.index(_CHILD) + 1])
    settings = found.settings._replace(deadline=max(budget / 2, 0.4))
    with Workspace(root, settings, create=True) as workspace:
        log.directory = workspace.store_path
        last = hooks.last_save_ms(workspace)
        if _CHILD in argv or (last is not None and last <= event.budget * 1000 / _SLICE):
            homes = (settings.home, os.environ.get(profile.home_variable, ""))
            hooks.record(workspace, event, at_ns, homes, transcripts=found.config.transcripts)
            return
    wait = 0.0 if event.trigger == "session_start" else event.budget - (time.time_ns() - at_ns) / 1e9 - _SPARE
    _start_child(event, payload, at_ns, wait)


def _start_child(event: "Event", payload: bytes, at_ns: int, wait: float) -> None:
    """Leave the whole save to a process in a session of its own, and wait for it for `wait` seconds."""
    import subprocess

    command = [sys.executable, "-P", "-m", "casrewind", "hook", event.agent, event.name, _CHILD, str(at_ns)]
    null = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True, cwd="/")
    if child.stdin is not None:
        child.stdin.write(payload)
        child.stdin.close()
    try:
        child.wait(timeout=max(wait, 0.0))
    except subprocess.TimeoutExpired:
        child.returncode = 0  # it goes on without us; nobody is to warn that it was not waited for
