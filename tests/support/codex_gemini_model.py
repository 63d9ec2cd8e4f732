"""A stand-in for the models behind Codex and Gemini: OpenAI's Responses API and Google's API on this machine's loopback."""

import gzip
import itertools
import json
import re

from support.model_server import ModelHandler, ModelServer, typed

SUMMARY = "The summary of everything so far."
_OWN = ("<environment_context>", "<session_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md")


def call(tool, **arguments):
    """A call of a tool, as a part of an answer."""
    return {"name": tool, "args": arguments}


def codex_patch(*lines):
    """A call of Codex's tool that changes files."""
    return {"name": "apply_patch", "input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


def codex_helper(name, prompt):
    """The start of a subagent of Codex, which knows nothing of the conversation."""
    return {**call("spawn_agent", task_name=name, message=prompt, fork_turns="none"), "namespace": "collaboration"}


def codex_waits():
    """Codex waits until one of its subagents has said something."""
    return {**call("wait_agent", timeout_ms=20_000), "namespace": "collaboration"}


def told_codex(body):
    """A request of Codex in short, one text for each part that is not the client's own addition."""
    found = []
    for item in body.get("input") or []:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") in ("user", "assistant"):
            texts = [typed(part.get("text", "")) for part in item.get("content") or []]
            found += [f"{item['role']}: {text}" for text in texts if text and not text.lstrip().startswith(_OWN)]
        elif kind == "agent_message":
            found += [f"user: {part['encrypted_content']}" for part in item["content"] if part["type"] == "encrypted_content"]
        elif kind.endswith("_call"):
            found.append(f"call {item.get('name')}")
        elif kind.endswith("_call_output"):
            found.append("result")
    return found


def told_gemini(body):
    """A request of Gemini in short. On a resumed session the client sends each result twice: it counts once."""
    found, seen = [], set()
    for content in body.get("contents", []):
        role = "assistant" if content.get("role") == "model" else "user"
        for part in content.get("parts", []):
            if "functionCall" in part:
                found.append(f"call {part['functionCall']['name']}")
            elif "functionResponse" in part:
                name = part["functionResponse"].get("id")
                if name not in seen:
                    found.append("result")
                seen.add(name)
            elif "text" in part and (text := typed(part["text"])) and not text.lstrip().startswith(_OWN):
                found.append(f"{role}: {text}")
    return found


class _Handler(ModelHandler):
    def do_GET(self):
        if self.path.partition("?")[0].endswith("/models"):
            self._json(200, {"object": "list", "data": [], "models": []})
        else:
            self.model.strangers.append(f"{self.command} {self.path}")
            self._json(404, {})

    do_HEAD = do_GET

    def do_POST(self):
        raw = self._body()
        path = self.path.partition("?")[0]
        google = re.search(r"/models/([^:/]+):(\w+)$", path)
        try:
            if path.endswith("/responses"):
                body = json.loads(raw)
                self._responses(body, self.model.answer(told_codex(body), body))
            elif google and google[2] == "countTokens":
                self._json(200, {"totalTokens": 100})
            elif google:
                body = json.loads(raw)
                self._gemini(body, self.model.answer(told_gemini(body), body), google[1], google[2])
            else:
                self.do_GET()
        except (BrokenPipeError, ConnectionResetError):  # the client was interrupted, or killed
            self.close_connection = True

    def _body(self):
        length = self.headers.get("content-length")
        raw = b""
        if length is not None:
            raw = self.rfile.read(int(length))
        else:
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw

    def _stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def _event(self, value, name=""):
        head = f"event: {name}\n" if name else ""
        self.wfile.write(f"{head}data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def _responses(self, body, parts):
        number, items = next(self.model.numbers), []
        for at, part in enumerate(parts):
            if isinstance(part, str):
                text = {"type": "output_text", "text": part, "annotations": []}
                items.append({"type": "message", "role": "assistant", "id": f"msg_{number}_{at}", "status": "completed", "content": [text]})
            elif "input" in part:
                items.append({"type": "custom_tool_call", "id": f"ctc_{number}_{at}", "call_id": f"call_{number}_{at}", **part, "status": "completed"})
            else:
                items.append({"type": "function_call", "id": f"fc_{number}_{at}", "call_id": f"call_{number}_{at}", "name": part["name"],
                              "arguments": json.dumps(part["args"]), "status": "completed",
                              **({"namespace": part["namespace"]} if "namespace" in part else {})})  # fmt: skip
        usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 9,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 109}  # fmt: skip
        answer = {"id": f"resp_{number}", "object": "response", "created_at": 0, "status": "completed", "model": body.get("model"),
                  "output": items, "usage": usage}  # fmt: skip
        self._stream()
        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        self._event({"type": "response.created", "response": begun}, "response.created")
        for at, item in enumerate(items):
            for name in ("response.output_item.added", "response.output_item.done"):
                self._event({"type": name, "output_index": at, "item": item}, name)
        self._event({"type": "response.completed", "response": answer}, "response.completed")

    def _gemini(self, body, parts, model, method):
        number, found = next(self.model.numbers), []
        asked = body.get("generationConfig") or {}
        if asked.get("responseMimeType") == "application/json" or asked.get("responseJsonSchema"):
            aside = {"reasoning": "mock", "next_speaker": "user", "model_choice": "flash", "complexity_score": 1, "complexity_reasoning": "x"}
            parts = [json.dumps(aside)]
        for at, part in enumerate(parts):
            found.append({"text": part} if isinstance(part, str) else {"functionCall": {"id": f"fc_{number}_{at}", **part}})
        answer = {
            "candidates": [{"content": {"role": "model", "parts": found}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
            "modelVersion": model, "responseId": f"r{number}",
        }  # fmt: skip
        if method == "generateContent":
            self._json(200, answer)
        else:
            self._stream()
            self._event(answer)


class ScriptedModel(ModelServer):
    """The server."""

    handler = _Handler
    compaction = ("CONTEXT CHECKPOINT COMPACTION", SUMMARY)

    def __init__(self):
        self.numbers = itertools.count(1)
        super().__init__()
