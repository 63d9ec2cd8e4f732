"""`casrewind doctor` runs what stands in the settings, as a client would, and leaves nothing behind; `status` names agents."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import casrewind as package
from casrewind import agents
from casrewind.agents import claude_plugin as plugin
from casrewind.agents import client_versions, run_program
from support import forked_command, real_clients
from support.client_settings import put, read
from support.command import Command, Result
from support.command_in_process import InProcess
from support.fake_client import Client
from support.installed import copy_product
from support.output_schema import schema_faults
from support.picture import differences, picture
from support.real_clients import claude
from support.sample_start import by_turns
from support.trees import plant

AGENT = {
    "installed": (str, type(None)), "version": (str, type(None)), "hooks": list, "command": (str, type(None)),
    "hook_test": (dict, type(None)), "last_event": (dict, type(None)), "last_checkpoint": (dict, type(None)),
    "running": (bool, type(None)), "problems": list,
}  # fmt: skip
TRIED = client_versions.TRIED["claude"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
GUARD = " 2>/dev/null || :"


def own_line():
    """The command line of a hook of ours."""
    return shlex.join([sys.executable, "-I", f"{Path(package.__file__).parent}/__main__.py", "hook", "claude"]) + GUARD


@pytest.fixture(autouse=True)
def interpreter(request, monkeypatch):
    """What doctor starts as a client's hook is a fork (support/forked_command.py), but for the hooks of a copy of the package."""
    if "copy" not in request.fixturenames and sys.platform.startswith("linux") and (found := forked_command.interpreter()):
        monkeypatch.setattr(sys, "executable", found)


class Doctor:
    """The command, with a temporary directory of its own, which has to be empty afterwards, as has the data directory
    to be what it was."""

    def __init__(self, root, home, tmp_path):
        self.home, self.temporary = home, tmp_path / "temporary"
        self.temporary.mkdir()
        self.command = InProcess(root, home, TMPDIR=str(self.temporary), PATH="/nowhere")

    def __call__(self, *arguments, code=0, **variables):
        import tempfile

        before, tempfile.tempdir = picture(self.home), None  # it is looked up once in a process
        try:
            found = self.command("doctor", *arguments, code=code, **variables)
        finally:
            tempfile.tempdir = None
        after = picture(self.home)
        told = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        assert all(path.endswith(b"log.seen") for path in told), differences(before, after)
        assert os.listdir(self.temporary) == []
        return found

    def json(self, *arguments, code=0, **variables):
        """What is printed with --json, checked for its shape; of one agent when there is only one."""
        found = self("--json", *arguments, code=code, **variables).json
        assert schema_faults(found, "doctor") == [] and set(found) == {"format", "ok", "agents", "project", "re2_problem"} and found["ok"] is (code == 0)
        for agent in found["agents"].values():
            assert set(agent) == set(AGENT)
            assert [key for key, kind in AGENT.items() if not isinstance(agent[key], kind)] == []
            assert all(set(hook) == {"scope", "settings", "tier", "events", "missing"} for hook in agent["hooks"])
            if agent["hook_test"] is not None:
                kinds = {"ran": bool, "ok": bool, "milliseconds": int, "detail": (str, type(None))}
                assert set(agent["hook_test"]) == set(kinds)
                assert all(isinstance(agent["hook_test"][key], kind) for key, kind in kinds.items())
                assert agent["hook_test"]["ok"] is (agent["hook_test"]["detail"] is None)
        assert found["ok"] is not any(agent["problems"] for agent in found["agents"].values())
        return found["agents"][arguments[0]] if arguments else found

    def problem(self, *words, agent="claude", **variables):
        """Something is wrong: one problem, that holds these words; the agent's report."""
        found = self.json(agent, code=16, **variables)
        assert len(found["problems"]) == 1, found["problems"]
        for word in words:
            assert word in found["problems"][0], found["problems"]
        return found


@pytest.fixture
def doctor(root, home, tmp_path):
    return Doctor(root, home, tmp_path)


def settings_of(home):
    return str(home / ".claude/settings.json")


