"""Records an event of a coding agent: stores the session data and makes a checkpoint.

The danger prevented here: a client names a private file as its transcript, and that file is stored. A transcript must
be a regular `.jsonl` file below the home directory, or below the directory of the client's own files.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from .. import agents, errors, fsio, locations, locks
from ..agents.event import Event
from ..context import Context
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model.checkpoint import Checkpoint
from ..store.layout import Layout
from ..worktree import root as roots
from ..worktree.linked_worktrees import find_inside
from .save import PROMPT, Moment, Saved, record_unsaved, save

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.agent_sessions import AgentSession
    from ..store.missed_events import MissedEvents

_PATH_CHARACTERS = 4096  # maximum length of a path, in characters
_TAIL_BYTES = 1 << 20  # bytes searched at a time
_LONGEST_READ = 32 << 20  # bytes of a subagent's transcript
_LONGEST_TOLD = 64 * 1024  # bytes of the paths that a subagent wrote
_SINCE = "changed since the last checkpoint"
_OUTSIDE = f"{_SINCE} by something else than this turn"
_CUT_SHORT = f"{_SINCE} by a turn that was cut short, or by something else"
_UNSEEN = f"{_SINCE} by a command typed in the client (!), or by something else than a prompt"
_BACKGROUND = f"{_SINCE} by work in the background, or by something else"
_BETWEEN_TOOLS_NS = 15_000_000_000
"""Minimum age of the last tool checkpoint before another one is made after a tool batch."""
_SHORTLY = 0.02  # seconds
_SEARCHED = 200  # newest checkpoints among which the newest one of a session is looked for
_NEAR, _FARTHEST = 30, 500  # newest records of the ledger among which the last prompt of a session is looked for


@contextmanager
def turn_lock(store: str, worktree: bytes, seconds: float) -> Iterator[int | None]:
    """Hold the lock that serializes background saves of a worktree. Creates the store if it is missing.

    Acquire it before reading the project, so that a save sees what the previous save stored. It also prevents several
    processes from retrying a failing save. Raises StoreBusy if the lock is not free within `seconds`, and store errors.
    """
    with _lock_file(store, "turn-" + worktree.hex()) as lock:
        if lock is not None:
            locks.acquire(lock, exclusive=True, deadline=seconds, holder="turn")
        yield lock


@contextmanager
def queued_turn_lock(
    store: str, worktree: bytes, seconds: float, missed: Callable[[], bytes]
) -> "Iterator[MissedEvents | None]":
    """As `turn_lock`, for processes that may become many: one works and one waits. Yields None to any other. It has
    left its event (`missed`, b"" = none) to the one that waits, and must end."""
    from ..store.missed_events import MissedEvents

    events = MissedEvents(store, worktree.hex())
    with _lock_file(store, "turn-" + worktree.hex()) as turn, _lock_file(store, "next-" + worktree.hex()) as following:
        if turn is not None and following is not None:
            if not _claim_waiting_place(turn, following):
                if line := missed():
                    events.add(line)
                if not locks.try_lock(following):  # its holder reads the events after it has released this lock
                    yield None
                    return
            locks.acquire(turn, exclusive=True, deadline=seconds, holder="turn")
            locks.unlock(following)
        yield events


@contextmanager
def _lock_file(store: str, name: str) -> Iterator[int | None]:
    """A lock file of a store, which is made if it is missing. None if nobody can write there."""
    layout = Layout(store)
    if not layout.exists():
        layout.create()
    layout.raise_unless_sound()
    lock = locks.open_lock(layout.lock_path(name))
    try:
        yield lock
    finally:
        if lock is not None:
            os.close(lock)


def _claim_waiting_place(turn: int, following: int) -> bool:
    """Become the process that waits for the turn lock. False if one works and another one waits."""
    while not locks.try_lock(following):
        if not locks.try_lock(turn):
            return False
        locks.unlock(turn)  # the other one is about to take it
        time.sleep(_SHORTLY)
    return True


def session_record(context: Context, event: Event, at_ns: int, parent: int = 0) -> "AgentSession":
    """The session record of an event. `parent`: pid of the process that called the hook, if that was another process.
    Call it while the client waits for the hook: it looks up the client's process."""
    from ..agents import client_process
    from ..store.agent_sessions import AgentSession

    client = client_process.client_process(event.pid) or client_process.caller_behind_shell(parent)
    return AgentSession(
        agent=event.agent,
        session=event.session,
        transcript=event.transcript,
        root=context.root.path,
        worktree=context.root.key.hex(),
        updated_ns=at_ns,
        event=event.name,
        running=event.trigger in ("prompt", "tool_batch"),
        pid=0 if client is None else client.pid,
        pid_start="" if client is None else client.start,
        env_file=event.env_file,
        parent=event.parent,
    )


