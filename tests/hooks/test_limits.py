"""Processes that work for a hook and are not waited for: what they may take, and that they work one after the other."""

import json
import resource
import subprocess
import time

import pytest

from support.fake_client import Client
from support.installed import Installed
from support.trees import plant

pytestmark = pytest.mark.linux_only("other systems do not limit address space")
GIB = 1 << 30


class Bound(Installed):
    """A copy of casrewind in which something takes too much; its hooks are run as a client does."""

    def begin_with(self, module, function, code):
        """Have this done first in a function of the copy."""
        path = self.package / module
        head, rest = path.read_text().split(f"def {function}(", 1)
        signature, body = rest.split(":\n    \"\"\"", 1)
        path.write_text(f"{head}def {function}({signature}:\n    {code}\n    \"\"\"{body}")

    def send(self, payload, **limits):
        line = [str(self.python), "-I", str(self.package / "__main__.py"), "hook", "claude"]
        done = subprocess.run(
            line, input=payload, capture_output=True, cwd="/", timeout=120, env={**self.command.environment, "CLAUDE_PROJECT_DIR": str(self.root)},
            preexec_fn=lambda: [resource.setrlimit(getattr(resource, name), value) for name, value in limits.items()],
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
def bound(tmp_path, root, home):
    plant(root, {"f": b"x"})
    return Bound(tmp_path, root, home)


@pytest.fixture
def client(bound):
    return Client(bound.command, bound.root)


def wait_for(look, seconds=60):
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def told(bound):
    """What the next command says of hooks."""
    return wait_for(lambda: bound.command("stores").err + bound.command("list").err)


LIMITS = "resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CPU)[0], os.getppid()"


@pytest.fixture
def said(bound, tmp_path):
    """The file into which whoever makes a checkpoint writes (bytes of address space, seconds of processor time, its parent)."""
    found = tmp_path / "said"
    bound.begin_with("upkeep/agent_event.py", "record_event", f"import resource; open({str(found)!r}, 'w').write(repr(({LIMITS})))")
    return found


def test_what_a_child_of_a_hook_may_take(bound, client, said):
    bound.send(client.payload("UserPromptSubmit.prompt"))
    client.wait_for(1)
    assert json.loads(said.read_text().replace("(", "[").replace(")", "]"))[:2] == [6 * GIB, 1800]


def test_too_much_memory_is_refused_and_told_of(bound, client):
    bound.begin_with("upkeep/agent_event.py", "record_event", "bytearray(7 << 30)")  # of the system there would be enough: it is not touched
    bound.send(client.payload("UserPromptSubmit.prompt"))
    assert "more memory was needed" in told(bound) and client.points() == []


@pytest.mark.turns(3)
def test_too_much_time_is_refused_and_told_of(bound, client):
    bound.begin_with("upkeep/agent_event.py", "record_event", "while True: pass")
    bound.send(client.payload("UserPromptSubmit.prompt"), RLIMIT_CPU=(2, resource.RLIM_INFINITY))
    assert "processor time" in told(bound) and client.points() == []


def test_one_at_a_time_reads_what_the_project_says(bound, client, tmp_path):
    place, twice = tmp_path / "at-work", tmp_path / "twice"
    work = (
        f"import sys\n    if '--child' in sys.argv:\n        import time\n        try:\n            os.mkdir({str(place)!r})\n        except OSError:\n"
        f"            os.mkdir({str(twice)!r})\n        time.sleep(0.5)\n        os.rmdir({str(place)!r})"
    )
    bound.begin_with("settings.py", "scan_policy", work)
    for number in range(3):
        bound.send(client.payload("SessionStart.startup", session_id=f"5e55104{number}-0000-4000-8000-000000000000"))
    assert len(client.wait_for(3)) == 3
    assert not twice.exists()


def test_a_hook_whose_time_is_over_before_it_has_begun_leaves_its_event_to_a_child(bound, client):
    """Its own imports take longer than its budget: on a busy machine, or from a slow disk."""
    path = bound.package / "upkeep/agent_event.py"
    path.write_text(path.read_text().replace("import os\n", "import os, sys, time\nif '--child' not in sys.argv:\n    time.sleep(600)\n", 1))
    bound.send(client.payload("SessionStart.startup"))
    assert [point["trigger"] for point in client.wait_for(1)] == ["session_start"]
    assert bound.command("list", code=0).err == ""
