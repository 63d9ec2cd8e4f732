"""The listener: takes in what clients post at the events of their sessions, and has it done.

There is one for a user, whatever projects there are. The command hooks of starts and prompts tell it of their session (ask.py):
where that is, by whom and with which environment they were called, for a post says nothing of that. What is posted then is handed to
the helper of the project, or else to a process that runs the hook's own command line; and it is answered when that is done.

The dangers prevented here: a post of somebody else's (posts.py; and the kernel is asked whose the connection is); an event that makes
something else than a checkpoint, so only those are taken that an installation has posted; one that is done in the wrong
project, so none is guessed: of an unknown session nothing is done, and its next command hook finds what there is; an environment
with secrets in it on a disk, so it is kept in memory only; and a listener that is gone while a turn goes on for hours.
"""

import os
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress

from .. import door, errors, fsio
from ..agents import event as events
from ..agents import ours, profiles, sessions, trap
from ..agents.event import Event
from ..agents.profile import Profile
from ..store.log import Log
from ..typed import NamedTuple
from . import ask, asked, listening, places, posts, resident

_ROUND = 15.0  # seconds after which a listener looks whether it is still the one, and whether anybody has need of it
_STARTING = 0.3
"""Seconds that somebody who only looks whether there is a listener may hold its lock."""
_MEETING = 10.0  # seconds for which a process that has found another listener tries to tell that one of its session
_BEHIND = 0.5
"""Seconds that a post waits for its session to be told of: that was said before, and may not have been heard yet."""
_CONNECTIONS = 128
_SESSIONS = 1000
_UNHURRIED = 150.0  # seconds that the process which does a hook's work may take; that one has a budget of its own
_SAID = 100


class _Stop(BaseException):
    """It is to end."""


class Already(errors.WorkspaceError):
    """There is one."""


class _Session(NamedTuple):
    """What a command hook has told of a session: who called it, and the client's process (None: unknown)."""

    caller: ask.Caller
    process: sessions.Process | None


