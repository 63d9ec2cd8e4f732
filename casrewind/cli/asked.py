"""Reads a hook's request to the helper. The module ask.py writes it.

The danger prevented here: a request that stops half way and keeps the connection open, and one whose lengths are false.
"""

import os
import socket
import time

from ..typed import NamedTuple
from . import ask

_MOST = 64 << 20  # bytes of a request
HURRY = 2.0
"""Seconds in which a hook must have said what it wants."""


class Request(NamedTuple):
    """What a hook says: its arguments, when its event was, who called it, where, of which root; its environment, its payload."""

    words: list[str]
    at_ns: int
    parent: int
    directory: str
    identity: str
    variables: dict[bytes, bytes]
    payload: bytes


def read(talk: socket.socket) -> Request | None:
    """What is said, None when that was not said whole in time. Raises OSError."""
    end = time.monotonic() + HURRY
    head = ask.receive(talk, 8, end)
    size = sum(_lengths(head))
    if len(head) < 8 or size > _MOST:
        return None
    data = head + ask.receive(talk, size, end)
    told, carried = _lengths(head)
    if len(data) != 8 + told + carried:
        return None
    texts = data[8 : 8 + told].split(b"\0")
    count = int(texts[2])
    words = [os.fsdecode(text) for text in texts[3 : 3 + count]]
    variables = dict(text.split(b"=", 1) for text in texts[3 + count :])
    return Request(words[2:], int(texts[0]), int(texts[1]), words[0], words[1], variables, data[8 + told :])


def _lengths(head: bytes) -> tuple[int, int]:
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
