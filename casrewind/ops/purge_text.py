"""Purge of a text: a secret that slipped into a conversation goes from the stored transcripts, prompts, labels and the log.

The danger prevented here: a text that is found where it stands alone, and missed where it crosses the border of two pieces, or
where a prompt was cut in its middle. Whatever holds the text is dropped whole: a checkpoint loses its transcript, its prompt or
its label, and the log loses the line. Stored files are not changed: those that hold it are named, and `purge PATH` removes them.
"""

import os
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache

from .. import errors, fsio
from .._typing import Any, NamedTuple
from ..model import cursor as cursors
from ..model import tlv
from ..model.checkpoint import Checkpoint
from ..model.manifest import Entry
from ..model.redaction import Redactor
from ..store import chunker, packs
from ..store.chunker import ChunkRef
from ..store.failure_log import LINE, FailureLog
from ..store.reachability import references
from .context import Context
from .damage import DamageSearch
from .ledger_rewrite import (
    LedgerRewrite,
    carry_out,
    checkpoints_of,
    finish_interrupted,
    refuse_open_restores,
    rule_path,
)
from .restorable import naming
from .restore import Declined
from .save import PROMPT

DROPPED = "***"
"""What stands in place of a dropped prompt or label: shorter than any text that can be purged, so it never holds that text."""
_BATCH = 500
_STEP = 1 << 20


class Holder(NamedTuple):
    """A stored file that holds the text, and the id of the newest checkpoint that has it so."""

    path: bytes
    checkpoint: str


class Covered(NamedTuple):
    """How much held the text and is dropped: the transcripts of `transcripts` checkpoints, `prompts`, `labels`, and lines of
    the `log`."""

    transcripts: int
    prompts: int
    labels: int
    log: int


class TextPurged(NamedTuple):
    """What a purge of a text did (or, dry, would do). `files` hold it still: that is for purge PATH. `records` (checkpoints,
    sessions, rewinds) hold it still in a session's id or a path, which are not edited. `still_there`: files of the agents'
    clients, outside of the store, that hold it."""

    places: Covered
    files: tuple[Holder, ...]
    records: int
    still_there: tuple[bytes, ...]
    dry_run: bool


Confirm = Callable[[TextPurged], bool]
"""Asks a person whether this may be done."""


def purge_text(context: Context, text: bytes, *, confirm: Confirm | None = None, dry_run: bool = False) -> TextPurged:
    """Drop whatever holds a text but stored files, and remove what nothing names any more and could hold it, too.

    `confirm` is asked before anything is done; Declined is raised when it says no. Raises UsageError for a text that may not
    be one, JournalOpen, StoreBusy, StoreDamaged, StoreFull.
    """
    found = _Holding(context, Redactor(text, fsio.printable))
    maintenance = context.store.maintenance()
    if dry_run:
        with context.store.holding():
            refuse_open_restores(context)
            return _report(context, found, dry_run=True)
    with maintenance.only_one():
        finish_interrupted(context, maintenance)
        with context.store.holding():
            refuse_open_restores(context)
            report = _report(context, found, dry_run=False)
        if confirm is not None and not confirm(report):
            raise Declined
        found.in_log(dry=False)  # before the ledger: a process that finds a purge unfinished cannot do this
        carry_out(context, maintenance, lambda _: found.rewriting())
    return report


def _report(context: Context, found: "_Holding", *, dry_run: bool) -> TextPurged:
    changed = found.rewriting().points.values()
    marks = sum(1 for _, marked in context.store.checkpoints() if found.text(marked.label) != marked.label)
    places = Covered(
        transcripts=sum("transcript" in changes for changes in changed),
        prompts=sum("prompt" in changes for changes in changed),
        labels=marks + sum("label" in changes for changes in changed),
        log=found.in_log(dry=True),
    )
    outside = tuple(_outside(context, found.secret))
    return TextPurged(places, tuple(_holders(context, found)), _records(context, found.secret), outside, dry_run)


