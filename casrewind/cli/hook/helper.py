"""The resident helper, `casrewind watch`: it knows which files changed, so that a hook need not look at all of them.

It watches a worktree, and does the work of hooks that ask for it (protocol.py). Each hook gets a fork, which runs the hook's own code
with the client's own environment. Only what is known of the worktree outlives an event.

Three dangers are prevented here. The system may not report a change: so the helper looks at all files from time to time. The
helper may be in the way: so it does one thing at a time and refuses other requests. And it may stay when no client runs.
"""

import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from ... import errors, fsio
from ...agents import claude, client_process, cursors, droid, profiles, shell_env, transcript
from ...ops import agent_event, save
from ...settings import Settings, store_of
from ...store import agent_sessions, quota
from ...store.failure_log import FailureLog
from ...store.index import Proof
from ...workspace import Workspace, context_of
from ...worktree import inotify
from ...worktree import root as roots
from ...worktree.change_set import ChangedDirectories, ChangeSet, WatchResult
from ...worktree.stat_index import StatIndex
from .. import environment
from . import helper_process, job, protocol

_PRELOADED = (claude, cursors, droid, shell_env, transcript, profiles, client_process, agent_event, quota, agent_sessions)
"""Modules that the work of a hook imports where it uses them: they are here already when a fork begins."""
_CHECK_EVERY = 600.0
"""Seconds between two looks for changes that nobody was told of, where anything was saved since the last one."""
_CHECK_SAVES = 100
_CHECK_LEAST_SAVES = 3
_CHECK_SHARE = 50.0
"""A look that took a second of processor time is repeated after so many seconds and the least number of saves: a small project is
compared as a whole every few hooks, and a large one costs one fiftieth of a core."""
_CHECK_QUIET = 0.2
"""Seconds after the last hook for which such a look waits: the next hook is to find the helper ready."""
_ROUND = 30.0  # seconds after which a helper looks whether it still is the one that hooks would find
_FIONREAD = 0x541B
_NICER = 10
_HELD = 0.03
"""Seconds for which a hook is let wait while there is work under way, before it is turned away: it would wait for 50 ms."""
_STARTING = 0.3
"""Seconds that somebody who only looks whether there is a helper may hold its lock."""


class _Shutdown(BaseException):
    """It is to end."""


class HelperAlreadyRuns(errors.WorkspaceError):
    """There is one."""


