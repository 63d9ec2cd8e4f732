"""Somebody who has this repository, Python, Claude Code and the README, and nothing else: a shell on a terminal in a clean place.

Where that is allowed (root on Linux) the place is a mount namespace in which everything is read-only but a new home and a new
/tmp, so that nothing that this machine has by chance can help, and nothing outside can be changed. Elsewhere it is a new home.
The environment is made from nothing: PATH, HOME, a terminal, and what tells pip how to reach its registry from this machine.
"""

import contextlib
import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import real_clients, real_trees
from support.claude_client import MODE, TOOLS
from support.claude_model import Model

TOP = Path(__file__).resolve().parent.parent.parent
ABOVE = "/srv"
"""A directory that every machine has and hardly any uses: hidden behind the newcomer's things."""
PATIENCE = 240  # an installation on a busy machine
CHECKOUT = ("casrewind", "docs", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "hatch_build.py")
_PROMPT = re.compile(r"^\[(\d+)\] \$$")


class Readme:
    """What it says, found where a reader would look; or what another `page` says, to which it links."""

    def __init__(self, page="README.md"):
        self.text = (TOP / page).read_text("utf-8")

    def lines(self, heading, number=0):
        """The command lines of one of the sh blocks below a heading."""
        section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", self.text, re.MULTILINE | re.DOTALL)[1]
        return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[number].splitlines()

    def word(self, pattern):
        """The one word in backticks that a sentence names."""
        (found,) = re.findall(pattern, " ".join(self.text.split()))
        return found


class Newcomer:
    """`type` a command line as a person does and see what it shows; `home`: the home directory, seen from here."""

    def __init__(self, base):
        if shutil.which("tmux") is None:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("tmux is not installed")
        self._base = Path(base)
        binary = real_clients.claude()
        self.model = Model()
        self.home, self._temporary, self._programs = (self._base / name for name in ("home", "tmp", "bin"))
        for place in (self.home, self._temporary, self._programs):
            place.mkdir()
        self.walled = os.geteuid() == 0 and os.path.isdir(ABOVE) and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0
        self.place = f"{ABOVE}/newcomer" if self.walled else str(self.home)
        clone = self.home / "casrewind"
        clone.mkdir()
        for name in CHECKOUT:
            if (TOP / name).is_dir():
                shutil.copytree(TOP / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(TOP / name, clone / name)
        self._clients(binary)
        self._start(binary)

    def _clients(self, binary):
        """Claude Code as it is after its first start, with a model on this machine instead of the usual one; and Python."""
        project = f"{self.place}/shop" if self.walled else os.path.realpath(f"{self.place}/shop")
        answers = {
            "hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
            "projects": {project: {"hasTrustDialogAccepted": True}},
        }  # fmt: skip
        (self.home / ".claude.json").write_text(json.dumps(answers))
        told = {
            "ANTHROPIC_BASE_URL": self.model.address, "ANTHROPIC_API_KEY": "dummy", "NO_PROXY": "*",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
            **({} if self.walled else {"CLAUDE_CODE_TMPDIR": str(self._temporary), "XDG_RUNTIME_DIR": str(self._temporary)}),  # it leaves things in /tmp
        }  # fmt: skip
        real = f"{ABOVE}/claude" if self.walled else binary
        line = shlex.join([*self.model.inside, "env", *(f"{name}={value}" for name, value in told.items()), real, "--allowedTools", TOOLS, *MODE])
        (self._programs / "claude").write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        (self._programs / "claude").chmod(0o755)
        (self._programs / "python3").symlink_to(os.path.realpath(os.path.join(sys.base_prefix, "bin", "python3")))

    def _start(self, binary):
        cache = os.path.join(real_trees.place(), "pip")
        os.makedirs(cache, exist_ok=True)
        programs = f"{ABOVE}/bin" if self.walled else str(self._programs)
        environment = {
            "HOME": self.place, "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/sh",
            "PS1": "[$?] $ ",
            **pip_settings(),
            "PIP_CACHE_DIR": f"{ABOVE}/pip" if self.walled else cache,
        }  # fmt: skip
        shell = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "sh", "-i"]
        walls = self._base / "walls"
        walls.write_text(f"""set -e
mount -t tmpfs -o mode=0755 none {ABOVE}
mkdir {ABOVE}/newcomer {ABOVE}/bin {ABOVE}/pip
touch {ABOVE}/claude
mount --bind {shlex.quote(str(self.home))} {ABOVE}/newcomer
mount --bind {shlex.quote(str(self._programs))} {ABOVE}/bin
mount --bind {shlex.quote(cache)} {ABOVE}/pip
mount --bind {shlex.quote(binary)} {ABOVE}/claude
mount --bind {shlex.quote(str(self._temporary))} /tmp
mount -o remount,bind,ro /
exec {shlex.join(shell)}
""")
        begin = ["unshare", "--mount", "--propagation", "private", "sh", str(walls)] if self.walled else shell
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "170", "-y", "50", *begin)
        self._wait_for_prompt()

    def _tmux(self, *words):
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        socket = str(self._base / "t")
        done = subprocess.run(["tmux", "-S", socket, *words], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def screen(self, *more):
        return self._tmux("capture-pane", "-p", "-J", *more)

    def _last(self):
        return next((line.rstrip() for line in reversed(self.screen().splitlines()) if line.strip()), "")

    def _wait(self, look, good):
        end = time.monotonic() + PATIENCE
        while not good(seen := look()):
            assert time.monotonic() < end, f"{seen}\n{self.screen()}"
            time.sleep(0.05)
        return seen

    def _wait_for_prompt(self):
        return _PROMPT.match(self._wait(self._last, _PROMPT.match))[1]

    def keys(self, *names):
        self._tmux("send-keys", *names)

    def shows(self, *wanted):
        return self._wait(self.screen, lambda shown: all(words in shown for words in wanted))

    def hides(self, words):
        """Wait until these words are on the screen no more."""
        return self._wait(self.screen, lambda shown: words not in shown)

    def begin(self, line):
        """Type a command line whose program takes the terminal over."""
        self._tmux("send-keys", "-l", line)
        self._wait(self._last, lambda last: last.endswith(line.rstrip()[-60:]))
        self.keys("Enter")

    def end(self, line):
        """What was shown since a line was typed, when the shell asks for the next one; that line must have ended with 0."""
        code = self._wait_for_prompt()
        shown = self.screen("-S", "-400").rpartition(f"$ {line}")[2]
        assert code == "0", (line, code, shown)
        return "\n".join(shown.splitlines()[1:-1])

    def type(self, line):
        """Type a command line, wait until it has ended (with 0); what it showed."""
        self.begin(line)
        return self.end(line)

    def stop(self):
        subprocess.run(["tmux", "-S", str(self._base / "t"), "kill-server"], capture_output=True, timeout=60)
        self.model.stop()


def pip_settings():
    """What tells pip how to reach its registry from this machine: variables, and the configuration file of the real user. It saves time, too."""
    found = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith(("_PROXY", "_proxy", "SSL_CERT_FILE"))}
    found["PIP_NO_COMPILE"] = "0"  # pip reads this as --no-compile: what is never imported is not compiled
    with contextlib.suppress(KeyError):  # a user whom this machine does not know
        for name in (".config/pip/pip.conf", ".pip/pip.conf"):
            path = os.path.join(pwd.getpwuid(os.getuid()).pw_dir, name)
            if os.path.exists(path):
                found.setdefault("PIP_CONFIG_FILE", path)
    return found
