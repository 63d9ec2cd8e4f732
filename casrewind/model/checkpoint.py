"""A checkpoint: a published manifest and the circumstances of its save."""

from functools import lru_cache

from .. import errors
from .._typing import NamedTuple
from . import tlv
from .diff import Counts
from .manifest import FILE, Entry, decode_entry, encode_entry

MANUAL, SAFETY, PROMPT, SESSION_START = "manual", "safety", "prompt", "session_start"
WATCH = "watch"
"""The trigger of what `casrewind watch` saves: a burst of edits of which no client tells. It belongs to no turn."""
RUN = "run"
"""The agent of the turn of a command that `casrewind run` ran. It is no client, and its checkpoints have no session."""
TRIGGERS = frozenset({MANUAL, SESSION_START, PROMPT, "tool_batch", "turn_end", "session_end", "compact", SAFETY, WATCH})
DURING_RESTORE = 1
"""Flag: made while a restore was unfinished."""
PINNED = 2
"""Flag: pinned when it was made."""
DESCRIBED = 4
"""Flag: the label describes the purpose and was not set by the user, so it does not keep the checkpoint."""
NO_PROMPT = 8
"""Flag: no prompt caused the event of this checkpoint."""
NOT_SAVED = 16
"""Flag: nothing was saved at this event, because the project is too slow. The tree is that of another checkpoint."""
REMEMBERED = 512
"""Records that are decoded once. A restore asks four times for the newest 256 (history/worktree_timeline.py)."""
TAKEN_FROM = "taken_from"
"""In the meta of a safety checkpoint: the directory whose changes were taken after it, or were until then."""

(_ID, _CREATED, _WORKTREE, _ROOT, _PARENT, _TRIGGER, _LABEL, _PROMPT, _AGENT, _SESSION, _TREE, _DOMAIN) = range(1, 13)
(_FILES, _BYTES, _ADDED, _MODIFIED, _REMOVED, _SKIPPED, _FLAGS, _CURSOR, _TRANSCRIPT, _ELAPSED) = range(13, 23)
(_TURN, _EVENT, _REASON, _SUBAGENTS, _TASKS, _TELLS_ENDS, _AT) = range(23, 30)
(_BRANCH, _COMMIT, _OP, _TARGET, _BY_AGENT, _BY_SESSION, _MACHINE, _META, _ORIGIN) = range(30, 39)
_SUBAGENT, _SUBAGENT_TYPE, _SUBAGENT_ROOT, _WRITTEN, _SUBAGENT_TASK, _IGNORED_THERE, _CLIENT_VERSION = range(39, 46)
_SALT, _BEFORE, _STATED = range(46, 49)
_MORE = range(_TURN, _STATED + 1)


class Circumstances(NamedTuple):
    """What else is known of the moment of a checkpoint.

    `turn`: the id of the checkpoint that opened this checkpoint's turn. `event`: the client's name of the event,
    `reason` its source or reason. `subagents` and `tasks`: how many subagents, and how many other tasks, ran in the
    background. `tells_ends`: whether the client's hooks report the ends of turns, None = unknown. `at_ns`: the time of
    the event, 0 = unknown. `branch` and `commit` are git's. `op` and `target`: the operation after a safety checkpoint,
    and its target. `by_agent` and `by_session`: the agent and session that ran a save or a restore in their shell.
    `machine`: the name of the machine that a pulled checkpoint was made on, "" = made here. `meta`: the keys and values
    that a program gave the save, or TAKEN_FROM. `origin`: the beginning of the id of the chain that a pulled one came from.
    `subagent`: the client's id of the subagent that began or ended, `subagent_type` its type, `subagent_root` the path of the linked
    worktree inside the root in which it works, "" = none. `written`: at its end, the paths that its tools named as written, below
    the root, with NUL between them; `subagent_task`: what it was started for, in its client's words. `ignored_there`: in what a push
    sends, ignored paths of its machine that tools do not make again, with NUL between them; a directory ends in a slash.
    `client_version`: there, too, the version of the agent's client, if its conversation names none. `salt`: 32 random bytes in the digest
    of the prompt that a statement has (model/statement.py), b"" = a purge removed them. `before`: the digest of the statement before, b"" =
    this one is the first. `stated`: the statement as it was before a purge changed the checkpoint, b"" = none did.
    """

    turn: str = ""
    event: str = ""
    reason: str = ""
    subagents: int = 0
    tasks: int = 0
    tells_ends: bool | None = None
    at_ns: int = 0
    branch: str = ""
    commit: str = ""
    op: str = ""
    target: str = ""
    by_agent: str = ""
    by_session: str = ""
    machine: str = ""
    meta: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    subagent: str = ""
    subagent_type: str = ""
    subagent_root: str = ""
    written: str = ""
    subagent_task: str = ""
    ignored_there: str = ""
    client_version: str = ""
    salt: bytes = b""
    before: bytes = b""
    stated: bytes = b""


