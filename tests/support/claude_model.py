"""A stand-in for the model behind Claude Code: Anthropic's Messages API on this machine's loopback, answering by a script."""

import json
import os
import re

from support.model_server import ModelHandler, ModelServer, Refused, typed

SUMMARY = "<summary>The summary of everything so far.</summary>"
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_ENDPOINTS = {"/v1/messages", "/v1/messages/count_tokens", "/api/hello", "/"}


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
            text = typed(_REMINDER.sub("", part["text"])).strip()
            found += [f"{message['role']}: {text}"] if text else []
        else:
            found.append({"tool_use": f"call {part.get('name')}", "tool_result": "result"}.get(part["type"], part["type"]))
    return found


class _Handler(ModelHandler):
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
            told = [text for message in body.get("messages", []) for text in said(message)]
            found = self.model.answer(told, body)
            try:
                if isinstance(found, Refused):
                    why = {"type": "invalid_request_error", "message": "refused by the script"}
                    self._json(found.status, {"type": "error", "error": why})
                else:
                    self._message(body, found, len(raw) // 4 + 1)
            except (BrokenPipeError, ConnectionResetError):  # the client was interrupted, or killed
                self.close_connection = True

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
        self._begin_chunks()
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
        self._chunk(b"")

    def _event(self, kind, **fields):
        self._chunk(f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode())


def _name(kind):
    return f"{kind}_{os.urandom(8).hex()}"


class Model(ModelServer):
    """The server."""

    handler = _Handler
    compaction = ("create a detailed summary", SUMMARY)
