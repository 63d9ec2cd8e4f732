"""Does the work of one hook in a fork of the helper (helper.py), when the hook asks for it (ask.py).

The danger prevented here: the helper does something else than the hook would do. So the fork runs the hook's own code, with the
hook's environment, directory and payload. A request about another project or store is refused, and the hook does it itself.
"""

import os
import socket
import time
from contextlib import suppress

from .. import agents, errors
from ..agents import event as events
from ..agents.profile import TIERS, Profile
from ..ops import event as recording
from ..ops import stat_cache
from ..settings import find_root, store_of
from ..workspace import Workspace, site_of
from ..worktree import root as roots
from ..worktree.watch import Watch
from . import ask, bounds, environment, hook
from .asked import HURRY, Request, read


def run(talk: socket.socket, root: roots.Root, store: str, watch: Watch | None) -> None:
    """Do the work of the hook at the other end of `talk`. The hook's environment replaces that of this process.

    When anything goes wrong before the hook says "go", the hook does the work itself.
    """
    request = read(talk)
    if request is None or request.identity != ask.identity(root.path):
        return
    os.environb.clear()
    os.environb.update(request.variables)
    os.chdir(request.directory)
    profile = agents.profile_of(request.words[0] if request.words else "")
    event = events.read(profile, request.payload, os.environ, request.words[1] if len(request.words) > 1 else "")
    if event.command is not None:
        return  # to be answered where the client listens
    found = environment.read(store=None, force=False)
    if not event.trigger or not events.wanted(profile, event, found.config.tier or TIERS[-1]):
        if _is_told(talk, event.budget):
            _say_done(talk)
        return
    theirs = find_root(_place(request, event), found.settings)
    if theirs.path != root.path or store_of(theirs, found.settings) != store:
        return
    bounds.begin()
    bounds.allow_index(store)
    found.settings = found.settings._replace(deadline=max(event.budget / 2, 0.4))
    with suppress(errors.CasrewindError, OSError), recording.in_turn(store, theirs.key, 0.0):
        if not _is_told(talk, event.budget):
            return
        log = hook.Log()
        try:
            _save(talk, request, event, profile, found, watch, log)
        except (Exception, bounds.TooMuch) as error:  # not done, or the hook knows that it is: else it tries it itself
            log.add(f"{' '.join(request.words[:2])} (casrewind watch): {hook.reason(error)}")


def _is_told(talk: socket.socket, budget: float) -> bool:
    """Say that this process is ready. True when the hook answers that the work is to be done."""
    try:
        talk.settimeout(HURRY)
        talk.sendall(ask.READY + int(budget * 1000).to_bytes(4, "big"))
        return ask.receive(talk, 1, time.monotonic() + HURRY) == ask.GO
    except OSError:
        return False  # the hook does it itself


def _say_done(talk: socket.socket) -> None:
    with suppress(OSError):  # the hook no longer waits
        talk.sendall(ask.DONE)


def _place(request: Request, event: events.Event) -> str:
    return event.root or event.cwd or request.directory


def _save(
    talk: socket.socket,
    request: Request,
    event: events.Event,
    profile: Profile,
    found: environment.Environment,
    watch: Watch | None,
    log: hook.Log,
) -> None:
    with Workspace(_place(request, event), found.settings, create=True, watch=watch) as workspace:
        log.directory = workspace.store_path
        site = site_of(workspace)
        seen = recording.seen(site, event, request.at_ns, request.parent)
        recording.tell_shell(site, event)
        try:
            if not recording.is_too_soon(site, event, request.at_ns):
                hook.save(site, event, profile, found, request.at_ns)
            _say_done(talk)
        finally:  # the hook no longer waits for these: that a session is alive, and what was put off
            site.store.sessions.note(seen)
            hook.say_odd(event, log)
            if watch is not None:
                with suppress(errors.CasrewindError, OSError):  # then the next one has to look for itself
                    stat_cache.settle(site, watch)
