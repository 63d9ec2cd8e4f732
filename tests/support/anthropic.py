"""A stand-in for the model behind Claude Code: Anthropic's Messages API on this machine's loopback, answering by a script.

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

PATIENCE = 60
SUMMARY = "<summary>The summary of everything so far.</summary>"
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_COMPACTION = "create a detailed summary"
_ENDPOINTS = {"/v1/messages", "/v1/messages/count_tokens", "/api/hello", "/"}


class Held(NamedTuple):
    """An answer that is given only when the test says so (`gate.set()`)."""

    gate: threading.Event
    blocks: tuple


class Refused(NamedTuple):
    """No answer but this error, which the client does not try to get over."""

    status: int = 400


def call(tool, **input):
    """A call of a tool, as a part of an answer."""
    return {"type": "tool_use", "name": tool, "input": input}


def bash(command):
    return call("Bash", command=command, description="side effects")


def said(message):
    """What a message of a request says, one short text for each part that is not the client's own addition."""
    parts = message["content"]
    found = []
    if message["role"] not in ("user", "assistant"):
        return found
    for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
        if part["type"] == "text":
            text = _REMINDER.sub("", part["text"]).strip()
            found += [f"{message['role']}: {text}"] if text else []
        else:
            found.append({"tool_use": f"call {part.get('name')}", "tool_result": "result"}.get(part["type"], part["type"]))
    return found


class Request(NamedTuple):
    """A request for an answer in a conversation: `told` has all of it in short; `body` is what was sent."""

    told: list
    body: dict

    @property
    def prompts(self):
        return [text.removeprefix("user: ") for text in self.told if text.startswith("user: ")]


class Model:
    """`model.script["create alpha"] = [["On it.", call("Write", ...)], ["Done."]]`: the answers to a prompt that has these
    words in it, one list of parts for each request; texts, and calls of tools. A prompt without a script is told "OK."."""

    def __init__(self):
        self.script = {}
        self.requests = []
        """The requests for an answer in a conversation, in order."""
        self.compactions = 0
        self.strangers = []
        """Requests for anything that is none of the API's."""
        self.network = None
        started = threading.Event()
        thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        thread.start()
        assert started.wait(PATIENCE)

    def _serve(self, started):
        self.network = _network_of_its_own()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        started.set()
        self._server.serve_forever(poll_interval=0.05)

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        if self.network is not None:
            os.close(self.network)

    def wait_for(self, count):
        """Wait until that many requests of conversations have come; the last of them."""
        end = time.monotonic() + PATIENCE
        while len(self.requests) < count:
            assert time.monotonic() < end, [request.prompts for request in self.requests]
            time.sleep(0.02)
        return self.requests[count - 1]

    def answer(self, body):
        """The parts of the answer to a request, after it was counted."""
        told = [text for message in body.get("messages", []) for text in said(message)]
        prompts = [at for at, text in enumerate(told) if text.startswith("user: ")]
        prompt = told[prompts[-1]] if prompts else ""
        if _COMPACTION in prompt:
            self.compactions += 1
            return [SUMMARY]
        if not body.get("tools"):
            return ["Aside."]
        self.requests.append(Request(told, body))
        step = sum(text == "result" and told[at - 1] != "result" for at, text in enumerate(told) if at > prompts[-1])
        answers = next((answers for words, answers in self.script.items() if words in prompt), [])
        found = answers[step] if step < len(answers) else ["OK."]
        if isinstance(found, Held):
            found.gate.wait(PATIENCE)
            found = found.blocks
        return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client to acknowledge its head
    model = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        known = self.path.partition("?")[0] in _ENDPOINTS
        if not known:
            self.model.strangers.append(f"{self.command} {self.path}")
        self._json(200 if known else 404, {})

    do_HEAD = do_GET

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json(200, {"input_tokens": len(raw) // 4 + 1})
        elif path != "/v1/messages":
            self.do_GET()
        else:
            body = json.loads(raw)
            found = self.model.answer(body)
            try:
                if isinstance(found, Refused):
                    why = {"type": "invalid_request_error", "message": "refused by the script"}
                    self._json(found.status, {"type": "error", "error": why})
                else:
                    self._message(body, found, len(raw) // 4 + 1)
            except (BrokenPipeError, ConnectionResetError):  # the client was interrupted, or killed
                self.close_connection = True

    def _json(self, status, value):
        data = b"" if self.command == "HEAD" else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _message(self, body, parts, tokens):
        blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
        blocks = [{"id": _name("toolu"), **block} if block["type"] == "tool_use" else block for block in blocks]
        calls = any(block["type"] == "tool_use" for block in blocks)
        usage = {"input_tokens": tokens, "output_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {
            "id": _name("msg"), "type": "message", "role": "assistant", "model": body["model"], "content": blocks,
            "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            self._json(200, message)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._event("message_start", message={**message, "content": [], "stop_reason": None})
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            self._event("content_block_start", index=index, content_block=empty)
            self._event("content_block_delta", index=index, delta=delta)
            self._event("content_block_stop", index=index)
        self._event("message_delta", delta={"stop_reason": message["stop_reason"], "stop_sequence": None}, usage=usage)
        self._event("message_stop")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, kind, **fields):
        data = f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def _name(kind):
    return f"{kind}_{os.urandom(8).hex()}"


def _network_of_its_own():
    """Put this thread into a network that has loopback and nothing else, where that is allowed: a descriptor of it, or None.

    What the thread listens on is reachable from there only; other threads stay where they are.
    """
    if shutil.which("nsenter") is None or ctypes.CDLL(None, use_errno=True).unshare(0x40000000):  # CLONE_NEWNET
        return None
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
