"""A stand-in for the model behind Copilot and OpenCode: OpenAI's chat completions on this machine's loopback, answering by a script.

As with support/anthropic.py, the answer follows from the request alone: which prompt came last, how many answers it had already.
"""

import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.anthropic import PATIENCE, Held, Refused, Request, _network_of_its_own

_ADDED = re.compile(r"<(current_datetime|reminder|system_reminder|system-reminder)>.*?</\1>\s*", re.DOTALL)


def call(tool, **arguments):
    """A call of a tool, as a part of an answer."""
    return {"name": tool, "arguments": arguments}


def _text(content):
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""


def said(message):
    """What a message of a request says, one short text for each part that is not the client's own addition."""
    role = message["role"]
    if role == "tool":
        return ["result"]
    if role not in ("user", "assistant"):
        return []
    text = _ADDED.sub("", _text(message.get("content"))).strip().strip('"').strip()
    return [*([f"{role}: {text}"] if text else []), *(f"call {one['function']['name']}" for one in message.get("tool_calls") or [])]


class ChatModel:
    """`model.script["create alpha"] = [["On it.", call("create", ...)], ["Done."]]`: the answers to a prompt that has these words in
    it, one list of parts for each request; texts, and calls of tools. A prompt without a script is told "OK."."""

    def __init__(self):
        self.script = {}
        self.requests = []
        """The requests for an answer in a conversation, in order."""
        self.strangers = []
        """Requests for anything that is none of the API's."""
        self.network = None
        started = threading.Event()
        threading.Thread(target=self._serve, args=(started,), daemon=True).start()
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

    def answer(self, body):
        """The parts of the answer to a request, after it was counted."""
        told = [text for message in body.get("messages", []) for text in said(message)]
        if not body.get("tools"):
            return ["Aside."]
        prompts = [at for at, text in enumerate(told) if text.startswith("user: ")]
        prompt = told[prompts[-1]] if prompts else ""
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
    disable_nagle_algorithm = True
    model = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        known = self.path.partition("?")[0].endswith("/models")
        if not known:
            self.model.strangers.append(f"{self.command} {self.path}")
        self._json(200 if known else 404, {"object": "list", "data": [{"id": "mock-model", "object": "model", "owned_by": "mock"}]})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self.path.partition("?")[0].endswith("/chat/completions"):
            self.do_GET()
            return
        body = json.loads(raw)
        found = self.model.answer(body)
        try:
            if isinstance(found, Refused):
                self._json(found.status, {"error": {"message": "refused by the script", "type": "invalid_request_error"}})
            else:
                self._completion(body, found, len(raw) // 4 + 1)
        except (BrokenPipeError, ConnectionResetError):  # the client was interrupted, or killed
            self.close_connection = True

    def _json(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _completion(self, body, parts, tokens):
        text = "".join(part for part in parts if isinstance(part, str))
        calls = [
            {"index": at, "id": f"call_{os.urandom(8).hex()}", "type": "function",
             "function": {"name": part["name"], "arguments": json.dumps(part["arguments"])}}
            for at, part in enumerate(part for part in parts if not isinstance(part, str))
        ]  # fmt: skip
        message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        reason = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
        about = {"id": f"chatcmpl-{os.urandom(6).hex()}", "created": int(time.time()), "model": body.get("model")}
        if not body.get("stream"):
            for one in calls:
                del one["index"]
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._json(200, {**about, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        about["object"] = "chat.completion.chunk"
        self._event({**about, "choices": [{"index": 0, "delta": message, "finish_reason": None}]})
        self._event({**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self._event({**about, "choices": [], "usage": usage})
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, value):
        data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
