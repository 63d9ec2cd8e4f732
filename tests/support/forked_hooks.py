"""Many calls of the hook: each in a process of its own that is forked from one which has imported casrewind already.

What a start of the interpreter costs is saved, and nothing else: descriptors 0 to 2 are the hook's own, and it ends as ever.
"""

import base64
import glob
import json
import os
import subprocess
import sys
from typing import NamedTuple


class Called(NamedTuple):
    """What a hook left: its exit code, its output, and the lines of the logs of the data directory and its stores."""

    code: int
    out: bytes
    err: bytes
    lines: list


class HookFork:
    """`call(["claude"], payload)` runs the hook with `environment`, whose CASREWIND_HOME has the logs."""

    def __init__(self, environment):
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)], env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def call(self, words, payload, **variables):
        asked = {"words": list(words), "payload": base64.b64encode(payload).decode(), "variables": variables}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Called(told["code"], *(base64.b64decode(told[name]) for name in ("out", "err")), told["lines"])

    def stop(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def logged(directory):
    """The lines of the logs, which are gone then."""
    lines = []
    for path in [os.path.join(directory, "log"), *glob.glob(os.path.join(directory, "stores", "*", "log"))]:
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                lines += file.read().splitlines()
            os.unlink(path)
    return lines


def serve():
    import casrewind.ops.agent_event
    import casrewind.ops.save
    import casrewind.settings
    from casrewind import agents
    from casrewind.agents import event, payload  # noqa: F401 - only loaded
    from casrewind.hook.handler import run

    agents.load_clients()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        files = [os.memfd_create(name) for name in ("in", "out", "err")]
        os.write(files[0], base64.b64decode(asked["payload"]))
        os.lseek(files[0], 0, os.SEEK_SET)
        pid = os.fork()
        if pid == 0:
            for number, fd in enumerate(files):
                os.dup2(fd, number)
            os.closerange(3, files[-1] + 1)
            os.environ.update(asked["variables"])
            sys.stdin = open(0)
            run(asked["words"])
        _, status = os.waitpid(pid, 0)
        told = {"code": os.waitstatus_to_exitcode(status), "lines": logged(os.environ["CASREWIND_HOME"])}
        for name, fd in zip(("out", "err"), files[1:], strict=True):
            told[name] = base64.b64encode(os.pread(fd, 1 << 20, 0)).decode()
        for fd in files:
            os.close(fd)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    serve()
