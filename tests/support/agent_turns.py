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
        saved = agent_event.record_event(self.context, self.event(name, prompt_id, **more), 0, (os.path.dirname(self.root),), transcripts=False)
        return saved.checkpoint

    def prompt(self, prompt_id, text):
        return self.tell("UserPromptSubmit", prompt_id, prompt=text)

    def stop(self, prompt_id, **more):
        return self.tell("Stop", prompt_id, **more)

    def begin(self, prompt_id, who, kind="explore", **more):
        """A subagent begins."""
        return self.tell("SubagentStart", prompt_id, agent_id=who, agent_type=kind, **more)

    def end(self, prompt_id, who, kind="explore", *, wrote=(), failed=(), task=None, **more):
        """A subagent ends. Its transcript names the paths `wrote` and `failed` in calls of tools; `task`: what the client notes beside it."""
        place = os.path.join(os.path.dirname(self.root), f"agent-{who}.jsonl")
        with open(place, "a") as file:
            for path in (*wrote, *failed):
                call = {"type": "tool_use", "name": "Write", "id": path, "input": {"file_path": os.path.join(self.root, path), "content": ""}}
                result = {"type": "tool_result", "tool_use_id": path, "is_error": path in failed, "content": "done"}
                for role, block in (("assistant", call), ("user", result)):
                    file.write(json.dumps({"type": role, "isSidechain": True, "message": {"role": role, "content": [block]}}) + "\n")
        if task is not None:
            with open(place.removesuffix(".jsonl") + ".meta.json", "w") as file:
                json.dump({"agentType": kind, "isBuiltIn": True, "description": task, "toolUseId": "toolu_1", "spawnDepth": 1}, file)
        return self.tell("SubagentStop", prompt_id, agent_id=who, agent_type=kind, agent_transcript_path=place, **more)

    def notify(self, prompt_id):
        """The client tells its agent that a subagent has ended; the answer to that has this id."""
        return self.tell("UserPromptSubmit", prompt_id, prompt="<task-notification>\n<task-id>x</task-id>")

    def run_in_this_process(self):
        """From now on the client is a process that lives: a turn without an end still runs."""
        self.run_in_process(os.getpid())

    def run_in_process(self, pid):
        """The same, with another process."""
        start, key = client_process.client_process(pid).start, self.context.root.key.hex()
        made = (str(self.root), key, time.time_ns(), "UserPromptSubmit", True, pid, start, "", "")
        self.context.store.sessions.record(AgentSession(self.agent, self.session, "", *made))
