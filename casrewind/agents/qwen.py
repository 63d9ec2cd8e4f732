"""Qwen Code. It has Claude Code's hooks, and only its files are saved and restored."""

from . import client
from .generic import GenericClient


class QwenClient(GenericClient):
    """Qwen Code. Its settings are known."""

    name = "qwen"
    title = "Qwen Code"
    program = "qwen"
    events = GenericClient.events._replace(root_variables=("QWEN_PROJECT_DIR", "CLAUDE_PROJECT_DIR"))
    places = client.ClientPlaces(home=".qwen")
    settings = GenericClient.settings._replace(
        files=(client.HookFile("settings.json", "hooks", comments=True),),
        aside=(client.HookFile("settings.local.json", "hooks", comments=True),),
        off_key="disableAllHooks",
        timeout_unit=1000,
    )


CLIENT = QwenClient()
