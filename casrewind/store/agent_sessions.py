"""The last known state of each agent session: one small JSON file each, and `session.json` for the newest.

The files describe the present, are replaced at every event, and may be lost: a rewind relies only on checkpoints and
the ledger. The danger prevented here: a rewind cuts a conversation while its client is still writing it.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from .. import fastjson, fsio
from .._typing import NamedTuple
from ..model import digest as digests
from ..model.checkpoint import RUN

VERSION = 1
NEWEST = "session.json"
_DIRECTORY = "sessions"
_UNTOLD = ".untold"
_END = ".json"
_RUN_END = ".run"  # never taken for the session of an agent, also by earlier versions
_SESSION_BYTES = 64 << 10  # bytes of a session file


class AgentSession(NamedTuple):
    """A session as of its client's last event.

    `transcript` and `root` are paths; `worktree` is the root's key in hex. `updated_ns` is the time of the event
    (nanoseconds since 1970), `event` the client's name for it. `running`: a turn was under way. `pid` and `pid_start`
    identify the client's process (0 and "": unknown). The agent's shell reads `env_file`. `parent` is the session
    that the client reports as continued.
    """

    agent: str
    session: str
    transcript: str
    root: str
    worktree: str
    updated_ns: int
    event: str
    running: bool
    pid: int
    pid_start: str
    env_file: str
    parent: str


class AgentSessions:
    """The sessions recorded in one store."""

    def __init__(self, store: str) -> None:
        """`store` is the store's directory."""
        self._store = store
        self._place = os.path.join(store, _DIRECTORY)

    def record(self, session: AgentSession) -> None:
        """Record the state of a session. Errors are ignored: the record may be missing."""
        name = _file_name_of(session.agent, session.session)
        with suppress(OSError, ValueError):
            data = _encode_session(session)
            with suppress(FileExistsError):
                fsio.make_directory(self._place)
            self._replace_without_sync(self._place, name, data)
            if session.agent != RUN:
                self._replace_without_sync(self._store, NEWEST, data)

    def all(self) -> list[AgentSession]:
        """All recorded sessions of agents, newest first."""
        return self._read_sessions_ending_in(_END)

    def running_commands(self) -> list[AgentSession]:
        """The commands of `casrewind run` that have not ended, newest first. `session` is the id of the turn's before."""
        return self._read_sessions_ending_in(_RUN_END)

    def _read_sessions_ending_in(self, end: str) -> list[AgentSession]:
        found = []
        with suppress(OSError):
            for name in os.listdir(self._place):
                session = _read_session(os.path.join(self._place, name)) if name.endswith(end) else None
                if session is not None:
                    found.append(session)
        return sorted(found, key=lambda session: session.updated_ns, reverse=True)

    def find(self, agent: str, session: str) -> AgentSession | None:
        """One session."""
        return _read_session(os.path.join(self._place, _file_name_of(agent, session)))

    def record_since_untold(self, agent: str, session: str) -> int | None:
        """The record of the ledger after which a session was not yet told what was restored, None = it was told."""
        try:
            return int(fsio.read_file(self._path_of_untold(agent, session), _SESSION_BYTES))
        except (OSError, ValueError):
            return None

    def record_untold(self, agent: str, session: str, seq: int) -> None:
        """Record, before a session is told, that it was not told since the record `seq`. Errors are ignored."""
        path = self._path_of_untold(agent, session)
        with suppress(OSError):
            self._replace_without_sync(os.path.dirname(path), os.path.basename(path), b"%d\n" % seq)

    def record_told(self, agent: str, session: str) -> None:
        """Record that a session was told. Errors are ignored: then it is told once more."""
        with suppress(OSError):
            os.unlink(self._path_of_untold(agent, session))

    def _path_of_untold(self, agent: str, session: str) -> str:
        return os.path.join(self._place, _file_name_of(agent, session) + _UNTOLD)

    def rename_bad_events(self, is_bad: Callable[[str], bool], name: str, *, dry: bool) -> int:
        """Set the event of each row for which `is_bad` is true to `name`, unless `dry`. Returns the number of rows.
        Raises OSError."""
        bad = [session for session in self.all() if is_bad(session.event)]
        for session in bad if not dry else ():
            data = _encode_session(session._replace(event=name))
            self._replace_without_sync(self._place, _file_name_of(session.agent, session.session), data)
        newest = _read_session(os.path.join(self._store, NEWEST))
        if newest is not None and is_bad(newest.event) and not dry:
            self._replace_without_sync(self._store, NEWEST, _encode_session(newest._replace(event=name)))
        return len(bad)

    def forget_old_and_dead(self, before_ns: int, is_live: Callable[[AgentSession], bool]) -> int:
        """Forget sessions without a transcript and without an event since `before_ns`, and runs that are not live, which
        were killed. Returns their number."""
        gone = [s for s in self.all() if s.updated_ns < before_ns and not (s.transcript and os.path.lexists(s.transcript))]
        gone += [run for run in self.running_commands() if not is_live(run)]
        for session in gone:
            self.forget(session.agent, session.session)
        return len(gone)

    def forget(self, agent: str, session: str) -> None:
        """Forget a session. Errors are ignored: its process is gone, or is seen to be gone later."""
        with suppress(OSError):
            os.unlink(os.path.join(self._place, _file_name_of(agent, session)))
        self.record_told(agent, session)

    def _replace_without_sync(self, directory: str, name: str, data: bytes) -> None:
        """Replace a file. The next event repeats what a power cut loses."""
        fsio.replace_unsynced(os.path.join(directory, name), data, os.path.join(self._store, "tmp"))


