"""Purge of a text: a secret that slipped into a conversation goes from stored transcripts, prompts, labels and the log.

The danger prevented here: a text that is found where it stands alone and not where it crosses the border of two pieces, or
where a prompt was cut in its middle. It is covered byte for byte, so that every place in a transcript stays where it is.
Stored files are not changed, but those that hold it are named: `purge PATH` removes them.
"""

import os
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain

from .. import errors, fsio
from ..model import cursor as cursors
from ..model import digest as digests
from ..model import fields
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, FILE, Entry
from ..model.secret import Secret, joined
from ..store import chunker, packs
from ..store.chunker import Item
from ..store.log import LINE, Log
from ..typed import Any, NamedTuple
from .affected import Search
from .refused import naming
from .restore import Declined
from .rewriting import Put, Rewriting, carry_out, checkpoints_of, refuse_open_restores, rule_path, settle
from .save import PROMPT
from .site import Site

_BATCH = 500
_STEP = 1 << 20


class Holder(NamedTuple):
    """A stored file that holds the text, and the id of the newest checkpoint that has it so."""

    path: bytes
    checkpoint: str


class Covered(NamedTuple):
    """Where the text was: in the `transcripts` and `prompts` of so many checkpoints, in so many `labels`, in so many places of
    the `log`."""

    transcripts: int
    prompts: int
    labels: int
    log: int


class TextPurged(NamedTuple):
    """What a purge of a text did (or, dry, would do). `blobs` pieces of transcripts of `size` bytes were stored anew. `files`
    hold it still: that is for purge PATH. `records` (checkpoints, sessions, rewinds) hold it still in a session's id or a path,
    which are not edited. `still_there`: files of the agents' clients, outside of the store, that hold it."""

    places: Covered
    files: tuple[Holder, ...]
    blobs: int
    size: int
    records: int
    still_there: tuple[bytes, ...]
    dry_run: bool


Confirm = Callable[[TextPurged], bool]
"""Asks a person whether this may be done."""


def purge_text(site: Site, text: bytes, *, confirm: Confirm | None = None, dry_run: bool = False) -> TextPurged:
    """Cover a text in everything but stored files, and remove what nothing names any more and could hold it, too.

    `confirm` is asked before anything is done; Declined is raised when it says no. Raises UsageError for a text that may not
    be one, JournalOpen, StoreBusy, StoreDamaged, StoreFull.
    """
    secret = Secret(text, fsio.show)
    upkeep = site.store.upkeep()
    if dry_run:
        with site.store.holding():
            refuse_open_restores(site)
            return _report(site, secret, dry_run=True)
    with upkeep.only_one():
        settle(site, upkeep)
        with site.store.holding():
            refuse_open_restores(site)
            report = _report(site, secret, dry_run=False)
        if confirm is not None and not confirm(report):
            raise Declined
        _cover_log(site, secret, dry=False)  # before the ledger: who finds a purge unfinished cannot do this
        carry_out(site, upkeep, lambda put: _Collector(site, secret, put).rewriting())
    return report


def _report(site: Site, secret: Secret, *, dry_run: bool) -> TextPurged:
    found = _Collector(site, secret, lambda _, data: digests.of(data))
    fields_of = found.rewriting().points.values()
    marks = sum(1 for _, marked in site.store.checkpoints() if found.text(marked.label) != marked.label)
    places = Covered(
        transcripts=sum("transcript" in changes for changes in fields_of),
        prompts=sum("prompt" in changes for changes in fields_of),
        labels=marks + sum("label" in changes for changes in fields_of),
        log=_cover_log(site, secret, dry=True),
    )
    files = tuple(_holders(site, secret, found))
    return TextPurged(places, files, found.blobs, found.size, _records(site, secret), tuple(_outside(site, secret)), dry_run)


def _cover_log(site: Site, secret: Secret, *, dry: bool) -> int:
    def hide(data: bytes) -> tuple[bytes, int]:
        found, at = secret.spans(data), 0
        for line in data.split(b"\n"):
            at += len(line) + 1
            if len(line) >= LINE and (count := secret.begins_at_end(line)):
                found.append((at - 1 - count, at - 1))
        found = joined(found)
        return secret.hide(data, found), len(found)

    with fsio.store_errors("writing the log of", site.store.path):
        return Log(site.store.path).cover(hide, dry=dry)


