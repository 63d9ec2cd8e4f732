"""Finds the conversation of a worktree's checkpoints, the checkpoints of its prompts, and the prompt of a rewind.

The danger prevented here: a rewind to a prompt of another conversation. The client writes the transcript and may delete
or replace it. In that case, the bytes stored with the checkpoints are used.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from .. import agents, errors, fsio
from .._typing import NamedTuple
from ..agents import client_process, session_files, session_format, transcript
from ..agents.client import ConversationClient
from ..agents.hook_checks import how_to_connect
from ..agents.prompt_matching import CheckpointPrompt, match_with_checkpoints, prompt_of_checkpoint
from ..agents.session_files import Homes
from ..agents.transcript import Prompt
from ..context import Context
from ..messages import printable, session_in_words
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model.checkpoint import Checkpoint
from ..model.cursor import Cursor
from ..model.rewind_record import Rewind
from ..model.turn_records import Turn
from .checkpoint_names import LEAST_PREFIX, turn_of, unknown_session_error
from .taken_back_turns import newest_not_taken_back
from .turn_view import TurnView

_LOOKED_AT = 20
"""Number of a session's newest checkpoints that are searched for in a transcript, to see if it was replaced."""
_WORDS = 40  # characters of a prompt in output
_NAMED = 8  # turns of a conversation that an error message names
FILES_ALONE = "leave --chat or --both out to restore the files"
"""What a person does where the conversation cannot be had."""


class Conversation(NamedTuple):
    """A conversation: its client, its session, the path and bytes of its transcript. `stored`: id of the checkpoint that
    the bytes were stored with, "" for the live file. `points`: the agent's checkpoints of this worktree, oldest first.
    `lineage`: see the function."""

    client: ConversationClient
    session: str
    path: str
    data: bytes
    stored: str
    points: tuple[Checkpoint, ...]
    lineage: dict[str, int | None]


def find_conversation(context: Context, view: TurnView, session: str = "", preferred: str = "") -> Conversation:
    """The conversation of `session`; by default that of `preferred`, if known here, else the newest. `view`: the worktree's.

    If no hook reported a conversation, the clients' own directories are searched. Raises AgentError if no conversation
    is found, its bytes are not available or of an unknown format, or its path cannot be a transcript's.
    """
    session = whole_session(context, session, unreported=True)
    mine = [point for point in view.points.values() if point.session and point.cursor]
    known = {point.session for point in mine}
    wanted = session or (preferred if preferred in known else "")
    newest = next((point for point in mine if not wanted or point.session == wanted), None)
    if newest is not None:
        return _read_conversation(context, mine, newest.agent, newest.session)
    seen = next((one for one in context.store.sessions.all() if one.session == session), None) if session else None
    if seen is not None:
        return _read_conversation(context, mine, seen.agent, seen.session, seen.transcript)
    found = session_files.find_newest_transcript(context.homes, context.root.path, session)  # no hook reported it
    if found is None:
        if session and (len(session) < LEAST_PREFIX or known):
            raise unknown_session_error(session, known)
        what = f"no session {session!r}" if session else "no agent's conversation"
        homes = context.homes
        raise errors.AgentError(f"{what} is known here", how_to_connect(context.root.path, homes.home, homes.environ))
    return _read_conversation(context, mine, found.agent, found.session, found.path)


