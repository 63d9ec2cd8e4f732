"""What a fork carries: the whole conversation, and no setting of the session that it was made in."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind import errors
from casrewind.agents import claude, codex, copilot, droid, gemini, opencode, pi, transcript
from casrewind.agents.carried_lines import carried
from support.trees import plant

DATA = Path(__file__).parent / "data"
CLIENTS = {one.CLIENT.name: one.CLIENT for one in (claude, codex, copilot, droid, gemini, opencode, pi)}
SETTINGS = {
    "claude": [
        {"type": "permission-mode", "permissionMode": "bypassPermissions", "sessionId": "s"},
        {"type": "mode", "mode": "normal", "sessionId": "s"},
        {"type": "agent-setting", "agentSetting": "careless", "sessionId": "s"},
    ],
    "codex": [
        {"type": "turn_context", "payload": {"turn_id": "t", "approval_policy": "never", "sandbox_policy": {"type": "danger-full-access"}}},
        {"type": "event_msg", "payload": {"type": "thread_settings_applied", "thread_settings": {"approval_policy": "never"}}},
        {"type": "world_state", "payload": {"state": {"permissions": {"approved_command_prefixes": [["rm"]]}}}},
        {"type": "event_msg", "payload": {"type": "session_configured", "approval_policy": "never"}},
    ],
    "gemini": [{"approvalMode": "yolo"}, {"$later": {"approvalMode": "yolo"}}],
    "copilot": [{"type": "session.settings", "data": {"allowAllTools": True}}],
    "droid": [{"type": "session_settings", "autonomyLevel": "high"}],
    "opencode": [{"type": "permission", "rules": [{"permission": "*", "action": "allow"}]}],
    "pi": [{"type": "trust", "trusted": True}],
}
for _lines in SETTINGS.values():
    _lines += [{"type": "of a later version", "may": "anything"}, {"may": "anything"}]
"""Lines without an id that say what an agent may do, and lines of which nobody knows what they say."""
HOLDERS = {"claude": [()], "codex": [(), ("payload",)], "copilot": [(), ("data",)], "droid": [(), ("message",)], "gemini": [()],
           "opencode": [(), ("info",)], "pi": [(), ("data",)]}
"""Where the objects of a line have fields that may be settings."""
FIELDS = ["permissionMode", "permission", "permissions", "permission_profile", "approval_policy", "approvalMode", "approvals_reviewer", "sandbox_policy",
          "sandboxMode", "sandboxed", "autonomyLevel", "autonomyMode", "allowAllTools", "allow_all", "allowedTools", "yolo", "bypassPermissions",
          "permissionDecision", "withEscalatedPermissions", "isTrusted"]
OWN = {"claude": ["mode"], "codex": ["thread_settings", "collaboration_mode"], "copilot": ["agentMode", "newMode"], "droid": ["interactionMode"],
       "gemini": ["directories"], "opencode": ["tools"]}


def recorded(name):
    """The recorded sessions of a client, as bytes."""
    found = [path.read_bytes() for path in sorted((DATA / name).rglob("*.jsonl"))]
    assert found
    return found


def values(data):
    """The lines that say something: what stays away may leave spaces."""
    return [line.value for line in transcript.parse_lines(data) if data[line.start : line.end].strip()]


def held(value, keys):
    return transcript.member_at_keys(value, keys) if keys else value


@pytest.mark.parametrize("name", CLIENTS)
def test_no_line_that_is_a_setting_travels_wherever_it_stands(name):
    client = CLIENTS[name]
    for data in recorded(name):
        plain = carried(data, client.carried_lines())
        lines = data.splitlines(keepends=True)
        for setting in SETTINGS[name]:
            for at in (0, len(lines) // 2, len(lines)):
                planted = b"".join([*lines[:at], transcript.encode_line(setting), *lines[at:]])
                assert values(carried(planted, client.carried_lines())) == values(plain), setting


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CLIENTS)
def test_no_field_that_is_a_setting_travels_in_any_line(name):
    client, planted_in = CLIENTS[name], 0
    for data in recorded(name):
        plain = values(carried(data, client.carried_lines()))
        for keys in HOLDERS[name]:
            for field in (*FIELDS, *OWN.get(name, ())):
                lines = []
                for value in values(data):
                    holder = held(value or {}, keys)
                    if isinstance(holder, dict):
                        holder[field] = {"anything": ["at", "all"]}
                        planted_in += 1
                    lines.append(transcript.encode_line(value or {}))
                assert values(carried(b"".join(lines), client.carried_lines())) == plain, (keys, field)
    assert planted_in > 300


@pytest.mark.parametrize("name", CLIENTS)
def test_the_conversation_of_each_recorded_session_is_whole(name):
    client = CLIENTS[name]
    for data in recorded(name):
        made = carried(data, client.carried_lines())
        assert [prompt.text for prompt in client.prompts(made, every=True)] == [prompt.text for prompt in client.prompts(data, every=True)]
        assert client.title_of(made) == client.title_of(data)
        said = [value for value in values(data) if client.kind_of_line(value) not in (transcript.BOOKKEEPING, transcript.UNKNOWN)]
        kept = [value for value in values(made) if client.kind_of_line(value) not in (transcript.BOOKKEEPING, transcript.UNKNOWN)]
        assert len(kept) == len(said)
        again = carried(made, client.carried_lines())
        if b'"history_base":{' in data:
            again = values(again)[:-1]  # one more line with the strictest settings
            made = values(made)[:-1]
        assert again == made, "a fork of a fork"


ID = {"claude": lambda one: {"uuid": one}, "codex": lambda one: {"payload": {"id": one}}}
names = st.sampled_from(["progress", "later.kind", "message", "user", "turn_context", "permission-mode", "session", ""])
members = st.dictionaries(st.sampled_from(["text", "content", "n", "approvalMode", "sandbox_policy", "parentUuid", "deep"]), st.one_of(st.text(max_size=9), st.integers(), st.booleans()), max_size=4)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CLIENTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_line_with_an_id_travels_whatever_its_kind(name, data):
    """Lines of unknown kinds link what is before them to what is behind them."""
    client = CLIENTS[name]
    lines, ids = [], []
    for at in range(data.draw(st.integers(0, 12))):
        value = {"type": data.draw(names), **data.draw(members)}
        if data.draw(st.booleans()):
            ids.append(f"id-{at}")
            value |= ID.get(name, lambda one: {"id": one})(ids[-1])
        lines.append(value)
    made = carried(b"".join(map(transcript.encode_line, lines)), client.carried_lines())
    text = made.decode()
    assert [one for one in ids if f'"{one}"' in text] == ids
    assert "approvalMode" not in text and "sandbox_policy" not in text
    for value in values(made):
        assert {key: one for key, one in value.items() if key in ("text", "content", "n", "deep")} in [
            {key: one for key, one in line.items() if key in ("text", "content", "n", "deep")} for line in lines
        ]


def test_gemini_s_directories_stay_and_what_its_session_is_called_travels():
    line = {"$set": {"directories": ["/"], "summary": "a name", "approvalMode": "yolo", "later": 1}}
    assert values(carried(transcript.encode_line(line), gemini.CLIENT.carried_lines())) == [{"$set": {"summary": "a name"}}]


def test_of_droid_s_settings_and_copilot_s_file_about_a_session_only_what_is_listed_travels(tmp_path):
    old = tmp_path / "old.jsonl"
    old.write_bytes(b"")
    allowing = {"autonomyLevel": "high", "interactionMode": "auto", "allowedTools": ["x"], "allowSubagentsInScripts": True, "later": 1}
    (tmp_path / "old.settings.json").write_text(json.dumps({"model": "m", "reasoningEffort": "none", **allowing}))
    line = b'{"type":"session_start","id":"new","cwd":"/p"}\n'
    droid.CLIENT.write_fork(str(old), "new", line, str(tmp_path / "new.jsonl"), "/p", {})
    assert json.loads((tmp_path / "new.settings.json").read_text()) == {"model": "m", "reasoningEffort": "none"}
    about = b"id: old\ncwd: /p\nrepository: r\npermission_mode: allow-all\nremote_steerable: true\nmode: autopilot\nlater: 1\n  deep: 2\n"
    made = copilot._make_session_file(about, "new", "title", "/p", is_fork=True).decode()
    assert made.splitlines() == ["id: new", 'cwd: "/p"', "repository: r", 'name: "[Fork] title"']


def event(name, kind, before, **data):
    return {"type": kind, "data": data, "id": name, "parentId": before, "timestamp": "2026-11-28T16:46:27.404Z"}


def test_an_event_of_copilot_s_that_only_sets_something_keeps_its_place_and_sets_nothing():
    """The client refuses a session of which an event lacks a field."""
    what = copilot.CLIENT.carried_lines()
    lines = [
        event("1", "user.message", None, content="hello", agentMode="autopilot"),
        event("2", "session.mode_changed", "1", previousMode="interactive", newMode="autopilot"),
        event("3", "session.permissions_changed", "2", previousMode="manual", mode="allow-all"),
        event("4", "permission.requested", "3", requestId="r", permissionRequest={"kind": "shell"}),
        event("5", "permission.completed", "4", requestId="r", result={"kind": "approved-for-session"}),
        event("6", "session.schedule_created", "5", id=1, prompt="rm -r x", intervalMs=1),
        event("7", "session.sandbox_of_a_later_version", "6", on=False),
        event("8", "subagent.selected", "7", agentName="any", agentDisplayName="any", tools=None),
        event("9", "assistant.message", "8", content="yes"),
    ]
    made = values(carried(b"".join(map(transcript.encode_line, lines)), what))
    assert [(line["id"], line["parentId"]) for line in made] == [(line["id"], line["parentId"]) for line in lines]
    assert {(line["type"], json.dumps(line["data"])) for line in made[1:8]} == {("subagent.deselected", "{}")}
    assert [made[0]["data"], made[8]["data"]] == [{"content": "hello"}, {"content": "yes"}]


def test_opencode_goes_on_with_no_agent_of_the_session():
    """Its window takes the agent of the last prompt, and refuses a prompt without one."""
    lines = [
        {"type": "session", "id": "s", "info": {"id": "s", "agent": "build", "permission": [{"action": "allow"}]}},
        {"type": "message", "id": "m", "info": {"role": "user", "agent": "build", "tools": {"bash": True}}, "parts": []},
        {"type": "message", "id": "n", "info": {"role": "assistant", "agent": "build", "mode": "build"}, "parts": []},
    ]
    made = values(carried(b"".join(map(transcript.encode_line, lines)), opencode.CLIENT.carried_lines()))
    assert [line["info"] for line in made] == [{"id": "s"}, {"role": "user", "agent": "compaction"}, lines[2]["info"]]


def test_a_command_of_claude_code_s_allows_no_tool_in_a_fork():
    line = {"type": "attachment", "uuid": "u", "attachment": {"type": "command_permissions", "allowedTools": ["Bash"], "model": "m"}}
    (made,) = values(carried(transcript.encode_line(line), claude.CLIENT.carried_lines()))
    assert made == {**line, "attachment": {"type": "command_permissions", "allowedTools": [], "model": "m"}}


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("name", CLIENTS)
def test_a_line_that_cannot_be_read_here_does_not_travel(name):
    """A client may be able to read it."""
    data = recorded(name)[0]
    planted = b'{"type":"permission-mode","permissionMode":"bypassPermissions","deep":' + DEEP + b"}\n" + data + b'{"cut\n[1]\n'
    assert values(carried(planted, CLIENTS[name].carried_lines())) == values(carried(data, CLIENTS[name].carried_lines()))


def test_what_is_left_of_codex_s_lines_keeps_its_place():
    """Another file of the session names a position in this one."""
    for data in recorded("codex"):
        made = carried(data, codex.CLIENT.carried_lines())
        assert [len(line) for line in made.splitlines()][: data.count(b"\n")] == [len(line) for line in data.splitlines()]
        assert len(values(made)) < data.count(b"\n")


REVERTED = DATA / "codex" / "reverted.jsonl"


def test_a_session_of_codex_that_continues_another_file_has_the_strictest_settings():
    """Codex takes the approval and the sandbox of the other file's last turn, if this one has none."""
    data, client = REVERTED.read_bytes(), codex.CLIENT
    made = values(carried(data, client.carried_lines()))
    assert [line["payload"]["approval_policy"] for line in made if line["type"] == "turn_context"] == ["untrusted"]
    assert made[-1]["payload"]["sandbox_policy"] == {"type": "read-only"} and made[-1]["ordinal"] == made[-2]["ordinal"] + 1
    first = data[: data.index(b"\n") + 1]
    fork = client.make_fork(data, first, "00000000-0000-4000-8000-000000000000")
    last = values(carried(fork, client.carried_lines()))[-1]["payload"]
    assert last["approval_policy"] == "untrusted" and last["model"]
    with pytest.raises(errors.AgentError, match="names no model"):
        carried(first, client.carried_lines())


def test_the_line_that_opens_such_a_session_has_what_the_person_s_own_settings_say(tmp_path):
    client, data, plain = codex.CLIENT, REVERTED.read_bytes(), "codex resume s"
    assert client.resume_command("s", data, str(tmp_path), {}) == plain
    for config, line in (
        (b'approval_policy = "on-request"\nsandbox_mode = "read-only"\n', "codex resume -a on-request -s read-only s"),
        (b'sandbox_mode = "workspace-write"\napproval_policy = { granular = 1 }', "codex resume -s workspace-write s"),
        (b'approval_policy = "never; rm -rf ~"', plain),
        (b"not toml", plain),
    ):
        plant(tmp_path, {".codex/config.toml": config})
        assert client.resume_command("s", data, str(tmp_path), {}) == line
        assert client.resume_command("s", b"", str(tmp_path), {}) == plain, "it continues no other file"
