"""What a hook imports: next to nothing where there is no work, and for a save nothing that only other commands need.

Every module costs each hook of every agent from 0.1 ms (one of ours) to 14 ms (pyfastcdc).
"""

import os
import subprocess
import time

import pytest

from casrewind import launch
from support.fake_client import Client
from support.trees import plant

NEVER = {"argparse", "asyncio", "difflib", "hashlib", "http", "logging", "multiprocessing", "pathlib", "pyfastcdc", "random", "rich"}
NEVER |= {"enum", "platform", "re", "typing", "secrets", "shlex", "shutil", "socket", "subprocess", "tempfile", "threading", "tomllib", "traceback", "urllib"}
NEVER |= {"casrewind.remote", "cryptography", "obstore"}
"""Modules that no usual hook has a use for, ours or not."""
STORE = {"blake3", "lmdb", "pathspec", "zstandard", "casrewind.workspace", "casrewind.store", "casrewind.worktree", "casrewind.ops"}
"""Modules without which nothing can be saved, or even looked at."""
PATHSPEC = {"pathspec", "pathlib", "urllib", "enum", "re", "typing"}
"""What is imported before a new name is judged by rules: 13 ms that an edit of a known file does not cost."""
BUSY = 20
"""How often a hook may leave its work to a child, which it has to import more for, because the machine is so busy."""
IDLE = """
casrewind casrewind.environment casrewind.hook casrewind.hook.handler
casrewind.agents casrewind.agents.event casrewind.agents.payload casrewind.agents.client
casrewind.agents.claude casrewind.agents.transcript
casrewind.errors casrewind.fastjson casrewind._typing
"""
"""Our modules in a hook that has nothing to do: as many as it takes to know that."""


@pytest.fixture
def client(casrewind, root):
    plant(root, {"f": b"1", "d/g": b"2", ".gitignore": b"*.o\n"})
    return Client(casrewind, root)


def imported(client, payload, **variables):
    """The names of all modules that a hook imports, run as the client runs it."""
    python, *rest = launch.own_command()
    done = subprocess.run(
        [python, "-X", "importtime", *rest, "hook", "claude"], input=payload, capture_output=True, cwd="/", timeout=60,
        env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root), **variables},
    )  # fmt: skip
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 0 and done.stdout == b"" and all(line.startswith("import time:") for line in lines)
    found = {line.rpartition("|")[2].strip() for line in lines}
    assert {"os", "casrewind.hook.handler"} <= found
    return found


def test_an_event_of_no_concern_imports_what_it_takes_to_know_that(client):
    found = imported(client, client.payload("Notification.idle_prompt"))
    assert found & (NEVER | STORE) == set()
    assert {name for name in found if name.partition(".")[0] == "casrewind"} == set(IDLE.split())
    assert not os.path.lexists(client.casrewind.environment["CASREWIND_HOME"])


def test_a_tool_that_the_tier_leaves_out_does_not_come_near_the_store(client):
    found = imported(client, client.payload("PreToolUse.Write"), CASREWIND_TIER="balanced")
    assert found & (NEVER | STORE) == set()
    extra = {"casrewind.config", "casrewind.fsio", "casrewind.messages"}
    assert {name for name in found if name.partition(".")[0] == "casrewind"} == set(IDLE.split()) | extra
    assert not os.path.lexists(client.casrewind.environment["CASREWIND_HOME"])


def in_place(root, number):
    (root / "d" / "g").write_bytes(b"22%d" % number)


def by_renaming(root, number):
    (root / "d" / "g.new").write_bytes(b"22%d" % number)
    os.rename(root / "d" / "g.new", root / "d" / "g")


def with_a_new_file(root, number):
    in_place(root, number)
    (root / "d" / f"h{number}").write_bytes(b"3")


@pytest.mark.parametrize("name", ["UserPromptSubmit.prompt", "Stop.plain"])  # others have less time than a busy machine takes
@pytest.mark.parametrize("edit, dear", [(in_place, set()), (by_renaming, set()), (with_a_new_file, PATHSPEC)])
def test_a_save_imports_nothing_that_only_other_commands_need(client, name, edit, dear):
    client.casrewind("save", code=0)
    client.send(client.payload("Stop.plain"))
    for number in range(BUSY):
        before = len(client.points())
        edit(client.root, number)
        found = imported(client, client.payload(name))
        if "subprocess" not in found:
            break
        while len(client.points()) == before:
            time.sleep(0.1)
    assert {"lmdb", "casrewind.store.packs", "casrewind.ops.save"} <= found
    assert found & (NEVER | PATHSPEC) == dear
    assert any(point["agent"] == "claude" and point["changes"]["modified"] == 1 for point in client.points()[:-before])


def test_where_the_parts_lie_apart_the_usual_places_are_looked_at(casrewind, root, tmp_path):
    """The command's own script alone in a directory: what it needs is found as any program finds it."""
    plant(root, {"f": b"1"})
    python, *rest = launch.own_command()
    (tmp_path / "apart").mkdir()
    os.symlink(os.path.dirname(rest[-1]), tmp_path / "apart" / "casrewind")
    rest[-1] = str(tmp_path / "apart" / "casrewind" / "__main__.py")
    environment = {name: value for name, value in casrewind.environment.items() if not name.startswith("PYTHON")}
    done = subprocess.run([python, *rest, "-C", str(root), "save", "--json"], env=environment, capture_output=True, cwd="/", timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_variable_and_no_module_of_the_project_decides_what_is_imported(client, tmp_path):
    bad = {name: b"raise SystemExit(2)" for name in ("json.py", "lmdb.py", "casrewind.py", "sitecustomize.py", "usercustomize.py")}
    plant(client.root, bad)
    client.casrewind("save", code=0)
    python, *rest = launch.own_command()
    done = subprocess.run(
        [python, *rest, "hook", "claude"], input=client.payload("Stop.plain"), capture_output=True, cwd=client.root, timeout=60,
        env={**client.casrewind.environment, "CLAUDE_PROJECT_DIR": str(client.root), "PYTHONPATH": str(client.root), "PYTHONHOME": "/nowhere"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert client.points()[0]["trigger"] == "turn_end"