NOTHING_ELSE = Circumstances()


class Checkpoint(NamedTuple):
    """One checkpoint.

    `seq` is its position in the ledger, which alone orders checkpoints. `created_ns` (wall clock, nanoseconds since
    1970) is for display and age. `worktree` is the 16-byte key of its root, `root` the path (bytes). `parent` is the
    id of the worktree's newest checkpoint before it, or "". `tree` and `domain` are digests. `files` and `size`
    (bytes) count the regular files; `changes` is against the parent. `cursor` (encoded, model/cursor.py, b"" = none)
    is the position in the agent's transcript; `transcript` is the entry of that file as of then. `elapsed_ms` is the
    duration of the save. `more` holds the fields that later versions added.
    """

    seq: int
    id: str
    created_ns: int
    worktree: bytes
    root: bytes
    parent: str
    trigger: str
    label: str
    prompt: str
    agent: str
    session: str
    tree: bytes
    domain: bytes
    files: int
    size: int
    changes: Counts
    skipped: int
    flags: int
    cursor: bytes = b""
    transcript: Entry | None = None
    elapsed_ms: int = 0
    more: Circumstances = NOTHING_ELSE

    @property
    def is_saved(self) -> bool:
        """True if the tree is the state of the files at this checkpoint's event."""
        return not self.flags & NOT_SAVED

    @property
    def session_key(self) -> tuple[str, str]:
        """The agent, and its session or "". A turn of `casrewind run` is alone: the id of its before stands for a session."""
        return self.agent, self.more.turn if self.agent == RUN else self.session

    @property
    def own_prompt(self) -> str:
        """The prompt that this checkpoint was made at. The other checkpoints of a turn carry its prompt, too."""
        return self.prompt if self.trigger == PROMPT else ""

    @property
    def meta(self) -> dict[str, str]:
        """The keys and values that a program gave the save."""
        return dict(self.more.meta)


def encode(point: Checkpoint) -> bytes:
    """A checkpoint as a record's payload, without `seq`, which the record has."""
    return tlv.encode(
        (
            (_ID, point.id),
            (_CREATED, point.created_ns),
            (_WORKTREE, point.worktree),
            (_ROOT, point.root),
            (_PARENT, point.parent),
            (_TRIGGER, point.trigger),
            (_LABEL, point.label),
            (_PROMPT, point.prompt),
            (_AGENT, point.agent),
            (_SESSION, point.session),
            (_TREE, point.tree),
            (_DOMAIN, point.domain),
            (_FILES, point.files),
            (_BYTES, point.size),
            (_ADDED, point.changes.added),
            (_MODIFIED, point.changes.modified),
            (_REMOVED, point.changes.removed),
            (_SKIPPED, point.skipped),
            (_FLAGS, point.flags),
            *([(_CURSOR, point.cursor)] if point.cursor else []),
            *([(_TRANSCRIPT, encode_entry(b"", point.transcript))] if point.transcript is not None else []),
            *([(_ELAPSED, point.elapsed_ms)] if point.elapsed_ms else []),
            *(_encode_more(point.more) if point.more != NOTHING_ELSE else ()),
        )
    )


