"""The store's failure log: one line per failure in a hook or background process. The next command shows new lines.

The danger prevented here: a hook that fails silently for weeks. A hook may print nothing and must not fail its
client, so it logs the failure here.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress

from .. import fsio
from ..messages import printable

LINE = 2000
"""Maximum characters of one log line."""
_TIME = len("2026-01-01T00:00:00Z ")
_MOST_READ = 2 << 20
"""Bytes of a log that are read. No log of casrewind is longer; of a longer one, the end is neither shown nor kept."""
_LOG_BYTES = 256 << 10
"""Bytes after which the log is rotated. One previous log is kept."""


class FailureLog:
    """The log in one directory: a store's, or the data directory's if there is no store."""

    def __init__(self, directory: str) -> None:
        """Opens nothing yet."""
        self._path = os.path.join(directory, "log")
        self._seen = os.path.join(directory, "log.seen")

    def append_line(self, text: str) -> bool:
        """Append a line. Returns True if it was written; errors are otherwise ignored."""
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {printable(text)[:LINE]}\n"
        with suppress(OSError, ValueError):
            with suppress(FileNotFoundError):
                if os.stat(self._path).st_size > _LOG_BYTES:
                    os.replace(self._path, self._path + ".old")
                    self._note_shown_up_to(0)
            self._write_bytes(self._path, line.encode("utf-8", "surrogateescape"))
            return True
        return False

    def take_unseen_lines(self) -> list[str]:
        """The lines not yet shown to the user. They count as shown from now on."""
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
            data = fsio.read_file(self._path, _MOST_READ, start=shown)
            self._note_shown_up_to(shown + len(data) if len(data) < _MOST_READ else size)
            lines = data.decode("utf-8", "replace").splitlines()
            return [line[: LINE + _TIME] for line in lines if line.strip(" \0")]
        return []

    def blank_bad_lines(self, is_bad: Callable[[bytes], bool], *, dry: bool = False) -> int:
        """Overwrite the lines for which `is_bad` is true with blanks, durably, in this log and the previous one.
        Returns the number of lines. Each line keeps its length, so offsets remain valid. Each file is replaced
        atomically, so a killed process leaves no partial line. Raises OSError."""
        count = 0
        for path in (self._path, self._path + ".old"):  # in this order: a log rotated in between is read twice
            try:
                fd = fsio.open_regular(path)
            except FileNotFoundError:
                continue
            with fsio.closing(fd):
                lines = fsio.read_fd(fd, _MOST_READ).split(b"\n")
                bad = {number for number, line in enumerate(lines) if is_bad(line)}
                is_longer = len(os.pread(fd, 1, _MOST_READ)) > 0
                count += len(bad) + is_longer
                if (bad or is_longer) and not dry:
                    data = b"\n".join(b" " * len(line) if number in bad else line for number, line in enumerate(lines))
                    directory, name = os.path.split(path)
                    drafts = os.path.join(directory, "tmp")  # the data directory has none
                    fsio.replace_file(directory, name, data, temporary=drafts if os.path.isdir(drafts) else None)
                    if not is_longer:
                        self._write_bytes(path, fsio.read_fd(fd, _MOST_READ))  # lines that a hook appended since the read
        return count

    @staticmethod
    def _write_bytes(path: str, data: bytes, how: int = os.O_APPEND) -> None:
        flags = os.O_WRONLY | os.O_CREAT | how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with fsio.closing(os.open(path, flags, 0o600)) as fd:
            fsio.undo_umask_fd(fd)
            fsio.write_all(fd, data)

    def _note_shown_up_to(self, offset: int) -> None:
        with suppress(OSError):
            self._write_bytes(self._seen, str(offset).encode(), os.O_TRUNC)
