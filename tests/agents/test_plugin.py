"""The same hooks as a Claude Code plugin, which the client itself finds nothing wrong with."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from casrewind import __version__, agents, errors
from casrewind.agents import claude_plugin as plugin
from casrewind.agents.client import TIERS
from support.client_settings import hooks, put, read
from support.picture import picture
from support.real_clients import claude

TOP = Path(__file__).parent.parent.parent
CLAUDE = agents.load_client("claude")
FILES = {".claude-plugin/plugin.json", ".claude-plugin/marketplace.json", "hooks/casrewind.sh", "hooks/hooks.json", "commands/casrewind.md", "README.md", "LICENSE"}


def everything(directory):
    return {os.path.relpath(os.path.join(top, name), directory) for top, _, names in os.walk(directory) for name in names}


@pytest.mark.parametrize("tier", TIERS)
def test_a_plugin_holds_the_hooks_of_its_tier(tmp_path, tier):
    made = plugin.write_plugin(str(tmp_path / "p"), CLAUDE, tier, __version__)
    assert {os.path.relpath(path, tmp_path / "p") for path in made} == FILES == everything(tmp_path / "p")
    found = hooks(tmp_path / "p" / "hooks" / "hooks.json")
    assert {event: [(matcher, hook["timeout"]) for matcher, hook in every] for event, every in found.items()} == {
        hook.event: [(hook.matcher, hook.timeout)] for hook in CLAUDE.hooks_of(tier)
    }
    manifest = json.loads(read(tmp_path / "p" / ".claude-plugin" / "plugin.json"))
    assert (manifest["name"], manifest["version"], manifest["license"]) == ("casrewind", __version__, "MIT")
    assert read(tmp_path / "p" / "LICENSE") == (TOP / "LICENSE").read_bytes()


def test_it_has_no_path_of_this_machine_and_is_a_marketplace_of_itself(tmp_path):
    plugin.write_plugin(str(tmp_path / "p"), CLAUDE, "aggressive", __version__)
    for name in everything(tmp_path / "p"):
        text = (tmp_path / "p" / name).read_text()
        assert not [word for word in (sys.prefix, str(TOP), str(tmp_path), os.path.expanduser("~")) if word in text], name
    listing = json.loads(read(tmp_path / "p" / ".claude-plugin" / "marketplace.json"))
    assert [(each["name"], each["source"]) for each in listing["plugins"]] == [("casrewind", "./")]


def launch(tmp_path, *, path="/usr/bin:/bin", **variables):
    """What the launcher starts: the words that the program got, or [] if it found none."""
    (tmp_path / "casrewind.sh").write_bytes(plugin.launcher_script())
    done = subprocess.run(
        ["sh", str(tmp_path / "casrewind.sh"), "hook", "claude", "a b"], env={"HOME": str(tmp_path / "home"), "PATH": path, **variables},
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def program(place, name):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f'#!/bin/sh\necho {name}\nfor word in "$@"; do echo "$word"; done\necho "${{PYTHONPATH-none}}"\n')
    place.chmod(0o755)


@pytest.mark.skipif(shutil.which("casrewind", path="/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin") is not None, reason="casrewind is installed")
def test_the_launcher_finds_casrewind_where_it_is(tmp_path):
    assert launch(tmp_path) == [], "without casrewind a hook does nothing"
    rest = ["hook", "claude", "a b", "none"]
    program(tmp_path / "home/.local/casrewind/bin/casrewind", "venv")
    assert launch(tmp_path, PYTHONPATH="/x") == ["venv", *rest]
    program(tmp_path / "home/.local/bin/casrewind", "uv or pipx")
    assert launch(tmp_path) == ["uv or pipx", *rest]
    program(tmp_path / "bin/casrewind", "path")
    assert launch(tmp_path, path=f"{tmp_path}/bin:/usr/bin:/bin") == ["path", *rest]
    assert launch(tmp_path, path="bin:/usr/bin:/bin") == ["uv or pipx", *rest], "a relative place may be a project's"
    program(tmp_path / "my own/casrewind", "named")
    assert launch(tmp_path, CASREWIND_COMMAND=f"{tmp_path}/my own/casrewind") == ["named", *rest]
    assert launch(tmp_path, CASREWIND_COMMAND="/nowhere") == ["uv or pipx", *rest]


def test_it_is_written_again_over_itself_and_over_nothing_else(tmp_path):
    plugin.write_plugin(str(tmp_path / "p"), CLAUDE, "minimal", "0.1")
    plugin.write_plugin(str(tmp_path / "p"), CLAUDE, "aggressive", "0.2")
    assert len(hooks(tmp_path / "p" / "hooks" / "hooks.json")) == 9 and everything(tmp_path / "p") == FILES
    (tmp_path / "empty").mkdir()
    plugin.write_plugin(str(tmp_path / "empty"), CLAUDE, "minimal", "0.1")
    put(str(tmp_path / "other" / ".claude-plugin" / "plugin.json"), '{"name": "other"}')
    put(str(tmp_path / "mine" / "README.md"), "mine")
    put(str(tmp_path / "file"), "mine")
    os.symlink("nowhere", tmp_path / "link")
    before = picture(tmp_path, inodes=True)
    for name in ("other", "mine", "file", "link", "file/below"):
        with pytest.raises(errors.AgentError, match=name):
            plugin.write_plugin(str(tmp_path / name), CLAUDE, "minimal", "0.1")
    with pytest.raises(errors.AgentError, match="Factory Droid does not support plugins"):
        plugin.write_plugin(str(tmp_path / "droid"), agents.load_client("droid"), "minimal", "0.1")
    assert picture(tmp_path, inodes=True) == before


@pytest.mark.parametrize("tier", TIERS)
def test_the_client_finds_nothing_wrong_with_it(tmp_path, tier):
    binary = claude()
    plugin.write_plugin(str(tmp_path / "p"), CLAUDE, tier, __version__)
    done = subprocess.run(
        [binary, "plugin", "validate", "--strict", str(tmp_path / "p")], capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
             "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation passed" in done.stdout
    for hook in CLAUDE.hooks_of(tier):
        assert f"hooks: {hook.event} " in done.stdout
    assert "commands: casrewind:casrewind" in done.stdout


def run_hook(directory, line, tmp_path, **variables):
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "CLAUDE_PLUGIN_ROOT": str(directory), **variables}
    return subprocess.run(["sh", "-c", line], input=b"{}", env=environment, capture_output=True, timeout=60, cwd=tmp_path)


def test_a_shared_plugin_runs_the_casrewind_of_the_machine_that_it_is_on(tmp_path, monkeypatch):
    tools = tmp_path / "with space"
    put(str(tools / "casrewind"), '#!/bin/sh\ncat >/dev/null\necho "$@" > told\n')
    (tools / "casrewind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    directory = tmp_path / "a plugin"
    plugin.write_plugin(str(directory), CLAUDE, "balanced", __version__)
    for path in everything(directory):
        assert os.path.dirname(sys.executable).encode() not in read(directory / path), path
    ((_, hook),) = hooks(directory / "hooks" / "hooks.json")["Stop"]
    elsewhere = tmp_path / "elsewhere"
    os.rename(directory, elsewhere)
    assert run_hook(elsewhere, hook["command"], tmp_path, PATH=f"{tools}:/usr/bin:/bin").returncode == 0
    assert (tmp_path / "told").read_text() == "hook claude\n"
    (tmp_path / "told").unlink()
    put(str(tmp_path / "home" / ".local" / "bin" / "casrewind"), (tools / "casrewind").read_text())
    (tmp_path / "home" / ".local" / "bin" / "casrewind").chmod(0o755)
    assert run_hook(elsewhere, hook["command"], tmp_path).returncode == 0 and (tmp_path / "told").exists()
    (tmp_path / "home" / ".local" / "bin" / "casrewind").unlink()
    nothing = run_hook(elsewhere, hook["command"], tmp_path)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, b"", b""), "without a casrewind no prompt is blocked"


def test_the_client_installs_it_from_a_marketplace_folder_in_another_place(tmp_path):
    binary = claude()
    plugin.write_plugin(str(tmp_path / "p"), CLAUDE, "balanced", __version__)
    os.rename(tmp_path / "p", tmp_path / "shared folder")
    (tmp_path / "home").mkdir()
    environment = {
        "HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
    }  # fmt: skip
    for words in (("marketplace", "add", str(tmp_path / "shared folder")), ("install", "casrewind@casrewind"), ("list",)):
        done = subprocess.run([binary, "plugin", *words], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "casrewind@casrewind" in done.stdout
