"""The receipt of what another machine sent: what came, what did not, and whether an agent can go on with it here.

The danger prevented here: a person believes that all is here, deletes the sandbox, and the agent stands without a program, a file or its
last answer. So what is on the disk is read again, and compared with what was sent. Only what a person may lack is named.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice

from .. import errors, programs
from .._typing import NamedTuple
from ..agents import run_program, transcript
from ..agents.carried_lines import carried
from ..agents.client import ConversationClient
from ..context import Context
from ..history import compare
from ..history import conversation as conversations
from ..history.restorable import name_checkpoint_in_errors
from ..messages import printable
from ..model import manifest, paths, tlv
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, PURGED
from ..model.shell_programs import find_programs
from ..store.arrivals import Arrival, read_arrival
from . import rewind

MOST_IGNORED = 50
"""Ignored paths that a push names, and that are read."""
NOT_COMPARED = "what came was not compared with what was sent: {}"
"""Said in place of a receipt, with the error."""
NOT_SENT = "it was not sent"
"""Why a conversation is not here that its machine keeps to itself: nothing of it should have come."""
_MOST_PROGRAMS = 50
_MOST_PATHS_NAMED = 1000
_NO_MESSAGES = frozenset({transcript.BOOKKEEPING, transcript.UNKNOWN})
_CHANGED_HERE = ("id", "cwd")
"""The ends of the names of fields that another place of a conversation changes."""
_NOT_FOUND = ("{}: command not found", "{}: not found", "command not found: {}")
"""What shells say of a program that was not found there either."""


class CameConversation(NamedTuple):
    """What became of a conversation. Without an `agent`, none belongs to the checkpoint."""

    agent: str = ""
    why_not: str = ""
    """Why it is not here, or cannot be read, as the rest of a sentence; "" = it is here."""
    prompts: int = 0
    messages: int = 0
    """The number of its lines that are no bookkeeping."""
    here: int = 0
    """How many of these are in the session that was written here."""
    version_there: str = ""
    """The version of the agent's client that wrote it, "" = unknown."""
    version_here: str = ""
    """The version that is found here."""
    programs: tuple[str, ...] = ()
    """Programs that the agent ran there, and that are not found here."""
    paths: tuple[str, ...] = ()
    """Paths in the project's root there that it names, and that do not exist here; the shortest first."""


class Receipt(NamedTuple):
    """What came of a checkpoint of another machine."""

    machine: str
    checkpoint: str
    files: int
    """The number of files and links that the checkpoint has."""
    exact: int
    """How many of these are here, with the same kind, content, mode and link target."""
    is_whole: bool
    """All of them were asked for, and no edits were kept."""
    conversation: CameConversation
    ignored: tuple[bytes, ...]
    """What git ignored there, tools do not make again, and is not here; a directory ends in a slash."""

    @property
    def has_come(self) -> bool:
        """True if what was sent is here: the files, and the conversation with its messages."""
        chat = self.conversation
        return (self.exact == self.files or not self.is_whole) and chat.why_not in ("", NOT_SENT) and chat.here == chat.messages

    @property
    def is_complete(self) -> bool:
        """True if nothing is lacking: what was sent is here, and so are the programs and the ignored files."""
        return self.has_come and not (self.ignored or self.conversation.programs or self.conversation.why_not)

    def is_enough(self, *, strict: bool) -> bool:
        """True if a command may end with 0. `strict`: nothing may be lacking."""
        return self.is_complete if strict else self.has_come


def find_receipt(context: Context) -> Receipt | None:
    """Work out the receipt of what came into the worktree last. None if nothing came from another machine. Raises CheckpointNotFound if gc
    has forgotten it, StoreDamaged."""
    arrival = read_arrival(context.store.path, context.root.key)
    if arrival is None:
        return None
    point = context.store.checkpoint(arrival.checkpoint)
    if point is None:
        what = f"{arrival.checkpoint}, which came from {printable(arrival.machine)}, was forgotten"
        raise errors.CheckpointNotFound(f"{what}: what came is not known any more")
    files, exact = _count_exact_files(context, point)
    chat = _look_at_conversation(context, point, arrival)
    return Receipt(arrival.machine, point.id, files, exact, arrival.whole, chat, tuple(sorted(_ignored_and_not_here(context, point))))


def _count_exact_files(context: Context, point: Checkpoint) -> tuple[int, int]:
    """Returns (the number of files and links of a checkpoint, how many of them are on the disk as it has them)."""
    with name_checkpoint_in_errors(context.store):
        count = sum(entry.kind not in (DIR, PURGED) for _, entry in manifest.walk(context.store.load_tree, point.tree))
    found = compare.compare_to_checkpoint(context, compare.scan_worktree(context), point)
    lacking = (change.new for change in (*found.changes, *found.unclear))
    return count, count - sum(entry is not None and entry.kind not in (DIR, PURGED) for entry in lacking)


