"""A client's events, told to a store without a process."""

import json

from casrewind import agents
from casrewind.agents import event as events
from casrewind.ops import agent_event


class AgentTurns:
    """The events of one session in one open workspace."""

    def __init__(self, workspace, root, session="s1", agent="claude"):
        self.workspace, self.root, self.session, self.agent = workspace, root, session, agent

    @property
    def context(self):
        return self.workspace._context

    def event(self, name, prompt_id="", **more):
        payload = {"hook_event_name": name, "session_id": self.session, "cwd": str(self.root), **({"prompt_id": prompt_id} if prompt_id else {}), **more}
        return events.read_event(agents.load_client(self.agent), json.dumps(payload).encode(), {})

    def tell(self, name, prompt_id="", **more):
        saved = agent_event.record_event(self.context, self.event(name, prompt_id, **more), 0, (), transcripts=False)
        return saved.checkpoint

    def prompt(self, prompt_id, text):
        return self.tell("UserPromptSubmit", prompt_id, prompt=text)

    def stop(self, prompt_id, **more):
        return self.tell("Stop", prompt_id, **more)
