"""A stand-in for the model behind Copilot and OpenCode: OpenAI's chat completions on this machine's loopback, answering by a script."""

import json
import os
import re
import time

from support.model_server import ModelHandler, ModelServer, Refused, typed

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
    text = typed(_ADDED.sub("", _text(message.get("content")))).strip().strip('"').strip()
    return [*([f"{role}: {text}"] if text else []), *(f"call {one['function']['name']}" for one in message.get("tool_calls") or [])]


class _Handler(ModelHandler):
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
        told = [text for message in body.get("messages", []) for text in said(message)]
        found = self.model.answer(told, body)
        try:
            if isinstance(found, Refused):
                self._json(found.status, {"error": {"message": "refused by the script", "type": "invalid_request_error"}})
            else:
                self._completion(body, found, len(raw) // 4 + 1)
        except (BrokenPipeError, ConnectionResetError):  # the client was interrupted, or killed
            self.close_connection = True

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
        self._begin_chunks()
        about["object"] = "chat.completion.chunk"
        self._event({**about, "choices": [{"index": 0, "delta": message, "finish_reason": None}]})
        self._event({**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self._event({**about, "choices": [], "usage": usage})
        self._event("[DONE]")
        self._chunk(b"")

    def _event(self, value):
        self._chunk(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())


class ChatModel(ModelServer):
    """The server."""

    handler = _Handler
