"""Purge of a text: removes a secret from the stored transcripts, prompts, labels and details, and from the log.

The danger prevented here: a text is missed. It may be stored JSON-escaped, or as JSON within JSON. It may cross the
border of two chunks, or a prompt may have been truncated inside it. Whatever contains the text is dropped whole: a
transcript, a prompt, a label, a detail, a key or value of meta, a log line. A field that is added later is covered,
too: every text field of a checkpoint is edited, unless `_KEPT` names it. Stored files are not changed; they are only
listed, and `purge PATH` removes them.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache

from .. import errors, fsio
from .._typing import NamedTuple
from ..context import Context
from ..errors import Declined
from ..history.restorable import name_checkpoint_in_errors
from ..messages import printable, store_errors
from ..model import cursor as cursors
from ..model import tlv
from ..model.checkpoint import Checkpoint, Circumstances
from ..model.manifest import Entry
from ..store import chunker, missed_events, packs
from ..store.chunker import ChunkRef
from ..store.failure_log import LINE, FailureLog
from ..store.reachability import references
from .damage import DamageSearch
from .purge import Fields, LedgerRewrite, carry_out, checkpoints_of, finish_interrupted, refuse_open_restores, rule_path
from .save import PROMPT

DROPPED = "***"
"""Replaces a dropped prompt, label or detail. It is shorter than any text that can be purged, so it never contains that
text."""
MOST_TEXT = 8 << 10
"""Maximum bytes of a text to purge."""
_KEPT = frozenset({"id", "parent", "trigger", "agent", "session", "turn", "op", "by_agent", "by_session", "machine"})
"""Text fields of a checkpoint that are not edited: ids, which others refer to, and words of casrewind's own."""
_LEAST_TEXT = 4
_BATCH = 500
_SEARCH_BYTES = 1 << 20


class Holder(NamedTuple):
    """A stored file that contains the text, and the id of the newest checkpoint with that content."""

    path: bytes
    checkpoint: str


class Covered(NamedTuple):
    """The number of dropped items: `transcripts`, `prompts` and `labels` of checkpoints, their `details` (git's branch,
    the client's event and reason, meta, and the like), also of sessions, and lines of the `log`."""

    transcripts: int
    prompts: int
    labels: int
    details: int
    log: int


class TextPurged(NamedTuple):
    """The result of a purge of a text (with `dry_run`: what it would do). `files`: stored files that contain the text;
    `purge PATH` removes them. `records`: number of records with the text in a session id or a path; these are not
    edited. `still_there`: files of the agents' clients, outside the store, that contain it."""

    places: Covered
    files: tuple[Holder, ...]
    records: int
    still_there: tuple[bytes, ...]
    dry_run: bool


Confirm = Callable[[TextPurged], bool]
"""Asks the user to confirm a purge."""


def purge_text(context: Context, text: bytes, *, confirm: Confirm | None = None, dry_run: bool = False) -> TextPurged:
    """Drop every transcript, prompt, label, detail and log line that contains a text, then delete the garbage. `confirm` is
    called before any change; Declined is raised if it returns False. Raises UsageError for an invalid text,
    JournalOpen, StoreBusy, StoreDamaged, StoreFull."""
    found = _TextSearch(context, SecretText(text))
    maintenance = context.store.maintenance()
    if dry_run:
        with context.store.hold_shared_lock():
            refuse_open_restores(context)
            return _report_of_text_purge(context, found, dry_run=True)
    with maintenance.exclude_other_maintenance():
        finish_interrupted(context, maintenance)
    with context.store.hold_shared_lock():
        refuse_open_restores(context)
        report = _report_of_text_purge(context, found, dry_run=False)
    if confirm is not None and not confirm(report):  # gc runs while a person thinks
        raise Declined
    with maintenance.exclude_other_maintenance():
        finish_interrupted(context, maintenance)
        found.blank_in_log(dry=False)  # before the ledger: finishing an interrupted purge cleans none of these
        found.replace_in_sessions(dry=False)
        found.forget_missed_events()
        carry_out(context, maintenance, lambda _: found.ledger_changes())
    return report