def write_shell_variables(context: Context, event: Event) -> None:
    """Append the session's variables to the client's shell file. Raises nothing, because rewind works without them."""
    if event.env_file:
        from ..agents import client_process

        with suppress(OSError, ValueError):
            known = client_process.session_variables(event.agent, event.session, event.transcript, context.root.path)
            client_process.append_unless_there(event.env_file, client_process.export_lines(known))


def is_too_soon(context: Context, event: Event, at_ns: int) -> bool:
    """True if the event ends a tool batch and the newest tool checkpoint is too recent for another one. Always False
    before a tool: the tool may delete a file that was created a moment ago."""
    if event.trigger != "tool_batch" or event.before_tool or event.begins_subagent:
        return False

    def ends_the_search(point: Checkpoint) -> bool:
        is_old = at_ns - point.created_ns >= _BETWEEN_TOOLS_NS and not point.more.machine
        return is_old or (point.worktree == context.root.key and point.trigger == "tool_batch")

    found = [point for point, _ in context.store.checkpoints(1, ends_the_search) if ends_the_search(point)]
    return any(point.trigger == "tool_batch" and 0 <= at_ns - point.created_ns < _BETWEEN_TOOLS_NS for point in found)


def untold_since(context: Context, event: Event) -> int | None:
    """The record of the ledger since which files were restored that the event's session was not told of; None = there is
    nothing to tell. 0 if no prompt of the session is known. Call it before the checkpoint of the event is made."""
    noted = context.store.sessions.record_since_untold(event.agent, event.session)
    if noted is not None:
        return noted
    if not context.store.has_finished_restore(context.root.key):
        return None
    own, newest = (context.root.key, event.agent, event.session), context.store.newest_of_agents(context.root.key).get(event.agent)

    def is_known(point: Checkpoint) -> bool:
        """True at a prompt of the session. A restore that was not finished then is told later."""
        is_own = point.trigger == checkpoints.PROMPT and (point.worktree, point.agent, point.session) == own
        return is_own and not point.flags & checkpoints.DURING_RESTORE

    opened = context.store.checkpoint(newest.more.turn) if newest is not None and newest.session == event.session else None
    head = context.store.head(context.root.key)
    end = 0 if head is None else head.seq
    points: list[Checkpoint] = []
    for start in (opened.seq - 1,) if opened is not None and is_known(opened) else (end - _NEAR, end - _FARTHEST):
        points = context.store.checkpoints_after(max(start, 0))
        if any(map(is_known, points)):
            break
    known = max((at for at, point in enumerate(points) if is_known(point)), default=-1)
    if not any(point.trigger == checkpoints.SAFETY and point.worktree == context.root.key for point in points[known + 1 :]):
        return None
    return points[known].seq if known >= 0 else 0


def last_save_ms(context: Context) -> int | None:
    """Duration of the worktree's newest save in milliseconds. None without a save, or if the next save has no stat
    index and reads every file. A read-only store needs no stat index, because no save is made."""
    head = context.store.head(context.root.key)
    if head is None:
        return None
    if not context.store.has_stat_file(context.root.key, context.tree.life) and os.access(context.store.path, os.W_OK):
        return None
    return head.elapsed_ms


