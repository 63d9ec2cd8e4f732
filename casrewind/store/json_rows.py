"""Rows of a store that are no part of its history: one small JSON file each.

The danger prevented here: a row that was half written, or that another version wrote, is believed. It is no row.
"""

import os
from contextlib import suppress

from .. import fastjson, fsio
from .._typing import NamedTuple, TypeVar

Row = TypeVar("Row", bound=NamedTuple)
END = ".json"
_VERSION = 1
_ROW_BYTES = 64 << 10  # bytes of a row


def write_row(store: str, path: str, row: NamedTuple) -> None:
    """Replace the file of a row in a store. Raises OSError."""
    with suppress(FileExistsError):
        fsio.make_directory(os.path.dirname(path))
    shape: dict[str, str | int | bool] = {"version": _VERSION, **row._asdict()}
    fsio.replace_unsynced(path, fastjson.encode_flat(shape).encode() + b"\n", os.path.join(store, "tmp"))


def read_row(path: str, kind: type[Row]) -> "Row | None":
    """The row of a file. None if there is none whose fields have the types of `kind`."""
    try:
        value = fastjson.loads(fsio.read_file(path, _ROW_BYTES).decode())
        row = kind._make(value[name] for name in kind._fields)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    wanted = kind.__annotations__
    return row if all(type(item) is wanted[name] for name, item in row._asdict().items()) else None


def read_rows(directory: str, kind: type[Row]) -> list[Row]:
    """All rows of a directory."""
    try:
        names = [name for name in os.listdir(directory) if name.endswith(END)]
    except OSError:
        return []
    rows = (read_row(os.path.join(directory, name), kind) for name in names)
    return [row for row in rows if row is not None]


def remove_row(path: str) -> None:
    """Remove the file of a row. Errors are ignored."""
    with suppress(OSError):
        os.unlink(path)
