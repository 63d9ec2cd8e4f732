"""The command, called in this process, with a terminal of its own before it: what `Session` gives, without a start of the
interpreter for every call. What a signal does belongs to a process, and is tested with `Session`."""

import io
import os
import pty
import struct
import termios
import threading
from contextlib import ExitStack
from fcntl import ioctl

from .command import Result
from .command_in_process import _surroundings


def on_terminal(inside, line, *, columns=100, typed="", **variables):
    """Run a command line as `inside` (an InProcess) does: the exit code, and in `out` all that was shown, in `err` nothing.
    `typed` is what the person has typed before it is asked for; a question with [y/N] drops that, and gets the next line of it."""
    from casrewind.cli.main import main

    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown = []
    reader = threading.Thread(target=_read, args=(master, shown, typed.splitlines(keepends=True)))
    reader.start()
    with ExitStack() as stack:
        stack.callback(os.close, master)
        stack.callback(reader.join)
        stack.callback(os.close, slave)
        os.write(master, typed.encode())
        files = [stack.enter_context(open(os.dup(slave), mode, encoding="utf-8", errors="surrogateescape")) for mode in ("r", "w", "w")]
        with _surroundings({"TERM": "xterm-256color", **inside.environment, **variables}, *files[1:]):
            import sys

            sys.stdin = files[0]
            try:
                code = main(["-C", inside.root, *line])
            except SystemExit as end:
                code = end.code
            for stream in files[1:]:
                stream.flush()
    return Result(code, b"".join(shown).decode("utf-8", "replace"), "")


def _read(master, shown, answers):
    asked = 0
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # EIO: nobody has the other side open any more
            return
        if not part:
            return
        shown.append(part)
        while asked < min(b"".join(shown).count(b"[y/N"), len(answers)):
            os.write(master, answers[asked].encode())
            asked += 1


def into_nothing(inside, line, **variables):
    """Run a command line whose standard output nobody reads any more: the result, its `out` empty."""
    from casrewind.cli.main import main

    reader, writer = os.pipe()
    os.close(reader)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    out = open(writer, "w", encoding="utf-8")  # noqa: SIM115 - closed below, where a flush may fail
    try:
        with _surroundings({**inside.environment, **variables}, out, err):
            try:
                code = main(["-C", inside.root, *line])
            except SystemExit as end:
                code = end.code
    finally:
        try:
            out.close()
        except BrokenPipeError:
            pass
    return Result(code, "", err.buffer.getvalue().decode("utf-8", "replace"))
