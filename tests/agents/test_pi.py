"""What only Pi's sessions have: a tree of entries, labels, a header that names the parent, and two older versions."""

import re

import pytest

from casrewind import agents, errors
from casrewind.model.cursor import Cursor
from support import transcripts
from support.transcripts import is_part_of, join, values

pi = agents.load_conversation_client("pi")
HEADER = {"type": "session", "version": 3, "id": "old", "timestamp": "2026-11-22T04:00:10.991Z", "cwd": "/home/dev/proj"}
TIME = "2026-11-22T04:00:11.000Z"


def entry(own, parent, sort="message", **fields):
    return {"type": sort, "id": own, "parentId": parent, "timestamp": TIME, **fields}


def user(name, parent, text):
    return entry(name, parent, message={"role": "user", "content": [{"type": "text", "text": text}]})


def assistant(name, parent, *calls, text="answer"):
    blocks = [{"type": "text", "text": text}, *({"type": "toolCall", "id": call, "name": "bash", "arguments": {}} for call in calls)]
    return entry(name, parent, message={"role": "assistant", "content": blocks})


def result(name, parent, call):
    return entry(name, parent, message={"role": "toolResult", "toolCallId": call, "content": []})


def texts(data, **how):
    return [prompt.text for prompt in pi.prompts(data, **how)]


def ids(data):
    return [value["id"] for value in values(data)[1:]]


TWO = [HEADER, entry("m", None, "model_change"), user("u1", "m", "one"), assistant("a1", "u1"), user("u2", "a1", "two"), assistant("a2", "u2")]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (user("a", None, "hello"), "prompt"), (assistant("a", None), "assistant"), (result("a", None, "c"), "tool_result"),
        (entry("a", None, message={"role": "bashExecution"}), "bash_mode"), (entry("a", None, message={"role": "system"}), "system"),
        (entry("a", None, message={"role": "hookMessage"}), "meta"), (entry("a", None, "custom_message"), "meta"),
        (entry("a", None, "compaction"), "compact_summary"), (entry("a", None, "branch_summary"), "compact_summary"),
        (entry("a", None, "label"), "bookkeeping"), (HEADER, "bookkeeping"),
        (entry("a", None, "of-next-year"), "unknown"), (entry("a", None, message={"role": ["user"]}), "unknown"),
        ({"type": "message", "message": 7}, "unknown"), ({"type": ["message"]}, "unknown"), ({}, "unknown"), (None, "unknown"),
    ],
)  # fmt: skip
def test_look_alikes_are_told_from_prompts(value, kind):
    assert pi.kind_of_line(value) == kind
    assert texts(join([HEADER, value])) == (["hello"] if kind == "prompt" else [])


def test_the_client_s_own_fork_keeps_the_same_entries():
    parent, child = transcripts.recorded("pi", "tree-steer"), transcripts.recorded("pi", "native-fork")
    shared = [name for name in ids(child) if name in ids(parent)]
    cut = pi.cut_before_prompt(parent, next(prompt for prompt in pi.prompts(parent, every=True) if prompt.text.startswith("TURN2")))
    assert shared == ids(cut) and len(shared) > 3


def test_before_a_compaction_the_conversation_is_whole():
    data = transcripts.recorded("pi", "tree-compaction")
    summary = next(value for value in values(data) if value["type"] == "compaction")
    kept = pi.cut_at_checkpoint(data, Cursor(message_id=summary["parentId"]), "compact")
    assert ids(kept)[-1] == summary["parentId"] and summary["id"] not in ids(kept)
    assert summary["id"] in ids(pi.cut_at_checkpoint(data, Cursor(message_id=summary["id"]), "turn_end"))


def test_unanswered_calls_never_end_a_fork():
    data = join([*TWO, user("u3", "a2", "three"), assistant("a3", "u3", "c1", "c2"), result("r1", "a3", "c1"), result("r2", "r1", "c2")])
    for name, last in (("a3", "u3"), ("r1", "u3"), ("r2", "r2"), ("u3", "u3"), ("a2", "a2")):
        assert ids(pi.cut_at_checkpoint(data, Cursor(message_id=name), "tool_batch"))[-1] == last
    assert pi.cut_at_checkpoint(data, Cursor(message_id="m"), "session_start") is None, "nothing was said"


def test_a_cursor_without_the_entry_goes_by_its_bytes_and_one_of_another_session_is_refused():
    data = join(TWO)
    assert pi.cut_at_checkpoint(data, Cursor(), "session_start") is None
    assert pi.cut_at_checkpoint(data, Cursor(message_id="never written"), "session_start") is None, "there was no file yet"
    assert ids(pi.cut_at_checkpoint(data, Cursor(event_id="a1", offset=1), "turn_end"))[-1] == "a1"
    for cursor in (Cursor(message_id="x", offset=9), Cursor(event_id="x", offset=9, prefix=b"p" * 32, tail=b"t" * 32)):
        with pytest.raises(errors.AgentError, match="not in this transcript"):
            pi.cut_at_checkpoint(data, cursor, "turn_end")
    with pytest.raises(errors.AgentError, match="not in this transcript"):
        pi.cut_before_prompt(data, pi.prompts(join([HEADER, user("other", None, "x")]))[0])


def test_a_fork_has_a_header_of_its_own_and_names_its_parent(tmp_path):
    data = transcripts.recorded("pi", "three-turns")
    kept = pi.cut_before_prompt(data, pi.prompts(data)[2])
    made = pi.make_fork(data, kept, "new-id", original="/sessions/x.jsonl", root=str(tmp_path))
    head, *rest = values(made)
    assert head == {
        **values(data)[0], "id": "new-id", "timestamp": head["timestamp"], "cwd": str(tmp_path), "parentSession": "/sessions/x.jsonl",
    }  # fmt: skip
    assert kept.partition(b"\n")[2] in made and rest[:-1] == values(kept)[1:]
    assert (rest[-1]["type"], rest[-1]["parentId"]) == ("session_info", rest[-2]["id"])
    assert re.fullmatch("[0-9a-f]{8}", rest[-1]["id"])
    assert pi.title_of(made) == "[Fork] TURN1 please create a.txt" == pi.title_of(pi.make_fork(made, made, "n"))


