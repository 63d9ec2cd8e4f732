"""Pi.

A session is a file of entries that form a tree. A move in the client removes nothing: the next entry names an earlier
one as its parent. The conversation is the last entry of the file and its ancestors. So a transcript is cut to a path of
that tree, never at an offset.

The danger prevented here: a rewound conversation contains turns of another branch. Only entries on the path are kept.
Their lines are kept byte for byte, because entries name each other by id.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

from .. import errors, locations
from .._typing import TYPE_CHECKING, NamedTuple
from . import client, transcript
from .transcript import Prompt, Value, find_line_of_prompt, fork_title, title_from_prompts

if TYPE_CHECKING:
    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines
    from .hook_records import ClientAnswer, InstalledHook

_TRIGGERS = {**client.EVENTS, "PostToolBatch": "tool_batch"}
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
_DIRNAME_BYTES = 200  # bytes of a directory's name that Pi makes of a working directory


_ARGUMENTS = ("--mode", "rpc", "--no-session", "--offline")
_QUESTION = b'{"type":"get_commands","id":"casrewind"}\n'
_QUIET = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
_COMMAND = "casrewind"


class PiEntry(NamedTuple):
    """An entry of a session."""

    start: int
    """The position of its first byte."""
    end: int
    """The position behind its last byte."""
    kind: str
    """One of transcript.KINDS."""
    id: str
    """Its id."""
    parent: int
    """The index of the entry before it in the conversation, -1 = none."""
    calls: tuple[str, ...]
    """The ids of the tool calls that it makes."""
    results: tuple[str, ...]
    """The ids of the tool calls that it answers."""
    prompt: Prompt | None
    """The prompt that it holds, or None."""


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


class PiClient(client.ConversationClient):
    """Pi. It loads our extension, which calls the hooks."""

    name = "pi"
    title = "Pi"
    program = "pi"
    events = client.ClientEvents(
        triggers=_TRIGGERS,
        before_tool="PreToolUse",
        by_tool=frozenset({"PreToolUse", "PostToolBatch"}),
        harmless_tools=frozenset({"read", "grep", "find", "ls"}),
        fields={**client.FIELDS, "message_id": ("leaf_id",)},  # the entry of the session's tree that the conversation stood at
        turn_field="prompt_id",
        tells_model=True,
    )
    places = client.ClientPlaces(home=".pi/agent", home_variable="PI_CODING_AGENT_DIR", project_home=".pi")
    settings = client.ClientSettings(hooks=client.make_hooks(_TRIGGERS, {"PreToolUse": "*"}), extension="extensions/casrewind.js")
    sessions = client.SessionFormat(
        directory="sessions",
        resume="pi --session {session}",
        variable="PI_CODING_AGENT_SESSION_DIR",
        by_project=True,
        name=r"(.*_)?{session}\.jsonl",
        header=("id",),
        version=3,
        version_path=("version",),
        shell=transcript.ShellCalls(("message", "content"), frozenset({"bash"}), ("arguments", "command")),
    )

    def carried_lines(self) -> "CarriedLines":
        """Pi asks for nothing. What an extension keeps in a session may be a setting."""
        from .carried_lines import CarriedLines

        return CarriedLines(frozenset({"session"}), holders=((), ("data",)))

    def carries_command(self, event: str) -> bool:
        """The extension reports a `/casrewind` command as an event of its own."""
        return event == "Command"

    def sessions_directory_by_variable(self, environ: Mapping[str, str]) -> str:
        """Pi's variable for the directory of sessions."""
        return environ.get(self.sessions.variable, "")

    def kind_of_line(self, value: Value | None) -> str:
        """The kind of a line, one of transcript.KINDS."""
        sort = transcript.text_or_empty((value or {}).get("type"))
        if value is None or sort != "message":
            return _KINDS.get(sort, transcript.UNKNOWN)
        return _ROLES.get(transcript.text_or_empty(transcript.object_or_empty(value.get("message")).get("role")), transcript.UNKNOWN)

    def prompts(self, data: bytes, *, every: bool = False) -> list[Prompt]:
        """The person's messages on the current branch, in conversation order; `every`: in all of the file, in its order."""
        entries = _parse_session(data).entries
        chosen = entries if every else [entries[at] for at in _path_from_root(entries, _last_known(entries, len(entries)))]
        return [entry.prompt for entry in chosen if entry.prompt is not None]

    def cut_before_prompt(self, data: bytes, prompt: Prompt) -> bytes | None:
        """The header and the path above a prompt; None when nothing was said before it."""
        session = _parse_session(data)
        return _branch_without_open_calls(data, session, session.entries[find_line_of_prompt(session.entries, prompt)].parent)

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The header and the path to the last entry before the checkpoint of `cursor`; None if there was no entry yet.

        Raises AgentError when neither an id nor a hash of the cursor is in this transcript.
        """
        session = _parse_session(data)
        places = {entry.id: at for at, entry in enumerate(session.entries) if entry.id}
        name = cursor.message_id or cursor.event_id
        if name in places:
            at = places[name] if cursor.message_id else _last_known(session.entries, places[name] + 1)
            return _branch_without_open_calls(data, session, at)
        if not cursor.offset and not cursor.event_id:
            return None  # there was no file yet
        if cursor.message_id:
            raise errors.AgentError("the position of that checkpoint is not in this transcript")
        count = transcript.count_lines_before_cursor(data, session.entries, cursor)
        return _branch_without_open_calls(data, session, _last_known(session.entries, count))

    def title_of(self, data: bytes) -> str:
        """The session's name, else the beginning of its first prompt, else ""."""
        for line in transcript.parse_lines_containing(data, b'"session_info"'):
            value = line.value or {}
            if value.get("type") == "session_info":
                name = transcript.text_or_empty(value.get("name")).strip()
                if name:
                    return name
                break  # an empty name removes the name
        return title_from_prompts(self.prompts(data))

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """`cut` with a header of its own; behind it the labels that its entries have, and its title.

        Pi runs a session in the directory that its header names. The new header names the old directory if that is still in
        the project, else `root`.
        """
        from . import fork_files

        kept = _parse_session(cut)
        old = kept.header or _parse_session(data).header
        made = {
            **old,
            "type": "session",
            **({} if old else {"version": self.sessions.version}),
            "id": session,
            "timestamp": _time_as_pi_writes(),
            "cwd": fork_files.directory_in_project(transcript.text_or_empty(old.get("cwd")), root),
            **({"parentSession": original} if original else {}),
        }
        body = cut[kept.start :]
        parts = [transcript.encode_line(made), body if body.endswith(b"\n") or not body else body + b"\n"]
        if not kept.is_linear:
            more = [*_lost_labels(data, cut, kept), ("session_info", {"name": fork_title(self.title_of(data))})]
            parts += _lines_of_more_entries(kept, more)
        return b"".join(parts)

    def fork_path(self, transcript: str, session: str, fork: bytes) -> str:
        """The path of a fork: in the directory that Pi has for the working directory in its header."""
        header = _parse_session(fork).header
        stamp = str(header.get("timestamp")).replace(":", "-").replace(".", "-")
        directory = os.path.dirname(transcript)
        cwd, old = str(header.get("cwd")), os.path.basename(directory)
        if (
            old.startswith("--")
            and old.endswith("--")
            and len((encoded := _sessions_dirname(cwd)).encode("utf-8", "surrogatepass")) <= _DIRNAME_BYTES
        ):
            directory = os.path.join(os.path.dirname(directory), encoded)
        return os.path.join(directory, f"{stamp}_{session}.jsonl")

    def path_for_project(self, transcript: str, session: str, root: str, home: str, environ: Mapping[str, str]) -> str:
        """In the directory of the root. A directory of sessions that a variable names has no other directories."""
        directory = self.sessions_directory_by_variable(environ) or os.path.join(
            self.usual_sessions_directory(home, environ), _sessions_dirname(root)
        )
        return os.path.join(os.path.abspath(directory), os.path.basename(transcript))

    def write_fork(self, original: str, session: str, data: bytes, path: str, root: str, environ: Mapping[str, str]) -> str:
        """Write a session. Its header names a directory of the project."""
        from . import fork_files

        found = _parse_session(data)
        cwd = fork_files.directory_in_project(transcript.text_or_empty(found.header.get("cwd")), root)
        if found.header and cwd != found.header.get("cwd"):
            data = transcript.encode_line({**found.header, "cwd": cwd}) + data[found.start :]
        return super().write_fork(original, session, data, path, root, environ)

    def rewound_in_place(self, data: bytes, cut: bytes) -> bytes:
        """The transcript with one more entry, a child of the last entry of `cut`: the conversation continues there.

        Nothing is removed. The turns behind the cut remain in the tree as another branch.
        """
        kept = _parse_session(cut)
        if kept.is_linear or not kept.entries:
            return cut
        taken = kept._replace(entries=[*kept.entries, *_parse_session(data).entries])
        last = kept.entries[-1].id
        entry = {"customType": "casrewind", "data": {"op": "rewind", "to": last}}
        return (data if data.endswith(b"\n") else data + b"\n") + b"".join(_lines_of_more_entries(taken, [("custom", entry)], last))

    def ask_about_hooks(
        self, hooks: "Sequence[InstalledHook]", program: str, root: str | None, environ: Mapping[str, str]
    ) -> "ClientAnswer":
        """Pi says which commands it has: ours is among them if it loads the extension. It keeps no session for that."""
        from .hook_records import ClientAnswer, first_user_file

        path = first_user_file(hooks)
        problem = _why_not_loaded(self, program, path, environ) if path else ""
        return ClientAnswer((problem,) if problem else ())


