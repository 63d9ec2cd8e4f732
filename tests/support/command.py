"""The real command, in a process of its own, with a home and a store that are the test's.

The process is a fork (support/forked_command.py) where that makes no difference; `StartedCommand` always starts the interpreter.
"""

import json
import os
import subprocess
import sys
from typing import NamedTuple

from . import as_macos, forked_command
from .hostile_files import limited
from .output_schema import schema_faults

CONFIG_FILE = "Library/Application Support/casrewind/config.toml" if as_macos.is_on() or sys.platform == "darwin" else ".config/casrewind/config.toml"
"""The user's configuration file, relative to the home."""


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Command:
    """`run("save", "--json")` in `root`; every environment variable that matters is the test's own."""

    forks = True

    def __init__(self, root, home, **variables):
        self.root, self.home = str(root), str(home)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": self.home,
            "CASREWIND_HOME": os.path.join(self.home, "data"),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PAGER": "cat",  # none; the tests of the pager name one
            **{key: os.environ[key] for key in ("PYTHONPATH", "COVERAGE_PROCESS_START") if key in os.environ},
            **variables,
        }

    def __call__(self, *arguments, code=None, stdin=subprocess.DEVNULL, prefix=(), timeout=240, address_space=None, **variables):
        """Run; with `code`, the exit code must be that. `prefix` is put before the interpreter (setpriv, strace ...). `address_space`: bytes
        of it that the process may have."""
        words, environment = ["-C", self.root, *arguments], {**self.environment, **variables}
        if self.forks and not prefix and forked_command.fits(environment):
            found, out, err = forked_command.run(words, environment, stdin=stdin, timeout=timeout, address_space=address_space)
        else:
            prefix = (*limited(address_space >> 10), *prefix) if address_space else prefix
            given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
            done = subprocess.run(
                [*prefix, sys.executable, "-m", "casrewind", *words], env=environment, capture_output=True, timeout=timeout, **given
            )
            found, out, err = done.returncode, done.stdout, done.stderr
        result = Result(found, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
        assert "Traceback" not in result.err, result.err
        if code is not None:
            assert result.code == code, result
        return result

    def row(self, number):
        """The id of the Nth newest checkpoint of this worktree, without safety checkpoints."""
        return self.json("list")["checkpoints"][number - 1]["id"]

    def turn(self, words):
        """The number of the newest turn with these words in its prompt."""
        return str(next(turn["n"] for turn in self.json("list")["turns"] if words in (turn["prompt"] or "")))

    def json(self, *arguments, code=0, **more):
        """Run with --json; the object that it printed, without its format. It is what the schema says."""
        result = self(arguments[0], "--json", *arguments[1:], code=code, **more)
        assert result.out, result
        found = result.json
        wrong = schema_faults(found, arguments[0])
        assert wrong == [], wrong
        del found["format"]
        return found


class StartedCommand(Command):
    """Each call starts the interpreter, as a person's does."""

    forks = False