def record_event(
    context: Context, event: Event, at_ns: int, homes: tuple[str, ...], *, transcripts: bool, tells_ends: bool | None = None
) -> Saved:
    """Make the checkpoint of an event at `at_ns` (nanoseconds since 1970); before a tool, only if files changed.

    A transcript is accepted only below `homes`; its bytes are stored if `transcripts`. `tells_ends`: True if the
    installed hooks report the ends of turns, None = unknown. Raises as `save` does.
    """
    path, lack = _resolve_transcript_path(event.transcript, homes)
    cursor = _cursor_now(event, path, homes)
    size = 0
    if path and transcripts:
        size, lack = _measure_complete_lines(path, cursor.offset)
    moment = _moment_of(context, event, at_ns, cursors.encode(cursor), tells_ends=tells_ends)
    if event.ends_subagent:
        told, _ = _resolve_transcript_path(event.subagent_transcript, homes)
        task = agents.load_client(event.agent).task_of_subagent(told).strip()[:PROMPT] if told else ""
        moment = moment._replace(more=moment.more._replace(written=_written_by_subagent(context, event, told), subagent_task=task))
    moment = moment._replace(transcript=(path, size), why_changed=partial(_why_files_changed, context, event))
    saved = save(context, moment)
    if size and saved.created and saved.checkpoint.transcript is None:
        lack = "could not be read to its end"
    if lack and transcripts:
        from ..store.failure_log import FailureLog

        line = f"{event.agent} {event.name}: made, but without the conversation: {event.transcript} {lack}"
        FailureLog(context.store.path).append_line(line)
    return saved


def _cursor_now(event: Event, path: str, homes: tuple[str, ...]) -> cursors.Cursor:
    """Where the conversation is now. `path`: the real path of its transcript, or ""."""
    # Rewind writes to the cursor's path, so a path that cannot be a transcript's is dropped
    kept = event.transcript if _may_be_transcript(event.transcript, homes) else ""
    return agents.cursor_of_event(event._replace(transcript=kept), path or b"")


def _moment_of(context: Context, event: Event, at_ns: int, cursor: bytes, *, tells_ends: bool | None) -> Moment:
    turn, opens, prompt = _turn_of_event(context, event)
    is_of_subagent = event.begins_subagent or event.ends_subagent
    return Moment(
        trigger=event.trigger,
        prompt=event.prompt.strip() or prompt,
        agent=event.agent,
        session=event.session,
        cursor=cursor,
        at_ns=at_ns,
        needless=event.before_tool,
        more=checkpoints.Circumstances(
            turn=turn,
            event=event.name,
            reason=event.reason or event.source,
            subagents=event.subagents,
            tasks=event.tasks,
            tells_ends=tells_ends,
            at_ns=at_ns,
            subagent=event.subagent if is_of_subagent else "",
            subagent_type=event.subagent_type if is_of_subagent else "",
            subagent_root=_root_of_subagent(context, event) if is_of_subagent else "",
        ),
        opens_turn=opens,
    )


def _root_of_subagent(context: Context, event: Event) -> str:
    """The linked worktree inside the root in which a subagent works, "" = it works in the root itself."""
    here = locations.real_path(event.cwd) if event.cwd else context.root.path
    inside = () if here == context.root.path else find_inside(context.root.path)
    return next((os.fsdecode(one.path) for one in inside if locations.is_in(here, one.place)), "")


def _written_by_subagent(context: Context, event: Event, path: str) -> str:
    """The paths that the tools of a subagent named as written, below the root, with NUL between them. "" if that is not known. `path`: that
    of its transcript, or ""."""
    found: set[bytes] = set()
    with suppress(OSError, ValueError), fsio.closing(fsio.open_regular(path)) as fd:
        data = fsio.read_fd(fd) if os.fstat(fd).st_size <= _LONGEST_READ else b""
        for name in agents.load_client(event.agent).written_by_tools(data):
            with suppress(errors.UnsafePath, OSError, ValueError):
                found.update(roots.paths_below_root(context.root.path, [name], context.root.path))
    told = b"\0".join(sorted(found - {b""}))
    return told.decode("utf-8", "surrogateescape") if len(told) <= _LONGEST_TOLD else ""


