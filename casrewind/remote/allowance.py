"""How many records of a chain may be held in memory: in proportion to the bytes of the pieces that they are in.

The danger prevented here: a few bytes of a machine with the key expand to gigabytes here. What real chains have is in
docs/internals/remote-format.md, section 5.
"""

import threading

from .piece_errors import PieceDamaged
from .piece_names import PieceInfo

RECORD_WEIGHT = 2048
"""Bytes of memory of a decoded record without its payload, about."""
RECORDS_FLOOR, RECORDS_RATIO = 32 << 20, 64
"""Records take at most so many bytes of memory, and so many more for each stored byte."""


class Allowance:
    """How many records of some pieces may be held. Threads may share it."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._counting = threading.Lock()
        self._pieces: dict[PieceInfo, int] = {}
        self._stored = self._weight = 0

    def begin(self, piece: PieceInfo) -> None:
        """The records of this piece are read, for the first time or once more."""
        with self._counting:
            self._stored += 0 if piece in self._pieces else piece.size
            self._weight -= self._pieces.get(piece, 0)
            self._pieces[piece] = 0

    def add(self, piece: PieceInfo, payload: bytes) -> None:
        """One more record of this piece. Raises PieceDamaged if they are too many."""
        weight = len(payload) + RECORD_WEIGHT
        with self._counting:
            self._pieces[piece] += weight
            self._weight += weight
            if self._weight > RECORDS_FLOOR + RECORDS_RATIO * self._stored:
                raise PieceDamaged(f"the piece {piece.name} of the remote has more records than {self._stored:,} bytes can hold")
