"""The real Factory Droid in a scratch home, with a scripted model: driven as its own front ends do it, by JSON-RPC, and in
print mode, always in a network that has loopback only: it calls home, and nothing switches that off."""

import json

from support import real_clients
from support.claude_model import Model
from support.offline_client import JsonProcess, OfflineClient

MODEL = "custom:mock-model"


class DroidClient(OfflineClient):
    """The client with its front ends; `print` is one prompt in its mode for scripts."""

    def __init__(self, directory):
        super().__init__(directory, "droid", [real_clients.droid()], Model, ".factory")
        # its API is this model's server, too, which knows nothing of it: a session is only resumed when somebody says no
        self.environment |= {
            "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
            "FACTORY_API_BASE_URL": self.model.address, "FACTORY_TELEMETRY_INGEST_BASE_URL": self.model.address,
        }  # fmt: skip
        known = {"model": "mock-model", "displayName": "Mock", "baseUrl": self.model.address, "apiKey": "dummy",
                 "provider": "anthropic", "maxOutputTokens": 8192}  # fmt: skip
        self.settings = json.dumps({"customModels": [known], "cloudSessionSync": False}).encode()
        (self.config / "settings.json").write_bytes(self.settings)
        self._running = []

    def stop(self):
        for front in self._running:
            front.kill()
        super().stop()

    def front(self, session=None):
        """A front end of the client with a new session, or with one that is resumed."""
        self._running.append(Front(self, session))
        return self._running[-1]

    def print(self, prompt, *more):
        """A prompt in print mode, to its end; the client's answer as JSON."""
        out, _ = self.finish(self.start("exec", "-m", MODEL, "--auto", "high", "-o", "json", *more, "--", prompt))
        return json.loads(out)

    def transcript(self, session):
        (found,) = self.config.glob(f"sessions/*/{session}.jsonl")
        return found


class Front(JsonProcess):
    """One process of the client, asked by JSON-RPC; `session` is the id of its session."""

    def __init__(self, client, session):
        super().__init__(client, "exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc")
        self._asked = 0
        if session is None:
            chosen = {"modelId": MODEL, "interactionMode": "auto", "autonomyLevel": "high"}
            answer = self.ask("initialize_session", machineId="test", cwd=str(client.project), **chosen)
            self.session = answer["sessionId"]
        else:
            self.ask("load_session", sessionId=session)
            self.session = session

    def send(self, method, **params):
        """Send a request; its id."""
        self._asked += 1
        message = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "type": "request", "id": str(self._asked), "params": params}
        self.transmit({**message, "method": f"droid.{method}"})
        return str(self._asked)

    def ask(self, method, **params):
        """A request, and what it is answered."""
        number = self.send(method, **params)
        while (line := self.receive()).get("id") != number:
            pass
        assert "error" not in line, line
        return line["result"]

    def say(self, prompt, until="idle"):
        """A prompt; all that the client says until it is idle again (or until its state is another one)."""
        self.send("add_user_message", text=prompt)
        told = []
        while True:
            told.append(self.receive().get("params", {}).get("notification", {}))
            if (told[-1].get("type"), told[-1].get("newState")) == ("droid_working_state_changed", until):
                return told

    def close(self):
        """End the session as a front end does that is left, and wait for the end of the process."""
        self.ask("close_session", reason="prompt_input_exit")
        super().close()
