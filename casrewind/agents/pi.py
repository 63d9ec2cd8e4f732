"""Pi.

A session is a file of entries that form a tree. A move in the client removes nothing: the next entry names an earlier
one as its parent. The conversation is the last entry of the file and its ancestors. So a transcript is cut to a path of
that tree, never at an offset.

The danger prevented here: a rewound conversation contains turns of another branch. Only entries on the path are kept.
Their lines are kept byte for byte, because entries name each other by id.
"""

import os
from collections.abc import Iterator, Sequence

from .. import errors
from .._typing import Any, NamedTuple
from ..model.cursor import Cursor
from . import cursors, profiles, session_files, transcript
from .prompts import Prompt, place_of, title_of
from .transcript import Value

PROFILE = profiles.PI

_ROLES = {
    "user": transcript.PROMPT,
    "assistant": transcript.ASSISTANT,
    "toolResult": transcript.TOOL_RESULT,
    "bashExecution": transcript.BASH_MODE,
    "system": transcript.SYSTEM,
    "custom": transcript.META,
    "hookMessage": transcript.META,  # the name of it in version 2
    "branchSummary": transcript.COMPACT_SUMMARY,
    "compactionSummary": transcript.COMPACT_SUMMARY,
}
_KINDS = {
    "custom_message": transcript.META,
    "compaction": transcript.COMPACT_SUMMARY,
    "branch_summary": transcript.COMPACT_SUMMARY,
    **dict.fromkeys(
        ("session", "model_change", "thinking_level_change", "usage", "context_edit", "custom", "label", "session_info"),
        transcript.BOOKKEEPING,
    ),
}
_SAID = frozenset({transcript.PROMPT, transcript.ASSISTANT})
_LONGEST = 200  # bytes of a directory's name that Pi makes of a working directory


class PiEntry(NamedTuple):
    """An entry: its line is the bytes [start, end). `parent` is the index of the entry before it in the conversation,
    -1 for none. `calls` and `results` are the ids of the tool calls that it makes and answers."""

    start: int
    end: int
    kind: str
    id: str
    parent: int
    calls: tuple[str, ...]
    results: tuple[str, ...]
    prompt: Prompt | None


class PiSession(NamedTuple):
    """A transcript: the value and the end of its header line ({} and 0 = no header), and its entries."""

    header: Value
    start: int
    entries: list[PiEntry]

    @property
    def is_linear(self) -> bool:
        """True for version 1, in which entries have no ids and follow each other."""
        version = self.header.get("version", 1)
        return bool(self.header) and isinstance(version, int) and version < 2


def kind_of(value: Value | None) -> str:
    """The kind of a line, one of transcript.KINDS."""
    sort = transcript.text((value or {}).get("type"))
    if value is None or sort != "message":
        return _KINDS.get(sort, transcript.UNKNOWN)
    return _ROLES.get(transcript.text(transcript.members(value.get("message")).get("role")), transcript.UNKNOWN)


def prompts(data: bytes, *, every: bool = False) -> list[Prompt]:
    """The person's messages on the current branch, in conversation order; `every`: in all of the file, in its order."""
    entries = _read(data).entries
    chosen = entries if every else [entries[at] for at in _path(entries, len(entries) - 1)]
    return [entry.prompt for entry in chosen if entry.prompt is not None]


def cut(data: bytes, prompt: Prompt) -> bytes | None:
    """The header and the path above a prompt; None when nothing was said before it."""
    session = _read(data)
    return _closed(data, session, session.entries[place_of(session.entries, prompt)].parent)


def cut_at(data: bytes, cursor: Cursor, trigger: str) -> bytes | None:
    """The header and the path to the last entry before the checkpoint of `cursor`; None if there was no entry yet.

    Raises AgentError when neither an id nor a hash of the cursor is in this transcript.
    """
    session = _read(data)
    places = {entry.id: at for at, entry in enumerate(session.entries) if entry.id}
    name = cursor.message_id or cursor.event_id
    if name in places:
        return _closed(data, session, places[name])
    if not cursor.offset and not cursor.event_id:
        return None  # there was no file yet
    if not cursor.message_id and cursors.holds(cursor, data):
        return _closed(data, session, sum(entry.end <= cursor.offset for entry in session.entries) - 1)
    raise errors.AgentError("the position of that checkpoint is not in this transcript")


def title(data: bytes) -> str:
    """The session's name, else the beginning of its first prompt, else ""."""
    for line in transcript.containing(data, b'"session_info"'):
        value = line.value or {}
        if value.get("type") == "session_info":
            name = transcript.text(value.get("name")).strip()
            if name:
                return name
            break  # an empty name removes the name
    return title_of(prompts(data))


