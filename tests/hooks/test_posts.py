"""What a client posts, read from a connection: whole requests of its own, and whatever else may come in."""

import os
import random
import socket
import threading

import pytest

from casrewind.agents import ours, pipe
from casrewind.cli import posts

ADDRESS = ours.Address(20001, "s3cret" * 7)
BODY = b'{"session_id": "s", "hook_event_name": "Stop"}'
FIELDS = {
    "Host": "127.0.0.1:20001", "User-Agent": "axios/1.15.2", "Accept": "application/json, text/plain, */*", "X-Casrewind": ADDRESS.secret,
    "Content-Type": "application/json", "Content-Length": str(len(BODY)), "Connection": "keep-alive",
}  # fmt: skip


def written(body=BODY, *, first="POST /casrewind/claude HTTP/1.1", more=(), **changes):
    fields = {**FIELDS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    lines = [first, *(f"{name}: {value}" for name, value in fields.items() if value is not None), *more]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def read(data, times=1):
    """What is read of `data` by as many reads, the last thing for ever; the sender has gone behind it."""
    ours_, theirs = socket.socketpair()
    with ours_, theirs:
        sender = threading.Thread(target=_send, args=(theirs, data))
        sender.start()
        line, found = posts.Line(ours_, ADDRESS), []
        try:
            found = [line.read() for _ in range(times)]
        except posts.Refused as refusal:
            found.append(refusal.status)
        finally:
            ours_.close()  # what it has not sent yet nobody wants
            sender.join()
        return found


def _send(there, data):
    try:
        there.sendall(data)
        there.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_a_request_of_the_client_s_is_read():
    (post,) = read(written())
    assert (post.path, post.body, post.stays) == ("/casrewind/claude", BODY, True) and post.at_ns > 0


def test_requests_that_follow_each_other_are_told_apart():
    found = read(written() + written(b"{}", Content_Length="2", Connection="close"), 2)
    assert [(post.body, post.stays) for post in found] == [(BODY, True), (b"{}", False)]
    assert read(written(first="POST / HTTP/1.0"))[0].stays is False


def test_a_request_that_is_cut_anywhere_is_none():
    whole = written()
    for end in range(len(whole)):
        assert read(whole[:end]) in ([None], [403], [411]), whole[:end]
        assert end < len(whole) - len(BODY) or read(whole[:end]) == [None]


def test_a_request_that_comes_byte_by_byte_is_read():
    near, far = socket.socketpair()
    with near, far:
        def drip():
            for value in written():
                far.sendall(bytes([value]))

        sender = threading.Thread(target=drip)
        sender.start()
        assert posts.Line(near, ADDRESS).read().body == BODY
        sender.join()


REFUSED = {
    "another secret": (written(X_Casrewind="s3cret" * 6 + "s3creT"), 403),
    "the beginning of the secret": (written(X_Casrewind=ADDRESS.secret[:-1]), 403),
    "no secret": (written(X_Casrewind=None), 403),
    "an empty secret": (written(X_Casrewind=""), 403),
    "a secret in other letters": (written(X_Casrewind="\xe9" * 42), 403),
    "two secrets": (written(more=[f"x-casrewind: {ADDRESS.secret}"]), 400),
    "a web page": (written(Origin="https://example.com"), 403),
    "a web page of nowhere": (written(Origin="null"), 403),
    "another host": (written(Host="example.com:20001"), 403),
    "a name for this machine": (written(Host="localhost:20001"), 403),
    "another port": (written(Host="127.0.0.1:20002"), 403),
    "no host": (written(Host=None), 403),
    "two hosts": (written(more=["host: example.com"]), 400),
    "another method": (written(first="GET /casrewind/claude HTTP/1.1"), 405),
    "what a browser asks first": (written(first="OPTIONS /casrewind/claude HTTP/1.1"), 405),
    "another version": (written(first="POST /casrewind/claude HTTP/2.0"), 505),
    "no version": (written(first="POST /casrewind/claude"), 400),
    "no length": (written(Content_Length=None), 411),
    "a length below nothing": (written(Content_Length="-1"), 400),
    "a length with a sign": (written(Content_Length="+5"), 400),
    "a length in other digits": (written(Content_Length="\xb2"), 400),
    "two lengths": (written(more=["Content-Length: 3"]), 400),
    "a length without an end": (written(Content_Length="9" * 4000), 413),
    "one byte too many": (written(Content_Length=str((64 << 20) + 1)), 413),
    "in pieces": (written(Transfer_Encoding="chunked"), 501),
    "a form": (written(Content_Type="application/x-www-form-urlencoded"), 415),
    "what needs no leave": (written(Content_Type="text/plain"), 415),
    "no type": (written(Content_Type=None), 415),
    "a folded line": (written(more=[" folded: 1"]), 400),
    "a line without a colon": (written(more=["nothing"]), 400),
    "a name with a space": (written(more=["Con tent: 1"]), 400),
    "a name in front of a space": (written(more=["Host : 127.0.0.1:20001"]), 400),
    "a lone line feed": (written(more=["A: 1\nOrigin: x"]), 400),
    "a NUL": (written(more=["A: \0"]), 400),
    "a huge head": (written(more=[f"A{n}: {'x' * 100}" for n in range(200)]), 431),
    "a head without an end": (b"POST /" + b"x" * 100_000, 431),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500) + b"\r\n\r\n", 400),
    "nothing but ends": (b"\r\n" * 20, 400),
}