def whole_session(context: Context, given: str, *, unreported: bool = False) -> str:
    """The id of the session that `given` names: an id, or at least 4 characters that only one id begins with.

    With `unreported`, a session that no hook reported is looked up in the clients' own directories. An unknown one is
    returned as it is. Raises AmbiguousReference.
    """
    if len(given) < LEAST_PREFIX:
        return given
    points = [point for point, _ in context.store.checkpoints() if point.session.startswith(given)]
    mine = {point.session for point in points if point.worktree == context.root.key}
    key = context.root.key.hex()
    mine |= {one.session for one in context.store.sessions.all() if one.worktree == key and one.session.startswith(given)}
    found = mine or {point.session for point in points}
    if given in found:
        return given
    if not found and unreported:
        found = set(session_files.sessions_with_prefix(context.homes, context.root.path, given))
    if len(found) > 1:
        named = ", ".join(printable(one) for one in sorted(found)[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        raise errors.AmbiguousReference(f"session {given!r} names {len(found)} sessions: {named}", "give more characters of one")
    return found.pop() if found else given


def format_problems(context: Context) -> dict[str, str]:
    """{agent: what is unknown in the live transcript of its newest session in this worktree}. Agents without such a
    problem are left out."""
    newest: dict[str, tuple[str, str]] = {}
    for one in context.store.sessions.all():
        if one.worktree == context.root.key.hex() and one.transcript:
            newest.setdefault(one.agent, (one.session, one.transcript))
    found = {}
    for name, (session, path) in newest.items():
        with suppress(errors.AgentError):
            client = agents.load_conversation_client(name)
            session_files.refuse_unsafe_transcript_path(client, path, session, context.homes)
            found[name] = _format_problem(client, path)
    return {name: wrong for name, wrong in found.items() if wrong}


def _format_problem(client: ConversationClient, path: str) -> str:
    try:
        found = client.read_stored_transcript(path)
    except errors.AgentError as error:
        return str(error)
    return session_format.find_problem(client, _read_complete_lines(path) if found is None else found)


def find_for_checkpoint(context: Context, point: Checkpoint) -> Conversation:
    """The conversation that a checkpoint belongs to. Of another machine's, what was stored counts, and not what a session
    with its id became here. Raises AgentError."""
    if not (point.agent and point.session):
        raise errors.AgentError(
            f"{point.id} belongs to no conversation: no agent's hook made it",
            FILES_ALONE
        )
    mine = [p for p, _ in context.store.checkpoints() if p.worktree == point.worktree and p.session and p.cursor]
    is_foreign = bool(point.more.machine)
    if is_foreign:
        mine = [with_transcript_path_here(p, context.root.path, context.homes) if p.session == point.session else p for p in mine]
    return _read_conversation(context, mine, point.agent, point.session, is_foreign=is_foreign)


def with_transcript_path_here(point: Checkpoint, root: str, homes: Homes) -> Checkpoint:
    """A checkpoint of another machine, with the path at which its transcript belongs here, for the project at `root`."""
    if not point.cursor or not (cursor := _cursor_of_checkpoint(point)).transcript:
        return point
    try:
        client = agents.load_conversation_client(point.agent)
    except (errors.AgentError, errors.UnknownAgent):  # a later version knows it
        return point
    path = client.path_for_project(os.fsdecode(cursor.transcript), point.session, root, homes.home, homes.environ)
    return point._replace(cursor=cursors.encode(cursor._replace(transcript=os.fsencode(path))))


def _read_conversation(
    context: Context, mine: Sequence[Checkpoint], name: str, session: str, path: str = "", *, is_foreign: bool = False
) -> Conversation:
    client = agents.load_conversation_client(name)
    points = tuple(point for point in reversed(mine) if point.agent == name)
    own = [point for point in points if point.session == session]
    path = path or next((name for point in reversed(own) if (name := os.fsdecode(_cursor_of_checkpoint(point).transcript))), "")
    if path:
        session_files.refuse_unsafe_transcript_path(client, path, session, context.homes)
    there = b"" if is_foreign else live_transcript(client, path)
    kept = next((point for point in reversed(own) if point.transcript is not None), None)
    data, stored = there, ""
    if kept is not None and (not there or _is_replaced_transcript(there, own)):
        data, stored = stored_bytes(context, kept), kept.id
    if not data and not any(point.trigger == checkpoints.PROMPT for point in own):
        raise errors.AgentError("nothing was asked in this conversation yet: there is nothing to go back to")
    if not data:
        lacks = f"the transcript {printable(path)} is not there" if path else "the client named no transcript of this conversation"
        raise errors.AgentError(f"{lacks}, and none of its bytes were stored")
    wrong = session_format.find_version_problem(client, there) or session_format.find_problem(client, data)
    if wrong:
        raise errors.AgentError(f"{wrong}: nothing was changed", session_format.REMEDY)
    session_files.refuse_unsafe_transcript_path(client, path, session, context.homes)
    worktree = mine[0].worktree if is_foreign and mine else b""
    return Conversation(client, session, path, data, stored, points, session_and_ancestors(context, session, worktree))


def _cursor_of_checkpoint(point: Checkpoint) -> Cursor:
    return cursors.decode(point.cursor)


def live_transcript(client: ConversationClient, path: str) -> bytes:
    """Read the live transcript at a path. Returns b"" if there is none. Raises AgentError. Check the path before, with
    `refuse_unsafe_transcript_path`."""
    found = client.read_stored_transcript(path)
    return _read_complete_lines(path) if found is None else found


def _read_complete_lines(path: str) -> bytes:
    """The live transcript up to its last complete line; b"" if it cannot be read. Raises AgentError for one that is
    longer than any that is stored."""
    try:
        if not path or not stat.S_ISREG((status := os.stat(path)).st_mode):
            return b""
        is_read = status.st_size <= cursors.MOST
        data = fsio.read_file(os.path.realpath(path), cursors.MOST) if is_read else b""
    except (OSError, ValueError):
        return b""
    if not is_read:
        raise errors.AgentError(
            f"the transcript {printable(path)} has more than {cursors.MOST >> 20} MiB and is not read",
            FILES_ALONE
        )
    return data[: transcript.end_of_complete_lines(data)]


def _is_replaced_transcript(data: bytes, own: Sequence[Checkpoint]) -> bool:
    """True if a transcript was replaced since these checkpoints: it has none of their positions, by id or by hash."""
    known_cursors = [cursor for point in own[-_LOOKED_AT:] if (cursor := _cursor_of_checkpoint(point)).event_id]
    known = any(cursor.event_id.encode() in data or transcript.still_has_bytes_before(data, cursor) for cursor in known_cursors)
    return bool(known_cursors) and not known


def stored_bytes(context: Context, point: Checkpoint) -> bytes:
    """The transcript stored with a checkpoint, or b"". Raises StoreDamaged."""
    if point.transcript is not None and point.transcript.size > cursors.MOST:
        raise errors.ManifestCorrupt(
            f"refused conversation of {point.id}: its {point.transcript.size:,} bytes are more than a hook stores of one"
        )
    return b"" if point.transcript is None else b"".join(context.store.content(point.transcript))


def session_and_ancestors(context: Context, session: str, worktree: bytes = b"") -> dict[str, int | None]:
    """The session and its ancestors: {session: end of its part (nanoseconds since 1970; None = no end)}. `worktree`: the one of another
    machine that has the session; b"" = it is this machine's. What other machines say of it does not count."""
    rewinds = [one for one in context.store.rewinds() if one.session != one.parent and _counts_in(context, one, worktree)]
    parents = {one.session: (one.parent, one.created_ns) for one in rewinds}
    for one in context.store.sessions.all():
        if one.parent and one.parent != one.session:
            parents.setdefault(one.session, (one.parent, one.updated_ns))
    found: dict[str, int | None] = {session: None}
    while session in parents and parents[session][0] not in found:
        session, until = parents[session]
        found[session] = until
    return found


def _counts_in(context: Context, rewind: Rewind, worktree: bytes) -> bool:
    """True if a rewind was made in this worktree of another machine; with b"", on this machine. A pulled one has a checkpoint, and goes
    with it."""
    if worktree:
        return rewind.worktree == worktree
    point = context.store.checkpoint(rewind.checkpoint) if rewind.checkpoint else None
    return not rewind.checkpoint or (point is not None and not point.more.machine)


def recorded_prompt(point: Checkpoint) -> CheckpointPrompt:
    """The prompt that a checkpoint was made for, as recorded."""
    cursor = _cursor_of_checkpoint(point)
    return CheckpointPrompt(cursor.prompt_id, cursor.message_id, point.prompt, point.created_ns)


def full_prompt(context: Context, point: Checkpoint) -> str:
    """The whole prompt that a checkpoint was made for, as the transcript has it; "" if it is not found there.

    A checkpoint itself holds only the start of a long prompt.
    """
    with suppress(errors.CasrewindError, OSError):
        conversation = find_for_checkpoint(context, point)
        prompts = conversation.client.prompts(conversation.data, every=True)
        index = prompt_of_checkpoint(prompts, recorded_prompt(point))
        if index is not None:
            return prompts[index].text
    return ""


def checkpoints_of_prompts(conversation: Conversation, prompts: Sequence[Prompt]) -> list[Checkpoint | None]:
    """The checkpoint of each prompt, or None. A fork has its parents' prompts with their ids, so it shares their
    checkpoints. A prompt without an id matches only checkpoints of this session or its ancestors."""
    made = []
    for point in conversation.points:
        seen = recorded_prompt(point) if point.trigger == checkpoints.PROMPT else None
        if seen is not None and (seen.prompt_id or seen.message_id or point.session in conversation.lineage):
            made.append((point, seen))
    found = match_with_checkpoints(prompts, [seen for _, seen in made])
    return [None if index is None else made[index][0] for index in found]


def own_sessions(conversation: Conversation, points: Sequence[Checkpoint | None]) -> frozenset[str]:
    """The sessions of this conversation: its known ancestors, and the sessions of its prompts' checkpoints,
    `points`."""
    return frozenset(conversation.lineage) | {point.session for point in points if point is not None}


def find_client_process(context: Context, conversation: Conversation) -> tuple[client_process.ClientProcess | None, bool]:
    """Returns (the client's process or None, True if a turn was running at the last event)."""
    seen = context.store.sessions.find(conversation.client.name, conversation.session)
    if seen is None or not seen.pid:
        return None, False
    return client_process.ClientProcess(seen.pid, seen.pid_start), seen.running


class RewindTarget(NamedTuple):
    """A prompt to go back to.

    `prompts` and `points`: all prompts of the conversation and the checkpoint of each, or None. `at`: the index of the
    first prompt that is removed. `number`: the place of its turn in the conversation, 1 = the newest. `turn`: the turn's
    number in the list, 0 = not in the list. `is_other`: True if the turn belongs to another conversation than the one
    that a rewind without a number takes, and the caller did not name it. `is_named`: the caller named the turn.
    `skipped`: the newer turns that are taken back already, if the caller named none. `is_taken_back`: so is this one.
    """

    conversation: Conversation
    prompts: tuple[Prompt, ...]
    points: tuple[Checkpoint | None, ...]
    at: int
    number: int
    turn: int
    is_other: bool
    is_named: bool
    skipped: tuple[int, ...] = ()
    is_taken_back: bool = False

    @property
    def prompt(self) -> Prompt:
        """The prompt itself."""
        return self.prompts[self.at]

    @property
    def conversation_in_words(self) -> str:
        """The conversation in words: claude 355c4eec."""
        return session_in_words(self.conversation.client.name, self.conversation.session)

    @property
    def was_seen(self) -> bool:
        """True if a hook made a checkpoint in this conversation."""
        return any(self.points) or any(point.session in self.conversation.lineage for point in self.conversation.points)


class _Bound(NamedTuple):
    """A conversation, its prompts, their checkpoints, and the indices of the prompts that opened a turn."""

    conversation: Conversation
    prompts: list[Prompt]
    points: list[Checkpoint | None]
    opening: list[int]


def find_prompt(
    context: Context, wanted: int | str | None, session: str = "", preferred: str = "", *, files: bool = True
) -> RewindTarget:
    """The prompt of turn `wanted` of the list, N or `@N`. None means the newest prompt; if `files` go back, the newest whose turn is not
    taken back already. `session` and `preferred`: see `find_conversation`.

    Without `session`, the turn may belong to another conversation than that of `find_conversation`. With it, it may not. If no hook
    reported the conversation, the list does not have its turns, so `wanted` counts its prompts.

    Raises AgentError (no conversation, too few prompts, the turn is not in the conversation, all are taken back), CheckpointNotFound
    (no turn with that number), UsageError (`wanted` is no number of a turn).
    """
    skipped: tuple[int, ...] = ()
    if isinstance(wanted, str):
        named = turn_of(wanted)
        if named is None or named.is_after or named.subagent:
            raise errors.UsageError(f"{wanted!r} is not the number of a turn")
        wanted = named.number
    view = TurnView(context)
    has_turns = any(turn.agent != checkpoints.RUN for turn in view.turns)
    found, turn, is_other = None, None, False
    try:
        found = _bind_conversation(context, view, session, preferred)
    except errors.AgentError:
        if session or wanted is None or not has_turns:
            raise
    if found is not None and (wanted is None or not has_turns or (session and not any(found.points))):
        index = _nth_newest_prompt(found, 1 if wanted is None else wanted)
        if wanted is None and files:
            index, skipped = newest_not_taken_back(view, found.points, found.opening, "this conversation")
    else:
        turn = view.find_turn(f"@{wanted}")
        there = None if found is None else _index_of_opening_prompt(turn, found)
        if there is None and turn.agent == checkpoints.RUN:
            raise _command_error(turn)
        if there is None and not session and (found is None or found.conversation.session != turn.session):
            found, is_other = _bind_conversation(context, view, turn.session, ""), True
            there = _index_of_opening_prompt(turn, found)
        assert found is not None
        if there is None:
            raise _not_there_error(view, turn, found)
        index = there
    conversation, prompts, points, opening = found
    point = points[index]
    if point is not None and (other := view.turn_of(point.id)) is not None:
        turn = other
        if turn.before is not None and turn.before != point.id:
            points[index] = view.points[turn.before]  # a waiting prompt: its turn began at the end of the turn in front
    number = len(opening) - opening.index(index)
    row = 0 if turn is None else turn.n
    is_taken_back = turn is not None and view.with_changes(turn).taken_back
    return RewindTarget(
        conversation, tuple(prompts), tuple(points), index, number, row, is_other, wanted is not None, skipped, is_taken_back
    )


def prompt_of_turn(context: Context, number: int, session: str) -> str:
    """The client's id of the prompt of turn `number` of the list. Raises CheckpointNotFound, AgentError if the turn is
    not of `session` or of a session that it continues."""
    view = TurnView(context)
    turn = view.find_turn(f"@{number}")
    session = whole_session(context, session)
    mine = session_and_ancestors(context, session)
    if turn.session not in mine or not turn.prompt_id:
        there = [one for one in view.turns if one.session in mine]
        raise _elsewhere_error(turn, session_in_words(turn.agent, session), there)
    return turn.prompt_id


def _bind_conversation(context: Context, view: TurnView, session: str, preferred: str) -> _Bound:
    """Read a conversation (see `find_conversation`) and its prompts. Raises AgentError."""
    conversation = find_conversation(context, view, session, preferred)
    prompts = conversation.client.prompts(conversation.data)
    if not prompts and conversation.stored:
        raise errors.AgentError(
            f"the transcript {printable(conversation.path)} is gone or was replaced, and what {conversation.stored} stored of it "
            f"holds no prompt"
        )
    if not prompts:
        raise errors.AgentError("nothing was asked in this conversation yet: there is nothing to go back to")
    points = checkpoints_of_prompts(conversation, prompts)
    return _Bound(conversation, list(prompts), points, _find_opening_prompts(view, conversation, prompts, points))


def _nth_newest_prompt(bound: _Bound, number: int) -> int:
    """The index of the Nth newest prompt that opened a turn. Raises AgentError."""
    if not 1 <= number <= len(bound.opening):
        has = f"{len(bound.opening)} prompt{'' if len(bound.opening) == 1 else 's'} of a person"
        raise errors.AgentError(f"the conversation has {has}: it is too short to go back {number}")
    return bound.opening[-number]


def _find_opening_prompts(
    view: TurnView, conversation: Conversation, prompts: Sequence[Prompt], points: Sequence[Checkpoint | None]
) -> list[int]:
    """The indices of the prompts that opened a turn. A prompt that was typed while a turn ran belongs to that turn. If
    it waited for the turn's end, it belongs to the next turn, with all prompts that waited."""
    shares = agents.turn_id_field(conversation.client.name) == "prompt_id"
    turns = [None if point is None else view.turn_of(point.id) for point in points]
    found = []
    for at, prompt in enumerate(prompts):
        is_same = at > 0 and shares and prompt.prompt_id != "" and prompt.prompt_id == prompts[at - 1].prompt_id
        waited = at > 0 and (turn := turns[at]) is not None and (other := turns[at - 1]) is not None and turn.id == other.id
        if at == 0 or not (prompt.queued or is_same or waited):
            found.append(at)
    return found


def _index_of_opening_prompt(turn: Turn, bound: _Bound) -> int | None:
    """The index of the prompt that opened a turn of the list, or None if the conversation lacks it."""
    mine = frozenset(turn.checkpoints)
    for at, point in enumerate(bound.points):
        if point is not None and point.id in mine:
            return max(start for start in bound.opening if start <= at)
    return next((at for at in bound.opening if turn.prompt_id and bound.prompts[at].prompt_id == turn.prompt_id), None)


def _not_there_error(view: TurnView, turn: Turn, bound: _Bound) -> errors.AgentError:
    """The error for a turn that the conversation lacks. It names the turns that the conversation has."""
    conversation = bound.conversation
    title = f'@{turn.n} "{_first_words(turn.title)}"'
    if (turn.agent, turn.session) == (conversation.client.name, conversation.session):
        return errors.AgentError(
            f"the prompt of {title} is no longer in the conversation {session_in_words(turn.agent, turn.session)}: nothing was changed",
            f"casrewind restore @{turn.n} restores the files of that moment",
        )
    there = [found for at in bound.opening if (point := bound.points[at]) and (found := view.turn_of(point.id)) is not None]
    return _elsewhere_error(turn, session_in_words(conversation.client.name, conversation.session), there)


def _elsewhere_error(turn: Turn, here: str, there: Sequence[Turn]) -> errors.AgentError:
    """The error for a turn of another conversation than `here`, which has the turns `there`."""
    if turn.agent == checkpoints.RUN:
        return _command_error(turn)
    title = f'@{turn.n} "{_first_words(turn.title)}"'
    numbers = sorted({found.n for found in there})
    named = ", ".join(f"@{number}" for number in numbers[:_NAMED]) + (", ..." if len(numbers) > _NAMED else "")
    return errors.AgentError(
        f"{title} is a turn of {session_in_words(turn.agent, turn.session)}: nothing was changed. This conversation is {here}, "
        f"its turns are {named or 'not in the list'}",
        f"go back to {title} in its own client, or in a terminal without --session",
    )


def _command_error(turn: Turn) -> errors.AgentError:
    return errors.AgentError(
        f'@{turn.n} "{_first_words(turn.title)}" is a command of casrewind run, and no prompt of a conversation: nothing was changed',
        f"casrewind restore @{turn.n} restores the files of that moment",
    )


def _first_words(title: str) -> str:
    """The first words of a turn's title."""
    return title if len(title) <= _WORDS else title[: _WORDS - 1].rstrip() + "…"
