"""install and uninstall: what they say, their shapes, where they write, and that they need neither store nor project."""

import json
import os
import subprocess

import pytest

from support import unprivileged
from support.client_settings import hooks, ours, put, read
from support.command import CONFIG_FILE, Command
from support.command_in_process import InProcess
from support.picture import picture
from support.trees import plant

INSTALLED = {
    "agent": str, "scope": str, "tier": str, "changed": bool, "settings": list, "hooks": list, "command": (str, type(None)),
    "short_command": (str, type(None)), "client": (str, type(None)), "notes": list, "failed": list,
    "hands_free": (str, type(None)),
}  # fmt: skip
UNINSTALLED = {
    "agent": str, "scope": str, "changed": bool, "settings": list, "events": list, "command": (str, type(None)),
    "short_command": (str, type(None)), "notes": list,
}  # fmt: skip
DROID = {"SessionStart", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact", "SessionEnd"}
BALANCED = {*DROID, "SubagentStart"}
HANDS_FREE = b"from_environment = true  # casrewind install --hands-free\n"


def settings_of(home, agent="claude"):
    return str(home / {"claude": ".claude/settings.json", "droid": ".factory/hooks.json"}[agent])


def shaped(found, shape):
    assert set(found) == set(shape)
    for key, kind in shape.items():
        assert isinstance(found[key], kind), (key, found[key])
    return found


@pytest.mark.parametrize("agent", ["claude", "droid"])
def test_the_shapes(casrewind, home, agent):
    path = settings_of(home, agent)
    put(path, "{}")
    found = shaped(casrewind.json("install", agent), INSTALLED)
    assert (found["agent"], found["scope"], found["tier"], found["changed"]) == (agent, "user", "balanced", True)
    assert found["settings"] == [{"path": path, "changed": True, "backup": path + ".casrewind-backup"}]
    assert {hook["event"] for hook in found["hooks"]} == (BALANCED if agent == "claude" else DROID)
    assert all(set(hook) == {"event", "matcher", "timeout", "settings"} and hook["settings"] == path for hook in found["hooks"])
    assert found["command"] == (str(home / ".claude/commands/casrewind.md") if agent == "claude" else None)
    again = shaped(casrewind.json("install", agent), INSTALLED)
    assert not again["changed"] and again["settings"] == [{**found["settings"][0], "changed": False}]
    gone = shaped(casrewind.json("uninstall", agent), UNINSTALLED)
    assert gone["settings"] == [{"path": path, "changed": True, "restored": True}] and set(gone["events"]) == (BALANCED if agent == "claude" else DROID)
    assert (gone["changed"], gone["command"]) == (True, found["command"])
    nothing = shaped(casrewind.json("uninstall", agent), UNINSTALLED)
    assert (nothing["changed"], nothing["settings"], nothing["events"], nothing["command"]) == (False, [], [], None)


def test_hands_free_writes_one_line_into_the_users_file_and_says_what_that_means(casrewind, home):
    file = home / CONFIG_FILE
    plant(home, {CONFIG_FILE: b"# mine\n[remote]\npush = \"off\"  # as ever\n"})
    said = casrewind("install", "claude", "--hands-free", code=0).out
    assert f"hands-free: {file} lets hooks use CASREWIND_REMOTE_URL, _KEY and _PUSH" in said and "a project's own settings can set these, too" in said
    assert file.read_bytes() == b"# mine\n[remote]\npush = \"off\"  # as ever\n" + HANDS_FREE
    assert shaped(casrewind.json("install", "claude", "--hands-free"), INSTALLED)["hands_free"] == str(file)
    assert "--hands-free out" in casrewind("install", "claude", "--plugin", "p", "--hands-free", code=64).err
    casrewind("uninstall", "claude", code=0)
    file.write_bytes(b"[remote]\nfrom_environment = nonsense\n")
    assert casrewind("install", "claude", "--hands-free", code=64).err and file.read_bytes().endswith(b"nonsense\n")


@pytest.mark.parametrize("before", [None, b"", b"# mine\n[remote]\n", b"# mine\n[remote]\npush = 'off'\n[hooks]\n", b"[hooks]\r\ntier = 'minimal'\r\n"])
def test_the_last_uninstall_takes_the_hands_free_line_out_again(casrewind, home, before):
    file = home / CONFIG_FILE
    if before is not None:
        plant(home, {CONFIG_FILE: before})
    casrewind("install", "claude", "--hands-free", code=0)
    casrewind("install", "droid", "--hands-free", code=0)
    assert "from_environment" not in casrewind("uninstall", "claude", code=0).out and file.read_bytes().count(HANDS_FREE.rstrip()) == 1
    assert f"{file} no longer lets variables name a remote" in casrewind("uninstall", "droid", code=0).out
    assert file.read_bytes() == before if before else not file.exists()
    assert "remote" not in casrewind("uninstall", "droid", code=0).out


@pytest.mark.parametrize("line", [b"from_environment = true\n", b"from_environment = true  # mine\n", HANDS_FREE + b"push = 'turns'\n"])
def test_a_hands_free_line_of_ones_own_stays_and_uninstall_says_so(casrewind, home, line):
    file = home / CONFIG_FILE
    plant(home, {CONFIG_FILE: b"[remote]\n" + line})
    casrewind("install", "claude", "--hands-free", code=0)
    assert file.read_bytes() == b"[remote]\n" + line
    said = casrewind("uninstall", "claude", code=0).out
    if line.startswith(HANDS_FREE):
        assert file.read_bytes() == b"[remote]\npush = 'turns'\n"
    else:
        assert f"{file} says from_environment = true, in a line of your own: it stays" in said and file.read_bytes() == b"[remote]\n" + line


def test_the_hands_free_line_stays_with_a_project_and_where_the_file_cannot_be_read(casrewind, home, root):
    file = home / CONFIG_FILE
    casrewind("install", "claude", "--hands-free", "--scope", "project", code=0)
    casrewind("uninstall", "claude", "--scope", "project", code=0)
    assert HANDS_FREE in file.read_bytes()
    casrewind("install", "claude", code=0)
    file.write_bytes(b"[remote\n")
    casrewind("uninstall", "claude", code=64)  # as each command says that cannot read the file
    assert file.read_bytes() == b"[remote\n"


def test_the_short_command_is_offered_written_kept_and_removed(casrewind, home):
    path = home / ".claude/commands/back.md"
    offer = "casrewind install claude --short also makes /back, for /casrewind back\n"
    assert offer in casrewind("install", "claude", code=0).out and not path.exists()
    said = casrewind("install", "claude", "--short", code=0).out
    assert f"  command   /back in the client ({path})\n" in said and offer not in said and said.startswith("installed: ")
    assert b"written by casrewind install" in path.read_bytes() and path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes() + b"of an older version\n")
    found = casrewind.json("install", "claude")
    assert found["changed"] and found["short_command"] == str(path) and b"older version" not in path.read_bytes()
    assert casrewind.json("uninstall", "claude")["short_command"] == str(path) and not path.parent.exists()