CLIENT = PiClient()


def _parse_session(data: bytes) -> PiSession:
    header: Value = {}
    start = 0
    entries: list[PiEntry] = []
    places: dict[str, int] = {}
    is_linear = False
    for number, line in enumerate(transcript.parse_lines(data)):
        value = line.value
        if value is None or value.get("type") == "session":
            if value is not None and number == 0:
                header, start = value, line.end
                is_linear = PiSession(header, 0, []).is_linear
            continue
        name = f"#{number}" if is_linear else transcript.text_or_empty(value.get("id"))
        parent = len(entries) - 1 if is_linear else places.get(transcript.text_or_empty(value.get("parentId")), -1)
        if not name:
            continue
        places[name] = len(entries)
        entries.append(_parse_entry(line, value, name, parent, is_linear=is_linear))
    return PiSession(header, start, entries)


def _parse_entry(line: transcript.TranscriptLine, value: Value, name: str, parent: int, *, is_linear: bool) -> PiEntry:
    kind = CLIENT.kind_of_line(value)
    message = transcript.object_or_empty(value.get("message"))
    parts = transcript.content_blocks(message.get("content")) if kind == transcript.ASSISTANT else []
    prompt = None
    if kind == transcript.PROMPT and name:
        prompt = Prompt(
            text="\n".join(transcript.content_texts(message.get("content"))),
            prompt_id="" if is_linear else name,
            message_id="",
            uuid=name,
            parent=transcript.text_or_empty(value.get("parentId")),
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
        calls=tuple(transcript.text_or_empty(part.get("id")) for part in parts if part.get("type") == "toolCall"),
        results=(transcript.text_or_empty(message.get("toolCallId")),) if kind == transcript.TOOL_RESULT else (),
        prompt=prompt,
    )


