"""Runs a client's program or one of our hooks for a limited time, and asks a program for its version.

The danger prevented here: a program hangs, floods its output, or leaves a child that holds its pipes, and blocks the
caller.
"""

import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .._typing import NamedTuple
from ..fastjson import JsonObject
from ..messages import printable

_KEPT = 64 << 10
"""Bytes kept of each stream; further bytes are read and dropped."""
_POLL_SECONDS = 0.02
ANSWER_SECONDS = 30.0
"""Time for an answer of a client's program, also on a busy machine."""
_ANSWER_MOST = 4 << 20
"""Bytes of output in which an answer is looked for."""
_VERSION_SECONDS = 30.0  # the programs have hundreds of megabytes, and the disk may be slow or the machine busy
_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)*(?:[-+][A-Za-z0-9.]*[A-Za-z0-9])?)(?!\w|\.\w)")


class ProgramResult(NamedTuple):
    """The result of a program: `code`, its exit code (-N for signal N; None if it did not start or did not end), the
    beginning of its output, its duration, and what stopped it (`trouble`) or ""."""

    code: int | None
    out: bytes
    err: bytes
    milliseconds: int
    trouble: str


def run_briefly(command: Sequence[str], *, cwd: str, environ: Mapping[str, str], seconds: float, data: bytes = b"") -> ProgramResult:
    """Run a program with `data` (less than a pipe holds) on stdin; kill it and its children after `seconds`. Raises
    nothing. Children that moved to another session keep running and are not waited for."""
    start = time.monotonic()
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(
            list(command), stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=dict(environ), start_new_session=True
        )
    except (OSError, ValueError) as error:
        return ProgramResult(None, b"", b"", 0, f"cannot be started: {getattr(error, 'strerror', None) or error}")
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    kept = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    try:
        with suppress(OSError):  # the program need not read its input
            child.stdin.write(data)
            child.stdin.close()
        ended = _read_until_end(child, kept, start + seconds)
    finally:
        milliseconds = int((time.monotonic() - start) * 1000)
        if child.returncode is None:
            _kill_with_children(child)
        for stream in (child.stdin, child.stdout, child.stderr):
            with suppress(OSError):
                stream.close()
    out, err = (bytes(part) for part in kept.values())
    if not ended:
        return ProgramResult(None, out, err, milliseconds, f"did not end within {seconds:g} s")
    return ProgramResult(child.returncode, out, err, milliseconds, "")


def _read_until_end(child: "subprocess.Popen[bytes]", kept: Mapping[int, bytearray], end: float) -> bool:
    """Read the program's output until it ends. Returns False after `end`."""
    streams = list(kept)
    while (left := end - time.monotonic()) > 0:
        if not streams:
            with suppress(subprocess.TimeoutExpired):
                child.wait(left)
            return child.returncode is not None
        ended = child.poll() is not None
        ready = select.select(streams, (), (), 0 if ended else min(_POLL_SECONDS, left))[0]
        if ended and not ready:
            return True  # other processes that hold the pipes are not waited for
        for fd in ready:
            part = os.read(fd, 1 << 16)
            kept[fd].extend(part[: _KEPT - len(kept[fd])])
            if not part:
                streams.remove(fd)
    return child.returncode is not None


def _kill_with_children(child: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)  # the child was not waited for yet, so its pid is not reused
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        child.returncode = -signal.SIGKILL  # unkillable; a return code avoids Popen's warning


def ask_json_program(command: Sequence[str], cwd: str, environ: Mapping[str, str], data: bytes, number: int) -> tuple[JsonObject, str]:
    """Start a program that answers JSON lines, and send it `data`. Returns (the answer with the id `number`, the
    reason for no answer or ""). The program is ended afterwards."""
    try:
        child = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, env=dict(environ),
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return {}, f"it cannot be started: {getattr(error, 'strerror', None) or error}"
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        with suppress(OSError):
            child.stdin.write(data)  # less than a pipe holds
            child.stdin.flush()
        return _read_answer(child.stdout.fileno(), number)
    finally:
        with suppress(OSError):
            child.stdin.close()
        _end_or_kill(child)
        child.stdout.close()


def _read_answer(fd: int, number: int) -> tuple[JsonObject, str]:
    kept, end = b"", time.monotonic() + ANSWER_SECONDS
    while (left := end - time.monotonic()) > 0 and len(kept) < _ANSWER_MOST:
        if not select.select([fd], (), (), left)[0]:
            continue
        part = os.read(fd, 1 << 16)
        if not part:
            return {}, "it ended without an answer"
        kept += part
        *lines, kept = kept.split(b"\n")
        for line in lines:
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict) and value.get("id") == number:
                    return (value, "") if "result" in value else ({}, "it refused the question")
    return {}, f"it gave no answer within {ANSWER_SECONDS:g} s"


def _end_or_kill(child: "subprocess.Popen[bytes]") -> None:
    """End the program and its children; it ends by itself when its input ends."""
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        _kill_with_children(child)


def ask_version(program: str, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """Returns (version of a client's program or None, problem if None)."""
    ran = run_briefly([program, "--version"], cwd="/", environ=environ, seconds=_VERSION_SECONDS)
    if ran.trouble:
        return None, ran.trouble
    if ran.code:
        return None, f"ends with {ran.code}{colon_and_last_line(ran.err or ran.out)}"
    line = next((line.strip() for line in ran.out.decode("utf-8", "replace").splitlines() if line.strip()), "")
    found = _VERSION.search(line) if line.isprintable() and "\ufffd" not in line and len(line) <= 200 else None
    if found is None or len(found[1]) > 40:
        return None, f"prints no version{colon_and_last_line(ran.out)}"
    return found[1], ""


def colon_and_last_line(data: bytes) -> str:
    """The last line of a program's output behind a colon, or ""."""
    said = printable(last_line_or_error(data))[:200]
    return f": {said}" if said else ""


def last_line_or_error(data: bytes) -> str:
    """The last line of a program's output, shortened for a message. Lines with errors are preferred."""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    named = [line for line in lines if "Error:" in line or "error:" in line]
    return (named or lines or [""])[-1][:200]
