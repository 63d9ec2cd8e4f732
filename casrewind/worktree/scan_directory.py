"""Scans one directory: names, verdicts, files and tree.

The danger prevented here: an outdated recorded verdict. Records of a directory are used only if the directory's own
stamp and the digest of its ignore rules are unchanged. File stamps are always compared, and rule files are always read:
an edit in place does not change the directory.
"""

import errno
import os
import stat
from contextlib import suppress

from .. import errors, fsio
from ..gitignore.rules import (
    MOST_BYTES,
    RULE_FILES,
    RuleFile,
    Rules,
    read_beginning_if_regular_file,
)
from ..messages import is_process_limit
from ..model import digest as digests
from ..model import domain as domains
from ..model import manifest, paths
from ..model import stamp as stamps
from ..model.at_risk import SHARED_MEMORY, database_of, find_pairs
from ..model.domain import RuleRef, Skip
from ..model.manifest import Entry
from ..model.stamp import Stamp
from . import stat_index
from .reader import CapturedFile, NotCapturable, TooLarge, read_link, read_until_stable
from .scan_state import ScanState
from .stat_index import DirRecord, StaleIndex, Subtree

_CACHE_TAG = "CACHEDIR.TAG"
OPEN_LEVELS = 24  # deeper directories are opened from the root: deep trees need few descriptors
_CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"  # https://bford.info/cachedir/
_CACHE, _STORE, _DATA = 4, 8 | 16 | 32, 64  # a cache tag; all names of a store; the name in a directory of stores
_BITS = {_CACHE_TAG: _CACHE, "FORMAT": 8, "ledger": 16, "packs": 32, "stores": _DATA}
NAMES_THAT_STOP = frozenset(_BITS)
"""Only a directory with one of these names can be a store or a cache, which a scan does not enter."""
_BITS |= {os.fsdecode(name): source.bit for name, source in RULE_FILES.items()}
"""The bits of names that affect the whole directory, in `DirRecord.special`."""

_Recorded = tuple[tuple[int, ...], Entry]
"""The recorded stamp and entry of a file."""