def install_line(home, line, **more):
    """The hook of prompts with this command line, and no other of ours."""
    hook = {"type": "command", "command": line, **more}
    put(settings_of(home), json.dumps({"hooks": {event: [{"hooks": [hook]}] for event in ("SessionStart", "UserPromptSubmit")}}))
    put(str(home / ".claude/commands/casrewind.md"), plugin.slash_command_file())


# -- all well


def test_nothing_is_installed_and_that_is_said(doctor, home, root):
    said = doctor().out
    assert said.startswith("nothing is installed: casrewind install turns on")
    assert "Not here: Claude Code, Factory Droid, Pi" in said and "is not on the PATH" not in said
    assert "claude is not on the PATH" in doctor("claude").out
    found = doctor.json()
    assert found["agents"]["claude"] == found["agents"]["droid"] == {
        "installed": None, "version": None, "hooks": [], "command": None, "hook_test": None, "last_event": None,
        "last_checkpoint": None, "running": None, "problems": [],
    }  # fmt: skip
    assert os.listdir(home) == [] == os.listdir(root)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("agent", "tier"), by_turns([(agent, tier) for tier in ("minimal", "balanced", "aggressive") for agent in ("claude", "droid")], 3))
def test_what_install_puts_there_works_when_it_is_run(doctor, home, agent, tier):
    doctor.command("install", agent, "--tier", tier, code=0)
    found = doctor.json(agent, CASREWIND_TIER=tier)
    assert [hook["tier"] for hook in found["hooks"]] == [tier] and found["hooks"][0]["missing"] == []
    assert found["hook_test"]["ran"] and found["hook_test"]["ok"] and 0 < found["hook_test"]["milliseconds"] < 30_000
    assert (found["command"] is not None) == (agent == "claude")
    assert not (home / "data").exists(), "no store is made"


@pytest.mark.turns(3)
def test_both_as_a_person_reads_it(doctor, home):
    doctor.command("install", "claude", code=0)
    doctor.command("install", "droid", code=0)
    said = doctor().out
    assert said.splitlines()[0] == "the hooks of Claude Code and Factory Droid work; 2 notes below"
    assert f"  hooks       user: balanced, 7 events, in {settings_of(home)}" in said.splitlines()
    assert len(re.findall(r"^  tried       a hook, run as the client runs it, made its checkpoint in \d+ ms$", said, re.MULTILINE)) == 2
    assert "/casrewind in the client" in said and "none in this project" in said and "start a new one" in said
    assert "Droid" not in doctor("claude").out.partition("\n")[2]


def test_what_is_noted_below_is_counted_in_the_first_line(doctor, home):
    doctor.command("install", "claude", code=0)
    (home / ".claude" / "commands" / "casrewind.md").write_text("my own")
    said = doctor("claude").out
    assert said.splitlines()[0] == "the hooks of Claude Code work; 2 notes below"
    assert said.count("  note: ") == 2 and "  note: claude is not on the PATH here" in said.splitlines()


def test_the_command_itself_in_a_process_of_its_own(casrewind, root, home, tmp_path):
    (tmp_path / "t").mkdir()
    casrewind("install", "claude", code=0)
    found = casrewind("doctor", "claude", "--json", code=0, TMPDIR=str(tmp_path / "t"))
    assert found.err == "" and found.json["agents"]["claude"]["hook_test"]["ok"]
    assert os.listdir(tmp_path / "t") == [] and sorted(os.listdir(home)) == [".claude"]