def find_newest(stores: Iterable[str], agent: str, session: str) -> AgentSession | None:
    """The newest record of a session in several stores, which are directories."""
    name = os.path.join(_DIRECTORY, _file_name_of(agent, session))
    there = (path for store in stores if os.path.exists(path := os.path.join(store, name)))
    found = [one for path in there if (one := _read_session(path)) is not None]
    return max(found, key=lambda one: one.updated_ns, default=None)


def _file_name_of(agent: str, session: str) -> str:
    digest = digests.of(session.encode("utf-8", "surrogatepass"))  # an id may contain bytes that a file name may not
    return f"{agent}-{digest[:12].hex()}{_RUN_END if agent == RUN else _END}"


def _encode_session(session: AgentSession) -> bytes:
    return fastjson.encode_flat(_json_fields_of(session)).encode() + b"\n"


def _json_fields_of(session: AgentSession) -> dict[str, str | int | bool]:
    return {
        "version": VERSION,
        "agent": session.agent,
        "session_id": session.session,
        "transcript_path": session.transcript,
        "project_root": session.root,
        "updated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(session.updated_ns // 1_000_000_000)),
        **({"env_file": session.env_file} if session.env_file else {}),
        "worktree": session.worktree,
        "updated_ns": session.updated_ns,
        "event": session.event,
        "running": session.running,
        "pid": session.pid,
        "pid_start": session.pid_start,
        "parent": session.parent,
    }


def _read_session(path: str) -> AgentSession | None:
    try:
        value = fastjson.loads(fsio.read_file(path, _SESSION_BYTES).decode())
        session = AgentSession(
            agent=value["agent"],
            session=value["session_id"],
            transcript=value["transcript_path"],
            root=value["project_root"],
            worktree=value["worktree"],
            updated_ns=value["updated_ns"],
            event=value["event"],
            running=value["running"],
            pid=value["pid"],
            pid_start=value["pid_start"],
            env_file=value.get("env_file", ""),
            parent=value["parent"],
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    wanted = AgentSession.__annotations__
    return session if all(type(item) is wanted[name] for name, item in session._asdict().items()) else None
