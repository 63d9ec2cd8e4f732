"""A session's transcript file and client process: where the file is, how a fork is written, whether the client runs.

The danger prevented here: overwriting a user's file because a checkpoint or an event names it as a transcript. Another
user may have written the store, and any program can send an event. `check_place` decides which path may be a
transcript.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from .. import errors
from .._typing import NamedTuple
from .profiles import Profile

_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class ClientProcess(NamedTuple):
    """A process. Its start time distinguishes it from a later process with the same pid; "" if unknown."""

    pid: int
    start: str


def client(pid: int) -> ClientProcess | None:
    """The client with the pid that an event reports; None if the event reports none."""
    from .. import fsio

    return ClientProcess(pid, fsio.process_start(pid)) if pid > 1 else None


_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "fish"})


def caller(parent: int = 0) -> ClientProcess | None:
    """The parent process (or the process `parent`), or the parent's parent if the parent is a shell. Used for clients
    that do not report their pid. None if unknown."""
    from .. import fsio

    pid = parent or os.getppid()
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
        if name in _SHELLS:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        start = fsio.process_start(pid)
        return ClientProcess(pid, start) if pid > 1 and start else None
    return None


def is_alive(process: ClientProcess | None) -> bool:
    """True if a process still runs, or if that is unknown."""
    from .. import fsio

    if process is None:
        return True
    if process.start:
        return fsio.process_start(process.pid) == process.start
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


def is_id(session: str) -> bool:
    """True if a text is a valid session id. It becomes part of a file name and of a shell command."""
    return 0 < len(session) <= 128 and _ID_CHARACTERS.issuperset(session) and not session.startswith("-")


def home_of(profile: Profile, home: str, environ: Mapping[str, str]) -> str:
    """The directory of a client's own files, for a user with the home directory `home`."""
    moved = environ.get(profile.home_variable) if profile.home_variable else None
    if moved:
        return os.path.abspath(moved)
    other = environ.get(profile.home_moved_by) if profile.home_moved_by else None
    return _in_home(os.path.abspath(other or home), profile.home, environ)


_BASES = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME"}
"""Directories below a home directory, and the variables that name another directory instead."""


def _in_home(home: str, place: str, environ: Mapping[str, str]) -> str:
    for base, variable in _BASES.items():
        moved = environ.get(variable, "")
        if place.startswith(base + "/") and os.path.isabs(moved):
            return os.path.join(moved, place[len(base) + 1 :])
    return os.path.join(home, place)


def sessions_of(profile: Profile, home: str, environ: Mapping[str, str]) -> str:
    """The directory of a client's sessions, for a user with the home directory `home`."""
    if profile.sessions_home:
        return os.path.join(_in_home(os.path.abspath(home), profile.sessions_home, environ), profile.sessions)
    return os.path.join(home_of(profile, home, environ), profile.sessions)


class Homes(NamedTuple):
    """The user's home directory, and the environment variables that may relocate a client's files."""

    home: str
    environ: Mapping[str, str]


def check_place(profile: Profile, path: str, session: str, homes: Homes) -> None:
    """Raise AgentError for a path that cannot be a session's transcript.

    A transcript is a file in or below the client's sessions directory, and its name fits the session. Directories are
    compared by real path, so links out of the sessions directory are refused.
    """
    from .. import fsio

    directory = os.path.dirname(path)
    is_below = False
    kept = [sessions_of(profile, homes.home, environ) for environ in (homes.environ, {})]
    kept += [os.path.abspath(moved)] if (moved := homes.environ.get(profile.sessions_variable)) else []
    try:
        real = os.path.realpath(directory)
        is_below = bool(path) and any(fsio.is_below(real, os.path.realpath(place)) for place in kept)
        mode = os.lstat(path).st_mode if is_below else stat.S_IFREG
    except FileNotFoundError:
        mode = stat.S_IFREG  # the file is gone, but the store still has its bytes
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise errors.AgentError(f"the transcript {fsio.printable(path)} cannot be looked at: {reason}; nothing was written") from error
    if is_below and is_id(session) and _is_named(profile, path, session) and stat.S_ISREG(mode):
        return
    variable = "XDG_DATA_HOME" if profile.sessions_home else profile.sessions_variable or profile.home_variable or profile.home_moved_by
    places = " or ".join(dict.fromkeys(fsio.printable(place) for place in kept))
    has_plain_name = profile.derived or profile.transcript_name.startswith("{")
    plain = (profile.derived or "{session}.jsonl").format(session=session)
    named = plain if has_plain_name else f"with {session[:8]} in its name"
    raise errors.AgentError(
        f"refused: the checkpoint names {fsio.printable(path) or 'no file'} as the transcript of session {fsio.printable(session)}, and "
        f"{profile.title} keeps that as a file {fsio.printable(named)} below {places}: nothing was written. If the client's "
        f"files are elsewhere, set {variable} as the client has it"
    )