class Copy(Command):
    """A copy of the package, as its own command: what it installs it may run, and it can be broken."""

    def __init__(self, root, home, place, **variables):
        super().__init__(root, home, **variables)
        self.place = place
        copy_product(place)
        self.line = f"{shlex.quote(sys.executable)} -I {place}/__main__.py hook claude"

    def __call__(self, *arguments, code=None, **variables):
        done = subprocess.run(
            [sys.executable, "-I", f"{self.place}/__main__.py", "-C", self.root, *arguments],
            env={**self.environment, **variables}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == code, done
        return Result(done.returncode, done.stdout, done.stderr)

    def replace(self, name, old, new):
        path = self.place / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def begin_with(self, code):
        """Have this done by every hook first."""
        self.replace("hook/handler.py", "    gc.disable()\n", f"    gc.disable()\n    {code}\n")


@pytest.fixture
def copy(doctor, root, home, tmp_path):
    """That copy: it is what doctor runs as, and what the hooks name."""
    doctor.command = found = Copy(root, home, tmp_path / "env" / "casrewind", **doctor.command.environment)
    install_line(home, found.line + GUARD, timeout=30)
    return found


def test_a_hook_is_run_with_a_bare_path_and_no_session_of_anybody(doctor, copy, root, tmp_path, home):
    seen = tmp_path / "seen"
    copy.begin_with(f"open({str(seen)!r}, 'w').write('\\n'.join([*(f'{{k}}={{v}}' for k, v in os.environ.items()), os.getcwd()]))")
    plant(root, {"mine": b""})
    found = doctor.json("claude", CLAUDE_ENV_FILE=str(tmp_path / "exports"), CLAUDE_PID="1", CLAUDE_PROJECT_DIR=str(root), MARK="here")
    assert found["hook_test"]["ok"]
    lines = seen.read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines[:-1] if "=" in line)
    assert variables["PATH"] == "/usr/bin:/bin" and variables["MARK"] == "here" and variables["HOME"] == str(home)
    assert "CLAUDE_ENV_FILE" not in variables and "CLAUDE_PID" not in variables and not (tmp_path / "exports").exists()
    assert str(doctor.temporary) in variables["CASREWIND_HOME"] and variables["CLAUDE_PROJECT_DIR"] == lines[-1]
    assert lines[-1].startswith(str(doctor.temporary)) and os.listdir(root) == ["mine"]


EVENTS = [(agent, hook.event) for agent in ("claude", "droid") for hook in agents.load_client(agent).hooks_of("aggressive")]


@pytest.mark.parametrize("agent, event", by_turns(EVENTS, 6))
def test_a_hook_is_tried_at_whatever_event_it_stands(doctor, home, agent, event):
    hooks = {event: [{"hooks": [{"type": "command", "command": own_line().replace("hook claude", f"hook {agent}"), "timeout": 30}]}]}
    put(settings_of(home), json.dumps({"hooks": hooks}))
    put(str(home / ".factory/hooks.json"), json.dumps(hooks))
    assert doctor.json(agent, code=16, CASREWIND_TIER="aggressive")["hook_test"]["ok"]


def test_a_variable_that_breaks_other_pythons_does_not_break_ours(doctor, home):
    install_line(home, own_line(), timeout=30)
    assert doctor.json("claude", PYTHONHOME="/nowhere")["hook_test"]["ok"]


# -- what is wrong, by running it


def test_a_package_of_which_a_part_is_gone(doctor, copy):
    assert doctor.json("claude")["hook_test"]["ok"]
    (copy.place / "hook" / "handler.py").unlink()
    doctor.problem("ends with 1", "cannot import name 'handler'", "casrewind install claude", copy.line)


def test_hooks_of_a_package_that_is_gone(doctor, home, tmp_path):
    install_line(home, f"{shlex.quote(sys.executable)} -I {tmp_path}/gone/casrewind/__main__.py hook claude{GUARD}")
    assert doctor.problem("is missing", str(tmp_path / "gone"))["hook_test"] == {
        "ran": False, "ok": False, "milliseconds": 0, "detail": "no hook can be run",
    }  # fmt: skip


def test_a_hook_that_fails_in_silence_is_found_by_the_checkpoint_that_is_missing(doctor, copy):
    with open(copy.place / "upkeep" / "agent_event.py", "a") as file:
        file.write("\n\ndef record_event(*_, **__):\n    raise OSError('the disk is on fire')\n")
    doctor.problem("made no checkpoint", "the disk is on fire")


