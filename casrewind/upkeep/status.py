"""Status: is there a checkpoint to return to, and what would it not restore?"""

import os
from collections.abc import Iterator, Sequence

from .. import errors, extras, locations
from .._typing import NamedTuple
from ..agents import client_process
from ..context import Context
from ..gitignore import gitconfig
from ..gitignore.rules import RULE_FILES
from ..history.checkpoint_names import label_of
from ..history.compare import ScannedWorktree, compare_to_scan, scan_worktree
from ..messages import printable
from ..model import diff as diffs
from ..model import manifest
from ..model.checkpoint import Checkpoint
from ..model.composed_changes import changes_beyond_plans
from ..model.diff import Change
from ..model.domain import LATE, LINKED_WORKTREE, SHARED_MEMORY, TOO_LARGE, UNSTABLE, Skip, all_skips
from ..model.undo_history import Operation
from ..store import push_notes, writability
from ..store.agent_sessions import AgentSession
from ..store.budget import GcState
from ..worktree.open_files import find_open_databases
from .gc import unfinished_purge

_LOW_LIMIT = 1 << 20
"""A file size limit in bytes that excludes source files. A cloned project can set such a limit."""
_FLEETING = frozenset({"overlay", "tmpfs", "ramfs"})


class Status(NamedTuple):
    """`checkpoints` counts this worktree's checkpoints without safety ones; `last` is the newest of them, `label` its
    label, `oldest` the oldest checkpoint of any kind. `journal` is the open restore, `running` is True if a process is
    executing it. `reasons` explain why the worktree is not, or not fully, protected."""

    checkpoints: int
    last: Checkpoint | None
    label: str
    protected: bool
    reasons: tuple[str, ...]
    store_bytes: int
    journal: Operation | None
    running: bool
    skipped: tuple[Skip, ...]
    undo: int
    redo: int
    oldest: Checkpoint | None = None


def status(context: Context) -> Status:
    """Read the status from the store. The worktree is not scanned. Raises StoreNotWritable with the reason if parts of
    the store cannot even be read."""
    unwritable = writability.why_unwritable(context.store.path)
    try:
        return _read_status(context, unwritable)
    except (errors.StoreNotWritable, errors.StoreFull, OSError) as error:
        if not unwritable:
            raise
        raise errors.StoreNotWritable(f"NOT PROTECTED: nothing can be saved: {unwritable}") from error


def _read_status(context: Context, unwritable: str) -> Status:
    key = context.root.key
    last = context.store.head(key, listed=True)
    label = "" if last is None else label_of(last, context.store.marks(last.id))
    domain = None if last is None else context.store.domain(last.domain)
    skipped = all_skips(domain) if domain is not None else ()
    reasons = [f"nothing can be saved: {unwritable}"] if unwritable else []
    journal = None
    try:
        journal = context.store.journals.read(key)
    except errors.StoreDamaged:
        reasons.append("the journal of an interrupted restore is damaged: casrewind restore --abort sets it aside")
    running = journal is not None and context.store.is_restoring(key)
    if last is None:
        reasons.append("no checkpoint yet: run casrewind save")
    elif last.files == 0:
        names = " and ".join(map(os.fsdecode, RULE_FILES))
        reasons.append(f"the newest checkpoint holds no file: is everything ignored? look into {names}")
    if domain is not None and domain.max_file_size < _LOW_LIMIT and (left := [skip for skip in skipped if skip.reason == TOO_LARGE]):
        counted = f"{len(left)} files are" if len(left) > 1 else "1 file is"
        limit = f"{domain.max_file_size} bytes" if domain.max_file_size != 1 else "1 byte"
        reasons.append(f"max_file_size limits files to {limit}: {counted} not captured; casrewind config shows where that is set")
    if journal is not None and not running:
        reasons.append("a restore was interrupted: casrewind restore --continue finishes it, --abort takes it back")
    if unfinished := unfinished_purge(context):
        reasons.append(unfinished)
    floor = GcState.read(context.store.path).floor
    if (budget := context.limits.max_size) is not None and floor > budget:
        reasons.append(
            f"the store cannot be kept to its budget of {budget:,} bytes: {floor:,} are pinned, labelled or needed by the "
            f"newest checkpoint and undo; saves continue. casrewind gc --dry-run shows more"
        )
    if push_notes.remote_directory(context.store.remotes) and not extras.are_libraries_installed():
        reasons.append(f"nothing can be pushed: {extras.MISSING}: {extras.INSTALL}")
    reasons += [f"{printable(skip.path)}: {printable(skip.reason)}" for skip in context.policy.faults]
    reasons += [
        f"{printable(doubt.path)} has {doubt.setting} set if {printable(doubt.condition)}: casrewind does not understand this condition, "
        "so that does not count"
        for doubt in gitconfig.find_doubts(context.root.git_dir, context.root.common_dir, context.environ)
    ]
    kind = locations.file_system_type(context.store.path)
    if kind in _FLEETING and locations.file_system_type(context.root.path) not in _FLEETING:
        reasons.append(f"the store lies on {kind}, which disappears with its container: give --store DIR or CASREWIND_HOME")
    above, why = locations.exposed_parent(context.store.path)
    if above:
        reasons.append(
            f"others could rename or remove the store: it lies below {printable(above)}, and {why}; make that "
            "yours alone (chmod go-w), "
            f"or give --store DIR or CASREWIND_HOME"
        )
    if last is not None:
        reasons += _open_databases_in_words(context, last)
    history = context.store.history(key)
    return Status(
        checkpoints=context.store.count_listed_checkpoints(key),
        last=last,
        label=label,
        protected=last is not None and last.files > 0 and not unwritable,
        reasons=tuple(reasons),
        store_bytes=context.store.size(),
        journal=journal,
        running=running,
        skipped=skipped,
        undo=len(history.undo),
        redo=len(history.redo),
        oldest=context.store.oldest(key),
    )


