"""The recorded transcripts, and small ones that are made up."""

import json
from pathlib import Path

DATA = Path(__file__).parent.parent / "agents" / "data"
PRINTED, TYPED = "print_3turn", "interactive_3turn"
REWOUND, QUEUED = "interactive_builtin-rewind_compact_subagent", "interactive_queued_prompt"
SUBAGENT = "subagent_agent-a00838870c112be89"
PI = ("three-turns", "two-turns", "native-fork", "tree-compaction", "tree-steer", "dangling", "mid")
CLAUDE = (PRINTED, TYPED, REWOUND, QUEUED, SUBAGENT)


def claude(name):
    return (DATA / "claude" / f"{name}.jsonl").read_bytes()


def droid():
    return (DATA / "droid" / "session_3turn.jsonl").read_bytes()


def recorded(agent, name):
    return (DATA / agent / f"{name}.jsonl").read_bytes()


def values(data):
    return [json.loads(line) for line in data.splitlines()]


def join(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def is_part_of(part, whole):
    """Whether the lines of `part` are lines of `whole`, in order, byte for byte."""
    rest = iter(whole.splitlines(keepends=True))
    return all(line in rest for line in part.splitlines(keepends=True))


def user(uuid, parent, text, **more):
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": {"role": "user", "content": text}, **more}


def typed(uuid, parent, text, **more):
    return user(uuid, parent, text, promptSource="typed", origin={"kind": "human"}, promptId=f"p-{uuid}", **more)


def assistant(uuid, parent, *calls, message=None, text="answer"):
    """A line of the model: a text, or one call."""
    block = {"type": "tool_use", "id": calls[0], "name": "Bash", "input": {}} if calls else {"type": "text", "text": text}
    return {
        "type": "assistant", "uuid": uuid, "parentUuid": parent,
        "message": {"id": message or f"m-{uuid}", "role": "assistant", "content": [block]},
    }  # fmt: skip


def result(uuid, parent, call):
    return user(uuid, parent, [{"type": "tool_result", "tool_use_id": call, "content": "done"}])
