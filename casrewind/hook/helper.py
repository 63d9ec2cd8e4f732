"""The resident helper, `casrewind watch`: it knows which files changed, so a hook compares only those.

It watches a worktree and does the work of hooks that ask for it (protocol.py). Only the knowledge about the worktree
outlives an event.

Four dangers are prevented here. The system may miss a change: so the helper compares all files from time to time. The
helper may delay a hook: so it does one job at a time and refuses other requests. It may run for ever: so it ends when
no event comes. It may do something else than the hook would do: so each hook gets a fork, which runs the hook's own
code, with the hook's environment, directory and payload. A request about another project or store is refused, and the
hook does the work itself.
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

from .. import environment, errors, fsio, locations, locks
from .._typing import NamedTuple
from ..agents import claude, client_process, droid, transcript_position
from ..messages import printable
from ..ops import agent_event, save
from ..settings import Settings, find_root, open_until_end, store_path
from ..store import agent_sessions, budget_and_gc_state
from ..store.failure_log import FailureLog
from ..store.index import Proof
from ..worktree import inotify
from ..worktree import root as roots
from ..worktree.change_set import ChangedDirectories, ChangeSet, WatchResult
from ..worktree.stat_index import StatIndex
from . import handler, helper_process, limits, protocol

_PRELOADED = (claude, droid, transcript_position, client_process, agent_event, budget_and_gc_state, agent_sessions)
"""Modules that a hook's work imports late. Importing them here saves the forks that time."""
_CHECK_EVERY = 600.0
"""Seconds between two comparisons of all files, if a save happened since the last one."""
_CHECK_SAVES = 100
_CHECK_LEAST_SAVES = 3
_CHECK_SHARE = 50.0
"""A comparison that took one second of processor time is repeated after this many seconds and _CHECK_LEAST_SAVES saves.
A small project is compared every few hooks. A large one costs one fiftieth of a core."""
_CHECK_QUIET = 0.2
"""Seconds without a hook before a comparison starts: the next hook should find the helper free."""
_ROUND = 30.0  # seconds between two checks that hooks still find this helper
_FIONREAD = 0x541B
_NICER = 10
_HELD = 0.03
"""Seconds that a hook waits for a busy helper before it is refused. A hook waits 50 ms at most."""
_STARTING = 0.3
"""Seconds that a process which only checks for a helper may hold the lock."""
_MOST = 64 << 20  # bytes of a request
_HURRY = 2.0
"""Seconds in which a hook must send its whole request."""


class _Shutdown(BaseException):
    """A signal asked this helper to end."""


class HelperAlreadyRuns(errors.WorkspaceError):
    """Another helper watches this root."""


