"""Rewind: fork the conversation before a prompt or at a checkpoint; on request, restore the files of that moment too.

The danger prevented here: files of one moment with the conversation of another. The checkpoint of a prompt is the one
made for exactly that prompt. If it is missing, nothing is changed unless the user accepts the nearest one. Files are
restored first: if that fails, the conversation is not changed. An in-place rewind makes a backup first.
"""

import os
import time
from collections.abc import Iterable, Sequence

from .. import errors, locations
from .._typing import NamedTuple
from ..agents import client_process, session_files
from ..agents.carried_lines import carried
from ..agents.hook_checks import how_to_connect
from ..agents.prompt_matching import prompt_of_checkpoint
from ..agents.transcript import Prompt
from ..context import Context
from ..history import conversation as conversations
from ..history import turns_elsewhere
from ..history.conversation import Conversation, RewindTarget
from ..history.provenance import OtherSessions
from ..history.taken_back_turns import skipped_in_words, taken_back_error
from ..messages import duration_in_words, enumerated, printable
from ..model import checkpoint as checkpoints
from ..model import cursor as cursors
from ..model import rewind_record as rewinds
from ..model.checkpoint import Checkpoint
from ..model.plan import Plan
from ..store.arrivals import Arrival, record_arrival
from .earlier_fork import find_earlier_fork
from .restore import prepare_restore
from .result import Restored
from .worktree_change import Confirm, WorktreeChange

HANDED_OVER = "handed_over"
"""The mode of a conversation of another machine that keeps its id here."""
FORKED_BEFORE = "forked_before"
"""The mode of a fork that an earlier rewind to the same moment made."""
CHAT_ALONE = "use --chat to rewind only the conversation"
NEAREST = "use --nearest to accept it, or --chat to rewind only the conversation"
END_OR_FORK = "end it first, or make a fork of the conversation (casrewind back, restore --chat)"
"""What a person does where a client still has the session open."""


class Chat(NamedTuple):
    """The rewound conversation: its session and the path of its transcript. `resume` is the shell command that opens
    it, `inside` the text to type in the client ("" = not supported). `mode` is that of
    model.rewind_record, HANDED_OVER or FORKED_BEFORE; `backup` is the path of the previous conversation, None for a new file."""

    mode: str
    session: str
    path: str
    resume: str
    inside: str
    backup: str | None


class Forks(NamedTuple):
    """The forks of one conversation for several directories. `agent` and `session`: the conversation. `chats`: the fork of each
    directory; () with `dry_run`, or if nothing precedes the checkpoint, which `is_empty` says. `prompts` and `notes`: see Rewound."""

    agent: str
    session: str
    chats: tuple[Chat, ...]
    is_empty: bool
    prompts: tuple[str, ...]
    notes: tuple[str, ...]
    dry_run: bool


class Rewound(NamedTuple):
    """The result of a rewind; with `dry_run`, what it would do."""

    chat: Chat | None
    """None if nothing precedes the target (start a new session), if the conversation was not requested, or with `dry_run`."""
    prompts: tuple[str, ...]
    """The removed prompts, oldest first."""
    restored: Restored | None
    """The result for the files; None if they were not requested."""
    notes: tuple[str, ...]
    """For the user."""
    dry_run: bool
    transcript: str
    """The conversation's path; "" if the conversation was not requested."""
    machine: str = ""
    """The other machine that the conversation is of, or ""."""


class ChatCut(NamedTuple):
    """Where a rewind cuts a conversation, and what becomes of it."""

    conversation: Conversation
    cut: bytes | None
    """What stays of it. None: nothing precedes the target."""
    point: Checkpoint | None
    """The checkpoint of the target."""
    in_place: bool = False
    """The session itself is cut; its client must not run."""
    is_foreign: bool = False
    """Another machine had it: it keeps its id, if no session here has that id."""
    may_be_there: bool = False
    """If no file changes, an earlier fork of the same moment is as good as a new one."""
    brings_all: bool = False
    """All files of the checkpoint come, too, and no edits are kept."""


