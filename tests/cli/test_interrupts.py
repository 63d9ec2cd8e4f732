"""SIGINT and SIGTERM while modules are imported: a command ends with 130 and no traceback, a hook with 0 and in silence."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import casrewind as package
from support.fake_client import Client
from support.trees import plant

TOP = Path(package.__file__).parent.parent
SCRIPT = str(TOP / "casrewind" / "__main__.py")
STARTS = {
    "script": f"import runpy; runpy.run_path({SCRIPT!r}, run_name='__main__')",
    "module": "import runpy; runpy.run_module('casrewind', run_name='__main__', alter_sys=True)",
    "command": "from {0} import {1}; sys.exit({1}())",
}
"""How Python comes to us: by the hook's own line, by -m, by the script that pip writes."""
HARNESS = """
import os, sys
class Interrupt:
    left, begun = {at}, False
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.begun = cls.begun or name.startswith({first!r}) and name != "casrewind.__main__"
        cls.left -= cls.begun
        if cls.begun and not cls.left:
            os.write({told}, b"x")
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Interrupt)
sys.argv[:] = {argv!r}
"""


def entry():
    """The module and the function that the installed script calls."""
    return re.search(r"^from ([\w.]+) import (\w+)$", (TOP / "casrewind" / "cli" / "script").read_text(), re.MULTILINE).groups()


def start(way, at, number, argv, *, environment, cwd, stdin=b""):
    """(exit code, output, errors; whether the signal was sent) of a command that gets a signal at its `at`-th import."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    code = HARNESS.format(at=at, number=number, told=writer, argv=["casrewind", *argv], first="casrewind" if way == "script" else "casrewind.") + STARTS[way].format(*entry())
    line = [sys.executable, *(["-S"] if way == "script" else []), "-c", code]
    done = subprocess.run(line, env={**environment, "PYTHONPATH": str(TOP)}, cwd=cwd, input=stdin, capture_output=True, timeout=60, pass_fds=(writer,))
    os.close(writer)
    sent = bool(os.read(reader, 1))
    os.close(reader)
    return done.returncode, done.stdout, done.stderr, sent


@pytest.mark.parametrize("way", STARTS)
def test_a_command_that_is_interrupted_while_it_imports_ends_with_130(process, root, way):
    plant(root, {"f": b"x"})
    for at in (1, 2, 3, 5, 8, 13, 21, 34):
        code, out, err, sent = start(way, at, signal.SIGINT, ["save"], environment=process.environment, cwd=root)
        assert sent, "there were not so many imports"
        assert (code, out) == (130, b"") and err in (b"", b"casrewind: interrupted\n"), (at, code, err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("way", ["script", "command"])
def test_a_hook_that_is_stopped_while_it_imports_ends_with_0_in_silence(process, root, way, number):
    plant(root, {"f": b"x"})
    client = Client(process, root)
    for at in (1, 2, 3, 4) if number == signal.SIGTERM else (1, 2, 3, 5, 8, 13, 21):
        code, out, err, sent = start(
            way, at, number, ["hook", "claude"], environment={**process.environment, "CLAUDE_PROJECT_DIR": str(root)}, cwd=root,
            stdin=client.payload("UserPromptSubmit.prompt"),
        )  # fmt: skip
        assert sent, "there were not so many imports"
        assert (code, out, err) == (0, b"", b""), (at, code, err)


def test_whoever_ignores_interrupts_goes_on_ignoring_them(process, root):
    plant(root, {"f": b"x"})
    line = [sys.executable, "-I", SCRIPT, "save"]
    running = subprocess.Popen(
        line, env=process.environment, cwd=root, stdout=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    )
    while running.poll() is None:
        running.send_signal(signal.SIGINT)
        time.sleep(0.005)
    assert running.communicate()[0].startswith(b"saved") and running.returncode == 0