class Unsaved(NamedTuple):
    """How many files of now are not as in `point`, the checkpoint that was saved or restored last. `has_left_out`: some paths cannot be
    captured. `is_newest`: no newer checkpoint is there. `step`: the operation that alone made the difference, "" = something else did."""

    files: int
    point: Checkpoint
    has_left_out: bool
    is_newest: bool
    step: str


def find_unsaved(context: Context, seen: ScannedWorktree | None = None) -> Unsaved | None:
    """Compare the files of now with what was saved last. `seen`: the worktree, if it was scanned. None: nothing was saved. Raises
    StoreDamaged and the errors of a scan."""
    newest = [context.store.head(context.root.key), context.store.head(context.root.key, listed=True)]
    point = context.store.checkpoint(context.store.history(context.root.key).current) or newest[0]
    if point is None:
        return None
    found = compare_to_scan(context, point, seen or scan_worktree(context))
    only_now = [change for change in found.unclear if change.old is None]  # the checkpoint's rules left it out
    left_out = any(skip.reason not in (LINKED_WORKTREE, SHARED_MEMORY, UNSTABLE, LATE) for skip in found.skipped)
    count = len(diffs.counted_changes([*found.changes, *only_now]))
    step = "" if only_now else _step_that_made(context, point, found.changes)
    return Unsaved(count, point, left_out, any(one is not None and one.id == point.id for one in newest), step)


def _step_that_made(context: Context, point: Checkpoint, changes: tuple[Change, ...]) -> str:
    """The operation that alone made these changes of a checkpoint: a revert, or a restore of some paths. "" if none did."""
    steps = context.store.history(context.root.key).undo[-1:]
    if not changes or not steps or steps[-1].safety != point.id:
        return ""
    try:
        plan = [Change(one.path, one.before, one.after) for one in context.store.plan(steps[-1].plan)]
    except (errors.StoreDamaged, errors.UnsafePath):
        return ""
    return "" if changes_beyond_plans(changes, [plan]) else point.more.op


def _open_databases_in_words(context: Context, last: Checkpoint) -> Iterator[str]:
    """The databases of the newest checkpoint that programs have open: a restore does not change such a one."""
    finder = manifest.Finder(diffs.loader_with_damaged_trees_empty(context.store.load_tree), last.tree)
    for item in find_open_databases(context.tree):
        if finder.find(item.path) is not None:
            yield f"{printable(item.path)} is open in {printable(item.program)} (pid {item.pid}): stop that program before a restore"


class AgentSeen(NamedTuple):
    """The last record of an agent in a worktree: its `session`, the client's name of its newest `event` and the time
    (nanoseconds since 1970; "" and 0 = unknown). `running`: its client runs (None = unknown). `checkpoint` and
    `checkpoint_ns`: the newest checkpoint that an event of the agent made ("" and 0 = none)."""

    agent: str
    session: str
    event: str
    event_ns: int
    running: bool | None
    checkpoint: str
    checkpoint_ns: int


def agents_seen(context: Context) -> list[AgentSeen]:
    """The agents seen in this worktree, by name. Reads only the store."""
    key = context.root.key
    sessions = [session for session in context.store.sessions.all() if session.worktree == key.hex()]
    made = context.store.newest_of_agents(key)
    found = []
    for agent in sorted(made.keys() | {session.agent for session in sessions}):
        mine = [session for session in sessions if session.agent == agent]
        last = made.get(agent)
        found.append(
            AgentSeen(
                agent=agent,
                session=mine[0].session if mine else last.session if last is not None else "",
                event=mine[0].event if mine else "",
                event_ns=mine[0].updated_ns if mine else 0,
                running=_does_client_run(mine),
                checkpoint="" if last is None else last.id,
                checkpoint_ns=0 if last is None else last.created_ns,
            )
        )
    return found


def _does_client_run(sessions: Sequence[AgentSession]) -> bool | None:
    """True if a session's client runs; None if the newest session has no process id."""
    clients = [client_process.ClientProcess(session.pid, session.pid_start) for session in sessions if session.pid > 0]
    if any(map(client_process.is_alive_or_unknown, clients)):
        return True
    return False if sessions and sessions[0].pid > 0 else None
