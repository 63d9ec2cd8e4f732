"""An event of a coding agent: what it tells of a session is written down, and it becomes a checkpoint.

The danger prevented here: a private file gets into the store because a client names it as its transcript. A transcript must be
a regular `.jsonl` file below the home directory, or below the directory that the client keeps its files in.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import agents, fsio
from ..agents import turn_ids
from ..agents.event import Event
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model.checkpoint import Checkpoint
from ..store.layout import Layout
from .context import Context
from .save import PROMPT, Moment, Saved, save

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..store.agent_sessions import AgentSession

_LONGEST = 4096  # characters of a path that is looked up
_STEP = 1 << 20  # bytes that are looked through at a time
_SINCE = "changed since the last checkpoint"
_OUTSIDE = f"{_SINCE} by something else than this turn"
_CUT_SHORT = f"{_SINCE} by a turn that was cut short, or by something else"
_UNSEEN = f"{_SINCE} by a command typed in the client (!), or by something else than a prompt"
_BACKGROUND = f"{_SINCE} by work in the background, or by something else"
_BETWEEN_TOOLS_NS = 15_000_000_000
"""Least time between a checkpoint of tools and one that is made after further tools ran."""
_SEARCHED = 200  # newest checkpoints among which the newest one of a session is looked for


@contextmanager
def in_turn(store: str, worktree: bytes, seconds: float) -> Iterator[None]:
    """Hold the lock that makes background saves of a worktree run one after the other. Makes the store if it is missing.

    It is taken before anything of the project is read. So the next save finds what the one before it stored, and only one process at
    a time tries a save that cannot succeed. Raises StoreBusy when the lock is not free within `seconds`, else as the store does.
    """
    layout = Layout(store)
    if not layout.exists():
        layout.create()
    layout.check()
    lock = fsio.open_lock(layout.lock("turn-" + worktree.hex()))
    try:
        if lock is not None:
            fsio.acquire(lock, exclusive=True, deadline=seconds, holder="turn")
        yield
    finally:
        if lock is not None:
            os.close(lock)


def seen(context: Context, event: Event, at_ns: int, parent: int = 0) -> "AgentSession":
    """What an event tells of its session. `parent`: the process that called the hook, if it was not this one that it called.

    The client's process is looked for, so this has to be asked while the client waits.
    """
    from ..agents import client_process
    from ..store.agent_sessions import AgentSession

    client = client_process.client(event) or client_process.caller(parent)
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
    """Tell the agent's shell which session it runs in, where the client says how. Raises nothing: no rewind rests on it."""
    if event.env_file:
        from ..agents import shell_env

        with suppress(OSError, ValueError):
            known = shell_env.of_session(event.agent, event.session, event.transcript, context.root.path)
            shell_env.append(event.env_file, shell_env.lines(known))


def is_too_soon(context: Context, event: Event, at_ns: int) -> bool:
    """True when an event ends a batch of tools, and the newest checkpoint of a tool is too young for another one.

    Before a tool it is never too soon: the tool may remove a file that was made an instant ago.
    """
    if event.trigger != "tool_batch" or event.before_tool:
        return False

    def ends_the_search(point: Checkpoint) -> bool:
        is_old = at_ns - point.created_ns >= _BETWEEN_TOOLS_NS
        return is_old or (point.worktree == context.root.key and point.trigger == "tool_batch")

    found = [point for point, _ in context.store.checkpoints(1, ends_the_search) if ends_the_search(point)]
    return any(point.trigger == "tool_batch" and 0 <= at_ns - point.created_ns < _BETWEEN_TOOLS_NS for point in found)


def last_save_ms(context: Context) -> int | None:
    """How many milliseconds the newest save of a worktree took; None when there is none, or when the next one cannot go by what that one
    has seen: it reads everything, as a first one does. Where the store cannot be written none is made, which takes no time."""
    head = context.store.head(context.root.key)
    if head is None:
        return None
    if context.store.stat_basis(context.root.key, context.tree.life) is None and os.access(context.store.path, os.W_OK):
        return None
    return head.elapsed_ms


def record(
    context: Context, event: Event, at_ns: int, homes: tuple[str, ...], *, transcripts: bool, tells_ends: bool | None = None
) -> Saved:
    """Make the checkpoint of an event that happened at `at_ns` (nanoseconds since 1970); before a tool only if something changed.

    A transcript is looked for below `homes` only; its bytes are stored with `transcripts`. `tells_ends`: whether the hooks that are
    installed tell the ends of turns, None = unknown. Raises as `save` does.
    """
    path, lack = _transcript(event.transcript, homes)
    # A conversation is written where the cursor says: a path that cannot be a transcript's is not kept
    kept = event.transcript if _may_be_one(event.transcript, homes) else ""
    cursor = agents.cursor_at(event._replace(transcript=kept), path or b"")
    size = 0
    if path and transcripts:
        size, lack = _whole(path, cursor.offset)
    turn, opens, prompt = _turn(context, event)
    moment = Moment(
        trigger=event.trigger,
        prompt=event.prompt.strip() or prompt,
        agent=event.agent,
        session=event.session,
        cursor=cursors.encode(cursor),
        transcript=(path, size),
        at_ns=at_ns,
        if_changed=_story(context, event),
        needless=event.before_tool,
        more=checkpoints.Circumstances(
            turn=turn,
            event=event.name,
            reason=event.reason or event.source,
            subagents=event.subagents,
            tasks=event.tasks,
            tells_ends=tells_ends,
            at_ns=at_ns,
        ),
        opens_turn=opens,
    )
    saved = save(context, moment)
    if size and saved.created and saved.checkpoint.transcript is None:
        lack = "could not be read to its end"
    if lack and transcripts:
        from ..store.failure_log import FailureLog

        FailureLog(context.store.path).add(f"{event.agent} {event.name}: made, but without the conversation: {event.transcript} {lack}")
    return saved