def test_a_back_of_ones_own_is_left_alone(casrewind, home):
    path = home / ".claude/commands/back.md"
    put(str(path), "mine")
    said = casrewind("install", "claude", "--short", code=0).out
    assert f"{path} is a command of your own and was left as it is" in said and "/back in the client" not in said
    casrewind("uninstall", "claude", code=0)
    assert path.read_text() == "mine"
    assert "Factory Droid does not read commands from files; leave --short out" in casrewind("install", "droid", "--short", code=64).err


def test_what_a_person_reads(casrewind, home):
    put(settings_of(home), "{}")
    said = casrewind("install", "claude", code=0, PATH="/nowhere").out
    lines = said.splitlines()
    assert lines[0] == "installed: Claude Code, balanced, 7 hooks"
    assert any(settings_of(home) in line and "settings.json.casrewind-backup" in line for line in lines)
    assert "SessionStart, UserPromptSubmit, Stop" in said and "casrewind status" in said and "/casrewind in the client" in said
    assert "claude is not on the PATH here" in said
    assert casrewind("install", "claude", code=0).out.startswith("already installed, nothing was changed: Claude Code")
    said = casrewind("uninstall", "claude", code=0).out
    assert said.startswith("uninstalled: Claude Code") and "as before the installation" in said
    assert casrewind("uninstall", "claude", code=0).out.startswith("nothing to uninstall")


def test_a_client_on_the_path_is_named(casrewind, home, tmp_path):
    program = put(str(tmp_path / "bin" / "claude"), "#!/bin/sh\n", mode=0o755)
    assert casrewind.json("install", "claude", PATH=str(tmp_path / "bin"))["client"] == program
    assert "not on the PATH" not in casrewind("install", "claude", code=0, PATH=str(tmp_path / "bin")).out
    assert casrewind.json("install", "droid", PATH=str(tmp_path / "bin"))["client"] is None