class RewindChange:
    """What a rewind would do to files, to a conversation, or to both (a worktree_change.PlannedChange). The files go first: if that
    fails, the conversation is not changed."""

    def __init__(
        self, context: Context, files: WorktreeChange | None, chat: ChatCut | None, planned: Rewound, *,
        nearest: str = "", refused: errors.AgentError | None = None,
    ) -> None:  # fmt: skip
        """`planned`: the result, without files and conversation. `refused` is raised if a file would change."""
        self._context, self._files, self._chat, self._planned, self._refused = context, files, chat, planned, refused
        self.nearest = nearest
        """Why the checkpoint is only the nearest one before the prompt, or ""."""
        self.rewrites = ""
        """What is cut, and that it is kept beside it; "" if the session itself is not cut."""
        if chat is not None and chat.in_place:
            where = printable(chat.conversation.path)
            self.rewrites = f"{where} will be cut there, in its own session; a copy of it as it is now is kept beside it"

    def plan(self) -> Rewound:
        """See PlannedChange. Raises AgentError if a file would change and must not, and as `WorktreeChange.plan`."""
        return self._with_files(None if self._files is None else self._files.plan())

    def question(self) -> Plan | None:
        """See PlannedChange."""
        plan = None if self._files is None else self._files.question()
        if plan is not None and self._refused is not None:
            raise self._refused
        return plan

    def carry_out(self, confirm: Confirm | None = None) -> Rewound:
        """See PlannedChange. Raises as `plan` and `WorktreeChange.carry_out`, AgentError, StoreFull."""
        asking = confirm if self._refused is None else self._refuse
        done = self._with_files(None if self._files is None else self._files.carry_out(asking))
        made = None if self._chat is None else _write_and_record(self._context, self._chat, done.restored)
        if self._chat is not None and self._chat.point is not None and self._chat.is_foreign and self._files is not None:
            note_arrival(self._context, self._chat.point, self._chat.point.more.machine, made, whole=self._chat.brings_all)
        return done._replace(chat=made, dry_run=False)

    def _with_files(self, restored: Restored | None) -> Rewound:
        if self._refused is not None and restored is not None and (restored.actions or restored.kept):
            raise self._refused
        return self._planned._replace(restored=restored)

    def _refuse(self, _plan: Plan) -> bool:
        assert self._refused is not None
        raise self._refused


def prepare_back(
    context: Context,
    goal: RewindTarget,
    *,
    both: bool = False,
    chat: bool = True,
    in_place: bool = False,
    nearest: bool = False,
    keep_edits: bool = False,
) -> RewindChange:
    """The change that rewinds a conversation to before a prompt, `goal` (see conversation.find_prompt), as a fork or `in_place`.

    `both` restores the files too, except for a conversation without checkpoints; `keep_edits`: see `prepare_restore`. Without
    `chat` the conversation is unchanged. If the prompt has no checkpoint, `nearest` accepts the nearest one.

    A turn that is taken back already is no way forward: if files would change, that is an error. If no file changes, a fork of that
    moment that is still as it was made is not made again.

    Raises AgentError (no files to go back, in place while the client may run), CheckpointNotFound,
    CheckpointError (the newest turn is in another root), and errors of `restore`.
    """
    conversation = goal.conversation
    left: tuple[str, ...] = ()
    if chat or in_place or not goal.is_named:
        left = turns_elsewhere.refuse_or_note(context, conversation, goal.prompts, goal.points, goal.at)
    unseen: tuple[str, ...] = ()
    if both and not goal.was_seen:
        name = goal.conversation_in_words
        connect = how_to_connect(context.root.path, context.homes.home, context.homes.environ)
        if not chat:
            raise errors.AgentError(f"no checkpoint was made in the conversation {name}: its files cannot go back", connect)
        both, unseen = False, (f"only the conversation {name} goes back, the files stay: no checkpoint was made in it; {connect}",)
    cut = conversation.client.cut_before_prompt(conversation.data, goal.prompt)
    if in_place:
        _refuse_rewrite_in_place(context, conversation, cut)
    skipped = filter(None, (skipped_in_words(goal.skipped, goal.turn),))
    point, notes = goal.points[goal.at], (*skipped, *unseen, *left, *_notes_for_user(context, conversation))
    files: WorktreeChange | None = None
    why_nearest = ""
    if both:
        point, why_nearest = _checkpoint_of_prompt(context, goal)
        if why_nearest and not nearest:
            raise errors.CheckpointNotFound(f"{why_nearest}; nothing was changed", NEAREST)
        again = f"@{goal.turn} is taken back already" if goal.is_taken_back else ""
        notes += tuple(filter(None, (why_nearest, again)))
        others = OtherSessions(context, point, conversations.own_sessions(conversation, goal.points))
        files = prepare_restore(context, point, keep_edits=keep_edits, others=others)
    refused = taken_back_error(goal.turn) if goal.is_taken_back else None
    taken = tuple(prompt.text for prompt in goal.prompts[goal.at :]) if chat else ()
    planned = Rewound(None, taken, None, notes, dry_run=True, transcript=conversation.path if chat else "")
    kept = ChatCut(conversation, cut, point, in_place, may_be_there=True) if chat else None
    return RewindChange(context, files, kept, planned, nearest=why_nearest, refused=refused)


