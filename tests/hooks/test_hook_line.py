"""The very line that install writes, run by shells: whatever is gone, it ends with 0 and shows nothing; what it answers arrives."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from support.client_settings import hooks
from support.fake_client import Client
from support.installed import Installed
from support.sample_start import by_turns
from support.trees import Exec, plant

LINUX = sys.platform.startswith("linux")
SHELLS = [shell for shell in ("sh", "dash", "bash", "zsh") if shutil.which(shell)]
ANSWERS = {"claude": ("decision", "block", "reason"), "droid": ("continue", False, "stopReason")}


@pytest.fixture
def installed(tmp_path, root, home):
    plant(root, {"f": b"x"})
    return Installed(tmp_path, root, home)


@pytest.fixture
def client(installed):
    return Client(installed.command, installed.root)


@pytest.mark.turns(3)
@pytest.mark.parametrize("agent", ["claude", "droid"])
def test_a_prompt_has_its_checkpoint_and_a_command_its_answer(installed, client, agent):
    installed.run("save")
    line = installed.line(agent)
    assert installed.call("sh", line, client.payload("UserPromptSubmit.prompt")) == (0, b"", b"")
    newest = client.points()[0]
    assert newest["trigger"] == "prompt"
    for shell in SHELLS:
        code, out, err = installed.call(shell, line, client.payload("UserPromptSubmit.prompt", prompt="/casrewind list -n 1 --all"))
        key, value, text = ANSWERS[agent]
        answer = json.loads(out)
        assert (code, err, answer[key]) == (0, b"", value) and newest["prompt"] in answer[text]


@pytest.mark.linux_only("an environment whose packages lie in one directory; that of the emulation has two")
def test_it_runs_its_own_package_whatever_else_is_installed(installed):
    """The environment's packages hold another casrewind, and one with the name of a module of Python's lies beside ours."""
    context = installed.package.parent / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    usual = os.readlink(context)
    context.unlink()
    plant(context, {"casrewind/__init__.py": b"raise SystemExit(99)", "usual.pth": usual.encode()})
    plant(installed.package.parent, {"argparse.py": b"raise SystemExit(99)"})
    line = [str(installed.python), "-I", str(installed.package / "__main__.py"), "-C", str(installed.root), "save", "--help"]
    done = subprocess.run(line, env=installed.command.environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"") and b"\nusage: casrewind save" in done.stdout


def gone_python(found):
    os.rename(found.python, f"{found.python}.away")


def gone_package(found):
    os.rename(found.package, f"{found.package}.away")


def gone_environment(found):
    os.rename(found.base, f"{found.base}.away")


def no_python(found):
    found.python.unlink()
    found.python.write_text("this is no program")
    found.python.chmod(0o755)


def bad_main(found):
    (found.package / "__main__.py").write_text("def (:\n")


def bad_module(found):
    (found.package / "hook" / "handler.py").write_text("def (:\n")


def half_a_package(found):
    shutil.rmtree(found.package / "agents")


def ends_with_2(found):
    (found.package / "hook" / "handler.py").write_text("import sys\nsys.exit(2)\n")


@pytest.mark.parametrize(
    "spoil", by_turns([gone_python, gone_package, gone_environment, no_python, bad_main, bad_module, half_a_package, ends_with_2], 4)
)  # fmt: skip
def test_whatever_is_gone_it_ends_with_0_and_shows_nothing(installed, client, spoil):
    lines = [installed.line("claude")]
    spoil(installed)
    for line in lines:
        for shell in SHELLS:
            assert installed.call(shell, line, client.payload("UserPromptSubmit.prompt")) == (0, b"", b""), (shell, line)


def test_a_hook_that_is_killed_ends_with_0(installed, client):
    line = installed.line("claude")
    (installed.package / "hook" / "handler.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    for shell in SHELLS:
        assert installed.call(shell, line, client.payload("UserPromptSubmit.prompt"))[:2] == (0, b"")


def test_a_plugin_finds_the_same_casrewind(installed, client, tmp_path):
    installed.run("install", "claude", "--plugin", str(tmp_path / "plugin"))
    found = hooks(tmp_path / "plugin" / "hooks" / "hooks.json")
    (line,) = {hook["command"] for every in found.values() for _, hook in every}
    start = shlex.join([str(installed.python), "-I", str(installed.package / "__main__.py")])
    plant(tmp_path / "found", {"casrewind": Exec(f'#!/bin/sh\nexec {start} "$@"\n'.encode())})
    line = line.replace("${CLAUDE_PLUGIN_ROOT}", str(tmp_path / "plugin"))
    words = f"CASREWIND_COMMAND={shlex.quote(str(tmp_path / 'found' / 'casrewind'))}; export CASREWIND_COMMAND; {line}"
    assert installed.call("sh", words, client.payload("UserPromptSubmit.prompt")) == (0, b"", b"")
    client.wait_for(1)
    for shell in SHELLS:
        code, out, err = installed.call(shell, words, client.payload("UserPromptSubmit.prompt", prompt="/casrewind list -n 1"))
        assert (code, err, json.loads(out)["decision"]) == (0, b"", "block")