def test_neither_store_nor_project_is_needed_or_made(home, tmp_path):
    casrewind = InProcess(tmp_path / "nowhere", home)
    casrewind("install", "claude", code=0)
    assert os.listdir(home) == [".claude"] and not os.path.exists(tmp_path / "nowhere")
    casrewind("uninstall", "claude", code=0)


def test_the_tier_is_the_one_said_else_the_one_configured(casrewind, home):
    put(str(home / CONFIG_FILE), '[hooks]\ntier = "minimal"\n')
    assert casrewind.json("install", "claude")["tier"] == "minimal" and len(ours(settings_of(home))) == 2
    assert casrewind.json("install", "claude", "--tier", "aggressive")["tier"] == "aggressive" and len(ours(settings_of(home))) == 9
    assert casrewind.json("install", "claude", CASREWIND_TIER="balanced")["tier"] == "balanced"


@pytest.mark.parametrize("agent", ["claude", "droid"])
def test_a_project_is_written_to_at_its_root(home, root, agent):
    plant(root, {".git/HEAD": b"", "sub/f": b""})
    before = picture(root)
    casrewind = InProcess(root / "sub", home)
    found = casrewind.json("install", agent, "--scope", "project")
    assert found["scope"] == "project"
    assert found["settings"][0]["path"] == settings_of(root, agent) and hooks(settings_of(root, agent), "hooks" if agent == "claude" else "")
    said = casrewind("install", agent, "--scope", "project", code=0).out
    assert "in the root of the project, not in a subdirectory" in said and "do not share these settings" in said
    assert os.listdir(home) == []
    casrewind("uninstall", agent, code=0)
    assert casrewind.json("uninstall", agent, "--scope", "project")["changed"]
    assert picture(root) == before


def test_a_root_that_is_refused_is_refused_here_too(home):
    assert "home directory" in InProcess(home, home)("install", "claude", "--scope", "project", code=14).err
    assert os.listdir(home) == []
    InProcess(home, home)("--force", "install", "claude", "--scope", "project", code=0)
    assert ours(settings_of(home))


def test_variables_move_the_settings(casrewind, home, tmp_path):
    casrewind("install", "claude", code=0, CLAUDE_CONFIG_DIR=str(tmp_path / "c"))
    casrewind("install", "droid", code=0, FACTORY_HOME_OVERRIDE=str(tmp_path / "f"))
    assert set(ours(str(tmp_path / "c" / "settings.json"))) == BALANCED
    assert set(ours(settings_of(tmp_path / "f", "droid"), "")) == DROID
    assert os.listdir(home) == [] and (tmp_path / "c" / "commands" / "casrewind.md").exists()
    casrewind("uninstall", "claude", code=0, CLAUDE_CONFIG_DIR=str(tmp_path / "c"))
    assert os.listdir(tmp_path / "c") == []


def test_the_command_that_is_installed_starts_casrewind_with_a_bare_path(process, home, tmp_path):
    process("install", "claude", code=0)
    commands = {hook["command"] for every in hooks(settings_of(home)).values() for _, hook in every}
    (command,) = commands
    program = command.removesuffix(" hook claude 2>/dev/null || :")
    assert program != command
    variables = {name: value for name, value in process.environment.items() if name != "PATH"}
    done = subprocess.run(["/bin/sh", "-c", f"{program} --version"], env={**variables, "PATH": ""}, cwd=tmp_path, capture_output=True)
    assert done.stdout.startswith(b"casrewind "), done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("install", "nix"), 16, "claude, droid"),
        (("uninstall", "Claude"), 16, "claude, droid"),
        (("uninstall",), 64, "AGENT"),
        (("install", "claude", "--tier", "all"), 64, "minimal"),
        (("install", "claude", "--scope", "world"), 64, "project"),
        (("install", "claude", "droid"), 64, "unexpected 'droid'"),
        (("install", "claude", "--", "x"), 64, "unexpected 'x'"),
        (("--store", "s", "install", "claude"), 64, "leave --store out"),
        (("--store", "s", "uninstall", "claude"), 64, "leave --store out"),
        (("install", "claude", "--plugin", "p", "--scope", "user"), 64, "leave --scope"),
        (("install", "claude", "--plugin", ""), 64, "name of a directory"),
        (("install", "droid", "--plugin", "p"), 16, "does not support plugins"),
        (("uninstall", "claude", "--tier", "minimal"), 64, "has no option --tier"),
        (("uninstall", "claude", "--plugin", "p"), 64, "has no option --plugin"),
    ],
)
def test_what_makes_no_sense_is_refused(process, home, root, arguments, code, words):
    said = process(*arguments, code=code)
    assert words in said.err and said.out == "" and os.listdir(home) == os.listdir(root) == []