def fork(data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
    """`cut` with a header of its own; behind it the labels that its entries have, and its title.

    Pi runs a session in the directory that its header names. The new header names the old directory if that is still in
    the project, else `root`.
    """
    kept = _read(cut)
    old = kept.header or _read(data).header
    made = {
        **old,
        "type": "session",
        **({} if old else {"version": PROFILE.format_version}),
        "id": session,
        "timestamp": _now(),
        "cwd": _directory(transcript.text(old.get("cwd")), root),
        **({"parentSession": original} if original else {}),
    }
    body = cut[kept.start :]
    parts = [transcript.encode(made), body if body.endswith(b"\n") or not body else body + b"\n"]
    if not kept.is_linear:
        more = [*_labels(data, cut, kept), ("session_info", {"name": session_files.fork_title(title(data))})]
        parts += _appended(kept, more)
    return b"".join(parts)


def fork_path(transcript: str, session: str, fork: bytes) -> str:
    """The path of a fork: in the directory that Pi has for the working directory in its header."""
    header = _read(fork).header
    stamp = str(header.get("timestamp")).replace(":", "-").replace(".", "-")
    directory = os.path.dirname(transcript)
    cwd, old = str(header.get("cwd")), os.path.basename(directory)
    if old.startswith("--") and old.endswith("--") and len((encoded := _encoded(cwd)).encode("utf-8", "surrogatepass")) <= _LONGEST:
        directory = os.path.join(os.path.dirname(directory), encoded)
    return os.path.join(directory, f"{stamp}_{session}.jsonl")


def in_place(data: bytes, cut: bytes) -> bytes:
    """The transcript with one more entry, a child of the last entry of `cut`: the conversation continues there.

    Nothing is removed. The turns behind the cut remain in the tree as another branch.
    """
    kept = _read(cut)
    if kept.is_linear or not kept.entries:
        return cut
    taken = kept._replace(entries=[*kept.entries, *_read(data).entries])
    last = kept.entries[-1].id
    entry = {"customType": "casrewind", "data": {"op": "rewind", "to": last}}
    return (data if data.endswith(b"\n") else data + b"\n") + b"".join(_appended(taken, [("custom", entry)], last))


def _read(data: bytes) -> PiSession:
    header: Value = {}
    start = 0
    entries: list[PiEntry] = []
    places: dict[str, int] = {}
    is_linear = False
    for number, line in enumerate(transcript.lines(data)):
        value = line.value
        if value is None or value.get("type") == "session":
            if value is not None and number == 0:
                header, start = value, line.end
                is_linear = PiSession(header, 0, []).is_linear
            continue
        name = f"#{number}" if is_linear else transcript.text(value.get("id"))
        parent = len(entries) - 1 if is_linear else places.get(transcript.text(value.get("parentId")), -1)
        if not name:
            continue
        places[name] = len(entries)
        entries.append(_entry(line, value, name, parent, is_linear=is_linear))
    return PiSession(header, start, entries)


def _entry(line: transcript.TranscriptLine, value: Value, name: str, parent: int, *, is_linear: bool) -> PiEntry:
    kind = kind_of(value)
    message = transcript.members(value.get("message"))
    parts = transcript.blocks(message.get("content")) if kind == transcript.ASSISTANT else []
    prompt = None
    if kind == transcript.PROMPT and name:
        prompt = Prompt(
            text="\n".join(transcript.texts(message.get("content"))),
            prompt_id="" if is_linear else name,
            message_id="",
            uuid=name,
            parent=transcript.text(value.get("parentId")),
            time_ns=transcript.time_ns(value.get("timestamp")),
            start=line.start,
            queued=False,
        )
    return PiEntry(
        start=line.start,
        end=line.end,
        kind=kind,
        id=name,
        parent=parent,
        calls=tuple(transcript.text(part.get("id")) for part in parts if part.get("type") == "toolCall"),
        results=(transcript.text(message.get("toolCallId")),) if kind == transcript.TOOL_RESULT else (),
        prompt=prompt,
    )


def _path(entries: Sequence[PiEntry], at: int) -> list[int]:
    """The indices from the root of the tree to an entry."""
    found = []
    while at >= 0:
        found.append(at)
        at = entries[at].parent  # always less
    return found[::-1]


def _closed(data: bytes, session: PiSession, at: int) -> bytes | None:
    """The header and the path to an entry, without unanswered calls at its end; None if the path has no message."""
    entries = session.entries
    path = _path(entries, at)
    while path:
        said = [place for place, index in enumerate(path) if entries[index].kind in _SAID]
        if not said:
            return None
        answered = {result for index in path for result in entries[index].results}
        if answered.issuperset(entries[path[said[-1]]].calls):
            return data[: session.start] + b"".join(data[entries[index].start : entries[index].end] for index in path)
        path = path[: said[-1]]
    return None


def _labels(data: bytes, cut: bytes, kept: PiSession) -> Iterator[tuple[str, dict[str, Any]]]:
    """The labels of kept entries that `cut` lacks: a label is an entry, often after the entry that it names."""
    names = {entry.id for entry in kept.entries}
    own = _labels_in(cut)
    for target, label in _labels_in(data).items():
        if target in names and own.get(target, "") != label:
            yield "label", {"targetId": target, **({"label": label} if label else {})}


def _labels_in(data: bytes) -> dict[str, str]:
    """{an entry: its label}. The last label counts; an empty label removes it."""
    found: dict[str, str] = {}
    for line in transcript.containing(data, b'"label"'):
        value = line.value or {}
        if value.get("type") == "label" and (target := transcript.text(value.get("targetId"))):
            found.setdefault(target, transcript.text(value.get("label")))
    return dict(reversed(found.items()))


def _appended(session: PiSession, more: Sequence[tuple[str, dict[str, Any]]], parent: str = "") -> Iterator[bytes]:
    """Lines of further entries, each the child of the entry before; the first is a child of `parent` or the last."""
    taken = {entry.id for entry in session.entries}
    parent = parent or (session.entries[-1].id if session.entries else "")
    for sort, fields in more:
        while (name := os.urandom(4).hex()) in taken:
            pass
        taken.add(name)
        yield transcript.encode({"type": sort, "id": name, "parentId": parent or None, "timestamp": _now(), **fields})
        parent = name


def _now() -> str:
    """The time as Pi writes it."""
    from datetime import UTC, datetime  # 1 ms that hooks do not need

    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _directory(old: str, root: str) -> str:
    """The directory that a fork runs in."""
    from .. import locations

    if not root or (os.path.isdir(old) and locations.is_in(os.path.realpath(old), os.path.realpath(root))):
        return old
    return root


def _encoded(cwd: str) -> str:
    """The name of the directory in which Pi keeps the sessions of a working directory."""
    return f"--{cwd.removeprefix('/')}--".replace("/", "-").replace("\\", "-").replace(":", "-")