def _report_of_text_purge(context: Context, found: "_TextSearch", *, dry_run: bool) -> TextPurged:
    changed = found.ledger_changes().points.values()
    marks = sum(1 for _, marked in context.store.checkpoints() if found.text_or_dropped(marked.label) != marked.label)
    covered = Covered(
        transcripts=sum("transcript" in changes for changes in changed),
        prompts=sum("prompt" in changes for changes in changed),
        labels=marks + sum("label" in changes for changes in changed),
        details=sum(map(_count_details, changed)) + found.replace_in_sessions(dry=True),
        log=found.blank_in_log(dry=True),
    )
    outside = tuple(_client_files_with_text(context, found.secret))
    return TextPurged(covered, tuple(_files_with_text(context, found)), _count_unedited_records(context, found.secret), outside, dry_run)


class SecretText:
    """A text to purge and its spellings (`forms`). The forms are: raw, as in a JSON string, as in a JSON string
    within a JSON string, and as in the store's log. Each JSON form exists with non-ASCII characters raw and escaped.
    `reach`: bytes of the longest form, minus one."""

    def __init__(self, text: bytes) -> None:
        """Ignores a trailing newline. Raises UsageError for a wrong length."""
        text = text.removesuffix(b"\n").removesuffix(b"\r")
        if len(text) < _LEAST_TEXT or not text.strip():
            raise errors.UsageError(f"the text to purge has fewer than {_LEAST_TEXT} bytes, or only white space: it would match everywhere")
        if len(text) > MOST_TEXT:
            raise errors.UsageError(f"the text to purge has more than {MOST_TEXT:,} bytes", "give a distinctive part of it")
        self.forms = tuple(sorted(_forms_of_secret(text) | {printable(text).encode()}, key=len, reverse=True))
        self.reach = len(self.forms[0]) - 1

    def is_in(self, data: bytes, *, cut: bool = False) -> bool:
        """True if the bytes contain the text. With `cut`, also if they end with its beginning, of the
        minimum length or more."""
        return any(form in data for form in self.forms) or (cut and self._begins_at_end(data))

    def _begins_at_end(self, data: bytes) -> bool:
        counts = range(_LEAST_TEXT, min(self.reach, len(data)) + 1)
        return any(data.endswith(form[:count]) for form in self.forms for count in counts if count < len(form))


def _forms_of_secret(text: bytes) -> set[bytes]:
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return {text}  # JSON cannot contain it
    once = {_escape_as_json(decoded, ascii_only=flag) for flag in (True, False)}
    twice = {_escape_as_json(form, ascii_only=flag) for form in once for flag in (True, False)}
    return {text} | {form.encode() for form in once | twice}


