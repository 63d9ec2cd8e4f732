"""What each client is known to be, as documents: its settings, its recorded conversations, where its sessions lie, and what it lacks.

The tests of the contract (tests/agents/test_settings_contract.py, test_conversation_contract.py, ...) ask every client the same and hold
the answers against these records. What a client lacks says so here, with the reason, and is skipped with these words.
"""

import os
import re
from typing import NamedTuple

import pytest

RECORDINGS = {
    "claude/interactive_3turn": (
        {"bookkeeping": 31, "prompt": 3, "attachment": 12, "assistant": 10, "tool_result": 5, "system": 6},
        [("please create alpha", None), ("please edit alpha", 37), ("please run bash", 51)],
    ),
    "claude/interactive_builtin-rewind_compact_subagent": (
        {"bookkeeping": 69, "prompt": 5, "attachment": 23, "assistant": 14, "tool_result": 6, "system": 13,
         "compact_summary": 1, "meta": 1, "local_command": 2, "task_notification": 1},
        [("please create alpha", None), ("please edit alpha", 37), ("please run bash", 51, "abandoned"),
         ("what now after builtin rewind", 51), ("please use subagent", ((0, 69), (70, 89)))],
    ),
    "claude/interactive_queued_prompt": (
        {"bookkeeping": 26, "prompt": 1, "attachment": 11, "assistant": 2, "tool_result": 1, "queued": 1, "system": 2},
        [("slow bash", None), ("queued prompt while busy", 29)],
    ),
    "claude/print_3turn": (
        {"bookkeeping": 36, "prompt": 3, "attachment": 12, "assistant": 10, "tool_result": 5, "system": 3},
        [("please create alpha", None), ("please edit alpha", 32), ("please run bash", 49)],
    ),
    "claude/subagent_agent-a00838870c112be89": (
        {"sidechain": 15, "bookkeeping": 6},
        [],
    ),
    "droid/session_3turn": (
        {"bookkeeping": 4, "meta": 16, "attachment": 2, "prompt": 3, "assistant": 7, "tool_result": 4},
        [("please create alpha", None), ("please edit alpha", 12), ("please run bash", 26)],
    ),
    "pi/dangling": (
        {"bookkeeping": 3, "prompt": 3, "assistant": 4, "tool_result": 1},
        [("TURN1 please create a.txt", None), ("TURN2 patch", 7), ("FORKPROBE dangling", 8)],
    ),
    "pi/mid": (
        {"bookkeeping": 3, "prompt": 3, "assistant": 4, "tool_result": 2},
        [("TURN1 please create a.txt", None), ("TURN2 patch", 7), ("FORKPROBE mid", 10)],
    ),
    "pi/native-fork": (
        {"bookkeeping": 3, "system": 1, "prompt": 2, "assistant": 3, "tool_result": 1},
        [("TURN1 please create a.txt", None), ("FORKPROBE", 8)],
    ),
    "pi/three-turns": (
        {"bookkeeping": 3, "system": 1, "prompt": 3, "assistant": 7, "tool_result": 5},
        [("TURN1 please create a.txt", None), ("TURN2 please edit", 8), ("TURN3 please run bash", 14)],
    ),
    "pi/tree-compaction": (
        {"bookkeeping": 4, "system": 1, "prompt": 5, "assistant": 9, "tool_result": 5, "compact_summary": 1, "bash_mode": 1},
        [("TURN1 please create a.txt", None), ("TURN2 please edit", 8), ("TURN3 please run bash", 14, "abandoned"),
         ("FORKPROBE after navigateTree", 14), ("FORKPROBE after compaction", ((0, 14), (19, 22)))],
    ),
    "pi/tree-steer": (
        {"bookkeeping": 4, "system": 1, "prompt": 6, "assistant": 11, "tool_result": 7, "compact_summary": 1},
        [("TURN1 please create a.txt", None), ("TURN2 please edit", 8), ("TURN3 please run bash", 14, "abandoned"),
         ("FORKPROBE back", ((0, 14), (19, 20))), ("SLOW please", ((0, 14), (19, 22))), ("STEERED now", ((0, 14), (19, 25)))],
    ),
    "pi/two-turns": (
        {"bookkeeping": 3, "system": 1, "prompt": 2, "assistant": 5, "tool_result": 3},
        [("TURN1 please", None), ("TURN2 patch", 8)],
    ),
    "codex/native_fork": (
        {"bookkeeping": 10, "prompt": 1, "assistant": 1},
        [("FORKPROBE native", 3)],
    ),
    "codex/reverted": (
        {"bookkeeping": 10, "prompt": 1, "assistant": 1},
        [("FORKPROBE edited", 3)],
    ),
    "codex/three_turns": (
        {"bookkeeping": 37, "meta": 2, "prompt": 3, "assistant": 8, "tool_result": 4},
        [("TURN1 please create a.txt", None), ("TURN2 patch it", 22), ("TURN3 overwrite", 37)],
    ),
    "gemini/three_turns": (
        {"bookkeeping": 25, "prompt": 3, "assistant": 11, "tool_result": 4},
        [("TURN1 please create a.txt", None), ("TURN2 patch it", 15), ("TURN3 overwrite", 33)],
    ),
    "copilot/events": (
        {"bookkeeping": 71, "prompt": 3, "system": 1, "assistant": 7, "tool_result": 4},
        [("TURN1 please create a.txt", None), ("TURN2 patch", 26), ("TURN3 over", 61)],
    ),
    "opencode/session": (
        {"bookkeeping": 1, "prompt": 3, "assistant": 7},
        [("TURN1 please create a.txt", None), ("TURN2 patch it", 4), ("TURN3 overwrite", 8)],
    ),}  # fmt: skip
