"""What only Claude Code's transcripts have: branches that were left, queued prompts, compactions, and lines that look like prompts.

The danger prevented here: a fork with turns in it that the person had thrown away, without turns that were said, or with
a call at its end that nobody answered.
"""

import json

import pytest

from casrewind import agents, errors
from casrewind.agents import transcript_position
from casrewind.agents.claude import first_lines_by_uuid, parse_lines
from casrewind.model.cursor import Cursor
from support import transcripts
from support.known_clients import RECORDINGS
from support.transcripts import assistant, join, result, typed, user

claude = agents.load_conversation_client("claude")
PROMPTS = {name: [text for text, _, *left in RECORDINGS[f"claude/{name}"][1] if not left] for name in transcripts.CLAUDE}


def texts(data):
    return [prompt.text for prompt in claude.prompts(data)]


def conversation(data):
    """What a client that resumes these lines sends: the branch's texts, calls and results, by a reading of its own."""
    rows = {row["uuid"]: row for row in transcripts.values(data) if row.get("uuid") and not row.get("isSidechain")}
    at = list(rows)[-1] if rows else None
    branch = []
    while at is not None:
        branch.append(rows[at])
        at = rows[at]["parentUuid"]  # not over a compaction: the client does not go there either
    said = []
    for row in reversed(branch):
        content = row.get("message", {}).get("content", [])
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            said.append((row["type"], block["type"], block.get("text", "")[:40]))
    return said


