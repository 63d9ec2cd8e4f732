"""The real OpenCode in a scratch home, with a scripted model, in a network that has loopback only."""

import json
import os
import shutil
import sqlite3
from contextlib import closing

from support import real_clients
from support.chat_model import ChatModel
from support.offline_client import OfflineClient


class OpencodeClient(OfflineClient):
    """The client in its mode for scripts; `say` is one prompt."""

    def __init__(self, directory):
        super().__init__(directory, "opencode", [real_clients.opencode()], ChatModel, ".config/opencode")
        self.database = self.home / ".local" / "share" / "opencode" / "opencode.db"
        packages = real_clients.opencode_packages()  # else its first start with a plugin waits for npm and the network
        (self.config / "node_modules").symlink_to(os.path.join(packages, "node_modules"))
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(packages, name), self.config)
        self.environment |= {
            "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }  # fmt: skip
        model = {"name": "Mock", "limit": {"context": 100000, "output": 8000}, "tool_call": True}
        options = {"baseURL": f"{self.model.address}/v1", "apiKey": "dummy"}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": options, "models": {"mock-model": model}}
        settings = {"autoupdate": False, "share": "disabled", "model": "mock/mock-model", "small_model": "mock/mock-model",
                    "provider": {"mock": provider}}  # fmt: skip
        (self.config / "opencode.json").write_text(json.dumps(settings))

    def say(self, prompt, *more, code=0):
        return "".join(self.finish(self.start("run", *more, prompt), code))

    def resume(self, line, prompt):
        """The same by the session that casrewind printed: its line is for the client on a terminal."""
        program, option, session = line.split()
        assert (program, option) == ("opencode", "--session")
        return self.say(prompt, option, session)

    def rows(self, session):
        """Everything that the database has about a session."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as opened:
            return [
                opened.execute(f"select * from {table} where {column} = ? order by id", (session,)).fetchall()
                for table, column in (("session", "id"), ("message", "session_id"), ("part", "session_id"))
            ]