"""{client/recorded transcript: (how many lines there are of each kind, its prompts)}. A prompt is its text and the lines in front of it that
a fork has: the first ones, or ranges of them; None = nothing was said before it. A prompt of a branch that was left is "abandoned"."""


class Settings(NamedTuple):
    """What an installation writes. A time is in seconds, whatever the client's unit is."""

    file: str
    """The file that it writes, below the user's home."""
    project: str
    """The same, below a project."""
    minimal: dict[str, int]
    """{event: seconds}, of the hooks that each tier adds."""
    balanced: dict[str, int]
    aggressive: dict[str, int]
    key: str | None = "hooks"
    """The key of the object with the events, "" = the file is that object; None = an extension."""
    tools: str | None = "*"
    """The tools that hooks about a tool are for, None = the client does not support that. An extension has a list of harmless ones, or None."""
    flat: bool = False
    """An event has the hooks themselves, and not groups of hooks."""
    unit: int = 1
    """The client's units in a second."""
    moved: tuple[str, str] = ("", "")
    """A variable that moves the client's files, and where they are with "/moved" in it."""
    off: str = ""
    """The settings that switch all hooks off, "" = there are none."""


class Conversations(NamedTuple):
    """How a client keeps its conversations."""

    names: object
    """A function: what a line with a prompt says of its id, its parent, the prompt's id and the message's id."""
    place: str
    """A pattern of the path of a session, below the user's home. {stamp} is a time."""
    resume: str
    """The line that opens a session."""
    resume_there: str = ""
    """The same for a session that was made for another directory, if it differs."""
    own_lines: int = 1
    """Lines of a fork that are not the original's, but for the session's id."""
    fork_title: str = "[Fork] {title}"
    """The title that the transcript of a fork has. {tag}: the start of its id."""
    bad_names: tuple[str, ...] = ()
    """Names that are no session's, beside those that no client has."""
    more_names: tuple[str, ...] = ()
    """Names of further files of a session."""
    says_root: bool = False
    """The client runs a session where its transcript says."""


