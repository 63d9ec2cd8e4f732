"""Tells whether casrewind knows the format of a transcript.

The danger prevented here: a wrong fork of a conversation. An update of a client may change how it writes its sessions. A
transcript of an unknown format is not cut. The files of its checkpoints do not depend on it.
"""

from . import transcript
from .client import ConversationClient
from .transcript import Value

REMEDY = "a newer casrewind may know it; casrewind restore REF restores the files of a checkpoint"
"""The next step where a transcript has an unknown format."""


def find_problem(client: ConversationClient, data: bytes) -> str:
    """What is unknown in the bytes of a transcript, as a sentence without an end; "" if nothing is. Torn lines and
    unknown lines among known ones are no problem."""
    if not data:
        return ""
    if wrong := find_version_problem(client, data):
        return wrong
    if client.sessions.header and not transcript.text_or_empty(transcript.member_at_keys(_first_object_in(data), client.sessions.header)):
        return f"the first line of this session is not one that {client.title} is known to write"
    kinds, unknown = set(), []
    for line in transcript.parse_lines(data):
        if line.value is not None:
            kind = client.kind_of_line(line.value)
            kinds.add(kind)
            if kind == transcript.UNKNOWN:
                unknown.append(line.value)
    if not kinds:
        return "no line of this session is a JSON object"
    if not unknown:
        return ""
    if not (client.prompts(data, every=True) and transcript.ASSISTANT in kinds):
        return f"this session has lines of an unknown kind{_type_in_brackets(unknown[0])}, and lacks prompts or answers of a known one"
    messages = {transcript.text_or_empty(value.get("uuid")): value for value in unknown if transcript.object_or_empty(value.get("message"))}
    parents = (
        transcript.text_or_empty((line.value or {}).get("parentUuid")) for line in transcript.parse_lines_containing(data, b'"parentUuid"')
    )
    parent = next((name for name in parents if name and name in messages), "")
    return f"this conversation continues from a message of an unknown kind{_type_in_brackets(messages[parent])}" if parent else ""


def find_version_problem(client: ConversationClient, data: bytes) -> str:
    """The problem of a transcript that names a later version of its format than is known, or ""."""
    if not client.sessions.version:
        return ""
    version = transcript.member_at_keys(_first_object_in(data), client.sessions.version_path)
    if version is None:
        return ""
    number = str(version).partition(".")[0]
    if type(version) in (int, str) and number.isascii() and number.isdigit() and int(number[:9]) <= client.sessions.version:
        return ""
    return f"this session has version {str(version)[:40]} of {client.title}'s format, and casrewind knows {client.sessions.version}"


def _first_object_in(data: bytes) -> Value:
    line = next(transcript.parse_lines(data), None)
    return {} if line is None else line.value or {}


def _type_in_brackets(value: Value) -> str:
    name = transcript.text_or_empty(value.get("type"))[:40]
    return f" ({name})" if name else ""
