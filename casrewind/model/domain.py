"""The domain of a checkpoint: which paths its save looked for.

The danger prevented here: reading "not in the manifest" as "did not exist". A checkpoint records all rule files in
force (their bytes, also of ignored rule files) and all skipped paths. Only a path that those rules would have
captured, and that was not skipped, is known to have been absent.
"""

import struct
from collections.abc import Iterator

from .. import errors
from .._typing import NamedTuple
from . import digest as digests
from . import tlv

_IGNORE_CASE, _DEFAULTS, _MAX_SIZE, _RULES, _SKIPPED, _UNSTABLE, _IGNORED, _LATE, _UNSTORED = 1, 2, 3, 4, 5, 6, 7, 8, 9
_STOPPED, _STOPPED_AT, _CHANGED_SINCE = 10, 11, 12

SPECIAL = "special file"
IGNORED = "ignored"
TOO_LARGE = "too large"
TOO_DEEP = "too many levels deep"
UNREADABLE = "unreadable"
UNREADABLE_RULES = "unreadable ignore rules"
NOT_ON_DISK = "not on this disk"
"""Only a cloud has it (iCloud and others). What is not known is not read, because that would download it."""
OTHER_DEVICE = "other file system"
BUILT_IN = "built-in exclude"
CACHE = "cache directory"
PROTECTED = "protected name"
STORE = "casrewind store"
LINKED_WORKTREE = "worktree with its own root"
TEMPORARY = "temporary file of a restore"
SHARED_MEMORY = "shared memory of a database"
"""An SQLite -shm: SQLite makes it anew."""
UNSTABLE = "changing while read"
LATE = "changed after the event"
SETTINGS = "settings not understood"

EXCLUDE_NAME, GLOBAL_NAME, PRIVATE_NAME = b".git/info/exclude", b"(git's core.excludesFile)", b"(private rules)"
OUTSIDE_NAMES = frozenset({EXCLUDE_NAME, GLOBAL_NAME, PRIVATE_NAME})
"""Names of the rule files outside the tree, in output and input."""

FAULTS = frozenset({UNREADABLE, UNREADABLE_RULES, NOT_ON_DISK, UNSTABLE, LATE, SETTINGS})
"""The reasons for exit code 3 of a save: part of what was requested could not be captured."""


def reason_with_detail(reason: str, detail: str) -> str:
    """A reason with a detail of this case."""
    return f"{reason}: {detail}"


def reason_without_detail(reason: str) -> str:
    """A reason without the detail of `reason_with_detail`."""
    return reason.partition(": ")[0]


def makes_save_incomplete(reason: str) -> bool:
    """True if a reason, with or without detail, makes a save end with exit code 3."""
    return reason_without_detail(reason) in FAULTS


class Skip(NamedTuple):
    """A path that was not captured, with everything below it, and the reason."""

    path: bytes
    reason: str


class RuleRef(NamedTuple):
    """A rule file in force: the directory its patterns are relative to, its source and the digest of its bytes."""

    base: bytes
    source: str
    digest: bytes


class Stop(NamedTuple):
    """The moment at which a person stopped a turn (Esc), as its client's transcript tells it. `point`: the id of the turn's newest
    checkpoint. `at_ns`: in nanoseconds since 1970. `changed_since`: the files that changed later than that, sorted."""

    point: str
    at_ns: int
    changed_since: tuple[bytes, ...] = ()


class Domain(NamedTuple):
    """The rules and limits that decided which paths a checkpoint holds.

    `max_file_size` is in bytes; `ignored` counts ignored entries. `late`: files that changed after the checkpoint's
    event; the checkpoint holds them as read. `unstored`: rule files in force that are not in the store. In their
    directories no path is known to have been absent. `stop`: of the turn that was stopped before, None = unknown.
    """

    ignore_case: bool
    default_excludes: bool
    max_file_size: int
    rules: tuple[RuleRef, ...]
    skipped: tuple[Skip, ...]
    unstable: tuple[bytes, ...]
    ignored: int
    late: tuple[bytes, ...] = ()
    unstored: tuple[RuleRef, ...] = ()
    stop: Stop | None = None


def all_skips(domain: Domain) -> tuple[Skip, ...]:
    """Every skipped, unstable or late path of a domain, sorted by path."""
    unstable = (Skip(path, UNSTABLE) for path in domain.unstable)
    return tuple(sorted((*domain.skipped, *unstable, *(Skip(path, LATE) for path in domain.late))))