def _escape_as_json(text: str, *, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


class _TextSearch:
    """Searches a store for the text. Results are cached by digest."""

    def __init__(self, context: Context, secret: SecretText) -> None:
        self.secret = secret
        self._context = context
        self._logs = (context.store.path, context.data)
        self._read = lru_cache(16)(lambda digest: context.store.read(digest, packs.CHUNK))  # a chunk and its neighbours
        self._answers: dict[tuple[bytes, ...], bool] = {}

    def ledger_changes(self) -> LedgerRewrite:
        """The changes to the ledger that remove the text."""
        report = self._context.counter("looking through conversations")
        points = {}
        for number, point in enumerate(checkpoints_of(self._context)):
            if changes := self._fields_without_text(point):
                points[point.id] = changes
            if report is not None:
                report(number + 1)
        return LedgerRewrite(points, {}, self.text_or_dropped, frozenset())

    def _fields_without_text(self, point: Checkpoint) -> Fields:
        new = self._edited_text_fields(point)
        new["more"] = point.more._replace(**self._edited_text_fields(point.more), meta=self._meta_without_text(point.more.meta))
        if point.transcript is not None and self._is_in_transcript(point.transcript):
            new["transcript"] = None
        return {name: value for name, value in new.items() if value != getattr(point, name)}

    def _edited_text_fields(self, fields: Checkpoint | Circumstances) -> Fields:
        """The text fields that may be edited, as they should be."""
        found = fields._asdict().items()
        return {name: self.text_or_dropped(value) for name, value in found if isinstance(value, str) and name not in _KEPT}

    def _meta_without_text(self, pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """The keys and values as they should be. A text may be in both, as they are shown: key=value."""
        new: dict[str, str] = {}
        for key, value in pairs:
            if self.secret.is_in(tlv.text(key)):
                new[DROPPED] = DROPPED
            else:
                new[key] = DROPPED if self.secret.is_in(tlv.text(f"{key}={value}")) else value
        return tuple(new.items())

    def text_or_dropped(self, text: str) -> str:
        """Return `text`, or DROPPED if it contains the secret or is truncated within the secret."""
        return DROPPED if self.secret.is_in(tlv.text(text), cut=len(text) >= PROMPT) else text

    def _is_in_transcript(self, entry: Entry) -> bool:
        if entry.size > cursors.MOST:
            raise errors.ManifestCorrupt(f"refused: a stored conversation of {entry.size:,} bytes, which is more than a hook stores of one")
        return self.is_in_list(entry.chunks, entry.size) if entry.chunks else self._is_in_chunks([ChunkRef(entry.digest, entry.size)])

    def is_in_list(self, digest: bytes, size: int) -> bool:
        """True if the file of `size` bytes with this chunk list contains the text."""
        return self._is_in_chunks(list(chunker.chunks_of_list(lambda node: self._context.store.read(node, packs.CHUNK_LIST), digest, size)))

    def _is_in_chunks(self, items: list[ChunkRef]) -> bool:
        """True if the text is in one of these consecutive chunks, or across their borders."""
        for number in range(len(items)):
            first, before = number, 0
            while first and before < self.secret.reach:
                first -= 1
                before += items[first].length
            pieces = tuple(item.digest for item in items[first : number + 1])
            if pieces not in self._answers:
                self._answers[pieces] = self.secret.is_in(b"".join(map(self._read, pieces)))
            if self._answers[pieces]:
                return True
        return False

    def blank_in_log(self, *, dry: bool) -> int:
        """The number of log lines that contain the text. Blanks these lines unless `dry`."""
        count = 0
        for directory in self._logs:
            with store_errors("writing the log of", directory):
                count += FailureLog(directory).blank_bad_lines(lambda line: self.secret.is_in(line, cut=len(line) >= LINE), dry=dry)
        return count

    def replace_in_sessions(self, *, dry: bool) -> int:
        """The number of rows of sessions whose event has a name with the text. Replaces these names unless `dry`."""
        sessions = self._context.store.sessions
        with store_errors("writing the sessions of", self._context.store.path):
            return sessions.rename_bad_events(lambda event: self.text_or_dropped(event) != event, DROPPED, dry=dry)

    def forget_missed_events(self) -> None:
        """Forget events that wait for their record, if their prompt contains the text."""
        with store_errors("writing the events of", self._context.store.path):
            for events in missed_events.missed_events_of_store(self._context.store.path):
                events.remove_where(lambda line: self.secret.is_in(line) or self._is_in_prompt(line))

    def _is_in_prompt(self, line: bytes) -> bool:
        try:
            prompt = json.loads(line)["event"]["prompt"]
        except (ValueError, KeyError, TypeError):
            return True  # it is not known what it holds
        return self.secret.is_in(prompt.encode("utf-8", "surrogatepass"), cut=len(prompt) >= PROMPT)


def _count_details(changes: Fields) -> int:
    """The number of changed fields of a checkpoint that are neither its prompt, its label nor its transcript."""
    return len(changes.keys() - {"prompt", "label", "transcript"})


def _files_with_text(context: Context, found: _TextSearch) -> Iterator[Holder]:
    """The stored files that contain the text, each with the newest such checkpoint."""
    points = checkpoints_of(context)
    stored = _blobs_of(context, points)
    every = (item for kind in (packs.FILE, packs.RULES) for item in _read_all_or_raise(context, sorted(stored[kind]), kind))
    bad = {digest for digest, data in every if found.secret.is_in(data)}
    report = context.counter("looking through large files")
    for number, (digest, size) in enumerate(stored[packs.CHUNK_LIST].items()):
        if found.is_in_list(digest, size):
            bad.add(digest)
        if report is not None:
            report(number + 1)
    newest: dict[bytes, str] = {}
    search = DamageSearch(context.store, bad)
    for point in points if bad else ():
        with name_checkpoint_in_errors(context.store):
            for _, path in search.of_tree(point.tree):
                newest.setdefault(path, point.id)
        for rule in context.store.domain(point.domain).rules:
            if rule.digest in bad:
                newest.setdefault(rule_path(rule), point.id)
    for path, checkpoint in sorted(newest.items()):
        yield Holder(path, checkpoint)


def _blobs_of(context: Context, points: list[Checkpoint]) -> dict[int, dict[bytes, int]]:
    """{kind of blob: {digest: size of its content}} for all files and rules of the checkpoints."""
    found = {kind: dict[bytes, int]() for kind in (packs.FILE, packs.CHUNK_LIST, packs.RULES)}
    found[packs.TREE] = dict.fromkeys((point.tree for point in points), 0)
    found[packs.DOMAIN] = dict.fromkeys((point.domain for point in points), 0)
    waiting = [(kind, digest) for kind in (packs.TREE, packs.DOMAIN) for digest in found[kind]]
    while waiting:
        kind, digest = waiting.pop()
        for below in references(kind, context.store.read(digest, kind)):
            if below.digest not in found[below.kind]:
                found[below.kind][below.digest] = below.size
                if below.kind == packs.TREE:
                    waiting.append((packs.TREE, below.digest))
    return found


def _read_all_or_raise(context: Context, wanted: list[bytes], kind: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields (digest, bytes) of every blob, in batches. Raises StoreDamaged for an unreadable blob: it may hold the
    text."""
    report = context.progress_bar("looking through files")
    for start in range(0, len(wanted), _BATCH):
        for digest, data in context.store.read_many(wanted[start : start + _BATCH], kind):
            if not isinstance(data, bytes):
                raise data
            yield digest, data
        if report is not None:
            report(min(start + _BATCH, len(wanted)), len(wanted))


def _count_unedited_records(context: Context, secret: SecretText) -> int:
    """The number of records with the text in a field that is not edited: the id of a session, or a path."""
    points = checkpoints_of(context)
    texts: list[tuple[str | bytes, ...]] = [
        (one.agent, one.session, one.more.by_agent, one.more.by_session, one.more.machine, one.root, one.cursor) for one in points
    ]
    rows = [session._replace(event="") for session in context.store.sessions.all()]
    texts += [tuple(value for value in row if isinstance(value, str)) for row in rows]
    texts += [(one.agent, one.session, one.parent, one.transcript, one.original) for one in context.store.rewinds()]
    texts += [(one.agent, one.session) for one in context.store.operations()]
    texts += [(one.root,) for one in context.store.adoptions()]
    encoded = ([tlv.text(value) if isinstance(value, str) else value for value in values] for values in texts)
    return sum(any(map(secret.is_in, values)) for values in encoded)


def _client_files_with_text(context: Context, secret: SecretText) -> Iterator[bytes]:
    """The clients' own files that the store knows of and that contain the text now."""
    known = {cursors.decode(point.cursor).transcript for point in checkpoints_of(context) if point.cursor}
    known |= {os.fsencode(session.transcript) for session in context.store.sessions.all()}
    known |= {path for rewind in context.store.rewinds() for path in (rewind.transcript, rewind.original)}
    for path in sorted(known - {b""}):
        if _file_holds(path, secret):
            yield path


def _file_holds(path: bytes, secret: SecretText) -> bool:
    try:
        with fsio.closing(os.open(path, fsio.READ_FLAGS)) as fd:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return False
            kept = b""
            while part := os.read(fd, _SEARCH_BYTES):
                kept += part
                if secret.is_in(kept):
                    return True
                kept = kept[-secret.reach :]
    except OSError:
        pass
    return False