def prepare_rewind(
    context: Context,
    point: Checkpoint,
    *,
    both: bool = False,
    in_place: bool = False,
    scope: Sequence[bytes] = (),
    skip_damaged: bool = False,
    keep_edits: bool = False,
) -> RewindChange:
    """The change that rewinds a conversation to a checkpoint, as a fork or `in_place`. With `both`, the files are restored too. The
    checkpoint of a prompt means: before the prompt. Raises as `prepare_back`."""
    conversation = conversations.find_for_checkpoint(context, point)
    cut = cut_transcript_at(context, conversation, point)
    if in_place:
        _refuse_rewrite_in_place(context, conversation, cut)
    everything = conversation.client.prompts(conversation.data)
    is_foreign = bool(point.more.machine)
    taken = () if is_foreign else _removed_prompts(conversation, everything, cut)
    files: WorktreeChange | None = None
    if both:
        points = conversations.checkpoints_of_prompts(conversation, everything)
        if not is_foreign:
            turns_elsewhere.refuse_or_note(context, conversation, everything, points)
        others = OtherSessions(context, point, conversations.own_sessions(conversation, points))
        files = prepare_restore(context, point, scope=scope, skip_damaged=skip_damaged, keep_edits=keep_edits, others=others)
    notes = () if is_foreign else _notes_for_user(context, conversation)
    planned = Rewound(None, taken, None, notes, dry_run=True, transcript=conversation.path, machine=point.more.machine)
    chat = ChatCut(conversation, cut, point, in_place, is_foreign, brings_all=not (scope or keep_edits or skip_damaged))
    return RewindChange(context, files, chat, planned)


def _removed_prompts(conversation: Conversation, everything: Iterable[Prompt], cut: bytes | None) -> tuple[str, ...]:
    """The prompts of a conversation that are not in its part `cut`."""
    kept = {(prompt.uuid, prompt.text) for prompt in conversation.client.prompts(cut)} if cut is not None else set()
    return tuple(prompt.text for prompt in everything if (prompt.uuid, prompt.text) not in kept)


def fork_into(context: Context, point: Checkpoint, directories: Sequence[str], *, dry_run: bool = False) -> Forks:
    """Fork the conversation of a checkpoint for each of several directories that have its files, as it was at the checkpoint.

    Each fork is a new session, where the client looks for the sessions of that directory. Nothing is recorded: the directory
    is another project. Raises AgentError (no conversation, or none that can be read), StoreFull, StoreDamaged; forks that
    were made until then stay, and the error names them.
    """
    conversation = conversations.find_for_checkpoint(context, point)
    cut = cut_transcript_at(context, conversation, point)
    is_foreign = bool(point.more.machine)
    taken = () if is_foreign else _removed_prompts(conversation, conversation.client.prompts(conversation.data), cut)
    notes = () if is_foreign else _notes_for_user(context, conversation)
    chats: list[Chat] = []
    if cut is not None and not dry_run:
        if is_foreign:
            _write_earlier_files(context, conversation)
        for directory in directories:
            try:
                chats.append(_fork_elsewhere(context, conversation, cut, point, directory))
            except errors.CasrewindError as error:
                if not chats:
                    raise
                made = enumerated([f"{printable(there)}: {chat.resume}" for there, chat in zip(directories, chats, strict=False)])
                kind = errors.StoreFull if isinstance(error, errors.StoreFull) else errors.AgentError
                raise kind(f"{printable(directory)}: {error.problem}; forked: {made}", error.hint) from error
    return Forks(conversation.client.name, conversation.session, tuple(chats), cut is None, taken, notes, dry_run=dry_run)


