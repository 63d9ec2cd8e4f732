"""What Codex and Gemini say about our hooks is told: those that are not trusted, and those that were switched off."""

import json
import os
import sys

import pytest

from casrewind import agents
from casrewind.agents import run_program, hook_checks
from casrewind.agents import install as installs

ALL = {client.name: client for client in agents.load_clients()}


def target(agent, home, **environ):
    return installs.make_target(ALL[agent], None, str(home), environ)


def ask(found, program, root, environ):
    return found.client.ask_about_hooks(found.hooks, program, root, environ)


def looked(agent, home, root=None):
    return hook_checks.read_and_check_hooks(ALL[agent], root, str(home), {}, "balanced")


def test_only_codex_asks_for_trust_and_only_a_change_says_so(home):
    first = installs.install(target("codex", home), "balanced", {})
    assert any("trust them" in note for note in first.notes)
    assert installs.install(target("codex", home), "balanced", {}).notes == ()
    assert installs.install(target("gemini", home), "balanced", {}).notes == ()


def test_hooks_that_gemini_was_told_to_leave_out_are_a_problem(home):
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_bytes(b'{"hooksConfig": {"enabled": false, "disabled": 7}}')
    installs.install(target("gemini", home), "balanced", {})
    found = looked("gemini", home)
    assert ['"hooksConfig.enabled" is false' in problem and "set it to true" in problem for problem in found.problems] == [True]
    assert ask(found, "/bin/false", None, {}) == ((), ())
    value = json.loads(path.read_bytes())
    value["hooksConfig"] = {"disabled": [value["hooks"]["AfterAgent"][0]["hooks"][0]["command"]]}
    path.write_text(json.dumps(value))
    found = looked("gemini", home)
    assert found.problems == ()
    (problem,) = ask(found, "/bin/false", None, {}).problems
    assert "AfterAgent" in problem and "hooksConfig.disabled" in problem


SERVER = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import json, sys
hooks = json.loads({hooks!r})
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        print(json.dumps({{"id": 1, "result": {{}}}}), flush=True)
        print("not json", flush=True)
    if asked["method"] == "hooks/list":
        print(json.dumps({{"id": asked["id"], "result": {{"data": [{{"cwd": "/", "hooks": hooks}}]}}}}), flush=True)
"""

def program(directory, text):
    path = directory / "codex"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def listed(found, **changes):
    one = {"trustStatus": "trusted", "enabled": True}
    return [{"eventName": hook.event[0].lower() + hook.event[1:], "command": hook.line, **one, **changes} for hook in found.hooks]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None), ({"trustStatus": "managed"}, None), ({"trustStatus": "untrusted"}, "you have not trusted them yet"),
        ({"trustStatus": "modified"}, "you have not trusted them yet"), ({"trustStatus": None}, "you have not trusted them yet"),
        ({"enabled": False}, "switched off in Codex"), ({"command": "else"}, "does not know the hooks"),
    ],
)  # fmt: skip
def test_what_codex_says_about_our_hooks_is_told(home, tmp_path, changes, words):
    installs.install(target("codex", home), "balanced", {})
    found = looked("codex", home)
    text = SERVER.format(python=sys.executable, hooks=json.dumps(listed(found, **changes)))
    answer = ask(found, program(tmp_path, text), str(tmp_path), dict(os.environ))
    assert answer.notes == ()
    assert [words in problem for problem in answer.problems] == ([] if words is None else [True]), answer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\nexit 1\n", "ended without an answer"), ("#!/nowhere\n", "cannot be started"),
        ("#!/bin/sh\necho '{\"id\": 2, \"error\": {}}'\ncat > /dev/null\n", "refused"),
        ("#!/bin/sh\necho '{\"id\": 2, \"result\": {\"data\": 7}}'\ncat > /dev/null\n", "another form"),
        ("#!/bin/sh\nexec sleep 600\n", "no answer within"),
    ],
)  # fmt: skip
def test_a_codex_that_does_not_answer_is_a_note(home, tmp_path, text, why, monkeypatch):
    monkeypatch.setattr(run_program, "ANSWER_SECONDS", 0.5)
    installs.install(target("codex", home), "balanced", {})
    answer = ask(looked("codex", home), program(tmp_path, text), None, dict(os.environ))
    assert answer.problems == () and why in answer.notes[0] and "/hooks" in answer.notes[0]


def test_a_client_without_our_hooks_is_not_asked(home):
    assert ask(looked("codex", home), "/nowhere", None, {}) == ((), ())
    assert ask(looked("gemini", home), "/nowhere", None, {}) == ((), ())