@lru_cache(maxsize=REMEMBERED)
def decode(seq: int, data: bytes) -> Checkpoint:
    """The checkpoint in a record's payload. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "checkpoint record")
    transcript = got.bytes_or_empty(_TRANSCRIPT)
    return Checkpoint(
        seq=seq,
        id=got.required_bytes(_ID).decode("ascii", "replace"),
        created_ns=got.number(_CREATED),
        worktree=got.required_bytes(_WORKTREE, 16),
        root=got.required_bytes(_ROOT),
        parent=got.text(_PARENT),
        trigger=got.text(_TRIGGER),
        label=got.text(_LABEL),
        prompt=got.text(_PROMPT),
        agent=got.text(_AGENT),
        session=got.text(_SESSION),
        tree=got.required_bytes(_TREE, 32),
        domain=got.required_bytes(_DOMAIN, 32),
        files=got.number(_FILES),
        size=got.number(_BYTES),
        changes=Counts(got.number(_ADDED), got.number(_MODIFIED), got.number(_REMOVED)),
        skipped=got.number(_SKIPPED),
        flags=got.number(_FLAGS),
        cursor=got.bytes_or_empty(_CURSOR),
        transcript=_decode_transcript(transcript) if transcript else None,
        elapsed_ms=got.number(_ELAPSED),
        more=_decode_more(got) if got.has_any(_MORE) else NOTHING_ELSE,
    )


def _encode_more(more: Circumstances) -> list[tuple[int, tlv.Value]]:
    """The fields that say something. A truth value is a number, too."""
    texts = tlv.encode_list(tlv.text(text) for pair in more.meta for text in pair)
    plain = ((tag, texts if isinstance(value, tuple) else value) for tag, value in zip(_MORE, more, strict=True))
    found = [(tag, int(value) if isinstance(value, bool) else value) for tag, value in plain if value is not None]
    return [(tag, value) for tag, value in found if value or tag == _TELLS_ENDS]


def _decode_more(got: tlv.Fields) -> Circumstances:
    return Circumstances(
        turn=got.text(_TURN),
        event=got.text(_EVENT),
        reason=got.text(_REASON),
        subagents=got.number(_SUBAGENTS),
        tasks=got.number(_TASKS),
        tells_ends=bool(got.number(_TELLS_ENDS)) if got.has_any((_TELLS_ENDS,)) else None,
        at_ns=got.number(_AT),
        branch=got.text(_BRANCH),
        commit=got.text(_COMMIT),
        op=got.text(_OP),
        target=got.text(_TARGET),
        by_agent=got.text(_BY_AGENT),
        by_session=got.text(_BY_SESSION),
        machine=got.text(_MACHINE),
        meta=_decode_meta(got.bytes_or_empty(_META)) if got.has_any((_META,)) else (),
        origin=got.text(_ORIGIN),
        subagent=got.text(_SUBAGENT),
        subagent_type=got.text(_SUBAGENT_TYPE),
        subagent_root=got.text(_SUBAGENT_ROOT),
        written=got.text(_WRITTEN),
        subagent_task=got.text(_SUBAGENT_TASK),
        ignored_there=got.text(_IGNORED_THERE),
        client_version=got.text(_CLIENT_VERSION),
        salt=got.bytes_or_empty(_SALT),
        before=got.bytes_or_empty(_BEFORE),
        stated=got.bytes_or_empty(_STATED),
    )


def _decode_meta(data: bytes) -> tuple[tuple[str, str], ...]:
    texts = [item.decode("utf-8", "surrogateescape") for item in tlv.decode_list(data, "checkpoint record")]
    if len(texts) % 2:
        raise errors.ManifestCorrupt("damaged checkpoint record: a key of its meta has no value", "run casrewind verify")
    return tuple(zip(texts[::2], texts[1::2], strict=True))


def _decode_transcript(data: bytes) -> Entry:
    _, entry, end = decode_entry(data, 0)
    if entry.kind != FILE or end != len(data):
        raise errors.ManifestCorrupt("damaged checkpoint record: its transcript is not a file", "run casrewind verify")
    return entry