class DirectoryScan:
    """The scan of a directory: `scan_own_files` reads its files, `finish_directory` makes its tree after its children."""

    def __init__(self, shared: ScanState, path: bytes, name: bytes, depth: int, fd: int) -> None:
        """`fd` is the open directory; `close` closes it."""
        self._state, self.path, self.name, self.depth, self.fd = shared, path, name, depth, fd
        self.prefix = path + b"/" if path else b""  # of its entries' paths
        self.children: list[bytes] = []
        self.rules: Rules
        self._rows: dict[bytes, Entry] = {}
        self._stamps: dict[bytes, tuple[int, ...]] = {}
        self._done: dict[bytes, Entry] = {}
        self._skipped: list[tuple[bytes, str]] = []
        self._old: DirRecord | None = None
        self._known: dict[bytes, Entry] | None = None  # the entries of the old record's tree, loaded on demand
        self._rule_files: list[tuple[bytes, bytes, bytes]] = []
        self._weight = 0  # of its rule files
        self._remembered = False  # everything so far equals the stat index: there are no rows
        self._changed = True
        self._files = self._size = self._ignored = self._mode = self._special = 0
        self._stamp = stamps.NONE

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    # -- entering

    def scan_own_files(self, rules: Rules) -> str | None:
        """Scan the directory's own files. `rules` are in force before its own rule files. Returns the reason if the
        directory is not captured, otherwise None. Raises OSError."""
        status = os.fstat(self.fd)
        self._mode, self._stamp = stat.S_IMODE(status.st_mode), stamps.of(status)
        if self._state.mounts.is_mount_point(self.path, status):
            return domains.OTHER_DEVICE
        reason = self._state.never_entered.get((status.st_dev, status.st_ino)) if self.depth else None
        if reason is not None:
            return reason
        old = self._old = self._state.index.record_of_directory(self.path)
        entries: list[os.DirEntry[str]] | None = None
        if old is not None and old.stamp == stamps.PACKED.pack(*self._stamp):
            self._special = old.special
        else:
            entries = self._list_entries()
            self._special = _bits_of_special_names([entry.name for entry in entries])
        if self.depth and self._special & (_STORE | _DATA) and self._holds_store():
            return domains.STORE
        if self._special & _CACHE and self._is_cache_below_root(rules):
            return domains.CACHE
        self.rules = self._extend_rules(rules)
        has_mounts = self.path in self._state.mounts.names  # no stamp shows a mount
        if old is not None and entries is None and old.rules == self.rules.digest and not has_mounts:
            self._compare_files(old)
        else:
            self._apply_rules(self._list_entries() if entries is None else entries, old)
        self.children.sort(reverse=True)  # the scan pops them from the end
        return None

    def _list_entries(self) -> list["os.DirEntry[str]"]:
        with os.scandir(self.fd) as listing:
            return list(listing)

    def _holds_store(self) -> bool:
        """True for a store or a directory of stores, of any casrewind version."""
        from .. import store_detection

        return store_detection.is_data_directory(self.fd) if self._special & _DATA else store_detection.is_store(self.fd)

    def _is_cache_below_root(self, rules: Rules) -> bool:
        """True for a directory below the root that is marked as a tool's cache, without a rule file that stops this."""
        own = any(self._special & source.bit for source in RULE_FILES.values() if source.stops_built_in)
        return self.depth > 0 and self._state.policy.default_excludes and not own and is_cache(self.fd, rules)

    def _extend_rules(self, rules: Rules) -> Rules:
        """The rules with those of the rule files in this directory."""
        found: list[RuleFile] = []
        for name, source in RULE_FILES.items():
            if not self._special & source.bit:
                continue
            data, stamp = None, stamps.NONE
            try:
                status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
                stamp = stamps.of(status)
                data = self._read_rule_file(name, status)
            except FileNotFoundError:
                self.forget_listing()
                continue
            except OSError as error:
                if is_process_limit(error):
                    raise
                chosen = self._state.chooser.replacement_for(self.path, source.name, "")
                self._state.skipped.append(Skip(self.prefix + name, _reason_for_rules(error)))
                self.forget_listing()
            else:
                if data is None:
                    continue
                chosen = self._state.chooser.accept_or_replace(RuleFile(self.path, source.name, data))
                if chosen.why:
                    self._state.skipped.append(Skip(self.prefix + name, domains.reason_with_detail(domains.UNREADABLE_RULES, chosen.why)))
                    self.forget_listing()
            self._weight += chosen.weight
            if chosen.file is not None:
                found.append(chosen.file)
                digest = self._state.sink.put_rules(chosen.file.data)
                self._state.rules.append(RuleRef(self.path, source.name, digest))
                if chosen.file.data is data:
                    self._rule_files.append((name, digest, stamps.PACKED.pack(*self._no_stamp_if_racy(stamp))))
        return rules.extend(found) if found else rules

    def _read_rule_file(self, name: bytes, status: os.stat_result) -> bytes | None:
        """The bytes of a rule file, None if it is not a regular file. Those that the newest checkpoint recorded, if the file is not
        on the disk and has not changed. Raises OSError."""
        try:
            return read_beginning_if_regular_file(name, self.fd, MOST_BYTES + 1)
        except fsio.NotOnDisk:
            entry = self._state.last_record.entry_if_unchanged(self.prefix + name, status)
            known = self._state.chooser.replacement_for(self.path, RULE_FILES[name].name, "").file
            if entry is None or known is None or digests.of(known.data) != entry.digest:
                raise
            return known.data

    def _compare_files(self, old: DirRecord) -> None:
        """Names and verdicts are unchanged: only compare the files."""
        self._remembered, self._changed = True, tuple(self._rule_files) != old.rule_files
        self._files, self._size, self._ignored = old.files, old.size, old.ignored
        self._skipped = list(old.skipped)
        self._state.skipped += [Skip(self.prefix + name, reason) for name, reason in old.skipped]
        self.children = stat_index.split_names(old.children)
        names = stat_index.split_names(old.names)
        self._state.count_processed_and_report(len(names) + len(self.children))
        differing = old.positions_that_differ(self.fd)
        if differing:
            self._unpack_record()
            pairs = find_pairs(names)
            for name in [names[number] for number in differing]:
                if name not in pairs:
                    self._forget_row(name)
                    self._reuse_or_read(name, None)
            changed = {database_of(names[number]) for number in differing if names[number] in pairs}
            for name in names if changed else ():
                if name in pairs and database_of(name) in changed:
                    self._forget_row(name)
                    pairs[name].append(name)
            self._capture_pairs(pairs, {})

    def _forget_row(self, name: bytes) -> None:
        old = self._rows.pop(name, None)
        self._stamps.pop(name, None)
        if old is not None and old.kind == manifest.FILE:
            self._files -= 1
            self._size -= old.size

    def _old_entries(self) -> dict[bytes, Entry]:
        """The entries of the old record's tree. Raises StaleIndex."""
        if self._known is None:
            try:
                self._known = {} if self._old is None else dict(manifest.directory_entries(self._state.sink.load_tree, self._old.tree))
            except errors.StoreDamaged as error:
                raise StaleIndex from error
        return self._known

    def _unpack_record(self) -> None:
        """Convert the old record to rows, because something changed. Child directories add their rows again."""
        if not self._remembered or self._old is None:
            return
        self._remembered, self._changed = False, True
        names, rows = stat_index.split_names(self._old.names), stamps.PACKED.iter_unpack(self._old.stamps)
        known = self._old_entries() if names else {}
        self._stamps = dict(zip(names, rows, strict=True))
        if not known.keys() >= set(names):
            raise StaleIndex
        self._rows = {name: known[name] for name in names}
        self._state.reused.update(*map(_blobs_needed_without_read, self._rows.values()))

    def _recorded_entries(self, old: DirRecord | None) -> tuple[dict[bytes, _Recorded], list[bytes], list[bytes]]:
        """The recorded stamps and entries, the names of all files, and those of child directories. Raises StaleIndex."""
        remembered: dict[bytes, _Recorded] = {}
        names: list[bytes] = []
        children: list[bytes] = []
        if old is not None:
            known, names = self._old_entries(), stat_index.split_names(old.names)
            rows = zip(names, stamps.PACKED.iter_unpack(old.stamps), strict=True)
            remembered = {name: (stamp, known[name]) for name, stamp in rows if name in known}
            children = stat_index.split_names(old.children)
        return remembered, names, children

    def _apply_rules(self, entries: list["os.DirEntry[str]"], old: DirRecord | None) -> None:
        """Apply the rules to every name; reuse the records of unchanged files."""
        remembered, names, children = self._recorded_entries(old)
        rules, trivial = self.rules, self.rules.trivial
        mounted = self._state.mounts.names.get(self.path, ())
        stands: dict[bytes, bool] = {}  # name -> is a directory, if captured under the same rules
        if old is not None and old.rules == rules.digest:
            stands = dict.fromkeys(names, False) | dict.fromkeys(children, True)
        pairs = find_pairs([os.fsencode(entry.name) for entry in entries])
        for entry in entries:
            name = os.fsencode(entry.name)
            if paths.is_protected(name):
                if name not in paths.KEPT_NAMES:
                    self.record_skip(name, domains.PROTECTED)
                continue
            if name.startswith(manifest.TEMPORARY_PREFIX):
                self.record_skip(name, domains.TEMPORARY)
                continue
            is_dir = entry.is_dir(follow_symlinks=False)
            captured = trivial or stands.get(name) == is_dir
            if not captured and rules.ignored(name, is_dir):
                self._ignored += 1
            elif (is_dir or name[:1] == b".") and rules.default_excluded(name, is_dir=is_dir):
                self.record_skip(name, domains.BUILT_IN)
            elif name in mounted:
                self.record_skip(name, domains.OTHER_DEVICE)
            elif is_dir:
                self.children.append(name)
            elif name in pairs:
                pairs[name].append(name)
            elif name in remembered or not entry.is_file(follow_symlinks=False) or not self._read_new_file(name):
                self._reuse_or_read(name, remembered.get(name))
        self._capture_pairs(pairs, remembered)
        self._state.count_processed_and_report(len(entries))

    def _capture_pairs(self, pairs: dict[bytes, list[bytes]], remembered: dict[bytes, _Recorded]) -> None:
        """Capture each database with its companion, unless all are as recorded."""
        for database, members in pairs.items():
            if not members or database_of(database) != database:
                continue
            for name in [name for name in members if name.endswith(SHARED_MEMORY)]:
                members.remove(name)
                self.record_skip(name, domains.SHARED_MEMORY)
            captured = None
            if database in members and not all(self._is_unchanged(name, remembered) for name in members):
                from . import database_pair  # only for a database with a companion

                with suppress(OSError):  # it may not be read: told below
                    captured = database_pair.capture_pair(self.fd, database, self._state.sink, self._state.policy.max_file_size)
            for name in members:
                if captured is None:
                    self._reuse_or_read(name, remembered.get(name))
                elif name in captured:
                    whole = captured[name].stable and captured.keys() <= set(members)
                    self._state.pairs[self.prefix + name] = whole
                    self._add_captured(name, captured[name]._replace(stable=whole))
                else:
                    self.forget_listing()  # a transaction has ended

    def _is_unchanged(self, name: bytes, remembered: dict[bytes, _Recorded]) -> bool:
        try:
            status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return False
        return not stat.S_ISREG(status.st_mode) or (name in remembered and stamps.matches(remembered[name][0], status))

    def _reuse_or_read(self, name: bytes, known: tuple[tuple[int, ...], Entry] | None) -> None:
        """Capture an entry that was not a directory when listed. `known`: its recorded stamp and entry."""
        try:
            status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_size > self._state.policy.max_file_size:
                self.record_skip(name, domains.TOO_LARGE)  # even if captured under an earlier, higher limit
            elif known is not None and stamps.matches(known[0], status):
                self._state.reused.update(_blobs_needed_without_read(known[1]))
                self._add_entry(name, known[1], known[0])
            elif stat.S_ISREG(status.st_mode):
                self._read_or_keep_entry(name, status)
            elif stat.S_ISLNK(status.st_mode):
                self._add_entry(name, read_link(name, self.fd), self._no_stamp_if_racy(stamps.of(status)))
            elif stat.S_ISDIR(status.st_mode):
                self.forget_listing()  # it has become a directory since the listing
                self.children.append(name)
            else:
                self.record_skip(name, domains.SPECIAL)
        except NotCapturable as error:  # TooLarge: it has grown since the stat
            self.record_skip(name, domains.TOO_LARGE if isinstance(error, TooLarge) else domains.SPECIAL)
        except FileNotFoundError:
            self.forget_listing()
        except OSError as error:
            if is_process_limit(error):
                raise
            if error.errno == errno.EINVAL:  # readlink: it is no longer a link
                self.forget_listing()
            else:
                self.record_skip(name, domains.UNREADABLE)

    def _read_or_keep_entry(self, name: bytes, status: os.stat_result) -> None:
        """Capture a file by reading it, or, if it is not on the disk and has not changed, by its entry in the newest checkpoint."""
        try:
            captured = read_until_stable(name, self.fd, self._state.sink, self._state.policy.max_file_size)
        except fsio.NotOnDisk:
            entry = self._state.last_record.entry_if_unchanged(self.prefix + name, status)
            if entry is None:
                self.record_skip(name, domains.NOT_ON_DISK)
            else:
                self._state.reused.update(_blobs_needed_without_read(entry))
                self._add_entry(name, entry, self._no_stamp_if_racy(stamps.of(status)))
        else:
            self._add_captured(name, captured)

    def _read_new_file(self, name: bytes) -> bool:
        """Capture a new file. False if it needs the checks of `_reuse_or_read`."""
        try:
            captured = read_until_stable(name, self.fd, self._state.sink, self._state.policy.max_file_size)
        except (OSError, NotCapturable):
            return False
        self._add_captured(name, captured)
        return True

    def _add_captured(self, name: bytes, captured: CapturedFile) -> None:
        stamp = captured.stamp if captured.stable else stamps.NONE
        self._state.fresh.add(self.path, name, stamp, captured.entry.size, captured.entry.digest)
        self._add_entry(name, captured.entry, self._no_stamp_if_racy(stamp))

    def _no_stamp_if_racy(self, stamp: Stamp) -> Stamp:
        return stamps.NONE if stamps.is_racy(stamp, self._state.start) else stamp

    def _add_entry(self, name: bytes, entry: Entry, stamp: tuple[int, ...]) -> None:
        self._rows[name] = entry
        self._stamps[name] = stamp
        if entry.kind == manifest.FILE:
            self._files += 1
            self._size += entry.size

    def record_skip(self, name: bytes, reason: str) -> None:
        """Record that an entry is not captured."""
        self._skipped.append((name, reason))
        self._state.skipped.append(Skip(self.prefix + name, reason))
        self._changed = True
        if reason in _MAY_END:
            self.forget_listing()

    def forget_listing(self) -> None:
        """Make the next scan list this directory again."""
        self._stamp = stamps.NONE
        self._changed = True

    # -- leaving

    def add_child(self, child: "DirectoryScan", entry: Entry) -> None:
        """Add the entry of a finished child directory."""
        self._done[child.name] = entry
        if not child.is_recorded_above(entry):
            self._changed = True

    def add_subtree(self, name: bytes, found: Subtree) -> None:
        """Add an unchanged child directory with its whole subtree."""
        shared = self._state
        self._done[name] = found.entry
        shared.reused.update(_blobs_needed_without_read(found.entry), (rule.digest for rule in found.rules))
        shared.add(found.entries, found.files, found.size, found.ignored)
        shared.skipped += found.skipped
        shared.rules += found.rules
        if found.rules:
            shared.chooser.count_rules_of_unwalked_subtree(found.weight, (rule.digest for rule in found.rules))
        shared.count_processed_and_report(found.entries)

    def is_recorded_above(self, entry: Entry) -> bool:
        """True if the parent's record has this same entry. False after `forget_listing`: the mode may have changed."""
        old = self._old
        return old is not None and old.stamp == stamps.PACKED.pack(*self._stamp) and self._stamp != stamps.NONE and old.tree == entry.digest

    def finish_directory(self) -> Entry:
        """Returns the directory's entry, after its children. Adds its new record to the scan state."""
        self.close()
        shared, old = self._state, self._old
        if self._changed:
            self._unpack_record()
        if not self._changed and old is not None:
            shared.add(old.names.count(b"\0") + bool(old.names), self._files, self._size, self._ignored)
            shared.reused.add(old.tree)
            return manifest.Entry(manifest.DIR, self._mode, digest=old.tree)
        others = sorted(self._rows)
        self._rows.update(self._done)
        tree = shared.sink.put_tree(manifest.encode_tree(self._rows.items()))
        shared.trees[self.path] = tree
        shared.add(len(others), self._files, self._size, self._ignored)
        shared.records[self.path] = DirRecord(
            stamp=stamps.PACKED.pack(*self._no_stamp_if_racy(self._stamp)),
            rules=self.rules.digest,
            tree=tree,
            special=self._special,
            files=self._files,
            size=self._size,
            ignored=self._ignored,
            names=b"\0".join(others),
            stamps=b"".join([stamps.PACKED.pack(*self._stamps[name]) for name in others]),
            children=b"\0".join(sorted(self._done)),
            skipped=tuple(self._skipped),
            rule_files=tuple(self._rule_files),
            weight=self._weight,
        )
        return manifest.Entry(manifest.DIR, self._mode, digest=tree)