def test_a_hook_that_works_only_once_is_found(doctor, copy, tmp_path):
    copy.replace("cli/commands/doctor.py", "_LATE = 10.0\n", "_LATE = 1.0\n")  # seconds that it waits for a checkpoint which never comes
    copy.begin_with(f"os.path.exists({str(tmp_path / 'once')!r}) and os._exit(0); os.mkdir({str(tmp_path / 'once')!r})")
    doctor.problem("made no checkpoint, and does not say why")


def test_a_hook_that_prints_is_found(doctor, copy):
    copy.begin_with("print('Hello')")
    doctor.problem("prints something, which becomes part of the conversation: Hello")


def test_a_hook_that_hangs_is_ended(doctor, copy, home):
    copy.begin_with("time.sleep(600)")
    install_line(home, copy.line + GUARD, timeout=1)
    doctor.problem("did not end within 1 s")


def test_another_casrewind_is_described_and_not_run(doctor, home, tmp_path):
    other = put(str(tmp_path / "other" / "python3"), f"#!/bin/sh\ntouch '{tmp_path}/mark'\n", mode=0o755)
    install_line(home, f"{other} -I {Path(package.__file__).parent}/__main__.py hook claude{GUARD}")
    assert doctor.problem("was not tried", "does not run this casrewind", other)["hook_test"]["ran"] is False
    install_line(home, "casrewind hook claude")
    doctor.problem("was not tried", "casrewind hook claude")
    assert not (tmp_path / "mark").exists()


@pytest.mark.turns(3)
@pytest.mark.parametrize("missing", by_turns(["Stop", "UserPromptSubmit"], 1))
def test_an_event_taken_out_by_hand(doctor, home, missing):
    doctor.command("install", "claude", code=0)
    document = json.loads(read(settings_of(home)))
    del document["hooks"][missing]
    put(settings_of(home), json.dumps(document))
    found = doctor.problem(f"no hook for {missing}", "casrewind install claude puts it back")
    assert (found["hooks"][0]["tier"], found["hooks"][0]["missing"]) == ("partly", [missing]) and found["hook_test"]["ok"]
    said = doctor("claude", code=16).out
    assert said.startswith("NOT WELL: 1 problem\nClaude Code\n  ! no hook for ")
    doctor.command("install", "claude", code=0)
    assert doctor.json("claude")["hooks"][0]["tier"] == "balanced"


@pytest.mark.turns(3)
def test_switched_off_torn_and_twice(doctor, home, root):
    doctor.command("install", "claude", code=0)
    good = read(settings_of(home))
    put(settings_of(home), good.replace(b"{", b'{"disableAllHooks": true,', 1))
    doctor.problem("disableAllHooks")
    put(settings_of(home), good[:-20])
    assert doctor.problem("not strict JSON")["hook_test"] is None
    put(settings_of(home), good)
    doctor.command("install", "claude", "--scope", "project", code=0)
    found = doctor.problem("more than once", "casrewind uninstall claude --scope project")
    assert [hook["scope"] for hook in found["hooks"]] == ["user", "project"] and found["hook_test"]["ok"]


def test_an_interpreter_that_is_gone(doctor, home):
    doctor.command("install", "claude", code=0)
    put(settings_of(home), read(settings_of(home)).replace(sys.executable.encode(), b"/gone/bin/python3"))
    assert doctor.problem("/gone/bin/python3, which is missing")["hook_test"]["ran"] is False


def test_one_hook_of_many_that_cannot_be_run(doctor, home):
    doctor.command("install", "claude", code=0)
    document = json.loads(read(settings_of(home)))
    document["hooks"]["Stop"][0]["hooks"][0]["command"] = "/gone/python -P -m casrewind hook claude"
    put(settings_of(home), json.dumps(document))
    found = doctor.problem("/gone/python, which is missing")["hook_test"]
    assert found["ran"] and not found["ok"] and found["detail"] == "1 of 7 hooks cannot be run" and found["milliseconds"] > 0


