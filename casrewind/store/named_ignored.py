"""The ignored paths that a person was told of: one small file for each worktree.

The danger prevented here: a file that was never protected is deleted, and from then on nothing names it. The file may be lost: then the
person is told once more.
"""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress

from .. import fsio
from .._typing import NamedTuple
from .json_rows import END

_FORM = 1
_KEPT_PATHS = 200
_FILE_BYTES = 1 << 20


class Named(NamedTuple):
    """When a path was seen last (nanoseconds since 1970), and if a client named it."""

    seen_ns: int
    in_client: bool


class NamingRecord(NamedTuple):
    """The paths that were named; a directory ends in a slash. `searched`: a digest of what a scan had counted when a client looked
    for them, "" = it never did."""

    named: Mapping[bytes, Named] = {}
    searched: str = ""


class NamedIgnored:
    """The record of one worktree."""

    def __init__(self, store: str, worktree: bytes) -> None:
        """`store` is its directory, `worktree` the key of the worktree."""
        self._store, self._path = store, os.path.join(_place_of(store), worktree.hex() + END)

    def read(self) -> NamingRecord:
        """The record. It is empty if the file is gone or damaged."""
        try:
            value = json.loads(fsio.read_file(self._path, _FILE_BYTES))
            if value["version"] != _FORM:
                return NamingRecord()
            named = {os.fsencode(path): Named(int(seen_ns), bool(told)) for path, (seen_ns, told) in value["named"].items()}
            return NamingRecord(named, str(value["searched"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return NamingRecord()

    def write(self, record: NamingRecord) -> None:
        """Replace it, and forget the paths that were not seen for the longest time. If it cannot be written, nothing is kept."""
        newest = sorted(record.named.items(), key=lambda pair: pair[1].seen_ns, reverse=True)[:_KEPT_PATHS]
        shape = {"version": _FORM, "searched": record.searched, "named": {os.fsdecode(path): list(row) for path, row in newest}}
        with suppress(OSError):
            with suppress(FileExistsError):
                fsio.make_directory(os.path.dirname(self._path))
            fsio.replace_unsynced(self._path, json.dumps(shape).encode() + b"\n", os.path.join(self._store, "tmp"))


def remove_named_ignored(store: str) -> None:
    """Forget all of them before a purge."""
    shutil.rmtree(_place_of(store), ignore_errors=True)


def _place_of(store: str) -> str:
    return os.path.join(store, "ignored")