class Listener:
    """The listener. `serve` until it is over, then `close`."""

    def __init__(self, idle: float) -> None:
        """Be ready to be told. Raises Already where there is one, StoreNotWritable, OSError."""
        self._idle, self._log = idle, Log(places.data_directory())
        directory = places.helpers()
        os.makedirs(directory, mode=0o700, exist_ok=True)
        lock = fsio.open_lock(listening.lock())
        if lock is None:
            raise errors.StoreNotWritable(f"{fsio.show(directory)} cannot be written: no listener can be found there")
        self._lock = lock
        try:
            fsio.acquire(lock, exclusive=True, deadline=_STARTING, holder="listener")
        except errors.StoreBusy:
            os.close(lock)
            raise Already("there is a listener already") from None
        self._name = ask.listener()
        self._directory = os.open(directory, fsio.DIRECTORY_FLAGS)
        self._told = self._listen()
        self._port: socket.socket | None = None
        self._address = ours.Address(0, "")
        self._sessions: dict[str, _Session] = {}
        self._news = threading.Condition()
        self._open = self._at_work = 0
        self._asked = time.monotonic()
        self._said: set[str] = set()
        self._bind()

    def _listen(self) -> socket.socket:
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._directory)  # of one that is gone: we hold its lock
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            found.bind(f"/proc/self/fd/{self._directory}/{self._name}")
        finally:
            os.umask(before)
        found.listen(64)
        found.settimeout(1.0)
        self._identity = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        return found

    def _bind(self) -> None:
        """Listen where posts go to now: an installation may have chosen another port, and a port that was taken may be free."""
        address = listening.kept()
        if address is None or (address == self._address and self._port is not None):
            return
        self._address = address
        if self._port is not None:
            self._port.close()
            self._port = None
        try:
            self._port = listening.listen(address.port)
            resident.say(self._lock, str(address.port))
        except OSError as error:
            why = error.strerror or str(error)
            resident.say(self._lock, "", why)
            self._complain(f"port {address.port} cannot be had ({why}): casrewind install claude chooses another")

    def close(self) -> None:
        """Be found no more; what is under way is waited for, the processes that do it go on in any case."""
        if self._is_found():
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)
        self._told.close()
        if self._port is not None:
            self._port.close()
        with self._news:
            self._news.wait_for(lambda: not self._at_work, timeout=asked.HURRY)
        os.close(self._lock)
        os.close(self._directory)

    def _is_found(self) -> bool:
        try:
            there = os.stat(os.path.join(places.helpers(), self._name), follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(self._identity, there)

    def serve(self, first: asked.Request | None) -> str:
        """Take in what is told and posted until it is over; why it is. `first` was told by the hook that has started this."""
        os.chdir("/")  # it keeps nothing mounted
        with suppress(_Stop):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, _stop)
            if first is not None:
                self._take(first)
            while self._is_found():
                if time.monotonic() - self._asked > self._idle and not self._is_needed():
                    return "it had nothing to do"
                self._wait()
                self._bind()
            return "something else has come into the place of its socket"
        return "it was told to"

    def _is_needed(self) -> bool:
        """Whether a client lives that may post something yet. Those of the others are forgotten."""
        with self._news:
            gone = [name for name, known in self._sessions.items() if known.process and not sessions.is_alive(known.process)]
            for name in gone:
                del self._sessions[name]
            return self._at_work > 0 or any(known.process is not None for known in self._sessions.values())

    def _wait(self) -> None:
        """Wait for something, and see to it: first to what is told, posts may rest on it."""
        poll = select.poll()
        poll.register(self._told.fileno(), select.POLLIN)
        if self._port is not None:
            poll.register(self._port.fileno(), select.POLLIN)
        left = max(min(_ROUND, self._asked + self._idle - time.monotonic()), 0.05)
        found = {fd for fd, _ in poll.poll(left * 1000 + 1)}
        if self._told.fileno() in found:
            with suppress(OSError, ValueError, IndexError):  # half a word, or the end of one that was not meant for us
                talk, _ = self._told.accept()
                with talk:
                    request = asked.read(talk) if ask.peer(talk) == os.geteuid() else None
                if request is not None:
                    self._bind()  # the session may be one that has another address in its settings
                    self._take(request)
        elif self._port is not None and self._port.fileno() in found:
            self._meet(self._port)

    def _take(self, request: asked.Request) -> None:
        """Take in what a command hook tells of its session."""
        profile = profiles.PROFILES.get(request.words[0] if request.words else "")
        environ = {os.fsdecode(name): os.fsdecode(value) for name, value in request.variables.items()}
        try:
            event = None if profile is None else events.read(profile, request.payload, environ)
        except errors.MalformedEvent:
            event = None  # the hook has written that down
        if profile is None or event is None or not event.session:
            return
        for text in trap.obstacles(profile, self._address.url(profile.name), (), environ):  # those of the client itself
            self._complain(text)
        process = sessions.client(event) or sessions.caller(request.parent)
        process = process if process is not None and process.start else None  # of another place, where numbers mean others
        once = {os.fsencode(name) for name in profile.env_file_variables}  # it is for this one event
        variables = {name: value for name, value in request.variables.items() if name not in once}
        if process is not None:
            variables |= {os.fsencode(name): str(process.pid).encode() for name in profile.pid_variables}
        with self._news:
            self._sessions.pop(event.session, None)
            self._sessions[event.session] = _Session((request.directory, request.parent, variables), process)
            if len(self._sessions) > _SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._asked = time.monotonic()
            self._news.notify_all()

    def _meet(self, port: socket.socket) -> None:
        """Take a connection, and leave it to a thread."""
        with suppress(OSError):
            talk, _ = port.accept()
            with self._news:
                full = self._open >= _CONNECTIONS
                self._open += not full
            if full:
                talk.close()
                self._complain(f"more than {_CONNECTIONS} connections at once: the next one was closed")
                return
            try:
                threading.Thread(target=self._attend, args=(talk, self._address), daemon=True).start()
            except RuntimeError:  # there may be no more threads
                talk.close()
                with self._news:
                    self._open -= 1

    def _attend(self, talk: socket.socket, address: ours.Address) -> None:
        """All of one connection, in a thread of its own."""
        try:
            with talk:
                talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if (user := posts.owner(talk)) != os.geteuid():
                    whose = "a user that the kernel does not name" if user is None else f"user {user}"
                    self._complain(f"a connection of {whose} was closed")
                    return
                line = posts.Line(talk, address)
                try:
                    while (post := line.read()) is not None:
                        line.answer(200, self._see_to(post))
                        if not post.stays:
                            return
                except posts.Refused as refusal:
                    self._complain(f"refused: {refusal.why}")
                    line.refuse(refusal.status)
        except OSError:
            pass  # the client has gone
        except Exception as error:
            self._complain(f"{type(error).__name__}: {error}")
        finally:
            with self._news:
                self._open -= 1

    def _see_to(self, post: posts.Post) -> str:
        """Have done what a post is for; what is to be added to the answer. Raises Refused."""
        if post.path == posts.TRIAL:
            return f"{ours.HEADER}: {os.getpid()}\r\n"
        profile = next((known for name, known in profiles.PROFILES.items() if known.posts and post.path == ours.path_of(name)), None)
        if profile is None:
            raise posts.Refused(404, "a request for a path of nobody's")
        try:
            event = events.read(profile, post.body, {})
        except errors.MalformedEvent as error:
            raise posts.Refused(400, str(error)) from None
        if event.name not in profile.posts:
            raise posts.Refused(403, "an event that casrewind has no client post")
        with self._news:
            self._asked = time.monotonic()
            self._news.wait_for(lambda: event.session in self._sessions, timeout=_BEHIND)
            known = self._sessions.get(event.session)
            self._at_work += known is not None
        if known is None:
            self._complain(
                f"{event.name} of session {event.session} was posted, and no hook has told of that session: nothing was saved; the "
                f"next prompt does it"
            )
            return ""
        try:
            self._work(profile, event, post, known.caller)
        finally:
            with self._news:
                self._asked = time.monotonic()
                self._at_work -= 1
                self._news.notify_all()
        return ""

    def _work(self, profile: Profile, event: Event, post: posts.Post, caller: ask.Caller) -> None:
        """Have the helper do it, or else a process that runs the hook's own command line."""
        said = ask.ask(places.helpers(), [profile.name], post.body, post.at_ns, time.monotonic(), caller)
        if said == ask.MADE:
            return
        more = [event.name, "--child", str(post.at_ns), "--asked"] if said == ask.UNKNOWN else []
        here, _, variables = caller
        null = subprocess.DEVNULL
        child = subprocess.Popen(
            [*door.command(), "hook", profile.name, *more], stdin=subprocess.PIPE, stdout=null, stderr=null,
            start_new_session=True, cwd=here if os.path.isdir(here) else "/", env=variables,
        )  # fmt: skip
        try:
            child.communicate(post.body, timeout=_UNHURRIED)
        except subprocess.TimeoutExpired:
            child.returncode = 0  # it goes on without us; nobody is to warn that it was not waited for
        if child.returncode:
            self._complain(f"{event.name}: the process that was to make the checkpoint ended with {child.returncode}")

    def _complain(self, text: str) -> None:
        """Write a line down, each once."""
        with self._news:
            if text in self._said or len(self._said) >= _SAID:
                return
            self._said.add(text)
        self._log.add(f"posted hooks: {text}")


def listen(idle: float, said: bytes) -> str:
    """Be the listener until it is over, why it is; or tell the one that there is what was `said` by the hook that started this.
    Raises CasrewindError, OSError."""
    try:
        first = asked.parse(said) if said else None
    except (ValueError, IndexError):
        first = None
    try:
        found = Listener(idle)
    except Already:
        end = time.monotonic() + _MEETING
        while first is not None and time.monotonic() < end:
            if ask.tell(places.helpers(), first.words, first.payload, first.at_ns, (first.directory, first.parent, first.variables)):
                break
            time.sleep(0.05)  # it has its lock, and is about to make its socket
        raise
    try:
        return found.serve(first)
    finally:
        found.close()


def _stop(number: int, _: object) -> None:
    raise _Stop(number)
