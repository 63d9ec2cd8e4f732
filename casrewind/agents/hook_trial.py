"""A client's program and our hooks, tried: run for a moment, as somebody else would run them.

The dangers prevented here: a program that hangs, floods, or leaves a child behind that holds its pipes, and that takes
along whoever wanted to know its version; and a trial that is taken for something that happened.
"""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .. import launch
from .._typing import NamedTuple
from .profiles import TIERS, Profile

_KEPT = 64 << 10
"""Bytes of each stream that are kept; what comes after them is read and dropped."""
_STEP = 0.02
_VERSION_SECONDS = 8.0  # the programs have hundreds of megabytes, and may lie on a slow disk
_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)*(?:[-+][A-Za-z0-9.]+)?)(?![\w.])")
_BARE_PATH = "/usr/bin:/bin"
"""What a client that was started from a desktop may have for a PATH."""
_TOOL = "CasrewindDoctor"
"""There is none of that name: it may change files, for all that a hook knows."""


class TrialResult(NamedTuple):
    """What a program did: its exit code, -N for the signal N (None: it did not start, or did not end), the beginning of
    what it wrote, how many milliseconds it took, and what kept it from ending by itself, or ""."""

    code: int | None
    out: bytes
    err: bytes
    milliseconds: int
    trouble: str


def run(command: Sequence[str], *, cwd: str, environ: Mapping[str, str], seconds: float, data: bytes = b"") -> TrialResult:
    """Run a program with `data` (less than a pipe holds) on standard input; after `seconds` it and its children are killed.

    Raises nothing. Who it left behind in a session of its own goes on, and is not waited for.
    """
    start = time.monotonic()
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(
            list(command), stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=dict(environ), start_new_session=True
        )
    except (OSError, ValueError) as error:
        return TrialResult(None, b"", b"", 0, f"cannot be started: {getattr(error, 'strerror', None) or error}")
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    kept = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    try:
        with suppress(OSError):  # it need not read
            child.stdin.write(data)
            child.stdin.close()
        ended = _wait(child, kept, start + seconds)
    finally:
        milliseconds = int((time.monotonic() - start) * 1000)
        if child.returncode is None:
            _kill(child)
        for stream in (child.stdin, child.stdout, child.stderr):
            with suppress(OSError):
                stream.close()
    out, err = (bytes(part) for part in kept.values())
    if not ended:
        return TrialResult(None, out, err, milliseconds, f"did not end within {seconds:g} s")
    return TrialResult(child.returncode, out, err, milliseconds, "")


def _wait(child: "subprocess.Popen[bytes]", kept: Mapping[int, bytearray], end: float) -> bool:
    """Read what it writes until it has ended; False when the time is up."""
    streams = list(kept)
    while (left := end - time.monotonic()) > 0:
        if not streams:
            with suppress(subprocess.TimeoutExpired):
                child.wait(left)
            return child.returncode is not None
        ended = child.poll() is not None
        ready = select.select(streams, (), (), 0 if ended else min(_STEP, left))[0]
        if ended and not ready:
            return True  # who else holds the pipes is not waited for
        for fd in ready:
            part = os.read(fd, 1 << 16)
            kept[fd].extend(part[: _KEPT - len(kept[fd])])
            if not part:
                streams.remove(fd)
    return child.returncode is not None


def _kill(child: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)  # it was not waited for yet: nobody else has the number
    try:
        child.wait(1.0)
    except subprocess.TimeoutExpired:
        child.returncode = -signal.SIGKILL  # the system cannot end it; nobody is to warn of that


def find(program: str, environ: Mapping[str, str]) -> str | None:
    """Where a program is on the PATH. Relative entries do not count: they would find programs of the project."""
    places = [place for place in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(place)]
    return shutil.which(program, path=os.pathsep.join(places)) if places else None


def version(profile: Profile, program: str, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """(the version that a client's program tells, None when it tells none; then what it did instead)."""
    ran = run([program, *profile.version], cwd="/", environ=environ, seconds=_VERSION_SECONDS)
    if ran.trouble:
        return None, ran.trouble
    if ran.code:
        return None, f"ends with {ran.code}{_quoted(ran.err or ran.out)}"
    line = next((line.strip() for line in ran.out.decode("utf-8", "replace").splitlines() if line.strip()), "")
    found = _VERSION.search(line) if line.isprintable() and "\ufffd" not in line and len(line) <= 200 else None
    if found is None or len(found[1]) > 40:
        return None, f"prints no version{_quoted(ran.out)}"
    return found[1], ""


def _quoted(data: bytes) -> str:
    said = last_line(data)
    return f": {said}" if said else ""


def last_line(data: bytes) -> str:
    """What a program said last, short, for a message; if it speaks of errors, the last that it names."""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    named = [line for line in lines if "Error:" in line or "error:" in line]
    return (named or lines or [""])[-1][:200]


def payload(profile: Profile, event: str, session: str, project: str, transcript: str) -> bytes:
    """What the client says to a hook at an event."""
    said: dict[str, object] = {"name": event, "session": session, "transcript": transcript, "cwd": project}
    trigger, _ = profile.events.get(event, ("", ""))
    if trigger == "prompt":
        said |= {"prompt": "casrewind doctor", "prompt_id": str(uuid.uuid4()), "message_id": str(uuid.uuid4())}
    elif event in profile.by_tool:
        said["tool"] = _TOOL
    elif trigger == "tool_batch":
        said["tools"] = [{profile.fields["tool"][0]: _TOOL}]
    return json.dumps({profile.fields[field][0]: value for field, value in said.items()}).encode()


def environment(profile: Profile, environ: Mapping[str, str], project: str, data: str) -> dict[str, str]:
    """The variables of a hook in a project, with `data` for the directory of stores: those of whoever asks, but for the
    PATH and for what names a session that is going on. The tier is the one that takes every event."""
    left_out = {*profile.pid_variables, *profile.env_file_variables}
    kept = {name: value for name, value in environ.items() if name not in left_out}
    given = {"PATH": _BARE_PATH, "CASREWIND_HOME": data, "CASREWIND_TIER": TIERS[-1], launch.TRIAL: "1"}
    return {**kept, **given, **dict.fromkeys(profile.root_variables, project)}