def test_what_a_clone_brings_along_is_not_run(doctor, root):
    mark = root / "mark"
    hook = {"hooks": [{"type": "command", "command": f"touch '{mark}'; casrewind hook claude"}]}
    put(str(root / ".claude/settings.json"), json.dumps({"hooks": {"UserPromptSubmit": [hook], "SessionStart": [hook]}}))
    found = doctor.json("claude", code=16)
    assert not mark.exists() and found["hook_test"]["ran"] is False
    assert any("was not tried" in problem and "touch" in problem for problem in found["problems"])


def test_a_program_of_the_clone_beside_the_project_is_not_run(doctor, root, tmp_path):
    """As with a submodule, which is a root of its own below what was cloned."""
    mark, script = tmp_path / "mark", tmp_path / "casrewind" / "__main__.py"
    put(str(script), f"open({str(mark)!r}, 'w')\n")
    assert root.is_relative_to(tmp_path)
    for guard in ("", GUARD):
        hook = {"hooks": [{"type": "command", "command": f"{shlex.quote(sys.executable)} -I {script} hook claude{guard}"}]}
        put(str(root / ".claude/settings.json"), json.dumps({"hooks": {"UserPromptSubmit": [hook], "SessionStart": [hook]}}))
        found = doctor.json("claude", code=16)
        assert not mark.exists() and found["hook_test"]["ran"] is False
        assert any("was not tried" in problem and str(script) in problem for problem in found["problems"])


# -- the client


def client_program(tmp_path, text, mode=0o755):
    put(str(tmp_path / "bin" / "claude"), "#!/bin/sh\n" + text, mode=mode)
    return f"{tmp_path}/bin:/usr/bin:/bin"


@pytest.mark.parametrize(
    "said, than",
    [(TRIED.newest + " (Claude Code)", ""), (TRIED.tests, ""), ("2.1.1000", "newer"), ("3.0", "newer"), ("10.0.0-beta", "newer"), ("2.1.4", "older"), ("1.0", "older")],
)
def test_a_client_of_a_version_that_was_not_tried_is_noted(doctor, tmp_path, said, than):
    found = doctor("claude", PATH=client_program(tmp_path, f"echo '{said}'")).out
    version = said.partition(" ")[0]
    assert f"  program     {tmp_path}/bin/claude, version {version}\n" in found
    assert (f"note: Claude Code {version} is newer than {TRIED.newest}, the newest version" in found) == (than == "newer")
    assert (f"note: Claude Code {version} is older than {TRIED.tests}, the oldest version" in found) == (than == "older")
    assert ("under an old Node, npm installs an old one" in found) == (than == "older")


def test_every_client_that_the_tests_run_has_its_versions():
    assert set(client_versions.TRIED) == {client.name for client in agents.load_conversation_clients()}
    for name, tried in client_versions.TRIED.items():
        assert client_versions.describe_untried(name, tried.tests) == client_versions.describe_untried(name, tried.newest) == ""
        assert getattr(real_clients, name.upper()) in (tried.tests, os.environ.get(f"CASREWIND_{name.upper()}_VERSION"))


def test_a_client_and_its_version(doctor, tmp_path):
    found = doctor.json("claude", PATH=client_program(tmp_path, "echo '2.1.7 (Claude Code)'"))
    assert (found["installed"], found["version"]) == (str(tmp_path / "bin" / "claude"), "2.1.7")


def test_a_client_that_hangs(doctor, tmp_path, monkeypatch):
    assert run_program._VERSION_SECONDS == 30.0
    monkeypatch.setattr(run_program, "_VERSION_SECONDS", 1.0)
    path = client_program(tmp_path, "sleep 600\n")
    found = doctor.problem("did not end within 1 s", "is that Claude Code?", str(tmp_path / "bin" / "claude"), PATH=path)
    assert found["version"] is None and found["installed"] is not None


@pytest.mark.parametrize("text, word", [("cat /dev/urandom | head -c 200000", "prints no version"), ("exit 1", "ends with 1")])
def test_a_client_that_prints_garbage(doctor, tmp_path, text, word):
    path = client_program(tmp_path, f"{text}\n")
    found = doctor.problem(word, "is that Claude Code?", str(tmp_path / "bin" / "claude"), PATH=path)
    assert found["version"] is None and found["installed"] is not None


