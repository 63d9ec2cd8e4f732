"""The resident helper, `casrewind watch`: knows what has changed, so that a hook need not look at everything.

It watches a worktree, and does the work of hooks that ask for it (ask.py says how): in a fork for each, which is the hook's own
code with the client's own environment, so that nothing outlives an event but what is known of the worktree. The dangers
prevented here: a change that nobody was told of, which is looked for from time to time; a helper that is in the way, so it does
one thing at a time and turns everybody else away; and one that is still there when nobody has need of it.
"""

import fcntl
import marshal
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from .. import agents, errors, fsio, hooks
from ..agents import claude, cursors, droid, exports, lines, profiles, sessions  # noqa: F401 - hooks import late what is here already
from ..agents import event as events
from ..agents.profile import TIERS, Profile
from ..ops import event as _recording  # noqa: F401 - as above
from ..settings import Settings, find_root, store_of
from ..store import allowance, lastgc  # noqa: F401 - as above
from ..store.log import Log
from ..typed import NamedTuple
from ..workspace import Workspace
from ..worktree import inotify
from ..worktree import root as roots
from ..worktree.watch import Watch
from . import ask, environment, hook, places

_MOST = 64 << 20  # bytes of a request
_HURRY = 2.0
"""Seconds in which a hook must have said what it wants."""
_CHECK_EVERY = 600.0
"""Seconds between two looks for changes that nobody was told of, where anything was saved since the last one."""
_CHECK_SAVES = 100
_ROUND = 30.0  # seconds after which a helper looks whether it still is the one that hooks would find
_FIONREAD = 0x541B
_NICER = 10


class _Stop(BaseException):
    """It is to end."""


class Helper:
    """The helper of one root. `serve` until it is over, then `close`."""

    def __init__(self, root: roots.Root, settings: Settings, idle: float) -> None:
        """Be ready for hooks. Raises WorkspaceError where there is one already, OSError."""
        self.root, self._settings, self._idle = root, settings, idle
        self._store = store_of(root, settings)
        directory = places.helpers()
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._name = ask.name_of(os.fsencode(root.path))
        self._path = os.path.join(directory, self._name)
        self._directory = os.open(directory, fsio.DIRECTORY_FLAGS)
        lock = fsio.open_lock(self._path + ".lock")
        if lock is None:
            raise errors.StoreNotWritable(f"{fsio.show(directory)} cannot be written: no helper can be found there")
        self._lock = lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.WorkspaceError(f"a helper watches {fsio.show(root.path)} already") from None
        self._tree: inotify.Tree | None = None
        self.unwatched = ""
        """Why nothing is watched, "" when it is."""
        kind = fsio.file_system_type(root.path)
        if kind not in inotify.LOCAL:
            self.unwatched = f"it lies on {kind or 'an unknown file system'}, where changes may come without a notice"
        else:
            try:
                self._tree = inotify.Tree(os.fsencode(root.path))
            except OSError as error:
                self.unwatched = error.strerror or str(error)
        self._socket = self._listen()
        self._child, self._report, self._told = 0, -1, b""
        self._asked = self._checked = time.monotonic()
        self._saves = 0

    def _listen(self) -> socket.socket:
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._directory)  # of a helper that is gone: we hold its lock
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        before = os.umask(0o177)
        try:
            listening.bind(f"/proc/self/fd/{self._directory}/{self._name}")
        finally:
            os.umask(before)
        listening.listen(16)
        self._identity = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        return listening

    def close(self) -> None:
        """Be found no more, and watch nothing."""
        if self._is_found():
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)
        self._socket.close()
        if self._tree is not None:
            self._tree.close()
        if self._child:
            os.close(self._report)  # nobody listens any more: it is not to wait until somebody does
            with suppress(OSError):
                os.waitpid(self._child, 0)  # what it was told to do it does
        os.close(self._lock)
        os.close(self._directory)

    def _is_found(self) -> bool:
        try:
            return os.path.samestat(self._identity, os.stat(self._path, follow_symlinks=False))
        except OSError:
            return False

    def serve(self) -> str:
        """Do the work of hooks until it is over; why it is."""
        os.chdir("/")  # it keeps nothing mounted
        with suppress(_Stop):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, _stop)
            while True:
                if not self._is_found():
                    return "something else has come into the place of its socket"
                if self._tree is not None and self._tree.over:
                    return self._tree.over
                if not self._child and time.monotonic() - self._asked > self._idle:
                    return "it had nothing to do"
                self._wait()
                self._check()
        return "it was told to"

    def _wait(self) -> None:
        """Wait for something, and see to it."""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        if self._child:
            poll.register(self._report, select.POLLIN)
        elif self._tree is not None:
            poll.register(self._tree.fd, select.POLLIN)
        left = self._asked + self._idle - time.monotonic()
        found = {fd for fd, _ in poll.poll(max(min(_ROUND, left), 0.05) * 1000)}
        if self._child and self._report in found:
            self._hear()
        elif self._tree is not None and self._tree.fd in found:
            self._tree.drain()
        if self._socket.fileno() in found:
            with suppress(OSError):
                talk, _ = self._socket.accept()
                try:
                    if not self._child and ask.peer(talk) == os.geteuid():
                        self._asked = time.monotonic()
                        self._fork(lambda watch: _answer(talk, self.root, self._store, watch))
                finally:
                    talk.close()

    def _check(self) -> None:
        """Look for changes that nobody was told of, when it is time."""
        now = time.monotonic()
        due = self._saves >= _CHECK_SAVES or (self._saves and now - self._checked > _CHECK_EVERY)
        if due and not self._child and self._tree is not None:
            self._saves, self._checked = 0, now
            self._fork(self._look)

    def _look(self, watch: Watch | None) -> bytes:
        if watch is None or self._tree is None:
            return b""
        with suppress(OSError):
            os.nice(_NICER)
        fd = self._tree.fd
        try:
            with Workspace(self.root.path, self._settings, create=False) as workspace:
                unseen = hooks.unnoticed(workspace, watch, lambda: not any(fcntl.ioctl(fd, _FIONREAD, bytes(4))))
        except (errors.CasrewindError, OSError) as error:
            Log(self._store).add(f"casrewind watch: the files could not be compared with what is known of them: {error}")
            return b"doubt"
        if unseen:
            names = ", ".join(fsio.show(path) for path in unseen[:3])
            Log(self._store).add(
                f"casrewind watch: {len(unseen)} paths had changed without a notice ({names}): a bug, unless by mmap or by another "
                "name of a file; the next checkpoint has them"
            )
        return b"doubt" if unseen else b""

    def _fork(self, work: Callable[[Watch | None], bytes]) -> None:
        """Do something in a fork, with what is known now."""
        watch = None
        if self._tree is not None:
            self._tree.drain()
            watch = self._tree.watch()
        self._report, writer = os.pipe()
        self._told = b""
        self._child = os.fork()
        if self._child == 0:
            try:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, _go_on)  # it is waited for; what it starts is not to be deaf
                os.close(self._report)
                self._socket.close()
                said = work(watch)
                told = None if watch is None else (watch.entered, watch.rest, watch.settled, watch.failed)
                fsio.write_all(writer, marshal.dumps((told, said)))
            finally:
                os._exit(0)
        os.close(writer)

    def _hear(self) -> None:
        """Take in what a fork has to say."""
        part = os.read(self._report, 1 << 20)
        self._told += part
        if part:
            return
        os.close(self._report)
        os.waitpid(self._child, 0)
        self._child, self._report = 0, -1
        if self._tree is None:
            return
        try:
            told, said = marshal.loads(self._told)  # noqa: S302 - from our own fork
        except (ValueError, EOFError, TypeError):
            self._tree.doubt()  # nobody knows what it has watched
            return
        self._tree.settle(*told)
        self._saves += told[2] is not None
        if said:
            self._tree.doubt()


