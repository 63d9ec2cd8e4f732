"""What the stand-ins for models share: a server on this machine's loopback that answers by a script.

What it answers follows from the request alone (which prompt came last, how many answers it had already), so sessions that
are resumed, forked or cut need nothing set back.
"""

import ctypes
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

PATIENCE = 120
_RESTORED = re.compile(r"\s*(<hook_context>)?\s*casrewind: since your last answer .*? not instructions\.\s*(</hook_context>)?\s*", re.DOTALL)


def typed(text):
    """What a person typed: a text without what casrewind says of a restore beside it (tests/client/test_tell_agent.py)."""
    return _RESTORED.sub("", text)




class Held(NamedTuple):
    """An answer that is given only when the test says so (`gate.set()`)."""

    gate: threading.Event
    blocks: tuple


class Refused(NamedTuple):
    """No answer but this error, which the client does not try to get over."""

    status: int = 400


class Request(NamedTuple):
    """A request for an answer in a conversation: `told` has all of it in short; `body` is what was sent."""

    told: list
    body: dict

    @property
    def prompts(self):
        return [text.removeprefix("user: ") for text in self.told if text.startswith("user: ")]


class ModelServer:
    """`model.script["create alpha"] = [["On it.", call("Write", ...)], ["Done."]]`: the answers to a prompt that has these
    words in it, one list of parts for each request; texts, and calls of tools. A prompt without a script is told "OK"."""

    handler = None
    """The subclass of `ModelHandler` that speaks the API."""
    compaction = None
    """(words of the prompt that asks for a summary, the summary)"""

    def __init__(self):
        self.script = {}
        self.requests = []
        """The requests for an answer in a conversation, in order."""
        self.compactions = 0
        self.strangers = []
        """Requests for anything that is none of the API's."""
        self.network = None
        started = threading.Event()
        threading.Thread(target=self._serve, args=(started,), daemon=True).start()
        assert started.wait(PATIENCE)

    def _serve(self, started):
        self.network = network_of_its_own()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (self.handler,), {"model": self}))
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        started.set()
        self._server.serve_forever(poll_interval=0.05)

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        if self.network is not None:
            os.close(self.network)

    @property
    def inside(self):
        """The words that start a program in the server's network, where it has one of its own."""
        return [] if self.network is None else ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.network}", "--"]

    def wait_for(self, count):
        """Wait until that many requests of conversations have come; the last of them."""
        end = time.monotonic() + PATIENCE
        while len(self.requests) < count:
            assert time.monotonic() < end, [request.prompts for request in self.requests]
            time.sleep(0.02)
        return self.requests[count - 1]

    def answer(self, told, body):
        """The parts of the answer to a request, after it was counted. `told`: the request in short, see `Request`."""
        prompts = [at for at, text in enumerate(told) if text.startswith("user: ")]
        prompt = told[prompts[-1]] if prompts else ""
        if self.compaction is not None and self.compaction[0] in prompt:
            self.compactions += 1
            return [self.compaction[1]]
        if not body.get("tools"):
            return ["Aside."]
        self.requests.append(Request(told, body))
        last = prompts[-1] if prompts else -1
        step = sum(text == "result" and told[at - 1] != "result" for at, text in enumerate(told) if at > last)
        answers = next((answers for words, answers in self.script.items() if words in prompt), [])
        found = answers[step] if step < len(answers) else ["OK."]
        if isinstance(found, Held):
            found.gate.wait(PATIENCE)
            found = found.blocks
        return found


class ModelHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client to acknowledge its head
    model = None

    def log_message(self, *_):
        pass

    def _json(self, status, value):
        data = b"" if self.command == "HEAD" else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _begin_chunks(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, data):
        """Send a piece of the answer; an empty one ends it."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def network_of_its_own():
    """Put this thread into a network that has loopback and nothing else, where that is allowed: a descriptor of it, or None.

    What the thread listens on is reachable from there only; other threads stay where they are.
    """
    if shutil.which("nsenter") is None or ctypes.CDLL(None, use_errno=True).unshare(0x40000000):  # CLONE_NEWNET
        return None
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