def _fork_elsewhere(context: Context, conversation: Conversation, cut: bytes, point: Checkpoint, directory: str) -> Chat:
    """A fork for another directory than the project's root."""
    client, session, homes = conversation.client, conversation.client.new_session_id(), context.homes
    root = locations.real_path(directory)
    data = client.make_fork(conversation.data, cut, session, original=conversation.path, root=root)
    data = client.fork_for_other_root(data, (context.root.path, os.fsdecode(point.root)), root)
    there = client.path_for_project(conversation.path, conversation.session, root, homes.home, homes.environ)
    path = client.fork_path(there, session, data)
    session_files.refuse_unsafe_transcript_path(client, path, session, homes)
    path = _write_session_file(context, conversation, session, data, path, root)
    return _chat_result(conversation, rewinds.FORK, session, path, None)._replace(resume=client.resume_moved_command(session))


def take_over_conversation(context: Context, point: Checkpoint) -> Chat | None:
    """Write the conversation of a checkpoint that another machine made and that is one of this root's now, as of that
    checkpoint (see conversation.placed). None if nothing was said before it: start a new session.

    A checkpoint without a conversation means the newest one before it that has one. The session keeps its id, unless the
    client has a session with that id: then this is a fork. Raises AgentError, StoreFull; then nothing was written.
    """
    point = checkpoint_with_conversation(context, point)
    conversation = conversations.find_for_checkpoint(context, point)
    cut = cut_transcript_at(context, conversation, point)
    return _write_and_record(context, ChatCut(conversation, cut, point, is_foreign=True), None)


def note_arrival(context: Context, point: Checkpoint, machine: str, chat: Chat | None, *, whole: bool) -> None:
    """Note what came from another machine: a checkpoint, and its conversation here. `whole`: see Arrival."""
    where = ("", "") if chat is None else (chat.session, chat.path)
    arrival = Arrival(point.id, machine, os.fsdecode(point.root), *where, whole=whole)
    record_arrival(context.store.path, context.root.key, arrival)


def checkpoint_with_conversation(context: Context, point: Checkpoint) -> Checkpoint:
    """The checkpoint as the store has it; if it has no conversation, the newest one before it that has one, if there is one."""
    point = context.store.checkpoint(point.id) or point
    if point.session and point.cursor:
        return point
    earlier = (one for one, _ in context.store.checkpoints() if one.worktree == point.worktree and one.seq < point.seq)
    return next((one for one in earlier if one.session and one.cursor), point)


def cut_transcript_at(context: Context, conversation: Conversation, point: Checkpoint) -> bytes | None:
    """The conversation as it was at a checkpoint of it; None if nothing was said before. Raises AgentError, StoreDamaged."""
    client, cursor = conversation.client, cursors.decode(point.cursor)
    if point.trigger == checkpoints.PROMPT:
        prompts = client.prompts(conversation.data, every=True)
        index = prompt_of_checkpoint(prompts, conversations.recorded_prompt(point))
        if index is not None and not prompts[index].queued:
            return client.cut_before_prompt(conversation.data, prompts[index])
        # A queued prompt was typed earlier than the model received it, and the files are of the time when it was typed
    try:
        return client.cut_at_checkpoint(conversation.data, cursor, point.trigger)
    except errors.AgentError:
        stored = conversations.stored_bytes(context, point)
        if not stored:
            raise
        return client.cut_at_checkpoint(stored, cursor, point.trigger)