TAGGED = [
    (typed("u", None, "<command-name>/x</command-name>"), "prompt"),
    (typed("u", None, "[Request interrupted by user]"), "prompt"),
    (typed("u", None, [{"type": "image"}]), "prompt"),
    (user("u", None, "hello", promptSource="sdk", turnOrigin="sdk"), "prompt"),
    (user("u", None, "hello", promptId="p"), "prompt"),  # 2.1.160 has no promptSource
    (user("u", None, "hello"), "prompt"),
    (user("u", None, "hello", promptSource="voice", origin={"kind": "human"}), "prompt"),
    (user("u", None, "hello", promptSource="system"), "meta"),
    (user("u", None, "hello", promptSource="robot", origin={"kind": "robot"}), "meta"),
    (user("u", None, "hello", isMeta=True), "meta"),
    (user("u", None, "/x", isMeta=True, turnCompanion=True), "meta"),
    (user("u", None, "hello", isSidechain=True, promptSource="typed"), "sidechain"),
    (user("u", None, "hello", isCompactSummary=True, isVisibleInTranscriptOnly=True), "compact_summary"),
    (user("u", None, "[Request interrupted by user for tool use]", interruptedMessageId="m"), "interrupt"),
    (user("u", None, [{"type": "text", "text": "[Request interrupted by user]"}]), "interrupt"),
    (user("u", None, "<task-notification>\n<task-id>", promptSource="system", origin={"kind": "task-notification"}), "task_notification"),
    (user("u", None, "<task-notification>\n<task-id>"), "task_notification"),
    (user("u", None, "<command-message>x</command-message>\n<command-name>/x</command-name>", origin={"kind": "human"}), "command"),
    (user("u", None, "<command-name>/clear</command-name>"), "local_command"),
    (user("u", None, "<local-command-stdout>done</local-command-stdout>"), "local_command"),
    (user("u", None, "<bash-input>ls</bash-input>"), "bash_mode"),
    (user("u", None, "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"), "bash_mode"),
    (result("u", None, "t"), "tool_result"),
    ({**result("u", None, "t"), "promptSource": "typed"}, "tool_result"),
    (assistant("u", None), "assistant"),
    ({"type": "attachment", "uuid": "u", "attachment": {"type": "date"}}, "attachment"),
    ({"type": "attachment", "uuid": "u", "attachment": {"type": "queued_command", "prompt": "x"}}, "queued"),
    ({"type": "attachment", "uuid": "u", "attachment": {"type": "queued_command", "prompt": [{"type": "text", "text": "x"}], "commandMode": "prompt"}}, "queued"),
    ({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x", "commandMode": "task-notification"}}, "attachment"),
    ({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x", "origin": {"kind": "task-notification"}}}, "attachment"),
    ({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "<task-notification>x"}}, "attachment"),
    ({"type": "attachment", "attachment": 7}, "attachment"),
    ({"type": "system", "subtype": "informational"}, "system"),
    *[({"type": name}, "bookkeeping") for name in ("summary", "custom-title", "ai-title", "last-prompt", "file-history-delta", "queue-operation")],
    ({"type": "something-of-next-year", "uuid": "u"}, "unknown"), ({"type": 7}, "unknown"), ({}, "unknown"), (None, "unknown"),
    ({"type": "user"}, "meta"), ({"type": "user", "message": 7}, "meta"), ({"type": "user", "message": {"content": 7}}, "meta"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), TAGGED)
def test_look_alikes_are_told_from_prompts(value, kind):
    assert claude.kind_of_line(value) == kind
    assert len(claude.prompts(join([value]))) == (kind in ("prompt", "queued") and value.get("uuid") == "u")


# -- cuts


def test_the_abandoned_branch_of_a_built_in_rewind_never_comes_back():
    data = transcripts.claude(transcripts.REWOUND)
    assert b"please run bash" in data and "please run bash" not in texts(data)
    *_, after_rewind, newest = claude.prompts(data)
    kept = claude.cut_before_prompt(data, after_rewind)
    assert b"please run bash" not in kept and texts(kept) == PROMPTS[transcripts.REWOUND][:2]
    assert "Alpha edited." in conversation(kept)[-1]
    later = claude.cut_before_prompt(data, newest)
    assert texts(later) == PROMPTS[transcripts.REWOUND][:3]
    assert not any("run bash" in text or "Bash ran" in text for _, _, text in conversation(later))


def test_cutting_before_a_compaction_gives_the_whole_conversation_back():
    data = transcripts.claude(transcripts.REWOUND)
    kept = claude.cut_before_prompt(data, claude.prompts(data)[2])
    assert b"compact_boundary" not in kept and ("user", "text", "please create alpha") in conversation(kept)
    behind = claude.cut_before_prompt(data, claude.prompts(data)[3])
    assert b"compact_boundary" in behind and ("user", "text", "please create alpha") not in conversation(behind)


def test_the_client_s_own_word_on_where_to_go_on_is_not_in_a_fork():
    """An explicit last-prompt line moves the end of the conversation; here the end is the last line."""
    data = transcripts.claude(transcripts.REWOUND)
    kept = claude.cut_before_prompt(data, claude.prompts(data)[3])
    assert b'"explicit":true' in data and b'"explicit":true' not in kept
    assert kept.count(b"\n") == data[: claude.prompts(data)[3].start].count(b"\n") - 1
    assert transcripts.is_part_of(kept, data)


def test_an_explicit_word_of_the_client_is_the_current_branch():
    rows = [typed("a", None, "one"), assistant("b", "a"), typed("c", "b", "two"), assistant("d", "c")]
    pin = {"type": "last-prompt", "leafUuid": "b", "explicit": True}
    assert texts(join([*rows, pin])) == ["one"]
    assert texts(join([*rows, {**pin, "explicit": False}])) == ["one", "two"]
    assert texts(join([*rows, {**pin, "leafUuid": "00000000-0000-0000-0000-000000000000"}])) == ["one", "two"]
    assert texts(join([*rows, pin, typed("e", "b", "three")])) == ["one", "three"]


def test_a_queued_prompt_has_the_running_turn_s_id_and_is_cut_behind_the_results_it_was_handed_over_with():
    data = transcripts.claude(transcripts.QUEUED)
    running, queued = claude.prompts(data)
    assert queued.queued and queued.prompt_id == running.prompt_id != ""
    kept = claude.cut_before_prompt(data, queued)
    assert data.startswith(kept) and texts(kept) == ["slow bash"]
    assert [(who, kind) for who, kind, _ in conversation(kept)] == [("user", "text"), ("assistant", "tool_use"), ("user", "tool_result")]


def test_two_queued_prompts_are_cut_apart():
    def queue(uuid, parent, text):
        return {"type": "attachment", "uuid": uuid, "parentUuid": parent, "attachment": {"type": "queued_command", "prompt": text}}

    data = join([typed("a", None, "one"), assistant("b", "a", "t1"), result("c", "b", "t1"), queue("d", "c", "two"), queue("e", "d", "three"), assistant("f", "e")])
    assert texts(data) == ["one", "two", "three"]
    assert {prompt.prompt_id for prompt in claude.prompts(data)} == {"p-a"}
    assert texts(claude.cut_before_prompt(data, claude.prompts(data)[2])) == ["one", "two"]


@pytest.mark.parametrize(
    "first",
    [
        [],
        [{"type": "mode"}, {"type": "permission-mode"}],
        [user("a", None, "<local-command-caveat>", isMeta=True), user("b", "a", "<command-name>/model</command-name>"), user("c", "b", "<local-command-stdout>")],
        [{"type": "system", "subtype": "informational", "uuid": "c", "parentUuid": None}],
    ],
)
def test_before_the_first_prompt_there_is_no_session_to_fork(first):
    """The client refuses a transcript in which nobody said anything."""
    parent = first[-1].get("uuid") if first else None
    data = join([*first, typed("p", parent, "one"), assistant("q", "p")])
    assert claude.cut_before_prompt(data, claude.prompts(data)[0]) is None


def test_unanswered_calls_never_end_a_fork():
    """The client was killed in the middle of a tool, resumed, and asked something else."""
    head = [typed("a", None, "one"), assistant("b", "a"), typed("c", "b", "two"), assistant("d", "c", message="m", text="let me")]
    cases = [
        ([assistant("e", "d", "t1", message="m")], "e"),
        ([assistant("e", "d", "t1", message="m"), assistant("f", "e", "t2", message="m")], "f"),
        ([assistant("e", "d", "t1", message="m"), assistant("f", "e", "t2", message="m"), result("g", "e", "t1")], "g"),
        ([assistant("e", "d", "t1", message="m"), assistant("f", "e", "t2", message="m"), result("g", "f", "t2")], "g"),
        ([assistant("e", "d", "t1", message="m"), {"type": "system", "subtype": "informational", "uuid": "s", "parentUuid": "e"}], "s"),
        ([assistant("e", "d", "t1", message="m"), user("i", "e", "[Request interrupted by user]", interruptedMessageId="x")], "i"),
    ]
    for more, parent in cases:
        data = join([*head, *more, typed("z", parent, "three"), assistant("y", "z")])
        kept = claude.cut_before_prompt(data, claude.prompts(data)[-1])
        assert kept == join(head), parent


def test_answered_calls_stay_in_a_fork():
    rows = [
        typed("a", None, "one"), assistant("b", "a", "t1", message="m"), assistant("c", "b", "t2", message="m"),
        result("d", "b", "t1"), result("e", "c", "t2"),
    ]  # fmt: skip
    data = join([*rows, typed("z", "e", "two")])
    assert claude.cut_before_prompt(data, claude.prompts(data)[-1]) == join(rows)


def test_an_older_call_that_nobody_answered_takes_nothing_away():
    rows = [typed("a", None, "one"), assistant("b", "a", "t1"), typed("c", "b", "two"), assistant("d", "c")]
    data = join([*rows, typed("z", "d", "three")])
    assert claude.cut_before_prompt(data, claude.prompts(data)[-1]) == join(rows)


def test_lines_whose_parent_is_gone_follow_what_is_in_front_of_them():
    """The client can take a line out of its transcript."""
    rows = [typed("a", None, "one"), assistant("b", "a"), typed("c", "b", "two"), assistant("d", "c"), typed("e", "d", "three")]
    for missing in ("b", "d"):
        data = join([row for row in rows if row["uuid"] != missing])
        assert texts(data) == ["one", "two", "three"]
        assert claude.cut_before_prompt(data, claude.prompts(data)[-1]) == join([row for row in rows[:4] if row["uuid"] != missing])


def progress(uuid, parent, **more):
    return {"parentUuid": parent, "isSidechain": False, "type": "progress", "data": {"type": "hook_progress"}, "uuid": uuid, **more}


def test_a_line_of_an_unknown_kind_links_a_prompt_to_the_line_above_it():
    """The person went back inside the client, and the next prompt hangs on a line about progress: the turn between is not in the fork."""
    rows = [typed("a", None, "one"), assistant("b", "a"), typed("c", "b", "two"), assistant("d", "c"), progress("p", "b"), progress("q", "p")]
    data = join([*rows, typed("e", "q", "three"), progress("r", "e"), assistant("f", "r"), typed("g", "f", "four")])
    assert texts(data) == ["one", "three", "four"] and texts(join([*rows, progress("z", "d")])) == ["one", "two"]
    assert claude.cut_before_prompt(data, claude.prompts(data)[1]) == join(rows[:2])
    kept = claude.cut_before_prompt(data, claude.prompts(data)[2])
    assert texts(kept) == ["one", "three"] and b'"r"' in kept, "it is copied along"


def test_a_conversation_may_begin_anew_below_a_line_of_an_unknown_kind():
    """As after an accepted plan: what was said before is not in the new conversation."""
    rows = [typed("a", None, "one"), assistant("b", "a"), progress("p", None), typed("c", "p", "two"), assistant("d", "c")]
    assert texts(join(rows)) == ["two"]
    assert claude.cut_before_prompt(join(rows), claude.prompts(join(rows))[0]) is None


def test_a_checkpoint_at_a_line_of_an_unknown_kind_ends_at_the_line_before_it():
    rows = [typed("a", None, "one"), assistant("b", "a"), progress("p", "a"), typed("c", "b", "two"), assistant("d", "c")]
    assert claude.cut_at_checkpoint(join(rows), Cursor(event_id="p", offset=1), "manual") == join(rows[:2])
    rows[2] = progress("p", "b", isSidechain=True)
    assert texts(join(rows)) == ["one", "two"] and claude.kind_of_line(rows[2]) == "sidechain"


def test_a_circle_of_parents_is_no_endless_loop():
    data = join([typed("a", "c", "one"), assistant("b", "a"), typed("c", "b", "two")])
    assert texts(data) == ["one", "two"]
    for prompt in claude.prompts(data):
        kept = claude.cut_before_prompt(data, prompt)
        assert kept is None or transcripts.is_part_of(kept, data)
    data = join([typed("a", None, "one"), assistant("b", "a"), typed("c", "c", "two")])
    assert claude.cut_before_prompt(data, claude.prompts(data)[-1]) == data[: data.rindex(b"{\"type\": \"user\"")]


# -- cuts at other checkpoints


def row_of(data, **fields):
    return next(row for row in transcripts.values(data) if all(row.get(name) == value for name, value in fields.items()))


def test_the_end_of_a_turn_is_where_the_next_one_starts():
    """At Stop the last line of the answer may not be in the file yet: the cursor's last id is an older one."""
    data = transcripts.claude(transcripts.TYPED)
    for number, prompt in enumerate(claude.prompts(data)):
        kept = claude.cut_at_checkpoint(data, Cursor(prompt_id=prompt.prompt_id, event_id=prompt.uuid, offset=prompt.start), "turn_end")
        assert transcripts.is_part_of(kept, data) and texts(kept) == PROMPTS[transcripts.TYPED][: number + 1]
        assert transcripts.values(kept)[-1]["subtype"] == "turn_duration"
        bare = claude.cut_at_checkpoint(data, Cursor(event_id=prompt.uuid, offset=1), "turn_end")  # an older client: no prompt_id
        assert bare == kept


def test_the_end_of_an_abandoned_turn_is_found_on_its_own_branch():
    data = transcripts.claude(transcripts.REWOUND)
    turn = claude.prompts(data, every=True)[2]
    kept = claude.cut_at_checkpoint(data, Cursor(prompt_id=turn.prompt_id, event_id=turn.uuid, offset=1), "turn_end")
    assert texts(kept) == PROMPTS[transcripts.TYPED] and "Bash ran." in conversation(kept)[-1]


def test_a_checkpoint_before_a_compaction_is_cut_in_front_of_its_boundary():
    data = transcripts.claude(transcripts.REWOUND)
    boundary = row_of(data, subtype="compact_boundary")
    for event_id in (boundary["logicalParentUuid"], claude.prompts(data)[2].uuid):
        kept = claude.cut_at_checkpoint(data, Cursor(event_id=event_id, offset=1), "compact")
        assert transcripts.values(kept)[-1]["uuid"] == boundary["logicalParentUuid"]
        assert texts(kept) == PROMPTS[transcripts.REWOUND][:3]


def test_a_compaction_in_the_middle_of_a_turn_does_not_end_it():
    turn = {"promptId": "p-a"}
    rows = [
        typed("a", None, "one"), assistant("b", "a", "t1"), result("c", "b", "t1"),
        {"type": "system", "subtype": "compact_boundary", "uuid": "s", "parentUuid": None, "logicalParentUuid": "c"},
        user("u", "s", "This session is being continued", isCompactSummary=True, **turn), assistant("d", "u"),
        typed("e", "d", "two"), assistant("f", "e"),
    ]  # fmt: skip
    data = join(rows)
    assert texts(data) == ["one", "two"]
    assert claude.cut_at_checkpoint(data, Cursor(prompt_id="p-a", offset=1), "turn_end") == join(rows[:6])
    rows[4] = user("u", "s", "This session is being continued", isCompactSummary=True, promptId="p-compact")
    assert claude.cut_at_checkpoint(join(rows), Cursor(prompt_id="p-a", offset=1), "turn_end") == join(rows[:3])


def test_a_batch_of_tools_is_cut_behind_its_last_result():
    data = transcripts.claude(transcripts.TYPED)
    call = row_of(data, type="user", toolUseResult="Error: Exit code 3")
    name = call["message"]["content"][0]["tool_use_id"]
    kept = claude.cut_at_checkpoint(data, Cursor(tool_use_id=name, event_id=call["parentUuid"], offset=1), "tool_batch")
    assert transcripts.values(kept)[-1]["uuid"] == call["uuid"]


def test_before_a_tool_the_calls_are_not_in_the_fork():
    data = transcripts.claude(transcripts.TYPED)
    call = row_of(data, type="user", toolUseResult="Error: Exit code 3")
    kept = claude.cut_at_checkpoint(data, Cursor(event_id=call["parentUuid"], offset=1), "tool_batch")
    assert "Two parallel calls." in conversation(kept)[-1]


def test_without_ids_the_bytes_in_front_of_the_cursor_are_taken_when_they_are_still_the_same():
    data = transcripts.claude(transcripts.TYPED)
    cursor = transcript_position.cursor_at(claude, data[:30_000], event())._replace(event_id="gone")
    kept = claude.cut_at_checkpoint(data, cursor, "manual")
    assert data.startswith(kept) and 20_000 < len(kept) <= 30_000
    for changed in (data.replace(b"alpha", b"ALPHA"), data[:20_000], b""):
        with pytest.raises(errors.AgentError, match="not in this transcript"):
            claude.cut_at_checkpoint(changed, cursor, "manual")


def event(**fields):
    from casrewind.agents import event as events

    return events.read_event(claude, json.dumps({"hook_event_name": "Stop", "session_id": "s", **fields}).encode(), {})


# -- forks


def titled(data, title):
    return data + join([{"type": "custom-title", "customTitle": title}])


def test_a_fork_is_the_cut_and_a_line_with_its_title():
    data = transcripts.claude(transcripts.TYPED)
    kept = claude.cut_before_prompt(data, claude.prompts(data)[2])
    made = claude.make_fork(data, kept, "new-id")
    assert made.startswith(kept) and made.endswith(b"\n")
    line = {"type": "custom-title", "customTitle": "please create alpha new-", "sessionId": "new-id"}
    assert transcripts.values(made[len(kept) :]) == [line]


def test_the_title_is_the_person_s_before_the_client_s():
    data = transcripts.claude(transcripts.TYPED)
    assert claude.title_of(data) == "please create alpha" and claude.title_of(b"") == ""
    data += join([{"type": "summary", "summary": "a summary"}])
    assert claude.title_of(data) == "a summary"
    data += join([{"type": "ai-title", "aiTitle": "by the client"}])
    assert claude.title_of(data) == "by the client"
    data += join([{"type": "custom-title", "customTitle": "older"}, {"type": "custom-title", "customTitle": "mine"}, {"type": "custom-title", "customTitle": ""}, typed("x", None, 'a "custom-title" in a prompt')])
    assert claude.title_of(data) == "mine"


def test_a_fork_s_title_can_be_typed_and_is_its_own():
    data = transcripts.claude(transcripts.TYPED)
    names = {
        "zwölf\nZeilen": "zwölf Zeilen", "half \ud83d": "half", 'say "hello", now': "say hello now", "😀": "", "请把这个函数改成四舍五入到分然后写一个测试谢谢": "",
        "please round all prices to cents": "please round all", "fix it 12ab": "fix it 12ab",
    }  # fmt: skip
    for name, words in names.items():
        made = claude.make_fork(titled(data, name), data, "53cc40d2-e5ce")
        assert claude.title_of(made) == f"{words} 53cc".strip()
        assert claude.resume_inside("53cc40d2-e5ce", made) == f"/resume {words} 53cc".replace("  ", " ")


def test_a_session_with_another_title_is_opened_by_its_id():
    made = titled(claude.make_fork(transcripts.claude(transcripts.TYPED), b"", "53cc40d2-e5ce"), "mine")
    assert claude.resume_inside("53cc40d2-e5ce", made) == "/resume 53cc40d2-e5ce"


def test_a_line_without_an_end_gets_one_before_the_title():
    assert transcripts.values(claude.make_fork(b"", b'{"a":1}', "n"))[0] == {"a": 1}


def test_the_first_of_two_equal_lines_counts():
    rows = [typed("a", None, "one"), assistant("b", "a"), typed("c", "b", "two")]
    data = join([*rows, *rows])
    assert claude.cut_before_prompt(data, claude.prompts(data)[-1]) == join(rows[:2])
    assert first_lines_by_uuid(parse_lines(data)) == {"a": 0, "b": 1, "c": 2}
