"""OpenCode's sessions.

They are rows of a database, and not files. So a session is read as lines of JSON: one about the session, then one for
each message with its parts. A fork is a file that the client itself imports. Nothing is written to the database here.

The danger prevented here: two messages with one id, or a fork that the client imports in part. A fork's messages get
new ids. Their beginnings stay, because a message's checkpoint is found by it.
"""

import os
from collections.abc import Mapping, Sequence

from .. import errors, locations
from .._typing import TYPE_CHECKING, NamedTuple
from . import client, transcript
from .transcript import Prompt, Value, find_line_of_prompt, fork_title, title_from_prompts

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ..model.cursor import Cursor
    from .carried_lines import CarriedLines
    from .hook_records import ClientAnswer, InstalledHook

_TRIGGERS = {**client.EVENTS, "PostToolUse": "tool_batch"}
START = 16
"""Characters of an id that a copy keeps: the kind and the time, as in data/opencode_extension.js."""
NEW = "new"
"""The position at the start of a new session."""
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID = r"(?:msg|prt)_[0-9a-f]{12}[0-9A-Za-z]{14}"
_SUFFIX = ".sessions"
_COLUMNS = {"id": "id", "slug": "slug", "projectID": "project_id", "directory": "directory", "path": "path", "title": "title",
            "version": "version", "agent": "agent"}  # fmt: skip
_UNCHOSEN = "compaction"
"""The agent that OpenCode uses for compaction. A person cannot choose it, and it has no tools."""
_SECONDS = 60.0
"""Time for the client's import."""
_ANSWER_SECONDS = 10.0
"""Shorter than run_program.ANSWER_SECONDS: without a network the client gives no answer, which is no problem."""


class OpencodeLine(NamedTuple):
    """A message: bytes [start, end) of the transcript. `calls`: ids of its tool calls."""

    start: int
    end: int
    kind: str
    id: str
    calls: tuple[str, ...]
    prompt: Prompt | None


