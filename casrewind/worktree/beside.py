"""A fork that scans some of a worktree while this process scans the rest: for a first save, where everything is read.

This process walks as it always does. When the fork has nothing to do it is given some of the directories that are still to be
entered, from as near to the root as there are any. It sends what it finds: the records of blobs, and of every directory that is
done, with all that is under it, one *part*. When the walk comes to a directory of which it has the part, it takes that; when it
has nothing left to do itself, the fork is asked to break off, and gives back what it has not begun.

The danger prevented here: believing half of an answer. A part is of a whole directory, or it is not sent; nothing of it
counts until the walk takes it in the directory's place. What the fork did not do, could not do (it decides nothing that is out of
the ordinary), or died with, is scanned here as if there were no fork. It opens files of the worktree and nothing else: it
inherits no lock, writes nothing but the pipe, and ends when this process does.
"""

import marshal
import os
import select
from contextlib import suppress

from ..model import manifest, paths
from ..model.domain import RuleRef, Skip
from ..typed import Any
from .directory import Directory
from .files import Worktree
from .fork import BREAK_OFF, FRAME, PARTS, RECORDS, SHARE, serve
from .ignore import Rules
from .passes import Apart, Pass
from .sheet import Part

_MOST_BYTES = 1 << 32  # of a message; more is nonsense
_PIPE, _AT_ONCE = 1 << 20, 1 << 18  # bytes that may wait in a pipe while this process is busy, and that it reads in one go
_MOST_TOLD = 32 << 10  # bytes of what the fork is told: so much goes into an empty pipe
_SELDOM = 8  # steps of the walk from one look at the pipe to the next: a look takes a tenth of a small directory's time
_MOST_NAMES = 32  # directories given at once
_PATIENCE = 10  # seconds without a word after which the fork is given up
_F_SETPIPE_SZ = 1031
_SIGKILL = 9  # everywhere; to import `signal` takes as long as a hundred files


