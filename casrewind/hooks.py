"""What agents and their hooks ask of a workspace. Not part of the Python API yet."""

import os
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .agents.event import Event
    from .agents.sessions import Homes
    from .model.checkpoint import Checkpoint
    from .model.domain import Skip
    from .model.manifest import Entry
    from .model.retention import Limits
    from .ops.compare import Comparison, Look
    from .ops.gc import Collected
    from .ops.resting import Seen
    from .ops.rewind import Rewound
    from .ops.save import Saved
    from .settings import Settings
    from .store.catalog import Marked
    from .store.sessions import Session
    from .typed import Any
    from .workspace import Workspace
    from .worktree.root import Root
    from .worktree.watch import Watch

# ruff: noqa: SLF001 - this is the workspace's other door
_BETWEEN_TOOLS_NS = 15_000_000_000
"""Least time between a checkpoint of tools and one that is made after further tools ran."""


@contextmanager
def in_turn(root: "Root", settings: "Settings", seconds: float) -> "Iterator[None]":
    """Hold the lock that makes background saves of a worktree run one after the other. Makes the store if it is missing.

    It is taken before anything of the project is read. So the next save finds what the one before it stored, and only one process at
    a time tries a save that cannot succeed. Raises StoreBusy when the lock is not free within `seconds`, else as the store does.
    """
    from . import fsio
    from .settings import store_of
    from .store.layout import Layout

    layout = Layout(store_of(root, settings))
    if not layout.exists():
        layout.create()
    layout.check()
    lock = fsio.open_lock(layout.lock("turn-" + root.key.hex()))
    try:
        if lock is not None:
            fsio.acquire(lock, exclusive=True, deadline=seconds, holder="turn")
        yield
    finally:
        if lock is not None:
            os.close(lock)


def record(
    workspace: "Workspace", event: "Event", at_ns: int, homes: tuple[str, ...], *, transcripts: bool, asked: bool = False
) -> "Saved | None":
    """Make the checkpoint of an agent's event that happened at `at_ns`: see ops/event.py. `asked`: the helper was asked for it, and
    has not answered; None when it has made it."""
    from .ops import event as recording

    site = workspace._site
    if asked and recording.is_made(site, event, at_ns):
        return None
    return recording.record(site, event, at_ns, homes, transcripts=transcripts)


def watched(workspace: "Workspace", watch: "Watch") -> None:
    """Have the next save of a workspace look only at what `watch` does not know to be as it was. `settle` has to follow."""
    workspace._opened = workspace._site._replace(watch=watch)
    workspace._site.store.index.rely_on(watch.proof)


def settle(workspace: "Workspace", watch: "Watch") -> None:
    """After `watched` and a save, when nobody waits any more: do what was put off. Raises CasrewindError, OSError."""
    from .ops import watched

    site = workspace._site
    try:
        with site.store.holding():
            watched.renew(site, watch)
    finally:
        watch.proof = site.store.index.settle()


def unnoticed(workspace: "Workspace", watch: "Watch", is_quiet: "Callable[[], bool]") -> list[bytes]:
    """The paths at which there is something else than `watch` knows of: see ops/watched.py."""
    from .ops import watched

    site = workspace._site
    with site.store.holding():
        return watched.unnoticed(site, watch, is_quiet)


def note(workspace: "Workspace", event: "Event", at_ns: int, parent: int = 0) -> None:
    """Write down that a session is alive, and tell the agent's shell which one it runs in. `parent`: the process that called the hook,
    if it was not this one that it called. Raises nothing: neither is what a rewind rests on."""
    write_down(workspace, sighting(workspace, event, at_ns, parent))
    tell_shell(workspace, event)


def sighting(workspace: "Workspace", event: "Event", at_ns: int, parent: int = 0) -> "Session":
    """What is now known of a session, as `note` has it: to be asked for while the client waits, whose process is looked for."""
    from .agents import sessions as clients
    from .store.sessions import Session

    site = workspace._site
    client = clients.client(event) or clients.caller(parent)
    return Session(
        agent=event.agent,
        session=event.session,
        transcript=event.transcript,
        root=workspace.root.path,
        worktree=site.root.key.hex(),
        updated_ns=at_ns,
        event=event.name,
        running=event.trigger in ("prompt", "tool_batch"),
        pid=0 if client is None else client.pid,
        pid_start="" if client is None else client.start,
        env_file=event.env_file,
        parent=event.parent,
    )


def write_down(workspace: "Workspace", seen: "Session") -> None:
    """Write a sighting down. Raises nothing."""
    workspace._site.store.sessions.note(seen)


def tell_shell(workspace: "Workspace", event: "Event") -> None:
    """Tell the agent's shell which session it runs in, where the client says how. Raises nothing."""
    if event.env_file:
        from contextlib import suppress

        from .agents import exports

        with suppress(OSError, ValueError):
            known = exports.of_session(event.agent, event.session, event.transcript, workspace.root.path)
            exports.append(event.env_file, exports.lines(known))


