"""The picker in a terminal window of its own, which tmux gives it."""

import shlex
import subprocess
import sys
import time

import pytest

PATIENCE = 30


class Window:
    """`casrewind` alone in a tmux window of its own: keys, and what is on the screen."""

    def __init__(self, casrewind, socket, size, **variables):
        pytest.importorskip("textual")
        self._socket, self._environment = str(socket), {**casrewind.environment, "TERM": "xterm-256color", **variables}
        command = f"{shlex.quote(sys.executable)} -m casrewind -C {shlex.quote(str(casrewind.root))}; echo ended with $?; exec sleep 600"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "sh", "-c", command)

    def _tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self._socket, *words], env=self._environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def screen(self, *more):
        return self._tmux("capture-pane", "-p", "-J", *more)

    def shows(self, *wanted):
        end = time.monotonic() + PATIENCE
        while not all(words in self.screen() for words in wanted):
            assert time.monotonic() < end, self.screen()
            time.sleep(0.02)
        return self.screen()

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def end(self):
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], env=self._environment, check=False, capture_output=True)