class _Holding:
    """Finds what of a store holds the text. What was read once is remembered by its digests."""

    def __init__(self, context: Context, secret: Redactor) -> None:
        """Nothing is read yet."""
        self.secret = secret
        self._context = context
        self._read = lru_cache(16)(lambda digest: context.store.read(digest, packs.CHUNK))  # a piece and its neighbours
        self._answers: dict[tuple[bytes, ...], bool] = {}

    def rewriting(self) -> LedgerRewrite:
        """What the ledger becomes without the text."""
        report = self._context.counter("looking through conversations")
        points = {}
        for number, point in enumerate(checkpoints_of(self._context)):
            if changes := self._changes(point):
                points[point.id] = changes
            if report is not None:
                report(number + 1)
        return LedgerRewrite(points, {}, self.text, frozenset())

    def _changes(self, point: Checkpoint) -> dict[str, Any]:
        new: dict[str, Any] = {"prompt": self.text(point.prompt), "label": self.text(point.label)}
        if point.transcript is not None and self._in_transcript(point.transcript):
            new["transcript"] = None
        return {name: value for name, value in new.items() if value != getattr(point, name)}

    def text(self, text: str) -> str:
        """A prompt or a label, DROPPED for one that holds the text, or may end within it because it was cut."""
        return DROPPED if self.secret.is_in(tlv.text(text), cut=len(text) >= PROMPT) else text

    def _in_transcript(self, entry: Entry) -> bool:
        if entry.size > cursors.MOST:
            raise errors.ManifestCorrupt(f"refused: a stored conversation of {entry.size:,} bytes, which is more than a hook stores of one")
        return self.in_list(entry.chunks, entry.size) if entry.chunks else self._in_pieces([ChunkRef(entry.digest, entry.size)])

    def in_list(self, digest: bytes, size: int) -> bool:
        """True when a file of `size` bytes holds the text, whose chunk list is this one."""
        return self._in_pieces(list(chunker.chunks(lambda node: self._context.store.read(node, packs.CHUNK_LIST), digest, size)))

    def _in_pieces(self, items: list[ChunkRef]) -> bool:
        """True when the text is in one of these pieces, one after the other, or across their borders."""
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

    def in_log(self, *, dry: bool) -> int:
        """How many lines of the log hold the text; they are blanked unless `dry`."""
        with fsio.store_errors("writing the log of", self._context.store.path):
            return FailureLog(self._context.store.path).blank(lambda line: self.secret.is_in(line, cut=len(line) >= LINE), dry=dry)


def _holders(context: Context, found: _Holding) -> Iterator[Holder]:
    """The stored files that hold the text, each with the newest checkpoint in which it does."""
    points = checkpoints_of(context)
    stored = _contents(context, points)
    every = (item for kind in (packs.FILE, packs.RULES) for item in _read_all(context, sorted(stored[kind]), kind))
    bad = {digest for digest, data in every if found.secret.is_in(data)}
    report = context.counter("looking through large files")
    for number, (digest, size) in enumerate(stored[packs.CHUNK_LIST].items()):
        if found.in_list(digest, size):
            bad.add(digest)
        if report is not None:
            report(number + 1)
    newest: dict[bytes, str] = {}
    search = DamageSearch(context.store, bad)
    for point in points if bad else ():
        with naming(context.store):
            for _, path in search.of_tree(point.tree):
                newest.setdefault(path, point.id)
        for rule in context.store.domain(point.domain).rules:
            if rule.digest in bad:
                newest.setdefault(rule_path(rule), point.id)
    for path, checkpoint in sorted(newest.items()):
        yield Holder(path, checkpoint)


def _contents(context: Context, points: list[Checkpoint]) -> dict[int, dict[bytes, int]]:
    """{kind of blob: {digest: size of its content}} for all that the files and rules of checkpoints are stored in."""
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


def _read_all(context: Context, wanted: list[bytes], kind: int) -> Iterator[tuple[bytes, bytes]]:
    """Every blob, in batches. Raises StoreDamaged for one that cannot be had: it is not known what it holds."""
    report = context.progress_bar("looking through files")
    for start in range(0, len(wanted), _BATCH):
        for digest, data in context.store.read_many(wanted[start : start + _BATCH], kind):
            if not isinstance(data, bytes):
                raise data
            yield digest, data
        if report is not None:
            report(min(start + _BATCH, len(wanted)), len(wanted))


def _records(context: Context, secret: Redactor) -> int:
    """How many records hold the text in a session's id or a path."""
    told = [(point.session, point.root, point.cursor) for point in checkpoints_of(context)]
    told += [(seen.session, os.fsencode(seen.transcript), os.fsencode(seen.root)) for seen in context.store.sessions.all()]
    told += [(one.session, one.transcript, one.original) for one in context.store.rewinds()]
    return sum(any(secret.is_in(part) for part in (tlv.text(name), *rest)) for name, *rest in told)


def _outside(context: Context, secret: Redactor) -> Iterator[bytes]:
    """The clients' own files that the store knows of and that hold the text now."""
    known = {cursors.decode(point.cursor).transcript for point in checkpoints_of(context) if point.cursor}
    known |= {os.fsencode(session.transcript) for session in context.store.sessions.all()}
    known |= {path for rewind in context.store.rewinds() for path in (rewind.transcript, rewind.original)}
    for path in sorted(known - {b""}):
        if _file_holds(path, secret):
            yield path


def _file_holds(path: bytes, secret: Redactor) -> bool:
    try:
        fd = os.open(path, fsio.READ_FLAGS)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return False
            kept = b""
            while part := os.read(fd, _STEP):
                kept += part
                if secret.is_in(kept):
                    return True
                kept = kept[-secret.reach :]
        finally:
            os.close(fd)
    except OSError:
        pass
    return False
