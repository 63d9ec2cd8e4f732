"""The store's log: what went wrong where nobody was looking, one line each, shown by the next command.

The danger prevented here: a hook that fails in silence for weeks. A hook may print nothing and must not fail its client;
so it writes here, and whoever runs casrewind next is told.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress

from .. import fsio

LINE = 2000
"""The most characters of what is written down at once."""
_MOST = 256 << 10
"""Bytes after which the log is begun anew; the one before it is kept beside it."""


class FailureLog:
    """The log in one directory: a store's, or, where there is none, the data directory's."""

    def __init__(self, directory: str) -> None:
        """Nothing is opened yet."""
        self._path = os.path.join(directory, "log")
        self._seen = os.path.join(directory, "log.seen")

    def add(self, text: str) -> bool:
        """Write a line down; whether it is there now. Failing here is nobody's business but that of who has another log."""
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {fsio.printable(text)[:LINE]}\n"
        with suppress(OSError, ValueError):
            with suppress(FileNotFoundError):
                if os.stat(self._path).st_size > _MOST:
                    os.replace(self._path, self._path + ".old")
                    self._note(0)
            self._append(self._path, line.encode("utf-8", "surrogateescape"))
            return True
        return False

    def unseen(self) -> list[str]:
        """The lines that nobody was shown yet; they count as shown from now on."""
        try:
            size = os.stat(self._path).st_size
        except OSError:
            return []
        shown = 0
        with suppress(OSError, ValueError):
            shown = int(fsio.read_file(self._seen, 30))
        if size <= shown:
            return []
        with suppress(OSError):
            data = fsio.read_from(self._path, shown)
            self._note(shown + len(data))
            return [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
        return []

    def blank(self, is_bad: Callable[[bytes], bool], *, dry: bool = False) -> int:
        """Put blanks in place of the lines for which `is_bad` is true, here and in the log before, durable when this returns.

        Returns how many lines those are. Each line keeps its length, so all others keep their places. A file is replaced as a
        whole: a killed process leaves no half of a line. Raises OSError.
        """
        count = 0
        for path in (self._path, self._path + ".old"):  # in this order: a log that is renamed meanwhile is read twice
            try:
                fd = fsio.open_regular(path)
            except FileNotFoundError:
                continue
            try:
                lines = fsio.read_fd(fd).split(b"\n")
                bad = {number for number, line in enumerate(lines) if is_bad(line)}
                count += len(bad)
                if bad and not dry:
                    data = b"\n".join(b" " * len(line) if number in bad else line for number, line in enumerate(lines))
                    directory, name = os.path.split(path)
                    fsio.replace_file(directory, name, data, temporary=os.path.join(directory, "tmp"))
                    self._append(path, fsio.read_fd(fd))  # what a hook has written meanwhile
            finally:
                os.close(fd)
        return count

    @staticmethod
    def _append(path: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        try:
            fsio.apply_umask_fd(fd)
            fsio.write_all(fd, data)
        finally:
            os.close(fd)

    def _note(self, offset: int) -> None:
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self._seen, flags, 0o600)
            try:
                fsio.apply_umask_fd(fd)
                fsio.write_all(fd, str(offset).encode())
            finally:
                os.close(fd)