def test_a_fork_runs_where_the_session_ran_if_that_is_in_the_project(tmp_path):
    (tmp_path / "proj" / "part").mkdir(parents=True)
    for cwd, wanted in (("proj/part", "proj/part"), ("proj", "proj"), ("gone", "proj"), ("", "proj")):
        data = join([{**HEADER, "cwd": str(tmp_path / cwd)}, *TWO[1:]])
        made = pi.make_fork(data, data, "n", root=str(tmp_path / "proj"))
        assert values(made)[0]["cwd"] == str(tmp_path / wanted)


def test_a_fork_lies_where_the_client_looks_for_it():
    made = pi.make_fork(join(TWO), join(TWO), "new-id", root="/home/dev/moved")
    path = pi.fork_path("/s/--home-dev-proj--/2026-11-22T04-00-10-991Z_old.jsonl", "new-id", made)
    assert re.fullmatch(r"/s/--home-dev-moved--/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_new-id\.jsonl", path)
    assert pi.fork_path("/elsewhere/t_old.jsonl", "new-id", made).startswith("/elsewhere/"), "with --session-dir there is one directory"


def test_in_place_nothing_is_removed_and_the_conversation_goes_on_from_the_cut():
    data = transcripts.recorded("pi", "three-turns")
    kept = pi.cut_before_prompt(data, pi.prompts(data)[1])
    made = pi.rewound_in_place(data, kept)
    assert made.startswith(data) and texts(made) == texts(kept)
    assert values(made)[-1]["parentId"] == ids(kept)[-1] and values(made)[-1]["id"] not in ids(data)
    assert texts(made, every=True) == texts(data)


def test_titles_and_labels_are_respected():
    more = [
        entry("l1", "a2", "label", targetId="a1", label="good"), entry("l2", "l1", "label", targetId="a2", label="later"),
        entry("s1", "l2", "session_info", name=" my name "),
    ]  # fmt: skip
    data = join([*TWO, *more])
    assert pi.title_of(data) == "my name" and pi.title_of(join([*TWO, *more, entry("s2", "s1", "session_info", name="")])) == "one"
    made = pi.make_fork(data, pi.cut_before_prompt(data, pi.prompts(data)[1]), "n")
    assert [(value["targetId"], value["label"]) for value in values(made) if value["type"] == "label"] == [("a1", "good")]
    assert pi.title_of(made) == "[Fork] my name" and pi.title_of(pi.make_fork(data + join([entry("s2", "s1", "session_info", name="other")]), data, "n")) == "[Fork] other"
    removed = join([*TWO[:4], entry("l0", "a1", "label", targetId="a1", label="old"), *TWO[4:], entry("l3", "a2", "label", targetId="a1")])
    kept = pi.cut_at_checkpoint(removed, Cursor(message_id="l0"), "turn_end")
    assert values(pi.make_fork(removed, kept, "n"))[-2] | {"id": "", "timestamp": ""} == {
        "type": "label", "id": "", "parentId": "l0", "timestamp": "", "targetId": "a1",
    }, "a label that was taken away is taken away"  # fmt: skip


def test_sessions_of_version_1_have_no_ids_and_follow_each_other():
    rows = [{key: value for key, value in row.items() if key not in ("id", "parentId")} for row in TWO[1:]]
    data = join([{key: value for key, value in HEADER.items() if key != "version"}, *rows])
    first, second = pi.prompts(data)
    assert (first.text, second.text, second.prompt_id) == ("one", "two", "") and second.time_ns
    kept = pi.cut_before_prompt(data, second)
    assert data.startswith(kept) and texts(kept) == ["one"] and pi.cut_before_prompt(data, first) is None
    made = pi.make_fork(data, kept, "n")
    assert made.partition(b"\n")[2] == kept.partition(b"\n")[2] and "version" not in values(made)[0]
    assert pi.rewound_in_place(data, kept) == kept


def test_sessions_of_version_2_are_trees_already():
    data = join([{**HEADER, "version": 2}, *TWO[1:]])
    assert texts(data) == ["one", "two"] and values(pi.make_fork(data, data, "n"))[0]["version"] == 2


def test_unknown_lines_are_left_out_and_unknown_entries_pass_byte_for_byte():
    strange = b'{"b":1, "a" :[]}\n\x00\xff\n\n[]\n'
    unknown = b'{"type":"of-next-year", "id":"x1","parentId":"a1" ,"n":1e400}\n'
    lines = [join([row]) for row in TWO]
    data = strange.join(lines[:4]) + unknown + join([user("u3", "x1", "three"), assistant("a3", "u3"), user("u4", "a3", "four")])
    assert texts(data) == ["one", "three", "four"]
    assert unknown not in pi.cut_before_prompt(data, pi.prompts(data)[1]), "it is no end"
    kept = pi.cut_before_prompt(data, pi.prompts(data)[2])
    assert unknown in kept and strange not in kept and is_part_of(kept, data)


def test_entries_that_name_each_other_end_the_branch():
    data = join([HEADER, user("u1", "u2", "one"), user("u2", "u1", "two"), user("u3", "gone", "three"), user("u3", "u3", "four")])
    assert texts(data) == ["three", "four"] and texts(data, every=True) == ["one", "two", "three", "four"]
