"""The real Gemini CLI in a scratch home, with a scripted model, in a network that has loopback only."""

import json

from support import real_clients
from support.codex_gemini_model import ScriptedModel
from support.offline_client import OfflineClient

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    # without the last: a session that was resumed in a later minute is deleted when the client starts with another one
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "sessionRetention": {"enabled": False}},
}


class GeminiClient(OfflineClient):
    """The client in print mode; `say` is one prompt."""

    def __init__(self, directory):
        super().__init__(directory, "gemini", real_clients.gemini(), ScriptedModel, ".gemini")
        (self.project / ".git").mkdir()
        self.settings = json.dumps(SETTINGS, indent=1).encode()
        (self.config / "settings.json").write_bytes(self.settings)
        self.environment |= {
            "TERM": "xterm-256color", "GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": self.model.address,
            "GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true", "NO_PROXY": "*",
        }  # fmt: skip

    def start(self, prompt, *more):
        """Start the client with a prompt. `more`: "-r" and a session's id."""
        return super().start("-y", "-m", "gemini-2.5-flash", "-o", "json", *more, "-p", prompt)

    def say(self, prompt, session=None):
        """A prompt to its end; the session's id."""
        return self.answer(prompt, session)["session_id"]

    def answer(self, prompt, session=None):
        """A prompt to its end; what the client says, as JSON."""
        out, _ = self.finish(self.start(prompt, *([] if session is None else ["-r", session])))
        return json.loads(out)

    def transcript(self, session):
        """A resume in a later minute leaves a second file with a header and no message."""
        return max(self.config.glob(f"tmp/*/chats/session-*-{session[:8]}.jsonl"), key=lambda path: path.stat().st_size)
