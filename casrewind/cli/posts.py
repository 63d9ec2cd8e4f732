"""What a client posts, read from a connection: as much of HTTP as it takes, and nothing that is not exactly that.

The dangers prevented here: a web page that posts with its visitor's browser (an Origin, another Host after a name was made to mean
this machine, a type that needs no leave); somebody who tries secrets and learns from how long a refusal takes; who says half a
request and holds the line, or one without an end. Nothing is read of a body before its sender has shown the secret. What is
refused is refused with a status and a closed connection: what follows it could be taken for another request.
"""

import hmac
import socket
import sys
import time
from contextlib import suppress

from ..agents import ours, pipe
from ..typed import NamedTuple

TRIAL = "/casrewind/trial"
"""The path of a post that is answered and does nothing: doctor's."""
_MOST = 64 << 20  # bytes of a body
_HEAD = 16 << 10  # bytes of all that comes before it
_SILENCE = 5.0
"""Seconds for a head, and until the first one of a connection begins."""
_SLOW = 30.0  # seconds for a body
_ONCE = ("host", "content-length", "content-type", "transfer-encoding", "origin", "expect", ours.HEADER.lower())
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
    411: "Length Required", 413: "Content Too Large", 415: "Unsupported Media Type", 431: "Request Header Fields Too Large",
    501: "Not Implemented", 505: "HTTP Version Not Supported",
}  # fmt: skip


class Refused(Exception):
    """A request that is not answered with 200. `why` is for the log: no word of the sender's is in it."""

    def __init__(self, status: int, why: str) -> None:
        """`status` is of HTTP."""
        super().__init__(status, why)
        self.status, self.why = status, why


class Post(NamedTuple):
    """One request: its path, its body (of a huge one the beginning, as from a pipe), when its first byte came, and whether the
    connection stays open."""

    path: str
    body: bytes
    at_ns: int
    stays: bool


class Line:
    """A connection. `read` and `answer` in turn, until `read` gives None."""

    def __init__(self, talk: socket.socket, address: ours.Address) -> None:
        """Nothing is read yet. `address` is our own."""
        self._talk, self._address = talk, address
        self._data = b""
        self._known = False

    def read(self) -> Post | None:
        """The next request, None where the sender has gone. Raises Refused, and OSError as a connection does."""
        if not self._data and not self._more(None if self._known else time.monotonic() + _SILENCE):
            return None
        at_ns, end = time.time_ns(), time.monotonic() + _SILENCE
        while b"\r\n\r\n" not in self._data[:_HEAD]:
            if len(self._data) >= _HEAD:
                raise Refused(431, "a head of more than 16 KiB")
            if not self._more(end):
                return None
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        path, version, fields = _parse(head)
        size = self._judge(fields)
        self._known = True
        if fields.get("expect", "").lower() == "100-continue":
            self._talk.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._body(size)
        closes = version == "HTTP/1.0" or "close" in fields.get("connection", "").lower()
        return None if body is None else Post(path, body, at_ns, not closes)

    def answer(self, status: int, more: str = "") -> None:
        """Answer the request that was read; `more` is a line of the head. Raises OSError."""
        end = "" if status == 200 else "Connection: close\r\n"
        said = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Length: 0\r\n{end}{more}\r\n"
        self._talk.settimeout(_SILENCE)
        self._talk.sendall(said.encode("ascii"))

    def refuse(self, status: int) -> None:
        """Answer it, and take in a little more: a connection that is closed over unread bytes is reset, the answer with it."""
        with suppress(OSError):
            self.answer(status)
            self._talk.shutdown(socket.SHUT_WR)
            end = time.monotonic() + 0.2
            while (left := end - time.monotonic()) > 0:
                self._talk.settimeout(left)
                if not self._talk.recv(1 << 16):
                    break

    def _more(self, end: float | None) -> bool:
        """Receive something until `end` on the monotonic clock (None: for ever); False where nothing will come."""
        if end is not None and end <= time.monotonic():
            raise Refused(408, "a request that took too long")
        self._talk.settimeout(None if end is None else end - time.monotonic())
        try:
            part = self._talk.recv(1 << 16)
        except TimeoutError:
            raise Refused(408, "a request that took too long") from None
        self._data += part
        return bool(part)

    def _judge(self, fields: dict[str, str]) -> int:
        """The length of the body, after everything that the sender has to show was looked at."""
        if "origin" in fields:
            raise Refused(403, "a request from a web page (it has an Origin)")
        if fields.get("host", "") != f"{ours.HOST}:{self._address.port}":
            raise Refused(403, "a request for another host")
        shown = fields.get(ours.HEADER.lower(), "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(shown, self._address.secret.encode()):
            raise Refused(403, "a wrong secret, or none: casrewind install claude --http writes the right one")
        if "transfer-encoding" in fields:
            raise Refused(501, "a body in pieces")
        length = fields.get("content-length", "")
        if not length:
            raise Refused(411, "a body without a length")
        if not (length.isascii() and length.isdigit()):
            raise Refused(400, "a length that is no number")
        if len(length) > 12 or int(length) > _MOST:
            raise Refused(413, "a body of more than 64 MiB")
        if fields.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "a body that is not JSON")
        return int(length)

    def _body(self, size: int) -> bytes | None:
        """The body, None where it does not come whole. Of a huge one no more is kept than anybody reads."""
        end = time.monotonic() + _SLOW
        kept, left = [self._data[:size]], size - len(self._data[:size])
        self._data, rest = b"", self._data[size:]
        had = len(kept[0])
        while left:
            if not self._more(end):
                return None
            part, rest, self._data = self._data[:left], self._data[left:], b""
            left -= len(part)
            if had <= pipe.LIMIT:
                kept.append(part)
                had += len(part)
        self._data = rest
        return b"".join(kept)


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    """(path, version, {name in small letters: value}) of a request's head. Raises Refused."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or any("\n" in line or "\r" in line or "\0" in line for line in (first, *lines)):
        raise Refused(400, "what is no request of HTTP")
    method, path, version = words
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise Refused(505, "another version of HTTP")
    if method != "POST":
        raise Refused(405, "a request that posts nothing")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise Refused(400, "what is no request of HTTP")
        name = name.lower()
        if name in fields and name in _ONCE:
            raise Refused(400, "a request that says twice what it may say once")
        fields[name] = value.strip(" \t")
    return path, version, fields


def owner(talk: socket.socket) -> int | None:
    """The user whose process is at the other end of a connection within this machine, None where the kernel does not say."""
    ends = [_written(*talk.getpeername()[:2]), _written(*talk.getsockname()[:2])]
    for _ in range(3):  # the table is not read at once: a row may be missed where others come and go
        for name in ("tcp", "tcp6"):
            with suppress(OSError, ValueError, IndexError), open(f"/proc/net/{name}", "rb") as table:
                for row in table:
                    fields = row.split(maxsplit=8)
                    if len(fields) > 7 and [field[-13:] for field in fields[1:3]] == ends:
                        return int(fields[7])
    return None


def _written(host: str, port: int) -> bytes:
    """An address as the kernel's tables write it: its four bytes as a number of this machine's, and the port."""
    return b"%08X:%04X" % (int.from_bytes(socket.inet_aton(host), sys.byteorder), port)