def _last_known(entries: Sequence[PiEntry], count: int) -> int:
    """The index of the last entry of a known kind among the first `count`; -1 without one. An unknown entry is no leaf."""
    return transcript.count_to_known_end(entries, count) - 1


def _path_from_root(entries: Sequence[PiEntry], at: int) -> list[int]:
    """The indices from the root of the tree to an entry."""
    found = []
    while at >= 0:
        found.append(at)
        at = entries[at].parent  # always less
    return found[::-1]


def _branch_without_open_calls(data: bytes, session: PiSession, at: int) -> bytes | None:
    """The header and the path to an entry, without unanswered calls and unknown entries at its end; None if the path has no
    message."""
    entries = session.entries
    path = _path_from_root(entries, at)
    while path := path[: transcript.count_to_known_end([entries[index] for index in path], len(path))]:
        said = [place for place, index in enumerate(path) if entries[index].kind in _SAID]
        if not said:
            return None
        answered = {result for index in path for result in entries[index].results}
        if answered.issuperset(entries[path[said[-1]]].calls):
            return data[: session.start] + b"".join(data[entries[index].start : entries[index].end] for index in path)
        path = path[: said[-1]]
    return None


def _lost_labels(data: bytes, cut: bytes, kept: PiSession) -> Iterator[tuple[str, Value]]:
    """The labels of kept entries that `cut` lacks: a label is an entry, often after the entry that it names."""
    names = {entry.id for entry in kept.entries}
    own = _read_labels(cut)
    for target, label in _read_labels(data).items():
        if target in names and own.get(target, "") != label:
            yield "label", {"targetId": target, **({"label": label} if label else {})}