class Helper:
    """The helper of one root. Call `serve`, then `close`."""

    def __init__(self, root: roots.Root, settings: Settings, idle: float) -> None:
        """Open the socket and start watching. Raises HelperAlreadyRuns, StoreForeign, StoreNotWritable, OSError."""
        self.root, self._settings, self._idle = root, settings, idle
        self._store = store_path(root, settings)
        directory = environment.helpers_directory()
        if why := locations.ownership_problem(environment.data_directory()):
            raise _unsafe_directory_error(environment.data_directory(), why)
        fsio.make_directories(directory)
        self._name = protocol.socket_name(os.fsencode(root.path))
        self._path = os.path.join(directory, self._name)
        self._directory = os.open(directory, fsio.DIRECTORY_FLAGS)
        status = os.fstat(self._directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:  # hooks make the same check and would not connect
            os.close(self._directory)
            raise _unsafe_directory_error(directory, "it is not yours alone")
        lock = locks.open_lock(helper_process.lock_path(root.path))
        if lock is None:
            raise errors.StoreNotWritable(f"{printable(directory)} cannot be written: hooks would find no helper there")
        self._lock = lock
        try:
            locks.acquire(lock, exclusive=True, deadline=_STARTING, holder="helper")
        except errors.StoreBusy:
            os.close(lock)
            os.close(self._directory)
            raise HelperAlreadyRuns(f"a helper watches {printable(root.path)} already") from None
        self._tree: inotify.InotifyWatcher | None = None
        self.unwatched = ""
        """Why the worktree is not watched, or ""."""
        kind = locations.file_system_type(root.path)
        if kind not in inotify.LOCAL:
            self.unwatched = f"it lies on {kind or 'an unknown file system'}, which may not report changes"
        else:
            try:
                self._tree = inotify.InotifyWatcher(os.fsencode(root.path))
            except OSError as error:
                self.unwatched = error.strerror or str(error)
        helper_process.write_helper_state(lock, self.unwatched)
        self._socket = self._make_socket()
        self._child, self._report, self._received = 0, -1, b""
        self._forked = self._last_request = self._checked = time.monotonic()
        self._saves, self._is_checking, self._check_took = 0, False, 0.0
        self._memory: StatIndex | None = None
        self._proof: Proof | None = None

    def _make_socket(self) -> socket.socket:
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._directory)  # left by a dead helper: this process holds its lock
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
        """Close the socket, stop watching, and wait for a running job."""
        if self._is_reachable():
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)
        self._socket.close()
        if self._tree is not None:
            self._tree.close()
        if self._child:
            os.close(self._report)  # the job must not wait for a reader
            with suppress(OSError):
                os.waitpid(self._child, 0)  # the job finishes its checkpoint
        os.close(self._lock)
        os.close(self._directory)

    def _is_reachable(self) -> bool:
        try:
            return os.path.samestat(self._identity, os.stat(self._path, follow_symlinks=False))
        except OSError:
            return False

    def serve(self) -> str:
        """Serve hooks until the helper ends. Returns why it ended."""
        os.chdir("/")  # do not keep a file system busy
        with suppress(_Shutdown):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, _raise_shutdown)
            while True:
                if not self._is_reachable():
                    return "its socket was replaced"
                if self._tree is not None and self._tree.over:
                    return self._tree.over
                if not self._child and time.monotonic() - self._last_request > self._idle:
                    return "idle timeout"
                self._wait_for_event_and_handle_it()
                self._compare_if_due()
        return "a signal asked it to end"

    def _wait_for_event_and_handle_it(self) -> None:
        """Wait for an event, and handle it."""
        poll = select.poll()
        holds = self._forked + _HELD - time.monotonic() if self._child else 0.0
        if holds <= 0:  # else new hooks wait: the running job may end in time for them
            poll.register(self._socket.fileno(), select.POLLIN)
        if self._child:
            poll.register(self._report, select.POLLIN)
        elif self._tree is not None:
            poll.register(self._tree.fd, select.POLLIN)
        left = holds if holds > 0 else max(min(_ROUND, self._last_request + self._idle - time.monotonic(), self._until_comparison()), 0.05)
        found = {fd for fd, _ in poll.poll(left * 1000 + 1)}
        if self._child and self._report in found:
            self._read_result()
        elif self._tree is not None and self._tree.fd in found:
            self._tree.note_changes_from_queued_events()
        if self._socket.fileno() in found:
            with suppress(OSError):
                talk, _ = self._socket.accept()
                try:
                    if not self._child and protocol.peer_user(talk) == os.geteuid():
                        self._last_request = time.monotonic()
                        self._run_in_fork(lambda watch: self._do_job_of_waiting_hook(talk, watch), self._changes_since_last_save())
                finally:
                    talk.close()

    def _compare_if_due(self) -> None:
        """Start a comparison of all files when it is due."""
        if not self._child and self._tree is not None and self._until_comparison() <= 0:
            self._saves, self._checked, self._is_checking = 0, time.monotonic(), True
            self._run_in_fork(self._compare_all_files, self._changes_since_last_save())

    def _until_comparison(self) -> float:
        """Seconds until the next comparison is due."""
        if self._child or not self._saves or self._tree is None:
            return _ROUND
        if self._saves >= _CHECK_SAVES:
            return 0.0
        now = time.monotonic()
        waits = _CHECK_EVERY
        if self._saves >= _CHECK_LEAST_SAVES:
            waits = min(waits, self._check_took * _CHECK_SHARE)
        return max(self._checked + waits - now, self._last_request + _CHECK_QUIET - now)

    def _do_job_of_waiting_hook(self, talk: socket.socket, watch: ChangeSet | None) -> bytes:
        _do_job_of_hook(talk, self.root, self._store, watch)
        return b""

    def _compare_all_files(self, watch: ChangeSet | None) -> bytes:
        if watch is None or self._tree is None:
            return b""
        with suppress(OSError):
            os.nice(_NICER)
        fd = self._tree.fd
        try:
            with open_until_end(self.root.path, self._settings, create=False) as context, context.store.hold_shared_lock():
                unseen = save.find_unreported_changes(context, watch, lambda: not any(fcntl.ioctl(fd, _FIONREAD, bytes(4))))
        except (errors.CasrewindError, OSError) as error:
            FailureLog(self._store).append_line(f"casrewind watch: the comparison of all files failed: {error}")
            return b"doubt"
        if unseen:
            names = ", ".join(printable(path) for path in unseen[:3])
            FailureLog(self._store).append_line(
                f"casrewind watch: {len(unseen)} paths had changed without a report of the system ({names}): a bug, unless by mmap, by "
                "asynchronous writes, through a block device or by another hard link; the next checkpoint has them"
            )
        return b"doubt" if unseen else b""

    def _changes_since_last_save(self) -> ChangedDirectories | None:
        """The changes in the worktree since the last save, or None if it is not watched."""
        if self._tree is None:
            return None
        self._tree.note_changes_from_queued_events()
        return self._tree.known_changes()

    def _run_in_fork(self, work: Callable[[ChangeSet | None], bytes], changes: ChangedDirectories | None) -> None:
        """Run `work` in a fork, with the known changes."""
        self._report, writer = os.pipe()
        self._received, self._forked = b"", time.monotonic()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.close(self._report)
                self._set_up_child()
                self._report_work(work, changes, writer)
            finally:
                os._exit(0)
        os.close(writer)

    def _set_up_child(self) -> None:
        """Set up the child after a fork."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _ignore_signal)  # no SIG_IGN: programs that it starts would inherit that
        self._socket.close()
        gc.disable()  # the fork is short-lived, and a collection would copy inherited memory pages

    def _report_work(self, work: Callable[[ChangeSet | None], bytes], changes: ChangedDirectories | None, report: int) -> None:
        """In the fork: run `work`, and send the result to the helper."""
        watch = None
        if self._tree is not None and changes is not None:
            watch = self._tree.make_change_set(changes, self._memory)
            watch.proof = self._proof
        said = work(watch)
        fsio.write_all(report, marshal.dumps((None if watch is None else tuple(watch.result()), said)))

    def _read_result(self) -> None:
        """Read the result of a fork."""
        part = os.read(self._report, 1 << 20)
        self._received += part
        if part:
            return
        os.close(self._report)
        _, _, used = os.wait4(self._child, 0)
        self._child, self._report = 0, -1
        if self._is_checking or (self._tree is not None and self._tree.full):  # the fork compared everything
            self._is_checking, self._check_took = False, used.ru_utime + used.ru_stime
        if self._tree is None:
            return
        try:
            told, said = marshal.loads(self._received)  # noqa: S302 - from our own fork
            result = WatchResult(*told)
        except (ValueError, EOFError, TypeError):
            self._tree.forget_all_and_watch_root()  # it is unknown which directories the fork watches
            return
        self._received = b""
        self._proof = result.proof
        self._tree.take_over_scan_result(result)
        self._memory = result.updated_index(self._memory)
        if result.failed != self.unwatched:
            self.unwatched = result.failed
            helper_process.write_helper_state(self._lock, self.unwatched)
        self._saves += result.is_known
        if said:
            self._tree.forget_all_and_watch_root()


def _unsafe_directory_error(place: str, why: str) -> errors.StoreForeign:
    """The error for a directory in which another user could replace the helper's lock and socket."""
    return errors.StoreForeign(
        f"no helper starts: hooks look for it in {printable(place)}, and {why}",
        "make the directory yours alone (chmod 700), or set CASREWIND_HOME"
    )


