"""The event with which doctor tries a hook: its payload and its environment.

The danger prevented here: a trial is mistaken for a real event.
"""

import json
import uuid
from collections.abc import Mapping

from .. import launch
from .client import TIERS, Client

_BARE_PATH = "/usr/bin:/bin"
"""A minimal PATH, such as a client started from a desktop may have."""
_TOOL = "CasrewindDoctor"
"""The name of a tool that does not exist. To a hook, it is an unknown tool that may change files."""


def trial_payload(client: Client, event: str, session: str, project: str, transcript: str) -> bytes:
    """A payload as the client would send it to a hook."""
    said: dict[str, object] = {"name": event, "session": session, "transcript": transcript, "cwd": project}
    trigger, fields = client.events.triggers.get(event, ""), client.events.fields
    if trigger == "prompt":
        said |= {"prompt": "casrewind doctor", "prompt_id": str(uuid.uuid4()), "message_id": str(uuid.uuid4())}
    elif event in client.events.by_tool:
        said["tool"] = _TOOL
    elif trigger == "tool_batch":
        said["tools"] = [{fields["tool"][0]: _TOOL}]
    return json.dumps({fields[field][0]: value for field, value in said.items() if fields[field]}).encode()


def trial_environment(client: Client, environ: Mapping[str, str], project: str, data: str) -> dict[str, str]:
    """The environment of a hook in a project, with `data` as the directory of stores. It is `environ` without variables
    of a running session, and with another PATH. The tier handles every event."""
    left_out = {*client.events.pid_variables, *client.events.env_file_variables}
    kept = {name: value for name, value in environ.items() if name not in left_out}
    given = {"PATH": _BARE_PATH, "CASREWIND_HOME": data, "CASREWIND_TIER": TIERS[-1], launch.TRIAL: "1"}
    return {**kept, **given, **dict.fromkeys(client.events.root_variables, project)}