class Window(NamedTuple):
    """A piece of a file with the digests of those around it that a match in it may lie in, too: it is `length` bytes from
    `start` on of all `pieces` put together."""

    pieces: tuple[bytes, ...]
    start: int
    length: int


class _Collector:
    """What checkpoints become without the text. `put` takes new pieces of transcripts."""

    def __init__(self, site: Site, secret: Secret, put: Put) -> None:
        """Nothing is read yet."""
        self._site, self._secret, self._put = site, secret, put
        self._read = lru_cache(16)(lambda digest: site.store.read(digest, packs.CHUNK))  # a piece and its neighbours
        self._pieces: dict[Window, bytes] = {}
        self.blobs = self.size = 0

    def rewriting(self) -> Rewriting:
        """What the ledger becomes, all new pieces put."""
        report = self._site.say("looking through conversations")
        points = {}
        for number, point in enumerate(checkpoints_of(self._site)):
            if changes := self._fields(point):
                points[point.id] = changes
            if report is not None:
                report(number + 1)
        return Rewriting(points, {}, self.text, frozenset())

    def _fields(self, point: Checkpoint) -> dict[str, Any]:
        new = {"prompt": self.text(point.prompt), "label": self.text(point.label), "transcript": self._transcript(point.transcript)}
        return {name: value for name, value in new.items() if value != getattr(point, name)}

    def text(self, text: str) -> str:
        """A prompt or a label without the text, and without its beginning where it was cut."""
        data = fields.text(text)
        spans = self._secret.spans(data)
        if len(text) >= PROMPT and (count := self._secret.begins_at_end(data)):
            spans.append((len(data) - count, len(data)))
        return self._secret.hide(data, spans).decode("utf-8", "surrogateescape") if spans else text

    def items(self, entry: Entry) -> list[Item]:
        """The pieces that a file is stored in."""
        if not entry.chunks:
            return [Item(entry.digest, entry.size)]
        return list(chunker.chunks(lambda node: self._site.store.read(node, packs.CHUNK_LIST), entry.chunks, entry.size))

    def windows(self, items: list[Item], *, once: bool = False) -> Iterator[Window]:
        """The window of each piece; `once`: not again where a piece stands between the same two as before, as in a hole."""
        need = self._secret.reach + 2  # and what tells whether a match is half of an escape
        seen: set[tuple[bytes, ...]] = set()
        names = [item.digest for item in items] if once else []
        for number, item in enumerate(items):
            if once and 0 < number < len(items) - 1:
                row = (names[number - 1], names[number], names[number + 1])
                if row in seen:
                    continue
                if min(items[number - 1].length, items[number + 1].length) >= need:
                    seen.add(row)
            first, before = number, 0
            while first and before < need:
                first -= 1
                before += items[first].length
            last, after = number + 1, 0
            while last < len(items) and after < need:
                after += items[last].length
                last += 1
            yield Window(tuple(other.digest for other in items[first:last]), before, item.length)

    def joined(self, window: Window) -> bytes:
        """The bytes of a window."""
        return b"".join(map(self._read, window.pieces))

    def _transcript(self, entry: Entry | None) -> Entry | None:
        if entry is None:
            return None
        if entry.size > cursors.MOST:
            raise errors.ManifestCorrupt(f"refused: a stored conversation of {entry.size:,} bytes, which is more than a hook stores of one")
        items = self.items(entry)
        windows = list(self.windows(items))
        new = [Item(self._piece(window, item.digest), item.length) for item, window in zip(items, windows, strict=True)]
        if new == items:
            return entry
        whole = digests.Hasher()
        for item, old, window in zip(new, items, windows, strict=True):
            whole.update(self._read(item.digest) if item == old else self._hidden(window))
        if not entry.chunks:
            return entry._replace(digest=new[0].digest)
        top = chunker.encode_list(new, lambda node: self._put(packs.CHUNK_LIST, node))
        return entry._replace(digest=whole.digest(), chunks=top)

    def _piece(self, window: Window, digest: bytes) -> bytes:
        """The digest of a piece without the text, its own when it does not have it."""
        if window not in self._pieces:
            hidden = self._hidden(window)
            made = digests.of(hidden)
            if made != digest:
                self._put(packs.CHUNK, hidden)
                self.blobs, self.size = self.blobs + 1, self.size + window.length
            self._pieces[window] = made
        return self._pieces[window]

    def _hidden(self, window: Window) -> bytes:
        data = self.joined(window)
        hidden = self._secret.hide(data, self._secret.spans(data, as_json=True))
        return hidden[window.start : window.start + window.length]