def _refuse_rewrite_in_place(context: Context, conversation: Conversation, cut: bytes | None) -> None:
    if cut is None:
        raise errors.AgentError("nothing comes before that, so there is nothing to keep in this session", "start a new one instead")
    process, _ = conversations.find_client_process(context, conversation)
    title, never = conversation.client.title, conversation.client.sessions.never_rewritten
    if never:
        raise errors.AgentError(f"{never}", session_files.FORK_INSTEAD)
    if process is None:
        raise errors.AgentError(
            f"it is unknown whether {title} still has this session open, and under a client that runs nothing is rewritten",
            session_files.FORK_INSTEAD
        )
    if client_process.is_alive_or_unknown(process):
        raise errors.AgentError(
            f"{title} still runs (process {process.pid}) and would write on over the cut",
            END_OR_FORK
        )


def _notes_for_user(context: Context, conversation: Conversation) -> tuple[str, ...]:
    notes: list[str] = []
    if conversation.stored:
        where = f"the transcript {printable(conversation.path)}"
        notes.append(f"{where} is gone or was rewritten: taken from the bytes stored with {conversation.stored}")
    process, running = conversations.find_client_process(context, conversation)
    if running and process is not None and client_process.is_alive_or_unknown(process):
        notes.append(f"as far as was seen a turn of {conversation.client.title} is under way: what it still does comes on top")
    return tuple(notes)


def _checkpoint_of_prompt(context: Context, goal: RewindTarget) -> tuple[Checkpoint, str]:
    """Returns (the checkpoint for a prompt, why it is only the nearest one, or "")."""
    own = goal.points[goal.at]
    if own is not None and own.is_saved and not _was_saved_late(context, own):
        return own, ""
    before = next((point for point in reversed(goal.points[: goal.at]) if point is not None and point.is_saved), None)
    behind = next((point for point in goal.points[goal.at + 1 :] if point is not None), None)  # the clock may be set back
    ends = [point.seq for point in (own, behind) if point is not None]
    limit = goal.prompt.time_ns or (own.created_ns if own is not None else 0)
    between = (
        point
        for point, _ in context.store.checkpoints()
        if point.worktree == context.root.key and point.trigger != checkpoints.SAFETY and point.is_saved
        if (before is None or point.seq > before.seq) and point.seq < min(ends, default=point.seq + 1) and point.created_ns <= limit
    )
    choice = next(between, before)
    why = "no checkpoint was made for that prompt"
    if own is not None:
        why = f"{own.id}, the checkpoint of that prompt, holds files that changed after it was sent"
        if not own.is_saved:
            why = "the files were not saved at that prompt, because the project was too slow"
    if choice is None:
        raise errors.CheckpointNotFound(f"{why}, and no earlier checkpoint exists", CHAT_ALONE)
    age = duration_in_words(max(limit - choice.created_ns, 0)) + " before the prompt" if limit else "the one before it"
    return choice, f"{why}; the nearest before it is {choice.id} ({choice.trigger.replace('_', ' ')}, {age})"


def _was_saved_late(context: Context, point: Checkpoint) -> bool:
    try:
        return bool(context.store.domain(point.domain).late)
    except (errors.BlobMissing, errors.BlobCorrupt):
        return False  # the restore reports the damage


def _write_and_record(context: Context, chat: ChatCut, restored: Restored | None) -> Chat | None:
    """Write the conversation up to the cut, then record the rewind in the ledger. None if nothing precedes the cut."""
    conversation, cut, point, in_place = chat.conversation, chat.cut, chat.point, chat.in_place
    if cut is None:
        return None
    session_files.refuse_unsafe_transcript_path(conversation.client, conversation.path, conversation.session, context.homes)
    if chat.is_foreign and not in_place and not _client_has_session(conversation):
        _write_earlier_files(context, conversation)
        made = _write_new_session(context, conversation, HANDED_OVER, conversation.session, cut, conversation.path)
        return made._replace(resume=conversation.client.resume_moved_command(made.session))
    is_same = chat.may_be_there and not in_place and point is not None and (restored is None or not restored.actions)
    there = find_earlier_fork(context, conversation, cut, point) if is_same and point is not None else None
    if there is not None:
        made = _chat_of_session(context, conversation, FORKED_BEFORE, *there)
        if restored is not None:
            return made  # nothing happened: undo means what it meant before
    else:
        made = _rewrite_in_place(context, conversation, cut) if in_place else _write_fork(context, conversation, cut)
    original = (made.backup or "") if in_place else conversation.path
    context.store.record_rewind(
        rewinds.Rewind(
            created_ns=time.time_ns(),
            worktree=context.root.key,
            agent=conversation.client.name,
            mode=rewinds.FORK if there is not None else made.mode,
            session=made.session,
            parent=conversation.session,
            transcript=os.fsencode(made.path),
            original=os.fsencode(original),
            checkpoint="" if point is None else point.id,
            safety=restored.safety if restored is not None and restored.safety else rewinds.CHAT_ONLY,
        )
    )
    return made._replace(resume=conversation.client.resume_moved_command(made.session)) if chat.is_foreign else made