def _ignore_signal(number: int, _: object) -> None:
    pass


def _raise_shutdown(number: int, _: object) -> None:
    raise _Shutdown(number)

# -- in the fork: the work of one hook


class HelperRequest(NamedTuple):
    """A decoded request: a hook's arguments, event time, parent, directory, root identity, environment and payload."""

    words: list[str]
    at_ns: int
    parent: int
    directory: str
    identity: str
    variables: dict[bytes, bytes]
    payload: bytes


def _read_request(talk: socket.socket) -> HelperRequest | None:
    """Read a request, or None if it was not complete in time. Raises OSError."""
    end = time.monotonic() + _HURRY
    head = protocol.read_until(talk, 8, end)
    size = sum(_parse_lengths(head))
    if len(head) < 8 or size > _MOST:
        return None
    data = head + protocol.read_until(talk, size, end)
    told, carried = _parse_lengths(head)
    if len(data) != 8 + told + carried:
        return None
    texts = data[8 : 8 + told].split(b"\0")
    count = int(texts[2])
    words = [os.fsdecode(text) for text in texts[3 : 3 + count]]
    variables = dict(text.split(b"=", 1) for text in texts[3 + count :])
    return HelperRequest(words[2:], int(texts[0]), int(texts[1]), words[0], words[1], variables, data[8 + told :])