def event_as_line(event: Event, at_ns: int, homes: tuple[str, ...], *, tells_ends: bool | None) -> bytes:
    """An event as one line, for `record_missed`. b"" for an event of a tool: it begins and ends neither a turn nor a subagent."""
    if event.trigger == "tool_batch" and not event.begins_subagent:
        return b""
    import json

    path, _ = _resolve_transcript_path(event.transcript, homes)
    cursor = cursors.encode(_cursor_now(event, path, homes)).hex()
    known = event._replace(prompt=event.prompt.strip()[:PROMPT], tools=(), odd=(), env_file="")._asdict()
    return json.dumps({"at_ns": at_ns, "cursor": cursor, "tells_ends": tells_ends, "event": known}).encode()


def time_in_line(line: bytes) -> int:
    """The time of an event that `event_as_line` wrote (nanoseconds since 1970); 0 if the line cannot be read."""
    import json

    with suppress(ValueError, KeyError, TypeError):
        return int(json.loads(line)["at_ns"])
    return 0


def record_missed(context: Context, line: bytes) -> None:
    """Record an event of `event_as_line` that has no checkpoint of its own. Raises as `save` does."""
    import json

    try:
        known = json.loads(line)
        event, at_ns = Event(**known["event"]), int(known["at_ns"])
        cursor, tells_ends = bytes.fromhex(known["cursor"]), known["tells_ends"]
    except (ValueError, KeyError, TypeError):
        return  # half a line, after a power cut
    if not has_record_of_time(context, event, at_ns):
        record_unsaved(context, _moment_of(context, event, at_ns, cursor, tells_ends=tells_ends))


def _turn_of_event(context: Context, event: Event) -> tuple[str, bool, str]:
    """Returns (id of the checkpoint that opened the event's turn, True if the event opens a turn, the turn's prompt).

    All are empty if only the order of the records can decide. Then model/turn_boundaries.py decides.
    """
    field = agents.turn_id_field(event.agent)
    turn_id = getattr(event, field) if field else ""
    last, is_first = _newest_checkpoint_of_session(context, event)
    if last is None or event.trigger in (checkpoints.SESSION_START, "session_end"):
        return "", is_first and event.trigger == checkpoints.PROMPT, ""
    is_same = bool(turn_id) and turn_id == (getattr(cursors.decode(last.cursor), field) if field else "")
    if event.trigger == checkpoints.PROMPT:
        is_over = last.trigger not in (checkpoints.PROMPT, "tool_batch")
        return (last.more.turn, False, "") if is_same and not is_over else ("", not is_same, "")
    notified = event.source == "task_notification"
    unnamed = bool(event.subagent) and not turn_id
    if not last.more.turn or not (is_same or notified or unnamed or (not field and event.trigger != "compact")):
        return "", False, ""
    opened = context.store.checkpoint(last.more.turn)
    return last.more.turn, False, "" if opened is None else opened.prompt


def _newest_checkpoint_of_session(context: Context, event: Event) -> tuple[Checkpoint | None, bool]:
    """Returns (newest checkpoint of an event's session or None, True if the session has none).

    (None, False): the newest checkpoints of the store hold none, and older ones were not searched.
    """
    newest = context.store.newest_of_agents(context.root.key).get(event.agent)
    if newest is None or newest.session == event.session:
        return newest, newest is None

    def is_of_session(point: Checkpoint) -> bool:
        return (point.worktree, point.agent, point.session) == (context.root.key, event.agent, event.session)

    found = context.store.checkpoints(1, is_of_session, _SEARCHED)
    own = next((point for point, _ in found if is_of_session(point)), None)
    return own, own is None and len(found) < _SEARCHED


def _is_before(point: Checkpoint, at_ns: int) -> bool:
    """True if a checkpoint was made before a time, and so all older ones. Those of other machines came here in another order."""
    return point.created_ns < at_ns and not point.more.machine