class Beside:
    """The fork, seen from the process that walks. `close` it, whatever happens."""

    def __init__(self, tree: Worktree, shared: Pass, rules: Rules, apart: Apart) -> None:
        """Begin. `rules` are known to the fork without being told. Raises OSError when there can be no fork."""
        self._shared, self._apart = shared, apart
        self._told = {rules.digest}
        self._owner: Directory | None = None  # whose children the fork has
        self._parts: dict[bytes, tuple[Any, ...]] = {}
        self._mine: set[bytes] = set()  # directories that were given back
        self._received = bytearray()
        self._idle, self._pid, self._asked, self._turns = True, 0, False, -1
        theirs, self._writer = os.pipe()
        try:
            self._reader, ours = os.pipe()
            try:
                with suppress(OSError, AttributeError):
                    import fcntl

                    fcntl.fcntl(ours, _F_SETPIPE_SZ, _PIPE)
                os.set_blocking(self._writer, False)  # a fork that is stopped is not waited for
                self._pid = os.fork()
                if self._pid == 0:
                    serve(tree, shared, rules, apart, theirs, ours)
            except BaseException:
                os.close(self._reader)
                raise
            finally:
                os.close(ours)
        except BaseException:
            os.close(self._writer)
            raise
        finally:
            os.close(theirs)
        self._poll = select.poll()
        self._poll.register(self._reader, select.POLLIN)

    def meet(self, stack: list[Directory]) -> None:
        """Take what it has sent, and give it more when it has nothing to do."""
        self._turns += 1
        if not self._pid or self._turns % _SELDOM:
            return
        while self._pid and self._poll.poll(0):
            self._receive()
        if self._idle and self._pid and sum(len(directory.children) for directory in stack) > 1:  # one is for this process
            for directory in stack:
                if directory.children and self._give(directory):
                    return

    def _give(self, directory: Directory) -> bool:
        """Give it some of a directory's children; whether that was done."""
        names = [name for name in directory.children if paths.join(directory.path, name) not in self._mine]
        names = names[: min(-(-len(names) // 2), _MOST_NAMES)]
        if not names:
            return False
        digest = directory.rules.digest
        files = None if digest in self._told else [tuple(file) for file in directory.rules.files]
        if not self._tell((SHARE, directory.path, digest, files, names)):
            return False
        self._told.add(digest)
        given = set(names)
        directory.children = [name for name in directory.children if name not in given]
        directory.away, self._owner, self._idle, self._asked = names, directory, False, False
        return True

    def _tell(self, command: tuple[Any, ...]) -> bool:
        data = marshal.dumps(command)
        data = FRAME.pack(len(data)) + data
        if len(data) > _MOST_TOLD:  # rules as long as that
            return False
        try:
            done = os.write(self._writer, data)
        except OSError:
            done = 0
        if done < len(data):
            self._give_up()
        return done == len(data)

    def wait(self) -> None:
        """Return when the fork has done what it was given, or has given it back."""
        if not self._asked:
            self._asked = True
            self._tell((BREAK_OFF,))
        silent = 0
        while self._pid and not self._idle:
            if self._poll.poll(1000):
                silent = 0
                self._receive()
            else:
                silent += 1
                if silent >= _PATIENCE or self._is_stopped():
                    self._give_up()

    def _is_stopped(self) -> bool:
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        except OSError:
            return False
        if pid and not os.WIFSTOPPED(status):
            self._pid = 0  # it ended, and is reaped
            self._give_back()
        return bool(pid)

    def _receive(self) -> None:
        try:
            data = os.read(self._reader, _AT_ONCE)
        except OSError:
            data = b""
        if not data:
            self._give_up()
            return
        self._received += data
        while self._pid and len(self._received) >= FRAME.size:
            (length,) = FRAME.unpack_from(self._received)
            if length > _MOST_BYTES:
                self._give_up()
                return
            if len(self._received) < FRAME.size + length:
                return
            try:
                with memoryview(self._received)[FRAME.size : FRAME.size + length] as message:
                    kind, told = marshal.loads(message)  # noqa: S302 - our own fork wrote it
            except (ValueError, EOFError, TypeError):
                self._give_up()
                return
            del self._received[: FRAME.size + length]
            if kind == RECORDS:
                self._apart.take(told)
            elif kind == PARTS:
                self._parts.update((part[0], part) for part in told)
            else:
                self._give_back()

    def _give_back(self) -> None:
        """The directory has its children again, those that are done and those that are not."""
        self._idle = True
        if self._owner is not None:
            self._mine.update(paths.join(self._owner.path, name) for name in self._owner.away)
            self._owner.children += self._owner.away
            self._owner.away, self._owner = [], None

    def _give_up(self) -> None:
        """The fork is of no use any more."""
        self._end()
        self._give_back()

    def take(self, path: bytes) -> Part | None:
        """The part of a directory, which is added up with all else; None when there is none."""
        part = self._parts.pop(path, None)
        if part is None:
            return None
        self._mine.discard(path)
        sums = [0, 0, 0, 0]
        skipped: list[Skip] = []
        shared, waiting = self._shared, [part]
        while waiting:
            _, _, _, *more, skips, rules, fresh, records, trees, inside = waiting.pop()
            sums = [one + other for one, other in zip(sums, more, strict=True)]
            skipped += [Skip(*skip) for skip in skips]
            shared.rules += [RuleRef(*rule) for rule in rules]
            shared.fresh.extend(fresh)
            shared.records.update(records)
            shared.trees.update(trees)
            shared.left.update(trees)
            waiting += [self._parts.pop(below) for below in inside]
        entries, files, size, ignored = sums
        return Part(manifest.dir_entry(part[1], part[2]), files, size, ignored, entries, skipped)

    def _end(self) -> None:
        pid, self._pid = self._pid, 0
        if pid:
            with suppress(OSError):  # it has nothing to lose, and may have been stopped
                os.kill(pid, _SIGKILL)
            self._let_go()
            with suppress(OSError):  # a client may have had all children reaped unasked
                os.waitpid(pid, 0)

    def _let_go(self) -> None:
        for fd in (self._reader, self._writer):
            if fd >= 0:
                os.close(fd)
        self._reader = self._writer = -1

    def close(self) -> None:
        """Let go of the fork; what it is doing is not waited for."""
        self._end()
        self._let_go()
