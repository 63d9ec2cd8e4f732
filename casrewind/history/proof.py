"""A proof: the statements of a history, signed, in a file that anybody can check without a store.

The danger prevented here: a person trusts a history that was cut or changed. Each statement names the digest of the one before it. A
cut at the end is found only with an anchor, a digest that was noted elsewhere. docs/proof-format.md says what a proof does not prove.
"""

import base64
import binascii
import json
import os
import stat
import time
from collections.abc import Iterator
from functools import partial

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..fastjson import JsonObject
from ..model import digest as digests
from ..model import manifest, statement
from ..model.checkpoint import Checkpoint
from ..model.manifest import DIR, LINK, PURGED
from ..store import ledger, statements
from ..store.store import LedgerPosition
from . import lookup, machine_key

PAYLOAD_TYPE = "application/vnd.casrewind.proof+json"
FORMAT = 1
"""The version of the payload."""
MOST_PROOF = 1 << 30
"""Bytes of a proof that is read."""


class Attested(NamedTuple):
    """A proof. `anchor`: the digest of its last statement, in hex; whoever notes it finds a cut behind it."""

    envelope: JsonObject
    anchor: str
    statements: int


class Checked(NamedTuple):
    """What a check of a proof found. `problems`: why it proves nothing, empty = it is sound. `notes`: what it does not cover, or what the
    store no longer had. `statements`, `turns` and `purges` are counted; `anchor` is the digest of the last statement, in hex."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    statements: int = 0
    turns: int = 0
    purges: int = 0
    anchor: str = ""


def attest(context: Context, first: str = "", last: str = "", *, files: bool = False, prompts: bool = False) -> Attested:
    """Sign the statements from the turn or checkpoint `first` to `last`; "" = the first or the last that there is. `files`: with a list
    of the files at the end. `prompts`: with the prompts. Raises CheckpointNotFound, CasrewindError."""
    key = machine_key.find_or_make_key(context.data)
    texts = _chain(context)
    here = {point.id: point for point, _ in context.store.checkpoints()}
    parsed = [json.loads(text) for text in texts]
    begin = _place(context, parsed, first)[0] if first else 0
    end = _place(context, parsed, last or first)[1] if last or first else len(texts)
    texts, parsed = texts[begin:end], parsed[begin:end]
    if not texts:
        raise errors.CheckpointNotFound("there is no statement to attest", "casrewind save makes a checkpoint, and each has a statement")
    points = {one["id"]: here.get(one["id"]) for one in parsed if one["kind"] == statement.STATED_CHECKPOINT}
    payload: JsonObject = {
        "format": FORMAT,
        "made": time.time_ns(),
        "statements": [text.decode() for text in texts],
        "dropped": {name: "gc" if point is None else "purge" for name, point in points.items() if point is None or point.more.stated},
    }
    if prompts:
        kept = {name: point for name, point in points.items() if point is not None and point.prompt and point.more.salt}
        payload["prompts"] = {name: {"salt": point.more.salt.hex(), "prompt": point.prompt} for name, point in kept.items()}
    if files:
        newest = next((points[name] for name in reversed(points)), None)
        if newest is None:
            raise errors.CheckpointNotFound("the files of the last statement are not in the store any more", "attest an earlier range")
        payload["files"] = list(_files_of(context, newest))
    body = json.dumps(payload).encode()
    signature = {"keyid": machine_key.id_of(key.public_key()), "sig": _base64(key.sign(_signed_bytes(body)))}
    envelope = {"payload": _base64(body), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    return Attested(envelope, digests.of(texts[-1]).hex(), len(texts))


def _chain(context: Context) -> list[bytes]:
    """The statements of the store, from the oldest that leads without a gap to the newest."""
    records, _ = context.store.records_after(LedgerPosition(), ledger.CHECKPOINT, ledger.STATEMENTS)
    known = {digests.of(text): text for text in statements.statements_in(records)}
    found, at = list[bytes](), statements.newest_in(records)
    while text := known.pop(at, b""):
        found.append(text)
        at = bytes.fromhex(json.loads(text)["before"])
    return found[::-1]


def _place(context: Context, parsed: list[JsonObject], reference: str) -> tuple[int, int]:
    """Where a turn or a checkpoint begins and ends among the statements."""
    point = lookup.checkpoint(context, reference)
    turn = point.more.turn if reference.startswith("@") else ""
    found = [at for at, one in enumerate(parsed) if one.get("id") == point.id or (turn and one.get("turn") == turn)]
    if not found:
        raise errors.CheckpointNotFound(f"{reference} has no statement in the chain of this store", "attest the machine that made it")
    return found[0], found[-1] + 1


def _files_of(context: Context, point: Checkpoint) -> Iterator[dict[str, str]]:
    for path, entry in manifest.walk(context.store.load_tree, point.tree):
        if entry.kind == LINK:
            yield {"path": os.fsdecode(path), "link": os.fsdecode(entry.target)}
        elif entry.kind not in (DIR, PURGED):
            yield {"path": os.fsdecode(path), "mode": f"{entry.mode & 0o777:04o}", "blake3": entry.digest.hex()}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _signed_bytes(body: bytes) -> bytes:
    """What DSSE signs: lengths, the type, the payload."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(body), body)