def _go_on(number: int, _: object) -> None:
    pass


def _stop(number: int, _: object) -> None:
    raise _Stop(number)


class _Request(NamedTuple):
    """What a hook asks for: its arguments, when its event was, who called it, where, of which root; its environment, its payload."""

    words: list[str]
    at_ns: int
    parent: int
    directory: str
    identity: str
    variables: dict[bytes, bytes]
    payload: bytes


def _read(talk: socket.socket) -> _Request | None:
    """What is asked for, None when that was not said whole in time."""
    end = time.monotonic() + _HURRY
    head = ask.receive(talk, 8, end)
    lengths = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
    if len(head) < 8 or sum(lengths) > _MOST:
        return None
    data = ask.receive(talk, sum(lengths), end)
    if len(data) < sum(lengths):
        return None
    texts = data[: lengths[0]].split(b"\0")
    count = int(texts[2])
    words = [os.fsdecode(text) for text in texts[3 : 3 + count]]
    variables = dict(text.split(b"=", 1) for text in texts[3 + count :])
    return _Request(words[2:], int(texts[0]), int(texts[1]), words[0], words[1], variables, data[lengths[0] :])


def _answer(talk: socket.socket, root: roots.Root, store: str, watch: Watch | None) -> bytes:
    """Do the work of one hook. What goes wrong before it was told to is the hook's own to do."""
    request = _read(talk)
    if request is None or request.identity != ask.identity(root.path):
        return b""
    os.environb.clear()
    os.environb.update(request.variables)
    os.chdir(request.directory)
    profile = agents.profile_of(request.words[0] if request.words else "")
    event = events.read(profile, request.payload, os.environ, request.words[1] if len(request.words) > 1 else "")
    if event.command is not None:
        return b""  # to be answered where the client listens
    found = environment.read(store=None, force=False)
    nothing = not event.trigger or not events.wanted(profile, event, found.config.tier or TIERS[-1])
    if not nothing:
        theirs = find_root(_place(request, event), found.settings)
        if theirs.path != root.path or store_of(theirs, found.settings) != store:
            return b""
    end = time.monotonic() + _HURRY
    talk.settimeout(_HURRY)
    talk.sendall(ask.READY + int(event.budget * 1000).to_bytes(4, "big"))
    if ask.receive(talk, 1, end) != ask.GO:
        return b""
    if not nothing:
        log = hook.Log()
        found.settings = found.settings._replace(deadline=max(event.budget / 2, 0.4))
        try:
            _save(request, event, profile, found, watch, log)
        except Exception as error:
            log.add(f"{' '.join(request.words[:2])} (casrewind watch): {type(error).__name__}: {error}")
            return b""  # not done: the hook tries it itself
    with suppress(OSError):  # it has stopped waiting
        talk.sendall(ask.DONE)
    return b""


def _place(request: _Request, event: events.Event) -> str:
    return event.root or event.cwd or request.directory


def _save(
    request: _Request,
    event: events.Event,
    profile: Profile,
    found: environment.Environment,
    watch: Watch | None,
    log: hook.Log,
) -> None:
    with Workspace(_place(request, event), found.settings, create=True) as workspace:
        log.directory = workspace.store_path
        hook.note(workspace, event, request.at_ns, log, request.parent)
        if hooks.is_too_soon(workspace, event, request.at_ns):
            return
        if watch is not None:
            hooks.watched(workspace, watch)
        hook.record(workspace, event, profile, found, request.at_ns, patient=True)