def _turn(context: Context, event: Event) -> tuple[str, bool, str]:
    """(the id of the checkpoint that opened the turn of this event, whether the event opens one itself, the turn's prompt).

    All is "" where only the order of the records can tell. Then the view of turns decides (model/turn_order.py).
    """
    field = turn_ids.field_of(event.agent)
    turn_id = getattr(event, field) if field else ""
    last = _newest_of(context, event)
    if last is None or event.trigger in (checkpoints.SESSION_START, "session_end"):
        return "", False, ""
    is_same = bool(turn_id) and turn_id == (getattr(cursors.decode(last.cursor), field) if field else "")
    if event.trigger == checkpoints.PROMPT:
        is_over = last.trigger not in (checkpoints.PROMPT, "tool_batch")
        return (last.more.turn, False, "") if is_same and not is_over else ("", not is_same, "")
    notified = event.source == "task_notification"
    if not last.more.turn or not (is_same or notified or (not field and event.trigger != "compact")):
        return "", False, ""
    opened = context.store.checkpoint(last.more.turn)
    return last.more.turn, False, "" if opened is None else opened.prompt


def _newest_of(context: Context, event: Event) -> Checkpoint | None:
    """The newest checkpoint of an event's session; None where there is none among the newest of the worktree."""
    newest = context.store.newest_of_agents(context.root.key).get(event.agent)
    if newest is None or newest.session == event.session:
        return newest

    def is_own(point: Checkpoint) -> bool:
        return (point.worktree, point.agent, point.session) == (context.root.key, event.agent, event.session)

    left = _SEARCHED

    def ends_the_search(point: Checkpoint) -> bool:
        nonlocal left
        left -= 1
        return left <= 0 or is_own(point)

    found = context.store.checkpoints(1, ends_the_search)
    return next((point for point, _ in found if is_own(point)), None)


def is_made(context: Context, event: Event, at_ns: int) -> bool:
    """Whether there is a checkpoint of an event that happened at `at_ns` already."""
    prompt = event.prompt.strip()[:PROMPT]  # an end without one is recorded with the prompt of its turn
    wanted = (context.root.key, event.trigger, event.agent, event.session)
    newest = context.store.checkpoints(1, lambda point: point.created_ns < at_ns)
    later = (point for point, _ in newest if point.created_ns >= at_ns)
    same = (point for point in later if (point.worktree, point.trigger, point.agent, point.session) == wanted)
    return any(point.prompt == prompt or not prompt for point in same)


def _story(context: Context, event: Event) -> str:
    """What is known of why files changed before an event, where it is not the turn that the event belongs to."""
    head = context.store.head(context.root.key, listed=True)
    if event.subagent or event.source == "task_notification":
        return _BACKGROUND
    own = head if head is not None and head.session == event.session else None
    if own is None:
        return _OUTSIDE if event.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START) else ""
    turn = cursors.decode(own.cursor).prompt_id
    running = own.trigger in (checkpoints.PROMPT, "tool_batch")
    if event.trigger == checkpoints.PROMPT and running and event.prompt_id and event.prompt_id == turn:
        return ""  # typed while that turn runs
    if event.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START):
        return _CUT_SHORT if running else _OUTSIDE
    is_new = event.trigger == "turn_end" and not running and event.prompt_id and event.prompt_id != turn
    return _UNSEEN if is_new and not _has_waiting(context, event.session, turn) else ""


def _has_waiting(context: Context, session: str, turn: str) -> bool:
    """True when a person typed prompts while a turn ran: they carry its id, and may have become the next turn."""

    def is_before_it(point: Checkpoint) -> bool:
        begins = point.trigger in (checkpoints.PROMPT, checkpoints.SESSION_START)
        return point.session == session and begins and cursors.decode(point.cursor).prompt_id != turn

    since = [point for point, _ in context.store.checkpoints(1, is_before_it)]
    prompts = (point for point in since if point.session == session and point.trigger == checkpoints.PROMPT)
    return sum(cursors.decode(point.cursor).prompt_id == turn for point in prompts) > 1


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
    if not _is_below(real, homes):
        return "", "is neither in the home directory nor where the client keeps its files"
    return real, ""


def _may_be_one(path: str, homes: tuple[str, ...]) -> bool:
    """True when a path may be that of a transcript. The file need not exist."""
    if not path.endswith(".jsonl") or len(path) > _LONGEST:
        return False
    real = os.path.realpath(path)
    return real.endswith(".jsonl") and _is_below(real, homes)


def _is_below(real: str, homes: tuple[str, ...]) -> bool:
    return any(fsio.is_below(real, os.path.realpath(home)) for home in homes if home)


def _whole(path: str, offset: int) -> tuple[int, str]:
    """(how many bytes of a transcript are whole lines, what is wrong with it). `offset` is where its last whole line ends,
    0 where that was not found near its end."""
    try:
        with open(os.open(path, fsio.READ_FLAGS), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > cursors.MOST:
                return 0, f"has more than {cursors.MOST >> 20} MiB"
            end = 0 if offset else size
            while end > 0:
                start = max(end - _STEP, 0)
                at = os.pread(file.fileno(), end - start, start).rfind(b"\n")
                if at >= 0:
                    return start + at + 1, ""
                end = start
    except OSError as error:
        return 0, f"cannot be read: {error.strerror or error}"
    return offset, ""
