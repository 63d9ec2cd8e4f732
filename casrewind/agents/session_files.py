"""A client's sessions: where their files are, which of them may be written, and how a fork is written.

The first danger prevented here: overwriting a user's file because a checkpoint or an event names it as a transcript.
Another user may have written the store, and any program can send an event. `refuse_unsafe_transcript_path` decides which path may be a
transcript.

The second danger: a conversation of another project is found. The name of a directory is only a hint. A transcript
counts if its working directory is the project's root, or below the root and not in another project.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress

from .. import errors, fsio, locations
from .._typing import NamedTuple
from ..messages import printable, write_error
from . import fork_files, load_conversation_clients
from . import transcript as transcripts
from .client import ConversationClient
from .transcript import is_session_id

_READ = 1 << 18  # bytes of a transcript in which its working directory is looked for
_TRANSCRIPTS_TRIED = 200  # newest transcripts that are looked at
_NAME = 180
"""Characters of a root that its directory's name always has. A client replaces the rest of a long root by a hash."""


FORK_INSTEAD = "leave --in-place out to get a fork"
"""What a person does where a session cannot be rewritten."""


class Homes(NamedTuple):
    """The user's home directory, and the environment variables that may relocate a client's files."""

    home: str
    environ: Mapping[str, str]


def refuse_unsafe_transcript_path(client: ConversationClient, path: str, session: str, homes: Homes) -> None:
    """Raise AgentError for a path that cannot be a session's transcript.

    A transcript is a file in or below the client's sessions directory, and its name fits the session. Directories are
    compared by real path, so links out of the sessions directory are refused.
    """
    directory = os.path.dirname(path)
    is_below = False
    kept = [client.usual_sessions_directory(homes.home, environ) for environ in (homes.environ, {})]
    kept += [os.path.abspath(moved)] if (moved := client.sessions_directory_by_variable(homes.environ)) else []
    try:
        real = locations.real_path(directory)
        is_below = bool(path) and any(locations.is_below(real, locations.real_path(place)) for place in kept)
        mode = os.lstat(path).st_mode if is_below else stat.S_IFREG
    except FileNotFoundError:
        mode = stat.S_IFREG  # the file is gone, but the store still has its bytes
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise errors.AgentError(f"the transcript {printable(path)} cannot be looked at: {reason}; nothing was written") from error
    if is_below and is_session_id(session) and _is_named_after_session(client, path, session) and stat.S_ISREG(mode):
        return
    variable = client.sessions.variable or client.places.home_variable or client.places.home_moved_by
    places = " or ".join(dict.fromkeys(printable(place) for place in kept))
    has_plain_name = client.sessions.derived or client.sessions.name.startswith("{")
    plain = (client.sessions.derived or "{session}.jsonl").format(session=session)
    named = plain if has_plain_name else f"with {session[:8]} in its name"
    raise errors.AgentError(
        f"refused: the checkpoint names {printable(path) or 'no file'} as the transcript of session {printable(session)}, and "
        f"{client.title} keeps that as a file {printable(named)} below {places}: nothing was written",
        f"if the client's files are elsewhere, set {variable} to the value that the client has",
    )


def _is_named_after_session(client: ConversationClient, path: str, session: str) -> bool:
    """True if a path ends with the name of a session's transcript, which may have directories in it."""
    pattern = client.sessions.name.format(session=re.escape(session), short=re.escape(session[:8]))
    return re.fullmatch(pattern, "/".join(path.split(os.sep)[-1 - pattern.count("/") :])) is not None


class FoundTranscript(NamedTuple):
    """A transcript: the agent's name, the session and the path."""

    agent: str
    session: str
    path: str


def find_newest_transcript(homes: Homes, root: str, session: str = "") -> FoundTranscript | None:
    """The transcript of a root that was written last; with `session` only that session's."""
    found = _find_transcripts_newest_first(homes, root, session)[:_TRANSCRIPTS_TRIED]
    return next((one for one in found if session in ("", one.session) and _ran_in_project(one.path, root)), None)


def sessions_with_prefix(homes: Homes, root: str, prefix: str) -> frozenset[str]:
    """The sessions of a root, as far as their clients' files show them, whose ids begin with `prefix`."""
    return frozenset(one.session for one in _find_transcripts_newest_first(homes, root, prefix) if _ran_in_project(one.path, root))


