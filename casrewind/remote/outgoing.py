"""What leaves this machine with a push that a person types: the files of now are saved first, and new files are named.

Two dangers are prevented here. A person types `push`, is told that all is pushed, and switches the machine off: the edits since
the last turn were in no checkpoint. And a file leaves the machine of which nobody knew: a key that an agent wrote into the project.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from .. import agents, environment, errors, programs
from .._typing import NamedTuple
from ..agents import client_process, run_program
from ..change.receipt import MOST_IGNORED
from ..context import Context
from ..history import compare
from ..model import diff as diffs
from ..model.checkpoint import SAFETY, Checkpoint
from ..model.manifest import DIR
from ..store import push_notes
from ..store.reachability import HOLDS, reference_of_file
from ..upkeep.conversation_rest import save_killed_session
from ..upkeep.save import Saved, save
from ..upkeep.unprotected import find_unprotected, name_of
from .piece import CONTAINER, CONTENT
from .sync_state import StateFiles


class SavedFirst(NamedTuple):
    """What became of the save before a push: the save, None if there was none. `why_not`: why nothing was to be saved, or "". `problem`:
    why the save failed, or ""."""

    saved: Saved | None = None
    why_not: str = ""
    problem: str = ""


def save_first(context: Context) -> SavedFirst:
    """Save the files of now, if nothing speaks against it. Nothing is published if the newest checkpoint has this very state. Raises
    nothing that a save raises: what is saved already is worth a push."""
    why_not = why_not_saved(context)
    if why_not:
        return SavedFirst(why_not=why_not)
    try:
        killed = save_killed_session(context, transcripts=environment.configuration().transcripts)
        return SavedFirst(killed or save(context))
    except (errors.CasrewindError, OSError) as error:
        return SavedFirst(problem=str(error))


def why_not_saved(context: Context) -> str:
    """Why a push does not save the files of now first, "" if it does. After a purge the file with the secret may still be there."""
    directory = push_notes.remote_directory(context.store.remotes)
    if directory and StateFiles(directory).is_purged():
        return "after a purge the current files are not saved first: they may have what was purged"
    running = agent_at_work(context)
    return f"a turn of {running} is running, so the current files are not saved: this sends what is saved already" if running else ""


def agent_at_work(context: Context) -> str:
    """The agent that works on a turn in this project now, `run` for a command of `casrewind run`, "" for none."""
    sessions, key = context.store.sessions, context.root.key.hex()
    for one in (*sessions.running_commands(), *sessions.all()):
        if one.worktree != key or not one.running or one.pid <= 0:
            continue
        is_alive = client_process.is_alive_or_unknown(client_process.ClientProcess(one.pid, one.pid_start))
        if is_alive and not agents.ends_interrupted(one.agent, one.transcript):
            return one.agent
    return ""


class Outgoing(NamedTuple):
    """What the next push takes along. `new`: the paths of files whose content the remote has not, sorted by when they came. `unsaved`: what
    the files of now have, and no checkpoint: all zero if they were not looked at."""

    new: tuple[bytes, ...] = ()
    unsaved: diffs.Counts = diffs.Counts(0, 0, 0)


def find_outgoing(context: Context, directory: str, *, with_now: bool) -> Outgoing:
    """What the next push takes along: the files that a waiting checkpoint has, and the one before it has not. `directory` is that of
    the remote. `with_now`: look at the files of now, too. Raises StoreDamaged."""
    files, store = StateFiles(directory), context.store
    files.forget_purged_chain()
    sent, is_there = files.state.position.seq, files.sent()

    def added(changes: Iterable[diffs.Change]) -> Iterator[bytes]:
        for change in changes:
            if change.old is None and change.new is not None and change.new.kind != DIR:
                held = reference_of_file(change.new)
                if bytes((CONTAINER if held.kind in HOLDS else CONTENT,)) + held.digest not in is_there:
                    yield change.path

    own = [point for point, _ in store.checkpoints() if not point.more.machine][::-1]
    before = {point.worktree: point.tree for point in own if point.seq <= sent}
    found: dict[bytes, None] = {}
    for point in own:
        if point.seq > sent and point.is_saved:
            found |= dict.fromkeys(added(diffs.diff(store.load_tree, before.get(point.worktree), point.tree)))
            before[point.worktree] = point.tree
    if not with_now:
        return Outgoing(tuple(found))
    seen = compare.scan_worktree(context)
    changes = [*diffs.diff(seen.load, before.get(context.root.key), seen.tree)]
    return Outgoing(tuple(found | dict.fromkeys(added(changes))), diffs.count(changes))


def with_receipt_facts(context: Context, points: list[Checkpoint]) -> list[Checkpoint]:
    """These checkpoints of this machine as they are sent: the newest one of this root also tells what a receipt names and nothing else
    says. That is which ignored paths stay here, and the version of the agent's client if its conversation names none."""
    own = [point for point in points if point.worktree == context.root.key and point.is_saved and point.trigger != SAFETY]
    if not own:
        return points
    told = own[-1].more._replace(ignored_there=_ignored_names(context), client_version=_version_of_client(context, own[-1]))
    return [point._replace(more=told) if point is own[-1] else point for point in points]


def _ignored_names(context: Context) -> str:
    with suppress(errors.CasrewindError, OSError):
        return b"\0".join(map(name_of, find_unprotected(context)[:MOST_IGNORED])).decode("utf-8", "surrogateescape")
    return ""


def _version_of_client(context: Context, point: Checkpoint) -> str:
    with suppress(errors.CasrewindError):
        client, environ = agents.load_conversation_client(point.agent), {"HOME": context.homes.home, **context.homes.environ}
        program = None if client.sessions.client_version else programs.find_program(client.program, environ)
        return (run_program.ask_version(program, environ)[0] or "") if program else ""
    return ""
