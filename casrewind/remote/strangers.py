"""Strangers: objects with the name of a piece that nobody with the key put there.

The danger prevented here: ten thousand of them make each pull read ten thousand objects. Whoever can write to the bucket can put
them. So what was found to be a stranger is remembered, and counts again only if it changes.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from .. import fsio
from ..messages import store_errors
from ..model import digest as digests
from ..model import tlv
from .piece_names import PieceInfo

STRANGERS = "strangers"
"""The file with those that are known."""
_ROW = 16


class Strangers:
    """Those that one store knows of its remote. Used under the store's lock for pushes and pulls."""

    def __init__(self, directory: str = "") -> None:
        """`directory` is that of the remote in the store; "" if there is none: then nothing is kept."""
        self._directory = directory
        self._known: set[bytes] | None = None
        self._is_changed = False
        self.met: dict[str, PieceInfo] = {}
        """Those that were listed since this was made, by name."""

    def without(self, pieces: Iterable[PieceInfo]) -> list[PieceInfo]:
        """These pieces but for known strangers."""
        known = self._read()
        left = []
        for piece in pieces:
            if known and row_of(piece) in known:
                self.met[piece.name] = piece
            else:
                left.append(piece)
        return left

    def add(self, pieces: Iterable[PieceInfo]) -> None:
        """Remember these pieces as strangers."""
        for piece in pieces:
            self.met[piece.name] = piece
            self._read().add(row_of(piece))
            self._is_changed = True

    def save(self) -> None:
        """Write what is known, durably. Raises StoreError."""
        if self._directory and self._is_changed:
            with store_errors("writing the state of a remote in", self._directory):
                fsio.replace_file(self._directory, STRANGERS, b"".join(sorted(self._read())))
        self._is_changed = False

    def _read(self) -> set[bytes]:
        if self._known is None:
            data = b""
            with suppress(OSError):  # they are found again
                data = fsio.read_file(os.path.join(self._directory, STRANGERS)) if self._directory else b""
            self._known = {data[at : at + _ROW] for at in range(0, len(data) - _ROW + 1, _ROW)}
        return self._known


def row_of(piece: PieceInfo) -> bytes:
    """A digest of what a list says of an object: its name, its bytes, and the server's tag, or its time."""
    tag = piece.etag or f"{piece.modified_ns}"
    return digests.of(b"\0".join((tlv.text(piece.name), b"%d" % piece.size, tlv.text(tag))))[:_ROW]