def _holders(site: Site, secret: Secret, found: _Collector) -> Iterator[Holder]:
    """The stored files that hold the text, each with the newest checkpoint in which it does."""
    points = checkpoints_of(site)
    whole, lists = _contents(site, points)
    rules = {rule.digest for domain in {point.domain for point in points} for rule in site.store.domain(domain).rules}
    every = chain(_read_all(site, sorted(whole), packs.FILE), _read_all(site, sorted(rules), packs.RULES))
    bad = {digest for digest, data in every if secret.is_in(data)}
    report = site.say("looking through large files")
    for number, entry in enumerate(lists.values()):
        items = found.items(entry)
        if any(secret.is_in(found.joined(window)) for window in found.windows(items, once=True)):
            bad.add(entry.chunks)
        if report is not None:
            report(number + 1)
    newest: dict[bytes, str] = {}
    search = Search(site.store, bad)
    for point in points if bad else ():
        with naming(site.store):
            for _, path in search.of_tree(point.tree):
                newest.setdefault(path, point.id)
        for rule in site.store.domain(point.domain).rules:
            if rule.digest in bad:
                newest.setdefault(rule_path(rule), point.id)
    for path, checkpoint in sorted(newest.items()):
        yield Holder(path, checkpoint)


def _contents(site: Site, points: list[Checkpoint]) -> tuple[set[bytes], dict[bytes, Entry]]:
    """(the digests of all files that are stored whole, {chunk list: an entry that has it})."""
    whole: set[bytes] = set()
    lists: dict[bytes, Entry] = {}
    stack = list({point.tree for point in points})
    seen = set(stack)
    while stack:
        for _, entry in site.store.load_tree(stack.pop()):
            if entry.kind == DIR and entry.digest not in seen:
                seen.add(entry.digest)
                stack.append(entry.digest)
            elif entry.kind == FILE and entry.chunks:
                lists[entry.chunks] = entry
            elif entry.kind == FILE:
                whole.add(entry.digest)
    return whole, lists


def _read_all(site: Site, wanted: list[bytes], kind: int) -> Iterator[tuple[bytes, bytes]]:
    """Every blob, in batches. Raises StoreDamaged for one that cannot be had: it is not known what it holds."""
    report = site.say_of("looking through files")
    for start in range(0, len(wanted), _BATCH):
        for digest, data in site.store.read_many(wanted[start : start + _BATCH], kind):
            if not isinstance(data, bytes):
                raise data
            yield digest, data
        if report is not None:
            report(min(start + _BATCH, len(wanted)), len(wanted))


def _records(site: Site, secret: Secret) -> int:
    """How many records hold the text in a session's id or a path."""
    told = [(point.session, point.root, point.cursor) for point in checkpoints_of(site)]
    told += [(seen.session, os.fsencode(seen.transcript), os.fsencode(seen.root)) for seen in site.store.sessions.all()]
    told += [(one.session, one.transcript, one.original) for one in site.store.rewinds()]
    return sum(any(secret.is_in(part) for part in (fields.text(name), *rest)) for name, *rest in told)


def _outside(site: Site, secret: Secret) -> Iterator[bytes]:
    """The clients' own files that the store knows of and that hold the text now."""
    known = {cursors.decode(point.cursor).transcript for point in checkpoints_of(site) if point.cursor}
    known |= {os.fsencode(session.transcript) for session in site.store.sessions.all()}
    known |= {path for rewind in site.store.rewinds() for path in (rewind.transcript, rewind.original)}
    for path in sorted(known - {b""}):
        if _file_holds(path, secret):
            yield path


def _file_holds(path: bytes, secret: Secret) -> bool:
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