def _write_fork(context: Context, conversation: Conversation, cut: bytes) -> Chat:
    client, session = conversation.client, conversation.client.new_session_id()
    data = client.make_fork(conversation.data, cut, session, original=conversation.path, root=context.root.path)
    return _write_new_session(context, conversation, rewinds.FORK, session, data, client.fork_path(conversation.path, session, data))


def _write_earlier_files(context: Context, conversation: Conversation) -> None:
    """Write the earlier files of a session as they were stored last. After a rewind in it, Codex goes on in another file, which
    refers to the one before."""
    written = {conversation.path}
    for point in reversed(conversation.points):
        path = os.fsdecode(cursors.decode(point.cursor).transcript)
        if point.session == conversation.session and point.transcript is not None and path not in written:
            written.add(path)
            session_files.refuse_unsafe_transcript_path(conversation.client, path, conversation.session, context.homes)
            if not os.path.lexists(path):
                data = conversations.stored_bytes(context, point)
                _write_new_session(context, conversation, HANDED_OVER, conversation.session, data, path)


def _client_has_session(conversation: Conversation) -> bool:
    """True if the client has a session with the conversation's id."""
    return os.path.lexists(conversation.path) or bool(conversation.client.read_stored_transcript(conversation.path))


def _write_new_session(context: Context, conversation: Conversation, mode: str, session: str, data: bytes, path: str) -> Chat:
    """Write a session that is not there yet."""
    path = _write_session_file(context, conversation, session, data, path, context.root.path)
    return _chat_of_session(context, conversation, mode, session, path, data)


def _chat_of_session(context: Context, conversation: Conversation, mode: str, session: str, path: str, data: bytes) -> Chat:
    client = conversation.client
    resume = client.resume_command(session, data, context.homes.home, context.homes.environ)
    return Chat(mode, session, path, resume, client.resume_inside(session, data), None)


def _write_session_file(context: Context, conversation: Conversation, session: str, data: bytes, path: str, root: str) -> str:
    """Write a session that is not there yet. The door for session files: no setting of an earlier session passes it."""
    client, environ = conversation.client, {"HOME": context.homes.home, **context.homes.environ}
    return client.write_fork(conversation.path, session, carried(data, client.carried_lines()), path, root, environ)


def _rewrite_in_place(context: Context, conversation: Conversation, cut: bytes) -> Chat:
    _refuse_rewrite_in_place(context, conversation, cut)  # the client may have started during the restore of the files
    client, now = conversation.client, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    rewound = client.rewound_in_place(conversation.data, cut)
    if conversation.stored or not set(cut.splitlines()).issubset(conversation.data.splitlines()):  # not what the client left there
        rewound = carried(rewound, client.carried_lines())
    backup = session_files.replace_with_backup(client, conversation.path, rewound, now, conversation.session)
    return _chat_result(conversation, rewinds.IN_PLACE, conversation.session, conversation.path, backup)


def _chat_result(conversation: Conversation, mode: str, session: str, path: str, backup: str | None) -> Chat:
    sessions = conversation.client.sessions
    resume, inside = (words.format(session=session, title=session) for words in (sessions.resume, sessions.resume_inside))
    return Chat(mode, session, path, resume, inside, backup)
