"""Reads, checks and writes sessions, those included that are no single file of their client.

The danger prevented here: a wrong fork of a conversation. An update of a client may change how it writes its sessions. A
transcript of an unknown format is not cut. The files of its checkpoints do not depend on it.
"""

from .._typing import TYPE_CHECKING
from . import session_files, transcript
from .profiles import Profile
from .transcript import Value

if TYPE_CHECKING:
    from . import Agent

REMEDY = "a newer casrewind may know it; casrewind restore REF restores the files of a checkpoint"
"""The next step where a transcript has an unknown format."""


def new_session(profile: Profile) -> str:
    """An id for a new session."""
    if profile.name == "opencode":
        from . import opencode

        return opencode.new_session()
    import uuid

    return str(uuid.uuid4())


def read(profile: Profile, path: str) -> bytes | None:
    """A transcript that is no file, as the client has it now; None if the path is that of a file."""
    if profile.name != "opencode":
        return None
    from . import opencode

    return opencode.read(path)


def write(profile: Profile, original: str, session: str, data: bytes, path: str, root: str, homes: session_files.Homes) -> str:
    """Write a new session at `path`, made from the session with the path `original`. Returns its path. `root` is the
    project's root. Raises AgentError, StoreFull; then there is no new session."""
    if profile.name == "copilot":
        from . import copilot

        return copilot.write_fork(original, session, data)
    if profile.name == "opencode":
        from . import opencode

        return opencode.write_fork(original, session, data, root, homes)
    return session_files.write_fork(profile, original, session, data, path)


def format_problem(agent: "Agent", data: bytes) -> str:
    """What is unknown in the bytes of a transcript, as a sentence without an end; "" if nothing is. Torn lines and
    unknown lines among known ones are no problem."""
    if not data:
        return ""
    profile = agent.PROFILE
    if wrong := version_problem(profile, data):
        return wrong
    if profile.header and not transcript.text(_member(_first(data), profile.header)):
        return f"the first line of this session is not one that {profile.title} is known to write"
    kinds, unknown = set(), []
    for line in transcript.lines(data):
        if line.value is not None:
            kind = agent.kind_of(line.value)
            kinds.add(kind)
            if kind == transcript.UNKNOWN:
                unknown.append(line.value)
    if not kinds:
        return "no line of this session is a JSON object"
    if not unknown:
        return ""
    if not (agent.prompts(data, every=True) and transcript.ASSISTANT in kinds):
        return f"this session has lines of an unknown kind{_named(unknown[0])}, and lacks prompts or answers of a known one"
    messages = {transcript.text(value.get("uuid")): value for value in unknown if transcript.members(value.get("message"))}
    parents = (transcript.text((line.value or {}).get("parentUuid")) for line in transcript.containing(data, b'"parentUuid"'))
    parent = next((name for name in parents if name and name in messages), "")
    return f"this conversation goes on from a message of an unknown kind{_named(messages[parent])}" if parent else ""


def version_problem(profile: Profile, data: bytes) -> str:
    """The problem of a transcript that names a later version of its format than is known, or ""."""
    if not profile.format_version:
        return ""
    version = _member(_first(data), profile.format_path)
    if version is None:
        return ""
    number = str(version).partition(".")[0]
    if type(version) in (int, str) and number.isascii() and number.isdigit() and int(number[:9]) <= profile.format_version:
        return ""
    return f"this session has version {str(version)[:40]} of {profile.title}'s format, and casrewind knows {profile.format_version}"


def _first(data: bytes) -> Value:
    line = next(transcript.lines(data), None)
    return {} if line is None else line.value or {}


def _member(value: object, path: tuple[str, ...]) -> object:
    """The member of an object to which these keys lead, or None."""
    for key in path:
        value = transcript.members(value).get(key)
    return value


def _named(value: Value) -> str:
    name = transcript.text(value.get("type"))[:40]
    return f" ({name})" if name else ""
