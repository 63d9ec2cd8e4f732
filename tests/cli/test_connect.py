"""`casrewind install` without a name: the clients that are there, and a question about each."""

import json
import os

import pytest

CLIENTS = ("claude", "codex", "opencode")


@pytest.fixture
def programs(tmp_path):
    """A PATH with the programs of three clients; opencode's settings directory is not there."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in CLIENTS:
        (place / name).write_text("#!/bin/sh\necho 1.2.3\n")
        (place / name).chmod(0o755)
    return {"PATH": f"{place}:/usr/bin:/bin"}


def connected(process):
    found = process.json("doctor", code=None)["agents"]
    return {name for name, agent in found.items() if agent["hooks"]}


def test_off_a_terminal_it_names_the_commands_and_writes_nothing(process, home, programs):
    process.environment.update(programs)
    (home / ".gemini").mkdir()
    said = process("install", code=0).out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["Claude Code", "Codex", "Gemini CLI", "OpenCode"]
    assert "casrewind install codex connects it" in said[1] and ".gemini" in said[2]
    assert os.listdir(home) == [".gemini"] and os.listdir(home / ".gemini") == []


def test_nothing_is_there(process, home):
    process.environment["PATH"] = "/nowhere"
    assert process("install", code=0).out.startswith("no client was found")
    assert os.listdir(home) == []


def test_on_a_terminal_it_asks_about_each(process, terminal, home, programs):
    session = terminal("install", environment=programs)
    session.read_until(b"Connect Claude Code")
    session.type("n\n")
    session.read_until(b"Connect Codex")
    session.type("y\n")
    session.read_until(b"Connect OpenCode")
    session.type("\n")
    code, shown = session.end()
    assert code == 0 and b"installed: Codex, balanced" in shown
    assert json.loads((home / ".codex/hooks.json").read_text())["hooks"] and not (home / ".claude").exists()
    process.environment.update(programs)
    assert "Codex: connected already" in process("install", code=0).out


@pytest.mark.turns(3)
def test_yes_connects_all_of_them(process, programs):
    process.environment.update(programs)
    process("install", "--yes", "--tier", "minimal", code=0)
    assert connected(process) == set(CLIENTS)
    assert process("install", "--yes", code=0).out.count("connected already") == len(CLIENTS)


def test_json_needs_a_name(process, programs):
    process.environment.update(programs)
    assert "needs the name of a client" in process("install", "--json", code=64).out


def test_without_a_session_back_says_what_to_do_next(process, root, home, programs):
    process.environment.update(programs)
    assert "casrewind install connects an agent's client; casrewind save makes the first" in process("back", code=10).err
    process("save", code=0)
    assert "casrewind install connects an agent's client" in process("back", code=16).err
    process("install", "claude", code=0)
    assert "Claude Code is connected: start a new session in this project" in process("back", code=16).err
    process("install", "codex", code=0)
    assert "Claude Code and Codex are connected: start a new session in this project" in process("back", code=16).err
