"""A command on a terminal of its own, as a person has it: what it wrote, and answers typed when a prompt is seen."""

import os
import pty
import select
import struct
import subprocess
import termios
import time
from fcntl import ioctl

PATIENCE = 30


class Session:
    """A running command. `read_until(b"...")`, `type("y\\n")`, `end()` -> (exit code, everything that was shown)."""

    def __init__(self, arguments, environment, *, size=(24, 100), stdin=None, stdout=None, stderr=None):
        """Streams given are used instead of the terminal."""
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        chosen = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        self.process = subprocess.Popen(
            arguments, env={"TERM": "xterm-256color", **environment}, start_new_session=True,
            **{name: slave if stream is None else stream for name, stream in chosen.items()},
        )  # fmt: skip
        os.close(slave)
        self.shown = b""

    def read_until(self, wanted):
        end = time.monotonic() + PATIENCE
        while wanted not in self.shown:
            assert time.monotonic() < end, self.shown
            assert self._read(), self.shown

    def _read(self):
        if not select.select([self._master], [], [], PATIENCE)[0]:
            return False
        try:
            part = os.read(self._master, 1 << 16)
        except OSError:  # EIO: nobody has the other side open any more
            return False
        self.shown += part
        return bool(part)

    def sleep_until_it_reads(self):
        """Give the command the moment between showing its question and waiting for the answer."""
        time.sleep(0.5)

    def type(self, text):
        os.write(self._master, text.encode())

    def end(self):
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE), self.shown