def has_record_of_time(context: Context, event: Event, at_ns: int) -> bool:
    """True if an event that happened at `at_ns` has a record of that very time."""
    wanted = (context.root.key, event.trigger, event.agent, event.session, at_ns)
    newest = context.store.checkpoints(1, lambda point: _is_before(point, at_ns))
    return any((point.worktree, point.trigger, point.agent, point.session, point.more.at_ns) == wanted for point, _ in newest)


def _why_files_changed(context: Context, event: Event) -> str:
    """Why files may have changed before an event, if something other than the event's own turn changed them."""
    head = context.store.head(context.root.key, listed=True)
    if (event.subagent and not event.begins_subagent) or event.source == "task_notification":
        return _BACKGROUND
    own = head if head is not None and head.session == event.session else None
    if own is None:
        return _OUTSIDE if event.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START) else ""
    turn = cursors.decode(own.cursor).prompt_id
    running = own.trigger in (checkpoints.PROMPT, "tool_batch")
    if event.trigger == checkpoints.PROMPT and running and event.prompt_id and event.prompt_id == turn:
        return ""  # typed while that turn is running
    if event.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START):
        return _CUT_SHORT if running else _OUTSIDE
    is_new = event.trigger == "turn_end" and not running and event.prompt_id and event.prompt_id != turn
    return _UNSEEN if is_new and not _has_waiting(context, event.session, turn) else ""


def _has_waiting(context: Context, session: str, turn: str) -> bool:
    """True if the user typed prompts while a turn ran. They have the turn's id, and may have become the next turn."""

    def is_before_it(point: Checkpoint) -> bool:
        begins = point.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START)
        return point.worktree == context.root.key and point.session == session and begins and cursors.decode(point.cursor).prompt_id != turn

    since = [point for point, _ in context.store.checkpoints(1, is_before_it)]
    own = (point for point in since if point.worktree == context.root.key and point.session == session)
    prompts = (point for point in own if point.trigger == checkpoints.PROMPT)
    return sum(cursors.decode(point.cursor).prompt_id == turn for point in prompts) > 1


def _resolve_transcript_path(path: str, homes: tuple[str, ...]) -> tuple[str, str]:
    """Returns (real path of the transcript or "", problem or "")."""
    if not path:
        return "", ""
    try:
        real = os.path.realpath(path, strict=True)
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return "", ""  # the client creates it a moment later
    except OSError as error:
        return "", f"cannot be read: {error.strerror or error}"
    if not real.endswith(".jsonl") or not stat.S_ISREG(mode):
        return "", "is not a .jsonl file"
    if not _is_below(real, homes):
        return "", "is neither in the home directory nor where the client keeps its files"
    return real, ""


def _may_be_transcript(path: str, homes: tuple[str, ...]) -> bool:
    """True if a path may belong to a transcript. The file need not exist."""
    if not path.endswith(".jsonl") or len(path) > _PATH_CHARACTERS:
        return False
    real = locations.real_path(path)
    return real.endswith(".jsonl") and _is_below(real, homes)


def _is_below(real: str, homes: tuple[str, ...]) -> bool:
    return any(locations.is_below(real, locations.real_path(home)) for home in homes if home)


def _measure_complete_lines(path: str, offset: int) -> tuple[int, str]:
    """Returns (number of bytes in complete lines of a transcript, problem or ""). `offset`: end of the last complete
    line, 0 if it was not found near the file's end."""
    try:
        with open(os.open(path, fsio.READ_FLAGS), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > cursors.MOST:
                return 0, f"has more than {cursors.MOST >> 20} MiB"
            end = 0 if offset else size
            while end > 0:
                start = max(end - _TAIL_BYTES, 0)
                at = os.pread(file.fileno(), end - start, start).rfind(b"\n")
                if at >= 0:
                    return start + at + 1, ""
                end = start
    except OSError as error:
        return 0, f"cannot be read: {error.strerror or error}"
    return offset, ""