class Helper:
    """The helper of one root. `serve` until it is over, then `close`."""

    def __init__(self, root: roots.Root, settings: Settings, idle: float) -> None:
        """Be ready for hooks. Raises Already where there is one, StoreForeign, StoreNotWritable, OSError."""
        self.root, self._settings, self._idle = root, settings, idle
        self._store = store_of(root, settings)
        directory = environment.helpers()
        if why := fsio.ownership_problem(environment.data_directory()):
            raise _refused(environment.data_directory(), why)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._name = protocol.name_of(os.fsencode(root.path))
        self._path = os.path.join(directory, self._name)
        self._directory = os.open(directory, fsio.DIRECTORY_FLAGS)
        status = os.fstat(self._directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:  # as hooks ask, which would not come here
            os.close(self._directory)
            raise _refused(directory, "it is not yours alone")
        lock = fsio.open_lock(helper_process.lock_of(root.path))
        if lock is None:
            raise errors.StoreNotWritable(f"{fsio.printable(directory)} cannot be written: no helper can be found there")
        self._lock = lock
        try:
            fsio.acquire(lock, exclusive=True, deadline=_STARTING, holder="helper")
        except errors.StoreBusy:
            os.close(lock)
            os.close(self._directory)
            raise HelperAlreadyRuns(f"a helper watches {fsio.printable(root.path)} already") from None
        self._tree: inotify.InotifyWatcher | None = None
        self.unwatched = ""
        """Why nothing is watched, "" when it is."""
        kind = fsio.file_system_type(root.path)
        if kind not in inotify.LOCAL:
            self.unwatched = f"it lies on {kind or 'an unknown file system'}, where changes may come without a notice"
        else:
            try:
                self._tree = inotify.InotifyWatcher(os.fsencode(root.path))
            except OSError as error:
                self.unwatched = error.strerror or str(error)
        helper_process.write_state(lock, self.unwatched)
        self._socket = self._listen()
        self._child, self._report, self._told = 0, -1, b""
        self._forked = self._asked = self._checked = time.monotonic()
        self._saves, self._looking, self._look_took = 0, False, 0.0
        self._memory: StatIndex | None = None
        self._proof: Proof | None = None

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
        with suppress(_Shutdown):
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
        holds = self._forked + _HELD - time.monotonic() if self._child else 0.0
        if holds <= 0:  # else whoever asks is let wait: it may be done in time for that, too
            poll.register(self._socket.fileno(), select.POLLIN)
        if self._child:
            poll.register(self._report, select.POLLIN)
        elif self._tree is not None:
            poll.register(self._tree.fd, select.POLLIN)
        left = holds if holds > 0 else max(min(_ROUND, self._asked + self._idle - time.monotonic(), self._until_check()), 0.05)
        found = {fd for fd, _ in poll.poll(left * 1000 + 1)}
        if self._child and self._report in found:
            self._hear()
        elif self._tree is not None and self._tree.fd in found:
            self._tree.drain()
        if self._socket.fileno() in found:
            with suppress(OSError):
                talk, _ = self._socket.accept()
                try:
                    if not self._child and protocol.peer(talk) == os.geteuid():
                        self._asked = time.monotonic()
                        self._fork(lambda watch: self._run(talk, watch), self._look_around())
                finally:
                    talk.close()

    def _check(self) -> None:
        """Look for changes that nobody was told of, when it is time."""
        if not self._child and self._tree is not None and self._until_check() <= 0:
            self._saves, self._checked, self._looking = 0, time.monotonic(), True
            self._fork(self._look, self._look_around())

    def _until_check(self) -> float:
        """Seconds until such a look is due, as far as is known now."""
        if self._child or not self._saves or self._tree is None:
            return _ROUND
        if self._saves >= _CHECK_SAVES:
            return 0.0
        now = time.monotonic()
        waits = _CHECK_EVERY
        if self._saves >= _CHECK_LEAST_SAVES:
            waits = min(waits, self._look_took * _CHECK_SHARE)
        return max(self._checked + waits - now, self._asked + _CHECK_QUIET - now)

    def _run(self, talk: socket.socket, watch: ChangeSet | None) -> bytes:
        job.run(talk, self.root, self._store, watch)
        return b""

    def _look(self, watch: ChangeSet | None) -> bytes:
        if watch is None or self._tree is None:
            return b""
        with suppress(OSError):
            os.nice(_NICER)
        fd = self._tree.fd
        try:
            with Workspace(self.root.path, self._settings, create=False) as workspace:
                context = context_of(workspace)
                with context.store.holding():
                    unseen = save.unnoticed(context, watch, lambda: not any(fcntl.ioctl(fd, _FIONREAD, bytes(4))))
        except (errors.CasrewindError, OSError) as error:
            FailureLog(self._store).add(f"casrewind watch: the files could not be compared with what is known of them: {error}")
            return b"doubt"
        if unseen:
            names = ", ".join(fsio.printable(path) for path in unseen[:3])
            FailureLog(self._store).add(
                f"casrewind watch: {len(unseen)} paths had changed without a notice ({names}): a bug, unless by mmap, by "
                "asynchronous writes, through a block device or by another name of a file; the next checkpoint has them"
            )
        return b"doubt" if unseen else b""

    def _look_around(self) -> ChangedDirectories | None:
        """What has changed in the worktree, None where it is not watched."""
        if self._tree is None:
            return None
        self._tree.drain()
        return self._tree.changes()

    def _fork(self, work: Callable[[ChangeSet | None], bytes], changes: ChangedDirectories | None) -> None:
        """Do something in a fork, with what is known to have changed."""
        self._report, writer = os.pipe()
        self._told, self._forked = b"", time.monotonic()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.close(self._report)
                self._begin()
                self._do(work, changes, writer)
            finally:
                os._exit(0)
        os.close(writer)

    def _begin(self) -> None:
        """Be a fork."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _go_on)  # it is waited for; what it starts is not to be deaf
        self._socket.close()
        gc.disable()  # it does not live long enough, and what was inherited would be copied for it

    def _do(self, work: Callable[[ChangeSet | None], bytes], changes: ChangedDirectories | None, report: int) -> None:
        """In a fork: do something, and report what was found."""
        watch = None
        if self._tree is not None and changes is not None:
            watch = self._tree.watch(changes, self._memory)
            watch.proof = self._proof
        said = work(watch)
        fsio.write_all(report, marshal.dumps((None if watch is None else tuple(watch.result()), said)))

    def _hear(self) -> None:
        """Take in what a fork has to say."""
        part = os.read(self._report, 1 << 20)
        self._told += part
        if part:
            return
        os.close(self._report)
        _, _, used = os.wait4(self._child, 0)
        self._child, self._report = 0, -1
        if self._looking or (self._tree is not None and self._tree.full):  # it has looked at everything
            self._looking, self._look_took = False, used.ru_utime + used.ru_stime
        if self._tree is None:
            return
        try:
            told, said = marshal.loads(self._told)  # noqa: S302 - from our own fork
            result = WatchResult(*told)
        except (ValueError, EOFError, TypeError):
            self._tree.forget_all()  # what it has watched is not known
            return
        self._told = b""
        self._proof = result.proof
        self._tree.adopt_result(result)
        self._memory = result.memory(self._memory)
        if result.failed != self.unwatched:
            self.unwatched = result.failed
            helper_process.write_state(self._lock, self.unwatched)
        self._saves += result.is_known
        if said:
            self._tree.forget_all()


def _refused(place: str, why: str) -> errors.StoreForeign:
    """The error for a directory in which another user could replace the helper's lock and socket."""
    return errors.StoreForeign(
        f"no helper is started, for hooks would look for it in {fsio.printable(place)}, and {why}: make that yours alone (chmod 700), or "
        f"set CASREWIND_HOME"
    )


def _go_on(number: int, _: object) -> None:
    pass


def _stop(number: int, _: object) -> None:
    raise _Shutdown(number)
