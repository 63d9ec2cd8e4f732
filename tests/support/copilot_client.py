"""The real GitHub Copilot CLI in a scratch home, with a scripted model, in a network that has loopback only."""

from support import real_clients
from support.chat_model import ChatModel
from support.offline_client import OfflineClient


class CopilotClient(OfflineClient):
    """The client in its mode for scripts; `say` is one prompt."""

    def __init__(self, directory):
        super().__init__(directory, "copilot", [real_clients.copilot()], ChatModel, ".copilot")
        self.environment |= {
            "COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{self.model.address}/v1", "COPILOT_MODEL": "mock-model",
            "COPILOT_PROVIDER_API_KEY": "dummy", "COPILOT_AUTO_UPDATE": "false",
        }  # fmt: skip

    def say(self, prompt, *more, code=0):
        return "".join(self.finish(self.start("--allow-all-tools", *more, "-p", prompt), code))

    def resume(self, line, prompt):
        """The same by the very command line that casrewind printed."""
        program, *rest = line.split()
        assert program == "copilot"
        return self.say(prompt, *rest)

    def transcript(self, session):
        return self.config / "session-state" / session / "events.jsonl"