def _read_labels(data: bytes) -> dict[str, str]:
    """{an entry: its label}. The last label counts; an empty label removes it."""
    found: dict[str, str] = {}
    for line in transcript.parse_lines_containing(data, b'"label"'):
        value = line.value or {}
        if value.get("type") == "label" and (target := transcript.text_or_empty(value.get("targetId"))):
            found.setdefault(target, transcript.text_or_empty(value.get("label")))
    return dict(reversed(found.items()))


def _lines_of_more_entries(session: PiSession, more: Sequence[tuple[str, Value]], parent: str = "") -> Iterator[bytes]:
    """Lines of further entries, each the child of the entry before; the first is a child of `parent` or the last."""
    taken = {entry.id for entry in session.entries}
    parent = parent or (session.entries[-1].id if session.entries else "")
    for sort, fields in more:
        while (name := os.urandom(4).hex()) in taken:
            pass
        taken.add(name)
        yield transcript.encode_line({"type": sort, "id": name, "parentId": parent or None, "timestamp": _time_as_pi_writes(), **fields})
        parent = name


def _time_as_pi_writes() -> str:
    """The time as Pi writes it."""
    from datetime import UTC, datetime  # 1 ms that hooks do not need

    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _sessions_dirname(cwd: str) -> str:
    """The name of the directory in which Pi keeps the sessions of a working directory."""
    return f"--{cwd.removeprefix('/')}--".replace("/", "-").replace("\\", "-").replace(":", "-")


def _why_not_loaded(client: PiClient, program: str, path: str, environ: Mapping[str, str]) -> str:
    """Why the client does not have the command of the extension at `path`, or ""."""
    from .. import launch
    from ..messages import printable
    from . import run_program

    variables = {**environ, **_QUIET, launch.TRIAL: "1"}
    ran = run_program.run_briefly([program, *_ARGUMENTS], cwd="/", environ=variables, seconds=run_program.ANSWER_SECONDS, data=_QUESTION)
    where = printable(path)
    answer = next((value for line in ran.out.splitlines() if (value := _commands_in(line)) is not None), None)
    if answer is None:
        said = ran.trouble or f"ended with {ran.code}"
        line = printable(run_program.last_line_or_error(ran.err))
        return f"{client.title} was asked for its commands and {said}{f': {line}' if line else ''}; run it by hand to see"
    if any(_is_our_command(command, path) for command in answer):
        return ""
    return f"{client.title} does not load {where}: its own error messages say why; casrewind install {client.name} writes it again"


def _commands_in(line: bytes) -> list[object] | None:
    """The commands in a line of the client's output, None when it is another line."""
    value = transcript.parse_object(line) or {}
    data = value.get("data") if value.get("command") == "get_commands" else None
    commands = data.get("commands") if isinstance(data, dict) else None
    return commands if isinstance(commands, list) else None


def _is_our_command(command: object, path: str) -> bool:
    """True for the command that the extension at `path` registers."""
    if not isinstance(command, dict) or not str(command.get("name")).startswith(_COMMAND):
        return False
    source = command.get("sourceInfo")
    loaded = source.get("path") if isinstance(source, dict) else None
    return isinstance(loaded, str) and locations.real_path(loaded) == locations.real_path(path)
