"""A command on a terminal of its own, as a person has it: what it wrote, and answers typed when a prompt is seen."""

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from fcntl import ioctl

PATIENCE = 30
STARTED = """
import sys
from casrewind.cli.terminal import progress
progress._PATIENCE = float(sys.argv.pop(1))
from casrewind.__main__ import main
main()
"""


def with_patience(command, seconds, *arguments):
    """The command line of `command`, which shows its progress after so many seconds."""
    return [sys.executable, "-c", STARTED, str(seconds), "-C", command.root, *arguments]


@contextmanager
def _as_in_a_terminal():
    """A run under nohup, or in the background of a shell, ignores these signals, and so would what it starts. That is started without
    a `preexec_fn`: it makes subprocess copy the whole process, which has all tests in it, and that takes 20 ms."""
    ignored = [number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT) if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


class Session:
    """A running command. `read_until(b"...")`, `type("y\\n")`, `end()` -> (exit code, everything that was shown). `settings_at_start`: the
    terminal's before the command ran."""

    def __init__(self, arguments, environment, *, size=(24, 100), stdin=None, stdout=None, stderr=None):
        """Streams given are used instead of the terminal."""
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.settings_at_start = termios.tcgetattr(self._master)
        chosen = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        streams = {name: slave if stream is None else stream for name, stream in chosen.items()}
        with _as_in_a_terminal():
            self.process = subprocess.Popen(arguments, env={"TERM": "xterm-256color", **environment}, start_new_session=True, **streams)
        os.close(slave)
        self.shown = b""

    def read_until(self, wanted, times=1):
        end = time.monotonic() + PATIENCE
        while self.shown.count(wanted) < times:
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
        """Give the command the moment between showing its question and waiting for the answer: until it sleeps, three times."""
        asleep = 0
        while asleep < 3 and self.process.poll() is None:
            time.sleep(0.05)
            with open(f"/proc/{self.process.pid}/stat", encoding="utf-8", errors="replace") as file:
                asleep = asleep + 1 if file.read().rpartition(")")[2].split()[0] == "S" else 0

    def type(self, text):
        os.write(self._master, text.encode())

    def settings(self):
        """The settings of the terminal: whether it echoes, and whether it gives lines or keys."""
        return termios.tcgetattr(self._master)

    def hang_up(self):
        """Close the terminal; the command may still run."""
        os.close(self._master)

    def end(self):
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE), self.shown


def answered(command, environment, question, way):
    """(exit code, everything that was shown) of a command that asks, on a narrow terminal without colours, when its question is
    met with ctrl-C ("ctrl-c"), the end of input ("end"), "no" or an empty line ("nothing"): without a trace of our own code
    or of colour, and interrupted only where it says so."""
    session = Session(command, {**environment, "NO_COLOR": "1"}, size=(24, 40))
    try:
        session.read_until(question)
        session.sleep_until_it_reads()
        if way == "ctrl-c":
            session.process.send_signal(signal.SIGINT)
        else:
            session.type({"end": "\x04", "no": "n\n", "nothing": "\n"}[way])
        code, shown = session.end()
    finally:
        session.process.kill()
        session.process.wait()
    assert b"Traceback" not in shown and b"\x1b" not in shown
    assert way != "ctrl-c" or b"interrupted" in shown
    return code, shown