def _parse_lengths(head: bytes) -> tuple[int, int]:
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")


def _do_job_of_hook(talk: socket.socket, root: roots.Root, store: str, watch: ChangeSet | None) -> None:
    """Do the work of the hook that sent a request through `talk`, with the hook's environment.

    After any failure before the hook's GO, the hook does the work itself.
    """
    request = _read_request(talk)
    if request is None or request.identity != protocol.directory_identity(root.path):
        return
    os.environb.clear()
    os.environb.update(request.variables)
    os.chdir(request.directory)
    job = handler.HookJob(request.words, request.payload, request.at_ns)
    if job.event.command is not None:
        return  # the hook answers it, because the client reads the hook's output
    if not job.is_wanted():
        if _wait_for_go(talk, job.event.budget):
            _report_done(talk)
        return
    job.read_settings(job.event.budget)
    theirs = find_root(job.project_directory, job.settings)
    if theirs.path != root.path or store_path(theirs, job.settings) != store:
        return
    limits.limit_process()
    limits.raise_limit_for_index(store)
    with suppress(errors.CasrewindError, OSError), agent_event.turn_lock(store, theirs.key, 0.0):
        if not _wait_for_go(talk, job.event.budget):
            return
        log = handler.HookLog()
        try:
            _save_event_and_report(talk, request.parent, job, watch, log)
        except (Exception, limits.CpuLimitReached) as error:  # the hook was not told "done": it tries the save itself
            log.add_line(f"{' '.join(request.words[:2])} (casrewind watch): {handler.reason_for_log(error)}")


def _wait_for_go(talk: socket.socket, budget: float) -> bool:
    """Report that this process is ready. True if the hook answers "go"."""
    try:
        talk.settimeout(_HURRY)
        talk.sendall(protocol.READY + int(budget * 1000).to_bytes(4, "big"))
        return protocol.read_until(talk, 1, time.monotonic() + _HURRY) == protocol.GO
    except OSError:
        return False  # the hook does it itself


def _report_done(talk: socket.socket, notice: bytes = b"") -> None:
    with suppress(OSError):  # the hook no longer waits
        talk.sendall(protocol.DONE + len(notice).to_bytes(4, "big") + notice)


def _has_hook_printed(talk: socket.socket) -> bool:
    """True if the hook has printed what it was sent."""
    with suppress(OSError):
        return protocol.read_until(talk, 1, time.monotonic() + _HURRY) == protocol.SHOWN
    return False


def _save_event_and_report(talk: socket.socket, parent: int, job: handler.HookJob, watch: ChangeSet | None, log: handler.HookLog) -> None:
    with open_until_end(job.project_directory, job.settings, create=True, watch=watch) as context:
        log.directory = context.store.path
        seen = agent_event.session_record(context, job.event, job.at_ns, parent)
        agent_event.write_shell_variables(context, job.event)
        notice = job.notice_for_person(context, None) + job.text_for_model(context)
        try:
            if not agent_event.is_too_soon(context, job.event, job.at_ns):
                notice += job.notice_for_person(context, job.save_and_start_gc(context))
            if job.ends_session:  # the hook waits for the answer, within its budget
                job.start_push()
            _report_done(talk, notice)
            if notice and _has_hook_printed(talk):
                job.record_told()
        finally:  # the hook no longer waits: the rest of the bookkeeping
            context.store.sessions.record(seen)
            handler.log_oddities(job.event, log)
            if watch is not None:
                with suppress(errors.CasrewindError, OSError):  # then the next save compares everything
                    save.finish_watched_save(context, watch)
        if not job.ends_session:
            job.start_push()