def check(data: bytes, public_pem: bytes, expect: str = "", directory: str = "") -> Checked:
    """Check a proof with the public key of the machine. `expect`: a digest in hex that was noted, and must be in the chain. `directory`:
    compare its files with the proof's list. Needs no store. Raises UsageError for a wrong key."""
    key = machine_key.read_public_key(public_pem)
    try:
        envelope = json.loads(data)
        body = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in envelope["signatures"]]
        if envelope["payloadType"] != PAYLOAD_TYPE or not any(machine_key.is_signed(key, one, _signed_bytes(body)) for one in signatures):
            return Checked(("the signature is not by this key, or the proof was changed",), ())
        payload = json.loads(body)
        if payload["format"] != FORMAT:
            return Checked((f"the proof has format {payload['format']}, and this casrewind knows {FORMAT}",), ())
        return _check_payload(payload, expect, directory)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        return Checked(("this is no proof of casrewind, or it is damaged",), ())


def _check_payload(payload: JsonObject, expect: str, directory: str) -> Checked:
    texts = [text.encode() for text in payload["statements"]]
    parsed, names = [json.loads(text) for text in texts], [digests.of(text).hex() for text in texts]
    problems = [] if texts else ["the proof has no statement"]
    for at, one in enumerate(parsed[1:], 1):
        if one["before"] != names[at - 1]:
            problems.append(f"statement {at + 1} does not follow the one before it: something was cut out, changed or moved")
    points = {one["id"]: one for one in parsed if one["kind"] == statement.STATED_CHECKPOINT}
    if len(points) < sum(one["kind"] == statement.STATED_CHECKPOINT for one in parsed):
        problems.append("a checkpoint has two statements")
    for name, shown in payload.get("prompts", {}).items():
        if name not in points or statement.digest_of_prompt(bytes.fromhex(shown["salt"]), shown["prompt"]) != points[name]["prompt"]:
            problems.append(f"the prompt shown for {name} is not the one that was stated")
    notes = [] if not texts or not parsed[0]["before"] else ["what came before the first statement is not in this proof"]
    if expect and expect not in (*names, *(one["before"] for one in parsed[:1])):
        problems.append(f"{expect:.16} is not in this chain: it was cut, is a fork of a copied store, or begins or ends elsewhere")
    elif not expect:
        notes.append("without --expect nobody can tell whether statements were cut off at the end")
    for why, said in (("gc", "were deleted by gc"), ("purge", "lost something in a purge")):
        if number := sum(reason == why for reason in payload["dropped"].values()):
            notes.append(f"{number} of the checkpoints {said}; their statements are here")
    if directory:
        different, unlisted = _compare(payload.get("files"), directory)
        problems += different
        notes += unlisted
    turns = {one["turn"] for one in points.values() if one["turn"]}
    purges = sum(one["kind"] == statement.STATED_PURGE for one in parsed)
    return Checked(tuple(problems), tuple(notes), len(texts), len(turns), purges, names[-1] if names else "")


def _compare(files: list[dict[str, str]] | None, directory: str) -> tuple[list[str], list[str]]:
    """Returns (what differs from the list, what the list does not cover)."""
    if files is None:
        return ["the proof has no list of files: casrewind attest --files adds it"], []
    listed = {one["path"]: one for one in files}
    different = [f"{path} is not as the proof has it" for path, one in listed.items() if _described(directory, path) != one]
    there: set[str] = set()
    for top, _, names in os.walk(directory):
        there |= {os.path.relpath(os.path.join(top, name), directory) for name in names}
    beyond = sorted(there - listed.keys())
    return different, [f"not covered: {path}" for path in beyond]


def _described(directory: str, path: str) -> dict[str, str] | None:
    """A file or link in the form of the list, None if there is none. A path that leads out of the directory is none."""
    full = os.path.join(directory, path)
    if os.path.isabs(path) or ".." in path.split("/") or os.path.realpath(os.path.dirname(full)) != os.path.join(
        os.path.realpath(directory), os.path.dirname(path)
    ).rstrip("/"):
        return None
    try:
        status = os.lstat(full)
        if stat.S_ISLNK(status.st_mode):
            return {"path": path, "link": os.readlink(full)}
        if not stat.S_ISREG(status.st_mode):
            return None
        hasher = digests.Hasher()
        with open(full, "rb") as file:
            for data in iter(partial(file.read, 1 << 20), b""):
                hasher.update(data)
        return {"path": path, "mode": f"{status.st_mode & 0o777:04o}", "blake3": hasher.digest().hex()}
    except OSError:
        return None