def test_broken_settings_are_refused_with_one_line(casrewind, home):
    path = put(settings_of(home), '{\n  "model": "opus" "hooks": 1\n}\n')
    before = picture(home, inodes=True)
    said = casrewind("install", "claude", code=16).err
    assert path in said and "line 2" in said and "fix it" in said and said.count("\n") == 1
    assert picture(home, inodes=True) == before


def test_a_name_that_commands_a_terminal_does_not(casrewind, home, tmp_path):
    place = str(tmp_path / "a\x1b[31mb\nc")
    for arguments in (("install", "claude"), ("uninstall", "claude"), ("uninstall", "claude")):
        said = casrewind(*arguments, code=0, CLAUDE_CONFIG_DIR=place)
        assert "\x1b" not in said.out + said.err and "\\x1b[31mb\\nc" in said.out
    put(os.path.join(place, "settings.json"), "nonsense")
    said = casrewind("install", "claude", code=16, CLAUDE_CONFIG_DIR=place)
    assert "\x1b" not in said.err and said.err.count("\n") == 1


def test_a_directory_whose_name_is_no_text(casrewind, tmp_path):
    found = casrewind.json("install", "claude", CLAUDE_CONFIG_DIR=os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert found["settings"][0]["path_b64"] and found["command_b64"]


def test_a_part_that_failed_ends_with_3(casrewind, home):
    put(str(home / ".claude" / "commands"), "a file")
    said = casrewind("install", "claude", code=3)
    assert "! the /casrewind command is missing" in said.out and set(ours(settings_of(home))) == BALANCED


def test_a_plugin_is_written_where_one_says(casrewind, root, home):
    found = casrewind.json("install", "claude", "--plugin", "plug", "--tier", "minimal")
    assert found["plugin"] == str(root / "plug") and found["tier"] == "minimal" and len(found["files"]) == 7
    assert all(os.path.isfile(item["path"]) for item in found["files"])
    assert [hook["event"] for hook in found["hooks"]] == ["SessionStart", "UserPromptSubmit"]
    assert "--plugin-dir" in casrewind("install", "claude", "--plugin", str(root / "plug"), code=0).out
    assert os.listdir(home) == []
    assert "not empty" in casrewind("install", "claude", "--plugin", "..", code=16).err


def test_what_may_not_be_written_is_said_and_left_alone():
    unprivileged.require()
    with unprivileged.open_directory() as place:
        home, root = place / "home", place / "project"
        root.mkdir()
        casrewind = Command(root, home)
        path = put(settings_of(home), '{"a": 1}', mode=0o644)
        unprivileged.give(home)

        def refused(*words):
            before = picture(home, inodes=True)
            said = casrewind("install", "claude", code=16, prefix=unprivileged.PREFIX).err
            assert all(word in said for word in (*words, "settings.json")) and said.count("\n") == 1, said
            assert picture(home, inodes=True) == before

        os.chmod(home / ".claude", 0o555)
        refused("Permission denied")
        os.chmod(home / ".claude", 0o755)
        os.chmod(path, 0o444)
        refused("read-only")
        os.chmod(path, 0o000)
        refused("cannot be read")
        os.chmod(path, 0o640)
        if os.geteuid() == 0:
            os.chown(path, 0, unprivileged.NOBODY)  # somebody else's, in a directory of ours: not even its group may write
            refused("read-only")
            unprivileged.give(home)
        assert casrewind("install", "claude", code=0, prefix=unprivileged.PREFIX).out.startswith("installed")
        assert read(path + ".casrewind-backup") == b'{"a": 1}'


def test_help_names_the_tiers(casrewind):
    said = " ".join(casrewind("install", "--help", code=0).out.split())
    assert "minimal: save when a session starts and at prompts" in said and "droid (Factory Droid)" in said


def test_json_of_settings_is_still_json(casrewind, home):
    put(settings_of(home), '{"model": "é", "n": 1.50}')
    casrewind("install", "claude", code=0)
    assert json.loads(read(settings_of(home)))["model"] == "é" and b"1.50" in read(settings_of(home))