def _find_transcripts_newest_first(homes: Homes, root: str, prefix: str) -> list[FoundTranscript]:
    """The transcripts that may be those of a root, of sessions whose ids begin with `prefix`."""
    found = []
    for client in load_conversation_clients():
        for path in _transcripts_by_directory_name(client, homes, root):
            name = os.path.basename(path).removesuffix(".jsonl")
            identity = name if client.sessions.name.startswith("{") else name.rpartition("_")[2]
            if is_session_id(identity) and identity.startswith(prefix):
                with suppress(OSError):
                    found.append((os.stat(path).st_mtime_ns, FoundTranscript(client.name, identity, path)))
    return [one for _, one in sorted(found, reverse=True)]


def _transcripts_by_directory_name(client: ConversationClient, homes: Homes, root: str) -> Iterator[str]:
    """Transcripts in the directories of a client that may be those of a root: their names are made of its path."""
    if not client.sessions.by_project:
        return
    directory = client.sessions_directory_by_variable(homes.environ) or client.usual_sessions_directory(homes.home, homes.environ)
    import unicodedata  # no hook needs it

    # a client may have been started with another spelling of the path, on a disk that folds names
    begins = tuple({_letters_and_digits(unicodedata.normalize(form, root))[:_NAME] for form in ("NFC", "NFD")})
    with suppress(OSError):
        for entry in os.scandir(directory):
            if _letters_and_digits(entry.name).startswith(begins) and entry.is_dir():
                with suppress(OSError):
                    yield from (one.path for one in os.scandir(entry.path) if one.name.endswith(".jsonl") and one.is_file())


def _letters_and_digits(path: str) -> str:
    """The letters and digits of a path, in lower case. Clients replace all other characters in the names of directories."""
    return "".join(character for character in path if character.isascii() and character.isalnum()).lower()


def _ran_in_project(path: str, root: str) -> bool:
    """True if a transcript's first working directory is a root, or below it and in no repository of its own."""
    try:
        with open(path, "rb") as file:
            data = file.read(_READ)
    except OSError:
        return False
    named = [transcripts.text_or_empty((line.value or {}).get("cwd")) for line in transcripts.parse_lines_containing(data, b'"cwd"')]
    first = next((place for place in reversed(named) if os.path.isabs(place)), "")
    return first != "" and _is_in_repository_of(locations.real_path(first), root)


def _is_in_repository_of(place: str, root: str) -> bool:
    if not locations.is_in(place, root):
        return False
    while place != root:
        if os.path.lexists(os.path.join(place, ".git")):
            return False
        place = os.path.dirname(place)
    return True


def _is_of_session(client: ConversationClient, data: bytes, session: str) -> bool:
    """True if the bytes are a session's transcript: JSON lines, one of them with the session's id."""
    first = next(transcripts.parse_lines(data), None)
    if first is None:
        return not data
    if first.value is None:
        return False
    is_header = bool(client.sessions.header) and transcripts.member_at_keys(first.value, client.sessions.header) == session
    return is_header or any(
        (line.value or {}).get("sessionId") == session for line in transcripts.parse_lines_containing(data, session.encode())
    )


def replace_with_backup(client: ConversationClient, transcript: str, data: bytes, now: str, session: str = "") -> str | None:
    """Replace a session's transcript by `data` (mode 0600). Returns the backup's path, None without an old transcript.

    The old transcript must be JSON lines with the id `session` (by default from its name). The backup is durable
    before anything changes; its name contains `now`, and the client does not list it. Raises AgentError, StoreFull;
    then the transcript is unchanged.
    """
    directory, name = os.path.split(transcript)
    backup = None
    try:
        fsio.make_directories(directory)
        fsio.remove_orphans(directory)
        with suppress(FileNotFoundError):
            before = fork_files.read_session_file(transcript)
            if not _is_of_session(client, before, session or name.removesuffix(".jsonl")):
                raise errors.AgentError(
                    f"refused: {printable(transcript)} does not hold lines of that session: it is unchanged",
                    FORK_INSTEAD
                )
            backup = _free_path(os.path.join(directory, f"{name}.before-rewind-{now}"))
            fsio.replace_file(directory, os.path.basename(backup), before)
        fsio.replace_file(directory, name, data)
    except OSError as error:
        raise write_error(error, f"{client.title}'s {printable(transcript)}, which is unchanged") from error
    return backup


def _free_path(path: str) -> str:
    """`path`, or a numbered variant of it that does not exist."""
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = f"{path}-{number}"
    return found