def encode(domain: Domain) -> bytes:
    """A domain as canonical bytes."""
    rules, unstored = (
        [_join_word(rule.source, rule.digest + rule.base) for rule in sorted(some)] for some in (domain.rules, domain.unstored)
    )
    skipped = [_join_word(skip.reason, skip.path) for skip in sorted(domain.skipped)]
    return tlv.encode(
        (
            (_IGNORE_CASE, int(domain.ignore_case)),
            (_DEFAULTS, int(domain.default_excludes)),
            (_MAX_SIZE, domain.max_file_size),
            (_RULES, tlv.encode_list(rules)),
            (_SKIPPED, tlv.encode_list(skipped)),
            (_UNSTABLE, tlv.encode_list(sorted(domain.unstable))),
            (_IGNORED, domain.ignored),
            *([(_LATE, tlv.encode_list(sorted(domain.late)))] if domain.late else []),
            *([(_UNSTORED, tlv.encode_list(unstored))] if unstored else []),
            *(_encode_stop(domain.stop) if domain.stop is not None else ()),
        )
    )


def decode(data: bytes) -> Domain:
    """The domain in these bytes. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "domain")
    rules, unstored = _decode_rules(got.required_bytes(_RULES)), _decode_rules(got.bytes_or_empty(_UNSTORED))
    skipped = []
    for item in tlv.decode_list(got.required_bytes(_SKIPPED), "domain"):
        reason, path = _split_item(item, 1)
        skipped.append(Skip(path, reason))
    return Domain(
        ignore_case=bool(got.number(_IGNORE_CASE)),
        default_excludes=bool(got.number(_DEFAULTS)),
        max_file_size=got.number(_MAX_SIZE),
        rules=rules,
        skipped=tuple(skipped),
        unstable=tuple(tlv.decode_list(got.bytes_or_empty(_UNSTABLE), "domain")),
        ignored=got.number(_IGNORED),
        late=tuple(tlv.decode_list(got.bytes_or_empty(_LATE), "domain")),
        unstored=unstored,
        stop=_decode_stop(got) if got.has_any((_STOPPED,)) else None,
    )


def rule_files(data: bytes) -> Iterator[bytes]:
    """Yield the digest of each rule file that a domain names, and check all of it. Needs no memory: one that another machine made may have
    millions of paths. Raises ManifestCorrupt."""
    got = tlv.Fields(data, "domain")
    for tag in (_IGNORE_CASE, _DEFAULTS, _MAX_SIZE, _IGNORED):
        got.number(tag)
    for item in tlv.items_of_list(got.required_bytes(_SKIPPED), "domain"):
        _split_item(item, 1)
    got.text(_STOPPED)
    got.number(_STOPPED_AT)
    for tag in (_UNSTABLE, _LATE, _CHANGED_SINCE):
        for _ in tlv.items_of_list(got.bytes_or_empty(tag), "domain"):
            pass
    for item in tlv.items_of_list(got.bytes_or_empty(_UNSTORED), "domain"):
        _split_item(item, digests.SIZE)
    for item in tlv.items_of_list(got.required_bytes(_RULES), "domain"):
        yield _split_item(item, digests.SIZE)[1][: digests.SIZE]


def _encode_stop(stop: Stop) -> tuple[tuple[int, tlv.Value], ...]:
    return (_STOPPED, stop.point), (_STOPPED_AT, stop.at_ns), (_CHANGED_SINCE, tlv.encode_list(sorted(stop.changed_since)))


def _decode_stop(got: tlv.Fields) -> Stop:
    changed = tlv.decode_list(got.required_bytes(_CHANGED_SINCE), "domain")
    return Stop(got.text(_STOPPED), got.number(_STOPPED_AT), tuple(changed))


def _decode_rules(data: bytes) -> tuple[RuleRef, ...]:
    rules = []
    for item in tlv.items_of_list(data, "domain"):
        source, rest = _split_item(item, digests.SIZE)
        rules.append(RuleRef(rest[32:], source, rest[:32]))
    return tuple(rules)


def _join_word(word: str, rest: bytes) -> bytes:
    data = tlv.text(word)
    return struct.pack("<H", len(data)) + data + rest


def _split_item(item: bytes, least: int) -> tuple[str, bytes]:
    length = int.from_bytes(item[:2], "little")
    if len(item) < 2 + length + least:
        raise errors.ManifestCorrupt("damaged domain: an item is cut short", "run casrewind verify")
    return item[2 : 2 + length].decode("utf-8", "surrogateescape"), item[2 + length :]
