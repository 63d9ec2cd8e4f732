"""The domain of a checkpoint: the paths that it speaks for.

The danger prevented here: taking "not in the manifest" for "did not exist". A checkpoint records every rule file that
was in force when it was made (its bytes, whether the file itself was ignored or not) and every path that was skipped.
Only a path that those rules would have captured, and that was not skipped, is known to have been absent.
"""

import struct

from .. import errors
from .._typing import NamedTuple
from . import digest as digests
from . import tlv

_IGNORE_CASE, _DEFAULTS, _MAX_SIZE, _RULES, _SKIPPED, _UNSTABLE, _IGNORED, _LATE, _UNSTORED = 1, 2, 3, 4, 5, 6, 7, 8, 9

SPECIAL = "special file"
TOO_LARGE = "too large"
TOO_DEEP = "too many levels deep"
UNREADABLE = "unreadable"
UNREADABLE_RULES = "unreadable ignore rules"
OTHER_DEVICE = "other file system"
BUILT_IN = "built-in exclude"
CACHE = "cache directory"
PROTECTED = "protected name"
STORE = "casrewind store"
TEMPORARY = "temporary file of a restore"
UNSTABLE = "changing while read"
LATE = "changed after the event"
SETTINGS = "settings not understood"

EXCLUDE_NAME, GLOBAL_NAME = b".git/info/exclude", b"(git's core.excludesFile)"
"""What rule files outside of the tree are called, to a person and by one."""

FAULTS = frozenset({UNREADABLE, UNREADABLE_RULES, UNSTABLE, LATE, SETTINGS})
"""The reasons that make a save end with exit code 3: something that was asked for could not be had."""


def explained(reason: str, detail: str) -> str:
    """A reason with what a person has to know of this one case."""
    return f"{reason}: {detail}"


def kind_of(reason: str) -> str:
    """A reason without what was added by `explained`."""
    return reason.partition(": ")[0]


def is_fault(reason: str) -> bool:
    """True when a reason, with or without an explanation, makes a save end with exit code 3."""
    return kind_of(reason) in FAULTS


class Skip(NamedTuple):
    """A path that was not captured, and why. Everything under it was not captured either."""

    path: bytes
    reason: str


class RuleRef(NamedTuple):
    """A rule file in force: the directory its patterns are relative to, where it came from, the digest of its bytes."""

    base: bytes
    source: str
    digest: bytes


class Domain(NamedTuple):
    """What decided which paths a checkpoint holds. `max_file_size` is in bytes; `ignored` counts ignored entries.

    `late`: files that changed after the checkpoint's event, and are held as they were when they were read. `unstored`: further rule
    files in force, whose bytes are not in the store. In their directories no path is known to have been absent.
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


def encode(domain: Domain) -> bytes:
    """A domain as canonical bytes."""
    rules, unstored = ([_join(rule.source, rule.digest + rule.base) for rule in sorted(some)] for some in (domain.rules, domain.unstored))
    skipped = [_join(skip.reason, skip.path) for skip in sorted(domain.skipped)]
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
        )
    )


def decode(data: bytes) -> Domain:
    """The domain in these bytes; raises ManifestCorrupt."""
    got = tlv.Fields(data, "domain")
    rules, unstored = _rules(got.need(_RULES)), _rules(got.raw(_UNSTORED))
    skipped = []
    for item in tlv.decode_list(got.need(_SKIPPED), "domain"):
        reason, path = _split(item, 1)
        skipped.append(Skip(path, reason))
    return Domain(
        ignore_case=bool(got.number(_IGNORE_CASE)),
        default_excludes=bool(got.number(_DEFAULTS)),
        max_file_size=got.number(_MAX_SIZE),
        rules=rules,
        skipped=tuple(skipped),
        unstable=tuple(tlv.decode_list(got.raw(_UNSTABLE), "domain")),
        ignored=got.number(_IGNORED),
        late=tuple(tlv.decode_list(got.raw(_LATE), "domain")),
        unstored=unstored,
    )


def _rules(data: bytes) -> tuple[RuleRef, ...]:
    rules = []
    for item in tlv.decode_list(data, "domain"):
        source, rest = _split(item, digests.SIZE)
        rules.append(RuleRef(rest[32:], source, rest[:32]))
    return tuple(rules)


def _join(word: str, rest: bytes) -> bytes:
    data = tlv.text(word)
    return struct.pack("<H", len(data)) + data + rest


def _split(item: bytes, least: int) -> tuple[str, bytes]:
    """The word at the start of an item and what follows it: `least` bytes or more."""
    length = int.from_bytes(item[:2], "little")
    if len(item) < 2 + length + least:
        raise errors.ManifestCorrupt("damaged domain: an item is cut short; run casrewind verify")
    return item[2 : 2 + length].decode("utf-8", "surrogateescape"), item[2 + length :]