_HEADERS = ("session_start", "session")
"""The types of lines in which `id` is the session's id."""


def _is_named(profile: Profile, path: str, session: str) -> bool:
    """True if a path ends with the name of a session's transcript, which may have directories in it."""
    import re  # late: a hook does not need it

    pattern = profile.transcript_name.format(session=re.escape(session), short=re.escape(session[:8]))
    return re.fullmatch(pattern, "/".join(path.split(os.sep)[-1 - pattern.count("/") :])) is not None


def _is_of(data: bytes, session: str) -> bool:
    """True if the bytes are a session's transcript: JSON lines, at least one of them with the session id."""
    from . import transcript as transcripts

    first = next(transcripts.lines(data), None)
    if first is None:
        return not data
    values = (line.value or {} for line in transcripts.containing(data, session.encode()))
    return first.value is not None and any(
        session in (value.get("sessionId"), value.get("id") if value.get("type") in _HEADERS else None, _started(value))
        for value in values
    )


def _started(value: Mapping[str, object]) -> object:
    """The session's id in a line that starts it, as a member of the line's `data`."""
    data = value.get("data") if value.get("type") == "session.start" else None
    return data.get("sessionId") if isinstance(data, dict) else None


def beside(transcript: str, session: str) -> str:
    """The path of another session in the directory of a transcript."""
    return os.path.join(os.path.dirname(transcript), session + ".jsonl")


def write_fork(profile: Profile, transcript: str, session: str, data: bytes, path: str = "") -> str:
    """Write a new session's transcript at `path`, by default next to that of its original session. Returns its path.

    The file has mode 0600 and is durable on return. Companion files (settings) are copied first, so that the session is
    complete at once. Raises AgentError, StoreFull; then there is no new session.
    """
    from .. import fsio

    place, name = os.path.split(transcript)
    path = path or beside(transcript, session)
    directory = os.path.dirname(path)
    if not is_id(session) or os.path.lexists(path):
        raise errors.AgentError(f"cannot make the session {fsio.printable(path)}: it is there already, or its name is no id")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)  # a client may delete it with a project's last session
        fsio.remove_orphans(directory)
        for ending in profile.companions:
            with suppress(FileNotFoundError):
                kept = fsio.read_file(os.path.join(place, name.removesuffix(".jsonl") + ending))
                fsio.replace_file(directory, session + ending, kept)
        fsio.replace_file(directory, os.path.basename(path), data)
    except OSError as error:
        for made in (*(os.path.join(directory, session + ending) for ending in profile.companions), path):
            with suppress(OSError):
                os.unlink(made)
        if fsio.is_full(error):
            raise errors.StoreFull(f"{fsio.reason_of(error)} for the session {fsio.printable(path)}: free some and try again") from error
        raise errors.AgentError(f"cannot write the session {fsio.printable(path)}: {error.strerror or error}") from error
    return path


def replace(profile: Profile, transcript: str, data: bytes, now: str, session: str = "") -> str | None:
    """Replace a session's transcript by `data` (mode 0600). Returns the backup's path, None without an old transcript.

    The old transcript must be JSON lines with the id `session` (by default from its name). The backup is durable
    before anything changes; its name contains `now`, and the client does not list it. Raises AgentError, StoreFull;
    then the transcript is unchanged.
    """
    from .. import fsio

    directory, name = os.path.split(transcript)
    backup = None
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        fsio.remove_orphans(directory)
        with suppress(FileNotFoundError):
            before = fsio.read_file(transcript)
            if not _is_of(before, session or name.removesuffix(".jsonl")):
                raise errors.AgentError(
                    f"refused: {fsio.printable(transcript)} does not hold lines of that session: it is unchanged; leave --in-place "
                    f"out to get a fork"
                )
            backup = _free(os.path.join(directory, f"{name}.before-rewind-{now}"))
            fsio.replace_file(directory, os.path.basename(backup), before)
        fsio.replace_file(directory, name, data)
    except OSError as error:
        where = fsio.printable(transcript)
        if fsio.is_full(error):
            raise errors.StoreFull(f"{fsio.reason_of(error)} to rewrite {where}: free some and try again; the file is unchanged") from error
        reason = error.strerror or str(error)
        raise errors.AgentError(f"{profile.title}'s {where} cannot be rewritten: {reason}; the file is unchanged") from error
    return backup


def _free(path: str) -> str:
    """`path`, or a numbered variant of it that does not exist."""
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = f"{path}-{number}"
    return found


_FORK = "[Fork] "


def fork_title(title: str) -> str:
    """A fork's title: the fork prefix, once, and the session's title."""
    while title.startswith(_FORK):
        title = title[len(_FORK) :]
    return _FORK + title