def _blobs_needed_without_read(entry: Entry) -> tuple[bytes, ...]:
    """The blobs that the store must have for an entry captured without a read: for a large file, its chunk list."""
    return () if entry.kind == manifest.LINK else (entry.chunks or entry.digest,)


def _reason_for_rules(error: OSError) -> str:
    """Why a rule file does not count that cannot be read."""
    where = isinstance(error, fsio.NotOnDisk)
    return domains.reason_with_detail(domains.UNREADABLE_RULES, domains.NOT_ON_DISK) if where else domains.UNREADABLE_RULES


def _bits_of_special_names(names: list[str]) -> int:
    """The bits of names in a directory that affect the whole directory."""
    found = 0
    for name in names:
        found |= _BITS.get(name, 0)
    if found & _STORE != _STORE:
        found &= ~_STORE
    if found & _DATA:
        from .. import store_detection

        if not store_detection.may_be_data_directory(names):
            found &= ~_DATA
    return found


def is_cache(directory: int, rules: Rules) -> bool:
    """True if the open directory is marked as a cache, and no rule file is in force that says what to keep."""
    if rules.built_in_stopped:
        return False
    try:
        return read_beginning_if_regular_file(_CACHE_TAG.encode(), directory, len(_CACHE_SIGNATURE)) == _CACHE_SIGNATURE
    except OSError:
        return False


# Reasons that can vanish without a change of the parent directory: a mount, a permission, a cache tag, an entry in git's list.
_MAY_END = domains.FAULTS | {domains.OTHER_DEVICE, domains.STORE, domains.LINKED_WORKTREE, domains.CACHE, domains.TOO_LARGE}
