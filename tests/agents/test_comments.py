"""Settings with comments, for the clients that read them: every comment stays, and out again leaves every byte."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casrewind import agents, errors
from casrewind.agents import install as installs
from casrewind.agents import json_edit
from support.client_settings import put, read
from support.sample_start import examples

ALL = {client.name: client for client in agents.load_clients()}

READS = sorted(name for name, client in ALL.items() if any(file.comments for file in client.settings.files))
OTHERS = sorted(name for name, client in ALL.items() if client.settings.files and name not in READS)
EVENT = {"gemini": "BeforeAgent", "qwen": "UserPromptSubmit"}
MINE = '{"hooks": [{"type": "command", "command": "mine"}]}'
DOCUMENTS = {
    "above and beside": '// of the team\n{\n  /* look */ "theme": "dark", // or "light"\n  "a": [1, /* two */ 2]\n}\n// end\n',
    "nothing else": "{\n  // nothing yet: }, ]\n}\n",
    "in one line": '{ /* all } of it */ "a": "// no comment", "b": "/* neither */" }',
    "hooks of others": '{\n  "hooks": {\n    // mine: keep\n    "EVENT": [\n      // first\n      MINE // last\n      // behind it\n    ]\n  }\n}\n',
    "an empty list": '{\r\n  "hooks": {"EVENT": [ /* none */ ]}, // so\r\n  "z": 1 // last\r\n}',
    "an empty object": '{"hooks": {\n    // none\n  }\n}',
}


def test_the_clients_that_read_comments():
    assert READS == ["gemini", "qwen"]


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("agent", READS)
def test_in_and_out_again_leaves_every_byte_and_meanwhile_every_comment(home, agent, name):
    target = installs.make_target(ALL[agent], None, str(home), {})
    text = DOCUMENTS[name].replace("EVENT", EVENT[agent]).replace("MINE", MINE)
    path = put(f"{target.directory}/settings.json", text)
    for tier in ("aggressive", "minimal", "balanced"):
        installs.install(target, tier, {})
        now = read(path).decode()
        assert json_edit.comments(now) == json_edit.comments(text)
        value = json.loads(json_edit.blank_comments(now))
        assert {hook.event for hook in target.client.hooks_of(tier)} <= set(value["hooks"])
        assert not installs.install(target, tier, {}).changed
        if "MINE" in DOCUMENTS[name]:
            assert json.loads(MINE) in value["hooks"][EVENT[agent]]
    installs.uninstall(target)
    assert read(path).decode() == text


@pytest.mark.parametrize("agent", READS)
def test_what_a_person_changed_meanwhile_stays(home, agent):
    target = installs.make_target(ALL[agent], None, str(home), {})
    path = put(f"{target.directory}/settings.json", '{\n  // old remark\n  "theme": "dark"\n}\n')
    installs.install(target, "balanced", {})
    put(path, read(path).replace(b"// old remark", b"// new remark"))
    installs.uninstall(target)
    now = read(path).decode()
    assert json_edit.comments(now) == ["// new remark"] and json.loads(json_edit.blank_comments(now)) == {"theme": "dark"}


@pytest.mark.parametrize("text", ['{"a": 1,}', '{"a": /* open', "{'a': 1}", '{"a": 1} / {}', '{"a": //\n}'])
@pytest.mark.parametrize("agent", READS)
def test_what_the_client_cannot_read_is_refused(home, agent, text):
    target = installs.make_target(ALL[agent], None, str(home), {})
    path = put(f"{target.directory}/settings.json", text)
    with pytest.raises(errors.AgentError, match="not JSON with comments"):
        installs.install(target, "balanced", {})
    assert read(path).decode() == text


@pytest.mark.parametrize("agent", OTHERS)
def test_other_clients_refuse_comments(home, agent):
    target = installs.make_target(ALL[agent], None, str(home), {})
    file = target.client.settings.files[0]
    path = put(f"{target.directory}/{file.name}", file.empty.replace("{", "{ // mine\n", 1))
    with pytest.raises(errors.AgentError, match="comments"):
        installs.install(target, "balanced", {})
    assert b"// mine" in read(path)


SPACE = st.sampled_from(["", " ", "\n", "\r\n  ", " /* c */ ", " // c\n", "/*}*/", "//]\n"])


@st.composite
def commented(draw, depth=2):
    """A document with white space and comments wherever JSON allows them."""
    gap = lambda: draw(SPACE)
    kind = draw(st.sampled_from(["value", "list", "object"] if depth else ["value"]))
    if kind == "value":
        return draw(st.sampled_from(["1", "-2.50", "true", "null", '"//"', '"/*"', '"\\"//"', '"\\\\"']))
    inner = [draw(commented(depth=depth - 1)) for _ in range(draw(st.integers(0, 3)))]
    if kind == "list":
        return f"[{gap()}" + f"{gap()},{gap()}".join(inner) + f"{gap()}]"
    return f"{{{gap()}" + f"{gap()},{gap()}".join(f'"k{n}"{gap()}:{gap()}{one}' for n, one in enumerate(inner)) + f"{gap()}}}"


@settings(deadline=None, max_examples=examples(300), derandomize=True)
@given(commented(), st.data())
def test_an_edit_keeps_every_comment_and_its_reverse_takes_out_just_it(text, data):
    text = f"{data.draw(SPACE)}{text}{data.draw(SPACE)}"
    start = json_edit.value_start(text)
    assert len(json_edit.blank_comments(text)) == len(text)
    if text[start] not in "[{":
        return
    key = "ours" if text[start] == "{" else None
    added = json_edit.append_item(text, start, {"x": [1]}, key)
    value, old = json.loads(json_edit.blank_comments(added)), json.loads(json_edit.blank_comments(text))
    assert value == ({**old, "ours": {"x": [1]}} if key else [*old, {"x": [1]}])
    assert json_edit.comments(added) == json_edit.comments(text)
    found = json_edit.container_items(added, json_edit.value_start(added))
    gone = data.draw(st.sets(st.sampled_from(range(len(found))), max_size=len(found) - 1))
    pieces = json_edit.cuts_of_items(added, found, gone) if gone else []
    cut = json_edit.cut_pieces(added, pieces)
    left = [one for number, one in enumerate(found) if number not in gone]
    kept = json.loads(json_edit.blank_comments(cut))
    assert (list(kept) if key else kept) == ([one.key for one in left] if key else [json_edit.value_at(added, one.start) for one in left])