def is_untouched(workspace: "Workspace") -> bool:
    """Whether nothing was ever written down in a workspace's store."""
    from .store.layout import Layout

    return Layout(workspace.store_path).is_untouched()


def is_too_soon(workspace: "Workspace", event: "Event", at_ns: int) -> bool:
    """True when an event ends a batch of tools, and the newest checkpoint of a tool is too young for another one.

    Before a tool it is never too soon: the tool may remove a file that was made an instant ago.
    """
    if event.trigger != "tool_batch" or event.before_tool:
        return False
    site = workspace._site

    def ends_the_search(point: "Checkpoint") -> bool:
        is_old = at_ns - point.created_ns >= _BETWEEN_TOOLS_NS
        return is_old or (point.worktree == site.root.key and point.trigger == "tool_batch")

    found = [point for point, _ in site.store.checkpoints(1, ends_the_search) if ends_the_search(point)]
    return any(point.trigger == "tool_batch" and 0 <= at_ns - point.created_ns < _BETWEEN_TOOLS_NS for point in found)


def why_gc(workspace: "Workspace") -> str:
    """Why it is time for gc after what this workspace has saved, "" when it is not."""
    site = workspace._site
    return site.store.why_gc(site.budget)


def faults(workspace: "Workspace") -> "tuple[Skip, ...]":
    """Settings and rules for the whole worktree that could not be read: its own settings, rules outside of it, git's settings."""
    return workspace._site.options.faults


def store_size(workspace: "Workspace") -> int:
    """Bytes of the store on disk."""
    return workspace._site.store.size()


def gc(workspace: "Workspace", limits: "Limits", target: int | None) -> "Collected":
    """gc that brings a store which is over `target` bytes down to so many, where that can be had."""
    from .ops import gc as collecting

    return collecting.collect(workspace._site, limits, target=target)


def note_failed_gc(workspace: "Workspace") -> None:
    """Remember that gc was tried: the next one by itself is due in a day."""
    workspace._site.store.upkeep().note_failed()


def last_save_ms(workspace: "Workspace") -> int | None:
    """How many milliseconds the newest save of a worktree took; None when there is none, or when the next one cannot go by what that one
    has seen: it reads everything, as a first one does. Where the store cannot be written none is made, which takes no time."""
    site = workspace._site
    head = site.store.head(site.root.key)
    if head is None:
        return None
    if not site.store.believes(site.root.key, site.tree.life) and os.access(site.store.path, os.W_OK):
        return None
    return head.elapsed_ms


def back(workspace: "Workspace", number: int, **options: "Any") -> "Rewound":
    """The conversation before a prompt, and the files of that moment: see ops/rewind.py for the options."""
    from .ops import rewind

    return rewind.back(workspace._site, _homes(workspace), number, **options)


def to_checkpoint(workspace: "Workspace", point: "Checkpoint", **options: "Any") -> "Rewound":
    """The conversation at a checkpoint, and the files of that moment: see ops/rewind.py for the options."""
    from .ops import rewind

    return rewind.to_checkpoint(workspace._site, _homes(workspace), point, **options)


def _homes(workspace: "Workspace") -> "Homes":
    from .agents.sessions import Homes

    return Homes(workspace._settings.home, workspace._settings.environ)


def look(workspace: "Workspace") -> "Look":
    """The worktree as it is now, for any number of comparisons: see ops/compare.py."""
    from .ops import compare

    return compare.look(workspace._site)


def towards(workspace: "Workspace", seen: "Look", point: "Checkpoint") -> "Comparison":
    """What changes on the way from the worktree to a checkpoint: see ops/compare.py."""
    from .ops import compare

    return compare.towards(workspace._site, seen, point)


def newest(
    workspace: "Workspace", most: int, wanted: "Callable[[Checkpoint], bool]"
) -> "list[tuple[Checkpoint, Marked]]":
    """The newest checkpoints of a store with their marks, newest first, down to the last of `most` that are `wanted`."""
    return workspace._site.store.checkpoints(most, wanted)


def directory(workspace: "Workspace", point: "Checkpoint", place: bytes) -> "dict[bytes, Entry]":
    """What is in one directory of a checkpoint, by name; b"" is the root."""
    from .model import manifest

    return manifest.Finder(workspace._site.store.load_tree, point.tree).directory(place)


def lineage(workspace: "Workspace", session: str) -> dict[str, int | None]:
    """A session and those that it goes on from: see ops/conversation.py."""
    from .ops import conversation

    return conversation.lineage(workspace._site, session)


def unseen_failures(workspace: "Workspace", data: str) -> list[str]:
    """What went wrong where nobody was looking, one line each, in the store or before one was found (in the log of the
    data directory); a second time there is nothing to tell."""
    from .store.log import Log

    return [*Log(data).unseen(), *Log(workspace.store_path).unseen()]


def agents_seen(workspace: "Workspace") -> "list[Seen]":
    """The agents that were seen in a worktree, and what was seen of each last: see ops/resting.py."""
    from .ops import resting

    return resting.seen(workspace._site)
