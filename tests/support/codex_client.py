"""The real Codex CLI in a scratch home, with a scripted model, in a network that has loopback only."""

import json

from support import real_clients
from support.codex_gemini_model import ScriptedModel
from support.offline_client import JsonProcess, OfflineClient

CONFIG = """model = "gpt-5.5"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "{address}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[features]
multi_agent_v2 = true  # its subagents, which the client switches on for some accounts
[analytics]
enabled = false
"""


class CodexClient(OfflineClient):
    """The client in its mode for scripts; `say` is one prompt."""

    def __init__(self, directory):
        super().__init__(directory, "codex", [real_clients.codex()], ScriptedModel, ".codex")
        (self.project / ".git").mkdir()
        (self.config / "config.toml").write_text(CONFIG.format(address=self.model.address))
        self.settings = (self.config / "config.toml").read_bytes()
        self.environment["TERM"] = "xterm-256color"

    def trust(self):
        """Trust the hooks of now, as the client notes it when the user chooses so."""
        listed = self.ask("hooks/list", cwds=[str(self.project)])["data"][0]["hooks"]
        told = "".join(f'[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in listed)
        (self.config / "config.toml").write_bytes(self.settings + told.encode())

    def ask(self, method, **params):
        """A question to the client's own server, in a process of its own, and what it is answered."""
        with Server(self) as server:
            return server.ask(method, **params)

    def start(self, prompt, *more):
        """Start `codex exec` with a prompt. `more`: "resume" and a session's id."""
        return super().start("exec", "--json", "--skip-git-repo-check", *more, prompt)

    def say(self, prompt, session=None):
        """A prompt to its end; the session's id."""
        out, _ = self.finish(self.start(prompt, *([] if session is None else ["resume", session])))
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return next(line["thread_id"] for line in lines if line["type"] == "thread.started")

    def transcript(self, session):
        (found,) = self.config.glob(f"sessions/*/*/*/rollout-*-{session}.jsonl")
        return found


class Server(JsonProcess):
    """The client's server on pipes (`codex app-server`): what its front ends talk to."""

    def __init__(self, client):
        super().__init__(client, "app-server")
        self._asked = 0
        self.told = []
        """Everything that it said."""
        name = {"name": "test", "title": "test", "version": "0"}
        self.ask("initialize", clientInfo=name, capabilities={"experimentalApi": True})
        self.transmit({"method": "initialized"})

    def ask(self, method, **params):
        self._asked += 1
        self.transmit({"id": self._asked, "method": method, "params": params})
        answer = self.until(lambda message: message.get("id") == self._asked and "method" not in message)
        assert "result" in answer, answer
        return answer["result"]

    def until(self, good):
        """Read until a message is good; that message."""
        while True:
            self.told.append(self.receive())
            if good(self.told[-1]):
                return self.told[-1]

    def say(self, session, prompt):
        """A prompt in a session, to the end of its turn; what was said meanwhile."""
        before = len(self.told)
        self.ask("turn/start", threadId=session, input=[{"type": "text", "text": prompt, "text_elements": []}])
        self.until(lambda message: message.get("method") == "turn/completed")
        return self.told[before:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
