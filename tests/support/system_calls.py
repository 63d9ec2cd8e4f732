"""What a command asks of the kernel, in order, seen by strace: for orders that a kill cannot show.

What a killed process wrote stays in the page cache; only a power cut, or a look at the calls, tells whether it was synced
before something else relied on it.
"""

import os
import re
import shutil
from typing import NamedTuple

import pytest

_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_AT = re.compile(r'(?:AT_FDCWD|\d+)<([^>]*)>, "([^"]*)"')
_NAME = re.compile(r'"([^"]*)"')
_DESCRIPTOR = re.compile(r"^\d+<([^>]*)>")
_TRACED = (
    "write,pwrite64,pwritev,fsync,fdatasync,syncfs,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,"
    "symlinkat,linkat,open,openat,fchmod,fchmodat"
)
_SAME = {
    "fdatasync": "fsync", "pwrite64": "write", "pwritev": "write", "renameat": "rename", "renameat2": "rename",
    "unlinkat": "unlink", "mkdirat": "mkdir", "open": "openat", "fchmodat": "fchmod",
}  # fmt: skip
_ON_DESCRIPTORS = frozenset({"write", "pwrite64", "pwritev", "fsync", "fdatasync", "syncfs", "fchmod"})


class Call(NamedTuple):
    """A call that succeeded: what it did ("make" is an open that creates), to which path, where that came from (of a
    rename)."""

    what: str
    path: str
    source: str = ""


def calls_of(command, places, log, *arguments):
    """Run the command; the calls that change something below `places` ({name: directory}), paths as "name/...".

    Skips where strace is missing or may not trace.
    """
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "300", "-e", f"trace={_TRACED}", "-o", str(log)]
    if command(*arguments, prefix=strace).code != 0:
        pytest.skip("strace may not trace here")
    with open(log, errors="replace") as file:
        return [call for line in file if (call := _parsed(line, places)) is not None]


def _parsed(line, places):
    found = _CALL.match(line)
    if found is None or int(found[3]) < 0:
        return None
    what, arguments = _SAME.get(found[1], found[1]), found[2]
    if what == "openat":
        if "O_CREAT" not in arguments:
            return None
        what = "make"
    if found[1] in _ON_DESCRIPTORS:
        paths = _DESCRIPTOR.findall(arguments)
    else:
        paths = [os.path.join(*pair) for pair in _AT.findall(arguments)] or _NAME.findall(arguments)
    short = [_short(path, places) for path in paths]
    if not short or not short[-1]:
        return None
    return Call(what, short[-1], short[0] if what == "rename" else "")


def _short(path, places):
    for name, place in places.items():
        if path == str(place) or path.startswith(str(place) + "/"):
            return name + path[len(str(place)) :]
    return ""


class Order:
    """Calls in order; places in it are numbers."""

    def __init__(self, calls):
        self.calls = calls

    def every(self, what, start, source=""):
        """The places of all calls of a kind whose path (and source) start so."""
        return [
            at
            for at, call in enumerate(self.calls)
            if call.what == what and call.path.startswith(start) and call.source.startswith(source)
        ]

    def one(self, what, start, source=""):
        """The place of the only such call."""
        (at,) = self.every(what, start, source)
        return at

    def first(self, what, path, after):
        """The place of the first such call behind a place; fails when there is none."""
        return next(at for at, call in enumerate(self.calls) if at > after and call.what == what and call.path == path)

    def last(self, what, path, before):
        """The place of the last such call in front of a place; fails when there is none."""
        return next(at for at in range(before - 1, -1, -1) if self.calls[at].what == what and self.calls[at].path == path)