class OpencodeClient(client.ConversationClient):
    """OpenCode. It loads our plugin, which calls the hooks."""

    name = "opencode"
    title = "OpenCode"
    program = "opencode"
    events = client.ClientEvents(
        triggers=_TRIGGERS,
        before_tool="PreToolUse",
        by_tool=frozenset({"PreToolUse", "PostToolUse"}),
        harmless_tools=frozenset(
            {"read", "glob", "grep", "list", "webfetch", "websearch", "codesearch", "todowrite", "todoread", "skill"}
        ),
        pid_variables=("OPENCODE_PID",),
        tells_model=True,
        refusal={},  # it shows a plugin's refusal as an unexpected error
    )
    places = client.ClientPlaces(home=".config/opencode", home_variable="OPENCODE_CONFIG_DIR", project_home=".opencode")
    settings = client.ClientSettings(hooks=client.make_hooks(_TRIGGERS), extension="plugins/casrewind.js")
    sessions = client.SessionFormat(
        directory=".local/share/opencode",
        resume="opencode --session {session}",
        variable="XDG_DATA_HOME",
        name=r"opencode\.db\.sessions/{session}\.jsonl",
        derived="opencode.db.sessions/{session}.jsonl",
        header=("id",),
        version=1,  # it names its own version
        version_path=("info", "version"),
        client_version=("info", "version"),
        shell=transcript.ShellCalls(("parts",), frozenset({"bash"}), ("state", "input", "command"), "tool"),
        never_rewritten="OpenCode keeps its sessions in a database, and only it writes there",
    )

    def carried_lines(self) -> "CarriedLines":
        """The rules of the session, and the tools that a prompt switched on or off, stay where they were. The client's window goes
        on with the agent of the last prompt, if that is one that can be chosen, and refuses a prompt without an agent."""
        from .carried_lines import CarriedLines

        def type_of(value: Value) -> str:
            role = transcript.object_or_empty(value.get("info")).get("role")
            return transcript.text_or_empty(value.get("type")) + (".user" if role == "user" else "")

        agents: dict[tuple[str, ...], object] = {("message.user", "info", "agent"): _UNCHOSEN, ("session", "info", "agent"): None}
        return CarriedLines(holders=((), ("info",)), state=frozenset({"tools"}), instead=agents, type_of=type_of)

    def as_typed(self, prompt: str) -> str:
        """A prompt without the marks of the client's command line. It puts an argument that has a space between quotation
        marks, and a backslash before each of the argument's own."""
        inner = prompt[1:-1]
        if prompt[:1] == prompt[-1:] == '"' and " " in inner and '"' not in inner.replace('\\"', ""):
            return inner.replace('\\"', '"')
        return prompt

    def usual_sessions_directory(self, home: str, environ: Mapping[str, str]) -> str:
        """The directory of the database. It is not among the client's settings."""
        return client.desktop_directory(os.path.abspath(home), self.sessions.directory, environ)

    def kind_of_line(self, value: Value | None) -> str:
        """The kind of a line, one of transcript.KINDS."""
        value = value or {}
        if value.get("type") == "session":
            return transcript.BOOKKEEPING
        role = transcript.object_or_empty(value.get("info")).get("role")
        if value.get("type") != "message" or role not in ("user", "assistant"):
            return transcript.UNKNOWN
        if role == "assistant":
            return transcript.ASSISTANT
        if any(part.get("type") == "compaction" for part in transcript.content_blocks(value.get("parts"))):
            return transcript.COMPACT_SUMMARY
        return transcript.PROMPT if _words_of_user(value) else transcript.META

    def prompts(self, data: bytes, *, every: bool = False) -> list[Prompt]:
        """The user's prompts in conversation order. There are no branches."""
        return [row.prompt for row in _parse_lines(data) if row.prompt is not None]

    def cut_before_prompt(self, data: bytes, prompt: Prompt) -> bytes | None:
        """The lines before a prompt; None if nothing was said before it."""
        table = _parse_lines(data)
        return _first_lines_if_said(data, table, find_line_of_prompt(table, prompt))

    def cut_at_checkpoint(self, data: bytes, cursor: "Cursor", trigger: str) -> bytes | None:
        """The lines at a checkpoint; None if nothing had been said yet. Raises AgentError if its messages are gone.

        The cursor's turn is the newest message at that time. A turn ends before the next prompt. A tool's message is kept
        after the tool, and left out before it.
        """
        table = _parse_lines(data)
        if cursor.turn_id == NEW:
            return None
        called = next((at for at, row in enumerate(table) if cursor.tool_use_id and cursor.tool_use_id in row.calls), None)
        if called is not None:
            return _first_lines_if_said(data, table, called + 1)
        at = next((at for at, row in enumerate(table) if cursor.turn_id and row.id[:START] == cursor.turn_id), None)
        if at is None:
            raise errors.AgentError("the position of that checkpoint is not in this conversation")
        if trigger == "tool_batch":
            return _first_lines_if_said(data, table, at if table[at].kind == transcript.ASSISTANT else at + 1)
        if trigger in ("turn_end", "session_end"):
            at += 1
            while at < len(table) and table[at].kind in (transcript.ASSISTANT, transcript.UNKNOWN):
                at += 1
            return _first_lines_if_said(data, table, at)
        return _first_lines_if_said(data, table, at + 1)

    def title_of(self, data: bytes) -> str:
        """The session's title, else the start of its first prompt, else ""."""
        first = next(iter(transcript.parse_lines(data)), None)
        info = transcript.object_or_empty((first.value or {}).get("info")) if first is not None else {}
        if name := transcript.text_or_empty(info.get("title")):
            return name
        return title_from_prompts(self.prompts(data))

    def make_fork(self, data: bytes, cut: bytes, session: str, *, original: str = "", root: str = "") -> bytes:
        """`cut` as a new session: the line about the session gets the new id and title."""
        name = fork_title(self.title_of(data))

        def change(value: Value) -> Value | None:
            if value.get("type") != "session" or not isinstance(value.get("info"), dict):
                return None
            return {**value, "id": session, "info": {**value["info"], "id": session, "title": name}}

        return transcript.with_lines_replaced(cut, change)

    def read_stored_transcript(self, path: str) -> bytes:
        """A session's lines, from the database. `path` is `<database>.sessions/<session>.jsonl`, which is no file. Returns
        b"" without such a session. Raises AgentError for a database that cannot be read."""
        import sqlite3
        from contextlib import closing
        from urllib.parse import quote

        directory, name = os.path.split(path)
        database, session = directory.removesuffix(_SUFFIX), name.removesuffix(".jsonl")
        if not directory.endswith(_SUFFIX) or not os.path.isfile(database):
            return b""
        try:
            with closing(sqlite3.connect(f"file:{quote(database)}?mode=ro", uri=True, timeout=5)) as opened:
                opened.row_factory = sqlite3.Row
                return _read_session_as_lines(opened, session)
        except (sqlite3.Error, ValueError, KeyError, IndexError, RecursionError) as error:
            from ..messages import printable

            raise errors.AgentError(f"OpenCode's {printable(database)} cannot be read: {error}") from error

    def write_fork(self, original: str, session: str, data: bytes, path: str, root: str, environ: Mapping[str, str]) -> str:
        """Import a new session with the client. Returns the path by which it is read here."""
        import json
        import tempfile

        from .. import programs
        from ..messages import printable, write_error
        from . import run_program

        program = programs.find_program(self.program, environ)
        if program is None:
            raise errors.AgentError(f"{self.program} is not on the PATH, and only it can write a session: nothing was written")
        try:
            with tempfile.TemporaryDirectory(prefix="casrewind-") as scratch:
                file = os.path.join(scratch, "session.json")
                with open(file, "x", encoding="utf-8") as opened:
                    json.dump(fork_as_import(data, session, root), opened)
                # Without its configuration: a plugin there would make it look for packages on the network first
                there = os.path.dirname(original).removesuffix(_SUFFIX)
                data_home = os.path.dirname(os.path.dirname(there))
                moved = {"XDG_CONFIG_HOME": scratch, "XDG_DATA_HOME": data_home, "OPENCODE_CONFIG_DIR": scratch}
                command = [program, "--pure", "import", file]
                ran = run_program.run_briefly(command, cwd=root, environ={**environ, **moved}, seconds=_SECONDS)
        except OSError as error:
            raise write_error(error, "the session") from error
        made = os.path.join(os.path.dirname(original), f"{session}.jsonl")
        if ran.trouble or ran.code or not self.read_stored_transcript(made):
            said = ran.trouble or run_program.last_line_or_error(ran.err or ran.out)
            raise errors.AgentError(f"OpenCode did not import the session: {printable(said)}")
        return made

    def new_session_id(self) -> str:
        """A new session's id, as the client makes it: newer sessions have smaller ids."""
        import time

        moment = ~(time.time_ns() // 1_000_000 * 0x1000) & (1 << 48) - 1
        return f"ses_{moment:012x}{_random_id_end()}"

    def ask_about_hooks(
        self, hooks: "Sequence[InstalledHook]", program: str, root: str | None, environ: Mapping[str, str]
    ) -> "ClientAnswer":
        """OpenCode says which plugins it loads."""
        from .hook_records import ClientAnswer, first_user_file

        path = first_user_file(hooks)
        return ClientAnswer(tuple(_problem_if_not_loaded(program, path, environ) if path else ()))


CLIENT = OpencodeClient()


def _read_session_as_lines(database: "Connection", session: str) -> bytes:
    import json

    row = database.execute("select * from session where id = ?", (session,)).fetchone()
    if row is None:
        return b""
    columns = set(row.keys())
    info = {ours: row[column] for ours, column in _COLUMNS.items() if column in columns and row[column] is not None}
    info |= {name: json.loads(row[name]) for name in ("model", "permission") if name in columns and row[name]}
    info["time"] = {"created": row["time_created"], "updated": row["time_updated"]}
    reverted = (json.loads(row["revert"]) or {}).get("messageID", "") if "revert" in columns and row["revert"] else ""
    parts: dict[str, list[Value]] = {}
    for part in database.execute("select * from part where session_id = ? order by id", (session,)):
        about = {**json.loads(part["data"]), "id": part["id"], "sessionID": session, "messageID": part["message_id"]}
        parts.setdefault(part["message_id"], []).append(about)
    found: list[Value] = [{"type": "session", "id": session, "info": info}]
    for message in database.execute("select * from message where session_id = ? order by time_created, id", (session,)):
        if reverted and message["id"] >= reverted:
            break
        about = {**json.loads(message["data"]), "id": message["id"], "sessionID": session}
        found.append({"type": "message", "id": message["id"], "info": about, "parts": parts.get(message["id"], [])})
    return b"".join(map(transcript.encode_line, found))


def fork_as_import(data: bytes, session: str, root: str) -> Value:
    """A fork's lines as the client imports them. Messages and parts get new ids. `root` replaces a directory that is
    missing or of another project."""
    import json
    import re

    from . import fork_files

    info: Value = {}
    messages: list[Value] = []
    for line in transcript.parse_lines(data):
        value = line.value or {}
        if value.get("type") == "session":
            info = {**transcript.object_or_empty(value.get("info")), "id": session}
        elif value.get("type") == "message":
            about = {**transcript.object_or_empty(value.get("info")), "sessionID": session}
            messages.append(
                {"info": about, "parts": [{**part, "sessionID": session} for part in transcript.content_blocks(value.get("parts"))]}
            )
    directory = fork_files.directory_in_project(transcript.text_or_empty(info.get("directory")), root)
    if directory != info.get("directory"):
        info = {**info, "directory": directory}
        info.pop("path", None)
    own = {name for message in messages for name in (message["info"].get("id"), *(part.get("id") for part in message["parts"]))}
    renamed = {name: name[:START] + _random_id_end() for name in own if isinstance(name, str) and re.fullmatch(_ID, name)}
    renaming = re.sub(_ID, lambda found: renamed.get(found[0], found[0]), json.dumps(messages))
    return {"info": info, "messages": json.loads(renaming)}


def _random_id_end() -> str:
    import secrets

    return "".join(secrets.choice(_DIGITS) for _ in range(14))


def _words_of_user(value: Value) -> str:
    """The user's own words in a message, without what the client adds."""
    parts = [part for part in transcript.content_blocks(value.get("parts")) if part.get("type") == "text" and not part.get("synthetic")]
    return CLIENT.as_typed("\n".join(transcript.text_or_empty(part.get("text")) for part in parts))


def _parse_lines(data: bytes) -> list[OpencodeLine]:
    return [_parse_line(line) for line in transcript.parse_lines(data)]


def _parse_line(line: transcript.TranscriptLine) -> OpencodeLine:
    value = line.value or {}
    kind, name = CLIENT.kind_of_line(line.value), transcript.text_or_empty(value.get("id"))
    info = transcript.object_or_empty(value.get("info"))
    prompt = None
    if kind == transcript.PROMPT and name:
        created = transcript.object_or_empty(info.get("time")).get("created")
        moment = created * 1_000_000 if type(created) is int and 0 < created < 1 << 50 else 0
        prompt = Prompt(
            _words_of_user(value), "", name[:START], name, transcript.text_or_empty(info.get("parentID")), moment, line.start, queued=False
        )
    calls = tuple(
        transcript.text_or_empty(part.get("callID")) for part in transcript.content_blocks(value.get("parts")) if part.get("type") == "tool"
    )
    return OpencodeLine(line.start, line.end, kind, name, calls, prompt)


def _first_lines_if_said(data: bytes, table: Sequence[OpencodeLine], count: int) -> bytes | None:
    """The first `count` lines, without unknown ones at the end; None if nothing was said in them."""
    count = transcript.count_to_known_end(table, count)
    if not any(row.kind in (transcript.PROMPT, transcript.ASSISTANT) for row in table[:count]):
        return None
    return data[: table[count - 1].end]


def _problem_if_not_loaded(program: str, path: str, environ: Mapping[str, str]) -> list[str]:
    """Returns a problem if the client does not load the extension at `path`, else nothing.

    A client that does not answer in time is no problem: it may wait for a network.
    """
    import json

    from ..messages import printable
    from . import run_program

    ran = run_program.run_briefly([program, "debug", "config"], cwd="/", environ=environ, seconds=_ANSWER_SECONDS)
    try:
        loaded = None if ran.trouble or ran.code else json.loads(ran.out).get("plugin")
    except (ValueError, AttributeError, RecursionError):
        return []
    if not isinstance(loaded, list):
        return []
    names = [locations.real_path(name.removeprefix("file://")) for name in loaded if isinstance(name, str)]
    if locations.real_path(path) in names:
        return []
    return [f"OpenCode does not load {printable(path)}: casrewind install opencode writes it again"]
