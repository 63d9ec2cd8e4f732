"""The command, called in this process: what `Command` gives, without a start of the interpreter for every call.

What belongs to a process (signals, closed streams, locales, terminals) is tested with `Command`.
"""

import io
import os
import resource
import sys
from contextlib import contextmanager

from .command import Command, Result


class InProcess(Command):
    """`run("save", "--json")` in `root`: `casrewind.cli.main.main`, with the test's environment and streams. `typed`: what a pipe
    holds in place of a terminal."""

    def __call__(self, *arguments, code=None, cwd=None, **variables):
        if not {"prefix", "stdin", "LD_PRELOAD"}.isdisjoint(variables):  # what belongs to a process of its own
            return super().__call__(*arguments, code=code, **variables)
        variables.pop("timeout", None)
        typed = variables.pop("typed", None)
        from casrewind.cli.main import main

        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        err.reconfigure(errors="backslashreplace")  # as the interpreter's: it never raises
        given = [os.fsdecode(item) for item in arguments]
        with _surroundings({**self.environment, **variables}, out, err):
            if typed is not None:
                sys.stdin = io.StringIO(typed)
            try:
                found = main(["-C", self.root, *given])
            except SystemExit as end:
                found = end.code
        result = Result(found, *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)))
        if code is not None:
            assert result.code == code, result
        return result


_AMPLE = 1 << 46
"""Bytes of address space. A command limits its own process, if that has no limit. A worker's libraries and threads alone may have more."""


@contextmanager
def _surroundings(environment, out, err):
    before = dict(os.environ), sys.stdin, sys.stdout, sys.stderr
    memory = resource.getrlimit(resource.RLIMIT_AS)
    with open(os.devnull) as stdin:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (_AMPLE, memory[1]))
            os.environ.clear()
            os.environ.update(environment)
            sys.stdin, sys.stdout, sys.stderr = stdin, out, err
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, memory)
            os.environ.clear()
            os.environ.update(before[0])
            sys.stdin, sys.stdout, sys.stderr = before[1:]