USUAL = {"SessionStart": 10, "UserPromptSubmit": 30}
MORE = {"Stop": 30, "SubagentStop": 30, "PreCompact": 30, "SessionEnd": 5}
BATCH, EACH = {"PreToolUse": 15, "PostToolBatch": 15}, {"PreToolUse": 15, "PostToolUse": 15}
CAMEL = {"subagentStop": 30, "preCompact": 30, "sessionEnd": 5}, {"preToolUse": 15, "postToolUse": 15}
SETTINGS = {
    "claude": Settings(".claude/settings.json", ".claude/settings.json", USUAL, {**MORE, "SubagentStart": 15}, BATCH, moved=("CLAUDE_CONFIG_DIR", "/moved"),
                       off='{"disableAllHooks": true}'),
    "droid": Settings(".factory/hooks.json", ".factory/hooks.json", USUAL, MORE, EACH, key="", moved=("FACTORY_HOME_OVERRIDE", "/moved/.factory"),
                      off='{"hooksDisabled": true}'),
    "pi": Settings(".pi/agent/extensions/casrewind.js", ".pi/extensions/casrewind.js", USUAL, MORE, BATCH, key=None,
                   moved=("PI_CODING_AGENT_DIR", "/moved")),
    "codex": Settings(".codex/hooks.json", ".codex/hooks.json", USUAL, {**MORE, "SubagentStart": 15, "Interrupt": 3, "SessionEnd": 3}, EACH, tools=None,
                      moved=("CODEX_HOME", "/moved")),
    "gemini": Settings(".gemini/settings.json", ".gemini/settings.json", {"SessionStart": 10, "BeforeAgent": 30}, {"AfterAgent": 30, "SessionEnd": 5},
                       {"BeforeTool": 15, "AfterTool": 15}, unit=1000, moved=("GEMINI_CLI_HOME", "/moved/.gemini"),
                       off='{"hooksConfig": {"enabled": false}}'),
    "copilot": Settings(".copilot/hooks/casrewind.json", ".github/hooks/casrewind.json", {"sessionStart": 10, "userPromptSubmitted": 30},
                        {"agentStop": 30, **CAMEL[0]}, CAMEL[1], tools=None, flat=True, moved=("COPILOT_HOME", "/moved"), off='{"disableAllHooks": true}'),
    "opencode": Settings(".config/opencode/plugins/casrewind.js", ".opencode/plugins/casrewind.js", USUAL, MORE, EACH, key=None, tools=None,
                         moved=("OPENCODE_CONFIG_DIR", "/moved")),
    "cursor": Settings(".cursor/hooks.json", ".cursor/hooks.json", {"sessionStart": 10, "beforeSubmitPrompt": 30}, {"stop": 30, **CAMEL[0]}, CAMEL[1],
                       tools=None, flat=True),
    "qwen": Settings(".qwen/settings.json", ".qwen/settings.json", USUAL, MORE, EACH, unit=1000, off='{"disableAllHooks": true}'),
}  # fmt: skip
"""What `install` writes for "generic" is known to nobody: it prints the hooks."""
CONVERSATIONS = {
    "claude": Conversations(
        lambda line: (line["uuid"], line["parentUuid"] or "", line.get("promptId"), ""), r".claude/projects/{dashed}/{session}\.jsonl",
        "claude --resume {}", fork_title="{title} {tag}",
    ),
    "droid": Conversations(lambda line: (line["id"], line["parentId"], "", line["id"]), r".factory/sessions/{dashed}/{session}\.jsonl",
                           "droid --resume {}", says_root=True),
    "pi": Conversations(lambda line: (line["id"], line["parentId"], line["id"], ""), r".pi/agent/sessions/-{slashless}--/{stamp}_{session}\.jsonl",
                        "pi --session {}", own_lines=2, says_root=True),
    "codex": Conversations(
        lambda line: (line["payload"]["id"], "", line["payload"]["internal_chat_message_metadata_passthrough"]["turn_id"], ""),
        r".codex/sessions/2026/11/20/rollout-{stamp}-{session}\.jsonl", "codex resume {}", "codex resume -C . {}", 0, "{title}",
        ("rollout-{session}.jsonl", "rollout-2026-11-20T23-27-30-x{session}.jsonl"), ("rollout-2026-11-20T23-27-30-{session}_01a1.jsonl",),
    ),
    "gemini": Conversations(lambda line: (line["id"], "", "", ""), r".gemini/tmp/{name}/chats/session-{stamp}-{short}\.jsonl", "gemini --resume {}",
                            "", 0, "{title}", ("session-2026-11-20T23-32-7152325f.jsonl", "session-x-{short}.jsonl")),
    "copilot": Conversations(lambda line: (line["id"], line["parentId"], "", line["data"]["messageId"]),
                             r".copilot/session-state/{session}/events\.jsonl", "copilot --resume={}", "", 0, "{title}"),
    "opencode": Conversations(lambda line: (line["info"]["id"], "", "", line["info"]["id"][:16]), "", "opencode --session {}"),
}  # fmt: skip
DATABASE = "its sessions are rows of a database, and not files"
LACKS = {
    "test_a_session_lies_where_the_client_looks_for_it_and_no_other_name_is_accepted": {"opencode": DATABASE},
    "test_hooks_that_the_client_does_not_run_are_told_of": {
        **dict.fromkeys(("pi", "opencode"), "an extension is a file that is there or not"),
        **dict.fromkeys(("codex", "cursor"), "no key of its settings switches hooks off"),
    },
    "test_a_variable_moves_the_client_s_files": dict.fromkeys(("cursor", "qwen"), "no variable is known"),
}
"""{question: {client: why it is not asked}}"""


def place(name, session, root):
    """The pattern of the path of a client's session for the project at `root`, below the user's home."""
    root = os.path.realpath(root)
    return CONVERSATIONS[name].place.format(
        dashed=re.sub("[^A-Za-z0-9]", "-", root), slashless=root.replace("/", "-"), name=re.sub("[^a-z0-9]", "-", os.path.basename(root).lower()),
        session=session, short=session[:8], stamp="[-0-9TZ]+",
    )  # fmt: skip


def ask(question, names):
    """The clients, to parametrise a question with."""
    gaps = LACKS.get(question, {})
    return [pytest.param(name, marks=[pytest.mark.skip(reason=f"{name}: {gaps[name]}")] if name in gaps else []) for name in names]
