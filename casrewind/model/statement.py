"""A statement: what a checkpoint, or a purge, says for ever about what was done, and the digest that chains it to the one before.

The danger prevented here: a history that is rewritten afterwards, and a proof that tells more than it should. So a statement never
changes: not when gc forgets its checkpoint, nor when a purge empties it. And it holds no word of a person: of a prompt it has a digest
over 32 random bytes and the prompt, because a plain digest of a short prompt is guessed. A purge removes the random bytes.
docs/proof-format.md has every field.
"""

import os
import time
from collections.abc import Sequence

from .. import fastjson
from .._typing import NamedTuple
from . import digest as digests
from . import tlv
from .checkpoint import Checkpoint

NONE = bytes(digests.SIZE)
"""The digest of no statement."""
SALT_BYTES = 32
"""Random bytes in the digest of a prompt."""
STATED_CHECKPOINT, STATED_PURGE = "checkpoint", "purge"
_TAG_NEWEST, _TAG_TEXTS = 1, 2


class Statements(NamedTuple):
    """The content of a ledger record of statements: those of checkpoints that are gone, and of purges. `newest`: the digest of the
    store's newest statement at that time. `texts`: the statements, compressed."""

    newest: bytes
    texts: bytes


def text_of(point: Checkpoint) -> bytes:
    """The statement of a checkpoint, b"" if an earlier version made it, which stated nothing."""
    more = point.more
    if more.stated or not more.salt:
        return more.stated
    fields: dict[str, str | int | bool] = {
        "kind": STATED_CHECKPOINT,
        "before": more.before.hex(),
        "id": point.id,
        "time": point.created_ns,
        "parent": point.parent,
        "trigger": point.trigger,
        "agent": point.agent,
        "session": point.session,
        "turn": more.turn,
        "tree": point.tree.hex(),
        "prompt": digest_of_prompt(more.salt, point.prompt) if point.prompt else "",
    }
    return _as_text(fields)


def text_of_purge(before: bytes, identities: Sequence[str]) -> bytes:
    """The statement of a purge that changed these checkpoints."""
    fields: dict[str, str | int | bool] = {
        "kind": STATED_PURGE,
        "before": _hex(before),
        "time": time.time_ns(),
        "changed": " ".join(identities),
    }
    return _as_text(fields)


def _as_text(fields: "dict[str, str | int | bool]") -> bytes:
    return fastjson.encode_flat(fields).encode()


def _hex(digest: bytes) -> str:
    return "" if digest == NONE else digest.hex()


def digest_of_prompt(salt: bytes, prompt: str) -> str:
    """The digest of a prompt behind its random bytes, in hex."""
    return digests.of(salt + tlv.text(prompt)).hex()


def linked(point: Checkpoint, newest: bytes) -> Checkpoint:
    """A checkpoint about to be published, behind the statement with the digest `newest`."""
    before = b"" if newest == NONE else newest
    return point._replace(more=point.more._replace(salt=os.urandom(SALT_BYTES), before=before, stated=b""))


def newest_after(newest: bytes, point: Checkpoint) -> bytes:
    """The digest of the store's newest statement after the record of one more checkpoint. One of another machine is in another chain."""
    text = b"" if point.more.machine else text_of(point)
    return digests.of(text) if text else newest


def with_statement_kept(old: Checkpoint, new: Checkpoint) -> Checkpoint:
    """A checkpoint as a purge leaves it: its statement is still the old one. The random bytes go with the prompt."""
    salt = old.more.salt if new.prompt == old.prompt else b""
    text = text_of(old)
    is_same = salt and text_of(new._replace(more=new.more._replace(salt=salt, stated=b""))) == text
    return new._replace(more=new.more._replace(salt=salt, stated=b"" if is_same and not old.more.stated else text))


def encode_record(found: Statements) -> bytes:
    """The payload of a ledger record of statements."""
    return tlv.encode(((_TAG_NEWEST, found.newest), (_TAG_TEXTS, found.texts)))


def decode_record(payload: bytes) -> Statements:
    """Raises ManifestCorrupt."""
    got = tlv.Fields(payload, "record of statements")
    return Statements(got.required_bytes(_TAG_NEWEST, digests.SIZE), got.required_bytes(_TAG_TEXTS))