def _ignored_and_not_here(context: Context, point: Checkpoint) -> Iterator[bytes]:
    """The ignored paths that the machine named with this checkpoint, or with the next one, without what is here."""
    later = (one for one, _ in context.store.checkpoints() if one.worktree == point.worktree and one.seq >= point.seq)
    named = [one.more.ignored_there for one in later if one.more.ignored_there]
    for name in tlv.text(named[-1]).split(b"\0")[:MOST_IGNORED] if named else ():
        try:
            path = paths.check_path(name.removesuffix(b"/"))
        except errors.UnsafePath:
            continue
        if not context.tree.may_exist(path):
            yield name


def _look_at_conversation(context: Context, point: Checkpoint, arrival: Arrival) -> CameConversation:
    found = rewind.checkpoint_with_conversation(context, point)
    if not found.session:
        return CameConversation()
    chat = CameConversation(found.agent)
    if not found.cursor:
        return chat._replace(why_not=NOT_SENT)
    try:
        conversation = conversations.find_for_checkpoint(context, found)
        stored = _bytes_that_came(context, conversation.points, found)
        cut = rewind.cut_transcript_at(context, conversation._replace(data=stored), found) or b""
        client = conversation.client
        sent = _messages(client, carried(cut, client.carried_lines()) if cut else b"")
        there = conversations.live_transcript(client, arrival.transcript) if arrival.session else b""
    except errors.CasrewindError as error:
        return chat._replace(why_not=error.problem)
    environ = {"HOME": context.homes.home, **context.homes.environ}
    program = programs.find_program(client.program, environ)
    return chat._replace(
        why_not="it was not written here" if cut and not there else "",
        prompts=len(client.prompts(cut)),
        messages=len(sent),
        here=_count_in_order(sent, _messages(client, there)),
        version_there=(transcript.newest_text_at(cut, client.sessions.client_version) or found.more.client_version)[:40],
        version_here=(run_program.ask_version(program, environ)[0] or "") if program else "",
        programs=tuple(islice(_programs_not_found(client, cut, environ), _MOST_PROGRAMS)),
        paths=_paths_not_here(sent, arrival.root, context.root.path),
    )


def _bytes_that_came(context: Context, points: Iterable[Checkpoint], found: Checkpoint) -> bytes:
    """The transcript as it was stored with this checkpoint, with the last one before, or with the next one. Raises AgentError."""
    kept = [point for point in points if point.session == found.session and point.transcript is not None]
    before = [point for point in kept if point.seq <= found.seq]
    if not kept:
        raise errors.AgentError("none of its bytes were stored")
    return conversations.stored_bytes(context, (before[-1:] or kept)[0])


_Message = tuple[str, ...]
"""The kind of a line and its texts, without ids."""


def _messages(client: ConversationClient, data: bytes) -> list[_Message]:
    lines = ((client.kind_of_line(line.value), line.value) for line in transcript.parse_lines(data))
    return [(kind, *_texts_in(value)) for kind, value in lines if kind not in _NO_MESSAGES]


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts_in(each)
    elif isinstance(value, dict):
        for name, each in sorted(value.items()):  # a client's database has another order of fields
            if not name.lower().endswith(_CHANGED_HERE):
                yield from _texts_in(each)


def _count_in_order(sent: list[_Message], there: list[_Message]) -> int:
    """How many of these messages are there, in this order."""
    known, count, at = set(there), 0, 0
    for message in sent:
        if message in known:
            with suppress(ValueError):  # it is there, and earlier
                at, count = there.index(message, at) + 1, count + 1
    return count


def _programs_not_found(client: ConversationClient, data: bytes, environ: Mapping[str, str]) -> Iterator[str]:
    """The agent's client, and the programs that it ran, if they are not found here. One that was not found there either is left out."""
    scripts = transcript.commands_in_calls(data, client.sessions.shell) if client.sessions.shell is not None else []
    names = dict.fromkeys((client.program, *(name for script in scripts for name in find_programs(script))))
    for name in names:
        if programs.find_program(name, environ) is None and not any(said.format(name).encode() in data for said in _NOT_FOUND):
            yield name


def _paths_not_here(messages: Iterable[_Message], there: str, here: str) -> tuple[str, ...]:
    if there in ("", "/", here):
        return ()
    pattern = re.compile(rf"(?<![\w./-]){re.escape(there)}(?:/[\w.@+~%-]+)*(?![\w-])")
    found = (match[0].rstrip(".") for message in messages for text in message for match in pattern.finditer(text))
    named = islice(dict.fromkeys(found), _MOST_PATHS_NAMED)
    return tuple(sorted((path for path in named if not os.path.lexists(path)), key=lambda path: (len(path), path)))
