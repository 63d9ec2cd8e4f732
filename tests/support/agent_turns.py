"""A client's events, told to a store without a process."""

import json
import os
import time

from casrewind import agents
from casrewind.agents import client_process
from casrewind.agents import event as events
from casrewind.upkeep import agent_event
from casrewind.store.agent_sessions import AgentSession


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

    def run_in_this_process(self):
        """From now on the client is a process that lives: a turn without an end still runs."""
        start, key = client_process.client_process(os.getpid()).start, self.context.root.key.hex()
        made = (str(self.root), key, time.time_ns(), "UserPromptSubmit", True, os.getpid(), start, "", "")
        self.context.store.sessions.record(AgentSession(self.agent, self.session, "", *made))