@pytest.mark.parametrize("data, status", REFUSED.values(), ids=REFUSED)
def test_what_is_not_exactly_that_is_refused(data, status):
    assert read(data) == [status]


def test_of_a_huge_body_no_more_is_kept_than_anybody_reads():
    body = b'{"session_id": "s", "prompt": "' + b"x" * (20 << 20) + b'"}'
    first, second = read(written(body, Content_Length=str(len(body))) + written(), 2)
    assert body.startswith(first.body) and pipe.LIMIT < len(first.body) <= pipe.LIMIT + (2 << 16)
    assert second.body == BODY


def test_a_request_that_asks_first_is_told_to_go_on():
    near, far = socket.socketpair()
    with near, far:
        head, _, body = written(Expect="100-continue").partition(b"\r\n\r\n")
        far.sendall(head + b"\r\n\r\n")
        answer = threading.Thread(target=lambda: far.sendall(body) if far.recv(99).startswith(b"HTTP/1.1 100 ") else far.close())
        answer.start()
        assert posts.Line(near, ADDRESS).read().body == BODY
        answer.join()


def test_who_says_nothing_or_stops_in_the_middle_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(posts, "_SILENCE", 0.05)
    monkeypatch.setattr(posts, "_SLOW", 0.05)
    whole = written()
    for end in (0, 1, 40, len(whole) - len(BODY), len(whole) - 1):
        near, far = socket.socketpair()
        with near, far:
            far.sendall(whole[:end])
            with pytest.raises(posts.Refused) as refused:
                posts.Line(near, ADDRESS).read()
            assert refused.value.status == 408


def test_a_refusal_is_answered_and_the_connection_closed():
    near, far = socket.socketpair()
    with near, far:
        far.sendall(written(Origin="x", Content_Length="999999"))
        line = posts.Line(near, ADDRESS)
        with pytest.raises(posts.Refused):
            line.read()
        line.refuse(403)
        assert far.recv(999) == b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        assert far.recv(1) == b""


def test_bytes_at_random_are_read_or_refused_and_nothing_else():
    chance = random.Random(7)
    whole = written() + written(b"{}", Content_Length="2")
    seen = set()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 2, 30))):
            at = chance.randrange(len(data))
            way = chance.randrange(3)
            if way == 0:
                data[at] = chance.randrange(256)
            elif way == 1:
                del data[at : at + chance.randrange(1, 9)]
            else:
                data[at:at] = chance.choice((b"\r\n", b"\0", b": ", b"HTTP/1.1 ", chance.randbytes(3), whole[: chance.randrange(90)]))
        for found in read(bytes(data), 3):
            assert isinstance(found, (type(None), int, posts.Post))
            seen.add(found if isinstance(found, int) else type(found).__name__)
    assert {"NoneType", "Post", 400, 403} <= seen


def test_whose_a_connection_is_the_kernel_says():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as there:
        here, _ = server.accept()
        with here:
            assert posts.owner(here) == os.geteuid()
            there.close()


def test_whose_a_connection_through_a_socket_of_the_newer_kind_is():
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.socket(socket.AF_INET6)
        with there:
            try:
                there.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
            except OSError:
                pytest.skip("there is no IPv6 here")
            here, _ = server.accept()
            with here:
                assert posts.owner(here) == os.geteuid()