def test_a_client_that_cannot_be_executed_is_not_installed(doctor, tmp_path):
    found = doctor.json("claude", PATH=client_program(tmp_path, "echo 1.2.3", mode=0o644))
    assert found["installed"] is None and found["version"] is None


def test_the_real_client(doctor, tmp_path):
    os.makedirs(tmp_path / "bin")
    os.symlink(claude(), tmp_path / "bin" / "claude")
    found = doctor.json("claude", PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    assert (found["installed"], found["version"]) == (str(tmp_path / "bin" / "claude"), real_clients.CLAUDE)


# -- the project


@pytest.fixture
def client(root, home):
    """A client that has had a prompt in the project, which has a store."""
    casrewind = InProcess(root, home)
    plant(root, {"f": b"x"})
    casrewind("save", code=0)
    found = Client(casrewind, root)
    return found


@pytest.mark.turns(3)
def test_what_was_seen_last(doctor, client, home):
    process = subprocess.Popen(["sleep", "600"])
    try:
        doctor.command("install", "claude", code=0)
        client.send(client.payload("UserPromptSubmit.prompt"), CLAUDE_PID=str(process.pid))
        session = json.loads(client.payload("UserPromptSubmit.prompt"))["session_id"]
        before = doctor.command.json("list", "--all")
        found = doctor.json("claude")
        assert found["last_event"]["name"] == "UserPromptSubmit" and found["last_event"]["session"] == session
        newest = before["checkpoints"][0]
        assert found["last_checkpoint"] == {"id": newest["id"], "at": newest["created_at"]}
        assert TIME.fullmatch(found["last_event"]["at"]) and found["running"] is True and found["hook_test"]["ok"]
        assert doctor.command.json("list", "--all") == before, "doctor's own checkpoints are nobody's"
        assert [store["root"] for store in doctor.command.json("stores")["stores"]] == [str(client.root)]
        said = doctor("claude").out
        assert "last event  UserPromptSubmit" in said and session in said and newest["id"] in said and "running     yes" in said
    finally:
        process.kill()
        process.wait()
    assert doctor.json("claude")["running"] is False
    assert doctor.json("droid")["last_event"] is None


def test_failures_that_nobody_has_seen_are_told(doctor, client, home):
    client.send(b"garbage")
    assert "a hook could not do all of its work" in doctor().err
    assert doctor().err == ""
    shutil.rmtree(home / "data" / "stores")
    client.send(b"garbage")
    assert "MalformedEvent" in doctor().err and not (home / "data" / "stores").exists()


def test_a_store_that_cannot_be_used_is_a_problem_of_whoever_has_hooks(doctor, client, home):
    doctor.command("install", "claude", code=0)
    store = Path(doctor.command.json("status")["store"])
    put(str(store / "FORMAT"), "casrewind store 99\n", mode=0o600)
    found = doctor.json(code=16)["agents"]
    assert len(found["claude"]["problems"]) == 1 and "casrewind cannot work in this project" in found["claude"]["problems"][0]
    assert found["claude"]["hook_test"]["ok"] and found["droid"]["problems"] == []


def test_a_data_directory_that_cannot_be_made_is_a_problem(doctor, home, tmp_path):
    doctor.command("install", "claude", code=0)
    put(str(tmp_path / "file"), "")
    doctor.problem("casrewind cannot write to", "CASREWIND_HOME", CASREWIND_HOME=str(tmp_path / "file" / "below"))


def test_where_no_project_can_be_the_rest_is_looked_at(home, tmp_path):
    doctor = Doctor(home, home, tmp_path)
    doctor.command("install", "claude", code=0)
    assert doctor.json("claude")["hook_test"]["ok"]
    doctor.command.root = str(tmp_path / "nowhere")
    assert "nowhere" in doctor(code=10).err


def test_an_agent_that_nobody_knows(doctor):
    assert "claude, droid" in doctor("nobody", code=16).err
    assert doctor("claude", "droid", code=64).out == ""


# -- status


def test_status_names_the_agents_that_were_seen_here(casrewind, client, tmp_path):
    assert casrewind.json("status")["agents"] == {}
    process = subprocess.Popen(["sleep", "600"])
    try:
        client.send(client.payload("UserPromptSubmit.prompt"), CLAUDE_PID=str(process.pid))
        client.send(client.payload("Stop.plain"), CLAUDE_PID=str(process.pid))
        newest = casrewind.json("list")["checkpoints"][0]
        found = casrewind.json("status")["agents"]
        assert set(found) == {"claude"} and set(found["claude"]) == {
            "session", "last_event", "last_event_at", "running", "last_checkpoint", "last_checkpoint_at",
        }  # fmt: skip
        assert found["claude"]["session"] == json.loads(client.payload("Stop.plain"))["session_id"]
        assert (found["claude"]["last_event"], found["claude"]["running"]) == ("Stop", True)
        assert (found["claude"]["last_checkpoint"], found["claude"]["last_checkpoint_at"]) == (newest["id"], newest["created_at"])
        assert TIME.fullmatch(found["claude"]["last_event_at"])
        said = casrewind("status", code=0).out
        assert re.search(rf"^  claude       runs now; last active \d+ s ago; last checkpoint {newest['id']}, \d+ s ago$", said, re.MULTILINE), said
    finally:
        process.kill()
        process.wait()
    assert casrewind.json("status")["agents"]["claude"]["running"] is False
    assert "runs now" not in casrewind("status", code=0).out


def test_status_knows_agents_of_this_worktree_only_and_without_their_sessions_too(casrewind, client, home, tmp_path):
    client.send(client.payload("UserPromptSubmit.prompt"))
    store = casrewind.json("status")["store"]
    other = InProcess(tmp_path / "other", home)
    (tmp_path / "other").mkdir()
    other("--store", store, "save", code=0)
    assert other("--store", store, "status", "--json", code=0).json["agents"] == {}
    shutil.rmtree(os.path.join(store, "sessions"))
    assert other("--store", store, "status", "--json", code=0).json["agents"] == {}
    found = casrewind.json("status")["agents"]["claude"]
    assert found["last_event"] is None and found["running"] is None and found["last_checkpoint"] and found["session"]
    assert "casrewind does not know when it was active; last checkpoint" in casrewind("status", code=0).out


# -- hooks whose files are gone


def test_status_says_not_protected_where_the_files_of_hooks_are_gone(casrewind, client, home, tmp_path):
    casrewind("install", "claude", code=0)
    assert casrewind.json("status")["protected"] and "\nprotected by the checkpoint made " in casrewind("status", code=0).out
    good = read(settings_of(home))
    for gone, by in ((f"{tmp_path}/gone/python3", sys.executable), (f"{tmp_path}/gone/casrewind/__main__.py", f"{Path(package.__file__).parent}/__main__.py")):
        put(settings_of(home), good.replace(by.encode(), gone.encode()))
        found = casrewind.json("status")
        assert not found["protected"] and len(found["reasons"]) == 1
        for word in (gone, settings_of(home), "is missing", "casrewind install claude"):
            assert word in found["reasons"][0]
        assert casrewind("status", code=0).out.startswith(f"NOT PROTECTED\n  ! {found['reasons'][0]}\n")
    casrewind("install", "claude", code=0)
    assert casrewind.json("status")["protected"] and read(settings_of(home)) == good


def test_status_says_it_of_a_projects_own_hooks(casrewind, client, home, root):
    casrewind("install", "claude", "--scope", "project", code=0)
    path = str(root / ".claude/settings.json")
    put(path, read(path).replace(sys.executable.encode(), b"/gone/python3"))
    found = casrewind.json("status")
    assert not found["protected"] and "casrewind install claude --scope project" in found["reasons"][0]


def test_settings_that_cannot_be_read_do_not_keep_status_from_its_answer(casrewind, client, home):
    put(settings_of(home), "{ nonsense")
    assert casrewind.json("status")["protected"]
