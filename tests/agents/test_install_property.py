"""Random settings, laid out at random: in and out again is byte for byte nothing, and nobody else's hook is lost."""

import json
import os
import tempfile

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from casrewind import agents
from casrewind.agents import install as installs
from casrewind.agents.client import TIERS
from support import client_settings as judge
from support.client_settings import put, read
from support.sample_start import examples

EVENTS = ["SessionStart", "UserPromptSubmit", "Stop", "PreToolUse", "PostToolUse", "PostToolBatch", "Notification", "Odd", ""]
SPACES = st.text(" \t\r\n", max_size=4)
WORDS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["hooks", "casrewind", "matcher", "}", '"', "\\", "\u2028", "\ufeff"])
NUMBERS = st.sampled_from(["0", "-0", "1.50", "1e5", "1E-2", "123456789012345678901234567890", "0.1"])


class Raw(str):
    """A piece of JSON as it is to be written."""


SCALARS = st.none() | st.booleans() | NUMBERS.map(Raw) | WORDS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8)
HOOKS = st.fixed_dictionaries({"type": st.just("command"), "command": WORDS | st.just("x casrewind hook claude y")}, optional={"timeout": NUMBERS.map(Raw)})
GROUPS = st.fixed_dictionaries({"hooks": st.lists(HOOKS, max_size=3)}, optional={"matcher": WORDS, "extra": VALUES}) | VALUES
HOOK_TABLES = st.dictionaries(st.sampled_from(EVENTS), st.lists(GROUPS, max_size=3), max_size=5)


@st.composite
def documents(draw):
    """The text of a settings file: random members with hooks somewhere among them, random white space and escapes."""
    members = draw(st.lists(st.tuples(WORDS.filter(lambda word: word != "hooks"), VALUES), max_size=4))
    if draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), ("hooks", draw(HOOK_TABLES)))
    indent = draw(st.sampled_from([None, "", " ", "  ", "\t", "ragged"]))
    line = draw(st.sampled_from(["\n", "\r\n"]))
    ascii_only = draw(st.booleans())

    def gap(depth):
        if indent == "ragged":
            return draw(SPACES)
        return "" if indent is None else line + indent * depth

    def text(value, depth):
        if isinstance(value, Raw):
            return str(value)
        if isinstance(value, (dict, Pairs)):
            pairs = list(value.items()) if isinstance(value, dict) else value
            pieces = [json.dumps(key, ensure_ascii=ascii_only) + ":" + gap(0).strip("\r\n") + text(item, depth + 1) for key, item in pairs]
            return wrapped("{", pieces, "}", depth)
        if isinstance(value, list):
            return wrapped("[", [text(item, depth + 1) for item in value], "]", depth)
        return json.dumps(value, ensure_ascii=ascii_only)

    def wrapped(begin, pieces, end, depth):
        inside = ("," + gap(depth + 1)).join(pieces)
        return begin + (gap(depth + 1) + inside + gap(depth) if pieces else draw(st.sampled_from(["", " ", "\n"]))) + end

    return draw(SPACES) + text(Pairs(members), 0) + draw(SPACES)


class Pairs(list):
    """Members of an object, of which two may have the same key."""


@given(documents(), st.lists(st.sampled_from(TIERS), min_size=1, max_size=3))
@example('{"hooks":{}}', ["minimal", "aggressive", "minimal"])
@example("{ }", ["aggressive", "minimal"])
@settings(max_examples=examples(100), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_in_and_out_again_is_nothing(text, tiers):
    with tempfile.TemporaryDirectory() as home:
        target = installs.make_target(agents.load_client("claude"), None, home, {})
        path = put(os.path.join(home, ".claude", "settings.json"), text)
        before = read(path)
        foreign = judge.others(json.loads(text))
        for tier in tiers:
            installs.install(target, tier, {})
            assert judge.others(json.loads(read(path))) == foreign
            wanted = {hook.event: [(hook.matcher, hook.timeout)] for hook in agents.load_client("claude").hooks_of(tier)}
            assert mine(path) == wanted
            once = read(path)
            assert not installs.install(target, tier, {}).changed and read(path) == once
        installs.uninstall(target)
        assert read(path) == before
        assert os.listdir(os.path.dirname(path)) == ["settings.json"]


@given(documents(), st.sampled_from(TIERS), WORDS, VALUES.filter(lambda value: "Raw" not in repr(type(value))))
@settings(max_examples=examples(60), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_what_was_added_since_stays_as_it_was_written(text, tier, key, value):
    with tempfile.TemporaryDirectory() as home:
        target = installs.make_target(agents.load_client("claude"), None, home, {})
        path = put(os.path.join(home, ".claude", "settings.json"), text)
        foreign = judge.others(json.loads(text))
        installs.install(target, tier, {})
        added = "added" + key
        now = read(path).decode().strip()
        member = json.dumps(added) + " : " + json.dumps(value)
        put(path, "\n{" + member + " ," + now[1:])  # every document has members by now
        installs.uninstall(target)
        left = read(path).decode()
        assert left.startswith("\n{" + member) and judge.others(json.loads(left)) == {added: json.loads(json.dumps(value)), **foreign}
        assert b"casrewind hook claude\"" not in read(path)


def mine(path):
    """Our hooks, in documents that hold odd groups as well."""
    found = {}
    for event, groups in json.loads(read(path))["hooks"].items():
        for group in groups:
            for hook in (group.get("hooks") if isinstance(group, dict) and isinstance(group.get("hooks"), list) else []):
                if judge.is_ours(hook):
                    found.setdefault(event, []).append((group.get("matcher"), hook["timeout"]))
    return found
